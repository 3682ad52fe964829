/* SPDX-License-Identifier: Apache-2.0 */
/* lock.c -- fibers of one client that wait for one another, in order of arrival. */
#include "pool/client.h"

struct pool_waiter {
	struct far_task *task;
	bool served;
	struct pool_waiter *next;
};

void
pool_lock(struct pool_lock *l, struct far_task *t)
{
	struct pool_waiter w = { .task = t }, **at = &l->first;

	if (!l->held) {
		l->held = true;
		return;
	}
	while (*at)
		at = &(*at)->next;
	*at = &w;
	/* The holder hands the lock over without ever releasing it, in order of arrival, and unlinks us. */
	while (!w.served)
		far_park(t);
	FAR_ASSERT(l->held && l->first != &w);
}

void
pool_unlock(struct pool_lock *l)
{
	struct pool_waiter *w = l->first;

	FAR_ASSERT(l->held);
	if (!w) {
		l->held = false;
		return;
	}
	l->first = w->next;
	w->served = true;
	far_unpark(w->task);
}
