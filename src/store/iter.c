/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iter.c -- walking a table step by step.
 *
 * A step is the part of hash space that the index's scan() returns at once; its entries are copied into memory of
 * the iterator, because other calls on the handle may come between. A value too long for that is fetched when its
 * turn comes; a key deleted meanwhile is skipped. The cursor is the position in hash space, bit-reversed, so
 * cursor / 2^64 is the share that was walked.
 */
#include "base/base.h"
#include "store/handle.h"

struct far_iter {
	struct far_table *t;
	uint64_t cursor;
	bool last;
	size_t inline_max;
	struct far_entry *entries; /* n of them, in `memory` */
	size_t n, at;
	struct store_arena memory;
	int result;                /* of the step or get that ran */
	struct far_value value;    /* of the get */
};

int
far_iter_open(struct far_table *t, struct far_iter **out)
{
	struct far_iter *it = calloc(1, sizeof(*it));

	store_enter(t->f);
	if (!it)
		return store_leave(t->f, store_note(t, far_bytes(NULL, 0), -FAR_ENOMEM));
	FAR_ASSERT(t->index && t->ops);
	it->t = t;
	it->inline_max = STORE_INLINE_MAX;
	*out = it;
	return store_leave(t->f, 0);
}

void
far_iter_close(struct far_iter *it)
{
	if (!it)
		return;
	store_arena_free(&it->memory);
	free(it);
}

double
far_iter_progress(const struct far_iter *it)
{
	FAR_ASSERT(it->at <= it->n);
	if (it->last)
		return it->at >= it->n ? 1 : 0.999;
	return (double)it->cursor * 0x1p-64;
}

/* Copies `from` into memory of the iterator; a value left out keeps its NULL. */
static int
store_iter_copy(struct far_iter *it, struct far_bytes *to, struct far_bytes from)
{
	char *copy;

	*to = from;
	if (!from.data)
		return 0;
	FAR_ASSERT(from.len <= FAR_VALUE_MAX);
	copy = store_arena_alloc(&it->memory, from.len);
	if (!copy)
		return -FAR_ENOMEM;
	memcpy(copy, from.data, from.len);
	to->data = copy;
	return 0;
}

static int
store_iter_take(struct far_iter *it, const struct far_entry *from, size_t n)
{
	int err = 0;

	store_arena_reset(&it->memory, STORE_KEEP);
	it->at = it->n = 0;
	it->entries = store_arena_alloc(&it->memory, n * sizeof(*it->entries));
	if (!it->entries)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < n && !err; i++) {
		it->entries[i] = from[i];
		err = store_iter_copy(it, &it->entries[i].key, from[i].key);
		FAR_ASSERT(from || n == 0);
		if (!err)
			err = store_iter_copy(it, &it->entries[i].value, from[i].value);
	}
	if (!err)
		it->n = n;
	/* Many values of this length at once are too much: the next steps leave out more of them. */
	if (it->memory.total > STORE_STEP_BYTES && it->inline_max > STORE_INLINE_MIN)
		it->inline_max /= 2;
	return err;
}

static void
store_iter_step_fiber(struct far_task *task, void *arg)
{
	struct far_iter *it = arg;
	struct far_entry *entries = NULL;
	struct store_bracket b;
	uint64_t cursor = it->cursor;
	bool last = false;
	int n = store_begin(it->t, task, &b);

	FAR_ASSERT(it->at == it->n && !it->last);
	if (!n)
		n = store_end(it->t, task, &b,
			      it->t->ops->scan(it->t->index, task, &cursor, it->inline_max,
					       &entries, &last));
	it->result = n < 0 ? n : store_iter_take(it, entries, (size_t)n);
	/* A step that failed is repeated by the next call. */
	if (it->result)
		return;
	FAR_ASSERT(last || cursor > it->cursor);
	it->cursor = cursor;
	it->last = last;
}

static void
store_iter_get_fiber(struct far_task *task, void *arg)
{
	struct far_iter *it = arg;
	struct far_bytes from;
	char *copy;

	FAR_ASSERT(it->at < it->n);
	it->result = store_get(it->t, task, it->entries[it->at].key, &it->value);
	if (it->result)
		return;
	from = it->value.bytes;
	FAR_ASSERT(it->value.version != 0 && from.len <= FAR_VALUE_MAX);
	copy = store_arena_alloc(&it->t->f->results, from.len);
	if (!copy) {
		it->result = -FAR_ENOMEM;
		return;
	}
	if (from.len > 0)
		memcpy(copy, from.data, from.len);
	it->value.bytes.data = copy;
}

/* The value of the entry at hand: 0, -FAR_ENOENT when it was deleted meanwhile, or another error. */
static int
store_iter_value(struct far_iter *it, struct far_value *value)
{
	const struct far_entry *e = &it->entries[it->at];
	int err = 0;

	FAR_ASSERT(it->at < it->n);
	*value = (struct far_value){ e->value, e->version };
	if (e->value.data || e->value.len == 0)
		return 0;
	err = store_call(it->t->f, store_iter_get_fiber, it);
	if (!err)
		err = it->result;
	if (!err)
		*value = it->value;
	return err;
}

/* 1 and the entry, 0 at the end, or an error; the lock is held. */
static int
store_iter_next(struct far_iter *it, struct far_bytes *key, struct far_value *value)
{
	int err = 0;

	/* Each turn takes one entry or one step, and the steps end with the hash space. */
	while (!err) {
		if (it->at < it->n) {
			struct far_bytes at = it->entries[it->at].key;

			err = store_iter_value(it, value);
			if (err && (err != -FAR_ENOENT || pool_table_alive(it->t->pt) != 0))
				return err;
			it->at++;
			if (!err) {
				*key = at;
				return 1;
			}
			err = 0;
			continue;
		}
		FAR_ASSERT(it->at == it->n);
		if (it->last)
			return 0;
		err = store_call(it->t->f, store_iter_step_fiber, it);
		if (!err)
			err = it->result;
	}
	return err;
}

int
far_iter_next(struct far_iter *it, struct far_bytes *key, struct far_value *value)
{
	struct far *f = it->t->f;
	int got;

	store_enter(f);
	got = store_iter_next(it, key, value);
	if (got < 0)
		store_note(it->t, far_bytes(NULL, 0), got);
	return store_leave(f, got);
}
