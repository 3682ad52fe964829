/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_test.c -- codes are strict and lose nothing. */
#include "cli/bytes.h"

#include "test.h"

static void
test_codes_of_every_byte_come_back(void)
{
	unsigned char all[256];

	for (unsigned i = 0; i < 256; i++)
		all[i] = (unsigned char)i;
	for (size_t len = 0; len <= 256; len++) {
		for (unsigned code = BYTES_RAW; code <= BYTES_BASE64; code++) {
			struct bytes text = { .len = 0 }, back = { .len = 0 };

			CHECK_EQ(bytes_encode(&text, code, far_bytes(all, len)), 0);
			CHECK_EQ(bytes_decode(&back, code, bytes_view(&text)), 0);
			CHECK(back.len == len && memcmp(bytes_view(&back).data, all, len) == 0);
			bytes_free(&text);
			bytes_free(&back);
		}
	}
}

static int
test_decode(enum bytes_code code, const char *text)
{
	struct bytes b = { .len = 0 };
	int err = bytes_decode(&b, code, far_str(text));

	bytes_free(&b);
	return err;
}

static void
test_codes_malformed_are_refused(void)
{
	CHECK_EQ(test_decode(BYTES_HEX, "0"), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_HEX, "0g"), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_HEX, "fF"), 0);
	CHECK_EQ(test_decode(BYTES_BASE64, "QQ=="), 0);
	CHECK_EQ(test_decode(BYTES_BASE64, "QQ"), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_BASE64, "QR=="), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_BASE64, "Q==="), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_BASE64, "QQ==QQ=="), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_BASE64, "Q-=="), -FAR_ESYNTAX);
	CHECK_EQ(test_decode(BYTES_BASE64, "QQ=\n"), -FAR_ESYNTAX);
}

static void
test_json(const char *data, size_t len, const char *want)
{
	struct bytes b = { .len = 0 };

	CHECK_EQ(bytes_json_member(&b, "k", far_bytes(data, len)), 0);
	if (b.len != strlen(want) || memcmp(b.data, want, b.len) != 0) {
		printf("# '%.*s' is not '%s'\n", (int)b.len, b.data, want);
		test_failures++;
	}
	bytes_free(&b);
}

static void
test_json_member_escapes_or_codes(void)
{
	test_json("a\"\\\n\r\t\0\x1f", 8, "\"k\":\"a\\\"\\\\\\n\\r\\t\\u0000\\u001f\"");
	test_json("\xc3\xa9\xf0\x9f\x98\x80", 6, "\"k\":\"\xc3\xa9\xf0\x9f\x98\x80\"");
	test_json("\xff", 1, "\"k64\":\"/w==\"");
	test_json("\xed\xa0\x80", 3, "\"k64\":\"7aCA\"");     /* a surrogate */
	test_json("\xc0\x80", 2, "\"k64\":\"wIA=\"");          /* overlong */
	test_json("\xf4\x90\x80\x80", 4, "\"k64\":\"9JCAgA==\""); /* above 10FFFF */
	test_json("\xc3", 1, "\"k64\":\"ww==\"");              /* cut short */
	test_json("", 0, "\"k\":\"\"");
}

static void
test_json_member_of_many_nul_is_no_longer_than_base64(void)
{
	static char zeros[1 << 20];
	struct bytes b = { .len = 0 };

	CHECK_EQ(bytes_json_member(&b, "k", far_bytes(zeros, sizeof(zeros))), 0);
	CHECK(b.len < sizeof(zeros) * 4 / 3 + 32);
	bytes_free(&b);
}

static void
test_human_text_cannot_steer_a_terminal(void)
{
	struct bytes b = { .len = 0 };
	static const char data[] = "a\x1b[1m\xc2\x9b\n\xc3\xa9\\\xff";
	static const char want[] = "a\\x1b[1m\\xc2\\x9b\\n\xc3\xa9\\\\\\xff";

	CHECK_EQ(bytes_human(&b, far_bytes(data, sizeof(data) - 1), 100), 0);
	bytes_add(&b, "", 1);
	CHECK(b.data && strcmp(b.data, want) == 0);
	b.len = 0;
	CHECK_EQ(bytes_human(&b, FAR_STR("abcdef"), 3), 0);
	bytes_add(&b, "", 1);
	CHECK(strcmp(b.data, "abc... (6 bytes)") == 0);
	bytes_free(&b);
}

TEST_MAIN(
	TEST(test_codes_of_every_byte_come_back),
	TEST(test_codes_malformed_are_refused),
	TEST(test_json_member_escapes_or_codes),
	TEST(test_json_member_of_many_nul_is_no_longer_than_base64),
	TEST(test_human_text_cannot_steer_a_terminal))
