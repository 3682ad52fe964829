/* SPDX-License-Identifier: Apache-2.0 */
/*
 * put.c -- insert, update, upsert, delete and move (paper, section 4.2, with R2 in place of its duplicate rule).
 *
 *	insert  WRITE block + READ pairs | CAS empty -> tentative + READ pairs | CAS tentative -> live
 *	update  WRITE block + READ pairs | READ blocks | CAS old -> new
 *	delete  READ pairs | READ blocks | CAS old -> empty
 *	move    READ pairs | READ blocks | WRITE copy | CAS old -> copy
 */
#include "base/base.h"
#include "index/race/race.h"

/* A write on its way: the new block, not yet published. */
struct race_write {
	struct race *r;
	struct far_bytes key;
	uint64_t hash;
	enum far_put_mode mode;
	uint64_t expect;     /* version that the key must have, 0 = any */
	uint64_t version;    /* of the new block */
	struct block *image; /* local copy */
	uint64_t image_len;  /* whole words */
	unsigned class;
	struct far_addr block; /* raw 0: none yet */
	unsigned home;         /* node of the slots for which it was allocated */
	bool written;          /* its WRITE was waited for */
	bool exposed;          /* it was in a slot once: others may be reading it */
	struct backoff backoff;
	unsigned looks;
	struct race_view view;
	struct race_matches matches; /* of the view */
};

static uint64_t
race_write_slot(const struct race_write *w)
{
	uint64_t word = race_slot(w->view.fp, w->class, w->block);

	FAR_ASSERT(w->block.raw && race_unpack(word).raw == w->block.raw);
	FAR_ASSERT(race_slot_class(word) == w->class);
	return word;
}

/* What an insert puts into its slot first (R2). */
static uint64_t
race_write_tentative(const struct race_write *w)
{
	bool live = far_zoo(w->r->zoo, ZOO_INSERT_LIVE_AT_ONCE);

	return race_write_slot(w) | (live ? 0 : RACE_TENTATIVE);
}

static void
race_write_start(struct race_write *w, struct race *r, struct far_bytes key, uint64_t expect)
{
	FAR_ASSERT(key.len && key.len <= FAR_KEY_MAX);
	/* Not the view and its matches, which are long and filled before they are looked at. */
	memset(w, 0, offsetof(struct race_write, view));
	w->r = r;
	w->key = key;
	w->hash = race_hash(r, key);
	w->expect = expect;
	w->backoff.off = r->no_backoff;
}

/* Gives the block back: at once when nobody else can have met it. */
static void
race_write_drop(struct race_write *w)
{
	if (!w->block.raw)
		return;
	FAR_ASSERT(w->class < POOL_CLASSES);
	if (w->exposed)
		pool_retire(w->r->pt, POOL_BLOCKS, w->class, w->block);
	else
		pool_unalloc(w->r->pt, POOL_BLOCKS, w->class, w->block);
	w->block.raw = 0;
}

static int
race_write_init(struct race_write *w, struct far_task *t, struct far_bytes value)
{
	uint64_t len = block_len(w->key.len, value.len);
	int err = pool_version(w->r->pool, t, &w->version);

	if (err)
		return err;
	w->class = pool_class_of(len);
	w->image_len = far_align(len, 8);
	FAR_ASSERT(w->class < POOL_CLASSES && w->image_len <= pool_class_len(w->class));
	w->image = far_scratch(t, w->image_len);
	if (!w->image)
		return -FAR_ENOMEM;
	block_make(w->image, w->hash, w->version, w->key, value);
	return 0;
}

/* Allocates the block near the slots and notes its WRITE, unless that was done for slots of the same node before. */
static int
race_write_stage(struct race_write *w, struct far_task *t)
{
	unsigned node;
	int err;

	race_locate(w->r, w->hash, &w->view);
	node = far_addr_node(w->view.subtable);
	if (w->block.raw && w->home != node)
		race_write_drop(w);
	if (!w->block.raw) {
		err = race_alloc(w->r, t, node, POOL_BLOCKS, w->class, &w->block);
		if (err)
			return err;
		w->home = node;
		w->written = w->exposed = false;
	}
	FAR_ASSERT(w->image && far_addr_off(w->block) % POOL_UNIT == 0);
	if (!w->written)
		far_write(t, w->block, w->image, w->image_len);
	return 0;
}

/* Every way back to the start counts: remote bytes that lie cannot keep an operation going for ever. */
static int
race_again(struct race_write *w, struct far_task *t)
{
	int err = backoff_wait(t, &w->backoff);

	return err ? err : RACE_AGAIN;
}

