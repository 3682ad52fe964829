/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_pages.c -- the page table: which chunk covers a page and whose it is.
 *
 * A chunk exists exactly when the word of its first page says so. Making one stores the INSIDE words first and that
 * word last; freeing one clears that word first. So a crash leaves at worst INSIDE words without a chunk, which are
 * freed at start. A change of owner or flags is one store.
 *
 * Where a chunk goes: a run of 2 MiB or more starts at the first row of wholly free superpages that holds it; a
 * shorter one lies within one superpage, preferably one that is used for its kind already, so that index chunks stay
 * together on huge pages. Both searches start at a hint below which nothing fits.
 */
#include <string.h>

#include "pool/node_impl.h"

/* Superpages ------------------------------------------------------------------------------------------------ */

/* What counts as the chunk's kind when superpages are chosen. */
static unsigned
node_span_kind(const struct node *n, unsigned kind)
{
	FAR_ASSERT(kind == POOL_PAGE_BLOCKS || kind == POOL_PAGE_INDEX);
	return n->mixed ? POOL_PAGE_BLOCKS : kind;
}

/* Pages that exist in superpage `s`. */
static uint32_t
node_span_full(const struct node *n, uint32_t s)
{
	uint64_t left = n->id.pages_n - (uint64_t)s * NODE_SPAN;

	FAR_ASSERT(s < n->spans_n);
	return left >= NODE_SPAN ? UINT32_MAX : (UINT32_C(1) << left) - 1;
}

/* The first of `run` (1 to 31) neighbouring set bits, or -1. */
static int
node_span_fit(uint32_t free, unsigned run)
{
	FAR_ASSERT(run >= 1 && run < NODE_SPAN);
	/* After each step bit i tells that bits i to i + n - 1 were set. */
	for (unsigned n = 1; n < run;) {
		unsigned step = (unsigned)far_min(n, run - n);

		free &= free >> step;
		n += step;
	}
	return free ? __builtin_ctz(free) : -1;
}

/* Superpage `s` may hold short runs of its kind now. */
static void
node_span_offer(struct node *n, uint64_t s)
{
	for (unsigned r = 1; r < NODE_SPAN; r++)
		n->hint[n->spans[s].kind][r] = (uint32_t)far_min(n->hint[n->spans[s].kind][r], s);
}

static void
node_span_take(struct node *n, uint64_t first, uint64_t run, unsigned kind)
{
	for (uint64_t i = first; i < first + run; i++) {
		struct node_span *s = &n->spans[i / NODE_SPAN];

		FAR_ASSERT(s->free >> i % NODE_SPAN & 1);
		s->free &= ~(UINT32_C(1) << i % NODE_SPAN);
		if (s->kind == POOL_PAGE_FREE) {
			s->kind = (uint8_t)node_span_kind(n, kind);
			node_span_offer(n, i / NODE_SPAN);
		}
	}
}

static void
node_span_give(struct node *n, uint64_t first, uint64_t run)
{
	for (uint64_t i = first; i < first + run; i++) {
		FAR_ASSERT(!(n->spans[i / NODE_SPAN].free >> i % NODE_SPAN & 1));
		n->spans[i / NODE_SPAN].free |= UINT32_C(1) << i % NODE_SPAN;
	}
	for (uint64_t i = first / NODE_SPAN; i <= (first + run - 1) / NODE_SPAN; i++) {
		struct node_span *s = &n->spans[i];

		node_span_offer(n, i);
		if (s->free == node_span_full(n, (uint32_t)i)) {
			s->kind = POOL_PAGE_FREE;
			n->hint[0][0] = (uint32_t)far_min(n->hint[0][0], i);
		}
	}
}

