/* SPDX-License-Identifier: Apache-2.0 */
/* node_super.c -- lays a region out and recognises one. */
#include <string.h>

#include <xxhash.h>

#include "pool/node_impl.h"

uint64_t
node_super_sum(const struct pool_super *s)
{
	return XXH3_64bits(s, offsetof(struct pool_super, sum));
}

/* Places the tables and the data area in `len` bytes. False when there is no room for NODE_PAGES_MIN pages. */
static bool
node_super_place(struct pool_super *s, uint64_t len)
{
	uint64_t pages_most = len / POOL_PAGE, end;

	s->region_len = len;
	s->sessions_n = len < NODE_SMALL ? NODE_SMALL_SESSIONS : POOL_SESSIONS;
	s->roots_n = len < NODE_SMALL ? NODE_SMALL_ROOTS : POOL_ROOTS;
	s->sessions_off = POOL_SUPER_LEN;
	s->roots_off = s->sessions_off + s->sessions_n * sizeof(struct pool_session_line);
	s->private_off = s->roots_off + s->roots_n * sizeof(struct pool_root);
	s->pages_off = s->private_off + s->sessions_n * sizeof(struct pool_private);
	end = s->pages_off + pages_most * sizeof(uint64_t);
	s->data_off = far_align(end, len < POOL_SUPERPAGE * 2 ? POOL_PAGE : POOL_SUPERPAGE);
	if (len > POOL_REGION_MAX || len < s->data_off + NODE_PAGES_MIN * (uint64_t)POOL_PAGE)
		return false;
	s->pages_n = (len - s->data_off) / POOL_PAGE;
	FAR_ASSERT(s->pages_off + s->pages_n * sizeof(uint64_t) <= s->data_off);
	FAR_ASSERT(s->data_off % POOL_PAGE == 0 && s->pages_n >= NODE_PAGES_MIN);
	return true;
}

int
node_format(void *region, uint64_t len, const struct node_env *env)
{
	struct pool_super *super = region, s;
	struct pool_private *private;

	memset(&s, 0, sizeof(s));
	s.magic = POOL_MAGIC;
	s.endian = POOL_ENDIAN;
	s.format = POOL_FORMAT;
	s.page_len = POOL_PAGE;
	if (!node_super_place(&s, len))
		return -FAR_EINVAL;
	FAR_ASSERT((uintptr_t)region % sizeof(uint64_t) == 0);
	s.generation = env->random(env->arg);
	s.sum = node_super_sum(&s);
	s.epoch = 1;
	private = (struct pool_private *)((uint8_t *)region + s.private_off);
	/* A version is never 0: range 0 is left out. */
	for (unsigned i = 0; i < s.sessions_n; i++)
		node_put(&private[i].range_next, 1);
	/* The magic comes last: a crash before leaves no region at all. */
	s.magic = 0;
	memcpy(super, &s, sizeof(s));
	node_put(&super->magic, POOL_MAGIC);
	return 0;
}

int
node_super_read(const void *region, uint64_t len, struct pool_super *out, bool *torn)
{
	struct pool_super s, want;

	if (len < POOL_SUPER_LEN)
		return -FAR_EFORMAT;
	memcpy(&s, region, sizeof(s));
	if (s.magic != POOL_MAGIC || s.endian != POOL_ENDIAN || s.format != POOL_FORMAT)
		return -FAR_EFORMAT;
	*torn = false;
	if (s.sum != node_super_sum(&s)) {
		/* FORM stores the sum last: the sum of an unformed node tells that it did not get there. */
		s.pool_id[0] = s.pool_id[1] = 0;
		s.node = s.nodes_n = 0;
		memset(s.generations, 0, sizeof(s.generations));
		*torn = true;
		if (s.sum != node_super_sum(&s))
			return -FAR_ECORRUPT;
	}
	/* The sum proves that some node wrote it, not that the file still has its length. */
	want = s;
	if (s.page_len != POOL_PAGE || s.region_len != len || !node_super_place(&want, len) ||
	    node_super_sum(&want) != s.sum || s.nodes_n > POOL_NODES ||
	    (s.nodes_n > 0 && s.node >= s.nodes_n) || s.epoch == 0 || s.epoch > POOL_EPOCH_MAX ||
	    s.sessions_high > s.sessions_n || s.next_serial > POOL_SERIAL_MAX)
		return -FAR_ECORRUPT;
	*out = s;
	return 0;
}

int
node_left(const void *region, uint64_t len,
	  int (*each)(void *arg, uint64_t serial, const uint64_t note[2]), void *arg)
{
	const struct pool_session_line *lines;
	const struct pool_private *private;
	struct pool_super s;
	bool torn;
	int err;

	if ((err = node_super_read(region, len, &s, &torn)) != 0)
		return err;
	lines = (const void *)((const uint8_t *)region + s.sessions_off);
	private = (const void *)((const uint8_t *)region + s.private_off);
	for (unsigned i = 0; i < s.sessions_n; i++) {
		if (lines[i].serial == 0 || lines[i].serial != private[i].serial)
			continue;
		if ((err = each(arg, lines[i].serial, private[i].note)) != 0)
			return err;
	}
	return 0;
}
