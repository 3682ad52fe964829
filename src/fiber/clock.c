/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c -- the one real clock. */
#include <errno.h>
#include <time.h>

#include "base/base.h"
#include "fiber/task.h"

enum { CLOCK_SECOND = 1000 * 1000 * 1000 };

static uint64_t
clock_now(void *arg)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * CLOCK_SECOND + (uint64_t)ts.tv_nsec;
}

static void
clock_idle(void *arg, uint64_t until)
{
	struct timespec ts = { (time_t)(until / CLOCK_SECOND), (long)(until % CLOCK_SECOND) };

	/* Every fiber is parked and nobody is left who could wake one: a bug, and better seen than slept through. */
	FAR_ASSERT(until != UINT64_MAX);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

const struct far_clock far_clock_real = { clock_now, clock_idle, NULL };
