/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fate.c -- what befalls clients, connections and nodes of the simulator.
 *
 * Whatever stands still is a held run: those of a paused client until it goes on, a parked chain, a completion that is
 * late, and strays. A stray is a chain that its client knows nothing of any more, because its connection broke or it
 * died: it has a copy of the operations and of what they write, and lands when its time has come, unless the session
 * was fenced at the node, or the node failed, before.
 *
 * A repeat (far_sim_policy.repeat) is a stray of WRITEs that the node has done: a copy of their packets that the
 * network held back. A reliable connection tells such copies from new requests by their numbers, but only as long as
 * it lives; atomics are safe beyond that, since a node answers them again from what it has noted and never does them
 * twice. READs change nothing, and nobody waits for what they bring.
 *
 * A client that stands still does not learn anything either: what ends meanwhile is told when it goes on.
 */
#include <string.h>

#include "fabric/sim_impl.h"

/* Holding ------------------------------------------------------------------------------------------------- */

/* When held `r` goes on, as it looks now. */
static uint64_t
sim_thaw_time(const struct sim_run *r)
{
	return r->stray ? r->thaw_ns : far_max(r->thaw_ns, r->conn->thaw_ns);
}

void
sim_hold(struct far_sim *s, struct sim_run *r, uint64_t until)
{
	struct sim_conn *k = r->conn;

	r->thaw_ns = until;
	r->next = k->held;
	k->held = r;
	s->event_ns = far_min(s->event_ns, sim_thaw_time(r));
}

/* `r` is in no list: it goes on, or has nothing to do any more. */
static void
sim_resume(struct far_sim *s, struct sim_run *r)
{
	int status;

	r->thaw_ns = 0;
	if (r->lanes_n == 0 && !sim_group_begin(s, r, &status))
		sim_end(s, r, status);
	else if (sim_activate(s, r) != 0)
		sim_end(s, r, -FAR_ENOMEM);
}

/* Who is due goes on. */
static void
sim_thaw(struct far_sim *s, struct sim_conn *k)
{
	struct sim_run **link = &k->held, *r, *due = NULL, **tail = &due;

	if (k->thaw_ns && k->thaw_ns <= s->now)
		k->thaw_ns = 0;
	while ((r = *link)) {
		if (r->thaw_ns > s->now || (k->thaw_ns && !r->stray)) {
			link = &r->next;
			continue;
		}
		*link = r->next;
		*tail = r;
		tail = &r->next;
	}
	*tail = NULL;
	while ((r = due)) {
		due = r->next;
		sim_resume(s, r);
	}
}

/* Cutting ------------------------------------------------------------------------------------------------- */

/* `r`, in no list, will never do anything again. */
static void
sim_cut_run(struct far_sim *s, struct sim_run *r, int status)
{
	struct sim_node *n = &s->nodes[r->chain->node];

	for (unsigned i = 0; i < r->lanes_n; i++) {
		/* The atomic unit does not stop half-way. */
		if (n->gap_op && n->gap_op == r->lanes[i].op)
			sim_gap_close(n);
	}
	if (status == -FAR_EUNSURE && !r->began)
		status = -FAR_ENODE;
	if (r->stray || !r->conn->thaw_ns || r->conn->dead) {
		sim_end(s, r, status);
		return;
	}
	r->lanes_n = 0;
	r->ops_left = 0;
	r->chain->status = status;
	sim_hold(s, r, 0);
}

static bool
sim_is_cut(const struct sim_run *r, const struct sim_conn *k, int node)
{
	return (!k || r->conn == k) && (node < 0 || r->chain->node == node);
}

/* Takes the first active or held run of `k` at `node` out of its list, NULL when there is none. Strays, too, when
 * `strays`. */
static struct sim_run *
sim_take(struct far_sim *s, struct sim_conn *k, int node, bool strays)
{
	for (uint32_t i = 0; i < s->active_n; i++) {
		struct sim_run *r = s->active[i];

		if (!sim_is_cut(r, k, node) || (r->stray && !strays))
			continue;
		sim_deactivate(s, r);
		return r;
	}
	for (struct sim_conn *c = k ? k : s->conns; c; c = k ? NULL : c->next) {
		for (struct sim_run **link = &c->held, *r; (r = *link); link = &r->next) {
			if (!sim_is_cut(r, k, node) || (r->stray && !strays))
				continue;
			*link = r->next;
			return r;
		}
	}
	return NULL;
}

