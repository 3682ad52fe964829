/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h -- a history of real processes, which outlives them.
 *
 * Memory that is shared with all children forked later: a counter, and lanes, in each of which one process appends
 * records. What a process has noted is there whatever becomes of it, so a process that is killed leaves its pending
 * operations.
 *
 * Order: a call's stamp is drawn, and the record visible, before the operation begins; a return's is drawn after it
 * ended. The counter is one word, every draw of it a sequentially consistent FETCH-AND-ADD. So if one operation
 * ended before another began, in whatever processes, their stamps say so.
 */
#ifndef FAR_LAB_RECORDER_H
#define FAR_LAB_RECORDER_H

#include "lab/history.h"

struct recorder;

/* A process's place to write; to be used by one thread. */
struct recorder_lane {
	struct recorder *r;
	uint32_t lane, used;
};

/* Room for `lanes` lanes of `len` records each; pages that nobody writes to cost nothing. -FAR_EINVAL, -FAR_ENOMEM. */
int recorder_new(uint32_t lanes, uint32_t len, struct recorder **out);

/* In this process; others go on. NULL is fine. */
void recorder_free(struct recorder *r);

/* A lane that nobody had before. -FAR_ENOMEM: none is left. */
int recorder_open(struct recorder *r, struct recorder_lane *out);

/* How many records fit in. */
uint32_t recorder_room(const struct recorder_lane *l);

/* An operation (enum lin_kind, or HISTORY_SCAN) is about to begin. Its id is in the record, which lives as long as the
 * recorder. The caller sees to it that there is room. */
struct history_op *recorder_call(struct recorder_lane *l, uint32_t kind, uint32_t key, uint64_t expect);

/* It ended; value and version of the record have been set as history.h says. Who does not know how it ended does not
 * call this. */
void recorder_return(struct recorder_lane *l, struct history_op *op, int result);

/* It had no effect and no result. */
void recorder_cancel(struct history_op *op);

/* The scan told this key; before its return. */
void recorder_item(struct recorder_lane *l, const struct history_op *scan, uint32_t key, uint64_t version,
		   uint64_t value);

/* Adds all that was noted to *h. For when nobody writes any more. -FAR_ENOMEM. */
int recorder_collect(const struct recorder *r, struct history *h);

#endif
