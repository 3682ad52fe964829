/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c -- the simulated fabric.
 *
 * A chain in flight is a "run". It works on a group of operations that G3 leaves unordered among each other, each a
 * "lane" with a mask of the words that are still to do; when all lanes are through, the next group begins. A step
 * picks a run, a lane and a word. Words beyond 64 are done in pieces of 64, in cyclic order from a random piece.
 *
 *	active[]   runs that may step, in no order
 *	conn.held  runs of a paused client
 *	conn.done  finished chains that the fabric core has not fetched yet
 *
 * The world has a poller of its own, ahead of those of its connections. It steps until a chain is done; then the core
 * fetches it from the connection concerned, and the client computes before the next step.
 */
#include "fabric/sim.h"

#include <string.h>
#include <xxhash.h>

#include "base/base.h"
#include "base/rand.h"
#include "fabric/backend.h"
#include "pool/node.h"

enum {
	SIM_LANES = 8,          /* operations of a group at most */
	SIM_PIECE = 64,         /* words */
	SIM_PAGE = 4096,        /* unit of dirty tracking */
	SIM_POLL_STEPS = 32,    /* then timers have a look */
	SIM_STEP_NS = 100,
};

#define SIM_NEVER UINT64_MAX

struct sim_node {
	struct far_sim *sim;
	uint8_t *region;
	uint8_t *image;         /* the region as it was formatted */
	uint8_t *dirty;         /* by page: differs from the image, or may */
	uint32_t *dirty_list;
	uint32_t dirty_n;
	struct node *node;      /* NULL: raw memory, or down */
	bool up;
	uint64_t life;          /* counts restarts */
	uint64_t head_len;      /* what the node's own code writes to, but for bitmaps of chunks */
};

struct sim_lane {
	struct far_op *op;
	uint8_t *at;            /* remote memory of the operation */
	uint64_t left;          /* words of this piece that are still to do */
	uint32_t base;          /* its first word */
	uint32_t words;         /* of this piece */
	uint32_t pieces;        /* still to do, this one included */
};

struct sim_run {
	struct far_chain *chain;
	struct sim_conn *conn;
	struct far_op *next_op; /* the first that has not begun */
	uint32_t ops_left;      /* that may begin */
	uint32_t index;         /* in active[] */
	bool began;
	unsigned lanes_n;
	struct sim_lane lanes[SIM_LANES];
	struct sim_run *next;   /* in conn.held, or free */
};

struct sim_conn {
	struct far_fabric base;
	struct far_sim *sim;
	unsigned id;
	bool dead;
	bool cut[FAR_NODES_MAX];         /* fenced there */
	uint64_t life[FAR_NODES_MAX];    /* of the node when we connected */
	uint64_t session[FAR_NODES_MAX]; /* node_serve() keeps it */
	uint64_t thaw_ns;                /* paused until then; 0 = not paused */
	struct sim_run *held;
	uint64_t fuse;                   /* steps to go */
	enum far_sim_fate fate;
	uint64_t fate_ns;
	struct far_chain *done, **done_tail;
	struct sim_conn *next;
};

struct far_sim {
	struct far_rng rng;
	struct far_sim_policy policy;
	uint64_t keep_mask;
	uint64_t now, steps, verbs, hash;
	bool exhausted;
	unsigned nodes_n;
	uint64_t region_len;
	bool raw;
	struct sim_node nodes[FAR_NODES_MAX];

	struct sim_conn *conns;          /* by id, ascending */
	unsigned conns_n;                /* ids given */
	uint64_t thaw_ns;                /* the earliest of all paused */
	struct far_loop *loop;
	struct far_poller poller;

	struct sim_run **active;
	uint32_t active_n, active_max;
	uint32_t at;                     /* who stepped last; >= active_n: draw */
	const struct sim_conn *favour;   /* whose run that was */
	struct sim_run *free_runs;
	unsigned done_n;                 /* chains in all conn.done */
};

