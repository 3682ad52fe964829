/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- the table of subcommands, help, and the choice between them. */
#include <argp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/commands.h"

static const struct cli_command *const main_commands[] = {
	&cli_node,
	&cli_create, &cli_drop, &cli_ls,   &cli_put,  &cli_get,   &cli_del,
	&cli_load,   &cli_dump, &cli_scan, &cli_stat, &cli_check,
	&cli_bench, &cli_demo, &cli_sim,
	NULL, /* ends the table */
};

static void
main_help(FILE *to)
{
	fprintf(to, "Usage: farside COMMAND [OPTION...] [ARGUMENT...]\n"
		    "Tables in the memory of other machines.\n\n");
	for (size_t i = 0; main_commands[i]; i++)
		fprintf(to, "  %-10s %s\n", main_commands[i]->name, main_commands[i]->summary);
	fprintf(to, "  %-10s %s\n", "help",
		"say what a command does and takes: farside help COMMAND");
	fprintf(to,
		"\nMost commands take --pool URI (or the environment variable FARSIDE_POOL), such as\n"
		"shm:/run/farside/n0,/run/farside/n1, and --json.\n\n"
		"Exit codes: 0 done; 1 the answer is no: not found, exists already, version changed, or `check`\n"
		"found violations; 2 wrong command line; 3 the pool or the system failed; 128 + N ended by signal N.\n");
}

/* How many letters must be added, removed, changed or swapped with a neighbour to turn `a` into `b`, at most 16
 * letters each: a full table of Levenshtein distances with transpositions. */
static unsigned
main_distance(const char *a, const char *b)
{
	unsigned d[18][18], an = (unsigned)strnlen(a, 16), bn = (unsigned)strnlen(b, 16);

	for (unsigned i = 0; i <= an; i++) {
		for (unsigned k = 0; k <= bn; k++) {
			unsigned best;

			if (i == 0 || k == 0) {
				d[i][k] = i + k;
				continue;
			}
			best = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
			best = (unsigned)far_min(best, far_min(d[i - 1][k], d[i][k - 1]) + 1);
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				best = (unsigned)far_min(best, d[i - 2][k - 2] + 1);
			d[i][k] = best;
		}
	}
	return d[an][bn];
}

static int
main_unknown(const char *name)
{
	const char *best = NULL;
	unsigned least = 3;

	for (size_t i = 0; main_commands[i]; i++) {
		unsigned d = main_distance(name, main_commands[i]->name);

		/* A guess keeps a letter of what was written. */
		if (d < least && d < strlen(name)) {
			least = d;
			best = main_commands[i]->name;
		}
	}
	if (name[0] == '-') {
		fprintf(stderr,
			"farside: the command comes first, and '%s' behind it; see 'farside --help'\n",
			name);
		return CLI_USAGE;
	}
	fprintf(stderr, "farside: '%s' is not a command; ", name);
	if (best)
		fprintf(stderr, "did you mean '%s'?\n", best);
	else
		fprintf(stderr, "see 'farside --help'\n");
	return CLI_USAGE;
}

static const struct cli_command *
main_find(const char *name)
{
	for (size_t i = 0; main_commands[i]; i++) {
		if (strcmp(main_commands[i]->name, name) == 0)
			return main_commands[i];
	}
	return NULL;
}

static int
main_run(const char *name, int argc, char **argv)
{
	const struct cli_command *command = main_find(name);
	char title[64];

	if (!command)
		return main_unknown(name);
	snprintf(title, sizeof(title), "farside %s", command->name);
	argv[0] = title;
	return command->run(argc, argv);
}

/* A memory node's region is a mapping here. When somebody cuts its file, or the disk fails, what was in those pages is
 * gone, and no instruction that needs it can go on: say so and end. A misaligned access is a bug, and crashes. */
static void
main_bus_error(int sig, siginfo_t *info, void *context)
{
	static const char text[] =
		"farside: a memory node's region cannot be read any more: its file was cut, or its disk fails\n";

	(void)context;
	if (info->si_code != BUS_ADRERR) {
		signal(sig, SIG_DFL);
		return;
	}
	/* There is nobody to tell when that fails, too. */
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(CLI_FAIL);
	_exit(CLI_FAIL);
}

int
main(int argc, char **argv)
{
	const struct sigaction bus = { .sa_sigaction = main_bus_error, .sa_flags = SA_SIGINFO };
	static const struct cli_common none = { .command = NULL };
	const char *name = argc > 1 ? argv[1] : NULL;
	char help[] = "--help", *help_argv[] = { argv[0], help, NULL };

	argp_err_exit_status = CLI_USAGE;
	/* A reader that went away shows as a failed write, which says so, instead of a silent end. */
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGBUS, &bus, NULL);
	if (!name) {
		main_help(stderr);
		return CLI_USAGE;
	}
	if (strcmp(name, "help") == 0 && argc > 2 && strcmp(argv[2], "help") != 0 &&
	    strcmp(argv[2], "--help") != 0)
		return main_run(argv[2], 2, help_argv);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		main_help(stdout);
		return cli_finish(&none, CLI_OK);
	}
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
		printf("farside %s\n", FAR_VERSION);
		return cli_finish(&none, CLI_OK);
	}
	return main_run(name, argc - 1, argv + 1);
}
