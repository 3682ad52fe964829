/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.c -- the threads of a benchmark, their fibers, and the sum of what they measured.
 *
 * The calling thread owns the run: it makes the table, starts the workers, waits, and reports. Phases (open,
 * load, run) are separated by a gate, so that nobody measures while somebody still loads. A worker that fails, or is
 * told to stop, still goes through every gate.
 */
#include "lab/bench.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "lab/bench_impl.h"

enum {
	BENCH_LOAD_DEPTH = 16, /* inserts in flight per thread at least, whatever the run's depth */
	BENCH_TURN_NS = 50000000, /* between looks at progress and stop */
	BENCH_PUBLISH = 256,      /* operations between two updates of a worker's progress */
};

static const char *const bench_kind_names[] = { "get_hit", "get_miss", "insert",
						"update",  "delete",   "rmw" };

const char *
bench_kind_name(enum bench_kind k)
{
	return bench_kind_names[k];
}

double
bench_rate(const struct bench_result *r)
{
	return r->run_ns ? (double)r->ops * 1e9 / (double)r->run_ns : 0;
}

static uint64_t
bench_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

/* Operations -------------------------------------------------------------------------------------------------- */

static int
bench_get(struct bench_fiber *b, struct far_task *task, uint64_t number, enum bench_kind *kind)
{
	struct bench_worker *w = b->worker;
	const struct workload_spec *spec = &w->bench->opts->spec;
	struct far_value v;
	int err = store_get(w->table, task, far_bytes(b->key, spec->key_len), &v);

	*kind = err == -FAR_ENOENT ? BENCH_GET_MISS : BENCH_GET_HIT;
	if (err == 0 && w->bench->opts->verify &&
	    !workload_value_ok(spec, number, v.bytes.data, v.bytes.len))
		w->wrong_values++;
	return err == -FAR_ENOENT ? 0 : err;
}

static int
bench_put(struct bench_fiber *b, struct far_task *task, enum far_put_mode mode, uint64_t number)
{
	struct bench_worker *w = b->worker;
	const struct workload_spec *spec = &w->bench->opts->spec;
	uint64_t version = 0;

	workload_value(spec, number, far_rng_next(&w->gen.rng), b->value);
	return store_put(w->table, task, mode, far_bytes(b->key, spec->key_len),
			 far_bytes(b->value, spec->value_len), &version);
}

/* One operation. *kind tells whose account it goes to. */
int
bench_operate(struct bench_fiber *b, struct far_task *task, struct workload_step step,
	      enum bench_kind *kind)
{
	struct bench_worker *w = b->worker;
	const struct workload_spec *spec = &w->bench->opts->spec;
	int err;

	workload_key(spec, step.number, b->key);
	switch (step.kind) {
	case WORKLOAD_UPDATE:
		*kind = BENCH_UPDATE;
		return bench_put(b, task, FAR_PUT_UPDATE, step.number);
	case WORKLOAD_INSERT:
		*kind = BENCH_INSERT;
		err = bench_put(b, task, FAR_PUT_INSERT, step.number);
		workload_seq_done(w->bench->seq, step.number);
		return err;
	case WORKLOAD_DELETE:
		*kind = BENCH_DELETE;
		return store_delete(w->table, task, far_bytes(b->key, spec->key_len), 0);
	case WORKLOAD_RMW:
		if ((err = bench_get(b, task, step.number, kind)) == 0 && *kind == BENCH_GET_HIT)
			err = bench_put(b, task, FAR_PUT_UPDATE, step.number);
		*kind = BENCH_RMW;
		return err;
	default:
		return bench_get(b, task, step.number, kind);
	}
}

/* Errors that end one operation but not the run. */
bool
bench_goes_on(int err)
{
	return err == -FAR_ECONTENDED || err == -FAR_ETIMEOUT;
}

/* The first error of a worker stays; everybody stops. */
void
bench_fail(struct bench_worker *w, int err, const char *what)
{
	if (w->err)
		return;
	w->err = err;
	snprintf(w->message, sizeof(w->message), "%s: %s", what, far_strerror(err));
	atomic_store(&w->bench->stop, true);
}

bool
bench_take(struct bench_worker *w)
{
	if (w->left == 0 || atomic_load_explicit(&w->bench->stop, memory_order_relaxed))
		return false;
	w->left--;
	return true;
}

static void
bench_finished(struct bench_worker *w)
{
	if (++w->finished % BENCH_PUBLISH == 0)
		atomic_store_explicit(&w->done, w->finished, memory_order_relaxed);
}