/* The first page of a place for a short run, or -1. */
static int64_t
node_find_short(struct node *n, unsigned kind, unsigned run)
{
	uint32_t *hint = &n->hint[kind][run], s;
	int at;

	FAR_ASSERT(run >= 1 && run < NODE_SPAN && *hint <= n->spans_n);
	for (s = *hint; s < n->spans_n; s++)
		if (n->spans[s].kind == kind && node_span_fit(n->spans[s].free, run) >= 0)
			break;
	*hint = s;
	if (s == n->spans_n) {
		for (s = n->hint[0][0]; s < n->spans_n && n->spans[s].kind != POOL_PAGE_FREE; s++)
			;
		n->hint[0][0] = s;
	}
	if (s == n->spans_n || (at = node_span_fit(n->spans[s].free, run)) < 0)
		return -1;
	return (int64_t)s * NODE_SPAN + at;
}

/* Does a run that starts with superpage `s` fit? If not, *next is where to look next. */
static bool
node_fits_long(const struct node *n, uint32_t s, unsigned kind, uint64_t run, uint32_t *next)
{
	uint64_t end = s + run / NODE_SPAN, tail = run % NODE_SPAN;
	const struct node_span *last = &n->spans[end];
	uint32_t mask = (UINT32_C(1) << tail) - 1;

	for (uint64_t i = s; i < end; i++) {
		if (n->spans[i].free != UINT32_MAX) {
			*next = (uint32_t)i + 1;
			return false;
		}
	}
	*next = s + 1;
	return tail == 0 || ((last->kind == POOL_PAGE_FREE || last->kind == kind) &&
			     (last->free & mask) == mask);
}

static int64_t
node_find_long(struct node *n, unsigned kind, uint64_t run)
{
	uint32_t s = n->hint[0][0], next;

	FAR_ASSERT(run >= NODE_SPAN);
	while (s < n->spans_n && n->spans[s].kind != POOL_PAGE_FREE)
		s++;
	n->hint[0][0] = s;
	for (; s + (run + NODE_SPAN - 1) / NODE_SPAN <= n->spans_n; s = next)
		if (node_fits_long(n, s, kind, run, &next))
			return (int64_t)s * NODE_SPAN;
	return -1;
}

/* Page words ------------------------------------------------------------------------------------------------ */

static void
node_page_set(struct node *n, uint64_t i, uint64_t word)
{
	FAR_ASSERT(i < n->id.pages_n);
	n->words[i] = word;
	node_put(&n->pages[i], word);
}

static uint64_t
node_page_inside(uint64_t back)
{
	FAR_ASSERT(back > 0);
	return pool_page_pack(
		(struct pool_page){ .kind = POOL_PAGE_INSIDE, .run = (unsigned)back });
}

/* Pages from `i` to the next chunk or free page. */
static uint64_t
node_page_step(const struct node *n, uint64_t i)
{
	struct pool_page p = pool_page_unpack(n->words[i]);

	/* Whoever walks the table gets on. */
	FAR_ASSERT(p.kind == POOL_PAGE_FREE || p.run > 0);
	return p.kind == POOL_PAGE_FREE ? 1 : p.run;
}

static void
node_orphan_push(struct node *n, uint64_t first, struct pool_page p)
{
	uint32_t *head = node_orphans(n, p);

	FAR_ASSERT(!p.owner && !(p.flags & POOL_PAGE_QUARANTINED));
	n->next[first] = *head;
	*head = (uint32_t)first + 1;
}

/* Takes an orphan like `p` with p.run pages at least off its list; -1: none. */
static int64_t
node_orphan_pop(struct node *n, struct pool_page p)
{
	uint32_t *at = node_orphans(n, p);

	for (unsigned i = 0; *at != 0 && i < NODE_ORPHANS_LOOK; i++) {
		uint32_t first = *at - 1;

		if (pool_page_unpack(n->words[first]).run >= p.run) {
			if (!far_zoo(n->env.zoo, ZOO_ORPHAN_TWICE))
				*at = n->next[first];
			return first;
		}
		at = &n->next[first];
	}
	return -1;
}

/* Clients read the count as a hint; a start counts anew. */
static void
node_pages_count(struct node *n, uint64_t pages_free)
{
	FAR_ASSERT(pages_free <= n->id.pages_n);
	node_put(&n->super->pages_free, n->pages_free = pages_free);
}

