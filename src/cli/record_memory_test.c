/* SPDX-License-Identifier: Apache-2.0 */
/* record_memory_test.c -- when memory runs out while records are read, that is said, and nothing stays behind. */
#include <fcntl.h>
#include <jansson.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/bytes.h"
#include "cli/record.h"
#include "memory.h"

struct hungry {
	const char *text;
	size_t len;
	struct record_opts opts;
	unsigned records;
};

static char hungry_path[64];

static void
hungry_write(const struct hungry *h)
{
	int fd;

	strcpy(hungry_path, "/tmp/farside-memory-XXXXXX");
	fd = mkstemp(hungry_path);
	REQUIRE(fd >= 0);
	REQUIRE(write(fd, h->text, h->len) == (ssize_t)h->len);
	close(fd);
}

/* Reads all of it. */
static int
hungry_read(void *arg)
{
	const struct hungry *h = arg;
	struct record_source *r;
	struct record rec;
	unsigned n = 0;
	int got = record_open(hungry_path, &h->opts, &r);

	if (got)
		return got;
	while ((got = record_next(r, &rec)) > 0)
		n++;
	if (got == -FAR_ENOMEM)
		CHECK(strstr(record_error(r), "out of memory"));
	record_close(r);
	if (got == 0)
		CHECK_EQ(n, h->records);
	return got;
}

/* 40 columns, and a value that makes the buffers grow. */
static char *
hungry_table(char between, size_t *len)
{
	struct bytes b = { .len = 0 };
	char cell[16];

	for (unsigned row = 0; row < 3; row++) {
		for (unsigned i = 0; i < 40; i++) {
			snprintf(cell, sizeof(cell), "%s%u", row ? "v" : "c", i);
			REQUIRE(bytes_add(&b, cell, strlen(cell)) == 0);
			for (unsigned k = 0; row && i == 7 && k < 2000; k++)
				REQUIRE(bytes_add(&b, "long", 4) == 0);
			REQUIRE(bytes_add(&b, i < 39 ? &between : "\n", 1) == 0);
		}
	}
	*len = b.len;
	return b.data;
}

static void
hungry_sweep(const struct hungry *h, unsigned least)
{
	hungry_write(h);
	CHECK(memory_sweep(hungry_read, (void *)h, -FAR_ENOMEM) >= least);
	unlink(hungry_path);
}

static void
test_tables_out_of_memory_is_said(void)
{
	for (unsigned i = 0; i < 4; i++) {
		struct hungry h = { .opts = { .key = "c0,c3", .value = i & 2 ? "c7" : NULL }, .records = 2 };
		char *text = hungry_table(i & 1 ? '\t' : ',', &h.len);

		h.opts.prefix = i & 2 ? "p:" : NULL;
		h.text = text;
		/* libcsv is content with less when it does not get what it asks for. */
		memory_stays_short = true;
		hungry_sweep(&h, 8);
		memory_stays_short = false;
		free(text);
	}
}

static void
test_ini_out_of_memory_is_said(void)
{
	static char text[9000] = "[one]\na=1\n b\n[two]\nname = ";
	struct hungry h = { .text = text, .len = sizeof(text), .records = 2 };

	memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 1);
	text[4000] = '\n';
	text[4001] = ' ';
	text[sizeof(text) - 1] = '\n';
	hungry_sweep(&h, 8);
}

/* The memory for a text is full just before a continued line, or before the comma of the next member. */
static void
test_records_out_of_memory_at_a_seam_is_said(void)
{
	static char ini[400], json[400];
	struct hungry h = { .text = ini, .opts = { .format = RECORD_INI }, .records = 1 };

	snprintf(ini, sizeof(ini), "[one]\na=%0244d\n b\n", 1);
	h.len = strlen(ini);
	hungry_sweep(&h, 4);
	snprintf(json, sizeof(json), "{\"k\":\"1\",\"v\":\"%0249d\",\"w\":1}\n", 1);
	h = (struct hungry){ .text = json, .len = strlen(json), .opts = { .key = "k" }, .records = 1 };
	hungry_sweep(&h, 4);
}

/* What there is instead of a column that there is not cannot be told. */
static void
test_missing_column_out_of_memory_is_said(void)
{
	struct hungry h = { .opts = { .key = "nothing" } };
	char *text = hungry_table(',', &h.len);
	uint64_t before;
	int got;

	h.text = text;
	hungry_write(&h);
	memory_stays_short = true;
	for (unsigned k = 1;; k++) {
		before = memory_failed;
		memory_fail_at = k;
		got = hungry_read(&h);
		memory_fail_at = 0;
		if (memory_failed == before)
			break;
		CHECK_EQ(got, -FAR_ENOMEM);
	}
	memory_stays_short = false;
	CHECK_EQ(got, -FAR_EINVAL);
	unlink(hungry_path);
	free(text);
}

/* The first record of `text`, which is a bad section; returns how many allocations that took. */
static uint64_t
hungry_skip(const struct hungry *h, uint64_t fail_at, int want)
{
	struct record_source *r;
	struct record rec;

	memory_fail_at = fail_at;
	REQUIRE(record_open(hungry_path, &h->opts, &r) == 0);
	CHECK_EQ(record_next(r, &rec), want);
	fail_at -= memory_fail_at;
	memory_fail_at = 0;
	record_close(r);
	return fail_at;
}

/* A section that is skipped ends with a header, which is kept: for that there may be no room. */
static void
test_ini_out_of_memory_behind_a_bad_section_is_said(void)
{
	static char text[2000] = "[one]\nnonsense\n[";
	struct hungry h = { .text = text, .len = sizeof(text) - 1 };
	uint64_t n;

	memset(text + strlen(text), 'x', sizeof(text) - strlen(text) - 3);
	strcpy(text + sizeof(text) - 3, "]\n");
	hungry_write(&h);
	n = hungry_skip(&h, UINT64_MAX, -FAR_ESYNTAX);
	CHECK_EQ(hungry_skip(&h, n, -FAR_ENOMEM), n);
	unlink(hungry_path);
}

