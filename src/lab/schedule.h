/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.h -- one random run of an index design in the simulator, judged.
 *
 * A seed draws everything (schedule_config.h): clients, keys, operations, how full the table is at the start, one or
 * two memory nodes, who crashes or stands still and when, what breaks, how steps interleave. The clients run the
 * shipped code: pool, design, memory nodes. A client that loses its session may come back with a new one.
 *
 * Afterwards the history must be linearizable, scans included (schedule_scan.c), every key that nobody touched must be
 * as it was, the design's check() must find nothing, and the memory that the nodes handed out must be accounted for.
 * While it lasts no operation may leave the region, and once the last fault is over each ends within a bound of verbs;
 * without faults a lookup that nobody disturbs takes no more round trips than is promised. Where a node came back
 * empty, the table is gone: then everybody must be told so by an error, and nothing else may have gone wrong until
 * then.
 */
#ifndef FAR_LAB_SCHEDULE_H
#define FAR_LAB_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fabric/sim.h"
#include "index/index.h"
#include "lab/schedule_config.h"

enum schedule_verdict {
	SCHEDULE_GOOD,
	SCHEDULE_NOT_LINEARIZABLE,
	SCHEDULE_WRONG_VALUE,    /* bytes that nobody wrote, or a version given twice */
	SCHEDULE_WRONG_RESULT,   /* an error that should not come up */
	SCHEDULE_LOST_KEY,       /* a key that nobody touched changed */
	SCHEDULE_BROKEN_TABLE,   /* check() reported something */
	SCHEDULE_LOST_MEMORY,
	SCHEDULE_ENDLESS,        /* the run, or one operation after the last fault */
	SCHEDULE_COSTLY,         /* more round trips than promised */
	SCHEDULE_OUT_OF_BOUNDS,  /* an operation outside the region, or one that changes what is the node's */
	SCHEDULE_UNFENCED,       /* a client changed memory after its FENCE was acknowledged */
	SCHEDULE_TWO_HOLDERS,    /* a lock was taken from a session that is not over */
	SCHEDULE_GUESSED,        /* a CAS expected what its client had never met */
	SCHEDULE_WRONG_SCAN,     /* a key came twice, or one that nobody touched did not come as it is */
	SCHEDULE_NO_SETUP,       /* the world could not be built */
	SCHEDULE_VERDICTS,
};

struct schedule_result {
	enum schedule_verdict verdict;
	char why[256];           /* one sentence, when not good */
	uint64_t hash;           /* of the trace */
	uint64_t steps, verbs;   /* of the clients at work */
	uint64_t splits;         /* of these, while the others worked too */
	uint64_t overlaps;       /* operations in flight while another client was splitting */
	unsigned ops;            /* in the history */
	unsigned comebacks;      /* sessions that clients opened anew */
	bool crashed;            /* a client died, was fenced, or gave up its session */
	bool lost;               /* a node came back empty */
	bool deed_done;          /* to its end, whatever came of it */
	uint64_t deed_from, deed_to; /* verbs of its client, as far_sim_aim() counts them, before it and with it */
	uint64_t client_verbs[SCHEDULE_CLIENTS]; /* of each client's last connection, until all had worked */
	uint64_t lingered[SCHEDULE_CLIENTS]; /* of these, before it went on after its sleep */
	uint64_t mend_verbs;     /* it took whoever inspects to repair the table, opening included */
	uint64_t inspect_verbs;  /* and all in all */
	uint64_t deaths;         /* of clients, whoever inspects included */
	uint64_t most_ns;        /* of an operation of the history, but those of the victims */
	uint64_t most_verbs;     /* of an operation that began after the last fault */
	struct far_sim_faults faults; /* while the clients worked */
};

/* Worlds and buffers, for any number of schedules. -FAR_ENOMEM. */
struct schedule;
int schedule_new(struct schedule **out);
void schedule_free(struct schedule *s);

/* Plays a configuration that is valid. -FAR_ENOMEM. */
int schedule_play(struct schedule *s, const struct schedule_config *config, const struct far_index_ops *design,
		  struct schedule_result *out);

/* Plays what `seed` draws; `flags` of enum schedule_flags. -FAR_ENOMEM. */
int schedule_run(struct schedule *s, uint64_t seed, const struct far_index_ops *design, unsigned flags,
		 struct schedule_result *out);

/* From the next run on each verb of the clients at work is told here, as text. NULL: no more. */
void schedule_trace(struct schedule *s, void (*line)(void *arg, const char *text), void *arg);

/* Verdict, configuration and history of the last run. */
void schedule_print(const struct schedule *s, FILE *out);

const char *schedule_deed_name(unsigned deed);

/* Whether a deed finds key 0. */
bool schedule_deed_wants_key(unsigned deed);

const char *schedule_verdict_name(unsigned verdict);

#endif
