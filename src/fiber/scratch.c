/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c -- scratch memory of tasks: a list of blocks, filled from the front, emptied by marks. */
#include "base/base.h"
#include "fiber/task.h"

enum {
	SCRATCH_BLOCK = 16 << 10, /* bytes of a block unless more is asked for */
	SCRATCH_KEEP = 256 << 10, /* bytes that an ended task keeps for the next one */
	SCRATCH_MAX = 1 << 30,    /* more at once is refused */
};

struct fiber_block {
	struct fiber_block *next;
	size_t len; /* bytes of data */
	_Alignas(16) unsigned char data[];
};

/* An empty block of `len` bytes or more behind the current one. */
static struct fiber_block *
scratch_grow(struct fiber_scratch *s, size_t len)
{
	struct fiber_block **at = s->at ? &s->at->next : &s->first, *b;

	/* Blocks that wait for reuse and are too small stay behind the new one. */
	if (*at && (*at)->len >= len)
		return *at;
	len = far_max(len, SCRATCH_BLOCK);
	b = malloc(sizeof(*b) + len);
	if (!b)
		return NULL;
	b->next = *at;
	b->len = len;
	fiber_san_close(b->data, b->len);
	s->total += len;
	*at = b;
	return b;
}

void *
far_scratch(struct far_task *t, size_t len)
{
	struct fiber_scratch *s = &t->scratch;
	void *p;

	if (len > SCRATCH_MAX)
		return NULL;
	len = far_align(len, 16);
	if (!s->at || s->at->len - s->used < len) {
		struct fiber_block *b = scratch_grow(s, len);

		if (!b)
			return NULL;
		s->at = b;
		s->used = 0;
	}
	p = s->at->data + s->used;
	s->used += len;
	fiber_san_open(p, len);
	return p;
}

struct far_scratch_mark
far_scratch_mark(struct far_task *t)
{
	struct far_scratch_mark m = { t->scratch.at, t->scratch.used };

	return m;
}

void
far_scratch_reset(struct far_task *t, struct far_scratch_mark m)
{
	struct fiber_scratch *s = &t->scratch;

#if FIBER_ASAN
	struct fiber_block *b = m.block ? m.block : s->first;
	size_t used = m.block ? m.used : 0;

	for (; b; b = b->next, used = 0)
		fiber_san_close(b->data + used, b->len - used);
#endif
	s->at = m.block;
	s->used = m.used;
}

static void
scratch_free(struct fiber_scratch *s, struct fiber_block **at)
{
	while (*at) {
		struct fiber_block *b = *at;

		*at = b->next;
		s->total -= b->len;
		fiber_san_open(b->data, b->len);
		free(b);
	}
}

void
fiber_scratch_empty(struct fiber_scratch *s)
{
	size_t kept = 0;
	struct fiber_block **at = &s->first;

	s->at = NULL;
	s->used = 0;
	if (s->total <= SCRATCH_KEEP)
		return;
	while (*at && kept + (*at)->len <= SCRATCH_KEEP) {
		kept += (*at)->len;
		at = &(*at)->next;
	}
	scratch_free(s, at);
}

void
fiber_scratch_fini(struct fiber_scratch *s)
{
	scratch_free(s, &s->first);
}
