/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.c -- the one suite that every index design passes, on every backend that lives in a process.
 *
 * usage: test_index_DESIGN, see the case table at the end: each case is run for each design and backend.
 */
#include "index/index.h"
#include "base/base.h"
#include "base/rand.h"
#include "conform/world.h"
#include "pool/pool.h"
#include "test.h"

enum {
	SUITE_REGION = 192 << 20,
	SUITE_SMALL = 24 << 20,
	SUITE_CLIENTS = 4,
};

/* One client with the table open. */
struct suite {
	const struct far_index_ops *ops;
	const char *backend;
	struct world *w;
	unsigned nodes_n;
	struct far_index_opts opts;
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
	void (*body)(struct suite *s, struct far_task *t);
	void *arg;
};

/* How the suite is built for backends that live elsewhere. */
#ifndef SUITE_MATRIX
#define SUITE_MATRIX { "race", "shm" }, { "race", "sim" }, { "race", "tcp" },
#endif

static const struct {
	const char *design, *backend;
} suite_matrix[] = { SUITE_MATRIX };

/* Not on the real thing, shared memory: fewer rounds do. */
static bool
suite_is_slow(const struct suite *s)
{
	return strcmp(s->backend, "shm") != 0;
}

/* Opening and closing --------------------------------------------------------------------------------------- */

static void
suite_open_index(struct suite *s, struct far_task *t, const struct far_index_opts *opts)
{
	REQUIRE(pool_enter(s->pool, t) == 0);
	REQUIRE(far_index_open(s->ops, s->pt, t, opts, &s->ix) == 0);
	CHECK_EQ(pool_leave(s->pool, t), 0);
}

static void
suite_open(struct suite *s, struct far_task *t, bool create)
{
	struct far_addr head;

	REQUIRE(pool_open(t, NULL, &s->pool) == 0);
	if (create) {
		REQUIRE(pool_table_new(s->pool, t, "t", s->ops->name, &s->pt) == 0);
		REQUIRE(s->ops->create(s->pt, t, &s->opts, &head) == 0);
		REQUIRE(pool_table_commit(s->pt, t, head) == 0);
	} else {
		REQUIRE(pool_table_open(s->pool, t, "t", &s->pt) == 0);
	}
	suite_open_index(s, t, &s->opts);
}

static void
suite_close(struct suite *s, struct far_task *t)
{
	pool_table_detach(s->pt, t);
	s->ops->close(s->ix);
	CHECK_EQ(pool_table_close(s->pt, t), 0);
	CHECK_EQ(pool_close(s->pool, t), 0);
}

static void
suite_fiber(struct far_task *t, void *arg)
{
	struct suite *s = arg;

	suite_open(s, t, true);
	s->body(s, t);
	suite_close(s, t);
}

/* Runs `body` for every design and backend with a table of `groups` over `nodes_n` nodes of `region_len` bytes. */
static void
suite_run_in(void (*body)(struct suite *s, struct far_task *t), unsigned nodes_n, unsigned groups, uint64_t region_len)
{
	for (size_t i = 0; i < FAR_LEN(suite_matrix); i++) {
		struct suite s = { .nodes_n = nodes_n, .opts.groups = groups, .body = body };
		int before = test_failures;

		s.ops = far_index_find(suite_matrix[i].design);
		s.backend = suite_matrix[i].backend;
		REQUIRE(s.ops);
		s.w = world_open(s.backend, nodes_n, region_len, i + 1);
		world_run(s.w, suite_fiber, &s);
		world_close(s.w);
		if (test_failures > before)
			printf("# ... with %s on %s\n", suite_matrix[i].design, s.backend);
	}
}

static void
suite_run(void (*body)(struct suite *s, struct far_task *t), unsigned nodes_n, unsigned groups)
{
	suite_run_in(body, nodes_n, groups, SUITE_REGION);
}

/* Operations with their brackets ------------------------------------------------------------------------------ */

static int
suite_get(struct suite *s, struct far_task *t, struct far_bytes key, struct far_value *v)
{
	int err = pool_enter(s->pool, t), left;

	if (err)
		return err;
	err = s->ops->get(s->ix, t, key, v);
	left = pool_leave(s->pool, t);
	return err ? err : left;
}

