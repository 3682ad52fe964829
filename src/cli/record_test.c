/* SPDX-License-Identifier: Apache-2.0 */
/* record_test.c -- each format's good and bad inputs, through files as `farside load` reads them. */
#include <fcntl.h>
#include <zlib.h>

#include "base/rand.h"
#include "cli/bytes.h"
#include "cli/record_rig.h"

static void
test_csv_plain_gives_rows_as_json_in_column_order(void)
{
	struct record_source *r = OPEN("id,b,a\n1,x,y\n2,, z \n", .key = "id");

	record_expect(r, "1", "{\"b\":\"x\",\"a\":\"y\"}", 2);
	record_expect(r, "2", "{\"b\":\"\",\"a\":\" z \"}", 3);
	CHECK_EQ(record_format(r), RECORD_CSV);
	record_expect_end(r);
}

static void
test_csv_quotes_commas_and_newlines_are_kept(void)
{
	struct record_source *r = OPEN("id,v\n\"a,\"\"b\",\"two\nlines\"\nc,d", .key = "id");

	record_expect(r, "a,\"b", "{\"v\":\"two\\nlines\"}", 2);
	record_expect(r, "c", "{\"v\":\"d\"}", 4);
	record_expect_end(r);
}

static void
test_csv_crlf_bom_and_blank_lines_are_no_data(void)
{
	struct record_source *r = OPEN("\xef\xbb\xbfid,v\r\n\r\n1,x\r\n\n2,y\r\n", .key = "id", .value = "v");

	record_expect(r, "1", "x", 3);
	record_expect(r, "2", "y", 5);
	record_expect_end(r);
}

static void
test_csv_wrong_column_count_names_line_and_goes_on(void)
{
	struct record_source *r = OPEN("id,v\n1,a,b\n2\n3,c\n", .key = "id", .value = "v");

	record_expect_error(r, -FAR_ESYNTAX, ":2: 3 columns where the header has 2");
	record_expect_error(r, -FAR_ESYNTAX, ":3: 1 column where the header has 2");
	record_expect(r, "3", "c", 4);
	record_expect_end(r);
}

static void
test_csv_bad_quote_names_line_and_goes_on(void)
{
	struct record_source *r = OPEN("id,v\n1,a\"b\n2,\"c\"d\n3,e\n", .key = "id", .value = "v");

	record_expect_error(r, -FAR_ESYNTAX, ":2: a quote stands");
	record_expect_error(r, -FAR_ESYNTAX, ":3: a quote stands");
	record_expect(r, "3", "e", 4);
	record_expect_end(r);
}

static void
test_csv_open_quote_at_end_names_first_line(void)
{
	struct record_source *r = OPEN("id,v\n1,a\n2,\"b\nc\nd\n", .key = "id", .value = "v");

	record_expect(r, "1", "a", 2);
	record_expect_error(r, -FAR_ESYNTAX, ":3: a quote is opened and never closed");
	record_expect_end(r);
}

static void
test_csv_lone_carriage_return_is_an_error(void)
{
	struct record_source *r = OPEN("id,v\n1,a\r2,b\n3,c\n", .key = "id", .value = "v");

	record_expect_error(r, -FAR_ESYNTAX, ":2: a carriage return");
	record_expect(r, "3", "c", 3);
	record_expect_end(r);
}

static void
test_csv_missing_column_fails_for_good(void)
{
	struct record_source *r = OPEN("id,v\n1,a\n", .key = "no");

	record_expect_error(r, -FAR_EINVAL, ":1: there is no column 'no'; the columns are id, v");
	record_close(r);
	r = OPEN("id,v\n", .key = "id,no");
	record_expect_error(r, -FAR_EINVAL, ":1: there is no column 'no'; the columns are id, v");
	record_close(r);
	r = OPEN("id\tv\n", .key = "id", .value = "no");
	record_expect_error(r, -FAR_EINVAL, ":1: there is no column 'no'; the columns are id, v");
	record_close(r);
	r = OPEN("", .key = "id", .format = RECORD_CSV);
	record_expect_error(r, -FAR_EINVAL, ": it is empty: a first line must name the columns");
	record_close(r);
	r = OPEN("id,v\n1,a\n", .key = "id", .value = "w");
	record_expect_error(r, -FAR_EINVAL, "there is no column 'w'");
	record_close(r);
	r = OPEN("id,v,id\n1,a,b\n", .key = "id");
	record_expect_error(r, -FAR_EINVAL, ":1: two columns have the name 'id'");
	record_close(r);
	r = OPEN("id,v\n1,a\n", .format = RECORD_CSV);
	record_expect_error(r, -FAR_EINVAL, "--key COLUMN");
	record_close(r);
}

