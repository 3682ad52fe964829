/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_csv.c -- rows of CSV (libcsv) and TSV.
 *
 * libcsv is fed line by line, so that an error has a line number, and so that a malformed row can be skipped: the
 * parser starts anew with the line after it.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/record_parse.h"

static int
record_csv_no_space(unsigned char c)
{
	return 0;
}

static void
record_csv_start(struct record_source *r)
{
	if (r->csv_open)
		csv_free(&r->csv);
	/* It allocates nothing yet, and cannot fail. */
	csv_init(&r->csv, CSV_STRICT | CSV_STRICT_FINI);
	r->csv_open = true;
	csv_set_realloc_func(&r->csv, realloc);
	csv_set_delim(&r->csv,
		      (unsigned char)(r->opts->delimiter ? r->opts->delimiter : CSV_COMMA));
	/* RFC 4180: spaces are part of a field. */
	csv_set_space_func(&r->csv, record_csv_no_space);
	csv_set_blk_size(&r->csv, 64 << 10);
}

static void
record_csv_field(void *data, size_t len, void *arg)
{
	struct record_source *r = arg;

	/* A row after the one that is complete: see record_csv_row(). */
	if (r->rows > 0 || r->row_err)
		return;
	r->row_err = r->text.len + len > INPUT_LINE_MAX ? -FAR_ESYNTAX : record_field_add(r);
	if (!r->row_err)
		r->row_err = bytes_add(&r->text, data, len);
	if (!r->row_err)
		r->fields[r->fields_n - 1].value.len = len;
}

static void
record_csv_row(int end, void *arg)
{
	struct record_source *r = arg;

	r->rows++;
}

static int
record_csv_error(struct record_source *r, const char *why)
{
	record_csv_start(r);
	return record_fail(r, -FAR_ESYNTAX, r->line, "%s", why);
}

/* Feeds the input's end: a last row without newline comes out. */
static int
record_csv_end(struct record_source *r)
{
	if (csv_fini(&r->csv, record_csv_field, record_csv_row, r) != 0)
		return record_csv_error(r, "a quote is opened and never closed");
	return r->rows;
}

/* Feeds one line of the input. */
static int
record_csv_feed(struct record_source *r, struct far_bytes line)
{
	if (csv_parse(&r->csv, line.data, line.len, record_csv_field, record_csv_row, r) ==
	    line.len)
		return 0;
	if (csv_error(&r->csv) == CSV_ENOMEM)
		return -FAR_ENOMEM;
	return record_csv_error(r, "a quote stands where none may (around a whole field, or "
				   "doubled inside it)");
}

/* 1: r->fields hold a row, 0: the end, or -FAR_E. */
static int
record_csv_read(struct record_source *r)
{
	size_t fed = 0;
	struct far_bytes line;
	int got;

	if (!r->csv_open)
		record_csv_start(r);
	r->rows = 0;
	r->row_err = 0;
	for (r->line = 0; r->rows == 0; fed += line.len) {
		got = input_line(r->in, &line);
		if (got < 0)
			return record_fail_input(r, got);
		if (r->line == 0)
			r->line = input_line_number(r->in);
		if (got == 0)
			return fed > 0 ? record_csv_end(r) : 0;
		if ((got = record_csv_feed(r, line)) != 0)
			return got;
		if (fed + line.len > INPUT_LINE_MAX && r->rows == 0)
			return record_csv_error(
				r, "the row is longer than 24 MiB; is a quote never closed?");
		if (fed == 0 && record_blank(line) && r->rows == 0)
			r->line = 0;
	}
	if (r->rows > 1)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "a carriage return stands inside the row");
	if (r->row_err == -FAR_ESYNTAX)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "the row has too many columns or is too long");
	return r->row_err ? r->row_err : 1;
}

/* TSV: cuts one line at its tabs. */
static int
record_tsv_read(struct record_source *r)
{
	struct far_bytes line = far_bytes("", 0);
	const char *s, *end;
	int got, err;

	do {
		got = input_line(r->in, &line);
		if (got < 0)
			return record_fail_input(r, got);
		r->line = input_line_number(r->in);
		line = record_chomp(line);
	} while (got == 1 && line.len == 0);
	if (got == 0)
		return 0;
	s = line.data;
	end = s + line.len;
	for (;;) {
		const char *tab = memchr(s, '\t', (size_t)(end - s)), *stop = tab ? tab : end;

		err = record_field_add(r);
		if (err == -FAR_ESYNTAX)
			return record_fail(r, err, r->line, "the row has too many columns");
		if (err || bytes_add(&r->text, s, (size_t)(stop - s)) != 0)
			return -FAR_ENOMEM;
		r->fields[r->fields_n - 1].value.len = (size_t)(stop - s);
		if (!tab)
			return 1;
		s = tab + 1;
	}
}

/* Reads the header before the first row, and gives each field its column's name. */
static int
record_table_next(struct record_source *r, int (*read)(struct record_source *r))
{
	int got = read(r), err;

	if (got == 1 && r->columns_n == 0) {
		r->names_in_header = true;
		err = record_header(r);
		if (err)
			return err;
		bytes_reset(&r->text, SIZE_MAX);
		r->fields_n = 0;
		got = read(r);
	}
	if (got == 0 && r->columns_n == 0)
		return record_fail(r, -FAR_EINVAL, 0,
				   "it is empty: a first line must name the columns");
	/* Without its header nothing of the table can be used. */
	if (got == -FAR_ESYNTAX && r->columns_n == 0)
		return -FAR_EINVAL;
	if (got != 1)
		return got;
	if (r->fields_n != r->columns_n)
		return record_fail(r, -FAR_ESYNTAX, r->line, "%zu %s where the header has %zu",
				   r->fields_n, r->fields_n == 1 ? "column" : "columns",
				   r->columns_n);
	for (size_t i = 0; i < r->fields_n; i++)
		r->fields[i].name = r->columns[i];
	return 1;
}

int
record_csv_next(struct record_source *r)
{
	return record_table_next(r, record_csv_read);
}

int
record_tsv_next(struct record_source *r)
{
	return record_table_next(r, record_tsv_read);
}
