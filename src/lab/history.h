/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h -- what processes did to one table, and whether that can be.
 *
 * Calls and returns carry stamps of one counter, so that their order is known across processes; lab/recorder.h
 * writes such records. An operation has an id that nothing else has, and every value tells the id of the operation
 * that wrote it.
 *
 * As text, a history is one event per line, in the order of the stamps, six words each:
 *
 *	STAMP call   ID KIND KEY EXPECT        an operation begins; KIND is a name of lin_kind_name() or "scan";
 *	                                       EXPECT: the version it expects, in hexadecimal, or "-"
 *	STAMP return ID RESULT VERSION VALUE   it ended: ok, absent, exists, changed; VERSION: written or found, or "-";
 *	                                       VALUE: of a get, the id of the operation that wrote what it found, or "-"
 *	STAMP item   ID KEY VERSION VALUE      the iteration ID, which began at STAMP, told this key; after its call
 *
 * Below a first line "farside-history 1"; lines that start with '#' are comments. An ID is LANE.NUMBER, both above 0, a
 * KEY is a number, an operation without a return is pending: it happened or not, at any time after its call.
 */
#ifndef FAR_LAB_HISTORY_H
#define FAR_LAB_HISTORY_H

#include <stdio.h>

#include "lab/lin.h"

enum {
	HISTORY_SCAN = LIN_KINDS, /* an iteration over the table */
	HISTORY_ITEM,             /* a key that an iteration told */
};

/* One operation, in 64 bytes. */
struct history_op {
	uint64_t call, ret;  /* stamps; ret 0: pending. Of an item: the call of its scan, and 0 */
	uint64_t id;         /* lane : 32 | number : 32. Of an item: of its scan */
	uint64_t value;      /* of a get that found something, and of an item: who wrote it; 0: nobody did */
	uint64_t version;    /* found or written; 0: not known */
	uint64_t expect;
	uint32_t key;
	uint32_t kind;       /* enum lin_kind, or as above */
	int32_t result;      /* 0, -FAR_ENOENT, -FAR_EEXIST, -FAR_ECHANGED */
	uint32_t unused;
};

struct history {
	struct history_op *ops; /* operations, scans and items in any order */
	size_t n, max;
};

static inline uint64_t
history_id(uint32_t lane, uint32_t number)
{
	return (uint64_t)lane << 32 | number;
}

/* Begin with a zeroed struct. -FAR_ENOMEM. */
int history_add(struct history *h, const struct history_op *op);
void history_free(struct history *h);

/* Writes the text. -FAR_EIO, -FAR_ENOMEM. */
int history_print(const struct history *h, FILE *out);

/* Reads the text and adds it to *h. -FAR_ESYNTAX: *line (may be NULL) tells which; -FAR_EIO, -FAR_ENOMEM. */
int history_read(struct history *h, FILE *in, unsigned *line);

enum history_verdict {
	HISTORY_GOOD,
	HISTORY_NOT_LINEARIZABLE, /* or, where scans are concerned, S1 to S3 of lab/lin_scan.h broken */
	HISTORY_TWICE,            /* a scan told a key twice */
	HISTORY_STRANGER,         /* a scan told a key that nobody ever wrote to */
	HISTORY_SAME_VERSION,     /* two operations wrote one version */
	HISTORY_UNDECIDED,        /* the search gave up, or a key has more operations than it bears */
	HISTORY_VERDICTS,
};

struct history_report {
	enum history_verdict verdict;
	uint32_t key;                     /* the one it is about, when not good */
	uint64_t ops, pending, scans, items;
	uint32_t keys, most_ops;          /* operations on one key */
};

/* Judges the history, whose ops it sorts by key, then call. -FAR_EINVAL: two operations with one id, an item without a
 * scan, or a return before its call; -FAR_ENOMEM. */
int history_check(struct history *h, struct history_report *out);

/* The events of one key, as text. */
int history_print_key(const struct history *h, uint32_t key, FILE *out);

const char *history_verdict_name(unsigned verdict);

#endif
