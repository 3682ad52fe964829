/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- for tests of the pool: a world of nodes in virtual time with several clients on one loop. */
#ifndef FAR_POOL_RIG_H
#define FAR_POOL_RIG_H

#include <fabric/sim.h>

#include "pool/client.h"
#include "test.h"

enum { RIG_CLIENTS = 6 };

struct rig {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric[RIG_CLIENTS];
	struct pool *pool[RIG_CLIENTS];
	struct pool_opts opts;
};

static inline void
rig_open(struct rig *r, unsigned nodes, uint64_t region_len, uint64_t seed)
{
	struct far_sim_opts o = { .seed = seed, .nodes_n = nodes, .region_len = region_len };
	struct far_loop_opts l = { .seed = seed };

	memset(r, 0, sizeof(*r));
	r->opts = (struct pool_opts){ .lease_ns = 200000000, .tick_ns = 10000000 };
	REQUIRE(far_sim_open(&o, &r->sim) == 0);
	l.clock = far_sim_clock(r->sim);
	REQUIRE(far_loop_open(&l, &r->loop) == 0);
}

struct rig_call {
	struct rig *rig;
	void (*fn)(struct rig *r, struct far_task *t, unsigned client);
	unsigned client;
};

static inline void
rig_fiber(struct far_task *t, void *arg)
{
	struct rig_call *c = arg;

	c->fn(c->rig, t, c->client);
}

/* Runs fn as a fiber of `client`; daemons of all clients run along. */
static inline void
rig_run(struct rig *r, unsigned client, void (*fn)(struct rig *r, struct far_task *t, unsigned client))
{
	struct rig_call c = { r, fn, client };

	if (!r->fabric[client])
		REQUIRE(far_sim_connect(r->sim, r->loop, NULL, &r->fabric[client]) == 0);
	REQUIRE(far_loop_spawn(r->loop, r->fabric[client], rig_fiber, &c, 0) == 0);
	far_loop_run(r->loop);
}

static inline void
rig_join(struct rig *r, struct far_task *t, unsigned client)
{
	CHECK_EQ(pool_open(t, &r->opts, &r->pool[client]), 0);
}

static inline void
rig_leave(struct rig *r, struct far_task *t, unsigned client)
{
	CHECK_EQ(pool_close(r->pool[client], t), 0);
	r->pool[client] = NULL;
}

/* Ends everything; what is still open was killed, or is dropped as if it had been. */
static inline void
rig_close(struct rig *r)
{
	for (unsigned i = 0; i < RIG_CLIENTS; i++) {
		if (r->pool[i])
			pool_abandon(r->pool[i]);
	}
	far_loop_turn(r->loop);
	for (unsigned i = 0; i < RIG_CLIENTS; i++)
		far_fabric_close(r->fabric[i]);
	far_loop_close(r->loop);
	far_sim_close(r->sim);
}

#endif
