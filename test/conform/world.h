/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h -- memory nodes and clients inside one test process, on any backend that can live there.
 */
#ifndef FAR_CONFORM_WORLD_H
#define FAR_CONFORM_WORLD_H

#include <farside/fabric.h>

struct world;

/* "shm": regions of this process behind the shm backend; "tcp": nodes in threads of this process; "sim": the simulator
 * with that seed. Aborts on error. */
struct world *world_open(const char *backend, unsigned nodes_n, uint64_t region_len, uint64_t seed);
/* Every client has ended. */
void world_close(struct world *w);

struct far_loop *world_loop(struct world *w);

/* A new client's connection; world_close() closes it. */
struct far_fabric *world_connect(struct world *w);

/* The bytes of a node, to look at and to damage. */
char *world_region(struct world *w, unsigned node);

/* The simulator only: the node's power fails. */
void world_node_down(struct world *w, unsigned node);

/* Runs `body` as a fiber of a new client until it and all that it spawned end. */
void world_run(struct world *w, void (*body)(struct far_task *t, void *arg), void *arg);

#endif
