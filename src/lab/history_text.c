/* SPDX-License-Identifier: Apache-2.0 */
/* history_text.c -- a history as text, one event per line: the format is in history.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lab/history.h"

#define HISTORY_HEAD "farside-history 1"

enum { HISTORY_LINE = 256 };

static const struct {
	const char *name;
	int result;
} history_results[] = {
	{ "ok", 0 },
	{ "absent", -FAR_ENOENT },
	{ "exists", -FAR_EEXIST },
	{ "changed", -FAR_ECHANGED },
};

/* Writing --------------------------------------------------------------------------------------------------- */

/* A line to be written: places at which an operation is called, told or returned. */
struct history_line {
	uint64_t stamp;
	const struct history_op *op;
	bool returns;
};

static int
history_compare_lines(const void *a, const void *b)
{
	const struct history_line *x = a, *y = b;
	bool item = x->op->kind == HISTORY_ITEM;

	if (x->stamp != y->stamp)
		return x->stamp < y->stamp ? -1 : 1;
	/* Items come behind the call of their scan. */
	if (item != (y->op->kind == HISTORY_ITEM))
		return item ? 1 : -1;
	return (x->op->key > y->op->key) - (x->op->key < y->op->key);
}

static const char *
history_word(char buf[32], uint64_t word)
{
	snprintf(buf, 32, word ? "%" PRIx64 : "-", word);
	return buf;
}

static const char *
history_name(char buf[32], uint64_t id)
{
	snprintf(buf, 32, id ? "%u.%u" : "-", (unsigned)(id >> 32), (unsigned)id);
	return buf;
}

static const char *
history_result(int result)
{
	for (size_t i = 0; i < FAR_LEN(history_results); i++)
		if (history_results[i].result == result)
			return history_results[i].name;
	return "?";
}

static void
history_print_line(const struct history_line *l, FILE *out)
{
	const struct history_op *op = l->op;
	char id[32], word[32], value[32];

	fprintf(out, "%" PRIu64 " ", l->stamp);
	history_name(id, op->id);
	if (op->kind == HISTORY_ITEM)
		fprintf(out, "item %s %u %s %s\n", id, op->key, history_word(word, op->version),
			history_name(value, op->value));
	else if (l->returns)
		fprintf(out, "return %s %s %s %s\n", id, history_result(op->result),
			history_word(word, op->version), history_name(value, op->value));
	else
		fprintf(out, "call %s %s %u %s\n", id,
			op->kind == HISTORY_SCAN ? "scan" : lin_kind_name(op->kind), op->key,
			history_word(word, op->expect));
}

/* The lines of one key, or of everything. */
static int
history_print_some(const struct history *h, bool all, uint32_t key, FILE *out)
{
	struct history_line *lines = malloc((2 * h->n + 1) * sizeof(*lines));
	size_t n = 0;

	if (!lines)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < h->n; i++) {
		const struct history_op *op = &h->ops[i];

		if (!all && op->kind != HISTORY_SCAN && op->key != key)
			continue;
		lines[n++] = (struct history_line){ op->call, op, false };
		if (op->ret)
			lines[n++] = (struct history_line){ op->ret, op, true };
	}
	qsort(lines, n, sizeof(*lines), history_compare_lines);
	fprintf(out, "%s\n", HISTORY_HEAD);
	for (size_t i = 0; i < n; i++)
		history_print_line(&lines[i], out);
	free(lines);
	return fflush(out) == 0 && !ferror(out) ? 0 : -FAR_EIO;
}

int
history_print(const struct history *h, FILE *out)
{
	return history_print_some(h, true, 0, out);
}

int
history_print_key(const struct history *h, uint32_t key, FILE *out)
{
	return history_print_some(h, false, key, out);
}

/* Reading --------------------------------------------------------------------------------------------------- */

/* Digits of that base and nothing else; "-" is 0 where `none` allows it. */
static bool
history_parse_number(const char *s, unsigned base, bool none, uint64_t max, uint64_t *out)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t n = 0;

	if (none && strcmp(s, "-") == 0) {
		*out = 0;
		return true;
	}
	if (!*s)
		return false;
	for (; *s; s++) {
		const char *at = strchr(digits, *s);
		unsigned digit = at ? (unsigned)(at - digits) : base;

		if (digit >= base || n > (max - digit) / base)
			return false;
		n = n * base + digit;
	}
	*out = n;
	return true;
}

static bool
history_parse_id(const char *s, bool none, uint64_t *out)
{
	uint64_t lane, number;
	char buf[32], *dot;

	if (none && strcmp(s, "-") == 0) {
		*out = 0;
		return true;
	}
	if (strlen(s) >= sizeof(buf))
		return false;
	strcpy(buf, s);
	if (!(dot = strchr(buf, '.')))
		return false;
	*dot = 0;
	if (!history_parse_number(buf, 10, false, UINT32_MAX, &lane) || lane == 0 ||
	    !history_parse_number(dot + 1, 10, false, UINT32_MAX, &number) || number == 0)
		return false;
	*out = history_id((uint32_t)lane, (uint32_t)number);
	return true;
}