static void
test_csv_nul_and_bad_utf8_pass_raw_and_not_as_json(void)
{
	struct record_source *r = OPEN("id,v\n1,a\0b\n2,\xff\n", .key = "id");
	struct record rec;

	record_expect(r, "1", "{\"v\":\"a\\u0000b\"}", 2);
	record_expect_error(r, -FAR_ESYNTAX, ":3: column 'v' is not UTF-8");
	record_expect_end(r);
	r = OPEN("id,v\n1,a\0b\n2,\xff\n", .key = "id", .value = "v");
	CHECK_EQ(record_next(r, &rec), 1);
	CHECK(rec.value.len == 3 && memcmp(rec.value.data, "a\0b", 3) == 0);
	record_expect(r, "2", "\xff", 3);
	record_expect_end(r);
}

static void
test_csv_joined_key_and_prefix_make_one_key(void)
{
	struct record_source *r = OPEN("a,b,c\n1,2,3\n", .key = "c,a", .prefix = "dev:");

	record_expect(r, "dev:3,1", "{\"b\":\"2\"}", 2);
	record_expect_end(r);
}

static void
test_csv_other_delimiter_is_used(void)
{
	struct record_source *r = OPEN("a;b\n1;2,5\n", .key = "a", .value = "b", .delimiter = ';');

	record_expect(r, "1", "2,5", 2);
	record_expect_end(r);
}

static void
test_csv_empty_key_is_an_error(void)
{
	struct record_source *r = OPEN("a,b\n,x\n", .key = "a", .prefix = "p");

	record_expect_error(r, -FAR_ESYNTAX, ":2: the key is empty");
	record_expect_end(r);
}

static void
test_tsv_quotes_are_plain_text(void)
{
	struct record_source *r = OPEN("id\tv\n1\t6\" pipe\n\"2\t\n3\n", .key = "id", .value = "v");

	record_expect(r, "1", "6\" pipe", 2);
	record_expect(r, "\"2", "", 3);
	record_expect_error(r, -FAR_ESYNTAX, ":4: 1 column where the header has 2");
	CHECK_EQ(record_format(r), RECORD_TSV);
	record_expect_end(r);
}

static void
test_ini_sections_become_records(void)
{
	struct record_source *r = OPEN("# note\n; other\n\n[ab c]\nx = 1 = 2\ny: http://z\n  more\n\n[d]\n[e]\nk=\n");

	record_expect(r, "ab c", "{\"x\":\"1 = 2\",\"y\":\"http://z\\nmore\"}", 4);
	record_expect(r, "d", "{}", 9);
	record_expect(r, "e", "{\"k\":\"\"}", 10);
	CHECK_EQ(record_format(r), RECORD_INI);
	record_expect_end(r);
}

static void
test_ini_other_key_keeps_the_section_in_the_value(void)
{
	struct record_source *r = OPEN("[s]\nid = 7\nz = 8\n[t]\nz = 9\n", .key = "id");

	record_expect(r, "7", "{\"@section\":\"s\",\"z\":\"8\"}", 1);
	record_expect_error(r, -FAR_ESYNTAX, ":4: there is no 'id' here");
	record_expect_end(r);
}

static void
test_ini_errors_name_their_line_and_skip_the_section(void)
{
	struct record_source *r =
		OPEN("x = 1\n[a]\nnonsense\ny = 2\n[b]\nz = 3\nz = 4\n[c\n[d]\nq = 5\n", .format = RECORD_INI);

	record_expect_error(r, -FAR_ESYNTAX, ":1: expected [SECTION] first");
	record_expect_error(r, -FAR_ESYNTAX, ":3: expected NAME = VALUE");
	record_expect_error(r, -FAR_ESYNTAX, ":7: 'z' comes twice");
	record_expect_error(r, -FAR_ESYNTAX, ":8: a section's name must end with ]");
	record_expect(r, "d", "{\"q\":\"5\"}", 9);
	record_expect_end(r);
}

static void
test_ini_bad_header_after_a_good_section_loses_only_itself(void)
{
	struct record_source *r = OPEN("[a]\nx = 1\n[b\ny = 2\n[c]\nz = 3\n");

	record_expect(r, "a", "{\"x\":\"1\"}", 1);
	record_expect_error(r, -FAR_ESYNTAX, ":3: a section's name must end with ]");
	record_expect(r, "c", "{\"z\":\"3\"}", 5);
	record_expect_end(r);
}