static void
test_json_out_of_memory_is_said(void)
{
	static char text[6000];
	struct hungry h = { .text = text, .opts = { .key = "k,l" }, .records = 2 };

	snprintf(text, sizeof(text),
		 "{\"k\":\"1\",\"l\":2,\"v\":\"%02000d\",\"w\":1}\n{\"l\":1.5,\"k\":1,\"w\":\"%02000d\"}\n", 1, 2);
	h.len = strlen(text);
	hungry_sweep(&h, 6);
	h.opts.value = "w";
	hungry_sweep(&h, 5);
}

/* jansson does not tell what it failed of; but nothing is made up, and nothing stays behind. */
static void
test_json_parser_out_of_memory_is_an_error(void)
{
	static const char text[] = "id,a,b\n1,x,y\n";
	struct hungry h = { .text = text, .len = sizeof(text) - 1, .opts = { .key = "id" }, .records = 1 };
	uint64_t before;
	int got;

	hungry_write(&h);
	json_set_alloc_funcs(malloc, free);
	memory_stays_short = true;
	for (unsigned k = 1;; k++) {
		before = memory_failed;
		memory_fail_at = k;
		got = hungry_read(&h);
		memory_fail_at = 0;
		if (memory_failed == before)
			break;
		CHECK(got < 0);
	}
	CHECK_EQ(got, 0);
	memory_stays_short = false;
	json_set_alloc_funcs(__real_malloc, free);
	unlink(hungry_path);
}

static void
test_dump_out_of_memory_is_said(void)
{
	static char text[6000];
	struct hungry h = { .text = text, .opts = { .prefix = "p:" }, .records = 2 };

	snprintf(text, sizeof(text),
		 "{\"key\":\"1\",\"value\":\"%02000d\"}\n{\"key64\":\"AAAA\",\"value64\":\"%02000d\"}\n", 1, 2);
	h.len = strlen(text);
	hungry_sweep(&h, 6);
}

static void
hungry_bytes(struct bytes *b, int err)
{
	CHECK_EQ(err, -FAR_ENOMEM);
	CHECK_EQ(b->len, 3);
	CHECK(b->len == 3 && memcmp(b->data, "abc", 3) == 0);
}

/* Whatever fails, what was there stays. */
static void
test_bytes_out_of_memory_leaves_the_buffer_as_it_was(void)
{
	static char long_text[4000];
	struct far_bytes text = far_bytes(long_text, sizeof(long_text));
	struct bytes b = { .len = 0 };

	memset(long_text, 'a', sizeof(long_text));
	REQUIRE(bytes_add(&b, "abc", 3) == 0);
	hungry_bytes(&b, bytes_room(&b, SIZE_MAX));
	hungry_bytes(&b, bytes_room(&b, SIZE_MAX / 4));
#define HUNGRY(call)                                                                               \
	do {                                                                                       \
		memory_fail_at = 1;                                                                \
		hungry_bytes(&b, call);                                                            \
	} while (0)
	HUNGRY(bytes_add(&b, long_text, sizeof(long_text)));
	for (unsigned code = BYTES_RAW; code <= BYTES_BASE64; code++) {
		HUNGRY(bytes_decode(&b, code, text));
		HUNGRY(bytes_encode(&b, code, text));
		HUNGRY(bytes_json_member_in(&b, code, "name", text));
	}
	HUNGRY(bytes_human(&b, text, SIZE_MAX));
	bytes_free(&b);
}

static int
hungry_member(void *arg)
{
	struct bytes b = { .len = 0 };
	char name[600];
	int err;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	err = bytes_json_member_in(&b, *(enum bytes_code *)arg, name, FAR_STR("v"));
	CHECK(err == 0 || b.len == 0);
	bytes_free(&b);
	return err;
}

/* The buffer is so full that each piece of "namehex":"..." is the first without room. */
static void
test_json_member_out_of_memory_amid_it_is_taken_back(void)
{
	static const size_t before[] = { 0, 1, 5, 11, 15 };
	enum bytes_code code = BYTES_HEX;

	CHECK_EQ(memory_sweep(hungry_member, &code, -FAR_ENOMEM), 2);
	for (size_t i = 0; i < FAR_LEN(before); i++) {
		struct bytes b = { .len = 0 };
		char fill[256];

		memset(fill, 'f', sizeof(fill));
		REQUIRE(bytes_add(&b, fill, sizeof(fill) - before[i]) == 0 && b.cap == sizeof(fill));
		memory_fail_at = 1;
		CHECK_EQ(bytes_json_member_in(&b, code, "name", FAR_STR("vw")), -FAR_ENOMEM);
		CHECK_EQ(b.len, sizeof(fill) - before[i]);
		CHECK_EQ(bytes_json_member_in(&b, code, "name", FAR_STR("vw")), 0);
		bytes_free(&b);
	}
}

TEST_MAIN(TEST(test_tables_out_of_memory_is_said), TEST(test_ini_out_of_memory_is_said),
	  TEST(test_records_out_of_memory_at_a_seam_is_said), TEST(test_missing_column_out_of_memory_is_said),
	  TEST(test_ini_out_of_memory_behind_a_bad_section_is_said), TEST(test_json_out_of_memory_is_said),
	  TEST(test_json_parser_out_of_memory_is_an_error), TEST(test_dump_out_of_memory_is_said),
	  TEST(test_bytes_out_of_memory_leaves_the_buffer_as_it_was),
	  TEST(test_json_member_out_of_memory_amid_it_is_taken_back))
