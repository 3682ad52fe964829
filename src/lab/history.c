/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c -- a history is judged key by key: its operations, and what each scan told of it.
 *
 * Places of scans among a key's events follow from the stamps. A pending scan counts as far as it came.
 */
#include "lab/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lab/lin_scan.h"

/* A key's call or return. */
struct history_event {
	uint64_t stamp;
	uint32_t event;
};

/* Everything about the key at hand, and the scans. */
struct history_judge {
	struct history_report *out;
	struct lin *lin;
	const struct history_op **scans; /* by id */
	struct lin_scan *views;          /* of each scan: what it told of this key */
	struct lin_item *items;
	size_t scans_n;
	struct lin_op ops[LIN_KEY_OPS];
	struct history_event events[2 * LIN_KEY_OPS];
	uint32_t order[2 * LIN_KEY_OPS];
};

const char *
history_verdict_name(unsigned verdict)
{
	static const char *const names[HISTORY_VERDICTS] = {
		"good",
		"not linearizable",
		"told twice",
		"told, but never written",
		"version twice",
		"undecided",
	};

	return verdict < HISTORY_VERDICTS ? names[verdict] : "?";
}

int
history_add(struct history *h, const struct history_op *op)
{
	if (h->n == h->max) {
		size_t max = h->max ? 2 * h->max : 1024;
		struct history_op *ops = realloc(h->ops, max * sizeof(*ops));

		if (!ops)
			return -FAR_ENOMEM;
		h->ops = ops;
		h->max = max;
	}
	h->ops[h->n++] = *op;
	return 0;
}

void
history_free(struct history *h)
{
	free(h->ops);
	*h = (struct history){ 0 };
}

