/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_shrink.c -- a greedy search: every member of the configuration is made less, if what is left still fails
 * with some seed, until nothing can be made less.
 *
 * What a client wishes comes from a stream of its own (schedule_config.h), so fewer operations of one leave the others'
 * as they were; the steps, though, are drawn anew, and so other seeds are tried.
 */
#include "lab/schedule_shrink.h"

#include "base/base.h"

enum { SHRINK_ROUNDS = 20 };

static bool
shrink_is_failure(const struct schedule_result *r)
{
	return r->verdict != SCHEDULE_GOOD && r->verdict != SCHEDULE_NO_SETUP;
}

/* 1: it fails, and c->seed with *out tell how; 0: with none of the seeds. */
static int
shrink_try(struct schedule *s, struct schedule_shrink *k, struct schedule_config *c,
	   struct schedule_result *out)
{
	uint64_t own = c->seed;

	for (unsigned i = 0; i <= k->seeds; i++) {
		int err;

		if (k->stop && k->stop())
			return 0;
		c->seed = i == 0 ? own : i;
		k->played++;
		if ((err = schedule_play(s, c, k->design, out)) != 0)
			return err;
		if (shrink_is_failure(out))
			return 1;
	}
	c->seed = own;
	return 0;
}

/* Makes number `i` of the configuration less. 1: done, 0: it cannot be. */
static int
shrink_number(struct schedule *s, struct schedule_shrink *k, struct schedule_config *c, unsigned i,
	      struct schedule_result *out)
{
	uint64_t now = *schedule_config_number(c, i);
	const uint64_t less[] = { 0, now / 2, now - 1 };
	struct schedule_result r;

	for (unsigned n = 0; n < FAR_LEN(less) && now > 0; n++) {
		struct schedule_config smaller = *c;
		int got;

		*schedule_config_number(&smaller, i) = less[n];
		if (less[n] == now || !schedule_config_is_valid(&smaller))
			continue;
		if ((got = shrink_try(s, k, &smaller, &r)) < 0)
			return got;
		if (got) {
			*c = smaller;
			*out = r;
			return 1;
		}
	}
	return 0;
}

int
schedule_shrink(struct schedule *s, struct schedule_shrink *k, struct schedule_config *c,
		struct schedule_result *out)
{
	int err = schedule_play(s, c, k->design, out), less = 1;

	k->played = 1;
	if (err)
		return err;
	if (!shrink_is_failure(out))
		return -FAR_EINVAL;
	for (unsigned round = 0; less > 0 && round < SHRINK_ROUNDS; round++) {
		less = 0;
		for (unsigned i = 0; schedule_config_number(c, i); i++) {
			if (schedule_config_number(c, i) == &c->seed)
				continue;
			if ((err = shrink_number(s, k, c, i, out)) < 0)
				return err;
			less += err;
		}
	}
	/* The last run is the one that *c and *out are about. */
	return schedule_play(s, c, k->design, out);
}
