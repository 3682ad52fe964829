/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_sim.c -- `farside sim`: plays clients, memory nodes and a network in virtual time, and judges what happened.
 *
 *	run     plays what a seed draws, or a scenario, and prints it
 *	soak    plays as many as fit into a time, on several processors
 *	shrink  makes a run that fails as small as it can be
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"
#include "cli/commands.h"
#include "cli/number.h"
#include "cli/sim.h"
#include "lab/schedule_shrink.h"

/* Run ------------------------------------------------------------------------------------------------------- */

static void
sim_print_line(void *arg, const char *text)
{
	fprintf(arg, "%s\n", text);
}

/* The configuration of the command line: a scenario, or what the seed draws. */
static int
sim_configure(const struct sim_args *a, struct schedule_config *c)
{
	FILE *in;
	int bad;

	schedule_config_draw(c, a->seed, (unsigned)a->flags);
	if (!a->file)
		return CLI_OK;
	if (!(in = fopen(a->file, "r")))
		return cli_error(&a->common, "%s: %s", a->file, strerror(errno));
	bad = schedule_config_read(c, in);
	fclose(in);
	if (bad > 0)
		return cli_error(&a->common, "%s:%d: not a line of a scenario", a->file, bad);
	return bad ? cli_error(&a->common, "%s: makes no run", a->file) : CLI_OK;
}

/* What is to be played, and something that plays it. */
static int
sim_prepare(const struct sim_args *a, struct schedule_config *c, struct schedule **s)
{
	int code = sim_configure(a, c), err;

	if (code != CLI_OK)
		return code;
	err = schedule_new(s);
	return err ? cli_error(&a->common, "%s", far_strerror(err)) : CLI_OK;
}

static int
sim_run(const struct sim_args *a)
{
	struct schedule_config c;
	struct schedule_result r;
	struct schedule *s;
	int code = sim_prepare(a, &c, &s), err;

	if (code != CLI_OK)
		return code;
	if (a->trace)
		schedule_trace(s, sim_print_line, stdout);
	err = schedule_play(s, &c, a->design, &r);
	if (!err)
		schedule_print(s, stdout);
	schedule_free(s);
	if (err)
		return cli_error(&a->common, "%s", far_strerror(err));
	return r.verdict == SCHEDULE_GOOD ? CLI_OK : CLI_NO;
}

/* Shrink ---------------------------------------------------------------------------------------------------- */

static int
sim_shrink(const struct sim_args *a)
{
	struct schedule_shrink k = { .design = a->design,
				     .seeds = (unsigned)a->tries,
				     .stop = cli_interrupted };
	struct schedule_config c;
	struct schedule_result r;
	struct schedule *s;
	int code = sim_prepare(a, &c, &s), err;

	if (code != CLI_OK)
		return code;
	cli_catch_signals();
	err = schedule_shrink(s, &k, &c, &r);
	if (!err)
		schedule_print(s, stdout);
	schedule_free(s);
	if (err == -FAR_EINVAL) {
		printf("# this run is good: there is nothing to shrink\n");
		return CLI_OK;
	}
	if (err)
		return cli_error(&a->common, "%s", far_strerror(err));
	printf("# %" PRIu64 " runs played to get there\n", k.played);
	return CLI_NO;
}

/* Command --------------------------------------------------------------------------------------------------- */

enum sim_option {
	SIM_OPTION_TRACE = 256,
	SIM_OPTION_DESIGN,
	SIM_OPTION_FLAGS,
	SIM_OPTION_FILE,
	SIM_OPTION_TRIES,
	SIM_OPTION_TIME,
	SIM_OPTION_JOBS,
	SIM_OPTION_FROM,
	SIM_OPTION_RUNS,
	SIM_OPTION_LEDGER,
};

