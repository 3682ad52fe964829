/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- from a hash to the 28 slots that may hold its key, and from slots to blocks. */
#include "base/base.h"
#include "index/race/race.h"

/* Offset in the subtable of main bucket `i`'s pair: even mains pair with the bucket after, odd with the one before. */
static uint64_t
race_pair_off(uint32_t i)
{
	return RACE_FATE_LEN + (uint64_t)(i / 2) * RACE_GROUP_LEN +
	       (i % 2) * (RACE_GROUP_LEN - RACE_PAIR_LEN);
}

/* The two main buckets: different ones, chosen by bits that are independent of the directory's. */
static void
race_mains(uint64_t hash, uint32_t mains, uint32_t out[2])
{
	uint64_t m = far_mix64(hash);

	out[0] = (uint32_t)((m >> 32) * mains >> 32);
	out[1] = (uint32_t)((m & 0xffffffff) * (mains - 1) >> 32);
	out[1] = (out[0] + 1 + out[1]) % mains;
	FAR_ASSERT(out[0] < mains && out[0] != out[1]);
}

void
race_locate(struct race *r, uint64_t hash, struct race_view *v)
{
	uint32_t mains[2];

	FAR_ASSERT(r->dir && r->groups);
	v->hash = hash;
	v->fp = (uint8_t)(hash >> 56);
	v->dir_word = r->dir[race_suffix(hash, r->depth)];
	v->subtable = race_unpack(v->dir_word);
	v->depth = race_dir_depth(v->dir_word);
	FAR_ASSERT(v->depth <= r->depth);
	race_mains(hash, 2 * r->groups, mains);
	for (int p = 0; p < 2; p++)
		v->pair[p] = far_addr_add(v->subtable, race_pair_off(mains[p]));
	v->skip = -1;
	if (mains[0] / 2 == mains[1] / 2)
		v->skip = mains[1] % 2 ? 0 : RACE_BUCKET_WORDS;
}

void
race_note_pairs(struct far_task *t, struct race_view *v)
{
	far_read(t, v->pair[0], v->words[0], RACE_PAIR_LEN);
	far_read(t, v->pair[1], v->words[1], RACE_PAIR_LEN);
}

/* The bucket headers are those of the subtable that the cache named. */
static bool
race_view_is_current(const struct race *r, const struct race_view *v)
{
	uint64_t ident = race_ident(v->depth, r->tag, race_suffix(v->hash, v->depth));
	uint64_t wrong = 0;

	for (int p = 0; p < 2; p++)
		wrong |= (v->words[p][0] ^ ident) | (v->words[p][RACE_BUCKET_WORDS] ^ ident);
	return wrong == 0;
}

static struct far_addr
race_slot_addr(const struct race_view *v, int p, int i)
{
	FAR_ASSERT(!race_is_header((unsigned)i));
	return far_addr_add(v->pair[p], (uint64_t)i * sizeof(uint64_t));
}

bool
race_view_frozen(const struct race_view *v)
{
	uint64_t any = 0;

	/* A shared bucket that both pairs have counts in either: then one look was later, and right. */
	for (int i = 1; i < RACE_BUCKET_WORDS; i++)
		any |= v->words[0][i] | v->words[0][i + RACE_BUCKET_WORDS] | v->words[1][i] |
		       v->words[1][i + RACE_BUCKET_WORDS];
	return any & RACE_FROZEN;
}

/* A bit for each word of pair `p` that is a slot with this fingerprint. Without branches, as every lookup does it. */
static inline uint32_t
race_fp_mask(const struct race_view *v, int p)
{
	const uint64_t *words = v->words[p], fp = (uint64_t)v->fp << 56;
	uint32_t mask = 0, slots = 0xfefe;

	for (int i = 0; i < RACE_PAIR_WORDS; i++)
		mask |= (uint32_t)((words[i] ^ fp) >> 56 == 0) << i;
	if (p == 1 && v->skip >= 0)
		slots &= ~(0xffU << v->skip);
	return mask & slots;
}

void
race_view_match(const struct race_view *v, bool tentative, struct race_matches *m)
{
	m->hash = v->hash;
	m->n = 0;
	FAR_ASSERT(v->skip == -1 || v->skip == 0 || v->skip == RACE_BUCKET_WORDS);
	for (int p = 0; p < 2; p++) {
		for (uint32_t mask = race_fp_mask(v, p); mask != 0; mask &= mask - 1) {
			int i = __builtin_ctz(mask);
			uint64_t w = v->words[p][i];

			if ((w & ~RACE_FROZEN) == 0 || (!tentative && (w & RACE_TENTATIVE)))
				continue;
			m->at[m->n].word = w;
			m->at[m->n++].addr = race_slot_addr(v, p, i);
		}
	}
}

