/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c -- local split of one subtable (paper, section 4.3, freeze-then-copy in place of its in-place move).
 *
 *	1. Allocate both children; make the directory deep enough.
 *	2. CAS fate none -> claimed(session).
 *	3. Freeze: FAA the frozen bit into every slot; each answers with the word. Tentative slots die of it (R2).
 *	4. READ the hash of every block: which side?
 *	5. WRITE both children, and the second one's address beside the fate. A key keeps its slot number, so they
 *	   never overflow.
 *	6. CAS fate claimed -> decided(children). From here they are current (R4).
 *	7. CAS the directory words; version + 1; CAS fate decided -> retired: its winner retires the parent.
 *
 * The claimer may die anywhere. Before 6 the parent stays current: after FENCE another client claims it anew and
 * starts over with children of its own, freezing by CAS (R6). After 6 anybody who meets the parent does 7.
 */
#include "base/base.h"
#include "index/race/race.h"

enum {
	RACE_FREEZE_ROUNDS = 64,
	RACE_WAIT_FIRST_NS = 64000, /* a wait for a split: 64 us, then four times longer each, */
	RACE_WAIT_QUADS = 5,        /* up to 65 ms: few looks, thus few round trips */
	RACE_WAIT_POLLS = 100,      /* about six seconds: longer than a lease and FENCE */
	RACE_WAIT_GONE = 6,         /* after so many looks the claimer's lease is looked at, too */
};

struct race_splitter {
	struct race *r;
	struct race_children c;
	uint64_t *words;    /* the parent's slot area, frozen */
	uint64_t *image[2]; /* the children, fate line included */
	unsigned words_n;
	struct race_splitter *next; /* in race.splitting */
};

static void
race_splitting_add(struct race_splitter *s)
{
	s->next = s->r->splitting;
	s->r->splitting = s;
}

static void
race_splitting_remove(struct race_splitter *s)
{
	struct race_splitter **at = &s->r->splitting;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
}

static bool
race_splitting_here(const struct race *r, struct far_addr subtable)
{
	const struct race_splitter *s = r->splitting;

	while (s && s->c.parent.raw != subtable.raw)
		s = s->next;
	return s;
}

static struct far_addr
race_word_addr(const struct race_splitter *s, unsigned i)
{
	return far_addr_add(s->c.parent, RACE_FATE_LEN + (uint64_t)i * 8);
}

/* Step 3 for the first claimer: one FAA per slot, never repeated (R6). */
static int
race_freeze_first(struct race_splitter *s, struct far_task *t)
{
	for (unsigned at = 0; at < s->words_n; at += RACE_BATCH) {
		unsigned end = (unsigned)far_min(s->words_n, at + RACE_BATCH);
		int err;

		for (unsigned i = at; i < end; i++) {
			if (!race_is_header(i))
				far_faa(t, race_word_addr(s, i), RACE_FROZEN, &s->words[i]);
		}
		if ((err = far_wait(t)) != 0)
			return err;
	}
	return 0;
}

/* Step 3 for who takes over: some words are frozen already, and R6 forbids another FAA. */
static int
race_freeze_again(struct race_splitter *s, struct far_task *t)
{
	struct race_freeze f = { .at = race_word_addr(s, 0),
				 .words = s->words,
				 .n = s->words_n,
				 .mark = RACE_FROZEN,
				 .headers = true };
	int err;

	far_read(t, f.at, s->words, (size_t)s->words_n * 8);
	err = far_wait(t);
	return err ? err : race_freeze(&f, t);
}

static void
race_child_init(struct race_splitter *s, int side)
{
	struct race *r = s->r;
	uint32_t suffix = s->c.suffix | (uint32_t)side << s->c.depth;
	struct race_fate_line *line = (struct race_fate_line *)s->image[side];
	uint64_t *slots = s->image[side] + RACE_FATE_LEN / 8;

	memset(line, 0, race_subtable_len(r));
	line->ident = race_ident(s->c.depth + 1, r->tag, suffix);
	for (unsigned i = 0; i < s->words_n; i += RACE_BUCKET_WORDS)
		slots[i] = line->ident;
}

