/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c -- the index designs, one line each; the first is the default. And how a pool's table gets its index. */
#include "base/base.h"
#include "index/index.h"
#include "pool/pool.h"

extern const struct far_index_ops race_ops;

static const struct far_index_ops *const designs[] = {
	&race_ops,
};

const struct far_index_ops *
far_index_at(unsigned i)
{
	return i < FAR_LEN(designs) ? designs[i] : NULL;
}

const struct far_index_ops *
far_index_find(const char *name)
{
	if (!name)
		return designs[0];
	for (unsigned i = 0; i < FAR_LEN(designs); i++) {
		if (strcmp(designs[i]->name, name) == 0)
			return designs[i];
	}
	return NULL;
}

int
far_index_open(const struct far_index_ops *ops, struct pool_table *pt, struct far_task *t,
	       const struct far_index_opts *opts, struct far_index **out)
{
	int err = ops->open(pt, t, opts, out);

	FAR_ASSERT(pool_is_inside(t));
	if (err)
		return err;
	FAR_ASSERT(*out && !pt->index);
	pt->ops = ops;
	pt->index = *out;
	return 0;
}
