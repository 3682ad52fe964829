/* SPDX-License-Identifier: Apache-2.0 */
/* shm_region.h -- the memory of a shm node: a sealed memfd or a named file. */
#ifndef FAR_FABRIC_SHM_REGION_H
#define FAR_FABRIC_SHM_REGION_H

#include "fabric/shm_node.h"

struct node_env;

struct shm_region {
	void *base;
	uint64_t len;
	bool huge;   /* it may be worth asking for huge pages */
	int fd;      /* what clients receive */
	int lock_fd; /* holds the lock on a named file: not shared with clients, so it ends with the node; or -1 */
};

/* Makes and formats a region in memory. On error *out is untouched and `why` tells more. Codes as shm_node_open(). */
int shm_region_make(uint64_t size, const struct node_env *env, struct shm_region *out, struct shm_why *why);

/* Opens the region in `file`, or makes and formats it. A crash on the way leaves no file of that name.
 * Errors as above. */
int shm_region_open(const char *file, uint64_t size, const struct node_env *env, struct shm_region *out,
		    struct shm_why *why);

/* Unmaps it and closes what holds it; a file stays. A closed region may be closed again. */
void shm_region_close(struct shm_region *r);

/* Notes the reason and returns `err`. */
int shm_why(struct shm_why *why, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
