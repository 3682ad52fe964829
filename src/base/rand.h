/* SPDX-License-Identifier: Apache-2.0 */
/* rand.h -- the random source behind every loop and workload: xoshiro256**, seeded through splitmix64. */
#ifndef FAR_RAND_H
#define FAR_RAND_H

#include <stdint.h>

struct far_rng {
	uint64_t s[4];
};

void far_rng_seed(struct far_rng *r, uint64_t seed);

static inline uint64_t
far_rng_next(struct far_rng *r)
{
	uint64_t *s = r->s, x = s[1] * 5, t = s[1] << 17, out;

	out = (x << 7 | x >> 57) * 9;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = s[3] << 45 | s[3] >> 19;
	return out;
}

/* Uniform in [0, n), n > 0 (bias below 2^-32 for n < 2^32). */
static inline uint64_t
far_rng_below(struct far_rng *r, uint64_t n)
{
	return (uint64_t)((unsigned __int128)far_rng_next(r) * n >> 64);
}

/* Uniform in [0, 1). */
static inline double
far_rng_unit(struct far_rng *r)
{
	return (double)(far_rng_next(r) >> 11) * 0x1p-53;
}

#endif
