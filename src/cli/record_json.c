/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_json.c -- JSON lines and dumps.
 *
 * jansson says whether a line is a JSON object and what its strings are. The members that go into the value are
 * copied from the line as they stand, so that 1.10 stays 1.10 and a number of any length survives.
 */
#include <jansson.h>
#include <string.h>

#include "base/base.h"
#include "cli/record_parse.h"

enum { RECORD_JSON_FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL };

/* Walks the members of an object. jansson took its text for valid JSON, so every bracket and quote is there. */
struct record_cursor {
	const char *at, *end;
};

struct record_member {
	struct far_bytes whole, value; /* "name" : value, and the value alone */
};

/* The object's line ends behind it: no newline stands in it. */
static bool
record_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void
record_skip_space(struct record_cursor *c)
{
	while (record_is_space(*c->at))
		c->at++;
	FAR_ASSERT(c->at < c->end);
}

/* From a string's opening quote past its closing one. */
static void
record_skip_string(struct record_cursor *c)
{
	for (c->at++; *c->at != '"'; c->at++) {
		if (*c->at == '\\')
			c->at++;
		FAR_ASSERT(c->at < c->end);
	}
	c->at++;
}

/* Past a value: up to the comma or brace that ends it at its own depth. */
static void
record_skip_value(struct record_cursor *c)
{
	unsigned depth = 0;

	while (depth > 0 || (*c->at != ',' && *c->at != '}')) {
		FAR_ASSERT(c->at < c->end);
		if (*c->at == '"') {
			record_skip_string(c);
			continue;
		}
		if (*c->at == '{' || *c->at == '[')
			depth++;
		if (*c->at == '}' || *c->at == ']')
			depth--;
		c->at++;
	}
}

/* The next member of the object; the caller knows that there is one. */
static struct record_member
record_member_next(struct record_cursor *c)
{
	struct record_member m;
	const char *start, *value, *end;

	c->at++; /* the opening brace or the comma */
	record_skip_space(c);
	start = c->at;
	record_skip_string(c);
	record_skip_space(c);
	c->at++; /* the colon */
	record_skip_space(c);
	value = c->at;
	record_skip_value(c);
	for (end = c->at; record_is_space(end[-1]);)
		end--;
	m.whole = far_bytes(start, (size_t)(end - start));
	m.value = far_bytes(value, (size_t)(end - value));
	return m;
}

/* The next line that is not blank, parsed; *object is the caller's to drop. 1, 0 or -FAR_E. */
static int
record_json_read(struct record_source *r, struct far_bytes *line, json_t **object)
{
	json_error_t why;
	int got;

	do {
		got = input_line(r->in, line);
		if (got < 0)
			return record_fail_input(r, got);
	} while (got == 1 && record_blank(*line));
	if (got == 0)
		return 0;
	r->line = input_line_number(r->in);
	*object = json_loadb(line->data, line->len, RECORD_JSON_FLAGS, &why);
	if (!*object)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "not JSON: %.200s (byte %d; a line holds one whole object)",
				   why.text, why.position);
	if (json_typeof(*object) != JSON_OBJECT) {
		json_decref(*object);
		return record_fail(r, -FAR_ESYNTAX, r->line, "not a JSON object: a line holds one");
	}
	return 1;
}

/* The bytes that a member stands for: a string's own, else its text. */
static struct far_bytes
record_json_bytes(json_t *value, const struct record_member *m)
{
	if (json_typeof(value) == JSON_STRING)
		return far_bytes(json_string_value(value), json_string_length(value));
	return m->value;
}

/* One member: part of the key, the value, or one of the value's members. */
static int
record_json_member(struct record_source *r, const char *name, json_t *value,
		   const struct record_member *m)
{
	struct far_bytes data = record_json_bytes(value, m);
	bool key = false;

	for (unsigned k = 0; k < r->keys_n; k++)
		key = key || strcmp(name, r->keys[k]) == 0;
	if (key && json_typeof(value) != JSON_STRING && json_typeof(value) != JSON_REAL)
		return record_fail(r, -FAR_ESYNTAX, r->line,
				   "the key '%.100s' is neither a string nor a number", name);
	if (r->opts->value)
		return strcmp(name, r->opts->value) == 0 ? bytes_add(&r->value, data.data, data.len)
							 : 0;
	if (key)
		return 0;
	if (r->value.len > 1 && bytes_add(&r->value, ",", 1) != 0)
		return -FAR_ENOMEM;
	return bytes_add(&r->value, m->whole.data, m->whole.len);
}

