/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c -- reading whole subtables: the scan.
 *
 * The step's operation holds its epoch, so blocks that slots pointed to stay readable until the step ends, even when
 * their keys change meanwhile: each value was the key's when its slot was read.
 */
#include "base/base.h"
#include "index/race/race.h"

enum { RACE_WALK_TRIES = 64 };

static uint64_t
race_reverse(uint64_t x)
{
	x = (x & 0x5555555555555555ULL) << 1 | (x >> 1 & 0x5555555555555555ULL);
	x = (x & 0x3333333333333333ULL) << 2 | (x >> 2 & 0x3333333333333333ULL);
	x = (x & 0x0f0f0f0f0f0f0f0fULL) << 4 | (x >> 4 & 0x0f0f0f0f0f0f0f0fULL);
	return __builtin_bswap64(x);
}

static bool
race_part_frozen(const struct race_part *p)
{
	for (unsigned i = 0; i < p->words_n; i++) {
		if (!race_is_header(i) && (p->words[i] & RACE_FROZEN))
			return true;
	}
	return false;
}

/* Reads the subtable of `v`. RACE_AGAIN: it is not current, but the cache is now; RACE_DAMAGED: it is another one. */
static int
race_read_part(struct race *r, struct far_task *t, struct race_view *v, struct race_part *p)
{
	uint64_t fate;
	int err;

	FAR_ASSERT(p->line && p->words == (uint64_t *)(p->line + 1));
	FAR_ASSERT(v->depth <= r->depth && v->subtable.raw);
	p->at = v->subtable;
	p->depth = v->depth;
	p->suffix = race_suffix(v->hash, v->depth);
	far_read(t, p->at, p->line, race_subtable_len(r));
	if ((err = far_wait(t)) != 0)
		return err;
	if (p->line->ident != race_ident(p->depth, r->tag, p->suffix))
		return RACE_DAMAGED;
	if (!race_part_frozen(p) || far_zoo(r->zoo, ZOO_SCAN_NO_FATE))
		return RACE_DONE;
	/* Frozen words are current only while the fate, read after them, is undecided (R4). */
	far_read(t, p->at, &fate, sizeof(fate));
	if ((err = far_wait(t)) != 0)
		return err;
	if (RACE_FATE_KIND(fate) < RACE_FATE_DECIDED)
		return RACE_DONE;
	err = race_follow(r, t, v);
	return err ? err : RACE_AGAIN;
}

int
race_walk(struct race *r, struct far_task *t, uint64_t *cursor, struct race_part *part, bool *last)
{
	struct race_view v;
	uint64_t span, from = *cursor;
	bool fresh = false;
	int err = RACE_AGAIN;

	FAR_ASSERT(pool_is_inside(t));
	part->words_n = r->groups * 3 * RACE_BUCKET_WORDS;
	part->line = far_scratch(t, race_subtable_len(r));
	if (!part->line)
		return -FAR_ENOMEM;
	part->words = (uint64_t *)(part->line + 1);
	for (int i = 0; err == RACE_AGAIN; i++) {
		if (i == RACE_WALK_TRIES)
			return -FAR_ECORRUPT;
		race_locate(r, race_reverse(*cursor), &v);
		err = race_read_part(r, t, &v, part);
		/* As in race_lookup(): it is damage, or the table was dropped, once the cache is from this step. */
		if (err != RACE_DAMAGED || fresh)
			continue;
		if ((err = pool_table_alive(r->pt)) != 0 || (err = race_refresh(r, t, true)) != 0)
			return err;
		fresh = true;
		err = RACE_AGAIN;
	}
	if (err)
		return err == RACE_DAMAGED ? -FAR_ECORRUPT : err;
	span = part->depth ? (uint64_t)1 << (64 - part->depth) : 0;
	*cursor = race_reverse(part->suffix) + span;
	*last = *cursor == 0;
	/* Its hashes, reversed, are an interval around where we were: the walk goes on. */
	FAR_ASSERT(*last || *cursor > from);
	return 0;
}

/* One slot of a scan step: its block, read whole or only as far as the key. */
struct race_scan_slot {
	uint64_t word;
	struct block *block;
	uint64_t got;
};

