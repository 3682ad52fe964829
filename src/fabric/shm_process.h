/* SPDX-License-Identifier: Apache-2.0 */
/* shm_process.h -- clients as processes: who they are, and that they end. */
#ifndef FAR_FABRIC_SHM_PROCESS_H
#define FAR_FABRIC_SHM_PROCESS_H

#include <stdbool.h>
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

/* A file as /proc/PID/maps tells it, which on some file systems is not what stat() tells. */
struct shm_file_id {
	unsigned major, minor;
	uint64_t ino;
};

/* The file that this process has mapped at `base`. False: it cannot be told. */
bool shm_process_mapped(const void *base, struct shm_file_id *out);

/* Ends the process that a note of an earlier run is about, and waits for it. One that does not map `file` any more has
 * closed its handle and is spared; NULL: the file is not known. 1: it was killed; 0: it is spared or gone already;
 * -FAR_EACCESS. */
int shm_process_end(const uint64_t note[2], const struct shm_file_id *file, struct shm_why *why);

#endif
