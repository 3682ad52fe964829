/* SPDX-License-Identifier: Apache-2.0 */
/* bench_report.c -- JSON, text and plot of a benchmark's result. */
#include "cli/bench_report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

extern char **environ;

/* JSON -------------------------------------------------------------------------------------------------------- */

/* `sum` per operation. A mean that is a whole number is printed without a fraction, so that tests can compare it. */
static json_t *
bench_report_mean(uint64_t sum, uint64_t n)
{
	if (n == 0 || sum % n == 0)
		return json_integer((json_int_t)(n ? sum / n : 0));
	return json_real((double)sum / (double)n);
}

static json_t *
bench_report_kind_json(const struct bench_account *a)
{
	const struct far_count *c = &a->spent;
	uint64_t n = a->time.n;

	return json_pack(
		"{sI sI sI sI sI so so so so so so so so so so so so}", "n", (json_int_t)n,
		"p50_ns", (json_int_t)hist_at(&a->time, 0.5), "p99_ns",
		(json_int_t)hist_at(&a->time, 0.99), "p999_ns",
		(json_int_t)hist_at(&a->time, 0.999), "max_ns", (json_int_t)a->time.max,
		"round_trips", bench_report_mean(c->round_trips, n), "reads",
		bench_report_mean(c->verbs[FAR_OP_READ], n), "writes",
		bench_report_mean(c->verbs[FAR_OP_WRITE], n), "cas",
		bench_report_mean(c->verbs[FAR_OP_CAS], n), "faa",
		bench_report_mean(c->verbs[FAR_OP_FAA], n), "bytes_out",
		bench_report_mean(c->bytes_out, n), "bytes_in", bench_report_mean(c->bytes_in, n),
		"payload_out", bench_report_mean(c->payload_out, n), "payload_in",
		bench_report_mean(c->payload_in, n), "retries", bench_report_mean(c->retries, n),
		"split_waits", bench_report_mean(c->split_waits, n), "false_hits",
		bench_report_mean(c->false_hits, n));
}

static double
bench_report_load_factor(const struct bench_result *r)
{
	return r->table.slots ? (double)r->table.keys / (double)r->table.slots : 0;
}

json_t *
bench_report_json(const struct bench_about *a, const struct bench_result *r)
{
	const struct workload_spec *s = &a->opts->spec;
	json_t *kinds = json_object();

	for (int k = 0; k < BENCH_KINDS; k++)
		json_object_set_new(kinds, bench_kind_name(k),
				    bench_report_kind_json(&r->kinds[k]));
	return json_pack(
		"{ss ss ss ss sf sI sI si si si sI sI sf sf sb sI s{sI sI sI sf sI} s{si si} s{sI sI} so}",
		"design", r->table.design, "pool", a->pool, "workload", s->name, "distribution",
		workload_dist_name(s->dist), "theta", s->theta, "keys", (json_int_t)s->keys, "ops",
		(json_int_t)r->ops, "threads", (int)a->threads, "clients", (int)a->clients, "depth",
		(int)a->opts->depth, "key_size", (json_int_t)s->key_len, "value_size",
		(json_int_t)s->value_len, "seconds", (double)r->run_ns * 1e-9, "ops_per_s",
		bench_rate(r), "interrupted", (int)r->stopped, "failed", (json_int_t)r->failed,
		"table", "keys", (json_int_t)r->table.keys, "index_bytes",
		(json_int_t)r->table.index_bytes, "block_bytes", (json_int_t)r->table.block_bytes,
		"load_factor", bench_report_load_factor(r), "splits", (json_int_t)r->table.splits,
		"cache", "hits", 0, "misses", 0, "background", "round_trips",
		(json_int_t)r->background.round_trips, "bytes",
		(json_int_t)(r->background.bytes_out + r->background.bytes_in), "operations",
		kinds);
}

/* Text -------------------------------------------------------------------------------------------------------- */

const char *
bench_report_grouped(uint64_t n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), at = 0;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

static void
bench_report_latencies(const struct bench_result *r)
{
	char n[32];

	printf("\n%-10s %13s %9s %9s %9s %9s %10s\n", "operation", "count", "mean us", "p50 us",
	       "p99 us", "p99.9 us", "max us");
	for (int k = 0; k < BENCH_KINDS; k++) {
		const struct hist *h = &r->kinds[k].time;

		if (h->n == 0)
			continue;
		printf("%-10s %13s %9.2f %9.2f %9.2f %9.2f %10.1f\n", bench_kind_name(k),
		       bench_report_grouped(h->n, n), hist_mean(h) * 1e-3,
		       (double)hist_at(h, 0.5) * 1e-3, (double)hist_at(h, 0.99) * 1e-3,
		       (double)hist_at(h, 0.999) * 1e-3, (double)h->max * 1e-3);
	}
}

