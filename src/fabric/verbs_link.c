/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_link.c -- chains as work requests of a reliable connection.
 *
 * What the guarantees rest on.
 *
 *	G1  devices move aligned words whole
 *	G2  atomics are those of the node's one device
 *	G3  a reliable connection executes requests in the order of their posts, but a WRITE may overtake the answer
 *	    of a READ or an atomic: the fence of an operation becomes that of its work request. No memory is
 *	    registered with relaxed ordering
 *	G4  completions come in the order of posts, and one of a later request stands for all before it; so only the
 *	    last request of a chain, and of what goes behind one doorbell, asks for one
 *	G5  addresses are checked here, because the node's device answers a wrong one with the end of the connection; it
 *	    checks them again
 *	G6  a WRITE is acknowledged when READs of the same device see it
 *
 * Buffers of callers are not registered. Results arrive in a ring of registered memory and are copied from there;
 * WRITEs are copied into it, or, when they are short, into the work request itself.
 *
 * A queue pair that failed stays failed. Its work requests, and those that its device flushed, may or may not have
 * taken effect, and nothing tells which: all of them end with -FAR_EUNSURE.
 */
#include "fabric/verbs_link.h"

#include <string.h>

#include <farside/error.h>

enum { VERBS_WC = 16 }; /* completions taken at once */

/* Connecting ------------------------------------------------------------------------------------------------- */

static int
verbs_link_agree(struct verbs_link *k)
{
	struct verbs_offer mine, theirs;
	int err;

	verbs_qp_offer(k->device, &k->qp, &mine);
	if ((err = tcp_link_attach(k->control, &mine, &theirs, sizeof(mine))) != 0)
		return err;
	if (theirs.base % 8 != 0 || theirs.base > UINT64_MAX - k->control->region_len)
		return -FAR_EFORMAT;
	k->base = theirs.base;
	k->rkey = theirs.rkey;
	return verbs_qp_connect(k->device, &k->qp, &theirs);
}

int
verbs_link_open(struct verbs_link *k, struct verbs_device *d)
{
	int err;

	k->device = d;
	k->timeout_ns = k->control->timeout_ns;
	k->waiting.last = &k->waiting.first;
	err = verbs_qp_open(d, VERBS_DEPTH, &k->qp);
	if (!err)
		err = verbs_link_agree(k);
	if (err)
		verbs_link_close(k);
	return err;
}

void
verbs_link_close(struct verbs_link *k)
{
	/* First the queue pair: nothing of it may arrive at a node that has forgotten this client. */
	verbs_qp_close(k->device, &k->qp);
	tcp_link_close(k->control);
	free(k->control);
	k->control = NULL;
}

/* The end of a connection ------------------------------------------------------------------------------------ */

static void
verbs_link_lose(struct far_chain *c, bool sent, int err)
{
	if (sent)
		c->status = -FAR_EUNSURE;
	else if (c->status != -FAR_EUNSURE)
		c->status = err;
}

/* Everything in flight comes back; `err` for what comes later. */
static void
verbs_link_die(struct verbs_link *k, int err, struct far_chain_list *done)
{
	struct far_chain *c;

	k->err = err;
	verbs_qp_stop(k->device, &k->qp);
	for (; k->first != k->next; k->first++) {
		const struct verbs_sent *s = &k->sent[k->first % VERBS_DEPTH];

		verbs_link_lose(s->chain, true, err);
		if (s->last)
			far_chain_list_add(done, s->chain);
	}
	while ((c = far_chain_list_take(&k->waiting)) != NULL) {
		verbs_link_lose(c, k->put.op != NULL, err);
		k->put.op = NULL;
		far_chain_list_add(done, c);
	}
	/* The node shall know at once: it holds a queue pair and a key for this client. */
	if (k->control->err == 0)
		tcp_link_die(k->control, err, done);
}

/* The queue pair failed. The node may have said why. */
static void
verbs_link_fail(struct verbs_link *k, struct far_chain_list *done)
{
	if (k->control->err == 0)
		tcp_link_move(k->control, done);
	verbs_link_die(k, k->control->err ? k->control->err : -FAR_ENODE, done);
}

/* Taking in --------------------------------------------------------------------------------------------------- */