/* Round trip 1 of every write: after it `view` holds current slots, none frozen. */
static int
race_write_lookup(struct race_write *w, struct far_task *t)
{
	int err = w->image ? race_write_stage(w, t) : 0;

	if (err)
		return err;
	if ((err = race_lookup(w->r, t, w->hash, &w->view)) != 0)
		return err;
	FAR_ASSERT(!w->image || (w->block.raw && w->home < pool_nodes(w->r->pool)));
	w->written = w->image != NULL;
	if (race_view_frozen(&w->view) && !far_zoo(w->r->zoo, ZOO_FROZEN_WRITTEN)) {
		err = race_wait_split(w->r, t, &w->view);
		return err ? err : race_again(w, t);
	}
	return RACE_DONE;
}

/* Reads the blocks of `m` and finds the key's: *hit, or NULL. RACE_AGAIN: one is damaged, perhaps not the next time. */
static int
race_write_find(struct race_write *w, struct far_task *t, struct race_matches *m,
		struct race_match **hit)
{
	int err = race_find(w->r, t, m, w->key, hit);

	if (err != RACE_DAMAGED)
		return err;
	err = race_damaged(w->r, t, &w->backoff, &w->looks);
	return err ? err : RACE_AGAIN;
}

/* Round trips 1 and 2 of every write: the slot of the key, with its block. RACE_DONE, *hit NULL when it has none. */
static int
race_write_seek(struct race_write *w, struct far_task *t, struct race_match **hit)
{
	int err = race_write_lookup(w, t);

	if (err != RACE_DONE)
		return err;
	race_view_match(&w->view, false, &w->matches);
	return race_write_find(w, t, &w->matches, hit);
}

/* Swings the key's slot from the block found to `desired`; the old block goes to grace. The linearization point. */
static int
race_swing(struct race_write *w, struct far_task *t, const struct race_match *hit, uint64_t desired)
{
	uint64_t old;
	int err;

	/* The view was not frozen, and held only live slots. */
	FAR_ASSERT(race_slot_live(hit->word));
	FAR_ASSERT(!(hit->word & RACE_FROZEN) || far_zoo(w->r->zoo, ZOO_FROZEN_WRITTEN));
	FAR_ASSERT(!desired || (w->written && race_slot_fp(desired) == w->view.fp)); /* R7 */
	FAR_ASSERT(hit >= w->matches.at && hit < w->matches.at + w->matches.n);
	if (!desired && far_zoo(w->r->zoo, ZOO_DELETE_FREES_FIRST))
		pool_retire(w->r->pt, POOL_BLOCKS, race_slot_class(hit->word),
			    race_unpack(hit->word));
	far_cas(t, hit->addr, hit->word, desired, &old);
	if ((err = far_wait(t)) != 0) {
		/* Outcome unknown: neither block may be used again by us. */
		w->block.raw = 0;
		return err;
	}
	if (old != hit->word && !far_zoo(w->r->zoo, ZOO_SWING_UNCHECKED))
		return race_again(w, t);
	pool_retire(w->r->pt, POOL_BLOCKS, race_slot_class(hit->word), race_unpack(hit->word));
	return RACE_DONE;
}

/* Both stand back at first; the lower address goes on, and after two tries anybody does: it removes the rival. */
static int
race_remove_rival(struct race_write *w, struct far_task *t, struct far_addr slot,
		  const struct race_match *rival)
{
	uint64_t old;
	int err;

	FAR_ASSERT(slot.raw != rival->addr.raw);
	FAR_ASSERT((rival->word & RACE_TENTATIVE) && !(rival->word & RACE_FROZEN));
	if (slot.raw > rival->addr.raw && w->backoff.tries < 2)
		return RACE_AGAIN;
	far_cas(t, rival->addr,
		far_zoo(w->r->zoo, ZOO_RIVAL_WRONG_WORD) ? race_write_tentative(w) : rival->word, 0,
		&old);
	if ((err = far_wait(t)) != 0)
		return err;
	return old == rival->word ? RACE_DONE : RACE_AGAIN;
}

/*
 * Our tentative slot is in place and `view` was read after it. Decides whether we may finish (R2): RACE_DONE, not
 * now: RACE_AGAIN, or -FAR_EEXIST.
 */
