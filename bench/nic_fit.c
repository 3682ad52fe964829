/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic_fit.c -- the performance model beside published figures.
 *
 *	nic_fit [cards|race|all]     default: cards and race
 *
 * Prints a table and exits with 1 when a figure that the model is held to is out of its bounds, or two of them are in
 * the wrong order. "fitted" figures were used to choose constants of the profile, "predicted" ones were not; where no
 * bound is given the model is not held to the figure. Everything is virtual time: the output is the same everywhere.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"
#include "lab/bench.h"
#include "lab/profile.h"
#include "lab/verbs.h"

enum fit_use { PREDICTED, FITTED };

struct fit_figure {
	const char *what;
	double measured;  /* million per second, or us */
	double bound;     /* at most this factor off; 0: told only */
	enum fit_use use;
};

static unsigned fit_failures;

static void
fit_head(const char *title, const char *source)
{
	printf("\n%s\n# %s\n%-58s %9s %9s %6s  %-9s %s\n", title, source, "", "measured", "model",
	       "ratio", "", "bound");
}

static void
fit_tell(const struct fit_figure *f, double model)
{
	double ratio = model / f->measured;
	bool bad = f->bound > 0 && !(ratio <= f->bound && ratio >= 1 / f->bound);

	printf("%-58s %9.3f %9.3f %6.2f  %-9s", f->what, f->measured, model, ratio,
	       f->use == FITTED ? "fitted" : "predicted");
	if (f->bound > 0)
		printf(" %.2f%s", f->bound, bad ? " FAILED" : "");
	printf("\n");
	fflush(stdout);
	fit_failures += bad;
}

static void
fit_profile(const char *name, struct nic_profile *p)
{
	char message[512];

	if (profile_load(name, p, message, sizeof(message)) == 0)
		return;
	fprintf(stderr, "nic_fit: %s\n", message);
	exit(2);
}

/* Cards ------------------------------------------------------------------------------------------------------- */

struct fit_card {
	struct fit_figure figure;
	struct verbs_load load;
	bool latency;
};

/* A node's card under READs from many machines. */
#define FIT_MANY(size) { .len = (size), .machines = 15, .threads = 8, .depth = 8 }
/* A client's card: 96 threads of one machine. */
#define FIT_ONE(...) { .machines = 1, .threads = 96, __VA_ARGS__ }
/* One connection over TCP. */
#define FIT_TCP(size, n) { .len = (size), .machines = 1, .threads = 1, .depth = (n), .ns = 2000000 }

static const struct fit_card fit_cx4[] = {
	{ { "READ of 8 B, million/s", 107, 1.15, FITTED }, FIT_MANY(8), false },
	{ { "READ of 16 B", 114, 1.15, FITTED }, FIT_MANY(16), false },
	{ { "READ of 64 B", 74.9, 1.15, FITTED }, FIT_MANY(64), false },
	{ { "READ of 128 B", 59.5, 1.15, FITTED }, FIT_MANY(128), false },
	{ { "READ of 256 B", 37.0, 1.15, FITTED }, FIT_MANY(256), false },
	{ { "READ of 384 B", 26.7, 1.15, FITTED }, FIT_MANY(384), false },
	{ { "READ of 1024 B", 11.1, 1.15, FITTED }, FIT_MANY(1024), false },
	{ { "a READ of 384 B alone, us (three dependent ones: 6.0)", 2.0, 1.15, FITTED },
	  { .len = 384, .machines = 1, .threads = 1, .depth = 1 },
	  true },
};

static const struct fit_card fit_cx6[] = {
	{ { "READ of 8 B, throttled, million/s", 110, 1.15, FITTED },
	  FIT_ONE(.len = 8, .depth = 32),
	  false },
	{ { "the same, unbounded (published: 66 to 81)", 73.1, 1.15, FITTED },
	  FIT_ONE(.len = 8, .depth = 32, .credits = UINT_MAX),
	  false },
	{ { "the same, one queue pair for all", 0.25, 1.5, FITTED },
	  FIT_ONE(.len = 8, .depth = 8, .credits = UINT_MAX, .queues = 1, .ns = 4000000),
	  false },
	{ { "one thread", 1.9, 1.15, FITTED },
	  { .len = 8, .machines = 1, .threads = 1, .depth = 8, .credits = UINT_MAX },
	  false },
};

