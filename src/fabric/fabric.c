/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c -- noting, chains, credits and waiting: what all backends share.
 *
 * A task notes operations in an array that stays with it in the pool of tasks. far_wait() links them into one chain
 * per node, shows each chain to the hooks and posts it, or queues it when the connection's credits are used up.
 * Finished chains come from the backend's poll(), which the loop calls; far_wait() calls it itself when no other
 * task is runnable, which spares a lone task two switches per round trip.
 */
#include <string.h>

#include "base/base.h"
#include "fabric/backend.h"
#include "fabric/count.h"
#include "fabric/shared_queue.h"
#include "fabric/shm.h"
#include "fabric/tcp.h"
#include "fabric/verbs.h"
#include "fiber/task.h"

enum {
	FABRIC_LEN_MAX = 1 << 30, /* bytes of one operation */
	FABRIC_OPS = 32,    /* operations that a task's array holds at first */
	FABRIC_ALONE = 64,  /* waits in a row that a lone task polls for itself */
};

/* The backends that a URI can name. */
static const struct far_fabric_ops *const fabric_backends[] = {
	&shm_fabric_ops,
	&tcp_fabric_ops,
	&verbs_fabric_ops,
};

/* What one task noted and waits for. */
struct fabric_notes {
	struct fiber_local local;
	struct far_op *ops;
	uint32_t n, max;
	uint32_t fences; /* bit per node: the next operation there starts after all noted before */
	int err;           /* of noting */
	uint32_t pending;  /* chains not yet back */
	uint32_t alone;
	uint32_t chains_n;
	uint8_t places[FAR_NODES_MAX]; /* of a node's chain among them, while they are made */
	struct far_chain chains[FAR_NODES_MAX];
};

/* Noting --------------------------------------------------------------------------------------------------- */

static void
fabric_notes_clear(struct fabric_notes *s)
{
	s->n = 0;
	s->fences = 0;
	s->err = 0;
}

/* Nothing of the ended task may show in the next one: the simulator's runs depend on their seed alone. */
static void
fabric_notes_reset(struct fiber_local *local)
{
	struct fabric_notes *s = FAR_CONTAINER(local, struct fabric_notes, local);

	fabric_notes_clear(s);
	s->alone = 0;
}

static void
fabric_notes_free(struct fiber_local *local)
{
	struct fabric_notes *s = FAR_CONTAINER(local, struct fabric_notes, local);

	free(s->ops);
	free(s);
}

static void
fabric_nothing(struct fiber_local *local)
{
}

/* Stands for the notes of a task that could not get any, until its far_wait(). */
static struct fiber_local fabric_no_notes = { fabric_nothing, fabric_nothing };

static struct fabric_notes *
fabric_notes_new(struct far_task *t)
{
	struct fabric_notes *s = calloc(1, sizeof(*s));

	if (!s) {
		t->local = &fabric_no_notes;
		return NULL;
	}
	s->local.reset = fabric_notes_reset;
	s->local.free = fabric_notes_free;
	t->local = &s->local;
	return s;
}

/* The task's notes, made at first need; NULL when there is no memory for them. */
static inline struct fabric_notes *
fabric_notes(struct far_task *t)
{
	if (!t->local)
		return fabric_notes_new(t);
	return t->local == &fabric_no_notes ? NULL
					    : FAR_CONTAINER(t->local, struct fabric_notes, local);
}

static bool
fabric_notes_grow(struct fabric_notes *s)
{
	uint32_t max = s->max ? s->max * 2 : FABRIC_OPS;
	struct far_op *ops = realloc(s->ops, max * sizeof(*ops));

	if (!ops) {
		s->err = -FAR_ENOMEM;
		return false;
	}
	s->ops = ops;
	s->max = max;
	return true;
}

