/* SPDX-License-Identifier: Apache-2.0 */
/* sim_rig.h -- for tests: a simulated world and the loop that its clients share. */
#ifndef FAR_FABRIC_SIM_RIG_H
#define FAR_FABRIC_SIM_RIG_H

#include "fabric/sim.h"
#include "test.h"

static inline void
sim_rig_open(const struct far_sim_opts *o, struct far_sim **sim, struct far_loop **loop)
{
	struct far_loop_opts l = { .seed = o->seed };

	REQUIRE(far_sim_open(o, sim) == 0);
	l.clock = far_sim_clock(*sim);
	REQUIRE(far_loop_open(&l, loop) == 0);
}

static inline void
sim_rig_close(struct far_sim *sim, struct far_loop *loop, struct far_fabric *const clients[], unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		far_fabric_close(clients[i]);
	far_loop_close(loop);
	far_sim_close(sim);
}

struct rig; /* a test's own */

/* What a fiber of sim_rig_run() gets. */
struct sim_client {
	struct rig *rig;
	unsigned id;
};

enum { SIM_RIG_CLIENTS = 8 };

/* Runs fn as a fiber of each of the first `n` clients. */
static inline void
sim_rig_run(struct rig *r, struct far_loop *loop, struct far_fabric *const clients[], unsigned n,
	    void (*fn)(struct far_task *t, void *arg))
{
	struct sim_client c[SIM_RIG_CLIENTS];

	REQUIRE(n <= SIM_RIG_CLIENTS);
	for (unsigned i = 0; i < n; i++) {
		c[i] = (struct sim_client){ r, i };
		REQUIRE(far_loop_spawn(loop, clients[i], fn, &c[i], 0) == 0);
	}
	far_loop_run(loop);
}

#endif
