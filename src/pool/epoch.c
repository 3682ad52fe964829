/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoch.c -- when memory may be used again.
 *
 * One-sided readers leave no trace, so whoever frees a block cannot know who still looks at it. Instead, time is cut
 * into epochs: the home node holds the pool's epoch E, each session announces the epoch it has arrived in, and E
 * moves to E + 1 by CAS when all sessions announced E.
 *
 * E1 A session announces e only after it READ an epoch >= e, and after all its operations that began before that READ
 *    have ended, and after its designs dropped cached words that were no longer in memory at some time after that
 *    READ, and after all operations that may have used such words have ended.
 * E2 A block is stamped with an epoch that was READ after its unlink was known. It is handed out again when every
 *    session, ours included, has announced a later epoch than the stamp.
 * E3 Hence M1. Let block b be unlinked at time u and stamped s; the epoch is s or less at u. A session announced
 *    e > s: it READ e at a time when the epoch had moved past s, so after u. All its operations that might have met b
 *    before u have ended, and by E1 no cached word leads later ones to b.
 * E4 A session that is not in the session lines READ after u began after u and announces before its first operation:
 *    it cannot have met b either. A session that was fenced cannot reach the nodes any more.
 *
 * E1 costs two drains. An operation counts in the era in which it began. The first drain (start a new era, wait until
 * the operations of the old one have ended) leaves nobody who READ something before e was READ and could still put
 * it into a cache after refresh() looked. The second one leaves nobody who used a cached word before refresh()
 * dropped it. At most two eras have operations in them, since a new one starts only when the last but one is empty,
 * so two counters do, by parity.
 *
 * A long operation holds up the announcement, thus the epoch and all reuse, but not the lease: the draining fiber goes
 * on beating with the old epoch.
 *
 * Blocks wait in limbo, a ring in the order of their unlinking. A round notes where the ring ended when it started,
 * READs the epoch, and stamps everything up to there (E2): retiring a block is one store and no round trip.
 */
#include <string.h>

#include "fiber/task.h"
#include "pool/client.h"

enum { EPOCH_OTHERS_HURRY = 20 }; /* rounds per tick while another client is short of memory */

/* Operations ------------------------------------------------------------------------------------------------ */

/* The task's word: operations that nest : 63 | parity of the era of the outermost : 1. */
int
pool_enter(struct pool *p, struct far_task *t)
{
	uint64_t *word = &t->word;
	int err = pool_state(p);

	if (err)
		return err;
	FAR_ASSERT(*word != 1);
	if (*word == 0) {
		p->inside[p->era & 1]++;
		*word = p->era & 1;
	}
	*word += 2;
	return 0;
}

int
pool_leave(struct pool *p, struct far_task *t)
{
	uint64_t *word = &t->word;
	int err = pool_state(p);

	FAR_ASSERT(*word >= 2);
	*word -= 2;
	FAR_ASSERT(p->inside[*word & 1] > 0);
	if (*word < 2) {
		if (--p->inside[*word] == 0 && p->drainer)
			far_unpark(p->drainer);
		*word = 0;
	}
	return err;
}

bool
pool_is_inside(const struct far_task *t)
{
	return t->word != 0;
}

/* Starts a new era and waits until every operation that began earlier has ended. Yields. */
static int
pool_drain(struct pool *p, struct far_task *t)
{
	unsigned old = p->era & 1;
	int err = 0;

	/* One drains at a time, under pool.tick; from inside an operation it would wait for itself. */
	FAR_ASSERT(!p->drainer && p->tick.held && !pool_is_inside(t));
	if (far_zoo(p->zoo, ZOO_NO_DRAIN))
		return 0;
	/* A drain that an error ended may have left operations in the older era, too. */
	if (p->inside[!old] == 0)
		p->era++;
	p->drainer = t;
	while (!err && (p->inside[old] || p->inside[!(p->era & 1)])) {
		far_park_until(t, far_now(t) + p->tick_ns);
		if (p->err)
			err = p->err;
		else if (far_now(t) - p->beat_ns >= p->tick_ns)
			err = pool_beat(p, t, p->announced);
	}
	p->drainer = NULL;
	FAR_ASSERT(err || !p->inside[old]);
	return err;
}

/* Limbo ----------------------------------------------------------------------------------------------------- */

int
pool_limbo_push(struct pool *p, struct far_addr addr)
{
	struct pool_limbo *l = &p->limbo;

	FAR_ASSERT(addr.raw && l->head <= l->stamped && l->stamped <= l->tail);
	if (!l->ring || l->tail - l->head > l->mask) {
		uint64_t len = l->ring ? 2 * (l->mask + 1) : 64;
		uint64_t *ring = malloc(len * sizeof(*ring));

		if (!ring)
			return -FAR_ENOMEM;
		for (uint64_t i = l->head; i != l->tail; i++)
			ring[i & (len - 1)] = l->ring[i & l->mask];
		free(l->ring);
		l->ring = ring;
		l->mask = len - 1;
	}
	l->ring[l->tail++ & l->mask] = addr.raw;
	FAR_ASSERT(l->tail - l->head <= l->mask + 1);
	return 0;
}

