/* SPDX-License-Identifier: Apache-2.0 */
/* embedded.h -- a pool of a command's own: memory nodes as child processes that end with it. */
#ifndef FAR_CLI_EMBEDDED_H
#define FAR_CLI_EMBEDDED_H

#include "fabric/shm_node.h"

struct embedded;

/*
 * Starts `nodes` (1 to 16) memory nodes of `size` bytes each. Call it before any thread exists. -FAR_E, and then
 * `why` tells more and *out is untouched.
 */
int embedded_open(unsigned nodes, uint64_t size, struct embedded **out, struct shm_why *why);

/* "shm:PATH[,PATH...]"; valid until embedded_close(). */
const char *embedded_uri(const struct embedded *e);

/* Ends the nodes and waits for that. NULL is fine. */
void embedded_close(struct embedded *e);

#endif
