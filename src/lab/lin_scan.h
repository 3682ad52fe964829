/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin_scan.h -- do iterations over a table keep their promise?
 *
 * While others change the table:
 *
 *	S1  a key that is present throughout comes,
 *	S2  a key that is absent throughout does not,
 *	S3  the value that comes was the key's at some moment of the iteration,
 *	S4  no key comes twice.
 *
 * S1 to S3 ask that for each key there was a moment of the iteration at which what it told of this key, a value or
 * nothing, was true. So an iteration is a lookup of every key that lasts as long as it, and the history with these
 * lookups must be linearizable; the moments of two keys have nothing to do with each other. As all iterations of a
 * history are looked at together, they must agree with each other, too: two, one after the other, do not go back in
 * time.
 */
#ifndef FAR_LAB_LIN_SCAN_H
#define FAR_LAB_LIN_SCAN_H

#include "lab/lin.h"

/* What came. */
struct lin_item {
	uint32_t key;
	uint32_t value;   /* 1 + index of the operation that wrote it; 0: nobody did */
	uint64_t version;
};

struct lin_scan {
	const struct lin_item *items;
	uint32_t items_n;
	uint32_t begin, end; /* of the history's events, how many came before it began, and before it ended */
	bool whole;          /* it came to its end; of one that did not, S1 does not hold */
};

enum lin_scan_verdict {
	LIN_SCAN_BAD,     /* S1, S2 or S3, or not linearizable without the scans */
	LIN_SCAN_GOOD,
	LIN_SCAN_TWICE,   /* S4 */
};

/*
 * Is the history linearizable and do its iterations keep the promise? Keys that no operation of the history names are
 * not looked at. One of enum lin_scan_verdict; when not good *key (may be NULL) tells for which key. Or as lin_check().
 * The time is linear in the history's length as long as few operations overlap.
 */
int lin_scan_check(struct lin *l, const struct lin_history *h, const struct lin_scan *scans, uint32_t scans_n,
		   uint32_t *key);

#endif
