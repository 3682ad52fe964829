/* SPDX-License-Identifier: Apache-2.0 */
/* record.c -- choosing the format, and making key and value out of a record's fields. */
#include "cli/record.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "cli/record_parse.h"

/* Memory that a record may leave behind for the next one. */
enum { RECORD_KEEP = 1 << 20 };

enum { RECORD_LIST_MAX = 120 /* bytes of a list of columns, after which it ends */ };

static const char *const record_names[] = {
	[RECORD_AUTO] = "auto",
	[RECORD_CSV] = "csv",
	[RECORD_TSV] = "tsv",
	[RECORD_INI] = "ini",
	[RECORD_JSON] = "json",
	[RECORD_DUMP] = "dump",
};

const char *
record_format_name(unsigned format)
{
	return format < RECORD_FORMATS ? record_names[format] : NULL;
}

int
record_fail(struct record_source *r, int err, uint64_t line, const char *format, ...)
{
	int n = line ? snprintf(r->error, sizeof(r->error), "%.200s:%llu: ", r->file,
				(unsigned long long)line)
		     : snprintf(r->error, sizeof(r->error), "%.200s: ", r->file);
	va_list args;

	va_start(args, format);
	vsnprintf(r->error + n, sizeof(r->error) - (size_t)n, format, args);
	va_end(args);
	return err;
}

int
record_fail_input(struct record_source *r, int err)
{
	return record_fail(r, err, err == -FAR_ESYNTAX ? input_line_number(r->in) : 0, "%s",
			   input_error(r->in));
}

/* Cuts "A,B" into column names. */
static int
record_split_keys(struct record_source *r, const char *key)
{
	char *rest;

	if (bytes_add(&r->keys_text, key, strlen(key) + 1) != 0)
		return -FAR_ENOMEM;
	rest = r->keys_text.data;
	while (rest && r->keys_n < RECORD_KEYS_MAX)
		r->keys[r->keys_n++] = strsep(&rest, ",");
	return 0;
}

int
record_open(const char *path, const struct record_opts *opts, struct record_source **out)
{
	struct record_source *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -FAR_ENOMEM;
	r->opts = opts;
	r->format = opts->format;
	r->file = strcmp(path, "-") == 0 ? "standard input" : path;
	err = opts->key ? record_split_keys(r, opts->key) : 0;
	if (!err)
		err = input_open(path, &r->in);
	if (err) {
		int saved = errno;

		record_close(r);
		errno = saved;
		return err;
	}
	*out = r;
	return 0;
}

void
record_close(struct record_source *r)
{
	if (!r)
		return;
	input_close(r->in);
	if (r->csv_open)
		csv_free(&r->csv);
	bytes_free(&r->keys_text);
	bytes_free(&r->header);
	bytes_free(&r->text);
	bytes_free(&r->key);
	bytes_free(&r->value);
	bytes_free(&r->section);
	free(r->columns);
	free(r->fields);
	free(r);
}

struct far_bytes
record_chomp(struct far_bytes line)
{
	const char *s = line.data;

	if (line.len > 0 && s[line.len - 1] == '\n')
		line.len--;
	if (line.len > 0 && s[line.len - 1] == '\r')
		line.len--;
	return line;
}

bool
record_blank(struct far_bytes line)
{
	const char *s = line.data;

	for (size_t i = 0; i < line.len; i++) {
		if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n')
			return false;
	}
	return true;
}

/* Choosing the format ------------------------------------------------------------------------------------ */

static enum record_format
record_format_by_name(const char *file)
{
	static const struct {
		const char *end;
		enum record_format format;
	} ends[] = {
		{ ".csv", RECORD_CSV },
		{ ".tsv", RECORD_TSV },
		{ ".tab", RECORD_TSV },
		{ ".ini", RECORD_INI },
		{ ".cfg", RECORD_INI },
		{ ".json", RECORD_JSON },
		{ ".jsonl", RECORD_JSON },
		{ ".ndjson", RECORD_JSON },
	};
	size_t len = strlen(file);

	if (len > 3 && strcasecmp(file + len - 3, ".gz") == 0)
		len -= 3;
	for (size_t i = 0; i < FAR_LEN(ends); i++) {
		size_t n = strlen(ends[i].end);

		if (len > n && strncasecmp(file + len - n, ends[i].end, n) == 0)
			return ends[i].format;
	}
	return RECORD_AUTO;
}