/* Chunks of 2 MiB and more start at a superpage, others lie within one; a superpage holds one kind. */
static bool
node_chunk_may_lie(const struct node *n, uint64_t first, struct pool_page p)
{
	unsigned kind = n->spans[first / NODE_SPAN].kind;

	return (p.run >= NODE_SPAN ? first % NODE_SPAN == 0
				   : first % NODE_SPAN + p.run <= NODE_SPAN) &&
	       (kind == POOL_PAGE_FREE || kind == node_span_kind(n, p.kind));
}

static void
node_chunk_make(struct node *n, uint64_t first, struct pool_page p)
{
	uint64_t head;

	FAR_ASSERT(p.run > 0 && p.run <= n->id.pages_n - first && n->words[first] == 0);
	FAR_ASSERT(node_chunk_may_lie(n, first, p));
	/* The bitmap is zero before the chunk exists. */
	pool_chunk_blocks(p.class, p.run, &head);
	memset(n->region + n->id.data_off + first * POOL_PAGE, 0, head);
	for (uint64_t i = 1; i < p.run; i++)
		node_page_set(n, first + i, node_page_inside(i));
	node_page_set(n, first, pool_page_pack(p));
	node_span_take(n, first, p.run, p.kind);
	n->table_chunks[p.table]++;
	node_pages_count(n, n->pages_free - p.run);
}

static void
node_chunk_free(struct node *n, uint64_t first)
{
	struct pool_page p = pool_page_unpack(n->words[first]);

	FAR_ASSERT(p.kind == POOL_PAGE_BLOCKS || p.kind == POOL_PAGE_INDEX);
	FAR_ASSERT(n->table_chunks[p.table] > 0);
	FAR_ASSERT(!p.owner || n->sessions[p.owner - 1].chunks > 0);
	for (uint64_t i = 0; i < p.run; i++)
		node_page_set(n, first + i, 0);
	node_span_give(n, first, p.run);
	node_pages_count(n, n->pages_free + p.run);
	n->table_chunks[p.table]--;
	if (p.owner)
		n->sessions[p.owner - 1].chunks--;
}

/* Requests -------------------------------------------------------------------------------------------------- */

static int
node_grant_orphan(struct node *n, struct node_session *me, struct pool_page want,
		  struct control_reply *reply)
{
	struct pool_page p;
	int64_t first = node_orphan_pop(n, want);

	if (first < 0) {
		want.flags = POOL_PAGE_DIRTY;
		first = node_orphan_pop(n, want);
	}
	if (first < 0)
		return -FAR_ENOMEM;
	/* A dirty one keeps its mark until its new owner has scavenged it. */
	p = pool_page_unpack(n->words[first]);
	FAR_ASSERT(!p.owner && p.table == want.table && p.class == want.class && p.run >= want.run);
	p.owner = node_slot(n, me) + 1;
	node_page_set(n, (uint64_t)first, pool_page_pack(p));
	me->chunks++;
	reply->off = n->id.data_off + (uint64_t)first * POOL_PAGE;
	reply->run = p.run;
	reply->flags = p.flags & POOL_PAGE_DIRTY ? POOL_PAGE_DIRTY : CONTROL_ORPHAN;
	return 0;
}

int
node_grant(struct node *n, struct node_session *me, const struct control_request *req,
	   struct control_reply *reply)
{
	struct pool_page p = {
		.kind = req->kind, .class = req->class, .table = req->table, .run = req->run
	};
	unsigned kind;
	int64_t first;
	int err;

