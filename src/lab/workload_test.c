/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts are compared with what the published formulas predict. Bounds are five standard deviations of the binomial
 * (or of chi-square): a right generator with another seed fails once in a million runs, and the seeds are fixed.
 */
#include "lab/workload.h"

#include <farside/error.h>
#include <math.h>
#include <pthread.h>

#include "base/base.h"
#include "test.h"

static bool
workload_count_ok(uint64_t got, uint64_t n, double p)
{
	return fabs((double)got - (double)n * p) <= 5 * sqrt((double)n * p * (1 - p)) + 1;
}

static void
test_zeta_tail_formula_equals_the_sum(void)
{
	static const double thetas[] = { 0.2, 0.5, 0.9, 0.99 };

	for (size_t t = 0; t < FAR_LEN(thetas); t++) {
		double sum = 0;

		for (uint64_t i = 1; i <= 300000; i++) {
			sum += pow((double)i, -thetas[t]);
			if (i == 1 || i == 2 || i == 999 || i == 1000 || i == 1001 || i == 300000)
				CHECK(fabs(zipf_zeta(i, thetas[t]) / sum - 1) < 1e-12);
		}
	}
	/* The constant that YCSB carries for its 10 billion items (which it counts without the last). */
	CHECK(fabs(zipf_zeta(10000000000, 0.99) - 26.46902820178302) < 1e-6);
}

static void
test_zipf_grown_equals_made_that_large(void)
{
	struct zipf a, b;

	zipf_init(&a, 1000, 0.99);
	for (uint64_t n = 1001; n <= 5000; n += 7)
		zipf_grow(&a, n);
	zipf_grow(&a, 5000);
	zipf_grow(&a, 10);
	zipf_init(&b, 5000, 0.99);
	CHECK_EQ(a.n, 5000);
	CHECK(fabs(a.zetan / b.zetan - 1) < 1e-12);
	CHECK(fabs(a.eta / b.eta - 1) < 1e-9);
}

/* Gray's formula, inverted: the share of draws that are <= item. */
static double
zipf_share_upto(const struct zipf *z, uint64_t item)
{
	if (item < 2)
		return (item ? z->zeta2 : 1) / z->zetan;
	if (item + 1 >= z->n)
		return 1;
	return fmax(z->zeta2 / z->zetan,
		    1 - (1 - pow((double)(item + 1) / (double)z->n, 1 - z->theta)) / z->eta);
}

static void
test_zipf_frequencies_pass_chi_square(void)
{
	static const double thetas[] = { 0.3, 0.8, 0.99 };
	enum { N = 1000, DRAWS = 1000000 };

	for (size_t t = 0; t < FAR_LEN(thetas); t++) {
		static uint64_t seen[N];
		struct far_rng rng;
		struct zipf z;
		double chi = 0;
		unsigned cells = 0;

		memset(seen, 0, sizeof(seen));
		far_rng_seed(&rng, 11 + t);
		zipf_init(&z, N, thetas[t]);
		for (int i = 0; i < DRAWS; i++) {
			uint64_t item = zipf_next(&z, &rng);

			REQUIRE(item < N);
			seen[item]++;
		}
		for (uint64_t i = 0; i < N; i++) {
			double p = zipf_share_upto(&z, i) - (i ? zipf_share_upto(&z, i - 1) : 0), want = p * DRAWS;

			if (want < 10)
				continue;
			chi += ((double)seen[i] - want) * ((double)seen[i] - want) / want;
			cells++;
		}
		CHECK(cells > 900);
		CHECK(chi < cells + 5 * sqrt(2.0 * cells));
		CHECK(chi > cells - 5 * sqrt(2.0 * cells));
		/* The true law: exact for the two first items, approximated by the formula for the others. */
		CHECK(workload_count_ok(seen[0], DRAWS, 1 / zipf_zeta(N, thetas[t])));
		CHECK(workload_count_ok(seen[1], DRAWS, pow(0.5, thetas[t]) / zipf_zeta(N, thetas[t])));
		CHECK(fabs(zipf_share_upto(&z, 99) - zipf_zeta(100, thetas[t]) / z.zetan) < 0.02);
	}
}