static const struct fit_card fit_cx5[] = {
	{ { "atomics at independent words, million/s", 50, 1.15, FITTED },
	  FIT_ONE(.kind = VERBS_FAA, .depth = 8),
	  false },
	{ { "atomics at one word", 3, 1.15, FITTED },
	  FIT_ONE(.kind = VERBS_FAA_SAME, .depth = 8),
	  false },
};

static const struct fit_card fit_tcp[] = {
	{ { "READ of 64 B, depth 1, million/s", 0.149, 1.25, FITTED }, FIT_TCP(64, 1), false },
	{ { "READ of 64 B, depth 16", 1.996, 1.25, FITTED }, FIT_TCP(64, 16), false },
	{ { "READ of 64 B, depth 64", 5.853, 1.25, FITTED }, FIT_TCP(64, 64), false },
	{ { "READ of 256 B, depth 1", 0.139, 1.25, PREDICTED }, FIT_TCP(256, 1), false },
	{ { "READ of 256 B, depth 16", 1.765, 1.25, PREDICTED }, FIT_TCP(256, 16), false },
	{ { "READ of 256 B, depth 64", 4.720, 1.25, PREDICTED }, FIT_TCP(256, 64), false },
	{ { "READ of 4 KiB, depth 1", 0.119, 1.25, PREDICTED }, FIT_TCP(4096, 1), false },
	{ { "READ of 4 KiB, depth 16", 0.656, 0, PREDICTED }, FIT_TCP(4096, 16), false },
	{ { "READ of 4 KiB, depth 64", 1.048, 1.25, FITTED }, FIT_TCP(4096, 64), false },
};

static void
fit_cards(const char *profile, const struct fit_card *cards, size_t n)
{
	struct nic_profile p;

	fit_profile(profile, &p);
	for (size_t i = 0; i < n; i++) {
		struct verbs_result r;

		FAR_ASSERT(verbs_run(&p, &cards[i].load, &r) == 0);
		fit_tell(&cards[i].figure, cards[i].latency ? r.mean_ns * 1e-3 : r.rate * 1e-6);
	}
}

static void
fit_all_cards(void)
{
	fit_head("cx4-100: one port of a memory node",
		 "XStore (OSDI 2020), measurements in its artifact");
	fit_cards("cx4-100", fit_cx4, FAR_LEN(fit_cx4));
	fit_head("cx6-200: one machine of 96 threads",
		 "SMART (ASPLOS 2024), measurements in its artifact");
	fit_cards("cx6-200", fit_cx6, FAR_LEN(fit_cx6));
	fit_head("cx5-100: one machine of 96 threads", "RCuckoo (ATC 2025), text");
	fit_cards("cx5-100", fit_cx5, FAR_LEN(fit_cx5));
	fit_head("tcp: one connection to a busy process, loopback",
		 "a prototype of the TCP fabric on two cores of this project's build machine");
	fit_cards("tcp", fit_tcp, FAR_LEN(fit_tcp));
}

/* RACE -------------------------------------------------------------------------------------------------------- */

enum fit_switches {
	FIT_BACKOFF = 1,
	FIT_CREDITS = 2,
	FIT_OWN_QP = 4,
	FIT_FULL = 7,
};

struct fit_race {
	struct fit_figure figure;
	const char *workload;
	unsigned threads, switches;
	uint64_t warmup, ops; /* thousands */
};

/* Long enough warmed up that everybody stands where contention puts him. */
static const struct fit_race fit_race[] = {
	{ { "YCSB-A, plain", 0.201, 1.5, FITTED }, "A", 96, 0, 100, 40 },
	{ { "YCSB-B, plain", 5.128, 1.5, FITTED }, "B", 96, 0, 400, 400 },
	{ { "YCSB-C, plain", 6.455, 1.5, FITTED }, "C", 96, 0, 100, 200 },
	{ { "YCSB-A, throttled, back-off, own queue pairs", 5.234, 1.5, FITTED },
	  "A",
	  96,
	  FIT_FULL,
	  400,
	  600 },
	{ { "YCSB-B, the same", 20.882, 1.5, PREDICTED }, "B", 96, FIT_FULL, 400, 400 },
	{ { "YCSB-C, the same", 23.856, 1.5, FITTED }, "C", 96, FIT_FULL, 100, 400 },
};