/* The key's parts come in the order in which they were asked for, whatever the object's order. */
static int
record_json_key(struct record_source *r, json_t *object, struct far_bytes line)
{
	for (unsigned k = 0; k < r->keys_n; k++) {
		struct record_cursor c = { line.data, (const char *)line.data + line.len };
		struct record_member m;
		void *at = json_object_iter(object);
		int err;

		record_skip_space(&c);
		for (; at; at = json_object_iter_next(object, at)) {
			m = record_member_next(&c);
			if (strcmp(json_object_iter_key(at), r->keys[k]) == 0)
				break;
		}
		err = at ? record_key_add(r, k, record_json_bytes(json_object_iter_value(at), &m))
			 : record_no_field(r, r->keys[k]);
		if (err)
			return err;
	}
	return 0;
}

static int
record_json_make(struct record_source *r, json_t *object, struct far_bytes line)
{
	struct record_cursor c = { line.data, (const char *)line.data + line.len };
	int err = record_json_key(r, object, line);

	if (!err && r->opts->value && !json_object_get(object, r->opts->value))
		err = record_no_field(r, r->opts->value);
	if (!err && !r->opts->value)
		err = bytes_add(&r->value, "{", 1);
	if (err)
		return err;
	record_skip_space(&c);
	for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
		struct record_member m = record_member_next(&c);

		err = record_json_member(r, json_object_iter_key(at), json_object_iter_value(at),
					 &m);
		if (err)
			return err;
	}
	return r->opts->value ? 0 : bytes_add(&r->value, "}", 1);
}

/* Dumps --------------------------------------------------------------------------------------------------- */

/* Member NAME as it is, or NAME64 in base64; NULL when there is not exactly one of them, as a string. */
static json_t *
record_dump_member(json_t *object, const char *name, const char *name64, enum bytes_code *code)
{
	json_t *plain = json_object_get(object, name), *coded = json_object_get(object, name64);
	json_t *one = plain ? plain : coded;

	*code = coded ? BYTES_BASE64 : BYTES_RAW;
	if (!plain == !coded || json_typeof(one) != JSON_STRING)
		return NULL;
	return one;
}

static bool
record_object_is_dump(json_t *object)
{
	enum bytes_code code;

	return json_object_size(object) == 2 && record_dump_member(object, "key", "key64", &code) &&
	       record_dump_member(object, "value", "value64", &code);
}

static int
record_dump_take(struct record_source *r, struct bytes *to, json_t *text, enum bytes_code code)
{
	int err = text ? bytes_decode(to, code,
				      far_bytes(json_string_value(text), json_string_length(text)))
		       : -FAR_ESYNTAX;

	if (err == -FAR_ESYNTAX)
		return record_fail(r, err, r->line,
				   !text ? "expected {\"key\" or \"key64\": STRING, \"value\" or "
					   "\"value64\": STRING}"
					 : "malformed base64");
	return err;
}

static int
record_dump_make(struct record_source *r, json_t *object)
{
	enum bytes_code code;
	json_t *text = record_dump_member(object, "key", "key64", &code);
	int err =
		r->opts->prefix ? bytes_add(&r->key, r->opts->prefix, strlen(r->opts->prefix)) : 0;

	if (!err)
		err = record_dump_take(r, &r->key, json_object_size(object) == 2 ? text : NULL,
				       code);
	if (err)
		return err;
	text = record_dump_member(object, "value", "value64", &code);
	return record_dump_take(r, &r->value, text, code);
}

int
record_dump_next(struct record_source *r)
{
	struct far_bytes line;
	json_t *object;
	int got = record_json_read(r, &line, &object);

	if (got != 1)
		return got;
	got = record_dump_make(r, object);
	json_decref(object);
	return got ? got : 1;
}

int
record_json_next(struct record_source *r)
{
	struct far_bytes line;
	json_t *object;
	int got = record_json_read(r, &line, &object);

	if (got != 1)
		return got;
	if (r->keys_n == 0 && record_object_is_dump(object)) {
		r->format = RECORD_DUMP;
		got = record_dump_make(r, object);
	} else if (r->keys_n == 0) {
		got = record_fail(r, -FAR_EINVAL, 0, "which member is the key? Say --key NAME");
	} else {
		got = record_json_make(r, object, line);
	}
	json_decref(object);
	return got ? got : 1;
}
