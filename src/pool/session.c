/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.c -- a session among the others: its word, leases, and stopping those that went silent.
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
 * S5 Nobody may fence a session that beats, so a session that beats must be able to finish what others wait for. Who
 *    cannot, because a node does not answer it any more, gives its session up: it stops beating, takes S3's way out,
 *    and the others treat it as they treat the dead. The same holds when a lost connection may still bring a change
 *    (far_fabric.unsure): M1 lets memory be reused under an operation that has ended, so its words must not land
 *    after that, and until FENCE they may.
 */
#include <string.h>

#include "fabric/backend.h"
#include "pool/client.h"

/* Lines READ beyond those known to be in use, so that a new session rarely costs another round trip. */
enum { SESSION_SLACK = 8 };

/* Requests -------------------------------------------------------------------------------------------------- */

int
pool_note_error(struct pool *p, int err)
{
	FAR_ASSERT(err <= 0);
	if (err == -FAR_EFENCED && !p->err)
		p->err = err;
	return err;
}

int
pool_give_up(struct pool *p, int err)
{
	FAR_ASSERT(err < 0);
	p->given_up = true;
	if (!p->err)
		p->err = -FAR_EFENCED;
	return err;
}

int
pool_state(struct pool *p)
{
	if (p->fabric->unsure)
		pool_give_up(p, -FAR_EUNSURE); /* S5 */
	return p->err;
}

int
pool_call(struct pool *p, struct far_task *t, unsigned node, struct control_request *req,
	  struct control_reply *reply)
{
	struct far_count *before = far_account(t, &p->background);
	int len;

	FAR_ASSERT(node < p->nodes_n);
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

	/* What was announced is a promise to all; what was not READ cannot be kept. */
	FAR_ASSERT(p->serial != 0 && epoch >= p->announced && epoch <= p->epoch);
	if ((err = pool_state(p)) != 0)
		return err;
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

	FAR_ASSERT(posted <= now && i < p->places[0].super.sessions_n);
	if (w->serial != line->serial || w->word != line->word)
		*w = (struct pool_watch){ .serial = line->serial, .word = line->word, .since_ns = now };
	w->until_ns = far_max(w->until_ns, posted);
}

/* S2 */
static bool
pool_watch_silent(const struct pool *p, uint32_t i)
{
	return p->watch[i].until_ns >= p->watch[i].since_ns + p->lease_ns;
}

