/* SPDX-License-Identifier: Apache-2.0 */
/* check_test.c -- whatever is wrong with a table's memory is found, said, and outlived by those who read it. */
#include "index/common/block.h"
#include "index/race/bench.h"
#include "pool/client.h"

enum { CHECK_KEYS = 60 };

struct check {
	struct bench b;
	struct race *r;
	struct far_task *t;
	char said[8192]; /* by the last verification */
};

static void
check_note(void *arg, const char *line)
{
	struct check *c = arg;

	snprintf(c->said + strlen(c->said), sizeof(c->said) - strlen(c->said), "%s\n# ", line);
}

static int
check_run(struct check *c)
{
	int found;

	c->said[0] = '\0';
	REQUIRE(pool_enter(c->b.pool, c->t) == 0);
	found = race_check(c->b.ix, c->t, check_note, c);
	CHECK_EQ(race_check(c->b.ix, c->t, NULL, NULL), found);
	CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
	return found;
}

static void *
check_at(struct check *c, struct far_addr a)
{
	return world_region(c->b.w, far_addr_node(a)) + far_addr_off(a);
}

/* The slot of a key, where it stands. */
static uint64_t *
check_slot(struct check *c, const char *key)
{
	struct far_scratch_mark mark = far_scratch_mark(c->t);
	struct race_match *hit = NULL;
	struct race_matches m;
	struct race_view v;

	REQUIRE(pool_enter(c->b.pool, c->t) == 0);
	REQUIRE(race_lookup(c->r, c->t, race_hash(c->r, far_str(key)), &v) == 0);
	race_view_match(&v, false, &m);
	REQUIRE(race_find(c->r, c->t, &m, far_str(key), &hit) == 0 && hit);
	CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
	far_scratch_reset(c->t, mark);
	return check_at(c, hit->addr);
}

/* Writes `value` at `at`, verifies, and puts back what was there: something must be found, `want` among it. */
static void
check_find(struct check *c, uint64_t *at, uint64_t value, const char *want)
{
	uint64_t good = *at;

	int found;

	*at = value;
	/* Where a walk over all cannot go on, that is an error besides. */
	found = check_run(c);
	CHECK(found > 0 || found == -FAR_ECORRUPT);
	if (!strstr(c->said, want))
		printf("# found %s, not '%s'\n", c->said, want);
	CHECK(strstr(c->said, want));
	*at = good;
}

static void
check_slots(struct check *c)
{
	uint64_t *slot = check_slot(c, "key 7"), *other = check_slot(c, "key 8"), *far_off, *empty;
	struct race_fate_line *line = check_at(c, race_unpack(c->r->dir[0]));
	uint64_t *words = (void *)(line + 1), hash = race_hash(c->r, FAR_STR("key 7"));

	check_find(c, slot, *slot | RACE_FROZEN, "is frozen");
	check_find(c, slot, *slot | RACE_TENTATIVE, "is tentative");
	check_find(c, slot, *slot ^ (uint64_t)3 << 56, "its fingerprint is not its key's");
	check_find(c, slot, *slot | RACE_ADDR_MASK, "points outside every block");
	check_find(c, slot, (*slot & ~RACE_ADDR_MASK) | 1, "its block is damaged"); /* in the superblock */
	check_find(c, slot, *slot | (uint64_t)0x7f << 49, "points outside every block");
	check_find(c, other, *slot, "two slots point to block");
	check_find(c, words, line->ident ^ 1, "header of bucket 0 is damaged");
	check_find(c, &line->fate, RACE_FATE(RACE_FATE_CLAIMED, pool_serial(c->b.pool)), "a split is unfinished");
	/* A slot of the same key in a subtable of others. */
	far_off = check_at(c, race_unpack(c->r->dir[race_suffix(~hash, c->r->depth)]));
	far_off += RACE_FATE_LEN / 8 + 1;
	check_find(c, far_off, *slot, "its key belongs to another subtable");
	/* One key in two slots that it may use, and in one that it may not. */
	line = check_at(c, race_unpack(c->r->dir[race_suffix(hash, c->r->depth)]));
	words = (void *)(line + 1);
	empty = words;
	while (race_is_header((uint64_t)(empty - words)) || *empty)
		empty++;
	check_find(c, empty, *slot, "two slots point to block");
	CHECK(strstr(c->said, "holds a key twice") || strstr(c->said, "does not hash to this bucket"));
}

static void
check_blocks(struct check *c)
{
	uint64_t *slot = check_slot(c, "key 7");
	struct block *b = check_at(c, race_unpack(*slot));
	uint64_t was[16];

	memcpy(was, b, sizeof(was));
	check_find(c, &b->sum, b->sum ^ 1, "its block is damaged");
	check_find(c, &b->version, b->version + 1, "its block is damaged");
	/* Whole, but with a hash that only agrees in what a slot and a directory know of it. */
	block_make(b, b->hash ^ (uint64_t)1 << 40, b->version, FAR_STR("key 7"), FAR_STR("8 bytes."));
	CHECK(check_run(c) > 0);
	CHECK(strstr(c->said, "its hash is not its key's"));
	memcpy(b, was, sizeof(was));
}

