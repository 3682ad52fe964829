/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zoo.c -- makes each mistake of base/zoo.h on purpose, and shows that schedules find it (doc/zoo.md).
 *
 * usage: sim_zoo [--soak] [--jobs N] [--only NAME] [FILE...]
 *        sim_zoo --show NAME SEED
 *
 * A case per mistake: schedules from seed ZOO_FIRST on are played with it until one is judged wrong, or an assertion
 * ends the program, within so many schedules and seconds. Then the code as it is must be judged right on all these
 * seeds. The last case looks for the mistakes' names in FILEs, shipped ones, where none may be, and in this program,
 * where all must be.
 *
 * A hunt is a process, since an assertion ends it; it tells what it found in shared memory. Seconds are those of the
 * processor, so that a busy machine does not matter. --show prints the run of one seed.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "base/zoo.h"
#include "lab/schedule.h"

enum {
	ZOO_FIRST = 1, /* seed */
	ZOO_SCHEDULES = 200000,
	ZOO_SECONDS = 20,
	ZOO_SOAK_SCHEDULES = 20000000,
	ZOO_SOAK_SECONDS = 3600,
	ZOO_HANG_SECONDS = 30, /* of one schedule: it does not end */
	ZOO_JOBS_MAX = 16,
	ZOO_HUNTS = 2 * ZOO_BUGS + ZOO_JOBS_MAX,
};

/* Most hunts play what any seed draws. Where that rarely meets what a mistake needs to show, some of it is set. */
#define BUG(name)           [ZOO_##name] = { #name, "", false }
#define BUG_IN(name, focus) [ZOO_##name] = { #name, focus, false }
#define RARE(name)          [ZOO_##name] = { #name, "", true }

#define ZOO_CALM  "victim 0;fuse 0;fate 0;fate_ns 0;breaker 0;break_fuse 0;outage 0;refuse 0;freeze_ns 0;"
#define ZOO_TICKS "lease_ns 500000;tick_ns 50000;pace_ns 50000;"
/* The first client dies in the middle of a split. */
#define ZOO_DEATH "victim 1;fuse 200;fate 0;fate_ns 0;breaker 0;break_fuse 0;outage 0;fresh 24;fill 19;hash 2;"

/* Nobody dies or stands still: completions that come late are all the trouble. */
#define ZOO_LATE  ZOO_CALM "late 3;late_ns 128000;"

static const struct {
	const char *name;
	const char *focus; /* "member value;...": of a schedule, with the mistake and without it */
	bool soak;         /* takes tens of thousands of schedules: only with --soak */
} zoo_bugs[ZOO_BUGS] = {
	BUG(INSERT_UNCHECKED),
	BUG(INSERT_LIVE_AT_ONCE),
	BUG(CONTEST_BLIND),
	BUG(RIVAL_WRONG_WORD),
	BUG_IN(RIVAL_FIRST_ONLY, "keys 1;present 0;fresh 0"),
	BUG(FINAL_UNCHECKED),
	BUG(WITHDRAW_WRITTEN),
	BUG(SWING_UNCHECKED),
	BUG(VERSION_ONCE),
	BUG(DELETE_FREES_FIRST),
	BUG(MOVE_UNAWAITED),
	BUG(FROZEN_WRITTEN),
	BUG(GET_TENTATIVE),
	BUG(GET_NO_FATE),
	BUG(KEY_PREFIX),
	BUG(SCAN_NO_FATE),
	BUG(SCAN_SKIPS_FROZEN),
	BUG(SPLIT_UNFROZEN),
	BUG(SPLIT_SKIPS_EMPTY),
	BUG(SPLIT_TENTATIVE),
	BUG(SPLIT_NAMED_FIRST),
	BUG(PARENT_AT_ONCE),
	BUG_IN(PARENT_TWICE, ZOO_DEATH "clients 4;ops 7 7 7 7;comebacks 1"),
	BUG(CHILD_LEAKED),
	RARE(TAKEOVER_FAA),
	BUG(TAKEOVER_IMPATIENT),
	BUG_IN(DOUBLE_UNFROZEN,
	       ZOO_LATE "clients 4;keys 2;fresh 24;fill 19;ops 7 7 7 7;hash 2;changes 0;change_steps 0;keep 6"),
	BUG(DOUBLE_IMPATIENT),
	BUG_IN(GATE_IN_FLIGHT, "fibers 2;no_backoff 0;keys 1;late 2;late_ns 60000"),
	BUG(REUSE_AT_ONCE),
	BUG(GRACE_SHORT),
	BUG_IN(NO_DRAIN, ZOO_CALM ZOO_TICKS "keys 1;late 1;late_ns 300000"),
	BUG_IN(NO_REFRESH, ZOO_CALM "lease_ns 2000000;tick_ns 50000;pace_ns 50000;fresh 24;fill 19;late 0;late_ns 0"),
	BUG(SILENT_IGNORED),
	BUG(LEASE_IS_FENCE),
	BUG(FENCE_HOME_ONLY),
	BUG_IN(HARVEST_AT_ONCE, ZOO_CALM ZOO_TICKS "fresh 0;keys 1"),
	BUG(HARVEST_WRITTEN),
	BUG(SCAVENGE_UNRECOVERED),
	BUG(SCAVENGE_NO_GRACE),
	BUG(FENCE_UNCUT),
	BUG(RANGE_REPEATED),
	BUG(ORPHAN_TWICE),
	BUG(REPOSTED),
};

