/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.c -- the books that a client keeps of its chunks: which blocks are free.
 *
 * Two bits a block: free (may be handed out) and idle (free, or in limbo). The life of a block of an own chunk:
 *
 *	             pool_heap_take             pool_chunk_retire
 *	free, idle  ----------->  neither bit  ----------------->  idle, in limbo
 *	  ^  ^                         |                                 |
 *	  |  +--- pool_chunk_unalloc --+                                 |
 *	  +--------------- pool_chunk_free, past grace -----------------+
 *
 * B1 A block is in exactly one state, and the bitmap in far memory tells the opposite of `idle` only for blocks that
 *    others freed: a remote bit is set only for blocks whose idle bit is clear, by whoever unlinked it, and cleared
 *    before the idle bit is set. So FAA of +bit and -bit never carry into a neighbour.
 * B2 What comes from far away (an address in a slot word, a bit in a bitmap) is checked against these books: a free of
 *    something that is no block, or is idle already, is counted and ignored.
 * B3 A heap's counts are the sums over its chunks: blocks_n, free_n, and whole_n, the chunks with all blocks free.
 *    Chunks with a free block stand in heap->avail, but for those that are being scavenged.
 *
 * Nothing here yields.
 */
#include "pool/client.h"

static void
chunk_map(struct pool *p, const struct pool_chunk *c, uint32_t id)
{
	struct pool_place *place = &p->places[c->heap->node];
	uint64_t page = (c->off - place->super.data_off) / POOL_PAGE;

	for (uint32_t i = 0; i < c->run; i++) {
		/* No page has two owners here. */
		FAR_ASSERT(place->map[page + i] == (id ? 0 : c->id));
		place->map[page + i] = id;
	}
}

/* A number for `c` in p->chunks. */
static int
chunk_number(struct pool *p, struct pool_chunk *c)
{
	uint32_t i = p->chunk_unused;

	while (i < p->chunks_n && p->chunks[i])
		i++;
	if (i == p->chunks_max) {
		uint32_t max = p->chunks_max ? 2 * p->chunks_max : 64;
		struct pool_chunk **chunks = realloc(p->chunks, max * sizeof(*chunks));

		if (!chunks)
			return -FAR_ENOMEM;
		p->chunks = chunks;
		p->chunks_max = max;
	}
	FAR_ASSERT(i < p->chunks_max && i <= p->chunks_n);
	p->chunks[i] = c;
	p->chunks_n = i == p->chunks_n ? i + 1 : p->chunks_n;
	p->chunk_unused = i + 1;
	c->id = i + 1;
	return 0;
}

static void
chunk_list(struct pool_heap *h, struct pool_chunk *c)
{
	FAR_ASSERT(!c->listed && c->free_n && !c->scavenge);
	c->next = NULL;
	c->prev = h->avail ? FAR_CONTAINER(h->avail_last, struct pool_chunk, next) : NULL;
	*h->avail_last = c;
	h->avail_last = &c->next;
	c->listed = true;
}

static void
chunk_unlist(struct pool_heap *h, struct pool_chunk *c)
{
	FAR_ASSERT(c->listed && h->avail);
	if (c->prev)
		c->prev->next = c->next;
	else
		h->avail = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		h->avail_last = c->prev ? &c->prev->next : &h->avail;
	c->listed = false;
}

struct pool_chunk *
pool_chunk_new(struct pool *p, struct pool_heap *h, uint64_t off, uint32_t run)
{
	uint64_t first;
	uint32_t n = pool_chunk_blocks(h->class, run, &first);
	struct pool_chunk *c = calloc(1, sizeof(*c) + pool_bitmap_words(n) * sizeof(c->words[0]));

	FAR_ASSERT(n && run >= pool_run_min(h->class));
	if (!c)
		return NULL;
	c->heap = h;
	c->off = off;
	c->first = off + first;
	c->run = run;
	c->blocks_n = n;
	c->hint = UINT32_MAX;
	if (chunk_number(p, c) != 0) {
		free(c);
		return NULL;
	}
	chunk_map(p, c, c->id);
	c->sibling = h->chunks;
	h->chunks = c;
	h->chunks_n++;
	h->blocks_n += n;
	return c;
}

