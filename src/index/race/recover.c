/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c -- what is left of dead clients: finishing their splits, and telling which memory a table still uses.
 *
 * The pool calls race_reach() for the blocks of a fenced client's chunks, after race_recover(). Nothing new can come
 * to point to them meanwhile, for only their owner could publish them. So which index parts are in use is found out
 * once for all of them: the census.
 */
#include "base/base.h"
#include "index/race/race.h"

/* The subtable that directory word `i` names: a split that a dead client left behind is finished or done over. A live
 * client's is its own business. RACE_AGAIN: it names other subtables now, which were not looked at. */
static int
race_recover_word(struct race *r, struct far_task *t, uint64_t i, uint64_t word)
{
	struct race_view v = { .hash = i,
			       .subtable = race_unpack(word),
			       .depth = race_dir_depth(word) };
	uint64_t fate;
	int err;

	FAR_ASSERT(v.subtable.raw && v.depth <= r->depth);
	far_read(t, v.subtable, &fate, sizeof(fate));
	if ((err = far_wait(t)) != 0)
		return err;
	switch (RACE_FATE_KIND(fate)) {
	case RACE_FATE_NONE:
		return 0;
	case RACE_FATE_CLAIMED:
		err = race_check_claimer(r, t, &v, fate);
		return err == RACE_BEATEN ? 0 : err;
	default:
		err = race_finish(r, t, &v);
		return err ? err : RACE_AGAIN;
	}
}

/* Looks at every subtable that the directory names, once. RACE_AGAIN: some have been replaced. */
static int
race_recover_words(struct race *r, struct far_task *t)
{
	uint64_t n = (uint64_t)1 << r->depth, *dir = malloc(n * sizeof(*dir));
	int err = 0, again = RACE_DONE;

	FAR_ASSERT(r->depth <= RACE_DEPTH_MAX);
	if (!dir)
		return -FAR_ENOMEM;
	memcpy(dir, r->dir, n * sizeof(*dir));
	for (uint64_t i = 0; i < n && err >= 0; i++) {
		uint32_t first = race_suffix(i, race_dir_depth(dir[i]));

		if (first == i || dir[first] != dir[i])
			err = race_recover_word(r, t, i, dir[i]);
		if (err == RACE_AGAIN)
			again = err;
	}
	free(dir);
	return err < 0 ? err : again;
}

/* A doubling lock of a dead client is given up, or its doubling done. */
static int
race_recover_lock(struct race *r, struct far_task *t)
{
	struct race_root_line line;
	int err;

	FAR_ASSERT(pool_is_inside(t));
	far_read(t, race_head_at(r, offsetof(struct race_head, root)), &line, sizeof(line));
	if ((err = far_wait(t)) != 0)
		return err;
	if (!line.doubling || line.doubling == pool_serial(r->pool))
		return 0;
	if ((err = race_check_root(r, t, line.root)) != 0)
		return err;
	err = pool_gone(r->pool, t, line.doubling);
	/* Its words may be frozen: doubling to the next depth thaws them, by copying. */
	return err == 1 ? race_double(r, t, race_dir_depth(line.root)) : err;
}

int
race_recover(struct far_index *ix, struct far_task *t)
{
	struct race *r = race_of(ix);
	int err = race_recover_lock(r, t), again = RACE_AGAIN;

	FAR_ASSERT(pool_is_inside(t));
	/* Another client has died since the last one was taken. */
	race_census_drop(r);
	/* Of a subtable whose split was decided and not finished, the directory names no child; but a child may have
	 * been split by another client, which died in the same way. Each look finishes at least one generation. */
	for (int look = 0; again == RACE_AGAIN && !err; look++) {
		if (look > RACE_DEPTH_MAX)
			return -FAR_ECORRUPT;
		if ((err = race_refresh(r, t, true)) == 0)
			again = race_recover_words(r, t);
	}
	return err ? err : again;
}