/* A put that finds no memory starts over as long as waiting for grace helps: outside its brackets. */
static int
suite_put(struct suite *s, struct far_task *t, enum far_put_mode mode, struct far_bytes key, struct far_bytes value,
	  uint64_t *version)
{
	struct pool_relief relief = { 0 };
	uint64_t expect = version ? *version : 0, written;
	int err, left;

	do {
		written = expect;
		if ((err = pool_enter(s->pool, t)) != 0)
			return err;
		err = s->ops->put(s->ix, t, mode, key, value, &written);
		left = pool_leave(s->pool, t);
	} while (err == -FAR_ENOMEM && !left && pool_relieve(s->pt, t, &relief) == 0);
	if (version)
		*version = written;
	return err ? err : left;
}

static int
suite_del(struct suite *s, struct far_task *t, struct far_bytes key, uint64_t expect)
{
	int err = pool_enter(s->pool, t), left;

	if (err)
		return err;
	err = s->ops->del(s->ix, t, key, expect);
	left = pool_leave(s->pool, t);
	return err ? err : left;
}

static int
suite_move(struct suite *s, struct far_task *t, struct far_bytes key, unsigned node)
{
	int err = pool_enter(s->pool, t), left;

	if (err)
		return err;
	err = s->ops->move(s->ix, t, key, node);
	left = pool_leave(s->pool, t);
	return err ? err : left;
}

static void
suite_print(void *arg, const char *line)
{
	printf("# check: %s\n", line);
}

static int
suite_check(struct suite *s, struct far_task *t, far_report_fn *report)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	int err = pool_enter(s->pool, t), n;

	if (err)
		return err;
	n = s->ops->check(s->ix, t, report, NULL);
	err = pool_leave(s->pool, t);
	far_scratch_reset(t, m);
	return err ? err : n;
}

/* The i-th key: its bytes live in a static-free buffer of the caller. */
struct suite_key {
	char text[32];
};

static struct far_bytes
suite_key(struct suite_key *k, uint64_t i)
{
	snprintf(k->text, sizeof(k->text), "key-%llu", (unsigned long long)i);
	return far_str(k->text);
}

static bool
suite_same(struct far_bytes a, struct far_bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Cases -------------------------------------------------------------------------------------------------------- */

static void
body_single_key(struct suite *s, struct far_task *t)
{
	uint64_t v1 = 0, v2 = 0, v3 = 0, wrong;
	struct far_value v;

	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), -FAR_ENOENT);
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPDATE, FAR_STR("k"), FAR_STR("a"), NULL), -FAR_ENOENT);
	CHECK_EQ(suite_del(s, t, FAR_STR("k"), 0), -FAR_ENOENT);
	CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, FAR_STR("k"), FAR_STR("a"), &v1), 0);
	CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, FAR_STR("k"), FAR_STR("b"), NULL), -FAR_EEXIST);
	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), 0);
	CHECK(suite_same(v.bytes, FAR_STR("a")) && v.version == v1);
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPSERT, FAR_STR("k"), FAR_STR("c"), &v2), 0);
	wrong = v1;
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPDATE, FAR_STR("k"), FAR_STR("d"), &wrong), -FAR_ECHANGED);
	v3 = v2;
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPDATE, FAR_STR("k"), FAR_STR("e"), &v3), 0);
	CHECK(v1 != v2 && v2 != v3 && v1 != v3);
	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), 0);
	CHECK(suite_same(v.bytes, FAR_STR("e")) && v.version == v3);
	CHECK_EQ(suite_del(s, t, FAR_STR("k"), v2), -FAR_ECHANGED);
	CHECK_EQ(suite_del(s, t, FAR_STR("k"), v3), 0);
	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), -FAR_ENOENT);
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPSERT, FAR_STR("k"), FAR_STR("f"), NULL), 0);
	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), 0);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
}

static void
test_index_single_key_follows_map_semantics(void)
{
	suite_run(body_single_key, 1, 0);
}

