/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backoff.h -- what every design does after a lost CAS: truncated exponential back-off, with a cap on tries.
 *
 * Under skew this decides throughput more than any layout: without it, clients that lost re-read at once and fill
 * the network with operations that lose again (SMART, ASPLOS 2024, section 4).
 */
#ifndef FAR_INDEX_BACKOFF_H
#define FAR_INDEX_BACKOFF_H

#include <farside/error.h>
#include <farside/fabric.h>

enum {
	BACKOFF_TRIES_MAX = 1000,      /* then the operation gives up with -FAR_ECONTENDED */
	BACKOFF_UNIT_NS = 1000,
	BACKOFF_DOUBLINGS = 10,        /* at most about 1 ms a wait */
};

struct backoff {
	unsigned tries;
	bool off; /* retry at once, for comparison */
};

/* Counts a retry and waits a random time. -FAR_ECONTENDED at the cap. */
static inline int
backoff_wait(struct far_task *t, struct backoff *b)
{
	unsigned doublings = b->tries < BACKOFF_DOUBLINGS ? b->tries : BACKOFF_DOUBLINGS;
	struct far_count *c = far_account_now(t);

	if (++b->tries >= BACKOFF_TRIES_MAX)
		return -FAR_ECONTENDED;
	if (c)
		c->retries++;
	if (b->off)
		far_yield(t);
	else
		far_sleep(t, far_rand(t) % ((uint64_t)BACKOFF_UNIT_NS << doublings));
	return 0;
}

#endif