struct zoo_hunt {
	pid_t pid;             /* 0: not begun */
	uint64_t first, n;     /* seeds to play at most */
	uint64_t set;          /* mistakes made meanwhile */
	const char *focus;
	double seconds_max;
	int status;            /* as waitpid() told it */
	/* Told by the process. */
	uint64_t played;       /* the one that was wrong included */
	double seconds;
	enum schedule_verdict verdict;
	char why[128];
	bool done;
};

struct zoo {
	bool soak;
	unsigned jobs, running;
	const char *only;
	/* Shared: one per mistake; the same schedules with the code as it is, where they have a focus; the others, in
	 * as many parts as there are jobs. */
	struct zoo_hunt *hunts;
};

/* Hunting ------------------------------------------------------------------------------------------------- */

static double
zoo_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Sets what "name value;name value" says. */
static void
zoo_aim(struct schedule_config *c, const char *focus)
{
	char text[256], *rest = text, *name;

	snprintf(text, sizeof(text), "%s", focus);
	while (*text && (name = strsep(&rest, ";")) != NULL) {
		char *value = name + strcspn(name, " ");

		FAR_ASSERT(*value == ' ');
		*value++ = 0;
		FAR_ASSERT(schedule_config_set(c, name, value));
	}
}

static int
zoo_play(struct schedule *s, uint64_t seed, uint64_t set, const char *focus, struct schedule_result *r)
{
	struct schedule_config c;

	schedule_config_draw(&c, seed, SCHEDULE_ALL);
	zoo_aim(&c, focus);
	c.zoo = set;
	return schedule_play(s, &c, far_index_find(NULL), r);
}

/* In the process of its own. */
static void
zoo_run(struct zoo_hunt *h)
{
	double start = zoo_seconds();
	struct schedule_result r;
	struct schedule *s;

	if (schedule_new(&s) != 0)
		return;
	while (h->played < h->n && h->verdict == SCHEDULE_GOOD && h->seconds < h->seconds_max) {
		if (zoo_play(s, h->first + h->played++, h->set, h->focus, &r) != 0)
			return;
		h->verdict = r.verdict;
		snprintf(h->why, sizeof(h->why), "%.120s", r.why);
		h->seconds = zoo_seconds() - start;
	}
	h->done = true;
}

static void
zoo_begin(struct zoo *z, struct zoo_hunt *h)
{
	struct rlimit hang = { (rlim_t)h->seconds_max + ZOO_HANG_SECONDS,
			       (rlim_t)h->seconds_max + ZOO_HANG_SECONDS };
	pid_t pid = fork();

	if (pid < 0)
		return;
	if (pid == 0) {
		setrlimit(RLIMIT_CPU, &hang);
		/* What assertions say belongs to the hunt. */
		if (h->set && !freopen("/dev/null", "w", stderr))
			_exit(1);
		zoo_run(h);
		_exit(0);
	}
	h->pid = pid;
	z->running++;
}

