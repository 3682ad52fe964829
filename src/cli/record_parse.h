/* SPDX-License-Identifier: Apache-2.0 */
/* record_parse.h -- what the parsers of record.c's formats share. */
#ifndef FAR_CLI_RECORD_PARSE_H
#define FAR_CLI_RECORD_PARSE_H

#include <csv.h>

#include "cli/bytes.h"
#include "cli/input.h"
#include "cli/record.h"

enum {
	RECORD_KEYS_MAX = 8,       /* columns of one key */
	RECORD_FIELDS_MAX = 65536, /* columns of one row */
};

/* A piece of record_source.text: offsets, because the text moves while it grows. */
struct record_span {
	size_t at, len;
};

struct record_field {
	struct record_span name, value;
};

struct record_source {
	const struct record_opts *opts;
	const char *file;
	struct input *in;
	enum record_format format;

	struct bytes keys_text;               /* opts->key cut into: */
	const char *keys[RECORD_KEYS_MAX];
	unsigned keys_n;

	struct bytes header;                  /* CSV, TSV: the columns' names, one after the other */
	struct record_span *columns;
	size_t columns_n, columns_cap;

	struct bytes text;                    /* of the record being read */
	struct record_field *fields;
	size_t fields_n, fields_cap;
	bool names_in_header;                 /* a field's name is a span of `header`, else of `text` */

	uint64_t line;                        /* where the record starts */
	struct bytes key, value;              /* the result */

	struct csv_parser csv;
	bool csv_open;
	unsigned rows;                        /* rows that the last line completed */
	int row_err;                          /* why this one cannot be used, or 0 */
	struct bytes section;                 /* INI: the header read ahead */
	uint64_t section_line;
	bool has_section, section_bad;
	char error[512];
};

/* Notes "FILE:LINE: ..." and returns `err`. Line 0 is left out. */
int record_fail(struct record_source *r, int err, uint64_t line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Passes on an error of the input. */
int record_fail_input(struct record_source *r, int err);

/* The bytes of a span of `b`: `text` or `header`, which hold no memory while every field is empty. */
static inline struct far_bytes
record_bytes(const struct bytes *b, struct record_span s)
{
	return far_bytes((const char *)bytes_view(b).data + s.at, s.len);
}

/* Adds an empty field whose text starts at the end of `text`; the parser sets the lengths. */
int record_field_add(struct record_source *r);

/* Fills r->fields with the next record's; 1, 0 or an error as record_next(). */
int record_csv_next(struct record_source *r);
int record_tsv_next(struct record_source *r);
int record_ini_next(struct record_source *r);

/* Sets the columns from the fields just read. */
int record_header(struct record_source *r);

/* Fills r->key and r->value with the next record's. */
int record_json_next(struct record_source *r);
int record_dump_next(struct record_source *r);

/* Says that the record lacks the field `name`: -FAR_ESYNTAX. */
int record_no_field(struct record_source *r, const char *name);

/* Appends one more part to r->key. */
int record_key_add(struct record_source *r, unsigned part, struct far_bytes data);

/* Drops "\n" or "\r\n" at the end. */
struct far_bytes record_chomp(struct far_bytes line);

/* Is there anything but white space in the line? */
bool record_blank(struct far_bytes line);

#endif
