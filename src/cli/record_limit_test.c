/* SPDX-License-Identifier: Apache-2.0 */
/* record_limit_test.c -- what is too long, too many, cut off or set in an odd way; and reading goes on behind it. */
#include <zlib.h>

#include "base/base.h"
#include "cli/bytes.h"
#include "cli/record_parse.h"
#include "cli/record_rig.h"

static struct bytes limit_text;

static void
limit_add(const char *text)
{
	REQUIRE(bytes_add(&limit_text, text, strlen(text)) == 0);
}

static void
limit_fill(char c, size_t n)
{
	REQUIRE(bytes_room(&limit_text, n) == 0);
	memset(limit_text.data + limit_text.len, c, n);
	limit_text.len += n;
}

static struct record_source *
limit_open(const struct record_opts *opts)
{
	return record_open_text(limit_text.data, limit_text.len, opts);
}

static void
limit_close(struct record_source *r)
{
	record_close(r);
	bytes_free(&limit_text);
}

#define MIB ((size_t)1 << 20)

static void
test_csv_row_longer_than_the_limit_is_skipped(void)
{
	const struct record_opts opts = { .key = "id", .value = "v" };
	struct record_source *r;

	/* Never closed: lines go into it until it is too long. */
	limit_add("id,v\n1,\"");
	for (unsigned i = 0; i < 5; i++) {
		limit_fill('x', 5 * MIB);
		limit_add("\n");
	}
	limit_add("2,good\n");
	/* Closed, by a last line that makes it too long. */
	limit_add("3,\"");
	limit_fill('x', 20 * MIB);
	limit_add("\n");
	limit_fill('x', 20 * MIB);
	limit_add("\"\n4,good\n");
	r = limit_open(&opts);
	record_expect_error(r, -FAR_ESYNTAX, ":2: the row is longer than 24 MiB");
	record_expect(r, "2", "good", 7);
	record_expect_error(r, -FAR_ESYNTAX, ":8: the row has too many columns or is too long");
	record_expect(r, "4", "good", 10);
	record_expect_end(r);
	limit_close(NULL);
}

static void
test_tables_rows_with_too_many_columns_are_skipped(void)
{
	for (unsigned tab = 0; tab < 2; tab++) {
		const struct record_opts opts = { .key = "id", .value = "v", .format = tab ? RECORD_TSV : RECORD_CSV };
		struct record_source *r;

		limit_add(tab ? "id\tv\n" : "id,v\n");
		limit_fill(tab ? '\t' : ',', RECORD_FIELDS_MAX);
		limit_add(tab ? "\n2\tgood\n" : "\n2,good\n");
		r = limit_open(&opts);
		record_expect_error(r, -FAR_ESYNTAX, ":2: the row has too many columns");
		record_expect(r, "2", "good", 3);
		record_expect_end(r);
		limit_close(NULL);
	}
}

static void
test_ini_section_longer_than_the_limit_is_skipped(void)
{
	struct record_source *r;

	limit_add("[one]\nv = ");
	for (unsigned i = 0; i < 5; i++) {
		limit_fill('x', 5 * MIB);
		limit_add("\n ");
	}
	/* What is skipped may hold a line too long, an indented bracket and no header at all. */
	limit_fill('y', 25 * MIB);
	limit_add("\n [not one]\n[two]\nv = 2\n");
	r = limit_open(&(struct record_opts){ .format = RECORD_INI, .value = "v" });
	record_expect_error(r, -FAR_ESYNTAX, ":1: the section is longer than 24 MiB");
	record_expect(r, "two", "2", 9);
	record_expect_end(r);
	limit_close(NULL);
}

static void
test_ini_line_longer_than_the_limit_loses_its_section(void)
{
	struct record_source *r;

	limit_add("[one]\nv = 1\n");
	limit_fill('y', 25 * MIB);
	limit_add("\n[two]\nv = 2\n");
	r = limit_open(&(struct record_opts){ .format = RECORD_INI, .value = "v" });
	record_expect_error(r, -FAR_ESYNTAX, ":3: the line is longer than 24 MiB");
	record_expect(r, "two", "2", 4);
	record_expect_end(r);
	limit_close(NULL);
}

