/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenarios.c -- plays scenarios with every design: runs that once went wrong, or nearly so, and must be good for
 * ever.
 *
 * usage: scenarios FILE...
 */
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "lab/schedule.h"

static bool
scenario_is_good(struct schedule *s, const struct schedule_config *c, const struct far_index_ops *design)
{
	struct schedule_result r;
	int err = schedule_play(s, c, design, &r);

	if (err)
		printf("# %s\n", far_strerror(err));
	else if (r.verdict != SCHEDULE_GOOD)
		schedule_print(s, stdout);
	return !err && r.verdict == SCHEDULE_GOOD;
}

static bool
scenario_read(const char *path, struct schedule_config *c)
{
	FILE *in = fopen(path, "r");
	int bad = in ? schedule_config_read(c, in) : -FAR_ENOENT;

	if (in)
		fclose(in);
	if (bad)
		printf("# %s:%d\n", path, bad);
	return bad == 0;
}

int
main(int argc, char **argv)
{
	const struct far_index_ops *design;
	struct schedule *s;
	unsigned n = 0, failed = 0;

	if (argc < 2 || schedule_new(&s) != 0)
		return 2;
	for (int i = 1; i < argc; i++) {
		const char *slash = strrchr(argv[i], '/');
		const char *name = slash ? slash + 1 : argv[i];
		struct schedule_config c;
		bool read = scenario_read(argv[i], &c);

		for (unsigned d = 0; (design = far_index_at(d)); d++) {
			bool good = read && scenario_is_good(s, &c, design);

			failed += !good;
			printf("%sok %u %s: %.*s\n", good ? "" : "not ", ++n, design->name,
			       (int)strcspn(name, "."), name);
		}
	}
	schedule_free(s);
	printf("1..%u\n", n);
	return failed > 0;
}
