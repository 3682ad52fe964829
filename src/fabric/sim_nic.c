/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_nic.c -- the performance mode of the simulated fabric: chains move through the timing model of nic.h.
 *
 * One queue of events in the order of time, and among those of one moment in the order in which they were made. A chain
 *
 *	SIM_BELL    has been posted: its operations queue up at the client's card,
 *	SIM_ARRIVE  (each) reach the node's,
 *	SIM_EFFECT  take effect there, all words in one moment,
 *	SIM_BACK    and are answered;
 *	SIM_DONE    the chain is complete: it queues up at its thread,
 *	SIM_TAKE    which takes it, so that its fiber runs.
 *
 * A thread is a server too: while it posts or waits for a lock it takes nothing. Fibers compute in no time; what their
 * computing costs is added where they post (far_sim_spend, nic_profile.wake).
 *
 * Time moves only when no fiber can run, and never past a timer of the loop.
 */
#include <string.h>

#include "fabric/nic.h"
#include "fabric/sim_impl.h"
#include "fiber/task.h"

enum {
	SIM_PATIENCE = 64, /* polls for which fibers that only yield hold up time */
};

enum sim_what {
	SIM_BELL,
	SIM_ARRIVE,
	SIM_EFFECT,
	SIM_BACK,
	SIM_DONE,
	SIM_TAKE,
};

struct sim_timed;

/* One operation on its way. */
struct sim_job {
	struct sim_timed *chain;
	struct far_op *op;
	struct nic_op nic;
	struct sim_job *next; /* in its queue's send list, or free */
};

/* One chain on its way. */
struct sim_timed {
	struct sim_run *run;
	uint32_t left;        /* operations without an answer */
	uint64_t at;          /* the last answer is there */
	int status;
	bool cut;             /* nothing of it takes effect any more */
	bool first;           /* opens a batch */
	struct sim_timed *next; /* in a thread's list, or free */
	struct sim_timed *before, *after; /* of all in flight */
};

/* A queue pair: one per node, with one lock. */
struct sim_queue {
	struct nic_lock lock;
	struct nic_pair pairs[FAR_NODES_MAX];
	struct sim_job *send[FAR_NODES_MAX], **send_tail[FAR_NODES_MAX];
};

struct sim_list {
	struct sim_timed *first, **tail;
};

/* A client's thread. */
struct sim_thread {
	struct sim_conn *conn;
	struct nic_port *port;
	struct sim_queue *queue, own;
	uint64_t busy;           /* until then */
	struct sim_list ready;   /* chains to take */
	struct sim_list batch;   /* chains to post together */
	bool takes;              /* a SIM_TAKE is on its way */
	bool dirty;              /* in nic.dirty */
	struct sim_thread *next; /* there */
};

struct sim_event {
	uint64_t at, order;
	enum sim_what what;
	void *who; /* sim_job, sim_timed or sim_thread */
};

struct sim_nic {
	struct nic_profile profile;
	uint64_t page_len;
	unsigned machines, queues_n;
	struct nic_port *ports;
	struct nic_node nodes[FAR_NODES_MAX];
	struct sim_queue *queues; /* shared ones */
	uint64_t now, order;
	struct sim_event *heap;
	uint32_t heap_n, heap_max;
	struct sim_job *free_jobs;
	struct sim_timed *free_timed;
	struct sim_timed *flying;
	struct sim_thread *dirty;
	unsigned patience;
};

/* Events ------------------------------------------------------------------------------------------------------ */

static bool
sim_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static bool
sim_heap_grow(struct sim_nic *n)
{
	uint32_t max = n->heap_max ? n->heap_max * 2 : 1024;
	struct sim_event *heap = realloc(n->heap, max * sizeof(*heap));

	if (!heap)
		return false;
	n->heap = heap;
	n->heap_max = max;
	return true;
}

