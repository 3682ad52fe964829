/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_test.c -- random schedules of every design are good, the same each time, and a broken design is found. */
#include "lab/schedule.h"

#include <farside/error.h>

#include "test.h"

enum { SEEDS = 2500, AGAIN = 200 };

static void
test_schedule_random_runs_are_good(void)
{
	const struct far_index_ops *design;
	struct schedule_result r;
	struct schedule *s;

	REQUIRE(schedule_new(&s) == 0);
	for (unsigned d = 0; (design = far_index_at(d)); d++) {
		uint64_t verbs = 0, splits = 0, crashed = 0;

		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			REQUIRE(schedule_run(s, seed, design, SCHEDULE_ALL, &r) == 0);
			CHECK_EQ(r.verdict, SCHEDULE_GOOD);
			if (r.verdict != SCHEDULE_GOOD) {
				schedule_print(s, stdout);
				break;
			}
			verbs += r.verbs;
			splits += r.splits;
			crashed += r.crashed;
		}
		printf("# %s: %.0f verbs, %.2f splits, %.2f crashes per schedule\n", design->name,
		       (double)verbs / SEEDS, (double)splits / SEEDS, (double)crashed / SEEDS);
		CHECK(verbs >= 60 * SEEDS && splits > SEEDS / 2 && crashed > SEEDS / 4);
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

static void
test_schedule_broken_design_is_found(void)
{
	struct far_index_ops broken[2] = { *far_index_find(NULL), *far_index_find(NULL) };
	struct schedule_result r;
	struct schedule *s;

	broken[0].del = broken_del;
	broken[1].put = broken_put;
	REQUIRE(schedule_new(&s) == 0);
	for (unsigned i = 0; i < 2; i++) {
		unsigned found = 0;

		for (unsigned seed = 1; seed <= 200; seed++) {
			REQUIRE(schedule_run(s, seed, &broken[i], SCHEDULE_ALL, &r) == 0);
			found += r.verdict == SCHEDULE_NOT_LINEARIZABLE;
		}
		printf("# found in %u of 200\n", found);
		CHECK(found > 5);
	}
	schedule_free(s);
}

TEST_MAIN(TEST(test_schedule_random_runs_are_good), TEST(test_schedule_same_seed_same_hash_whatever_ran_before),
	  TEST(test_schedule_broken_design_is_found))
