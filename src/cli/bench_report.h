/* SPDX-License-Identifier: Apache-2.0 */
/* bench_report.h -- the three forms in which `farside bench` shows its result. */
#ifndef FAR_CLI_BENCH_REPORT_H
#define FAR_CLI_BENCH_REPORT_H

#include <jansson.h>

#include "cli/cli.h"
#include "lab/bench.h"

/* What was run, as the report names it. */
struct bench_about {
	const char *pool; /* URI, or "embedded" */
	unsigned threads, clients;
	const struct bench_opts *opts;
};

/* The object that `--json` prints, or NULL when out of memory. */
json_t *bench_report_json(const struct bench_about *a, const struct bench_result *r);

/* An aligned text for people, on standard output. */
void bench_report_text(const struct bench_about *a, const struct bench_result *r);

/* 1234567 as "1,234,567". The text lives in the caller's buffer. */
const char *bench_report_grouped(uint64_t n, char buf[32]);

/* Can a plot be made at `path`? Tried before a long run: says why not and returns an exit code. A file that is there is
 * left as it is. */
int bench_report_plot_check(const struct cli_common *c, const char *path);

/* Draws latency over percentile for each kind of operation into an SVG file by gnuplot. Says what went wrong and
 * returns an exit code. */
int bench_report_plot(const struct cli_common *c, const struct bench_about *a, const struct bench_result *r,
		      const char *path);

/* Lets gnuplot draw what `program` writes to it, `arg` being its own, into an SVG file. As above. */
typedef void bench_report_program_fn(FILE *to, const struct bench_about *a, const void *arg);
int bench_report_draw(const struct cli_common *c, const struct bench_about *a, bench_report_program_fn *program,
		      const void *arg, const char *path);

#endif