static int
pool_view_lines(struct pool *p, const struct pool_session_line *lines, uint32_t n, uint64_t posted,
		uint64_t now, struct pool_view *view)
{
	FAR_ASSERT(n <= p->places[0].super.sessions_n);
	view->others = UINT64_MAX;
	view->hurry = false;
	view->sessions_n = 0;
	for (uint32_t i = 0; i < n; i++) {
		pool_watch_line(p, i, &lines[i], posted, now);
		if (i == p->slot || !lines[i].serial)
			continue;
		view->sessions_n++;
		if (pool_watch_silent(p, i) && far_zoo(p->zoo, ZOO_SILENT_IGNORED))
			continue;
		view->others = far_min(view->others, POOL_WORD_EPOCH(lines[i].word));
		view->hurry |= lines[i].word & POOL_BEAT_HURRY;
	}
	/* S3. Who was quarantined and came back is not to go on, either: what it knows may be hours old. */
	if (p->slot >= n || lines[p->slot].serial != p->serial || lines[p->slot].quarantined)
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
	uint64_t posted, known = p->epoch; /* others may learn of a later one while we wait */
	int err = s && lines ? POOL_AGAIN : -FAR_ENOMEM;

	FAR_ASSERT(p->high <= max && p->slot < max);
	/* Twice as a rule: what was added is READ with its slack. `high` only grows, also by what other fibers READ
	 * meanwhile, and each turn but the last lets it grow: so this ends, whatever the far word says. */
	while (err == POOL_AGAIN) {
		n = (uint32_t)far_min(p->high + SESSION_SLACK, max);
		posted = far_now(t);
		far_read(t, pool_home(offsetof(struct pool_super, epoch)), &s->epoch,
			 sizeof(*s) - offsetof(struct pool_super, epoch));
		far_read(t, pool_home(p->places[0].super.sessions_off), lines, n * sizeof(*lines));
		if ((err = far_wait(t)) != 0)
			break;
		if (s->epoch < known || s->epoch >= POOL_EPOCH_MAX || s->sessions_high > max) {
			err = -FAR_ECORRUPT;
			break;
		}
		p->high = (uint32_t)far_max(p->high, s->sessions_high);
		err = p->high > n ? POOL_AGAIN : 0;
	}
	if (!err) {
		FAR_ASSERT(p->high <= n);
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
pool_look_at_nodes(struct pool *p, struct far_task *t)
{
	struct {
		uint64_t generation, pages_free;
	} found[FAR_NODES_MAX];

	FAR_ASSERT(p->nodes_n <= FAR_LEN(found) && p->tick.held);
	for (unsigned i = 0; i < p->nodes_n; i++) {
		found[i].generation = p->places[i].super.generation;
		found[i].pages_free = p->places[i].free_pages;
		far_read(t, far_addr_make(i, offsetof(struct pool_super, generation)),
			 &found[i].generation, sizeof(found[i].generation));
		far_read(t, far_addr_make(i, offsetof(struct pool_super, pages_free)),
			 &found[i].pages_free, sizeof(found[i].pages_free));
	}
	/* A node that does not answer says nothing about itself; the operations that need it will fail. */
	(void)far_wait(t);
	for (unsigned i = 0; i < p->nodes_n; i++) {
		struct pool_place *place = &p->places[i];

		place->free_pages = far_min(found[i].pages_free, place->super.pages_n);
		if (found[i].generation != place->super.generation)
			p->err = -FAR_ENODE;
	}
	return p->err;
}

int
pool_ask_nodes(struct pool *p, struct far_task *t)
{
	uint64_t generation[FAR_NODES_MAX];

	FAR_ASSERT(p->nodes_n <= FAR_LEN(generation));
	if (p->nodes_n == 1)
		return 0;
	for (unsigned i = 0; i < p->nodes_n; i++)
		far_read(t, far_addr_make(i, offsetof(struct pool_super, generation)),
			 &generation[i], sizeof(generation[i]));
	return far_wait(t);
}

/* S1. -FAR_EACCESS: some node may not stop it. The others are asked all the same: another user's node may be able to,
 * and the home node's mark tells the client where it stands when it goes on. */
static int
pool_fence(struct pool *p, struct far_task *t, uint64_t serial)
{
	int refused = 0;

	FAR_ASSERT(serial && serial != p->serial);
	for (unsigned i = 0; i < p->nodes_n; i++) {
		unsigned node = (i + 1) % p->nodes_n;
		struct control_request req = { .code = CONTROL_FENCE, .serial = serial };
		struct control_reply reply;
		int err;

		if (far_zoo(p->zoo, ZOO_LEASE_IS_FENCE) ||
		    (node && far_zoo(p->zoo, ZOO_FENCE_HOME_ONLY)))
			continue;
		err = pool_call(p, t, node, &req, &reply);
		if (err && err != -FAR_EACCESS)
			return err;
		refused = refused ? refused : err;
	}
	return refused;
}

/* Fences the session in line `i` when it is silent. 1: it is gone; 0: it is not silent; or -FAR_E. */
static int
pool_fence_line(struct pool *p, struct far_task *t, uint32_t i)
{
	uint64_t serial = p->watch[i].serial;
	int err;

	FAR_ASSERT(p->watch[i].since_ns <= far_now(t));
	if (!serial || serial == p->serial || !pool_watch_silent(p, i) ||
	    far_zoo(p->zoo, ZOO_SILENT_IGNORED))
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
	FAR_ASSERT(p->tick.held);
	for (uint32_t i = 0; i < p->places[0].super.sessions_n && i < p->high; i++) {
		int err = pool_fence_line(p, t, i);

		if (err < 0 && err != -FAR_EACCESS)
			return err;
	}
	return 0;
}

int
pool_others(struct pool *p, struct far_task *t)
{
	struct pool_view view;
	int err = pool_read_view(p, t, &view);

	return err ? err : (int)view.sessions_n;
}

int
pool_gone(struct pool *p, struct far_task *t, uint64_t serial)
{
	struct far_count *before;
	struct pool_view view;
	int err;

	FAR_ASSERT(p->serial);
	if (serial == p->serial)
		return pool_state(p);
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
		if (reply.first >> POOL_SEQUENCE_BITS ||
		    reply.first % ((uint64_t)1 << POOL_RANGE_BITS))
			return -FAR_ECORRUPT;
		/* Another fiber may have got a range meanwhile; the rest of that one is not used, which is harmless. */
		p->version_next = reply.first;
		p->version_end = reply.first + ((uint64_t)1 << POOL_RANGE_BITS);
	}
	FAR_ASSERT(p->slot < POOL_SESSIONS && p->version_next < p->version_end);
	*version = (uint64_t)(p->slot + 1) << POOL_SEQUENCE_BITS | p->version_next++;
	return 0;
}

uint64_t
pool_serial(const struct pool *p)
{
	return p->serial;
}

uint64_t
pool_lease(const struct pool *p)
{
	return p->lease_ns;
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
