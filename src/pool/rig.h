/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h -- for tests of the pool: a world of nodes in virtual time with several clients on one loop. */
#ifndef FAR_POOL_RIG_H
#define FAR_POOL_RIG_H

#include "fabric/sim_rig.h"
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

	memset(r, 0, sizeof(*r));
	r->opts = (struct pool_opts){ .lease_ns = 200000000, .tick_ns = 10000000 };
	sim_rig_open(&o, &r->sim, &r->loop);
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
		if (!r->pool[i])
			continue;
		pool_abandon(r->pool[i]);
		/* Its daemon may wait for a chain, which takes more steps than a turn has. */
		far_sim_kill(r->fabric[i]);
	}
	far_loop_turn(r->loop);
	sim_rig_close(r->sim, r->loop, r->fabric, RIG_CLIENTS);
}

/* What most tests do ---------------------------------------------------------------------------------------- */

static struct pool_table *tables[RIG_CLIENTS];

static inline void
rig_make_table(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr head;

	rig_join(r, t, client);
	REQUIRE(r->pool[client]);
	REQUIRE(pool_table_new(r->pool[client], t, "devices", "none", &tables[client]) == 0);
	REQUIRE(pool_alloc(tables[client], t, 0, POOL_INDEX, 3, &head) == 0);
	CHECK_EQ(pool_table_commit(tables[client], t, head), 0);
}

static inline void
rig_open_table(struct rig *r, struct far_task *t, unsigned client)
{
	rig_join(r, t, client);
	REQUIRE(r->pool[client]);
	REQUIRE(pool_table_open(r->pool[client], t, "devices", &tables[client]) == 0);
}

static inline void
rig_close_table(struct rig *r, struct far_task *t, unsigned client)
{
	CHECK_EQ(pool_table_close(tables[client], t), 0);
	tables[client] = NULL;
	rig_leave(r, t, client);
}

static inline void
rig_check_nodes(struct rig *r, unsigned nodes)
{
	for (unsigned i = 0; i < nodes; i++)
		CHECK_EQ(far_sim_node_check(r->sim, i), 0);
}

static inline uint64_t
rig_used_bytes(struct pool_table *pt, struct far_task *t)
{
	struct pool_usage u;

	REQUIRE(pool_table_usage(pt, t, &u) == 0);
	return u.granted[0] - u.free[0] - u.header[0];
}

static inline void
rig_retire(struct pool_table *pt, struct far_task *t, unsigned class, struct far_addr addr)
{
	REQUIRE(pool_enter(pt->pool, t) == 0);
	pool_retire(pt, POOL_BLOCKS, class, addr);
	CHECK_EQ(pool_leave(pt->pool, t), 0);
}

static inline int
rig_alloc_one(struct pool_table *pt, struct far_task *t, unsigned class, struct far_addr *out)
{
	struct pool_relief relief = { 0 };
	int err;

	do {
		REQUIRE(pool_enter(pt->pool, t) == 0);
		err = pool_alloc(pt, t, 0, POOL_BLOCKS, class, out);
		CHECK_EQ(pool_leave(pt->pool, t), 0);
	} while (err == -FAR_ENOMEM && pool_relieve(pt, t, &relief) == 0);
	return err;
}

static inline int
rig_alloc_on(struct pool_table *pt, struct far_task *t, unsigned node, unsigned class, struct far_addr *out)
{
	int err;

	REQUIRE(pool_enter(pt->pool, t) == 0);
	err = pool_alloc(pt, t, node, POOL_BLOCKS, class, out);
	CHECK_EQ(pool_leave(pt->pool, t), 0);
	return err;
}

#endif
