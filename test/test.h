/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test.h -- a test program is a table of cases:
 *
 *	static void test_thing_situation_expectation(void) { CHECK(1 + 1 == 2); }
 *	TEST_MAIN(TEST(test_thing_situation_expectation))
 *
 * Each case prints one TAP line. The program exits with 0 when no case failed. Run it with a case's name to run
 * that one only.
 */
#ifndef FAR_TEST_H
#define FAR_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1 under ThreadSanitizer, which does not bear all that a test may do with signals. */
#if defined(__SANITIZE_THREAD__)
#define TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif

struct test_case {
	const char *name;
	void (*run)(void);
};

static int test_failures;
static const char *test_skip_reason;

#define TEST(fn) { #fn, fn }

/* Notes a failure and goes on. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);                        \
			test_failures++;                                                           \
		}                                                                                  \
	} while (0)

/* Notes both values of a failed comparison of integers. */
#define CHECK_EQ(got, want)                                                                        \
	do {                                                                                       \
		long long got_ = (long long)(got), want_ = (long long)(want);                      \
		if (got_ != want_) {                                                               \
			printf("# %s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, want_); \
			test_failures++;                                                           \
		}                                                                                  \
	} while (0)

/* For what the rest of the case cannot do without. */
#define REQUIRE(cond)                                                                              \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			printf("# %s:%d: required: %s\n", __FILE__, __LINE__, #cond);              \
			fflush(stdout);                                                            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#define SKIP(reason)                                                                               \
	do {                                                                                       \
		test_skip_reason = (reason);                                                       \
		return;                                                                            \
	} while (0)

static inline int
test_run(const struct test_case *cases, size_t n, int argc, char **argv)
{
	int failed = 0, at = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		test_failures = 0;
		test_skip_reason = NULL;
		cases[i].run();
		at++;
		if (test_failures) {
			failed++;
			printf("not ok %d %s\n", at, cases[i].name);
		} else if (test_skip_reason) {
			printf("ok %d %s # SKIP %s\n", at, cases[i].name, test_skip_reason);
		} else {
			printf("ok %d %s\n", at, cases[i].name);
		}
	}
	printf("1..%d\n", at);
	return failed || at == 0 ? 1 : 0;
}

#define TEST_MAIN(...)                                                                             \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static const struct test_case cases[] = { __VA_ARGS__ };                           \
		return test_run(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);              \
	}

#endif
