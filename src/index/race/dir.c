/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir.c -- the directory: its cache, doubling, and switching its words to what a fate says.
 *
 * D1 The root word names the directory and its depth. It changes only by CAS from one directory to one twice as long.
 * D2 Doubling, under the lock `doubling`: freeze every word by CAS, WRITE the copy, CAS the root. So a switch of a
 *    directory word either came before the freeze and was copied, or fails and goes to the new directory.
 * D3 A directory word's depth only grows: a switch replaces whatever shallower word it finds. So when a child is split
 *    while words still name its parent (whose splitter is slow or dead), these go to the grandchildren at once, and
 *    nobody can bring back a child that was retired meanwhile.
 * D4 `version` grows after every change and before the memory of what was unlinked is retired. A client that read
 *    pool epoch e and then an unchanged version holds nothing that was retired before e. Who died in between left it as
 *    it was: a repair lets it grow (recover.c).
 */
#include "base/base.h"
#include "index/common/patience.h"
#include "index/race/race.h"

enum {
	RACE_SWITCH_ROUNDS = 64, /* of a switch: each but the last was overtaken by a doubling */
	RACE_READ_MAX = 1 << 20, /* bytes of one READ of the directory */
};

/* Notes a READ of the changing words of the head. */
static void
race_note_root(struct race *r, struct far_task *t, struct race_root_line *line)
{
	far_read(t, race_head_at(r, offsetof(struct race_head, root)), line, sizeof(*line));
}

int
race_check_root(struct race *r, struct far_task *t, uint64_t root)
{
	unsigned depth = race_dir_depth(root);

	if (depth > RACE_DEPTH_MAX || root != race_dir(depth, race_unpack(root)))
		return -FAR_ECORRUPT;
	return race_check_addr(r, t, race_unpack(root), sizeof(uint64_t) << depth);
}

/* Can this be a word of the directory at place `i`, unfrozen or not? */
static int
race_check_dir(struct race *r, struct far_task *t, uint64_t word, unsigned depth)
{
	FAR_ASSERT(depth <= RACE_DEPTH_MAX);
	if (race_dir_depth(word) > depth)
		return -FAR_ECORRUPT;
	return race_check_addr(r, t, race_unpack(word), race_subtable_len(r));
}

/* Reads a whole directory, frozen marks included. */
static int
race_read_dir(struct far_task *t, uint64_t root, uint64_t *dir)
{
	uint64_t len = sizeof(uint64_t) << race_dir_depth(root);

	FAR_ASSERT(race_dir_depth(root) <= RACE_DEPTH_MAX && !(root & RACE_DIR_FROZEN));
	for (uint64_t at = 0; at < len; at += RACE_READ_MAX)
		far_read(t, far_addr_add(race_unpack(root), at), (char *)dir + at,
			 far_min(len - at, RACE_READ_MAX));
	return far_wait(t);
}

int
race_refresh(struct race *r, struct far_task *t, bool force)
{
	struct race_root_line line;
	uint64_t n, *dir;
	int err;

	/* The version first: what changes after it shows in the next refresh (D4). */
	race_note_root(r, t, &line);
	if ((err = far_wait(t)) != 0)
		return err;
	if (!force && line.root == r->root && line.version == r->version)
		return 0;
	if ((err = race_check_root(r, t, line.root)) != 0)
		return err;
	n = (uint64_t)1 << race_dir_depth(line.root);
	dir = malloc(n * sizeof(*dir));
	if (!dir)
		return -FAR_ENOMEM;
	if ((err = race_read_dir(t, line.root, dir)) != 0)
		goto fail;
	for (uint64_t i = 0; i < n; i++) {
		dir[i] &= ~RACE_DIR_FROZEN;
		if ((err = race_check_dir(r, t, dir[i], race_dir_depth(line.root))) != 0)
			goto fail;
	}
	FAR_ASSERT(race_dir_depth(line.root) <= RACE_DEPTH_MAX);
	free(r->dir);
	r->dir = dir;
	r->depth = race_dir_depth(line.root);
	r->root = line.root;
	r->version = line.version;
	return 0;
fail:
	free(dir);
	return err;
}