/* What the first line that is neither blank nor a comment looks like; RECORD_AUTO: like nothing known. *complete
 * tells whether that line was there up to its end. */
static enum record_format
record_format_by_text(struct far_bytes view, bool *complete)
{
	const char *s = view.data, *end = s + view.len;

	while (s < end) {
		const char *newline = memchr(s, '\n', (size_t)(end - s));
		const char *stop = newline ? newline : end;
		const char *first = s;

		while (first < stop && (*first == ' ' || *first == '\t' || *first == '\r'))
			first++;
		*complete = newline != NULL;
		if (first < stop && (*first == '{' || *first == '['))
			return *first == '{' ? RECORD_JSON : RECORD_INI;
		if (first < stop && *first != '#' && *first != ';') {
			if (memchr(s, '\t', (size_t)(stop - s)))
				return RECORD_TSV;
			return memchr(s, ',', (size_t)(stop - s)) ? RECORD_CSV : RECORD_AUTO;
		}
		s = newline ? newline + 1 : end;
	}
	*complete = false;
	return RECORD_AUTO;
}

static int
record_detect(struct record_source *r)
{
	struct far_bytes view, before = far_bytes(NULL, 0);
	bool complete = false;
	size_t want = 1;
	int err;

	if (r->opts->delimiter)
		r->format = RECORD_CSV;
	if (r->format == RECORD_AUTO)
		r->format = record_format_by_name(r->file);
	/* More is read until a telling line is complete; a first "{" or "[" tells at once. */
	while (r->format == RECORD_AUTO && !complete) {
		err = input_peek(r->in, want, &view);
		if (err < 0)
			return record_fail_input(r, err);
		r->format = record_format_by_text(view, &complete);
		if (r->format == RECORD_AUTO && !complete && view.len == before.len)
			break;
		before = view;
		want = view.len + 1;
	}
	if (r->format == RECORD_AUTO && before.len > 0)
		return record_fail(r, -FAR_EINVAL, 0,
				   "cannot tell what format this is; say --format csv, tsv, ini, "
				   "json or dump");
	return 0;
}

/* The format is known up to JSON lines or a dump, which the first line tells. */
static int
record_prepare(struct record_source *r)
{
	int err = record_detect(r);

	if (err || r->format == RECORD_AUTO)
		return err;
	if (r->keys_n > 0 || r->format == RECORD_DUMP)
		return 0;
	if (r->format == RECORD_INI)
		return record_split_keys(r, RECORD_SECTION);
	if (r->format == RECORD_JSON && r->opts->format == RECORD_AUTO)
		return 0;
	return record_fail(r, -FAR_EINVAL, 0, "which column is the key? Say --key COLUMN");
}

/* Fields ------------------------------------------------------------------------------------------------- */

int
record_field_add(struct record_source *r)
{
	if (r->fields_n == RECORD_FIELDS_MAX)
		return -FAR_ESYNTAX;
	if (r->fields_n == r->fields_cap) {
		size_t cap = r->fields_cap ? 2 * r->fields_cap : 16;
		void *fields = realloc(r->fields, cap * sizeof(*r->fields));

		if (!fields)
			return -FAR_ENOMEM;
		r->fields = fields;
		r->fields_cap = cap;
	}
	r->fields[r->fields_n].name = r->fields[r->fields_n].value =
		(struct record_span){ r->text.len, 0 };
	r->fields_n++;
	return 0;
}

