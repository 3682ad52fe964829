/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber.c -- loops and tasks on Boost.Context.
 *
 * Round. far_loop_run() and far_loop_turn() repeat: the tasks that were runnable at the round's start run once each,
 * switching from one directly to the next; then every poller makes progress; then timers fire. The clock is read
 * only when timers exist, and then in every 32nd round or when no task is runnable.
 *
 * Switch. Whoever switches hands over its own struct fiber_context; whoever arrives stores in it where the other
 * one can be resumed. So any context can switch to any other.
 *
 * Pool. An ended task keeps its stack, scratch and fabric state, and waits inside fiber_main() for its next
 * function. The task object lies at the top of its stack's mapping, on the page that the stack touches first;
 * stacks start at different offsets in their pages, so that they do not share cache sets.
 *
 * Threads may take turns with a loop (under a lock of theirs), hence nothing here is thread-local.
 */
#include <sys/mman.h>

#include <farside/error.h>

#include "base/base.h"
#include "fiber/task.h"

enum {
	FIBER_PAGE = 4096,
	FIBER_GUARD = 64 << 10, /* bytes below a stack that nobody may touch */
	FIBER_STACK = FIBER_ASAN || FIBER_TSAN ? 512 << 10 : 128 << 10, /* default, bytes */
	FIBER_STACK_MIN = 16 << 10,
	FIBER_COLORS = 16,
	FIBER_COLOR = 256, /* bytes between the tops of two stacks of different colors */
	FIBER_ROUND = 64,  /* tasks that run at most before pollers do */
	FIBER_CLOCK_ROUNDS = 32,
};

/* Boost.Context's C entry points. */
struct fiber_transfer {
	void *sp;
	void *data;
};
struct fiber_transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *top, size_t len, void (*fn)(struct fiber_transfer));

/* Switching ------------------------------------------------------------------------------------------------ */

static inline void
fiber_arrive(struct fiber_context *at, struct fiber_transfer from)
{
	struct fiber_context *other = from.data;

	other->sp = from.sp;
	fiber_san_arrive(&at->san, &other->san);
}

static inline void
fiber_switch(struct fiber_context *from, struct fiber_context *to)
{
	fiber_san_leave(&from->san, &to->san);
	fiber_arrive(from, jump_fcontext(to->sp, from));
}

static inline void
fiber_push(struct far_loop *l, struct far_task *t)
{
	t->state = FIBER_RUNNABLE;
	t->next = NULL;
	*l->tail = t;
	l->tail = &t->next;
	l->runnable++;
}

/* The next task of this round, or NULL. */
static inline struct far_task *
fiber_next(struct far_loop *l)
{
	struct far_task *t = l->head;

	if (l->budget == 0 || !t)
		return NULL;
	l->budget--;
	l->runnable--;
	l->head = t->next;
	if (!t->next)
		l->tail = &l->head;
	return t;
}

/* Switches from the running task to the next one, or to the loop when the round is over. */
static inline void
fiber_leave(struct far_task *t)
{
	struct far_loop *l = t->loop;
	struct far_task *next = fiber_next(l);

	l->current = next;
	if (next != t)
		fiber_switch(&t->context, next ? &next->context : &l->context);
}

/* Tasks ---------------------------------------------------------------------------------------------------- */

static void
fiber_end(struct far_task *t)
{
	struct far_loop *l = t->loop;

	if (t->local)
		t->local->reset(t->local);
	fiber_scratch_empty(&t->scratch);
	t->state = FIBER_ENDED;
	t->next = l->ended;
	l->ended = t;
	/* far_loop_run() returns at once when nobody is left for whom it runs. */
	l->foreground -= !t->daemon;
	if (l->foreground == 0)
		l->budget = 0;
}

static void
fiber_main(struct fiber_transfer from)
{
	struct far_task *t = ((struct fiber_context *)from.data)->loop->current;

	fiber_arrive(&t->context, from);
	for (;;) {
		t->fn(t, t->arg);
		fiber_end(t);
		fiber_leave(t);
	}
}

/* A task that has not begun, or begins anew, on the stack below it. */
static void
fiber_prepare(struct far_task *t)
{
	char *bottom = (char *)t->map + FIBER_GUARD;
	size_t len = (size_t)((char *)t - bottom);

	t->context.sp = make_fcontext(t, len, fiber_main);
	fiber_san_init(&t->context.san, bottom, len);
}

