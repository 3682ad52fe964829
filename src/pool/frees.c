/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees.c -- blocks that one client unlinked and another one manages.
 *
 * Whoever unlinks a block of another client's chunk sets the block's bit in that chunk's bitmap, by FAA; the owner
 * finds the bit (harvest), clears it by FAA, and puts the block through limbo: it stamps it with an epoch READ after
 * the bit was found, thus after the unlink (epoch.c, E2).
 *
 * F1 Frees are queued and told in batches, at the latest before the next epoch is announced. So when every session has
 *    announced an epoch later than e, every bit of what was unlinked before e was READ is set, but for clients that
 *    were fenced with frees in their queue.
 * F2 The page words are READ anew for each batch: a chunk that holds an unlinked block whose bit is not set cannot be
 *    released, so what they say about that block's chunk is true until the bit is set, and not longer.
 * F3 A free is never repeated: when a connection broke during FAA, nobody knows whether the bit was set, and a second
 *    FAA would carry into the neighbour. The block is lost until its chunk is scavenged.
 */
#include <string.h>

#include "pool/client.h"

enum {
	FREES_BATCH = 64, /* blocks told in one chain */
	/* Page words that tell where a block's chunk starts. */
	FREES_WINDOW = POOL_CHUNK_MAX / POOL_PAGE,
	HARVEST_CHUNKS = 16, /* looked at in one round */
	HARVEST_DRY = 64,    /* the same for a heap that ran dry */
};

/* Telling --------------------------------------------------------------------------------------------------- */

void
pool_foreign_push(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr)
{
	struct pool *p = pt->pool;

	if (pt->gone)
		return;
	if (p->foreign_n == p->foreign_max) {
		size_t max = p->foreign_max ? 2 * p->foreign_max : POOL_FOREIGN_FLUSH;
		struct pool_foreign *q = realloc(p->foreign, max * sizeof(*q));

		/* The block is lost until its chunk is scavenged. */
		if (!q)
			return;
		p->foreign = q;
		p->foreign_max = max;
	}
	FAR_ASSERT(p->foreign_n < p->foreign_max && !pool_chunk_at(p, addr));
	p->foreign[p->foreign_n++] = (struct pool_foreign){
		.addr = addr,
		.table_serial = pt->serial,
		.kind = (uint8_t)kind,
		.class = (uint8_t) class,
		.table = (uint8_t)pt->number,
	};
	if (p->foreign_n % POOL_FOREIGN_FLUSH == 0 && p->daemon)
		far_unpark(p->daemon);
}

void
pool_foreign_drop(struct pool *p, uint64_t table_serial)
{
	size_t n = 0;

	for (size_t i = 0; i < p->foreign_n; i++) {
		if (p->foreign[i].table_serial != table_serial)
			p->foreign[n++] = p->foreign[i];
	}
	p->foreign_n = n;
}

static int
frees_compare(const void *a, const void *b)
{
	uint64_t x = ((const struct pool_foreign *)a)->addr.raw,
		 y = ((const struct pool_foreign *)b)->addr.raw;

	return x < y ? -1 : x > y;
}

/* The page that a block's first byte lies in, or UINT64_MAX. */
static uint64_t
frees_page(const struct pool *p, struct far_addr addr)
{
	const struct pool_super *s;
	uint64_t page;

	if (far_addr_node(addr) >= p->nodes_n)
		return UINT64_MAX;
	s = &p->places[far_addr_node(addr)].super;
	if (far_addr_off(addr) < s->data_off)
		return UINT64_MAX;
	page = (far_addr_off(addr) - s->data_off) / POOL_PAGE;
	return page < s->pages_n ? page : UINT64_MAX;
}

/* First page word of the window that ends with `page`. */
static uint64_t
frees_window(uint64_t page)
{
	return page < FREES_WINDOW - 1 ? 0 : page - (FREES_WINDOW - 1);
}

/*
 * Where the bit of block `f` is, given the page words from `first` up to its page. A chunk of several blocks has at
 * most FREES_WINDOW pages, and a chunk of one block has it in its first page. -FAR_ECORRUPT: there is no such block.
 */
