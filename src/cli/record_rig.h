/* SPDX-License-Identifier: Apache-2.0 */
/* record_rig.h -- for tests: records of a text, through a file as `farside load` reads it. */
#ifndef FAR_CLI_RECORD_RIG_H
#define FAR_CLI_RECORD_RIG_H

#include <unistd.h>

#include "cli/record.h"
#include "test.h"

#define PATH_MAX_TEST 64

static char record_path[PATH_MAX_TEST];

/* A new file of these bytes. */
static inline const char *
record_write_file(const void *data, size_t len)
{
	int fd;

	strcpy(record_path, "/tmp/farside-record-XXXXXX");
	fd = mkstemp(record_path);
	REQUIRE(fd >= 0);
	REQUIRE(write(fd, data, len) == (ssize_t)len);
	close(fd);
	return record_path;
}

/* Opens a source over `text`; the file is gone at once. */
static inline struct record_source *
record_open_text(const void *text, size_t len, const struct record_opts *opts)
{
	struct record_source *r = NULL;

	REQUIRE(record_open(record_write_file(text, len), opts, &r) == 0);
	unlink(record_path);
	return r;
}

#define OPEN(text, ...) record_open_text(text, sizeof(text) - 1, &(struct record_opts){ __VA_ARGS__ })

/* The next record must be this one. */
static inline void
record_expect(struct record_source *r, const char *key, const char *value, unsigned line)
{
	struct record rec;
	int got = record_next(r, &rec);

	if (got != 1) {
		printf("# instead of key '%s': %d, %s\n", key, got, record_error(r));
		test_failures++;
		return;
	}
	if (rec.key.len != strlen(key) || memcmp(rec.key.data, key, rec.key.len) != 0 ||
	    rec.value.len != strlen(value) || memcmp(rec.value.data, value, rec.value.len) != 0) {
		printf("# got '%.*s' = '%.*s', not '%s' = '%s'\n", (int)rec.key.len, (const char *)rec.key.data,
		       (int)rec.value.len, (const char *)rec.value.data, key, value);
		test_failures++;
	}
	CHECK_EQ(rec.line, line);
}

/* The next call must fail like this, with `text` after the file's name. */
static inline void
record_expect_error(struct record_source *r, int err, const char *text)
{
	struct record rec;

	CHECK_EQ(record_next(r, &rec), err);
	if (!strstr(record_error(r), text)) {
		printf("# error '%s' lacks '%s'\n", record_error(r), text);
		test_failures++;
	}
}

static inline void
record_expect_end(struct record_source *r)
{
	struct record rec;

	CHECK_EQ(record_next(r, &rec), 0);
	CHECK_EQ(record_next(r, &rec), 0);
	record_close(r);
}

#endif
