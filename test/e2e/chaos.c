/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chaos.c -- real processes on shared memory, TCP or RDMA, killed and stopped, and what they did judged.
 *
 * usage: chaos [--verbs] [--tcp SEATS] [--rounds N] [--ops N] [--lease MS] [--bound MS] [--seed N] [--history FILE]
 *
 * Two memory nodes keep their regions in files; four clients work on one table. In each round some clients are
 * killed while they work, others are stopped for longer than a lease and then continued, and new ones take their
 * seats. Twice a memory node is killed and started again. In the end the history must be linearizable, every
 * iteration must have kept its promise, the table must be whole and its memory add up, and no process or file may be
 * left.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/far.h>

#include "base/base.h"
#include "base/rand.h"
#include "e2e/chaos.h"
#include "e2e/sessions.h"
#include "fabric/shm_node.h"
#include "test.h"

enum { CHAOS_NODES = 2,
       CHAOS_REGION = 256 << 20,
       CHAOS_REGION_VERBS = 64 << 20, /* its pages are locked in memory */
       CHAOS_PORT = 7480,             /* of the first node, with --verbs */
       CHAOS_REPAIRS = 20 };

/* Whoever waits for longer has waited in vain. */
static const uint64_t chaos_patience_ns = 60000000000;

static struct chaos_opts {
	uint64_t rounds, ops, lease_ns, seed;
	uint64_t bound_ns; /* takeover is due within that time beyond the lease */
	const char *history;
	uint64_t tcp; /* seats whose clients reach the nodes by TCP, the first ones; cut off as well */
	bool verbs; /* nodes behind the RDMA device of this machine: FENCE cuts a client off and does not kill it */
} options = { .rounds = 22, .ops = 112000, .lease_ns = 400000000, .seed = 1, .bound_ns = 2600000000 };

/* A client process. */
struct chaos_process {
	pid_t pid;   /* 0: none sits here */
	bool doomed; /* it is to die by a signal */
	bool stopped;
	uint64_t hit_ns; /* when it was killed or stopped */
};

struct chaos {
	char dir[64], path[CHAOS_NODES][96], file[CHAOS_NODES][96], uri[256];
	char listen[CHAOS_NODES][SHM_URI_MAX], tcp_uri[2 * SHM_URI_MAX];
	pid_t node[CHAOS_NODES];
	struct chaos_process seats[CHAOS_SEATS];
	struct chaos_shared *shared;
	struct recorder *recorder;
	struct far_rng rng;
	uint64_t lives, kills, stops, woke, fenced, unplanned, node_kills;
	uint64_t takeover_ns; /* the longest, until nothing of the dead is left in the nodes' session tables */
	uint64_t repair_ns;
};

/* Memory nodes ---------------------------------------------------------------------------------------------- */

static void
chaos_node_start(struct chaos *c, unsigned i)
{
	struct shm_node_opts opts = { c->path[i], c->file[i], CHAOS_REGION, .child = true };
	struct shm_why why = { "" };
	char listen[SHM_URI_MAX] = "tcp://127.0.0.1:0";
	int err;

	if (options.tcp > 0) {
		/* It comes back to the port that it once got. */
		if (c->listen[i][0])
			strcpy(listen, c->listen[i]);
		opts.listen = listen;
		opts.listens = c->listen[i];
	}
	if (options.verbs)
		opts = (struct shm_node_opts){
			.file = c->file[i], .size = CHAOS_REGION_VERBS, .child = true, .listen = c->path[i]
		};
	err = shm_node_fork(&opts, NULL, &c->node[i], &why);
	if (err)
		printf("# %s\n", why.text);
	REQUIRE(err == 0);
}

static void
chaos_node_end(struct chaos *c, unsigned i, int sig)
{
	kill(c->node[i], sig);
	waitpid(c->node[i], NULL, 0);
	c->node[i] = 0;
}

/* Clients --------------------------------------------------------------------------------------------------- */