static void
bench_run_fiber(struct far_task *task, void *arg)
{
	struct bench_fiber *b = arg;
	struct bench_worker *w = b->worker;
	struct far_scratch_mark mark = far_scratch_mark(task);
	uint64_t begin = far_now(task), end;

	far_account(task, &b->spent);
	while (bench_take(w)) {
		struct workload_step step = workload_next(&w->gen);
		enum bench_kind kind;
		int err = bench_operate(b, task, step, &kind);

		end = far_now(task);
		if (err == 0) {
			hist_add(&w->kinds[kind].time, end - begin);
			far_count_add(&w->kinds[kind].spent, &b->spent);
			bench_finished(w);
		} else if (bench_goes_on(err)) {
			w->failed++;
		} else {
			bench_fail(w, err, bench_kind_name(kind));
		}
		memset(&b->spent, 0, sizeof(b->spent));
		far_scratch_reset(task, mark);
		begin = end;
	}
}

void
bench_load_fiber(struct far_task *task, void *arg)
{
	struct bench_fiber *b = arg;
	struct bench_worker *w = b->worker;
	struct far_scratch_mark mark = far_scratch_mark(task);

	far_account(task, &b->spent);
	while (bench_take(w)) {
		uint64_t number = w->next++;
		int err;

		workload_key(&w->bench->opts->spec, number, b->key);
		err = bench_put(b, task, FAR_PUT_INSERT, number);
		far_scratch_reset(task, mark);
		if (err != 0)
			bench_fail(w, err, "load");
		else
			bench_finished(w);
	}
}

/* Workers ----------------------------------------------------------------------------------------------------- */

struct bench_fiber *
bench_fibers_new(struct bench_worker *w, unsigned n)
{
	size_t key = far_align(w->bench->opts->spec.key_len, 64),
	       value = far_align(w->bench->opts->spec.value_len, 64);
	struct bench_fiber *fibers = calloc(n, sizeof(*fibers) + key + value);
	unsigned char *bytes = (unsigned char *)(fibers + n);

	for (unsigned i = 0; fibers && i < n; i++) {
		fibers[i].worker = w;
		fibers[i].key = bytes + i * (key + value);
		fibers[i].value = fibers[i].key + key;
	}
	return fibers;
}

/* Runs `n` fibers of `fn` until w->left operations are done. */
static int
bench_fibers(struct bench_worker *w, void (*fn)(struct far_task *task, void *arg), unsigned n)
{
	struct bench_fiber *fibers = bench_fibers_new(w, n);
	void **args = calloc(n, sizeof(*args));
	int err = -FAR_ENOMEM;

	if (fibers && args) {
		for (unsigned i = 0; i < n; i++)
			args[i] = &fibers[i];
		err = store_run(w->far, n, fn, args);
	}
	free(args);
	free(fibers);
	return err;
}

static void
bench_worker_open(struct bench_worker *w)
{
	const struct bench_opts *o = w->bench->opts;
	struct far_opts opts = {
		.fibers = o->depth,
		.credits = o->no_credits ? UINT_MAX : 0,
		.no_backoff = o->no_backoff,
		.shared_queue = w->bench->shared_queue,
		.errmsg = w->message,
	};

	if ((w->err = far_open(o->pool, &opts, &w->far)) == 0 &&
	    (w->err = far_table_open(w->far, o->table, &w->table)) != 0)
		snprintf(w->message, sizeof(w->message), "%s", far_errmsg(w->far));
	if (w->err != 0)
		atomic_store(&w->bench->stop, true);
}

static void
bench_worker_load(struct bench_worker *w, unsigned number)
{
	const struct bench_opts *o = w->bench->opts;
	uint64_t from = o->spec.keys * number / o->clients;
	int err;

	w->next = from;
	w->left = o->spec.keys * (number + 1) / o->clients - from;
	w->begin_ns = bench_now();
	if (w->err == 0 && (err = bench_fibers(w, bench_load_fiber,
					       (unsigned)far_max(o->depth, BENCH_LOAD_DEPTH))) != 0)
		bench_fail(w, err, "load");
	w->end_ns = bench_now();
	atomic_store(&w->done, w->finished);
}

static void
bench_worker_run(struct bench_worker *w, unsigned number)
{
	const struct bench_opts *o = w->bench->opts;
	uint64_t from = o->spec.ops * number / o->clients;
	struct far_count before;
	int err;

	w->finished = 0;
	atomic_store(&w->done, 0);
	w->left = o->spec.ops * (number + 1) / o->clients - from;
	if (w->err != 0)
		return;
	far_counts(w->far, NULL, &before);
	w->begin_ns = bench_now();
	if ((err = bench_fibers(w, bench_run_fiber, o->depth)) != 0)
		bench_fail(w, err, "run");
	w->end_ns = bench_now();
	far_counts(w->far, NULL, &w->background);
	far_count_sub(&w->background, &before);
	atomic_store(&w->done, w->finished);
}