static int
frees_locate(const struct pool *p, const struct pool_foreign *f, const uint64_t *words,
	     uint64_t first, struct far_addr *word, uint64_t *bit)
{
	const struct pool_super *s = &p->places[far_addr_node(f->addr)].super;
	uint64_t page = frees_page(p, f->addr), start = page, head, off, units;
	struct pool_page g = pool_page_unpack(words[page - first]);

	FAR_ASSERT(page != UINT64_MAX && first <= page && page - first < FREES_WINDOW);
	if (g.kind == POOL_PAGE_INSIDE) {
		if (!g.run || g.run > page - first)
			return -FAR_ECORRUPT;
		start = page - g.run;
		g = pool_page_unpack(words[start - first]);
	}
	FAR_ASSERT(first <= start && start <= page);
	if (g.kind != f->kind || g.class != f->class || g.table != f->table || !g.run ||
	    g.run > s->pages_n - start || page - start >= g.run)
		return -FAR_ECORRUPT;
	if ((uint64_t)g.run * POOL_PAGE < POOL_UNIT + pool_class_len(g.class))
		return -FAR_ECORRUPT;
	off = s->data_off + start * POOL_PAGE;
	uint32_t n = pool_chunk_blocks(g.class, g.run, &head);
	if (far_addr_off(f->addr) < off + head ||
	    (far_addr_off(f->addr) - off - head) % pool_class_len(g.class))
		return -FAR_ECORRUPT;
	units = (far_addr_off(f->addr) - off - head) / pool_class_len(g.class);
	if (units >= n)
		return -FAR_ECORRUPT;
	*word = far_addr_make(far_addr_node(f->addr), off + units / 64 * 8);
	*bit = (uint64_t)1 << units % 64;
	return 0;
}

/* FAAs the bits of `n` sorted blocks of one node, whose windows were READ. */
static int
frees_add(struct pool *p, struct far_task *t, const struct pool_foreign *f, size_t n,
	  uint64_t (*windows)[FREES_WINDOW])
{
	struct far_addr at = { 0 }, word;
	uint64_t sum = 0, bit, old[FREES_BATCH];
	size_t ops = 0;

	FAR_ASSERT(n <= FREES_BATCH);
	for (size_t i = 0; i < n; i++) {
		uint64_t page = frees_page(p, f[i].addr);

		/* The bits of one word come one after the other, so no word gets two FAAs, and no bit. */
		FAR_ASSERT(!i || f[i - 1].addr.raw <= f[i].addr.raw);
		if (page == UINT64_MAX ||
		    frees_locate(p, &f[i], windows[i], frees_window(page), &word, &bit) != 0 ||
		    (word.raw == at.raw && (sum & bit))) {
			p->bad_frees++;
			continue;
		}
		if (word.raw != at.raw && sum) {
			far_faa(t, at, sum, &old[ops++]);
			sum = 0;
		}
		at = word;
		sum |= bit;
	}
	FAR_ASSERT(ops < FREES_BATCH);
	if (sum)
		far_faa(t, at, sum, &old[ops]);
	return far_wait(t);
}

/* Tells `n` sorted blocks, all on one node. */
static int
frees_tell(struct pool *p, struct far_task *t, const struct pool_foreign *f, size_t n)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint64_t(*windows)[FREES_WINDOW] = far_scratch(t, n * sizeof(*windows));
	int err = windows ? 0 : -FAR_ENOMEM;

	FAR_ASSERT(n && far_addr_node(f[0].addr) == far_addr_node(f[n - 1].addr));
	FAR_ASSERT(n <= FREES_BATCH);
	for (size_t i = 0; i < n && !err; i++) {
		uint64_t page = frees_page(p, f[i].addr), first;

		if (page == UINT64_MAX)
			continue;
		first = frees_window(page);
		FAR_ASSERT(first <= page && page - first < FREES_WINDOW);
		far_read(t,
			 far_addr_make(far_addr_node(f[i].addr),
				       p->places[far_addr_node(f[i].addr)].super.pages_off +
					       first * 8),
			 windows[i], (page - first + 1) * 8);
	}
	if (!err)
		err = far_wait(t);
	if (!err)
		err = frees_add(p, t, f, n, windows);
	far_scratch_reset(t, mark);
	return pool_note_error(p, err);
}

int
pool_foreign_flush(struct pool *p, struct far_task *t)
{
	struct pool_foreign *f = p->foreign;
	size_t n = p->foreign_n, max = p->foreign_max, end;

	/* One at a time: who has announced an epoch has no frees of an earlier one on their way (F1). */
	FAR_ASSERT(p->tick.held || p->closing);
	if (!n)
		return p->err;
	p->foreign = NULL;
	p->foreign_n = p->foreign_max = 0;
	qsort(f, n, sizeof(*f), frees_compare);
	for (size_t i = 0; i < n && !p->err; i = end) {
		for (end = i + 1; end < n && end < i + FREES_BATCH; end++) {
			if (far_addr_node(f[end].addr) != far_addr_node(f[i].addr))
				break;
		}
		/* F3: what went wrong is lost, and the others go on. */
		(void)frees_tell(p, t, f + i, end - i);
	}
	if (p->foreign) {
		free(f);
	} else {
		p->foreign = f;
		p->foreign_max = max;
	}
	return p->err;
}

/* Being told ------------------------------------------------------------------------------------------------ */

static int
frees_read_bits(struct far_task *t, const struct pool_chunk *c, uint64_t *bits)
{
	/* The bitmap ends before the first block. */
	FAR_ASSERT(c->off + pool_bitmap_words(c->blocks_n) * 8 <= c->first);
	far_read(t, far_addr_make(c->heap->node, c->off), bits, pool_bitmap_words(c->blocks_n) * 8);
	return far_wait(t);
}

