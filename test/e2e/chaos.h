/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos.h -- what the processes of a chaos run share.
 *
 * The driver (chaos.c) starts memory nodes and clients (chaos_client.c), kills and stops them, and judges the
 * history that the clients recorded. A value tells which operation wrote it. A key has a bounded number of
 * operations, because the checker bears only so many: when a hot key has had them, a new one takes its place.
 */
#ifndef FAR_E2E_CHAOS_H
#define FAR_E2E_CHAOS_H

#include <stdbool.h>
#include <stdint.h>

#include <farside/fiber.h>

#include "lab/recorder.h"

enum {
	CHAOS_SEATS = 4,      /* client processes at a time */
	CHAOS_HOT = 6,        /* keys that all work on */
	CHAOS_KEYS = 1 << 18,
	CHAOS_KEY_OPS = 96,
	CHAOS_BATCH = 12,
	CHAOS_LANES = 4096,
	CHAOS_LANE = 8192,    /* records */
	CHAOS_VALUE_MAX = 16 << 10,
};

enum chaos_mode {
	CHAOS_TRICKLE, /* an operation now and then */
	CHAOS_BURST,   /* one after the other */
	CHAOS_END,     /* close and exit */
};

/* One client process at a time sits here. */
struct chaos_seat {
	uint32_t open;       /* it has a session */
	uint32_t excused;    /* it was stopped: how long its operations take is not its fault */
	uint64_t slowest_ns; /* operation of all lives that were not excused */
	uint32_t comebacks;  /* sessions opened after the first of a life */
	uint32_t moves, batches, gave_up;
	char why[256];       /* it exits with an error, because */
};

/* In shared memory; words of which several processes write are only touched by atomics. */
struct chaos_shared {
	uint32_t mode;
	uint32_t next_key;
	uint64_t ops; /* that have returned */
	uint32_t hot[CHAOS_HOT];
	uint32_t used[CHAOS_KEYS]; /* operations so far, those that did not take place too */
	struct chaos_seat seats[CHAOS_SEATS];
};

struct chaos_client_opts {
	const char *uri;
	uint64_t lease_ns, seed;
	struct chaos_shared *shared;
	struct recorder *recorder;
	unsigned seat;
};

/* The table's name. */
#define CHAOS_TABLE "chaos"

/* Works until it is told to end: 0, or 3 and the seat's `why`. For a process of its own. */
int chaos_client_run(const struct chaos_client_opts *opts);

/* Looks at every key once, by an iteration and one by one, and records it. 0, or 3 and the seat's `why`. */
int chaos_client_verify(const struct chaos_client_opts *opts);

static inline uint64_t
chaos_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

#endif
