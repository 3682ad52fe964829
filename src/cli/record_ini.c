/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_ini.c -- sections of an INI file.
 *
 * A section ends where the next one's header stands: that header is read ahead. After an error the rest of the
 * section is skipped.
 */
#include <string.h>

#include "base/base.h"
#include "cli/record_parse.h"

static struct far_bytes
record_ini_trim(struct far_bytes s)
{
	const char *at = s.data, *end = at + s.len;

	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return far_bytes(at, (size_t)(end - at));
}

/* Reads lines up to the next that is neither blank nor a comment; *indented tells whether it starts with white
 * space. 1, 0 at the end, or -FAR_E. */
static int
record_ini_line(struct record_source *r, struct far_bytes *line, bool *indented)
{
	const char *s;
	int got;

	do {
		got = input_line(r->in, line);
		if (got < 0)
			return record_fail_input(r, got);
		if (got == 0)
			return 0;
		*line = record_chomp(*line);
		s = line->data;
		*indented = line->len > 0 && (s[0] == ' ' || s[0] == '	');
		*line = record_ini_trim(*line);
	} while (line->len == 0 || ((const char *)line->data)[0] == '#' ||
		 ((const char *)line->data)[0] == ';');
	return 1;
}

/* Notes the header that ends the section being read. A malformed one is reported when its own section begins. */
static int
record_ini_header(struct record_source *r, struct far_bytes line)
{
	const char *s = line.data;

	r->section_line = input_line_number(r->in);
	r->section_bad = s[line.len - 1] != ']';
	r->has_section = true;
	if (r->section_bad)
		return 0;
	bytes_reset(&r->section, SIZE_MAX);
	if (bytes_add(&r->section, s + 1, line.len - 2) != 0)
		return -FAR_ENOMEM;
	return 0;
}

/* Adds a field of two texts. */
static int
record_ini_add(struct record_source *r, struct far_bytes name, struct far_bytes value)
{
	struct record_field *f;
	int err;

	if ((err = record_field_add(r)) != 0 ||
	    (err = bytes_add(&r->text, name.data, name.len)) != 0)
		return err;
	f = &r->fields[r->fields_n - 1];
	f->name.len = name.len;
	f->value = (struct record_span){ r->text.len, value.len };
	return bytes_add(&r->text, value.data, value.len);
}

static int
record_ini_option(struct record_source *r, struct far_bytes line)
{
	const char *s = line.data;
	size_t cut = 0;
	struct far_bytes name;

	while (cut < line.len && s[cut] != '=' && s[cut] != ':')
		cut++;
	name = record_ini_trim(far_bytes(s, cut));
	if (cut == line.len || name.len == 0)
		return record_fail(r, -FAR_ESYNTAX, input_line_number(r->in),
				   "expected NAME = VALUE or [SECTION]");
	for (size_t i = 0; i < r->fields_n; i++) {
		struct far_bytes other = record_bytes(&r->text, r->fields[i].name);

		if (other.len == name.len && memcmp(other.data, name.data, name.len) == 0)
			return record_fail(r, -FAR_ESYNTAX, input_line_number(r->in),
					   "'%.*s' comes twice in its section",
					   (int)far_min(name.len, 100), (const char *)name.data);
	}
	return record_ini_add(r, name, record_ini_trim(far_bytes(s + cut + 1, line.len - cut - 1)));
}

/* An indented line goes on with the last value, which is the last text added. */
static int
record_ini_continue(struct record_source *r, struct far_bytes line)
{
	if (bytes_add(&r->text, "\n", 1) != 0 || bytes_add(&r->text, line.data, line.len) != 0)
		return -FAR_ENOMEM;
	r->fields[r->fields_n - 1].value.len += 1 + line.len;
	return 0;
}

/* After an error: up to the next header. The error's text stays. */
static int
record_ini_skip(struct record_source *r)
{
	char error[sizeof(r->error)];
	struct far_bytes line;
	bool indented;
	int got;

	memcpy(error, r->error, sizeof(error));
	do {
		got = record_ini_line(r, &line, &indented);
	} while (got == -FAR_ESYNTAX ||
		 (got == 1 && (((const char *)line.data)[0] != '[' || indented)));
	if (got == 1)
		got = record_ini_header(r, line);
	if (got < 0)
		return got;
	memcpy(r->error, error, sizeof(error));
	return -FAR_ESYNTAX;
}

/* One line inside a section or before the first; *done is set when it starts the next section. */
static int
record_ini_take(struct record_source *r, struct far_bytes line, bool indented, bool *done)
{
	bool inside = r->fields_n > 0; /* a section has at least its name */

	if (r->text.len + line.len > INPUT_LINE_MAX)
		return record_fail(r, -FAR_ESYNTAX, r->line, "the section is longer than 24 MiB");
	if (indented && r->fields_n > 1)
		return record_ini_continue(r, line);
	if (((const char *)line.data)[0] == '[') {
		*done = true;
		return record_ini_header(r, line);
	}
	if (!inside)
		return record_fail(r, -FAR_ESYNTAX, input_line_number(r->in),
				   "expected [SECTION] first");
	return record_ini_option(r, line);
}

/* Begins the section whose header was read. */
static int
record_ini_begin(struct record_source *r)
{
	r->line = r->section_line;
	r->has_section = false;
	if (r->section_bad)
		return record_fail(r, -FAR_ESYNTAX, r->line, "a section's name must end with ]");
	return record_ini_add(r, FAR_STR(RECORD_SECTION), bytes_view(&r->section));
}

int
record_ini_next(struct record_source *r)
{
	struct far_bytes line;
	bool indented, done = false;
	int got = 1, err = r->has_section ? record_ini_begin(r) : 0;

	r->names_in_header = false;
	while (!err && !done && got == 1) {
		got = record_ini_line(r, &line, &indented);
		err = got == 1 ? record_ini_take(r, line, indented, &done) : got < 0 ? got
										     : 0;
		/* The first header of all begins the first section. */
		if (!err && done && r->fields_n == 0) {
			err = record_ini_begin(r);
			done = false;
		}
	}
	if (err == -FAR_ESYNTAX)
		return record_ini_skip(r);
	return err ? err : r->fields_n > 0;
}
