/* SPDX-License-Identifier: Apache-2.0 */
/* shm_listener.h -- a memory node's clients on the same machine. */
#ifndef FAR_FABRIC_SHM_LISTENER_H
#define FAR_FABRIC_SHM_LISTENER_H

#include "fabric/event.h"
#include "fabric/shm_region.h"

struct endpoint;
struct shm_listener;

struct shm_listener_opts {
	struct event_loop *loop;
	struct endpoint *endpoint;
	const struct shm_region *region; /* these three outlive the listener */
	const char *path; /* of the socket */
	FILE *log;        /* as in struct shm_node_opts */
};

/* -FAR_EINVAL: no socket can have that path. */
int shm_listener_check(const char *path, struct shm_why *why);

/* Listens, and serves whoever connects in `loop`. On error *out is untouched and `why` tells more: -FAR_EINVAL,
 * -FAR_EEXIST, -FAR_EIO, -FAR_ENOMEM. */
int shm_listener_open(const struct shm_listener_opts *opts, struct shm_listener **out, struct shm_why *why);

/* Removes the socket and all connections; clients that still run keep their mapping. NULL is fine. */
void shm_listener_close(struct shm_listener *n);

/* Says so in the log (NULL: nobody is told). */
void shm_say_killed(FILE *log, pid_t pid, const char *why);

#endif
