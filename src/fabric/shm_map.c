/* SPDX-License-Identifier: Apache-2.0 */
/* shm_map.c -- alignment, and MADV_COLLAPSE (Linux 6.1). */
#include "fabric/shm_map.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/base.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { SHM_MAP_HUGE = 2 << 20 };

void *
shm_map(int fd, uint64_t len)
{
	uint64_t room = len + SHM_MAP_HUGE;
	char *all = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *base, *end;

	if (all == MAP_FAILED)
		return NULL;
	base = (char *)far_align((uintptr_t)all, SHM_MAP_HUGE);
	if (mmap(base, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		int err = errno;

		munmap(all, room);
		errno = err;
		return NULL;
	}
	/* What is left of the room before and behind it. */
	if (base > all)
		munmap(all, (size_t)(base - all));
	end = base + far_align(len, 4096);
	if (all + room > end)
		munmap(end, (size_t)(all + room - end));
	/* A hint, where the kernel gives huge pages to those who hint. */
	madvise(base, len, MADV_HUGEPAGE);
	return base;
}

bool
shm_map_collapse(void *base, uint64_t map_len, uint64_t off, uint64_t len)
{
	uint64_t at = off / SHM_MAP_HUGE * SHM_MAP_HUGE;

	for (; at < off + len && at + SHM_MAP_HUGE <= map_len; at += SHM_MAP_HUGE) {
		char *p = (char *)base + at;

		/* The kernel refuses to collapse what holds nothing yet. */
		(void)__atomic_load_n((uint64_t *)p, __ATOMIC_RELAXED);
		if (madvise(p, SHM_MAP_HUGE, MADV_COLLAPSE) != 0 && errno == EINVAL)
			return false;
	}
	return true;
}