static int
verbs_link_judge(const struct verbs_link *k, const struct far_op *op)
{
	uint64_t off = far_addr_off(op->addr), len = k->control->region_len;

	if (op->code > FAR_OP_FAA)
		return -FAR_ENOTSUP;
	return (off | op->len) % 8 != 0 || off > len || op->len > len - off ? -FAR_EACCESS : 0;
}

/* Ends a chain before its first operation that cannot be. */
static void
verbs_link_check(const struct verbs_link *k, struct far_chain *c)
{
	const struct far_op *op = c->first;
	int err = 0;

	for (uint32_t i = 0; i < c->cut; i++, op = op->next) {
		if ((err = verbs_link_judge(k, op)) != 0) {
			c->cut = i;
			c->status = err;
		}
	}
}

void
verbs_link_post(struct verbs_link *k, struct far_chain *c, struct far_chain_list *done)
{
	if (k->err != 0) {
		c->status = k->err;
	} else if (c->first->code == FAR_OP_CALL) {
		tcp_link_post(k->control, c, done);
		return;
	} else {
		verbs_link_check(k, c);
		if (c->cut > 0) {
			far_chain_list_add(&k->waiting, c);
			return;
		}
	}
	far_chain_list_add(done, c);
}

/* Posting ----------------------------------------------------------------------------------------------------- */

/* Work requests that go behind one doorbell. */
struct verbs_batch {
	unsigned n;
	struct ibv_send_wr wr[VERBS_BATCH];
	struct ibv_sge sge[VERBS_BATCH];
};

/* Takes `len` bytes of the ring, noted in *s; false: there are not that many now. */
static bool
verbs_ring_take(struct verbs_link *k, uint32_t len, struct verbs_sent *s)
{
	bool wraps = k->ring_at + len > VERBS_RING;
	uint32_t skip = wraps ? VERBS_RING - k->ring_at : 0;

	if (k->ring_used + skip + len > VERBS_RING)
		return false;
	if (wraps)
		k->ring_at = 0;
	s->from = k->ring + k->ring_at;
	s->held = skip + len;
	k->ring_at += len;
	k->ring_used += s->held;
	return true;
}

/* Where the data of `len` bytes from `at` on lies or arrives; false: no room now. */
static bool
verbs_link_place(struct verbs_link *k, const struct tcp_cursor *at, uint32_t len,
		 struct verbs_sent *s)
{
	const struct far_op *op = at->op;

	*s = (struct verbs_sent){ .len = len };
	if (op->code == FAR_OP_WRITE && len <= k->qp.inline_max) {
		s->from = (const uint8_t *)op->buf + at->off;
		return true;
	}
	if (!verbs_ring_take(k, len, s))
		return false;
	if (op->code == FAR_OP_WRITE)
		memcpy(k->ring + (s->from - k->ring), (const uint8_t *)op->buf + at->off, len);
	else
		s->to = (uint8_t *)op->buf + at->off;
	return true;
}

static void
verbs_wr_aim(const struct verbs_link *k, const struct far_op *op, uint64_t remote,
	     struct ibv_send_wr *wr)
{
	switch (op->code) {
	case FAR_OP_CAS:
	case FAR_OP_FAA:
		wr->opcode = op->code == FAR_OP_CAS ? IBV_WR_ATOMIC_CMP_AND_SWP
						    : IBV_WR_ATOMIC_FETCH_AND_ADD;
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = k->rkey;
		wr->wr.atomic.compare_add = op->code == FAR_OP_CAS ? op->expect : op->addend;
		wr->wr.atomic.swap = op->code == FAR_OP_CAS ? op->desired : 0;
		break;
	default:
		/* Of length 0 it is a WRITE, which then asks for no key at all. */
		wr->opcode = op->code == FAR_OP_READ && op->len > 0 ? IBV_WR_RDMA_READ
								    : IBV_WR_RDMA_WRITE;
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = k->rkey;
		break;
	}
}