/* A worker is at the end of its phase and waits for the next one. */
static void
bench_arrive(struct bench *b)
{
	unsigned gate;

	pthread_mutex_lock(&b->lock);
	b->running--;
	for (gate = b->gate; gate == b->gate;)
		pthread_cond_wait(&b->opened, &b->lock);
	pthread_mutex_unlock(&b->lock);
}

static void *
bench_worker_main(void *arg)
{
	struct bench_worker *w = arg;
	struct bench *b = w->bench;
	unsigned number = (unsigned)(w - b->workers);

	bench_worker_open(w);
	workload_init(&w->gen, &b->opts->spec, b->seq, b->opts->seed * 1000003 + number);
	bench_arrive(b);
	bench_worker_load(w, number);
	bench_arrive(b);
	bench_worker_run(w, number);
	bench_arrive(b);
	far_table_close(w->table);
	far_close(w->far);
	return NULL;
}

/* The run ----------------------------------------------------------------------------------------------------- */

static uint64_t
bench_done(const struct bench *b)
{
	uint64_t done = 0;

	for (unsigned i = 0; i < b->started; i++)
		done += atomic_load_explicit(&b->workers[i].done, memory_order_relaxed);
	return done;
}

static bool
bench_is_running(struct bench *b)
{
	bool running;

	pthread_mutex_lock(&b->lock);
	running = b->running > 0;
	pthread_mutex_unlock(&b->lock);
	return running;
}

/* Waits until all workers are at the end of the phase; passes on stop, shows progress. */
static void
bench_wait(struct bench *b, const char *phase, uint64_t all)
{
	const struct bench_opts *o = b->opts;

	for (unsigned turn = 0; bench_is_running(b); turn++) {
		/* Short naps first: a run of a second should not end 50 ms late. */
		uint64_t nap = turn < 100 ? BENCH_TURN_NS / 25 : BENCH_TURN_NS;

		if (o->stop && o->stop(o->arg))
			atomic_store(&b->stop, true);
		if (o->progress && phase)
			o->progress(o->arg, phase, bench_done(b), all);
		far_clock_real.idle(far_clock_real.arg, bench_now() + nap);
	}
	if (o->progress && phase)
		o->progress(o->arg, phase, bench_done(b), all);
}

/* Lets the workers into the next phase. */
static void
bench_release(struct bench *b)
{
	pthread_mutex_lock(&b->lock);
	b->running = b->started;
	b->gate++;
	pthread_cond_broadcast(&b->opened);
	pthread_mutex_unlock(&b->lock);
}

/* From the first begin to the last end among the workers. */
static uint64_t
bench_span(const struct bench *b)
{
	uint64_t begin = UINT64_MAX, end = 0;

	for (unsigned i = 0; i < b->started; i++) {
		begin = far_min(begin, b->workers[i].begin_ns);
		end = far_max(end, b->workers[i].end_ns);
	}
	return end > begin ? end - begin : 0;
}

void
bench_sum(const struct bench *b)
{
	struct bench_result *r = b->result;

	for (unsigned i = 0; i < b->started; i++) {
		const struct bench_worker *w = &b->workers[i];

		r->ops += w->finished;
		r->failed += w->failed;
		r->wrong_values += w->wrong_values;
		far_count_add(&r->background, &w->background);
		for (int k = 0; k < BENCH_KINDS; k++) {
			hist_merge(&r->kinds[k].time, &w->kinds[k].time);
			far_count_add(&r->kinds[k].spent, &w->kinds[k].spent);
		}
	}
	r->run_ns = bench_span(b);
}

/* The first worker's error, if any, becomes the run's. */
static int
bench_error(const struct bench *b)
{
	struct bench_result *r = b->result;

	for (unsigned i = 0; i < b->started; i++) {
		if (b->workers[i].err == 0)
			continue;
		snprintf(r->message, sizeof(r->message), "client %u: %s", i, b->workers[i].message);
		return b->workers[i].err;
	}
	return 0;
}

/* Starts the workers; those that have a thread go through the gates even when others have none. */
static int
bench_start(struct bench *b)
{
	const struct bench_opts *o = b->opts;

	/* Nobody arrives before all are counted. */
	pthread_mutex_lock(&b->lock);
	for (; b->started < o->clients; b->started++) {
		struct bench_worker *w = &b->workers[b->started];

		w->bench = b;
		if (pthread_create(&w->thread, NULL, bench_worker_main, w) != 0)
			break;
	}
	b->running = b->started;
	pthread_mutex_unlock(&b->lock);
	if (b->started == o->clients)
		return 0;
	atomic_store(&b->stop, true);
	return -FAR_ENOMEM;
}

