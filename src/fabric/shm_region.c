/* SPDX-License-Identifier: Apache-2.0 */
/* shm_region.c -- makes, opens and checks the memory of a shm node. */
#include "fabric/shm_region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm_map.h"
#include "pool/node.h"

int
shm_why(struct shm_why *why, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return err;
}

static uint64_t
shm_region_round(uint64_t size)
{
	return far_align(size, size < 2 * (uint64_t)POOL_SUPERPAGE ? 4096 : POOL_SUPERPAGE);
}

void
shm_region_close(struct shm_region *r)
{
	if (r->base)
		munmap(r->base, r->len);
	if (r->fd >= 0)
		close(r->fd);
	if (r->lock_fd >= 0)
		close(r->lock_fd);
	*r = (struct shm_region){ .fd = -1, .lock_fd = -1 };
}

static bool
shm_region_map(struct shm_region *r)
{
	r->base = shm_map(r->fd, r->len);
	r->huge = r->base != NULL;
	return r->huge;
}

/* A memfd with huge pages of its own (`huge`) or without, mapped; false: not to be had. */
static bool
shm_region_memfd(struct shm_region *r, unsigned huge)
{
	r->fd = memfd_create("farside", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge);
	if (r->fd < 0)
		return false;
	if (ftruncate(r->fd, (off_t)r->len) == 0 && shm_region_map(r) &&
	    fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return true;
	if (r->base)
		munmap(r->base, r->len);
	r->base = NULL;
	close(r->fd);
	r->fd = -1;
	return false;
}

static int
shm_region_format(struct shm_region *r, const struct node_env *env, struct shm_why *why)
{
	if (node_format(r->base, r->len, env) == 0)
		return 0;
	return shm_why(why, -FAR_EINVAL,
		       "%llu bytes are too few or too many for a region (at least 320k)",
		       (unsigned long long)r->len);
}

int
shm_region_make(uint64_t size, const struct node_env *env, struct shm_region *out,
		struct shm_why *why)
{
	struct shm_region r = { .fd = -1, .lock_fd = -1, .len = shm_region_round(size) };
	int err;

	if (r.len % POOL_SUPERPAGE != 0 || !shm_region_memfd(&r, MFD_HUGETLB)) {
		if (!shm_region_memfd(&r, 0))
			return shm_why(why, -FAR_ENOMEM, "cannot make a region of %llu bytes: %s",
				       (unsigned long long)r.len, strerror(errno));
	}
	if ((err = shm_region_format(&r, env, why)) != 0) {
		shm_region_close(&r);
		return err;
	}
	*out = r;
	return 0;
}

/* Locks a file that may be shared with nobody. */
static int
shm_region_lock(int fd, const char *file, struct shm_why *why)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return shm_why(why, -FAR_EEXIST, "%s: another memory node serves this file", file);
	return shm_why(why, -FAR_EIO, "%s: cannot lock: %s", file, strerror(errno));
}

/* Fills the new file and gives it its name. r->lock_fd is open on `temp` and locked. */
static int
shm_region_fill(struct shm_region *r, const char *temp, const char *file,
		const struct node_env *env, struct shm_why *why)
{
	int err;

	/* What an earlier attempt left is not zero. */
	if (ftruncate(r->lock_fd, 0) != 0 ||
	    (errno = posix_fallocate(r->lock_fd, 0, (off_t)r->len)) != 0)
		return shm_why(why, errno == ENOSPC ? -FAR_ENOMEM : -FAR_EIO,
			       "%s: cannot take %llu bytes: %s", file, (unsigned long long)r->len,
			       strerror(errno));
	if ((r->fd = open(temp, O_RDWR | O_CLOEXEC | O_NOFOLLOW)) < 0 || !shm_region_map(r))
		return shm_why(why, -FAR_EIO, "%s: %s", file, strerror(errno));
	if ((err = shm_region_format(r, env, why)) != 0)
		return err;
	/* Only a whole region gets the name. */
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, file, RENAME_NOREPLACE) != 0 &&
	    (errno != EINVAL || rename(temp, file) != 0))
		return shm_why(why, -FAR_EIO, "%s: %s", file, strerror(errno));
	return 0;
}

