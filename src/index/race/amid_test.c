/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to operations amid others' splits, deaths and drops. */
#include "base/rand.h"
#include "index/race/bench.h"

/* Values of 16 MiB beside splits ----------------------------------------------------------------------------- */

enum { BIG_KEYS = 3, BIG_ROUNDS = 24 };

struct big {
	struct bench reader, writer;
	char *value; /* FAR_VALUE_MAX bytes */
	bool done;
};

/* The first word of the value tells the key, the rest follows from it. */
static struct far_bytes
big_value(struct big *g, unsigned i, unsigned round)
{
	uint64_t words[2] = { i, round };

	memcpy(g->value, words, sizeof(words));
	memcpy(g->value + FAR_VALUE_MAX - sizeof(words), words, sizeof(words));
	return far_bytes(g->value, FAR_VALUE_MAX);
}

static void
big_put(struct big *g, struct far_task *t, unsigned i, unsigned round)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct pool_relief relief = { 0 };
	struct bench *b = &g->reader;
	char key[32];
	int err;

	do {
		uint64_t version = 0;

		far_scratch_reset(t, mark);
		REQUIRE(pool_enter(b->pool, t) == 0);
		err = race_put(b->ix, t, FAR_PUT_UPSERT, far_str(bench_key(key, "big", i)), big_value(g, i, round),
			       &version);
		CHECK_EQ(pool_leave(b->pool, t), 0);
	} while (err == -FAR_ENOMEM && pool_relieve(b->pt, t, &relief) == 0);
	CHECK_EQ(err, 0);
	far_scratch_reset(t, mark);
}

static void
big_get(struct big *g, struct far_task *t, unsigned i, unsigned round)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct bench *b = &g->reader;
	struct far_value v = { .version = 0 };
	char key[32];

	REQUIRE(pool_enter(b->pool, t) == 0);
	CHECK_EQ(race_get(b->ix, t, far_str(bench_key(key, "big", i)), &v), 0);
	big_value(g, i, round);
	CHECK(v.bytes.len == FAR_VALUE_MAX && memcmp(v.bytes.data, g->value, FAR_VALUE_MAX) == 0);
	CHECK_EQ(pool_leave(b->pool, t), 0);
	far_scratch_reset(t, mark);
}

/* Makes the table split again and again. */
static void
big_writer(struct far_task *t, void *arg)
{
	struct big *g = arg;
	char key[32];

	bench_open(&g->writer, t, false, 0);
	for (unsigned i = 0; i < 600; i++) {
		CHECK_EQ(bench_op(&g->writer, t, BENCH_INSERT, bench_key(key, "small", i)), 0);
		far_sleep(t, 20000);
	}
	bench_close(&g->writer, t);
	g->done = true;
}

static void
body_big(struct far_task *t, void *arg)
{
	unsigned round[BIG_KEYS] = { 0 }, splits = 0;
	struct far_table_stat stat;
	struct big *g = arg;

	bench_open(&g->reader, t, true, 1);
	for (unsigned i = 0; i < BIG_KEYS; i++)
		big_put(g, t, i, 0);
	REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(g->reader.w), big_writer, g, 0) == 0);
	for (unsigned n = 0; n < BIG_ROUNDS || !g->done; n++) {
		unsigned i = n % BIG_KEYS;

		if (n < BIG_ROUNDS && n % 2)
			big_put(g, t, i, ++round[i]);
		if (n < BIG_ROUNDS)
			big_get(g, t, i, round[i]);
		far_sleep(t, 500000);
		splits += !g->done;
	}
	CHECK(splits > BIG_ROUNDS / 2);
	for (unsigned i = 0; i < BIG_KEYS; i++)
		big_get(g, t, i, round[i]);
	CHECK_EQ(pool_enter(g->reader.pool, t), 0);
	CHECK_EQ(race_check(g->reader.ix, t, bench_report, NULL), 0);
	CHECK_EQ(race_stat(g->reader.ix, t, &stat), 0);
	CHECK_EQ(pool_leave(g->reader.pool, t), 0);
	CHECK(stat.splits > 30);
	CHECK_EQ(stat.keys, 600 + BIG_KEYS);
	bench_close(&g->reader, t);
}

static void
test_race_values_of_16_mib_survive_splits(void)
{
	struct big g = { .value = calloc(1, FAR_VALUE_MAX) };

	REQUIRE(g.value);
	g.reader.w = g.writer.w = world_open("shm", 2, 192 << 20, 21);
	world_run(g.reader.w, body_big, &g);
	world_close(g.reader.w);
	free(g.value);
}

/* A scan beside a splitter that dies ------------------------------------------------------------------------- */

