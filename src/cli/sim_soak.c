/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_soak.c -- `farside sim soak`: many schedules in several processes.
 *
 * Each process has a world of its own and takes the next portion of seeds from a shared counter, so that what was
 * played is one range of seeds. One that crashes tells by its place in shared memory which seed it was at.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "cli/sim.h"

enum {
	SOAK_PORTION = 32,             /* seeds at a time */
	SOAK_LOOK_NS = 200 * 1000 * 1000,
	SOAK_TELL = 25,                /* looks between two lines of progress */
	SOAK_WHY = 320,
};

struct soak_job {
	_Atomic uint64_t at;   /* the seed that is being played */
	_Atomic uint64_t runs;
	struct schedule_sums sum; /* read when the process has ended */
	int err;
};

/* Shared by all processes. */
struct soak {
	_Atomic uint64_t next, end; /* seeds */
	_Atomic bool stop;
	_Atomic uint64_t bad_n;
	struct {
		uint64_t seed;
		char why[SOAK_WHY];
	} bad[SIM_BAD_MAX];
	struct soak_job jobs[];
};

static uint64_t
soak_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

static void
soak_note(struct soak *k, uint64_t seed, const char *what, const char *why)
{
	uint64_t i = atomic_fetch_add(&k->bad_n, 1);

	if (i >= SIM_BAD_MAX)
		return;
	k->bad[i].seed = seed;
	snprintf(k->bad[i].why, sizeof(k->bad[i].why), "%s: %s", what, why);
}

/* The life of a process. */
static void
soak_play(const struct sim_args *a, struct soak *k, struct soak_job *job)
{
	struct schedule_result r;
	struct schedule *s;

	if ((job->err = schedule_new(&s)) != 0)
		return;
	while (!atomic_load(&k->stop) && !job->err) {
		uint64_t seed = atomic_fetch_add(&k->next, SOAK_PORTION);
		uint64_t end = far_min(seed + SOAK_PORTION, atomic_load(&k->end));

		if (seed >= end)
			break;
		/* A portion is played to its end: what was played has no gaps. */
		for (; seed < end && !job->err; seed++) {
			atomic_store(&job->at, seed);
			if ((job->err = schedule_run(s, seed, a->design, (unsigned)a->flags, &r)) !=
			    0)
				break;
			schedule_sums_add(&job->sum, seed, &r);
			atomic_fetch_add(&job->runs, 1);
			if (r.verdict != SCHEDULE_GOOD)
				soak_note(k, seed, schedule_verdict_name(r.verdict), r.why);
		}
	}
	schedule_free(s);
}

static int
soak_start(const struct sim_args *a, struct soak *k, pid_t *pids)
{
	pid_t parent = getpid();

	fflush(NULL);
	for (unsigned i = 0; i < a->jobs; i++) {
		if ((pids[i] = fork()) < 0) {
			atomic_store(&k->stop, true);
			return cli_error(&a->common, "fork: %s", strerror(errno));
		}
		if (pids[i] > 0)
			continue;
		/* What a terminal or a supervisor sends to the whole group reaches everybody: the parent decides, and
		 * its portion is played to the end. When the parent dies of it, so does this process. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			soak_play(a, k, &k->jobs[i]);
		_exit(0);
	}
	return CLI_OK;
}

/* Reaps those that have ended; returns how many have not. */
static unsigned
soak_reap(const struct sim_args *a, struct soak *k, pid_t *pids)
{
	unsigned left = 0;

	for (unsigned i = 0; i < a->jobs; i++) {
		int status;

		if (pids[i] > 0 && waitpid(pids[i], &status, WNOHANG) == pids[i]) {
			pids[i] = 0;
			if (WIFSIGNALED(status)) {
				uint64_t seed = atomic_load(&k->jobs[i].at);

				soak_note(k, seed, "crash", strsignal(WTERMSIG(status)));
				/* The run is not in its sum, and the rest of its portion was not played. */
				k->jobs[i].sum.bad++;
			}
		}
		left += pids[i] > 0;
	}
	return left;
}

static void
soak_progress(const struct sim_args *a, struct soak *k, uint64_t since)
{
	uint64_t runs = 0;

	for (unsigned i = 0; i < a->jobs; i++)
		runs += atomic_load(&k->jobs[i].runs);
	fprintf(stderr, "farside sim soak: %" PRIu64 " runs, %" PRIu64 " not good, %.0f/s\n", runs,
		atomic_load(&k->bad_n), (double)runs * 1e9 / (double)(soak_now() - since + 1));
}

static void
soak_wait(const struct sim_args *a, struct soak *k, pid_t *pids, uint64_t since)
{
	for (unsigned look = 1; soak_reap(a, k, pids) > 0; look++) {
		if (cli_interrupted() || soak_now() - since >= a->time_ns)
			atomic_store(&k->stop, true);
		if (look % SOAK_TELL == 0 && cli_shows_progress())
			soak_progress(a, k, since);
		far_clock_real.idle(far_clock_real.arg, soak_now() + SOAK_LOOK_NS);
	}
}

/* What came of it. */
static int
soak_report(const struct sim_args *a, struct soak *k, double seconds)
{
	struct schedule_sums sum = { .runs = 0 };
	uint64_t bad = atomic_load(&k->bad_n);
	int code = CLI_OK;

	for (unsigned i = 0; i < a->jobs; i++) {
		schedule_sums_merge(&sum, &k->jobs[i].sum);
		if (k->jobs[i].err)
			code = cli_error(&a->common, "%s", far_strerror(k->jobs[i].err));
	}
	printf("%s: %" PRIu64 " runs from seed %" PRIu64 ", %.0f/s, %" PRIu64 " not good\n",
	       a->design->name, sum.runs, a->seed, (double)sum.runs / seconds, sum.bad);
	schedule_sums_print(&sum, "", stdout);
	for (uint64_t i = 0; i < far_min(bad, SIM_BAD_MAX); i++)
		printf("seed %" PRIu64 ": %s\n", k->bad[i].seed, k->bad[i].why);
	if (bad > SIM_BAD_MAX)
		printf("and %" PRIu64 " more\n", bad - SIM_BAD_MAX);
	if (code == CLI_OK && a->ledger)
		code = sim_ledger_add(a, &sum, seconds);
	if (code == CLI_OK && bad)
		return CLI_NO;
	return code == CLI_OK && cli_interrupted() ? cli_say_interrupted(&a->common) : code;
}

int
sim_soak(const struct sim_args *a)
{
	size_t len = sizeof(struct soak) + a->jobs * sizeof(struct soak_job);
	struct soak *k = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[SIM_JOBS_MAX] = { 0 };
	uint64_t since = soak_now();
	int code;

	if (k == MAP_FAILED)
		return cli_error(&a->common, "%s", strerror(errno));
	atomic_store(&k->next, a->seed);
	atomic_store(&k->end, a->seed + a->runs);
	cli_catch_signals();
	code = soak_start(a, k, pids);
	soak_wait(a, k, pids, since);
	if (code == CLI_OK)
		code = soak_report(a, k, (double)(soak_now() - since) * 1e-9 + 1e-9);
	munmap(k, len);
	return code;
}