static bool
history_parse_key(const char *s, uint32_t *out)
{
	uint64_t n;

	if (!history_parse_number(s, 10, false, UINT32_MAX, &n))
		return false;
	*out = (uint32_t)n;
	return true;
}

static bool
history_parse_call(char *const words[6], struct history_op *op)
{
	if (strcmp(words[3], "scan") == 0)
		op->kind = HISTORY_SCAN;
	else
		while (op->kind < LIN_KINDS && strcmp(words[3], lin_kind_name(op->kind)) != 0)
			op->kind++;
	if (op->kind == LIN_KINDS && strcmp(words[3], "scan") != 0)
		return false;
	return history_parse_id(words[2], false, &op->id) &&
	       history_parse_key(words[4], &op->key) &&
	       history_parse_number(words[5], 16, true, UINT64_MAX, &op->expect);
}

static bool
history_parse_return(char *const words[6], struct history_op *op)
{
	size_t r = 0;

	while (r < FAR_LEN(history_results) && strcmp(words[3], history_results[r].name) != 0)
		r++;
	if (r == FAR_LEN(history_results))
		return false;
	op->result = history_results[r].result;
	return history_parse_id(words[2], false, &op->id) &&
	       history_parse_number(words[4], 16, true, UINT64_MAX, &op->version) &&
	       history_parse_id(words[5], true, &op->value);
}

static bool
history_parse_item(char *const words[6], struct history_op *op)
{
	op->kind = HISTORY_ITEM;
	return history_parse_id(words[2], false, &op->id) &&
	       history_parse_key(words[3], &op->key) &&
	       history_parse_number(words[4], 16, true, UINT64_MAX, &op->version) &&
	       history_parse_id(words[5], true, &op->value);
}

/* One line; *returns tells whether it is a return, which completes another one. */
static bool
history_parse_line(char *line, struct history_op *op, bool *returns)
{
	char *words[7], *save = NULL;
	unsigned n = 0;
	uint64_t stamp;

	for (char *w = strtok_r(line, " ", &save); w && n < 7; w = strtok_r(NULL, " ", &save))
		words[n++] = w;
	if (n != 6 || !history_parse_number(words[0], 10, false, UINT64_MAX, &stamp) || stamp == 0)
		return false;
	*op = (struct history_op){ .call = stamp };
	*returns = strcmp(words[1], "return") == 0;
	if (*returns) {
		op->ret = stamp;
		return history_parse_return(words, op);
	}
	if (strcmp(words[1], "call") == 0)
		return history_parse_call(words, op);
	return strcmp(words[1], "item") == 0 && history_parse_item(words, op);
}

static int
history_compare_ids(const void *a, const void *b)
{
	const struct history_op *x = a, *y = b;
	bool item = x->kind == HISTORY_ITEM;

	/* Items apart; of one id the call before the return. */
	if (item != (y->kind == HISTORY_ITEM))
		return item ? 1 : -1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->ret != 0) - (y->ret != 0);
}

/* Returns complete their calls: of ops[from, n) both are there. An id that is called twice has no call. */
static int
history_join(struct history *h, size_t from)
{
	size_t to = from;

	if (h->n > from)
		qsort(h->ops + from, h->n - from, sizeof(*h->ops), history_compare_ids);
	for (size_t i = from; i < h->n; i++) {
		struct history_op *op = &h->ops[i], *call = to > from ? &h->ops[to - 1] : NULL;

		if (op->kind == HISTORY_ITEM || !op->ret) {
			if (op->kind != HISTORY_ITEM && call && call->id == op->id)
				return -FAR_ESYNTAX;
			h->ops[to++] = *op;
			continue;
		}
		/* No item can be the call: they come behind all others. */
		if (!call || call->id != op->id || call->ret || op->ret <= call->call)
			return -FAR_ESYNTAX;
		call->ret = op->ret;
		call->result = op->result;
		call->version = op->version;
		call->value = op->value;
	}
	h->n = to;
	return 0;
}

int
history_read(struct history *h, FILE *in, unsigned *line)
{
	size_t from = h->n;
	unsigned at = 0;
	char text[HISTORY_LINE];
	int err = 0;

	while (!err && fgets(text, sizeof(text), in)) {
		size_t len = strcspn(text, "\n");
		struct history_op op;
		bool returns;

		at++;
		err = text[len] == '\n' ? 0 : -FAR_ESYNTAX;
		text[len] = 0;
		if (err || (text[0] == '#' && at > 1))
			continue;
		if (at == 1)
			err = strcmp(text, HISTORY_HEAD) == 0 ? 0 : -FAR_ESYNTAX;
		else if (!history_parse_line(text, &op, &returns))
			err = -FAR_ESYNTAX;
		else
			err = history_add(h, &op);
	}
	if (!err && ferror(in))
		err = -FAR_EIO;
	if (!err && at == 0)
		err = -FAR_ESYNTAX;
	if (!err)
		err = history_join(h, from);
	if (line)
		*line = at;
	return err;
}