/* Trace and memory ---------------------------------------------------------------------------------------- */

/* Folds a step into the trace: one wide multiplication. */
static inline void
sim_trace(struct far_sim *s, uint64_t tag, uint64_t value)
{
	unsigned __int128 m = (unsigned __int128)(s->hash ^ tag ^ 0x9e3779b97f4a7c15ULL) *
			      (value ^ 0xd6e8feb86659fd93ULL);

	s->hash = (uint64_t)m ^ (uint64_t)(m >> 64) ^ s->hash >> 7;
}

static inline uint64_t
sim_tag(const struct sim_run *r, const struct far_op *op, uint64_t off)
{
	return off << 16 | (uint64_t)(r->chain->node & 15) << 12 |
	       (uint64_t)(r->conn->id & 255) << 4 | op->code;
}

static inline void
sim_dirty(struct sim_node *n, uint64_t off)
{
	uint64_t page = off / SIM_PAGE;

	if (n->dirty[page])
		return;
	n->dirty[page] = 1;
	n->dirty_list[n->dirty_n++] = (uint32_t)page;
}

void
far_sim_touch(struct far_sim *s, unsigned node, uint64_t off, uint64_t len)
{
	for (uint64_t at = off & ~(uint64_t)(SIM_PAGE - 1); at < off + len && at < s->region_len;
	     at += SIM_PAGE)
		sim_dirty(&s->nodes[node], at);
}

/* Runs ---------------------------------------------------------------------------------------------------- */

static int
sim_activate(struct far_sim *s, struct sim_run *r)
{
	if (s->active_n == s->active_max) {
		uint32_t max = s->active_max ? s->active_max * 2 : 64;
		struct sim_run **a = realloc(s->active, max * sizeof(*a));

		if (!a)
			return -FAR_ENOMEM;
		s->active = a;
		s->active_max = max;
	}
	r->index = s->active_n;
	s->active[s->active_n++] = r;
	/* A client that was moving on its own goes on with its next chain. */
	if (s->keep_mask && s->favour == r->conn && s->at >= s->active_n - 1)
		s->at = r->index;
	return 0;
}

static void
sim_deactivate(struct far_sim *s, struct sim_run *r)
{
	struct sim_run *last = s->active[--s->active_n];

	s->active[r->index] = last;
	last->index = r->index;
	s->at = UINT32_MAX;
}

static void
sim_done(struct far_sim *s, struct sim_conn *k, struct far_chain *c, int status)
{
	c->status = status;
	c->next = NULL;
	*k->done_tail = c;
	k->done_tail = &c->next;
	s->done_n++;
}

/* `r` is neither active nor held any more. */
static void
sim_end(struct far_sim *s, struct sim_run *r, int status)
{
	sim_done(s, r->conn, r->chain, status);
	r->next = s->free_runs;
	s->free_runs = r;
}

/* G5. */
static bool
sim_is_valid(const struct far_sim *s, const struct far_op *op)
{
	uint64_t off = far_addr_off(op->addr);

	if (op->code == FAR_OP_CALL)
		return off == 0 && op->len == sizeof(struct control_request) &&
		       op->reply_max >= sizeof(struct control_reply);
	if (off % 8 || op->len % 8 || off > s->region_len || op->len > s->region_len - off)
		return false;
	return op->code == FAR_OP_READ || op->code == FAR_OP_WRITE ||
	       ((op->code == FAR_OP_CAS || op->code == FAR_OP_FAA) && op->len == 8);
}

/* May `op` take effect before operations of the codes in `group` that were noted earlier? (G3) */
static bool
sim_may_pass(unsigned group, const struct far_op *op)
{
	const unsigned atomics = 1u << FAR_OP_CAS | 1u << FAR_OP_FAA;

	if ((group & (1u << FAR_OP_WRITE | 1u << FAR_OP_CALL)) || op->flags & FAR_OP_FENCE ||
	    op->code == FAR_OP_CALL)
		return false;
	return !(group & atomics) || op->code == FAR_OP_WRITE;
}

