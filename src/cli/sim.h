/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h -- what the parts of `farside sim` share. */
#ifndef FAR_CLI_SIM_H
#define FAR_CLI_SIM_H

#include "cli/cli.h"
#include "index/index.h"
#include "lab/schedule_sums.h"

#define SIM_TIME_MAX (UINT64_C(1000000) * 3600 * 1000000000) /* ns of a soak: a million hours */

enum {
	SIM_JOBS_MAX = 256,
	SIM_BAD_MAX = 64, /* seeds that are named */
};

struct sim_args {
	struct cli_common common; /* `json` is not used */
	const struct far_index_ops *design;
	uint64_t flags, seed, runs, tries;
	bool trace;
	const char *file;   /* a scenario */
	uint64_t time_ns;
	uint64_t jobs;
	const char *ledger;
};

/* `farside sim soak`. Returns an exit code. */
int sim_soak(const struct sim_args *a);

/* Appends a row to the table in `path`, which is made when it is not there. */
int sim_ledger_add(const struct sim_args *a, const struct schedule_sums *sum, double seconds);

#endif
