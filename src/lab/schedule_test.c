/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_test.c -- random schedules of every design are good, the same each time, and a broken design is found. */
#include "base/base.h"
#include "lab/schedule_shrink.h"
#include "lab/schedule_sums.h"

#include <string.h>

#include <farside/error.h>

#include "test.h"

enum { SEEDS = 2500,
       AGAIN = 200 };

static void
test_schedule_random_runs_are_good_and_meet_all_trouble(void)
{
	const struct far_index_ops *design;
	struct schedule_result r;
	struct schedule *s;

	REQUIRE(schedule_new(&s) == 0);
	for (unsigned d = 0; (design = far_index_at(d)); d++) {
		struct schedule_sums sum = { .runs = 0 };

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &r) == 0);
			CHECK_EQ(r.verdict, SCHEDULE_GOOD);
			schedule_sums_add(&sum, seed, &r);
			if (r.verdict != SCHEDULE_GOOD) {
				schedule_print(s, stdout);
				break;
			}
		}
		schedule_sums_print(&sum, "# ", stdout);
		CHECK(sum.verbs >= 60 * SEEDS);
		for (unsigned k = 0; k < SCHEDULE_KINDS; k++)
			CHECK(sum.kinds[k] > 0);
		/* What a long run must meet often. */
		CHECK(sum.kinds[SCHEDULE_KIND_KILL] > SEEDS / 5);
		CHECK(sum.kinds[SCHEDULE_KIND_FAULT] > SEEDS / 10);
		CHECK(sum.kinds[SCHEDULE_KIND_SPLIT] > SEEDS / 5);
		CHECK(sum.kinds[SCHEDULE_KIND_ZOMBIE] > SEEDS / 16);
	}
	schedule_free(s);
}

static void
test_schedule_same_seed_same_hash_whatever_ran_before(void)
{
	const struct far_index_ops *design = far_index_find(NULL);
	uint64_t hash[AGAIN], verbs[AGAIN];
	struct schedule_result r;
	struct schedule *s;

	REQUIRE(schedule_new(&s) == 0);
	for (unsigned i = 0; i < AGAIN; i++) {
		REQUIRE(schedule_run(s, i, design, SCHEDULE_ALL, &r) == 0);
		hash[i] = r.hash;
		verbs[i] = r.verbs;
	}
	schedule_free(s);
	REQUIRE(schedule_new(&s) == 0);
	for (unsigned i = AGAIN; i-- > 0;) {
		REQUIRE(schedule_run(s, i, design, SCHEDULE_ALL, &r) == 0);
		CHECK(r.hash == hash[i] && r.verbs == verbs[i]);
	}
	schedule_free(s);
}

/* A daemon of an abandoned pool waits for a completion that is late when the first of these ends. */
static void
test_schedule_late_completion_is_not_left_to_the_next_run(void)
{
	const struct far_index_ops *design = far_index_find(NULL);
	struct schedule_result r;
	struct schedule *s;

	REQUIRE(schedule_new(&s) == 0);
	for (uint64_t seed = 68563; seed < 68565; seed++) {
		REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &r) == 0);
		CHECK_EQ(r.verdict, SCHEDULE_GOOD);
	}
	schedule_free(s);
}

/* Configurations ------------------------------------------------------------------------------------------ */

/* Written as text and read back, a configuration plays the same run. */
static void
test_schedule_config_as_text_plays_the_same_run(void)
{
	const struct far_index_ops *design = far_index_find(NULL);
	struct schedule_config drawn, read;
	struct schedule_result r;
	struct schedule *s;
	uint64_t hash;

	REQUIRE(schedule_new(&s) == 0);
	for (uint64_t seed = 1; seed <= AGAIN; seed++) {
		FILE *file = tmpfile();

		REQUIRE(file);
		schedule_config_draw(&drawn, seed, SCHEDULE_ALL | SCHEDULE_RELAXED);
		REQUIRE(schedule_config_is_valid(&drawn));
		schedule_config_print(&drawn, file);
		rewind(file);
		CHECK_EQ(schedule_config_read(&read, file), 0);
		fclose(file);
		CHECK(memcmp(&drawn, &read, sizeof(drawn)) == 0);
		schedule_config_draw(&drawn, seed, SCHEDULE_ALL);
		REQUIRE(schedule_play(s, &drawn, design, &r) == 0);
		hash = r.hash;
		REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &r) == 0);
		CHECK(r.hash == hash);
	}
	schedule_free(s);
}