/* A new operation, or NULL: far_wait() will say so. */
static inline struct far_op *
fabric_note(struct far_task *t, enum far_op_code code, struct far_addr addr, void *buf, size_t len)
{
	struct fabric_notes *s = fabric_notes(t);
	uint32_t node = far_addr_node(addr) % FAR_NODES_MAX;
	struct far_op *op;

	if (!s || (s->n == s->max && !fabric_notes_grow(s)))
		return NULL;
	op = &s->ops[s->n++];
	op->code = (uint8_t)code;
	op->flags = s->fences >> node & 1 ? FAR_OP_FENCE : 0;
	op->pad = 0;
	op->len = (uint32_t)len;
	if (len > FABRIC_LEN_MAX)
		s->err = -FAR_EACCESS;
	op->addr = addr;
	op->buf = buf;
	s->fences &= ~(1U << node);
	return op;
}

void
far_read(struct far_task *t, struct far_addr addr, void *buf, size_t len)
{
	fabric_note(t, FAR_OP_READ, addr, buf, len);
}

void
far_write(struct far_task *t, struct far_addr addr, const void *buf, size_t len)
{
	fabric_note(t, FAR_OP_WRITE, addr, (void *)(uintptr_t)buf, len);
}

void
far_cas(struct far_task *t, struct far_addr addr, uint64_t expect, uint64_t desired, uint64_t *old)
{
	struct far_op *op = fabric_note(t, FAR_OP_CAS, addr, old, 8);

	if (op) {
		op->expect = expect;
		op->desired = desired;
	}
}

void
far_faa(struct far_task *t, struct far_addr addr, uint64_t addend, uint64_t *old)
{
	struct far_op *op = fabric_note(t, FAR_OP_FAA, addr, old, 8);

	if (op)
		op->addend = addend;
}

void
far_fence(struct far_task *t)
{
	struct fabric_notes *s = fabric_notes(t);

	if (s)
		s->fences = (1U << FAR_NODES_MAX) - 1;
}

void
far_forget(struct far_task *t)
{
	if (t->local == &fabric_no_notes)
		t->local = NULL;
	else if (t->local)
		fabric_notes_clear(FAR_CONTAINER(t->local, struct fabric_notes, local));
}

struct far_count *
far_account(struct far_task *t, struct far_count *c)
{
	struct far_count *old = t->account;

	t->account = c;
	return old;
}

struct far_count *
far_account_now(struct far_task *t)
{
	return t->account;
}

/* Sending -------------------------------------------------------------------------------------------------- */

/* The lock of a shared queue pair, if there is one. */
static inline void
fabric_lock(struct far_fabric *f)
{
	if (f->shared_queue)
		far_shared_queue_lock(f->shared_queue);
}

static inline void
fabric_unlock(struct far_fabric *f)
{
	if (f->shared_queue)
		far_shared_queue_unlock(f->shared_queue);
}

/* Posts a chain; false when the backend has no room now. */
static bool
fabric_post(struct far_fabric *f, struct far_chain *c)
{
	uint32_t n = c->n;
	int err;

	fabric_lock(f);
	err = f->ops->post(f, c);
	fabric_unlock(f);
	if (err == -FAR_EAGAIN)
		return false;
	FAR_ASSERT(err == 0);
	f->in_flight++;
	f->ops_in_flight += n;
	return true;
}

static inline bool
fabric_has_credits(const struct far_fabric *f, const struct far_chain *c)
{
	return f->in_flight == 0 || f->ops_in_flight + c->n <= f->credits;
}

static void
fabric_submit(struct far_fabric *f, struct far_chain *c)
{
	c->number = ++f->chains;
	for (struct far_hook *h = f->hooks; h; h = h->next) {
		if (h->before)
			h->before(h, c);
	}
	if (!f->queue && fabric_has_credits(f, c) && fabric_post(f, c))
		return;
	c->next = NULL;
	*f->queue_tail = c;
	f->queue_tail = &c->next;
}

/* Posts what waited for credits, in order. */
static void
fabric_submit_queued(struct far_fabric *f)
{
	while (f->queue && fabric_has_credits(f, f->queue)) {
		struct far_chain *c = f->queue, *next = c->next;

		/* Taken off first: the backend owns c->next once it has accepted. */
		f->queue = next;
		if (!fabric_post(f, c)) {
			c->next = next;
			f->queue = c;
			return;
		}
		if (!next)
			f->queue_tail = &f->queue;
	}
}

