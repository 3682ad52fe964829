/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c -- named roots, and what tables own.
 *
 * T1 The home node's control endpoint changes roots; clients READ them. A READ may tear, so an entry counts when it was
 *    READ twice and was the same both times.
 * T2 A dropped table's memory goes back when every session has announced an epoch later than the one that the node
 *    noted at the drop. A session looks at the roots of its open tables after it READ the epoch that it is going to
 *    announce, and before it waits for its operations: so by then nobody works on the table any more, and nobody has
 *    frees for its chunks in a queue.
 * T3 Whoever meets a dropped root that is past grace frees its memory, on the home node last, then the root. All these
 *    requests carry the root's serial, so doing it twice, or late, does no harm.
 */
#include <string.h>

#include "pool/client.h"
#include "pool/name.h"

enum {
	TABLE_READS = 16,      /* tries to READ the roots while others change them */
	TABLE_DROP_TICKS = 16, /* rounds between looks for dropped roots */
	TABLE_DROP_LEASES = 4, /* a drop waits no longer for grace: its memory goes back later */
};

/* Roots ----------------------------------------------------------------------------------------------------- */

static struct far_addr
table_root_addr(const struct pool *p, unsigned number)
{
	FAR_ASSERT(number < p->places[0].super.roots_n);
	return pool_home(p->places[0].super.roots_off + number * sizeof(struct pool_root));
}

/* All roots, malloc'ed. An entry that kept changing is left out (state 0). Yields. */
static int
table_roots(struct pool *p, struct far_task *t, struct pool_root **out)
{
	unsigned n = p->places[0].super.roots_n;
	struct pool_root *roots = calloc(2 * (size_t)n, sizeof(*roots)), *other;
	int err = 0;

	if (!roots)
		return -FAR_ENOMEM;
	other = roots + n;
	for (int i = 0; i < TABLE_READS && !err; i++) {
		far_read(t, table_root_addr(p, 0), i & 1 ? other : roots, n * sizeof(*roots));
		err = far_wait(t);
		if (i && !memcmp(roots, other, n * sizeof(*roots)))
			break;
	}
	for (unsigned i = 0; i < n && !err; i++) {
		if (memcmp(&roots[i], &other[i], sizeof(*roots)) != 0)
			roots[i].state = 0;
	}
	if (err)
		free(roots);
	else
		*out = roots;
	return pool_note_error(p, err);
}

/* The bytes of a live root: a serial, strings that end, a head inside a region. */
static bool
table_root_is_sane(const struct pool *p, const struct pool_root *r)
{
	struct far_addr head = { r->head };
	const struct pool_super *s;

	if (POOL_ROOT_SERIAL(r->state) == 0)
		return false;
	if (!memchr(r->name, 0, sizeof(r->name)) || !memchr(r->design, 0, sizeof(r->design)) ||
	    !r->name[0])
		return false;
	if (far_addr_node(head) >= p->nodes_n || far_addr_off(head) % 8)
		return false;
	s = &p->places[far_addr_node(head)].super;
	return far_addr_off(head) >= s->data_off && far_addr_off(head) < s->region_len;
}

/* The number of the live root of that name, and a copy of it. -FAR_ENOENT, -FAR_ECORRUPT. */
static int
table_find(struct pool *p, struct far_task *t, const char *name, struct pool_root *out)
{
	struct pool_root *roots;
	int err = table_roots(p, t, &roots), found = -FAR_ENOENT;

	if (err)
		return err;
	for (unsigned i = 0; i < p->places[0].super.roots_n && found == -FAR_ENOENT; i++) {
		if (POOL_ROOT_KIND(roots[i].state) != POOL_ROOT_LIVE ||
		    strncmp(roots[i].name, name, sizeof(roots[i].name)) != 0)
			continue;
		found = table_root_is_sane(p, &roots[i]) ? (int)i : -FAR_ECORRUPT;
		*out = roots[i];
	}
	free(roots);
	return found;
}

void
pool_roots_note(struct pool *p, struct far_task *t)
{
	FAR_ASSERT(p->tick.held);
	for (struct pool_table *pt = p->tables; pt; pt = pt->next)
		far_read(t, table_root_addr(p, pt->number), &pt->state, sizeof(pt->state));
}

void
pool_roots_mark(struct pool *p)
{
	FAR_ASSERT(p->tick.held);
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		unsigned kind = POOL_ROOT_KIND(pt->state);

		if (POOL_ROOT_SERIAL(pt->state) != pt->serial ||
		    (kind != POOL_ROOT_LIVE && kind != POOL_ROOT_MAKING))
			pt->gone = pt->gone ? pt->gone : -FAR_ENOENT;
	}
}

void
pool_tables_discard(struct pool *p)
{
	FAR_ASSERT(p->tick.held);
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		if (pt->gone != -FAR_ENOENT)
			continue;
		pool_foreign_drop(p, pt->serial);
		if (!pt->arena)
			continue;
		pool_limbo_withdraw(p, pt->arena);
		pool_arena_free(pt->arena);
	}
}

