/* SPDX-License-Identifier: Apache-2.0 */
/* block.c -- making and checking key-value blocks. */
#include "index/common/block.h"

#include <xxhash.h>

#include "base/base.h"

static uint64_t
block_sum(const struct block *b, uint64_t len)
{
	const size_t skip = offsetof(struct block, version);

	return XXH3_64bits_withSeed((const char *)b + skip, len - skip, b->hash);
}

void
block_make(struct block *b, uint64_t hash, uint64_t version, struct far_bytes key,
	   struct far_bytes value)
{
	uint64_t len = block_len(key.len, value.len);

	FAR_ASSERT(key.len && key.len <= FAR_KEY_MAX && value.len <= FAR_VALUE_MAX);
	b->hash = hash;
	b->version = version;
	b->key_len = (uint32_t)key.len;
	b->value_len = (uint32_t)value.len;
	b->flags = 0;
	b->expiry = 0;
	memcpy(b->bytes, key.data, key.len);
	if (value.len)
		memcpy(b->bytes + key.len, value.data, value.len);
	memset((char *)b + len, 0, -len & 7);
	b->sum = block_sum(b, len);
}

int
block_verify(const struct block *b, uint64_t room)
{
	uint64_t len = block_len(b->key_len, b->value_len);

	FAR_ASSERT(room >= sizeof(*b));
	if (b->key_len == 0 || b->key_len > FAR_KEY_MAX || b->value_len > FAR_VALUE_MAX ||
	    len > room)
		return -FAR_ECORRUPT;
	return b->sum == block_sum(b, len) ? 0 : -FAR_ECORRUPT;
}

uint64_t
block_hash(const void *key, size_t len, uint64_t seed)
{
	return XXH3_64bits_withSeed(key, len, seed);
}
