/* SPDX-License-Identifier: Apache-2.0 */
/* shm_file.c -- what others do to a region's file while a node serves it. */
#include "fabric/shm_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farside/error.h>

int
shm_file_init(struct shm_file *f, const char *path, int fd, uint64_t len)
{
	char opened[64];
	struct stat st;

	*f = (struct shm_file){ .fd = fd, .notify = -1, .len = len };
	/* By its name, as later: some file systems tell another inode by descriptor. */
	if (stat(path, &st) != 0)
		return -FAR_EIO;
	if ((f->path = strdup(path)) == NULL)
		return -FAR_ENOMEM;
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	if ((f->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) < 0)
		return 0;
	/* Attributes: the number of names changes when one is removed or given to another file. */
	snprintf(opened, sizeof(opened), "/proc/self/fd/%d", fd);
	if (inotify_add_watch(f->notify, opened, IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF) < 0) {
		close(f->notify);
		f->notify = -1;
	}
	return 0;
}

void
shm_file_fini(struct shm_file *f)
{
	free(f->path);
	if (f->notify >= 0)
		close(f->notify);
	*f = (struct shm_file){ .fd = -1, .notify = -1 };
}

enum shm_file_state
shm_file_look(struct shm_file *f)
{
	char events[1024];
	struct stat st;

	while (f->notify >= 0 && read(f->notify, events, sizeof(events)) > 0)
		;
	if (fstat(f->fd, &st) != 0 || (uint64_t)st.st_size < f->len)
		return SHM_FILE_CUT;
	/* Whoever may not look any more knows nothing. */
	if (stat(f->path, &st) != 0)
		return errno == ENOENT || errno == ENOTDIR ? SHM_FILE_LOST : SHM_FILE_HERE;
	return st.st_dev == f->dev && st.st_ino == f->ino ? SHM_FILE_HERE : SHM_FILE_LOST;
}
