/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c -- joining and leaving a pool, leases, and stopping those that went silent.
 *
 * S1 A session is alive for others while the home node's session table holds its serial. Whoever ends a session,
 *    its client or a client that fences it, goes to the other nodes first and to the home node last: a serial that
 *    is missing there has no access to any node (M4).
 * S2 A session writes its word (epoch : 48 | beat : 16) at least once in a tick. It counts as silent when a client
 *    READ the same word twice, and more than a lease passed on that client's own clock between the end of the first
 *    READ and the start of the last: a client that stood still during a READ does not take the time for the others'
 *    silence. Clocks are never compared.
 * S3 A session that finds its serial gone, or is refused as fenced, stops for good: `err` is set and every later
 *    pool_enter() and pool_leave() returns it.
 * S4 A node that comes back empty has another generation. Its addresses mean nothing any more, so a change of
 *    generation ends the session, too.
 */
#include <string.h>

#include <xxhash.h>

#include "pool/client.h"

/* Lines READ beyond those known to be in use, so that a new session rarely costs another round trip. */
enum { SESSION_SLACK = 8, SESSION_FORM_TRIES = 16 };

/* Locks ----------------------------------------------------------------------------------------------------- */

struct pool_waiter {
	struct far_task *task;
	bool served;
	struct pool_waiter *next;
};

void
pool_lock(struct pool_lock *l, struct far_task *t)
{
	struct pool_waiter w = { .task = t }, **at = &l->first;

	if (!l->held) {
		l->held = true;
		return;
	}
	while (*at)
		at = &(*at)->next;
	*at = &w;
	/* The holder hands the lock over without ever releasing it, in order of arrival, and unlinks us. */
	while (!w.served)
		far_park(t);
}

void
pool_unlock(struct pool_lock *l)
{
	struct pool_waiter *w = l->first;

	if (!w) {
		l->held = false;
		return;
	}
	l->first = w->next;
	w->served = true;
	far_unpark(w->task);
}

/* Requests -------------------------------------------------------------------------------------------------- */

int
pool_note_error(struct pool *p, int err)
{
	if (err == -FAR_EFENCED && !p->err)
		p->err = err;
	return err;
}

int
pool_call(struct pool *p, struct far_task *t, unsigned node, struct control_request *req,
	  struct control_reply *reply)
{
	struct far_count *before = far_account(t, &p->background);
	int len;

	memset(reply, 0, sizeof(*reply));
	len = far_call(t, node, req, sizeof(*req), reply, sizeof(*reply));
	far_account(t, before);
	if (len < 0)
		return pool_note_error(p, len);
	if ((size_t)len != sizeof(*reply) || reply->err > 0)
		return -FAR_ECORRUPT;
	return pool_note_error(p, reply->err);
}

int
pool_beat(struct pool *p, struct far_task *t, uint64_t epoch)
{
	uint64_t word;
	int err;

	p->beat = (uint16_t)((p->beat + 1) & (POOL_BEAT_HURRY - 1));
	word = POOL_WORD(epoch, p->beat | (p->hurry ? POOL_BEAT_HURRY : 0));
	p->beat_ns = far_now(t);
	far_write(t,
		  pool_home(p->places[0].super.sessions_off +
			    p->slot * sizeof(struct pool_session_line) +
			    offsetof(struct pool_session_line, word)),
		  &word, sizeof(word));
	if ((err = far_wait(t)) != 0)
		return pool_note_error(p, err);
	p->announced = far_max(p->announced, epoch);
	return 0;
}

/* Session lines --------------------------------------------------------------------------------------------- */

/* `line` was READ between `posted` and `now`. */
static void
pool_watch_line(struct pool *p, uint32_t i, const struct pool_session_line *line, uint64_t posted,
		uint64_t now)
{
	struct pool_watch *w = &p->watch[i];

	if (w->serial != line->serial || w->word != line->word)
		*w = (struct pool_watch){ .serial = line->serial, .word = line->word, .since_ns = now };
	w->until_ns = far_max(w->until_ns, posted);
}

