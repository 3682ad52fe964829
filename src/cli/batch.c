/* SPDX-License-Identifier: Apache-2.0 */
/* batch.c -- see batch.h. */
#include "cli/batch.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/base.h"
#include "cli/bytes.h"

/* A result that no request has: each has 0 or -FAR_E. */
enum { BATCH_NO_RESULT = 1 };

/* One record: places in batch.bytes, which moves while it grows. */
struct batch_item {
	size_t key, key_len, value, value_len;
	uint64_t line, duplicates;
	bool ours; /* the key was stored by this session before */
};

struct batch {
	struct far_table *t;
	struct bytes bytes;
	struct batch_item items[BATCH_MAX];
	size_t n;
	uint16_t slots[BATCH_SLOTS];          /* item + 1, 0 = free */
	struct far_request requests[BATCH_MAX];
	uint16_t which[BATCH_MAX];            /* the item of each request */
	uint64_t first_version; /* the smallest that this session wrote; UINT64_MAX: none yet */
	uint64_t failed_line;
	struct batch_counts counts;
};

int
batch_open(struct far_table *t, struct batch **out)
{
	struct batch *b = calloc(1, sizeof(*b));

	if (!b)
		return -FAR_ENOMEM;
	b->t = t;
	b->first_version = UINT64_MAX;
	*out = b;
	return 0;
}

void
batch_aim(struct batch *b, struct far_table *t)
{
	b->t = t;
}

void
batch_close(struct batch *b)
{
	if (!b)
		return;
	bytes_free(&b->bytes);
	free(b);
}

bool
batch_waiting(const struct batch *b)
{
	return b->n > 0;
}

uint64_t
batch_failed_line(const struct batch *b)
{
	return b->failed_line;
}

const struct batch_counts *
batch_counts(const struct batch *b)
{
	return &b->counts;
}

/* Where the key stands or would stand: a quarter of the slots is used at most. */
static uint16_t *
batch_slot(struct batch *b, struct far_bytes key)
{
	size_t at = XXH3_64bits(key.data, key.len) % BATCH_SLOTS;

	for (;; at = (at + 1) % BATCH_SLOTS) {
		const struct batch_item *item;

		if (b->slots[at] == 0)
			return &b->slots[at];
		item = &b->items[b->slots[at] - 1];
		if (item->key_len == key.len &&
		    memcmp(b->bytes.data + item->key, key.data, key.len) == 0)
			return &b->slots[at];
	}
}

int
batch_add(struct batch *b, struct far_bytes key, struct far_bytes value, uint64_t line)
{
	uint16_t *slot;
	struct batch_item *item;
	int err = 0;

	if (b->n == BATCH_MAX || (b->n > 0 && b->bytes.len + key.len + value.len > BATCH_BYTES))
		err = batch_flush(b);
	if (!err)
		err = bytes_room(&b->bytes, key.len + value.len);
	if (err)
		return err;
	slot = batch_slot(b, key);
	if (*slot == 0) {
		*slot = (uint16_t)++b->n;
		item = &b->items[b->n - 1];
		*item = (struct batch_item){ .key = b->bytes.len, .key_len = key.len };
		bytes_add(&b->bytes, key.data, key.len);
	} else {
		item = &b->items[*slot - 1];
		item->duplicates++;
	}
	item->line = line;
	item->value = b->bytes.len;
	item->value_len = value.len;
	return bytes_add(&b->bytes, value.data, value.len);
}

static void
batch_request(struct batch *b, size_t n, size_t item, enum far_request_kind kind)
{
	const struct batch_item *it = &b->items[item];

	b->requests[n] = (struct far_request){
		.kind = kind,
		.key = far_bytes(b->bytes.data + it->key, it->key_len),
		.value = far_bytes(b->bytes.data + it->value, it->value_len),
	};
	b->which[n] = (uint16_t)item;
}

/* Counts a record that was stored: its rows and whether its key was new. */
static void
batch_count(struct batch *b, const struct far_request *r, const struct batch_item *item)
{
	b->counts.rows += 1 + item->duplicates;
	b->counts.duplicates += item->duplicates;
	if (r->kind == FAR_INSERT)
		b->counts.fresh++;
	else if (item->ours)
		b->counts.duplicates++;
	else
		b->counts.replaced++;
	if (r->version < b->first_version)
		b->first_version = r->version;
}

/* A version is client : 16 | sequence : 48, and a client's sequence only grows. */
static bool
batch_is_ours(const struct batch *b, uint64_t version)
{
	return b->first_version != UINT64_MAX && version >> 48 == b->first_version >> 48 &&
	       version >= b->first_version;
}

/* Runs the first `n` requests. Keeps as requests of `next` those whose result is `again`; any other error ends it. */
static int
batch_run(struct batch *b, size_t n, int again, enum far_request_kind next, size_t *left)
{
	int err = far_batch(b->t, b->requests, n), first = 0;

	*left = 0;
	for (size_t i = 0; i < n; i++) {
		struct batch_item *item = &b->items[b->which[i]];
		struct far_request *r = &b->requests[i];

		if (r->result == 0 && (r->kind == FAR_INSERT || r->kind == FAR_PUT)) {
			batch_count(b, r, item);
			continue;
		}
		if (r->kind == FAR_CONTAINS && r->result == 0)
			item->ours = batch_is_ours(b, r->version);
		if (r->result == again ||
		    (r->kind == FAR_CONTAINS && (r->result == 0 || r->result == -FAR_ENOENT))) {
			batch_request(b, (*left)++, b->which[i], next);
		} else if (first == 0) {
			first = r->result;
			b->failed_line = err ? 0 : item->line;
		}
	}
	return err ? err : first;
}

int
batch_flush(struct batch *b)
{
	size_t left = b->n;
	int err;

	/* 1. Insert all; what is there already is left. */
	for (size_t i = 0; i < b->n; i++)
		batch_request(b, i, i, FAR_INSERT);
	err = left > 0 ? batch_run(b, left, -FAR_EEXIST, FAR_CONTAINS, &left) : 0;
	/* 2. Whose are these? */
	if (!err && left > 0)
		err = batch_run(b, left, -FAR_ENOENT, FAR_PUT, &left);
	/* 3. Replace them. */
	if (!err && left > 0)
		err = batch_run(b, left, BATCH_NO_RESULT, FAR_PUT, &left);
	b->n = 0;
	memset(b->slots, 0, sizeof(b->slots));
	bytes_reset(&b->bytes, 2 * BATCH_BYTES);
	return err;
}
