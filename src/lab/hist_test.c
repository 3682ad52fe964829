/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/hist.h"

#include "base/rand.h"
#include "test.h"

static struct hist hist_a, hist_b;

static void
test_hist_empty_is_zero(void)
{
	hist_init(&hist_a);
	CHECK_EQ(hist_at(&hist_a, 0.5), 0);
	CHECK_EQ(hist_at(&hist_a, 1.0), 0);
	CHECK(hist_mean(&hist_a) == 0);
}

static void
test_hist_one_value_error_at_most_a_64th(void)
{
	for (unsigned bit = 0; bit < HIST_TOP_BITS; bit++) {
		for (int step = -2; step <= 2; step++) {
			uint64_t ns = ((uint64_t)1 << bit) + (uint64_t)(step * (int64_t)((uint64_t)1 << bit) / 5), got;

			hist_init(&hist_a);
			hist_add(&hist_a, ns);
			hist_add(&hist_a, UINT64_MAX >> 1); /* so that the maximum does not correct the answer */
			got = hist_at(&hist_a, 0.5);
			CHECK(got >= ns);
			CHECK(got - ns <= ns / 64);
		}
	}
}

static void
test_hist_small_values_are_exact(void)
{
	for (uint64_t ns = 0; ns < 128; ns++) {
		hist_init(&hist_a);
		hist_add(&hist_a, ns);
		hist_add(&hist_a, 1000);
		CHECK_EQ(hist_at(&hist_a, 0.5), ns);
	}
}

static void
test_hist_percentiles_of_a_ramp_are_ranks(void)
{
	hist_init(&hist_a);
	for (uint64_t ns = 1; ns <= 100000; ns++)
		hist_add(&hist_a, ns);
	for (int i = 1; i <= 1000; i++) {
		uint64_t want = (uint64_t)i * 100, got = hist_at(&hist_a, i / 1000.0);

		CHECK(got >= want && got <= want + want / 64);
	}
	CHECK_EQ(hist_at(&hist_a, 1.0), 100000);
	CHECK_EQ(hist_at(&hist_a, 0), 1);
	CHECK(hist_mean(&hist_a) == 50000.5);
}

static void
test_hist_beyond_the_range_keeps_maximum(void)
{
	hist_init(&hist_a);
	hist_add(&hist_a, 5);
	hist_add(&hist_a, (uint64_t)1 << 50);
	CHECK_EQ(hist_at(&hist_a, 1.0), (uint64_t)1 << 50);
	CHECK_EQ(hist_at(&hist_a, 0.5), 5);
}

static void
test_hist_merge_equals_one_histogram(void)
{
	static struct hist all;
	struct far_rng rng;

	far_rng_seed(&rng, 1);
	hist_init(&all);
	hist_init(&hist_a);
	hist_init(&hist_b);
	for (int i = 0; i < 10000; i++) {
		uint64_t ns = far_rng_next(&rng) >> far_rng_below(&rng, 64);

		hist_add(&all, ns >> 4);
		hist_add(i % 3 ? &hist_a : &hist_b, ns >> 4);
	}
	hist_merge(&hist_a, &hist_b);
	CHECK(memcmp(&all, &hist_a, sizeof(all)) == 0);
}

TEST_MAIN(TEST(test_hist_empty_is_zero), TEST(test_hist_one_value_error_at_most_a_64th),
	  TEST(test_hist_small_values_are_exact), TEST(test_hist_percentiles_of_a_ramp_are_ranks),
	  TEST(test_hist_beyond_the_range_keeps_maximum), TEST(test_hist_merge_equals_one_histogram))
