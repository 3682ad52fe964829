/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_sums.c -- sums over schedules. */
#include "lab/schedule_sums.h"

#include <inttypes.h>

#include "base/base.h"

const char *
schedule_kind_name(unsigned kind)
{
	static const char *const names[SCHEDULE_KINDS] = {
		[SCHEDULE_KIND_KILL] = "client killed",
		[SCHEDULE_KIND_PAUSE] = "client paused",
		[SCHEDULE_KIND_PARK] = "chain parked",
		[SCHEDULE_KIND_BREAK] = "connection broken",
		[SCHEDULE_KIND_NODE] = "node down",
		[SCHEDULE_KIND_FAULT] = "node or connection",
		[SCHEDULE_KIND_EMPTY] = "node back empty",
		[SCHEDULE_KIND_KEPT] = "node back as it was",
		[SCHEDULE_KIND_REFUSED] = "grant refused",
		[SCHEDULE_KIND_LATE] = "late completion",
		[SCHEDULE_KIND_STRAY] = "stray landed",
		[SCHEDULE_KIND_DISCARDED] = "stray stopped",
		[SCHEDULE_KIND_REPEAT] = "write repeated",
		[SCHEDULE_KIND_FENCED] = "session fenced",
		[SCHEDULE_KIND_ZOMBIE] = "fenced zombie",
		[SCHEDULE_KIND_COMEBACK] = "client came back",
		[SCHEDULE_KIND_SPLIT] = "split in flight",
		[SCHEDULE_KIND_CALM] = "no trouble",
	};

	return kind < SCHEDULE_KINDS ? names[kind] : "?";
}

void
schedule_sums_add(struct schedule_sums *sum, uint64_t seed, const struct schedule_result *r)
{
	const struct far_sim_faults *f = &r->faults;
	const uint64_t met[SCHEDULE_KINDS] = {
		[SCHEDULE_KIND_KILL] = f->kills,
		[SCHEDULE_KIND_PAUSE] = f->pauses,
		[SCHEDULE_KIND_PARK] = f->parks,
		[SCHEDULE_KIND_BREAK] = f->breaks,
		[SCHEDULE_KIND_NODE] = f->downs,
		[SCHEDULE_KIND_FAULT] = f->breaks + f->downs,
		[SCHEDULE_KIND_EMPTY] = f->ups_empty,
		[SCHEDULE_KIND_KEPT] = f->ups_kept,
		[SCHEDULE_KIND_REFUSED] = f->refused,
		[SCHEDULE_KIND_LATE] = f->lates,
		[SCHEDULE_KIND_STRAY] = f->landed,
		[SCHEDULE_KIND_DISCARDED] = f->discarded,
		[SCHEDULE_KIND_REPEAT] = f->repeats,
		[SCHEDULE_KIND_FENCED] = f->fenced,
		[SCHEDULE_KIND_ZOMBIE] = f->zombies,
		[SCHEDULE_KIND_COMEBACK] = r->comebacks,
		[SCHEDULE_KIND_SPLIT] = r->overlaps,
	};
	bool calm = true;

	for (unsigned k = 0; k < SCHEDULE_KINDS; k++) {
		sum->kinds[k] += met[k] > 0;
		calm &= k == SCHEDULE_KIND_SPLIT || k == SCHEDULE_KIND_LATE || !met[k];
	}
	sum->kinds[SCHEDULE_KIND_CALM] += calm;
	sum->runs++;
	sum->bad += r->verdict != SCHEDULE_GOOD;
	sum->verbs += r->verbs;
	sum->steps += r->steps;
	sum->splits += r->splits;
	sum->ops += r->ops;
	sum->most_verbs = far_max(sum->most_verbs, r->most_verbs);
	sum->digest = far_mix64(sum->digest ^ r->hash) + seed;
}

void
schedule_sums_merge(struct schedule_sums *sum, const struct schedule_sums *more)
{
	for (unsigned k = 0; k < SCHEDULE_KINDS; k++)
		sum->kinds[k] += more->kinds[k];
	sum->runs += more->runs;
	sum->bad += more->bad;
	sum->verbs += more->verbs;
	sum->steps += more->steps;
	sum->splits += more->splits;
	sum->ops += more->ops;
	sum->most_verbs = far_max(sum->most_verbs, more->most_verbs);
}

void
schedule_sums_print(const struct schedule_sums *sum, const char *prefix, FILE *out)
{
	double n = sum->runs ? (double)sum->runs : 1;

	fprintf(out, "%sper schedule: %.1f operations, %.1f verbs, %.1f steps, %.2f splits\n",
		prefix, (double)sum->ops / n, (double)sum->verbs / n, (double)sum->steps / n,
		(double)sum->splits / n);
	fprintf(out, "%sverbs of an operation after the last fault: %" PRIu64 " at most\n", prefix,
		sum->most_verbs);
	for (unsigned k = 0; k < SCHEDULE_KINDS; k++)
		fprintf(out, "%s%-20s %10" PRIu64 "  %5.1f %%\n", prefix, schedule_kind_name(k),
			sum->kinds[k], 100.0 * (double)sum->kinds[k] / n);
}