static struct far_bytes
record_name(const struct record_source *r, size_t i)
{
	return record_bytes(r->names_in_header ? &r->header : &r->text, r->fields[i].name);
}

static struct far_bytes
record_value(const struct record_source *r, size_t i)
{
	return record_bytes(&r->text, r->fields[i].value);
}

static bool
record_is(struct far_bytes a, const char *name)
{
	return a.len == strlen(name) && memcmp(a.data, name, a.len) == 0;
}

/* The field of that name or -1. */
static long
record_find(const struct record_source *r, const char *name)
{
	for (size_t i = 0; i < r->fields_n; i++) {
		if (record_is(record_name(r, i), name))
			return (long)i;
	}
	return -1;
}

static bool
record_is_key(const struct record_source *r, size_t i)
{
	for (unsigned k = 0; k < r->keys_n; k++) {
		if (record_is(record_name(r, i), r->keys[k]))
			return true;
	}
	return false;
}

/* The columns asked for are not all in the header: says which is missing, and which there are. */
static int
record_no_column(struct record_source *r, const char *name)
{
	struct bytes list = { .len = 0 };
	int err = 0;

	for (size_t i = 0; i < r->fields_n && !err && list.len < RECORD_LIST_MAX; i++) {
		/* A buffer has more than RECORD_LIST_MAX bytes from its first on. */
		if (i > 0)
			err = bytes_add(&list, ", ", 2);
		FAR_ASSERT(!err);
		err = bytes_human(&list, record_name(r, i), 40);
	}
	if (!err && list.len >= RECORD_LIST_MAX)
		err = bytes_add(&list, ", ...", 5);
	if (!err)
		err = record_fail(r, -FAR_EINVAL, r->line,
				  "there is no column '%.100s'; the columns are %.*s", name,
				  (int)list.len, list.data);
	bytes_free(&list);
	return err;
}

/* Told at the header, so that a table without rows is refused, too. */
static int
record_check_columns(struct record_source *r)
{
	for (unsigned k = 0; k < r->keys_n; k++) {
		if (record_find(r, r->keys[k]) < 0)
			return record_no_column(r, r->keys[k]);
	}
	if (r->opts->value && record_find(r, r->opts->value) < 0)
		return record_no_column(r, r->opts->value);
	return 0;
}

int
record_header(struct record_source *r)
{
	bytes_reset(&r->header, RECORD_KEEP);
	free(r->columns);
	r->columns = calloc(r->fields_n, sizeof(*r->columns));
	if (!r->columns || bytes_add(&r->header, r->text.data, r->text.len) != 0)
		return -FAR_ENOMEM;
	r->columns_n = r->fields_n;
	for (size_t i = 0; i < r->fields_n; i++) {
		r->columns[i] = r->fields[i].value;
		r->fields[i].name = r->fields[i].value;
	}
	for (size_t i = 0; i < r->fields_n; i++) {
		struct far_bytes name = record_name(r, i);

		for (size_t k = 0; k < i; k++) {
			struct far_bytes other = record_name(r, k);

			if (name.len == other.len && memcmp(name.data, other.data, name.len) == 0)
				return record_fail(
					r, -FAR_EINVAL, r->line, "two columns have the name '%.*s'",
					(int)far_min(name.len, 100), (const char *)name.data);
		}
	}
	return record_check_columns(r);
}

/* Making key and value ------------------------------------------------------------------------------------ */

int
record_key_add(struct record_source *r, unsigned part, struct far_bytes data)
{
	const char *prefix = r->opts->prefix;
	int err = 0;

	if (part > 0)
		err = bytes_add(&r->key, ",", 1);
	else if (prefix)
		err = bytes_add(&r->key, prefix, strlen(prefix));
	return err ? err : bytes_add(&r->key, data.data, data.len);
}

int
record_no_field(struct record_source *r, const char *name)
{
	return record_fail(r, -FAR_ESYNTAX, r->line, "there is no '%s' here", name);
}

