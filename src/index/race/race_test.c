/* SPDX-License-Identifier: Apache-2.0 */
/* What one undisturbed operation costs, to the verb and the byte, and what a split costs others. */
#include "index/race/bench.h"

static void
bench_expect(const struct bench *b, unsigned round_trips, unsigned reads, unsigned writes, unsigned cas, unsigned bytes)
{
	CHECK_EQ(b->count.round_trips, round_trips);
	CHECK_EQ(b->count.verbs[FAR_OP_READ], reads);
	CHECK_EQ(b->count.verbs[FAR_OP_WRITE], writes);
	CHECK_EQ(b->count.verbs[FAR_OP_CAS], cas);
	CHECK_EQ(b->count.verbs[FAR_OP_FAA], 0);
	CHECK_EQ(b->count.bytes_out + b->count.bytes_in, bytes);
	CHECK_EQ(b->count.retries, 0);
}

static void
body_costs(struct far_task *t, void *arg)
{
	struct bench *b = arg;

	bench_open(b, t, true, 0);
	/* The first allocation of a class asks the node for a chunk, on the background's account. */
	CHECK_EQ(bench_op(b, t, BENCH_INSERT, "another 16 bytes"), 0);
	CHECK_EQ(bench_op(b, t, BENCH_GET, "exactly 16 bytes"), -FAR_ENOENT);
	bench_expect(b, 1, 2, 0, 0, 544);
	CHECK_EQ(bench_op(b, t, BENCH_INSERT, "exactly 16 bytes"), 0);
	bench_expect(b, 3, 4, 1, 2, 1624);
	CHECK_EQ(bench_op(b, t, BENCH_GET, "exactly 16 bytes"), 0);
	bench_expect(b, 2, 3, 0, 0, 752);
	CHECK_EQ(bench_op(b, t, BENCH_UPDATE, "exactly 16 bytes"), 0);
	bench_expect(b, 3, 3, 1, 1, 1124);
	CHECK_EQ(bench_op(b, t, BENCH_MOVE, "exactly 16 bytes"), 0);
	bench_expect(b, 4, 3, 1, 1, 1124);
	CHECK_EQ(bench_op(b, t, BENCH_GET, "exactly 16 bytes"), 0);
	bench_expect(b, 2, 3, 0, 0, 752);
	CHECK_EQ(bench_op(b, t, BENCH_DELETE, "exactly 16 bytes"), 0);
	bench_expect(b, 3, 3, 0, 1, 916);
	bench_close(b, t);
}

static void
test_race_costs_match_the_published_table(void)
{
	static const char *const backends[] = { "shm", "sim", "tcp" };

	for (size_t i = 0; i < FAR_LEN(backends); i++) {
		struct bench b = { .w = world_open(backends[i], 2, 32 << 20, 1) };

		world_run(b.w, body_costs, &b);
		world_close(b.w);
	}
}

/* One client fills the table until it splits, another one reads and writes beside it. */
struct split_watch {
	struct bench writer, other;
	bool done;
	uint64_t worst, waits, ops;
};

static void
split_writer(struct far_task *t, void *arg)
{
	struct split_watch *s = arg;
	char key[32];

	bench_open(&s->writer, t, false, 0);
	for (int i = 0; i < 2500; i++) {
		snprintf(key, sizeof(key), "writer's key %04d", i);
		CHECK_EQ(bench_op(&s->writer, t, BENCH_INSERT, key), 0);
	}
	bench_close(&s->writer, t);
	s->done = true;
}

static void
body_split(struct far_task *t, void *arg)
{
	static const unsigned plain[] = { [BENCH_GET] = 2, [BENCH_UPDATE] = 3, [BENCH_DELETE] = 3, [BENCH_INSERT] = 3 };
	struct split_watch *s = arg;
	char key[32];

	bench_open(&s->other, t, true, 0);
	for (int i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "reader's key %04d", i);
		CHECK_EQ(bench_op(&s->other, t, BENCH_INSERT, key), 0);
	}
	REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(s->other.w), split_writer, s, 0) == 0);
	while (!s->done) {
		enum bench_op op = far_rand(t) % 2 ? BENCH_GET : BENCH_UPDATE;
		uint64_t extra;

		snprintf(key, sizeof(key), "reader's key %04u", (unsigned)(far_rand(t) % 200));
		CHECK_EQ(bench_op(&s->other, t, op, key), 0);
		extra = s->other.count.round_trips - plain[op];
		s->worst = far_max(s->worst, extra);
		s->waits += s->other.count.split_waits;
		s->ops++;
	}
	bench_close(&s->other, t);
}

static void
test_race_split_of_another_client_costs_at_most_8_round_trips(void)
{
	static const char *const backends[] = { "shm", "sim" };

	for (size_t i = 0; i < FAR_LEN(backends); i++) {
		struct split_watch s = { .other.w = world_open(backends[i], 1, 32 << 20, 3) };

		s.writer.w = s.other.w;
		world_run(s.other.w, body_split, &s);
		world_close(s.other.w);
		CHECK(s.worst <= 8);
		printf("# %s: %llu operations, worst %llu extra round trips, %llu waits\n", backends[i],
		       (unsigned long long)s.ops, (unsigned long long)s.worst, (unsigned long long)s.waits);
	}
}

