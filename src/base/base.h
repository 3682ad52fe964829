/* SPDX-License-Identifier: Apache-2.0 */
/* base.h -- what every layer uses: assertions, alignment, bit helpers. */
#ifndef FAR_BASE_H
#define FAR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* For our own bugs only, on in release: remote bytes are input and answered with -FAR_ECORRUPT. */
#define FAR_ASSERT(cond)                                                                           \
	do {                                                                                       \
		if (__builtin_expect(!(cond), 0))                                                  \
			far_assert_failed(#cond, __FILE__, __LINE__);                              \
	} while (0)

_Noreturn void far_assert_failed(const char *cond, const char *file, int line);

#define FAR_LEN(array) (sizeof(array) / sizeof((array)[0]))
#define FAR_CONTAINER(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))

/* `n` rounded up to a multiple of the power of two `to`. */
static inline uint64_t
far_align(uint64_t n, uint64_t to)
{
	return (n + to - 1) & ~(to - 1);
}

static inline uint64_t
far_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t
far_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Mixes all bits of a word: a bijection (the finalizer of MurmurHash3). */
static inline uint64_t
far_mix64(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdULL;
	x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ x >> 33;
}

#endif
