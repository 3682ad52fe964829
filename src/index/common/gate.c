/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- see gate.h. Everything here runs between two waits of one thread: no locks. */
#include "index/common/gate.h"

#include "base/base.h"

bool
gate_enter(struct gate *g, struct far_task *t, struct gate_pass *p, uint64_t hash, bool blind)
{
	struct gate_pass **lane = &g->inside[hash % GATE_LANES], *in = *lane;
	struct far_count *c = far_account_now(t);

	*p = (struct gate_pass){ .hash = hash, .task = t, .blind = blind };
	while (in && in->hash != hash)
		in = in->next;
	if (!in) {
		p->next = *lane;
		*lane = p;
		return false;
	}
	p->next = in->waiting;
	in->waiting = p;
	far_park(t);
	if (p->answered && c)
		c->combined++;
	return p->answered;
}

static void
gate_remove(struct gate_pass **lane, struct gate_pass *p)
{
	while (*lane != p)
		lane = &(*lane)->next;
	*lane = p->next;
}

/*
 * Chooses who goes next of those that waited behind `p`: the newest. When it is an upsert it takes all older
 * upserts as followers; everybody else goes on waiting, behind it.
 */
static struct gate_pass *
gate_choose(struct gate_pass *p)
{
	struct gate_pass *next = p->waiting, *w, *rest = NULL, *after;

	for (w = next->next; w; w = after) {
		after = w->next;
		if (next->blind && w->blind) {
			w->next = next->followers;
			next->followers = w;
		} else {
			w->next = rest;
			rest = w;
		}
	}
	next->waiting = rest;
	return next;
}

void
gate_leave(struct gate *g, struct gate_pass *p, int result)
{
	struct gate_pass **lane = &g->inside[p->hash % GATE_LANES], *next, *f, *after;

	gate_remove(lane, p);
	for (f = p->followers; f; f = after) {
		after = f->next;
		f->answered = true;
		f->result = result;
		far_unpark(f->task);
	}
	if (!p->waiting)
		return;
	next = gate_choose(p);
	next->next = *lane;
	*lane = next;
	far_unpark(next->task);
}
