/* SPDX-License-Identifier: Apache-2.0 */
/* Half-done work of others, laid out by hand in the table's memory, is mended without loss. */
#include "base/base.h"
#include "conform/world.h"
#include "fabric/sim.h"
#include "index/race/race.h"
#include "pool/client.h"
#include "test.h"

struct mend {
	struct world *w;
	unsigned nodes_n, groups;
	void (*body)(struct mend *m, struct far_task *t);
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
	struct race *r;
	struct far_addr at;
	unsigned left; /* fibers at work */
	int errors;
};

static void
mend_fiber(struct far_task *t, void *arg)
{
	struct mend *m = arg;
	struct far_index_opts o = { .groups = m->groups };
	struct far_addr head;

	REQUIRE(pool_open(t, NULL, &m->pool) == 0);
	REQUIRE(pool_table_new(m->pool, t, "t", "race", &m->pt) == 0);
	REQUIRE(race_create(m->pt, t, &o, &head) == 0);
	REQUIRE(pool_table_commit(m->pt, t, head) == 0);
	REQUIRE(pool_enter(m->pool, t) == 0);
	REQUIRE(far_index_open(far_index_find("race"), m->pt, t, &o, &m->ix) == 0);
	m->r = race_of(m->ix);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	m->body(m, t);
	pool_table_detach(m->pt, t);
	race_close(m->ix);
	(void)pool_table_close(m->pt, t);
	(void)pool_close(m->pool, t);
}

static void
mend_run(void (*body)(struct mend *m, struct far_task *t), unsigned nodes_n, unsigned groups)
{
	struct mend m = { .nodes_n = nodes_n, .groups = groups, .body = body };

	m.w = world_open("sim", nodes_n, 4 << 20, 5);
	world_run(m.w, mend_fiber, &m);
	world_close(m.w);
}

static struct far_bytes
mend_key(char buf[32], unsigned i)
{
	snprintf(buf, 32, "key %u", i);
	return far_str(buf);
}

static int
mend_insert(struct mend *m, struct far_task *t, unsigned i)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint64_t version = 0;
	char buf[32];
	int err;

	REQUIRE(pool_enter(m->pool, t) == 0);
	err = race_put(m->ix, t, FAR_PUT_INSERT, mend_key(buf, i), FAR_STR("value"), &version);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	far_scratch_reset(t, mark);
	return err;
}

static int
mend_get(struct mend *m, struct far_task *t, unsigned i)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct far_value v;
	char buf[32];
	int err;

	REQUIRE(pool_enter(m->pool, t) == 0);
	err = race_get(m->ix, t, mend_key(buf, i), &v);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	far_scratch_reset(t, mark);
	return err;
}