/* Waits until less than `jobs` hunts run. */
static void
zoo_wait(struct zoo *z, unsigned jobs)
{
	while (z->running >= jobs) {
		int status = 0;
		pid_t pid = wait(&status);

		FAR_ASSERT(pid > 0);
		for (unsigned i = 0; i < ZOO_HUNTS; i++) {
			if (z->hunts[i].pid != pid)
				continue;
			z->hunts[i].status = status;
			z->running--;
		}
	}
}

static bool
zoo_found(const struct zoo_hunt *h)
{
	return h->pid && (h->verdict != SCHEDULE_GOOD || WIFSIGNALED(h->status));
}

static const char *
zoo_verdict(const struct zoo_hunt *h)
{
	if (!WIFSIGNALED(h->status))
		return schedule_verdict_name(h->verdict);
	return WTERMSIG(h->status) == SIGABRT ? "assertion" : strsignal(WTERMSIG(h->status));
}

/* Plays `n` seeds with the code as it is. */
static void
zoo_replay(struct zoo *z, struct zoo_hunt *h, uint64_t first, uint64_t n, const char *focus)
{
	h->first = first;
	h->n = n;
	h->focus = focus;
	h->seconds_max = z->soak ? ZOO_SOAK_SECONDS : ZOO_SECONDS * ZOO_BUGS;
	zoo_wait(z, z->jobs);
	zoo_begin(z, h);
}

/* How many of its schedules were good from the first on; tells of one that was not. */
static uint64_t
zoo_good(const struct zoo_hunt *h)
{
	if (h->done && !zoo_found(h))
		return h->played;
	printf("# as it is: seed %" PRIu64 ": %s: %s%s%s\n", h->first + h->played - 1, zoo_verdict(h), h->why,
	       *h->focus ? "; " : "", h->focus);
	return h->played ? h->played - 1 : 0;
}

/* Plays all schedules of all hunts with the code as it is. clean[] receives how many of each hunt were good from the
 * first on. */
static void
zoo_clean(struct zoo *z, uint64_t clean[ZOO_BUGS])
{
	struct zoo_hunt *aimed = z->hunts + ZOO_BUGS, *parts = z->hunts + 2 * ZOO_BUGS;
	uint64_t most = 0, part, good = 0;

	for (unsigned i = 0; i < ZOO_BUGS; i++) {
		if (!zoo_found(&z->hunts[i]))
			continue;
		if (*zoo_bugs[i].focus)
			zoo_replay(z, &aimed[i], ZOO_FIRST, z->hunts[i].played, zoo_bugs[i].focus);
		else
			most = far_max(most, z->hunts[i].played);
	}
	part = (most + z->jobs - 1) / z->jobs;
	for (unsigned i = 0; part && i < z->jobs; i++)
		zoo_replay(z, &parts[i], ZOO_FIRST + i * part, part, "");
	zoo_wait(z, 1);
	for (unsigned i = 0; part && i < z->jobs && good == i * part; i++)
		good += zoo_good(&parts[i]);
	for (unsigned i = 0; i < ZOO_BUGS; i++)
		clean[i] = aimed[i].pid ? zoo_good(&aimed[i]) : good;
}

/* Names --------------------------------------------------------------------------------------------------- */

