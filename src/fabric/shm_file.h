/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_file.h -- what others do to a region's file while a node serves it.
 *
 * The node holds the file open, so its bytes stay whatever happens to its name; but when the name is gone, or leads to
 * another file, nobody finds them any more once the node has ended. Stores through a mapping are no event: watching
 * costs nothing.
 */
#ifndef FAR_FABRIC_SHM_FILE_H
#define FAR_FABRIC_SHM_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum shm_file_state {
	SHM_FILE_HERE, /* all of it, under its name */
	SHM_FILE_LOST, /* its name is gone, or leads to another file */
	SHM_FILE_CUT,  /* it does not hold the region any more: an access behind its end is a bus error */
};

struct shm_file {
	char *path; /* NULL: not watched */
	int fd;     /* the caller's, open on the file */
	int notify; /* readable when there may be news; -1: nobody tells, but shm_file_look() does */
	uint64_t len;
	dev_t dev;
	ino_t ino;
};

/* Begins to watch the file at `path`, which is open as `fd` and has `len` bytes at least. -FAR_ENOMEM, -FAR_EIO. */
int shm_file_init(struct shm_file *f, const char *path, int fd, uint64_t len);

/* Ends that. Also for one that is all zero but for notify == -1. */
void shm_file_fini(struct shm_file *f);

/* How the file is now. Takes the news from `notify`. */
enum shm_file_state shm_file_look(struct shm_file *f);

#endif
