/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_bench.c -- `farside bench`: options, an embedded pool when none is given, progress. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/bench_report.h"
#include "cli/bench_sweep.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/number.h"
#include "cli/progress.h"
#include "lab/profile.h"

#define BENCH_SIM "sim:"

enum bench_option {
	BENCH_OPTION_DESIGN = 256,
	BENCH_OPTION_WORKLOAD,
	BENCH_OPTION_KEYS,
	BENCH_OPTION_OPS,
	BENCH_OPTION_THREADS,
	BENCH_OPTION_CLIENTS,
	BENCH_OPTION_DEPTH,
	BENCH_OPTION_DISTRIBUTION,
	BENCH_OPTION_THETA,
	BENCH_OPTION_KEY_SIZE,
	BENCH_OPTION_VALUE_SIZE,
	BENCH_OPTION_CACHE,
	BENCH_OPTION_NO_BACKOFF,
	BENCH_OPTION_NO_CREDITS,
	BENCH_OPTION_SHARED_QP,
	BENCH_OPTION_PLOT,
	BENCH_OPTION_NODES,
	BENCH_OPTION_SIZE,
	BENCH_OPTION_TABLE,
	BENCH_OPTION_KEEP,
	BENCH_OPTION_VERIFY,
	BENCH_OPTION_SEED,
	BENCH_OPTION_ITEMS,
	BENCH_OPTION_MACHINES,
	BENCH_OPTION_FOOTPRINT,
	BENCH_OPTION_WARMUP,
};

static const struct argp_option bench_options[] = {
	{ NULL, 0, NULL, 0, "What to run:", 2 },
	{ "design", BENCH_OPTION_DESIGN, "NAME", 0, "Table design (default: race)", 2 },
	{ "workload", BENCH_OPTION_WORKLOAD, "NAME", 0,
	  "YCSB A, B, C, D or F; insert, update, delete; or negative: lookups of absent keys (default: C)",
	  2 },
	{ "keys", BENCH_OPTION_KEYS, "N", 0, "Keys to load before the run (default: 100000)", 2 },
	{ "ops", BENCH_OPTION_OPS, "N", 0,
	  "Operations of the run (default: 1000000; delete: as many as keys)", 2 },
	{ "distribution", BENCH_OPTION_DISTRIBUTION, "NAME", 0,
	  "uniform, zipfian, scrambled or latest (default: as YCSB: latest for D, else scrambled)",
	  2 },
	{ "theta", BENCH_OPTION_THETA, "T", 0, "Skew, between 0 and 1 (default: 0.99)", 2 },
	{ "items", BENCH_OPTION_ITEMS, "N", 0,
	  "scrambled: how many items the popular ones are drawn from; ranks share the keys (default: 10^10, as YCSB)",
	  2 },
	{ "key-size", BENCH_OPTION_KEY_SIZE, "BYTES", 0, "Length of every key (default: 16)", 2 },
	{ "value-size", BENCH_OPTION_VALUE_SIZE, "BYTES", 0, "Length of every value (default: 32)",
	  2 },
	{ "seed", BENCH_OPTION_SEED, "N", 0, "Of the choice of keys and operations (default: 1)",
	  2 },
	{ "verify", BENCH_OPTION_VERIFY, NULL, 0,
	  "Compare every value that is read, and check the table at the end (slower)", 2 },

	{ NULL, 0, NULL, 0, "Who runs it:", 3 },
	{ "threads", BENCH_OPTION_THREADS, "N", 0,
	  "Threads of each client; each has its own connections and session (default: 1)", 3 },
	{ "clients", BENCH_OPTION_CLIENTS, "N", 0,
	  "Clients (default: 1). All run in this process: two clients of three threads are six sessions. A list "
	  "such as 1,2,4,8: a run with each",
	  3 },
	{ "depth", BENCH_OPTION_DEPTH, "N", 0,
	  "Operations in flight per thread, each in a fiber (default: 32, as in a batch; 1 shows what one operation "
	  "takes alone)",
	  3 },
	{ "fibers", BENCH_OPTION_DEPTH, NULL, OPTION_ALIAS, NULL, 3 },
	{ "cache", BENCH_OPTION_CACHE, "BYTES", 0,
	  "Of each client's cache. There is no cache yet: only 0, and its counts are 0", 3 },
	{ "no-backoff", BENCH_OPTION_NO_BACKOFF, NULL, 0,
	  "Retry a lost exchange at once and do not combine operations on one key", 3 },
	{ "no-credits", BENCH_OPTION_NO_CREDITS, NULL, 0, "Do not bound the verbs in flight", 3 },
	{ "shared-qp", BENCH_OPTION_SHARED_QP, "N", OPTION_ARG_OPTIONAL,
	  "All threads post through one queue pair; with --pool sim: through N of each machine (default there: "
	  "as many as the profile's driver has doorbells)",
	  3 },

	{ NULL, 0, NULL, 0, "Where:", 4 },
	{ "nodes", BENCH_OPTION_NODES, "N", 0,
	  "Without --pool: memory nodes to start for the run, as processes; of a simulated pool (default: 1)",
	  4 },
	{ "size", BENCH_OPTION_SIZE, "BYTES", 0,
	  "The same: memory of each node (default: what the keys need, at least 256m)", 4 },
	{ "table", BENCH_OPTION_TABLE, "NAME", 0,
	  "Table to make; it must not exist yet (default: bench)", 4 },
	{ "keep", BENCH_OPTION_KEEP, NULL, 0, "Do not drop the table afterwards", 4 },

	{ NULL, 0, NULL, 0, "With --pool sim:PROFILE only:", 5 },
	{ "machines", BENCH_OPTION_MACHINES, "N", 0,
	  "Machines that the clients' threads are spread over, with a network card each (default: as few as the "
	  "profile's threads of a machine allow)",
	  5 },
	{ "footprint", BENCH_OPTION_FOOTPRINT, "F", 0,
	  "The table stands for one that is F times larger: the card's cache of page addresses covers as much less "
	  "(default: 1)",
	  5 },
	{ "warmup", BENCH_OPTION_WARMUP, "N", 0,
	  "Operations that run before and do not count (default: 0)", 5 },

	{ NULL, 0, NULL, 0, "Output:", 6 },
	{ "plot", BENCH_OPTION_PLOT, "FILE", 0,
	  "Also draw an SVG file (needs gnuplot): latency over percentile; with a list of clients throughput and 99th "
	  "percentile over clients",
	  6 },
	{ 0 },
};

