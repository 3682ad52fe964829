/* SPDX-License-Identifier: Apache-2.0 */
/* number_test.c -- numbers are strict: digits, one unit, a range, and nothing else. */
#include "cli/number.h"

#include "test.h"

#define SECOND UINT64_C(1000000000)

static const struct number_range test_plain = { NUMBER_PLAIN, 0, UINT64_MAX };
static const struct number_range test_count = { NUMBER_COUNT, 0, UINT64_MAX };
static const struct number_range test_time = { NUMBER_TIME, 0, UINT64_MAX };

static void
test_number_is(const char *text, struct number_range range, uint64_t want)
{
	uint64_t n = ~want;

	CHECK(number_parse(text, range, &n));
	CHECK_EQ(n, want);
}

static void
test_number_is_none(const char *text, struct number_range range)
{
	uint64_t n = 42;

	if (number_parse(text, range, &n) || n != 42) {
		printf("# '%s' is taken for a number\n", text);
		test_failures++;
	}
}

static void
test_number_units_multiply(void)
{
	test_number_is("0", test_count, 0);
	test_number_is("7k", test_count, 7 << 10);
	test_number_is("7K", test_count, 7 << 10);
	test_number_is("3m", test_count, 3 << 20);
	test_number_is("4G", test_count, UINT64_C(4) << 30);
	test_number_is("16777215t", test_count, UINT64_C(16777215) << 40);
	test_number_is("90s", test_time, 90 * SECOND);
	test_number_is("10m", test_time, 600 * SECOND);
	test_number_is("2h", test_time, 7200 * SECOND);
	test_number_is("18446744073709551615", test_plain, UINT64_MAX);
}

static void
test_number_anything_else_is_refused(void)
{
	static const char *const texts[] = { "", " 1", "1 ", "+1", "-1", "0x10", "1.5", "k", "1kk", "1kb", "1KiB", "1x",
					     "18446744073709551616", "99999999999999999999999" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		test_number_is_none(texts[i], test_plain);
		test_number_is_none(texts[i], test_count);
		test_number_is_none(texts[i], test_time);
	}
	test_number_is_none("1k", test_plain);
	test_number_is_none("1s", test_count);
	test_number_is_none("5", test_time);
	test_number_is_none("5k", test_time);
	test_number_is_none("5S", test_time);
}

static void
test_number_out_of_its_range_is_refused(void)
{
	const struct number_range range = { NUMBER_SIZE, 1024, 4096 };

	test_number_is_none("1023", range);
	test_number_is("1k", range, 1024);
	test_number_is("4096", range, 4096);
	test_number_is_none("4097", range);
	test_number_is_none("5k", range);
	test_number_is_none("16777216t", test_count);
	test_number_is_none("5124096h", test_time);
}

TEST_MAIN(TEST(test_number_units_multiply), TEST(test_number_anything_else_is_refused),
	  TEST(test_number_out_of_its_range_is_refused))
