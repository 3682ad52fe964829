/* SPDX-License-Identifier: Apache-2.0 */
/* node_check.c -- verifies a memory node's tables, in the region and in the node. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "pool/node_impl.h"

struct node_checker {
	const struct node *n;
	far_report_fn *report;
	void *arg;
	int found;
};

__attribute__((format(printf, 2, 3))) static void
node_violation(struct node_checker *c, const char *format, ...)
{
	char line[160];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	c->found++;
	if (c->report)
		c->report(c->arg, line);
}

static void
node_check_chunk(struct node_checker *c, uint64_t i, struct pool_page p)
{
	const struct node *n = c->n;
	unsigned span_kind = n->mixed ? POOL_PAGE_BLOCKS : p.kind;

	FAR_ASSERT(p.run && p.run <= n->id.pages_n - i && p.table < n->id.roots_n);
	if (n->names[p.table].state == 0) {
		node_violation(c, "page %" PRIu64 ": chunk of table %u, which does not exist", i,
			       p.table);
		return;
	}
	if (p.owner > n->id.sessions_n || (p.owner && n->sessions[p.owner - 1].serial == 0))
		node_violation(c, "page %" PRIu64 ": owner %u has no session", i, p.owner);
	if (!p.owner && p.flags & POOL_PAGE_QUARANTINED)
		node_violation(c, "page %" PRIu64 ": quarantined orphan", i);
	if (p.run >= NODE_SPAN ? i % NODE_SPAN != 0 : i % NODE_SPAN + p.run > NODE_SPAN)
		node_violation(c, "page %" PRIu64 ": chunk of %u pages lies across superpages", i,
			       p.run);
	for (uint64_t k = 0; k < p.run; k++) {
		const struct node_span *s = &n->spans[(i + k) / NODE_SPAN];
		struct pool_page inside = pool_page_unpack(n->pages[i + k]);

		if (k > 0 && (inside.kind != POOL_PAGE_INSIDE || inside.run != k))
			node_violation(c, "page %" PRIu64 ": not inside its chunk", i + k);
		if (s->kind != span_kind || s->free >> (i + k) % NODE_SPAN & 1)
			node_violation(c,
				       "page %" PRIu64
				       ": its superpage takes it for free or of kind %u",
				       i + k, s->kind);
	}
}

/* Is the chunk at `first`, an orphan like `p`, on the list of those? */
static bool
node_check_listed(const struct node *n, uint64_t first, struct pool_page p)
{
	uint64_t at = *node_orphans(n, p);

	FAR_ASSERT(!p.owner && first < n->id.pages_n);
	for (uint64_t i = 0; at != 0 && i < n->id.pages_n; i++, at = n->next[at - 1])
		if (at - 1 == first)
			return true;
	return false;
}

static void
node_check_pages(struct node_checker *c)
{
	const struct node *n = c->n;
	uint64_t by_table[POOL_ROOTS] = { 0 }, pages_free = 0, step;

	for (uint64_t i = 0; i < n->id.pages_n; i += step) {
		struct pool_page p = pool_page_unpack(n->pages[i]);

		step = 1;
		if (n->pages[i] != n->words[i])
			node_violation(
				c, "page %" PRIu64 ": the region differs from the node's copy", i);
		if (p.kind == POOL_PAGE_FREE) {
			pages_free++;
			if (n->pages[i] != 0 ||
			    !(n->spans[i / NODE_SPAN].free >> i % NODE_SPAN & 1))
				node_violation(
					c, "page %" PRIu64 ": free, but not in its superpage", i);
			continue;
		}
		if (p.kind == POOL_PAGE_INSIDE || p.class >= POOL_CLASSES || p.run == 0 ||
		    p.run > n->id.pages_n - i || p.table >= n->id.roots_n) {
			node_violation(c, "page %" PRIu64 ": no chunk starts here", i);
			continue;
		}
		node_check_chunk(c, i, p);
		if (!p.owner && !node_check_listed(n, i, p))
			node_violation(c, "page %" PRIu64 ": an orphan that nobody can adopt", i);
		by_table[p.table]++;
		step = p.run;
	}
	if (pages_free != n->pages_free || pages_free != n->super->pages_free)
		node_violation(c, "%" PRIu64 " pages are free, not %" PRIu64, pages_free,
			       n->super->pages_free);
	for (unsigned i = 0; i < n->id.roots_n; i++)
		if (by_table[i] != n->table_chunks[i])
			node_violation(c, "table %u: %" PRIu64 " chunks, not %u", i, by_table[i],
				       n->table_chunks[i]);
}