void
pool_chunk_forget(struct pool *p, struct pool_chunk *c)
{
	struct pool_heap *h = c->heap;
	struct pool_chunk **at = &h->chunks;

	FAR_ASSERT(c->pins == 0 && h->chunks_n > 0 && c->free_n <= c->idle_n);
	FAR_ASSERT(h->blocks_n >= c->blocks_n && h->free_n >= c->free_n && !c->harvesting);
	if (c->listed)
		chunk_unlist(h, c);
	while (*at != c)
		at = &(*at)->sibling;
	*at = c->sibling;
	if (h->harvest == c)
		h->harvest = c->sibling;
	if (c->scavenge)
		pool_scavenge_end(p, c);
	if (c->free_n == c->blocks_n) {
		h->whole_n--;
		h->whole_low -= h->whole_low > 0;
	}
	h->chunks_n--;
	h->blocks_n -= c->blocks_n;
	h->free_n -= c->free_n;
	chunk_map(p, c, 0);
	p->chunks[c->id - 1] = NULL;
	p->chunk_unused = (uint32_t)far_min(p->chunk_unused, c->id - 1);
	free(c);
}

void
pool_chunk_free(struct pool *p, struct pool_chunk *c, uint32_t i)
{
	struct pool_heap *h = c->heap;

	/* Of a free block's two bits, `idle` is set before and `free` after this. */
	FAR_ASSERT(i < c->blocks_n && pool_chunk_is_idle(c, i));
	FAR_ASSERT(!(c->words[i / 64].free >> i % 64 & 1));
	c->words[i / 64].free |= (uint64_t)1 << i % 64;
	c->hint = (uint32_t)far_min(c->hint, i / 64);
	h->free_n++;
	p->gains++;
	if (++c->free_n == c->blocks_n)
		h->whole_n++;
	pool_chunk_offer(c);
}

static void
chunk_idle(struct pool_chunk *c, uint32_t i)
{
	FAR_ASSERT(i < c->blocks_n && !pool_chunk_is_idle(c, i));
	c->words[i / 64].idle |= (uint64_t)1 << i % 64;
	c->idle_n++;
	FAR_ASSERT(c->free_n < c->idle_n && c->idle_n <= c->blocks_n);
}

void
pool_chunk_unalloc(struct pool *p, struct pool_chunk *c, uint32_t i)
{
	chunk_idle(c, i);
	pool_chunk_free(p, c, i);
}

void
pool_chunk_offer(struct pool_chunk *c)
{
	if (c->free_n && !c->listed && !c->scavenge)
		chunk_list(c->heap, c);
}

struct far_addr
pool_heap_take(struct pool_heap *h)
{
	struct pool_chunk *c = h->avail;
	uint32_t w = c->hint;
	unsigned bit;

	FAR_ASSERT(c && c->listed && c->free_n > 0);
	while (!c->words[w].free)
		w++;
	bit = (unsigned)__builtin_ctzll(c->words[w].free);
	FAR_ASSERT(w * 64 + bit < c->blocks_n && c->words[w].idle >> bit & 1 && !c->scavenge);
	c->words[w].free &= ~((uint64_t)1 << bit);
	c->words[w].idle &= ~((uint64_t)1 << bit);
	c->hint = w;
	c->idle_n--;
	h->free_n--;
	if (c->free_n-- == c->blocks_n) {
		h->whole_n--;
		h->whole_low = (uint32_t)far_min(h->whole_low, h->whole_n);
	}
	if (!c->free_n) {
		c->hint = UINT32_MAX;
		chunk_unlist(h, c);
	}
	return pool_chunk_block(c, w * 64 + bit);
}

void
pool_chunk_fill(struct pool *p, struct pool_chunk *c)
{
	FAR_ASSERT(!c->free_n && !c->idle_n);
	for (uint32_t w = 0; w < pool_bitmap_words(c->blocks_n); w++)
		c->words[w].free = c->words[w].idle = pool_bitmap_mask(c->blocks_n, w);
	c->free_n = c->idle_n = c->blocks_n;
	c->hint = 0;
	c->heap->free_n += c->blocks_n;
	c->heap->whole_n++;
	p->gains += c->blocks_n;
	pool_chunk_offer(c);
}

int
pool_chunk_retire(struct pool *p, struct pool_chunk *c, uint32_t i)
{
	struct pool_heap *h = c->heap;

	FAR_ASSERT(i < c->blocks_n);
	if (pool_chunk_is_idle(c, i))
		return -FAR_ECORRUPT;
	/* Without local memory for limbo the block is idle until the chunk is given up: leaked, but nowhere else. */
	chunk_idle(c, i);
	if ((h->kind == POOL_BLOCKS && far_zoo(p->zoo, ZOO_REUSE_AT_ONCE)) ||
	    (h->kind == POOL_INDEX && far_zoo(p->zoo, ZOO_PARENT_AT_ONCE))) {
		pool_chunk_free(p, c, i);
		return 0;
	}
	if (pool_limbo_push(p, pool_chunk_block(c, i)) != 0)
		return 0;
	FAR_ASSERT(h->limbo_n < h->blocks_n - h->free_n);
	if (++h->limbo_n > h->free_n && h->limbo_n * h->units * POOL_UNIT > POOL_PAGE / 2)
		pool_hurry(p);
	return 0;
}
