/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.c -- blocks of far memory: when a heap gets chunks, and when it gives them up.
 *
 * The nodes hand out chunks; a client cuts its chunks into blocks of one size class and keeps their books locally
 * (chunk.c). Chunks belong to one (table, node, kind, class), a heap, and nobody else allocates from them.
 *
 * A1 When the session or the table is closed, the idle blocks become remote bits, and the chunks orphans; an adopter
 *    puts the bits that it finds through limbo. When the client dies, its chunks become dirty orphans (scavenge.c).
 * A2 Memory bound. A heap grows only when it has no free block and either at most POOL_LIMBO_SPARE bytes, or at most
 *    half of its blocks, are in limbo; else the caller is told to wait for grace outside its operation. So with L
 *    bytes of blocks in use at most (as this client knows it: blocks freed by others count until their bits are
 *    found), a heap never has more than max(2 L, L + POOL_LIMBO_SPARE) and one chunk. The maintenance is woken as soon
 *    as more blocks are in limbo than free, so that this limit is rarely met. Chunks that the heap did without for a
 *    while go back to the node. Only when grace did not come for two leases, because somebody silent is not fenced yet
 *    or an operation takes that long, it gets one chunk more: as long as a node has memory, nobody is told that it has
 *    none.
 * A3 Chunks start small (64 KiB, or what a block needs) and double with each to 2 MiB: a table of few keys is small,
 *    and a big one has few chunks. Pages at the end that hold no block are not asked for: a chunk wastes less than one.
 */
#include "pool/client.h"

#define POOL_LIMBO_SPARE ((uint64_t)4 << 20) /* bytes, A2 */

enum {
	ALLOC_ORPHANS = 8,     /* adopted by one allocation before it asks for a fresh chunk */
	ALLOC_WHOLE_TICKS = 8, /* rounds that a wholly free chunk is kept */
};

/* Heaps ----------------------------------------------------------------------------------------------------- */

static size_t
alloc_heap_index(unsigned node, unsigned kind, unsigned class)
{
	FAR_ASSERT((kind == POOL_BLOCKS || kind == POOL_INDEX) && class < POOL_CLASSES);
	return ((size_t)node * 2 + (kind - 1)) * POOL_CLASSES + class;
}

int
pool_arena_open(struct pool *p, struct pool_table *pt)
{
	size_t n = alloc_heap_index(p->nodes_n, 1, 0);
	struct pool_arena *a = calloc(1, sizeof(*a) + n * sizeof(a->heaps[0]));

	FAR_ASSERT(p->nodes_n && !pt->arena);
	if (!a)
		return -FAR_ENOMEM;
	a->pool = p;
	a->table = pt;
	pt->arena = a;
	return 0;
}

struct pool_heap *
pool_heap_of(struct pool_arena *a, unsigned node, unsigned kind, unsigned class)
{
	struct pool_heap **at = &a->heaps[alloc_heap_index(node, kind, class)], *h = *at;

	FAR_ASSERT(node < a->pool->nodes_n && a->table->arena == a);
	if (h || (h = calloc(1, sizeof(*h))) == NULL)
		return h;
	h->arena = a;
	h->node = (uint16_t)node;
	h->kind = (uint8_t)kind;
	h->class = (uint8_t) class;
	h->units = (uint32_t)(pool_class_len(class) / POOL_UNIT);
	h->next_run = pool_run_min(class);
	h->avail_last = &h->avail;
	h->next = a->list;
	a->list = h;
	return *at = h;
}

/* Asking the nodes ------------------------------------------------------------------------------------------ */

static int
alloc_give_up(struct pool *p, struct far_task *t, unsigned node, uint64_t off, unsigned flags)
{
	struct control_request req = { .code = CONTROL_RELEASE, .off = off, .flags = flags };
	struct control_reply reply;

	/* Nothing of it is in our books any more: from here on it may be another's. */
	FAR_ASSERT(!pool_chunk_at(p, far_addr_make(node, off)));
	return pool_call(p, t, node, &req, &reply);
}