void
pool_limbo_withdraw(struct pool *p, const struct pool_arena *arena)
{
	struct pool_limbo *l = &p->limbo;

	for (uint64_t i = l->head; i != l->tail; i++) {
		struct far_addr addr = { l->ring[i & l->mask] };
		struct pool_chunk *c = addr.raw ? pool_chunk_at(p, addr) : NULL;

		if (c && c->heap->arena == arena) {
			FAR_ASSERT(c->heap->limbo_n > 0);
			l->ring[i & l->mask] = 0;
			c->heap->limbo_n--;
		}
	}
}

/* Stamps all entries below `end`, which were pushed before `epoch` was READ (E2). */
static void
pool_limbo_stamp(struct pool_limbo *l, uint64_t end, uint64_t epoch)
{
	FAR_ASSERT(end >= l->stamped && end <= l->tail);
	if (end == l->stamped)
		return;
	/* E2: the epoch only grows, and so do the stamps. */
	FAR_ASSERT(!l->marks_n || l->marks[l->marks_n - 1].stamp <= epoch);
	/* With too many marks the youngest takes the entries over: a later stamp than needed is safe. */
	if (l->marks_n < POOL_MARKS)
		l->marks_n++;
	l->marks[l->marks_n - 1].end = end;
	l->marks[l->marks_n - 1].stamp = epoch;
	l->stamped = end;
}

/* Hands out what is past grace. */
static void
pool_limbo_mature(struct pool *p)
{
	struct pool_limbo *l = &p->limbo;
	uint64_t floor = pool_floor(p) + far_zoo(p->zoo, ZOO_GRACE_SHORT);

	while (l->marks_n && l->marks[0].stamp < floor) {
		FAR_ASSERT(l->head <= l->marks[0].end && l->marks[0].end <= l->stamped);
		for (; l->head != l->marks[0].end; l->head++) {
			struct far_addr addr = { l->ring[l->head & l->mask] };
			struct pool_chunk *c = addr.raw ? pool_chunk_at(p, addr) : NULL;
			int64_t i;

			if (!c)
				continue;
			i = pool_chunk_index(c, far_addr_off(addr));
			FAR_ASSERT(i >= 0 && c->heap->limbo_n > 0);
			c->heap->limbo_n--;
			pool_chunk_free(p, c, (uint32_t)i);
		}
		memmove(&l->marks[0], &l->marks[1], --l->marks_n * sizeof(l->marks[0]));
	}
}

/* Rounds ---------------------------------------------------------------------------------------------------- */

/*
 * Moves the epoch when all sessions have arrived in it, and then looks whether the open tables are still there. The
 * READs of the roots follow the CAS in the chain (G3), or the chain in which the epoch was READ: by the time this
 * session announces an epoch, it has noticed every table that was dropped in an earlier one. Yields.
 */
static int
pool_advance(struct pool *p, struct far_task *t)
{
	uint64_t epoch = p->epoch, old = epoch;
	bool all = p->announced == epoch && p->others >= epoch;
	int err;

	FAR_ASSERT(p->announced <= epoch);
	FAR_ASSERT(p->tick.held && !pool_is_inside(t));
	if (all)
		far_cas(t, pool_home(offsetof(struct pool_super, epoch)), epoch, epoch + 1, &old);
	pool_roots_note(p, t);
	if ((err = far_wait(t)) != 0)
		return pool_note_error(p, err);
	if (old < epoch || old > POOL_EPOCH_MAX)
		return -FAR_ECORRUPT;
	pool_roots_mark(p);
	/* Whoever lost the CAS knows that somebody else moved the epoch to at least that. */
	if (all)
		p->epoch = old == epoch ? epoch + 1 : far_max(p->epoch, old);
	return 0;
}

static int
pool_refresh(struct pool *p, struct far_task *t)
{
	FAR_ASSERT(p->tick.held);
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		int err;

		if (pt->gone || !pt->ops || !pt->ops->refresh || !pt->index)
			continue;
		err = pt->ops->refresh(pt->index, t);
		/* A table that cannot be read any more must not hold up the pool: nobody uses its caches again. */
		if (err == -FAR_ECORRUPT || err == -FAR_ENOENT)
			pt->gone = err;
		else if (err)
			return err;
	}
	return 0;
}