static int
race_contest(struct race_write *w, struct far_task *t, struct far_addr slot)
{
	struct race_matches m, others;
	struct race_match *rival;
	int err;

	FAR_ASSERT(w->exposed && w->mode != FAR_PUT_UPDATE);
	if (race_view_frozen(&w->view))
		return RACE_AGAIN;
	race_view_match(&w->view, !far_zoo(w->r->zoo, ZOO_CONTEST_BLIND), &m);
	others.hash = w->hash;
	others.n = 0;
	for (unsigned i = 0; i < m.n; i++) {
		if (m.at[i].addr.raw != slot.raw)
			others.at[others.n++] = m.at[i];
	}
	if ((err = race_write_find(w, t, &others, &rival)) != RACE_DONE || !rival)
		return err;
	if (!(rival->word & RACE_TENTATIVE))
		return w->mode == FAR_PUT_INSERT ? -FAR_EEXIST : RACE_AGAIN;
	err = race_remove_rival(w, t, slot, rival);
	/* With more than one candidate there may be a second rival: look at all of them again. */
	if (err == RACE_DONE && others.n > 1 && !far_zoo(w->r->zoo, ZOO_RIVAL_FIRST_ONLY))
		return RACE_AGAIN;
	return err;
}

/*
 * Takes our tentative slot back. A CAS that fails found it frozen or removed: just as well. When the node does not
 * answer, the slot may still point to the block: then the block is given up for good, and the session with it (R8).
 */
static int
race_withdraw(struct race_write *w, struct far_task *t, struct far_addr slot)
{
	uint64_t old;
	int err;

	FAR_ASSERT(w->exposed && w->block.raw);
	far_forget(t);
	old = 0;
	if (far_zoo(w->r->zoo, ZOO_WITHDRAW_WRITTEN))
		far_write(t, slot, &old, sizeof(old));
	else
		far_cas(t, slot, race_write_tentative(w), 0, &old);
	if ((err = far_wait(t)) != 0) {
		w->block.raw = 0;
		pool_give_up(w->r->pool, err);
	}
	return err;
}

/* The key is not there: insert it. */
static int
race_insert(struct race_write *w, struct far_task *t)
{
	uint64_t tentative, old;
	struct far_addr slot;
	int err, lost;

	FAR_ASSERT(w->mode != FAR_PUT_UPDATE && w->image);
	if (!race_view_empty(&w->view, &slot)) {
		err = race_split(w->r, t, &w->view);
		return err ? err : race_again(w, t);
	}
	/* 2. Claim the slot, and read all candidates again: in this order (G3). */
	FAR_ASSERT(w->written); /* R7 */
	tentative = race_write_tentative(w);
	w->exposed = true;
	far_cas(t, slot, 0, tentative, &old);
	race_note_pairs(t, &w->view);
	if ((err = far_wait(t)) != 0)
		goto unsure;
	if (old != 0)
		return race_again(w, t);
	if (!far_zoo(w->r->zoo, ZOO_INSERT_UNCHECKED) &&
	    (err = race_contest(w, t, slot)) != RACE_DONE) {
		if ((lost = race_withdraw(w, t, slot)) != 0)
			return lost;
		return err == RACE_AGAIN ? race_again(w, t) : err;
	}
	/* 3. Nobody else inserts this key: publish. The linearization point. */
	far_cas(t, slot, tentative, race_write_slot(w), &old);
	if ((err = far_wait(t)) != 0) {
		pool_give_up(w->r->pool, err); /* R8 */
		goto unsure;
	}
	if (old == tentative || far_zoo(w->r->zoo, ZOO_FINAL_UNCHECKED))
		return RACE_DONE;
	return race_again(w, t);
unsure:
	w->block.raw = 0;
	return err;
}

/* One attempt of a put. */
static int
race_put_once(struct race_write *w, struct far_task *t)
{
	struct race_match *hit;
	int err;

	FAR_ASSERT(w->image && w->mode <= FAR_PUT_UPDATE);
	if ((err = race_write_seek(w, t, &hit)) != RACE_DONE)
		return err;
	if (!hit)
		return w->mode == FAR_PUT_UPDATE ? -FAR_ENOENT : race_insert(w, t);
	if (w->mode == FAR_PUT_INSERT)
		return -FAR_EEXIST;
	if (w->expect && hit->block->version != w->expect &&
	    !(w->backoff.tries && far_zoo(w->r->zoo, ZOO_VERSION_ONCE)))
		return -FAR_ECHANGED;
	return race_swing(w, t, hit, race_write_slot(w));
}