enum { AMID_OLD = 40, AMID_NEW = 30 };

struct amid {
	struct bench scanner, victim, writer;
	struct far_fabric *wire;
	uint64_t steps;
	bool died, written;
	unsigned seen[AMID_OLD];
	uint64_t splits;
};

static void
amid_victim(struct far_task *t, void *arg)
{
	struct amid *a = arg;
	char key[32];
	int err = 0;

	bench_open(&a->victim, t, false, 0);
	far_sim_fuse(a->wire, a->steps, FAR_SIM_KILL, 0);
	for (unsigned i = 0; i < AMID_NEW && !err; i++) {
		uint64_t version = 0;

		if ((err = pool_enter(a->victim.pool, t)) != 0)
			break;
		err = race_put(a->victim.ix, t, FAR_PUT_INSERT, far_str(bench_key(key, "victim", i)), FAR_STR("v"),
			       &version);
		(void)pool_leave(a->victim.pool, t);
	}
	a->died = err != 0;
	bench_abandon(&a->victim);
	far_sim_kill(a->wire);
}

/* Goes on where the dead one stopped: waits for its lease, takes over, and splits further. */
static void
amid_writer(struct far_task *t, void *arg)
{
	struct amid *a = arg;
	char key[32];

	bench_open(&a->writer, t, false, 0);
	for (unsigned i = 0; i < AMID_NEW; i++)
		CHECK_EQ(bench_op(&a->writer, t, BENCH_INSERT, bench_key(key, "writer", i)), 0);
	bench_close(&a->writer, t);
	a->written = true;
}

static int
amid_step(struct amid *a, struct far_task *t, uint64_t *cursor, bool *last)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct far_entry *e;
	int n;

	CHECK_EQ(pool_enter(a->scanner.pool, t), 0);
	n = race_scan(a->scanner.ix, t, cursor, 64, &e, last);
	CHECK(n >= 0);
	for (int i = 0; i < n; i++) {
		char text[32] = { 0 };
		unsigned at;

		memcpy(text, e[i].key.data, far_min(e[i].key.len, 31));
		if (sscanf(text, "old %u", &at) == 1 && at < AMID_OLD)
			a->seen[at]++;
	}
	CHECK_EQ(pool_leave(a->scanner.pool, t), 0);
	far_scratch_reset(t, mark);
	return n;
}

static void
body_amid(struct far_task *t, void *arg)
{
	struct far_table_stat stat;
	struct amid *a = arg;
	uint64_t cursor = 0;
	bool last = false;
	char key[32];

	bench_open(&a->scanner, t, true, 1);
	for (unsigned i = 0; i < AMID_OLD; i++)
		CHECK_EQ(bench_op(&a->scanner, t, BENCH_INSERT, bench_key(key, "old", i)), 0);
	a->wire = world_connect(a->scanner.w);
	REQUIRE(far_loop_spawn(far_task_loop(t), a->wire, amid_victim, a, 0) == 0);
	REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(a->scanner.w), amid_writer, a, 0) == 0);
	/* Some steps before the takeover, some after it. */
	for (unsigned n = 0; !last && amid_step(a, t, &cursor, &last) >= 0; n++)
		far_sleep(t, n < 3 ? far_rand(t) % 50000 : POOL_LEASE_NS / 2);
	CHECK(last);
	while (!a->written)
		far_sleep(t, POOL_LEASE_NS / 10);
	for (unsigned i = 0; i < AMID_OLD; i++)
		CHECK_EQ(a->seen[i], 1);
	CHECK_EQ(pool_enter(a->scanner.pool, t), 0);
	CHECK_EQ(race_stat(a->scanner.ix, t, &stat), 0);
	CHECK_EQ(pool_leave(a->scanner.pool, t), 0);
	a->splits = stat.splits;
	bench_close(&a->scanner, t);
}

static void
test_race_scan_beside_a_splitter_that_dies_meets_each_lasting_key_once(void)
{
	unsigned deaths = 0, splits = 0;

	for (uint64_t steps = 1; steps < 2400; steps += 17) {
		struct amid a = { .scanner.w = world_open("sim", 2, 4 << 20, steps), .steps = steps };
		int before = test_failures;

		a.victim.w = a.writer.w = a.scanner.w;
		world_run(a.scanner.w, body_amid, &a);
		world_close(a.scanner.w);
		deaths += a.died;
		splits += a.splits > 4;
		if (test_failures > before)
			printf("# ... after %llu steps\n", (unsigned long long)steps);
	}
	CHECK(deaths > 60 && splits > 60);
}

/* A table that is dropped under its users -------------------------------------------------------------------- */

