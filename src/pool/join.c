/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c -- joining and leaving a pool.
 *
 * J1 A client uses nothing of a superblock before it was checked, and nothing of a pool before every node said that it
 *    is the pool's node of that number, in the life in which the pool was formed.
 * J2 The first client forms the pool, of nodes that are all different. Several may do this at once: the home node takes
 *    one of their ids, and all go on with that.
 * J3 A session gets its line from the home node and joins the others. Only then it READs the epoch and announces it,
 *    and only then its first operation begins (E4 in epoch.c).
 * J4 Who leaves goes to the home node last (S1 in session.c).
 * J5 Who leaves says so to every node that still listens, also when the session has failed: from here on nothing of it
 *    touches their memory. Without that a node could end it only with its process, which may have other sessions. A
 *    bitmap that was not told in full must not be taken for the truth, so after an error the chunks become dirty
 *    orphans.
 */
#include <string.h>

#include <xxhash.h>

#include "fabric/backend.h"
#include "pool/client.h"

enum { JOIN_FORM_TRIES = 16 };

/* Joining --------------------------------------------------------------------------------------------------- */

static int
pool_super_read(struct pool *p, struct far_task *t)
{
	int err;

	FAR_ASSERT(p->nodes_n && p->nodes_n <= FAR_NODES_MAX);
	/* The home node last, since it is formed first: beside a node that knows the pool, it does, too. */
	for (unsigned i = 1; i < p->nodes_n; i++)
		far_read(t, far_addr_make(i, 0), &p->places[i].super, sizeof(p->places[i].super));
	if ((err = far_wait(t)) != 0)
		return err;
	far_read(t, far_addr_make(0, 0), &p->places[0].super, sizeof(p->places[0].super));
	return far_wait(t);
}

/* The bytes come from far away: nothing is used as a length or an address before it was checked here. */
static int
pool_super_check(const struct pool *p, unsigned node)
{
	const struct pool_super *s = &p->places[node].super;
	uint64_t len = far_fabric_region_len(p->fabric, node);

	FAR_ASSERT(node < p->nodes_n);
	if (s->magic != POOL_MAGIC || s->endian != POOL_ENDIAN || s->format != POOL_FORMAT ||
	    s->page_len != POOL_PAGE)
		return -FAR_EFORMAT;
	if (s->sum != XXH3_64bits(s, offsetof(struct pool_super, sum)))
		return -FAR_ECORRUPT;
	if (s->region_len > len || s->region_len > POOL_REGION_MAX || s->data_off > s->region_len ||
	    s->data_off % POOL_PAGE || s->pages_n > (s->region_len - s->data_off) / POOL_PAGE)
		return -FAR_ECORRUPT;
	if (!s->sessions_n || s->sessions_n > POOL_SESSIONS || !s->roots_n ||
	    s->roots_n > POOL_ROOTS)
		return -FAR_ECORRUPT;
	if (s->sessions_off % 8 || s->roots_off % 8 || s->pages_off % 8 ||
	    s->sessions_off > s->data_off || s->roots_off > s->data_off ||
	    s->pages_off > s->data_off ||
	    s->sessions_n * sizeof(struct pool_session_line) > s->data_off - s->sessions_off ||
	    s->roots_n * sizeof(struct pool_root) > s->data_off - s->roots_off ||
	    s->pages_n * sizeof(uint64_t) > s->data_off - s->pages_off)
		return -FAR_ECORRUPT;
	return 0;
}

static int
pool_super_check_all(struct pool *p, struct far_task *t)
{
	int err = pool_super_read(p, t);

	for (unsigned i = 0; i < p->nodes_n && !err; i++)
		err = pool_super_check(p, i);
	return err;
}

/*
 * Ties the nodes to one pool when that has not happened, or not on all of them: 1, and 0 when nothing was to be done.
 * Several first clients may do this at once: the home node takes one of their ids, and all go on with that.
 */
static int
pool_form(struct pool *p, struct far_task *t)
{
	struct control_request req = { .code = CONTROL_FORM, .nodes_n = p->nodes_n };
	struct pool_super *home = &p->places[0].super;
	struct control_reply reply;
	int err, formed = 0;

	FAR_ASSERT(!p->serial && p->nodes_n <= POOL_NODES);
	req.pool_id[0] = far_rand(t) | 1;
	req.pool_id[1] = far_rand(t);
	for (unsigned i = 0; i < p->nodes_n; i++) {
		req.generations[i] = p->places[i].super.generation;
		/* A home node that knows of no pool, beside one that does, is the wrong one or came back empty. */
		if (!pool_is_formed(home) && pool_is_formed(&p->places[i].super))
			return -FAR_EINVAL;
	}
	for (unsigned i = 0; i < p->nodes_n; i++) {
		const struct pool_super *s = &p->places[i].super;

		if (!pool_is_formed(s)) {
			if (i && home->generations[i] != s->generation)
				return -FAR_ENODE;
			req.node = i;
			err = pool_call(p, t, i, &req, &reply);
			if (err && (i || err != -FAR_EINVAL))
				return err;
			formed = 1;
		} else if (i && (s->pool_id[0] != home->pool_id[0] ||
				 s->pool_id[1] != home->pool_id[1])) {
			return -FAR_EINVAL;
		}
		if (s->pool_id[0] && (s->node != i || s->nodes_n != p->nodes_n))
			return -FAR_EINVAL;
		if (i)
			continue;
		/* The home node has an id now: ours or that of another first client. */
		if (!pool_is_formed(home) && (err = pool_super_check_all(p, t)) != 0)
			return err;
		req.pool_id[0] = home->pool_id[0];
		req.pool_id[1] = home->pool_id[1];
	}
	return formed;
}