static void
test_zipf_few_items_stay_in_range(void)
{
	struct far_rng rng;
	struct zipf z;

	far_rng_seed(&rng, 3);
	for (uint64_t n = 1; n <= 5; n++) {
		uint64_t seen[5] = { 0 };

		zipf_init(&z, n, 0.99);
		for (int i = 0; i < 10000; i++) {
			uint64_t item = zipf_next(&z, &rng);

			REQUIRE(item < n);
			seen[item]++;
		}
		for (uint64_t i = 0; i < n; i++)
			CHECK(seen[i] > 500);
	}
}

static void
test_fnv64_known_inputs_known_hashes(void)
{
	/* FNV-1a of eight zero bytes, and of 1 followed by seven zero bytes; the sign is dropped. */
	uint64_t zero = 0xa8c7f832281a39c5ULL, one = 0x89cd31291d2aefa4ULL;

	CHECK(workload_fnv64(0) == (zero >> 63 ? -zero : zero));
	CHECK(workload_fnv64(1) == (one >> 63 ? -one : one));
	for (uint64_t i = 0; i < 1000; i++)
		CHECK(workload_fnv64(i) >> 63 == 0);
}

static void
workload_setup(const char *name, uint64_t keys, struct workload_spec *s, struct workload_seq **q, struct workload *w)
{
	REQUIRE(workload_find(name, s) == 0);
	s->keys = keys;
	s->ops = keys;
	REQUIRE(workload_check(s) == NULL);
	REQUIRE(workload_seq_open(keys, q) == 0);
	workload_init(w, s, *q, 5);
}

static void
test_mix_every_workload_keeps_its_shares(void)
{
	static const char *const names[] = { "A", "b", "C", "D", "F", "insert", "update", "delete", "negative" };
	enum { N = 200000 };

	for (size_t i = 0; i < FAR_LEN(names); i++) {
		uint64_t seen[WORKLOAD_KINDS] = { 0 };
		struct workload_spec s;
		struct workload_seq *q;
		struct workload w;

		workload_setup(names[i], N, &s, &q, &w);
		for (int k = 0; k < N; k++) {
			struct workload_step step = workload_next(&w);

			seen[step.kind]++;
			if (step.kind == WORKLOAD_INSERT)
				workload_seq_done(q, step.number);
			CHECK((step.kind == WORKLOAD_ABSENT) == (step.number >= workload_number_max(s.key_len)));
		}
		for (int k = 0; k < WORKLOAD_KINDS; k++)
			CHECK(workload_count_ok(seen[k], N, s.percent[k] / 100.0));
		workload_seq_close(q);
	}
}

static void
test_uniform_frequencies_pass_chi_square(void)
{
	enum { N = 1000, DRAWS = 1000000 };
	static uint64_t seen[N];
	struct workload_spec s;
	struct workload_seq *q;
	struct workload w;
	double chi = 0;

	workload_setup("C", N, &s, &q, &w);
	s.dist = WORKLOAD_UNIFORM;
	for (int i = 0; i < DRAWS; i++)
		seen[workload_next(&w).number]++;
	for (int i = 0; i < N; i++)
		chi += pow((double)seen[i] - DRAWS / N, 2) / (DRAWS / N);
	CHECK(chi < N + 5 * sqrt(2.0 * N) && chi > N - 5 * sqrt(2.0 * N));
	workload_seq_close(q);
}