/* Tables ---------------------------------------------------------------------------------------------------- */

static int
table_attach(struct pool *p, unsigned number, const struct pool_root *r, struct pool_table **out)
{
	struct pool_table *pt = calloc(1, sizeof(*pt));

	if (!pt || pool_arena_open(p, pt) != 0) {
		free(pt);
		return -FAR_ENOMEM;
	}
	FAR_ASSERT(number < p->places[0].super.roots_n && POOL_ROOT_SERIAL(r->state) != 0);
	pt->pool = p;
	pt->number = number;
	pt->serial = POOL_ROOT_SERIAL(r->state);
	pt->state = r->state;
	pt->seed = r->seed;
	pt->head.raw = r->head;
	memcpy(pt->name, r->name, sizeof(pt->name));
	memcpy(pt->design, r->design, sizeof(pt->design));
	pt->next = p->tables;
	p->tables = pt;
	*out = pt;
	return 0;
}

static int
table_root_call(struct pool *p, struct far_task *t, unsigned code, unsigned number, uint64_t serial)
{
	struct control_request req = { .code = code, .table = number, .root_serial = serial };
	struct control_reply reply;

	return pool_call(p, t, 0, &req, &reply);
}

int
pool_table_new(struct pool *p, struct far_task *t, const char *name, const char *design,
	       struct pool_table **out)
{
	struct control_request req = { .code = CONTROL_ROOT_NEW };
	struct control_reply reply;
	struct pool_root r = { 0 };
	int err;

	FAR_ASSERT(!pool_is_inside(t));
	if (!pool_name_is_good(name, FAR_NAME_MAX + 1) || strlen(design) >= sizeof(r.design))
		return -FAR_EINVAL;
	memcpy(req.name, name, strlen(name));
	memcpy(req.design, design, strlen(design));
	if ((err = pool_call(p, t, 0, &req, &reply)) != 0)
		return err;
	if (reply.table >= p->places[0].super.roots_n || !reply.serial ||
	    reply.serial > POOL_SERIAL_MAX)
		return -FAR_ECORRUPT;
	r.state = POOL_ROOT_STATE(POOL_ROOT_MAKING, reply.serial);
	r.seed = reply.seed;
	memcpy(r.name, req.name, sizeof(r.name));
	memcpy(r.design, req.design, sizeof(r.design));
	if ((err = table_attach(p, reply.table, &r, out)) != 0)
		table_root_call(p, t, CONTROL_ROOT_DROP, reply.table, reply.serial);
	return err;
}

int
pool_table_commit(struct pool_table *pt, struct far_task *t, struct far_addr head)
{
	struct control_request req = {
		.code = CONTROL_ROOT_SET,
		.table = pt->number,
		.root_serial = pt->serial,
		.off = head.raw,
	};
	struct control_reply reply;
	int err;

	FAR_ASSERT(head.raw && !pt->head.raw);
	err = pool_call(pt->pool, t, 0, &req, &reply);
	if (err) {
		table_root_call(pt->pool, t, CONTROL_ROOT_DROP, pt->number, pt->serial);
		return err;
	}
	pt->head = head;
	return 0;
}

int
pool_table_open(struct pool *p, struct far_task *t, const char *name, struct pool_table **out)
{
	struct far_count *before;
	struct pool_root r;
	int i;

	if (!pool_name_is_good(name, FAR_NAME_MAX + 1))
		return -FAR_EINVAL;
	before = far_account(t, &p->background);
	i = table_find(p, t, name, &r);
	far_account(t, before);
	return i < 0 ? i : table_attach(p, (unsigned)i, &r, out);
}

void
pool_table_detach(struct pool_table *pt, struct far_task *t)
{
	/* The round that it waits for may be waiting for operations to end. */
	FAR_ASSERT(!pool_is_inside(t));
	pool_lock(&pt->pool->tick, t);
	pt->ops = NULL;
	pt->index = NULL;
	pool_unlock(&pt->pool->tick);
}

/* Hands the chunks back while no round runs. */
static int
table_settle(struct pool_table *pt, struct far_task *t)
{
	struct pool *p = pt->pool;
	int err = p->err;

	FAR_ASSERT(p->tick.held);
	/* T2: frees for this table must not stay queued when we no longer look at its root. */
	if (!err)
		err = pool_foreign_flush(p, t);
	if (pt->gone) {
		pool_foreign_drop(p, pt->serial);
		return err;
	}
	if (!err && pt->arena)
		err = pool_arena_close(pt->arena, t);
	FAR_ASSERT(err || !pt->arena);
	/* Never committed: nobody can have seen it. */
	if (!err && !pt->head.raw)
		err = table_root_call(p, t, CONTROL_ROOT_DROP, pt->number, pt->serial);
	return err == -FAR_ENOENT ? 0 : err;
}

