/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_settle.c -- after the work: everybody leaves, and a newcomer inspects what is left. */
#include "lab/schedule_impl.h"

enum {
	SETTLE_TRIES = 50,
	SETTLE_TICKS = 32, /* rounds in which whatever was dropped is freed */
};

/* A filler's insert, with whatever retries memory asks for. */
static int
schedule_fill_put(struct schedule_client *c, struct far_task *t, struct far_bytes key,
		  struct far_bytes value)
{
	struct pool_relief relief = { 0 };
	int err, left;

	do {
		uint64_t version = 0;

		if ((err = pool_enter(c->pool, t)) != 0)
			return err;
		err = c->s->design->put(c->ix, t, FAR_PUT_INSERT, key, value, &version);
		if ((left = pool_leave(c->pool, t)) != 0)
			return left;
	} while (schedule_again(c, t, &relief, &err));
	return err;
}

int
schedule_fill(struct schedule_client *c, struct far_task *t, unsigned i, bool put)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint8_t buf[SCHEDULE_VALUE + 8];
	struct far_bytes value = far_bytes(buf, schedule_value(c->s, SCHEDULE_OPS_ALL + i, buf));
	struct far_value got;
	struct schedule_key key;
	int err;

	schedule_key(SCHEDULE_KEYS + SCHEDULE_FRESH + i, &key);
	if (put)
		return schedule_fill_put(c, t, key.bytes, value);
	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	err = c->s->design->get(c->ix, t, key.bytes, &got);
	if (err != -FAR_EFENCED &&
	    (err || schedule_writer(c->s, got.bytes) != SCHEDULE_OPS_ALL + i + 1))
		schedule_fail(c->s, SCHEDULE_LOST_KEY, "untouched key %s: %s", key.name,
			      err ? far_errname(err) : "another value");
	far_scratch_reset(t, mark);
	pool_leave(c->pool, t);
	return err;
}

static void
schedule_report(void *arg, const char *line)
{
	schedule_fail(arg, SCHEDULE_BROKEN_TABLE, "check: %s", line);
}

/* Lets the pool fence the dead, and the design finish what they left half-done. */
int
schedule_take_over(struct schedule_client *c, struct far_task *t)
{
	int n = -FAR_ETIMEOUT;

	far_sleep(t, 3 * schedule_lease(c->s));
	/* It waits a few leases; ours may be shorter than a design's wait for a lock. */
	for (int tries = 0; tries < SETTLE_TRIES && n == -FAR_ETIMEOUT; tries++)
		n = pool_table_adopt_orphans(c->pt, t);
	return n;
}

/* Inserts until the table grows: whoever died, that must be possible. */
static int
schedule_grow(struct schedule_client *c, struct far_task *t)
{
	struct schedule *s = c->s;
	struct far_table_stat now;
	int err = schedule_stat(c, t, &now);

	/* Whoever inspects after somebody died at it goes on where that one was. */
	if (!s->grown) {
		s->grown = (unsigned)s->config.fill;
		s->grown_from = now.splits;
	}
	while (!err && now.splits == s->grown_from) {
		if (s->grown == SCHEDULE_FILL + SCHEDULE_GROW) {
			schedule_fail(s, SCHEDULE_WRONG_RESULT, "the table does not grow");
			break;
		}
		if ((err = schedule_fill(c, t, s->grown++, true)) == 0)
			err = schedule_stat(c, t, &now);
	}
	return err;
}

/* Nobody else has a session any more, and of another table there is all or nothing. */
static int
schedule_inspect_pool(struct schedule_client *c, struct far_task *t)
{
	struct schedule *s = c->s;
	int n = pool_others(c->pool, t), err = far_min(n, 0);

	if (n > 0)
		schedule_fail(s, SCHEDULE_WRONG_RESULT, "%d sessions of the dead are still open",
			      n);
	if (err ||
	    (s->config.deed != SCHEDULE_DEED_CREATE && s->config.deed != SCHEDULE_DEED_DROP))
		return err;
	if ((err = schedule_make_other(c, t)) != 0 && err != -FAR_EEXIST)
		return err;
	err = pool_table_drop(c->pool, t, SCHEDULE_OTHER);
	for (int i = 0; i < SETTLE_TICKS && !err; i++)
		err = pool_tick(c->pool, t);
	return err;
}

