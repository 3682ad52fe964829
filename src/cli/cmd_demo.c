/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_demo.c -- `farside demo`: two memory nodes, client processes that load and change real data, one of which is
 * killed, and the proof that nothing got lost.
 *
 * This process touches the tables only before and after the others: it makes them, and verifies them at the end. All
 * others are its children and die with it, whatever ends it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/demo.h"
#include "cli/embedded.h"
#include "cli/number.h"

enum {
	DEMO_NODES = 2,
	DEMO_TURN_NS = 2000000, /* between looks at the children */
};

typedef int demo_life_fn(const struct demo_plan *p, const char *uri, unsigned number,
			 struct demo_slot *slot);

struct demo {
	struct cli_common common;
	struct demo_plan plan;
	uint64_t size; /* of each node */
	struct embedded *nodes;
	const char *uri;
	struct demo_slot *slots; /* DEMO_CLIENTS_MAX, shared with the children */
	pid_t pids[DEMO_CLIENTS_MAX];
	unsigned running;
	pid_t victim; /* 0: nobody is to be killed */
	/* For the report. */
	uint64_t loaded, load_ns, mixed_ns;
	uint64_t kinds[DEMO_KINDS], mixed, victim_finished;
	struct far_count load_spent, mixed_spent;
	struct demo_verdict verdict;
	uint64_t verify_ns;
};

static uint64_t
demo_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

