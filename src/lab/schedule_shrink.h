/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_shrink.h -- makes a run that fails as small as it can be and still fail. */
#ifndef FAR_LAB_SCHEDULE_SHRINK_H
#define FAR_LAB_SCHEDULE_SHRINK_H

#include "lab/schedule.h"

struct schedule_shrink {
	const struct far_index_ops *design;
	unsigned seeds;   /* that are tried for each smaller configuration, besides its own */
	bool (*stop)(void); /* NULL, or asked now and then */
	uint64_t played;  /* runs, so far */
};

/*
 * Lowers the members of *c one by one, to nothing, to half, by one, as long as some seed makes the rest fail; any
 * verdict will do but that the world could not be built. *c must fail: its last run's result is in *out. Then *c is
 * smaller, fails with its seed, and *out tells how. -FAR_ENOMEM, -FAR_EINVAL: it does not fail.
 */
int schedule_shrink(struct schedule *s, struct schedule_shrink *k, struct schedule_config *c,
		    struct schedule_result *out);

#endif