static int
pool_view_lines(struct pool *p, const struct pool_session_line *lines, uint32_t n, uint64_t posted,
		uint64_t now, struct pool_view *view)
{
	view->others = UINT64_MAX;
	view->hurry = false;
	view->sessions_n = 0;
	for (uint32_t i = 0; i < n; i++) {
		pool_watch_line(p, i, &lines[i], posted, now);
		if (i == p->slot || !lines[i].serial)
			continue;
		view->sessions_n++;
		view->others = far_min(view->others, POOL_WORD_EPOCH(lines[i].word));
		view->hurry |= lines[i].word & POOL_BEAT_HURRY;
	}
	/* S3 */
	if (p->slot >= n || lines[p->slot].serial != p->serial)
		return pool_note_error(p, -FAR_EFENCED);
	return 0;
}

int
pool_read_view(struct pool *p, struct far_task *t, struct pool_view *view)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct pool_super *s = far_scratch(t, sizeof(*s));
	struct pool_session_line *lines =
		far_scratch(t, p->places[0].super.sessions_n * sizeof(*lines));
	uint32_t n, max = p->places[0].super.sessions_n;
	uint64_t posted;
	int err = s && lines ? -FAR_EAGAIN : -FAR_ENOMEM;

	/* Twice at most: `high` only grows, and what was added is READ with its slack. */
	while (err == -FAR_EAGAIN) {
		n = (uint32_t)far_min(p->high + SESSION_SLACK, max);
		posted = far_now(t);
		far_read(t, pool_home(offsetof(struct pool_super, epoch)), &s->epoch,
			 sizeof(*s) - offsetof(struct pool_super, epoch));
		far_read(t, pool_home(p->places[0].super.sessions_off), lines, n * sizeof(*lines));
		if ((err = far_wait(t)) != 0)
			break;
		if (s->epoch < p->epoch || s->epoch >> 48 || s->sessions_high > max)
			err = -FAR_ECORRUPT;
		else if (s->sessions_high > n)
			err = -FAR_EAGAIN;
		p->high = err == -FAR_ECORRUPT ? p->high
					       : (uint32_t)far_max(p->high, s->sessions_high);
	}
	if (!err) {
		view->epoch = s->epoch;
		err = pool_view_lines(p, lines, n, posted, far_now(t), view);
	}
	far_scratch_reset(t, mark);
	return pool_note_error(p, err);
}

bool
pool_home_is_gone(struct pool *p, struct far_task *t)
{
	uint64_t generation;

	far_read(t, pool_home(offsetof(struct pool_super, generation)), &generation,
		 sizeof(generation));
	return far_wait(t) == -FAR_ENODE;
}

int
pool_check_generations(struct pool *p, struct far_task *t)
{
	uint64_t found[FAR_NODES_MAX];

	for (unsigned i = 0; i < p->nodes_n; i++) {
		found[i] = p->places[i].super.generation;
		far_read(t, far_addr_make(i, offsetof(struct pool_super, generation)), &found[i],
			 sizeof(found[i]));
	}
	/* A node that does not answer says nothing about its generation; the operations that need it will fail. */
	(void)far_wait(t);
	for (unsigned i = 0; i < p->nodes_n; i++) {
		if (found[i] != p->places[i].super.generation)
			p->err = -FAR_ENODE;
	}
	return p->err;
}

/* S1. */
static int
pool_fence(struct pool *p, struct far_task *t, uint64_t serial)
{
	for (unsigned i = 0; i < p->nodes_n; i++) {
		unsigned node = (i + 1) % p->nodes_n;
		struct control_request req = { .code = CONTROL_FENCE, .serial = serial };
		struct control_reply reply;
		int err = pool_call(p, t, node, &req, &reply);

		if (err)
			return err;
	}
	return 0;
}