/* Step 4 and the copying: a live key goes to the child that the next bit of its hash names. */
static int
race_distribute(struct race_splitter *s, struct far_task *t)
{
	uint64_t hash[RACE_BATCH];

	for (unsigned at = 0; at < s->words_n; at += RACE_BATCH) {
		unsigned end = (unsigned)far_min(s->words_n, at + RACE_BATCH);
		int err;

		for (unsigned i = at; i < end; i++) {
			hash[i - at] = 0;
			/* A damaged word stays as it is, on some side, for check to find: a split loses nothing. */
			if (!race_is_header(i) && race_slot_live(s->words[i]) &&
			    race_check_slot(s->r, t, s->words[i]) == 0)
				far_read(t, race_unpack(s->words[i]), &hash[i - at], 8);
		}
		if ((err = far_wait(t)) != 0)
			return err;
		for (unsigned i = at; i < end; i++) {
			uint64_t *child =
				s->image[hash[i - at] >> s->c.depth & 1] + RACE_FATE_LEN / 8;

			if (!race_is_header(i) && race_slot_live(s->words[i]))
				child[i] = s->words[i] & ~RACE_FROZEN;
		}
	}
	return 0;
}

/* Step 7. May be done by several clients at once; one of them retires the parent. */
static int
race_finish_split(struct race *r, struct far_task *t, const struct race_children *c)
{
	uint64_t decided = RACE_FATE(RACE_FATE_DECIDED, race_pack(c->low));
	uint64_t retired = RACE_FATE(RACE_FATE_RETIRED, race_pack(c->low));
	uint64_t old;
	int err;

	if ((err = race_switch(r, t, c)) != 0)
		return err;
	race_adopt(r, c->suffix, c->depth, c->low, c->high);
	/* The version grows before the parent's memory goes to grace (D4). */
	far_faa(t, race_head_at(r, offsetof(struct race_head, version)), 1, &old);
	if ((err = far_wait(t)) != 0)
		return err;
	far_cas(t, c->parent, decided, retired, &old);
	if ((err = far_wait(t)) != 0)
		return err;
	if (old == decided)
		pool_retire(r->pt, POOL_INDEX, r->subtable_class, c->parent);
	return 0;
}

/* Steps 3 to 5, after the claim. `first`: nobody has frozen anything here before. */
static int
race_split_build(struct race_splitter *s, struct far_task *t, bool first)
{
	struct race *r = s->r;
	uint64_t high = race_pack(s->c.high);
	int err;

	if ((err = first ? race_freeze_first(s, t) : race_freeze_again(s, t)) != 0)
		return err;
	race_child_init(s, 0);
	race_child_init(s, 1);
	if ((err = race_distribute(s, t)) != 0)
		return err;
	far_write(t, s->c.low, s->image[0], race_subtable_len(r));
	far_write(t, s->c.high, s->image[1], race_subtable_len(r));
	far_write(t, far_addr_add(s->c.parent, offsetof(struct race_fate_line, high)), &high, 8);
	return far_wait(t);
}

/* Steps 6 and 7. */
static int
race_split_decide(struct race_splitter *s, struct far_task *t)
{
	struct race *r = s->r;
	uint64_t mine = RACE_FATE(RACE_FATE_CLAIMED, pool_serial(r->pool)), old;
	int err;

	far_cas(t, s->c.parent, mine, RACE_FATE(RACE_FATE_DECIDED, race_pack(s->c.low)), &old);
	if ((err = far_wait(t)) != 0)
		return err;
	/* Nobody takes over from a session that was not fenced. */
	if (old != mine)
		return -FAR_EFENCED;
	far_faa(t, race_head_at(r, offsetof(struct race_head, splits)), 1, &old);
	if ((err = far_wait(t)) != 0)
		return err;
	return race_finish_split(r, t, &s->c);
}

