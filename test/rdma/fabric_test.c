/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite over verbs. FABRIC_OPTIONS: what follows the address of each node; FABRIC_FAULTS: the fraction
 * of chains that the fault hook lets fail. */
#include <stdlib.h>

#include "conform/fabric_conform.h"
#include "rdma/nodes.h"

static void
verbs_world_close(void *world)
{
	nodes_stop(world);
	free(world);
}

static void *
verbs_world_open(unsigned nodes)
{
	struct nodes *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	while (w->n < nodes) {
		if (nodes_start(w, NODES_REGION, FABRIC_OPTIONS))
			continue;
		verbs_world_close(w);
		return NULL;
	}
	return w;
}

static int
verbs_world_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	char uri[NODES_MAX * SHM_URI_MAX];

	nodes_uri(world, uri, sizeof(uri));
	return far_fabric_open(uri, l, opts, out);
}

static void
verbs_world_kill(void *world, unsigned node)
{
	nodes_kill(world, node, SIGKILL);
}

int
main(int argc, char **argv)
{
	static const struct conform_backend b = {
		.open = verbs_world_open,
		.close = verbs_world_close,
		.connect = verbs_world_connect,
		.kill = verbs_world_kill,
		.threads = FABRIC_FAULTS == 0,
		.faults = FABRIC_FAULTS,
		.rounds = FABRIC_ROUNDS,
		.free_off = NODES_FREE,
	};

	return fabric_conform(&b, argc, argv);
}