static int
history_order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Scans first, then the keys; of a key its operations by call, then its items by scan. */
static int
history_compare(const void *a, const void *b)
{
	const struct history_op *x = a, *y = b;
	bool scan = x->kind == HISTORY_SCAN, item = x->kind == HISTORY_ITEM;

	if (scan != (y->kind == HISTORY_SCAN))
		return scan ? -1 : 1;
	if (!scan && x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (item != (y->kind == HISTORY_ITEM))
		return item ? 1 : -1;
	if (!scan && !item && x->call != y->call)
		return history_order(x->call, y->call);
	return history_order(x->id, y->id);
}

static int
history_compare_words(const void *a, const void *b)
{
	return history_order(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int
history_compare_events(const void *a, const void *b)
{
	const struct history_event *x = a, *y = b;

	return history_order(x->stamp, y->stamp);
}

static bool
history_wrote(const struct history_op *op)
{
	return op->ret && op->result == 0 && op->kind < LIN_KINDS && op->kind != LIN_GET &&
	       op->kind != LIN_CONTAINS && op->kind != LIN_DELETE && op->kind != LIN_DELETE_IF;
}

/* Is a word of those that `pick` chooses there twice? 1, 0 or -FAR_ENOMEM. */
static int
history_repeats(const struct history *h, uint64_t (*pick)(const struct history_op *op))
{
	uint64_t *words = malloc((h->n + 1) * sizeof(*words));
	size_t n = 0;
	int found = 0;

	if (!words)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < h->n; i++)
		if ((words[n] = pick(&h->ops[i])) != 0)
			n++;
	qsort(words, n, sizeof(*words), history_compare_words);
	for (size_t i = 1; i < n && !found; i++)
		found = words[i] == words[i - 1];
	free(words);
	return found;
}

static uint64_t
history_pick_id(const struct history_op *op)
{
	return op->kind == HISTORY_ITEM ? 0 : op->id;
}

static uint64_t
history_pick_version(const struct history_op *op)
{
	return history_wrote(op) ? op->version : 0;
}

/* 1 + the index of the key's operation that has this id; 0: none has. */
static uint32_t
history_writer(const struct history_op *ops, uint32_t n, uint64_t id)
{
	for (uint32_t i = 0; id && i < n; i++)
		if (ops[i].id == id)
			return i + 1;
	return 0;
}

/* The place of a stamp among the key's events: how many came before it. */
static uint32_t
history_place(const struct history_judge *j, uint32_t events_n, uint64_t stamp)
{
	uint32_t low = 0, high = events_n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (j->events[mid].stamp < stamp)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* What the scans told of the key: its items are sorted as the scans are. 0 or -FAR_E. */
static int
history_view(struct history_judge *j, const struct history_op *ops, uint32_t ops_n,
	     const struct history_op *items, size_t items_n, uint32_t events_n)
{
	size_t at = 0;

	for (size_t s = 0; s < j->scans_n; s++) {
		const struct history_op *scan = j->scans[s];
		struct lin_scan *view = &j->views[s];
		bool whole = scan->ret != 0;

		*view = (struct lin_scan){ .items = &j->items[at], .whole = whole };
		view->begin = history_place(j, events_n, scan->call);
		view->end = whole ? history_place(j, events_n, scan->ret) : events_n;
		for (; at < items_n && items[at].id == scan->id; at++) {
			j->items[at] =
				(struct lin_item){ 0, history_writer(ops, ops_n, items[at].value),
						   items[at].version };
			view->items_n++;
		}
	}
	return at == items_n ? 0 : -FAR_EINVAL;
}

/* The key's operations as the checker wants them. Returns the number of events. */
static uint32_t
history_translate(struct history_judge *j, const struct history_op *ops, uint32_t n)
{
	uint32_t events_n = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct history_op *op = &ops[i];

		j->ops[i] = (struct lin_op){ .kind = (uint8_t)op->kind,
					     .pending = op->ret == 0,
					     .result = op->result,
					     .version = op->version,
					     .expect = op->expect };
		if (op->kind == LIN_GET)
			j->ops[i].value = history_writer(ops, n, op->value);
		j->events[events_n++] = (struct history_event){ op->call, LIN_CALL(i) };
		if (op->ret)
			j->events[events_n++] = (struct history_event){ op->ret, LIN_RETURN(i) };
		j->out->pending += op->ret == 0;
	}
	qsort(j->events, events_n, sizeof(j->events[0]), history_compare_events);
	for (uint32_t e = 0; e < events_n; e++)
		j->order[e] = j->events[e].event;
	return events_n;
}

/* What the checker says of the key, as enum history_verdict; or -FAR_E. */
static int
history_search(struct history_judge *j, const struct history_op *ops, size_t ops_n, size_t items_n)
{
	struct lin_history lh = { j->ops, j->order, (uint32_t)ops_n, 0 };
	int err;

	if (ops_n == 0)
		return HISTORY_STRANGER;
	/* A scan needs room for its lookup. */
	if (ops_n > LIN_KEY_OPS - 1)
		return HISTORY_UNDECIDED;
	lh.events_n = history_translate(j, ops, lh.ops_n);
	err = history_view(j, ops, lh.ops_n, ops + ops_n, items_n, lh.events_n);
	if (err)
		return err;
	err = lin_scan_check(j->lin, &lh, j->views, (uint32_t)j->scans_n, NULL);
	switch (err) {
	case LIN_SCAN_GOOD:
		return HISTORY_GOOD;
	case LIN_SCAN_BAD:
		return HISTORY_NOT_LINEARIZABLE;
	case LIN_SCAN_TWICE:
		return HISTORY_TWICE;
	case -FAR_ETIMEOUT:
		return HISTORY_UNDECIDED;
	default:
		return err;
	}
}

/* One key: ops[0, ops_n), and items_n items behind them. 0 or -FAR_E. */
static int
history_check_key(struct history_judge *j, const struct history_op *ops, size_t ops_n,
		  size_t items_n)
{
	int verdict = history_search(j, ops, ops_n, items_n);

	if (verdict < 0)
		return verdict;
	j->out->keys++;
	j->out->ops += ops_n;
	j->out->items += items_n;
	j->out->most_ops = (uint32_t)far_max(j->out->most_ops, ops_n);
	/* The first one counts. */
	if (verdict == HISTORY_GOOD || j->out->verdict != HISTORY_GOOD)
		return 0;
	j->out->verdict = (enum history_verdict)verdict;
	j->out->key = ops[0].key;
	return 0;
}

/* All keys, one after the other: they follow the scans. */
static int
history_check_keys(struct history_judge *j, const struct history *h)
{
	size_t at = j->scans_n;
	int err = 0;

	while (at < h->n && !err) {
		size_t first = at, ops_n;

		while (at < h->n && h->ops[at].key == h->ops[first].key &&
		       h->ops[at].kind != HISTORY_ITEM)
			at++;
		ops_n = at - first;
		while (at < h->n && h->ops[at].key == h->ops[first].key)
			at++;
		err = history_check_key(j, &h->ops[first], ops_n, at - first - ops_n);
	}
	return err;
}

static int
history_judge_init(struct history_judge *j, const struct history *h, struct history_report *out)
{
	size_t items_n = 0;

	*out = (struct history_report){ .verdict = HISTORY_GOOD };
	j->out = out;
	for (size_t i = 0; i < h->n; i++) {
		if (h->ops[i].kind > HISTORY_ITEM ||
		    (h->ops[i].ret && h->ops[i].ret <= h->ops[i].call))
			return -FAR_EINVAL;
		j->scans_n += h->ops[i].kind == HISTORY_SCAN;
		items_n += h->ops[i].kind == HISTORY_ITEM;
	}
	out->scans = j->scans_n;
	j->scans = malloc((j->scans_n + 1) * sizeof(*j->scans));
	j->views = malloc((j->scans_n + 1) * sizeof(*j->views));
	j->items = malloc((items_n + 1) * sizeof(*j->items));
	if (!j->scans || !j->views || !j->items)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < j->scans_n; i++)
		j->scans[i] = &h->ops[i];
	return lin_new(&j->lin);
}

int
history_check(struct history *h, struct history_report *out)
{
	struct history_judge *j = calloc(1, sizeof(*j));
	int err, again;

	if (!j)
		return -FAR_ENOMEM;
	if (h->n > 0)
		qsort(h->ops, h->n, sizeof(*h->ops), history_compare);
	again = history_repeats(h, history_pick_id);
	err = again > 0 ? -FAR_EINVAL : again;
	if (!err)
		err = history_judge_init(j, h, out);
	if (!err)
		err = history_check_keys(j, h);
	if (!err && out->verdict == HISTORY_GOOD) {
		again = history_repeats(h, history_pick_version);
		err = again < 0 ? again : 0;
		out->verdict = again > 0 ? HISTORY_SAME_VERSION : HISTORY_GOOD;
	}
	lin_free(j->lin);
	free(j->scans);
	free(j->views);
	free(j->items);
	free(j);
	return err;
}