static int
record_make_key(struct record_source *r)
{
	for (unsigned k = 0; k < r->keys_n; k++) {
		long i = record_find(r, r->keys[k]);
		int err = i < 0 ? record_no_field(r, r->keys[k])
				: record_key_add(r, k, record_value(r, (size_t)i));

		if (err)
			return err;
	}
	return 0;
}

static int
record_append(const char *text, size_t len, void *arg)
{
	return bytes_add(arg, text, len) ? -1 : 0;
}

static int
record_make_json(struct record_source *r)
{
	json_t *row = json_object();
	int err = row ? 0 : -FAR_ENOMEM;

	for (size_t i = 0; !err && i < r->fields_n; i++) {
		struct far_bytes name = record_name(r, i), value = record_value(r, i);
		json_t *text;

		if (record_is_key(r, i))
			continue;
		text = json_stringn(value.data, value.len);
		/* jansson refuses what is not UTF-8; names without NUL are checked likewise. */
		if (!text || json_object_setn_new(row, name.data, name.len, text) != 0)
			err = record_fail(r, -FAR_ESYNTAX, r->line,
					  "column '%.*s' is not UTF-8 text",
					  (int)far_min(name.len, 100), (const char *)name.data);
	}
	if (!err && json_dump_callback(row, record_append, &r->value, JSON_COMPACT) != 0)
		err = -FAR_ENOMEM;
	json_decref(row);
	return err;
}

static int
record_make(struct record_source *r)
{
	int err = record_make_key(r);
	struct far_bytes value;
	long i;

	if (err || !r->opts->value)
		return err ? err : record_make_json(r);
	i = record_find(r, r->opts->value);
	if (i < 0)
		return record_no_field(r, r->opts->value);
	value = record_value(r, (size_t)i);
	return bytes_add(&r->value, value.data, value.len);
}

static int
record_check(struct record_source *r, struct record *out)
{
	size_t prefix = r->opts->prefix ? strlen(r->opts->prefix) : 0;

	out->key = bytes_view(&r->key);
	out->value = bytes_view(&r->value);
	out->line = r->line;
	if (r->key.len == prefix)
		return record_fail(r, -FAR_ESYNTAX, r->line, "the key is empty");
	if (r->key.len > FAR_KEY_MAX)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "the key has %zu bytes, more than %zu", r->key.len, FAR_KEY_MAX);
	if (r->value.len > FAR_VALUE_MAX)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "the value has %zu bytes, more than %zu", r->value.len,
				   FAR_VALUE_MAX);
	return 1;
}

static int
record_parse(struct record_source *r)
{
	int got;

	bytes_reset(&r->key, RECORD_KEEP);
	bytes_reset(&r->value, RECORD_KEEP);
	bytes_reset(&r->text, RECORD_KEEP);
	r->fields_n = 0;
	switch (r->format) {
	case RECORD_CSV:
		got = record_csv_next(r);
		break;
	case RECORD_TSV:
		got = record_tsv_next(r);
		break;
	case RECORD_INI:
		got = record_ini_next(r);
		break;
	case RECORD_JSON:
		return record_json_next(r);
	case RECORD_DUMP:
		return record_dump_next(r);
	default: /* an empty input */
		return 0;
	}
	if (got != 1)
		return got;
	got = record_make(r);
	return got ? got : 1;
}

int
record_next(struct record_source *r, struct record *out)
{
	int got = r->format == RECORD_AUTO || r->keys_n == 0 ? record_prepare(r) : 0;

	if (!got)
		got = record_parse(r);
	if (got == -FAR_ENOMEM)
		return record_fail(r, got, 0, "out of memory");
	return got == 1 ? record_check(r, out) : got;
}

const char *
record_error(const struct record_source *r)
{
	return r->error;
}

enum record_format
record_format(const struct record_source *r)
{
	return r->format;
}

bool
record_would_wait(const struct record_source *r)
{
	return input_would_wait(r->in);
}

double
record_progress(const struct record_source *r)
{
	return input_progress(r->in);
}