static void
bench_report_verbs(const struct bench_result *r)
{
	printf("\n%-10s %7s %7s %7s %6s %6s %9s %9s %9s %9s %8s %8s %8s\n", "per op", "trips",
	       "READ", "WRITE", "CAS", "FAA", "B out", "B in", "data out", "data in", "retries",
	       "waits", "false");
	for (int k = 0; k < BENCH_KINDS; k++) {
		const struct far_count *c = &r->kinds[k].spent;
		double n = (double)r->kinds[k].time.n;

		if (n == 0)
			continue;
		printf("%-10s %7.3f %7.3f %7.3f %6.3f %6.3f %9.1f %9.1f %9.1f %9.1f %8.4f %8.4f %8.4f\n",
		       bench_kind_name(k), (double)c->round_trips / n,
		       (double)c->verbs[FAR_OP_READ] / n, (double)c->verbs[FAR_OP_WRITE] / n,
		       (double)c->verbs[FAR_OP_CAS] / n, (double)c->verbs[FAR_OP_FAA] / n,
		       (double)c->bytes_out / n, (double)c->bytes_in / n,
		       (double)c->payload_out / n, (double)c->payload_in / n,
		       (double)c->retries / n, (double)c->split_waits / n,
		       (double)c->false_hits / n);
	}
}

static void
bench_report_head(const struct bench_about *a, const struct bench_result *r)
{
	const struct workload_spec *s = &a->opts->spec;
	char n[32];

	printf("workload %s on %s: %s keys of %zu B, values of %zu B, %s", s->name, r->table.design,
	       bench_report_grouped(s->keys, n), s->key_len, s->value_len,
	       workload_dist_name(s->dist));
	if (s->dist != WORKLOAD_UNIFORM)
		printf(" %g", s->theta);
	printf("\npool %s: %u memory node%s; %u client%s of %u thread%s, %u operation%s in flight each\n",
	       a->pool, r->nodes, r->nodes == 1 ? "" : "s", a->clients, a->clients == 1 ? "" : "s",
	       a->threads, a->threads == 1 ? "" : "s", a->opts->depth,
	       a->opts->depth == 1 ? "" : "s");
	if (a->opts->sim)
		printf("times are virtual but for loading; %u machine%s of clients, footprint %llu, %llu operations of warming up\n",
		       a->opts->sim->machines, a->opts->sim->machines == 1 ? "" : "s",
		       (unsigned long long)a->opts->sim->footprint,
		       (unsigned long long)a->opts->sim->warmup);
	printf("\nloaded   %s keys in %.2f s", bench_report_grouped(r->loaded, n),
	       (double)r->load_ns * 1e-9);
	printf("\nfinished %s operations in %.*f s%s", bench_report_grouped(r->ops, n),
	       a->opts->sim ? 6 : 2, (double)r->run_ns * 1e-9, r->stopped ? " (interrupted)" : "");
	printf(": %s operations/s\n", bench_report_grouped((uint64_t)bench_rate(r), n));
	if (r->failed)
		printf("gave up  %s operations under contention\n",
		       bench_report_grouped(r->failed, n));
}

void
bench_report_text(const struct bench_about *a, const struct bench_result *r)
{
	const struct far_table_stat *t = &r->table;
	double keys = t->keys ? (double)t->keys : 1;
	char n[32];

	bench_report_head(a, r);
	bench_report_latencies(r);
	bench_report_verbs(r);
	printf("\ntable      %s keys, index %.1f B per key (%.0f %% of the slots in use), blocks %.1f B per key, ",
	       bench_report_grouped(t->keys, n), (double)t->index_bytes / keys,
	       bench_report_load_factor(r) * 100, (double)t->block_bytes / keys);
	printf("%s splits\n", bench_report_grouped(t->splits, n));
	printf("background %s round trips, ", bench_report_grouped(r->background.round_trips, n));
	printf("%s B\n", bench_report_grouped(r->background.bytes_out + r->background.bytes_in, n));
}

/* Plot -------------------------------------------------------------------------------------------------------- */