static void
mend_check(struct mend *m, struct far_task *t, unsigned keys)
{
	for (unsigned i = 0; i < keys; i++)
		CHECK_EQ(mend_get(m, t, i), 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	CHECK_EQ(race_check(m->ix, t, NULL, NULL), 0);
	CHECK_EQ(pool_leave(m->pool, t), 0);
}

/* A split that cannot go on (a node with blocks of its keys is gone) costs no memory, however often it is tried. */
static uint64_t
mend_index_parts(const struct mend *m)
{
	uint64_t used = 0;

	for (struct pool_heap *h = m->pt->arena->list; h; h = h->next)
		used += h->kind == POOL_INDEX ? pool_heap_used(h) : 0;
	return used;
}

static void
body_node_down(struct mend *m, struct far_task *t)
{
	unsigned errors = 0;
	uint64_t used;

	/* Enough for subtables and room for more of them on both nodes. */
	for (unsigned i = 0; i < 60; i++)
		CHECK_EQ(mend_insert(m, t, i), 0);
	used = mend_index_parts(m);
	world_node_down(m->w, 1);
	for (unsigned i = 60; i < 160; i++)
		errors += mend_insert(m, t, i) != 0;
	CHECK(errors > 20);
	CHECK(mend_index_parts(m) <= used + 2);
}

static void
test_race_split_that_fails_gives_its_memory_back(void)
{
	mend_run(body_node_down, 2, 1);
}

static int
mend_reach(struct mend *m, struct far_task *t, struct far_addr addr, uint64_t hash, bool index)
{
	struct far_index_part part = { .addr = addr, .hash = hash };

	race_reach(m->ix, t, &part, 1, index);
	return part.reached;
}

/* A scavenger meets a dead client's tentative slot while a live one freezes the subtable. */
static void
body_frozen_tentative(struct mend *m, struct far_task *t)
{
	uint64_t old, word, now, hash = race_hash(m->r, FAR_STR("key"));
	struct far_addr block, slot;
	struct race_view v;

	CHECK_EQ(pool_enter(m->pool, t), 0);
	REQUIRE(pool_alloc(m->pt, t, 0, POOL_BLOCKS, 0, &block) == 0);
	REQUIRE(race_lookup(m->r, t, hash, &v) == 0 && race_view_empty(&v, &slot));
	word = race_slot(v.fp, 0, block) | RACE_TENTATIVE;
	far_cas(t, slot, 0, word, &old);
	far_cas(t, v.subtable, 0, RACE_FATE(RACE_FATE_CLAIMED, pool_serial(m->pool)), &old);
	far_faa(t, slot, RACE_FROZEN, &old);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(mend_reach(m, t, block, hash, false), 0);
	far_read(t, slot, &now, sizeof(now));
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(now, word | RACE_FROZEN);
	CHECK_EQ(pool_leave(m->pool, t), 0);
}

static void
test_race_reach_of_a_frozen_tentative_slot_leaves_it_frozen(void)
{
	mend_run(body_frozen_tentative, 1, 1);
}

/* Most of a dead client's chunk was never used: one look tells that of all these blocks, and which one of them is. */
static void
body_reach_row(struct mend *m, struct far_task *t)
{
	struct far_count count = { 0 }, *before;
	struct far_index_part row[40];
	struct far_addr slot;
	struct race_view v;
	uint64_t old;

	CHECK_EQ(pool_enter(m->pool, t), 0);
	for (unsigned i = 0; i < FAR_LEN(row); i++) {
		row[i] = (struct far_index_part){ .hash = 0 };
		REQUIRE(pool_alloc(m->pt, t, 0, POOL_BLOCKS, 0, &row[i].addr) == 0);
	}
	REQUIRE(race_lookup(m->r, t, 0, &v) == 0 && race_view_empty(&v, &slot));
	far_cas(t, slot, 0, race_slot(v.fp, 0, row[7].addr), &old);
	CHECK_EQ(far_wait(t), 0);
	before = far_account(t, &count);
	race_reach(m->ix, t, row, FAR_LEN(row), false);
	far_account(t, before);
	CHECK_EQ(count.round_trips, 1);
	for (unsigned i = 0; i < FAR_LEN(row); i++)
		CHECK_EQ(row[i].reached, i == 7);
	CHECK_EQ(pool_leave(m->pool, t), 0);
}

static void
test_race_reach_of_a_row_of_one_hash_looks_once(void)
{
	mend_run(body_reach_row, 1, 1);
}

enum { MEND_PARTS = 64 };

/* The subtables that the directory names now. */
static unsigned
mend_parts(struct mend *m, struct far_task *t, struct far_addr part[MEND_PARTS])
{
	unsigned n = 0;

	CHECK_EQ(race_refresh(m->r, t, true), 0);
	for (uint64_t i = 0; i < (uint64_t)1 << m->r->depth; i++) {
		if (race_suffix(i, race_dir_depth(m->r->dir[i])) == i && n < MEND_PARTS)
			part[n++] = race_unpack(m->r->dir[i]);
	}
	return n;
}

/* Several clients died, each after its split was decided and before a directory word was switched. */
static void
body_generations(struct mend *m, struct far_task *t)
{
	struct far_addr first = race_unpack(m->r->dir[0]), part[MEND_PARTS];
	uint64_t word = race_dir(0, first);
	unsigned n;

	for (unsigned i = 0; i < 100; i++)
		CHECK_EQ(mend_insert(m, t, i), 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	n = mend_parts(m, t, part);
	CHECK(n > 4);
	for (uint64_t i = 0; i < (uint64_t)1 << m->r->depth; i++)
		far_write(t, far_addr_add(race_unpack(m->r->root), i * 8), &word, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(race_recover(m->ix, t), 0);
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(mend_reach(m, t, part[i], 0, true), 1);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	mend_check(m, t, 100);
}

static void
test_race_recover_finishes_splits_of_several_generations(void)
{
	mend_run(body_generations, 1, 1);
}

struct mend_writer {
	struct mend *m;
	unsigned first;
};

enum { MEND_FIBERS = 32 };

static void
mend_writer(struct far_task *t, void *arg)
{
	struct mend_writer *w = arg;

	for (unsigned i = 0; i < 4; i++)
		w->m->errors += mend_insert(w->m, t, w->first + i * MEND_FIBERS) != 0;
	w->m->left--;
}

static void
mend_writers(struct mend *m, struct far_task *t)
{
	struct mend_writer w[MEND_FIBERS];

	m->left = MEND_FIBERS;
	for (unsigned i = 0; i < MEND_FIBERS; i++) {
		w[i] = (struct mend_writer){ m, i };
		REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), mend_writer, &w[i], 0) == 0);
	}
	while (m->left)
		far_sleep(t, 100000);
	CHECK_EQ(m->errors, 0);
	mend_check(m, t, 4 * MEND_FIBERS);
}