static void
check_directory(struct check *c)
{
	uint64_t *dir = check_at(c, race_unpack(c->r->root)), i = 2;

	REQUIRE(c->r->depth >= 2);
	while (race_dir_depth(dir[i]) < 2 || dir[i] == dir[i & 1])
		i++;
	check_find(c, &dir[i], race_dir(1, race_unpack(dir[i])),
		   i & 1 ? "differs from word 1 of the same subtable" : "differs from word 0 of the same subtable");
}

/* What readers do with the same. */
static void
check_reads(struct check *c)
{
	uint64_t *slot = check_slot(c, "key 7"), good = *slot;
	uint64_t *dir = check_at(c, race_unpack(c->r->root)), *head = check_at(c, race_head_at(c->r, 0));
	struct block *b = check_at(c, race_unpack(*slot));

	*slot = good | RACE_ADDR_MASK;
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "key 7"), -FAR_ECORRUPT);
	*slot = good | (uint64_t)0x7f << 49; /* no such class */
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "key 7"), -FAR_ECORRUPT);
	*slot = good;
	b->sum ^= 1;
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "key 7"), -FAR_ECORRUPT);
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_DELETE, "key 7"), -FAR_ECORRUPT);
	b->sum ^= 1;
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "key 7"), 0);
	/* Words of the directory and its root, for who reads them anew. */
	for (unsigned i = 0; i < 4; i++) {
		uint64_t *at = i < 2 ? dir : &head[offsetof(struct race_head, root) / 8], was = *at;

		*at = i == 0 ? was | RACE_ADDR_MASK : i == 1 ? was | (uint64_t)0x7f << 56
					      : i == 2       ? was | RACE_ADDR_MASK
							     : was | RACE_DIR_FROZEN;
		REQUIRE(pool_enter(c->b.pool, c->t) == 0);
		CHECK_EQ(race_refresh(c->r, c->t, true), -FAR_ECORRUPT);
		*at = was;
		CHECK_EQ(race_refresh(c->r, c->t, true), 0);
		CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
	}
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "key 7"), 0);
}

static int
check_scan(struct check *c)
{
	struct far_scratch_mark mark = far_scratch_mark(c->t);
	struct far_entry *entries;
	uint64_t cursor = 0;
	bool last = false;
	int n = 0, got = 0;

	REQUIRE(pool_enter(c->b.pool, c->t) == 0);
	while (!last && got >= 0) {
		far_scratch_reset(c->t, mark);
		got = race_scan(c->b.ix, c->t, &cursor, 100, &entries, &last);
		n += got;
	}
	CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
	far_scratch_reset(c->t, mark);
	return got < 0 ? got : n;
}

/* A split that was decided as none can have been: whoever follows it stays where it is. */
static void
check_fates(struct check *c)
{
	struct race_view v;
	struct race_fate_line *line, good;
	uint64_t ok, bad = RACE_ADDR_MASK, hash = race_hash(c->r, FAR_STR("key 7"));

	REQUIRE(pool_enter(c->b.pool, c->t) == 0);
	REQUIRE(race_lookup(c->r, c->t, hash, &v) == 0);
	line = check_at(c, v.subtable);
	good = *line;
	ok = race_pack(v.subtable);
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT); /* it is not split */
	line->fate = RACE_FATE(RACE_FATE_DECIDED, bad);
	line->high = ok;
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT);
	line->fate = RACE_FATE(RACE_FATE_DECIDED, ok);
	line->high = bad;
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT);
	line->high = 0;
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT);
	line->high = ok;
	line->ident ^= 1;
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT);
	line->ident ^= 1;
	v.depth = RACE_DEPTH_MAX; /* and no deeper */
	CHECK_EQ(race_follow(c->r, c->t, &v), -FAR_ECORRUPT);
	*line = good;
	CHECK_EQ(race_refresh(c->r, c->t, true), 0);
	CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
}

/* Where a step of a scan cuts a block after its key, the rest of it is not verified; its lengths are. */
static void
check_cuts(struct check *c)
{
	static char wide[200000];
	struct far_scratch_mark mark = far_scratch_mark(c->t);
	uint64_t version = 0;
	struct block *b, good;

	REQUIRE(pool_enter(c->b.pool, c->t) == 0);
	CHECK_EQ(race_put(c->b.ix, c->t, FAR_PUT_INSERT, FAR_STR("wide"), far_bytes(wide, sizeof(wide)), &version), 0);
	CHECK_EQ(pool_leave(c->b.pool, c->t), 0);
	far_scratch_reset(c->t, mark);
	b = check_at(c, race_unpack(*check_slot(c, "wide")));
	good = *b;
	CHECK_EQ(check_scan(c), CHECK_KEYS + 1);
	b->key_len = 0;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	b->key_len = FAR_KEY_MAX + 1;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	*b = good;
	b->value_len = 1 << 20;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	*b = good;
	CHECK_EQ(check_scan(c), CHECK_KEYS + 1);
}