static void
body_sizes(struct suite *s, struct far_task *t)
{
	static const size_t keys[] = { 1, 2, 7, 8, 9, 63, 64, 65, 1000, 65535, 65536 };
	static const size_t values[] = { 0, 1, 23, 24, 25, 63, 64, 65, 4096, 65536, 1 << 20, 16 << 20 };
	char *key = malloc(keys[FAR_LEN(keys) - 1]), *value = malloc(values[FAR_LEN(values) - 1]);
	struct far_scratch_mark m = far_scratch_mark(t);
	struct far_value got;

	REQUIRE(key && value);
	for (size_t i = 0; i < keys[FAR_LEN(keys) - 1]; i++)
		key[i] = (char)(i * 7);
	for (size_t i = 0; i < values[FAR_LEN(values) - 1]; i++)
		value[i] = (char)far_mix64(i);
	for (size_t k = 0; k < FAR_LEN(keys); k++) {
		for (size_t i = 0; i < FAR_LEN(values); i++) {
			struct far_bytes kb = far_bytes(key, keys[k]), vb = far_bytes(value, values[i]);

			/* One big pair is enough: the simulator moves words one by one. */
			if (values[i] > 65536 && k != FAR_LEN(keys) - 1)
				continue;
			far_scratch_reset(t, m);
			CHECK_EQ(suite_put(s, t, FAR_PUT_UPSERT, kb, vb, NULL), 0);
			CHECK_EQ(suite_get(s, t, kb, &got), 0);
			CHECK(suite_same(got.bytes, vb));
		}
	}
	CHECK_EQ(suite_get(s, t, far_bytes(key, 3), &got), -FAR_ENOENT);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
	free(key);
	free(value);
}

static void
test_index_keys_and_values_of_every_size_come_back(void)
{
	suite_run(body_sizes, 1, 0);
}

/* Loads n keys whose value is the key; every third is deleted again. */
static void
suite_load(struct suite *s, struct far_task *t, uint64_t n)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	struct suite_key k;

	for (uint64_t i = 0; i < n; i++) {
		struct far_bytes key = suite_key(&k, i);

		far_scratch_reset(t, m);
		CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, key, key, NULL), 0);
	}
	for (uint64_t i = 0; i < n; i += 3)
		CHECK_EQ(suite_del(s, t, suite_key(&k, i), 0), 0);
}

static void
body_growth(struct suite *s, struct far_task *t)
{
	uint64_t n = suite_is_slow(s) ? 2000 : 20000, keys = 0;
	struct far_scratch_mark m = far_scratch_mark(t);
	struct far_table_stat stat;
	struct far_value v;
	struct suite_key k;

	suite_load(s, t, n);
	for (uint64_t i = 0; i < n + 100; i++) {
		struct far_bytes key = suite_key(&k, i);
		int err = suite_get(s, t, key, &v);

		CHECK_EQ(err, i < n && i % 3 ? 0 : -FAR_ENOENT);
		CHECK(err || suite_same(v.bytes, key));
		keys += !err;
		far_scratch_reset(t, m);
	}
	CHECK_EQ(pool_enter(s->pool, t), 0);
	CHECK_EQ(s->ops->stat(s->ix, t, &stat), 0);
	CHECK_EQ(pool_leave(s->pool, t), 0);
	CHECK_EQ(stat.keys, keys);
	CHECK(stat.subtables > 1 && stat.splits == stat.subtables - 1);
	CHECK(stat.slots >= stat.keys && stat.block_bytes >= 64 * keys);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
}

static void
test_index_growth_from_one_subtable_keeps_every_key(void)
{
	suite_run(body_growth, 1, 0);
	suite_run(body_growth, 2, 1);
}

static uint64_t
hash_constant(const void *key, size_t len, uint64_t seed)
{
	return 42;
}

static void
body_same_hash(struct suite *s, struct far_task *t)
{
	struct far_value v;
	struct suite_key k;
	uint64_t n = 0;
	int err = 0;

	while (!err && n < 1000)
		err = suite_put(s, t, FAR_PUT_INSERT, suite_key(&k, n++), FAR_STR("x"), NULL);
	CHECK_EQ(err, -FAR_EFULL);
	CHECK(n > 7);
	for (uint64_t i = 0; i < n - 1; i++)
		CHECK_EQ(suite_get(s, t, suite_key(&k, i), &v), 0);
	CHECK_EQ(suite_get(s, t, suite_key(&k, n - 1), &v), -FAR_ENOENT);
	CHECK_EQ(suite_del(s, t, suite_key(&k, 0), 0), 0);
	CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, suite_key(&k, n - 1), FAR_STR("x"), NULL), 0);
}

static void
body_same_hash_reopened(struct suite *s, struct far_task *t)
{
	struct far_index_opts opts = { .hash = hash_constant };

	pool_table_detach(s->pt, t);
	s->ops->close(s->ix);
	suite_open_index(s, t, &opts);
	body_same_hash(s, t);
}

