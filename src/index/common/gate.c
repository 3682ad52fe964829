/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c -- see gate.h. Everything here runs between two waits of one thread: no locks. */
#include "index/common/gate.h"

#include <string.h>

#include "base/base.h"
#include "base/zoo.h"

static bool
gate_same_key(const struct gate_pass *a, const struct gate_pass *b)
{
	return a->hash == b->hash && a->key.len == b->key.len &&
	       memcmp(a->key.data, b->key.data, a->key.len) == 0;
}

bool
gate_enter(struct gate *g, struct far_task *t, struct gate_pass *p)
{
	struct gate_pass **lane = &g->inside[p->hash % GATE_LANES], *in = *lane;
	struct far_count *c = far_account_now(t);

	FAR_ASSERT(p->key.len);
	p->task = t;
	p->answered = false;
	p->next = p->waiting = p->followers = NULL;
	while (in && !gate_same_key(in, p))
		in = in->next;
	if (!in) {
		p->next = *lane;
		*lane = p;
		return false;
	}
	if (in->blind && p->blind && far_zoo(g->zoo, ZOO_GATE_IN_FLIGHT)) {
		p->next = in->followers;
		in->followers = p;
	} else {
		p->next = in->waiting;
		in->waiting = p;
	}
	far_park(t);
	if (p->answered && c)
		c->combined++;
	return p->answered;
}

static void
gate_remove(struct gate_pass **lane, struct gate_pass *p)
{
	while (*lane != p) {
		FAR_ASSERT(*lane);
		lane = &(*lane)->next;
	}
	*lane = p->next;
}

/*
 * Takes who goes next out of those that wait behind `p`: the oldest, so that nobody waits for ever while others come
 * back. When that is an upsert, the newest upsert goes in its place and answers all the others.
 */
static struct gate_pass *
gate_choose(struct gate_pass *p)
{
	struct gate_pass *next = p->waiting, **at = &p->waiting, *w;

	FAR_ASSERT(next);
	while (next->next)
		next = next->next;
	if (next->blind) {
		for (next = p->waiting; !next->blind; next = next->next)
			;
	}
	while ((w = *at) != NULL) {
		if (w != next && !(next->blind && w->blind)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		if (w != next) {
			w->next = next->followers;
			next->followers = w;
		}
	}
	FAR_ASSERT(!next->waiting);
	next->waiting = p->waiting;
	return next;
}

void
gate_leave(struct gate *g, struct gate_pass *p, int result)
{
	struct gate_pass **lane = &g->inside[p->hash % GATE_LANES], *next, *f, *after;

	FAR_ASSERT(!p->answered);
	gate_remove(lane, p);
	FAR_ASSERT(p->task && (p->blind || !p->followers));
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
