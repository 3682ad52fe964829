/* SPDX-License-Identifier: Apache-2.0 */
/*
 * split.c -- local split of one subtable (paper, section 4.3, freeze-then-copy in place of its in-place move).
 *
 *	1. Make the directory deep enough; ask whether all nodes answer; allocate both children.
 *	2. CAS fate none -> claimed(session).
 *	3. Freeze: FAA the frozen bit into every slot; each answers with the word. Tentative slots die of it (R2).
 *	4. READ the hash of every block: which side?
 *	5. WRITE both children, and the second one's address beside the fate. A key keeps its slot number, so they
 *	   never overflow.
 *	6. CAS fate claimed -> decided(children). From here they are current (R4).
 *	7. CAS the directory words; version + 1; CAS fate decided -> retired: its winner retires the parent.
 *
 * The claimer may die anywhere. Before 6 the parent stays current: after FENCE another client claims it anew and
 * starts over with children of its own, freezing by CAS (R6). After 6 anybody who meets the parent does 7. A claimer
 * that lives and cannot get from 2 to 6 (a node does not answer it) gives its session up, and counts as dead (R8).
 */
#include "base/base.h"
#include "index/race/race.h"

struct race_splitter {
	struct race *r;
	struct race_children c;
	uint64_t *words;    /* the parent's slot area, frozen */
	uint64_t *image[2]; /* the children, fate line included */
	unsigned words_n;
	bool claimed;
	struct race_splitter *next; /* in race.splitting */
};

static void
race_splitting_add(struct race_splitter *s)
{
	FAR_ASSERT(!race_is_splitting(s->r, s->c.parent));
	s->next = s->r->splitting;
	s->r->splitting = s;
}

static void
race_splitting_remove(struct race_splitter *s)
{
	struct race_splitter **at = &s->r->splitting;

	while (*at != s) {
		FAR_ASSERT(*at);
		at = &(*at)->next;
	}
	*at = s->next;
}

bool
race_is_splitting(const struct race *r, struct far_addr subtable)
{
	const struct race_splitter *s = r->splitting;

	while (s && s->c.parent.raw != subtable.raw)
		s = s->next;
	return s;
}

static struct far_addr
race_word_addr(const struct race_splitter *s, unsigned i)
{
	FAR_ASSERT(i < s->words_n);
	return far_addr_add(s->c.parent, RACE_FATE_LEN + (uint64_t)i * 8);
}

/* Step 3 for the first claimer: one FAA per slot, never repeated (R6). */
static int
race_freeze_first(struct race_splitter *s, struct far_task *t)
{
	FAR_ASSERT(s->claimed && s->words_n);
	for (unsigned at = 0; at < s->words_n; at += RACE_BATCH) {
		unsigned end = (unsigned)far_min(s->words_n, at + RACE_BATCH);
		int err;

		for (unsigned i = at; i < end; i++) {
			FAR_ASSERT(s->words[i] == 0); /* R6: once each */
			if (race_is_header(i))
				continue;
			if (far_zoo(s->r->zoo, ZOO_SPLIT_UNFROZEN))
				far_read(t, race_word_addr(s, i), &s->words[i], 8);
			else
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
				 .headers = true,
				 .zoo = s->r->zoo };
	int err;

	FAR_ASSERT(s->claimed);
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

	FAR_ASSERT(s->c.depth < RACE_DEPTH_MAX && s->c.suffix >> s->c.depth == 0);
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

			if (race_is_header(i) || !race_slot_live(s->words[i]))
				continue;
			FAR_ASSERT(child[i] == 0);
			child[i] = s->words[i] & ~RACE_FROZEN;
		}
	}
	return 0;
}

/* May be done by several clients at once; one of them retires the parent. */
int
race_finish_split(struct race *r, struct far_task *t, const struct race_children *c)
{
	uint64_t decided = RACE_FATE(RACE_FATE_DECIDED, race_pack(c->low));
	uint64_t retired = RACE_FATE(RACE_FATE_RETIRED, race_pack(c->low));
	uint64_t old;
	int err;

	FAR_ASSERT(pool_is_inside(t) && c->depth < RACE_DEPTH_MAX);
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
	if (old == decided || far_zoo(r->zoo, ZOO_PARENT_TWICE))
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

	if (far_zoo(r->zoo, ZOO_TAKEOVER_FAA))
		first = true;
	if (far_zoo(r->zoo, ZOO_SPLIT_SKIPS_EMPTY))
		first = false;
	if ((err = first ? race_freeze_first(s, t) : race_freeze_again(s, t)) != 0)
		return err;
	for (unsigned i = 0; far_zoo(r->zoo, ZOO_SPLIT_TENTATIVE) && i < s->words_n; i++)
		s->words[i] &= ~RACE_TENTATIVE;
	race_child_init(s, 0);
	race_child_init(s, 1);
	if ((err = race_distribute(s, t)) != 0)
		return err;
	FAR_ASSERT(s->c.low.raw && s->c.high.raw && s->c.low.raw != s->c.high.raw);
	if (far_zoo(r->zoo, ZOO_SPLIT_NAMED_FIRST) && (err = race_switch(r, t, &s->c)) != 0)
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

	FAR_ASSERT(RACE_FATE_SERIAL(mine) == pool_serial(r->pool)); /* it fits */
	FAR_ASSERT(race_is_splitting(r, s->c.parent));
	far_cas(t, s->c.parent, mine, RACE_FATE(RACE_FATE_DECIDED, race_pack(s->c.low)), &old);
	if ((err = far_wait(t)) != 0)
		return pool_give_up(r->pool, err);
	/* Nobody takes over from a session that was not fenced. */
	if (old != mine)
		return pool_give_up(r->pool, -FAR_EFENCED);
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
	if (err && !far_zoo(r->zoo, ZOO_CHILD_LEAKED))
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
	return err;
}