static void
test_index_too_many_keys_of_one_hash_end_in_an_error(void)
{
	suite_run(body_same_hash_reopened, 1, 0);
	suite_run(body_same_hash_reopened, 1, 1);
}

static void
body_move(struct suite *s, struct far_task *t)
{
	struct far_value v;
	uint64_t version = 0;

	CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, FAR_STR("k"), FAR_STR("value"), &version), 0);
	for (unsigned node = 0; node < 2; node++) {
		CHECK_EQ(suite_move(s, t, FAR_STR("k"), node), 0);
		CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), 0);
		CHECK(suite_same(v.bytes, FAR_STR("value")) && v.version == version);
	}
	CHECK_EQ(suite_move(s, t, FAR_STR("absent"), 1), -FAR_ENOENT);
	CHECK_EQ(suite_move(s, t, FAR_STR("k"), 2), -FAR_EINVAL);
	CHECK_EQ(suite_put(s, t, FAR_PUT_UPDATE, FAR_STR("k"), FAR_STR("new"), NULL), 0);
	CHECK_EQ(suite_get(s, t, FAR_STR("k"), &v), 0);
	CHECK(suite_same(v.bytes, FAR_STR("new")));
	CHECK_EQ(suite_check(s, t, suite_print), 0);
}

static void
test_index_moved_block_keeps_value_and_version(void)
{
	suite_run(body_move, 2, 0);
}

/* Fills a pool of two nodes with values that all belong to one subtable's node; then makes room again. */
static void
body_full(struct suite *s, struct far_task *t)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	size_t len = 200000;
	char *value = calloc(1, len);
	struct far_value v;
	struct suite_key k;
	uint64_t n = 0;
	int err = 0;

	REQUIRE(value);
	while (!err && n < 1000) {
		far_scratch_reset(t, m);
		err = suite_put(s, t, FAR_PUT_INSERT, suite_key(&k, n++), far_bytes(value, len), NULL);
	}
	CHECK_EQ(err, -FAR_ENOMEM);
	/* More than one node holds: at most nine in 2 MiB. */
	CHECK(n > SUITE_SMALL / (2 << 20) * 9);
	for (uint64_t i = 0; i < n - 1; i++) {
		far_scratch_reset(t, m);
		CHECK_EQ(suite_get(s, t, suite_key(&k, i), &v), 0);
		CHECK_EQ(v.bytes.len, len);
	}
	CHECK_EQ(suite_get(s, t, suite_key(&k, n - 1), &v), -FAR_ENOENT);
	for (uint64_t i = 0; i < 5; i++)
		CHECK_EQ(suite_del(s, t, suite_key(&k, i), 0), 0);
	for (uint64_t i = 0; i < 5; i++)
		CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, suite_key(&k, i), far_bytes(value, len), NULL), 0);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
	free(value);
}

static void
test_index_full_node_spills_and_a_full_pool_recovers(void)
{
	suite_run_in(body_full, 2, 0, SUITE_SMALL);
}

/* A scan beside writers that make the table split: keys 0 .. n-1 stay, others come and go. */
struct scan_race {
	struct suite *s;
	uint64_t n;
	bool done;
};

static void
scan_writer(struct far_task *t, void *arg)
{
	struct scan_race *c = arg;
	struct far_scratch_mark m = far_scratch_mark(t);
	struct suite_key k;

	for (uint64_t i = c->n; i < 4 * c->n; i++) {
		far_scratch_reset(t, m);
		CHECK_EQ(suite_put(c->s, t, FAR_PUT_INSERT, suite_key(&k, i), FAR_STR("w"), NULL), 0);
		if (i % 2)
			CHECK_EQ(suite_del(c->s, t, suite_key(&k, i), 0), 0);
	}
	c->done = true;
}

static int
scan_step(struct suite *s, struct far_task *t, uint64_t *cursor, bool *last, unsigned *seen, uint64_t n)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	struct far_entry *e;
	int got;

	CHECK_EQ(pool_enter(s->pool, t), 0);
	got = s->ops->scan(s->ix, t, cursor, 1024, &e, last);
	for (int i = 0; i < got; i++) {
		char text[32] = { 0 };
		unsigned long long at;

		memcpy(text, e[i].key.data, e[i].key.len < 31 ? e[i].key.len : 31);
		CHECK(sscanf(text, "key-%llu", &at) == 1);
		if (at < n)
			seen[at]++;
	}
	CHECK_EQ(pool_leave(s->pool, t), 0);
	far_scratch_reset(t, m);
	return got;
}

