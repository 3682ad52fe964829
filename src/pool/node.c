/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c -- serves a memory node's control endpoint: dispatch, pool membership, sessions, FENCE.
 *
 * A session exists exactly while its line holds its serial. Opening one stores that word last; ending one stores 0
 * there last, after its chunks became orphans and its unfinished roots were dropped. So whoever finds the line free
 * finds nothing of the session owned, and a node that crashed on the way ends it again at start.
 */
#include <string.h>

#include "pool/node_impl.h"

/* Sessions -------------------------------------------------------------------------------------------------- */

uint64_t
node_serial_new(struct node *n)
{
	FAR_ASSERT(node_is_home(n));
	if (n->id.next_serial >= POOL_SERIAL_MAX)
		return 0;
	/* Stored before the serial is used: a crash may lose it, never give it twice. */
	node_put(&n->super->next_serial, ++n->id.next_serial);
	return n->id.next_serial;
}

static struct node_session *
node_session_find(struct node *n, uint64_t serial)
{
	for (uint64_t i = 0; serial != 0 && i < n->id.sessions_high; i++)
		if (n->sessions[i].serial == serial)
			return &n->sessions[i];
	return NULL;
}

/* Takes the lowest free line for `serial`; NULL: none is free. */
static struct node_session *
node_session_open(struct node *n, uint64_t serial)
{
	struct node_session *s = NULL;
	struct pool_private *p;
	uint64_t note[2] = { 0, 0 };
	unsigned i;

	FAR_ASSERT(serial != 0 && serial <= POOL_SERIAL_MAX && !node_session_find(n, serial));
	FAR_ASSERT(n->id.sessions_high <= n->id.sessions_n);
	for (i = 0; i < n->id.sessions_n && n->sessions[i].serial != 0; i++)
		;
	if (i == n->id.sessions_n)
		return NULL;
	s = &n->sessions[i];
	if (i >= n->id.sessions_high)
		node_put(&n->super->sessions_high, n->id.sessions_high = i + 1);
	if (n->env.who)
		n->env.who(n->env.arg, note);
	FAR_ASSERT(s->chunks == 0);
	p = &n->private[i];
	node_put(&p->note[0], note[0]);
	node_put(&p->note[1], note[1]);
	node_put(&p->serial, serial);
	node_put(&n->lines[i].quarantined, 0);
	/* It has announced the epoch of now: it has read nothing yet. */
	node_put(&n->lines[i].word, POOL_WORD(node_epoch(n), 0));
	node_put(&n->lines[i].serial, serial);
	s->serial = serial;
	s->chunks = s->quarantine_pages = 0;
	s->pid = (uint32_t)note[0];
	s->state = NODE_SESSION_LIVE;
	return s;
}

static void
node_gone_note(struct node *n, uint64_t serial)
{
	FAR_ASSERT(serial && n->gone_at < NODE_GONE);
	n->gone_floor = far_max(n->gone_floor, n->gone[n->gone_at]);
	n->gone[n->gone_at] = serial;
	n->gone_at = (n->gone_at + 1) % NODE_GONE;
}

/* What is quarantined here, for whoever wants to know why memory does not come back. */
static void
node_quarantine_count(struct node *n)
{
	uint64_t sessions = 0, pages = 0, pid = 0;

	for (uint64_t i = 0; i < n->id.sessions_high; i++) {
		const struct node_session *s = &n->sessions[i];

		if (s->serial == 0 || s->state != NODE_SESSION_QUARANTINED)
			continue;
		sessions++;
		pages += s->quarantine_pages;
		pid = pid ? pid : s->pid;
	}
	FAR_ASSERT(sessions <= n->id.sessions_high && pages <= n->id.pages_n);
	node_put(&n->super->quarantine_n, sessions);
	node_put(&n->super->quarantine_pages, pages);
	node_put(&n->super->quarantine_pid, pid);
}

static void
node_session_end(struct node *n, struct node_session *s, bool dirty)
{
	bool quarantined = s->state == NODE_SESSION_QUARANTINED;

	FAR_ASSERT(s->serial != 0 && (dirty || s->state == NODE_SESSION_LIVE));
	node_orphan(n, s, dirty);
	if (node_is_home(n))
		node_roots_leave(n, s);
	node_gone_note(n, s->serial);
	FAR_ASSERT(s->chunks == 0);
	node_put(&n->lines[node_slot(n, s)].serial, 0);
	s->serial = 0;
	if (quarantined)
		node_quarantine_count(n);
}

static bool
node_session_gone(const struct node *n, uint64_t serial)
{
	for (unsigned i = 0; i < NODE_GONE; i++)
		if (n->gone[i] == serial)
			return true;
	return serial <= n->gone_floor;
}