bool
race_view_empty(const struct race_view *v, struct far_addr *slot)
{
	int used[2] = { 0, 0 }, first[2] = { -1, -1 }, p;

	for (p = 0; p < 2; p++) {
		for (int i = RACE_PAIR_WORDS - 1; i > 0; i--) {
			if (i == RACE_BUCKET_WORDS)
				continue;
			if (v->words[p][i])
				used[p]++;
			else
				first[p] = i;
		}
	}
	p = used[1] < used[0];
	if (first[p] < 0)
		p = !p;
	if (first[p] < 0)
		return false;
	FAR_ASSERT(v->words[p][first[p]] == 0 && !race_is_header((unsigned)first[p]));
	*slot = race_slot_addr(v, p, first[p]);
	return true;
}

int
race_alloc(struct race *r, struct far_task *t, unsigned node, enum pool_kind kind, unsigned class,
	   struct far_addr *out)
{
	unsigned other;
	int err;

	FAR_ASSERT(pool_is_inside(t) && node < pool_nodes(r->pool));
	err = pool_alloc(r->pt, t, node, kind, class, out);

	if (err == -FAR_ENOMEM && (other = pool_spill_node(r->pool, node)) != node)
		err = pool_alloc(r->pt, t, other, kind, class, out);
	return err;
}

int
race_check_addr(struct race *r, struct far_task *t, struct far_addr a, uint64_t len)
{
	unsigned node = far_addr_node(a);
	uint64_t off = far_addr_off(a), region;

	FAR_ASSERT(len);
	if (node >= pool_nodes(r->pool) || off == 0)
		return -FAR_ECORRUPT;
	region = far_fabric_region_len(far_task_conn(t), node);
	return len <= region && off <= region - len ? 0 : -FAR_ECORRUPT;
}

int
race_check_slot(struct race *r, struct far_task *t, uint64_t word)
{
	uint64_t len = pool_class_len(race_slot_class(word));

	return len ? race_check_addr(r, t, race_unpack(word), len) : -FAR_ECORRUPT;
}

/* Notes READs of the blocks of all matches. -FAR_ECORRUPT when a word points nowhere, -FAR_ENOMEM. */
static int
race_note_blocks(struct race *r, struct far_task *t, struct race_matches *m)
{
	for (unsigned i = 0; i < m->n; i++) {
		struct race_match *at = &m->at[i];
		struct far_addr addr = race_unpack(at->word);

		at->room = pool_class_len(race_slot_class(at->word));
		if (!at->room || race_check_addr(r, t, addr, at->room))
			return -FAR_ECORRUPT;
		at->block = far_scratch(t, at->room);
		if (!at->block)
			return -FAR_ENOMEM;
		far_read(t, addr, at->block, at->room);
	}
	return 0;
}

static bool
race_is_key(const struct race *r, const struct block *b, uint64_t hash, struct far_bytes key)
{
	if (far_zoo(r->zoo, ZOO_KEY_PREFIX))
		return b->key_len >= key.len && memcmp(b->bytes, key.data, key.len) == 0;
	return block_has_key(b, hash, key);
}

int
race_find(struct race *r, struct far_task *t, struct race_matches *m, struct far_bytes key,
	  struct race_match **hit)
{
	struct far_count *count = far_account_now(t);
	unsigned false_n = 0;
	int found, err;

	FAR_ASSERT(m->n <= RACE_CANDIDATES);
	*hit = NULL;
	found = race_note_blocks(r, t, m);
	if (found == -FAR_ENOMEM) {
		far_forget(t);
		return found;
	}
	if ((err = far_wait(t)) != 0)
		return err;
	if (found)
		return RACE_DAMAGED;
	for (unsigned i = 0; i < m->n; i++) {
		struct race_match *at = &m->at[i];

		if (block_verify(at->block, at->room))
			found = RACE_DAMAGED;
		else if (!race_is_key(r, at->block, m->hash, key))
			false_n++;
		else if (!*hit)
			*hit = at;
	}
	if (count)
		count->false_hits += false_n;
	FAR_ASSERT(!*hit || ((*hit)->block && (*hit)->room));
	return *hit ? RACE_DONE : found;
}

int
race_lookup(struct race *r, struct far_task *t, uint64_t hash, struct race_view *v)
{
	int err;

	FAR_ASSERT(pool_is_inside(t));
	for (int attempt = 0; attempt < 2; attempt++) {
		race_locate(r, hash, v);
		race_note_pairs(t, v);
		if ((err = far_wait(t)) != 0)
			return err;
		if (race_view_is_current(r, v))
			return 0;
		/* By M2 a cached word leads to the right subtable; a header that differs is damage, or a table that
		 * was dropped: its memory belongs to another one now. */
		far_forget(t);
		if ((err = pool_table_alive(r->pt)) != 0 || (err = race_refresh(r, t, true)) != 0)
			return err;
	}
	return -FAR_ECORRUPT;
}

int
race_damaged(struct race *r, struct far_task *t, struct backoff *b, unsigned *looks)
{
	int err;

	FAR_ASSERT(*looks < RACE_CORRUPT_TRIES);
	if (++*looks >= RACE_CORRUPT_TRIES)
		return -FAR_ECORRUPT;
	if ((err = pool_table_alive(r->pt)) != 0)
		return err;
	return backoff_wait(t, b);
}