/* A client dies after so many word steps of inserting, which makes the table split; another one goes on. */
struct crash {
	struct bench victim, heir, auditor;
	struct far_fabric *wire;
	uint64_t steps;
	unsigned acknowledged;
	bool dead;
	uint64_t died_in_split, splits;
};

enum { CRASH_OLD = 16, CRASH_NEW = 24 };

static void
crash_victim(struct far_task *t, void *arg)
{
	struct crash *c = arg;
	struct far_bytes v = FAR_STR("8 bytes.");
	char key[32];
	int err = 0;

	bench_open(&c->victim, t, false, 0);
	far_sim_fuse(c->wire, c->steps, FAR_SIM_KILL, 0);
	while (!err && c->acknowledged < CRASH_NEW) {
		uint64_t version = 0;
		struct far_bytes k = far_str(bench_key(key, "victim", c->acknowledged));

		err = pool_enter(c->victim.pool, t);
		if (!err) {
			err = race_put(c->victim.ix, t, FAR_PUT_INSERT, k, v, &version);
			(void)pool_leave(c->victim.pool, t);
		}
		c->acknowledged += !err;
	}
	bench_abandon(&c->victim);
	far_sim_kill(c->wire);
	c->dead = true;
}

static void
crash_verify(struct crash *c, struct far_task *t)
{
	struct far_table_stat stat;
	char key[32];
	int err;

	for (unsigned i = 0; i < CRASH_OLD; i++)
		CHECK_EQ(bench_op(&c->heir, t, BENCH_GET, bench_key(key, "old", i)), 0);
	for (unsigned i = 0; i < CRASH_NEW; i++) {
		err = bench_op(&c->heir, t, BENCH_GET, bench_key(key, "victim", i));
		if (i != c->acknowledged)
			CHECK_EQ(err, i < c->acknowledged ? 0 : -FAR_ENOENT);
	}
	for (unsigned i = 0; i < CRASH_NEW; i++)
		CHECK_EQ(bench_op(&c->heir, t, BENCH_GET, bench_key(key, "heir", i)), 0);
	CHECK_EQ(pool_enter(c->heir.pool, t), 0);
	CHECK_EQ(race_recover(c->heir.ix, t), 0);
	CHECK_EQ(race_stat(c->heir.ix, t, &stat), 0);
	c->splits += stat.splits;
	CHECK_EQ(pool_leave(c->heir.pool, t), 0);
}

static void
crash_auditor(struct far_task *t, void *arg)
{
	bench_audit(&((struct crash *)arg)->auditor, t);
}

static void
body_crash(struct far_task *t, void *arg)
{
	struct crash *c = arg;
	char key[32];

	bench_open(&c->heir, t, true, 1);
	for (unsigned i = 0; i < CRASH_OLD; i++)
		CHECK_EQ(bench_op(&c->heir, t, BENCH_INSERT, bench_key(key, "old", i)), 0);
	c->wire = world_connect(c->heir.w);
	REQUIRE(far_loop_spawn(far_task_loop(t), c->wire, crash_victim, c, 0) == 0);
	while (!c->dead)
		far_sleep(t, 10000);
	for (unsigned i = 0; i < CRASH_NEW; i++)
		CHECK_EQ(bench_op(&c->heir, t, BENCH_INSERT, bench_key(key, "heir", i)), 0);
	crash_verify(c, t);
	/* Its lease runs out, and its chunks, which the tentative slots tell of, become ours. */
	far_sleep(t, 2 * POOL_LEASE_NS);
	CHECK(pool_table_adopt_orphans(c->heir.pt, t) >= 0);
	bench_close(&c->heir, t);
	REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(c->heir.w), crash_auditor, c, 0) == 0);
}

static void
test_race_death_at_any_step_is_mended_by_others(void)
{
	uint64_t splits = 0, deaths = 0;

	for (uint64_t steps = 1; steps < 3000; steps += 11) {
		struct crash c = { .heir.w = world_open("sim", 2, 4 << 20, steps), .steps = steps };
		int before = test_failures;

		c.victim.w = c.heir.w;
		world_run(c.heir.w, body_crash, &c);
		world_close(c.heir.w);
		splits += c.splits;
		deaths += c.acknowledged < CRASH_NEW;
		if (test_failures > before)
			printf("# ... after %llu steps\n", (unsigned long long)steps);
	}
	CHECK(deaths > 100 && splits > 300);
}

/* A client claims the only subtable, and the doubling lock, and is not heard of again. */
struct silence {
	struct bench heir, victim;
	struct far_fabric *wire;
	uint64_t took_ns;
	bool dead;
};