/* The first `keep` bytes of the gzip data of limit_text, which they replace. */
static void
limit_gzip(size_t keep)
{
	unsigned char *packed = malloc(2 * limit_text.len + 1000);
	z_stream z = { .next_in = (void *)limit_text.data, .avail_in = (unsigned)limit_text.len };

	REQUIRE(packed && deflateInit2(&z, 0, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_out = packed;
	z.avail_out = 2 * (unsigned)limit_text.len + 1000;
	REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END && keep < z.total_out);
	deflateEnd(&z);
	limit_text.len = 0;
	REQUIRE(bytes_add(&limit_text, packed, keep) == 0);
	free(packed);
}

/* In any place of any format. */
static void
test_input_that_breaks_off_is_an_error_in_every_format(void)
{
	static const struct {
		const char *text;
		size_t good; /* bytes that are there still */
		struct record_opts opts;
		int records;
	} cases[] = {
		{ "id,v\n1,a\n2,b\n", 9, { .key = "id", .format = RECORD_CSV }, 1 },
		{ "id\tv\n1\ta\n2\tb\n", 9, { .key = "id", .format = RECORD_TSV }, 1 },
		{ "[a]\nv=1\n[b]\nv=2\n[c]\n", 16, { .format = RECORD_INI }, 1 },
		/* A section is being skipped when it happens. */
		{ "[a]\nv=1\n[b]\nnonsense\nv=2\n[c]\n", 24, { .format = RECORD_INI }, 1 },
		{ "{\"k\":1}\n{\"k\":2}\n", 8, { .key = "k", .format = RECORD_JSON }, 1 },
		{ "{\"key\":\"1\",\"value\":\"\"}\n{}\n", 23, { .format = RECORD_DUMP }, 1 },
		{ "x\n", 1, { .key = "k" }, 0 },
	};

	for (size_t i = 0; i < FAR_LEN(cases); i++) {
		struct record_source *r;
		struct record rec;
		int got, n = 0;

		limit_add(cases[i].text);
		/* Stored, not compressed: ten bytes of header and five of the block stand before the text. */
		limit_gzip(15 + cases[i].good);
		r = limit_open(&cases[i].opts);
		while ((got = record_next(r, &rec)) == 1)
			n++;
		CHECK_EQ(got, -FAR_EIO);
		CHECK_EQ(n, cases[i].records);
		CHECK(strstr(record_error(r), "the gzip data ends too early"));
		limit_close(r);
	}
}

static void
test_input_that_cannot_be_read_is_an_error(void)
{
	const struct record_opts opts = { .key = "id", .format = RECORD_CSV };
	struct record_source *r;

	/* Nothing is mapped at address 0. */
	REQUIRE(record_open("/proc/self/mem", &opts, &r) == 0);
	record_expect_error(r, -FAR_EIO, "Input/output error");
	record_close(r);
}

static void
test_line_longer_than_the_limit_at_the_end_of_the_input(void)
{
	const struct record_opts opts = { .key = "id", .value = "v", .format = RECORD_TSV };
	struct record_source *r;

	limit_add("id\tv\n1\tgood\n");
	limit_fill('x', 25 * MIB);
	r = limit_open(&opts);
	record_expect(r, "1", "good", 2);
	record_expect_error(r, -FAR_ESYNTAX, ":3: the line is longer than 24 MiB");
	record_expect_end(r);
	/* The same, and what is behind the limit is missing. */
	limit_fill('x', 5 * MIB);
	limit_gzip(29 * MIB);
	r = limit_open(&opts);
	record_expect(r, "1", "good", 2);
	record_expect_error(r, -FAR_EIO, "the gzip data ends too early");
	limit_close(r);
}

static void
test_format_of_a_first_line_without_end_is_not_looked_for_long(void)
{
	struct record_source *r;

	limit_fill('x', 300000);
	r = limit_open(&(struct record_opts){ .key = "id" });
	record_expect_error(r, -FAR_EINVAL, "cannot tell what format");
	limit_close(r);
}

static void
test_format_names_are_those_of_the_formats(void)
{
	CHECK(strcmp(record_format_name(RECORD_AUTO), "auto") == 0);
	CHECK(strcmp(record_format_name(RECORD_DUMP), "dump") == 0);
	CHECK(record_format_name(RECORD_FORMATS) == NULL);
}

/* One named `name`; 1: it was read as `format`. */
static int
limit_named(const char *name, const char *text, enum record_format format)
{
	const struct record_opts opts = { .key = "id" };
	char dir[] = "/tmp/farside-limit-XXXXXX", path[64];
	struct record_source *r;
	struct record rec;
	FILE *f;
	int as;

	REQUIRE(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	REQUIRE(f && fputs(text, f) >= 0 && fclose(f) == 0);
	/* By its name alone, which may be a short one. */
	REQUIRE(chdir(dir) == 0);
	REQUIRE(record_open(name, &opts, &r) == 0);
	REQUIRE(chdir("/") == 0);
	(void)record_next(r, &rec);
	as = record_format(r) == format;
	record_close(r);
	unlink(path);
	rmdir(dir);
	return as;
}

static void
test_format_is_told_by_the_name_before_the_text(void)
{
	CHECK(limit_named("a.tab", "id\tx,y\n1\t2\n", RECORD_TSV));
	CHECK(limit_named("a.csv.gz", "id,x\ty\n1,2\n", RECORD_CSV));
	CHECK(limit_named("gz", "id,x\n1,2\n", RECORD_CSV));
	CHECK(limit_named("a.b", "id,x\n1,2\n", RECORD_CSV));
	CHECK(limit_named("a.b", "\n  # comment\n ; comment\n\t\r\nid\tx\n1\t2\n", RECORD_TSV));
	CHECK(limit_named("a.b", "\t \r{\"id\":1}\n", RECORD_JSON));
	CHECK(limit_named("a.ndjson", "\n{\"id\":1}\n", RECORD_JSON));
}

/* jansson has accepted it; the members are then cut out of the text. */
static void
test_json_members_with_any_white_space_keep_their_text(void)
{
	struct record_source *r = OPEN(" \t{\t\"k\"\t: \"a\" \t,\r\"n\" :\t1.50\t\r,  \"s\":\"}],\\\"\"\t, \"d\" : [ {\"x\" : [1 , 2]\t} ]\r }\t\r\n"
				       "{\"s\":{},\"k\":\"b\"}\n",
				       .key = "k", .format = RECORD_JSON);

	record_expect(r, "a", "{\"n\" :\t1.50,\"s\":\"}],\\\"\",\"d\" : [ {\"x\" : [1 , 2]\t} ]}", 1);
	record_expect(r, "b", "{\"s\":{}}", 2);
	record_expect_end(r);
}

static void
test_json_key_that_is_no_text_is_an_error(void)
{
	struct record_source *r = OPEN("{\"k\":true}\n{\"k\":{}}\n{\"k\":null}\n[1]\n7\n{\"k\":1.5}\n{}\n", .key = "k",
				       .format = RECORD_JSON);

	for (unsigned i = 0; i < 3; i++)
		record_expect_error(r, -FAR_ESYNTAX, "neither a string nor a number");
	record_expect_error(r, -FAR_ESYNTAX, ":4: not a JSON object");
	record_expect_error(r, -FAR_ESYNTAX, ":5: not JSON");
	record_expect(r, "1.5", "{}", 6);
	record_expect_error(r, -FAR_ESYNTAX, ":7: there is no 'k' here");
	record_expect_end(r);
}

static void
test_dump_that_is_ambiguous_is_an_error(void)
{
	struct record_source *r = OPEN(
		"{\"key\":\"a\",\"key64\":\"YQ==\"}\n{\"key\":\"a\",\"x\":\"\"}\n{\"key\":1,\"value\":\"\"}\n"
		"{\"key64\":true,\"value\":\"\"}\n{\"key\":\"a\",\"value\":2}\n{\"key\":\"a\",\"value64\":\"YQ\"}\n"
		"{\"key\":\"a\",\"value\":\"b\",\"more\":1}\n{\"key64\":\"YQ==\",\"value64\":\"Yg==\"}\n",
		.format = RECORD_DUMP);

	for (unsigned i = 0; i < 5; i++)
		record_expect_error(r, -FAR_ESYNTAX, "expected {\"key\" or \"key64\": STRING");
	record_expect_error(r, -FAR_ESYNTAX, ":6: malformed base64");
	record_expect_error(r, -FAR_ESYNTAX, ":7: expected");
	record_expect(r, "a", "b", 8);
	record_expect_end(r);
	/* What only looks like one is JSON without a key. */
	r = OPEN("{\"key\":\"a\",\"value\":2}\n");
	record_expect_error(r, -FAR_EINVAL, "--key NAME");
	record_close(r);
	r = OPEN("{\"key\":3,\"value\":\"\"}\n");
	record_expect_error(r, -FAR_EINVAL, "--key NAME");
	record_close(r);
}

static void
test_keys_of_any_length(void)
{
	static const char long_name[] = "a name that is longer than others and others";
	struct record_source *r;

	limit_add("id,");
	for (unsigned i = 0; i < 8; i++) {
		char name[80];

		snprintf(name, sizeof(name), "%s %u%s", long_name, i, i < 7 ? "," : "\n");
		limit_add(name);
	}
	r = limit_open(&(struct record_opts){ .key = "nothing" });
	record_expect_error(r, -FAR_EINVAL, "there is no column 'nothing'; the columns are id, a name");
	CHECK(strstr(record_error(r), ", ..."));
	limit_close(r);
	limit_add("id,v\n");
	limit_fill('k', FAR_KEY_MAX + 1);
	limit_add(",x\nshort,y\n");
	r = limit_open(&(struct record_opts){ .key = "id", .value = "v" });
	record_expect_error(r, -FAR_ESYNTAX, ":2: the key has");
	record_expect(r, "short", "y", 3);
	record_expect_end(r);
	limit_close(NULL);
}

static void
test_hex_and_readable_text_of_any_length(void)
{
	static char plain[100000];
	struct bytes b = { .len = 0 };

	/* Longer than what may grow by escapes; it has none. */
	memset(plain, 'a', sizeof(plain));
	CHECK_EQ(bytes_json_member(&b, "k", far_bytes(plain, sizeof(plain))), 0);
	CHECK_EQ(b.len, sizeof(plain) + 6);
	CHECK(memcmp(b.data, "\"k\":\"aa", 7) == 0);
	b.len = 0;
	CHECK_EQ(bytes_decode(&b, BYTES_HEX, FAR_STR("0aF9")), 0);
	CHECK(b.len == 2 && memcmp(b.data, "\x0a\xf9", 2) == 0);
	CHECK_EQ(bytes_decode(&b, BYTES_HEX, FAR_STR("0g")), -FAR_ESYNTAX);
	CHECK_EQ(bytes_decode(&b, BYTES_HEX, FAR_STR("g0")), -FAR_ESYNTAX);
	CHECK_EQ(bytes_decode(&b, BYTES_HEX, FAR_STR("/0")), -FAR_ESYNTAX);
	CHECK_EQ(bytes_decode(&b, BYTES_HEX, FAR_STR("0")), -FAR_ESYNTAX);
	bytes_free(&b);
}

TEST_MAIN(TEST(test_csv_row_longer_than_the_limit_is_skipped),
	  TEST(test_tables_rows_with_too_many_columns_are_skipped),
	  TEST(test_ini_section_longer_than_the_limit_is_skipped),
	  TEST(test_ini_line_longer_than_the_limit_loses_its_section),
	  TEST(test_input_that_breaks_off_is_an_error_in_every_format),
	  TEST(test_input_that_cannot_be_read_is_an_error),
	  TEST(test_line_longer_than_the_limit_at_the_end_of_the_input),
	  TEST(test_format_of_a_first_line_without_end_is_not_looked_for_long),
	  TEST(test_format_names_are_those_of_the_formats),
	  TEST(test_format_is_told_by_the_name_before_the_text),
	  TEST(test_json_members_with_any_white_space_keep_their_text),
	  TEST(test_json_key_that_is_no_text_is_an_error),
	  TEST(test_dump_that_is_ambiguous_is_an_error),
	  TEST(test_keys_of_any_length),
	  TEST(test_hex_and_readable_text_of_any_length))