static void
chaos_seat_fill(struct chaos *c, unsigned i)
{
	struct chaos_client_opts o = { .shared = c->shared, .recorder = c->recorder, .seat = i };
	struct chaos_process *p = &c->seats[i];

	o.uri = i < options.tcp ? c->tcp_uri : c->uri;
	o.lease_ns = options.lease_ns;
	o.seed = far_rng_next(&c->rng);
	c->shared->seats[i].open = 0;
	c->shared->seats[i].excused = 0;
	fflush(stdout);
	*p = (struct chaos_process){ .pid = fork() };
	if (p->pid == 0) {
		signal(SIGPIPE, SIG_IGN);
		_exit(chaos_client_run(&o));
	}
	REQUIRE(p->pid > 0);
	c->lives++;
}

/* Takes note of who has ended. */
static void
chaos_reap(struct chaos *c)
{
	for (unsigned i = 0; i < CHAOS_SEATS; i++) {
		struct chaos_process *p = &c->seats[i];
		int status;

		if (!p->pid || waitpid(p->pid, &status, WNOHANG) != p->pid)
			continue;
		/* Fenced is killed: also one that was only slow. */
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
			c->fenced += p->stopped;
			c->unplanned += !p->doomed;
		} else if (status != 0 || c->shared->mode != CHAOS_END) {
			printf("# client in seat %u: status %d: %s\n", i, status, c->shared->seats[i].why);
			test_failures++;
		}
		p->pid = 0;
	}
}

/* Somebody does something in a bounded time. */
static void
chaos_pause(struct chaos *c, uint64_t began_ns, const char *what)
{
	if (chaos_now() - began_ns > chaos_patience_ns) {
		printf("# waited for too long: %s\n", what);
		for (unsigned i = 0; i < CHAOS_SEATS; i++)
			printf("# seat %u: pid %d, open %u, doomed %d\n", i, (int)c->seats[i].pid,
			       c->shared->seats[i].open, c->seats[i].doomed);
		REQUIRE(!"in time");
	}
	usleep(200);
	chaos_reap(c);
}

/* Everybody is there and has a session. */
static void
chaos_fill(struct chaos *c)
{
	uint64_t began_ns = chaos_now();
	unsigned ready;

	do {
		chaos_pause(c, began_ns, "clients open the table");
		ready = 0;
		for (unsigned i = 0; i < CHAOS_SEATS; i++) {
			if (!c->seats[i].pid && test_failures == 0)
				chaos_seat_fill(c, i);
			ready += __atomic_load_n(&c->shared->seats[i].open, __ATOMIC_SEQ_CST);
		}
	} while (ready < CHAOS_SEATS && test_failures == 0);
}

static void
chaos_mode(struct chaos *c, enum chaos_mode mode)
{
	__atomic_store_n(&c->shared->mode, mode, __ATOMIC_SEQ_CST);
}

/* Until `ops` operations have returned; or, when those that wait for the dead are too many for that, for two leases. */
static void
chaos_work(struct chaos *c, uint64_t ops)
{
	uint64_t began_ns = chaos_now();

	while (__atomic_load_n(&c->shared->ops, __ATOMIC_SEQ_CST) < ops && test_failures == 0 &&
	       chaos_now() - began_ns < 2 * options.lease_ns + options.bound_ns)
		chaos_pause(c, began_ns, "operations");
}

/* Rounds ---------------------------------------------------------------------------------------------------- */

static void
chaos_hit(struct chaos *c, unsigned i, bool stop)
{
	struct chaos_process *p = &c->seats[i];

	/* One that was fenced though nobody meant it to has a successor. */
	if (!p->pid)
		chaos_fill(c);
	if (stop)
		__atomic_store_n(&c->shared->seats[i].excused, 1, __ATOMIC_SEQ_CST);
	p->doomed = true;
	p->stopped = stop;
	p->hit_ns = chaos_now();
	kill(p->pid, stop ? SIGSTOP : SIGKILL);
	*(stop ? &c->stops : &c->kills) += 1;
}