/* Steps between the two, and the numbers of threads at which the plain one was best. */
static const struct fit_race fit_steps[] = {
	{ { "YCSB-A, own queue pairs", 0.193, 0, PREDICTED }, "A", 96, FIT_OWN_QP, 100, 40 },
	{ { "YCSB-A, and throttled", 0.226, 0, PREDICTED },
	  "A",
	  96,
	  FIT_OWN_QP | FIT_CREDITS,
	  100,
	  40 },
	{ { "YCSB-B, own queue pairs", 3.064, 0, PREDICTED }, "B", 96, FIT_OWN_QP, 1500, 500 },
	{ { "YCSB-B, and throttled", 9.467, 0, PREDICTED },
	  "B",
	  96,
	  FIT_OWN_QP | FIT_CREDITS,
	  1500,
	  500 },
	{ { "YCSB-C, own queue pairs", 23.942, 0, PREDICTED }, "C", 96, FIT_OWN_QP, 100, 400 },
	{ { "YCSB-C, and throttled", 23.886, 0, PREDICTED },
	  "C",
	  96,
	  FIT_OWN_QP | FIT_CREDITS,
	  100,
	  400 },
	{ { "YCSB-A, plain, 8 threads", 2.80, 0, PREDICTED }, "A", 8, 0, 100, 100 },
	{ { "YCSB-B, plain, 48 threads", 11.505, 0, PREDICTED }, "B", 48, 0, 200, 200 },
	{ { "YCSB-C, plain, 48 threads", 11.502, 0, PREDICTED }, "C", 48, 0, 100, 200 },
};

enum {
	FIT_KEYS = 1000000,
	FIT_ITEMS = 100000000, /* keys of the published runs: popularity is drawn among so many, */
	FIT_FOOTPRINT = 100,   /* and the tables stand for ones of that size */
	FIT_REGION = 512 << 20,
};

static double
fit_one_race(const struct nic_profile *p, const struct fit_race *f)
{
	const struct bench_sim_opts sim = {
		.profile = p,
		.nodes = 2,
		.region_len = FIT_REGION,
		.machines = 1,
		.queues = (unsigned)p->queues,
		.footprint = FIT_FOOTPRINT,
		.warmup = f->warmup * 1000,
	};
	struct bench_opts o = {
		.table = "bench",
		.sim = &sim,
		.clients = f->threads,
		.depth = 8,
		.no_backoff = !(f->switches & FIT_BACKOFF),
		.no_credits = !(f->switches & FIT_CREDITS),
		.shared_qp = !(f->switches & FIT_OWN_QP),
		.seed = 1,
	};
	struct bench_result *r = malloc(sizeof(*r));
	double rate;

	FAR_ASSERT(r && workload_find(f->workload, &o.spec) == 0);
	o.spec.keys = FIT_KEYS;
	o.spec.items = FIT_ITEMS;
	o.spec.value_len = 8;
	o.spec.ops = f->ops * 1000;
	if (bench_run(&o, r) != 0) {
		fprintf(stderr, "nic_fit: %s\n", r->message);
		exit(2);
	}
	rate = bench_rate(r) * 1e-6;
	free(r);
	return rate;
}

/* Whoever was faster in the publication must be faster here. */
static void
fit_rank(const struct fit_race *f, const double *model, size_t n)
{
	for (size_t i = 0; i < n * n; i++) {
		const struct fit_figure *fast = &f[i / n].figure, *slow = &f[i % n].figure;

		if (fast->measured <= slow->measured || model[i / n] > model[i % n])
			continue;
		printf("FAILED: '%s' is not faster than '%s'\n", fast->what, slow->what);
		fit_failures++;
	}
}

static void
fit_races(const char *title, const struct fit_race *f, size_t n, bool ranked)
{
	double model[FAR_LEN(fit_steps)];
	struct nic_profile p;

	FAR_ASSERT(n <= FAR_LEN(model));
	fit_profile("cx6-200", &p);
	fit_head(
		title,
		"SMART (ASPLOS 2024), measurements in its artifact; two memory nodes, million/s");
	for (size_t i = 0; i < n; i++) {
		model[i] = fit_one_race(&p, &f[i]);
		fit_tell(&f[i].figure, model[i]);
	}
	if (ranked)
		fit_rank(f, model, n);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "race") != 0)
		fit_all_cards();
	if (strcmp(what, "cards") != 0)
		fit_races("RACE, 96 threads of 8 fibers", fit_race, FAR_LEN(fit_race), true);
	if (strcmp(what, "all") == 0)
		fit_races("RACE, in between", fit_steps, FAR_LEN(fit_steps), false);
	printf("\n%u figures out of bounds\n", fit_failures);
	return fit_failures != 0;
}
