/* SPDX-License-Identifier: Apache-2.0 */
/* check.c -- walking the whole table: sizes, and every invariant that one can see from outside. */
#include <stdarg.h>

#include "base/base.h"
#include "index/race/race.h"

struct race_checker {
	struct race *r;
	struct far_task *task;
	far_report_fn *report;
	void *arg;
	int violations;
	uint64_t *blocks;      /* addresses of all blocks met */
	size_t blocks_n, blocks_max;
};

static void __attribute__((format(printf, 2, 3)))
race_report(struct race_checker *c, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	c->violations++;
	if (c->report)
		c->report(c->arg, line);
}

/* Words of the directory: depths fit, and all words of one subtable agree. */
static void
race_check_directory(struct race_checker *c)
{
	struct race *r = c->r;

	FAR_ASSERT(r->dir && r->depth <= RACE_DEPTH_MAX);
	for (uint64_t i = 0; i < (uint64_t)1 << r->depth; i++) {
		uint64_t w = r->dir[i];
		unsigned depth = race_dir_depth(w);

		if (depth > r->depth)
			race_report(c, "directory word %llu: depth %u in a directory of depth %u",
				    (unsigned long long)i, depth, r->depth);
		else if (r->dir[race_suffix(i, depth)] != w)
			race_report(c,
				    "directory word %llu differs from word %u of the same subtable",
				    (unsigned long long)i, race_suffix(i, depth));
	}
}

static int
race_check_note(struct race_checker *c, uint64_t packed)
{
	if (c->blocks_n == c->blocks_max) {
		size_t max = c->blocks_max ? 2 * c->blocks_max : 4096;
		uint64_t *grown = realloc(c->blocks, max * sizeof(*grown));

		if (!grown)
			return -FAR_ENOMEM;
		c->blocks = grown;
		c->blocks_max = max;
	}
	FAR_ASSERT(c->blocks_n < c->blocks_max && packed <= RACE_ADDR_MASK);
	c->blocks[c->blocks_n++] = packed;
	return 0;
}

/* Is slot word `i` of a subtable one of the 28 that a key of `hash` may use? */
static bool
race_check_place(struct race *r, const struct race_part *p, uint64_t hash, unsigned i)
{
	struct race_view v;
	uint64_t off = RACE_FATE_LEN + (uint64_t)i * 8;

	FAR_ASSERT(i < p->words_n && !race_is_header(i));
	race_locate(r, hash, &v);
	for (int pair = 0; pair < 2; pair++) {
		uint64_t from = v.pair[pair].raw - v.subtable.raw;

		if (v.subtable.raw == p->at.raw && off >= from && off < from + RACE_PAIR_LEN)
			return true;
	}
	return false;
}

/* Everything about the block of slot `i`. False: its bytes are no block, and nothing in it may be relied on. */
static bool
race_check_block(struct race_checker *c, const struct race_part *p, unsigned i,
		 const struct block *b)
{
	uint64_t word = p->words[i];
	bool sound = block_verify(b, pool_class_len(race_slot_class(word))) == 0;
	const char *what = NULL;

	FAR_ASSERT(race_slot_live(word));
	if (!sound)
		what = "its block is damaged";
	else if (race_suffix(b->hash, p->depth) != p->suffix)
		what = "its key belongs to another subtable";
	else if ((uint8_t)(b->hash >> 56) != race_slot_fp(word))
		what = "its fingerprint is not its key's";
	else if (b->hash != race_hash(c->r, block_key(b)))
		what = "its hash is not its key's";
	else if (!race_check_place(c->r, p, b->hash, i))
		what = "its key does not hash to this bucket";
	if (what)
		race_report(c, "subtable %x/%u slot %u: %s", p->suffix, p->depth, i, what);
	return sound;
}

static int
race_block_order(const void *a, const void *b)
{
	const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return 0;
}

/* No key twice (R1), of blocks that were verified. */
static void
race_check_twice(struct race_checker *c, const struct race_part *p, struct block **blocks,
		 unsigned n)
{
	FAR_ASSERT(n <= p->words_n);
	qsort(blocks, n, sizeof(*blocks), race_block_order);
	for (unsigned i = 0; i < n; i++) {
		for (unsigned k = i + 1; k < n && blocks[k]->hash == blocks[i]->hash; k++) {
			if (blocks[k]->key_len == blocks[i]->key_len &&
			    memcmp(blocks[k]->bytes, blocks[i]->bytes, blocks[i]->key_len) == 0)
				race_report(c, "subtable %x/%u holds a key twice", p->suffix,
					    p->depth);
		}
	}
}