static void
mend_taker(struct far_task *t, void *arg)
{
	uint64_t fate = RACE_FATE(RACE_FATE_CLAIMED, pool_serial(((struct mend *)arg)->pool));
	struct mend *m = arg;
	struct race_view v;
	int err;

	CHECK_EQ(pool_enter(m->pool, t), 0);
	race_locate(m->r, 0, &v);
	CHECK_EQ(v.subtable.raw, m->at.raw);
	err = race_take_over(m->r, t, &v, fate);
	CHECK(err == 0 || err == RACE_BEATEN);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	m->left--;
}

/* An operation of ours claimed the subtable and ended in an error. Several fibers find that at once. */
static void
body_own_claim(struct mend *m, struct far_task *t)
{
	uint64_t old;

	for (unsigned i = 0; i < 4 * MEND_FIBERS; i++)
		CHECK_EQ(mend_insert(m, t, i), 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	CHECK_EQ(race_double(m->r, t, 0), 0);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	m->at = race_unpack(m->r->dir[0]);
	far_cas(t, m->at, 0, RACE_FATE(RACE_FATE_CLAIMED, pool_serial(m->pool)), &old);
	CHECK_EQ(far_wait(t), 0);
	for (m->left = 0; m->left < 4; m->left++)
		REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), mend_taker, m, 0) == 0);
	while (m->left)
		far_sleep(t, 100000);
	/* The head, the directory and both children. */
	CHECK_EQ(mend_index_parts(m), 4);
	mend_check(m, t, 4 * MEND_FIBERS);
}

static void
test_race_forgotten_claim_is_taken_over_by_one_of_many_fibers(void)
{
	mend_run(body_own_claim, 1, 32);
}

static void
test_race_fibers_at_one_full_subtable_split_it_once(void)
{
	mend_run(mend_writers, 2, 1);
}

/* The fate of the only subtable names itself as both children. */
static void
body_circle(struct mend *m, struct far_task *t)
{
	struct far_addr at = race_unpack(m->r->dir[0]);
	uint64_t self = race_pack(at), fate = RACE_FATE(RACE_FATE_DECIDED, self), old;

	CHECK_EQ(mend_insert(m, t, 0), 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	CHECK_EQ(race_double(m->r, t, 0), 0);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	for (unsigned i = 1; i < m->groups * 3 * RACE_BUCKET_WORDS; i++) {
		if (i % RACE_BUCKET_WORDS)
			far_faa(t, far_addr_add(at, RACE_FATE_LEN + i * 8), RACE_FROZEN, &old);
	}
	far_write(t, far_addr_add(at, offsetof(struct race_fate_line, high)), &self, 8);
	far_write(t, at, &fate, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK(mend_get(m, t, 0) < 0);
	CHECK(mend_insert(m, t, 1) < 0);
	CHECK(mend_insert(m, t, 2) < 0);
}

static void
test_race_circle_of_fates_ends_in_an_error(void)
{
	mend_run(body_circle, 1, 1);
}

/* Changes the root word as soon as somebody doubles. */
static void
mend_spoiler(struct far_task *t, void *arg)
{
	struct mend *m = arg;
	struct race_head *head = (void *)(world_region(m->w, 0) + far_addr_off(m->pt->head));

	while (!head->doubling && m->left)
		far_sleep(t, 200);
	head->root ^= (uint64_t)1 << 47;
}

static void
body_root_changes(struct mend *m, struct far_task *t)
{
	m->left = 1;
	REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), mend_spoiler, m, 0) == 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	CHECK_EQ(race_double(m->r, t, 0), -FAR_ECORRUPT);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	m->left = 0;
}