/* Reads and checks the superblocks; forms the pool first when it is new. */
static int
pool_meet_nodes(struct pool *p, struct far_task *t)
{
	struct pool_misfit twins;
	int err;

	FAR_ASSERT(p->hurry_ns && p->hurry_ns <= p->tick_ns);
	for (int i = 0; i < JOIN_FORM_TRIES; i++) {
		/* A sum that does not match may be one that is being written: another client forms the pool. */
		if ((err = pool_super_check_all(p, t)) == 0)
			err = pool_misfit_twice(p, &twins) ? -FAR_EINVAL : pool_form(p, t);
		if (err > 0)
			err = pool_super_check_all(p, t);
		if (err != -FAR_ECORRUPT)
			break;
		far_sleep(t, far_max(p->hurry_ns / 1000, 1) << i);
	}
	for (unsigned i = 0; i < p->nodes_n && !err; i++) {
		const struct pool_super *s = &p->places[i].super, *home = &p->places[0].super;

		if (s->node != i || s->nodes_n != p->nodes_n || !pool_is_formed(s) ||
		    s->pool_id[0] != home->pool_id[0] || s->pool_id[1] != home->pool_id[1])
			err = -FAR_EINVAL;
		else if (s->generation != home->generations[i])
			err = -FAR_ENODE;
	}
	return err;
}

/* What the superblocks, as far as they could be read, tell about a failure. */
static void
pool_explain(const struct pool *p, struct pool_misfit *out)
{
	*out = (struct pool_misfit){ .kind = POOL_FITS };
	for (unsigned i = 0; i < p->nodes_n; i++) {
		if (pool_super_check(p, i) != 0)
			return;
	}
	pool_misfit_find(p, out);
}

static int
pool_alloc_local(struct pool *p)
{
	FAR_ASSERT(!p->watch && p->nodes_n <= FAR_NODES_MAX);
	p->watch = calloc(p->places[0].super.sessions_n, sizeof(*p->watch));
	if (!p->watch)
		return -FAR_ENOMEM;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct pool_place *place = &p->places[i];

		FAR_ASSERT(!place->map && place->super.pages_n >> 32 == 0);
		place->map = calloc(place->super.pages_n + 1, sizeof(*place->map));
		place->free_pages = far_min(place->super.pages_free, place->super.pages_n);
		if (!place->map)
			return -FAR_ENOMEM;
	}
	return 0;
}

/* `flags`: 0, or CONTROL_DIRTY when the bitmaps of our chunks are not the truth. */
static int
pool_leave_nodes(struct pool *p, struct far_task *t, unsigned flags)
{
	int first = 0;

	FAR_ASSERT(!(flags & ~(unsigned)CONTROL_DIRTY));
	/* S1: the home node last. */
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct control_request req = { .code = CONTROL_LEAVE, .flags = flags };
		struct control_reply reply;
		unsigned node = (i + 1) % p->nodes_n;
		int err;

		/* Where something of ours may still land, or what we hold is still ours (S5), only FENCE ends that: the
		 * home node must not say that it is over. */
		if (node == 0 && first && p->given_up)
			break;
		err = pool_call(p, t, node, &req, &reply);
		if (err && !first)
			first = err;
	}
	return first;
}

static int
pool_join_nodes(struct pool *p, struct far_task *t)
{
	struct control_request req = { .code = CONTROL_SESSION };
	struct control_reply reply;
	struct pool_view view;
	int err;

	FAR_ASSERT(p->watch && p->places[0].map);
	if ((err = pool_call(p, t, 0, &req, &reply)) != 0)
		return err;
	if (!reply.serial || reply.serial > POOL_SERIAL_MAX ||
	    reply.slot >= p->places[0].super.sessions_n)
		return -FAR_ECORRUPT;
	FAR_ASSERT(!p->serial);
	p->serial = reply.serial;
	p->slot = reply.slot;
	p->high = p->slot + 1;
	req = (struct control_request){ .code = CONTROL_JOIN, .serial = p->serial };
	for (unsigned i = 1; i < p->nodes_n && !err; i++)
		err = pool_call(p, t, i, &req, &reply);
	/* The epoch is read after the line holds our serial: nobody can free what we are going to see without waiting
	 * for the word that we write next, before the first operation. */
	if (!err)
		err = pool_read_view(p, t, &view);
	if (!err) {
		p->epoch = view.epoch;
		p->others = view.others;
		err = pool_beat(p, t, view.epoch);
	}
	if (err)
		pool_leave_nodes(p, t, 0);
	return err;
}