static int
shm_region_create(const char *file, struct shm_region *r, const struct node_env *env,
		  struct shm_why *why)
{
	struct stat mine, named;
	char temp[4096];
	int err;

	if (snprintf(temp, sizeof(temp), "%s.new", file) >= (int)sizeof(temp))
		return shm_why(why, -FAR_EINVAL, "%s: name too long", file);
	r->lock_fd = open(temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r->lock_fd < 0)
		return shm_why(why, -FAR_EIO, "%s: %s", file, strerror(errno));
	if ((err = shm_region_lock(r->lock_fd, file, why)) != 0)
		return err;
	/* Whoever had the lock before may have finished and renamed it. */
	if (fstat(r->lock_fd, &mine) != 0 || stat(temp, &named) != 0 || mine.st_ino != named.st_ino)
		return shm_why(why, -FAR_EEXIST, "%s: another memory node has just made this file",
			       file);
	if ((err = shm_region_fill(r, temp, file, env, why)) != 0)
		unlink(temp);
	return err;
}

/* Refuses files that others could change, or that were cut. r->fd and r->lock_fd are open. */
static int
shm_region_examine(const char *file, struct shm_region *r, struct shm_why *why)
{
	struct pool_super s;
	struct stat st;

	if (fstat(r->lock_fd, &st) != 0)
		return shm_why(why, -FAR_EIO, "%s: %s", file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return shm_why(why, -FAR_EINVAL, "%s: not a regular file", file);
	if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return shm_why(why, -FAR_EACCESS,
			       "%s: must belong to this user alone (mode 0600, not %04o)", file,
			       (unsigned)st.st_mode & 07777);
	if (pread(r->fd, &s, sizeof(s), 0) != (ssize_t)sizeof(s) || s.magic != POOL_MAGIC ||
	    s.endian != POOL_ENDIAN)
		return shm_why(why, -FAR_EFORMAT, "%s: holds no Farside region", file);
	if (s.format != POOL_FORMAT)
		return shm_why(why, -FAR_EFORMAT, "%s: format version %u; this program knows %u",
			       file, s.format, POOL_FORMAT);
	if ((uint64_t)st.st_size != s.region_len)
		return shm_why(why, -FAR_ECORRUPT, "%s: %s: %llu bytes, made with %llu", file,
			       (uint64_t)st.st_size < s.region_len ? "truncated"
								   : "longer than its region",
			       (unsigned long long)st.st_size, (unsigned long long)s.region_len);
	if (r->len != 0 && r->len != s.region_len)
		return shm_why(why, -FAR_EINVAL, "%s: has %llu bytes, not the %llu asked for", file,
			       (unsigned long long)s.region_len, (unsigned long long)r->len);
	r->len = s.region_len;
	return 0;
}

static int
shm_region_reopen(const char *file, struct shm_region *r, struct shm_why *why)
{
	int err;

	if ((err = shm_region_lock(r->lock_fd, file, why)) != 0)
		return err;
	/* A description of its own, as a lock lives as long as its description, and clients get this one. */
	if ((r->fd = open(file, O_RDWR | O_CLOEXEC)) < 0)
		return shm_why(why, -FAR_EIO, "%s: %s", file, strerror(errno));
	if ((err = shm_region_examine(file, r, why)) != 0)
		return err;
	return shm_region_map(r)
		       ? 0
		       : shm_why(why, -FAR_ENOMEM, "%s: cannot map: %s", file, strerror(errno));
}

int
shm_region_open(const char *file, uint64_t size, const struct node_env *env, struct shm_region *out,
		struct shm_why *why)
{
	struct shm_region r = { .fd = -1, .lock_fd = -1, .len = shm_region_round(size) };
	int err;

	r.lock_fd = open(file, O_RDWR | O_CLOEXEC);
	if (r.lock_fd >= 0)
		err = shm_region_reopen(file, &r, why);
	else if (errno != ENOENT)
		err = shm_why(why, errno == EACCES ? -FAR_EACCESS : -FAR_EIO, "%s: %s", file,
			      strerror(errno));
	else if (size == 0)
		err = shm_why(why, -FAR_EINVAL, "%s: a new file needs a size", file);
	else
		err = shm_region_create(file, &r, env, why);
	if (err) {
		shm_region_close(&r);
		return err;
	}
	*out = r;
	return 0;
}