/* Whether a granted run lies in the data area and covers no chunk that is ours already. */
static bool
alloc_grant_is_sane(const struct pool *p, const struct pool_heap *h, const struct control_reply *r)
{
	const struct pool_place *place = &p->places[h->node];
	uint64_t page = (r->off - place->super.data_off) / POOL_PAGE;

	FAR_ASSERT(h->node < p->nodes_n);
	if (r->off < place->super.data_off || (r->off - place->super.data_off) % POOL_PAGE ||
	    page >= place->super.pages_n || r->run > place->super.pages_n - page ||
	    r->run < pool_run_min(h->class))
		return false;
	for (uint32_t i = 0; i < r->run; i++) {
		if (place->map[page + i])
			return false;
	}
	return true;
}

int
pool_heap_grow(struct pool_heap *h, struct far_task *t, unsigned flags, uint32_t run)
{
	struct pool_table *pt = h->arena->table;
	struct pool *p = h->arena->pool;
	struct control_request req = {
		.code = CONTROL_GRANT,
		.flags = flags,
		.table = pt->number,
		.root_serial = pt->serial,
		.kind = h->kind,
		.class = h->class,
		.run = run,
	};
	struct control_reply reply;
	struct pool_chunk *c;
	bool orphan;
	int err;

	/* Outside an operation the heap might be gone when the answer comes. */
	FAR_ASSERT(pool_is_inside(t) && run >= pool_run_min(h->class));
	err = pool_call(p, t, h->node, &req, &reply);
	p->places[h->node].refused = err == -FAR_ENOMEM;
	if (err)
		return err;
	if (!alloc_grant_is_sane(p, h, &reply))
		return -FAR_ECORRUPT;
	orphan = reply.flags & (CONTROL_ORPHAN | POOL_PAGE_DIRTY);
	if ((c = pool_chunk_new(p, h, reply.off, reply.run)) == NULL) {
		alloc_give_up(p, t, h->node, reply.off, orphan ? CONTROL_ORPHAN : 0);
		return -FAR_ENOMEM;
	}
	if (!orphan) {
		p->places[h->node].free_pages -= far_min(reply.run, p->places[h->node].free_pages);
		pool_chunk_fill(p, c);
		FAR_ASSERT(h->avail && h->free_n >= c->blocks_n);
		return 0;
	}
	c->pins++;
	if (reply.flags & POOL_PAGE_DIRTY || h->arena->audit)
		err = pool_scavenge_begin(p, c);
	else
		err = pool_harvest(p, t, c);
	c->pins--;
	return err ? err : POOL_ORPHAN;
}

/* A wholly free chunk of the heap that nobody works on, or NULL. */
static struct pool_chunk *
alloc_whole_of(const struct pool_heap *h)
{
	struct pool_chunk *c = h->chunks;

	while (c && (c->free_n < c->blocks_n || c->pins))
		c = c->sibling;
	FAR_ASSERT(!c || c->idle_n == c->blocks_n);
	return c;
}

/* The next wholly free chunk that may go. */
static struct pool_chunk *
alloc_find_whole(struct pool *p, bool all)
{
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		for (struct pool_heap *h = pt->arena ? pt->arena->list : NULL; h; h = h->next) {
			struct pool_chunk *c = NULL;

			if (all ? h->whole_n : h->whole_low)
				c = alloc_whole_of(h);
			FAR_ASSERT(!c || (h->whole_n > 0 && c->heap == h));
			if (c)
				return c;
		}
	}
	return NULL;
}

