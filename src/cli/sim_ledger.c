/* SPDX-License-Identifier: Apache-2.0 */
/* sim_ledger.c -- the table of all soaks, one row each, written by the command and never by hand. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim.h"

static const char ledger_head[] =
	"# Soaks of the simulator\n\n"
	"Each row is one `farside sim soak --ledger FILE`, which appends it: nothing here is written by hand. `protocol` is a\n"
	"digest of what the schedules play, the sources of src/pool, src/index/common and the design, without tests; counts add\n"
	"up over the rows that have it in common. `killed`, `faults` (a node or a connection), `splits` (in flight) and\n"
	"`zombies` (fenced, and woke up) count the schedules that met them.\n\n"
	"| protocol | commit | design, flags | seeds | schedules | verbs | killed | faults | splits | zombies | schedules/s | not good |\n"
	"|---|---|---|---|---|---|---|---|---|---|---|---|\n";

enum { LEDGER_WORD = 64, LEDGER_LINE = 1024, LEDGER_SCHEDULES = 5 /* column, the first is 1 */ };

/* The first line that a command prints about the checkout that lies here, else the program's version. */
static void
ledger_ask(const char *command, char out[static LEDGER_WORD])
{
	FILE *git = popen(command, "r");
	bool told = git && fgets(out, LEDGER_WORD, git);

	if (git && pclose(git) != 0)
		told = false;
	if (!told)
		snprintf(out, LEDGER_WORD, "%s", FAR_VERSION);
	out[strcspn(out, "\n")] = 0;
}

/* A digest of what schedules of a design play. */
static void
ledger_protocol(const char *design, char out[static LEDGER_WORD])
{
	char command[LEDGER_LINE];

	snprintf(command, sizeof(command),
		 "git rev-parse -q --verify HEAD >/dev/null 2>&1 &&"
		 " git ls-tree -r HEAD:src pool index/common index/%s | grep '\\.[ch]$' |"
		 " grep -v '_test\\.\\|rig\\.' | git hash-object --stdin | cut -c1-12",
		 design);
	ledger_ask(command, out);
}

/* The schedules of all rows of that protocol. */
static uint64_t
ledger_total(FILE *file, const char *protocol)
{
	char line[LEDGER_LINE];
	uint64_t total = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		char *at = line;

		if (strncmp(line, "| ", 2) != 0 ||
		    strncmp(line + 2, protocol, strlen(protocol)) != 0)
			continue;
		for (unsigned i = 0; i < LEDGER_SCHEDULES && at; i++)
			at = strchr(at + (i > 0), '|');
		total += at ? strtoull(at + 1, NULL, 10) : 0;
	}
	return total;
}

int
sim_ledger_add(const struct sim_args *a, const struct schedule_sums *sum, double seconds)
{
	FILE *file = fopen(a->ledger, "a+");
	char commit[LEDGER_WORD], protocol[LEDGER_WORD];
	uint64_t total;
	bool ok;

	if (!file)
		return cli_error(&a->common, "%s: %s", a->ledger, strerror(errno));
	ledger_ask("git describe --always --dirty --abbrev=12 2>/dev/null", commit);
	ledger_protocol(a->design->name, protocol);
	fseek(file, 0, SEEK_END);
	if (ftell(file) == 0)
		fputs(ledger_head, file);
	fprintf(file,
		"| %s | %s | %s, %" PRIu64 " | %" PRIu64 "-%" PRIu64 " | %" PRIu64 " | %" PRIu64,
		protocol, commit, a->design->name, a->flags, a->seed, a->seed + sum->runs - 1,
		sum->runs, sum->verbs);
	fprintf(file,
		" | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %.0f | %" PRIu64 " |\n",
		sum->kinds[SCHEDULE_KIND_KILL], sum->kinds[SCHEDULE_KIND_FAULT],
		sum->kinds[SCHEDULE_KIND_SPLIT], sum->kinds[SCHEDULE_KIND_ZOMBIE],
		(double)sum->runs / seconds, sum->bad);
	total = ledger_total(file, protocol);
	ok = !ferror(file);
	if (fclose(file) != 0 || !ok)
		return cli_error(&a->common, "%s: %s", a->ledger, strerror(errno));
	printf("%s: %" PRIu64 " schedules of this protocol code\n", a->ledger, total);
	return CLI_OK;
}
