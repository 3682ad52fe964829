/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h -- memory for results: allocated piece by piece, freed all at once. */
#ifndef FAR_STORE_ARENA_H
#define FAR_STORE_ARENA_H

#include <stddef.h>

struct store_block;

/* Zero-initialised is empty. */
struct store_arena {
	struct store_block *block; /* the one being filled; older ones behind it */
	size_t used;               /* of it */
	size_t total;              /* bytes handed out since the last reset */
};

/* `len` bytes, 8-byte aligned, that stay where they are until the reset; NULL when memory is out. */
void *store_arena_alloc(struct store_arena *a, size_t len);

/* Takes everything back; at most one block of up to `keep` bytes stays for reuse. */
void store_arena_reset(struct store_arena *a, size_t keep);

void store_arena_free(struct store_arena *a);

#endif
