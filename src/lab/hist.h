/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.h -- a log-linear histogram of durations.
 *
 * Each power of two is divided into 64 equal buckets, so a reported value is at most 1/64 above the recorded one,
 * from 1 ns to 9 hours, in 21 KB that never grow.
 */
#ifndef FAR_LAB_HIST_H
#define FAR_LAB_HIST_H

#include <stdint.h>

enum {
	HIST_SUB_BITS = 6,  /* log2 of the buckets per power of two */
	HIST_TOP_BITS = 45, /* values of 2^45 ns and above count in the last bucket */
	HIST_BUCKETS = (HIST_TOP_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS,
};

struct hist {
	uint64_t n;
	uint64_t max; /* exact */
	uint64_t sum;
	uint64_t count[HIST_BUCKETS];
};

/* Empties it; there is nothing to free. */
void hist_init(struct hist *h);

/* Never fails; constant time. */
void hist_add(struct hist *h, uint64_t ns);

/* Adds all of `from`. */
void hist_merge(struct hist *h, const struct hist *from);

/*
 * The smallest value that at least `share` (0 to 1) of the recorded ones do not exceed, rounded up to the end of its
 * bucket but never above the maximum. 0 when nothing was recorded.
 */
uint64_t hist_at(const struct hist *h, double share);

/* 0 when nothing was recorded. */
double hist_mean(const struct hist *h);

#endif
