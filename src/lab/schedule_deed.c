/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_deed.c -- one named thing that the last client does, while the others work as ever.
 *
 * A sweep plays a deed once without a fault, to learn which of its client's verbs belong to it, and then again with a
 * crash at each of them. So a deed must be the same up to the fault whenever it is played with the same seed.
 */
#include "lab/schedule_impl.h"

enum {
	DEED_TICKS = 3,       /* rounds: to the next epoch, with frees told */
	DEED_STEPS_MAX = 256, /* of a scan */
};

/* The operations on key 0: what they do, and whether it is there before. */
static const struct {
	enum lin_kind kind;
	bool present;
} deed_ops[] = {
	[SCHEDULE_DEED_GET] = { LIN_GET, true },
	[SCHEDULE_DEED_INSERT] = { LIN_INSERT, false },
	[SCHEDULE_DEED_INSERT_PRESENT] = { LIN_INSERT, true },
	[SCHEDULE_DEED_UPSERT] = { LIN_UPSERT, false },
	[SCHEDULE_DEED_UPSERT_PRESENT] = { LIN_UPSERT, true },
	[SCHEDULE_DEED_UPDATE] = { LIN_UPDATE, true },
	[SCHEDULE_DEED_UPDATE_IF] = { LIN_UPDATE_IF, true },
	[SCHEDULE_DEED_DELETE] = { LIN_DELETE, true },
	[SCHEDULE_DEED_DELETE_IF] = { LIN_DELETE_IF, true },
	[SCHEDULE_DEED_MOVE] = { LIN_GET, true },
};

const char *
schedule_deed_name(unsigned deed)
{
	static const char *const names[] = {
		"none",
		"get",
		"insert",
		"insert-present",
		"upsert",
		"upsert-present",
		"update",
		"update-if",
		"delete",
		"delete-if",
		"move",
		"split",
		"double",
		"scan",
		"open",
		"close",
		"create",
		"drop",
		"grant",
		"tick",
		"free",
		"takeover",
	};

	return deed < FAR_LEN(names) ? names[deed] : "?";
}

bool
schedule_deed_wants_key(unsigned deed)
{
	return deed < FAR_LEN(deed_ops) && deed_ops[deed].present;
}

static void
deed_begins(struct schedule_client *c)
{
	c->s->out->deed_from = far_sim_client_verbs(c->fabric);
}

static void
deed_ends(struct schedule_client *c)
{
	c->s->out->deed_to = far_sim_client_verbs(c->fabric);
	c->s->out->deed_done = !c->stopped;
}

/* Its outcome is unknown, or it had none: `err` is a whole deed's. */
static void
deed_returned(struct schedule_client *c, int err)
{
	if (!err || c->stopped)
		return;
	if (err == -FAR_EFENCED || err == -FAR_EUNSURE || err == -FAR_ENODE)
		c->stopped = true;
	else if (!schedule_may_fail(c->s, err))
		schedule_fail(c->s, SCHEDULE_WRONG_RESULT, "%s: %s",
			      schedule_deed_name((unsigned)c->s->config.deed), far_errname(err));
}

static void
deed_operate(struct schedule_client *c, struct far_task *t, unsigned deed)
{
	enum lin_kind kind = deed_ops[deed].kind;

	/* Which version it has. */
	if (kind == LIN_UPDATE_IF || kind == LIN_DELETE_IF)
		schedule_operate(c, t, LIN_GET, 0);
	deed_begins(c);
	if (deed == SCHEDULE_DEED_MOVE)
		schedule_move(c, t, 0, 1);
	else
		schedule_operate(c, t, kind, 0);
	deed_ends(c);
}

/* Inserts until a subtable is split: with the directory doubled, or without. The last insert is the deed. */
static int
deed_split(struct schedule_client *c, struct far_task *t, bool doubles)
{
	struct far_table_stat was, now;
	struct schedule *s = c->s;
	int err = schedule_stat(c, t, &was);

	while (!err && !c->stopped && s->fresh_used < SCHEDULE_FRESH) {
		uint64_t from = far_sim_client_verbs(c->fabric), to;

		schedule_operate(c, t, LIN_INSERT, SCHEDULE_KEYS + s->fresh_used++);
		to = far_sim_client_verbs(c->fabric);
		if (c->stopped || (err = schedule_stat(c, t, &now)) != 0)
			break;
		if (now.splits > was.splits && (now.depth > was.depth) == doubles) {
			s->out->deed_from = from;
			s->out->deed_to = to;
			s->out->deed_done = true;
			break;
		}
		was = now;
	}
	return err;
}

