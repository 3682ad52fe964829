/* SPDX-License-Identifier: Apache-2.0 */
/* history_text_test.c -- histories as text: the order of lines, what no line may be, files that fail. */
#include <fcntl.h>
#include <unistd.h>

#include "base/base.h"
#include "lab/history.h"
#include "test.h"

#define HEAD "farside-history 1\n"

/* What `h` is as text: all of it, or (key >= 0) of one key; free() it. */
static char *
text_of(const struct history *h, int key)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out);
	CHECK_EQ(key < 0 ? history_print(h, out) : history_print_key(h, (uint32_t)key, out), 0);
	fclose(out);
	return text;
}

static void
text_is(const struct history *h, int key, const char *want)
{
	char *text = text_of(h, key);

	if (strcmp(text, want) != 0)
		printf("# %s", text);
	CHECK(strcmp(text, want) == 0);
	free(text);
}

static int
text_read(const char *text, size_t len, struct history *h)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
	unsigned line;
	int err;

	REQUIRE(in);
	err = history_read(h, in, &line);
	fclose(in);
	return err;
}

/* An iteration tells what it found at the moment at which it began. */
#define SCANNED                                                                                    \
	HEAD "1 call 2.1 scan 0 -\n1 item 2.1 5 a 1.1\n1 item 2.1 7 b 1.2\n1 item 2.1 9 - -\n"     \
	     "2 call 1.3 get 7 -\n3 return 1.3 ok b 1.2\n4 return 2.1 ok - -\n"

static void
test_history_lines_of_one_moment_have_one_order(void)
{
	static const char mixed[] = HEAD "1 item 2.1 9 - -\n3 return 1.3 ok b 1.2\n1 item 2.1 7 b 1.2\n"
					 "1 call 2.1 scan 0 -\n4 return 2.1 ok - -\n1 item 2.1 5 a 1.1\n"
					 "2 call 1.3 get 7 -\n";
	struct history h = { 0 };

	CHECK_EQ(text_read(mixed, sizeof(mixed) - 1, &h), 0);
	text_is(&h, -1, SCANNED);
	/* The other way round, for whatever order they are sorted from. */
	for (size_t i = 0; i < h.n / 2; i++) {
		struct history_op swap = h.ops[i];

		h.ops[i] = h.ops[h.n - 1 - i];
		h.ops[h.n - 1 - i] = swap;
	}
	text_is(&h, -1, SCANNED);
	text_is(&h, 7,
		HEAD "1 call 2.1 scan 0 -\n1 item 2.1 7 b 1.2\n2 call 1.3 get 7 -\n3 return 1.3 ok b 1.2\n"
		     "4 return 2.1 ok - -\n");
	history_free(&h);
}

/* Whatever a process noted before it died is shown; but no reader takes it. */
static void
test_history_result_that_is_none_is_shown_as_such(void)
{
	struct history h = { 0 }, again = { 0 };
	struct history_op op = { .call = 1, .ret = 2, .id = history_id(1, 1), .key = 4, .result = -FAR_EIO };
	char *text;

	REQUIRE(history_add(&h, &op) == 0);
	text = text_of(&h, -1);
	CHECK(strcmp(text, HEAD "1 call 1.1 get 4 -\n2 return 1.1 ? - -\n") == 0);
	CHECK_EQ(text_read(text, strlen(text), &again), -FAR_ESYNTAX);
	free(text);
	history_free(&h);
	history_free(&again);
}

static void
test_history_words_that_are_wrong_are_refused_each(void)
{
	static const char *const bad[] = {
		"", /* no head */
		HEAD "1 call 1.1 get\n",
		HEAD "1 call 1.1 get 1 - more\n",
		HEAD "1 call 1.1 get 1 - more and more\n",
		HEAD "x call 1.1 get 1 -\n",
		HEAD "1 call - get 1 -\n",
		HEAD "1 call x.1 get 1 -\n",
		HEAD "1 call 1.x get 1 -\n",
		HEAD "1 call 1.11111111111111111111111111111111 get 1 -\n",
		HEAD "1 call 1.1 get - -\n",
		HEAD "1 call 1.1 get 1 10000000000000000\n",
		HEAD "1 return - ok 1 -\n",
		HEAD "1 return 1.1 ok x -\n",
		HEAD "1 return 1.1 ok 1 1\n",
		HEAD "1 item 1 1 1 1.1\n",
		HEAD "1 item 1.1 1 x 1.1\n",
		HEAD "1 item 1.1 1 1 11\n",
		/* A return behind an item, of an iteration that never began. */
		HEAD "1 item 1.1 1 1 1.2\n2 return 1.1 ok 1 -\n",
		HEAD "1 call 1.1 get 1 -\n2 return 1.1 ok 1 -\n2 return 1.1 ok 1 -\n",
	};

	for (size_t i = 0; i < FAR_LEN(bad); i++) {
		struct history h = { 0 };
		/* fmemopen() takes no empty text. */
		int err = bad[i][0] ? text_read(bad[i], strlen(bad[i]), &h) : text_read("\0", 1, &h);

		if (err != -FAR_ESYNTAX)
			printf("# %s\n", bad[i]);
		CHECK_EQ(err, -FAR_ESYNTAX);
		history_free(&h);
	}
}

static void
test_history_files_that_fail_say_so(void)
{
	struct history h = { 0 };
	FILE *in = fopen("/", "r"), *empty = fopen("/dev/null", "r"), *full = fopen("/dev/full", "w");
	unsigned line;

	REQUIRE(in && empty);
	CHECK_EQ(history_read(&h, in, NULL), -FAR_EIO);
	CHECK_EQ(history_read(&h, empty, &line), -FAR_ESYNTAX);
	fclose(in);
	fclose(empty);
	if (full) {
		CHECK_EQ(history_print(&h, full), -FAR_EIO);
		fclose(full);
		full = fopen("/dev/full", "w");
		REQUIRE(full);
		/* Also when every write failed before, and nothing is left to be flushed. */
		setvbuf(full, NULL, _IONBF, 0);
		CHECK_EQ(history_print(&h, full), -FAR_EIO);
		fclose(full);
	}
	history_free(&h);
}

TEST_MAIN(TEST(test_history_lines_of_one_moment_have_one_order),
	  TEST(test_history_result_that_is_none_is_shown_as_such),
	  TEST(test_history_words_that_are_wrong_are_refused_each), TEST(test_history_files_that_fail_say_so))