static void
test_scrambled_hot_keys_are_the_hashed_ranks(void)
{
	enum { N = 100003, DRAWS = 1000000 };
	static uint64_t seen[N];
	struct workload_spec s;
	struct workload_seq *q;
	struct workload w;
	uint64_t hot = 0;

	workload_setup("C", N, &s, &q, &w);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t number = workload_next(&w).number;

		REQUIRE(number < N);
		seen[number]++;
	}
	/* The tail, about a draw in N per key, comes on top of rank 0 and 1. */
	CHECK(workload_count_ok(seen[workload_fnv64(0) % N], DRAWS, 1 / 26.469 + 0.7 / N));
	CHECK(workload_count_ok(seen[workload_fnv64(1) % N], DRAWS, pow(0.5, 0.99) / 26.469 + 0.7 / N));
	for (int i = 0; i < N; i++)
		hot = far_max(hot, seen[i]);
	CHECK_EQ(hot, seen[workload_fnv64(0) % N]);
	workload_seq_close(q);
}

static void
test_latest_follows_the_newest_key(void)
{
	enum { N = 10000, DRAWS = 200000 };
	uint64_t newest = 0, reads = 0, limit;
	struct workload_spec s;
	struct workload_seq *q;
	struct workload w;
	double p = 0;

	workload_setup("D", N, &s, &q, &w);
	for (int i = 0; i < DRAWS; i++) {
		struct workload_step step = workload_next(&w);

		limit = workload_seq_limit(q);
		if (step.kind == WORKLOAD_INSERT) {
			CHECK_EQ(step.number, limit);
			workload_seq_done(q, step.number);
			continue;
		}
		REQUIRE(step.number < limit);
		newest += step.number == limit - 1;
		p += 1 / zipf_zeta(limit, 0.99);
		reads++;
	}
	CHECK(workload_seq_limit(q) > N + DRAWS / 25);
	CHECK(workload_count_ok(newest, reads, p / (double)reads));
	workload_seq_close(q);
}

static void
test_scrambled_with_inserts_reads_only_what_is_there(void)
{
	struct workload_spec s;
	struct workload_seq *q;
	struct workload w;
	bool fresh = false;

	workload_setup("D", 1000, &s, &q, &w);
	s.dist = WORKLOAD_SCRAMBLED;
	s.ops = 20000;
	workload_init(&w, &s, q, 7);
	for (int i = 0; i < 20000; i++) {
		struct workload_step step = workload_next(&w);

		if (step.kind == WORKLOAD_INSERT) {
			workload_seq_done(q, step.number);
			continue;
		}
		REQUIRE(step.number < workload_seq_limit(q));
		fresh |= step.number >= 1000;
	}
	CHECK(fresh);
	workload_seq_close(q);
}

static void
test_seq_gap_holds_the_limit_back(void)
{
	struct workload_seq *q;
	uint64_t a, b, c;

	REQUIRE(workload_seq_open(10, &q) == 0);
	a = workload_seq_take(q);
	b = workload_seq_take(q);
	c = workload_seq_take(q);
	workload_seq_done(q, c);
	workload_seq_done(q, b);
	CHECK_EQ(workload_seq_limit(q), 10);
	workload_seq_done(q, a);
	CHECK_EQ(workload_seq_limit(q), 13);
	workload_seq_close(q);
}

static void *
workload_seq_thread(void *arg)
{
	for (int i = 0; i < 100000; i++)
		workload_seq_done(arg, workload_seq_take(arg));
	return NULL;
}