static void
sim_lane_piece(struct sim_lane *l, uint32_t words)
{
	uint32_t rest = words - l->base;

	l->words = rest < SIM_PIECE ? rest : SIM_PIECE;
	l->left = UINT64_MAX >> (SIM_PIECE - l->words);
}

static void
sim_lane_begin(struct far_sim *s, struct sim_run *r, struct far_op *op)
{
	struct sim_lane *l = &r->lanes[r->lanes_n];
	uint32_t words = op->code == FAR_OP_CALL ? 1 : op->len / 8;

	s->verbs++;
	if (words == 0)
		return;
	r->lanes_n++;
	l->op = op;
	l->at = s->nodes[r->chain->node].region + far_addr_off(op->addr);
	l->base = 0;
	l->pieces = (words + SIM_PIECE - 1) / SIM_PIECE;
	if (l->pieces > 1)
		l->base = (uint32_t)far_rng_below(&s->rng, l->pieces) * SIM_PIECE;
	sim_lane_piece(l, words);
}

/* Begins the next operation and those that may pass it. False: already the next one is invalid. */
static bool
sim_group_fill(struct far_sim *s, struct sim_run *r, int *status)
{
	unsigned group = 0;

	do {
		struct far_op *op = r->next_op;

		if (!sim_is_valid(s, op)) {
			*status = -FAR_EACCESS;
			return group != 0;
		}
		sim_lane_begin(s, r, op);
		group |= 1u << op->code;
		r->next_op = op->next;
		r->ops_left--;
	} while (s->policy.weak && r->ops_left && r->lanes_n < SIM_LANES &&
		 sim_may_pass(group, r->next_op));
	return true;
}

/* Begins the next group of operations. False: there is none, and *status tells how the chain ended. */
static bool
sim_group_begin(struct far_sim *s, struct sim_run *r, int *status)
{
	while (r->lanes_n == 0) {
		*status = r->chain->status;
		if (r->ops_left == 0 || !sim_group_fill(s, r, status))
			return false;
	}
	return true;
}

/* Fate ---------------------------------------------------------------------------------------------------- */

/* Ends every run of `k` (NULL: anybody's) at `node` (< 0: any node). */
static void
sim_cut(struct far_sim *s, struct sim_conn *k, int node, int status)
{
	for (uint32_t i = 0; i < s->active_n;) {
		struct sim_run *r = s->active[i];

		if ((k && r->conn != k) || (node >= 0 && r->chain->node != node)) {
			i++;
			continue;
		}
		sim_deactivate(s, r);
		sim_end(s, r, status == -FAR_EUNSURE && !r->began ? -FAR_ENODE : status);
	}
	for (struct sim_conn *c = s->conns; c; c = c->next) {
		for (struct sim_run **link = &c->held, *r; (r = *link);) {
			if ((k && c != k) || (node >= 0 && r->chain->node != node)) {
				link = &r->next;
				continue;
			}
			*link = r->next;
			sim_end(s, r, status == -FAR_EUNSURE && !r->began ? -FAR_ENODE : status);
		}
	}
}

void
far_sim_kill(struct far_fabric *f)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	k->dead = true;
	sim_cut(k->sim, k, -1, -FAR_EFENCED);
}

static void
sim_thaw_next(struct far_sim *s)
{
	s->thaw_ns = SIM_NEVER;
	for (struct sim_conn *k = s->conns; k; k = k->next)
		if (k->thaw_ns)
			s->thaw_ns = far_min(s->thaw_ns, k->thaw_ns);
}

void
far_sim_pause(struct far_fabric *f, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);
	struct far_sim *s = k->sim;

	k->thaw_ns = far_max(k->thaw_ns, s->now + far_max(ns, 1));
	sim_thaw_next(s);
	for (uint32_t i = 0; i < s->active_n;) {
		struct sim_run *r = s->active[i];

		if (r->conn != k) {
			i++;
			continue;
		}
		sim_deactivate(s, r);
		r->next = k->held;
		k->held = r;
	}
}

