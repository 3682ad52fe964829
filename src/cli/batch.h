/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h -- storing a stream of records with many operations in flight.
 *
 * Records gather in a batch; each key stands in it once, because operations of one batch have no order: a later
 * record of the same key takes the earlier one's place, which is what storing both in turn would leave. A flush
 * inserts; a key that is there already is a duplicate when its version shows that this session wrote it earlier, and
 * else one to replace. So duplicates are counted exactly without remembering keys.
 */
#ifndef FAR_CLI_BATCH_H
#define FAR_CLI_BATCH_H

#include <farside/far.h>

enum {
	BATCH_MAX = 1024,            /* records in flight */
	BATCH_SLOTS = 4 * BATCH_MAX, /* of the set of keys */
	BATCH_BYTES = 8 << 20,       /* of keys and values; one record may be longer */
};

struct batch_counts {
	uint64_t rows;       /* stored = the sum of the next three */
	uint64_t fresh;      /* keys that were not there */
	uint64_t replaced;   /* keys that were there before this session */
	uint64_t duplicates; /* rows whose key came earlier: the last one stands */
};

struct batch;

/* A batch for table `t`, which outlives it; NULL: batch_aim() names it before the first record. -FAR_ENOMEM. */
int batch_open(struct far_table *t, struct batch **out);
void batch_aim(struct batch *b, struct far_table *t);
void batch_close(struct batch *b);

/* Adds a copy of a record, from line `line`; flushes when the batch is full. An error is the flush's. */
int batch_add(struct batch *b, struct far_bytes key, struct far_bytes value, uint64_t line);

/* Stores what has gathered. 0 or the first error; batch_failed_line() tells the line of the record, 0 when the error
 * is not about one. What was stored is counted also then. */
int batch_flush(struct batch *b);
uint64_t batch_failed_line(const struct batch *b);

/* Is there anything to flush? */
bool batch_waiting(const struct batch *b);

const struct batch_counts *batch_counts(const struct batch *b);

#endif
