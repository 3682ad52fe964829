/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block.h -- the key-value block that every design's slots point to.
 *
 * A block is written once, before it is published, and never changes until its memory passed grace. So a check sum
 * that does not match is damage (or a reader that broke the pool's rule M1), never a torn WRITE to be waited for.
 */
#ifndef FAR_INDEX_BLOCK_H
#define FAR_INDEX_BLOCK_H

#include <farside/far.h>

#include <stdint.h>

struct block {
	uint64_t hash;     /* of the key, all 64 bits; a splitter reads only this word */
	uint64_t sum;      /* XXH3-64, seeded with `hash`, of all that follows */
	uint64_t version;  /* client : 16 | sequence : 48; never repeats */
	uint32_t key_len;
	uint32_t value_len;
	uint32_t flags;    /* unused, 0 */
	uint32_t expiry;   /* unused, 0 */
	uint8_t bytes[];   /* key, then value */
};
_Static_assert(sizeof(struct block) == 40, "a 16 B key and an 8 B value fit 64 B");

static inline uint64_t
block_len(size_t key_len, size_t value_len)
{
	return sizeof(struct block) + key_len + value_len;
}

/* Fills `b` (block_len() bytes, and up to 7 more that are zeroed: a WRITE moves whole words). */
void block_make(struct block *b, uint64_t hash, uint64_t version, struct far_bytes key, struct far_bytes value);

/* 0, or -FAR_ECORRUPT when lengths or check sum are wrong for a block in `room` bytes. */
int block_verify(const struct block *b, uint64_t room);

static inline struct far_bytes
block_key(const struct block *b)
{
	return far_bytes(b->bytes, b->key_len);
}

static inline struct far_bytes
block_value(const struct block *b)
{
	return far_bytes(b->bytes + b->key_len, b->value_len);
}

static inline bool
block_has_key(const struct block *b, uint64_t hash, struct far_bytes key)
{
	return b->hash == hash && b->key_len == key.len && memcmp(b->bytes, key.data, key.len) == 0;
}

/* The default hash of a table: XXH3-64 with the table's secret seed. */
uint64_t block_hash(const void *key, size_t len, uint64_t seed);

#endif