/* Fences the session in line `i` when it is silent. 1: it is gone; 0: it is not silent; or -FAR_E. */
static int
pool_fence_line(struct pool *p, struct far_task *t, uint32_t i)
{
	uint64_t serial = p->watch[i].serial;
	int err;

	if (!serial || serial == p->serial ||
	    p->watch[i].until_ns < p->watch[i].since_ns + p->lease_ns)
		return 0;
	err = pool_fence(p, t, serial);
	if (p->watch[i].serial != serial)
		return 1;
	if (err == -FAR_EACCESS) {
		/* Ask again after another lease: its process may have ended then. */
		p->watch[i].unstoppable = true;
		p->watch[i].since_ns = far_now(t);
	}
	if (!err)
		p->watch[i].serial = 0;
	return err ? err : 1;
}

int
pool_fence_silent(struct pool *p, struct far_task *t)
{
	for (uint32_t i = 0; i < p->places[0].super.sessions_n && i < p->high; i++) {
		int err = pool_fence_line(p, t, i);

		if (err < 0 && err != -FAR_EACCESS)
			return err;
	}
	return 0;
}

int
pool_gone(struct pool *p, struct far_task *t, uint64_t serial)
{
	struct far_count *before;
	struct pool_view view;
	int err;

	if (serial == p->serial)
		return p->err ? p->err : 0;
	before = far_account(t, &p->background);
	err = pool_read_view(p, t, &view);
	far_account(t, before);
	if (err)
		return err;
	for (uint32_t i = 0; i < p->high; i++) {
		if (p->watch[i].serial != serial)
			continue;
		if (p->watch[i].unstoppable)
			return -FAR_EACCESS;
		return pool_fence_line(p, t, i);
	}
	return 1;
}

/* Joining --------------------------------------------------------------------------------------------------- */

