/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h -- the memory node's own code: formatting a region and serving its control endpoint.
 *
 * Runs in `farside node` and, unchanged, in the simulator. It touches no word that clients CAS.
 */
#ifndef FAR_POOL_NODE_H
#define FAR_POOL_NODE_H

#include <stdbool.h>

#include "pool/control.h"

struct node;

/* What the node asks of its surroundings. */
struct node_env {
	/*
	 * Stops the client behind a connection for good. 0: done. -FAR_EAGAIN: under way, call node_stopped() then.
	 * -FAR_EACCESS: not possible.
	 */
	int (*stop)(void *arg, uint64_t serial);
	uint64_t (*random)(void *arg);
	void *arg;
};

/* Formats `len` zeroed bytes at `region`. -FAR_EINVAL when len is too small. */
int node_format(void *region, uint64_t len, const struct node_env *env);

/* Takes over a formatted region. Sessions found in it are left over from an earlier run: the caller has made sure
 * that their clients are gone, and they are fenced here. -FAR_EFORMAT, -FAR_ECORRUPT. */
int node_open(void *region, uint64_t len, const struct node_env *env, struct node **out);
void node_close(struct node *n);

/*
 * Serves one request of the connection whose session serial is *session (0 before SESSION or JOIN; updated here).
 * Returns true when `reply` is complete; false when it waits for node_stopped() (only FENCE).
 */
bool node_serve(struct node *n, uint64_t *session, const struct control_request *req, struct control_reply *reply);

/* The client of `serial` can no longer touch the region (it exited, or stop() is done): frees its session, and its
 * chunks become dirty orphans. */
void node_stopped(struct node *n, uint64_t serial);

/* stop() turned out to be impossible: quarantine. */
void node_unstoppable(struct node *n, uint64_t serial);

#endif
