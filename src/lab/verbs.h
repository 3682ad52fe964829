/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.h -- plain operations on plain memory in the simulator's performance mode: what a card can do at most.
 */
#ifndef FAR_LAB_VERBS_H
#define FAR_LAB_VERBS_H

#include <farside/fabric.h>

#include "fabric/nic.h"

enum verbs_kind {
	VERBS_READ,
	VERBS_WRITE,
	VERBS_FAA,      /* each at a random word */
	VERBS_FAA_SAME, /* all at one word */
};

struct verbs_load {
	enum verbs_kind kind;
	uint32_t len;      /* of a READ or WRITE, a multiple of 8 */
	unsigned machines; /* >= 1, with as many `threads` each, */
	unsigned threads;
	unsigned depth;    /* and so many fibers in each thread: one operation in flight each, unless */
	unsigned chain;    /* a chain has more. 0 = 1 */
	unsigned queues;   /* queue pairs of a machine, shared by its threads; 0 = each has its own */
	unsigned credits;  /* of a thread; 0 = the profile's, UINT_MAX = unbounded */
	uint64_t ns;       /* measured, after as long a time to settle. 0 = 200 us */
};

struct verbs_result {
	double rate;       /* operations per second */
	double mean_ns;    /* of a chain */
	uint64_t hash;     /* of all that happened */
};

/* -FAR_ENOMEM. */
int verbs_run(const struct nic_profile *p, const struct verbs_load *l, struct verbs_result *out);

#endif