void
sim_cut(struct far_sim *s, struct sim_conn *k, int node, int status)
{
	struct sim_run *r, *cut = NULL;

	sim_nic_cut(s, k, node, status);
	/* All are taken first: what ends for a paused client is held again. */
	while ((r = sim_take(s, k, node, true))) {
		r->next = cut;
		cut = r;
	}
	while ((r = cut)) {
		cut = r->next;
		sim_cut_run(s, r, status);
	}
}

/* Strays -------------------------------------------------------------------------------------------------- */

/* Bytes that the copy of an operation needs for itself. */
static size_t
sim_stray_len(const struct far_op *op)
{
	return far_align(op->len, 8) + (op->code == FAR_OP_CALL ? far_align(op->reply_max, 8) : 0);
}

static void
sim_stray_copy(struct far_op *to, const struct far_op *op, uint8_t *buf)
{
	*to = *op;
	to->buf = buf;
	if (op->code == FAR_OP_WRITE || op->code == FAR_OP_CALL)
		memcpy(buf, op->buf, op->len);
	if (op->code == FAR_OP_CALL)
		to->reply = buf + far_align(op->len, 8);
	to->next = to + 1;
}

/* A chain like that of `r`, whose client goes away. */
static struct sim_stray *
sim_stray_new(const struct sim_run *r)
{
	const struct far_chain *c = r->chain;
	const struct far_op *op;
	struct sim_stray *y;
	uint8_t *buf;
	size_t len = sizeof(*y) + c->n * sizeof(y->ops[0]);
	uint32_t i;

	for (i = 0, op = c->first; i < c->n; i++, op = op->next)
		len += sim_stray_len(op);
	y = malloc(len);
	if (!y)
		return NULL;
	y->repeats = 0;
	y->chain = *c;
	buf = (uint8_t *)&y->ops[c->n];
	for (i = 0, op = c->first; i < c->n; i++, op = op->next) {
		sim_stray_copy(&y->ops[i], op, buf);
		buf += sim_stray_len(op);
	}
	return y;
}

/* Where the copy of `op` is, NULL for none. */
static struct far_op *
sim_stray_op(struct sim_stray *y, const struct far_chain *from, const struct far_op *op)
{
	struct far_op *to = y->ops;

	for (const struct far_op *at = from->first; at && at != op; at = at->next)
		to++;
	return op ? to : NULL;
}

/* What is left of the chain of `r` will be done by `until`, whatever becomes of `r`. False: out of memory, or nothing
 * is left. */
static bool
sim_stray(struct far_sim *s, const struct sim_run *r, uint64_t until)
{
	struct sim_stray *y;
	struct sim_run *copy;

	if (r->lanes_n == 0 && r->ops_left == 0)
		return false;
	if (!(y = sim_stray_new(r)))
		return false;
	if (!(copy = sim_run_new(s))) {
		free(y);
		return false;
	}
	*copy = *r;
	copy->chain = &y->chain;
	copy->stray = y;
	copy->next_op = sim_stray_op(y, r->chain, r->next_op);
	for (unsigned i = 0; i < r->lanes_n; i++) {
		struct sim_node *n = &s->nodes[r->chain->node];

		if (n->gap_op == r->lanes[i].op)
			sim_gap_close(n);
		sim_lane_of(&copy->lanes[i], sim_stray_op(y, r->chain, r->lanes[i].op));
	}
	s->faults.strays++;
	sim_trouble(s, until);
	sim_hold(s, copy, until);
	return true;
}

/* Has `r` done something of this WRITE? */
static bool
sim_has_begun(const struct sim_run *r, const struct far_op *op)
{
	if (op->code != FAR_OP_WRITE || !r->began)
		return false;
	for (const struct far_op *at = r->next_op; r->ops_left && at; at = at->next) {
		if (at == op)
			return false;
	}
	return true;
}

/* The WRITEs that `r` has begun will be done again by `until`, whatever becomes of `r`. */
static void
sim_repeat(struct far_sim *s, const struct sim_run *r, uint64_t until)
{
	struct sim_stray *y = sim_stray_new(r);
	struct sim_run *copy = y ? sim_run_new(s) : NULL;
	struct far_op **link, *to;

	if (!copy) {
		free(y);
		return;
	}
	*copy = (struct sim_run){ .chain = &y->chain, .conn = r->conn, .stray = y };
	link = &copy->next_op;
	for (const struct far_op *op = r->chain->first; op; op = op->next) {
		if (!sim_has_begun(r, op))
			continue;
		to = sim_stray_op(y, r->chain, op);
		*link = to;
		link = &to->next;
		copy->ops_left++;
	}
	y->repeats = copy->ops_left;
	s->faults.strays += y->repeats > 0;
	if (!y->repeats) {
		free(y);
		copy->stray = NULL;
		copy->next = s->free_runs;
		s->free_runs = copy;
		return;
	}
	sim_trouble(s, until);
	sim_hold(s, copy, until);
}

