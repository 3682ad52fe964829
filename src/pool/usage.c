/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage.c -- what the nodes tell of their memory: how much is free, a table's chunks, orphans.
 *
 * Page words are READ in pieces and checked before use. Every piece is a moment of its own, so sums are exact on a pool
 * that nobody changes; other clients' free lists cannot be seen while they live: their blocks count as in use.
 */
#include <string.h>

#include "pool/client.h"

enum {
	USAGE_PAGES = 4096,     /* page words READ at once */
	USAGE_IDLE_ROUNDS = 64, /* of maintenance that bring a repair no further */
};

/* Free memory ----------------------------------------------------------------------------------------------- */

unsigned
pool_pick_node(struct pool *p)
{
	unsigned best = 0;

	FAR_ASSERT(p->nodes_n);
	for (unsigned i = 1; i < p->nodes_n; i++) {
		if (p->places[i].free_pages > p->places[best].free_pages)
			best = i;
	}
	return best;
}

unsigned
pool_spill_node(struct pool *p, unsigned node)
{
	unsigned best = node;

	FAR_ASSERT(node < p->nodes_n);
	if (!p->places[node].refused)
		return node;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		if (i != node &&
		    (best == node || p->places[i].free_pages > p->places[best].free_pages))
			best = i;
	}
	return best;
}

/* Chunks ---------------------------------------------------------------------------------------------------- */

struct usage_chunk {
	unsigned node;
	uint64_t off;
	struct pool_page page;
};

/* Appends the chunk that starts at `page` to an array that doubles. */
static int
usage_append(struct usage_chunk **list, size_t n, struct usage_chunk c)
{
	if ((n & (n - 1)) == 0) {
		struct usage_chunk *grown = realloc(*list, (n ? 2 * n : 1) * sizeof(*grown));

		if (!grown)
			return -FAR_ENOMEM;
		*list = grown;
	}
	(*list)[n] = c;
	return 0;
}

/* A chunk's page word: its run must end inside the table, and hold a block. */
static bool
usage_page_is_sane(const struct pool_place *place, uint64_t at, struct pool_page g)
{
	return g.run && g.run <= place->super.pages_n - at && g.class < POOL_CLASSES &&
	       (uint64_t)g.run * POOL_PAGE >= POOL_UNIT + pool_class_len(g.class);
}

static int
usage_scan_node(struct pool *p, struct far_task *t, unsigned node, unsigned table,
		struct usage_chunk **list, size_t *n)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	const struct pool_place *place = &p->places[node];
	uint64_t *words = far_scratch(t, USAGE_PAGES * 8);
	int err = words ? 0 : -FAR_ENOMEM;

	FAR_ASSERT(node < p->nodes_n);
	for (uint64_t at = 0; at < place->super.pages_n && !err; at += USAGE_PAGES) {
		uint64_t part = far_min(USAGE_PAGES, place->super.pages_n - at);

		far_read(t, far_addr_make(node, place->super.pages_off + at * 8), words, part * 8);
		err = far_wait(t);
		for (uint64_t i = 0; i < part && !err; i++) {
			struct usage_chunk c = { .node = node, .page = pool_page_unpack(words[i]) };

			if ((c.page.kind != POOL_PAGE_BLOCKS && c.page.kind != POOL_PAGE_INDEX) ||
			    c.page.table != table)
				continue;
			if (!usage_page_is_sane(place, at + i, c.page))
				err = -FAR_ECORRUPT;
			c.off = place->super.data_off + (at + i) * POOL_PAGE;
			if (!err && (err = usage_append(list, *n, c)) == 0)
				++*n;
		}
	}
	far_scratch_reset(t, mark);
	return err;
}

/* Every chunk of a table, malloc'ed; NULL when there is none. Yields. */
static int
usage_scan(struct pool *p, struct far_task *t, unsigned table, struct usage_chunk **list, size_t *n)
{
	int err = 0;

	FAR_ASSERT(table < p->places[0].super.roots_n);
	*list = NULL;
	*n = 0;
	for (unsigned i = 0; i < p->nodes_n && !err; i++)
		err = usage_scan_node(p, t, i, table, list, n);
	if (err) {
		free(*list);
		*list = NULL;
	}
	return pool_note_error(p, err);
}

/* Adds one chunk: what its bitmap tells, and what we know ourselves when it is ours. */
static int
usage_add(struct pool *p, struct far_task *t, const struct usage_chunk *c, struct pool_usage *out)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint64_t first, len = pool_class_len(c->page.class), free_n = 0;
	uint32_t n = pool_chunk_blocks(c->page.class, c->page.run, &first),
		 words = pool_bitmap_words(n);
	uint64_t *bits = far_scratch(t, (size_t)words * 8);
	unsigned k = c->page.kind == POOL_PAGE_INDEX;
	struct pool_chunk *own;
	int err;

	FAR_ASSERT(n && c->node < p->nodes_n);
	if (!bits)
		return -FAR_ENOMEM;
	far_read(t, far_addr_make(c->node, c->off), bits, (size_t)words * 8);
	err = far_wait(t);
	own = pool_chunk_at(p, far_addr_make(c->node, c->off));
	for (uint32_t w = 0; w < words && !err; w++) {
		uint64_t idle =
			own && own->off == c->off && own->blocks_n == n ? own->words[w].idle : 0;

		free_n += (unsigned)__builtin_popcountll((bits[w] & pool_bitmap_mask(n, w)) | idle);
	}
	far_scratch_reset(t, mark);
	if (err)
		return err;
	out->granted[k] += (uint64_t)c->page.run * POOL_PAGE;
	out->free[k] += free_n * len;
	out->header[k] += (uint64_t)c->page.run * POOL_PAGE - n * len;
	return 0;
}