static void
test_json_members_keep_their_text(void)
{
	struct record_source *r =
		OPEN("{\"id\": 1, \"n\": 1.10, \"big\": 123456789012345678901234567890,"
		     " \"o\": {\"a\": [1, \"}]\\\"\"]} , \"s\": \"\\u00e9\"}\n\n{\"v\":null,\"id\":\"k\"}",
		     .key = "id");

	record_expect(r, "1", "{\"n\": 1.10,\"big\": 123456789012345678901234567890,\"o\": {\"a\": [1, \"}]\\\"\"]},"
			      "\"s\": \"\\u00e9\"}",
		      1);
	record_expect(r, "k", "{\"v\":null}", 3);
	CHECK_EQ(record_format(r), RECORD_JSON);
	record_expect_end(r);
}

static void
test_json_value_member_is_raw(void)
{
	struct record_source *r = OPEN("{\"id\":\"a\",\"v\":\"x\\n\"}\n{\"v\":[1, 2],\"id\":\"b\"}\n{\"id\":\"c\"}\n",
				       .key = "id", .value = "v");

	record_expect(r, "a", "x\n", 1);
	record_expect(r, "b", "[1, 2]", 2);
	record_expect_error(r, -FAR_ESYNTAX, ":3: there is no 'v' here");
	record_expect_end(r);
}

static void
test_json_errors_name_their_line_and_go_on(void)
{
	struct record_source *r = OPEN(
		"{\"id\":1}\n{\"id\":}\n[1]\n{\"id\":1,\"id\":2}\n{\"x\":1}\n{\"id\":[]}\n{\"id\":2}\n", .key = "id");

	record_expect(r, "1", "{}", 1);
	record_expect_error(r, -FAR_ESYNTAX, ":2: not JSON");
	record_expect_error(r, -FAR_ESYNTAX, ":3: not a JSON object");
	record_expect_error(r, -FAR_ESYNTAX, ":4: not JSON: duplicate");
	record_expect_error(r, -FAR_ESYNTAX, ":5: there is no 'id' here");
	record_expect_error(r, -FAR_ESYNTAX, ":6: the key 'id' is neither");
	record_expect(r, "2", "{}", 7);
	record_expect_end(r);
}

static void
test_dump_is_recognised_and_gives_every_byte(void)
{
	struct record_source *r = OPEN("{\"key\":\"a\",\"value\":\"\"}\n{\"key64\":\"AP8=\",\"value\":\"\\u0000\"}\n");
	struct record rec;

	record_expect(r, "a", "", 1);
	CHECK_EQ(record_next(r, &rec), 1);
	CHECK(rec.key.len == 2 && memcmp(rec.key.data, "\0\xff", 2) == 0);
	CHECK(rec.value.len == 1 && memcmp(rec.value.data, "\0", 1) == 0);
	CHECK_EQ(record_format(r), RECORD_DUMP);
	record_expect_end(r);
}

static void
test_dump_errors_name_their_line(void)
{
	struct record_source *r =
		OPEN("{\"key\":\"a\"}\n{\"key64\":\"A\",\"value\":\"\"}\n{\"key\":\"b\",\"value\":1}\n"
		     "{\"key\":\"c\",\"value\":\"\",\"x\":1}\n",
		     .format = RECORD_DUMP);

	record_expect_error(r, -FAR_ESYNTAX, ":1: expected");
	record_expect_error(r, -FAR_ESYNTAX, ":2: malformed base64");
	record_expect_error(r, -FAR_ESYNTAX, ":3: expected");
	record_expect_error(r, -FAR_ESYNTAX, ":4: expected");
	record_expect_end(r);
}

static void
test_format_unknown_is_said(void)
{
	struct record_source *r = OPEN("hello\n", .key = "x");

	record_expect_error(r, -FAR_EINVAL, "cannot tell what format");
	record_close(r);
	r = OPEN("", .key = "x");
	record_expect_end(r);
	r = OPEN("{\"a\":1}\n");
	record_expect_error(r, -FAR_EINVAL, "--key NAME");
	record_close(r);
	r = OPEN("\xff\xfe"
		 "a\0",
		 .key = "x");
	record_expect_error(r, -FAR_EIO, "UTF-16");
	record_close(r);
}

/* gzip's bytes of `text`, appended. */
static void
test_gzip(struct bytes *out, const char *text, size_t len)
{
	z_stream z = { .next_in = (void *)text, .avail_in = (unsigned)len };

	REQUIRE(bytes_room(out, len + 256) == 0);
	REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_out = (void *)(out->data + out->len);
	z.avail_out = (unsigned)(len + 256);
	REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
	out->len += z.total_out;
	deflateEnd(&z);
}

