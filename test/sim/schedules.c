/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedules.c -- runs schedules from the command line.
 *
 * usage: sim_schedules [FIRST [N [FLAGS [DESIGN]]]]
 *
 * Prints configuration and history of the first schedule that is not good, a line for each other one, and the digest
 * of all trace hashes, which is the same for every build of the same source. Exits with 1 when one was not good.
 */
#include <inttypes.h>
#include <stdlib.h>

#include <farside/error.h>

#include "base/base.h"
#include "lab/schedule_sums.h"

static int
schedules_run(struct schedule *s, uint64_t seed, unsigned flags, const struct far_index_ops *design,
	      struct schedule_sums *sum)
{
	struct schedule_result r;
	int err = schedule_run(s, seed, design, flags, &r);

	if (err)
		return err;
	schedule_sums_add(sum, seed, &r);
	if (r.verdict == SCHEDULE_GOOD)
		return 0;
	if (sum->bad == 1)
		schedule_print(s, stdout);
	else
		printf("seed %" PRIu64 ": %s: %s\n", seed, schedule_verdict_name(r.verdict), r.why);
	return 0;
}

int
main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, n = argc > 2 ? strtoull(argv[2], NULL, 0) : 1000;
	unsigned flags = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 0) : SCHEDULE_ALL;
	const struct far_index_ops *design = far_index_find(argc > 4 ? argv[4] : NULL);
	struct schedule_sums sum = { .digest = 0 };
	struct schedule *s;

	if (!design || n == 0 || schedule_new(&s) != 0) {
		fprintf(stderr, "usage: sim_schedules [FIRST [N [FLAGS [DESIGN]]]]\n");
		return 2;
	}
	for (uint64_t i = 0; i < n; i++) {
		int err = schedules_run(s, first + i, flags, design, &sum);

		if (err) {
			fprintf(stderr, "seed %" PRIu64 ": %s\n", first + i, far_strerror(err));
			return 2;
		}
	}
	schedule_free(s);
	schedule_sums_print(&sum, "# ", stdout);
	printf("%s: schedules %" PRIu64 " to %" PRIu64 ": %" PRIu64 " not good, digest %016" PRIx64 "\n", design->name,
	       first, first + n - 1, sum.bad, sum.digest);
	return sum.bad > 0;
}
