/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/fabric_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "fabric/shm_node.h"

enum { PROCESS_REGION = 8 << 20, PROCESS_FREE = 4 << 20 };

struct process_world {
	unsigned n;
	struct shm_child nodes[FAR_NODES_MAX];
};

/* Of the nodes to come. */
static bool process_tcp;
static uint64_t process_weakness;

static int
process_spawn(unsigned index, struct shm_child *out, struct shm_why *why)
{
	uint64_t weakness = process_weakness ? process_weakness + index : 0;

	return process_tcp ? shm_node_spawn_tcp(PROCESS_REGION, weakness, out, why)
			   : shm_node_spawn(PROCESS_REGION, out, why);
}

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
		if (process_spawn(w->n, &w->nodes[w->n], &why) == 0)
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
	char uri[FAR_NODES_MAX * SHM_URI_MAX] = "";

	for (unsigned i = 0; i < w->n; i++)
		shm_uri_add(uri, sizeof(uri), process_tcp ? w->nodes[i].tcp_uri : w->nodes[i].uri);
	return far_fabric_open(uri, l, opts, out);
}

static void
process_kill(void *world, unsigned node)
{
	struct process_world *w = world;

	kill(w->nodes[node].pid, SIGKILL);
}

static struct conform_backend
process_backend(bool tcp, uint64_t weakness, unsigned rounds)
{
	process_tcp = tcp;
	process_weakness = weakness;
	return (struct conform_backend){
		.open = process_open,
		.close = process_close,
		.connect = process_connect,
		.kill = process_kill,
		.threads = true,
		.rounds = rounds,
		.free_off = PROCESS_FREE,
	};
}

struct conform_backend
conform_shm(void)
{
	return process_backend(false, 0, 4000);
}

struct conform_backend
conform_tcp(uint64_t weakness)
{
	return process_backend(true, weakness, 400);
}