/* Those that were stopped go on: at the latest when they are dead, or soon after the lease. */
static void
chaos_wake(struct chaos *c, uint64_t after_ns)
{
	for (unsigned i = 0; i < CHAOS_SEATS; i++) {
		struct chaos_process *p = &c->seats[i];

		if (!p->pid || !p->stopped || !p->doomed || chaos_now() - p->hit_ns < after_ns)
			continue;
		kill(p->pid, SIGCONT);
		p->doomed = false;
		c->woke++;
	}
}

/* How many sessions the node has that has most of them. */
static unsigned
chaos_sessions(const struct chaos *c)
{
	unsigned most = 0;

	for (unsigned i = 0; i < CHAOS_NODES; i++)
		most = (unsigned)far_max(most, sessions_in_file(c->file[i]));
	return most;
}

/* Those that were stopped are dead to the others: from here on they may go on, and come back with new sessions. */
static void
chaos_wake_fenced(struct chaos *c, unsigned alive)
{
	unsigned stopped = 0, doomed = 0;

	for (unsigned i = 0; i < CHAOS_SEATS; i++) {
		doomed += c->seats[i].pid && c->seats[i].doomed;
		stopped += c->seats[i].pid && c->seats[i].doomed && c->seats[i].stopped;
	}
	/* Of the others, who map the regions, each one must have ended first. */
	if (stopped == 0 || chaos_sessions(c) + doomed > alive)
		return;
	c->fenced += stopped;
	c->woke -= stopped;
	chaos_wake(c, 0);
}

/* The doomed have ended, and the nodes know. Who was stopped is woken after that time; the others work meanwhile, in a
 * burst until `ops` have returned. */
static void
chaos_settle(struct chaos *c, uint64_t first_ns, uint64_t wake_ns, uint64_t ops)
{
	unsigned left;

	do {
		unsigned alive = 0, doomed = 0;

		chaos_pause(c, first_ns, "the dead are fenced");
		if (__atomic_load_n(&c->shared->ops, __ATOMIC_SEQ_CST) >= ops)
			chaos_mode(c, CHAOS_TRICKLE);
		chaos_wake(c, wake_ns);
		for (unsigned i = 0; i < CHAOS_SEATS; i++) {
			alive += c->seats[i].pid != 0;
			doomed += c->seats[i].pid && c->seats[i].doomed;
		}
		left = doomed + (chaos_sessions(c) > alive);
		if (options.verbs || options.tcp > 0)
			chaos_wake_fenced(c, alive);
	} while (left && test_failures == 0);
	c->takeover_ns = far_max(c->takeover_ns, chaos_now() - first_ns);
}

static void
chaos_round(struct chaos *c, unsigned round, uint64_t share)
{
	unsigned seats[CHAOS_SEATS] = { 0, 1, 2, 3 }, n = 2 + (round % 3 == 2);
	uint64_t ops = __atomic_load_n(&c->shared->ops, __ATOMIC_SEQ_CST), at[CHAOS_SEATS], first_ns = 0;
	/* In some rounds they wake up when they may just be fenced; in others only their end wakes them. */
	uint64_t wake_ns = round % 4 == 3 ? options.lease_ns + far_rng_below(&c->rng, options.lease_ns / 4)
					  : UINT64_MAX;

	for (unsigned i = 0; i < n; i++) {
		unsigned j = i + (unsigned)far_rng_below(&c->rng, CHAOS_SEATS - i), seat = seats[j];

		seats[j] = seats[i];
		seats[i] = seat;
		at[i] = (i ? at[i - 1] : ops) + far_rng_below(&c->rng, share / n);
	}
	chaos_mode(c, CHAOS_BURST);
	for (unsigned i = 0; i < n; i++) {
		chaos_work(c, at[i]);
		chaos_reap(c);
		/* One is killed, one stopped; the third one either. */
		chaos_hit(c, seats[i], i == 1 || (i == 2 && round % 2));
		if (!first_ns)
			first_ns = chaos_now();
	}
	chaos_settle(c, first_ns, wake_ns, ops + share);
	chaos_work(c, ops + share);
	chaos_mode(c, CHAOS_TRICKLE);
}

