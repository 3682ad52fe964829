/* SPDX-License-Identifier: Apache-2.0 */
/* bench_sweep.h -- what `farside bench` shows when it ran with several numbers of clients. */
#ifndef FAR_CLI_BENCH_SWEEP_H
#define FAR_CLI_BENCH_SWEEP_H

#include "cli/bench_report.h"

enum { BENCH_SWEEP_MAX = 64 };

struct bench_sweep {
	unsigned n;
	const unsigned *clients; /* of each run */
	struct bench_result *results[BENCH_SWEEP_MAX];
};

/* An array of what bench_report_json() makes of each run, or NULL when out of memory. */
json_t *bench_sweep_json(const struct bench_about *a, const struct bench_sweep *s);

/* A line per run. */
void bench_sweep_text(const struct bench_about *a, const struct bench_sweep *s);

/* Draws throughput and 99th percentile over clients into an SVG file. Says what went wrong and returns an exit code. */
int bench_sweep_plot(const struct cli_common *c, const struct bench_about *a, const struct bench_sweep *s,
		     const char *path);

#endif
