/* SPDX-License-Identifier: Apache-2.0 */
/* shm.h -- the client side of memory nodes on this machine. */
#ifndef FAR_FABRIC_SHM_H
#define FAR_FABRIC_SHM_H

#include "fabric/backend.h"
#include "fabric/words.h"

extern const struct far_fabric_ops shm_fabric_ops;

/* A memory node inside this process, for tests: its memory and who answers calls. */
struct shm_memory {
	void *base; /* 8-byte aligned; stays the caller's and outlives the fabric */
	uint64_t len;
	/*
	 * Serves one request of this connection at once. Returns the reply's length (written only up to `max` bytes),
	 * -FAR_EAGAIN to be asked again later, or -FAR_E, which the caller of far_call() gets. NULL: -FAR_ENOTSUP.
	 */
	int (*call)(void *arg, const void *req, size_t len, void *reply, size_t max);
	void *arg;
};

/* Connects to `n` nodes of this process, 1 to FAR_NODES_MAX. -FAR_EINVAL, -FAR_ENOMEM. */
int shm_connect_memory(const struct shm_memory *nodes, unsigned n, struct far_loop *l,
		       const struct far_fabric_opts *opts, struct far_fabric **out);

/* What only the backend's own files use. ------------------------------------------------------------------- */

enum { SHM_CALLS = 64 }; /* calls in flight at most to one node */

/* The connection to one node. */
struct shm_link {
	struct words words;
	int sock;   /* -1: a node inside this process */
	bool dead;  /* hung up: nothing happens there any more */
	struct shm_memory memory;
	uint64_t seq;
	unsigned calls_n;
	struct far_chain *calls[SHM_CALLS]; /* by the low bits of their numbers */
	uint64_t calls_seq[SHM_CALLS], calls_start[SHM_CALLS];
};

/* shm_link.c. Connects to the node at `path`; blocks for `timeout_ns` at most. On error nothing is left open. */
int shm_link_open(struct shm_link *k, const char *path, size_t path_len, uint64_t timeout_ns);
void shm_link_close(struct shm_link *k);

/* Sends a CALL at the time `now`; once sent, the chain comes back in *done. -FAR_EAGAIN: no room now. A dead node: 0,
 * and the chain is in *done with its error. */
int shm_link_call(struct shm_link *k, struct far_chain *c, uint64_t now, struct far_chain_list *done);

/* Gives a node up that has not answered a call sent before `since`, as if it had ended. */
void shm_link_expire(struct shm_link *k, uint64_t since, struct far_chain_list *done);

/* Takes the replies that have arrived, and notices the node's end: its calls in flight move to *done. */
void shm_link_receive(struct shm_link *k, struct far_chain_list *done);

#endif
