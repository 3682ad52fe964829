/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/fabric_tcp.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/shm_node.h"

enum { TCP_REGION = 8 << 20, TCP_FREE = 4 << 20 };

struct tcp_world {
	unsigned n;
	struct shm_child nodes[FAR_NODES_MAX];
};

static uint64_t tcp_world_weakness; /* of the nodes to come */

static void
tcp_world_close(void *world)
{
	struct tcp_world *w = world;

	for (unsigned i = 0; i < w->n; i++)
		shm_node_stop(&w->nodes[i]);
	free(w);
}

static void *
tcp_world_open(unsigned nodes)
{
	struct tcp_world *w = calloc(1, sizeof(*w));
	struct shm_why why;

	if (!w)
		abort();
	for (; w->n < nodes; w->n++) {
		uint64_t weakness = tcp_world_weakness ? tcp_world_weakness + w->n : 0;

		if (shm_node_spawn_tcp(TCP_REGION, weakness, &w->nodes[w->n], &why) == 0)
			continue;
		printf("# %s\n", why.text);
		tcp_world_close(w);
		return NULL;
	}
	return w;
}

static int
tcp_world_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	struct tcp_world *w = world;
	char uri[FAR_NODES_MAX * SHM_URI_MAX] = "";

	/* "tcp://HOST:PORT,HOST:PORT": the scheme stands once. */
	for (unsigned i = 0; i < w->n; i++) {
		strcat(uri, i == 0 ? "" : ",");
		strcat(uri, i == 0 ? w->nodes[i].tcp_uri : w->nodes[i].tcp_uri + strlen("tcp://"));
	}
	return far_fabric_open(uri, l, opts, out);
}

static void
tcp_world_kill(void *world, unsigned node)
{
	struct tcp_world *w = world;

	kill(w->nodes[node].pid, SIGKILL);
}

struct conform_backend
conform_tcp(uint64_t weakness)
{
	struct conform_backend b = {
		.open = tcp_world_open,
		.close = tcp_world_close,
		.connect = tcp_world_connect,
		.kill = tcp_world_kill,
		.threads = true,
		.rounds = 400,
		.free_off = TCP_FREE,
	};

	tcp_world_weakness = weakness;
	return b;
}