/* Who is due goes on. */
static void
sim_thaw(struct far_sim *s)
{
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		if (!k->thaw_ns || k->thaw_ns > s->now)
			continue;
		k->thaw_ns = 0;
		for (struct sim_run *r; (r = k->held);) {
			k->held = r->next;
			if (sim_activate(s, r) != 0)
				sim_end(s, r, -FAR_ENOMEM);
		}
	}
	sim_thaw_next(s);
}

void
far_sim_fuse(struct far_fabric *f, uint64_t steps, enum far_sim_fate fate, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	k->fuse = steps;
	k->fate = fate;
	k->fate_ns = ns;
}

static void
sim_fuse_burnt(struct sim_conn *k)
{
	k->fuse = SIM_NEVER;
	if (k->fate == FAR_SIM_KILL)
		far_sim_kill(&k->base);
	else
		far_sim_pause(&k->base, k->fate_ns);
}

/* Everybody loses the connection: the run is longer than anybody wanted. */
static void
sim_exhaust(struct far_sim *s)
{
	s->exhausted = true;
	for (struct sim_conn *k = s->conns; k; k = k->next)
		k->dead = true;
	sim_cut(s, NULL, -1, -FAR_EFENCED);
}

/* Steps --------------------------------------------------------------------------------------------------- */

/* One request to the node's control endpoint. It may cut runs of others (FENCE). */
static void
sim_call(struct far_sim *s, struct sim_run *r, struct far_op *op)
{
	struct sim_node *n = &s->nodes[r->chain->node];
	struct control_request req;
	struct control_reply reply = { .err = -FAR_ENOTSUP };

	memcpy(&req, op->buf, sizeof(req));
	if (n->node) {
		bool complete =
			node_serve(n->node, &r->conn->session[r->chain->node], &req, &reply);

		/* Our stop() is never under way. */
		FAR_ASSERT(complete);
		far_sim_touch(s, r->chain->node, 0, n->head_len);
		if (req.code == CONTROL_GRANT && reply.err == 0) {
			uint64_t head;

			pool_chunk_blocks(req.class, reply.run, &head);
			far_sim_touch(s, r->chain->node, reply.off, head);
		}
	}
	sim_trace(s, sim_tag(r, op, req.code), XXH3_64bits(&reply, sizeof(reply)));
	memcpy(op->reply, &reply, sizeof(reply));
	op->reply_max = sizeof(reply);
}

static inline void
sim_atomic(struct far_sim *s, struct sim_run *r, struct far_op *op, uint64_t *word)
{
	uint64_t off = far_addr_off(op->addr), old = *word;

	if (op->code == FAR_OP_FAA)
		*word = old + op->addend;
	else if (old == op->expect)
		*word = op->desired;
	sim_dirty(&s->nodes[r->chain->node], off);
	memcpy(op->buf, &old, 8);
	sim_trace(s, sim_tag(r, op, off), old ^ *word << 1);
}

/* Does word `i` of `op`, whose remote memory starts at `at`. */
static inline void
sim_word(struct far_sim *s, struct sim_run *r, struct far_op *op, uint8_t *at, uint32_t i)
{
	uint64_t *word = (uint64_t *)at + i, off = far_addr_off(op->addr) + (uint64_t)i * 8, v;

	switch (op->code) {
	case FAR_OP_READ:
		v = *word;
		memcpy((uint8_t *)op->buf + (size_t)i * 8, &v, 8);
		break;
	case FAR_OP_WRITE:
		memcpy(&v, (const uint8_t *)op->buf + (size_t)i * 8, 8);
		*word = v;
		sim_dirty(&s->nodes[r->chain->node], off);
		break;
	case FAR_OP_CALL:
		sim_call(s, r, op);
		return;
	default:
		sim_atomic(s, r, op, word);
		return;
	}
	sim_trace(s, sim_tag(r, op, off), v);
}