/* There is no client that could be told of a lost event, so running out of memory ends the program. */
static void
sim_event_push(struct sim_nic *n, uint64_t at, enum sim_what what, void *who)
{
	struct sim_event e = { far_max(at, n->now), n->order++, what, who };
	uint32_t i;

	FAR_ASSERT(n->heap_n < n->heap_max || sim_heap_grow(n));
	for (i = n->heap_n++; i > 0 && sim_before(&e, &n->heap[(i - 1) / 2]); i = (i - 1) / 2)
		n->heap[i] = n->heap[(i - 1) / 2];
	n->heap[i] = e;
}

static struct sim_event
sim_event_pop(struct sim_nic *n)
{
	struct sim_event top = n->heap[0], last = n->heap[--n->heap_n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < n->heap_n) {
		if (child + 1 < n->heap_n && sim_before(&n->heap[child + 1], &n->heap[child]))
			child++;
		if (!sim_before(&n->heap[child], &last))
			break;
		n->heap[i] = n->heap[child];
		i = child;
	}
	n->heap[i] = last;
	return top;
}

/* Lists ------------------------------------------------------------------------------------------------------- */

static void
sim_list_add(struct sim_list *l, struct sim_timed *c)
{
	if (!l->first)
		l->tail = &l->first;
	c->next = NULL;
	*l->tail = c;
	l->tail = &c->next;
}

static struct sim_timed *
sim_list_take(struct sim_list *l)
{
	struct sim_timed *c = l->first;

	if (c)
		l->first = c->next;
	return c;
}

static struct sim_timed *
sim_timed_new(struct sim_nic *n, struct sim_run *r)
{
	struct sim_timed *c = n->free_timed;

	if (c)
		n->free_timed = c->next;
	else if (!(c = malloc(sizeof(*c))))
		return NULL;
	*c = (struct sim_timed){ .run = r, .left = r->ops_left, .status = r->chain->status };
	c->after = n->flying;
	if (c->after)
		c->after->before = c;
	n->flying = c;
	return c;
}

static void
sim_timed_free(struct sim_nic *n, struct sim_timed *c)
{
	if (c->after)
		c->after->before = c->before;
	if (c->before)
		c->before->after = c->after;
	else
		n->flying = c->after;
	c->next = n->free_timed;
	n->free_timed = c;
}

static void
sim_thread_mark(struct sim_nic *n, struct sim_thread *t)
{
	if (t->dirty)
		return;
	t->dirty = true;
	t->next = n->dirty;
	n->dirty = t;
}

/* A chain's way ----------------------------------------------------------------------------------------------- */

static bool
sim_is_bounded(const struct far_op *op)
{
	return op->code == FAR_OP_READ || op->code == FAR_OP_CAS || op->code == FAR_OP_FAA;
}

static struct nic_op
sim_nic_op(const struct sim_nic *n, const struct far_op *op, bool first)
{
	struct nic_op o = { .off = far_addr_off(op->addr),
			    .page_len = n->page_len,
			    .len = op->len,
			    .first = first };

	switch (op->code) {
	case FAR_OP_READ:
		o.in = op->len;
		break;
	case FAR_OP_WRITE:
		o.out = op->len;
		break;
	case FAR_OP_CALL:
		o.out = op->len;
		o.in = (uint32_t)op->reply_max;
		o.call = true;
		break;
	default:
		o.out = op->code == FAR_OP_CAS ? 16 : 8;
		o.in = 8;
		o.atomic = true;
		break;
	}
	return o;
}

static struct sim_job *
sim_job_new(struct sim_nic *n)
{
	struct sim_job *j = n->free_jobs;

	if (j)
		n->free_jobs = j->next;
	else
		j = malloc(sizeof(*j));
	/* As for events. */
	FAR_ASSERT(j);
	return j;
}