/* All that the nodes handed out is this table's. */
static int
schedule_audit_nodes(struct schedule_client *c, struct far_task *t, const struct pool_usage *u)
{
	struct far_node_info info[SCHEDULE_NODES];
	uint64_t granted = 0;
	int n = pool_node_info(c->pool, t, info, SCHEDULE_NODES);

	for (int i = 0; i < n; i++)
		granted += info[i].granted_bytes;
	if (n > 0 && granted != u->granted[0] + u->granted[1])
		schedule_fail(c->s, SCHEDULE_LOST_MEMORY,
			      "nodes granted %llu, of it %llu to the table",
			      (unsigned long long)granted,
			      (unsigned long long)(u->granted[0] + u->granted[1]));
	return n < 0 ? n : 0;
}

static int
schedule_inspect_all(struct schedule_client *c, struct far_task *t, struct far_table_stat *stat)
{
	struct schedule *s = c->s;
	int err, n, left;

	if (s->out->crashed && (n = schedule_take_over(c, t)) < 0)
		return n;
	s->out->mend_verbs = far_sim_client_verbs(c->fabric);
	for (unsigned i = 0; i < s->config.keys; i++)
		schedule_operate(c, t, LIN_GET, i);
	for (unsigned i = 0; i < s->fresh_used; i++)
		schedule_operate(c, t, LIN_GET, SCHEDULE_KEYS + i);
	if (s->config.deed && (err = schedule_inspect_pool(c, t)) != 0)
		return err;
	if (s->config.grow && (err = schedule_grow(c, t)) != 0)
		return err;
	for (unsigned i = 0; i < s->config.fill; i++)
		schedule_fill(c, t, i, false);
	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	n = s->design->check(c->ix, t, schedule_report, s);
	err = n < 0 ? n : s->design->stat(c->ix, t, stat);
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

/* Adds up. Of the dead, blocks may be lost that they had unlinked and told nobody about. */
static int
schedule_audit(struct schedule_client *c, struct far_task *t, const struct far_table_stat *stat)
{
	static const char *const kinds[] = { "blocks", "index" };
	uint64_t used[] = { stat->block_bytes, stat->index_bytes };
	struct schedule *s = c->s;
	struct pool_usage u;
	int err = pool_table_usage(c->pt, t, &u);

	for (int k = 0; k < 2 && !err; k++) {
		uint64_t known = u.free[k] + u.header[k] + used[k];

		/* Where a deed is swept, everybody has left, and every chunk was looked through. */
		if (u.granted[k] < known ||
		    (u.granted[k] > known && (!s->out->crashed || s->config.deed)))
			schedule_fail(s, SCHEDULE_LOST_MEMORY,
				      "%s: granted %llu, free %llu, headers %llu, in use %llu",
				      kinds[k], (unsigned long long)u.granted[k],
				      (unsigned long long)u.free[k],
				      (unsigned long long)u.header[k], (unsigned long long)used[k]);
	}
	return err || !s->config.deed ? err : schedule_audit_nodes(c, t, &u);
}

int
schedule_shut(struct schedule_client *c, struct far_task *t)
{
	int err, closed;

	if (c->pt)
		pool_table_detach(c->pt, t);
	c->s->design->close(c->ix);
	c->ix = NULL;
	err = c->pt ? pool_table_close(c->pt, t) : 0;
	closed = pool_close(c->pool, t);
	c->pool = NULL;
	c->pt = NULL;
	return err ? err : closed;
}

static void
schedule_close(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;

	if (c->stopped || !c->pool) {
		schedule_desert(c, t);
		return;
	}
	if ((c->err = schedule_shut(c, t)) == 0)
		return;
	/* It may not have noticed before what befell it. */
	c->deserted = true;
	if (!schedule_may_fail(c->s, c->err))
		schedule_fail(c->s, SCHEDULE_WRONG_RESULT, "client %u closes: %s", c->id,
			      far_errname(c->err));
}

/* A newcomer looks at everything after the others have left. */
static void
schedule_inspect(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	struct schedule *s = c->s;
	struct far_table_stat stat = { .splits = s->splits };
	int err = schedule_open(c, t, false);

	c->inspects = true;
	if (!err && s->out->lost)
		schedule_fail(s, SCHEDULE_WRONG_RESULT,
			      "the table is there, and a node came back empty");
	if (!err)
		err = schedule_inspect_all(c, t, &stat);
	if (!err && s->config.audit)
		err = schedule_audit(c, t, &stat);
	s->out->inspect_verbs = far_sim_client_verbs(c->fabric);
	if (far_sim_faults(s->sim)->kills > s->killed) {
		/* It died at it: somebody else inspects. */
		schedule_desert(c, t);
		return;
	}
	c->inspects = false;
	if (err && !(s->out->lost && schedule_may_fail(s, err)))
		schedule_fail(s, SCHEDULE_WRONG_RESULT, "inspection: %s", far_errname(err));
	if (c->stopped)
		schedule_fail(s, SCHEDULE_WRONG_RESULT, "the inspector lost its session");
	s->out->splits = stat.splits - s->splits;
	schedule_close(t, c);
}

/* `first`: it may die at it. */
static int
schedule_inspect_run(struct schedule_client *c, bool first)
{
	struct schedule *s = c->s;
	bool dies = first && s->config.second == s->config.clients + 1;
	int err = schedule_connect(c);

	if (err)
		return err;
	c->inspects = c->stopped = false;
	s->killed = far_sim_faults(s->sim)->kills;
	s->out->crashed |= !first;
	if (dies) {
		far_sim_aim(c->fabric, s->config.second_fuse,
			    (enum far_sim_point)s->config.second_strike, FAR_SIM_KILL, 0);
		schedule_calm(s, false);
	}
	if ((err = far_loop_spawn(s->loop, c->fabric, schedule_inspect, c, 0)) == 0)
		far_loop_run(s->loop);
	schedule_calm(s, true);
	return err;
}

/* Nodes that are down come back with their memory: what was acknowledged must be there. */
static int
schedule_nodes_up(struct schedule *s)
{
	for (unsigned i = 0; i < s->config.nodes; i++) {
		int err = far_sim_node_is_up(s->sim, i) ? 0 : far_sim_node_up(s->sim, i, true);

		if (err)
			return err;
	}
	return 0;
}

static void
schedule_sum_up(struct schedule *s)
{
	const struct schedule_config *g = &s->config;
	bool still = false;

	for (unsigned i = 0; i < g->clients; i++) {
		s->out->crashed |= s->clients[i].deserted;
		still |= g->freeze_ns[i] > 0;
	}
	if (s->out->crashed && !g->lease_ns && !g->victim && !g->breaker && !g->outage && !still)
		schedule_fail(s, SCHEDULE_WRONG_RESULT,
			      "a client was fenced that had done nothing wrong");
}

int
schedule_settle(struct schedule *s)
{
	struct schedule_client *c = &s->clients[SCHEDULE_CLIENTS];
	int err = 0;

	for (unsigned i = 0; i < s->config.clients && !err; i++) {
		if ((err = far_loop_spawn(s->loop, s->clients[i].fabric, schedule_close,
					  &s->clients[i], 0)) == 0)
			far_loop_run(s->loop);
	}
	schedule_sum_up(s);
	if (err || far_sim_exhausted(s->sim) || s->out->verdict == SCHEDULE_NO_SETUP ||
	    s->config.plain)
		return err;
	*c = (struct schedule_client){ .s = s, .id = SCHEDULE_CLIENTS };
	if ((err = schedule_nodes_up(s)) != 0 || (err = schedule_inspect_run(c, true)) != 0)
		return err;
	return c->inspects ? schedule_inspect_run(c, false) : 0;
}