enum { DROP_USERS = 3, DROP_KEYS = 40 };

struct drop_user {
	struct drop *drop;
	struct bench b;
	unsigned id;
	uint64_t ops, failed;
};

struct drop {
	struct world *w;
	struct bench maker;
	struct drop_user user[DROP_USERS];
	unsigned ready, left;
	uint64_t when_ns, late;
};

/* One operation of any kind, as the store does it. */
static int
drop_operate(struct drop_user *u, struct far_task *t)
{
	static const enum bench_op ops[] = { BENCH_GET, BENCH_INSERT, BENCH_UPDATE, BENCH_DELETE };
	enum bench_op op = ops[far_rand(t) % FAR_LEN(ops)];
	struct pool_relief relief = { 0 };
	char key[32];
	int err;

	bench_key(key, "key", (unsigned)(far_rand(t) % (2 * DROP_KEYS)));
	do
		err = bench_op(&u->b, t, op, key);
	while (err == -FAR_ENOMEM && pool_relieve(u->b.pt, t, &relief) == 0);
	return err;
}

/* Works until it finds the table gone. What it does before has the outcomes of a table that is there. */
static void
drop_user(struct far_task *t, void *arg)
{
	struct drop_user *u = arg;
	int err;

	bench_open(&u->b, t, false, 0);
	u->drop->ready++;
	while (pool_table_alive(u->b.pt) == 0 && u->ops < 20000) {
		err = drop_operate(u, t);
		u->ops++;
		CHECK(err == 0 || err == -FAR_ENOENT || err == -FAR_EEXIST || pool_table_alive(u->b.pt) != 0);
	}
	CHECK_EQ(pool_table_alive(u->b.pt), -FAR_ENOENT);
	pool_table_detach(u->b.pt, t);
	race_close(u->b.ix);
	(void)pool_table_close(u->b.pt, t);
	CHECK_EQ(pool_close(u->b.pool, t), 0);
	u->drop->left--;
}

static void
body_drop(struct far_task *t, void *arg)
{
	struct drop *d = arg;
	struct bench *b = &d->maker;
	struct pool_root *roots;
	char key[32];

	bench_open(b, t, true, 1);
	for (unsigned i = 0; i < DROP_KEYS; i++)
		CHECK_EQ(bench_op(b, t, BENCH_INSERT, bench_key(key, "key", i)), 0);
	for (unsigned i = 0; i < DROP_USERS; i++) {
		d->user[i] = (struct drop_user){ .drop = d, .b.w = d->w, .id = i };
		d->left++;
		REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(d->w), drop_user, &d->user[i], 0) == 0);
	}
	pool_table_detach(b->pt, t);
	race_close(b->ix);
	CHECK_EQ(pool_table_close(b->pt, t), 0);
	while (d->ready < DROP_USERS)
		far_sleep(t, 1000);
	far_sleep(t, d->when_ns);
	CHECK_EQ(pool_table_drop(b->pool, t, "t"), 0);
	/* Another table gets the name, and soon the memory. */
	CHECK_EQ(pool_close(b->pool, t), 0);
	bench_open(b, t, true, 1);
	for (unsigned i = 0; i < 3 * DROP_KEYS; i++)
		CHECK_EQ(bench_op(b, t, BENCH_INSERT, bench_key(key, "new", i)), 0);
	while (d->left)
		far_sleep(t, 1000000);
	for (unsigned i = 0; i < 3 * DROP_KEYS; i++)
		CHECK_EQ(bench_op(b, t, BENCH_GET, bench_key(key, "new", i)), 0);
	CHECK_EQ(pool_table_list(b->pool, t, &roots), 1);
	free(roots);
	bench_close(b, t);
	bench_audit(b, t);
}

static void
test_race_drop_of_a_table_in_use_harms_neither_its_users_nor_the_next_table(void)
{
	uint64_t ops = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct drop d = { .w = world_open("sim", 2, 8 << 20, seed), .when_ns = far_mix64(seed) % 3000000 };
		int before = test_failures;

		d.maker.w = d.w;
		world_run(d.w, body_drop, &d);
		world_close(d.w);
		for (unsigned i = 0; i < DROP_USERS; i++)
			ops += d.user[i].ops;
		if (test_failures > before)
			printf("# ... with seed %llu\n", (unsigned long long)seed);
	}
	CHECK(ops > 1000);
}

TEST_MAIN(TEST(test_race_values_of_16_mib_survive_splits),
	  TEST(test_race_scan_beside_a_splitter_that_dies_meets_each_lasting_key_once),
	  TEST(test_race_drop_of_a_table_in_use_harms_neither_its_users_nor_the_next_table))