/* Sends what may be sent to `node` of a queue's requests, in their order. */
static void
sim_queue_send(struct sim_nic *n, struct sim_queue *q, unsigned node)
{
	struct nic_pair *pair = &q->pairs[node];
	struct sim_job *j;

	while ((j = q->send[node])) {
		struct sim_thread *t = j->chain->run->conn->thread;

		if (sim_is_bounded(j->op)) {
			if (n->profile.reads_max && pair->reads >= n->profile.reads_max)
				return;
			pair->reads++;
		}
		q->send[node] = j->next;
		sim_event_push(n, nic_request(&n->profile, t->port, n->now, &j->nic), SIM_ARRIVE,
			       j);
	}
}

static void
sim_bell(struct sim_nic *n, struct sim_timed *c)
{
	unsigned node = c->run->chain->node;
	struct sim_thread *t = c->run->conn->thread;
	struct sim_queue *q = t->queue;
	bool first = c->first;

	if (c->left == 0) {
		sim_event_push(n, n->now + n->profile.rtt, SIM_DONE, c);
		return;
	}
	for (struct far_op *op = c->run->next_op; c->run->ops_left; op = op->next) {
		struct sim_job *j = sim_job_new(n);

		*j = (struct sim_job){ .chain = c, .op = op, .nic = sim_nic_op(n, op, first) };
		first = false;
		if (!q->send[node])
			q->send_tail[node] = &q->send[node];
		*q->send_tail[node] = j;
		q->send_tail[node] = &j->next;
		t->port->in_flight++;
		c->run->ops_left--;
	}
	sim_queue_send(n, q, node);
}

static void
sim_effect(struct far_sim *s, struct sim_job *j)
{
	struct sim_timed *c = j->chain;
	struct sim_nic *n = s->nic;
	unsigned node = c->run->chain->node;

	if (!c->cut) {
		int err = sim_apply(s, c->run, j->op);

		c->run->began = true;
		/* What follows an operation that failed by itself has no effect. */
		if (err != 0) {
			c->status = err;
			c->cut = true;
		}
	}
	sim_event_push(n, nic_response(&n->profile, &n->nodes[node], n->now, &j->nic), SIM_BACK, j);
}

static void
sim_back(struct sim_nic *n, struct sim_job *j)
{
	struct sim_timed *c = j->chain;
	struct sim_thread *t = c->run->conn->thread;
	unsigned node = c->run->chain->node;

	c->at = far_max(c->at, nic_receive(&n->profile, t->port, n->now, &j->nic));
	t->port->in_flight--;
	if (sim_is_bounded(j->op)) {
		t->queue->pairs[node].reads--;
		sim_queue_send(n, t->queue, node);
	}
	j->next = n->free_jobs;
	n->free_jobs = j;
	if (--c->left == 0)
		sim_event_push(n, c->at, SIM_DONE, c);
}

/* The thread takes the next complete chain as soon as it can. */
static void
sim_thread_next(struct sim_nic *n, struct sim_thread *t)
{
	if (t->takes || !t->ready.first)
		return;
	t->takes = true;
	sim_event_push(n, far_max(n->now, t->busy) + n->profile.wake, SIM_TAKE, t);
}

static void
sim_thread_take(struct far_sim *s, struct sim_thread *t)
{
	struct sim_timed *c = sim_list_take(&t->ready);
	struct sim_run *r = c->run;
	int status = c->status;

	t->takes = false;
	t->busy = far_max(t->busy, s->nic->now);
	sim_timed_free(s->nic, c);
	sim_end(s, r, status);
	sim_thread_mark(s->nic, t);
	t->conn->base.poller.poll(&t->conn->base.poller, false);
}