static void
body_scan(struct suite *s, struct far_task *t)
{
	struct scan_race c = { .s = s, .n = suite_is_slow(s) ? 300 : 3000 };
	unsigned *seen = calloc(c.n, sizeof(*seen));
	uint64_t cursor = 0;
	struct suite_key k;
	bool last = false;

	REQUIRE(seen);
	for (uint64_t i = 0; i < c.n; i++)
		CHECK_EQ(suite_put(s, t, FAR_PUT_INSERT, suite_key(&k, i), FAR_STR("s"), NULL), 0);
	REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), scan_writer, &c, 0) == 0);
	while (!last && scan_step(s, t, &cursor, &last, seen, c.n) >= 0)
		far_sleep(t, 20000);
	CHECK(last);
	for (uint64_t i = 0; i < c.n; i++)
		CHECK_EQ(seen[i], 1);
	while (!c.done)
		far_sleep(t, 100000);
	free(seen);
}

static void
test_index_scan_beside_splits_meets_each_lasting_key_once(void)
{
	suite_run(body_scan, 1, 2);
	suite_run(body_scan, 2, 1);
}

/* Several clients, each a session of its own, change the same few keys; only sums can be checked here (the
 * simulator's schedules check linearizability). */
struct crowd {
	struct suite client[SUITE_CLIENTS];
	unsigned left;
	uint64_t inserted, deleted;
};

struct crowd_member {
	struct crowd *crowd;
	struct suite *s;
	uint64_t ops;
};

static void
crowd_fiber(struct far_task *t, void *arg)
{
	struct crowd_member *me = arg;
	struct far_scratch_mark m = far_scratch_mark(t);
	struct suite_key k;

	suite_open(me->s, t, false);
	for (uint64_t i = 0; i < me->ops; i++) {
		struct far_bytes key = suite_key(&k, far_rand(t) % 50);
		struct far_value v;
		int err;

		far_scratch_reset(t, m);
		switch (far_rand(t) % 4) {
		case 0:
			err = suite_put(me->s, t, FAR_PUT_INSERT, key, key, NULL);
			CHECK(err == 0 || err == -FAR_EEXIST);
			me->crowd->inserted += !err;
			break;
		case 1:
			err = suite_del(me->s, t, key, 0);
			CHECK(err == 0 || err == -FAR_ENOENT);
			me->crowd->deleted += !err;
			break;
		case 2:
			err = suite_put(me->s, t, FAR_PUT_UPDATE, key, key, NULL);
			CHECK(err == 0 || err == -FAR_ENOENT);
			break;
		default:
			err = suite_get(me->s, t, key, &v);
			CHECK(err == -FAR_ENOENT || (err == 0 && suite_same(v.bytes, key)));
		}
	}
	suite_close(me->s, t);
	me->crowd->left--;
}

static void
body_crowd(struct suite *s, struct far_task *t)
{
	struct crowd crowd = { .left = SUITE_CLIENTS };
	struct crowd_member member[SUITE_CLIENTS];
	struct far_table_stat stat;

	for (unsigned i = 0; i < SUITE_CLIENTS; i++) {
		crowd.client[i] = (struct suite){ .ops = s->ops, .backend = s->backend, .w = s->w };
		member[i] = (struct crowd_member){ &crowd, &crowd.client[i], suite_is_slow(s) ? 200 : 3000 };
		REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(s->w), crowd_fiber, &member[i], 0) == 0);
	}
	while (crowd.left)
		far_sleep(t, 100000);
	CHECK_EQ(pool_enter(s->pool, t), 0);
	CHECK_EQ(s->ops->stat(s->ix, t, &stat), 0);
	CHECK_EQ(pool_leave(s->pool, t), 0);
	CHECK_EQ(stat.keys, crowd.inserted - crowd.deleted);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
}

static void
test_index_several_clients_on_the_same_keys_keep_the_sums(void)
{
	suite_run(body_crowd, 1, 1);
	suite_run(body_crowd, 2, 0);
}