/* Takes all that sim_take() would, as a list. */
static struct sim_run *
sim_take_all(struct far_sim *s, struct sim_conn *k, int node)
{
	struct sim_run *r, *all = NULL;

	while ((r = sim_take(s, k, node, false))) {
		r->next = all;
		all = r;
	}
	return all;
}

/* Ends every chain of `k` at `node` (< 0: any) as if the client had gone away; what is left of some of them lands
 * within `ns`. */
static void
sim_leave(struct far_sim *s, struct sim_conn *k, int node, uint64_t ns, int status)
{
	struct sim_run *r, *all = sim_take_all(s, k, node);

	while ((r = all)) {
		all = r->next;
		if (ns && s->policy.repeat && far_rng_below(&s->rng, s->policy.repeat) == 0)
			sim_repeat(s, r, s->now + far_rng_below(&s->rng, ns));
		if (ns && far_rng_below(&s->rng, 4) > 0 &&
		    sim_stray(s, r, s->now + far_rng_below(&s->rng, ns)))
			r->began = true;
		sim_cut_run(s, r, status);
	}
}

/* What a fabric does that hides broken connections: every chain of `k` at `node` is posted again, though the old one
 * may have been done, or land within `ns`. */
static void
sim_repost(struct far_sim *s, struct sim_conn *k, int node, uint64_t ns)
{
	struct sim_run *r, *all = sim_take_all(s, k, node);

	while ((r = all)) {
		all = r->next;
		if (ns && far_rng_below(&s->rng, 4) > 0)
			(void)sim_stray(s, r, s->now + far_rng_below(&s->rng, ns));
		r->lanes_n = 0;
		r->next_op = r->chain->first;
		r->ops_left = r->chain->cut;
		sim_resume(s, r);
	}
}

/* Clients ------------------------------------------------------------------------------------------------- */

static void
sim_kill(struct sim_conn *k, uint64_t ns)
{
	struct far_sim *s = k->sim;

	k->dead = true;
	k->thaw_ns = 0;
	k->plan_ns = SIM_NEVER;
	s->faults.kills++;
	sim_trouble(s, s->now);
	sim_leave(s, k, -1, ns, -FAR_EFENCED);
}

void
far_sim_kill(struct far_fabric *f)
{
	sim_kill(FAR_CONTAINER(f, struct sim_conn, base), 0);
}

void
far_sim_break(struct far_fabric *f, unsigned node, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	if (far_zoo(k->sim->policy.zoo, ZOO_REPOSTED)) {
		sim_repost(k->sim, k, (int)node, ns);
		return;
	}
	if (k->broken[node])
		return;
	k->broken[node] = true;
	k->sim->faults.breaks++;
	sim_trouble(k->sim, k->sim->now);
	sim_leave(k->sim, k, (int)node, ns, -FAR_EUNSURE);
}

void
far_sim_pause(struct far_fabric *f, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);
	struct far_sim *s = k->sim;

	if (k->dead)
		return;
	k->thaw_ns = far_max(k->thaw_ns, s->now + far_max(ns, 1));
	s->faults.pauses++;
	sim_trouble(s, k->thaw_ns);
	for (uint32_t i = 0; i < s->active_n;) {
		struct sim_run *r = s->active[i];

		if (r->conn != k || r->stray) {
			i++;
			continue;
		}
		sim_deactivate(s, r);
		sim_hold(s, r, 0);
	}
	sim_events_next(s);
}

void
far_sim_plan_pause(struct far_fabric *f, uint64_t at, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	k->plan_ns = at;
	k->plan_len_ns = ns;
	sim_events_next(k->sim);
}

void
far_sim_fuse(struct far_fabric *f, uint64_t steps, enum far_sim_fate fate, uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	k->fuse = steps;
	k->fate = fate;
	k->fate_ns = ns;
}

void
far_sim_aim(struct far_fabric *f, uint64_t verb, enum far_sim_point point, enum far_sim_fate fate,
	    uint64_t ns)
{
	struct sim_conn *k = FAR_CONTAINER(f, struct sim_conn, base);

	k->aim_verb = verb;
	k->aim_point = point;
	k->aim = NULL;
	k->fate = fate;
	k->fate_ns = ns;
	/* Words are counted in watched steps only. */
	k->sim->aims |= verb != SIM_NEVER;
	sim_set_watched(k->sim);
}

uint64_t
far_sim_client_verbs(const struct far_fabric *f)
{
	return FAR_CONTAINER(f, const struct sim_conn, base)->verbs;
}

