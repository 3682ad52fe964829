/* SPDX-License-Identifier: Apache-2.0 */
/* sim_ledger.c -- the table of all soaks, one row each, written by the command and never by hand. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sim.h"

static const char ledger_head[] =
	"# Soaks of the simulator\n\n"
	"Each row is one `farside sim soak --ledger FILE`, which appends it: nothing here is written by hand. Counts add up\n"
	"over runs of the same protocol code. `killed`, `faults` (a node or a connection), `splits` (in flight) and `zombies`\n"
	"(fenced, and woke up) count the schedules that met them.\n\n"
	"| commit | design, flags | seeds | schedules | verbs | killed | faults | splits | zombies | schedules/s | not good |\n"
	"|---|---|---|---|---|---|---|---|---|---|---|\n";

/* The commit that lies here, else the program's version. */
static void
ledger_commit(char out[], size_t len)
{
	FILE *git = popen("git describe --always --dirty --abbrev=12 2>/dev/null", "r");

	snprintf(out, len, "%s", FAR_VERSION);
	if (!git)
		return;
	if (!fgets(out, (int)len, git))
		snprintf(out, len, "%s", FAR_VERSION);
	out[strcspn(out, "\n")] = 0;
	pclose(git);
}

int
sim_ledger_add(const struct sim_args *a, const struct schedule_sums *sum, double seconds)
{
	FILE *file = fopen(a->ledger, "a");
	char commit[64];
	bool ok;

	if (!file)
		return cli_error(&a->common, "%s: %s", a->ledger, strerror(errno));
	ledger_commit(commit, sizeof(commit));
	if (ftell(file) == 0)
		fputs(ledger_head, file);
	fprintf(file, "| %s | %s, %" PRIu64 " | %" PRIu64 "-%" PRIu64 " | %" PRIu64 " | %" PRIu64,
		commit, a->design->name, a->flags, a->seed, a->seed + sum->runs - 1, sum->runs,
		sum->verbs);
	fprintf(file,
		" | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %" PRIu64 " | %.0f | %" PRIu64 " |\n",
		sum->kinds[SCHEDULE_KIND_KILL], sum->kinds[SCHEDULE_KIND_FAULT],
		sum->kinds[SCHEDULE_KIND_SPLIT], sum->kinds[SCHEDULE_KIND_ZOMBIE],
		(double)sum->runs / seconds, sum->bad);
	ok = !ferror(file);
	if (fclose(file) != 0 || !ok)
		return cli_error(&a->common, "%s: %s", a->ledger, strerror(errno));
	return CLI_OK;
}
