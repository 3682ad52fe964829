/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook.h -- hooks for any backend: what a connection costs, what it does, and how it fails.
 *
 * Each hook object is the caller's; after its init function, its `hook` goes to far_fabric_hook(). One object serves
 * one connection.
 */
#ifndef FAR_FABRIC_HOOK_H
#define FAR_FABRIC_HOOK_H

#include <stdio.h>

#include "base/rand.h"
#include "fabric/backend.h"

/* count: an account of all chains of a connection, whoever is charged for them; sum.round_trips counts chains. Bytes of
 * replies to calls are counted when they have come. */
struct hook_count {
	struct far_hook hook;
	struct far_count sum;
	uint64_t failed; /* chains that came back with an error */
};

void hook_count_init(struct hook_count *h);

/*
 * trace: a line per operation when its chain is submitted and one per chain when it is back:
 *
 *	17.0 write n1:0x4000 64
 *	17.1 cas n1:0x280 0x0 -> 0x1234
 *	17 ok 0x0
 *
 * 17 is the chain's number; behind its outcome stand the words that its atomics found.
 */
struct hook_trace {
	struct far_hook hook;
	void (*line)(void *arg, const char *line); /* without newline; valid during the call */
	void *arg;
};

void hook_trace_init(struct hook_trace *h, void (*line)(void *arg, const char *line), void *arg);
/* Writes the lines to `file`, which stays the caller's. */
void hook_trace_init_file(struct hook_trace *h, FILE *file);

/* fault: makes chains fail by rules; the first rule that fits a chain decides. */
enum hook_fault_when {
	HOOK_FAULT_BEFORE, /* nothing of it takes effect */
	HOOK_FAULT_AFTER,  /* all of it does */
	HOOK_FAULT_CUT,    /* its first `cut` operations do */
	HOOK_FAULT_RANDOM, /* a random number of its first operations do, maybe none or all */
};

struct hook_fault_rule {
	enum hook_fault_when when;
	uint64_t first, last; /* chains, counted from 1 at the hook's start; last 0: only `first`; both 0: any */
	double fraction;      /* of the chains that fit, by the hook's own random source; 0: all */
	uint32_t cut;
	int err;              /* -FAR_E that the chain ends with */
};

enum { HOOK_FAULT_RULES = 8 };

struct hook_fault {
	struct far_hook hook;
	struct far_rng rng;
	struct hook_fault_rule rules[HOOK_FAULT_RULES];
	unsigned rules_n;
	uint64_t chains, failed; /* seen; of them made to fail */
};

void hook_fault_init(struct hook_fault *h, uint64_t seed);
/* Adds a rule behind the others: HOOK_FAULT_RULES at most. */
void hook_fault_add(struct hook_fault *h, const struct hook_fault_rule *rule);

#endif