/* Which fillers a scan met, checking what it says of them. */
static void
deed_met(struct schedule *s, const struct far_entry *e, uint64_t *met)
{
	uint32_t writer = schedule_writer(s, e->value);

	if (writer == 0)
		schedule_fail(s, SCHEDULE_WRONG_VALUE, "a scan met bytes that nobody wrote");
	if (writer <= SCHEDULE_OPS_ALL)
		return;
	writer -= SCHEDULE_OPS_ALL + 1;
	if (*met >> writer & 1)
		schedule_fail(s, SCHEDULE_LOST_KEY, "a scan met filler %u twice", writer);
	*met |= UINT64_C(1) << writer;
}

static int
deed_scan_step(struct schedule_client *c, struct far_task *t, uint64_t *cursor, bool *last,
	       uint64_t *met)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct far_entry *entries;
	int n = pool_enter(c->pool, t), left;

	if (n)
		return n;
	n = c->s->design->scan(c->ix, t, cursor, SCHEDULE_VALUE, &entries, last);
	left = pool_leave(c->pool, t);
	for (int i = 0; i < n && !left; i++)
		deed_met(c->s, &entries[i], met);
	far_scratch_reset(t, mark);
	return left ? left : n < 0 ? n
				   : 0;
}

/* Keys that nobody touches must come once each, whatever is split meanwhile. */
static int
deed_scan(struct schedule_client *c, struct far_task *t)
{
	uint64_t cursor = 0, met = 0, all = (UINT64_C(1) << c->s->config.fill) - 1;
	bool last = false;
	int err = 0;

	for (int i = 0; i < DEED_STEPS_MAX && !last && !err; i++) {
		if (c->s->config.pace_ns)
			far_sleep(t, far_rng_below(&c->rng, c->s->config.pace_ns));
		err = deed_scan_step(c, t, &cursor, &last, &met);
	}
	if (!err && (!last || met != all))
		schedule_fail(c->s, SCHEDULE_LOST_KEY, "a scan left keys out: %llx of %llx",
			      (unsigned long long)met, (unsigned long long)all);
	return err;
}

static int
deed_ticks(struct schedule_client *c, struct far_task *t)
{
	int err = 0;

	for (int i = 0; i < DEED_TICKS && !err; i++)
		err = pool_tick(c->pool, t);
	return err;
}

/* Rounds after every key was written anew: the old blocks belong to everybody. */
static int
deed_free(struct schedule_client *c, struct far_task *t)
{
	for (unsigned i = 0; i < c->s->config.keys && !c->stopped; i++)
		schedule_operate(c, t, LIN_UPSERT, i);
	return c->stopped ? 0 : deed_ticks(c, t);
}

/* Whatever is no operation of the history. */
static int
deed_other(struct schedule_client *c, struct far_task *t)
{
	int n;

	switch (c->s->config.deed) {
	case SCHEDULE_DEED_SCAN:
		return deed_scan(c, t);
	case SCHEDULE_DEED_OPEN:
		return schedule_open(c, t, false);
	case SCHEDULE_DEED_CLOSE:
		return schedule_shut(c, t);
	case SCHEDULE_DEED_CREATE:
		return schedule_make_other(c, t);
	case SCHEDULE_DEED_DROP:
		return pool_table_drop(c->pool, t, SCHEDULE_OTHER);
	case SCHEDULE_DEED_GRANT:
		schedule_operate(c, t, LIN_UPSERT, 0);
		return 0;
	case SCHEDULE_DEED_TICK:
		return deed_ticks(c, t);
	case SCHEDULE_DEED_FREE:
		return deed_free(c, t);
	default:
		n = schedule_take_over(c, t);
		return n < 0 ? n : 0;
	}
}

void
schedule_deed(struct schedule_client *c, struct far_task *t)
{
	unsigned deed = (unsigned)c->s->config.deed;

	if (deed < FAR_LEN(deed_ops)) {
		deed_operate(c, t, deed);
	} else if (deed == SCHEDULE_DEED_SPLIT || deed == SCHEDULE_DEED_DOUBLE) {
		deed_returned(c, deed_split(c, t, deed == SCHEDULE_DEED_DOUBLE));
	} else {
		deed_begins(c);
		deed_returned(c, deed_other(c, t));
		deed_ends(c);
	}
	c->deserted |= c->stopped;
}