int
race_index_refresh(struct far_index *ix, struct far_task *t)
{
	struct race *r = race_of(ix);

	/* The repair for which it was taken is over. */
	if (!r->census.used)
		race_census_drop(r);
	r->census.used = false;
	return race_refresh(r, t, false);
}

void
race_adopt(struct race *r, uint64_t hash, unsigned depth, struct far_addr low, struct far_addr high)
{
	uint32_t suffix = race_suffix(hash, depth);

	FAR_ASSERT(depth < RACE_DEPTH_MAX && low.raw && high.raw);
	/* A cache less deep than the children cannot name them: the caller refreshed it before. */
	if (r->depth <= depth)
		return;
	for (uint64_t i = suffix; i < (uint64_t)1 << r->depth; i += (uint64_t)1 << depth) {
		FAR_ASSERT(race_dir_depth(r->dir[i]) <= r->depth);
		/* A word that is deeper already is newer than this fate. */
		if (race_dir_depth(r->dir[i]) == depth)
			r->dir[i] = race_dir(depth + 1, i >> depth & 1 ? high : low);
	}
}

/* Doubling ------------------------------------------------------------------------------------------------ */

/* Freezes all words of the directory at `root` into `dir` (D2). */
static int
race_freeze_dir(struct race *r, struct far_task *t, uint64_t root, uint64_t *dir)
{
	struct race_freeze f = { .at = race_unpack(root),
				 .words = dir,
				 .n = (uint64_t)1 << race_dir_depth(root),
				 .mark = RACE_DIR_FROZEN };
	int err = race_read_dir(t, root, dir);

	FAR_ASSERT(!(root & RACE_DIR_FROZEN));
	for (uint64_t i = 0; far_zoo(r->zoo, ZOO_DOUBLE_UNFROZEN) && i < f.n; i++)
		dir[i] |= f.mark;
	return err || far_zoo(r->zoo, ZOO_DOUBLE_UNFROZEN) ? err : race_freeze(&f, t);
}

/* Under the lock: makes and publishes a directory twice as long as the one at `root`. */
static int
race_grow_dir(struct race *r, struct far_task *t, uint64_t root)
{
	unsigned depth = race_dir_depth(root),
		 class = pool_class_of(sizeof(uint64_t) << (depth + 1));
	uint64_t n = (uint64_t)1 << depth, old, seen, *dir = malloc(2 * n * sizeof(*dir));
	struct far_addr at;
	int err;

	FAR_ASSERT(r->doubling && depth < RACE_DEPTH_MAX);
	if (!dir)
		return -FAR_ENOMEM;
	if ((err = race_alloc(r, t, far_addr_node(r->head), POOL_INDEX, class, &at)) != 0)
		goto fail;
	if ((err = race_freeze_dir(r, t, root, dir)) != 0)
		goto undo;
	for (uint64_t i = 0; i < n; i++) {
		FAR_ASSERT(dir[i] & RACE_DIR_FROZEN); /* D2 */
		dir[i] = dir[i + n] = dir[i] & ~RACE_DIR_FROZEN;
	}
	for (uint64_t o = 0; o < 2 * n * 8; o += RACE_READ_MAX)
		far_write(t, far_addr_add(at, o), (char *)dir + o,
			  far_min(2 * n * 8 - o, RACE_READ_MAX));
	if ((err = far_wait(t)) != 0)
		goto undo;
	FAR_ASSERT(race_unpack(race_dir(depth + 1, at)).raw == at.raw);
	far_cas(t, race_head_at(r, offsetof(struct race_head, root)), root, race_dir(depth + 1, at),
		&old);
	far_faa(t, race_head_at(r, offsetof(struct race_head, version)), 1, &seen);
	if ((err = far_wait(t)) != 0)
		goto fail; /* Outcome unknown: the new directory is nobody's to free. */
	/* We hold the lock: nobody else changed it, so it is damaged. Which directory counts now nobody knows. */
	if (old != root) {
		err = -FAR_ECORRUPT;
		goto fail;
	}
	pool_retire(r->pt, POOL_INDEX, pool_class_of(n * sizeof(*dir)), race_unpack(root));
	free(dir);
	return 0;
undo:
	pool_unalloc(r->pt, POOL_INDEX, class, at);
fail:
	free(dir);
	return err;
}