/* True when a fiber may have something to do now. */
static bool
sim_happen(struct far_sim *s, const struct sim_event *e)
{
	struct sim_nic *n = s->nic;
	struct sim_timed *c = e->who;
	struct sim_job *j = e->who;

	switch (e->what) {
	case SIM_BELL:
		sim_bell(n, c);
		return false;
	case SIM_ARRIVE:
		sim_event_push(n,
			       nic_execute(&n->profile, &n->nodes[j->chain->run->chain->node],
					   &j->chain->run->conn->thread->queue
						    ->pairs[j->chain->run->chain->node],
					   n->now, &j->nic),
			       SIM_EFFECT, j);
		return false;
	case SIM_EFFECT:
		sim_effect(s, j);
		return false;
	case SIM_BACK:
		sim_back(n, j);
		return false;
	case SIM_DONE:
		sim_list_add(&c->run->conn->thread->ready, c);
		sim_thread_next(n, c->run->conn->thread);
		return false;
	case SIM_TAKE:
		sim_thread_take(s, e->who);
		return true;
	}
	return false;
}

/* Posting ----------------------------------------------------------------------------------------------------- */

/* One doorbell for all chains to one node among those that the thread has gathered. */
static void
sim_thread_ring(struct sim_nic *n, struct sim_thread *t, struct sim_timed *list, unsigned node)
{
	uint32_t verbs = 0;
	bool first = true;

	for (struct sim_timed *c = list; c; c = c->next)
		if (c->run->chain->node == node)
			verbs += c->left;
	t->busy = nic_post(&n->profile, &t->queue->lock, far_max(n->now, t->busy), verbs);
	FAR_ASSERT(t->busy != UINT64_MAX);
	for (struct sim_timed *c = list; c; c = c->next) {
		if (c->run->chain->node != node)
			continue;
		c->first = first;
		first = false;
		sim_event_push(n, t->busy, SIM_BELL, c);
	}
}

static void
sim_thread_flush(struct sim_nic *n, struct sim_thread *t)
{
	struct sim_timed *list = t->batch.first;
	uint32_t nodes = 0;

	t->batch.first = NULL;
	for (struct sim_timed *c = list; c; c = c->next)
		nodes |= 1U << c->run->chain->node;
	for (unsigned node = 0; nodes >> node; node++)
		if (nodes >> node & 1)
			sim_thread_ring(n, t, list, node);
}

/* No fiber runs any more: threads send what they gathered, or take what came meanwhile. */
static void
sim_nic_settle(struct sim_nic *n)
{
	struct sim_thread *t;

	while ((t = n->dirty)) {
		n->dirty = t->next;
		t->dirty = false;
		sim_thread_next(n, t);
		if (!t->takes)
			sim_thread_flush(n, t);
	}
}

int
sim_nic_post(struct far_sim *s, struct sim_run *r)
{
	struct sim_nic *n = s->nic;
	struct sim_thread *t = r->conn->thread;
	struct sim_timed *c = sim_timed_new(n, r);

	if (!c) {
		sim_end(s, r, -FAR_ENOMEM);
		return 0;
	}
	n->now = far_max(n->now, s->now * NIC_PS);
	sim_list_add(&t->batch, c);
	if (n->profile.batch)
		sim_thread_mark(n, t);
	else
		sim_thread_flush(n, t);
	return 0;
}

void
sim_nic_cut(struct far_sim *s, struct sim_conn *k, int node, int status)
{
	for (struct sim_timed *c = s->nic ? s->nic->flying : NULL; c; c = c->after) {
		if (c->cut || (k && c->run->conn != k) ||
		    (node >= 0 && c->run->chain->node != node))
			continue;
		c->cut = true;
		c->status = status == -FAR_EUNSURE && !c->run->began ? -FAR_ENODE : status;
	}
}

/* The world's clock ------------------------------------------------------------------------------------------- */

static void
sim_nic_advance(struct far_sim *s, uint64_t at)
{
	s->nic->now = far_max(s->nic->now, at);
	s->now = far_max(s->now, s->nic->now / NIC_PS);
}