/* Adds the next piece of the first chain to the batch; false: no room now. */
static bool
verbs_link_put(struct verbs_link *k, struct verbs_batch *b)
{
	struct verbs_sent *s = &k->sent[k->next % VERBS_DEPTH];
	struct ibv_send_wr *wr = &b->wr[b->n];
	struct ibv_sge *sge = &b->sge[b->n];
	const struct far_op *op = k->put.op;
	uint32_t len = (uint32_t)far_min(op->len - k->put.off, VERBS_PIECE);
	bool in_line;

	if (!verbs_link_place(k, &k->put, len, s))
		return false;
	in_line = op->code == FAR_OP_WRITE && s->held == 0;
	*sge = (struct ibv_sge){ (uintptr_t)s->from, len, in_line ? 0 : k->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = k->next++, .sg_list = sge, .num_sge = len > 0 };
	wr->send_flags = (in_line ? IBV_SEND_INLINE : 0) |
			 (op->flags & FAR_OP_FENCE && k->put.off == 0 ? IBV_SEND_FENCE : 0);
	verbs_wr_aim(k, op, k->base + far_addr_off(op->addr) + k->put.off, wr);
	if (b->n > 0)
		b->wr[b->n - 1].next = wr;
	b->n++;
	tcp_cursor_move(&k->put, len);
	s->chain = k->waiting.first;
	s->last = k->put.left == 0;
	if (s->last) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		k->put.op = NULL;
		far_chain_list_take(&k->waiting);
	}
	return true;
}

/* Rings one doorbell for what waits, as far as there is room. 1: perhaps there is more; 0: not now; -1: it failed. */
static int
verbs_link_ring(struct verbs_link *k)
{
	struct verbs_batch b;
	struct ibv_send_wr *bad;

	b.n = 0;
	while (k->waiting.first && b.n < VERBS_BATCH && k->next - k->first < k->qp.depth) {
		if (!k->put.op)
			k->put = (struct tcp_cursor){ k->waiting.first->first,
						      k->waiting.first->cut, 0 };
		if (!verbs_link_put(k, &b))
			break;
	}
	if (b.n == 0)
		return 0;
	/* Room comes back by a completion only. */
	b.wr[b.n - 1].send_flags |= IBV_SEND_SIGNALED;
	return ibv_post_send(k->qp.qp, b.wr, &bad) == 0 ? 1 : -1;
}

/* Completions ------------------------------------------------------------------------------------------------- */

/* All up to number `id` took effect. */
static void
verbs_link_settle(struct verbs_link *k, uint64_t id, struct far_chain_list *done)
{
	for (; k->first <= id && k->first != k->next; k->first++) {
		const struct verbs_sent *s = &k->sent[k->first % VERBS_DEPTH];

		if (s->to)
			memcpy(s->to, s->from, s->len);
		k->ring_used -= s->held;
		if (s->last)
			far_chain_list_add(done, s->chain);
	}
	k->moved_ns = 0;
}

/* True: something completed. */
static bool
verbs_link_take(struct verbs_link *k, struct far_chain_list *done)
{
	struct ibv_wc wc[VERBS_WC];
	int n = ibv_poll_cq(k->qp.cq, VERBS_WC, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			verbs_link_fail(k, done);
			return true;
		}
		verbs_link_settle(k, wc[i].wr_id, done);
	}
	if (n < 0)
		verbs_link_fail(k, done);
	return n != 0;
}

bool
verbs_link_move(struct verbs_link *k, struct far_chain_list *done)
{
	bool moved = false;
	int more = 1;

	if (k->err != 0)
		return false;
	while (more > 0)
		more = verbs_link_ring(k);
	if (more < 0)
		verbs_link_fail(k, done);
	else if (k->first != k->next)
		moved = verbs_link_take(k, done);
	if (k->err == 0 && tcp_link_is_busy(k->control))
		moved |= tcp_link_move(k->control, done);
	if (k->err == 0 && k->control->err != 0)
		verbs_link_die(k, k->control->err, done);
	return moved;
}

/* Silence ------------------------------------------------------------------------------------------------------ */

void
verbs_link_look(struct verbs_link *k, uint64_t now, struct far_chain_list *done)
{
	bool away = now - k->looked_ns > k->timeout_ns / 2;

	k->looked_ns = now;
	if (k->err != 0)
		return;
	tcp_link_move(k->control, done);
	tcp_link_look(k->control, now, done);
	/* The queue pair has its own time limit. This is for a device that does not keep it. */
	if (k->moved_ns == 0 || away || k->first == k->next)
		k->moved_ns = now;
	else if (now - k->moved_ns > k->timeout_ns)
		verbs_link_fail(k, done);
	if (k->err == 0 && k->control->err != 0)
		verbs_link_die(k, k->control->err, done);
}