static uint64_t
race_scan_len(uint64_t word, size_t inline_max)
{
	uint64_t len = pool_class_len(race_slot_class(word));

	return len <= block_len(0, inline_max) + POOL_UNIT
		       ? len
		       : far_min(len, block_len(FAR_KEY_MAX, 0));
}

static int
race_scan_read(struct race *r, struct far_task *t, struct race_scan_slot *s, unsigned n,
	       size_t inline_max)
{
	int err = 0;

	for (unsigned i = 0; i < n && !err; i++) {
		s[i].got = race_scan_len(s[i].word, inline_max);
		s[i].block = far_scratch(t, s[i].got);
		if (!s[i].block || race_check_slot(r, t, s[i].word)) {
			far_forget(t);
			return s[i].block ? -FAR_ECORRUPT : -FAR_ENOMEM;
		}
		FAR_ASSERT(s[i].got <= pool_class_len(race_slot_class(s[i].word)));
		far_read(t, race_unpack(s[i].word), s[i].block, s[i].got);
		if (i % RACE_BATCH == RACE_BATCH - 1)
			err = far_wait(t);
	}
	return err ? err : far_wait(t);
}

/* Turns a block into an entry. A block that was cut after its key cannot be verified as a whole: the caller gets the
 * value by a get, which does. */
static int
race_scan_entry(const struct race_scan_slot *s, struct far_entry *e)
{
	const struct block *b = s->block;
	uint64_t room = pool_class_len(race_slot_class(s->word));

	FAR_ASSERT(s->got && s->got <= room);
	if (s->got == room) {
		if (block_verify(b, room))
			return -FAR_ECORRUPT;
		e->value = block_value(b);
	} else {
		if (b->key_len == 0 || b->key_len > FAR_KEY_MAX ||
		    block_len(b->key_len, b->value_len) > room)
			return -FAR_ECORRUPT;
		e->value = far_bytes(NULL, b->value_len);
	}
	e->key = block_key(b);
	e->version = b->version;
	return 0;
}

/* A key that was deleted and inserted anew while the step read may be seen in two slots: keep one. */
static bool
race_scan_seen(const struct race_scan_slot *s, unsigned n, const struct block *b)
{
	for (unsigned i = 0; i < n; i++) {
		if (s[i].block->hash == b->hash && s[i].block->key_len == b->key_len &&
		    memcmp(s[i].block->bytes, b->bytes, b->key_len) == 0)
			return true;
	}
	return false;
}

static int
race_by_hash(const void *a, const void *b)
{
	uint64_t x = ((const struct race_scan_slot *)a)->block->hash,
		 y = ((const struct race_scan_slot *)b)->block->hash;

	return (x > y) - (x < y);
}

int
race_scan(struct far_index *ix, struct far_task *t, uint64_t *cursor, size_t inline_max,
	  struct far_entry **entries, bool *last)
{
	struct race *r = race_of(ix);
	uint64_t from = *cursor;
	struct race_scan_slot *s;
	struct race_part part;
	struct far_entry *e;
	unsigned n = 0, out = 0, run = 0;
	int err;

	if ((err = race_walk(r, t, cursor, &part, last)) != 0)
		return err;
	s = far_scratch(t, part.words_n * sizeof(*s));
	e = far_scratch(t, part.words_n * sizeof(*e));
	if (!s || !e)
		return -FAR_ENOMEM;
	for (unsigned i = 0; i < part.words_n; i++) {
		if (part.words[i] & RACE_FROZEN && far_zoo(r->zoo, ZOO_SCAN_SKIPS_FROZEN))
			continue;
		if (!race_is_header(i) && race_slot_live(part.words[i]))
			s[n++].word = part.words[i];
	}
	FAR_ASSERT(n <= part.words_n);
	if ((err = race_scan_read(r, t, s, n, inline_max)) != 0)
		return err;
	qsort(s, n, sizeof(*s), race_by_hash);
	for (unsigned i = 0; i < n; i++) {
		/* `run`: where the slots of this hash start. */
		if (i && s[i].block->hash != s[i - 1].block->hash)
			run = i;
		if ((err = race_scan_entry(&s[i], &e[out])) != 0)
			return err;
		/* A walk that starts inside a subtable has had the part before. */
		if (race_reverse(s[i].block->hash) >= from &&
		    !race_scan_seen(s + run, i - run, s[i].block))
			out++;
	}
	FAR_ASSERT(out <= n);
	*entries = e;
	return (int)out;
}
