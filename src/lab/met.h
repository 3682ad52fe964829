/* SPDX-License-Identifier: Apache-2.0 */
/*
 * met.h -- does a client expect only what it knows?
 *
 * A CAS that expects a word its client has neither READ, nor found by an atomic, nor written itself, would succeed by
 * luck alone. A watcher on a connection notes all words that it meets, and counts the CASes that expect another one. A
 * word also counts as known when its low 46 bits are: they are the address in it, which a design puts together anew
 * with what it knows besides, such as a depth. 0 is known: nothing is there.
 */
#ifndef FAR_LAB_MET_H
#define FAR_LAB_MET_H

#include "fabric/backend.h"

struct met {
	struct far_hook hook; /* for far_fabric_hook() */
	uint64_t *words;      /* open addressing; 0: empty */
	uint64_t mask, n;
	uint64_t guesses;     /* CASes that expected something else, */
	uint64_t guess;       /* the last of them */
	bool full;            /* out of memory: from then on nothing counts */
};

void met_init(struct met *m);
void met_fini(struct met *m);

#endif