/* A memory node dies in the middle of everything and comes back on its file. */
static void
chaos_node_round(struct chaos *c, unsigned node, uint64_t share)
{
	uint64_t ops = __atomic_load_n(&c->shared->ops, __ATOMIC_SEQ_CST);

	chaos_mode(c, CHAOS_BURST);
	chaos_work(c, ops + 1 + far_rng_below(&c->rng, share));
	chaos_node_end(c, node, SIGKILL);
	c->node_kills++;
	usleep((useconds_t)far_rng_below(&c->rng, 50000));
	chaos_node_start(c, node);
	chaos_mode(c, CHAOS_TRICKLE);
	chaos_fill(c);
}

/* The end --------------------------------------------------------------------------------------------------- */

static void
chaos_violation(void *arg, const char *line)
{
	(void)arg;
	printf("# %s\n", line);
}

/* What tables and nodes say of the same memory. Maintenance may hand back a chunk between the two: then once more. */
static uint64_t
chaos_granted(struct far *f, struct far_table *t, struct far_table_stat *s)
{
	struct far_node_info nodes[CHAOS_NODES];
	struct far_table_stat before;
	uint64_t granted = 0;

	CHECK_EQ(far_table_stat(t, s), 0);
	for (unsigned tries = 0; tries < CHAOS_REPAIRS; tries++) {
		before = *s;
		granted = 0;
		CHECK_EQ(far_nodes(f, nodes, CHAOS_NODES), CHAOS_NODES);
		for (unsigned i = 0; i < CHAOS_NODES; i++) {
			granted += nodes[i].granted_bytes;
			CHECK_EQ(nodes[i].quarantined_sessions, 0);
		}
		CHECK_EQ(far_table_stat(t, s), 0);
		if (s->granted_index_bytes == before.granted_index_bytes &&
		    s->granted_block_bytes == before.granted_block_bytes)
			break;
	}
	return granted;
}

/* Nobody else is there: what the dead left is taken over, and everything adds up. */
static void
chaos_inspect(struct chaos *c)
{
	struct far_opts o = { .lease_ns = options.lease_ns };
	struct far_table_stat s;
	struct far_table *t;
	struct far *f;
	uint64_t began_ns = chaos_now(), granted;
	int repaired = 1;

	REQUIRE(far_open(c->uri, &o, &f) == 0 && far_table_open(f, CHAOS_TABLE, &t) == 0);
	for (unsigned i = 0; i < CHAOS_REPAIRS && repaired > 0; i++)
		repaired = far_table_repair(t);
	CHECK_EQ(repaired, 0);
	c->repair_ns = chaos_now() - began_ns;
	CHECK_EQ(far_table_check(t, chaos_violation, NULL), 0);
	granted = chaos_granted(f, t, &s);
	CHECK_EQ(s.index_bytes + s.block_bytes + s.free_index_bytes + s.free_block_bytes + s.header_bytes,
		 s.granted_index_bytes + s.granted_block_bytes);
	CHECK_EQ(granted, s.granted_index_bytes + s.granted_block_bytes);
	printf("# %" PRIu64 " keys, %" PRIu64 " splits, %" PRIu64 " KiB granted, %" PRIu64 " KiB of blocks in use\n",
	       s.keys, s.splits, granted >> 10, s.block_bytes >> 10);
	far_close(f);
	for (unsigned i = 0; i < CHAOS_NODES; i++)
		CHECK_EQ(sessions_in_file(c->file[i]), 0);
}

