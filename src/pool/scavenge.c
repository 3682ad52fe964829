/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scavenge.c -- chunks of clients that died.
 *
 * Which blocks of its chunks were free, in limbo, or allocated but not yet linked, a client knew alone. So a dead
 * client's chunks are dirty orphans: whoever adopts one asks the index of its table which blocks are in use.
 *
 * V1 The owner was fenced before the chunk became an orphan (M4): nothing that it had in mind can be linked any more.
 * V2 recover() of the design finishes or undoes what the dead left half-done, so that every block that is going to be
 *    linked by somebody else on their behalf is linked.
 * V3 Every session announces an epoch later than one READ after V2: frees that live clients had queued before are bits
 *    now (frees.c, F1).
 * V4 Every block whose bit is clear is looked up. One that is not reachable, U, stays so, since a block gets linked by
 *    its owner only. But U may have been unlinked by a live client that is about to tell us by setting the bit.
 * V5 So every session announces an epoch later than one READ after the lookups. What is in U and still has a clear bit
 *    then is free, and past grace. The others are harvested like any bit.
 *
 * V6 No block of the chunk is handed out before that is done, not even one whose bit was harvested: between the
 *    allocation and its link it would look like one in U.
 *
 * Only the adopter does this, in small portions, in the maintenance fiber, which goes on beating meanwhile. If it
 * stops half-way, the chunk is a dirty orphan again. What a dead client had unlinked in others' chunks and not told,
 * at most the queue of one epoch, is found when these chunks are looked through: as dirty orphans, or by
 * pool_table_adopt_orphans(), which trusts no bitmap.
 */
#include <string.h>

#include "pool/client.h"

enum {
	SCAVENGE_BATCH = 64,  /* blocks looked up in one chain */
	SCAVENGE_ROUND = 512, /* the same in one round */
};

struct pool_scavenge {
	struct pool_chunk *chunk;
	enum { SCAVENGE_RECOVER, SCAVENGE_TOLD, SCAVENGE_PROBE, SCAVENGE_GRACE } stage;
	uint64_t stamp;        /* TOLD, GRACE: every session must announce a later epoch */
	uint32_t cursor;       /* PROBE: the next block */
	struct pool_scavenge *next;
	uint64_t lost[];       /* U, a bit per block */
};

int
pool_scavenge_begin(struct pool *p, struct pool_chunk *c)
{
	uint32_t words = pool_bitmap_words(c->blocks_n);
	struct pool_scavenge *s = calloc(1, sizeof(*s) + words * sizeof(s->lost[0]));

	/* Without memory its blocks count as in use as long as this session lasts. */
	if (!s)
		return -FAR_ENOMEM;
	FAR_ASSERT(!c->scavenge && !c->listed && !c->free_n);
	s->chunk = c;
	s->next = p->scavenges;
	p->scavenges = s;
	c->scavenge = s;
	c->heap->arena->recover = true;
	return 0;
}

void
pool_scavenge_end(struct pool *p, struct pool_chunk *c)
{
	struct pool_scavenge **at = &p->scavenges;

	FAR_ASSERT(c->scavenge && c->scavenge->chunk == c);
	while (*at != c->scavenge)
		at = &(*at)->next;
	*at = c->scavenge->next;
	free(c->scavenge);
	c->scavenge = NULL;
}

/* An epoch that the pool has not passed: it moves from E to E + 1 only after we announced E. */
static uint64_t
scavenge_stamp(const struct pool *p)
{
	FAR_ASSERT(p->announced <= p->epoch);
	return p->announced + 1;
}

/* A design's recover(), in a fiber of its own. */
struct scavenge_recovery {
	struct pool_table *pt;
	struct far_task *waiter;
	bool done;
	int err;
};

static void
scavenge_recovery_fiber(struct far_task *t, void *arg)
{
	struct scavenge_recovery *r = arg;
	struct pool *p = r->pt->pool;
	int left;

	/* Whoever closes the index waits for pool.tick, which the waiter holds. */
	FAR_ASSERT(p->tick.held && r->pt->ops && r->pt->index);
	far_account(t, &p->background);
	if ((r->err = pool_enter(p, t)) == 0) {
		r->err = r->pt->ops->recover(r->pt->index, t);
		left = pool_leave(p, t);
		r->err = left ? left : r->err;
	}
	r->done = true;
	far_unpark(r->waiter);
}

