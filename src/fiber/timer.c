/* SPDX-License-Identifier: Apache-2.0 */
/* timer.c -- when tasks wake up: a binary heap of tasks, ordered by time and then by who came first. */
#include <farside/error.h>

#include "base/base.h"
#include "fiber/task.h"

int
fiber_timer_reserve(struct far_loop *l, uint32_t n)
{
	uint32_t max = l->heap_max ? l->heap_max : 16;
	struct far_task **heap;

	if (n <= l->heap_max)
		return 0;
	while (max < n)
		max *= 2;
	heap = realloc(l->heap, max * sizeof(*heap));
	if (!heap)
		return -FAR_ENOMEM;
	l->heap = heap;
	l->heap_max = max;
	return 0;
}

static bool
timer_before(const struct far_task *a, const struct far_task *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

static void
timer_set(struct far_loop *l, uint32_t i, struct far_task *t)
{
	l->heap[i] = t;
	t->timer = i + 1;
}

static void
timer_up(struct far_loop *l, uint32_t i, struct far_task *t)
{
	while (i > 0 && timer_before(t, l->heap[(i - 1) / 2])) {
		timer_set(l, i, l->heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	timer_set(l, i, t);
}

static void
timer_down(struct far_loop *l, uint32_t i, struct far_task *t)
{
	for (;;) {
		uint32_t child = 2 * i + 1;

		if (child + 1 < l->heap_n && timer_before(l->heap[child + 1], l->heap[child]))
			child++;
		if (child >= l->heap_n || timer_before(t, l->heap[child]))
			break;
		timer_set(l, i, l->heap[child]);
		i = child;
	}
	timer_set(l, i, t);
}

void
fiber_timer_start(struct far_loop *l, struct far_task *t, uint64_t when)
{
	FAR_ASSERT(t->timer == 0 && l->heap_n < l->heap_max);
	t->when = when;
	t->order = l->order++;
	timer_up(l, l->heap_n++, t);
}

void
fiber_timer_stop(struct far_loop *l, struct far_task *t)
{
	uint32_t i = t->timer - 1;
	struct far_task *last;

	if (t->timer == 0)
		return;
	t->timer = 0;
	last = l->heap[--l->heap_n];
	if (last == t)
		return;
	if (i > 0 && timer_before(last, l->heap[(i - 1) / 2]))
		timer_up(l, i, last);
	else
		timer_down(l, i, last);
}
