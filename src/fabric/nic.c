/* SPDX-License-Identifier: Apache-2.0 */
/* nic.c -- the servers of the timing model, and the order in which an operation passes them. */
#include "fabric/nic.h"

#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"
#include "base/rand.h"

/* Servers --------------------------------------------------------------------------------------------------- */

/* Something that takes `hold` comes to a server at `at`; returns when it is through. */
static uint64_t
nic_serve(uint64_t *server, uint64_t at, uint64_t hold)
{
	*server = far_max(*server, at) + hold;
	return *server;
}

/* The far end of a wire: what left the near end by and by arrives by and by, so that an idle wire costs its time once.
 * `at` is the end of its arrival when nothing is in the way. */
static uint64_t
nic_serve_tail(uint64_t *server, uint64_t at, uint64_t hold)
{
	*server = far_max(*server, at - far_min(at, hold)) + hold;
	return *server;
}

/* Time on a wire of `len` bytes in packets. */
static uint64_t
nic_wire(const struct nic_profile *p, uint64_t per_kib, uint64_t len)
{
	uint64_t packets = len && p->mtu ? (len + p->mtu - 1) / p->mtu : 1;

	return (len + packets * p->frame) * per_kib >> 10;
}

/* The lock of a queue pair ------------------------------------------------------------------------------------ */

static int
nic_lock_grow(struct nic_lock *l)
{
	uint32_t max = l->max ? l->max * 2 : 16;
	uint64_t *leaves = malloc(max * sizeof(*leaves));

	if (!leaves)
		return -FAR_ENOMEM;
	for (uint32_t i = 0; i < l->n; i++)
		leaves[i] = l->leaves[(l->first + i) & (l->max - 1)];
	free(l->leaves);
	l->leaves = leaves;
	l->first = 0;
	l->max = max;
	return 0;
}

void
nic_lock_fini(struct nic_lock *l)
{
	free(l->leaves);
	memset(l, 0, sizeof(*l));
}

uint64_t
nic_post(const struct nic_profile *p, struct nic_lock *l, uint64_t at, unsigned verbs)
{
	uint64_t hold = p->doorbell + p->request * verbs;

	while (l->n && l->leaves[l->first] <= at) {
		l->first = (l->first + 1) & (l->max - 1);
		l->n--;
	}
	if (l->n == l->max && nic_lock_grow(l) != 0)
		return UINT64_MAX;
	/* Each waiter pulls the lock's line to its core; the more there are, the less one more adds. */
	if (l->n && p->contention_half)
		hold += p->contention * l->n * p->contention_half / (p->contention_half + l->n);
	nic_serve(&l->free, at, hold);
	l->leaves[(l->first + l->n++) & (l->max - 1)] = l->free;
	return l->free;
}

/* Cards ------------------------------------------------------------------------------------------------------- */

int
nic_node_init(const struct nic_profile *p, struct nic_node *n)
{
	memset(n, 0, sizeof(*n));
	n->sets = p->pages / NIC_WAYS;
	n->pages = n->sets ? calloc(n->sets * NIC_WAYS, sizeof(*n->pages)) : NULL;
	return n->sets && !n->pages ? -FAR_ENOMEM : 0;
}

void
nic_node_fini(struct nic_node *n)
{
	free(n->pages);
	n->pages = NULL;
}

/* Brings a page to the front of its set; false when it was not there. */
static bool
nic_page_hit(struct nic_node *n, uint64_t page)
{
	uint64_t *set = n->pages + (page * 0x9e3779b97f4a7c15ULL >> 20) % n->sets * NIC_WAYS;
	unsigned i = 0;
	bool hit;

	while (i < NIC_WAYS - 1 && set[i] != page + 1)
		i++;
	hit = set[i] == page + 1;
	memmove(set + 1, set, i * sizeof(*set));
	set[0] = page + 1;
	return hit;
}

/* When the addresses of all pages that `op` touches are known. */
static uint64_t
nic_translate(const struct nic_profile *p, struct nic_node *n, uint64_t at, const struct nic_op *op)
{
	uint64_t ready = at, last;

	if (!n->sets || !op->page_len || !op->len)
		return at;
	last = (op->off + op->len - 1) / op->page_len;
	for (uint64_t page = op->off / op->page_len; page <= last; page++) {
		uint64_t begun;

		n->lookups++;
		if (nic_page_hit(n, page))
			continue;
		n->missed++;
		/* A few are fetched at once; more than that wait. */
		begun = nic_serve(&n->misses, at, p->page_miss / far_max(p->page_overlap, 1));
		ready = far_max(ready, begun - p->page_miss / far_max(p->page_overlap, 1) +
					       p->page_miss);
	}
	return ready;
}

/* An atomic starts when the unit and the lock of its address are free; it takes effect when the word is back. */
static uint64_t
nic_atomic(const struct nic_profile *p, struct nic_node *n, uint64_t at, uint64_t off)
{
	uint64_t *lock = &n->locks[off / 8 * 0x9e3779b97f4a7c15ULL >> 52];

	_Static_assert(NIC_ATOMIC_LOCKS == 1 << 12, "the hash has 12 bits");
	return nic_serve(lock, nic_serve(&n->unit, at, p->atomic), p->atomic_same);
}

uint64_t
nic_request(const struct nic_profile *p, struct nic_port *c, uint64_t at, const struct nic_op *op)
{
	uint64_t hold = p->client_message;

	/* The share of requests that the card had to drop is fetched again from the host's memory. */
	if (p->send_cache && c->in_flight > p->send_cache)
		hold += p->send_miss * (c->in_flight - p->send_cache) / c->in_flight;
	at = nic_serve(&c->engine, at, hold);
	return nic_serve(&c->out, at, nic_wire(p, p->client_out, op->out)) + p->rtt / 2;
}

uint64_t
nic_execute(const struct nic_profile *p, struct nic_node *n, struct nic_pair *q, uint64_t at,
	    const struct nic_op *op)
{
	uint64_t hold = p->node_message;

	at = nic_serve_tail(&n->in, at, nic_wire(p, p->node_in, op->out));
	/* What comes while the node has not yet begun with what came before is part of it. */
	if (op->first && at >= q->opens) {
		q->opens = far_max(n->engine, at);
		hold += p->node_batch;
	}
	at = nic_translate(p, n, nic_serve(&n->engine, at, hold), op);
	/* A queue pair's requests are executed one after another. */
	at = far_max(at, q->order);
	if (op->atomic)
		at = nic_atomic(p, n, at, op->off);
	if (op->call)
		at += p->call;
	q->order = at;
	return at;
}

uint64_t
nic_response(const struct nic_profile *p, struct nic_node *n, uint64_t at, const struct nic_op *op)
{
	return nic_serve(&n->out, at, nic_wire(p, p->node_out, op->in)) + p->rtt - p->rtt / 2;
}

uint64_t
nic_receive(const struct nic_profile *p, struct nic_port *c, uint64_t at, const struct nic_op *op)
{
	return nic_serve_tail(&c->in, at, nic_wire(p, p->client_in, op->in));
}

uint64_t
nic_alone(const struct nic_profile *p, const struct nic_op *op)
{
	uint64_t out = far_max(nic_wire(p, p->client_out, op->out),
			       nic_wire(p, p->node_in, op->out)),
		 in = far_max(nic_wire(p, p->node_out, op->in), nic_wire(p, p->client_in, op->in));

	return p->rtt + p->client_message + p->node_message + out + in +
	       (op->first ? p->node_batch : 0) + (op->atomic ? p->atomic + p->atomic_same : 0) +
	       (op->call ? p->call : 0);
}