/* Claims the parent whose fate is `expect` and splits it. RACE_BEATEN: somebody else was faster. */
static int
race_claim_and_split(struct race_splitter *s, struct far_task *t, uint64_t expect)
{
	struct race *r = s->r;
	uint64_t old;
	int err;

	FAR_ASSERT(s->words && s->image[0] && s->image[1] && !s->c.low.raw);
	/* The keys' blocks may lie on any node: step 4 reads them all (R8). */
	if ((err = pool_ask_nodes(r->pool, t)) != 0 || (err = race_alloc_children(s, t)) != 0)
		return err;
	far_cas(t, s->c.parent, expect, RACE_FATE(RACE_FATE_CLAIMED, pool_serial(r->pool)), &old);
	if ((err = far_wait(t)) == 0 && old != expect)
		err = RACE_BEATEN;
	if (err) {
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
		pool_unalloc(r->pt, POOL_INDEX, r->subtable_class, s->c.high);
		return err;
	}
	s->claimed = true;
	if (r->watch)
		r->watch->begun++;
	if (RACE_FATE_KIND(expect) == RACE_FATE_CLAIMED)
		race_took(r, RACE_FATE_SERIAL(expect));
	err = race_split_build(s, t, RACE_FATE_KIND(expect) == RACE_FATE_NONE);
	if (!err)
		return race_split_decide(s, t);
	/* The claim stays, and whoever waits for it may take it over only from the dead. Nobody has met the children,
	 * but a WRITE that ended in an error may be under way: they go to grace. */
	pool_retire(r->pt, POOL_INDEX, r->subtable_class, s->c.low);
	pool_retire(r->pt, POOL_INDEX, r->subtable_class, s->c.high);
	return pool_give_up(r->pool, err);
}

/* The same with local memory for it; RACE_BEATEN also when another fiber of ours is at it. */
static int
race_split_here(struct race_splitter *s, struct far_task *t, uint64_t expect)
{
	uint64_t len = race_subtable_len(s->r);
	int err = -FAR_ENOMEM;

	FAR_ASSERT(RACE_FATE_KIND(expect) <= RACE_FATE_CLAIMED && pool_is_inside(t));

	/* Nothing yields between look and entry: so two fibers never share our claim, whose CAS would let both pass. */
	if (race_is_splitting(s->r, s->c.parent))
		return RACE_BEATEN;
	race_splitting_add(s);
	s->words_n = s->r->groups * 3 * RACE_BUCKET_WORDS;
	s->words = calloc(s->words_n, 8);
	s->image[0] = malloc(len);
	s->image[1] = malloc(len);
	if (s->words && s->image[0] && s->image[1])
		err = race_claim_and_split(s, t, expect);
	far_forget(t);
	race_splitting_remove(s);
	if (s->claimed && s->r->watch)
		s->r->watch->ended++;
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
	FAR_ASSERT(m.n <= slots);
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

static void
race_splitter_init(struct race_splitter *s, const struct race_view *v)
{
	s->c.parent = v->subtable;
	s->c.depth = v->depth;
	s->c.suffix = race_suffix(v->hash, v->depth);
	FAR_ASSERT(s->c.parent.raw && s->c.depth < RACE_DEPTH_MAX);
}

int
race_split(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_splitter s = { .r = r };
	int err = race_all_same_hash(r, t, v);

	FAR_ASSERT(pool_is_inside(t));
	if (err)
		return err < 0 ? err : -FAR_EFULL;
	if (v->depth >= RACE_DEPTH_MAX)
		return -FAR_EFULL;
	if (r->depth <= v->depth && (err = race_double(r, t, v->depth)) != 0)
		return err;
	race_splitter_init(&s, v);
	err = race_split_here(&s, t, RACE_FATE(RACE_FATE_NONE, 0));
	return err == RACE_BEATEN ? race_wait_split(r, t, v) : err;
}

int
race_take_over(struct race *r, struct far_task *t, const struct race_view *v, uint64_t fate)
{
	struct race_splitter s = { .r = r };
	int err;

	FAR_ASSERT(RACE_FATE_KIND(fate) == RACE_FATE_CLAIMED);
	if (v->depth >= RACE_DEPTH_MAX)
		return -FAR_ECORRUPT;
	if (r->depth <= v->depth && (err = race_double(r, t, v->depth)) != 0)
		return err;
	race_splitter_init(&s, v);
	return race_split_here(&s, t, fate);
}