static void
node_check_sessions(struct node_checker *c)
{
	const struct node *n = c->n;
	uint64_t quarantined = 0;
	uint32_t owned;

	for (unsigned i = 0; i < n->id.sessions_n; i++) {
		const struct node_session *s = &n->sessions[i];

		if (s->serial != n->lines[i].serial)
			node_violation(
				c, "session line %u: the region differs from the node's copy", i);
		if (s->range_next != n->private[i].range_next || s->range_next == 0)
			node_violation(c, "session line %u: range of sequence numbers", i);
		if (s->serial == 0)
			continue;
		quarantined += s->state == NODE_SESSION_QUARANTINED;
		if (i >= n->super->sessions_high || n->private[i].serial != s->serial ||
		    (node_is_home(n) && s->serial > n->super->next_serial))
			node_violation(c, "session line %u: a session that was never opened", i);
		owned = 0;
		for (uint64_t k = 0; k < n->id.pages_n; k++) {
			struct pool_page p = pool_page_unpack(n->words[k]);

			owned += p.kind != POOL_PAGE_FREE && p.kind != POOL_PAGE_INSIDE &&
				 p.owner == i + 1;
		}
		if (owned != s->chunks)
			node_violation(c, "session line %u: owns %u chunks, not %u", i, owned,
				       s->chunks);
	}
	if (quarantined != n->super->quarantine_n)
		node_violation(c, "%" PRIu64 " sessions are quarantined, not %" PRIu64, quarantined,
			       n->super->quarantine_n);
}

static void
node_check_roots(struct node_checker *c)
{
	const struct node *n = c->n;

	for (unsigned i = 0; i < n->id.roots_n; i++) {
		const struct pool_root *r = &n->names[i];
		unsigned kind = POOL_ROOT_KIND(r->state);
		bool maker = false;

		if (memcmp(r, &n->roots[i], sizeof(*r)) != 0)
			node_violation(c, "root %u: the region differs from the node's copy", i);
		if (!node_is_home(n) || r->state == 0)
			continue;
		for (unsigned k = 0; k < n->id.sessions_n; k++)
			maker |= n->sessions[k].serial == r->head;
		if (kind == POOL_ROOT_MAKING && !maker)
			node_violation(c, "root %u: its maker is gone", i);
		if (kind == POOL_ROOT_DROPPED && (r->epoch == 0 || r->epoch > node_epoch(n)))
			node_violation(c, "root %u: dropped without an epoch", i);
		for (unsigned k = 0; k < i && kind != POOL_ROOT_DROPPED; k++)
			if (n->names[k].state != 0 &&
			    POOL_ROOT_KIND(n->names[k].state) != POOL_ROOT_DROPPED &&
			    memcmp(r->name, n->names[k].name, sizeof(r->name)) == 0)
				node_violation(c, "roots %u and %u: one name", k, i);
	}
}

int
node_check(const struct node *n, far_report_fn *report, void *arg)
{
	struct node_checker c = { .n = n, .report = report, .arg = arg };
	struct pool_super s;
	bool torn;

	if (node_super_read(n->region, n->id.region_len, &s, &torn) != 0 || torn ||
	    s.sum != n->id.sum || s.next_serial != n->id.next_serial ||
	    s.sessions_high != n->id.sessions_high)
		node_violation(&c, "superblock: the region differs from the node's copy");
	node_check_pages(&c);
	node_check_sessions(&c);
	node_check_roots(&c);
	return c.found;
}