void
sim_aim_begin(struct sim_conn *k, const struct far_op *op, uint32_t words)
{
	static const uint32_t parts[FAR_SIM_POINTS] = { 0, 1, 2 };

	k->aim_verb = SIM_NEVER;
	k->aim = op;
	k->aim_left = words * parts[k->aim_point] / 2;
}

void
sim_evict(struct far_sim *s, struct sim_conn *k)
{
	s->faults.evicted += !k->dead;
	k->dead = true;
	k->thaw_ns = 0;
	k->plan_ns = SIM_NEVER;
	sim_cut(s, k, -1, -FAR_EFENCED);
}

/* Everybody loses the connection: the run is longer than anybody wanted. */
void
sim_exhaust(struct far_sim *s)
{
	s->exhausted = true;
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		k->dead = true;
		k->thaw_ns = 0;
	}
	sim_cut(s, NULL, -1, -FAR_EFENCED);
}

static void
sim_park(struct far_sim *s, struct sim_run *r, uint64_t ns)
{
	sim_deactivate(s, r);
	sim_hold(s, r, s->now + far_max(ns, 1));
	s->faults.parks++;
	sim_trouble(s, s->now + ns);
}

void
sim_fuse_burnt(struct far_sim *s, struct sim_run *r)
{
	struct sim_conn *k = r->conn;
	unsigned node = r->chain->node;

	k->fuse = SIM_NEVER;
	switch (k->fate) {
	case FAR_SIM_KILL:
		sim_kill(k, k->fate_ns);
		break;
	case FAR_SIM_PAUSE:
		far_sim_pause(&k->base, k->fate_ns);
		break;
	case FAR_SIM_PARK:
		sim_park(s, r, k->fate_ns);
		break;
	default:
		far_sim_break(&k->base, node, k->fate_ns);
	}
}

void
sim_demote(struct far_sim *s, struct sim_conn *k)
{
	k->priority = --s->lowest;
	s->alone = 0;
	if (s->steps < s->change_step)
		return;
	s->change_step = SIM_NEVER;
	if (s->changes_left == 0 || --s->changes_left == 0)
		return;
	s->change_step = s->steps + 1 + far_rng_below(&s->rng, s->policy.change_steps + 1);
}

/* Events -------------------------------------------------------------------------------------------------- */

void
far_sim_plan_node(struct far_sim *s, unsigned node, uint64_t at, uint64_t ns,
		  enum far_sim_return how)
{
	struct sim_node *n = &s->nodes[node];

	n->down_ns = at;
	n->up_ns = at == SIM_NEVER || how == FAR_SIM_NEVER ? SIM_NEVER : at + far_max(ns, 1);
	n->how = how;
	sim_events_next(s);
}

void
far_sim_refuse(struct far_sim *s, uint64_t k, bool forever)
{
	s->refuse = k;
	s->refuse_all = k && forever;
}

void
sim_events_next(struct far_sim *s)
{
	s->event_ns = SIM_NEVER;
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		s->event_ns = far_min(s->event_ns, k->plan_ns);
		if (k->thaw_ns)
			s->event_ns = far_min(s->event_ns, k->thaw_ns);
		for (struct sim_run *r = k->held; r; r = r->next)
			s->event_ns =
				far_min(s->event_ns,
					r->stray ? r->thaw_ns : far_max(r->thaw_ns, k->thaw_ns));
	}
	for (unsigned i = 0; i < s->nodes_n; i++)
		s->event_ns = far_min(s->event_ns, far_min(s->nodes[i].down_ns, s->nodes[i].up_ns));
}

static void
sim_events_node(struct far_sim *s, unsigned i)
{
	struct sim_node *n = &s->nodes[i];

	if (n->down_ns <= s->now) {
		n->down_ns = SIM_NEVER;
		if (n->up)
			far_sim_node_down(s, i);
	}
	if (n->up_ns <= s->now && n->down_ns == SIM_NEVER) {
		n->up_ns = SIM_NEVER;
		/* Out of memory: it stays down. */
		if (!n->up && far_sim_node_up(s, i, n->how == FAR_SIM_KEPT) != 0)
			n->up = false;
	}
}

void
sim_events(struct far_sim *s)
{
	for (unsigned i = 0; i < s->nodes_n; i++)
		sim_events_node(s, i);
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		if (k->plan_ns <= s->now) {
			k->plan_ns = SIM_NEVER;
			far_sim_pause(&k->base, k->plan_len_ns);
		}
		sim_thaw(s, k);
	}
	sim_events_next(s);
}