/* Leads the workers through the phases and sums up. */
static int
bench_phases(struct bench *b)
{
	struct bench_result *r = b->result;
	const struct workload_spec *spec = &b->opts->spec;
	int err = bench_start(b);

	if (err != 0)
		snprintf(r->message, sizeof(r->message), "only %u of %u threads could be started",
			 b->started, b->opts->clients);
	bench_wait(b, NULL, 0);
	bench_release(b);
	bench_wait(b, "load", spec->keys);
	r->load_ns = bench_span(b);
	r->loaded = bench_done(b);
	bench_release(b);
	bench_wait(b, "run", spec->ops);
	bench_release(b);
	for (unsigned i = 0; i < b->started; i++)
		pthread_join(b->workers[i].thread, NULL);
	bench_sum(b);
	return err != 0 ? err : bench_error(b);
}

/* Keeps the first violation that far_table_check() tells. */
static void
bench_violation(void *arg, const char *line)
{
	struct bench_result *r = arg;

	if (!*r->message)
		snprintf(r->message, sizeof(r->message), "%s", line);
}

/* What the table looks like after the run. */
int
bench_inspect(struct bench *b)
{
	struct bench_result *r = b->result;
	struct far_node_info nodes[FAR_NODES_MAX];
	struct far_table *t;
	int err;

	if ((err = far_nodes(b->far, nodes, FAR_NODES_MAX)) < 0)
		return err;
	r->nodes = (unsigned)err;
	if ((err = far_table_open(b->far, b->opts->table, &t)) != 0)
		return err;
	err = far_table_stat(t, &r->table);
	if (err == 0 && b->opts->verify) {
		r->violations = far_table_check(t, bench_violation, r);
		err = r->violations < 0 ? (int)r->violations : 0;
	}
	far_table_close(t);
	return err;
}

/* Notes for the caller what the handle says about `err`, unless something was noted before. */
int
bench_say(struct bench *b, int err)
{
	struct bench_result *r = b->result;

	if (err != 0 && !*r->message)
		snprintf(r->message, sizeof(r->message), "%s",
			 *far_errmsg(b->far) ? far_errmsg(b->far) : far_strerror(err));
	return err;
}

/* With the pool open: make the table, run, inspect, drop. */
static int
bench_on_pool(struct bench *b)
{
	const struct bench_opts *o = b->opts;
	struct far_table_opts topts = { .design = o->design };
	int err, dropped;

	if ((err = far_table_create(b->far, o->table, &topts)) != 0)
		return bench_say(b, err);
	if ((err = bench_phases(b)) == 0)
		err = bench_say(b, bench_inspect(b));
	if (o->keep)
		return err;
	dropped = bench_say(b, far_table_drop(b->far, o->table));
	return err != 0 ? err : dropped;
}

static void
bench_fini(struct bench *b)
{
	far_close(b->far);
	far_shared_queue_free(b->shared_queue);
	workload_seq_close(b->seq);
	pthread_cond_destroy(&b->opened);
	pthread_mutex_destroy(&b->lock);
	free(b->workers);
}

static int
bench_open(struct bench *b)
{
	const struct bench_opts *o = b->opts;
	struct far_opts opts = { .errmsg = b->result->message };
	int err;

	b->workers = calloc(o->clients, sizeof(*b->workers));
	if (!b->workers)
		return -FAR_ENOMEM;
	if ((err = workload_seq_open(o->spec.keys, &b->seq)) != 0)
		return err;
	if (o->sim)
		return 0;
	if (o->shared_qp && (err = far_shared_queue_new(&b->shared_queue)) != 0)
		return err;
	return far_open(o->pool, &opts, &b->far);
}

int
bench_run(const struct bench_opts *o, struct bench_result *r)
{
	struct bench b = {
		.opts = o,
		.result = r,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.opened = PTHREAD_COND_INITIALIZER,
	};
	const char *wrong = workload_check(&o->spec);
	int err;

	memset(r, 0, sizeof(*r));
	if (wrong) {
		snprintf(r->message, sizeof(r->message), "%s", wrong);
		return -FAR_EINVAL;
	}
	err = bench_open(&b);
	if (err == 0 && o->sim) {
		err = bench_on_sim(&b);
	} else if (err == 0) {
		err = bench_on_pool(&b);
		r->stopped = err == 0 && atomic_load(&b.stop);
	}
	if (err != 0 && !*r->message)
		snprintf(r->message, sizeof(r->message), "%s", far_strerror(err));
	bench_fini(&b);
	return err;
}