static void
test_gzip_members_are_one_text(void)
{
	struct record_opts opts = { .key = "id", .value = "v" };
	struct record_source *r;
	struct bytes b = { .len = 0 };

	test_gzip(&b, "id,v\n1,", 7);
	test_gzip(&b, "a\n2,b\n", 6);
	r = record_open_text(b.data, b.len, &opts);
	record_expect(r, "1", "a", 2);
	record_expect(r, "2", "b", 3);
	record_expect_end(r);
	bytes_free(&b);
}

static void
test_gzip_truncated_or_damaged_is_an_error(void)
{
	struct record_opts opts = { .key = "id", .value = "v" };
	struct record_source *r;
	struct bytes b = { .len = 0 };
	struct record rec;
	int got;

	test_gzip(&b, "id,v\n1,a\n", 9);
	r = record_open_text(b.data, b.len - 6, &opts);
	while ((got = record_next(r, &rec)) == 1)
		;
	CHECK_EQ(got, -FAR_EIO);
	CHECK(strstr(record_error(r), "the gzip data ends too early") != NULL);
	record_close(r);
	b.data[b.len - 8] ^= 1; /* the check sum */
	r = record_open_text(b.data, b.len, &opts);
	while ((got = record_next(r, &rec)) == 1)
		;
	CHECK_EQ(got, -FAR_EIO);
	CHECK(strstr(record_error(r), "damaged") != NULL);
	record_close(r);
	b.data[b.len - 8] ^= 1;
	REQUIRE(bytes_add(&b, "xx", 2) == 0);
	r = record_open_text(b.data, b.len, &opts);
	while ((got = record_next(r, &rec)) == 1)
		;
	CHECK_EQ(got, -FAR_EIO);
	record_close(r);
	bytes_free(&b);
}

static void
test_line_of_twenty_mib_is_read_and_longer_than_limit_skipped(void)
{
	struct record_opts opts = { .key = "id", .value = "v", .format = RECORD_CSV };
	size_t value = FAR_VALUE_MAX, huge = (size_t)25 << 20;
	struct record_source *r;
	struct bytes b = { .len = 0 };
	struct record rec;

	REQUIRE(bytes_room(&b, value + 2 * huge + 100) == 0);
	bytes_add(&b, "id,v\n1,", 7);
	memset(b.data + b.len, 'x', value);
	b.len += value;
	bytes_add(&b, "\n2,", 3);
	memset(b.data + b.len, 'y', huge);
	b.len += huge;
	bytes_add(&b, "\n3,", 3);
	memset(b.data + b.len, 'z', (size_t)20 << 20);
	b.len += (size_t)20 << 20;
	bytes_add(&b, "\n4,ok\n", 6);
	r = record_open_text(b.data, b.len, &opts);
	CHECK_EQ(record_next(r, &rec), 1);
	CHECK_EQ(rec.value.len, value);
	record_expect_error(r, -FAR_ESYNTAX, ":3: the line is longer than 24 MiB");
	record_expect_error(r, -FAR_ESYNTAX, ":4: the value has 20971520 bytes");
	record_expect(r, "4", "ok", 5);
	record_expect_end(r);
	bytes_free(&b);
}

static void
test_pipe_that_is_slow_would_wait_and_then_goes_on(void)
{
	struct record_opts opts = { .key = "id", .value = "v" };
	struct record_source *r = NULL;
	int fds[2];
	char path[32];

	REQUIRE(pipe(fds) == 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[0]);
	REQUIRE(record_open(path, &opts, &r) == 0);
	REQUIRE(write(fds[1], "id,v\n1,a\n2,", 11) == 11);
	record_expect(r, "1", "a", 2);
	CHECK(record_would_wait(r));
	REQUIRE(write(fds[1], "b\n", 2) == 2);
	CHECK(!record_would_wait(r));
	record_expect(r, "2", "b", 3);
	close(fds[1]);
	record_expect_end(r);
	close(fds[0]);
}

static void
test_file_missing_is_an_error(void)
{
	struct record_opts opts = { .key = "id" };
	struct record_source *r = NULL;

	CHECK_EQ(record_open("/nonexistent/file", &opts, &r), -FAR_EIO);
	CHECK_EQ(record_open("/tmp", &opts, &r), -FAR_EIO);
}