	if ((req->kind != POOL_PAGE_BLOCKS && req->kind != POOL_PAGE_INDEX) ||
	    req->class >= POOL_CLASSES || req->run == 0 || req->run > 0xfffff ||
	    (req->flags & ~(uint32_t)CONTROL_FRESH) != 0 ||
	    (uint64_t)req->run * POOL_PAGE < pool_class_len(req->class) + POOL_UNIT)
		return -FAR_EINVAL;
	if ((err = node_root_guard(n, me, req->table, req->root_serial)) != 0)
		return err;
	if (!(req->flags & CONTROL_FRESH) && node_grant_orphan(n, me, p, reply) == 0)
		return 0;
	if (req->run > n->id.pages_n)
		return -FAR_ENOMEM;
	kind = node_span_kind(n, p.kind);
	first = p.run < NODE_SPAN ? node_find_short(n, kind, p.run)
				  : node_find_long(n, kind, p.run);
	if (first < 0)
		return -FAR_ENOMEM;
	p.owner = node_slot(n, me) + 1;
	node_chunk_make(n, (uint64_t)first, p);
	me->chunks++;
	reply->off = n->id.data_off + (uint64_t)first * POOL_PAGE;
	reply->run = p.run;
	return 0;
}

/* The page at `off` when it starts a chunk of `me`. 1: it is free; -FAR_EINVAL, -FAR_EACCESS. */
static int
node_own_chunk(const struct node *n, const struct node_session *me, uint64_t off, uint64_t *first)
{
	struct pool_page p;

	if (off < n->id.data_off || off % POOL_PAGE != 0 ||
	    (*first = (off - n->id.data_off) / POOL_PAGE) >= n->id.pages_n)
		return -FAR_EINVAL;
	p = pool_page_unpack(n->words[*first]);
	if (p.kind == POOL_PAGE_FREE)
		return 1;
	return p.owner == node_slot(n, me) + 1 ? 0 : -FAR_EACCESS;
}

/* Owned no more; its bitmap may be trusted unless it was dirty before. */
static void
node_chunk_orphan(struct node *n, uint64_t first, bool dirty)
{
	struct pool_page p = pool_page_unpack(n->words[first]);

	FAR_ASSERT(p.owner && n->sessions[p.owner - 1].chunks > 0);
	n->sessions[p.owner - 1].chunks--;
	p.owner = 0;
	p.flags = dirty || p.flags & POOL_PAGE_DIRTY ? POOL_PAGE_DIRTY : 0;
	node_page_set(n, first, pool_page_pack(p));
	node_orphan_push(n, first, p);
}

int
node_release(struct node *n, struct node_session *me, const struct control_request *req,
	     struct control_reply *reply)
{
	uint64_t first;
	int err = node_own_chunk(n, me, req->off, &first);

	(void)reply;
	if (req->flags & ~(uint32_t)CONTROL_ORPHAN)
		return -FAR_EINVAL;
	if (err == 0 && req->flags & CONTROL_ORPHAN)
		node_chunk_orphan(n, first, false);
	else if (err == 0)
		node_chunk_free(n, first);
	return err < 0 ? err : 0;
}

int
node_scavenged(struct node *n, struct node_session *me, const struct control_request *req,
	       struct control_reply *reply)
{
	struct pool_page p;
	uint64_t first;
	int err = node_own_chunk(n, me, req->off, &first);

	(void)reply;
	if (err != 0)
		return err < 0 ? err : -FAR_EACCESS;
	p = pool_page_unpack(n->words[first]);
	p.flags &= ~(unsigned)POOL_PAGE_DIRTY;
	node_page_set(n, first, pool_page_pack(p));
	return 0;
}

void
node_orphan(struct node *n, struct node_session *s, bool dirty)
{
	for (uint64_t i = 0; s->chunks > 0; i += node_page_step(n, i)) {
		struct pool_page p;

		FAR_ASSERT(i < n->id.pages_n);
		p = pool_page_unpack(n->words[i]);
		if (p.kind == POOL_PAGE_FREE || p.owner != node_slot(n, s) + 1)
			continue;
		node_chunk_orphan(n, i, dirty);
	}
}