static void
test_schedule_config_that_cannot_be_is_refused(void)
{
	static const struct {
		const char *text;
		int result;
	} cases[] = {
		{ "seed 1\nwhat 2\n", 2 },
		{ "seed\n", 1 },
		{ "seed -1\n", 1 },
		{ "seed 1x\n", 1 },
		{ "ops 1 2 3 4 5 6 7\n", 1 },
		{ "# nothing\n\n", -FAR_EINVAL },
		{ "seed 99999999999999999999\n", 1 },
		{ "nodes 3\n", -FAR_EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct schedule_config c;
		FILE *file = tmpfile();

		REQUIRE(file);
		fputs(cases[i].text, file);
		rewind(file);
		CHECK_EQ(schedule_config_read(&c, file), cases[i].result);
		fclose(file);
	}
}

static unsigned lines, strays;

static void
count_line(void *arg, const char *text)
{
	lines++;
	strays += strchr(text, '*') != NULL;
}

static void
test_schedule_trace_tells_every_step_and_changes_none(void)
{
	const struct far_index_ops *design = far_index_find(NULL);
	struct schedule_result r, told;
	struct schedule *s;

	REQUIRE(schedule_new(&s) == 0);
	for (uint64_t seed = 1; seed <= AGAIN; seed++) {
		REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &r) == 0);
		schedule_trace(s, count_line, NULL);
		lines = 0;
		REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &told) == 0);
		schedule_trace(s, NULL, NULL);
		CHECK(r.hash == told.hash);
		CHECK_EQ(r.steps, told.steps);
		/* A node that fails at once keeps everybody from stepping. */
		CHECK(lines > 0 || r.faults.downs);
	}
	CHECK(strays > 0);
	schedule_free(s);
}

/* Broken designs ------------------------------------------------------------------------------------------ */

/* Says that it deleted, and did not. */
static int
broken_del(struct far_index *ix, struct far_task *t, struct far_bytes key, uint64_t expect)
{
	return 0;
}

/* Looks first and acts then. */
static int
broken_put(struct far_index *ix, struct far_task *t, enum far_put_mode mode, struct far_bytes key,
	   struct far_bytes value, uint64_t *version)
{
	const struct far_index_ops *design = far_index_find(NULL);
	struct far_value found;
	uint64_t any = 0;
	int err;

	if (mode == FAR_PUT_INSERT) {
		err = design->get(ix, t, key, &found);
		if (err != -FAR_ENOENT)
			return err ? err : -FAR_EEXIST;
		err = design->put(ix, t, FAR_PUT_UPSERT, key, value, &any);
		*version = any;
		return err;
	}
	return design->put(ix, t, mode, key, value, version);
}

/* Forgets a key that nobody has touched: of those that fill the table when it is opened one has this number. */
static int
broken_get(struct far_index *ix, struct far_task *t, struct far_bytes key, struct far_value *value)
{
	char name[8];

	snprintf(name, sizeof(name), "f%d", SCHEDULE_KEYS + SCHEDULE_FRESH + 5);
	if (key.len == strlen(name) && !memcmp(key.data, name, key.len))
		return -FAR_ENOENT;
	return far_index_find(NULL)->get(ix, t, key, value);
}

/* Forgets the last entry of a part; or tells it twice. */
static int
broken_scan(struct far_index *ix, struct far_task *t, uint64_t *cursor, size_t inline_max, struct far_entry **entries,
	    bool *last)
{
	int n = far_index_find(NULL)->scan(ix, t, cursor, inline_max, entries, last);

	return n > 1 ? n - 1 : n;
}

static int
broken_scan_twice(struct far_index *ix, struct far_task *t, uint64_t *cursor, size_t inline_max,
		  struct far_entry **entries, bool *last)
{
	int n = far_index_find(NULL)->scan(ix, t, cursor, inline_max, entries, last);

	if (n > 1)
		(*entries)[0] = (*entries)[n - 1];
	return n;
}

