/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h -- the memory node's own code: formatting a region and serving its control endpoint.
 *
 * Runs in `farside node` and, unchanged, in the simulator. It touches no word that clients CAS.
 */
#ifndef FAR_POOL_NODE_H
#define FAR_POOL_NODE_H

#include <stdbool.h>

#include <farside/far.h>

#include "pool/control.h"

struct node;

/* What the node asks of its surroundings. */
struct node_env {
	/*
	 * Stops the client behind a connection for good. 0: done. -FAR_EAGAIN: under way, call node_stopped() then.
	 * -FAR_EACCESS: not possible. Where that may happen, a node that can do it does it for all: a process ends.
	 */
	int (*stop)(void *arg, uint64_t serial);
	/* Describes the client whose request is being served, for node_left() of a later run; the low half of note[0]
	 * is its process id, or 0. NULL: not needed. */
	void (*who)(void *arg, uint64_t note[2]);
	uint64_t (*random)(void *arg);
	void *arg;
	uint64_t zoo; /* mistakes to make (base/zoo.h) */
};

/*
 * Crashes. The node may be killed between any two stores to the region: each request's stores are ordered so that
 * node_open() finds either all of it or what it can undo. While it runs, the node reads nothing back from the region
 * but the pool epoch, so a client that scribbles over the node's tables harms the region but not the node.
 */

/* Formats `len` zeroed bytes at `region`. -FAR_EINVAL when len is too small. */
int node_format(void *region, uint64_t len, const struct node_env *env);

/* Takes over a formatted region. Sessions found in it are left over from an earlier run: the caller has made sure
 * that their clients are gone, and they are fenced here. -FAR_EFORMAT, -FAR_ECORRUPT. */
int node_open(void *region, uint64_t len, const struct node_env *env, struct node **out);
/* Frees the local state; the region keeps its sessions. NULL is fine. */
void node_close(struct node *n);

/* Before node_open(): calls `each` for every session left in the region, with the note that who() had made. Stops
 * when it returns non-zero and returns that. -FAR_EFORMAT, -FAR_ECORRUPT as node_open(). */
int node_left(const void *region, uint64_t len, int (*each)(void *arg, uint64_t serial, const uint64_t note[2]),
	      void *arg);

/* The superblock's fixed part, as the node knows it. */
const struct pool_super *node_identity(const struct node *n);

/* Verifies page table, sessions and roots in the region against each other and against the node's own state. Returns
 * the number of violations; each is reported. */
int node_check(const struct node *n, far_report_fn *report, void *arg);

/*
 * Serves one request of the connection whose session serial is *session (0 before SESSION or JOIN; updated here).
 * Returns true when `reply` is complete; false when it waits for node_stopped() (only FENCE).
 */
bool node_serve(struct node *n, uint64_t *session, const struct control_request *req, struct control_reply *reply);

/* The client of `serial` can no longer touch the region (it exited, or stop() is done): frees its session, and its
 * chunks become dirty orphans. The caller answers whoever waits in FENCE. An unknown serial is ignored. */
void node_stopped(struct node *n, uint64_t serial);

#endif
