/* SPDX-License-Identifier: Apache-2.0 */
/* The suite against real memory nodes: processes of their own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform/fabric_conform.h"
#include "fabric/shm_node.h"

enum { PROCESS_REGION = 8 << 20, PROCESS_FREE = 4 << 20 };

struct process_world {
	unsigned n;
	struct shm_child nodes[FAR_NODES_MAX];
};

static void
process_close(void *world)
{
	struct process_world *w = world;

	for (unsigned i = 0; i < w->n; i++)
		shm_node_stop(&w->nodes[i]);
	free(w);
}

static void *
process_open(unsigned nodes)
{
	struct process_world *w = calloc(1, sizeof(*w));
	struct shm_why why;

	if (!w)
		abort();
	for (; w->n < nodes; w->n++) {
		if (shm_node_spawn(PROCESS_REGION, &w->nodes[w->n], &why) == 0)
			continue;
		printf("# %s\n", why.text);
		process_close(w);
		return NULL;
	}
	return w;
}

static int
process_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	struct process_world *w = world;
	char uri[FAR_NODES_MAX * sizeof(w->nodes[0].uri)] = "";

	/* "shm:PATH,PATH": the scheme stands once. */
	for (unsigned i = 0; i < w->n; i++) {
		strcat(uri, i == 0 ? "" : ",");
		strcat(uri, i == 0 ? w->nodes[i].uri : w->nodes[i].uri + strlen("shm:"));
	}
	return far_fabric_open(uri, l, opts, out);
}

static void
process_kill(void *world, unsigned node)
{
	struct process_world *w = world;

	kill(w->nodes[node].pid, SIGKILL);
}

int
main(int argc, char **argv)
{
	static const struct conform_backend b = {
		.open = process_open,
		.close = process_close,
		.connect = process_connect,
		.kill = process_kill,
		.threads = true,
		.rounds = 4000,
		.free_off = PROCESS_FREE,
	};

	return fabric_conform(&b, argc, argv);
}