/* A chain was lost on its way: what it would have written may come to pass at any time until the node is told to let
 * nothing of this client in any more. */
static void
fabric_note_lost(struct far_fabric *f, const struct far_chain *c)
{
	const struct far_op *op = c->first;

	for (uint32_t i = 0; i < c->n; i++, op = op->next) {
		if (op->code != FAR_OP_READ && op->code != FAR_OP_CALL)
			f->unsure |= 1U << c->node;
	}
}

static void
fabric_finish(struct far_fabric *f, struct far_chain *c)
{
	struct far_task *t = c->task;
	struct fabric_notes *s = FAR_CONTAINER(t->local, struct fabric_notes, local);

	/* G4: once. */
	FAR_ASSERT(s->pending > 0 && f->in_flight > 0);
	f->in_flight--;
	f->ops_in_flight -= c->n;
	for (struct far_hook *h = f->hooks; h; h = h->next) {
		if (h->after)
			h->after(h, c);
	}
	if (c->status == -FAR_EUNSURE)
		fabric_note_lost(f, c);
	if (--s->pending == 0 && fiber_stopped(t))
		fiber_wake(t);
}

/* Takes all finished chains; returns their number. */
static int
fabric_progress(struct far_fabric *f)
{
	struct far_chain *c;
	int n = 0;

	for (; f->in_flight > 0; n++) {
		fabric_lock(f);
		c = f->ops->poll(f);
		fabric_unlock(f);
		if (!c)
			break;
		fabric_finish(f, c);
	}
	if (f->queue)
		fabric_submit_queued(f);
	return n;
}

static int
fabric_poll(struct far_poller *p, bool idle)
{
	struct far_fabric *f = FAR_CONTAINER(p, struct far_fabric, poller);
	int n = fabric_progress(f);

	if (n == 0 && idle && f->ops->idle)
		f->ops->idle(f);
	return n;
}

static bool
fabric_busy(struct far_poller *p)
{
	struct far_fabric *f = FAR_CONTAINER(p, struct far_fabric, poller);

	return f->in_flight > 0 || f->queue;
}

/* Waiting -------------------------------------------------------------------------------------------------- */

/* Links the noted operations into one chain per node. -FAR_EACCESS: there is no such node. */
static int
fabric_group(struct far_fabric *f, struct far_task *t, struct fabric_notes *s)
{
	uint32_t seen = 0; /* nodes that have a chain, a bit each */

	s->chains_n = 0;
	for (struct far_op *op = s->ops, *end = op + s->n; op < end; op++) {
		unsigned node = far_addr_node(op->addr);
		struct far_chain *c;

		if (node >= f->nodes_n)
			return -FAR_EACCESS;
		op->next = NULL;
		if (seen >> node & 1) {
			c = &s->chains[s->places[node]];
			c->last->next = op;
			c->last = op;
			c->n++;
			continue;
		}
		seen |= 1U << node;
		s->places[node] = (uint8_t)s->chains_n;
		c = &s->chains[s->chains_n++];
		c->first = c->last = op;
		c->n = 1;
		c->node = (uint16_t)node;
		c->status = 0;
		c->task = t;
	}
	return 0;
}

static void
fabric_count(struct far_count *account, const struct fabric_notes *s)
{
	account->round_trips++;
	for (uint32_t i = 0; i < s->n; i++)
		fabric_count_op(account, &s->ops[i]);
}