int
pool_open(struct far_task *t, const struct pool_opts *opts, struct pool **out)
{
	struct far_count *before;
	struct pool *p = calloc(1, sizeof(*p));
	int err;

	FAR_ASSERT(!pool_is_inside(t));
	if (!p)
		return -FAR_ENOMEM;
	p->fabric = far_task_conn(t);
	p->nodes_n = far_fabric_nodes(p->fabric);
	p->lease_ns = opts && opts->lease_ns ? opts->lease_ns : POOL_LEASE_NS;
	/* All that the maintenance does is measured in ticks, and a tick by the lease: eight of them may fail. */
	p->tick_ns = far_min(opts && opts->tick_ns ? opts->tick_ns : POOL_TICK_NS,
			     p->lease_ns / 8 + 1);
	p->hurry_ns = far_max(p->tick_ns / 100, 1);
	FAR_ASSERT(p->tick_ns && p->tick_ns <= p->lease_ns / 8 + 1);
	p->zoo = opts ? opts->zoo : 0;
	before = far_account(t, &p->background);
	err = p->nodes_n && (p->places = calloc(p->nodes_n, sizeof(*p->places))) != NULL
		      ? 0
		      : -FAR_ENOMEM;
	if (!err && (err = pool_meet_nodes(p, t)) != 0 && opts && opts->misfit)
		pool_explain(p, opts->misfit);
	if (!err)
		err = pool_alloc_local(p);
	if (!err)
		err = pool_join_nodes(p, t);
	/* J3: an operation may begin from here on. */
	FAR_ASSERT(err || (p->serial && p->announced == p->epoch));
	if (!err) {
		p->daemon_alive = true;
		err = far_loop_spawn(far_task_loop(t), p->fabric, pool_daemon, p, FAR_TASK_DAEMON);
		if (err) {
			p->daemon_alive = false;
			pool_leave_nodes(p, t, 0);
		}
	}
	far_account(t, before);
	if (err)
		pool_free(p);
	else
		*out = p;
	return err;
}

/* Leaving --------------------------------------------------------------------------------------------------- */

void
pool_free(struct pool *p)
{
	while (p->tables) {
		struct pool_table *pt = p->tables;

		p->tables = pt->next;
		if (pt->arena)
			pool_arena_free(pt->arena);
		free(pt);
	}
	for (unsigned i = 0; i < p->nodes_n && p->places; i++)
		free(p->places[i].map);
	free(p->places);
	free(p->watch);
	free(p->limbo.ring);
	free(p->foreign);
	free(p->chunks);
	free(p);
}

static void
pool_end_daemon(struct pool *p, struct far_task *t)
{
	FAR_ASSERT(!p->closing && !p->closer);
	p->closing = true;
	p->closer = t;
	if (p->daemon)
		far_unpark(p->daemon);
	while (p->daemon_alive)
		far_park(t);
	/* No operation runs: nobody would wake it. */
	FAR_ASSERT(!p->daemon && !p->inside[0] && !p->inside[1]);
}

/* What the nodes must learn before LEAVE: frees of others' blocks, and which blocks of our chunks are free. */
static int
pool_settle(struct pool *p, struct far_task *t)
{
	bool nothing = p->foreign_n == 0;
	int err;

	/* Nobody else touches the pool: no lock is taken from here on but a round's own. */
	FAR_ASSERT(p->closing && !p->daemon_alive);
	FAR_ASSERT(!p->err && !p->drainer);
	for (uint32_t i = 0; i < p->chunks_n; i++)
		nothing = nothing && !p->chunks[i];
	/* Who closed its tables one by one has told everything by now. */
	if (nothing)
		return 0;
	if ((err = pool_tick(p, t)) != 0)
		return err;
	if ((err = pool_foreign_flush(p, t)) != 0 || (err = pool_release_free(p, t, true)) != 0)
		return err;
	for (uint32_t i = 0; i < p->chunks_n; i++) {
		if (p->chunks[i] && (err = pool_chunk_publish(p, t, p->chunks[i])) != 0)
			return err;
	}
	return 0;
}

int
pool_close(struct pool *p, struct far_task *t)
{
	struct far_count *before;
	int err, left;

	if (!p)
		return 0;
	FAR_ASSERT(!pool_is_inside(t) && !p->abandoned);
	pool_end_daemon(p, t);
	before = far_account(t, NULL);
	err = p->err ? p->err : pool_settle(p, t);
	/* J5 */
	left = pool_leave_nodes(p, t, err ? CONTROL_DIRTY : 0);
	err = err ? err : left;
	far_account(t, before);
	pool_free(p);
	return err;
}

void
pool_abandon(struct pool *p)
{
	if (!p)
		return;
	FAR_ASSERT(!p->inside[0] && !p->inside[1]);
	p->abandoned = true;
	p->err = -FAR_EFENCED;
	for (struct pool_table *pt = p->tables; pt; pt = pt->next) {
		pt->ops = NULL;
		pt->index = NULL;
	}
	if (!p->daemon_alive)
		pool_free(p);
	else if (p->daemon)
		far_unpark(p->daemon);
}

void
pool_forget(struct pool *p)
{
	if (p)
		pool_free(p);
}