static uint64_t check_hash_word;

/* Six bits of a hash are the key's, all others agree: what one bucket can hold of such keys is little. */
static uint64_t
check_same_hash(const void *key, size_t len, uint64_t seed)
{
	(void)key;
	(void)len;
	(void)seed;
	return check_hash_word;
}

/* Keys of one hash, a whole bucket of them: they are told apart by their bytes, by everybody. */
static void
check_one_hash(struct check *c)
{
	uint64_t (*was)(const void *key, size_t len, uint64_t seed) = c->r->hash;
	int before = check_scan(c);
	char key[32];

	CHECK_EQ(before, CHECK_KEYS);
	check_hash_word = far_mix64(7);
	c->r->hash = check_same_hash;
	for (unsigned i = 0; i < 6; i++)
		CHECK_EQ(bench_op(&c->b, c->t, BENCH_INSERT, bench_key(key, "same", i)), 0);
	for (unsigned i = 0; i < 6; i++)
		CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, bench_key(key, "same", i)), 0);
	CHECK_EQ(bench_op(&c->b, c->t, BENCH_GET, "same but longer"), -FAR_ENOENT);
	CHECK_EQ(check_scan(c), CHECK_KEYS + 6);
	for (unsigned i = 0; i < 6; i++)
		CHECK_EQ(bench_op(&c->b, c->t, BENCH_DELETE, bench_key(key, "same", i)), 0);
	c->r->hash = was;
	CHECK_EQ(check_scan(c), CHECK_KEYS);
}

/* A slot or a block that cannot be, for who walks over all. */
static void
check_scans(struct check *c)
{
	uint64_t *slot = check_slot(c, "key 9"), good = *slot;
	struct block *b = check_at(c, race_unpack(*slot));

	*slot = good | RACE_ADDR_MASK;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	*slot = good;
	b->key_len += UINT32_MAX / 2;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	b->key_len -= UINT32_MAX / 2;
	b->hash ^= 1;
	CHECK_EQ(check_scan(c), -FAR_ECORRUPT);
	b->hash ^= 1;
	CHECK_EQ(check_scan(c), CHECK_KEYS);
}

static void (*check_body)(struct check *c);

static void
check_fiber(struct far_task *t, void *arg)
{
	struct check *c = arg;
	char key[32];

	bench_open(&c->b, t, true, 1);
	c->r = race_of(c->b.ix);
	c->t = t;
	for (unsigned i = 0; i < CHECK_KEYS; i++)
		CHECK_EQ(bench_op(&c->b, t, BENCH_INSERT, bench_key(key, "key", i)), 0);
	check_body(c);
	CHECK_EQ(check_run(c), 0);
	for (unsigned i = 0; i < CHECK_KEYS; i++)
		CHECK_EQ(bench_op(&c->b, t, BENCH_GET, bench_key(key, "key", i)), 0);
	bench_close(&c->b, t);
}

static void
check_world(void (*body)(struct check *c))
{
	struct check c = { .b = { .w = NULL } };

	c.b.w = world_open("sim", 1, 4 << 20, 11);
	check_body = body;
	world_run(c.b.w, check_fiber, &c);
	world_close(c.b.w);
}

static void
test_race_check_finds_what_is_wrong_with_slots(void)
{
	check_world(check_slots);
}

static void
test_race_check_finds_what_is_wrong_with_blocks(void)
{
	check_world(check_blocks);
}

static void
test_race_check_finds_what_is_wrong_with_the_directory(void)
{
	check_world(check_directory);
}

static void
test_race_damage_is_ecorrupt_for_readers_until_it_is_gone(void)
{
	check_world(check_reads);
}

static void
test_race_damage_is_ecorrupt_for_scans_until_it_is_gone(void)
{
	check_world(check_scans);
}

static void
test_race_fate_that_cannot_be_is_not_followed(void)
{
	check_world(check_fates);
}

static void
test_race_scan_of_cut_blocks_trusts_no_length(void)
{
	check_world(check_cuts);
}

static void
test_race_keys_of_one_hash_are_told_apart(void)
{
	check_world(check_one_hash);
}

TEST_MAIN(TEST(test_race_check_finds_what_is_wrong_with_slots),
	  TEST(test_race_check_finds_what_is_wrong_with_blocks),
	  TEST(test_race_check_finds_what_is_wrong_with_the_directory),
	  TEST(test_race_damage_is_ecorrupt_for_readers_until_it_is_gone),
	  TEST(test_race_damage_is_ecorrupt_for_scans_until_it_is_gone),
	  TEST(test_race_fate_that_cannot_be_is_not_followed),
	  TEST(test_race_scan_of_cut_blocks_trusts_no_length), TEST(test_race_keys_of_one_hash_are_told_apart))