static int
race_by_word(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void
race_census_drop(struct race *r)
{
	free(r->census.parts);
	r->census = (struct race_census){ .n = 0 };
}

/*
 * Takes the census, unless there is one. It is younger than the last recover(), so it names every part that was linked
 * on a dead client's behalf; what live ones unlinked since counts as in use, and is told by its bit.
 */
static int
race_census_take(struct race *r, struct far_task *t)
{
	uint64_t n = 0, *parts, old;
	int err;

	r->census.used = true;
	if (r->census.parts)
		return 0;
	if ((err = race_refresh(r, t, true)) != 0)
		return err;
	parts = malloc((((size_t)1 << r->depth) + 2) * sizeof(*parts));
	if (!parts)
		return -FAR_ENOMEM;
	/* From memory, not from fates: nobody has touched the cache since. */
	parts[n++] = r->head.raw;
	parts[n++] = race_unpack(r->root).raw;
	for (uint64_t i = 0; i < (uint64_t)1 << r->depth; i++)
		parts[n++] = race_unpack(r->dir[i]).raw;
	/* Whoever switched the last word that named another part may have died before the version grew. It grows now,
	 * so that all read the directory anew before they announce the epoch for which the pool waits until it frees
	 * what is not named here (D4). */
	far_faa(t, race_head_at(r, offsetof(struct race_head, version)), 1, &old);
	if ((err = far_wait(t)) != 0) {
		free(parts);
		return err;
	}
	FAR_ASSERT(n <= ((uint64_t)1 << RACE_DEPTH_MAX) + 2);
	qsort(parts, n, sizeof(*parts), race_by_word);
	FAR_ASSERT(!r->census.parts);
	r->census.parts = parts;
	r->census.n = n;
	return 0;
}

/* Index memory: the head, the directory, or a subtable that the directory names. */
static int
race_reach_index(struct race *r, struct far_task *t, struct far_addr addr)
{
	int err = race_census_take(r, t);

	if (err)
		return err;
	FAR_ASSERT(r->census.parts && r->census.n >= 3);
	return bsearch(&addr.raw, r->census.parts, r->census.n, sizeof(addr.raw), race_by_word) !=
	       NULL;
}

/* A dead client's tentative slot still points to its block: remove it, it will never be finished. */
static int
race_reach_tentative(struct far_task *t, const struct race_match *m)
{
	uint64_t old;
	int err;

	/* A frozen slot never changes again (R3), and a tentative one that was frozen is nowhere copied to. */
	FAR_ASSERT(m->word & RACE_TENTATIVE);
	if (m->word & RACE_FROZEN)
		return 0;
	far_cas(t, m->addr, m->word, 0, &old);
	if ((err = far_wait(t)) != 0)
		return err;
	/* Somebody was quicker: it counts as in use as long as the slot names it in whatever state. */
	return old != m->word && (old & RACE_ADDR_MASK) == (m->word & RACE_ADDR_MASK);
}

/* Looks up where blocks of `hash` are named, and no undecided split hides it. */
static int
race_reach_look(struct race *r, struct far_task *t, uint64_t hash, struct race_view *v)
{
	struct backoff b = { 0 };
	uint64_t fate;
	int err;

	for (;;) {
		if ((err = race_lookup(r, t, hash, v)) != 0 || !race_view_frozen(v))
			return err;
		far_read(t, v->subtable, &fate, sizeof(fate));
		if ((err = far_wait(t)) != 0 || RACE_FATE_KIND(fate) < RACE_FATE_DECIDED)
			return err;
		if ((err = race_follow(r, t, v)) != 0 || (err = backoff_wait(t, &b)) != 0)
			return err;
	}
}

/* Is the block at `addr` named in what was found for its hash? */
static int
race_reach_block(struct far_task *t, const struct race_matches *m, struct far_addr addr)
{
	for (unsigned i = 0; i < m->n; i++) {
		if ((m->at[i].word & RACE_ADDR_MASK) != race_pack(addr))
			continue;
		if (!(m->at[i].word & RACE_TENTATIVE))
			return 1;
		return race_reach_tentative(t, &m->at[i]);
	}
	return 0;
}

void
race_reach(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n,
	   bool index)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct race *r = race_of(ix);
	struct race_matches m;
	struct race_view v;
	int err = 0;

	FAR_ASSERT(pool_is_inside(t));
	for (unsigned i = 0; i < n; i++) {
		struct far_index_part *part = &parts[i];

		if (index) {
			part->reached = race_reach_index(r, t, part->addr);
			continue;
		}
		/* One look is good for a row of one hash: who links a block is dead, and who unlinks one tells. */
		if (i == 0 || part->hash != parts[i - 1].hash) {
			if ((err = race_reach_look(r, t, part->hash, &v)) == 0)
				race_view_match(&v, true, &m);
			far_scratch_reset(t, mark);
		}
		part->reached = err ? err : race_reach_block(t, &m, part->addr);
	}
}
