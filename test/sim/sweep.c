/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c -- every operation, crashed at each of its verbs.
 *
 * usage: sim_sweep [--seeds N] [--deed NAME] [--design NAME] [--full] [--print] [--wrong]
 *
 * A deed (src/lab/schedule_config.h) is played without a fault first: that tells which verbs of its client are its own.
 * Then it is played again once for each of these verbs and each point of it (before it, half of its words done, after
 * it), with the client dying there while two others work on the same keys and on those beside them. With the last of
 * the seeds it does not die, but stands still until long after it was fenced. Each run must hold all that
 * src/lab/schedule.h asks for, and more: nothing of the dead is left, memory adds up to the last byte, the table splits
 * once more, nobody waited for longer than SWEEP_WAIT leases, and the repair took no more than SWEEP_MEND verbs. Then:
 *
 *	second crash   who repairs the table dies, too, at some verb of it (--full: at each of them and each point), or
 *	               one of the two others does after the first one's lease; the next one has both to mend
 *	allocation     the k-th grant of memory is refused, once or from then on, for each k
 *
 * --wrong, in a build with mistakes (base/zoo.h), shows that two wrong repairs fail.
 * One TAP line per deed and design. --print tells configuration and history of the first run that is not good.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"
#include "base/rand.h"
#include "base/zoo.h"
#include "lab/schedule.h"

enum {
	SWEEP_SEEDS = 9,
	SWEEP_DRAWS = 64, /* seeds tried until enough of them do the deed */
	SWEEP_LEASE_NS = 500000,
	SWEEP_TICKS = 8,     /* per lease */
	SWEEP_WAIT = 3,      /* leases: one until the dead is noticed, and as long again; */
	SWEEP_WAIT_MORE = 2, /* and for the second one */
	SWEEP_MEND = 10000,  /* verbs */
	SWEEP_REFUSALS = 32,
	SWEEP_PAIRS = 100, /* verbs of a deed with second crashes; of longer deeds, so many at random */
	SWEEP_CLIENTS = 3,
};

struct sweep {
	struct schedule *s;
	const struct far_index_ops *design;
	unsigned deed, seeds;
	bool full, print, wrong;
	uint64_t zoo;
	unsigned printed;
	struct far_rng rng;
	/* Of one deed. */
	uint64_t points, good, pairs, twice, refusals;
	uint64_t most_mend, most_ns;
};

/* The same deed in other circumstances. */
static void
sweep_config(struct schedule_config *g, unsigned deed, uint64_t seed)
{
	static const uint64_t keep[] = { 0, 3, 6 }, fill[] = { 5, 12, 18, 21 };
	static const uint64_t min[] = { 640, 420, 900, 320 }, max[] = { 700, 470, 950, 350 };

	*g = (struct schedule_config){
		.seed = seed,
		.audit = 1,
		.nodes = deed == SCHEDULE_DEED_MOVE || seed % 4 == 3 ? 2 : 1,
		.clients = SWEEP_CLIENTS,
		.fibers = 1,
		.keys = 2,
		.fill = fill[seed / 2 % 4],
		.fresh = deed == SCHEDULE_DEED_SCAN ? SCHEDULE_FRESH : 0,
		.present = 2 | schedule_deed_wants_key(deed),
		.ops = { 4, 4 },
		.linger = 2,
		.grow = 1,
		.value_min = min[seed / 4 % 4],
		.value_max = max[seed / 4 % 4],
		.no_backoff = seed % 4 == 1,
		.lease_ns = SWEEP_LEASE_NS,
		.tick_ns = SWEEP_LEASE_NS / SWEEP_TICKS,
		.pace_ns = seed % 2 ? SWEEP_LEASE_NS / SWEEP_TICKS / 2 : 2000,
		.deed = deed,
		.former = deed == SCHEDULE_DEED_GRANT ? seed % SCHEDULE_FORMERS : 0,
		.keep = keep[seed % 3],
		.weak = seed / 2 % 2,
		.line = seed % 4 != 0,
		.gap = seed % 5 == 4,
	};
	if (deed == SCHEDULE_DEED_TAKEOVER)
		g->former = SCHEDULE_FORMER_DIED;
	if (deed == SCHEDULE_DEED_DOUBLE)
		g->fill = 14 + seed % 7;
	if (deed == SCHEDULE_DEED_SPLIT)
		g->fill = 30 + seed % 8;
}

