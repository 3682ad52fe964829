/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator's performance mode under the suite of all backends. */
#include <stdlib.h>

#include "conform/fabric_conform.h"
#include "fabric/nic_card.h"
#include "fabric/sim.h"

/* With caches, which the suite is to run into. */
static const struct nic_profile nic_card = {
	NIC_CARD,
	.wake = 300000,
	.doorbell = 100000,
	.call = 1000000,
	.pages = 16,
	.page_len = 1 << 16,
	.page_miss = 600000,
	.page_overlap = 4,
	.reads_max = 4,
	.credits = FAR_CREDITS,
	.threads = 96,
};

static void *
nic_world_open(unsigned nodes)
{
	struct far_sim_opts o = { .seed = nodes, .nodes_n = nodes, .region_len = CONFORM_MEMORY, .raw = true };
	struct far_sim_timing t = { .profile = &nic_card };
	struct far_sim *s;

	if (far_sim_open(&o, &s) != 0 || far_sim_time(s, &t) != 0)
		abort();
	return s;
}

static void
nic_world_close(void *world)
{
	far_sim_close(world);
}

static int
nic_world_connect(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out)
{
	return far_sim_connect(world, l, opts, out);
}

static struct far_clock
nic_world_clock(void *world)
{
	return far_sim_clock(world);
}

static void
nic_world_kill(void *world, unsigned node)
{
	far_sim_node_down(world, node);
}

int
main(int argc, char **argv)
{
	struct conform_backend b = {
		.open = nic_world_open,
		.close = nic_world_close,
		.connect = nic_world_connect,
		.clock = nic_world_clock,
		.kill = nic_world_kill,
		.faults = 0,
		.rounds = 300,
	};

	return fabric_conform(&b, argc, argv);
}