static void
test_race_root_that_changes_under_the_lock_is_an_error(void)
{
	mend_run(body_root_changes, 1, 1);
}

/* The root word changes behind the cache of a client, who looks at it only to count or to repair. */
static void
body_root_too_deep(struct mend *m, struct far_task *t)
{
	struct race_head *head = (void *)(world_region(m->w, 0) + far_addr_off(m->pt->head));
	uint64_t root = head->root;
	struct far_table_stat stat;

	CHECK_EQ(pool_enter(m->pool, t), 0);
	head->root = root | (uint64_t)0xff << 56;
	CHECK_EQ(race_stat(m->ix, t, &stat), -FAR_ECORRUPT);
	head->doubling = pool_serial(m->pool) + 1;
	CHECK_EQ(race_recover(m->ix, t), -FAR_ECORRUPT);
	head->doubling = 0;
	head->root = root;
	CHECK_EQ(race_stat(m->ix, t, &stat), 0);
	CHECK_EQ(pool_leave(m->pool, t), 0);
}

static void
test_race_root_too_deep_is_ecorrupt_for_stat_and_recover(void)
{
	mend_run(body_root_too_deep, 1, 1);
}

/* A repair asks for each part whether it is in use: that costs the directory once, not once for each. */
static void
body_reach_all(struct mend *m, struct far_task *t)
{
	struct far_count count = { 0 }, *before;
	struct far_addr part[MEND_PARTS];
	unsigned n;

	for (unsigned i = 0; i < 300; i++)
		CHECK_EQ(mend_insert(m, t, i), 0);
	CHECK_EQ(pool_enter(m->pool, t), 0);
	n = mend_parts(m, t, part);
	CHECK(n > 12);
	before = far_account(t, &count);
	for (unsigned i = 0; i < n; i++) {
		CHECK_EQ(mend_reach(m, t, part[i], 0, true), 1);
		CHECK_EQ(mend_reach(m, t, far_addr_add(part[i], POOL_UNIT), 0, true), 0);
	}
	far_account(t, before);
	/* The root, the directory, and the version. */
	CHECK_EQ(count.round_trips, 3);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	/* It goes when nobody has asked from one refresh to the next. */
	CHECK_EQ(pool_tick(m->pool, t), 0);
	for (unsigned i = 0; i < 8 && m->r->census.parts; i++)
		CHECK_EQ(pool_tick(m->pool, t), 0);
	CHECK(!m->r->census.parts);
}

static void
test_race_reach_of_all_parts_reads_the_directory_once(void)
{
	mend_run(body_reach_all, 1, 1);
}

/* An operation of ours took the doubling lock and ended in an error before it gave it up. */
static void
body_own_lock(struct mend *m, struct far_task *t)
{
	struct race_head *head = (void *)(world_region(m->w, 0) + far_addr_off(m->pt->head));
	uint64_t start = far_now(t);

	head->doubling = pool_serial(m->pool);
	mend_writers(m, t);
	CHECK_EQ(head->doubling, 0);
	CHECK(m->r->depth > 1);
	CHECK(far_now(t) - start < POOL_LEASE_NS / 4);
}

static void
test_race_forgotten_lock_is_taken_by_one_of_many_fibers(void)
{
	mend_run(body_own_lock, 1, 1);
}

/* Is `part` the place of any hash in this cache? */
static bool
mend_names(const struct race *r, struct far_addr part)
{
	bool found = false;

	for (uint64_t i = 0; i < (uint64_t)1 << r->depth; i++)
		found |= race_unpack(r->dir[i]).raw == part.raw;
	return found;
}

/*
 * A client died when all words of its split were switched and the version had not grown. Who scavenges finds the
 * parent in no word, and frees it once every session has refreshed; but who refreshes looks at the version only.
 */