static void
chaos_judge(struct chaos *c)
{
	struct history_report r;
	struct history h = { 0 };
	FILE *out;

	REQUIRE(recorder_collect(c->recorder, &h) == 0);
	if (options.history) {
		REQUIRE((out = fopen(options.history, "w")) != NULL);
		CHECK_EQ(history_print(&h, out), 0);
		CHECK(fclose(out) == 0);
	}
	REQUIRE(history_check(&h, &r) == 0);
	printf("# %" PRIu64 " operations on %u keys (%u at most on one), %" PRIu64 " pending, %" PRIu64
	       " iterations that told %" PRIu64 " keys: %s\n",
	       r.ops, r.keys, r.most_ops, r.pending, r.scans, r.items, history_verdict_name(r.verdict));
	CHECK_EQ(r.verdict, HISTORY_GOOD);
	if (r.verdict != HISTORY_GOOD) {
		printf("# key %u\n", r.key);
		history_print_key(&h, r.key, stdout);
	}
	CHECK(r.ops >= options.ops * 9 / 10);
	CHECK(r.scans > 0 && r.items > 0 && r.pending > 0);
	history_free(&h);
}

static void
chaos_report(const struct chaos *c)
{
	uint64_t slowest_ns = 0, moves = 0, batches = 0, comebacks = 0, gave_up = 0;

	for (unsigned i = 0; i < CHAOS_SEATS; i++) {
		const struct chaos_seat *s = &c->shared->seats[i];

		slowest_ns = far_max(slowest_ns, s->slowest_ns);
		moves += s->moves;
		batches += s->batches;
		comebacks += s->comebacks;
		gave_up += s->gave_up;
	}
	printf("# %" PRIu64 " lives: %" PRIu64 " killed, %" PRIu64 " stopped of whom %" PRIu64
	       " were fenced and %" PRIu64 " woken before, %" PRIu64 " ended unplanned; %" PRIu64
	       " nodes killed, %" PRIu64 " sessions opened again\n",
	       c->lives, c->kills, c->stops, c->fenced, c->woke, c->unplanned, c->node_kills, comebacks);
	printf("# %" PRIu64 " batches, %" PRIu64 " moves, %" PRIu64 " gave up; lease %" PRIu64
	       " ms, fenced after %" PRIu64 " ms at most, slowest operation %" PRIu64 " ms, repair %" PRIu64 " ms\n",
	       batches, moves, gave_up, options.lease_ns / 1000000, c->takeover_ns / 1000000, slowest_ns / 1000000,
	       c->repair_ns / 1000000);
	CHECK(c->kills >= options.rounds - 2 && c->stops >= options.rounds - 2 && c->fenced > 0);
	CHECK(c->takeover_ns <= options.lease_ns + options.bound_ns);
	CHECK(slowest_ns <= options.lease_ns + options.bound_ns);
}