/* The file's bytes and *len of them; never unmapped. */
static const char *
zoo_map(const char *path, size_t *len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *p = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0)
		p = mmap(NULL, *len = (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* How many switches of mistakes are in the file; -1: it cannot be read. */
static int
zoo_names(const char *path)
{
	size_t len = 0;
	const char *bytes = zoo_map(path, &len);
	int n = 0;

	for (unsigned i = 0; i < ZOO_BUGS && bytes; i++) {
		char mark[64];

		snprintf(mark, sizeof(mark), "zoo: %s%s", "ZOO_", zoo_bugs[i].name);
		n += memmem(bytes, len, mark, strlen(mark) + 1) != NULL;
	}
	return bytes ? n : -1;
}

static bool
zoo_shipped(char **files, int n)
{
	int mine = zoo_names("/proc/self/exe"), theirs = 0;

	for (int i = 0; i < n; i++) {
		int found = zoo_names(files[i]);

		printf("# %s: %d\n", files[i], found);
		theirs += found != 0;
	}
	return mine == ZOO_BUGS && theirs == 0;
}

/* Cases --------------------------------------------------------------------------------------------------- */

static bool
zoo_is_wanted(const struct zoo *z, unsigned i)
{
	return z->only ? strcmp(z->only, zoo_bugs[i].name) == 0 : z->soak || !zoo_bugs[i].soak;
}

static void
zoo_hunt_all(struct zoo *z)
{
	for (unsigned i = 0; i < ZOO_BUGS; i++) {
		if (!zoo_is_wanted(z, i))
			continue;
		zoo_wait(z, z->jobs);
		z->hunts[i].first = ZOO_FIRST;
		z->hunts[i].n = z->soak ? ZOO_SOAK_SCHEDULES : ZOO_SCHEDULES;
		z->hunts[i].seconds_max = z->soak ? ZOO_SOAK_SECONDS : ZOO_SECONDS;
		z->hunts[i].set = ZOO_BIT(i);
		z->hunts[i].focus = zoo_bugs[i].focus;
		zoo_begin(z, &z->hunts[i]);
	}
	zoo_wait(z, 1);
}

/* One line per mistake; the number of those that were not found, or also without it. */
static unsigned
zoo_report(const struct zoo *z, const uint64_t clean[ZOO_BUGS])
{
	unsigned wanted = 0, good = 0;

	for (unsigned i = 0; i < ZOO_BUGS; i++) {
		const struct zoo_hunt *h = &z->hunts[i];
		bool found = zoo_found(h), ok = found && h->played <= clean[i];

		if (!zoo_is_wanted(z, i)) {
			printf("ok %u %s # SKIP %s\n", i + 1, zoo_bugs[i].name,
			       z->only ? "another is wanted" : "takes tens of thousands of schedules: --soak");
			continue;
		}
		wanted++;
		good += ok;
		printf("%s %u %s: ", ok ? "ok" : "not ok", i + 1, zoo_bugs[i].name);
		if (found)
			printf("%s after %" PRIu64 " schedules, %.1f s%s\n", zoo_verdict(h), h->played, h->seconds,
			       ok ? "" : "; and not all are good without the mistake");
		else
			printf("not found in %" PRIu64 " schedules, %.1f s\n", h->played, h->seconds);
		if (h->why[0])
			printf("# %s\n", h->why);
	}
	printf("# found %u of %u\n", good, wanted);
	return wanted - good;
}

static int
zoo_show(const char *name, uint64_t seed)
{
	struct schedule_result r;
	struct schedule *s;
	unsigned i = 0;

	while (i < ZOO_BUGS && strcmp(zoo_bugs[i].name, name) != 0)
		i++;
	if (i == ZOO_BUGS || schedule_new(&s) != 0 || zoo_play(s, seed, ZOO_BIT(i), zoo_bugs[i].focus, &r) != 0)
		return 2;
	schedule_print(s, stdout);
	schedule_free(s);
	return r.verdict != SCHEDULE_GOOD;
}

static int
zoo_usage(void)
{
	fprintf(stderr, "usage: sim_zoo [--soak] [--jobs N] [--only NAME] [FILE...]\n"
			"       sim_zoo --show NAME SEED\n");
	return 2;
}

int
main(int argc, char **argv)
{
	struct zoo z = { .jobs = 2 };
	uint64_t clean[ZOO_BUGS];
	unsigned failed;
	bool shipped;
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 4 && strcmp(argv[1], "--show") == 0)
		return zoo_show(argv[2], strtoull(argv[3], NULL, 0));
	for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--soak") == 0)
			z.soak = true;
		else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
			z.jobs = (unsigned)strtoul(argv[++i], NULL, 0);
		else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
			z.only = argv[++i];
		else
			return zoo_usage();
	}
	if (z.jobs < 1 || z.jobs > ZOO_JOBS_MAX)
		return zoo_usage();
	z.hunts = mmap(NULL, ZOO_HUNTS * sizeof(*z.hunts), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (z.hunts == MAP_FAILED)
		return 2;
	zoo_hunt_all(&z);
	zoo_clean(&z, clean);
	failed = zoo_report(&z, clean);
	shipped = zoo_shipped(argv + i, argc - i);
	printf("%s %u no mistake is in what is shipped\n", shipped ? "ok" : "not ok", ZOO_BUGS + 1);
	printf("1..%u\n", ZOO_BUGS + 1);
	return failed || !shipped;
}
