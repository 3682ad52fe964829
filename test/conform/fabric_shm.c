/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/fabric_shm.h"

#include <stdlib.h>

#include "fabric/shm.h"

struct shm_world {
	unsigned n;
	struct shm_memory nodes[FAR_NODES_MAX];
};

static void *
shm_world_open(unsigned nodes)
{
	struct shm_world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->n = nodes;
	for (unsigned i = 0; i < nodes; i++) {
		w->nodes[i].base = calloc(1, CONFORM_MEMORY);
		w->nodes[i].len = CONFORM_MEMORY;
		if (!w->nodes[i].base)
			abort();
	}
	return w;
}

static void
shm_world_close(void *world)
{
	struct shm_world *w = world;

	for (unsigned i = 0; i < w->n; i++)
		free(w->nodes[i].base);
	free(w);
}

static int
shm_world_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	struct shm_world *w = world;

	return shm_connect_memory(w->nodes, w->n, l, opts, out);
}

struct conform_backend
conform_shm(void)
{
	struct conform_backend b = {
		.open = shm_world_open,
		.close = shm_world_close,
		.connect = shm_world_connect,
		.threads = true,
		.rounds = 20000,
	};

	return b;
}