static void
chaos_init(struct chaos *c)
{
	struct far_table_opts small = { .groups = 1 };
	struct far *f;

	memset(c, 0, sizeof(*c));
	far_rng_seed(&c->rng, options.seed);
	strcpy(c->dir, "/tmp/farside-chaos-XXXXXX");
	REQUIRE(mkdtemp(c->dir) != NULL);
	REQUIRE(recorder_new(CHAOS_LANES, CHAOS_LANE, &c->recorder) == 0);
	c->shared = mmap(NULL, sizeof(*c->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(c->shared != MAP_FAILED);
	for (unsigned i = 0; i < CHAOS_HOT; i++)
		c->shared->hot[i] = c->shared->next_key++;
	for (unsigned i = 0; i < CHAOS_NODES; i++) {
		if (options.verbs)
			snprintf(c->path[i], sizeof(c->path[i]), "verbs://127.0.0.1:%u", CHAOS_PORT + i);
		else
			snprintf(c->path[i], sizeof(c->path[i]), "%s/n%u", c->dir, i);
		snprintf(c->file[i], sizeof(c->file[i]), "%s/f%u", c->dir, i);
		chaos_node_start(c, i);
	}
	if (options.verbs)
		snprintf(c->uri, sizeof(c->uri), "verbs://127.0.0.1:%u,127.0.0.1:%u", CHAOS_PORT, CHAOS_PORT + 1);
	else
		snprintf(c->uri, sizeof(c->uri), "shm:%s,%s", c->path[0], c->path[1]);
	for (unsigned i = 0; options.tcp > 0 && i < CHAOS_NODES; i++)
		shm_uri_add(c->tcp_uri, sizeof(c->tcp_uri), c->listen[i]);
	REQUIRE(far_open(c->uri, NULL, &f) == 0);
	CHECK_EQ(far_table_create(f, CHAOS_TABLE, &small), 0);
	far_close(f);
}

static void
chaos_fini(struct chaos *c)
{
	for (unsigned i = 0; i < CHAOS_NODES; i++) {
		chaos_node_end(c, i, SIGTERM);
		unlink(c->file[i]);
	}
	CHECK(rmdir(c->dir) == 0);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	recorder_free(c->recorder);
	munmap(c->shared, sizeof(*c->shared));
}

/* All clients end by themselves. */
static void
chaos_finish(struct chaos *c)
{
	uint64_t began_ns = chaos_now();
	unsigned alive;

	chaos_mode(c, CHAOS_END);
	do {
		chaos_pause(c, began_ns, "clients end");
		chaos_wake(c, 0);
		alive = 0;
		for (unsigned i = 0; i < CHAOS_SEATS; i++)
			alive += c->seats[i].pid != 0;
	} while (alive);
}

static void
test_chaos_processes_die_and_the_table_stays_linearizable(void)
{
	static struct chaos c;
	struct chaos_client_opts o;
	uint64_t share = options.ops / options.rounds;

	chaos_init(&c);
	for (unsigned r = 0; r < options.rounds && test_failures == 0; r++) {
		chaos_fill(&c);
		if (options.rounds > 2 && (r == options.rounds / 3 || r == options.rounds * 2 / 3))
			chaos_node_round(&c, r == options.rounds / 3, share);
		else
			chaos_round(&c, r, share);
	}
	chaos_finish(&c);
	if (test_failures == 0) {
		o = (struct chaos_client_opts){ c.uri, options.lease_ns, 1, c.shared, c.recorder, 0 };
		CHECK_EQ(chaos_client_verify(&o), 0);
		printf("%s%s", c.shared->seats[0].why[0] ? "# " : "", c.shared->seats[0].why);
		chaos_inspect(&c);
		chaos_report(&c);
	}
	chaos_judge(&c);
	chaos_fini(&c);
}

static uint64_t
chaos_number(const char *arg)
{
	char *end;
	uint64_t n = strtoull(arg, &end, 10);

	if (*end || n == 0) {
		fprintf(stderr, "chaos: '%s' is not a number above 0\n", arg);
		exit(2);
	}
	return n;
}

int
main(int argc, char **argv)
{
	static const struct option names[] = {
		{ "rounds", 1, NULL, 'r' },
		{ "ops", 1, NULL, 'o' },
		{ "lease", 1, NULL, 'l' },
		{ "bound", 1, NULL, 'b' },
		{ "seed", 1, NULL, 's' },
		{ "history", 1, NULL, 'h' },
		{ "tcp", 1, NULL, 't' },
		{ "verbs", 0, NULL, 'v' },
		{ 0 },
	};
	static const struct test_case cases[] = { TEST(test_chaos_processes_die_and_the_table_stays_linearizable) };

	for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		if (c == 'r')
			options.rounds = chaos_number(optarg);
		else if (c == 'o')
			options.ops = chaos_number(optarg);
		else if (c == 'l')
			options.lease_ns = chaos_number(optarg) * 1000000;
		else if (c == 'b')
			options.bound_ns = chaos_number(optarg) * 1000000;
		else if (c == 's')
			options.seed = chaos_number(optarg);
		else if (c == 'h')
			options.history = optarg;
		else if (c == 't')
			options.tcp = far_min(chaos_number(optarg), CHAOS_SEATS);
		else if (c == 'v')
			options.verbs = true;
		else
			return 2;
	}
	return test_run(cases, FAR_LEN(cases), 1, argv);
}