void
node_quarantine(struct node *n, struct node_session *s)
{
	uint32_t left = s->chunks;

	s->quarantine_pages = 0;
	for (uint64_t i = 0; left > 0; i += node_page_step(n, i)) {
		struct pool_page p;

		FAR_ASSERT(i < n->id.pages_n);
		p = pool_page_unpack(n->words[i]);
		if (p.kind == POOL_PAGE_FREE || p.owner != node_slot(n, s) + 1)
			continue;
		p.flags |= POOL_PAGE_QUARANTINED;
		node_page_set(n, i, pool_page_pack(p));
		s->quarantine_pages += p.run;
		left--;
	}
}

int
node_free_table(struct node *n, unsigned table)
{
	uint64_t step;

	FAR_ASSERT(table < n->id.roots_n);
	/* Its orphans are all about to go: forget the lists as a whole. */
	memset(node_orphans(n, (struct pool_page){ .kind = POOL_PAGE_BLOCKS, .table = table }), 0,
	       sizeof(*n->orphans) * 2 * POOL_CLASSES * 2);
	for (uint64_t i = 0; n->table_chunks[table] > 0 && i < n->id.pages_n; i += step) {
		struct pool_page p = pool_page_unpack(n->words[i]);

		step = node_page_step(n, i);
		if (p.kind != POOL_PAGE_FREE && p.table == table &&
		    !(p.flags & POOL_PAGE_QUARANTINED))
			node_chunk_free(n, i);
	}
	return n->table_chunks[table] > 0 ? -FAR_EACCESS : 0;
}

/* Start ----------------------------------------------------------------------------------------------------- */

/* Does a chunk with head `p` fit into the page table at `i`, behind those before it? */
static bool
node_chunk_valid(const struct node *n, uint64_t i, struct pool_page p)
{
	if (p.class >= POOL_CLASSES || p.table >= n->id.roots_n || p.run == 0 ||
	    p.run > n->id.pages_n - i || p.owner > n->id.sessions_n ||
	    p.flags & ~(unsigned)(POOL_PAGE_DIRTY | POOL_PAGE_QUARANTINED) ||
	    (uint64_t)p.run * POOL_PAGE < pool_class_len(p.class) + POOL_UNIT ||
	    !node_chunk_may_lie(n, i, p))
		return false;
	/* The INSIDE words were stored before the head. */
	for (uint64_t k = 1; k < p.run; k++)
		if (n->pages[i + k] != node_page_inside(k))
			return false;
	return true;
}

static void
node_chunk_load(struct node *n, uint64_t first, struct pool_page p)
{
	for (uint64_t k = 1; k < p.run; k++)
		n->words[first + k] = node_page_inside(k);
	/* What was quarantined had an owner; whoever is in doubt scavenges. */
	if (p.owner || p.flags & POOL_PAGE_QUARANTINED) {
		p.owner = 0;
		p.flags = POOL_PAGE_DIRTY;
		node_page_set(n, first, pool_page_pack(p));
	} else {
		n->words[first] = pool_page_pack(p);
	}
	node_span_take(n, first, p.run, p.kind);
	node_orphan_push(n, first, p);
	n->table_chunks[p.table]++;
	FAR_ASSERT(n->pages_free >= p.run);
	n->pages_free -= p.run;
}

int
node_pages_load(struct node *n)
{
	for (uint32_t s = 0; s < n->spans_n; s++)
		n->spans[s].free = node_span_full(n, s);
	n->pages_free = n->id.pages_n;
	for (uint64_t i = 0; i < n->id.pages_n; i += node_page_step(n, i)) {
		struct pool_page p = pool_page_unpack(n->pages[i]);

		if (p.kind == POOL_PAGE_BLOCKS || p.kind == POOL_PAGE_INDEX) {
			if (!node_chunk_valid(n, i, p))
				return -FAR_ECORRUPT;
			node_chunk_load(n, i, p);
		} else if (n->pages[i] != 0) {
			/* Left by a grant or release that a crash cut short. */
			node_page_set(n, i, 0);
		}
	}
	node_pages_count(n, n->pages_free);
	return 0;
}