/* The second child goes to the emptiest node: so a growing table spreads over the pool. */
static int
race_alloc_children(struct race_splitter *s, struct far_task *t)
{
	struct race *r = s->r;
	int err = race_alloc(r, t, far_addr_node(s->c.parent), POOL_INDEX, r->subtable_class,
			     &s->c.low);

	if (err)
		return err;
	err = pool_alloc(r->pt, t, pool_pick_node(r->pool), POOL_INDEX, r->subtable_class,
			 &s->c.high);
	if (err)
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
	return err;
}

/* Claims the parent whose fate is `expect` and splits it. Returns 1 when somebody else was faster. */
static int
race_claim_and_split(struct race_splitter *s, struct far_task *t, uint64_t expect)
{
	struct race *r = s->r;
	uint64_t old;
	int err = race_alloc_children(s, t);

	if (err)
		return err;
	far_cas(t, s->c.parent, expect, RACE_FATE(RACE_FATE_CLAIMED, pool_serial(r->pool)), &old);
	if ((err = far_wait(t)) == 0 && old != expect)
		err = 1;
	if (err) {
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.high);
		return err;
	}
	err = race_split_build(s, t, RACE_FATE_KIND(expect) == RACE_FATE_NONE);
	if (!err)
		return race_split_decide(s, t);
	/* The claim stays, for race_check_claimer() to find. Nobody has met the children, but a WRITE that ended in an
	 * error may be under way: they go to grace. */
	pool_retire(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
	pool_retire(r->pt, POOL_INDEX, r->subtable_class, s->c.high);
	return err;
}

/* The same with local memory for it; 1 also when another fiber of ours is at it. */
static int
race_split_here(struct race_splitter *s, struct far_task *t, uint64_t expect)
{
	uint64_t len = race_subtable_len(s->r);
	int err = -FAR_ENOMEM;

	/* Nothing yields between look and entry: so two fibers never share our claim, whose CAS would let both pass. */
	if (race_splitting_here(s->r, s->c.parent))
		return 1;
	race_splitting_add(s);
	s->words_n = s->r->groups * 3 * RACE_BUCKET_WORDS;
	s->words = calloc(s->words_n, 8);
	s->image[0] = malloc(len);
	s->image[1] = malloc(len);
	if (s->words && s->image[0] && s->image[1])
		err = race_claim_and_split(s, t, expect);
	far_forget(t);
	race_splitting_remove(s);
	free(s->words);
	free(s->image[0]);
	free(s->image[1]);
	return err;
}

/*
 * All slots of the key's buckets are taken by keys of its own hash: no split can ever part them.
 * 1, 0, or an error.
 */
static int
race_all_same_hash(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_matches m;
	uint64_t hash[RACE_CANDIDATES];
	unsigned slots = v->skip < 0 ? RACE_CANDIDATES : RACE_CANDIDATES - RACE_SLOTS;
	int err;

	race_view_match(v, false, &m);
	if (m.n < slots)
		return 0;
	for (unsigned i = 0; i < m.n; i++) {
		if ((err = race_check_slot(r, t, m.at[i].word)) != 0) {
			far_forget(t);
			return err;
		}
		far_read(t, race_unpack(m.at[i].word), &hash[i], 8);
	}
	if ((err = far_wait(t)) != 0)
		return err;
	for (unsigned i = 0; i < m.n; i++) {
		if (hash[i] != v->hash)
			return 0;
	}
	return 1;
}

int
race_split(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_splitter s = { .r = r };
	int err = race_all_same_hash(r, t, v);

	if (err)
		return err < 0 ? err : -FAR_EFULL;
	if (v->depth >= RACE_DEPTH_MAX)
		return -FAR_EFULL;
	if (r->depth <= v->depth && (err = race_double(r, t, v->depth)) != 0)
		return err;
	s.c.parent = v->subtable;
	s.c.depth = v->depth;
	s.c.suffix = race_suffix(v->hash, v->depth);
	err = race_split_here(&s, t, RACE_FATE(RACE_FATE_NONE, 0));
	return err == 1 ? race_wait_split(r, t, v) : err;
}

