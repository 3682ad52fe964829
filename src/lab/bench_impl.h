/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_impl.h -- what the two ways to run a benchmark share: bench.c has threads and real time, bench_sim.c has one
 * loop and virtual time.
 */
#ifndef FAR_LAB_BENCH_IMPL_H
#define FAR_LAB_BENCH_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "lab/bench.h"
#include "store/store.h"

struct bench;
struct bench_sim;

struct bench_worker {
	struct bench *bench;
	pthread_t thread;
	struct far *far;
	struct far_table *table;
	struct workload gen;
	uint64_t left;       /* operations to start in this phase */
	uint64_t next;       /* load: the next key number */
	uint64_t finished;   /* operations that succeeded in this phase */
	uint64_t failed, wrong_values;
	uint64_t begin_ns, end_ns;
	int err;
	struct bench_account kinds[BENCH_KINDS];
	struct far_count background;
	_Atomic uint64_t done; /* `finished`, as last published */
	char message[FAR_ERRMSG_MAX + 64];
};

struct bench {
	const struct bench_opts *opts;
	struct bench_worker *workers; /* opts->clients of them */
	struct workload_seq *seq;
	struct far_shared_queue *shared_queue;
	struct far *far; /* the calling thread's */
	struct bench_result *result;
	unsigned started;         /* workers that have a thread */
	_Atomic bool stop; /* no new operation is to be started: interrupted, or somebody failed */
	pthread_mutex_t lock;     /* of the gate: */
	pthread_cond_t opened;
	unsigned gate;            /* how often it was opened */
	unsigned running;         /* workers that are not at the gate */
	struct bench_sim *sim;    /* bench_on_sim() */
};

/* One operation in flight. */
struct bench_fiber {
	struct bench_worker *worker;
	struct far_count spent;
	unsigned char *key, *value;
};

/* One operation. *kind tells whose account it goes to. */
int bench_operate(struct bench_fiber *b, struct far_task *task, struct workload_step step, enum bench_kind *kind);

/* Errors that end one operation but not the run. */
bool bench_goes_on(int err);

/* The first error of a worker stays; everybody stops. */
void bench_fail(struct bench_worker *w, int err, const char *what);

/* False when the worker has nothing more to start in this phase. */
bool bench_take(struct bench_worker *w);

/* Loads the worker's keys; `arg` is a bench_fiber. */
void bench_load_fiber(struct far_task *task, void *arg);

/* `n` fibers of a worker with room for keys and values, in one piece of memory: the caller's to free. Or NULL. */
struct bench_fiber *bench_fibers_new(struct bench_worker *w, unsigned n);

/* Sums up what the workers measured. */
void bench_sum(const struct bench *b);

/* What the table looks like after the run. */
int bench_inspect(struct bench *b);

/* Notes for the caller what the handle says about `err`, unless something was noted before. Returns `err`. */
int bench_say(struct bench *b, int err);

/* The whole benchmark in virtual time; b->workers and b->seq are there. */
int bench_on_sim(struct bench *b);

#endif