int
pool_table_usage(struct pool_table *pt, struct far_task *t, struct pool_usage *out)
{
	struct pool *p = pt->pool;
	struct far_count *before = far_account(t, &p->background);
	struct usage_chunk *list;
	size_t n;
	int err = usage_scan(p, t, pt->number, &list, &n);

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; i < n && !err; i++)
		err = usage_add(p, t, &list[i], out);
	free(list);
	far_account(t, before);
	return err;
}

/* What the bytes of a node's counters say, which the node changes one by one. */
static int
usage_node_info(const struct pool_place *place, const struct pool_super *now,
		struct far_node_info *info)
{
	const struct pool_super *s = &place->super;

	if (now->pages_free > s->pages_n || now->quarantine_pages > s->pages_n ||
	    now->quarantine_n > s->sessions_n || now->quarantine_pid > INT32_MAX)
		return -FAR_ECORRUPT;
	FAR_ASSERT(s->data_off + s->pages_n * POOL_PAGE <= s->region_len);
	*info = (struct far_node_info){
		.region_bytes = s->region_len,
		.granted_bytes = (s->pages_n - now->pages_free) * POOL_PAGE,
		.generation = s->generation,
		.quarantined_bytes = now->quarantine_pages * POOL_PAGE,
		.quarantined_sessions = (unsigned)now->quarantine_n,
		.quarantined_pid = (int)now->quarantine_pid,
	};
	return 0;
}

int
pool_node_info(struct pool *p, struct far_task *t, struct far_node_info *info, unsigned max)
{
	struct far_count *before = far_account(t, &p->background);
	struct far_scratch_mark mark = far_scratch_mark(t);
	unsigned n = (unsigned)far_min(p->nodes_n, max);
	struct pool_super *now = far_scratch(t, n * sizeof(*now));
	int err = now ? 0 : -FAR_ENOMEM;

	for (unsigned i = 0; i < n && !err; i++)
		far_read(t, far_addr_make(i, offsetof(struct pool_super, epoch)), &now[i].epoch,
			 sizeof(now[i]) - offsetof(struct pool_super, epoch));
	err = err ? err : far_wait(t);
	for (unsigned i = 0; i < n && !err; i++)
		err = usage_node_info(&p->places[i], &now[i], &info[i]);
	far_scratch_reset(t, mark);
	far_account(t, before);
	return err ? pool_note_error(p, err) : (int)p->nodes_n;
}

/* Orphans --------------------------------------------------------------------------------------------------- */

/* Adopts what the page tables showed to be without owner. Others may be faster: then GRANT gives a fresh chunk, which
 * goes back when nobody needs it. Yields. */
static int
usage_adopt(struct pool_table *pt, struct far_task *t, const struct usage_chunk *list, size_t n)
{
	int adopted = 0, err;

	FAR_ASSERT(pool_is_inside(t));
	for (size_t i = 0; i < n; i++) {
		struct pool_heap *h;

		if (list[i].page.owner || list[i].page.flags & POOL_PAGE_QUARANTINED || pt->gone ||
		    !pt->arena)
			continue;
		h = pool_heap_of(pt->arena, list[i].node, list[i].page.kind, list[i].page.class);
		err = h ? pool_heap_grow(h, t, 0, pool_run_min(list[i].page.class)) : -FAR_ENOMEM;
		if (err < 0)
			return err;
		adopted += err == POOL_ORPHAN;
	}
	return adopted;
}

int
pool_adopt(struct pool_table *pt, struct far_task *t)
{
	struct usage_chunk *list;
	size_t n;
	int err = usage_scan(pt->pool, t, pt->number, &list, &n);

	if (err)
		return err;
	if ((err = pool_enter(pt->pool, t)) == 0) {
		err = usage_adopt(pt, t, list, n);
		if (pool_leave(pt->pool, t) != 0)
			err = pt->pool->err;
	}
	free(list);
	return err;
}

/* Runs maintenance until no chunk of the table is left to be looked through. Yields. */
static int
usage_finish_scavenging(struct pool_table *pt, struct far_task *t)
{
	struct pool *p = pt->pool;
	uint64_t start = far_now(t), done = 0, wait_ns = p->hurry_ns;
	int err = 0, idle = 0;

	FAR_ASSERT(!pool_is_inside(t));
	while (!err && pool_scavenges_of(pt, &done) && pt->ops && !pt->gone) {
		uint64_t seen = done;

		p->hurry = true;
		err = pool_tick(p, t);
		pool_scavenges_of(pt, &done);
		if (done != seen) {
			start = far_now(t);
			wait_ns = p->hurry_ns;
			idle = 0;
			continue;
		}
		/* Grace depends on the other sessions: one that is silent is fenced within a lease. On a slow
		 * fabric that takes some rounds more. */
		if (++idle > USAGE_IDLE_ROUNDS && far_now(t) - start > 4 * p->lease_ns)
			err = -FAR_ETIMEOUT;
		far_sleep(t, wait_ns);
		wait_ns = far_min(2 * wait_ns, p->tick_ns);
	}
	return err;
}

int
pool_table_adopt_orphans(struct pool_table *pt, struct far_task *t)
{
	struct far_count *before = far_account(t, &pt->pool->background);
	int adopted, err = 0;

	FAR_ASSERT(!pool_is_inside(t));
	/* Clean orphans may hold blocks that a dead client had unlinked and not told: look through them, too. */
	if (pt->arena)
		pt->arena->audit = true;
	adopted = pool_adopt(pt, t);
	if (pt->arena)
		pt->arena->audit = false;
	if (adopted >= 0)
		err = usage_finish_scavenging(pt, t);
	far_account(t, before);
	return err ? err : adopted;
}
