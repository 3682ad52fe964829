/* SPDX-License-Identifier: Apache-2.0 */
/* env_rig.h -- for tests: the surroundings of a memory node without any fabric. */
#ifndef FAR_POOL_ENV_RIG_H
#define FAR_POOL_ENV_RIG_H

#include "base/rand.h"
#include "pool/node.h"

struct env_rig {
	struct node_env env; /* what node_format() and node_open() take */
	struct far_rng rng;
	int stop_result;     /* what stopping a client returns */
	uint64_t stopped;    /* the session that was to be stopped last */
};

static inline int
env_rig_stop(void *arg, uint64_t serial)
{
	struct env_rig *e = arg;

	e->stopped = serial;
	return e->stop_result;
}

static inline uint64_t
env_rig_random(void *arg)
{
	return far_rng_next(&((struct env_rig *)arg)->rng);
}

static inline void
env_rig_who(void *arg, uint64_t note[2])
{
	(void)arg;
	note[0] = 4711;
	note[1] = 42;
}

/* *e stays where it is as long as a node uses it. */
static inline void
env_rig_init(struct env_rig *e)
{
	*e = (struct env_rig){
		.env = { .stop = env_rig_stop, .who = env_rig_who, .random = env_rig_random, .arg = e }
	};
	far_rng_seed(&e->rng, 1);
}

#endif
