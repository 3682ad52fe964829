/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patience.h -- waiting until another client has done what it is at, or is known to be dead.
 *
 * A live client needs a few round trips, so the first look comes soon. A dead one is noticed a lease after its last
 * beat, so the last looks may come late. Each wait is four times longer than the one before: whoever waits for either
 * pays few round trips, and waits at most a few times longer than it had to.
 *
 * The longest wait and the end of patience are parts and multiples of the pool's lease, since nothing else tells how
 * long it takes until a silent client is fenced. Only waits count: who was held up itself in the midst of a look looks
 * again before it gives up.
 */
#ifndef FAR_INDEX_PATIENCE_H
#define FAR_INDEX_PATIENCE_H

#include <farside/error.h>
#include <farside/fabric.h>

#include "base/base.h"

enum {
	PATIENCE_FIRST_NS = 64000, /* a few dozen round trips; less when the lease is very short */
	PATIENCE_GROWTH = 4,
	PATIENCE_PART = 16,        /* the longest wait: this part of a lease */
	PATIENCE_LEASES = 3, /* for one client: one until it is noticed, and as long again for FENCE and slow looks */
	PATIENCE_OTHERS = 8, /* that get their full time, one after the other: each may die */
};

struct patience {
	uint64_t lease_ns;
	uint64_t whom;      /* serial of the client waited for, 0: not known yet */
	uint64_t waited_ns; /* for it */
	uint64_t slept_ns;  /* the last time */
	unsigned others;   /* clients waited for before */
};

static inline void
patience_start(struct patience *p, uint64_t lease_ns)
{
	FAR_ASSERT(lease_ns);
	*p = (struct patience){ .lease_ns = lease_ns };
}

static inline uint64_t
patience_longest(const struct patience *p)
{
	return p->lease_ns / PATIENCE_PART + 1;
}

/* Client `serial` is at it, as was just seen. When it was another one before, this one gets its full time, too. */
static inline void
patience_meet(struct patience *p, uint64_t serial)
{
	if (serial == p->whom)
		return;
	p->whom = serial;
	if (p->others < PATIENCE_OTHERS) {
		p->others++;
		p->waited_ns = 0;
	}
}

/* Waits until the next look is due. -FAR_ETIMEOUT after PATIENCE_LEASES leases. */
static inline int
patience_wait(struct patience *p, struct far_task *t)
{
	uint64_t next = p->slept_ns ? PATIENCE_GROWTH * p->slept_ns : PATIENCE_FIRST_NS;

	if (p->waited_ns > PATIENCE_LEASES * p->lease_ns)
		return -FAR_ETIMEOUT;
	p->slept_ns = far_min(next, patience_longest(p));
	p->waited_ns += p->slept_ns;
	far_sleep(t, p->slept_ns);
	return 0;
}

/* The waits have become long: from now on each look may go to the other's lease, too. */
static inline bool
patience_is_long(const struct patience *p)
{
	return p->slept_ns == patience_longest(p);
}

#endif