static void
silence_victim(struct far_task *t, void *arg)
{
	struct silence *s = arg;
	struct race *r;
	uint64_t me, old;

	bench_open(&s->victim, t, false, 0);
	r = race_of(s->victim.ix);
	me = pool_serial(s->victim.pool);
	far_cas(t, race_unpack(r->dir[0]), 0, RACE_FATE(RACE_FATE_CLAIMED, me), &old);
	far_cas(t, race_head_at(r, offsetof(struct race_head, doubling)), 0, me, &old);
	CHECK_EQ(far_wait(t), 0);
	bench_abandon(&s->victim);
	far_sim_kill(s->wire);
	s->dead = true;
}

static void
body_silence(struct far_task *t, void *arg)
{
	struct silence *s = arg;
	uint64_t start;
	char key[32];

	bench_open(&s->heir, t, true, 1);
	s->wire = world_connect(s->heir.w);
	REQUIRE(far_loop_spawn(far_task_loop(t), s->wire, silence_victim, s, 0) == 0);
	while (!s->dead)
		far_sleep(t, 1000);
	start = far_now(t);
	for (unsigned i = 0; i < 40; i++)
		CHECK_EQ(bench_op(&s->heir, t, BENCH_INSERT, bench_key(key, "heir", i)), 0);
	s->took_ns = far_now(t) - start;
	bench_close(&s->heir, t);
}

static void
test_race_claim_of_a_silent_client_is_taken_over_after_its_lease_however_long(void)
{
	static const uint64_t leases[] = { 3000000, 200000000, 2000000000, 60000000000 };

	for (size_t i = 0; i < FAR_LEN(leases); i++) {
		struct silence s = { .heir = { .w = world_open("sim", 1, 4 << 20, 7), .lease_ns = leases[i] } };

		s.victim = s.heir;
		world_run(s.heir.w, body_silence, &s);
		world_close(s.heir.w);
		CHECK(s.took_ns > leases[i] * 3 / 4);
		CHECK(s.took_ns < leases[i] * 3 / 2 + 1000000);
		printf("# lease %.3f s: taken over after %.3f s\n", (double)leases[i] * 1e-9, (double)s.took_ns * 1e-9);
	}
}

/* One client makes a table of so many keys and dies; what it costs another one to look through its chunks. */
struct repair {
	struct bench heir, victim;
	unsigned keys;
	bool dead;
	double blocks; /* in its chunks: of 64 B, used or not */
	double round_trips, bytes;
};

static void
repair_victim(struct far_task *t, void *arg)
{
	struct repair *p = arg;
	char key[32];

	bench_open(&p->victim, t, true, 1);
	for (unsigned i = 0; i < p->keys; i++)
		CHECK_EQ(bench_op(&p->victim, t, BENCH_INSERT, bench_key(key, "key", i)), 0);
	bench_abandon(&p->victim);
	p->dead = true;
}

static void
body_repair(struct far_task *t, void *arg)
{
	struct repair *p = arg;
	struct far_count *spent, before;
	struct pool_usage u;

	REQUIRE(far_loop_spawn(far_task_loop(t), world_connect(p->heir.w), repair_victim, p, 0) == 0);
	while (!p->dead)
		far_sleep(t, 10000);
	bench_open(&p->heir, t, false, 0);
	spent = pool_background(p->heir.pool);
	far_sleep(t, 2 * POOL_LEASE_NS);
	before = *spent;
	CHECK(pool_table_adopt_orphans(p->heir.pt, t) > 0);
	p->round_trips = (double)(spent->round_trips - before.round_trips);
	p->bytes = (double)(spent->bytes_in + spent->bytes_out - before.bytes_in - before.bytes_out);
	CHECK_EQ(pool_table_usage(p->heir.pt, t, &u), 0);
	p->blocks = (double)(u.granted[0] - u.header[0]) / 64;
	bench_close(&p->heir, t);
}

static void
test_race_repair_grows_with_the_table_not_faster(void)
{
	struct repair p[2] = { { .keys = 1000 }, { .keys = 16000 } };

	for (int i = 0; i < 2; i++) {
		p[i].heir.w = p[i].victim.w = world_open("shm", 1, 64 << 20, 9);
		world_run(p[i].heir.w, body_repair, &p[i]);
		world_close(p[i].heir.w);
		printf("# repair of %u keys: %.0f blocks, %.0f round trips, %.0f bytes\n", p[i].keys, p[i].blocks,
		       p[i].round_trips, p[i].bytes);
	}
	for (int i = 0; i < 2; i++) {
		CHECK(p[i].round_trips < 1.5 * p[i].blocks);
		CHECK(p[i].bytes < 1500 * p[i].blocks);
	}
	CHECK(p[1].blocks > 10 * p[0].blocks);
}

TEST_MAIN(TEST(test_race_costs_match_the_published_table),
	  TEST(test_race_split_of_another_client_costs_at_most_8_round_trips),
	  TEST(test_race_claim_of_a_silent_client_is_taken_over_after_its_lease_however_long),
	  TEST(test_race_repair_grows_with_the_table_not_faster),
	  TEST(test_race_death_at_any_step_is_mended_by_others))
