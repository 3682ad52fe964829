/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c -- how the verbs of the simulated fabric take effect, step by step.
 *
 * A chain in flight is a "run". It works on a group of operations that G3 leaves unordered among each other, each a
 * "lane" with a mask of the words that are still to do; when all lanes are through, the next group begins. A step
 * picks a run, a lane and a word. Words beyond 64 are done in pieces of 64, in cyclic order from a random piece.
 *
 *	active[]   runs that may step, in no order
 *	conn.held  runs that stand still (sim_fate.c)
 *	conn.done  finished chains that the fabric core has not fetched yet
 *
 * The world has the only poller. It steps until a chain is done; then the core fetches it from the connection
 * concerned, and the client computes before the next step.
 */
#include <string.h>
#include <xxhash.h>

#include "fabric/sim_impl.h"
#include "pool/node.h"

/* Trace and memory ---------------------------------------------------------------------------------------- */

/* What becomes of the trace `hash` with one more word in it: one wide multiplication. */
static inline uint64_t
sim_fold(uint64_t hash, uint64_t tag, uint64_t value)
{
	unsigned __int128 m = (unsigned __int128)(hash ^ tag ^ 0x9e3779b97f4a7c15ULL) *
			      (value ^ 0xd6e8feb86659fd93ULL);

	return (uint64_t)m ^ (uint64_t)(m >> 64) ^ hash >> 7;
}

static inline void
sim_trace(struct far_sim *s, uint64_t tag, uint64_t value)
{
	s->hash = sim_fold(s->hash, tag, value);
}

/* A step takes one draw, from a quick source: a counter that one wide multiplication mixes. */
static inline uint64_t
sim_draw(struct far_sim *s)
{
	unsigned __int128 m;

	s->draws += 0xa0761d6478bd642fULL;
	m = (unsigned __int128)s->draws * (s->draws ^ 0xe7037ed1a0b428dbULL);
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t
sim_tag(const struct sim_run *r, const struct far_op *op, uint64_t off)
{
	return off << 16 | (uint64_t)(r->chain->node & 15) << 12 |
	       (uint64_t)(r->conn->id & 255) << 4 | op->code;
}

void
far_sim_touch(struct far_sim *s, unsigned node, uint64_t off, uint64_t len)
{
	for (uint64_t at = off & ~(uint64_t)(SIM_PAGE - 1); at < off + len && at < s->region_len;
	     at += SIM_PAGE)
		sim_dirty(&s->nodes[node], at);
}

/* Runs ---------------------------------------------------------------------------------------------------- */

int
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

void
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

void
sim_end(struct far_sim *s, struct sim_run *r, int status)
{
	if (r->stray) {
		s->faults.landed += status == 0;
		s->faults.discarded += status != 0;
		s->faults.repeats += status == 0 ? r->stray->repeats : 0;
		free(r->stray);
		r->stray = NULL;
	} else {
		if (status == -FAR_EFENCED && r->conn->zombie) {
			r->conn->zombie = false;
			s->faults.zombies++;
		}
		sim_done(s, r->conn, r->chain, status);
	}
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
sim_may_pass(const struct far_sim *s, unsigned group, const struct far_op *op)
{
	const unsigned atomics = 1u << FAR_OP_CAS | 1u << FAR_OP_FAA;

	if (s->policy.relaxed && op->code == FAR_OP_WRITE)
		group &= ~(1u << FAR_OP_WRITE);
	if ((group & (1u << FAR_OP_WRITE | 1u << FAR_OP_CALL)) || op->flags & FAR_OP_FENCE ||
	    op->code == FAR_OP_CALL)
		return false;
	return !(group & atomics) || op->code == FAR_OP_WRITE;
}

/* May the client change this? Of a node's tables the pool's epoch, by CAS, and the word of its own session, by WRITE;
 * all else there is the node's (pool/layout.h). */
static bool
sim_may_change(const struct far_sim *s, const struct sim_run *r, const struct far_op *op)
{
	const struct pool_super *super = (const void *)s->nodes[0].region;
	const struct pool_session_line *line;
	uint64_t off = far_addr_off(op->addr), at = off - super->sessions_off;

	if (r->chain->node != 0 || op->len != 8)
		return false;
	if (off == offsetof(struct pool_super, epoch))
		return op->code == FAR_OP_CAS;
	if (op->code != FAR_OP_WRITE || off < super->sessions_off ||
	    at >= super->sessions_n * sizeof(*line) ||
	    at % sizeof(*line) != offsetof(struct pool_session_line, word))
		return false;
	line = (const void *)(s->nodes[0].region + off - offsetof(struct pool_session_line, word));
	return line->serial == r->conn->session[0];
}

/* Counts an operation that the client has no right to. */
static inline void
sim_check_right(struct far_sim *s, const struct sim_run *r, const struct far_op *op)
{
	const struct sim_node *n = &s->nodes[r->chain->node];

	if (__builtin_expect(far_addr_off(op->addr) < n->head_len, 0) && n->node &&
	    (op->code == FAR_OP_WRITE || op->code == FAR_OP_CAS || op->code == FAR_OP_FAA))
		s->faults.trespasses += !sim_may_change(s, r, op);
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
	/* What is found and what is stored. */
	if (s->policy.gap && (op->code == FAR_OP_CAS || op->code == FAR_OP_FAA))
		words = 2;
	if (words == 0)
		return;
	sim_check_right(s, r, op);
	if (__builtin_expect(++r->conn->verbs == r->conn->aim_verb, 0))
		sim_aim_begin(r->conn, op, words);
	r->lanes_n++;
	l->at = s->nodes[r->chain->node].region + far_addr_off(op->addr);
	sim_lane_of(l, op);
	l->tag = sim_tag(r, op, far_addr_off(op->addr));
	if (op->code == FAR_OP_WRITE)
		far_sim_touch(s, r->chain->node, far_addr_off(op->addr), op->len);
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
			s->faults.invalid += group == 0;
			*status = -FAR_EACCESS;
			return group != 0;
		}
		sim_lane_begin(s, r, op);
		group |= 1u << op->code;
		r->next_op = op->next;
		r->ops_left--;
	} while ((s->policy.weak || s->policy.relaxed) && r->ops_left && r->lanes_n < SIM_LANES &&
		 sim_may_pass(s, group, r->next_op));
	return true;
}

