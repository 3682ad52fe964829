/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h -- keys and values from CSV, TSV, INI, JSON lines and dumps.
 *
 * A record is a row, a section or a JSON object. Its key is a column (or several, joined with ","); its value is a
 * JSON object of the other columns in their order, or one column as it is. Text must be UTF-8 where it goes into
 * JSON; a column taken raw may hold any bytes.
 *
 * CSV is RFC 4180's, strict: the first row names the columns, each row has as many, quotes stand around a whole
 * field. TSV is the registered text/tab-separated-values: no quoting. INI: [section], name = value or name: value,
 * comments from # or ; at a line's start, indented lines continue a value. JSON: one object per line; numbers and
 * nested values keep their text.
 */
#ifndef FAR_CLI_RECORD_H
#define FAR_CLI_RECORD_H

#include <farside/far.h>

enum record_format {
	RECORD_AUTO,
	RECORD_CSV,
	RECORD_TSV,
	RECORD_INI,
	RECORD_JSON,
	RECORD_DUMP, /* what `farside dump` writes */
	RECORD_FORMATS,
};

/* The name of a format, NULL when there is none of that number. */
const char *record_format_name(unsigned format);

/* The column that holds an INI section's name. */
#define RECORD_SECTION "@section"

struct record_opts {
	enum record_format format;
	const char *key;    /* "COLUMN" or "A,B"; may be NULL for INI (its section) and dumps */
	const char *value;  /* "COLUMN"; NULL: the row as JSON without the key */
	const char *prefix; /* put before each key, or NULL */
	char delimiter;     /* of CSV, 0 = comma */
};

struct record {
	struct far_bytes key, value;
	uint64_t line; /* where it starts, from 1 */
};

struct record_source;

/*
 * Opens `path` ("-": standard input), without reading yet. `opts` must outlive the source. -FAR_EIO (errno tells),
 * -FAR_ENOMEM.
 */
int record_open(const char *path, const struct record_opts *opts, struct record_source **out);
void record_close(struct record_source *r);

/*
 * 1 and the next record, valid until the next call; 0: the end; -FAR_ESYNTAX: one malformed record was skipped, the
 * next call goes on after it; -FAR_EINVAL: format or columns do not fit this input; -FAR_EIO; -FAR_EINTR; -FAR_ENOMEM.
 * After an error other than -FAR_ESYNTAX there is nothing more to read.
 */
int record_next(struct record_source *r, struct record *out);

/* "FILE:LINE: what is wrong", for the last error. */
const char *record_error(const struct record_source *r);

/* The format as found. */
enum record_format record_format(const struct record_source *r);

/* See input.h. */
bool record_would_wait(const struct record_source *r);
double record_progress(const struct record_source *r);

#endif