void
node_stopped(struct node *n, uint64_t serial)
{
	struct node_session *s = node_session_find(n, serial);

	if (s != NULL)
		node_session_end(n, s, true);
}

/* stop() turned out to be impossible: its chunks are quarantined until node_stopped(). */
static void
node_unstoppable(struct node *n, uint64_t serial)
{
	struct node_session *s = node_session_find(n, serial);

	if (s == NULL)
		return;
	s->state = NODE_SESSION_QUARANTINED;
	node_quarantine(n, s);
	FAR_ASSERT(s->quarantine_pages >= s->chunks);
	node_put(&n->lines[node_slot(n, s)].quarantined, 1);
	node_quarantine_count(n);
}

/* Requests -------------------------------------------------------------------------------------------------- */

static int
node_form(struct node *n, struct node_session *me, const struct control_request *req,
	  struct control_reply *reply)
{
	struct pool_super s = n->id;

	(void)me;
	(void)reply;
	if (req->nodes_n == 0 || req->nodes_n > POOL_NODES || req->node >= req->nodes_n ||
	    (req->pool_id[0] == 0 && req->pool_id[1] == 0))
		return -FAR_EINVAL;
	if (s.nodes_n != 0)
		return s.pool_id[0] == req->pool_id[0] && s.pool_id[1] == req->pool_id[1] &&
				       s.node == req->node && s.nodes_n == req->nodes_n
			       ? 0
			       : -FAR_EINVAL;
	s.pool_id[0] = req->pool_id[0];
	s.pool_id[1] = req->pool_id[1];
	s.node = req->node;
	s.nodes_n = req->nodes_n;
	for (unsigned i = 0; i < s.nodes_n; i++)
		s.generations[i] = req->generations[i];
	s.sum = node_super_sum(&s);
	/* The sum comes last: until then the old one tells node_super_read() that nothing was formed. */
	node_put(&n->super->pool_id[0], s.pool_id[0]);
	node_put(&n->super->pool_id[1], s.pool_id[1]);
	__atomic_store_n(&n->super->node, s.node, __ATOMIC_RELEASE);
	__atomic_store_n(&n->super->nodes_n, s.nodes_n, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < s.nodes_n; i++)
		node_put(&n->super->generations[i], s.generations[i]);
	node_put(&n->super->sum, s.sum);
	n->id = s;
	FAR_ASSERT(n->id.sum == node_super_sum(&n->id) && n->id.node < n->id.nodes_n);
	return 0;
}

static int
node_session(struct node *n, struct node_session *me, const struct control_request *req,
	     struct control_reply *reply)
{
	struct node_session *s;

	(void)req;
	if (me != NULL || !node_is_home(n))
		return -FAR_EINVAL;
	if ((reply->serial = node_serial_new(n)) == 0 ||
	    (s = node_session_open(n, reply->serial)) == NULL)
		return -FAR_ENOMEM;
	reply->slot = node_slot(n, s);
	FAR_ASSERT(s->serial == reply->serial && reply->slot < n->id.sessions_high);
	return 0;
}

static int
node_join(struct node *n, struct node_session *me, const struct control_request *req,
	  struct control_reply *reply)
{
	struct node_session *s = me;

	if (n->id.nodes_n == 0 || node_is_home(n) || req->serial == 0 ||
	    req->serial > POOL_SERIAL_MAX || (me != NULL && me->serial != req->serial))
		return -FAR_EINVAL;
	if (me == NULL && node_session_find(n, req->serial) != NULL)
		return -FAR_EEXIST;
	if (me == NULL && node_session_gone(n, req->serial))
		return -FAR_EFENCED;
	if (me == NULL && (s = node_session_open(n, req->serial)) == NULL)
		return -FAR_ENOMEM;
	FAR_ASSERT(s->serial == req->serial);
	reply->serial = req->serial;
	reply->slot = node_slot(n, s);
	return 0;
}

static int
node_leave(struct node *n, struct node_session *me, const struct control_request *req,
	   struct control_reply *reply)
{
	(void)reply;
	FAR_ASSERT(me && me->serial);
	if (req->flags & ~(uint32_t)CONTROL_DIRTY)
		return -FAR_EINVAL;
	node_session_end(n, me, req->flags & CONTROL_DIRTY);
	return 0;
}

static int
node_range(struct node *n, struct node_session *me, const struct control_request *req,
	   struct control_reply *reply)
{
	unsigned slot = node_slot(n, me);

	FAR_ASSERT(me->range_next > 0);
	(void)req;
	if (me->range_next >> (POOL_SEQUENCE_BITS - POOL_RANGE_BITS) != 0)
		return -FAR_ENOMEM;
	reply->first = me->range_next << POOL_RANGE_BITS;
	/* Stored before it is given. The line's next session goes on from there. */
	if (!far_zoo(n->env.zoo, ZOO_RANGE_REPEATED))
		node_put(&n->private[slot].range_next, ++me->range_next);
	return 0;
}

