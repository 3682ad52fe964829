/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a client that joins a pool whose nodes' own tables are damaged: superblocks, sessions, names, page tables.
 */
#include "fuzz/image.h"

enum { POOL_STEPS = 12,
       POOL_DROPS = 2 }; /* each may wait for leases, in a hurry */

static void
pool_spoil(struct image *im, struct fuzz_in *in)
{
	image_damage(im, in, (enum image_part)(IMAGE_BITMAP + fuzz_byte(in) % (IMAGE_PARTS - IMAGE_BITMAP)));
}

struct pool_run {
	struct image *im;
	struct fuzz_in *in;
	unsigned drops;
};

static int
pool_names(struct pool_run *r, struct pool *p, struct far_task *t, unsigned op)
{
	static const char *const names[] = { "t", "u", "", "t" };
	const char *name = names[op >> 4 & 3];
	struct pool_table *pt = NULL;
	struct far_addr head;
	int err;

	if (op & 0x40) {
		if ((err = pool_table_new(p, t, name, "race", &pt)) == 0 &&
		    (err = pool_alloc(pt, t, op >> 7, POOL_INDEX, 3, &head)) == 0)
			err = pool_table_commit(pt, t, head);
	} else if (op & 0x80) {
		return r->drops++ < POOL_DROPS ? pool_table_drop(p, t, name) : 0;
	} else {
		err = pool_table_open(p, t, name, &pt);
	}
	(void)pool_table_close(pt, t);
	return err;
}

static int
pool_memory(struct pool *p, struct far_task *t, unsigned op)
{
	struct pool_table *pt = NULL;
	struct pool_usage usage;
	struct far_addr a;
	int err = pool_table_open(p, t, "t", &pt);

	if (err == 0)
		err = pool_alloc(pt, t, op >> 4 & 1, op & 0x20 ? POOL_INDEX : POOL_BLOCKS, op >> 5, &a);
	if (err == 0 && (err = pool_enter(p, t)) == 0) {
		pool_retire(pt, op & 0x20 ? POOL_INDEX : POOL_BLOCKS, op >> 5, a);
		err = pool_leave(p, t);
	}
	if (err == 0)
		err = pool_table_usage(pt, t, &usage);
	(void)pool_table_close(pt, t);
	return err;
}

static int
pool_step(struct pool_run *r, struct pool *p, struct far_task *t, unsigned op)
{
	struct far_node_info info[IMAGE_NODES];
	struct pool_root *list = NULL;
	uint64_t version;
	int err;

	switch (op & 7) {
	case 0:
		err = pool_table_list(p, t, &list);
		free(list);
		return err;
	case 1:
		return pool_node_info(p, t, info, IMAGE_NODES);
	case 2:
		return pool_gone(p, t, fuzz_word(r->in, op >> 4 & 7));
	case 3:
		return pool_tick(p, t);
	case 4:
		return pool_version(p, t, &version);
	case 5:
		return pool_names(r, p, t, op);
	case 6:
		return pool_memory(p, t, op);
	default:
		far_sleep(t, fuzz_word(r->in, 1) * 10000000);
		return 0;
	}
}

static void
pool_client(struct far_task *t, void *arg)
{
	struct pool_run *r = arg;
	struct pool *p = NULL;
	int err = pool_open(t, NULL, &p);

	FUZZ_CHECK(err <= 0 && err >= -FAR_EAGAIN);
	for (unsigned i = 0; err == 0 && i < POOL_STEPS && r->in->left > 0; i++) {
		unsigned op = fuzz_byte(r->in);

		if (op & 8)
			pool_spoil(r->im, r->in);
		FUZZ_CHECK(pool_step(r, p, t, op) >= -FAR_EAGAIN);
	}
	err = pool_close(p, t);
	FUZZ_CHECK(err <= 0 && err >= -FAR_EAGAIN);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in);
	struct pool_run r = { .im = image_start(mode & 1 ? IMAGE_CLAIMED : IMAGE_WHOLE, mode >> 6), .in = &in };

	for (unsigned i = 0; i < (mode >> 1 & 3); i++)
		pool_spoil(r.im, &in);
	image_spawn(r.im, 0, pool_client, &r);
	if (mode & 0x20)
		image_spawn(r.im, 1, pool_client, &r);
	image_run(r.im);
	FUZZ_CHECK(!far_sim_exhausted(r.im->sim));
	image_stop(r.im);
	return 0;
}
