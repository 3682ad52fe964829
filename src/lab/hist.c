/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.c -- bucket arithmetic.
 *
 * A value below 2^7 is its own bucket. Above, with `shift` chosen so that value >> shift lies in [64, 128), the
 * bucket is 64 * shift + (value >> shift): the octaves line up without gaps, each 2^shift wide per bucket.
 */
#include "lab/hist.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

void
hist_init(struct hist *h)
{
	memset(h, 0, sizeof(*h));
}

static unsigned
hist_bucket(uint64_t ns)
{
	unsigned shift;

	ns = far_min(ns, ((uint64_t)1 << HIST_TOP_BITS) - 1);
	if (ns < (uint64_t)2 << HIST_SUB_BITS)
		return (unsigned)ns;
	shift = 63 - (unsigned)__builtin_clzll(ns) - HIST_SUB_BITS;
	return (shift << HIST_SUB_BITS) + (unsigned)(ns >> shift);
}

/* The largest value that falls into bucket `b`. */
static uint64_t
hist_bucket_end(unsigned b)
{
	unsigned shift = b >> HIST_SUB_BITS;

	if (shift <= 1)
		return b;
	shift--;
	return ((uint64_t)(b - (shift << HIST_SUB_BITS) + 1) << shift) - 1;
}

void
hist_add(struct hist *h, uint64_t ns)
{
	h->count[hist_bucket(ns)]++;
	h->n++;
	h->sum += ns;
	h->max = far_max(h->max, ns);
}

void
hist_merge(struct hist *h, const struct hist *from)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		h->count[i] += from->count[i];
	h->n += from->n;
	h->sum += from->sum;
	h->max = far_max(h->max, from->max);
}

uint64_t
hist_at(const struct hist *h, double share)
{
	uint64_t rank = far_max((uint64_t)ceil(share * (double)h->n), 1), seen = 0;

	if (!h->n)
		return 0;
	for (unsigned i = 0; i < HIST_BUCKETS - 1; i++) {
		seen += h->count[i];
		if (seen >= rank)
			return far_min(hist_bucket_end(i), h->max);
	}
	return h->max;
}

double
hist_mean(const struct hist *h)
{
	return h->n ? (double)h->sum / (double)h->n : 0;
}