/* Sends the noted operations and waits for all; they stay in the array, no longer noted. */
static int
fabric_round_trip(struct far_task *t, struct fabric_notes *s)
{
	struct far_fabric *f = t->conn;
	int err = fabric_group(f, t, s);

	if (err != 0)
		return err;
	if (t->account)
		fabric_count(t->account, s);
	s->pending = s->chains_n;
	for (uint32_t i = 0; i < s->chains_n; i++) {
		s->chains[i].cut = s->chains[i].n;
		fabric_submit(f, &s->chains[i]);
	}
	/* Not for ever: the loop has timers and other pollers to look after. */
	if (!t->loop->head && s->alone++ % FABRIC_ALONE != 0)
		fabric_progress(f);
	if (s->pending > 0)
		fiber_stop(t);
	FAR_ASSERT(s->pending == 0);
	for (uint32_t i = 0; i < s->chains_n; i++) {
		if (s->chains[i].status != 0)
			return s->chains[i].status;
	}
	return 0;
}

int
far_wait(struct far_task *t)
{
	struct fabric_notes *s = fabric_notes(t);
	int err;

	if (!s) {
		far_forget(t);
		return -FAR_ENOMEM;
	}
	err = s->err;
	if (err == 0 && s->n > 0)
		err = fabric_round_trip(t, s);
	fabric_notes_clear(s);
	return err;
}

int
far_call(struct far_task *t, unsigned node, const void *req, size_t req_len, void *reply,
	 size_t reply_max)
{
	struct far_op *op = fabric_note(t, FAR_OP_CALL, far_addr_make(node, 0),
					(void *)(uintptr_t)req, req_len);
	int err;

	if (!op)
		return far_wait(t);
	FAR_ASSERT(fabric_notes(t)->n == 1 && reply_max <= INT32_MAX);
	op->reply = reply;
	op->reply_max = reply_max;
	err = far_wait(t);
	if (err != 0)
		return err;
	/* The operation stays where it was until the task notes another one. */
	if (t->account)
		fabric_count_reply(t->account, op->reply_max);
	return (int)op->reply_max;
}

/* Connections ---------------------------------------------------------------------------------------------- */

void
far_fabric_init(struct far_fabric *f, const struct far_fabric_ops *ops, struct far_loop *l,
		const struct far_fabric_opts *opts)
{
	f->ops = ops;
	f->loop = l;
	f->poller.poll = fabric_poll;
	f->poller.busy = fabric_busy;
	f->credits = opts && opts->credits ? opts->credits : FAR_CREDITS;
	f->shared_queue = opts ? opts->shared_queue : NULL;
	f->queue_tail = &f->queue;
	if (!ops->quiet)
		far_loop_add(l, &f->poller);
}

int
far_fabric_open(const char *uri, struct far_loop *l, const struct far_fabric_opts *opts,
		struct far_fabric **out)
{
	for (size_t i = 0; i < FAR_LEN(fabric_backends); i++) {
		const struct far_fabric_ops *ops = fabric_backends[i];
		size_t len = strlen(ops->name);

		if (strncmp(uri, ops->name, len) == 0 && uri[len] == ':')
			return ops->open(uri + len + 1, l, opts, out);
	}
	return -FAR_EINVAL;
}

void
far_fabric_close(struct far_fabric *f)
{
	if (!f)
		return;
	if (!f->ops->quiet)
		far_loop_remove(f->loop, &f->poller);
	f->ops->close(f);
}

unsigned
far_fabric_nodes(const struct far_fabric *f)
{
	return f->nodes_n;
}

unsigned
far_fabric_caps(const struct far_fabric *f)
{
	return f->caps;
}

const char *
far_fabric_name(const struct far_fabric *f)
{
	return f->ops->name;
}

uint64_t
far_fabric_region_len(const struct far_fabric *f, unsigned node)
{
	return node < f->nodes_n ? f->region_len[node] : 0;
}

void
far_fabric_hook(struct far_fabric *f, struct far_hook *h)
{
	struct far_hook **at = &f->hooks;

	while (*at)
		at = &(*at)->next;
	h->next = NULL;
	*at = h;
}

void
far_fabric_unhook(struct far_fabric *f, struct far_hook *h)
{
	struct far_hook **at = &f->hooks;

	while (*at && *at != h)
		at = &(*at)->next;
	FAR_ASSERT(*at);
	*at = h->next;
}