/* Announces p->epoch as E1 says. Yields. */
static int
pool_announce(struct pool *p, struct far_task *t)
{
	uint64_t epoch = p->epoch;
	int err;

	FAR_ASSERT(epoch > p->announced);
	/* 1. Nobody is left who READ something before the epoch was READ. */
	if ((err = pool_drain(p, t)) != 0)
		return err;
	/* 2. Tables that were found dropped: everyone inside has seen that by now. */
	pool_tables_discard(p);
	/* 3. Cached words that are not in memory any more go. */
	if (!far_zoo(p->zoo, ZOO_NO_REFRESH) && (err = pool_refresh(p, t)) != 0)
		return err;
	/* 4. Nobody is left who used such a word. */
	if ((err = pool_drain(p, t)) != 0)
		return err;
	/* 5. What these operations unlinked in others' chunks is told before (scavenge.c relies on it). */
	if ((err = pool_foreign_flush(p, t)) != 0)
		return err;
	FAR_ASSERT(epoch == p->epoch);
	return pool_beat(p, t, epoch);
}

/* Work that is not urgent, in portions. Yields. */
static int
pool_housekeep(struct pool *p, struct far_task *t)
{
	int err;

	FAR_ASSERT(p->tick.held && p->announced <= p->epoch);
	if ((err = pool_harvest_some(p, t)) != 0 ||
	    (err = pool_release_free(p, t, p->hurry_others)) != 0 ||
	    (err = pool_scavenge_some(p, t)) != 0)
		return err;
	return pool_drops_finish(p, t);
}

static int
pool_round(struct pool *p, struct far_task *t)
{
	uint64_t end = p->limbo.tail;
	struct pool_view view;
	int err;

	FAR_ASSERT(p->tick.held && !p->err && !p->drainer);
	/* 1. Where are we, and where is everyone? */
	if ((err = pool_read_view(p, t, &view)) != 0)
		return err;
	p->epoch = view.epoch;
	p->others = view.others;
	p->hurry_others = view.hurry;
	pool_limbo_stamp(&p->limbo, end, view.epoch);
	/* 2. Sessions whose lease ran out. A node that cannot be reached now must not end our own lease. */
	(void)pool_fence_silent(p, t);
	if (p->err || pool_look_at_nodes(p, t) != 0)
		return p->err;
	/* 3. Everyone here? On to the next epoch. */
	if ((err = pool_advance(p, t)) != 0)
		return err;
	/* 4. Go there, or just show that we live. */
	err = p->epoch > p->announced ? pool_announce(p, t) : pool_beat(p, t, p->announced);
	if (err)
		return err;
	pool_limbo_mature(p);
	p->hurry = false;
	p->ticks++;
	return pool_housekeep(p, t);
}

int
pool_tick(struct pool *p, struct far_task *t)
{
	struct far_count *before;
	int err;

	FAR_ASSERT(!pool_is_inside(t));
	before = far_account(t, &p->background);
	pool_lock(&p->tick, t);
	if ((err = pool_state(p)) == 0)
		err = pool_round(p, t);
	/* Without its home node a session can neither beat nor learn that it was fenced. */
	if (err == -FAR_ENODE && pool_home_is_gone(p, t))
		p->err = err;
	pool_unlock(&p->tick);
	far_account(t, before);
	return err;
}

void
pool_hurry(struct pool *p)
{
	if (p->hurry)
		return;
	p->hurry = true;
	if (p->daemon)
		far_unpark(p->daemon);
}

static uint64_t
pool_interval(const struct pool *p)
{
	FAR_ASSERT(p->hurry_ns && p->hurry_ns <= p->tick_ns);
	/* A session that is over has nothing to hurry for. */
	if (p->err)
		return p->tick_ns;
	if (p->hurry)
		return p->hurry_ns;
	return p->hurry_others ? p->tick_ns / EPOCH_OTHERS_HURRY + 1 : p->tick_ns;
}

void
pool_daemon(struct far_task *t, void *arg)
{
	struct pool *p = arg;
	uint64_t last = far_now(t);

	FAR_ASSERT(p->daemon_alive && !p->daemon);
	p->daemon = t;
	far_account(t, &p->background);
	while (!p->closing && !p->abandoned) {
		if (far_now(t) < last + pool_interval(p)) {
			far_park_until(t, last + pool_interval(p));
		} else {
			last = far_now(t);
			pool_tick(p, t);
			continue;
		}
		if (!p->closing && !p->err && p->foreign_n >= POOL_FOREIGN_FLUSH) {
			pool_lock(&p->tick, t);
			pool_foreign_flush(p, t);
			pool_unlock(&p->tick);
		}
	}
	far_account(t, NULL);
	p->daemon = NULL;
	p->daemon_alive = false;
	if (p->abandoned)
		pool_free(p);
	else if (p->closer)
		far_unpark(p->closer);
}