int
pool_release_free(struct pool *p, struct far_task *t, bool all)
{
	struct pool_chunk *c;

	if (!all && p->ticks % ALLOC_WHOLE_TICKS)
		return 0;
	while ((c = alloc_find_whole(p, all)) != NULL) {
		unsigned node = c->heap->node;
		uint64_t off = c->off;
		int err;

		FAR_ASSERT((c->listed || c->scavenge) && !c->harvesting);
		/* Every block is past grace, and none is anybody's: no bit of it can be set or is going to be. */
		p->places[node].free_pages += c->run;
		c->heap->next_run = (uint32_t)far_max(c->run, pool_run_min(c->heap->class));
		pool_chunk_forget(p, c);
		if ((err = alloc_give_up(p, t, node, off, 0)) != 0)
			return err;
		p->gains++;
	}
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		for (struct pool_heap *h = pt->arena ? pt->arena->list : NULL; h; h = h->next)
			h->whole_low = h->whole_n;
	}
	return 0;
}

/* Allocation ------------------------------------------------------------------------------------------------ */

/* A2. */
static bool
alloc_should_wait(const struct pool_heap *h)
{
	return h->limbo_n * h->units * POOL_UNIT > POOL_LIMBO_SPARE && h->limbo_n > h->blocks_n / 2;
}

/* The fewest pages that hold as many blocks of `class` as `run` pages do. */
static uint32_t
alloc_run_trim(unsigned class, uint32_t run)
{
	uint64_t first, n = pool_chunk_blocks(class, run, &first);

	FAR_ASSERT(n > 0 && first + n * pool_class_len(class) <= (uint64_t)run * POOL_PAGE);
	return (uint32_t)((first + n * pool_class_len(class) + POOL_PAGE - 1) / POOL_PAGE);
}

static uint32_t
alloc_next_run(struct pool_heap *h)
{
	uint32_t max = POOL_CHUNK_MAX / POOL_PAGE, min = pool_run_min(h->class), run = h->next_run;

	FAR_ASSERT(run >= min);
	/* One block per chunk when it is big. */
	if (pool_class_len(h->class) > POOL_CHUNK_MAX / 4)
		return min;
	h->next_run = (uint32_t)far_min(2 * (uint64_t)run, max);
	return alloc_run_trim(h->class, run);
}

/* Makes a heap that has nothing free have something. POOL_IN_LIMBO: what it has waits for grace. Yields. */
static int
alloc_refill(struct pool_heap *h, struct far_task *t)
{
	struct pool *p = h->arena->pool;
	uint32_t run, min = pool_run_min(h->class);
	bool press = far_now(t) < p->press_ns;
	int err = POOL_ORPHAN;

	FAR_ASSERT(h->grant.held && !h->avail && !h->arena->table->gone);
	h->dry = true;
	p->places[h->node].refused = false;
	pool_hurry(p);
	if (!press && alloc_should_wait(h))
		return POOL_IN_LIMBO;
	run = alloc_next_run(h);
	/* 1. Chunks that others left, before fresh ones. Their free blocks have to pass limbo. */
	for (int i = press ? ALLOC_ORPHANS : 0;
	     err == POOL_ORPHAN && !h->avail && i <= ALLOC_ORPHANS; i++) {
		err = pool_heap_grow(h, t, i < ALLOC_ORPHANS ? 0 : CONTROL_FRESH, run);
		if (err == POOL_ORPHAN && h->limbo_n && !h->avail)
			return POOL_IN_LIMBO;
	}
	if (h->avail)
		return 0;
	/* 2. The node is full, or in pieces: a small chunk. Next time, start from small again. */
	if (err == -FAR_ENOMEM) {
		h->next_run = min;
		if (run > min)
			err = pool_heap_grow(h, t, CONTROL_FRESH, min);
	}
	/* 3. What we have too much of elsewhere. */
	if (err == -FAR_ENOMEM) {
		pool_release_free(p, t, true);
		err = h->avail ? 0 : pool_heap_grow(h, t, CONTROL_FRESH, min);
	}
	if (h->avail)
		return 0;
	return err == POOL_ORPHAN ? POOL_IN_LIMBO : err;
}

