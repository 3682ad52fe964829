/* SPDX-License-Identifier: Apache-2.0 */
#include <farside/error.h>

#include "base/base.h"
#include "base/rand.h"
#include "pool/class.h"
#include "pool/layout.h"
#include "test.h"

static void
test_strerror_any_code_has_text(void)
{
	for (int i = -300; i < 300; i++)
		CHECK(far_strerror(i) && *far_strerror(i) && far_errname(i));
	CHECK(strcmp(far_errname(-FAR_ENOENT), "FAR_ENOENT") == 0);
	CHECK(strcmp(far_strerror(FAR_EAGAIN + 1), "unknown error") == 0);
}

static void
test_rng_same_seed_same_stream(void)
{
	struct far_rng a, b, c;

	far_rng_seed(&a, 7);
	far_rng_seed(&b, 7);
	far_rng_seed(&c, 8);
	for (int i = 0; i < 100; i++)
		CHECK(far_rng_next(&a) == far_rng_next(&b));
	CHECK(far_rng_next(&a) != far_rng_next(&c));
	for (int i = 0; i < 1000; i++)
		CHECK(far_rng_below(&a, 7) < 7);
}

static void
test_class_every_length_gets_the_smallest_that_fits(void)
{
	for (unsigned c = 1; c < POOL_CLASSES; c++)
		CHECK(pool_class_len(c) > pool_class_len(c - 1));
	CHECK_EQ(pool_class_len(POOL_CLASSES), 0);
	for (uint64_t len = 1; len <= POOL_BLOCK_MAX; len += len < 8192 ? 1 : 61) {
		unsigned c = pool_class_of(len);

		CHECK(c < POOL_CLASSES && pool_class_len(c) >= len);
		CHECK(c == 0 || pool_class_len(c - 1) < len);
	}
	CHECK_EQ(pool_class_of(POOL_BLOCK_MAX), POOL_CLASSES - 1);
	CHECK_EQ(pool_class_of(POOL_BLOCK_MAX + 1), POOL_CLASSES);
}

static void
test_page_word_packs_and_unpacks(void)
{
	struct pool_page p = { POOL_PAGE_INDEX, POOL_PAGE_DIRTY, 68, 255, 258, 1024 }, q;

	q = pool_page_unpack(pool_page_pack(p));
	CHECK(memcmp(&p, &q, sizeof(p)) == 0);
}

static void
test_chunk_bitmap_and_blocks_fit(void)
{
	for (unsigned c = 0; c < POOL_CLASSES; c++) {
		for (uint64_t run = pool_class_len(c) / POOL_PAGE + 1; run < 300; run = run * 2 + 1) {
			uint64_t first;
			uint32_t n = pool_chunk_blocks(c, run, &first);

			CHECK(n >= 1);
			CHECK(first * 8 >= n && first % POOL_UNIT == 0);
			CHECK(first + n * pool_class_len(c) <= run * POOL_PAGE);
		}
	}
}

TEST_MAIN(TEST(test_strerror_any_code_has_text), TEST(test_rng_same_seed_same_stream),
	  TEST(test_class_every_length_gets_the_smallest_that_fits), TEST(test_page_word_packs_and_unpacks),
	  TEST(test_chunk_bitmap_and_blocks_fit))
