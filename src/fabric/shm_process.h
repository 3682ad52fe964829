/* SPDX-License-Identifier: Apache-2.0 */
/* shm_process.h -- clients as processes: who they are, and that they end. */
#ifndef FAR_FABRIC_SHM_PROCESS_H
#define FAR_FABRIC_SHM_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

#include "fabric/shm_node.h"

struct shm_process {
	pid_t pid;
	int pidfd;        /* readable once the process has ended */
	uint64_t note[2]; /* what tells it from a later process of the same id, also after a reboot */
};

/* The process at the other end of a connection. -FAR_ENOTSUP: it cannot be watched from here. */
int shm_process_peer(int sock, struct shm_process *out);

/* Kills the process. -FAR_EAGAIN: it is ending, wait for pidfd; -FAR_EACCESS: not permitted. */
int shm_process_kill(const struct shm_process *p);

/* Ends the process that a note of an earlier run is about, and waits for it. 0 also when it is gone already;
 * -FAR_EACCESS. */
int shm_process_end(const uint64_t note[2], struct shm_why *why);

#endif