bool
sim_group_begin(struct far_sim *s, struct sim_run *r, int *status)
{
	while (r->lanes_n == 0) {
		*status = r->chain->status;
		if (r->ops_left == 0 || !sim_group_fill(s, r, status))
			return false;
	}
	return true;
}

/* Steps --------------------------------------------------------------------------------------------------- */

/* Is it this grant's turn to be refused? */
static bool
sim_refuses(struct far_sim *s)
{
	if (!s->refuse || --s->refuse > 0)
		return false;
	s->refuse = s->refuse_all;
	s->faults.refused++;
	sim_trouble(s, s->now);
	return true;
}

/* The node has acknowledged that session `serial` was told to stop: nothing of it may change memory from here on. */
static void
sim_acknowledge(struct far_sim *s, unsigned node, uint64_t serial)
{
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		if (k->session[node] == serial && k->life[node] == s->nodes[node].life)
			k->fenced[node] = s->fences = true;
	}
	sim_set_watched(s);
}

/* One request to the node's control endpoint. It may cut runs of others (FENCE). */
static void
sim_call(struct far_sim *s, struct sim_run *r, struct far_op *op)
{
	struct sim_node *n = &s->nodes[r->chain->node];
	struct control_request req;
	struct control_reply reply = { .err = -FAR_ENOTSUP };

	memcpy(&req, op->buf, sizeof(req));
	if (req.code == CONTROL_GRANT && sim_refuses(s)) {
		reply.err = -FAR_ENOMEM;
	} else if (n->node) {
		bool complete =
			node_serve(n->node, &r->conn->session[r->chain->node], &req, &reply);

		/* Our stop() is never under way. */
		FAR_ASSERT(complete);
		if (req.code == CONTROL_FENCE && reply.err == 0)
			sim_acknowledge(s, r->chain->node, req.serial);
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

void
sim_gap_close(struct sim_node *n)
{
	if (n->gap_op && n->gap_word)
		*n->gap_word = n->gap_value;
	n->gap_op = NULL;
}

/* One half of an atomic that plain WRITEs may come between. The node has one unit for atomics: whose turn it is ends
 * the one before. */
__attribute__((cold, noinline)) static void
sim_atomic_half(struct far_sim *s, struct sim_run *r, struct far_op *op, uint64_t *word, bool first)
{
	struct sim_node *n = &s->nodes[r->chain->node];
	uint64_t off = far_addr_off(op->addr), old;

	if (!first) {
		if (n->gap_op == op)
			sim_gap_close(n);
		return;
	}
	sim_gap_close(n);
	s->faults.unfenced += r->conn->fenced[r->chain->node];
	old = *word;
	n->gap_op = op;
	n->gap_value = op->code == FAR_OP_FAA ? old + op->addend : op->desired;
	n->gap_word = op->code == FAR_OP_FAA || old == op->expect ? word : NULL;
	sim_dirty(n, off);
	memcpy(op->buf, &old, 8);
	sim_trace(s, sim_tag(r, op, off), old ^ (n->gap_word ? n->gap_value : old) << 1);
}

/* What is no READ or WRITE: one step. */
static void
sim_single(struct far_sim *s, struct sim_run *r, struct far_op *op, uint8_t *at)
{
	if (op->code == FAR_OP_CALL) {
		sim_call(s, r, op);
		return;
	}
	s->faults.unfenced += r->conn->fenced[r->chain->node];
	sim_atomic(s, r, op, (uint64_t *)at);
}

/* Moves `words` of the lane's piece, a bit each, from the lowest on. */
static inline void
sim_words(struct far_sim *s, struct sim_run *r, struct sim_lane *l, uint64_t words)
{
	uint64_t v, hash = s->hash;

	if (l->op->code > FAR_OP_WRITE) {
		if (s->policy.gap && l->op->code != FAR_OP_CALL)
			sim_atomic_half(s, r, l->op, (uint64_t *)l->at, l->left != 0);
		else
			sim_single(s, r, l->op, l->at);
		return;
	}
	do {
		size_t i = l->base + (uint32_t)__builtin_ctzll(words);

		memcpy(&v, l->from + i * 8, 8);
		memcpy(l->to + i * 8, &v, 8);
		hash = sim_fold(hash, l->tag + (i << 19), v);
		words &= words - 1;
	} while (__builtin_expect(words != 0, 0));
	s->hash = hash;
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

/* Where priorities rule: the first client's run, any of them when it has several. */
__attribute__((cold, noinline)) static uint32_t
sim_pick(struct far_sim *s, uint64_t draw)
{
	uint32_t n = s->active_n, at = (uint32_t)((draw >> 32) * n >> 32), best = at;

	for (uint32_t i = at + 1; i < at + n; i++) {
		uint32_t k = i < n ? i : i - n;

		if (s->active[k]->conn->priority > s->active[best]->conn->priority)
			best = k;
	}
	if (++s->alone >= SIM_ALONE || s->steps >= s->change_step)
		sim_demote(s, s->active[best]->conn);
	return best;
}

/* Tells a step whose operation's word `i` is done. */
static void
sim_tell(struct far_sim *s, const struct sim_run *r, const struct far_op *op, const uint8_t *at,
	 uint32_t i)
{
	struct far_sim_step p = { .now = s->now, .client = r->conn->id, .node = r->chain->node };
	uint32_t code;

	p.code = op->code;
	p.stray = r->stray;
	p.off = far_addr_off(op->addr) + (uint64_t)i * 8;
	if (op->code == FAR_OP_CALL) {
		memcpy(&code, op->buf, sizeof(code));
		p.value = code;
	} else {
		memcpy(&p.value, at + (size_t)i * 8, sizeof(p.value));
	}
	s->tell(s->tell_arg, &p);
}

/* Does the fate strike before this step? */
static inline bool
sim_aim_is_before(struct sim_run *r, const struct far_op *op)
{
	if (r->conn->aim != op || r->conn->aim_left > 0)
		return false;
	r->conn->aim = NULL;
	return true;
}

/* Looks at a step that moved `words` of `l`: are they of a client that was fenced? When the last one before a fate
 * strikes is among them, the fuse burns down in this step. */
__attribute__((cold, noinline)) static void
sim_watch(struct far_sim *s, struct sim_run *r, const struct sim_lane *l, uint64_t words)
{
	const struct far_op *op = l->op;
	uint32_t n = (uint32_t)__builtin_popcountll(words);
	struct sim_conn *k = r->conn;

	if (op->code == FAR_OP_WRITE && k->fenced[r->chain->node])
		s->faults.unfenced += n;
	if (k->aim == op && k->aim_left <= n) {
		k->aim = NULL;
		k->fuse = 1;
	} else if (k->aim == op) {
		k->aim_left -= n;
	}
	for (; s->tell && words; words &= words - 1)
		/* Both halves of an atomic are of one word. */
		sim_tell(s, r, op, l->at,
			 op->len > 8 ? l->base + (uint32_t)__builtin_ctzll(words) : 0);
}

/* Which words of its piece the step moves: word `bit`, or what is left of its line. */
static inline uint64_t
sim_step_words(const struct far_sim *s, const struct sim_lane *l, uint32_t bit)
{
	uint32_t in;

	/* A line holds both halves of an atomic. */
	if (!s->policy.line || l->op->code > FAR_OP_WRITE)
		return UINT64_C(1) << bit;
	/* Its place in the line; a piece starts at one like the operation's first word. */
	in = (uint32_t)(far_addr_off(l->op->addr) / 8 + bit) % SIM_LINE;
	return l->left & (in > bit ? SIM_LINE_MASK >> (in - bit) : SIM_LINE_MASK << (bit - in));
}

/* The chain of `r`, in no list, is through; but perhaps its client learns that later. */
__attribute__((cold, noinline)) static void
sim_end_late(struct far_sim *s, struct sim_run *r, int status)
{
	if (r->stray || far_rng_below(&s->rng, s->policy.late) > 0) {
		sim_end(s, r, status);
		return;
	}
	s->faults.lates++;
	/* Of the operations none is left: what is left is to say so. */
	r->chain->status = status;
	r->ops_left = 0;
	sim_hold(s, r, s->now + far_rng_below(&s->rng, s->policy.late_ns + 1));
}

static inline void
sim_step(struct far_sim *s)
{
	uint64_t draw = sim_draw(s);
	struct sim_run *r;
	struct sim_lane *l;
	uint64_t words;
	uint32_t from, bit;
	int status;

	/* 1. Who: the same one as before, or anybody. Bits 0-5 and 32-63 of the draw. */
	if (s->at >= s->active_n || (draw & s->keep_mask) == 0) {
		if (__builtin_expect(s->policy.changes, 0))
			s->at = sim_pick(s, draw);
		else
			s->at = (uint32_t)((draw >> 32) * s->active_n >> 32);
		s->favour = s->active[s->at]->conn;
	}
	r = s->active[s->at];
	/* 2. Which operation, which words: the first one left from a random place on. */
	l = &r->lanes[r->lanes_n == 1 ? 0 : (draw >> 6 & 255) * r->lanes_n >> 8];
	from = (uint32_t)((draw >> 16 & 0xffff) * l->words >> 16);
	bit = (uint32_t)__builtin_ctzll(l->left >> from | l->left << (-from & 63));
	words = sim_step_words(s, l, (bit + from) & 63);
	if (__builtin_expect(s->watched, 0) && sim_aim_is_before(r, l->op)) {
		sim_fuse_burnt(s, r);
		return;
	}
	r->began = true;
	s->now += s->policy.step_ns;
	s->steps++;
	l->left &= ~words;
	sim_words(s, r, l, words);
	if (__builtin_expect(s->watched, 0))
		sim_watch(s, r, l, words);
	/* 3. What follows. */
	if (l->left == 0)
		sim_lane_next(r, l);
	if (__builtin_expect(--r->conn->fuse == 0, 0) && !r->stray)
		sim_fuse_burnt(s, r);
	else if (r->lanes_n == 0 && !sim_group_begin(s, r, &status)) {
		sim_deactivate(s, r);
		(s->policy.late ? sim_end_late : sim_end)(s, r, status);
	}
}

int
sim_apply(struct far_sim *s, struct sim_run *r, struct far_op *op)
{
	struct sim_node *n = &s->nodes[r->chain->node];
	uint64_t off = far_addr_off(op->addr);

	if (!sim_is_valid(s, op)) {
		s->faults.invalid++;
		return -FAR_EACCESS;
	}
	s->verbs++;
	r->conn->verbs++;
	sim_check_right(s, r, op);
	if (op->code == FAR_OP_READ) {
		/* What it finds follows from what was written, which the trace knows. */
		memcpy(op->buf, n->region + off, op->len);
		sim_trace(s, sim_tag(r, op, off), op->len);
	} else if (op->code == FAR_OP_WRITE) {
		memcpy(n->region + off, op->buf, op->len);
		far_sim_touch(s, r->chain->node, off, op->len);
		sim_trace(s, sim_tag(r, op, off), XXH3_64bits(op->buf, op->len));
	} else {
		sim_single(s, r, op, n->region + off);
	}
	return 0;
}

int
sim_collect(struct far_sim *s)
{
	if (!s->done_n)
		return 0;
	for (struct sim_conn *k = s->conns; k && s->done_n; k = k->next)
		if (k->done)
			k->base.poller.poll(&k->base.poller, false);
	return 1;
}

int
sim_poll_all(struct far_poller *p, bool idle)
{
	struct far_sim *s = FAR_CONTAINER(p, struct far_sim, poller);

	if (s->nic)
		return sim_nic_poll(s, idle);
	for (unsigned i = 0; i < SIM_POLL_STEPS && s->active_n && !s->done_n; i++) {
		sim_step(s);
		if (s->now >= s->event_ns)
			sim_events(s);
	}
	if (s->policy.steps_max && s->steps > s->policy.steps_max && !s->exhausted)
		sim_exhaust(s);
	/* Steps alone are nothing to keep the loop from its timers. */
	return sim_collect(s);
}

/* Of all connections: what a paused one has in flight does not keep time from jumping. */
bool
sim_busy(struct far_poller *p)
{
	struct far_sim *s = FAR_CONTAINER(p, struct far_sim, poller);

	return s->active_n > 0 || s->done_n > 0 || sim_nic_busy(s);
}
