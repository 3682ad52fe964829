/* SPDX-License-Identifier: Apache-2.0 */
/* bench_sweep.c -- JSON, text and plot of runs that differ in the number of clients. */
#include "cli/bench_sweep.h"

#include <stdio.h>
#include <string.h>

json_t *
bench_sweep_json(const struct bench_about *a, const struct bench_sweep *s)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < s->n; i++) {
		struct bench_about one = *a;

		one.clients = s->clients[i];
		json_array_append_new(all, bench_report_json(&one, s->results[i]));
	}
	return all;
}

/* Times of all kinds of operations. */
static void
bench_sweep_times(const struct bench_result *r, struct hist *out)
{
	hist_init(out);
	for (int k = 0; k < BENCH_KINDS; k++)
		hist_merge(out, &r->kinds[k].time);
}

static double
bench_sweep_sum(const struct bench_result *r, uint64_t (*of)(const struct far_count *c))
{
	uint64_t sum = 0;

	for (int k = 0; k < BENCH_KINDS; k++)
		sum += of(&r->kinds[k].spent);
	return r->ops ? (double)sum / (double)r->ops : 0;
}

static uint64_t
bench_sweep_trips(const struct far_count *c)
{
	return c->round_trips;
}

static uint64_t
bench_sweep_retries(const struct far_count *c)
{
	return c->retries;
}

void
bench_sweep_text(const struct bench_about *a, const struct bench_sweep *s)
{
	struct hist times;
	char n[32];

	printf("workload %s on %s: %s keys, pool %s; clients of %u thread%s, %u operation%s in flight each\n\n",
	       a->opts->spec.name, s->results[0]->table.design,
	       bench_report_grouped(a->opts->spec.keys, n), a->pool, a->threads,
	       a->threads == 1 ? "" : "s", a->opts->depth, a->opts->depth == 1 ? "" : "s");
	printf("%8s %12s %10s %10s %10s %8s %8s %8s\n", "clients", "operations/s", "p50 us",
	       "p99 us", "p99.9 us", "trips", "retries", "gave up");
	for (unsigned i = 0; i < s->n; i++) {
		const struct bench_result *r = s->results[i];

		bench_sweep_times(r, &times);
		printf("%8u %12s %10.2f %10.2f %10.2f %8.3f %8.3f %8llu\n", s->clients[i],
		       bench_report_grouped((uint64_t)bench_rate(r), n),
		       (double)hist_at(&times, 0.5) * 1e-3,
		       (double)hist_at(&times, 0.99) * 1e-3,
		       (double)hist_at(&times, 0.999) * 1e-3,
		       bench_sweep_sum(r, bench_sweep_trips),
		       bench_sweep_sum(r, bench_sweep_retries), (unsigned long long)r->failed);
	}
}

/* The plot's program; `arg` is the sweep. */
static void
bench_sweep_program(FILE *to, const struct bench_about *a, const void *arg)
{
	const struct bench_sweep *s = arg;
	struct hist times;

	fprintf(to, "set terminal svg size 900,540 background '#ffffff'\n");
	fprintf(to, "set title 'workload %s on %s' noenhanced\n", a->opts->spec.name,
		s->results[0]->table.design);
	fprintf(to,
		"set grid\nset key left top\nset logscale x 2\nset logscale y2\nset xlabel 'clients'\n"
		"set ylabel 'operations/s (million)'\nset y2label '99th percentile (us)'\n"
		"set ytics nomirror\nset y2tics\nset yrange [0:*]\n$points << END\n");
	for (unsigned i = 0; i < s->n; i++) {
		bench_sweep_times(s->results[i], &times);
		fprintf(to, "%u %g %g\n", s->clients[i], bench_rate(s->results[i]) * 1e-6,
			(double)hist_at(&times, 0.99) * 1e-3);
	}
	fprintf(to,
		"END\nplot $points using 1:2 with linespoints linewidth 2 title 'throughput', "
		"$points using 1:3 axes x1y2 with linespoints linewidth 2 title '99th percentile'\n");
}

int
bench_sweep_plot(const struct cli_common *c, const struct bench_about *a,
		 const struct bench_sweep *s, const char *path)
{
	return bench_report_draw(c, a, bench_sweep_program, s, path);
}
