/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber.h -- straight-line code over asynchronous fabrics.
 *
 * A loop belongs to one thread at a time. It runs fibers ("tasks") and polls the fabrics that are
 * registered with it; it owns the only clock and the only random source that code above may use.
 * A blocking call is the same code, run by a loop with one fiber.
 */
#ifndef FARSIDE_FIBER_H
#define FARSIDE_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported, and nothing else is */

struct far_loop;
struct far_task;

/* Where a loop takes its time from. The simulator supplies virtual time. */
struct far_clock {
	/* Nanoseconds since an arbitrary start; never goes back. */
	uint64_t (*now)(void *arg);
	/* Nothing is runnable before `until`: sleep or advance virtual time. NULL = busy-wait. */
	void (*idle)(void *arg, uint64_t until);
	void *arg;
};

/* CLOCK_MONOTONIC; idle() sleeps. */
extern const struct far_clock far_clock_real;

struct far_loop_opts {
	struct far_clock clock; /* now == NULL: far_clock_real */
	uint64_t seed;          /* of far_rand(); the same seed gives the same stream */
	size_t stack_len;       /* bytes per fiber, 0 = default (more under sanitizers) */
};

/* What a loop polls: a fabric connection. */
struct far_poller {
	/* Makes progress without blocking; returns > 0 when anything happened, 0 when not, or -FAR_E.
	 * `idle` tells that no fiber is runnable. */
	int (*poll)(struct far_poller *p, bool idle);
	/* True while operations are in flight (the loop must not sleep then). */
	bool (*busy)(struct far_poller *p);
	struct far_poller *next; /* the loop's */
};

/* Opens a loop with its pool of stacks. On error *out is untouched. -FAR_ENOMEM. */
int far_loop_open(const struct far_loop_opts *opts, struct far_loop **out);

/* Frees the loop. No foreground task may be alive; daemon tasks are dropped where they stand. NULL is fine. */
void far_loop_close(struct far_loop *l);

/* As good as a new loop, but cheap: drops every task where it stands (the stacks are kept for later ones), and starts
 * the stream of far_rand() anew with `seed`. Pollers stay. Not from inside a fiber. For the simulator. */
void far_loop_reset(struct far_loop *l, uint64_t seed);

/* `p` stays the caller's and must be removed before it is freed. */
void far_loop_add(struct far_loop *l, struct far_poller *p);
void far_loop_remove(struct far_loop *l, struct far_poller *p);

enum far_task_flags {
	FAR_TASK_DAEMON = 1, /* does not keep far_loop_run() from returning */
};

/*
 * Starts fn(task, arg) as a fiber that inherits `conn` (see far_task_conn); it runs at the next far_loop_run().
 * May be called from inside a fiber. -FAR_ENOMEM.
 */
int far_loop_spawn(struct far_loop *l, void *conn, void (*fn)(struct far_task *t, void *arg), void *arg,
		   unsigned flags);

/* Runs until no foreground task is left. Daemon tasks run along. Not reentrant. */
void far_loop_run(struct far_loop *l);

/* Runs what is runnable now, daemons included, until all wait for time or for completions; then returns. */
void far_loop_turn(struct far_loop *l);

uint64_t far_loop_now(struct far_loop *l);

/* Called by fibers only. ------------------------------------------------------------------------------- */

/* Lets the other runnable fibers go first. */
void far_yield(struct far_task *t);

/* Waits `ns` of the loop's clock. */
void far_sleep(struct far_task *t, uint64_t ns);

/* Stops until far_unpark(t). An unpark that came first is remembered: park returns at once. */
void far_park(struct far_task *t);
void far_unpark(struct far_task *t);
/* As far_park(), but no longer than until the loop's clock shows `when`. True: it was unparked. */
bool far_park_until(struct far_task *t, uint64_t when);

uint64_t far_now(struct far_task *t);
uint64_t far_rand(struct far_task *t);
struct far_loop *far_task_loop(struct far_task *t);

/* The fabric connection that far_read() and its kin use: set at spawn. */
void *far_task_conn(struct far_task *t);

/*
 * Scratch memory of the task, 16-byte aligned, uninitialised; NULL when the process is out of memory.
 * It lives until far_scratch_reset() with a mark taken earlier, or until the task ends.
 */
void *far_scratch(struct far_task *t, size_t len);
struct far_scratch_mark {
	void *block;
	size_t used;
};
struct far_scratch_mark far_scratch_mark(struct far_task *t);
void far_scratch_reset(struct far_task *t, struct far_scratch_mark m);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