static int
node_fence(struct node *n, struct node_session *me, const struct control_request *req,
	   struct control_reply *reply)
{
	struct node_session *victim = node_session_find(n, req->serial);
	int err;

	(void)reply;
	FAR_ASSERT(me && me->state == NODE_SESSION_LIVE);
	if (req->serial == 0 || req->serial > POOL_SERIAL_MAX || req->serial == me->serial ||
	    (node_is_home(n) && req->serial > n->id.next_serial))
		return -FAR_EINVAL;
	if (victim == NULL) {
		/* Ended, or has not joined yet: then it never will. */
		if (!node_session_gone(n, req->serial))
			node_gone_note(n, req->serial);
		return 0;
	}
	err = far_zoo(n->env.zoo, ZOO_FENCE_UNCUT) ? 0 : n->env.stop(n->env.arg, req->serial);
	/* stop() only stops: what it means for the session is said here, or by node_stopped() later. */
	FAR_ASSERT(victim->serial == req->serial);
	if (err == 0)
		node_session_end(n, victim, true);
	else if (err == -FAR_EACCESS)
		node_unstoppable(n, req->serial);
	else if (err == -FAR_EAGAIN && victim->state == NODE_SESSION_LIVE)
		victim->state = NODE_SESSION_FENCING;
	return err == -FAR_EAGAIN ? NODE_WAIT : err;
}

enum { NODE_ANY = 1,
       NODE_HOME = 2 };

static const struct {
	int (*serve)(struct node *n, struct node_session *me, const struct control_request *req,
		     struct control_reply *reply);
	unsigned where; /* NODE_ANY: works without a session; NODE_HOME: on the home node only */
} node_handlers[] = {
	[CONTROL_FORM] = { node_form, NODE_ANY },
	[CONTROL_SESSION] = { node_session, NODE_ANY },
	[CONTROL_JOIN] = { node_join, NODE_ANY },
	[CONTROL_LEAVE] = { node_leave, 0 },
	[CONTROL_RANGE] = { node_range, NODE_HOME },
	[CONTROL_GRANT] = { node_grant, 0 },
	[CONTROL_RELEASE] = { node_release, 0 },
	[CONTROL_FENCE] = { node_fence, 0 },
	[CONTROL_ROOT_NEW] = { node_root_new, NODE_HOME },
	[CONTROL_ROOT_SET] = { node_root_set, NODE_HOME },
	[CONTROL_ROOT_DROP] = { node_root_drop, NODE_HOME },
	[CONTROL_ROOT_FREE] = { node_root_free, NODE_HOME },
	[CONTROL_TABLE_FREE] = { node_table_free, 0 },
	[CONTROL_SCAVENGED] = { node_scavenged, 0 },
};

/* A client that could not be stopped and has come back may still say that it goes. */
static bool
node_may_ask(const struct node_session *me, const struct control_request *req)
{
	return me->state == NODE_SESSION_LIVE ||
	       (me->state == NODE_SESSION_QUARANTINED && req->code == CONTROL_LEAVE &&
		req->flags == CONTROL_DIRTY);
}

static int
node_dispatch(struct node *n, uint64_t *session, const struct control_request *req,
	      struct control_reply *reply)
{
	struct node_session *me = node_session_find(n, *session);

	if (req->code >= FAR_LEN(node_handlers) || node_handlers[req->code].serve == NULL)
		return -FAR_EINVAL;
	if (*session != 0 && (me == NULL || !node_may_ask(me, req)))
		return -FAR_EFENCED;
	if (me == NULL && !(node_handlers[req->code].where & NODE_ANY))
		return -FAR_EINVAL;
	if (node_handlers[req->code].where & NODE_HOME && !node_is_home(n))
		return -FAR_EINVAL;
	FAR_ASSERT(!me || me->serial == *session);
	return node_handlers[req->code].serve(n, me, req, reply);
}

bool
node_serve(struct node *n, uint64_t *session, const struct control_request *req,
	   struct control_reply *reply)
{
	/* Shared memory under a request could change after it was checked. */
	const struct control_request mine = *req;
	int err;

	memset(reply, 0, sizeof(*reply));
	err = node_dispatch(n, session, &mine, reply);
	if (err < 0)
		memset(reply, 0, sizeof(*reply));
	if (err == 0 && mine.code == CONTROL_LEAVE)
		*session = 0;
	else if (err == 0 && (mine.code == CONTROL_SESSION || mine.code == CONTROL_JOIN))
		*session = reply->serial;
	FAR_ASSERT(err <= 0 || (err == NODE_WAIT && mine.code == CONTROL_FENCE));
	reply->err = err < 0 ? err : 0;
	return err != NODE_WAIT;
}