struct bench_args {
	struct cli_common common;
	struct bench_opts opts;
	struct bench_sim_opts sim;
	struct nic_profile profile;
	const char *workload, *distribution, *plot;
	const char *own_pool; /* an option that was given and needs a pool of our own; or NULL */
	const char *sim_only; /* an option that was given and needs the simulator; or NULL */
	double theta;
	uint64_t keys, ops, items, key_len, value_len, threads, depth, nodes, size;
	uint64_t machines, footprint, warmup, queues;
	unsigned clients[BENCH_SWEEP_MAX], clients_n; /* a sweep when there are several */
};

#define BENCH_SLOT(key, option, kind, min, max, member)          \
	{                                                        \
		BENCH_OPTION_##key,                              \
		option,                                          \
		{ NUMBER_##kind, min, max },                     \
		offsetof(struct bench_args, member)              \
	}

static const struct number_slot bench_slots[] = {
	BENCH_SLOT(KEYS, "keys", COUNT, 0, UINT64_C(1) << 40, keys),
	BENCH_SLOT(OPS, "ops", COUNT, 1, UINT64_C(1) << 40, ops),
	BENCH_SLOT(ITEMS, "items", COUNT, 0, UINT64_C(1) << 50, items),
	BENCH_SLOT(KEY_SIZE, "key-size", SIZE, 0, FAR_KEY_MAX, key_len),
	BENCH_SLOT(VALUE_SIZE, "value-size", SIZE, 0, FAR_VALUE_MAX, value_len),
	BENCH_SLOT(SEED, "seed", COUNT, 0, UINT64_MAX / 2, opts.seed),
	BENCH_SLOT(THREADS, "threads", COUNT, 1, 1024, threads),
	BENCH_SLOT(DEPTH, "depth", COUNT, 1, 4096, depth),
	BENCH_SLOT(NODES, "nodes", COUNT, 1, FAR_NODES_MAX, nodes),
	BENCH_SLOT(SIZE, "size", SIZE, 1, UINT64_C(1) << 46, size),
	BENCH_SLOT(MACHINES, "machines", COUNT, 1, 1024, machines),
	BENCH_SLOT(FOOTPRINT, "footprint", COUNT, 1, 1 << 20, footprint),
	BENCH_SLOT(WARMUP, "warmup", COUNT, 0, UINT64_C(1) << 40, warmup),
	{ 0 },
};

/* "4" or "1,2,4" */
static void
bench_clients(struct argp_state *state, struct bench_args *a, char *arg)
{
	char *next;

	for (a->clients_n = 0; arg; arg = next) {
		next = strchr(arg, ',');
		if (next)
			*next++ = '\0';
		if (a->clients_n == BENCH_SWEEP_MAX)
			argp_error(state, "--clients: at most %d numbers", BENCH_SWEEP_MAX);
		a->clients[a->clients_n++] = (unsigned)number_option(
			state, "clients", arg, (struct number_range){ NUMBER_COUNT, 1, 1024 });
	}
}

static void
bench_theta(struct argp_state *state, const char *arg, double *out)
{
	char *end;

	*out = strtod(arg, &end);
	if (*arg == '\0' || *end != '\0' || !(*out > 0 && *out < 1))
		argp_error(state, "--theta: '%s' does not lie between 0 and 1", arg);
}

/* Notes options that some pools do not take. */
static void
bench_note(struct bench_args *a, int key, const char *arg)
{
	switch (key) {
	case BENCH_OPTION_MACHINES:
		a->sim_only = "--machines";
		break;
	case BENCH_OPTION_FOOTPRINT:
		a->sim_only = "--footprint";
		break;
	case BENCH_OPTION_WARMUP:
		a->sim_only = "--warmup";
		break;
	case BENCH_OPTION_SHARED_QP:
		if (arg)
			a->sim_only = "--shared-qp=N";
		break;
	case BENCH_OPTION_NODES:
		a->own_pool = "--nodes";
		break;
	case BENCH_OPTION_SIZE:
		a->own_pool = "--size";
		break;
	}
}

static error_t
bench_parse(int key, char *arg, struct argp_state *state)
{
	struct bench_args *a = state->input;

	bench_note(a, key, arg);
	if (number_take(bench_slots, key, arg, state))
		return 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->common;
		return 0;
	case BENCH_OPTION_DESIGN:
		a->opts.design = arg;
		return 0;
	case BENCH_OPTION_WORKLOAD:
		a->workload = arg;
		return 0;
	case BENCH_OPTION_DISTRIBUTION:
		a->distribution = arg;
		return 0;
	case BENCH_OPTION_THETA:
		bench_theta(state, arg, &a->theta);
		return 0;
	case BENCH_OPTION_NO_BACKOFF:
		a->opts.no_backoff = true;
		return 0;
	case BENCH_OPTION_NO_CREDITS:
		a->opts.no_credits = true;
		return 0;
	case BENCH_OPTION_SHARED_QP:
		a->opts.shared_qp = true;
		if (arg)
			a->queues = number_option(state, "shared-qp", arg,
						  (struct number_range){ NUMBER_COUNT, 1, 1024 });
		return 0;
	case BENCH_OPTION_CACHE:
		if (strcmp(arg, "0") != 0)
			argp_error(state, "--cache: this version has no cache; only 0 is possible");
		return 0;
	case BENCH_OPTION_CLIENTS:
		bench_clients(state, a, arg);
		return 0;
	case BENCH_OPTION_VERIFY:
		a->opts.verify = true;
		return 0;
	case BENCH_OPTION_PLOT:
		a->plot = arg;
		return 0;
	case BENCH_OPTION_TABLE:
		a->opts.table = arg;
		return 0;
	case BENCH_OPTION_KEEP:
		a->opts.keep = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: bench takes options only", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child bench_children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
static const struct argp bench_argp = {
	.options = bench_options,
	.parser = bench_parse,
	.doc = "Runs a workload and measures time, round trips, verbs and bytes of every operation.\v"
	       "Without --pool and FARSIDE_POOL it starts memory nodes of its own, so it works anywhere:\n\n"
	       "  farside bench --workload A --keys 1m --threads 2\n\n"
	       "With --pool sim:PROFILE the pool and its clients are simulated, in virtual time:\n\n"
	       "  farside bench --pool sim:cx6-200 --clients 512\n\n"
	       "Numbers may end in k, m, g or t (powers of 1024). Times include making the operation, some 30 ns. "
	       "Bytes are those of RoCEv2 frames. Interrupted, it reports what was done until then.",
	.children = bench_children,
};

/* Progress ---------------------------------------------------------------------------------------------------- */

struct bench_line {
	struct progress progress;
	const char *phase; /* shown now */
};

static void
bench_progress(void *arg, const char *phase, uint64_t done, uint64_t all)
{
	struct bench_line *line = arg;

	if (line->phase != phase) {
		progress_end(&line->progress);
		progress_start(&line->progress, phase[0] == 'l' ? "keys" : "operations");
		line->phase = phase;
	}
	progress_update(&line->progress, all ? (double)done / (double)all : 1, done);
}

static bool
bench_stop(void *arg)
{
	return cli_interrupted();
}

/* The run ----------------------------------------------------------------------------------------------------- */

/* Makes the spec from the options. Says what is wrong and returns an exit code. */
static int
bench_spec(struct bench_args *a)
{
	struct workload_spec *s = &a->opts.spec;
	const char *wrong;

	if (workload_find(a->workload, s) != 0) {
		cli_error(
			&a->common,
			"--workload: '%s' is not one of A, B, C, D, F, insert, update, delete, negative",
			a->workload);
		return CLI_USAGE;
	}
	if (a->distribution && workload_dist_find(a->distribution, &s->dist) != 0) {
		cli_error(&a->common,
			  "--distribution: '%s' is not one of uniform, zipfian, scrambled, latest",
			  a->distribution);
		return CLI_USAGE;
	}
	s->theta = a->theta;
	s->items = a->items;
	s->keys = a->keys;
	s->ops = a->ops ? a->ops : s->percent[WORKLOAD_DELETE] ? a->keys
							       : 1000000;
	s->key_len = a->key_len;
	s->value_len = a->value_len;
	if ((wrong = workload_check(s)) != NULL) {
		cli_error(&a->common, "%s", wrong);
		return CLI_USAGE;
	}
	a->opts.depth = (unsigned)a->depth;
	return CLI_OK;
}

/* What the nodes of an embedded pool need: blocks with their headers and a class's waste, half as much again for
 * blocks that wait to be reused, and a generous index. Untouched memory costs nothing. */
static uint64_t
bench_size(const struct bench_args *a)
{
	const struct workload_spec *s = &a->opts.spec;
	uint64_t keys = s->keys + (s->percent[WORKLOAD_INSERT] ? s->ops : 0);
	uint64_t block = (40 + s->key_len + s->value_len) * 5 / 4 + 64;

	if (a->size)
		return a->size;
	return far_align(far_max((uint64_t)256 << 20,
				 keys * (block * 3 / 2 + 64) / a->nodes + ((uint64_t)128 << 20)),
			 2 << 20);
}

/* What is wrong with a result, and the exit code for it. */
static int
bench_judge(struct bench_args *a, const struct bench_result *r, int code)
{
	if (r->wrong_values) {
		cli_error(&a->common, "%llu reads returned a value that nobody wrote",
			  (unsigned long long)r->wrong_values);
		code = CLI_NO;
	}
	if (r->violations) {
		cli_error(&a->common, "check found %lld violations: %s", (long long)r->violations,
			  r->message);
		code = CLI_NO;
	}
	if (r->stopped && code == CLI_OK)
		return cli_say_interrupted(&a->common);
	return code;
}

static int
bench_show(struct bench_args *a, const struct bench_about *about, const struct bench_result *r)
{
	int code = CLI_OK;

	if (a->common.json)
		code = cli_print_json(&a->common, bench_report_json(about, r));
	else
		bench_report_text(about, r);
	if (a->plot && code == CLI_OK)
		code = bench_report_plot(&a->common, about, r, a->plot);
	return bench_judge(a, r, code);
}

static int
bench_show_sweep(struct bench_args *a, const struct bench_about *about, const struct bench_sweep *s)
{
	int code = CLI_OK;

	if (a->common.json)
		code = cli_print_json(&a->common, bench_sweep_json(about, s));
	else
		bench_sweep_text(about, s);
	if (a->plot && code == CLI_OK)
		code = bench_sweep_plot(&a->common, about, s, a->plot);
	for (unsigned i = 0; i < s->n; i++)
		code = bench_judge(a, s->results[i], code);
	return code;
}

/* One run with that many clients. */
static int
bench_once(struct bench_args *a, unsigned clients, struct bench_result *r)
{
	struct bench_line line = { .phase = NULL };
	int err;

	a->opts.clients = clients * (unsigned)a->threads;
	if (a->opts.sim) {
		a->sim.machines = (unsigned)(a->machines ? a->machines
							 : (a->opts.clients + a->profile.threads -
							    1) / a->profile.threads);
	}
	a->opts.arg = &line;
	err = bench_run(&a->opts, r);
	progress_end(&line.progress);
	if (err == 0)
		return CLI_OK;
	cli_error(&a->common, "%s", r->message);
	return cli_exit_code(err);
}

static int
bench_on(struct bench_args *a, const char *name)
{
	struct bench_about about = {
		.pool = name,
		.threads = (unsigned)a->threads,
		.clients = a->clients[0],
		.opts = &a->opts,
	};
	struct bench_sweep sweep = { .clients = a->clients };
	int code = CLI_OK;

	cli_catch_signals();
	a->opts.stop = bench_stop;
	a->opts.progress = bench_progress;
	while (sweep.n < a->clients_n && code == CLI_OK && !cli_interrupted()) {
		struct bench_result *r = malloc(sizeof(*r));

		if (!r) {
			code = cli_error(&a->common, "out of memory");
			break;
		}
		sweep.results[sweep.n] = r;
		code = bench_once(a, a->clients[sweep.n++], r);
	}
	if (code == CLI_OK && a->clients_n == 1)
		code = bench_show(a, &about, sweep.results[0]);
	else if (code == CLI_OK)
		code = bench_show_sweep(a, &about, &sweep);
	while (sweep.n)
		free(sweep.results[--sweep.n]);
	return code;
}

/* In a short virtual time nothing that was replaced is reused: room for all of it, which costs what is touched only. */
static uint64_t
bench_sim_size(const struct bench_args *a)
{
	const struct workload_spec *s = &a->opts.spec;
	uint64_t writes = (s->ops + a->warmup) * (100 - s->percent[WORKLOAD_READ]) / 100;
	uint64_t block = (40 + s->key_len + s->value_len) * 5 / 4 + 64;

	if (a->size)
		return a->size;
	return far_align(bench_size(a) + far_min(writes * block / a->nodes, (uint64_t)4 << 30),
			 2 << 20);
}

/* The pool is "sim:PROFILE". */
static int
bench_simulated(struct bench_args *a)
{
	const char *name = a->common.pool + strlen(BENCH_SIM);
	char message[512];

	if (profile_load(name, &a->profile, message, sizeof(message)) != 0) {
		cli_error(&a->common, "%s", message);
		return CLI_USAGE;
	}
	a->sim = (struct bench_sim_opts){
		.profile = &a->profile,
		.nodes = (unsigned)a->nodes,
		.region_len = bench_sim_size(a),
		.queues = (unsigned)(a->queues ? a->queues : far_max(a->profile.queues, 1)),
		.footprint = a->footprint,
		.warmup = a->warmup,
	};
	if (a->opts.spec.percent[WORKLOAD_DELETE] && a->warmup) {
		cli_error(&a->common, "--warmup is not for workloads that delete");
		return CLI_USAGE;
	}
	a->opts.sim = &a->sim;
	return bench_on(a, a->common.pool);
}

static int
bench_embedded(struct bench_args *a)
{
	struct embedded *e;
	struct shm_why why;
	int code;

	if (embedded_open((unsigned)a->nodes, bench_size(a), &e, &why) != 0)
		return cli_error(&a->common, "cannot start memory nodes: %s", why.text);
	a->opts.pool = embedded_uri(e);
	code = bench_on(a, "embedded");
	embedded_close(e);
	return code;
}

static int
cmd_bench(int argc, char **argv)
{
	struct bench_args a = {
		.common.command = "bench",
		.opts = { .table = "bench", .seed = 1 },
		.workload = "C",
		.theta = WORKLOAD_THETA,
		.keys = 100000,
		.key_len = WORKLOAD_KEY_LEN,
		.value_len = WORKLOAD_VALUE_LEN,
		.items = WORKLOAD_ITEMS,
		.threads = 1,
		.clients = { 1 },
		.clients_n = 1,
		.footprint = 1,
		.depth = 32,
		.nodes = 1,
	};
	int code;

	cli_parse(&bench_argp, argc, argv, &a);
	if ((code = bench_spec(&a)) != CLI_OK)
		return code;
	if (a.common.pool && strncmp(a.common.pool, BENCH_SIM, strlen(BENCH_SIM)) == 0)
		return cli_finish(&a.common, bench_simulated(&a));
	if (a.sim_only) {
		cli_error(&a.common, "%s is for --pool sim:PROFILE", a.sim_only);
		return CLI_USAGE;
	}
	if (a.common.pool && a.own_pool) {
		cli_error(&a.common,
			  "%s is for a pool of its own, but --pool or FARSIDE_POOL names '%s'",
			  a.own_pool, a.common.pool);
		return CLI_USAGE;
	}
	if ((code = cli_check_pool(&a.common, true)) != CLI_OK ||
	    (a.plot && (code = bench_report_plot_check(&a.common, a.plot)) != CLI_OK))
		return code;
	a.opts.pool = a.common.pool;
	code = a.common.pool ? bench_on(&a, a.common.pool) : bench_embedded(&a);
	return cli_finish(&a.common, code);
}

const struct cli_command cli_bench = {
	.name = "bench",
	.summary = "run a workload and measure it",
	.run = cmd_bench,
};