static int
race_put_all(struct race_write *w, struct far_task *t, struct far_bytes value)
{
	struct far_scratch_mark mark;
	int err = race_write_init(w, t, value);

	if (err)
		return err;
	mark = far_scratch_mark(t);
	do {
		far_scratch_reset(t, mark);
		err = race_put_once(w, t);
	} while (err == RACE_AGAIN);
	/* Either the block is in its slot, or it is nobody's. */
	FAR_ASSERT(err || (w->block.raw && w->written));
	if (err) {
		far_forget(t);
		race_write_drop(w);
	}
	return err;
}

int
race_put(struct far_index *ix, struct far_task *t, enum far_put_mode mode, struct far_bytes key,
	 struct far_bytes value, uint64_t *version)
{
	struct race *r = race_of(ix);
	struct race_write w;
	struct gate_pass pass = { .key = key, .blind = mode == FAR_PUT_UPSERT };
	int err;

	FAR_ASSERT(pool_is_inside(t) && (!*version || mode == FAR_PUT_UPDATE));
	race_write_start(&w, r, key, *version);
	w.mode = mode;
	pass.hash = w.hash;
	if (r->no_backoff) {
		err = race_put_all(&w, t, value);
	} else if (gate_enter(&r->gate, t, &pass)) {
		/* A later upsert of ours has replaced this value already: only its version is still needed. */
		err = pass.result ? pass.result : pool_version(r->pool, t, &w.version);
	} else {
		err = race_put_all(&w, t, value);
		gate_leave(&r->gate, &pass, err);
	}
	if (!err)
		*version = w.version;
	return err;
}

static int
race_del_once(struct race_write *w, struct far_task *t)
{
	struct race_match *hit;
	int err;

	if ((err = race_write_seek(w, t, &hit)) != RACE_DONE)
		return err;
	if (!hit)
		return -FAR_ENOENT;
	if (w->expect && hit->block->version != w->expect)
		return -FAR_ECHANGED;
	return race_swing(w, t, hit, 0);
}

/* Copies the block that `hit` found to `node` and swings the slot to it. The copy is byte for byte the same. */
static int
race_move_block(struct race_write *w, struct far_task *t, const struct race_match *hit,
		unsigned node)
{
	int err;

	FAR_ASSERT(!w->block.raw && !w->image && node < pool_nodes(w->r->pool));
	w->class = race_slot_class(hit->word);
	if ((err = pool_alloc(w->r->pt, t, node, POOL_BLOCKS, w->class, &w->block)) != 0)
		return err;
	/* The slot lies on another node: the copy's WRITE must be complete before the CAS (R7). */
	far_write(t, w->block, hit->block, pool_class_len(w->class));
	if (!far_zoo(w->r->zoo, ZOO_MOVE_UNAWAITED) && (err = far_wait(t)) != 0)
		goto fail;
	w->written = true;
	if ((err = race_swing(w, t, hit, race_write_slot(w))) != RACE_DONE)
		goto fail;
	return RACE_DONE;
fail:
	race_write_drop(w);
	return err;
}

static int
race_move_once(struct race_write *w, struct far_task *t, unsigned node)
{
	struct race_match *hit;
	int err;

	FAR_ASSERT(!w->block.raw && !w->image);
	if ((err = race_write_seek(w, t, &hit)) != RACE_DONE)
		return err;
	if (!hit)
		return -FAR_ENOENT;
	if (far_addr_node(race_unpack(hit->word)) == node)
		return RACE_DONE;
	return race_move_block(w, t, hit, node);
}

int
race_del(struct far_index *ix, struct far_task *t, struct far_bytes key, uint64_t expect)
{
	struct race *r = race_of(ix);
	struct race_write w;
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct gate_pass pass = { .key = key };
	int err;

	race_write_start(&w, r, key, expect);
	pass.hash = w.hash;
	if (!r->no_backoff)
		gate_enter(&r->gate, t, &pass);
	do {
		far_scratch_reset(t, mark);
		err = race_del_once(&w, t);
	} while (err == RACE_AGAIN);
	FAR_ASSERT(!w.block.raw);
	if (!r->no_backoff)
		gate_leave(&r->gate, &pass, err);
	return err;
}

int
race_move(struct far_index *ix, struct far_task *t, struct far_bytes key, unsigned node)
{
	struct race *r = race_of(ix);
	struct race_write w;
	struct far_scratch_mark mark = far_scratch_mark(t);
	int err;

	if (node >= pool_nodes(r->pool))
		return -FAR_EINVAL;
	race_write_start(&w, r, key, 0);
	do {
		far_scratch_reset(t, mark);
		err = race_move_once(&w, t, node);
	} while (err == RACE_AGAIN);
	return err;
}