static void
body_version_not_grown(struct mend *m, struct far_task *t)
{
	struct far_addr parent = race_unpack(m->r->dir[0]),
			version = race_head_at(m->r, offsetof(struct race_head, version));
	struct far_index *other;
	uint64_t before;

	REQUIRE(pool_enter(m->pool, t) == 0);
	REQUIRE(race_double(m->r, t, 0) == 0);
	REQUIRE(race_open(m->pt, t, &(struct far_index_opts){ .groups = m->groups }, &other) == 0);
	CHECK_EQ(pool_leave(m->pool, t), 0);
	before = race_of(other)->version;
	for (unsigned i = 0; mend_names(m->r, parent) && i < 100; i++)
		CHECK_EQ(mend_insert(m, t, i), 0);
	CHECK(mend_names(race_of(other), parent) && !mend_names(m->r, parent));
	far_write(t, version, &before, 8);
	CHECK_EQ(far_wait(t), 0);
	REQUIRE(pool_enter(m->pool, t) == 0);
	CHECK_EQ(mend_reach(m, t, parent, 0, true), 0);
	CHECK_EQ(race_index_refresh(other, t), 0);
	CHECK(!mend_names(race_of(other), parent));
	CHECK_EQ(pool_leave(m->pool, t), 0);
	race_close(other);
}

static void
test_race_subtable_found_unreachable_leaves_every_cache_at_its_refresh(void)
{
	mend_run(body_version_not_grown, 1, 1);
}

static void
mend_note_twice(void *arg, const char *line)
{
	bool *twice = arg;

	*twice |= strstr(line, "a key twice") != NULL;
}

/* Two slots name one block, whose length of the key is not to be believed. */
static void
body_damaged_twins(struct mend *m, struct far_task *t)
{
	struct far_addr at = race_unpack(m->r->dir[0]);
	uint64_t *words = (void *)(world_region(m->w, far_addr_node(at)) + far_addr_off(at) + RACE_FATE_LEN);
	unsigned i = 1, twin = 1;
	struct block *b;
	bool twice = false;

	CHECK_EQ(mend_insert(m, t, 0), 0);
	while (race_is_header(i) || !words[i])
		i++;
	while (race_is_header(twin) || words[twin])
		twin++;
	words[twin] = words[i];
	REQUIRE(pool_enter(m->pool, t) == 0);
	CHECK(race_check(m->ix, t, mend_note_twice, &twice) > 0);
	CHECK(twice);
	b = (void *)(world_region(m->w, far_addr_node(race_unpack(words[i]))) + far_addr_off(race_unpack(words[i])));
	for (uint32_t len = b->key_len; len; len = len << 4) {
		twice = false;
		b->key_len = len;
		b->sum = ~b->sum;
		CHECK(race_check(m->ix, t, mend_note_twice, &twice) > 0);
		CHECK(!twice);
	}
	CHECK_EQ(pool_leave(m->pool, t), 0);
}

static void
test_race_check_of_damaged_blocks_does_not_compare_their_keys(void)
{
	mend_run(body_damaged_twins, 1, 1);
}

TEST_MAIN(TEST(test_race_reach_of_a_frozen_tentative_slot_leaves_it_frozen),
	  TEST(test_race_recover_finishes_splits_of_several_generations),
	  TEST(test_race_split_that_fails_gives_its_memory_back),
	  TEST(test_race_forgotten_claim_is_taken_over_by_one_of_many_fibers),
	  TEST(test_race_reach_of_all_parts_reads_the_directory_once),
	  TEST(test_race_reach_of_a_row_of_one_hash_looks_once),
	  TEST(test_race_forgotten_lock_is_taken_by_one_of_many_fibers),
	  TEST(test_race_fibers_at_one_full_subtable_split_it_once),
	  TEST(test_race_circle_of_fates_ends_in_an_error),
	  TEST(test_race_root_that_changes_under_the_lock_is_an_error),
	  TEST(test_race_root_too_deep_is_ecorrupt_for_stat_and_recover),
	  TEST(test_race_subtable_found_unreachable_leaves_every_cache_at_its_refresh),
	  TEST(test_race_check_of_damaged_blocks_does_not_compare_their_keys))