/* Everything about one slot but its block. 1: its block is to be read. */
static int
race_check_word(struct race_checker *c, const struct race_part *p, unsigned i)
{
	uint64_t word = p->words[i];

	FAR_ASSERT(i < p->words_n);
	if (race_is_header(i)) {
		if (word != p->line->ident)
			race_report(c, "subtable %x/%u: header of bucket %u is damaged", p->suffix,
				    p->depth, i / RACE_BUCKET_WORDS);
		return 0;
	}
	if (word & RACE_FROZEN)
		race_report(c, "subtable %x/%u slot %u is frozen", p->suffix, p->depth, i);
	if (word & RACE_TENTATIVE)
		race_report(c, "subtable %x/%u slot %u is tentative", p->suffix, p->depth, i);
	if (!race_slot_live(word))
		return 0;
	if (race_check_slot(c->r, c->task, word)) {
		race_report(c, "subtable %x/%u slot %u points outside every block", p->suffix,
			    p->depth, i);
		return 0;
	}
	return 1;
}

static int
race_check_part(struct race_checker *c, const struct race_part *p)
{
	struct far_task *t = c->task;
	struct block **blocks = far_scratch(t, p->words_n * sizeof(*blocks));
	unsigned *slot = far_scratch(t, p->words_n * sizeof(*slot)), n = 0, sound = 0;
	int err = blocks && slot ? 0 : -FAR_ENOMEM;

	FAR_ASSERT(p->words_n == c->r->groups * 3 * RACE_BUCKET_WORDS);
	if (RACE_FATE_KIND(p->line->fate) != RACE_FATE_NONE)
		race_report(c, "subtable %x/%u: a split is unfinished", p->suffix, p->depth);
	for (unsigned i = 0; i < p->words_n && !err; i++) {
		uint64_t word = p->words[i], len = pool_class_len(race_slot_class(word));

		if (!race_check_word(c, p, i))
			continue;
		blocks[n] = far_scratch(t, len);
		if (!blocks[n] || race_check_note(c, word & RACE_ADDR_MASK)) {
			far_forget(t);
			return -FAR_ENOMEM;
		}
		slot[n] = i;
		far_read(t, race_unpack(word), blocks[n], len);
		if (++n % RACE_BATCH == 0)
			err = far_wait(t);
	}
	if (err || (err = far_wait(t)) != 0)
		return err;
	FAR_ASSERT(n <= p->words_n);
	for (unsigned i = 0; i < n; i++) {
		if (race_check_block(c, p, slot[i], blocks[i]))
			blocks[sound++] = blocks[i];
	}
	race_check_twice(c, p, blocks, sound);
	return 0;
}

static int
race_word_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int
race_check(struct far_index *ix, struct far_task *t, far_report_fn *report, void *arg)
{
	struct race *r = race_of(ix);
	struct race_checker c = { .r = r, .task = t, .report = report, .arg = arg };
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct race_part part;
	uint64_t cursor = 0;
	bool last = false;
	int err = race_refresh(r, t, true);

	FAR_ASSERT(pool_is_inside(t));
	if (!err)
		race_check_directory(&c);
	while (!err && !last) {
		far_scratch_reset(t, mark);
		err = race_walk(r, t, &cursor, &part, &last);
		if (!err)
			err = race_check_part(&c, &part);
	}
	if (c.blocks_n)
		qsort(c.blocks, c.blocks_n, sizeof(*c.blocks), race_word_order);
	for (size_t i = 1; i < c.blocks_n; i++) {
		if (c.blocks[i] == c.blocks[i - 1])
			race_report(&c, "two slots point to block %llx",
				    (unsigned long long)c.blocks[i]);
	}
	free(c.blocks);
	return err ? err : c.violations;
}

int
race_stat(struct far_index *ix, struct far_task *t, struct far_table_stat *out)
{
	struct race *r = race_of(ix);
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct race_root_line line;
	struct race_part part;
	uint64_t cursor = 0;
	bool last = false;
	int err;

	FAR_ASSERT(pool_is_inside(t));
	*out = (struct far_table_stat){ .design = "race" };
	while (!last) {
		far_scratch_reset(t, mark);
		if ((err = race_walk(r, t, &cursor, &part, &last)) != 0)
			return err;
		out->subtables++;
		for (unsigned i = 0; i < part.words_n; i++) {
			if (!race_is_header(i) && race_slot_live(part.words[i])) {
				out->keys++;
				out->block_bytes += pool_class_len(race_slot_class(part.words[i]));
			}
		}
	}
	far_read(t, race_head_at(r, offsetof(struct race_head, root)), &line, sizeof(line));
	if ((err = far_wait(t)) != 0 || (err = race_check_root(r, t, line.root)) != 0)
		return err;
	out->splits = line.splits;
	out->depth = race_dir_depth(line.root);
	out->slots = out->subtables * r->groups * 3 * RACE_SLOTS;
	FAR_ASSERT(out->keys <= out->slots);
	out->index_bytes = out->subtables * pool_class_len(r->subtable_class) +
			   pool_class_len(pool_class_of(sizeof(uint64_t) << out->depth)) +
			   pool_class_len(pool_class_of(RACE_HEAD_LEN));
	return 0;
}
