/* SPDX-License-Identifier: Apache-2.0 */
/*
 * class.h -- size classes of far-memory blocks.
 *
 * Sizes are multiples of 64 B: 1 to 8 units, then four classes per doubling (10, 12, 14, 16, 20, ...), up to the
 * block that holds the longest key and value. At most a fifth of a block is padding. A class fits 7 bits.
 */
#ifndef FAR_POOL_CLASS_H
#define FAR_POOL_CLASS_H

#include <stdint.h>

enum {
	POOL_UNIT = 64,           /* bytes */
	POOL_CLASSES = 69,        /* classes 0 .. 68 */
};

/* The largest block: 16 MiB + 128 KiB. */
#define POOL_BLOCK_MAX (((uint64_t)16 << 20) + ((uint64_t)128 << 10))

/* Bytes of a block of class `c`; 0 when there is no such class. */
static inline uint64_t
pool_class_len(unsigned c)
{
	if (c < 8)
		return (uint64_t)(c + 1) * POOL_UNIT;
	if (c == POOL_CLASSES - 1)
		return POOL_BLOCK_MAX;
	if (c >= POOL_CLASSES)
		return 0;
	/* Class 8 has 10 units: (5 + i % 4) << (1 + i / 4) with i = c - 8. */
	return ((uint64_t)(5 + (c - 8) % 4) << (1 + (c - 8) / 4)) * POOL_UNIT;
}

/* The smallest class that holds `len` bytes, 1 <= len <= POOL_BLOCK_MAX; POOL_CLASSES when none does. */
static inline unsigned
pool_class_of(uint64_t len)
{
	uint64_t units = (len + POOL_UNIT - 1) / POOL_UNIT;
	unsigned shift;

	if (units <= 8)
		return units ? (unsigned)units - 1 : 0;
	if (units > ((uint64_t)8 << 15))
		return len <= POOL_BLOCK_MAX ? POOL_CLASSES - 1 : POOL_CLASSES;
	/* Find shift with 4 << shift < units <= 8 << shift: four steps of (1 << shift) units. */
	shift = 63 - (unsigned)__builtin_clzll(units - 1) - 2;
	return 8 + (shift - 1) * 4 + (unsigned)((units - 1) >> shift) - 4;
}

#endif