/* A line of the running report, for people only. */
static void demo_tell(const struct demo *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void
demo_tell(const struct demo *d, const char *format, ...)
{
	va_list args;

	if (d->common.json)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}

/* Child processes --------------------------------------------------------------------------------------------- */

static int
demo_start(struct demo *d, demo_life_fn *life, unsigned n)
{
	pid_t parent = getpid();

	memset(d->slots, 0, DEMO_CLIENTS_MAX * sizeof(*d->slots));
	fflush(NULL);
	for (unsigned i = 0; i < n; i++) {
		if ((d->pids[i] = fork()) < 0)
			return cli_error(&d->common, "fork: %s", strerror(errno));
		if (d->pids[i] != 0) {
			d->running = i + 1;
			continue;
		}
		/* An interrupt at the terminal reaches everybody: the parent decides. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(getppid() == parent ? life(&d->plan, d->uri, i, &d->slots[i]) : CLI_FAIL);
	}
	return CLI_OK;
}

static void
demo_kill_all(struct demo *d)
{
	for (unsigned i = 0; i < d->running; i++) {
		if (d->pids[i] <= 0)
			continue;
		kill(d->pids[i], SIGKILL);
		while (waitpid(d->pids[i], NULL, 0) < 0 && errno == EINTR)
			;
		d->pids[i] = 0;
	}
	d->running = 0;
}

/* The i-th child has ended with `status`: was that right? */
static int
demo_ended(struct demo *d, unsigned i, int status)
{
	d->pids[i] = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return CLI_OK;
	if (WIFSIGNALED(status) && d->victim < 0 && i == d->plan.clients - 1)
		return CLI_OK;
	if (WIFSIGNALED(status))
		return cli_error(&d->common, "client %u ended by signal %d", i, WTERMSIG(status));
	return cli_error(&d->common, "client %u: %s", i, d->slots[i].message);
}

/* Kills the victim once it has done half as much as each of the others has to do. */
static void
demo_strike(struct demo *d)
{
	struct demo_slot *slot = &d->slots[d->plan.clients - 1];

	if (d->victim <= 0 || atomic_load(&slot->finished) < d->plan.ops / 2)
		return;
	kill(d->victim, SIGKILL);
	d->victim = -d->victim;
}

/* Waits until all children have ended; one that fails, or an interrupt, ends them all. */
static int
demo_wait(struct demo *d)
{
	int code = CLI_OK, status;
	unsigned left = d->running;

	while (left > 0 && code == CLI_OK) {
		left = 0;
		demo_strike(d);
		for (unsigned i = 0; i < d->running && code == CLI_OK; i++) {
			if (d->pids[i] > 0 && waitpid(d->pids[i], &status, WNOHANG) == d->pids[i])
				code = demo_ended(d, i, status);
			left += d->pids[i] > 0;
		}
		if (cli_interrupted())
			code = CLI_SIGNAL;
		if (left > 0)
			far_clock_real.idle(far_clock_real.arg, demo_now() + DEMO_TURN_NS);
	}
	demo_kill_all(d);
	return code;
}

/* Steps ------------------------------------------------------------------------------------------------------- */

static int
demo_make_tables(struct demo *d)
{
	static const char *const names[] = { DEMO_REGISTRY, DEMO_READINGS };
	struct far *f;
	int code, err = 0;

	d->common.pool = d->uri;
	if ((code = cli_open(&d->common, NULL, &f)) != CLI_OK)
		return code;
	for (size_t i = 0; i < FAR_LEN(names) && err == 0; i++)
		err = far_table_create(f, names[i], NULL);
	if (err != 0)
		code = cli_fail(&d->common, f, err);
	far_close(f);
	return code;
}

static int
demo_step_nodes(struct demo *d)
{
	struct shm_why why;

	if (embedded_open(DEMO_NODES, d->size, &d->nodes, &why) != 0)
		return cli_error(&d->common, "cannot start memory nodes: %s", why.text);
	d->uri = embedded_uri(d->nodes);
	demo_tell(d, "1. memory   %d nodes of %" PRIu64 " MiB each, a process each: %s\n",
		  DEMO_NODES, d->size >> 20, d->uri);
	return demo_make_tables(d);
}

static int
demo_step_load(struct demo *d)
{
	uint64_t begin = demo_now();
	int code;

	demo_tell(
		d,
		"2. load     %d client processes: device makers (IEEE), stations and places (weather-util),\n"
		"            and first readings of %" PRIu64 " devices ...\n",
		DEMO_LOADERS, d->plan.readings);
	if ((code = demo_start(d, demo_load, DEMO_LOADERS)) == CLI_OK)
		code = demo_wait(d);
	d->load_ns = demo_now() - begin;
	if (code != CLI_OK)
		return code;
	for (unsigned i = 0; i < DEMO_LOADERS; i++) {
		d->loaded += atomic_load(&d->slots[i].finished);
		far_count_add(&d->load_spent, &d->slots[i].spent);
	}
	demo_tell(d, "            %" PRIu64 " records in %.1f s: %.0f records/s\n", d->loaded,
		  (double)d->load_ns * 1e-9, (double)d->loaded * 1e9 / (double)d->load_ns);
	return CLI_OK;
}

static int
demo_step_mixed(struct demo *d)
{
	uint64_t begin = demo_now();
	int code;

	demo_tell(d, "3. change   %u client processes read, update, delete and put readings ...\n",
		  d->plan.clients);
	if ((code = demo_start(d, demo_mixed, d->plan.clients)) == CLI_OK) {
		d->victim = d->pids[d->plan.clients - 1];
		code = demo_wait(d);
	}
	d->mixed_ns = demo_now() - begin;
	if (code != CLI_OK)
		return code;
	for (unsigned i = 0; i < d->plan.clients; i++) {
		d->mixed += atomic_load(&d->slots[i].finished);
		far_count_add(&d->mixed_spent, &d->slots[i].spent);
		for (int k = 0; k < DEMO_KINDS; k++)
			d->kinds[k] += atomic_load(&d->slots[i].kinds[k]);
	}
	d->victim_finished = atomic_load(&d->slots[d->plan.clients - 1].finished);
	demo_tell(d,
		  "            %" PRIu64 " operations in %.1f s: %" PRIu64 " reads, %" PRIu64
		  " updates, %" PRIu64 " deletes, %" PRIu64 " puts\n",
		  d->mixed, (double)d->mixed_ns * 1e-9,
		  d->kinds[DEMO_READ_OWN] + d->kinds[DEMO_READ_ANY], d->kinds[DEMO_UPDATE],
		  d->kinds[DEMO_DELETE], d->kinds[DEMO_PUT]);
	demo_tell(d,
		  "            one was killed (SIGKILL) after %" PRIu64 " operations\n",
		  d->victim_finished);
	return CLI_OK;
}

static const char *
demo_in_flight(const struct demo_verdict *v)
{
	if (!v->in_flight)
		return "the killed client was between two operations";
	return v->in_flight_happened ? "the killed client's operation in flight happened"
				     : "the killed client's operation in flight changed nothing";
}

static int
demo_step_verify(struct demo *d)
{
	struct demo_verdict *v = &d->verdict;
	uint64_t begin = demo_now();
	int err;

	demo_tell(
		d,
		"4. verify   every record against its source and every reading against what the clients did ...\n");
	err = demo_verify(&d->plan, d->uri, d->slots, cli_interrupted, v);
	d->verify_ns = demo_now() - begin;
	if (err == -FAR_EINTR)
		return CLI_SIGNAL;
	if (err != 0)
		return cli_error(&d->common, "%s", v->message);
	demo_tell(d,
		  "            %" PRIu64 " keys compared in %.1f s, %" PRIu64 " wrong; %s\n"
		  "5. check    %" PRId64 " violations in both tables\n",
		  v->compared, (double)d->verify_ns * 1e-9, v->wrong, demo_in_flight(v),
		  v->violations);
	return CLI_OK;
}

/* Report ------------------------------------------------------------------------------------------------------ */

static double
demo_per(uint64_t sum, uint64_t n)
{
	return n ? (double)sum / (double)n : 0;
}

static void
demo_report_table(const char *name, const struct far_table_stat *s)
{
	printf("%-10s %10" PRIu64 " %14.1f %15.1f %10" PRIu64 " %9" PRIu64 "\n", name, s->keys,
	       demo_per(s->index_bytes, s->keys), demo_per(s->block_bytes, s->keys), s->subtables,
	       s->splits);
}

static void
demo_report_spent(const char *name, uint64_t n, const struct far_count *c)
{
	printf("%-10s %10" PRIu64 " %14.3f %15.1f %10.1f %9.4f\n", name, n,
	       demo_per(c->round_trips, n), demo_per(c->bytes_out, n), demo_per(c->bytes_in, n),
	       demo_per(c->retries, n));
}

static void
demo_report_text(const struct demo *d)
{
	const struct demo_verdict *v = &d->verdict;

	printf("\n%-10s %10s %14s %15s %10s %9s\n", "table", "keys", "index B/key", "blocks B/key",
	       "subtables", "splits");
	demo_report_table(DEMO_REGISTRY, &v->registry);
	demo_report_table(DEMO_READINGS, &v->readings);
	printf("\n%-10s %10s %14s %15s %10s %9s\n", "per op", "operations", "round trips",
	       "bytes out", "bytes in", "retries");
	demo_report_spent("load", d->loaded, &d->load_spent);
	demo_report_spent("change", d->mixed, &d->mixed_spent);
	demo_report_spent("verify", v->compared, &v->spent);
	printf("\n%" PRIu64 " rows of the sources have %" PRIu64 " distinct keys; %" PRIu64
	       " of %" PRIu64 " devices have a reading.\n",
	       v->rows, v->records, v->devices, d->plan.readings);
	if (v->wrong == 0 && v->violations == 0)
		printf("All is as it must be.\n");
	else
		printf("NOT as it must be: %s\n", v->message);
}

static json_t *
demo_report_stat(const struct far_table_stat *s)
{
	return json_pack("{sI sI sI sI}", "keys", (json_int_t)s->keys, "index_bytes",
			 (json_int_t)s->index_bytes, "block_bytes", (json_int_t)s->block_bytes,
			 "splits", (json_int_t)s->splits);
}

static json_t *
demo_report_phase(uint64_t n, uint64_t ns, const struct far_count *c)
{
	return json_pack("{sI sf sf sf sf}", "operations", (json_int_t)n, "seconds",
			 (double)ns * 1e-9, "round_trips", demo_per(c->round_trips, n), "bytes_out",
			 demo_per(c->bytes_out, n), "bytes_in", demo_per(c->bytes_in, n));
}

static json_t *
demo_report_json(const struct demo *d)
{
	const struct demo_verdict *v = &d->verdict;

	return json_pack("{sI sI sI sI sI sI sI sb sb s{so so} so so so}", "rows",
			 (json_int_t)v->rows, "records", (json_int_t)v->records, "devices",
			 (json_int_t)v->devices, "compared", (json_int_t)v->compared, "wrong",
			 (json_int_t)v->wrong, "violations", (json_int_t)v->violations,
			 "killed_after", (json_int_t)d->victim_finished, "in_flight",
			 (int)v->in_flight, "in_flight_happened", (int)v->in_flight_happened,
			 "tables", DEMO_REGISTRY, demo_report_stat(&v->registry), DEMO_READINGS,
			 demo_report_stat(&v->readings), "load",
			 demo_report_phase(d->loaded, d->load_ns, &d->load_spent), "change",
			 demo_report_phase(d->mixed, d->mixed_ns, &d->mixed_spent), "verify",
			 demo_report_phase(v->compared, d->verify_ns, &v->spent));
}

static int
demo_report(const struct demo *d)
{
	int code = CLI_OK;

	if (d->common.json)
		code = cli_print_json(&d->common, demo_report_json(d));
	else
		demo_report_text(d);
	if (d->verdict.wrong == 0 && d->verdict.violations == 0)
		return code;
	cli_error(&d->common, "%s", d->verdict.message);
	return CLI_NO;
}

/* Command ----------------------------------------------------------------------------------------------------- */

enum demo_option {
	DEMO_OPTION_READINGS = 256,
	DEMO_OPTION_OPS,
	DEMO_OPTION_CLIENTS,
	DEMO_OPTION_SIZE,
	DEMO_OPTION_SEED,
	DEMO_OPTION_IEEE,
	DEMO_OPTION_WEATHER,
};

static const struct argp_option demo_options[] = {
	{ "json", 'j', NULL, 0, "Print the report as JSON, and nothing else", 1 },
	{ "readings", DEMO_OPTION_READINGS, "N", 0, "Devices with a reading (default: 1000000)",
	  2 },
	{ "ops", DEMO_OPTION_OPS, "N", 0,
	  "Operations of each client that changes readings (default: 250000)", 2 },
	{ "clients", DEMO_OPTION_CLIENTS, "N", 0,
	  "Clients that change readings, 2 to 32 (default: 4)", 2 },
	{ "size", DEMO_OPTION_SIZE, "BYTES", 0, "Memory of each node (default: 512m)", 2 },
	{ "seed", DEMO_OPTION_SEED, "N", 0, "Of what the clients do (default: 1)", 2 },
	{ "ieee-data", DEMO_OPTION_IEEE, "DIR", 0, "Default: /usr/share/ieee-data", 3 },
	{ "weather-data", DEMO_OPTION_WEATHER, "DIR", 0, "Default: /usr/share/weather-util", 3 },
	{ 0 },
};

#define DEMO_SLOT(key, option, kind, min, max, member) \
	{ DEMO_OPTION_##key, option, { NUMBER_##kind, min, max }, offsetof(struct demo, member) }

static const struct number_slot demo_slots[] = {
	DEMO_SLOT(READINGS, "readings", COUNT, DEMO_CLIENTS_MAX, UINT64_C(1) << 31, plan.readings),
	DEMO_SLOT(OPS, "ops", COUNT, 1, UINT64_C(1) << 31, plan.ops),
	DEMO_SLOT(SIZE, "size", SIZE, 1, UINT64_C(1) << 46, size),
	DEMO_SLOT(SEED, "seed", COUNT, 0, UINT64_MAX / 2, plan.seed),
	{ 0 },
};

static error_t
demo_parse(int key, char *arg, struct argp_state *state)
{
	struct demo *d = state->input;

	if (number_take(demo_slots, key, arg, state))
		return 0;
	switch (key) {
	case 'j':
		d->common.json = true;
		return 0;
	case DEMO_OPTION_CLIENTS:
		d->plan.clients = (unsigned)number_option(
			state, "clients", arg,
			(struct number_range){ NUMBER_COUNT, 2, DEMO_CLIENTS_MAX });
		return 0;
	case DEMO_OPTION_IEEE:
		d->plan.ieee_dir = arg;
		return 0;
	case DEMO_OPTION_WEATHER:
		d->plan.weather_dir = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much: demo takes options only", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp demo_argp = {
	.options = demo_options,
	.parser = demo_parse,
	.doc = "Shows Farside at work: starts two memory nodes, loads the IEEE registry of device makers, the stations "
	       "and places of weather-util and a million generated readings from two client processes, changes the "
	       "readings from several more, kills one of them in the middle, and then verifies every record.\v"
	       "Needs the data of the Debian packages ieee-data and weather-util-data. Leaves nothing behind.",
};

/* Every source is there, so that what is missing is told at once. */
static int
demo_look(struct demo *d)
{
	char why[FAR_ERRMSG_MAX] = "";

	for (unsigned i = 0; demo_source_at(i); i++) {
		struct record_source *r;

		if (demo_source_open(&d->plan, demo_source_at(i), &r, why) != 0)
			return cli_error(&d->common, "%s", why);
		record_close(r);
	}
	if (demo_blocks_read(&d->plan, why) != 0)
		return cli_error(&d->common, "%s", why);
	return CLI_OK;
}

static int
demo_run(struct demo *d)
{
	static int (*const steps[])(struct demo * d) = {
		demo_look,
		demo_step_nodes,
		demo_step_load,
		demo_step_mixed,
		demo_step_verify,
	};
	int code = CLI_OK;

	for (size_t i = 0; i < FAR_LEN(steps) && code == CLI_OK; i++)
		code = cli_interrupted() ? CLI_SIGNAL : steps[i](d);
	demo_kill_all(d);
	embedded_close(d->nodes);
	if (code == CLI_SIGNAL)
		return cli_say_interrupted(&d->common);
	return code == CLI_OK ? demo_report(d) : code;
}

static int
cmd_demo(int argc, char **argv)
{
	struct demo d = {
		.common.command = "demo",
		.plan = {
			.ieee_dir = "/usr/share/ieee-data",
			.weather_dir = "/usr/share/weather-util",
			.readings = 1000000,
			.ops = 250000,
			.clients = 4,
			.seed = 1,
		},
		.size = (uint64_t)512 << 20,
	};
	int code;

	cli_parse(&demo_argp, argc, argv, &d);
	cli_catch_signals();
	d.slots = mmap(NULL, DEMO_CLIENTS_MAX * sizeof(*d.slots), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (d.slots == MAP_FAILED)
		return cli_error(&d.common, "mmap: %s", strerror(errno));
	code = demo_run(&d);
	demo_blocks_free(&d.plan.blocks);
	munmap(d.slots, DEMO_CLIENTS_MAX * sizeof(*d.slots));
	return cli_finish(&d.common, code);
}

const struct cli_command cli_demo = {
	.name = "demo",
	.summary = "see it at work on real data, with a client killed in the middle",
	.run = cmd_demo,
};
