/* SPDX-License-Identifier: Apache-2.0 */
/* base.c -- what a failed assertion does, and the seeding of the random source. */
#include "base/base.h"

#include "base/rand.h"

void
far_assert_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "farside: %s:%d: assertion failed: %s\n", file, line, cond);
	abort();
}

void
far_rng_seed(struct far_rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = far_mix64(seed += 0x9e3779b97f4a7c15ULL);
}
