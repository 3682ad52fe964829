/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_conform.h -- one suite for all backends: the guarantees G1-G6 of <farside/fabric.h>.
 *
 * A backend's test program fills in a struct and calls fabric_conform(). The suite makes a world of memory nodes,
 * connects clients, each a fiber, and lets them work against each other: every client on a loop and a thread of its
 * own, or all on one loop.
 */
#ifndef FAR_TEST_FABRIC_CONFORM_H
#define FAR_TEST_FABRIC_CONFORM_H

#include <stdbool.h>

#include <farside/error.h>
#include <farside/fabric.h>

struct conform_backend {
	/* A world of `nodes` memory nodes. NULL: not possible here, the case is skipped. */
	void *(*open)(unsigned nodes);
	void (*close)(void *world);
	/* Connects one client more. */
	int (*connect)(void *world, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out);
	/* The clock of loops; NULL: the real one. */
	struct far_clock (*clock)(void *world);
	/* Lets a node die; NULL: the backend's nodes are part of the test program. */
	void (*kill)(void *world, unsigned node);

	bool threads;        /* clients run in threads of their own */
	double faults;       /* fraction of chains that the fault hook lets fail after a random part of them */
	unsigned rounds;     /* how often the concurrent cases repeat what they do */
	uint64_t free_off;   /* CONFORM_MEMORY bytes of every node from here on are zero and nobody else's */
};

enum {
	CONFORM_MEMORY = 1 << 20,
	CONFORM_CLIENTS = 4, /* at most */
};

/* Runs all cases as test_run() does; returns the exit code. */
int fabric_conform(const struct conform_backend *b, int argc, char **argv);

#endif