static int
alloc_slow_once(struct pool_table *pt, struct far_task *t, struct pool_heap *h,
		struct far_addr *out)
{
	struct pool *p = pt->pool;
	struct far_count *before = far_account(t, &p->background);
	int err = 0;

	/* One fiber asks, the others wait for its answer. */
	pool_lock(&h->grant, t);
	if (!h->avail)
		err = pt->gone ? pt->gone : p->err ? p->err
						   : alloc_refill(h, t);
	FAR_ASSERT(err || h->avail);
	if (!err)
		*out = pool_heap_take(h);
	pool_unlock(&h->grant);
	if (err == -FAR_ENOENT)
		pt->gone = err;
	far_account(t, before);
	return err;
}

static int
alloc_slow(struct pool_table *pt, struct far_task *t, unsigned heap, struct far_addr *out)
{
	unsigned class = heap % POOL_CLASSES, kind = 1 + heap / POOL_CLASSES % 2,
		 node = heap / POOL_CLASSES / 2;
	bool inside = pool_is_inside(t);
	struct pool_relief relief = { 0 };
	struct pool_heap *h;
	int err, relieved = 0;

	FAR_ASSERT(node < pt->pool->nodes_n);
	do {
		/* Inside an operation the arena stays, even if the table is dropped meanwhile. */
		if ((err = pool_enter(pt->pool, t)) != 0)
			return err;
		if (pt->gone || !pt->arena)
			err = pt->gone ? pt->gone : -FAR_EINVAL;
		else if ((h = pool_heap_of(pt->arena, node, kind, class)) == NULL)
			err = -FAR_ENOMEM;
		else
			err = alloc_slow_once(pt, t, h, out);
		if (pool_leave(pt->pool, t) != 0 && !err)
			err = pt->pool->err;
		/* To the caller it is all the same: no memory now, perhaps some outside of the operation. */
		err = err == POOL_IN_LIMBO ? -FAR_ENOMEM : err;
		if (err == -FAR_ENOMEM && !inside)
			relieved = pool_relieve(pt, t, &relief);
	} while (err == -FAR_ENOMEM && !inside && !relieved);
	/* The wait may have ended because the session did. */
	return relieved ? relieved : err;
}

int
pool_alloc(struct pool_table *pt, struct far_task *t, unsigned node, enum pool_kind kind,
	   unsigned class, struct far_addr *out)
{
	struct pool_heap *h;
	size_t i;

	if (node >= pt->pool->nodes_n || class >= POOL_CLASSES || kind < POOL_BLOCKS ||
	    kind > POOL_INDEX)
		return -FAR_EINVAL;
	i = alloc_heap_index(node, kind, class);
	h = pt->arena ? pt->arena->heaps[i] : NULL;
	if (!h || !h->avail)
		return alloc_slow(pt, t, (unsigned)i, out);
	*out = pool_heap_take(h);
	return 0;
}

void
pool_unalloc(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr)
{
	struct pool *p = pt->pool;
	struct pool_chunk *c = pool_chunk_at(p, addr);
	int64_t i;

	/* The chunk is missing when the table was dropped meanwhile. */
	if (!c || c->heap->arena != pt->arena)
		return;
	i = pool_chunk_index(c, far_addr_off(addr));
	FAR_ASSERT(!c->scavenge);
	FAR_ASSERT(i >= 0 && c->heap->class == class && c->heap->kind == kind);
	pool_chunk_unalloc(p, c, (uint32_t)i);
}

void
pool_retire(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr)
{
	struct pool *p = pt->pool;
	struct pool_chunk *c = pool_chunk_at(p, addr);
	int64_t i;

	FAR_ASSERT(kind == POOL_BLOCKS || kind == POOL_INDEX);
	if (!c) {
		pool_foreign_push(pt, kind, class, addr);
		return;
	}
	/* B2: the address was a remote word once. */
	i = pool_chunk_index(c, far_addr_off(addr));
	if (i < 0 || c->heap->arena != pt->arena || c->heap->kind != kind ||
	    c->heap->class != class || pool_chunk_retire(p, c, (uint32_t)i) != 0)
		p->bad_frees++;
}