/* The lane's piece is through. */
static void
sim_lane_next(struct sim_run *r, struct sim_lane *l)
{
	uint32_t words = l->op->len / 8;

	if (--l->pieces == 0) {
		*l = r->lanes[--r->lanes_n];
		return;
	}
	l->base += SIM_PIECE;
	if (l->base >= words)
		l->base = 0;
	sim_lane_piece(l, words);
}

static inline void
sim_step(struct far_sim *s)
{
	uint64_t draw = far_rng_next(&s->rng);
	struct sim_run *r;
	struct sim_conn *k;
	struct sim_lane *l;
	uint32_t from, bit;
	int status;

	/* 1. Who: the same one as before, or anybody. Bits 0-5 and 32-63 of the draw. */
	if (s->at >= s->active_n || (draw & s->keep_mask) == 0) {
		s->at = (uint32_t)((draw >> 32) * s->active_n >> 32);
		s->favour = s->active[s->at]->conn;
	}
	r = s->active[s->at];
	k = r->conn;
	/* 2. Which operation, which word: the first one left from a random place on. */
	l = &r->lanes[r->lanes_n == 1 ? 0 : (draw >> 6 & 255) * r->lanes_n >> 8];
	from = (uint32_t)((draw >> 16 & 0xffff) * l->words >> 16);
	bit = (uint32_t)__builtin_ctzll(l->left >> from | l->left << (-from & 63));
	bit = (bit + from) & 63;
	l->left &= ~(UINT64_C(1) << bit);
	r->began = true;
	s->now += s->policy.step_ns;
	s->steps++;
	sim_word(s, r, l->op, l->at, l->base + bit);
	/* 3. What follows. */
	if (l->left == 0)
		sim_lane_next(r, l);
	if (r->lanes_n == 0 && !sim_group_begin(s, r, &status)) {
		sim_deactivate(s, r);
		sim_end(s, r, status);
	}
	if (__builtin_expect(--k->fuse == 0, 0))
		sim_fuse_burnt(k);
}

static int
sim_poll_all(struct far_poller *p, bool idle)
{
	struct far_sim *s = FAR_CONTAINER(p, struct far_sim, poller);
	int moved = s->active_n > 0;

	for (unsigned i = 0; i < SIM_POLL_STEPS && s->active_n && !s->done_n; i++) {
		sim_step(s);
		if (s->now >= s->thaw_ns)
			sim_thaw(s);
	}
	if (s->policy.steps_max && s->steps > s->policy.steps_max && !s->exhausted)
		sim_exhaust(s);
	return moved;
}

/* The world speaks for its connections: what a paused one has in flight does not keep time from jumping. */
static bool
sim_conn_busy(struct far_poller *p)
{
	return false;
}

static bool
sim_busy(struct far_poller *p)
{
	struct far_sim *s = FAR_CONTAINER(p, struct far_sim, poller);

	return s->active_n > 0 || s->done_n > 0;
}

/* Time ---------------------------------------------------------------------------------------------------- */

static uint64_t
sim_now(void *arg)
{
	return ((struct far_sim *)arg)->now;
}

/* Nothing is in flight, but for those who are paused: jumps to the next event. */
static void
sim_idle(void *arg, uint64_t until)
{
	struct far_sim *s = arg;
	uint64_t to = far_min(until, s->thaw_ns);

	if (to == SIM_NEVER) {
		fprintf(stderr, "farside: sim: deadlock at step %llu\n",
			(unsigned long long)s->steps);
		abort();
	}
	s->now = far_max(s->now, to);
	s->steps++;
	if (s->now >= s->thaw_ns)
		sim_thaw(s);
}

struct far_clock
far_sim_clock(struct far_sim *s)
{
	struct far_clock c = { sim_now, sim_idle, s };

	return c;
}

/* The fabric ---------------------------------------------------------------------------------------------- */

