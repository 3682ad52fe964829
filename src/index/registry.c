/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c -- the index designs, one line each; the first is the default. */
#include "base/base.h"
#include "index/index.h"

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