int
pool_table_close(struct pool_table *pt, struct far_task *t)
{
	struct pool_table **at;
	struct far_count *before;
	struct pool *p;
	int err;

	if (!pt)
		return 0;
	p = pt->pool;
	FAR_ASSERT(!pool_is_inside(t));
	before = far_account(t, &p->background);
	pool_lock(&p->tick, t);
	err = table_settle(pt, t);
	if (pt->arena) {
		pool_limbo_withdraw(p, pt->arena);
		pool_arena_free(pt->arena);
	}
	for (at = &p->tables; *at != pt; at = &(*at)->next)
		FAR_ASSERT(*at);
	*at = pt->next;
	pool_unlock(&p->tick);
	far_account(t, before);
	free(pt);
	return err;
}

int
pool_table_list(struct pool *p, struct far_task *t, struct pool_root **list)
{
	struct far_count *before = far_account(t, &p->background);
	struct pool_root *roots;
	int err = table_roots(p, t, &roots), n = 0;

	far_account(t, before);
	if (err)
		return err;
	for (unsigned i = 0; i < p->places[0].super.roots_n; i++) {
		if (POOL_ROOT_KIND(roots[i].state) == POOL_ROOT_LIVE &&
		    table_root_is_sane(p, &roots[i]))
			roots[n++] = roots[i];
	}
	*list = roots;
	return n;
}

int
pool_table_alive(const struct pool_table *pt)
{
	return pt->gone;
}

/* Dropping -------------------------------------------------------------------------------------------------- */

/* T3 for root `number`. 0: done, by us or by somebody else; or POOL_NOT_YET. */
static int
table_free_dropped(struct pool *p, struct far_task *t, unsigned number, uint64_t serial)
{
	struct pool_root r;
	int err;

	FAR_ASSERT(p->tick.held);
	far_read(t, table_root_addr(p, number), &r, sizeof(r));
	if ((err = far_wait(t)) != 0)
		return err;
	if (r.state != POOL_ROOT_STATE(POOL_ROOT_DROPPED, serial))
		return 0;
	/* The node stores the epoch after the state; UINT64_MAX until then. */
	if (r.epoch >= pool_floor(p))
		return POOL_NOT_YET;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct control_request req = {
			.code = CONTROL_TABLE_FREE,
			.table = number,
			.root_serial = serial,
		};
		struct control_reply reply;

		if ((err = pool_call(p, t, (i + 1) % p->nodes_n, &req, &reply)) != 0)
			return err;
	}
	p->gains++;
	return table_root_call(p, t, CONTROL_ROOT_FREE, number, serial);
}

int
pool_drops_finish(struct pool *p, struct far_task *t)
{
	struct pool_root *roots;
	int err;

	FAR_ASSERT(p->tick.held);
	if (p->ticks % TABLE_DROP_TICKS && !p->starved)
		return 0;
	p->starved = false;
	if ((err = table_roots(p, t, &roots)) != 0)
		return err;
	for (unsigned i = 0; i < p->places[0].super.roots_n && !p->err; i++) {
		/* Errors: another one does it, or we do it later. */
		if (POOL_ROOT_KIND(roots[i].state) == POOL_ROOT_DROPPED)
			(void)table_free_dropped(p, t, i, POOL_ROOT_SERIAL(roots[i].state));
	}
	free(roots);
	return p->err;
}

/* Rounds until the memory is back, or we waited long enough. */
static int
table_await_drop(struct pool *p, struct far_task *t, unsigned number, uint64_t serial)
{
	uint64_t start = far_now(t), wait_ns = p->hurry_ns;
	int err;

	FAR_ASSERT(!pool_is_inside(t) && serial);
	for (;;) {
		p->hurry = true;
		if ((err = pool_tick(p, t)) != 0)
			return err;
		pool_lock(&p->tick, t);
		err = table_free_dropped(p, t, number, serial);
		pool_unlock(&p->tick);
		if (err != POOL_NOT_YET)
			return err;
		/* The name is gone; whoever ticks finds the rest (T3). */
		if (far_now(t) - start > TABLE_DROP_LEASES * p->lease_ns)
			return 0;
		far_sleep(t, wait_ns);
		wait_ns = far_min(2 * wait_ns, p->tick_ns);
	}
}

int
pool_table_drop(struct pool *p, struct far_task *t, const char *name)
{
	struct far_count *before;
	struct pool_root r;
	int i, err;

	FAR_ASSERT(!pool_is_inside(t));
	before = far_account(t, &p->background);
	i = err = table_find(p, t, name, &r);
	if (i >= 0) {
		uint64_t serial = POOL_ROOT_SERIAL(r.state);

		err = table_root_call(p, t, CONTROL_ROOT_DROP, (unsigned)i, serial);
		if (!err)
			err = table_await_drop(p, t, (unsigned)i, serial);
	}
	far_account(t, before);
	return err;
}
