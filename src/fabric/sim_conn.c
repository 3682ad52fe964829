/* SPDX-License-Identifier: Apache-2.0 */
/* sim_conn.c -- a client's connections in the simulated world, as a fabric: what it posts becomes runs of sim.c. */
#include <string.h>

#include "fabric/sim_impl.h"

struct sim_run *
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
	for (; r->ops_left > 0; r->ops_left--) {
		struct far_op *op = r->next_op;
		int err = sim_apply(s, r, op);

		if (err != 0)
			return err;
		/* Hardly any time: timers would come late, for the loop looks at them between chains only. */
		s->now++;
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
	r->thaw_ns = 0;
	r->stray = NULL;
	if (k->dead || k->cut[c->node])
		status = -FAR_EFENCED;
	else if (k->broken[c->node] || !n->up || n->life != k->life[c->node])
		status = -FAR_ENODE;
	else if (s->policy.calm)
		status = sim_post_calm(s, r);
	else if (s->nic)
		return sim_nic_post(s, r);
	else if (k->thaw_ns)
		/* A paused client may still compute; what it posts waits. */
		goto hold;
	else if (sim_group_begin(s, r, &status) && (status = sim_activate(s, r)) == 0)
		return 0;
	if (!k->thaw_ns || k->dead) {
		sim_end(s, r, status);
		return 0;
	}
	/* Nor does it learn what becomes of that before it goes on. */
	c->status = status;
	r->ops_left = 0;
hold:
	sim_hold(s, r, 0);
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

	/* What it left behind at the nodes. */
	k->thaw_ns = 0;
	sim_cut(s, k, -1, -FAR_EFENCED);
	/* Nobody fetches what is done: the world must not wait for that. */
	for (; k->done; k->done = k->done->next)
		s->done_n--;
	for (link = &s->conns; *link != k; link = &(*link)->next)
		continue;
	*link = k->next;
	sim_events_next(s);
	if (s->favour == k)
		s->favour = NULL;
	if (!s->conns)
		far_loop_remove(s->loop, &s->poller);
	sim_nic_disconnect(k);
	free(k);
}

/* The world polls those connections that have something, and there may be a thousand. */
static const struct far_fabric_ops sim_ops = {
	.name = "sim",
	.quiet = true,
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
	k->sim = s;
	if (s->nic && sim_nic_connect(k) != 0) {
		free(k);
		return -FAR_ENOMEM;
	}
	if (!s->conns) {
		s->loop = l;
		far_loop_add(l, &s->poller);
	}
	k->id = s->conns_n++;
	k->fuse = SIM_NEVER;
	k->aim_verb = SIM_NEVER;
	k->plan_ns = SIM_NEVER;
	k->done_tail = &k->done;
	k->base.nodes_n = s->nodes_n;
	k->base.caps = s->policy.gap ? 0 : FAR_CAP_ATOMIC_GLOBAL;
	k->priority = s->policy.changes ? far_rng_next(&s->rng) | SIM_PRIORITY : 0;
	for (unsigned i = 0; i < s->nodes_n; i++) {
		k->base.region_len[i] = s->region_len;
		k->life[i] = s->nodes[i].life;
	}
	far_fabric_init(&k->base, &sim_ops, l, opts);
	if (s->nic)
		k->base.credits = sim_nic_credits(s, opts ? opts->credits : 0);
	for (link = &s->conns; *link; link = &(*link)->next)
		continue;
	*link = k;
	*out = &k->base;
	return 0;
}
