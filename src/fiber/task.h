/* SPDX-License-Identifier: Apache-2.0 */
/* task.h -- the inside of loops and tasks, for src/fiber and for what fabric and pool keep with a task. */
#ifndef FAR_FIBER_TASK_H
#define FAR_FIBER_TASK_H

#include <farside/fiber.h>

#include "base/rand.h"
#include "fiber/san.h"

/* A stack that runs or can be switched to. */
struct fiber_context {
	void *sp; /* of Boost.Context while switched away */
	struct far_loop *loop;
	struct fiber_san san;
};

/* State that another layer hangs on a task and that stays with it in the pool of tasks. */
struct fiber_local {
	/* The task has ended; the next one starts with the same object. */
	void (*reset)(struct fiber_local *local);
	void (*free)(struct fiber_local *local);
};

enum fiber_state {
	FIBER_RUNNABLE, /* or running */
	FIBER_PARKED,
	FIBER_ASLEEP, /* only what it waits for wakes it: time, or fiber_wake() */
	FIBER_ENDED,
};

struct fiber_block;
struct far_count;

/* Blocks of scratch memory, used in order; those behind `at` are empty and wait for reuse. */
struct fiber_scratch {
	struct fiber_block *first, *at;
	size_t used; /* bytes of `at` */
	size_t total;
};

struct far_task {
	struct fiber_context context;
	struct far_loop *loop;
	struct far_task *next; /* in the run queue or among the ended */
	void (*fn)(struct far_task *t, void *arg);
	void *arg, *conn;
	struct fiber_local *local;
	struct far_count *account; /* the fabric's: NULL at the start */
	uint64_t word; /* the pool's, 0 at the start: the operation that the task is in (epoch.c) */
	uint8_t state; /* enum fiber_state */
	bool daemon;
	bool token; /* unparked, not yet noticed by park */
	uint32_t timer; /* its place in the heap + 1, 0: no timer runs */
	uint64_t when, order;
	struct fiber_scratch scratch;
	void *map; /* stack and this object, starting with the guard */
	struct far_task *every; /* list of all tasks of the loop */
};

struct far_loop {
	struct fiber_context context; /* of the thread in far_loop_run() */
	struct far_task *current;
	struct far_task *head, **tail; /* run queue */
	/* Tasks in the queue; foreground tasks alive; tasks that still run before pollers do. First and last are not
	 * side by side: compilers would change both by one wide access, which stalls behind the narrow store of
	 * whoever made a task runnable. */
	uint32_t runnable, foreground, budget;
	uint32_t rounds;
	bool running;
	struct far_poller *pollers;
	struct far_task **heap; /* timers, the earliest first */
	uint32_t heap_n, heap_max;
	uint64_t order;
	struct far_task *ended, *every;
	uint32_t tasks_n;
	size_t stack_len;
	struct far_clock clock;
	struct far_rng rng;
};

/* timer.c: a binary heap; equal times fire in the order in which they were set. */

/* Room for one timer per task, so that starting one never fails. -FAR_ENOMEM. */
int fiber_timer_reserve(struct far_loop *l, uint32_t n);
void fiber_timer_start(struct far_loop *l, struct far_task *t, uint64_t when);
void fiber_timer_stop(struct far_loop *l, struct far_task *t);

/* When the next timer fires; UINT64_MAX: there is none. For who sleeps inside a poller. */
static inline uint64_t
fiber_due(const struct far_loop *l)
{
	return l->heap_n > 0 ? l->heap[0]->when : UINT64_MAX;
}

/* fiber.c: stops `t` until fiber_wake(); far_unpark() does not wake it, but is remembered. */
void fiber_stop(struct far_task *t);
void fiber_wake(struct far_task *t);

/* True when `t` waits in fiber_stop(). */
static inline bool
fiber_stopped(const struct far_task *t)
{
	return t->state == FIBER_ASLEEP;
}

/* scratch.c */

/* The task ended: everything is given up, blocks beyond a limit go back to the system. */
void fiber_scratch_empty(struct fiber_scratch *s);
void fiber_scratch_fini(struct fiber_scratch *s);

#endif
