/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_map.h -- mappings of a region that huge pages fit into.
 *
 * Tables are met at random places, so most of what a READ takes on small pages is the walk to its page table. The
 * kernel's default gives shared memory no huge pages, but makes them for those who ask: the node does, for what it
 * hands out; clients need nothing but a mapping that starts where a huge page may.
 */
#ifndef FAR_FABRIC_SHM_MAP_H
#define FAR_FABRIC_SHM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maps `len` bytes of `fd` for reading and writing, aligned to huge pages. NULL with errno set. munmap() it. */
void *shm_map(int fd, uint64_t len);

/* Puts the huge pages that lie in [off, off + len), or partly there, behind a mapping of shm_map(); clients may use
 * the memory meanwhile. False: this memory or kernel has none, there is no need to ask again. */
bool shm_map_collapse(void *base, uint64_t map_len, uint64_t off, uint64_t len);

#endif
