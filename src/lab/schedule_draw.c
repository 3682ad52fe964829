/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_draw.c -- what a seed draws.
 *
 * Every seed leaves most things out, and does the rest more than an even mix would: few keys, tables that are nearly
 * full, one kind of trouble, one way to interleave. Runs are kept short: what a mistake needs to show are few clients
 * and operations, and the right order.
 */
#include <string.h>

#include "base/base.h"
#include "base/rand.h"
#include "fabric/sim.h"
#include "lab/schedule_config.h"
#include "pool/pool.h"

enum {
	DRAW_LEASE_MIN = 500000, /* ns */
	DRAW_PLAY_NS = 300000,   /* most runs are over by then */
	DRAW_PARK_NS = 5000000,
};

static uint64_t
schedule_between(struct far_rng *r, uint64_t low, uint64_t high)
{
	return low + far_rng_below(r, high - low + 1);
}

static bool
schedule_one_in(struct far_rng *r, unsigned n)
{
	return far_rng_below(r, n) == 0;
}

/* The measured kind: always the same shape. */
static void
schedule_draw_plain(struct far_rng *r, struct schedule_config *c)
{
	static const unsigned keep[] = { 0, 3, 6 };

	c->plain = 1;
	c->nodes = c->fibers = 1;
	c->clients = 4;
	c->fill = 8;
	c->value_min = 8;
	c->value_max = 16;
	c->keys = schedule_between(r, 1, 4);
	c->present = far_rng_below(r, UINT64_C(1) << c->keys);
	for (unsigned i = 0; i < c->clients; i++)
		c->ops[i] = 6;
	c->keep = keep[far_rng_below(r, 3)];
	c->weak = schedule_one_in(r, 2);
}

static void
schedule_draw_times(struct far_rng *r, struct schedule_config *c, unsigned flags)
{
	static const uint64_t paces[] = { 0, 0, 2000, 50000 };

	c->pace_ns = paces[far_rng_below(r, FAR_LEN(paces))];
	if (!(flags & SCHEDULE_TICKS) || schedule_one_in(r, 2))
		return;
	/* Never shorter than a round of maintenance of all clients takes; where chains starve, even a live client may
	 * miss such a lease. More rounds in a lease only take longer to play. */
	c->lease_ns = DRAW_LEASE_MIN << far_rng_below(r, 3);
	c->tick_ns = c->lease_ns / schedule_between(r, 6, 12);
	if (schedule_one_in(r, 2))
		c->pace_ns = c->tick_ns;
}

/* The steps: one way to interleave per run. */
static void
schedule_draw_steps(struct far_rng *r, struct schedule_config *c, unsigned flags)
{
	static const unsigned keep[] = { 0, 3, 6 };
	uint64_t way = far_rng_below(r, 4);

	if (way < 3) {
		c->keep = keep[way];
	} else {
		c->changes = schedule_between(r, 1, 4);
		c->change_steps = (uint64_t)100 << far_rng_below(r, 5);
	}
	c->weak = schedule_one_in(r, 2);
	c->line = !schedule_one_in(r, 3);
	c->gap = schedule_one_in(r, 3);
	c->relaxed = flags & SCHEDULE_RELAXED && schedule_one_in(r, 2);
	if (schedule_one_in(r, 6)) {
		c->late = schedule_between(r, 1, 8);
		c->late_ns = (uint64_t)1000 << far_rng_below(r, 7);
	}
}

/* Of few lengths: each size class of each client is a chunk, and what a dead one leaves is looked through. */
static void
schedule_draw_values(struct far_rng *r, struct schedule_config *c)
{
	static const unsigned min[] = { 8, 8, 8, 40, 180, 640 };
	static const unsigned max[] = { 16, 16, 100, 50, 220, 700 };
	uint64_t i = far_rng_below(r, FAR_LEN(min));

	c->value_min = min[i];
	c->value_max = max[i];
}

static void
schedule_draw_shape(struct far_rng *r, struct schedule_config *c, unsigned flags)
{
	static const unsigned fills[] = { 0, 14, 16, 17, 18, 18, 19, 20, 21, 36 };

	c->nodes = flags & SCHEDULE_APART && schedule_one_in(r, 3) ? 2 : 1;
	c->apart = c->nodes == 2 && !schedule_one_in(r, 3);
	c->clients = schedule_between(r, 3, 6);
	c->keys = schedule_between(r, 1, SCHEDULE_KEYS);
	c->fresh = schedule_one_in(r, 2) ? far_rng_below(r, SCHEDULE_FRESH + 1) : 0;
	c->fill = fills[far_rng_below(r, FAR_LEN(fills))];
	c->fibers = schedule_one_in(r, 3) ? SCHEDULE_FIBERS : 1;
	for (unsigned i = 0; i < c->clients; i++)
		c->ops[i] = schedule_between(r, 2, c->clients > 4 ? 5 : 7);
	schedule_draw_values(r, c);
	c->hash = schedule_one_in(r, 2) ? SCHEDULE_HASH_OWN : far_rng_below(r, SCHEDULE_HASHES);
	c->no_backoff = schedule_one_in(r, 4);
	c->present = far_rng_below(r, UINT64_C(1) << c->keys);
	c->audit = flags & SCHEDULE_AUDIT ? 1 : 0;
}

