/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c -- a list of blocks, each at least twice as large as the one before until they are large. */
#include "store/arena.h"

#include "base/base.h"

enum { STORE_BLOCK_MIN = 4 << 10, STORE_BLOCK_GROW_MAX = 1 << 20 };

struct store_block {
	struct store_block *older;
	size_t len;
	char data[] __attribute__((aligned(16)));
};

static int
store_arena_grow(struct store_arena *a, size_t len)
{
	size_t want = a->block ? far_min(2 * a->block->len, STORE_BLOCK_GROW_MAX) : STORE_BLOCK_MIN;
	struct store_block *b;

	want = far_max(want, len);
	FAR_ASSERT(want >= len && (!a->block || a->used <= a->block->len));
	b = malloc(sizeof(*b) + want);
	if (!b)
		return -1;
	b->older = a->block;
	b->len = want;
	a->block = b;
	a->used = 0;
	return 0;
}

void *
store_arena_alloc(struct store_arena *a, size_t len)
{
	void *out;

	len = far_align(len, 8);
	if ((!a->block || a->block->len - a->used < len) && store_arena_grow(a, len) != 0)
		return NULL;
	out = a->block->data + a->used;
	FAR_ASSERT(a->block && a->used % 8 == 0 && a->block->len - a->used >= len);
	a->used += len;
	a->total += len;
	return out;
}

void
store_arena_reset(struct store_arena *a, size_t keep)
{
	struct store_block *b = a->block;

	a->used = a->total = 0;
	/* The usual case first: one block that stays. */
	if (!b || (!b->older && b->len <= keep))
		return;
	while (b->older || b->len > keep) {
		struct store_block *older = b->older;

		free(b);
		b = older;
		if (!b)
			break;
	}
	FAR_ASSERT(!b || (!b->older && b->len <= keep));
	a->block = b;
}

void
store_arena_free(struct store_arena *a)
{
	store_arena_reset(a, 0);
	FAR_ASSERT(!a->block && a->total == 0);
}