/* On the way to the doubling lock. */
struct race_locker {
	unsigned depth;             /* the directory is to be deeper */
	uint64_t holder;            /* whom to take it from: 0, or a session that is gone */
	struct race_root_line line; /* as READ after the CAS of the lock */
	struct patience patience;
};

/* One try. RACE_DONE: the lock is ours. RACE_NEEDLESS: the directory is deep enough. RACE_AGAIN. */
static int
race_lock_try(struct race *r, struct far_task *t, struct race_locker *l)
{
	uint64_t expect = l->holder, me = pool_serial(r->pool), old;
	int err;

	FAR_ASSERT(r->doubling && me && expect != me);
	far_cas(t, race_head_at(r, offsetof(struct race_head, doubling)), expect, me, &old);
	race_note_root(r, t, &l->line);
	if ((err = far_wait(t)) != 0)
		return err;
	/* No other fiber of ours is here, and with a lock left behind our session would have ended (R8): one that names
	 * us is damage. */
	if (old == me && (err = pool_gone(r->pool, t, me)) != 0)
		return err;
	if (old == expect && expect)
		race_took(r, expect);
	if (old == expect || old == me)
		return RACE_DONE;
	if ((err = race_check_root(r, t, l->line.root)) != 0)
		return err;
	if (race_dir_depth(l->line.root) > l->depth)
		return RACE_NEEDLESS;
	l->holder = 0;
	patience_meet(&l->patience, old);
	/* Somebody doubles. Is it alive? A lease is not a fence: only FENCE lets us take its lock. */
	if (old && patience_is_long(&l->patience) &&
	    (far_zoo(r->zoo, ZOO_DOUBLE_IMPATIENT) || (err = pool_gone(r->pool, t, old)) == 1))
		l->holder = old;
	return err < 0 ? err : RACE_AGAIN;
}

/* Takes the lock, or sees that there is no need to. -FAR_ETIMEOUT: a live client has held it for a few leases. */
static int
race_lock(struct race *r, struct far_task *t, struct race_locker *l)
{
	int err;

	while ((err = race_lock_try(r, t, l)) == RACE_AGAIN) {
		if (!l->holder && (err = patience_wait(&l->patience, t)) != 0)
			return err;
	}
	return err;
}

/* One fiber of this client at a time: the others find that it was done, without a verb. */
static int
race_double_alone(struct race *r, struct far_task *t, struct race_locker *l)
{
	struct far_addr lock = race_head_at(r, offsetof(struct race_head, doubling));
	uint64_t old;
	int err = race_lock(r, t, l), unlock;

	FAR_ASSERT(err != RACE_AGAIN);
	if (err != RACE_DONE)
		return err;
	if ((err = race_check_root(r, t, l->line.root)) == 0 &&
	    race_dir_depth(l->line.root) <= l->depth)
		err = race_grow_dir(r, t, l->line.root);
	far_forget(t);
	far_cas(t, lock, pool_serial(r->pool), 0, &old);
	if ((unlock = far_wait(t)) != 0)
		pool_give_up(r->pool, unlock); /* R8 */
	return err ? err : unlock;
}

int
race_double(struct race *r, struct far_task *t, unsigned depth)
{
	struct race_locker l = { .depth = depth };
	int err;

	FAR_ASSERT(pool_is_inside(t));
	if (depth >= RACE_DEPTH_MAX)
		return -FAR_EFULL;
	patience_start(&l.patience, pool_lease(r->pool));
	while (r->doubling) {
		if ((err = patience_wait(&l.patience, t)) != 0)
			return err;
		if (r->depth > depth)
			return 0;
	}
	r->doubling = true;
	err = race_double_alone(r, t, &l);
	r->doubling = false;
	return err < 0 ? err : race_refresh(r, t, false);
}

/* Switching ----------------------------------------------------------------------------------------------- */

/* The words of a directory that are to name the children: [first, first + n steps). `seen` holds what each was when
 * last seen; deeper than the parent = done. */