/* Start ----------------------------------------------------------------------------------------------------- */

/* One zeroed allocation for the node and its tables. */
static struct node *
node_new(void *region, const struct pool_super *id, const struct node_env *env)
{
	uint64_t spans_n = (id->pages_n + NODE_SPAN - 1) / NODE_SPAN;
	uint64_t orphans_n = (uint64_t)id->roots_n * 2 * POOL_CLASSES * 2;
	uint8_t *at;
	struct node *n;

	at = calloc(1, sizeof(*n) + id->pages_n * (sizeof(*n->words) + sizeof(*n->next)) +
			       id->roots_n * (sizeof(*n->names) + sizeof(*n->table_chunks)) +
			       id->sessions_n * sizeof(*n->sessions) + spans_n * sizeof(*n->spans) +
			       orphans_n * sizeof(*n->orphans));
	if (at == NULL)
		return NULL;
	n = (struct node *)at;
	n->id = *id;
	n->env = *env;
	n->region = region;
	n->super = region;
	n->lines = (void *)(n->region + id->sessions_off);
	n->roots = (void *)(n->region + id->roots_off);
	n->private = (void *)(n->region + id->private_off);
	n->pages = (void *)(n->region + id->pages_off);
	n->mixed = id->region_len < NODE_SMALL;
	n->spans_n = (uint32_t)spans_n;
	/* 8-byte tables first, so that all are aligned. */
	n->words = (void *)(at += sizeof(*n));
	n->names = (void *)(at += id->pages_n * sizeof(*n->words));
	n->sessions = (void *)(at += id->roots_n * sizeof(*n->names));
	n->spans = (void *)(at += id->sessions_n * sizeof(*n->sessions));
	n->orphans = (void *)(at += spans_n * sizeof(*n->spans));
	n->next = (void *)(at += orphans_n * sizeof(*n->orphans));
	n->table_chunks = (void *)(at + id->pages_n * sizeof(*n->next));
	FAR_ASSERT(((uintptr_t)n->words | (uintptr_t)n->names | (uintptr_t)n->sessions) % 8 == 0);
	return n;
}

/* Ends the sessions of an earlier run; their chunks are orphans already, their roots dropped. */
static int
node_sessions_load(struct node *n)
{
	for (unsigned i = 0; i < n->id.sessions_n; i++) {
		uint64_t serial = n->lines[i].serial, range = n->private[i].range_next;

		if (range == 0 || serial > POOL_SERIAL_MAX ||
		    (serial != 0 && i >= n->id.sessions_high) ||
		    (node_is_home(n) && serial > n->id.next_serial))
			return -FAR_ECORRUPT;
		n->sessions[i].range_next = range;
		if (serial == 0)
			continue;
		FAR_ASSERT(n->sessions[i].chunks == 0);
		n->sessions[i].serial = serial;
		node_session_end(n, &n->sessions[i], true);
	}
	node_quarantine_count(n);
	return 0;
}

static int
node_load(struct node *n, bool torn)
{
	int err;

	/* A FORM that did not get to its sum: take back what it stored. */
	if (torn) {
		node_put(&n->super->pool_id[0], 0);
		node_put(&n->super->pool_id[1], 0);
		__atomic_store_n(&n->super->node, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&n->super->nodes_n, 0, __ATOMIC_RELEASE);
		for (unsigned i = 0; i < POOL_NODES; i++)
			node_put(&n->super->generations[i], 0);
	}
	if ((err = node_pages_load(n)) != 0 || (err = node_roots_load(n)) != 0 ||
	    (err = node_sessions_load(n)) != 0)
		return err;
	FAR_ASSERT(n->pages_free == n->super->pages_free);
	for (unsigned i = 0; i < n->id.roots_n; i++)
		if (n->table_chunks[i] > 0 && n->names[i].state == 0)
			return -FAR_ECORRUPT;
	return 0;
}

int
node_open(void *region, uint64_t len, const struct node_env *env, struct node **out)
{
	struct pool_super id;
	struct node *n;
	bool torn;
	int err;

	if ((err = node_super_read(region, len, &id, &torn)) != 0)
		return err;
	if ((n = node_new(region, &id, env)) == NULL)
		return -FAR_ENOMEM;
	if ((err = node_load(n, torn)) != 0) {
		node_close(n);
		return err;
	}
	*out = n;
	return 0;
}

const struct pool_super *
node_identity(const struct node *n)
{
	return &n->id;
}

void
node_close(struct node *n)
{
	free(n);
}
