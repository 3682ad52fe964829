/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_scan.c -- a client walks over the whole table while the others work.
 *
 * What a scan promises about one key is what a lookup does that lasts as long as the scan: the value that it returned
 * was the key's at some instant in between; when it returned none, the key was absent at some instant. So a key that is
 * present throughout comes, and one that is absent throughout does not. A scan is entered in the history as such
 * lookups, one per key that exists when it begins. Besides, no key comes twice, and keys that nobody touches come with
 * their values.
 */
#include <string.h>

#include "lab/schedule_impl.h"

enum {
	SCAN_RESERVE = 80, /* operations of a history left to the others, and to the inspection */
	SCAN_TRIES = 20,   /* of one step */
};

struct schedule_scan {
	struct schedule_client *c;
	uint32_t first;   /* operation of key 0 */
	unsigned keys_n;  /* that the clients fight for, and fresh ones */
	uint64_t seen[2]; /* bit per key that came */
};

/* The key of the history's i-th lookup. */
static unsigned
schedule_scan_key(const struct schedule *s, unsigned i)
{
	unsigned keys = (unsigned)s->config.keys;

	return i < keys ? i : SCHEDULE_KEYS + i - keys;
}

/* The number of a key, or -1 when it is none of ours. */
static int
schedule_scan_number(struct far_bytes name)
{
	struct schedule_key k;

	for (unsigned i = 0; i < SCHEDULE_KEYS + SCHEDULE_FRESH + SCHEDULE_FILL; i++) {
		schedule_key(i, &k);
		if (k.bytes.len == name.len && memcmp(k.bytes.data, name.data, name.len) == 0)
			return (int)i;
	}
	return -1;
}

static void
schedule_scan_meet(struct schedule_scan *n, const struct far_entry *e)
{
	struct schedule *s = n->c->s;
	uint32_t writer = schedule_writer(s, e->value);
	int key = schedule_scan_number(e->key);
	unsigned fill = SCHEDULE_KEYS + SCHEDULE_FRESH;

	if (key < 0 || !writer) {
		schedule_fail(s, SCHEDULE_WRONG_SCAN, "bytes that nobody wrote");
		return;
	}
	if (n->seen[key / 64] >> key % 64 & 1)
		schedule_fail(s, SCHEDULE_WRONG_SCAN, "key number %d came twice", key);
	n->seen[key / 64] |= UINT64_C(1) << key % 64;
	if ((unsigned)key >= fill && writer != SCHEDULE_OPS_ALL + 1 + (unsigned)key - fill)
		schedule_fail(s, SCHEDULE_WRONG_SCAN, "untouched key number %d: another value",
			      key);
	for (unsigned i = 0; i < n->keys_n; i++) {
		struct lin_op *op = &s->ops[n->first + i];

		if (op->key != (uint32_t)key)
			continue;
		op->value = writer;
		op->version = e->version;
	}
}

/* One step, as the store makes it. */
static int
schedule_scan_step(struct schedule_scan *n, struct far_task *t, uint64_t *cursor, bool *last)
{
	struct schedule_client *c = n->c;
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct far_entry *entries;
	int err, left, found = 0;

	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	found = c->s->design->scan(c->ix, t, cursor, SCHEDULE_VALUE, &entries, last);
	if ((left = pool_leave(c->pool, t)) != 0)
		found = left;
	for (int i = 0; i < found; i++)
		schedule_scan_meet(n, &entries[i]);
	far_scratch_reset(t, mark);
	return found < 0 ? found : 0;
}

static int
schedule_scan_all(struct schedule_scan *n, struct far_task *t)
{
	uint64_t cursor = 0;
	bool last = false;
	int err = 0;

	while (!err && !last) {
		for (int i = 0; i < SCAN_TRIES; i++) {
			uint64_t at = cursor;

			err = n->c->pool ? schedule_scan_step(n, t, &at, &last) : -FAR_EFENCED;
			if (!err)
				cursor = at;
			if (err != -FAR_ECONTENDED)
				break;
		}
	}
	return err;
}

/* Every lookup returns what the scan told. */
static void
schedule_scan_return(struct schedule_scan *n)
{
	struct schedule *s = n->c->s;

	for (unsigned i = 0; i < n->keys_n; i++) {
		struct lin_op *op = &s->ops[n->first + i];

		op->pending = false;
		op->result = op->value ? 0 : -FAR_ENOENT;
		s->events[s->history.events_n++] = LIN_RETURN(n->first + i);
	}
	for (unsigned i = 0; i < s->config.fill; i++) {
		unsigned key = SCHEDULE_KEYS + SCHEDULE_FRESH + i;

		if (!(n->seen[key / 64] >> key % 64 & 1))
			schedule_fail(s, SCHEDULE_WRONG_SCAN, "untouched key number %u is missing",
				      key);
	}
}

void
schedule_scan(struct schedule_client *c, struct far_task *t)
{
	struct schedule *s = c->s;
	struct schedule_scan n = { .c = c, .first = s->history.ops_n };
	int err;

	n.keys_n = (unsigned)s->config.keys + s->fresh_used;
	if (n.first + n.keys_n + SCAN_RESERVE > SCHEDULE_OPS_ALL)
		return;
	s->history.ops_n += n.keys_n;
	for (unsigned i = 0; i < n.keys_n; i++) {
		s->ops[n.first + i] = (struct lin_op){ .kind = LIN_GET,
						       .pending = true,
						       .client = (uint16_t)c->id };
		s->ops[n.first + i].key = schedule_scan_key(s, i);
		s->events[s->history.events_n++] = LIN_CALL(n.first + i);
	}
	err = schedule_scan_all(&n, t);
	if (!err) {
		schedule_scan_return(&n);
		return;
	}
	/* As pending lookups they told nothing. */
	for (unsigned i = 0; i < n.keys_n; i++) {
		s->ops[n.first + i].value = 0;
		s->ops[n.first + i].version = 0;
		s->ops[n.first + i].result = err;
	}
	c->stopped |= err == -FAR_EFENCED || err == -FAR_EUNSURE || err == -FAR_ENODE;
	if (!c->stopped && err != -FAR_ECONTENDED && !schedule_may_fail(s, err))
		schedule_fail(s, SCHEDULE_WRONG_RESULT, "scan: %s", far_errname(err));
}
