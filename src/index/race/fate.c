/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fate.c -- what to do about a subtable that another client splits, or has split: follow its fate, finish it, or wait.
 *
 * A wait is for one session's work between claim and decision (split.c, steps 3 to 6). In there a splitter waits for
 * nobody but the nodes. So either it decides soon, or its lease runs out, it is fenced, and who waits claims anew. One
 * that meets an error which it cannot pass gives its session up, so that its lease runs out, too. Waiting ends in
 * -FAR_ETIMEOUT when a client beats and does not move on, which none does, or cannot be fenced since a node is down.
 */
#include "base/base.h"
#include "index/common/patience.h"
#include "index/race/race.h"

/* What the decided fate of a subtable says. READs the line anew: `high` is valid only when it was READ after a decided
 * fate (G1: one READ may return its words in any order). */
static int
race_read_children(struct race *r, struct far_task *t, const struct race_view *v,
		   struct race_children *c)
{
	struct race_fate_line line;
	int err;

	FAR_ASSERT(v->depth <= RACE_DEPTH_MAX && v->subtable.raw);
	far_read(t, v->subtable, &line, sizeof(line));
	if ((err = far_wait(t)) != 0)
		return err;
	*c = (struct race_children){ .parent = v->subtable,
				     .low = race_unpack(line.fate & RACE_ADDR_MASK),
				     .high = race_unpack(line.high & RACE_ADDR_MASK),
				     .depth = v->depth,
				     .suffix = race_suffix(v->hash, v->depth) };
	if (RACE_FATE_KIND(line.fate) < RACE_FATE_DECIDED || c->depth >= RACE_DEPTH_MAX ||
	    line.ident != race_ident(c->depth, r->tag, c->suffix) ||
	    race_check_addr(r, t, c->low, race_subtable_len(r)) ||
	    race_check_addr(r, t, c->high, race_subtable_len(r)))
		return -FAR_ECORRUPT;
	return 0;
}

int
race_follow(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_children c;
	int err = race_read_children(r, t, v, &c);

	FAR_ASSERT(err || (c.depth == v->depth && c.parent.raw == v->subtable.raw));
	if (!err && r->depth <= v->depth)
		err = race_refresh(r, t, false);
	if (!err)
		race_adopt(r, v->hash, v->depth, c.low, c.high);
	return err;
}

int
race_finish(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct race_children c;
	int err = race_read_children(r, t, v, &c);

	FAR_ASSERT(pool_is_inside(t));
	return err ? err : race_finish_split(r, t, &c);
}

int
race_check_claimer(struct race *r, struct far_task *t, const struct race_view *v, uint64_t fate)
{
	uint64_t serial = RACE_FATE_SERIAL(fate);
	int gone = pool_gone(r->pool, t, serial);

	FAR_ASSERT(RACE_FATE_KIND(fate) == RACE_FATE_CLAIMED);
	/* With a claim of its own left behind a session has ended (R8): then this one is nobody's. */
	if (serial == pool_serial(r->pool) && gone == 0)
		gone = !race_is_splitting(r, v->subtable);
	if (far_zoo(r->zoo, ZOO_TAKEOVER_IMPATIENT))
		gone = serial != pool_serial(r->pool) || gone;
	if (gone < 0)
		return gone;
	return gone ? race_take_over(r, t, v, fate) : RACE_BEATEN;
}

/* One look at the fate of the view's subtable. RACE_AGAIN: another one is due. */
static int
race_wait_look(struct race *r, struct far_task *t, const struct race_view *v, struct patience *p)
{
	struct far_count *count = far_account_now(t);
	uint64_t fate;
	int err;

	far_read(t, v->subtable, &fate, sizeof(fate));
	if ((err = far_wait(t)) != 0)
		return err;
	if (count)
		count->split_waits++;
	if (RACE_FATE_KIND(fate) >= RACE_FATE_DECIDED)
		return race_follow(r, t, v);
	if (RACE_FATE_KIND(fate) == RACE_FATE_NONE) {
		if (race_view_frozen(v))
			return -FAR_ECORRUPT;
		/* A fiber of ours has yet to claim it, or could not. */
		return race_is_splitting(r, v->subtable) ? RACE_AGAIN : RACE_DONE;
	}
	patience_meet(p, RACE_FATE_SERIAL(fate));
	err = patience_is_long(p) ? race_check_claimer(r, t, v, fate) : RACE_BEATEN;
	return err == RACE_BEATEN ? RACE_AGAIN : err;
}

int
race_wait_split(struct race *r, struct far_task *t, const struct race_view *v)
{
	struct patience p;
	int err;

	FAR_ASSERT(pool_is_inside(t));
	patience_start(&p, pool_lease(r->pool));
	do {
		err = patience_wait(&p, t);
		if (!err)
			err = race_wait_look(r, t, v, &p);
	} while (err == RACE_AGAIN);
	return err;
}