/* Starts gnuplot with these files as standard input and output. Returns its process id, or -1 with errno set. */
static pid_t
bench_report_spawn(char *argument, int in, int out)
{
	char name[] = "gnuplot", *argv[] = { name, argument, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawnp(&pid, name, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	errno = err;
	return err ? -1 : pid;
}

static int
bench_report_spawn_error(const struct cli_common *c)
{
	if (errno == ENOENT)
		return cli_error(
			c, "--plot needs gnuplot, which is not installed (Debian: gnuplot-nox)");
	return cli_error(c, "gnuplot: %s", strerror(errno));
}

static int
bench_report_reap(const struct cli_common *c, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return cli_error(c, "gnuplot: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return cli_error(c, "gnuplot failed");
	return CLI_OK;
}

/* Removes what a failed plot left; never a device. */
static void
bench_report_remove(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
		unlink(path);
}

int
bench_report_plot_check(const struct cli_common *c, const char *path)
{
	char version[] = "--version";
	bool fresh = access(path, F_OK) != 0;
	int out = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), null, code;
	pid_t pid = -1;

	if (out < 0)
		return cli_error(c, "--plot %s: %s", path, strerror(errno));
	close(out);
	if (fresh)
		bench_report_remove(path);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		pid = bench_report_spawn(version, null, null);
	code = pid < 0 ? bench_report_spawn_error(c) : bench_report_reap(c, pid);
	if (null >= 0)
		close(null);
	return code;
}

/* One curve: x is 1 / (1 - share), so that each decade is one more nine. */
static void
bench_report_curve(FILE *to, int kind, const struct hist *h)
{
	fprintf(to, "$%s << END\n", bench_kind_name(kind));
	for (double x = 1; x <= (double)h->n; x *= 1.1)
		fprintf(to, "%g %g\n", x, (double)hist_at(h, 1 - 1 / x) * 1e-3);
	fprintf(to, "%g %g\nEND\n", (double)h->n, (double)h->max * 1e-3);
}

static void
bench_report_program(FILE *to, const struct bench_about *a, const void *arg)
{
	const struct bench_result *r = arg;
	const char *lead = "plot ";

	fprintf(to, "set terminal svg size 900,540 background '#ffffff'\n");
	fprintf(to, "set title 'workload %s on %s, %.0f operations/s'\n", a->opts->spec.name,
		r->table.design, bench_rate(r));
	fprintf(to,
		"set logscale xy\nset grid\nset key left top noenhanced\nset xlabel 'percentile'\n"
		"set ylabel 'latency (us)'\nset xtics ('0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1000, "
		"'99.99' 10000, '99.999' 100000, '99.9999' 1000000)\n");
	for (int k = 0; k < BENCH_KINDS; k++)
		if (r->kinds[k].time.n > 0)
			bench_report_curve(to, k, &r->kinds[k].time);
	for (int k = 0; k < BENCH_KINDS; k++) {
		if (r->kinds[k].time.n == 0)
			continue;
		fprintf(to, "%s$%s with lines linewidth 2 title '%s'", lead, bench_kind_name(k),
			bench_kind_name(k));
		lead = ", ";
	}
	fputc('\n', to);
}

static int
bench_report_plot_to(const struct cli_common *c, const struct bench_about *a,
		     bench_report_program_fn *program, const void *arg, int out)
{
	int fds[2];
	pid_t pid;
	FILE *to;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return cli_error(c, "pipe: %s", strerror(errno));
	to = fdopen(fds[1], "w");
	pid = to ? bench_report_spawn(NULL, fds[0], out) : -1;
	if (pid < 0)
		bench_report_spawn_error(c);
	else
		program(to, a, arg);
	close(fds[0]);
	if (to)
		fclose(to);
	else
		close(fds[1]);
	return pid < 0 ? CLI_FAIL : bench_report_reap(c, pid);
}

int
bench_report_draw(const struct cli_common *c, const struct bench_about *a,
		  bench_report_program_fn *program, const void *arg, const char *path)
{
	int code, out;

	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (out < 0)
		return cli_error(c, "%s: %s", path, strerror(errno));
	code = bench_report_plot_to(c, a, program, arg, out);
	if (close(out) != 0 && code == CLI_OK)
		code = cli_error(c, "%s: %s", path, strerror(errno));
	if (code != CLI_OK)
		bench_report_remove(path);
	return code;
}

int
bench_report_plot(const struct cli_common *c, const struct bench_about *a,
		  const struct bench_result *r, const char *path)
{
	if (r->ops == 0)
		return cli_error(c, "nothing was measured, so there is nothing to plot");
	return bench_report_draw(c, a, bench_report_program, r, path);
}
