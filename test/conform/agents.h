/* SPDX-License-Identifier: Apache-2.0 */
/* agents.h -- memory nodes behind TCP as threads of a test: their bytes are there to look at and to damage. */
#ifndef FAR_CONFORM_AGENTS_H
#define FAR_CONFORM_AGENTS_H

#include <stdint.h>

struct agents;

struct agents_opts {
	unsigned nodes_n;
	uint64_t region_len;
	uint64_t weakness; /* as in struct shm_node_opts */
	const char *key;   /* path of a key file, NULL: none */
};

/* Starts them. Aborts on error. */
struct agents *agents_open(const struct agents_opts *opts);
void agents_close(struct agents *a);

/* "tcp://127.0.0.1:PORT[,...]", with the key if there is one. */
const char *agents_uri(const struct agents *a);
/* The port of one of them. */
unsigned agents_port(const struct agents *a, unsigned node);
char *agents_region(const struct agents *a, unsigned node);

#endif