static void
test_seq_threads_lose_no_number(void)
{
	struct workload_seq *q;
	pthread_t threads[4];

	REQUIRE(workload_seq_open(0, &q) == 0);
	for (int i = 0; i < 4; i++)
		REQUIRE(pthread_create(&threads[i], NULL, workload_seq_thread, q) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(workload_seq_limit(q), 400000);
	workload_seq_close(q);
}

static int
workload_key_cmp(const void *a, const void *b)
{
	return memcmp(a, b, 24);
}

static void
test_keys_of_every_length_are_unique_and_of_that_length(void)
{
	static const size_t lens[] = { 1, 2, 3, 5, 8, 15, 16, 17, 24 };
	enum { N = 50000, STRIDE = 24 };
	static char keys[N][STRIDE];

	for (size_t i = 0; i < FAR_LEN(lens); i++) {
		struct workload_spec s = { .key_len = lens[i] };
		uint64_t max = workload_number_max(lens[i]), n = 2 * far_min(N / 2, max);

		memset(keys, '!', sizeof(keys));
		for (uint64_t k = 0; k < n; k++)
			workload_key(&s, k < n / 2 ? k : max + k - n / 2, keys[k]);
		for (uint64_t k = 0; k < n; k++)
			for (size_t b = 0; b < STRIDE; b++)
				REQUIRE((keys[k][b] == '!') == (b >= lens[i]));
		if (lens[i] > 2) {
			unsigned ascending = 0;

			for (uint64_t k = 1; k < n / 2; k++)
				ascending += memcmp(keys[k - 1], keys[k], lens[i]) < 0;
			CHECK(ascending > n / 5 && ascending < n / 10 * 3);
		}
		qsort(keys, n, STRIDE, workload_key_cmp);
		for (uint64_t k = 1; k < n; k++)
			REQUIRE(memcmp(keys[k - 1], keys[k], STRIDE) != 0);
	}
}

static void
test_value_any_changed_byte_is_noticed(void)
{
	struct workload_spec s = { 0 };
	unsigned char buf[100];

	for (s.value_len = 0; s.value_len <= 80; s.value_len++) {
		memset(buf, 0xee, sizeof(buf));
		workload_value(&s, 77, 0x123456789abcdefULL, buf);
		CHECK_EQ(buf[s.value_len], 0xee);
		CHECK(workload_value_ok(&s, 77, buf, s.value_len));
		CHECK(!workload_value_ok(&s, 77, buf, s.value_len + 1));
		CHECK(s.value_len == 0 || !workload_value_ok(&s, 78, buf, s.value_len));
		for (size_t i = 0; i < s.value_len; i++) {
			buf[i] ^= 0x10;
			/* The second word alone tells the stamp: there must be a whole third to contradict it. */
			if (i < 8 || s.value_len >= 24)
				CHECK(!workload_value_ok(&s, 77, buf, s.value_len));
			buf[i] ^= 0x10;
		}
	}
}

static void
test_check_nonsense_is_refused(void)
{
	struct workload_spec s;
	enum workload_dist dist;

	CHECK_EQ(workload_find("E", &s), -FAR_ENOENT);
	CHECK_EQ(workload_dist_find("normal", &dist), -FAR_ENOENT);
	REQUIRE(workload_dist_find("latest", &dist) == 0);
	CHECK(strcmp(workload_dist_name(dist), "latest") == 0);
	REQUIRE(workload_find("insert", &s) == 0);
	CHECK(workload_check(&s) != NULL);
	s.keys = 100;
	CHECK(workload_check(&s) == NULL);
	s.key_len = 2;
	s.ops = 28;
	CHECK(workload_check(&s) == NULL);
	s.ops = 29;
	CHECK(workload_check(&s) != NULL);
	s.key_len = 0;
	CHECK(workload_check(&s) != NULL);
	s.key_len = 16;
	s.theta = 1;
	CHECK(workload_check(&s) != NULL);
	REQUIRE(workload_find("delete", &s) == 0);
	s.keys = 10;
	s.ops = 11;
	CHECK(workload_check(&s) != NULL);
}

TEST_MAIN(TEST(test_zeta_tail_formula_equals_the_sum), TEST(test_zipf_grown_equals_made_that_large),
	  TEST(test_zipf_frequencies_pass_chi_square), TEST(test_zipf_few_items_stay_in_range),
	  TEST(test_fnv64_known_inputs_known_hashes), TEST(test_mix_every_workload_keeps_its_shares),
	  TEST(test_uniform_frequencies_pass_chi_square), TEST(test_scrambled_hot_keys_are_the_hashed_ranks),
	  TEST(test_latest_follows_the_newest_key), TEST(test_scrambled_with_inserts_reads_only_what_is_there),
	  TEST(test_seq_gap_holds_the_limit_back), TEST(test_seq_threads_lose_no_number),
	  TEST(test_keys_of_every_length_are_unique_and_of_that_length),
	  TEST(test_value_any_changed_byte_is_noticed), TEST(test_check_nonsense_is_refused))