/* A random subset stops one by one and goes on in another order. */
static void
schedule_draw_swizzle(struct far_rng *r, struct schedule_config *c, uint64_t lease_ns)
{
	for (unsigned i = 0; i < c->clients; i++) {
		if (schedule_one_in(r, 2))
			continue;
		c->freeze_at[i] = far_rng_below(r, DRAW_PLAY_NS);
		c->freeze_ns[i] = schedule_between(r, 1, 3 * lease_ns / 2);
	}
}

static void
schedule_draw_crash(struct far_rng *r, struct schedule_config *c)
{
	uint64_t lease_ns = c->lease_ns ? c->lease_ns : POOL_LEASE_NS, kind = far_rng_below(r, 12);

	c->victim = 1 + far_rng_below(r, c->clients);
	c->fuse = schedule_between(r, 1, schedule_one_in(r, 2) ? 60 : 300);
	if (kind < 6) {
		c->fate = FAR_SIM_KILL;
		/* What it had in flight may land before it is fenced, or would have after. */
		c->fate_ns = kind < 3 ? 0 : schedule_between(r, 1, 2 * lease_ns);
	} else if (kind < 10) {
		/* Within the lease, past it, or far past it. */
		c->fate = FAR_SIM_PAUSE;
		c->fate_ns = lease_ns / 4 * schedule_between(r, 2, 8);
	} else if (kind < 11) {
		c->fate = FAR_SIM_PARK;
		c->fate_ns = schedule_between(r, 1, far_min(2 * lease_ns, DRAW_PARK_NS));
	} else {
		c->victim = c->fuse = 0;
		schedule_draw_swizzle(r, c, lease_ns);
	}
}

/* Takes back that a client dies or stands still. */
static void
schedule_draw_nobody(struct schedule_config *c)
{
	c->victim = c->fate = c->fuse = c->fate_ns = 0;
	memset(c->freeze_at, 0, sizeof(c->freeze_at));
	memset(c->freeze_ns, 0, sizeof(c->freeze_ns));
}

static void
schedule_draw_fault(struct far_rng *r, struct schedule_config *c)
{
	static const enum far_sim_return returns[] = { FAR_SIM_KEPT, FAR_SIM_KEPT, FAR_SIM_EMPTY,
						       FAR_SIM_NEVER };
	uint64_t lease_ns = c->lease_ns ? c->lease_ns : POOL_LEASE_NS, kind = far_rng_below(r, 8);

	if (kind < 4) {
		c->breaker = 1 + far_rng_below(r, c->clients);
		c->break_fuse = schedule_between(r, 1, schedule_one_in(r, 2) ? 60 : 300);
		c->break_ns = schedule_one_in(r, 4) ? 0 : schedule_between(r, 1, 2 * lease_ns);
		/* One fuse per client. */
		if (c->breaker == c->victim)
			schedule_draw_nobody(c);
	} else if (kind < 7) {
		c->outage = 1 + far_rng_below(r, c->nodes);
		c->outage_at = far_rng_below(r, DRAW_PLAY_NS / 2);
		c->outage_ns = schedule_one_in(r, 4) ? 2 * lease_ns : DRAW_PLAY_NS / 4;
		c->outage_ns = schedule_between(r, 1, c->outage_ns);
		c->outage_how = returns[far_rng_below(r, FAR_LEN(returns))];
	} else {
		c->refuse = schedule_between(r, 1, 8);
		c->refuse_all = schedule_one_in(r, 3);
		/* Who is refused waits for two leases, in a hurry: short ones, and nobody stands still. */
		if (c->refuse_all) {
			schedule_draw_nobody(c);
			c->lease_ns = DRAW_LEASE_MIN;
			c->tick_ns = DRAW_LEASE_MIN / 8;
		}
	}
}

void
schedule_config_draw(struct schedule_config *c, uint64_t seed, unsigned flags)
{
	struct far_rng r;

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	far_rng_seed(&r, seed);
	if (flags & SCHEDULE_PLAIN) {
		schedule_draw_plain(&r, c);
		return;
	}
	schedule_draw_shape(&r, c, flags);
	schedule_draw_times(&r, c, flags);
	schedule_draw_steps(&r, c, flags);
	if (flags & SCHEDULE_CRASH && !schedule_one_in(&r, 3))
		schedule_draw_crash(&r, c);
	if (flags & SCHEDULE_FAULTS && schedule_one_in(&r, 4))
		schedule_draw_fault(&r, c);
	c->comebacks = schedule_one_in(&r, 3) ? 0 : 1;
	c->scans = schedule_one_in(&r, 4) ? schedule_between(&r, 3, 8) : 0;
	/* Where a connection breaks or a client dies. */
	c->repeat = schedule_one_in(&r, 2) ? schedule_between(&r, 1, 2) : 0;
	/* Takes time, changes nothing, and what it looks for does not hide in rare interleavings. */
	c->met = schedule_one_in(&r, 8);
}