static struct sim_run *
sim_run_new(struct far_sim *s)
{
	struct sim_run *r = s->free_runs;

	if (r)
		s->free_runs = r->next;
	else
		r = malloc(sizeof(*r));
	return r;
}

/* Set-up: the whole chain at once, in order. */
static int
sim_post_calm(struct far_sim *s, struct sim_run *r)
{
	struct sim_node *n = &s->nodes[r->chain->node];

	for (; r->ops_left > 0; r->ops_left--) {
		struct far_op *op = r->next_op;
		uint64_t off = far_addr_off(op->addr);

		if (!sim_is_valid(s, op))
			return -FAR_EACCESS;
		s->now += s->policy.step_ns;
		s->verbs++;
		if (op->code == FAR_OP_READ) {
			memcpy(op->buf, n->region + off, op->len);
			sim_trace(s, sim_tag(r, op, off), XXH3_64bits(op->buf, op->len));
		} else if (op->code == FAR_OP_WRITE) {
			memcpy(n->region + off, op->buf, op->len);
			far_sim_touch(s, r->chain->node, off, op->len);
			sim_trace(s, sim_tag(r, op, off), XXH3_64bits(op->buf, op->len));
		} else {
			sim_word(s, r, op, n->region + off, 0);
		}
		r->next_op = op->next;
	}
	return r->chain->status;
}

static int
sim_post(struct far_fabric *f, struct far_chain *c)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);
	struct far_sim *s = k->sim;
	struct sim_node *n = &s->nodes[c->node];
	struct sim_run *r = sim_run_new(s);
	int status;

	if (!r)
		return -FAR_EAGAIN;
	r->chain = c;
	r->conn = k;
	r->next_op = c->first;
	r->ops_left = c->cut;
	r->began = false;
	r->lanes_n = 0;
	if (k->dead || k->cut[c->node])
		status = -FAR_EFENCED;
	else if (!n->up || n->life != k->life[c->node])
		status = -FAR_ENODE;
	else if (s->policy.calm)
		status = sim_post_calm(s, r);
	else if (sim_group_begin(s, r, &status) && (status = sim_activate(s, r)) == 0) {
		/* A paused client may still compute; what it posts waits. */
		if (k->thaw_ns)
			far_sim_pause(f, k->thaw_ns - s->now);
		return 0;
	}
	sim_end(s, r, status);
	return 0;
}

static struct far_chain *
sim_poll(struct far_fabric *f)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);
	struct far_chain *c = k->done;

	if (!c)
		return NULL;
	k->done = c->next;
	if (!k->done)
		k->done_tail = &k->done;
	k->sim->done_n--;
	return c;
}

static void
sim_close(struct far_fabric *f)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base), **link;
	struct far_sim *s = k->sim;

	for (link = &s->conns; *link != k; link = &(*link)->next)
		continue;
	*link = k->next;
	sim_thaw_next(s);
	if (s->favour == k)
		s->favour = NULL;
	if (!s->conns)
		far_loop_remove(s->loop, &s->poller);
	free(k);
}

static const struct far_fabric_ops sim_ops = {
	.name = "sim",
	.close = sim_close,
	.post = sim_post,
	.poll = sim_poll,
};

int
far_sim_connect(struct far_sim *s, struct far_loop *l, const struct far_fabric_opts *opts,
		struct far_fabric **out)
{
	struct sim_conn *k = calloc(1, sizeof(*k)), **link;

	if (!k)
		return -FAR_ENOMEM;
	if (!s->conns) {
		s->loop = l;
		far_loop_add(l, &s->poller);
	}
	k->sim = s;
	k->id = s->conns_n++;
	k->fuse = SIM_NEVER;
	k->done_tail = &k->done;
	k->base.nodes_n = s->nodes_n;
	k->base.caps = FAR_CAP_ATOMIC_GLOBAL;
	for (unsigned i = 0; i < s->nodes_n; i++) {
		k->base.region_len[i] = s->region_len;
		k->life[i] = s->nodes[i].life;
	}
	far_fabric_init(&k->base, &sim_ops, l, opts);
	k->base.poller.busy = sim_conn_busy;
	for (link = &s->conns; *link; link = &(*link)->next)
		continue;
	*link = k;
	*out = &k->base;
	return 0;
}