/* What a run must hold beyond what every schedule must. */
static const char *
sweep_excess(const struct schedule_config *g, const struct schedule_result *r)
{
	uint64_t wait = SWEEP_WAIT + (g->second ? SWEEP_WAIT_MORE : 0);

	if (g->victim && r->faults.kills + r->faults.pauses == 0)
		return "nothing happened";
	if (r->most_ns > wait * SWEEP_LEASE_NS)
		return "an operation waited too long";
	if (r->mend_verbs > SWEEP_MEND)
		return "a costly repair";
	return NULL;
}

static bool
sweep_play(struct sweep *w, const struct schedule_config *g, struct schedule_result *r)
{
	int err = schedule_play(w->s, g, w->design, r);
	const char *excess;

	if (err) {
		fprintf(stderr, "sweep: %s\n", far_strerror(err));
		exit(2);
	}
	excess = sweep_excess(g, r);
	w->most_mend = far_max(w->most_mend, r->mend_verbs);
	w->most_ns = far_max(w->most_ns, r->most_ns);
	if (r->verdict == SCHEDULE_GOOD && !excess)
		return true;
	if (w->zoo)
		return false;
	printf("# seed %" PRIu64 " verb %" PRIu64 "/%" PRIu64 " then %" PRIu64 "@%" PRIu64 "/%" PRIu64
	       " refuse %" PRIu64 ": %s: %s %s\n",
	       g->seed, g->fuse, g->strike, g->second, g->second_fuse, g->second_strike, g->refuse,
	       schedule_verdict_name(r->verdict), r->why, excess ? excess : "");
	if (w->print && !w->printed++)
		schedule_print(w->s, stdout);
	return false;
}

static void
sweep_point(struct sweep *w, const struct schedule_config *g, struct schedule_result *r)
{
	w->points++;
	w->good += sweep_play(w, g, r);
}

/* One more client dies after `one` did; `r` tells how it went with one alone. */
static void
sweep_second(struct sweep *w, const struct schedule_config *one, const struct schedule_result *r)
{
	struct schedule_config g = *one;
	struct schedule_result two;
	uint64_t helper = far_rng_below(&w->rng, SWEEP_CLIENTS - 1), from = r->lingered[helper];

	for (uint64_t verb = 1; w->full && verb <= r->mend_verbs; verb++) {
		for (unsigned point = 0; point < FAR_SIM_POINTS; point++) {
			g.second = SWEEP_CLIENTS + 1;
			g.second_fuse = verb;
			g.second_strike = point;
			w->pairs++;
			sweep_point(w, &g, &two);
		}
	}
	if (far_rng_below(&w->rng, 3) && from && from < r->client_verbs[helper]) {
		g.second = helper + 1;
		g.second_fuse = from + 1 + far_rng_below(&w->rng, r->client_verbs[helper] - from);
	} else {
		g.second = SWEEP_CLIENTS + 1;
		g.second_fuse = 1 + far_rng_below(&w->rng, r->inspect_verbs);
	}
	g.second_strike = far_rng_below(&w->rng, FAR_SIM_POINTS);
	w->pairs++;
	sweep_point(w, &g, &two);
	w->twice += two.deaths + two.faults.pauses > 1;
}

static void
sweep_crashes(struct sweep *w, const struct schedule_config *base, uint64_t from, uint64_t to,
	      bool pauses)
{
	for (uint64_t verb = from + 1; verb <= to; verb++) {
		for (unsigned point = 0; point < FAR_SIM_POINTS; point++) {
			struct schedule_config g = *base;
			struct schedule_result r;

			g.victim = SWEEP_CLIENTS;
			g.fuse = verb;
			g.strike = 1 + point;
			g.fate = pauses ? FAR_SIM_PAUSE : FAR_SIM_KILL;
			/* In some, what the dead had in flight lands later. */
			g.fate_ns = pauses            ? SWEEP_WAIT * SWEEP_LEASE_NS
				    : g.seed % 4 == 2 ? SWEEP_LEASE_NS
						      : 0;
			sweep_point(w, &g, &r);
			if (w->full || far_rng_below(&w->rng, to - from) < SWEEP_PAIRS)
				sweep_second(w, &g, &r);
		}
	}
}

static void
sweep_refusals(struct sweep *w, const struct schedule_config *base)
{
	for (unsigned forever = 0; forever < 2; forever++) {
		struct schedule_result r = { .faults.refused = 1 };

		for (uint64_t k = 1; r.faults.refused && k <= SWEEP_REFUSALS; k++) {
			struct schedule_config g = *base;

			g.refuse = k;
			g.refuse_all = forever;
			w->refusals++;
			sweep_point(w, &g, &r);
		}
	}
}