int
race_take_over(struct race *r, struct far_task *t, struct far_addr parent, uint64_t fate)
{
	struct race_splitter s = { .r = r, .c.parent = parent };
	struct race_fate_line line;
	int err;

	far_read(t, parent, &line, sizeof(line));
	if ((err = far_wait(t)) != 0)
		return err;
	s.c.depth = (unsigned)(line.ident >> 56);
	s.c.suffix = (uint32_t)line.ident;
	if (s.c.depth >= RACE_DEPTH_MAX)
		return -FAR_ECORRUPT;
	if (r->depth <= s.c.depth && (err = race_double(r, t, s.c.depth)) != 0)
		return err;
	err = race_split_here(&s, t, fate);
	return err == 1 ? 0 : err;
}

/* What the decided fate of a subtable says. READs the line anew: `high` is valid only when it was READ after a decided
 * fate (G1: one READ may return its words in any order). */
static int
race_read_children(struct race *r, struct far_task *t, const struct race_view *v,
		   struct race_children *c)
{
	struct race_fate_line line;
	int err;

	far_read(t, v->subtable, &line, sizeof(line));
	if ((err = far_wait(t)) != 0)
		return err;
	*c = (struct race_children){ .parent = v->subtable,
				     .low = race_unpack(line.fate & RACE_ADDR_MASK),
				     .high = race_unpack(line.high & RACE_ADDR_MASK),
				     .depth = v->depth,
				     .suffix = race_suffix(v->hash, v->depth) };
	if (RACE_FATE_KIND(line.fate) < RACE_FATE_DECIDED || c->depth >= RACE_DEPTH_MAX ||
	    line.ident != race_ident(c->depth, r->tag, c->suffix) ||
	    race_check_addr(r, t, c->low, race_subtable_len(r)) ||
	    race_check_addr(r, t, c->high, race_subtable_len(r)))
		return -FAR_ECORRUPT;
	return 0;
}

int
race_follow(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_children c;
	int err = race_read_children(r, t, v, &c);

	if (!err && r->depth <= v->depth)
		err = race_refresh(r, t, false);
	if (!err)
		race_adopt(r, v->hash, v->depth, c.low, c.high);
	return err;
}

int
race_finish(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_children c;
	int err = race_read_children(r, t, v, &c);

	return err ? err : race_finish_split(r, t, &c);
}

/* Whose claim lasts: is the client alive? Else takes over. A claim of our own that no fiber of ours works on was left
 * by an operation that ended in an error. */
static int
race_check_claimer(struct race *r, struct far_task *t, const struct race_view *v, uint64_t fate)
{
	uint64_t serial = RACE_FATE_SERIAL(fate);
	int err;

	if (serial == pool_serial(r->pool))
		err = !race_splitting_here(r, v->subtable);
	else
		err = pool_gone(r->pool, t, serial);
	return err == 1 ? race_take_over(r, t, v->subtable, fate) : err;
}

int
race_wait_split(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct far_count *count = far_account_now(t);
	uint64_t fate;
	int err;

	for (unsigned poll = 0; poll < RACE_WAIT_POLLS; poll++) {
		far_sleep(t, (uint64_t)RACE_WAIT_FIRST_NS << 2 * far_min(poll, RACE_WAIT_QUADS));
		far_read(t, v->subtable, &fate, sizeof(fate));
		if ((err = far_wait(t)) != 0)
			return err;
		if (count)
			count->split_waits++;
		if (RACE_FATE_KIND(fate) >= RACE_FATE_DECIDED)
			return race_follow(r, t, v);
		/* A fiber of ours has yet to claim it, or could not. */
		if (RACE_FATE_KIND(fate) == RACE_FATE_NONE) {
			if (race_view_frozen(v))
				return -FAR_ECORRUPT;
			if (!race_splitting_here(r, v->subtable))
				return 0;
		} else if (poll >= RACE_WAIT_GONE &&
			   (err = race_check_claimer(r, t, v, fate)) != 0) {
			return err;
		}
	}
	return -FAR_ETIMEOUT;
}