struct race_switch_batch {
	uint64_t first, n;
	uint64_t seen[RACE_BATCH];
};

/* Is this word still to be switched? */
static bool
race_switch_todo(const struct race_children *c, uint64_t word)
{
	return race_dir_depth(word) <= c->depth;
}

/* CASes the words of `b` that are still to be switched and not frozen, once; returns whether all are done, or an
 * error. *frozen is set when one must be done in the next directory. */
static int
race_switch_once(struct far_task *t, uint64_t root, const struct race_children *c,
		 struct race_switch_batch *b, bool *frozen)
{
	uint64_t old[RACE_BATCH];
	int err, done = 1;

	FAR_ASSERT(b->n && b->n <= RACE_BATCH);
	FAR_ASSERT((b->first + ((b->n - 1) << c->depth)) >> race_dir_depth(root) == 0);
	for (uint64_t k = 0; k < b->n; k++) {
		uint64_t i = b->first + (k << c->depth);
		struct far_addr child = i >> c->depth & 1 ? c->high : c->low;

		if (!race_switch_todo(c, b->seen[k]) || (b->seen[k] & RACE_DIR_FROZEN))
			continue;
		FAR_ASSERT(race_dir_depth(b->seen[k]) < c->depth + 1); /* D3 */
		FAR_ASSERT(race_suffix(i, c->depth) == c->suffix);
		far_cas(t, far_addr_add(race_unpack(root), i * 8), b->seen[k],
			race_dir(c->depth + 1, child), &old[k]);
	}
	if ((err = far_wait(t)) != 0)
		return err;
	for (uint64_t k = 0; k < b->n; k++) {
		if (!race_switch_todo(c, b->seen[k]))
			continue;
		if (!(b->seen[k] & RACE_DIR_FROZEN))
			b->seen[k] = old[k] == b->seen[k] ? race_dir(c->depth + 1, c->low) : old[k];
		if (!race_switch_todo(c, b->seen[k]))
			continue;
		/* Known by now, also when only the lost CAS told: its copy is to be switched. */
		if (b->seen[k] & RACE_DIR_FROZEN)
			*frozen = true;
		else
			done = 0;
	}
	return done;
}

/* Switches all words of the directory at `root` that name the parent or an ancestor of it. */
static int
race_switch_dir(struct far_task *t, uint64_t root, const struct race_children *c, bool *frozen)
{
	uint64_t step = (uint64_t)1 << c->depth, end = (uint64_t)1 << race_dir_depth(root);
	struct race_switch_batch b;
	int done;

	FAR_ASSERT(c->depth < RACE_DEPTH_MAX && c->suffix < step);
	for (b.first = c->suffix; b.first < end; b.first += b.n << c->depth) {
		b.n = far_min(RACE_BATCH, (end - b.first + step - 1) >> c->depth);
		for (uint64_t k = 0; k < b.n; k++)
			b.seen[k] = race_dir(c->depth, c->parent);
		/* Each lost CAS found a deeper word, or a frozen one, or the next of a few ancestors. */
		for (int round = 0; round <= RACE_DEPTH_MAX + 1; round++) {
			if ((done = race_switch_once(t, root, c, &b, frozen)) != 0)
				break;
		}
		if (done <= 0)
			return done ? done : -FAR_ECORRUPT;
	}
	return 0;
}

int
race_switch(struct race *r, struct far_task *t, const struct race_children *c)
{
	int err;

	FAR_ASSERT(pool_is_inside(t) && c->low.raw && c->high.raw);
	for (int round = 0; round < RACE_SWITCH_ROUNDS; round++) {
		uint64_t root = r->root;
		bool frozen = false;

		if ((err = race_switch_dir(t, root, c, &frozen)) != 0)
			return err;
		/* The words of this directory are switched. If it was still the root afterwards, or is being copied
		 * only now, nobody copies the old ones (D2); otherwise do the same with the new directory. */
		if (frozen)
			err = race_double(r, t, race_dir_depth(root));
		else
			err = race_refresh(r, t, false);
		if (err)
			return err;
		if (!frozen && r->root == root)
			return 0;
	}
	return -FAR_ECONTENDED;
}