static void
test_schedule_broken_scan_is_found(void)
{
	struct far_index_ops broken[2] = { *far_index_find(NULL), *far_index_find(NULL) };
	struct schedule_result r;
	struct schedule *s;

	broken[0].scan = broken_scan;
	broken[1].scan = broken_scan_twice;
	REQUIRE(schedule_new(&s) == 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned found = 0;

		for (unsigned seed = 1; seed <= 200; seed++) {
			REQUIRE(schedule_run(s, seed, &broken[i], SCHEDULE_ALL, &r) == 0);
			found += r.verdict == SCHEDULE_WRONG_SCAN || r.verdict == SCHEDULE_NOT_LINEARIZABLE;
		}
		printf("# found in %u of 200\n", found);
		CHECK(found > 5);
	}
	schedule_free(s);
}

static void
test_schedule_broken_design_is_found(void)
{
	static const enum schedule_verdict wanted[] = { SCHEDULE_NOT_LINEARIZABLE, SCHEDULE_NOT_LINEARIZABLE,
							SCHEDULE_LOST_KEY };
	struct far_index_ops broken[FAR_LEN(wanted)];
	struct schedule_result r;
	struct schedule *s;

	for (unsigned i = 0; i < FAR_LEN(broken); i++)
		broken[i] = *far_index_find(NULL);
	broken[0].del = broken_del;
	broken[1].put = broken_put;
	broken[2].get = broken_get;
	REQUIRE(schedule_new(&s) == 0);
	for (unsigned i = 0; i < FAR_LEN(broken); i++) {
		unsigned found = 0;

		for (unsigned seed = 1; seed <= 200; seed++) {
			REQUIRE(schedule_run(s, seed, &broken[i], SCHEDULE_ALL, &r) == 0);
			found += r.verdict == wanted[i];
		}
		printf("# found in %u of 200\n", found);
		CHECK(found > 5);
	}
	schedule_free(s);
}

/* A mistake that takes two clients, one key and an operation each is shrunk to little more than that. */
static void
test_schedule_shrink_leaves_little_that_still_fails(void)
{
	struct far_index_ops broken = *far_index_find(NULL);
	struct schedule_shrink k = { .design = &broken, .seeds = 30 };
	struct schedule_config c;
	struct schedule_result r;
	struct schedule *s;
	uint64_t seed = 0, ops = 0;

	broken.put = broken_put;
	REQUIRE(schedule_new(&s) == 0);
	do {
		schedule_config_draw(&c, ++seed, SCHEDULE_ALL);
		REQUIRE(schedule_play(s, &c, &broken, &r) == 0);
	} while (r.verdict == SCHEDULE_GOOD && seed < 1000);
	REQUIRE(r.verdict != SCHEDULE_GOOD);
	CHECK_EQ(schedule_shrink(s, &k, &c, &r), 0);
	CHECK(r.verdict != SCHEDULE_GOOD && r.verdict != SCHEDULE_NO_SETUP);
	for (unsigned i = 0; i < SCHEDULE_CLIENTS; i++)
		ops += i < c.clients ? c.ops[i] : 0;
	printf("# %llu runs, %llu operations left\n", (unsigned long long)k.played, (unsigned long long)ops);
	schedule_print(s, stdout);
	CHECK(ops <= 6 && c.clients <= 4 && !c.victim && !c.outage && !c.breaker);
	/* The correct design survives it. */
	REQUIRE(schedule_play(s, &c, far_index_find(NULL), &r) == 0);
	CHECK_EQ(r.verdict, SCHEDULE_GOOD);
	k.design = far_index_find(NULL);
	CHECK_EQ(schedule_shrink(s, &k, &c, &r), -FAR_EINVAL);
	schedule_free(s);
}

TEST_MAIN(TEST(test_schedule_random_runs_are_good_and_meet_all_trouble),
	  TEST(test_schedule_same_seed_same_hash_whatever_ran_before),
	  TEST(test_schedule_late_completion_is_not_left_to_the_next_run),
	  TEST(test_schedule_config_as_text_plays_the_same_run), TEST(test_schedule_config_that_cannot_be_is_refused),
	  TEST(test_schedule_trace_tells_every_step_and_changes_none), TEST(test_schedule_broken_design_is_found),
	  TEST(test_schedule_broken_scan_is_found),
	  TEST(test_schedule_shrink_leaves_little_that_still_fails))