/* Maps a stack with a guard at its low end and makes a task at its high end. */
static int
fiber_new(struct far_loop *l, struct far_task **out)
{
	size_t color = l->tasks_n % FIBER_COLORS * FIBER_COLOR;
	struct far_task *t;
	char *map;

	if (fiber_timer_reserve(l, l->tasks_n + 1) != 0)
		return -FAR_ENOMEM;
	map = mmap(NULL, l->stack_len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return -FAR_ENOMEM;
	if (mprotect(map, FIBER_GUARD, PROT_NONE) != 0) {
		munmap(map, l->stack_len);
		return -FAR_ENOMEM;
	}
	t = (struct far_task *)(map + ((l->stack_len - color - sizeof(*t)) & ~(size_t)63));
	t->map = map;
	t->loop = t->context.loop = l;
	fiber_prepare(t);
	t->every = l->every;
	l->every = t;
	l->tasks_n++;
	*out = t;
	return 0;
}

static void
fiber_free(struct far_loop *l, struct far_task *t)
{
	if (t->local)
		t->local->free(t->local);
	fiber_scratch_fini(&t->scratch);
	fiber_san_fini(&t->context.san);
	munmap(t->map, l->stack_len);
}

int
far_loop_spawn(struct far_loop *l, void *conn, void (*fn)(struct far_task *t, void *arg), void *arg,
	       unsigned flags)
{
	struct far_task *t = l->ended;
	int err;

	if (t)
		l->ended = t->next;
	else if ((err = fiber_new(l, &t)) != 0)
		return err;
	t->fn = fn;
	t->arg = arg;
	t->conn = conn;
	t->account = NULL;
	t->word = 0;
	t->token = false;
	t->daemon = (flags & FAR_TASK_DAEMON) != 0;
	l->foreground += !t->daemon;
	fiber_push(l, t);
	return 0;
}

/* Loops ---------------------------------------------------------------------------------------------------- */

int
far_loop_open(const struct far_loop_opts *opts, struct far_loop **out)
{
	size_t stack_len = opts && opts->stack_len ? opts->stack_len : FIBER_STACK;
	struct far_loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -FAR_ENOMEM;
	stack_len = far_max(stack_len, FIBER_STACK_MIN);
	l->stack_len = far_align(stack_len, FIBER_PAGE) + FIBER_GUARD;
	l->clock = opts && opts->clock.now ? opts->clock : far_clock_real;
	far_rng_seed(&l->rng, opts ? opts->seed : 0);
	l->tail = &l->head;
	l->context.loop = l;
	*out = l;
	return 0;
}

void
far_loop_close(struct far_loop *l)
{
	if (!l)
		return;
	FAR_ASSERT(l->foreground == 0 && !l->running);
	while (l->every) {
		struct far_task *t = l->every;

		l->every = t->every;
		fiber_free(l, t);
	}
	free(l->heap);
	free(l);
}

/* Drops a task wherever it stands, ready to begin anew. */
static void
fiber_drop(struct far_loop *l, struct far_task *t)
{
	if (t->state != FIBER_ENDED) {
		if (t->local)
			t->local->reset(t->local);
		fiber_scratch_empty(&t->scratch);
		fiber_san_fini(&t->context.san);
		fiber_prepare(t);
		t->timer = 0;
		t->state = FIBER_ENDED;
	}
	t->next = l->ended;
	l->ended = t;
}

void
far_loop_reset(struct far_loop *l, uint64_t seed)
{
	FAR_ASSERT(!l->running);
	l->ended = NULL;
	for (struct far_task *t = l->every; t; t = t->every)
		fiber_drop(l, t);
	l->head = NULL;
	l->tail = &l->head;
	l->runnable = l->foreground = l->rounds = l->heap_n = 0;
	l->order = 0;
	far_rng_seed(&l->rng, seed);
}

void
far_loop_add(struct far_loop *l, struct far_poller *p)
{
	struct far_poller **at = &l->pollers;

	while (*at)
		at = &(*at)->next;
	p->next = NULL;
	*at = p;
}

void
far_loop_remove(struct far_loop *l, struct far_poller *p)
{
	struct far_poller **at = &l->pollers;

	while (*at && *at != p)
		at = &(*at)->next;
	FAR_ASSERT(*at);
	*at = p->next;
}

/* Runs every task that is runnable now once. */
static void
fiber_run_round(struct far_loop *l)
{
	struct far_task *t;

	l->budget = (uint32_t)far_min(l->runnable, FIBER_ROUND);
	t = fiber_next(l);
	if (!t)
		return;
	l->current = t;
	fiber_switch(&l->context, &t->context);
	FAR_ASSERT(!l->current);
}

/* Wakes the tasks whose time has come. */
static void
fiber_fire(struct far_loop *l)
{
	uint64_t now;

	if (l->heap_n == 0)
		return;
	now = l->clock.now(l->clock.arg);
	while (l->heap_n > 0 && l->heap[0]->when <= now) {
		struct far_task *t = l->heap[0];

		fiber_timer_stop(l, t);
		fiber_push(l, t);
	}
}

/* One round without timers; false when nothing happened and nothing is runnable. */
static bool
fiber_round(struct far_loop *l)
{
	bool moved = l->head != NULL;
	struct far_poller *p, *next;

	fiber_run_round(l);
	for (p = l->pollers; p; p = next) {
		next = p->next;
		moved |= p->poll(p, !l->head) > 0;
	}
	return moved || l->head;
}

static bool
fiber_busy(struct far_loop *l)
{
	for (struct far_poller *p = l->pollers; p; p = p->next) {
		if (p->busy(p))
			return true;
	}
	return false;
}

static void
fiber_begin(struct far_loop *l)
{
	FAR_ASSERT(!l->running);
	l->running = true;
	fiber_san_thread(&l->context.san);
}

void
far_loop_run(struct far_loop *l)
{
	fiber_begin(l);
	while (l->foreground > 0) {
		bool moved = fiber_round(l);

		if (!moved || ++l->rounds % FIBER_CLOCK_ROUNDS == 0)
			fiber_fire(l);
		if (!moved && !l->head && !fiber_busy(l) && l->clock.idle)
			l->clock.idle(l->clock.arg, fiber_due(l));
	}
	l->running = false;
}

void
far_loop_turn(struct far_loop *l)
{
	fiber_begin(l);
	/* Once: a task that sleeps for less than a round takes would keep the turn from ending. */
	fiber_fire(l);
	while (fiber_round(l))
		;
	l->running = false;
}

uint64_t
far_loop_now(struct far_loop *l)
{
	return l->clock.now(l->clock.arg);
}

/* What tasks call ------------------------------------------------------------------------------------------ */

void
far_yield(struct far_task *t)
{
	fiber_push(t->loop, t);
	fiber_leave(t);
}

void
far_sleep(struct far_task *t, uint64_t ns)
{
	uint64_t now = far_now(t);

	fiber_timer_start(t->loop, t, now + far_min(ns, UINT64_MAX - 1 - now));
	t->state = FIBER_ASLEEP;
	fiber_leave(t);
}

void
far_park(struct far_task *t)
{
	if (!t->token) {
		t->state = FIBER_PARKED;
		fiber_leave(t);
	}
	t->token = false;
}

bool
far_park_until(struct far_task *t, uint64_t when)
{
	bool token;

	if (!t->token) {
		fiber_timer_start(t->loop, t, when);
		t->state = FIBER_PARKED;
		fiber_leave(t);
	}
	token = t->token;
	t->token = false;
	return token;
}

void
far_unpark(struct far_task *t)
{
	t->token = true;
	if (t->state != FIBER_PARKED)
		return;
	fiber_timer_stop(t->loop, t);
	fiber_push(t->loop, t);
}

void
fiber_stop(struct far_task *t)
{
	t->state = FIBER_ASLEEP;
	fiber_leave(t);
}

void
fiber_wake(struct far_task *t)
{
	FAR_ASSERT(t->state == FIBER_ASLEEP && t->timer == 0);
	fiber_push(t->loop, t);
}

uint64_t
far_now(struct far_task *t)
{
	return far_loop_now(t->loop);
}

uint64_t
far_rand(struct far_task *t)
{
	return far_rng_next(&t->loop->rng);
}

struct far_loop *
far_task_loop(struct far_task *t)
{
	return t->loop;
}

void *
far_task_conn(struct far_task *t)
{
	return t->conn;
}
