/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator under the suite of all backends; plain memory, the freedom of G3 used, steps in bursts or not. */
#include <stdlib.h>
#include <string.h>

#include "conform/fabric_conform.h"
#include "fabric/sim.h"

static void *
sim_world_open(unsigned nodes)
{
	struct far_sim_opts o = { .seed = nodes, .nodes_n = nodes, .region_len = CONFORM_MEMORY, .raw = true };
	struct far_sim *s;

	if (far_sim_open(&o, &s) != 0)
		abort();
	far_sim_set_policy(s, &(struct far_sim_policy){ .keep = nodes % 2 ? 0 : 3, .weak = true });
	return s;
}

static void
sim_world_close(void *world)
{
	far_sim_close(world);
}

static int
sim_world_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	return far_sim_connect(world, l, opts, out);
}

static struct far_clock
sim_world_clock(void *world)
{
	return far_sim_clock(world);
}

static void
sim_world_kill(void *world, unsigned node)
{
	far_sim_node_down(world, node);
}

int
main(int argc, char **argv)
{
	struct conform_backend b = {
		.open = sim_world_open,
		.close = sim_world_close,
		.connect = sim_world_connect,
		.clock = sim_world_clock,
		.kill = sim_world_kill,
		.faults = 0,
		.rounds = 300,
	};

	return fabric_conform(&b, argc, argv);
}