static int
pool_super_read(struct pool *p, struct far_task *t)
{
	int err;

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

	if (s->magic != POOL_MAGIC || s->endian != POOL_ENDIAN || s->format != POOL_FORMAT ||
	    s->page_len != POOL_PAGE)
		return -FAR_EFORMAT;
	if (s->sum != XXH3_64bits(s, offsetof(struct pool_super, sum)))
		return -FAR_ECORRUPT;
	if (s->region_len > len || s->data_off > s->region_len || s->data_off % POOL_PAGE ||
	    s->pages_n > (s->region_len - s->data_off) / POOL_PAGE || s->pages_n >> 32)
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

static bool
pool_is_formed(const struct pool_super *s)
{
	return s->pool_id[0] || s->pool_id[1];
}

/*
 * Ties the nodes to one pool when that has not happened, or not on all of them. Several first clients may do this at
 * once: the home node takes one of their ids, and all go on with that.
 */
static int
pool_form(struct pool *p, struct far_task *t)
{
	struct control_request req = { .code = CONTROL_FORM, .nodes_n = p->nodes_n };
	struct pool_super *home = &p->places[0].super;
	struct control_reply reply;
	int err;

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
	return 0;
}

/* Reads and checks the superblocks; forms the pool first when it is new. */
static int
pool_meet_nodes(struct pool *p, struct far_task *t)
{
	int err;

	for (int i = 0; i < SESSION_FORM_TRIES; i++) {
		/* A sum that does not match may be one that is being written: another client forms the pool. */
		if ((err = pool_super_check_all(p, t)) == 0 && (err = pool_form(p, t)) == 0)
			err = pool_super_check_all(p, t);
		if (err != -FAR_ECORRUPT)
			break;
		far_sleep(t, (uint64_t)1000 << i);
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

static int
pool_alloc_local(struct pool *p)
{
	p->watch = calloc(p->places[0].super.sessions_n, sizeof(*p->watch));
	if (!p->watch)
		return -FAR_ENOMEM;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct pool_place *place = &p->places[i];

		place->map = calloc(place->super.pages_n + 1, sizeof(*place->map));
		place->free_pages = place->super.pages_n;
		if (!place->map)
			return -FAR_ENOMEM;
	}
	return 0;
}

static int
pool_leave_nodes(struct pool *p, struct far_task *t)
{
	int first = 0;

	/* S1: the home node last. */
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct control_request req = { .code = CONTROL_LEAVE };
		struct control_reply reply;
		int err = pool_call(p, t, (i + 1) % p->nodes_n, &req, &reply);

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

	if ((err = pool_call(p, t, 0, &req, &reply)) != 0)
		return err;
	if (!reply.serial || reply.slot >= p->places[0].super.sessions_n)
		return -FAR_ECORRUPT;
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
		pool_leave_nodes(p, t);
	return err;
}

int
pool_open(struct far_task *t, const struct pool_opts *opts, struct pool **out)
{
	struct far_count *before;
	struct pool *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -FAR_ENOMEM;
	p->fabric = far_task_conn(t);
	p->nodes_n = far_fabric_nodes(p->fabric);
	p->lease_ns = opts && opts->lease_ns ? opts->lease_ns : POOL_LEASE_NS;
	p->tick_ns =
		opts && opts->tick_ns ? opts->tick_ns : far_min(POOL_TICK_NS, p->lease_ns / 8 + 1);
	p->hurry_ns = far_max(p->tick_ns / 100, 1);
	before = far_account(t, &p->background);
	err = p->nodes_n && (p->places = calloc(p->nodes_n, sizeof(*p->places))) != NULL
		      ? 0
		      : -FAR_ENOMEM;
	if (!err)
		err = pool_meet_nodes(p, t);
	if (!err)
		err = pool_alloc_local(p);
	/* A first look at what is free, before the lease runs: many a client makes a table and leaves. */
	if (!err)
		err = pool_walk_pages(p, t);
	if (!err)
		err = pool_join_nodes(p, t);
	if (!err) {
		p->daemon_alive = true;
		err = far_loop_spawn(far_task_loop(t), p->fabric, pool_daemon, p, FAR_TASK_DAEMON);
		if (err) {
			p->daemon_alive = false;
			pool_leave_nodes(p, t);
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
	p->closing = true;
	p->closer = t;
	if (p->daemon)
		far_unpark(p->daemon);
	while (p->daemon_alive)
		far_park(t);
}

/* What the nodes must learn before LEAVE: frees of others' blocks, and which blocks of our chunks are free. */
static int
pool_settle(struct pool *p, struct far_task *t)
{
	int err = pool_tick(p, t);

	if (err)
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
	pool_end_daemon(p, t);
	before = far_account(t, NULL);
	err = p->err;
	if (!err) {
		err = pool_settle(p, t);
		/* A bitmap that was not told in full must not be taken for the truth: without LEAVE the chunks become
		 * dirty orphans when the connection ends. */
		left = err ? 0 : pool_leave_nodes(p, t);
		err = err ? err : left;
	}
	far_account(t, before);
	pool_free(p);
	return err;
}

void
pool_abandon(struct pool *p)
{
	if (!p)
		return;
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

/* Small things ---------------------------------------------------------------------------------------------- */

int
pool_version(struct pool *p, struct far_task *t, uint64_t *version)
{
	while (p->version_next == p->version_end) {
		struct control_request req = { .code = CONTROL_RANGE };
		struct control_reply reply;
		int err = pool_call(p, t, 0, &req, &reply);

		if (err)
			return err;
		if (reply.first >> POOL_SEQUENCE_BITS)
			return -FAR_ECORRUPT;
		/* Another fiber may have got a range meanwhile; the rest of that one is not used, which is harmless. */
		p->version_next = reply.first;
		p->version_end = reply.first + ((uint64_t)1 << POOL_RANGE_BITS);
	}
	*version = (uint64_t)(p->slot + 1) << POOL_SEQUENCE_BITS | p->version_next++;
	return 0;
}

uint64_t
pool_serial(const struct pool *p)
{
	return p->serial;
}

unsigned
pool_nodes(const struct pool *p)
{
	return p->nodes_n;
}

struct far_count *
pool_background(struct pool *p)
{
	return &p->background;
}