/* Fibers of one client write one key: the gate answers older upserts with the newest. */
struct gate_crowd {
	struct suite *s;
	unsigned left, next;
};

static void
gate_fiber(struct far_task *t, void *arg)
{
	struct gate_crowd *g = arg;
	uint64_t me = g->next++;

	CHECK_EQ(suite_put(g->s, t, FAR_PUT_UPSERT, FAR_STR("hot"), far_bytes(&me, sizeof(me)), NULL), 0);
	g->left--;
}

static void
body_gate(struct suite *s, struct far_task *t)
{
	struct gate_crowd g = { .s = s, .left = 32 };
	struct far_count count = { 0 }, *before;
	struct far_value v;
	uint64_t last;

	/* Spawned fibers charge the account of their own task: sum what this one sees by the pool's background. */
	before = far_account(t, &count);
	for (unsigned i = 0; i < 32; i++)
		REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), gate_fiber, &g, 0) == 0);
	while (g.left)
		far_sleep(t, 10000);
	CHECK_EQ(suite_get(s, t, FAR_STR("hot"), &v), 0);
	REQUIRE(v.bytes.len == sizeof(last));
	memcpy(&last, v.bytes.data, sizeof(last));
	CHECK(last < 32);
	CHECK_EQ(suite_check(s, t, suite_print), 0);
	far_account(t, before);
}

static void
test_index_upserts_of_one_client_on_one_key_all_succeed(void)
{
	suite_run(body_gate, 1, 0);
}

/* Random damage to the region: every operation ends, with an answer or an error, and never crashes. */
static void
suite_damage(struct suite *s, struct far_rng *rng, uint64_t from, uint64_t to)
{
	for (int i = 0; i < 40; i++) {
		char *base = world_region(s->w, (unsigned)far_rng_below(rng, s->nodes_n));
		uint64_t word, off = (from + far_rng_below(rng, to - from)) & ~7ULL;

		memcpy(&word, base + off, 8);
		word ^= far_rng_below(rng, 2) ? (uint64_t)1 << far_rng_below(rng, 64) : far_rng_next(rng);
		memcpy(base + off, &word, 8);
	}
}

static void
body_damage(struct suite *s, struct far_task *t)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	uint64_t off = far_addr_off(s->pt->head) & ~0xffffULL;
	struct far_rng rng;
	struct suite_key k;
	struct far_value v;
	int errors = 0;

	far_rng_seed(&rng, 11);
	suite_load(s, t, 200);
	for (int round = 0; round < 60; round++) {
		uint64_t cursor = 0;
		struct far_entry *e;
		bool last = false;

		suite_damage(s, &rng, off, off + (round % 2 ? 1 << 20 : 64 << 10));
		for (uint64_t i = 0; i < 200; i += 7) {
			far_scratch_reset(t, m);
			errors += suite_get(s, t, suite_key(&k, i), &v) == -FAR_ECORRUPT;
			errors += suite_del(s, t, suite_key(&k, i + 1), 0) == -FAR_ECORRUPT;
		}
		CHECK_EQ(pool_enter(s->pool, t), 0);
		for (int step = 0; step < 100 && !last && cursor + 1; step++) {
			far_scratch_reset(t, m);
			if (s->ops->scan(s->ix, t, &cursor, 1024, &e, &last) < 0)
				break;
		}
		pool_leave(s->pool, t);
		errors += suite_check(s, t, NULL) != 0;
	}
	CHECK(errors > 0);
}

static void
test_index_random_damage_is_reported_and_never_crashes(void)
{
	suite_run(body_damage, 1, 4);
}

TEST_MAIN(TEST(test_index_single_key_follows_map_semantics), TEST(test_index_keys_and_values_of_every_size_come_back),
	  TEST(test_index_growth_from_one_subtable_keeps_every_key),
	  TEST(test_index_too_many_keys_of_one_hash_end_in_an_error),
	  TEST(test_index_moved_block_keeps_value_and_version),
	  TEST(test_index_full_node_spills_and_a_full_pool_recovers),
	  TEST(test_index_scan_beside_splits_meets_each_lasting_key_once),
	  TEST(test_index_several_clients_on_the_same_keys_keep_the_sums),
	  TEST(test_index_upserts_of_one_client_on_one_key_all_succeed),
	  TEST(test_index_random_damage_is_reported_and_never_crashes))