/* Nodes --------------------------------------------------------------------------------------------------- */

/* The session is some client's connection to this node: it ends here and now. */
static int
sim_stop(void *arg, uint64_t serial)
{
	struct sim_node *n = arg;
	unsigned node = (unsigned)(n - n->sim->nodes);

	for (struct sim_conn *k = n->sim->conns; k; k = k->next) {
		if (k->session[node] != serial || k->life[node] != n->life)
			continue;
		k->cut[node] = true;
		sim_cut(n->sim, k, (int)node, -FAR_EFENCED);
	}
	return 0;
}

static uint64_t
sim_random(void *arg)
{
	return far_rng_next(&((struct sim_node *)arg)->sim->rng);
}

static struct node_env
sim_env(struct sim_node *n)
{
	struct node_env env = { .stop = sim_stop, .random = sim_random, .arg = n };

	return env;
}

static int
sim_node_format(struct far_sim *s, struct sim_node *n)
{
	struct node_env env = sim_env(n);
	const struct pool_super *super = (const void *)n->region;
	int err;

	n->up = true;
	if (s->raw)
		return 0;
	if ((err = node_format(n->region, s->region_len, &env)) != 0 ||
	    (err = node_open(n->region, s->region_len, &env, &n->node)) != 0)
		return err;
	n->head_len = super->data_off;
	far_sim_touch(s, (unsigned)(n - s->nodes), 0, n->head_len);
	return 0;
}

static void
sim_node_free(struct sim_node *n)
{
	node_close(n->node);
	free(n->region);
	free(n->image);
	free(n->dirty);
	free(n->dirty_list);
}

static int
sim_node_init(struct far_sim *s, struct sim_node *n)
{
	uint64_t pages = s->region_len / SIM_PAGE + 1;
	int err;

	n->sim = s;
	n->region = calloc(1, s->region_len);
	n->image = calloc(1, s->region_len);
	n->dirty = calloc(pages, sizeof(*n->dirty));
	n->dirty_list = malloc(pages * sizeof(*n->dirty_list));
	if (!n->region || !n->image || !n->dirty || !n->dirty_list)
		return -FAR_ENOMEM;
	if ((err = sim_node_format(s, n)) != 0)
		return err;
	/* The image that resets go back to. */
	for (uint32_t i = 0; i < n->dirty_n; i++) {
		uint64_t off = (uint64_t)n->dirty_list[i] * SIM_PAGE;

		memcpy(n->image + off, n->region + off, far_min(SIM_PAGE, s->region_len - off));
		n->dirty[n->dirty_list[i]] = 0;
	}
	n->dirty_n = 0;
	return 0;
}

void
far_sim_node_down(struct far_sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];

	sim_cut(s, NULL, (int)node, -FAR_EUNSURE);
	n->up = false;
	n->life++;
	node_close(n->node);
	n->node = NULL;
}

int
far_sim_node_up(struct far_sim *s, unsigned node, bool keep)
{
	struct sim_node *n = &s->nodes[node];
	struct node_env env = sim_env(n);

	if (s->raw && keep)
		n->up = true;
	if (keep && !s->raw) {
		n->up = true;
		far_sim_touch(s, node, 0, n->head_len);
		return node_open(n->region, s->region_len, &env, &n->node);
	}
	if (keep)
		return 0;
	far_sim_touch(s, node, 0, s->region_len);
	memset(n->region, 0, s->region_len);
	return sim_node_format(s, n);
}

void *
far_sim_region(struct far_sim *s, unsigned node)
{
	return s->nodes[node].region;
}

