/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/base.h"
#include "cli/demo.h"
#include "test.h"

static char demo_blocks_text[][16] = { "001122", "0011223", "00112233A", "FFFFFF" };

static struct demo_plan
demo_plan_small(void)
{
	struct demo_plan p = { .readings = 1003, .ops = 20000, .clients = 3, .seed = 9 };

	p.blocks = (struct demo_blocks){ .text = demo_blocks_text, .n = FAR_LEN(demo_blocks_text) };
	return p;
}

static int
demo_key_cmp(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
test_device_keys_are_unique(void)
{
	static char keys[1003][DEMO_KEY_MAX];
	struct demo_plan p = demo_plan_small();

	for (uint64_t i = 0; i < p.readings; i++)
		CHECK_EQ(demo_device(&p, i, keys[i]).len, strlen(keys[i]));
	qsort(keys, p.readings, sizeof(keys[0]), demo_key_cmp);
	for (uint64_t i = 1; i < p.readings; i++)
		CHECK(strcmp(keys[i - 1], keys[i]) != 0);
}

static void
test_reading_number_only_of_the_right_bytes(void)
{
	char buf[DEMO_VALUE_MAX];

	for (uint64_t n = 1; n < 1000; n += 37) {
		struct far_bytes value = demo_reading(5, n, buf);

		CHECK_EQ(demo_reading_number(5, value), n);
		CHECK_EQ(demo_reading_number(6, value), 0);
		for (size_t i = 0; i < value.len; i++) {
			buf[i] ^= 1;
			CHECK_EQ(demo_reading_number(5, value), 0);
			buf[i] ^= 1;
		}
		CHECK_EQ(demo_reading_number(5, far_bytes(buf, value.len - 1)), 0);
		CHECK_EQ(demo_reading_number(5, far_bytes(buf, 0)), 0);
	}
}

static void
test_ops_write_own_devices_only_and_repeat(void)
{
	struct demo_plan p = demo_plan_small();
	uint64_t kinds[DEMO_KINDS] = { 0 }, last = 0;

	for (unsigned client = 0; client < p.clients; client++) {
		for (uint64_t k = 0; k < p.ops; k++) {
			struct demo_op op = demo_op(&p, client, k), again = demo_op(&p, client, k);

			REQUIRE(op.device < p.readings);
			CHECK(op.kind == again.kind && op.device == again.device && op.n == again.n);
			CHECK(op.kind == DEMO_READ_ANY || op.device % p.clients == client);
			last |= op.device >= p.readings - p.clients ? 1u << op.device % p.clients : 0;
			kinds[op.kind]++;
		}
	}
	for (int k = 0; k < DEMO_KINDS; k++)
		CHECK(kinds[k] > p.ops * p.clients / 40);
	CHECK_EQ(last, 7);
}

static void
test_replay_deletes_and_restores(void)
{
	struct demo_op update = { DEMO_UPDATE, 1, 7 }, delete = { DEMO_DELETE, 1, 8 }, put = { DEMO_PUT, 1, 9 };
	struct demo_op read = { DEMO_READ_OWN, 1, 10 };

	CHECK_EQ(demo_op_after(&update, 3), 7);
	CHECK_EQ(demo_op_after(&update, 0), 0);
	CHECK_EQ(demo_op_after(&delete, 3), 0);
	CHECK_EQ(demo_op_after(&put, 0), 9);
	CHECK_EQ(demo_op_after(&read, 3), 3);
	CHECK_EQ(demo_op_result(&update, 0), -FAR_ENOENT);
	CHECK_EQ(demo_op_result(&delete, 0), -FAR_ENOENT);
	CHECK_EQ(demo_op_result(&read, 0), -FAR_ENOENT);
	CHECK_EQ(demo_op_result(&put, 0), 0);
	CHECK_EQ(demo_op_result(&update, 3), 0);
}

static void
test_sources_missing_directory_names_the_package(void)
{
	struct demo_plan p = demo_plan_small();
	struct record_source *r;
	char why[FAR_ERRMSG_MAX] = "";

	p.ieee_dir = p.weather_dir = "/nonexistent";
	CHECK_EQ(demo_source_open(&p, demo_source_at(0), &r, why), -FAR_EIO);
	CHECK(strstr(why, "install the package ieee-data") != NULL);
	CHECK_EQ(demo_blocks_read(&p, why), -FAR_EIO);
	CHECK_EQ(demo_source_open(&p, demo_source_at(8), &r, why), -FAR_EIO);
	CHECK(strstr(why, "install the package weather-util-data") != NULL);
	CHECK(demo_source_at(9) == NULL);
}

static void
test_blocks_of_the_registry_are_all_there(void)
{
	struct demo_plan p = { .ieee_dir = "/usr/share/ieee-data" };
	char why[FAR_ERRMSG_MAX] = "";

	if (access("/usr/share/ieee-data/oui.csv", R_OK) != 0)
		SKIP("ieee-data is not installed");
	REQUIRE(demo_blocks_read(&p, why) == 0);
	CHECK(p.blocks.n > 40000);
	for (uint64_t i = 0; i < p.blocks.n; i++) {
		size_t len = strlen(p.blocks.text[i]);

		CHECK(len == 6 || len == 7 || len == 9);
		CHECK_EQ(strspn(p.blocks.text[i], "0123456789ABCDEF"), len);
		CHECK(i == 0 || strcmp(p.blocks.text[i - 1], p.blocks.text[i]) < 0);
	}
	demo_blocks_free(&p.blocks);
}

TEST_MAIN(TEST(test_device_keys_are_unique), TEST(test_reading_number_only_of_the_right_bytes),
	  TEST(test_ops_write_own_devices_only_and_repeat), TEST(test_replay_deletes_and_restores),
	  TEST(test_sources_missing_directory_names_the_package), TEST(test_blocks_of_the_registry_are_all_there))
