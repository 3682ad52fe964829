/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_speed.c -- how many schedules per second of processor time: 4 clients, 6 operations each, on one group of slots,
 * history checked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lab/schedule.h"

static double
speed_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

int
main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 20000, bad = 0;
	uint64_t steps = 0, verbs = 0;
	struct schedule_result r;
	struct schedule *s;
	double start, took;

	if (n == 0 || schedule_new(&s) != 0)
		return 1;
	start = speed_now();
	for (unsigned i = 0; i < n; i++) {
		if (schedule_run(s, i, far_index_find(NULL), SCHEDULE_PLAIN, &r) != 0)
			return 1;
		bad += r.verdict != SCHEDULE_GOOD;
		steps += r.steps;
		verbs += r.verbs;
	}
	took = speed_now() - start;
	printf("%.0f schedules/s, %.1f verbs and %.0f steps each, %.1f ns per step all in, %u not good\n",
	       n / took, (double)verbs / n, (double)steps / n, took * 1e9 / (double)steps, bad);
	schedule_free(s);
	return bad > 0;
}
