/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h -- one random run of an index design in the simulator, judged.
 *
 * A seed draws everything: clients, keys, operations, how full the table is at the start, one or two memory nodes,
 * who crashes or stands still and when, how steps interleave. The clients run the shipped code: pool, design,
 * memory nodes. Afterwards the history must be linearizable, every key that nobody touched must be as it was, the
 * design's check() must find nothing, and the memory that the nodes handed out must be accounted for.
 */
#ifndef FAR_LAB_SCHEDULE_H
#define FAR_LAB_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "index/index.h"

enum schedule_flags {
	SCHEDULE_CRASH = 1,   /* in some schedules a client dies or stands still for longer than its lease */
	SCHEDULE_NODES = 2,   /* some have two nodes, with blocks apart from their slots */
	SCHEDULE_TICKS = 4,   /* some have short leases and epochs, so that memory is reused meanwhile */
	SCHEDULE_AUDIT = 8,   /* count memory at the end */
	SCHEDULE_PLAIN = 16,  /* 4 clients, 6 operations each, one group of slots, no splits: for measuring speed */
	SCHEDULE_ALL = SCHEDULE_CRASH | SCHEDULE_NODES | SCHEDULE_TICKS | SCHEDULE_AUDIT,
};

enum schedule_verdict {
	SCHEDULE_GOOD,
	SCHEDULE_NOT_LINEARIZABLE,
	SCHEDULE_WRONG_VALUE,    /* bytes that nobody wrote, or a version given twice */
	SCHEDULE_WRONG_RESULT,   /* an error that should not come up */
	SCHEDULE_LOST_KEY,       /* a key that nobody touched changed */
	SCHEDULE_BROKEN_TABLE,   /* check() reported something */
	SCHEDULE_LOST_MEMORY,
	SCHEDULE_ENDLESS,
	SCHEDULE_NO_SETUP,       /* the world could not be built */
};

struct schedule_result {
	enum schedule_verdict verdict;
	char why[256];           /* one sentence, when not good */
	uint64_t hash;           /* of the trace */
	uint64_t steps, verbs;   /* of the clients at work */
	uint64_t splits;
	unsigned ops;            /* in the history */
	bool crashed;            /* a client died or was fenced */
};

/* Worlds and buffers, for any number of schedules. -FAR_ENOMEM. */
struct schedule;
int schedule_new(struct schedule **out);
void schedule_free(struct schedule *s);

/* Runs one; `flags` of enum schedule_flags. -FAR_ENOMEM. */
int schedule_run(struct schedule *s, uint64_t seed, const struct far_index_ops *design, unsigned flags,
		 struct schedule_result *out);

/* Configuration and history of the last run. */
void schedule_print(const struct schedule *s, FILE *out);

const char *schedule_verdict_name(unsigned verdict);

#endif