/* Beats when it is time to: the work at hand may take longer than a lease. Yields. */
static void
scavenge_beat(struct pool *p, struct far_task *t)
{
	if (!p->err && far_now(t) - p->beat_ns >= p->tick_ns)
		(void)pool_beat(p, t, p->announced);
}

/* recover() looks at every subtable, and may wait for the lease of yet another dead client. */
static int
scavenge_call_recover(struct pool *p, struct far_task *t, struct pool_table *pt)
{
	struct scavenge_recovery r = { .pt = pt, .waiter = t };
	int err = far_loop_spawn(far_task_loop(t), p->fabric, scavenge_recovery_fiber, &r,
				 FAR_TASK_DAEMON);

	while (!err && !r.done) {
		far_park_until(t, far_now(t) + p->tick_ns);
		scavenge_beat(p, t);
	}
	return err ? err : r.err;
}

/* V2 for every table that needs it. */
static int
scavenge_recover(struct pool *p, struct far_task *t, struct pool_table *pt)
{
	struct pool_arena *a = pt->arena;
	int err;

	if (!a || !a->recover || pt->gone || !pt->ops || !pt->index)
		return 0;
	/* Chunks that are adopted from here on need another recover(): theirs may be another dead client. */
	for (struct pool_scavenge *s = p->scavenges; s; s = s->next) {
		if (s->chunk->heap->arena == a && s->stage == SCAVENGE_RECOVER)
			s->stage = SCAVENGE_TOLD;
	}
	a->recover = false;
	FAR_ASSERT(p->tick.held && !pool_is_inside(t));
	err = pt->ops->recover && !far_zoo(p->zoo, ZOO_SCAVENGE_UNRECOVERED)
		      ? scavenge_call_recover(p, t, pt)
		      : 0;
	if (p->err)
		return p->err;
	for (struct pool_scavenge *s = p->scavenges; s; s = s->next) {
		if (s->chunk->heap->arena != a || s->stage != SCAVENGE_TOLD || s->stamp)
			continue;
		s->stage = err ? SCAVENGE_RECOVER : SCAVENGE_TOLD;
		s->stamp = err ? 0 : scavenge_stamp(p);
	}
	a->recover |= err != 0;
	return err;
}

/* Notes READs of the first words of blocks that may be in use; returns how many, and which. */
static uint32_t
scavenge_note(struct far_task *t, struct pool_scavenge *s, struct far_index_part *parts,
	      uint32_t *idx)
{
	struct pool_chunk *c = s->chunk;
	uint32_t n = 0;

	for (; s->cursor < c->blocks_n && n < SCAVENGE_BATCH; s->cursor++) {
		uint32_t i = s->cursor;

		if (pool_chunk_is_idle(c, i))
			continue;
		idx[n] = i;
		parts[n].addr = pool_chunk_block(c, i);
		far_read(t, parts[n].addr, &parts[n].hash, sizeof(parts[n].hash));
		n++;
	}
	return n;
}

/* V4 for the next blocks of one chunk. */
static int
scavenge_probe(struct pool *p, struct far_task *t, struct pool_scavenge *s)
{
	struct pool_table *pt = s->chunk->heap->arena->table;
	struct far_index_part parts[SCAVENGE_BATCH];
	uint32_t idx[SCAVENGE_BATCH], n, start = s->cursor;
	int err;

	FAR_ASSERT(s->stage == SCAVENGE_PROBE && !pool_is_inside(t));
	n = scavenge_note(t, s, parts, idx);
	if ((err = far_wait(t)) != 0 || (err = pool_enter(p, t)) != 0) {
		s->cursor = start;
		return err;
	}
	/* We hold the lock of rounds: the table stays attached meanwhile. */
	if (!pt->gone && pt->ops)
		pt->ops->reach(pt->index, t, parts, n, s->chunk->heap->kind == POOL_INDEX);
	else
		n = 0;
	for (uint32_t i = 0; i < n; i++) {
		/* What cannot be decided counts as in use. */
		if (parts[i].reached == 0)
			s->lost[idx[i] / 64] |= (uint64_t)1 << idx[i] % 64;
	}
	return pool_leave(p, t);
}