int
sim_nic_poll(struct far_sim *s, bool idle)
{
	struct sim_nic *n = s->nic;

	if (s->done_n)
		return sim_collect(s);
	if (!idle && ++n->patience < SIM_PATIENCE)
		return 0;
	n->patience = 0;
	sim_nic_settle(n);
	while (n->heap_n) {
		struct sim_event e;

		if (s->loop->heap_n && s->loop->heap[0]->when <= n->heap[0].at / NIC_PS) {
			sim_nic_advance(s, s->loop->heap[0]->when * NIC_PS);
			return 0;
		}
		e = sim_event_pop(n);
		sim_nic_advance(s, e.at);
		s->steps++;
		if (sim_happen(s, &e))
			return 1;
	}
	return 0;
}

bool
sim_nic_busy(const struct far_sim *s)
{
	return s->nic && (s->nic->heap_n > 0 || s->nic->dirty);
}

/* Opening and closing ----------------------------------------------------------------------------------------- */

void
sim_nic_close(struct far_sim *s)
{
	struct sim_nic *n = s->nic;
	struct sim_job *j;
	struct sim_timed *c;

	if (!n)
		return;
	for (unsigned i = 0; i < s->nodes_n; i++)
		nic_node_fini(&n->nodes[i]);
	for (unsigned i = 0; i < n->queues_n; i++)
		nic_lock_fini(&n->queues[i].lock);
	while ((j = n->free_jobs)) {
		n->free_jobs = j->next;
		free(j);
	}
	while ((c = n->free_timed)) {
		n->free_timed = c->next;
		free(c);
	}
	free(n->queues);
	free(n->ports);
	free(n->heap);
	free(n);
	s->nic = NULL;
}

int
far_sim_time(struct far_sim *s, const struct far_sim_timing *o)
{
	struct sim_nic *n;
	int err = 0;

	FAR_ASSERT(!s->conns);
	sim_nic_close(s);
	if (!o)
		return 0;
	n = s->nic = calloc(1, sizeof(*n));
	if (!n)
		return -FAR_ENOMEM;
	n->profile = *o->profile;
	n->page_len = n->profile.page_len / far_max(o->footprint, 1);
	n->machines = o->machines ? o->machines : 1;
	n->queues_n = o->queues;
	n->ports = calloc(n->machines, sizeof(*n->ports));
	n->queues = calloc(n->queues_n + 1, sizeof(*n->queues));
	if (!n->ports || !n->queues)
		err = -FAR_ENOMEM;
	for (unsigned i = 0; i < s->nodes_n && err == 0; i++)
		err = nic_node_init(&n->profile, &n->nodes[i]);
	if (err != 0)
		sim_nic_close(s);
	return err;
}

int
sim_nic_connect(struct sim_conn *k)
{
	struct sim_nic *n = k->sim->nic;
	struct sim_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return -FAR_ENOMEM;
	t->conn = k;
	t->queue = &t->own;
	t->port = n->ports;
	k->thread = t;
	return 0;
}

void
sim_nic_disconnect(struct sim_conn *k)
{
	struct sim_thread **at = k->sim->nic ? &k->sim->nic->dirty : NULL;

	if (!k->thread)
		return;
	for (; at && *at; at = &(*at)->next) {
		if (*at == k->thread) {
			*at = k->thread->next;
			break;
		}
	}
	nic_lock_fini(&k->thread->own.lock);
	free(k->thread);
}

unsigned
sim_nic_credits(const struct far_sim *s, unsigned credits)
{
	const struct nic_profile *p = &s->nic->profile;

	if (p->loads)
		return 1;
	return credits ? credits : (unsigned)p->credits;
}

void
far_sim_place(struct far_fabric *f, unsigned machine, unsigned queue)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);
	struct sim_nic *n = k->sim->nic;

	FAR_ASSERT(n && machine < n->machines &&
		   (queue == FAR_SIM_OWN_QUEUE || queue < n->queues_n));
	k->thread->port = &n->ports[machine];
	k->thread->queue = queue == FAR_SIM_OWN_QUEUE ? &k->thread->own : &n->queues[queue];
}

void
far_sim_spend(struct far_fabric *f, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	if (k->thread)
		k->thread->busy = far_max(k->thread->busy, k->sim->now * NIC_PS) + ns * NIC_PS;
}
