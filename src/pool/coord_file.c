/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coord_file.c -- leases as files of one directory.
 *
 * The directory's own lock makes each call atomic; the system drops it when its holder dies. A record is replaced
 * as a whole: written to NAME.lease.new, flushed, renamed, and the directory flushed. A kill before the rename leaves
 * the old record, one after it the new one; what is left of the .new file is overwritten by the next change.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/base.h"
#include "pool/coord.h"

#define COORD_MAGIC 0x31455341454c4146ULL /* "FALEASE1" */

struct coord_file {
	struct coord base;
	int dir;
};

/* The bytes of a record's file. */
struct coord_disk {
	uint64_t magic;
	struct coord_record record;
	uint64_t sum; /* XXH3-64 of everything above */
};
_Static_assert(sizeof(struct coord_disk) == 112, "no padding");

struct coord_path {
	char text[COORD_NAME_MAX + 16];
};

static struct coord_path
coord_path(const char *name, const char *end)
{
	struct coord_path p;
	int n = snprintf(p.text, sizeof(p.text), "%.*s.lease%s", COORD_NAME_MAX, name, end);

	FAR_ASSERT(n > 0 && (size_t)n < sizeof(p.text));
	return p;
}

static int
coord_file_load(struct coord_file *f, const char *name, struct coord_record *r)
{
	struct coord_disk d;
	ssize_t n;
	int fd;

	memset(r, 0, sizeof(*r));
	fd = openat(f->dir, coord_path(name, "").text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : -FAR_EIO;
	n = read(fd, &d, sizeof(d));
	close(fd);
	if (n < 0)
		return -FAR_EIO;
	if (n != (ssize_t)sizeof(d) || d.magic != COORD_MAGIC ||
	    d.sum != XXH3_64bits(&d, offsetof(struct coord_disk, sum)) ||
	    d.record.owner[COORD_NAME_MAX] != '\0')
		return -FAR_ECORRUPT;
	*r = d.record;
	return 0;
}

static int
coord_file_store(struct coord_file *f, const char *name, const struct coord_record *r)
{
	struct coord_path temp = coord_path(name, ".new");
	struct coord_disk d = { .magic = COORD_MAGIC, .record = *r };
	bool written;
	int fd;

	d.sum = XXH3_64bits(&d, offsetof(struct coord_disk, sum));
	fd = openat(f->dir, temp.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -FAR_EIO;
	written = write(fd, &d, sizeof(d)) == (ssize_t)sizeof(d) && fsync(fd) == 0;
	if (close(fd) != 0 || !written)
		return -FAR_EIO;
	if (renameat(f->dir, temp.text, f->dir, coord_path(name, "").text) != 0)
		return -FAR_EIO;
	return fsync(f->dir) == 0 ? 0 : -FAR_EIO;
}

static int
coord_file_end(struct coord *c, const char *name, const struct coord_record *r)
{
	struct coord_file *f = FAR_CONTAINER(c, struct coord_file, base);
	int err = r ? coord_file_store(f, name, r) : 0, saved = errno;

	flock(f->dir, LOCK_UN);
	errno = saved;
	return err;
}

static int
coord_file_begin(struct coord *c, const char *name, struct coord_record *r)
{
	struct coord_file *f = FAR_CONTAINER(c, struct coord_file, base);
	int err;

	FAR_ASSERT(f->dir >= 0);
	if (flock(f->dir, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? -FAR_EAGAIN : -FAR_EIO;
	if ((err = coord_file_load(f, name, r)) != 0)
		coord_file_end(c, name, NULL);
	return err;
}

static void
coord_file_close(struct coord *c)
{
	struct coord_file *f = FAR_CONTAINER(c, struct coord_file, base);

	close(f->dir);
	free(f);
}

static const struct coord_ops coord_file_ops = {
	.begin = coord_file_begin,
	.end = coord_file_end,
	.close = coord_file_close,
};

int
coord_file_open(const char *dir, const struct far_clock *clock, struct coord **out)
{
	struct coord_file *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -FAR_ENOMEM;
	f->base.ops = &coord_file_ops;
	f->base.clock = *clock;
	f->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dir < 0) {
		free(f);
		return errno == ENOENT ? -FAR_ENOENT : -FAR_EIO;
	}
	*out = &f->base;
	return 0;
}