/* Changes a few bytes of `text`, which has room for 16 more: overwrites, inserts, deletes, with bytes that matter. */
static size_t
test_mutate(struct far_rng *rng, char *text, size_t len)
{
	static const char bytes[] = "\"',;:=[]{}\t\r\n\\u0 \0\xff\xc3#a1";

	for (uint64_t n = 1 + far_rng_below(rng, 6); n > 0; n--) {
		size_t at = (size_t)far_rng_below(rng, len);
		char c = bytes[far_rng_below(rng, sizeof(bytes) - 1)];

		switch (far_rng_below(rng, 3)) {
		case 0:
			text[at] = c;
			break;
		case 1:
			memmove(text + at + 1, text + at, len - at);
			text[at] = c;
			len++;
			break;
		default:
			memmove(text + at, text + at + 1, len - at - 1);
			len -= len > 1;
			break;
		}
	}
	return len;
}

static void
test_any_format_of_damaged_input_ends_with_sane_records(void)
{
	static const char *const samples[] = {
		"id,v,w\n1,a,b\n2,\"c \"\"d\"\"\",\"e\nf\"\n3,g,h\n",
		"id\tv\tw\n1\ta\tb\n2\tc\td\n",
		"[one]\nid = 1\nv: x\n  more\n\n# note\n[two]\nid = 2\n",
		"{\"id\":\"a\",\"v\":[1,{\"x\":\"}\"}]}\n{\"id\":2,\"v\":\"\\u00e9\",\"w\":1.10}\n",
		"{\"key\":\"a\",\"value\":\"b\"}\n{\"key64\":\"AP8=\",\"value64\":\"QQ==\"}\n",
	};
	struct far_rng rng;
	char text[256];

	far_rng_seed(&rng, 1);
	for (unsigned i = 0; i < 5000; i++) {
		const char *sample = samples[i % 5];
		struct record_opts opts = { .format = i % 7 ? RECORD_CSV + i % 5 : RECORD_AUTO,
					    .key = i % 3 ? "id" : NULL,
					    .value = i % 11 ? NULL : "v" };
		struct record_source *r;
		unsigned calls = 0;
		struct record rec;
		size_t len = strlen(sample);
		int got;

		memcpy(text, sample, len);
		r = record_open_text(text, test_mutate(&rng, text, len), &opts);
		do {
			got = record_next(r, &rec);
			CHECK(got != 1 || (rec.key.len > 0 && rec.key.len < 300 && rec.value.len < 2000));
			CHECK(got >= 0 || strlen(record_error(r)) > 0);
		} while ((got == 1 || got == -FAR_ESYNTAX) && ++calls < 100);
		CHECK(calls < 100);
		record_close(r);
	}
}

TEST_MAIN(
	TEST(test_any_format_of_damaged_input_ends_with_sane_records),
	TEST(test_csv_plain_gives_rows_as_json_in_column_order),
	TEST(test_csv_quotes_commas_and_newlines_are_kept),
	TEST(test_csv_crlf_bom_and_blank_lines_are_no_data),
	TEST(test_csv_wrong_column_count_names_line_and_goes_on),
	TEST(test_csv_bad_quote_names_line_and_goes_on),
	TEST(test_csv_open_quote_at_end_names_first_line),
	TEST(test_csv_lone_carriage_return_is_an_error),
	TEST(test_csv_missing_column_fails_for_good),
	TEST(test_csv_nul_and_bad_utf8_pass_raw_and_not_as_json),
	TEST(test_csv_joined_key_and_prefix_make_one_key),
	TEST(test_csv_other_delimiter_is_used),
	TEST(test_csv_empty_key_is_an_error),
	TEST(test_tsv_quotes_are_plain_text),
	TEST(test_ini_sections_become_records),
	TEST(test_ini_other_key_keeps_the_section_in_the_value),
	TEST(test_ini_errors_name_their_line_and_skip_the_section),
	TEST(test_ini_bad_header_after_a_good_section_loses_only_itself),
	TEST(test_json_members_keep_their_text),
	TEST(test_json_value_member_is_raw),
	TEST(test_json_errors_name_their_line_and_go_on),
	TEST(test_dump_is_recognised_and_gives_every_byte),
	TEST(test_dump_errors_name_their_line),
	TEST(test_format_unknown_is_said),
	TEST(test_gzip_members_are_one_text),
	TEST(test_gzip_truncated_or_damaged_is_an_error),
	TEST(test_line_of_twenty_mib_is_read_and_longer_than_limit_skipped),
	TEST(test_pipe_that_is_slow_would_wait_and_then_goes_on),
	TEST(test_file_missing_is_an_error))