/* Closing --------------------------------------------------------------------------------------------------- */

void
pool_arena_free(struct pool_arena *a)
{
	struct pool_heap *h;

	FAR_ASSERT(a->table->arena == a);
	while ((h = a->list) != NULL) {
		a->list = h->next;
		while (h->chunks)
			pool_chunk_forget(a->pool, h->chunks);
		free(h);
	}
	a->table->arena = NULL;
	free(a);
}

static int
alloc_chunk_hand_back(struct pool *p, struct far_task *t, struct pool_chunk *c)
{
	unsigned node = c->heap->node;
	uint64_t off = c->off;
	bool whole = c->free_n == c->blocks_n;
	int err = whole ? 0 : pool_chunk_publish(p, t, c);

	FAR_ASSERT(p->tick.held && !c->harvesting && !c->pins);
	pool_chunk_forget(p, c);
	return err ? err : alloc_give_up(p, t, node, off, whole ? 0 : CONTROL_ORPHAN);
}

int
pool_arena_close(struct pool_arena *a, struct far_task *t)
{
	struct pool *p = a->pool;
	int err = 0, e;

	FAR_ASSERT(p->tick.held);
	pool_limbo_withdraw(p, a);
	for (struct pool_heap *h = a->list; h && !p->err; h = h->next) {
		FAR_ASSERT(!h->limbo_n && !h->grant.held);
		while (h->chunks && !p->err) {
			e = alloc_chunk_hand_back(p, t, h->chunks);
			err = err ? err : e;
		}
	}
	pool_arena_free(a);
	return err;
}

/* Waiting for memory ---------------------------------------------------------------------------------------- */

/* One more round that asks everybody for memory. */
static int
alloc_plead(struct pool_table *pt, struct far_task *t)
{
	int err;

	FAR_ASSERT(!pool_is_inside(t));
	pt->pool->hurry = pt->pool->starved = true;
	err = pool_tick(pt->pool, t);
	return err ? err : pt->gone;
}

int
pool_relieve(struct pool_table *pt, struct far_task *t, struct pool_relief *r)
{
	struct pool *p = pt->pool;
	uint64_t gains = p->gains, wait_ns = p->hurry_ns, target = p->epoch + 2, done;
	int err;

	FAR_ASSERT(!pool_is_inside(t));
	FAR_ASSERT(r->rounds || !r->pressed);
	if (!r->rounds) {
		r->start_ns = far_now(t);
		r->epoch = p->epoch;
	}
	/* Every other client has seen that we hurry by the second epoch, and given back what it does not need by the
	 * fourth. */
	if ((p->epoch > r->epoch + 8 && !pool_scavenges_of(pt, &done)) ||
	    far_now(t) - r->start_ns > 2 * p->lease_ns) {
		if (r->pressed)
			return -FAR_ENOMEM;
		r->pressed = true;
		p->press_ns = far_now(t) + p->tick_ns;
		return 0;
	}
	/* The first round did not help: chunks of ended clients, of any class, may have room, or go back. */
	if (r->rounds++ == 1 && (err = pool_adopt(pt, t)) < 0 && err != -FAR_ENOMEM)
		return err;
	for (;;) {
		if ((err = alloc_plead(pt, t)) != 0)
			return err;
		/* Something came free: then others are at work, and patience pays. */
		if (p->gains != gains)
			r->epoch = p->epoch;
		if (p->gains != gains || p->epoch >= target ||
		    far_now(t) - r->start_ns > 2 * p->lease_ns)
			return 0;
		far_sleep(t, wait_ns);
		wait_ns = far_min(2 * wait_ns, p->tick_ns);
	}
}