/* All of one deed. Returns how many seeds did it. */
static unsigned
sweep_deed(struct sweep *w)
{
	unsigned n = 0;

	w->points = w->good = w->pairs = w->twice = w->refusals = w->most_mend = w->most_ns = 0;
	far_rng_seed(&w->rng, w->deed);
	for (uint64_t seed = 0; seed < SWEEP_DRAWS && n < w->seeds; seed++) {
		struct schedule_config g;
		struct schedule_result r;

		sweep_config(&g, w->deed, seed);
		g.zoo = w->zoo;
		if (!sweep_play(w, &g, &r)) {
			w->points++;
			return n;
		}
		/* Not every seed fills the table so that a deed comes about. */
		if (!r.deed_done || r.deed_to == r.deed_from)
			continue;
		n++;
		sweep_crashes(w, &g, r.deed_from, r.deed_to, w->seeds > 1 && n == w->seeds);
		sweep_refusals(w, &g);
	}
	return n;
}

/* With repairs that are wrong (base/zoo.h), some points must not be good. Returns how many mistakes were not seen. */
static int
sweep_wrong(struct sweep *w)
{
	static const struct {
		const char *name;
		uint64_t zoo;
		unsigned deed;
	} mistakes[] = {
		{ "unrecovered", ZOO_BIT(ZOO_SCAVENGE_UNRECOVERED), SCHEDULE_DEED_SPLIT },
		{ "frozen_twice", ZOO_BIT(ZOO_TAKEOVER_FAA), SCHEDULE_DEED_DOUBLE },
	};
	int missed = 0;

	w->design = far_index_find(NULL);
	w->seeds = 1;
	for (unsigned i = 0; i < FAR_LEN(mistakes); i++) {
		w->zoo = mistakes[i].zoo;
		w->deed = mistakes[i].deed;
		sweep_deed(w);
		missed += w->good == w->points;
		printf("%sok %u wrong_%s_shows_at_%" PRIu64 "_of_%" PRIu64 "_points\n",
		       w->good < w->points ? "" : "not ", i + 1, mistakes[i].name,
		       w->points - w->good, w->points);
	}
	printf("1..%zu\n", FAR_LEN(mistakes));
	return missed;
}

static bool
sweep_options(struct sweep *w, int argc, char **argv, const char **deed)
{
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--full"))
			w->full = true;
		else if (!strcmp(argv[i], "--print"))
			w->print = true;
		else if (!strcmp(argv[i], "--wrong") && ZOO_BUILT)
			w->wrong = true;
		else if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
			w->seeds = (unsigned)strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--deed") && i + 1 < argc)
			*deed = argv[++i];
		else if (!strcmp(argv[i], "--design") && i + 1 < argc)
			w->design = far_index_find(argv[++i]);
		else
			return false;
	}
	return w->seeds > 0 && w->seeds <= SWEEP_DRAWS;
}

int
main(int argc, char **argv)
{
	struct sweep w = { .seeds = SWEEP_SEEDS };
	const struct far_index_ops *only;
	uint64_t points = 0, good = 0;
	const char *deed = NULL;
	int at = 0;

	if (!sweep_options(&w, argc, argv, &deed) || schedule_new(&w.s) != 0) {
		fprintf(stderr, "usage: sim_sweep [--seeds N] [--deed NAME] [--design NAME] [--full] [--print]\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (w.wrong) {
		at = sweep_wrong(&w);
		schedule_free(w.s);
		return at > 0;
	}
	only = w.design;
	for (unsigned i = 0; (w.design = far_index_at(i)) != NULL; i++) {
		for (w.deed = 1; w.deed < SCHEDULE_DEEDS; w.deed++) {
			unsigned n;

			if ((only && only != w.design) || (deed && strcmp(deed, schedule_deed_name(w.deed)) != 0))
				continue;
			n = sweep_deed(&w);
			printf("# %u seeds, %" PRIu64 " second crashes (%" PRIu64 " struck), %" PRIu64
			       " refusals; repair <= %" PRIu64 " verbs, wait <= %" PRIu64 " us\n",
			       n, w.pairs, w.twice, w.refusals, w.most_mend, w.most_ns / 1000);
			printf("%sok %d %s_%s_%" PRIu64 "_points\n", w.good == w.points && n == w.seeds ? "" : "not ",
			       ++at, w.design->name, schedule_deed_name(w.deed), w.points);
			points += w.points + (n < w.seeds);
			good += w.good;
		}
	}
	schedule_free(w.s);
	printf("1..%d\nsweep: %" PRIu64 " points of %" PRIu64 "\n", at, good, points);
	return good != points || at == 0;
}
