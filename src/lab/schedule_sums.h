/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_sums.h -- what many schedules came to: how many met which kind of trouble. */
#ifndef FAR_LAB_SCHEDULE_SUMS_H
#define FAR_LAB_SCHEDULE_SUMS_H

#include "lab/schedule.h"

/* Kinds of trouble; a run counts once in each kind that it met. */
enum schedule_kind {
	SCHEDULE_KIND_KILL,      /* a client died */
	SCHEDULE_KIND_PAUSE,     /* a client stood still */
	SCHEDULE_KIND_PARK,      /* a chain did */
	SCHEDULE_KIND_BREAK,     /* a connection broke */
	SCHEDULE_KIND_NODE,      /* a memory node failed */
	SCHEDULE_KIND_FAULT,     /* one of these two */
	SCHEDULE_KIND_EMPTY,     /* a node came back empty */
	SCHEDULE_KIND_KEPT,      /* or with its memory */
	SCHEDULE_KIND_REFUSED,   /* a grant of memory was refused */
	SCHEDULE_KIND_LATE,      /* completions came late */
	SCHEDULE_KIND_STRAY,     /* work that was left behind landed */
	SCHEDULE_KIND_DISCARDED, /* or was stopped */
	SCHEDULE_KIND_REPEAT,    /* or landed though it had been done */
	SCHEDULE_KIND_FENCED,    /* a session was fenced */
	SCHEDULE_KIND_ZOMBIE,    /* whose client lived, and was refused */
	SCHEDULE_KIND_COMEBACK,  /* a client opened a new session */
	SCHEDULE_KIND_SPLIT,     /* a client split a part of the table while an operation of another was in flight */
	SCHEDULE_KIND_CALM,      /* nothing happened to anybody */
	SCHEDULE_KINDS,
};

struct schedule_sums {
	uint64_t runs, bad, verbs, steps, splits, ops;
	uint64_t kinds[SCHEDULE_KINDS]; /* runs */
	uint64_t most_verbs;
	uint64_t digest;                /* of the traces, in order */
};

void schedule_sums_add(struct schedule_sums *sum, uint64_t seed, const struct schedule_result *r);

/* *sum += *more; but the digest is that of `sum` alone. */
void schedule_sums_merge(struct schedule_sums *sum, const struct schedule_sums *more);

const char *schedule_kind_name(unsigned kind);

/* Lines that start with `prefix`: means per run, and how many met what. */
void schedule_sums_print(const struct schedule_sums *sum, const char *prefix, FILE *out);

#endif
