/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.h -- RACE hashing (Zuo et al., USENIX ATC 2021): one-sided extendible hashing, with its holes mended.
 *
 * Invariants that the operations rely on. M1 to M4 are the pool's (pool.h).
 *
 * R1 A key has at most one live (not tentative) slot in the current subtable of its hash.
 * R2 An insert is two steps: CAS empty -> tentative, READ all candidate slots again, CAS tentative -> live. Readers
 *    ignore tentative slots. Of two inserts of one key at least one sees the other's tentative slot, because each
 *    reads after its own CAS. Who sees another does not finish: it removes the other's slot by CAS or its own.
 *    Removing a tentative slot is always safe (its owner's last CAS fails then), so a dead owner blocks nobody.
 * R3 A frozen slot never changes again. A subtable is split only after all its slots are frozen.
 * R4 The CAS of the fate word to "decided" is the only moment at which the children become current. Before it the
 *    frozen slots are current, after it they are history. A slot that is not frozen is current. So whoever used a
 *    frozen word READs the fate afterwards.
 * R5 Directory words follow the fate; everybody may switch them, to something deeper only. A directory word is a hint:
 *    it may name a subtable that was split long ago, whose memory stays as long as any word names it.
 * R6 Only the session that claimed a fate word posts FAAs on its slots, once each; who takes over (after FENCE)
 *    freezes by CAS.
 * R7 A block's WRITE is complete before a CAS that publishes it is posted.
 * R8 Who leaves behind a claim, the doubling lock or a tentative slot, because of an error, gives its session up
 *    (pool_give_up()): others may take these over only from a session that was fenced, and none that lives is.
 */
#ifndef FAR_RACE_H
#define FAR_RACE_H

#include "base/zoo.h"
#include "index/common/backoff.h"
#include "index/common/block.h"
#include "index/common/gate.h"
#include "index/index.h"
#include "index/race/layout.h"
#include "pool/pool.h"

enum {
	RACE_BATCH = 256,        /* verbs in one chain of a split, a scan or a check */
	RACE_CANDIDATES = 28,    /* slots of a key */
	RACE_CORRUPT_TRIES = 3,  /* looks at one slot before its block counts as damaged */
};

/* What a step returns that ended well, if not 0. */
enum race_step {
	RACE_DONE = 0,
	RACE_AGAIN,    /* what it was built on has changed: look again, from the top */
	RACE_NEEDLESS, /* another client has done it */
	RACE_BEATEN,   /* another client, or another fiber of ours, is at it */
	RACE_DAMAGED,  /* a block that was READ is none: race_damaged() tells what to do about it */
};

struct race_splitter;

/* Addresses of all index parts in use, sorted, as they were at some time after the last recover(). */
struct race_census {
	uint64_t *parts; /* NULL: not taken */
	uint64_t n;
	bool used;       /* since the last refresh() */
};

struct race {
	struct pool_table *pt;
	struct pool *pool;
	struct far_addr head;
	unsigned groups;
	uint32_t tag;
	unsigned subtable_class;
	uint64_t (*hash)(const void *key, size_t len, uint64_t seed);
	bool no_backoff;
	uint64_t zoo;
	struct gate gate;

	/* The cached directory: 2^depth words, valid by M2. */
	unsigned depth;
	uint64_t root;
	uint64_t version;
	uint64_t *dir;

	struct far_index_watch *watch; /* or NULL */

	/* Subtables that fibers of this client are splitting right now; whether one is about to double. */
	struct race_splitter *splitting;
	bool doubling;

	struct race_census census;
};

/* A key's place in the table, and the 28 slots as last read. */
struct race_view {
	uint64_t hash;
	uint8_t fp;
	uint64_t dir_word;            /* the hint that led here */
	struct far_addr subtable;
	unsigned depth;
	struct far_addr pair[2];
	int skip;                     /* word index in words[1] of a shared bucket already in words[0], or -1 */
	uint64_t words[2][RACE_PAIR_WORDS];
};

/* A slot that may hold the key. */
struct race_match {
	uint64_t word;
	struct far_addr addr;         /* of the slot */
	struct block *block;          /* in scratch, and its length: once read */
	uint64_t room;
};

struct race_matches {
	uint64_t hash;
	unsigned n;
	struct race_match at[RACE_CANDIDATES];
};

/* view.c: from hash to slots ----------------------------------------------------------------------------- */

/* Fills everything but the words from the cached directory. */
void race_locate(struct race *r, uint64_t hash, struct race_view *v);

/* Notes the two READs of round trip 1. */
void race_note_pairs(struct far_task *t, struct race_view *v);

/* True when any of the key's slots is frozen. */
bool race_view_frozen(const struct race_view *v);

/* Collects slots with the key's fingerprint: live ones, and tentative ones when asked. */
void race_view_match(const struct race_view *v, bool tentative, struct race_matches *m);

/* The empty slot to take: of the pair with fewer keys. Returns false when there is none. */
bool race_view_empty(const struct race_view *v, struct far_addr *slot);

/* READs the blocks of all matches in one chain with what was noted before: fingerprints collide, keys do not. *hit is
 * the match that holds the key, or NULL. RACE_DAMAGED: no block of the key, but one that could not be verified. Nothing
 * is noted on return, also after -FAR_ENOMEM (of the process). Counts blocks of other keys as false hits. */
int race_find(struct race *r, struct far_task *t, struct race_matches *m, struct far_bytes key,
	      struct race_match **hit);

/* pool_alloc() on `node`, or elsewhere when that is full: nothing here needs two parts on one node, since every WRITE
 * is waited for before what it wrote is published (R7). */
int race_alloc(struct race *r, struct far_task *t, unsigned node, enum pool_kind kind, unsigned class,
	       struct far_addr *out);

/* Can `word` point to a block here? -FAR_ECORRUPT. */
int race_check_slot(struct race *r, struct far_task *t, uint64_t word);

/* Can a subtable or directory of `len` bytes lie at `a`? -FAR_ECORRUPT. */
int race_check_addr(struct race *r, struct far_task *t, struct far_addr a, uint64_t len);

/* Round trip 1 of every operation, with what the caller has noted before: locates the key, READs both pairs, and
 * refreshes the cache when the headers differ, once. -FAR_ECORRUPT when they still do. */
int race_lookup(struct race *r, struct far_task *t, uint64_t hash, struct race_view *v);

/* After RACE_DAMAGED: counts the looks in *looks. 0 after a back-off: look again; -FAR_ECORRUPT after
 * RACE_CORRUPT_TRIES; -FAR_ENOENT when the table was dropped. */
int race_damaged(struct race *r, struct far_task *t, struct backoff *b, unsigned *looks);

/* dir.c: the directory ------------------------------------------------------------------------------------ */

/* Can a directory be where this root word says, and so deep? -FAR_ECORRUPT. */
int race_check_root(struct race *r, struct far_task *t, uint64_t root);
/* Reads root and directory anew when the version or root changed (or `force`). -FAR_ECORRUPT, -FAR_ENOMEM: the cache
 * is as before. */
int race_refresh(struct race *r, struct far_task *t, bool force);
/* Enters what a decided fate says into the cache. */
void race_adopt(struct race *r, uint64_t hash, unsigned depth, struct far_addr low, struct far_addr high);
/* Makes the directory deeper than `depth`, unless it is. -FAR_ENOMEM, -FAR_EFULL. */
int race_double(struct race *r, struct far_task *t, unsigned depth);

/* A decided split: `low` holds the hashes whose bit `depth` is 0. */
struct race_children {
	struct far_addr parent, low, high;
	unsigned depth;   /* of the parent */
	uint32_t suffix;  /* of the parent */
};

/* Makes every directory word that names the parent, or an ancestor of it, name a child (R5, D3). */
int race_switch(struct race *r, struct far_task *t, const struct race_children *c);

/* split.c --------------------------------------------------------------------------------------------------- */

/* Splits the view's subtable, or waits for whoever does. Afterwards: look up again. */
int race_split(struct race *r, struct far_task *t, const struct race_view *v);
/* Claims the view's subtable, whose claimer is gone, anew, and splits it. `fate`: its word as last read. RACE_BEATEN:
 * somebody else was faster. */
int race_take_over(struct race *r, struct far_task *t, const struct race_view *v, uint64_t fate);
/* Step 7 of a split that was decided, by anybody. */
int race_finish_split(struct race *r, struct far_task *t, const struct race_children *c);
/* A fiber of this client is splitting `subtable`. */
bool race_is_splitting(const struct race *r, struct far_addr subtable);

/* fate.c ---------------------------------------------------------------------------------------------------- */

/* Waits while the fate of the view's subtable, which somebody splits, is undecided, and follows it. Afterwards: look up
 * again. -FAR_ETIMEOUT: undecided after a few leases, though the claimer lives. */
int race_wait_split(struct race *r, struct far_task *t, const struct race_view *v);
/* The fate of the view's subtable was found decided: enters its children into the cache. Afterwards: look up again. */
int race_follow(struct race *r, struct far_task *t, const struct race_view *v);
/* The same, and does what is left of the split: its splitter may be dead. */
int race_finish(struct race *r, struct far_task *t, const struct race_view *v);
/* The claim `fate` on the view's subtable lasts. If its client is gone, takes over: 0. RACE_BEATEN: it is alive, or
 * somebody else was faster. A claim in our name that no fiber of ours works on is damage (R8): taken over, too. */
int race_check_claimer(struct race *r, struct far_task *t, const struct race_view *v, uint64_t fate);

/* freeze.c -------------------------------------------------------------------------------------------------- */

/* Words to be frozen. */
struct race_freeze {
	struct far_addr at;
	uint64_t *words; /* as last seen; in the end all with the mark, as they stay */
	uint64_t n;
	uint64_t mark;
	bool headers;    /* every bucket's first word is none of them */
	uint64_t zoo;
};

/* Sets the mark in all words by CAS, also when some have it. -FAR_ECONTENDED. */
int race_freeze(const struct race_freeze *f, struct far_task *t);

/* walk.c: one subtable after the other, in the order of bit-reversed hashes ------------------------------------ */

/* A subtable as read whole, current when it was read. */
struct race_part {
	struct far_addr at;
	unsigned depth;
	uint32_t suffix;
	struct race_fate_line *line;  /* in scratch, slots behind it */
	uint64_t *words;
	unsigned words_n;
};

/* Reads the subtable at *cursor and moves *cursor to the next one; *last is set when there is none. Extendible
 * hashing by low bits makes a subtable an interval of bit-reversed hashes, and a split only cuts it in two: so a
 * walk in this order meets every hash once, whatever happens meanwhile. */
int race_walk(struct race *r, struct far_task *t, uint64_t *cursor, struct race_part *part, bool *last);

/* recover.c ------------------------------------------------------------------------------------------------- */

void race_census_drop(struct race *r);

/* Operations (index.h) ------------------------------------------------------------------------------------- */

int race_create(struct pool_table *pt, struct far_task *t, const struct far_index_opts *o, struct far_addr *head);
int race_open(struct pool_table *pt, struct far_task *t, const struct far_index_opts *o, struct far_index **out);
void race_close(struct far_index *ix);
int race_get(struct far_index *ix, struct far_task *t, struct far_bytes key, struct far_value *value);
int race_put(struct far_index *ix, struct far_task *t, enum far_put_mode mode, struct far_bytes key,
	     struct far_bytes value, uint64_t *version);
int race_del(struct far_index *ix, struct far_task *t, struct far_bytes key, uint64_t expect);
int race_move(struct far_index *ix, struct far_task *t, struct far_bytes key, unsigned node);
int race_scan(struct far_index *ix, struct far_task *t, uint64_t *cursor, size_t inline_max,
	      struct far_entry **entries, bool *last);
int race_stat(struct far_index *ix, struct far_task *t, struct far_table_stat *out);
int race_check(struct far_index *ix, struct far_task *t, far_report_fn *report, void *arg);
int race_index_refresh(struct far_index *ix, struct far_task *t);
int race_recover(struct far_index *ix, struct far_task *t);
void race_reach(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n, bool index);

static inline struct race *
race_of(struct far_index *ix)
{
	return (struct race *)ix;
}

/* Tells who watches that what session `serial` had locked is ours. */
static inline void
race_took(struct race *r, uint64_t serial)
{
	if (r->watch && r->watch->took)
		r->watch->took(r->watch, serial);
}

static inline uint64_t
race_hash(const struct race *r, struct far_bytes key)
{
	return r->hash(key.data, key.len, r->pt->seed);
}

static inline uint64_t
race_subtable_len(const struct race *r)
{
	return RACE_FATE_LEN + (uint64_t)r->groups * RACE_GROUP_LEN;
}

static inline struct far_addr
race_head_at(const struct race *r, size_t field)
{
	return far_addr_add(r->head, field);
}

#endif
