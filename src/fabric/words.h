/* SPDX-License-Identifier: Apache-2.0 */
/*
 * words.h -- operations as loads, stores and atomic instructions on memory of this process.
 *
 * What the guarantees rest on, for whoever executes chains so. G1: regions are only touched by aligned 8-byte atomic
 * loads and stores. G2: atomics are the processor's own. G3: operations run in order; loads acquire and stores release,
 * which orders everything but a load behind an earlier store: there, and at a chain's end for G6, stands a full fence.
 * An atomic is one. G5: every operation is checked against the region's length before its address is computed.
 */
#ifndef FAR_FABRIC_WORDS_H
#define FAR_FABRIC_WORDS_H

#include <string.h>

#include <farside/error.h>
#include <farside/fabric.h>

#include "fiber/san.h"

/* A region, and what one executor's chain has done to it. */
struct words {
	unsigned char *base; /* 8-byte aligned */
	uint64_t len;
	bool dirty;          /* there are stores that no fence followed */
	uint64_t fence_word;
};

static inline void
words_fence(struct words *w)
{
#if FIBER_TSAN
	__atomic_fetch_add(&w->fence_word, 0, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	w->dirty = false;
}

/* Ends a chain: what it stored is seen by everybody from here on. */
static inline void
words_settle(struct words *w)
{
	if (w->dirty)
		words_fence(w);
}

/* Where `len` bytes at `off` lie, or NULL when they leave the region or are not aligned. */
static inline unsigned char *
words_place(const struct words *w, uint64_t off, uint64_t len)
{
	if ((off | len) % 8 != 0 || off > w->len || len > w->len - off)
		return NULL;
	return w->base + off;
}

static inline void
words_read(struct words *w, const unsigned char *from, unsigned char *to, size_t len)
{
	words_settle(w);
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = __atomic_load_n((const uint64_t *)(from + i), __ATOMIC_ACQUIRE);

		memcpy(to + i, &word, 8);
	}
}

static inline void
words_write(struct words *w, unsigned char *to, const unsigned char *from, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word;

		memcpy(&word, from + i, 8);
		__atomic_store_n((uint64_t *)(to + i), word, __ATOMIC_RELEASE);
	}
	w->dirty = true;
}

/* Both answer the word that they found. */
static inline uint64_t
words_cas(struct words *w, unsigned char *at, uint64_t expect, uint64_t desired)
{
	__atomic_compare_exchange_n((uint64_t *)at, &expect, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	w->dirty = false;
	return expect;
}

static inline uint64_t
words_faa(struct words *w, unsigned char *at, uint64_t addend)
{
	uint64_t old = __atomic_fetch_add((uint64_t *)at, addend, __ATOMIC_SEQ_CST);

	w->dirty = false;
	return old;
}

#endif