/* V5. */
static int
scavenge_finish(struct pool *p, struct far_task *t, struct pool_scavenge *s)
{
	struct pool_chunk *c = s->chunk;
	struct control_request req = { .code = CONTROL_SCAVENGED, .off = c->off };
	struct control_reply reply;
	int err;

	FAR_ASSERT(s->stage == SCAVENGE_GRACE && s->cursor == c->blocks_n);
	FAR_ASSERT(s->stamp < pool_floor(p));
	/* Another fiber may have READ the bits too early for us: in the next round. */
	if (c->harvesting)
		return 0;
	err = pool_harvest(p, t, c);
	/* Told before its blocks are used, so that nobody takes a chunk of ours for a dirty one without need; the
	 * other way round would be safe, too. */
	if (err || (err = pool_call(p, t, c->heap->node, &req, &reply)) != 0)
		return err;
	for (uint32_t w = 0; w < pool_bitmap_words(c->blocks_n); w++) {
		for (uint64_t left = s->lost[w] & ~c->words[w].idle; left; left &= left - 1)
			pool_chunk_unalloc(p, c, w * 64 + (uint32_t)__builtin_ctzll(left));
	}
	/* V6 */
	FAR_ASSERT(!c->listed);
	pool_scavenge_end(p, c);
	pool_chunk_offer(c);
	return 0;
}

/* Goes on with one chunk; returns how many blocks were looked up, or -FAR_E. */
static int
scavenge_step(struct pool *p, struct far_task *t, struct pool_scavenge *s)
{
	struct pool_table *pt = s->chunk->heap->arena->table;
	uint32_t before = s->cursor;
	int err = 0;

	if (pt->gone || !pt->ops || !pt->index || !pt->ops->reach)
		return 0;
	/* V2 comes before V3: a chunk that waits for grace has its stamp. */
	FAR_ASSERT(s->stamp || s->stage == SCAVENGE_RECOVER);
	FAR_ASSERT(s->chunk->scavenge == s && s->cursor <= s->chunk->blocks_n);
	if (s->stage == SCAVENGE_TOLD && s->stamp < pool_floor(p)) {
		s->stage = SCAVENGE_PROBE;
		err = pool_harvest(p, t, s->chunk);
	}
	if (s->stage == SCAVENGE_PROBE && !err) {
		err = scavenge_probe(p, t, s);
		if (!err && s->cursor == s->chunk->blocks_n) {
			s->stage = SCAVENGE_GRACE;
			s->stamp = scavenge_stamp(p);
		}
	} else if (s->stage == SCAVENGE_GRACE &&
		   (s->stamp < pool_floor(p) || far_zoo(p->zoo, ZOO_SCAVENGE_NO_GRACE))) {
		return scavenge_finish(p, t, s);
	}
	return err ? err : (int)(s->cursor - before);
}

unsigned
pool_scavenges_of(const struct pool_table *pt, uint64_t *done)
{
	unsigned n = 0;

	for (struct pool_scavenge *s = pt->pool->scavenges; s; s = s->next)
		n += s->chunk->heap->arena == pt->arena;
	*done = pt->pool->scavenged;
	return n;
}

int
pool_scavenge_some(struct pool *p, struct far_task *t)
{
	struct pool_scavenge *s, *next;
	int budget = SCAVENGE_ROUND;

	/* One fiber does this. Meanwhile others may only begin: nothing else changes a stage or the list. */
	FAR_ASSERT(p->tick.held && !pool_is_inside(t));
	for (struct pool_table *pt = p->tables; pt && p->scavenges; pt = pt->next) {
		/* A design that cannot recover now (a node is gone) is asked again in the next round. */
		if (scavenge_recover(p, t, pt) != 0 && p->err)
			return p->err;
	}
	for (s = p->scavenges; s && budget > 0; s = next) {
		struct pool_chunk *c = s->chunk;
		int n;

		/* The step may end s; while it yields, others may begin new ones, at the head. */
		c->pins++;
		do {
			scavenge_beat(p, t);
			n = scavenge_step(p, t, s);
			budget -= n > 0 ? n : 0;
			p->scavenged += n > 0 || !c->scavenge;
		} while (n > 0 && budget > 0 && c->scavenge && s->stage == SCAVENGE_PROBE);
		c->pins--;
		next = c->scavenge ? s->next : p->scavenges;
		if (n < 0 && p->err)
			return p->err;
	}
	return 0;
}
