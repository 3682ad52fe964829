/* SPDX-License-Identifier: Apache-2.0 */
/* open.c -- making and opening a table, and the design's entry in the registry. */
#include <xxhash.h>

#include "base/base.h"
#include "index/race/race.h"

static uint64_t
race_head_sum(const struct race_head *h)
{
	return XXH3_64bits(h, offsetof(struct race_head, sum));
}

static struct race *
race_new(struct pool_table *pt, const struct far_index_opts *o, unsigned groups)
{
	struct race *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	FAR_ASSERT(pt->pool && pt->serial);
	r->pt = pt;
	r->pool = pt->pool;
	r->groups = groups;
	r->tag = (uint32_t)pt->serial & 0xffffff;
	r->subtable_class = pool_class_of(race_subtable_len(r));
	FAR_ASSERT(groups && groups <= RACE_GROUPS_MAX && r->subtable_class < POOL_CLASSES);
	r->hash = o && o->hash ? o->hash : block_hash;
	r->no_backoff = o && o->no_backoff;
	r->watch = o ? o->watch : NULL;
	r->zoo = r->gate.zoo = o ? o->zoo : 0;
	return r;
}

/* WRITEs the first subtable, a directory of one word and the head that names them. */
static int
race_write_first(struct race *r, struct far_task *t, struct far_addr subtable, struct far_addr dir)
{
	uint64_t len = race_subtable_len(r), words[8] = { race_dir(0, subtable) };
	struct race_head head = { .magic = RACE_MAGIC, .root = race_dir(0, dir) };
	struct race_fate_line *line = calloc(1, len);
	uint64_t *slots = (uint64_t *)(line + 1);
	int err;

	FAR_ASSERT(r->head.raw && subtable.raw && dir.raw && r->head.raw != dir.raw);
	if (!line)
		return -FAR_ENOMEM;
	head.groups = r->groups;
	head.serial = r->pt->serial;
	head.sum = race_head_sum(&head);
	line->ident = race_ident(0, r->tag, 0);
	for (unsigned i = 0; i < r->groups * 3; i++)
		slots[i * RACE_BUCKET_WORDS] = line->ident;
	far_write(t, subtable, line, len);
	far_write(t, dir, words, sizeof(words));
	far_write(t, r->head, &head, sizeof(head));
	err = far_wait(t);
	free(line);
	return err;
}

int
race_create(struct pool_table *pt, struct far_task *t, const struct far_index_opts *o,
	    struct far_addr *head)
{
	unsigned groups = o && o->groups ? o->groups : RACE_GROUPS;
	struct far_addr subtable, dir;
	struct race *r;
	int err;

	FAR_ASSERT(!pool_is_inside(t)); /* pool_alloc() may wait for grace */
	if (groups > RACE_GROUPS_MAX)
		return -FAR_EINVAL;
	r = race_new(pt, o, groups);
	if (!r)
		return -FAR_ENOMEM;
	/* What a failure leaves behind goes with the name: the caller gives it up. */
	if ((err = pool_alloc(pt, t, 0, POOL_INDEX, pool_class_of(RACE_HEAD_LEN), &r->head)) == 0 &&
	    (err = pool_alloc(pt, t, 0, POOL_INDEX, pool_class_of(POOL_UNIT), &dir)) == 0 &&
	    (err = pool_alloc(pt, t, pool_pick_node(pt->pool), POOL_INDEX, r->subtable_class,
			      &subtable)) == 0)
		err = race_write_first(r, t, subtable, dir);
	if (!err)
		*head = r->head;
	free(r);
	return err;
}

int
race_open(struct pool_table *pt, struct far_task *t, const struct far_index_opts *o,
	  struct far_index **out)
{
	struct race_head head;
	struct race *r;
	int err;

	/* The directory is in use from here on: the caller is inside pool_enter() (M2). */
	FAR_ASSERT(pool_is_inside(t));
	far_read(t, pt->head, &head, sizeof(head));
	if ((err = far_wait(t)) != 0)
		return err == -FAR_EACCESS ? -FAR_ECORRUPT : err;
	if (head.magic != RACE_MAGIC || head.sum != race_head_sum(&head) ||
	    head.serial != pt->serial || head.groups == 0 || head.groups > RACE_GROUPS_MAX)
		return -FAR_ECORRUPT;
	r = race_new(pt, o, (unsigned)head.groups);
	if (!r)
		return -FAR_ENOMEM;
	r->head = pt->head;
	if ((err = race_refresh(r, t, true)) != 0) {
		race_close((struct far_index *)r);
		return err;
	}
	FAR_ASSERT(r->dir && r->depth <= RACE_DEPTH_MAX);
	*out = (struct far_index *)r;
	return 0;
}

void
race_close(struct far_index *ix)
{
	struct race *r = race_of(ix);

	if (!r)
		return;
	race_census_drop(r);
	free(r->dir);
	free(r);
}

const struct far_index_ops race_ops = {
	.name = "race",
	.create = race_create,
	.open = race_open,
	.close = race_close,
	.get = race_get,
	.put = race_put,
	.del = race_del,
	.move = race_move,
	.scan = race_scan,
	.stat = race_stat,
	.check = race_check,
	.refresh = race_index_refresh,
	.recover = race_recover,
	.reach = race_reach,
};
