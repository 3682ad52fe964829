/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.h -- runs a workload against a pool and measures it.
 *
 * Every thread is a client of its own: a handle, a session, its fibers. It loads its share of the keys, waits for the
 * others, and then runs its share of the operations, `depth` at a time. Each operation's time and counts go to the
 * account of its kind; nothing is sampled. In the simulator the clients share one loop instead, and time is virtual.
 */
#ifndef FAR_LAB_BENCH_H
#define FAR_LAB_BENCH_H

#include <farside/fabric.h>
#include <farside/far.h>

#include "fabric/nic.h"
#include "lab/hist.h"
#include "lab/workload.h"

enum bench_kind {
	BENCH_GET_HIT,
	BENCH_GET_MISS,
	BENCH_INSERT,
	BENCH_UPDATE,
	BENCH_DELETE,
	BENCH_RMW, /* a get and an update of what it found, as one operation */
	BENCH_KINDS,
};

/* "get_hit" and its like, as reports name it. */
const char *bench_kind_name(enum bench_kind k);

struct bench_account {
	/* Of one operation until the next of its fiber begins: generating it (some 30 ns) is included. */
	struct hist time;
	struct far_count spent;
};

/* A pool in the simulator's performance mode. All times but that of the load phase are virtual then. */
struct bench_sim_opts {
	const struct nic_profile *profile;
	unsigned nodes;      /* memory nodes, of region_len bytes each */
	uint64_t region_len;
	unsigned machines;   /* that the clients are spread over */
	unsigned queues;     /* shared_qp: queue pairs of each machine, >= 1 */
	uint64_t footprint;  /* see struct far_sim_timing */
	uint64_t warmup;     /* operations that go before and do not count */
};

struct bench_opts {
	const char *pool;   /* URI; not looked at when `sim` is set */
	const struct bench_sim_opts *sim; /* NULL: a pool of processes */
	const char *table;  /* must not exist yet; dropped afterwards unless `keep` */
	const char *design; /* NULL: default */
	struct workload_spec spec;
	unsigned clients;   /* threads altogether, >= 1 */
	unsigned depth;     /* operations in flight per thread, >= 1 */
	bool no_backoff, no_credits, shared_qp;
	bool verify;        /* compare every value read with what was written; check the table afterwards */
	bool keep;
	uint64_t seed;
	/* Called by the calling thread every 50 ms (with `sim`: every 1,024 operations): `phase` is "load" or "run".
	 * NULL: not. */
	void (*progress)(void *arg, const char *phase, uint64_t done, uint64_t all);
	/* Asked as often: true ends the run early. NULL: never. */
	bool (*stop)(void *arg);
	void *arg;
};

struct bench_result {
	struct bench_account kinds[BENCH_KINDS];
	uint64_t ops, run_ns;     /* finished operations; from the first thread's start to the last one's end */
	uint64_t loaded, load_ns;
	uint64_t failed;          /* operations that gave up under contention or ran into a time-out */
	uint64_t wrong_values;    /* verify: reads whose value nobody wrote */
	int64_t violations;       /* verify: of far_table_check() */
	bool stopped;
	struct far_count background; /* of all clients, load phase left out */
	struct far_table_stat table; /* after the run */
	unsigned nodes;
	/* On error: what happened, as a sentence; else the first violation, or "". */
	char message[FAR_ERRMSG_MAX + 128];
};

/*
 * Runs it and fills *r, which is large: allocate it. When `stop` ended the run, 0 is returned and *r tells of what
 * was done until then. On error the accounts are undefined and r->message is set: what far_open(), far_table_create()
 * and the operations return, -FAR_EINVAL for a spec that workload_check() refuses.
 */
int bench_run(const struct bench_opts *o, struct bench_result *r);

/* Operations per second. */
double bench_rate(const struct bench_result *r);

#endif