static const struct argp_option sim_options[] = {
	{ "design", SIM_OPTION_DESIGN, "NAME", 0, "Table design (default: race)", 1 },
	{ "flags", SIM_OPTION_FLAGS, "N", 0,
	  "What a seed may draw: sum of 1 crashes, 2 two nodes, 4 short leases, 8 memory is counted, 32 broken "
	  "connections and nodes; 16 plain instead; 64 WRITEs reordered, too (default: 47)",
	  1 },
	{ NULL, 0, NULL, 0, "run and shrink:", 2 },
	{ "seed", 's', "N", 0, "Plays what this seed draws (default: 1)", 2 },
	{ "file", SIM_OPTION_FILE, "FILE", 0, "Plays the scenario in this file", 2 },
	{ "trace", SIM_OPTION_TRACE, NULL, 0, "run: prints every step of the clients at work", 2 },
	{ "tries", SIM_OPTION_TRIES, "N", 0,
	  "shrink: seeds that are tried for each smaller run (default: 100)", 2 },
	{ NULL, 0, NULL, 0, "soak:", 3 },
	{ "time", SIM_OPTION_TIME, "TIME", 0, "How long, such as 90s, 10m, 2h (default: 1m)", 3 },
	{ "runs", SIM_OPTION_RUNS, "N", 0, "No more runs than that (default: no limit)", 3 },
	{ "jobs", SIM_OPTION_JOBS, "N", 0, "Processes (default: 1)", 3 },
	{ "from", SIM_OPTION_FROM, "N", 0, "First seed (default: 1)", 3 },
	{ "ledger", SIM_OPTION_LEDGER, "FILE", 0, "Appends a row to this table of all soaks", 3 },
	{ 0 },
};

#define SIM_SLOT(key, option, kind, min, max, member) \
	{ key, option, { NUMBER_##kind, min, max }, offsetof(struct sim_args, member) }

static const struct number_slot sim_slots[] = {
	SIM_SLOT(SIM_OPTION_FLAGS, "flags", PLAIN, 0, 127, flags),
	SIM_SLOT('s', "seed", COUNT, 0, UINT64_MAX / 2, seed),
	SIM_SLOT(SIM_OPTION_FROM, "from", COUNT, 0, UINT64_MAX / 2, seed),
	SIM_SLOT(SIM_OPTION_TRIES, "tries", COUNT, 0, 1000000, tries),
	SIM_SLOT(SIM_OPTION_RUNS, "runs", COUNT, 1, UINT64_MAX / 2, runs),
	SIM_SLOT(SIM_OPTION_JOBS, "jobs", COUNT, 1, SIM_JOBS_MAX, jobs),
	SIM_SLOT(SIM_OPTION_TIME, "time", TIME, 1, SIM_TIME_MAX, time_ns),
	{ 0 },
};

static error_t
sim_parse(int key, char *arg, struct argp_state *state)
{
	struct sim_args *a = state->input;

	if (number_take(sim_slots, key, arg, state))
		return 0;
	switch (key) {
	case SIM_OPTION_TRACE:
		a->trace = true;
		return 0;
	case SIM_OPTION_DESIGN:
		if (!(a->design = far_index_find(arg)))
			argp_error(state, "--design: there is no '%s'", arg);
		return 0;
	case SIM_OPTION_FILE:
		a->file = arg;
		return 0;
	case SIM_OPTION_LEDGER:
		a->ledger = arg;
		return 0;
	case ARGP_KEY_ARG:
		/* The verb; argp permutes, so it may come behind options. */
		if (a->common.command)
			argp_error(state,
				   "'%s' is too much: one of run, soak, shrink is all it takes",
				   arg);
		a->common.command = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp sim_argp = {
	.options = sim_options,
	.parser = sim_parse,
	.args_doc = "run\nsoak\nshrink",
	.doc = "Plays clients that fight for a few keys, with their memory nodes and a network that does its worst, in "
	       "virtual time, and judges what happened. A seed is a run: `run` plays one and prints it, `soak` plays many, "
	       "`shrink` looks for the smallest run that fails as one does.\v"
	       "Exit code 1: a run was not as it must be.",
};

static int
sim_command(int argc, char **argv)
{
	static const struct {
		const char *name, *title;
		int (*run)(const struct sim_args *a);
	} verbs[] = { { "run", "sim run", sim_run },
		      { "soak", "sim soak", sim_soak },
		      { "shrink", "sim shrink", sim_shrink } };
	struct sim_args a = { .design = far_index_find(NULL),
			      .flags = SCHEDULE_ALL,
			      .seed = 1,
			      .runs = UINT64_MAX / 2,
			      .tries = 100,
			      .time_ns = UINT64_C(60) * 1000000000,
			      .jobs = 1 };

	cli_parse(&sim_argp, argc, argv, &a);
	for (size_t i = 0; i < FAR_LEN(verbs); i++) {
		const char *verb = a.common.command;

		if (strcmp(verb, verbs[i].name) != 0)
			continue;
		a.common.command = verbs[i].title;
		return cli_finish(&a.common, verbs[i].run(&a));
	}
	fprintf(stderr, "farside sim: '%s' is none of run, soak, shrink\n", a.common.command);
	return CLI_USAGE;
}

const struct cli_command cli_sim = {
	.name = "sim",
	.summary = "play clients, nodes and faults in virtual time, and judge",
	.run = sim_command,
};