/* Clears what was found, then takes it: in this order, since idle blocks have clear bits (chunk.c, B1). */
static int
frees_take(struct pool *p, struct far_task *t, struct pool_chunk *c, uint64_t *bits)
{
	uint64_t *old = bits + pool_bitmap_words(c->blocks_n);
	int err;

	FAR_ASSERT(c->harvesting && c->pins > 0);
	for (uint32_t w = 0; w < pool_bitmap_words(c->blocks_n); w++) {
		if (bits[w] & ~(pool_bitmap_mask(c->blocks_n, w) & ~c->words[w].idle))
			p->bad_frees++;
		bits[w] &= pool_bitmap_mask(c->blocks_n, w) & ~c->words[w].idle;
		old[w] = 0;
		if (bits[w] && far_zoo(p->zoo, ZOO_HARVEST_WRITTEN))
			far_write(t, far_addr_make(c->heap->node, c->off + w * 8), &old[w], 8);
		else if (bits[w])
			far_faa(t, far_addr_make(c->heap->node, c->off + w * 8), -bits[w], &old[w]);
	}
	if ((err = far_wait(t)) != 0)
		return err;
	for (uint32_t w = 0; w < pool_bitmap_words(c->blocks_n); w++) {
		for (uint64_t left = bits[w]; left; left &= left - 1) {
			uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(left);

			if (far_zoo(p->zoo, ZOO_HARVEST_AT_ONCE))
				pool_chunk_unalloc(p, c, i);
			else if (pool_chunk_retire(p, c, i) != 0)
				p->bad_frees++;
		}
	}
	return 0;
}

int
pool_harvest(struct pool *p, struct far_task *t, struct pool_chunk *c)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint64_t *bits;
	int err;

	FAR_ASSERT(!c->scavenge || !c->listed);
	if (c->harvesting)
		return 0;
	if ((bits = far_scratch(t, 2 * pool_bitmap_words(c->blocks_n) * 8)) == NULL)
		return -FAR_ENOMEM;
	c->harvesting = true;
	c->pins++;
	err = frees_read_bits(t, c, bits);
	if (!err)
		err = frees_take(p, t, c, bits);
	c->pins--;
	c->harvesting = false;
	far_scratch_reset(t, mark);
	return pool_note_error(p, err);
}

static int
frees_harvest_heap(struct pool *p, struct far_task *t, struct pool_heap *h, uint32_t budget)
{
	FAR_ASSERT(p->tick.held);
	budget = (uint32_t)far_min(budget, h->chunks_n);
	while (budget-- && !p->err) {
		struct pool_chunk *c = h->harvest ? h->harvest : h->chunks;

		if (!c)
			break;
		/* Pinned while we wait, so that its place in the list is still there afterwards. */
		FAR_ASSERT(c->heap == h && c->idle_n <= c->blocks_n);
		c->pins++;
		if (c->idle_n < c->blocks_n)
			(void)pool_harvest(p, t, c);
		h->harvest = c->sibling;
		c->pins--;
	}
	return p->err;
}

int
pool_harvest_some(struct pool *p, struct far_task *t)
{
	bool all = p->hurry_others || far_now(t) - p->harvest_ns >= p->tick_ns;

	FAR_ASSERT(p->tick.held && !pool_is_inside(t));
	/* Rounds in a hurry look at what ran dry only. */
	if (all)
		p->harvest_ns = far_now(t);
	for (struct pool_table *pt = p->tables; pt && !p->err; pt = pt->next) {
		for (struct pool_heap *h = pt->arena ? pt->arena->list : NULL; h && !p->err;
		     h = h->next) {
			bool dry = h->dry;

			h->dry = false;
			if (pool_heap_used(h) && (all || dry))
				frees_harvest_heap(p, t, h, dry ? HARVEST_DRY : HARVEST_CHUNKS);
		}
	}
	return p->err;
}

int
pool_chunk_publish(struct pool *p, struct far_task *t, const struct pool_chunk *c)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint32_t n = pool_bitmap_words(c->blocks_n);
	uint64_t *bits = far_scratch(t, 2 * (size_t)n * 8);
	int err = bits ? 0 : -FAR_ENOMEM;

	/* Nobody clears bits that we are about to set, and nobody takes the blocks. */
	FAR_ASSERT(!c->harvesting && (p->tick.held || p->closing));
	FAR_ASSERT(c->free_n <= c->idle_n && !c->pins);
	/* By B1 no idle block's bit is set; but that is far memory, and a second FAA would carry. */
	if (!err)
		err = frees_read_bits(t, c, bits);
	for (uint32_t w = 0; w < n && !err; w++) {
		uint64_t add = c->words[w].idle & ~bits[w];

		if (add)
			far_faa(t, far_addr_make(c->heap->node, c->off + w * 8), add, &bits[n + w]);
	}
	if (!err)
		err = far_wait(t);
	far_scratch_reset(t, mark);
	return pool_note_error(p, err);
}
