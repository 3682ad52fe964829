/* SPDX-License-Identifier: Apache-2.0 */
/* history.c -- judges a history in a file (lab/history.h tells the format). usage: history FILE; exits with 1 when it
 * cannot be. */
#include <inttypes.h>
#include <string.h>

#include "lab/history.h"

int
main(int argc, char **argv)
{
	FILE *in = argc == 2 ? strcmp(argv[1], "-") ? fopen(argv[1], "r") : stdin : NULL;
	struct history_report r;
	struct history h = { 0 };
	unsigned line = 0;
	int err;

	if (!in) {
		fprintf(stderr, "usage: history FILE\n");
		return 2;
	}
	err = history_read(&h, in, &line);
	if (!err)
		err = history_check(&h, &r);
	if (err) {
		fprintf(stderr, "%s:%u: %s\n", argv[1], line, far_strerror(err));
		return 2;
	}
	printf("%" PRIu64 " operations on %u keys (%u at most on one), %" PRIu64 " pending, %" PRIu64
	       " iterations that told %" PRIu64 " keys: %s\n",
	       r.ops, r.keys, r.most_ops, r.pending, r.scans, r.items, history_verdict_name(r.verdict));
	if (r.verdict != HISTORY_GOOD)
		history_print_key(&h, r.key, stdout);
	history_free(&h);
	fclose(in);
	return r.verdict != HISTORY_GOOD;
}