static void
sim_node_report(void *arg, const char *line)
{
	fprintf(stderr, "# node: %s\n", line);
}

int
far_sim_node_check(struct far_sim *s, unsigned node)
{
	return s->nodes[node].node ? node_check(s->nodes[node].node, sim_node_report, NULL) : 0;
}

/* The world ----------------------------------------------------------------------------------------------- */

static void
sim_start(struct far_sim *s, uint64_t seed)
{
	far_rng_seed(&s->rng, seed);
	s->now = s->steps = s->verbs = s->hash = 0;
	s->exhausted = false;
	s->conns_n = 0;
	s->thaw_ns = SIM_NEVER;
	s->at = UINT32_MAX;
	s->favour = NULL;
}

int
far_sim_open(const struct far_sim_opts *opts, struct far_sim **out)
{
	struct far_sim *s;
	int err = 0;

	if (opts->nodes_n < 1 || opts->nodes_n > FAR_NODES_MAX || opts->region_len % 8)
		return -FAR_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FAR_ENOMEM;
	s->nodes_n = opts->nodes_n;
	s->region_len = opts->region_len;
	s->raw = opts->raw;
	s->poller.poll = sim_poll_all;
	s->poller.busy = sim_busy;
	s->policy.step_ns = SIM_STEP_NS;
	/* Every world is formatted alike, so that a run after far_sim_reset() is that of a new world. */
	sim_start(s, 0);
	for (unsigned i = 0; i < s->nodes_n && err == 0; i++)
		err = sim_node_init(s, &s->nodes[i]);
	sim_start(s, opts->seed);
	if (err != 0) {
		far_sim_close(s);
		return err;
	}
	*out = s;
	return 0;
}

int
far_sim_reset(struct far_sim *s, uint64_t seed)
{
	int err = 0;

	FAR_ASSERT(!s->conns);
	for (unsigned i = 0; i < s->nodes_n && err == 0; i++) {
		struct sim_node *n = &s->nodes[i];
		struct node_env env = sim_env(n);

		for (uint32_t p = 0; p < n->dirty_n; p++) {
			uint64_t off = (uint64_t)n->dirty_list[p] * SIM_PAGE;

			memcpy(n->region + off, n->image + off,
			       far_min(SIM_PAGE, s->region_len - off));
			n->dirty[n->dirty_list[p]] = 0;
		}
		n->dirty_n = 0;
		n->up = true;
		node_close(n->node);
		n->node = NULL;
		if (!s->raw)
			err = node_open(n->region, s->region_len, &env, &n->node);
	}
	sim_start(s, seed);
	return err;
}

void
far_sim_close(struct far_sim *s)
{
	struct sim_run *r;

	if (!s)
		return;
	FAR_ASSERT(!s->conns);
	for (unsigned i = 0; i < s->nodes_n; i++)
		sim_node_free(&s->nodes[i]);
	while ((r = s->free_runs)) {
		s->free_runs = r->next;
		free(r);
	}
	free(s->active);
	free(s);
}

void
far_sim_set_policy(struct far_sim *s, const struct far_sim_policy *p)
{
	s->policy = *p;
	if (!s->policy.step_ns)
		s->policy.step_ns = SIM_STEP_NS;
	s->keep_mask = p->keep ? (UINT64_C(1) << p->keep) - 1 : 0;
	FAR_ASSERT(p->keep <= 6);
}

uint64_t
far_sim_now(const struct far_sim *s)
{
	return s->now;
}

uint64_t
far_sim_steps(const struct far_sim *s)
{
	return s->steps;
}

uint64_t
far_sim_verbs(const struct far_sim *s)
{
	return s->verbs;
}

bool
far_sim_exhausted(const struct far_sim *s)
{
	return s->exhausted;
}

uint64_t
far_sim_hash(const struct far_sim *s)
{
	return s->hash;
}

uint64_t
far_sim_rand(struct far_sim *s)
{
	return far_rng_next(&s->rng);
}
