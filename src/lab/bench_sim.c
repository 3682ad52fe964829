/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_sim.c -- a benchmark in the simulator's performance mode: every client on one loop, in virtual time.
 *
 * What comes before and after the measured part is done with the network switched to `calm`, where nothing takes time.
 * Operations are taken from one supply until as many as were asked for have been finished; the fibers keep starting
 * new ones until then, so that the load does not fall at the end, and what they finish afterwards does not count.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "fabric/sim.h"
#include "lab/bench_impl.h"

enum {
	BENCH_SIM_LOADERS = 256, /* fibers that load, of all clients together */
	BENCH_SIM_TURN = 1024,   /* operations between two looks at progress and stop */
};

struct bench_sim {
	struct bench *bench;
	const struct bench_sim_opts *opts;
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric **fabrics; /* of the workers */
	struct bench_fiber **fibers; /* the same */
	uint64_t finished;           /* operations, those that warm up included */
	uint64_t begin_ns, end_ns;
	bool measures;
};

/* Operations -------------------------------------------------------------------------------------------------- */

static void
bench_sim_turn(struct bench *b, const char *phase, uint64_t done, uint64_t all)
{
	const struct bench_opts *o = b->opts;

	if (o->progress)
		o->progress(o->arg, phase, done, all);
	if (o->stop && o->stop(o->arg))
		atomic_store(&b->stop, true);
}

/* The part that counts begins with the operation that finished `now`. */
static void
bench_sim_begin(struct bench_sim *m, uint64_t now)
{
	struct bench *b = m->bench;

	m->measures = true;
	m->begin_ns = now;
	for (unsigned i = 0; i < b->started; i++)
		far_counts(b->workers[i].far, NULL, &b->workers[i].background);
}

/* It ends, with the last operation or because the run was stopped. */
static void
bench_sim_stop(struct bench_sim *m, uint64_t now)
{
	struct bench *b = m->bench;

	m->measures = false;
	m->end_ns = now;
	atomic_store(&b->stop, true);
	for (unsigned i = 0; i < b->started; i++) {
		struct far_count after;

		far_counts(b->workers[i].far, NULL, &after);
		far_count_sub(&after, &b->workers[i].background);
		far_count_add(&b->result->background, &after);
	}
}

/* How an operation ended. */
struct bench_sim_end {
	enum bench_kind kind;
	int err;
	uint64_t begin, end;
};

/* Counts an operation, unless it belongs to the warming up. */
static void
bench_sim_finished(struct bench_sim *m, struct bench_fiber *f, const struct bench_sim_end *e)
{
	struct bench_result *r = m->bench->result;
	const struct bench_opts *o = m->bench->opts;

	if (m->measures && e->err == 0) {
		r->ops++;
		hist_add(&r->kinds[e->kind].time, e->end - e->begin);
		far_count_add(&r->kinds[e->kind].spent, &f->spent);
	} else if (m->measures) {
		r->failed++;
	}
	if (++m->finished == m->opts->warmup && !m->measures)
		bench_sim_begin(m, e->end);
	if (m->finished % BENCH_SIM_TURN == 0)
		bench_sim_turn(m->bench, "run", m->finished, m->opts->warmup + o->spec.ops);
	if (m->measures &&
	    (r->ops + r->failed == o->spec.ops || atomic_load(&m->bench->stop)))
		bench_sim_stop(m, e->end);
}

static void
bench_sim_run_fiber(struct far_task *task, void *arg)
{
	struct bench_fiber *f = arg;
	struct bench_worker *w = f->worker;
	struct bench_sim *m = w->bench->sim;
	struct far_scratch_mark mark = far_scratch_mark(task);
	struct bench_sim_end e = { .end = far_now(task) };

	far_account(task, &f->spent);
	while (bench_take(w)) {
		struct workload_step step = workload_next(&w->gen);

		e.begin = e.end;
		far_sim_spend(far_task_conn(task), m->opts->profile->operation / NIC_PS);
		e.err = bench_operate(f, task, step, &e.kind);
		e.end = far_now(task);
		if (e.err != 0 && !bench_goes_on(e.err))
			bench_fail(w, e.err, bench_kind_name(e.kind));
		bench_sim_finished(m, f, &e);
		memset(&f->spent, 0, sizeof(f->spent));
		far_scratch_reset(task, mark);
	}
}

/* Phases ------------------------------------------------------------------------------------------------------ */

static void
bench_sim_calm(struct bench_sim *m, bool calm)
{
	far_sim_set_policy(m->sim, &(struct far_sim_policy){ .calm = calm });
}

/* Starts fn(f) for `n` fibers of every worker, and returns when all have ended. */
static int
bench_sim_fibers(struct bench_sim *m, void (*fn)(struct far_task *task, void *arg), unsigned n)
{
	struct bench *b = m->bench;
	int err = 0;

	for (unsigned i = 0; i < b->started && err == 0; i++) {
		m->fibers[i] = bench_fibers_new(&b->workers[i], n);
		if (!m->fibers[i])
			err = -FAR_ENOMEM;
		for (unsigned j = 0; j < n && err == 0; j++)
			err = far_loop_spawn(m->loop, m->fabrics[i], fn, &m->fibers[i][j], 0);
	}
	if (err != 0)
		atomic_store(&b->stop, true);
	far_loop_run(m->loop);
	for (unsigned i = 0; i < b->started; i++) {
		free(m->fibers[i]);
		m->fibers[i] = NULL;
		if (err == 0 && (err = b->workers[i].err) != 0)
			snprintf(b->result->message, sizeof(b->result->message), "client %u: %s", i,
				 b->workers[i].message);
	}
	return err;
}

static int
bench_sim_connect(struct bench_sim *m, const struct far_opts *opts, struct far_fabric **fabric,
		  struct far **far)
{
	const struct far_fabric_opts fabric_opts = { .credits = opts->credits };
	int err = far_sim_connect(m->sim, m->loop, &fabric_opts, fabric);

	if (err == 0 && (err = store_open_on(m->loop, *fabric, opts, far)) != 0) {
		far_fabric_close(*fabric);
		*fabric = NULL;
	}
	return err;
}

static int
bench_sim_worker_open(struct bench_sim *m, unsigned i)
{
	struct bench *b = m->bench;
	const struct bench_opts *o = b->opts;
	struct bench_worker *w = &b->workers[i];
	struct far_opts opts = {
		.fibers = o->depth,
		.credits = o->no_credits ? UINT_MAX : 0,
		.no_backoff = o->no_backoff,
	};
	unsigned machine = (unsigned)((uint64_t)i * m->opts->machines / o->clients), queue;
	int err;

	w->bench = b;
	workload_init(&w->gen, &o->spec, b->seq, o->seed * 1000003 + i);
	if ((err = bench_sim_connect(m, &opts, &m->fabrics[i], &w->far)) != 0)
		return err;
	queue = machine * m->opts->queues + i % m->opts->queues;
	far_sim_place(m->fabrics[i], machine, o->shared_qp ? queue : FAR_SIM_OWN_QUEUE);
	b->started = i + 1;
	return far_table_open(w->far, o->table, &w->table);
}

/* In real time: it has no virtual one. */
static int
bench_sim_load(struct bench_sim *m)
{
	struct bench *b = m->bench;
	const struct bench_opts *o = b->opts;
	uint64_t begin = far_clock_real.now(far_clock_real.arg);
	int err;

	for (unsigned i = 0; i < o->clients; i++) {
		struct bench_worker *w = &b->workers[i];

		w->next = o->spec.keys * i / o->clients;
		w->left = o->spec.keys * (i + 1) / o->clients - w->next;
	}
	bench_sim_turn(b, "load", 0, o->spec.keys);
	err = bench_sim_fibers(m, bench_load_fiber,
			       (unsigned)far_max(BENCH_SIM_LOADERS / o->clients, 1));
	for (unsigned i = 0; i < o->clients; i++)
		b->result->loaded += b->workers[i].finished;
	bench_sim_turn(b, "load", b->result->loaded, o->spec.keys);
	b->result->load_ns = far_clock_real.now(far_clock_real.arg) - begin;
	return err;
}

static int
bench_sim_play(struct bench_sim *m)
{
	struct bench *b = m->bench;
	const struct bench_opts *o = b->opts;
	/* Each key is deleted once: then the supply ends. Else the load is kept up until the end. */
	uint64_t supply = o->spec.percent[WORKLOAD_DELETE] ? o->spec.ops : UINT64_MAX;
	int err;

	for (unsigned i = 0; i < o->clients; i++) {
		struct bench_worker *w = &b->workers[i];

		w->left = supply;
		if (supply != UINT64_MAX)
			w->left = supply * (i + 1) / o->clients - supply * i / o->clients;
	}
	bench_sim_calm(m, false);
	if (m->opts->warmup == 0)
		bench_sim_begin(m, far_sim_now(m->sim));
	err = bench_sim_fibers(m, bench_sim_run_fiber, o->depth);
	if (m->measures)
		bench_sim_stop(m, far_sim_now(m->sim));
	bench_sim_calm(m, true);
	b->result->run_ns = m->end_ns - m->begin_ns;
	return err;
}

static int
bench_sim_phases(struct bench_sim *m)
{
	struct bench *b = m->bench;
	const struct far_table_opts topts = { .design = b->opts->design };
	int err = bench_say(b, far_table_create(b->far, b->opts->table, &topts));

	for (unsigned i = 0; i < b->opts->clients && err == 0; i++) {
		if ((err = bench_sim_worker_open(m, i)) != 0)
			snprintf(b->result->message, sizeof(b->result->message), "client %u: %s", i,
				 far_strerror(err));
	}
	if (err == 0)
		err = bench_sim_load(m);
	if (err == 0 && !atomic_load(&b->stop))
		err = bench_sim_play(m);
	for (unsigned i = 0; i < b->started; i++)
		b->result->wrong_values += b->workers[i].wrong_values;
	return err != 0 ? err : bench_say(b, bench_inspect(b));
}

/* The world and everything in it but the clients. */
static int
bench_sim_open(struct bench_sim *m)
{
	const struct bench_opts *o = m->bench->opts;
	const struct far_sim_opts opts = {
		.seed = o->seed, .nodes_n = m->opts->nodes, .region_len = m->opts->region_len
	};
	const struct far_sim_timing timing = {
		.profile = m->opts->profile,
		.machines = m->opts->machines,
		.queues = m->opts->machines * m->opts->queues,
		.footprint = m->opts->footprint,
	};
	struct far_loop_opts loop = { .seed = o->seed };
	int err;

	m->fabrics = calloc(o->clients, sizeof(struct far_fabric *));
	m->fibers = calloc(o->clients, sizeof(*m->fibers));
	if (!m->fabrics || !m->fibers)
		return -FAR_ENOMEM;
	if ((err = far_sim_open(&opts, &m->sim)) != 0 ||
	    (err = far_sim_time(m->sim, &timing)) != 0)
		return err;
	loop.clock = far_sim_clock(m->sim);
	bench_sim_calm(m, true);
	return far_loop_open(&loop, &m->loop);
}

static void
bench_sim_close(struct bench_sim *m)
{
	struct bench *b = m->bench;

	for (unsigned i = 0; i < b->started; i++) {
		far_table_close(b->workers[i].table);
		far_close(b->workers[i].far);
	}
	far_close(b->far);
	b->far = NULL;
	far_loop_close(m->loop);
	far_sim_close(m->sim);
	free(m->fabrics);
	free(m->fibers);
}

int
bench_on_sim(struct bench *b)
{
	struct bench_sim m = { .bench = b, .opts = b->opts->sim };
	const struct far_opts opts = { .fibers = 0 };
	struct far_fabric *fabric;
	int err;

	b->sim = &m;
	err = bench_sim_open(&m);
	if (err == 0)
		err = bench_sim_connect(&m, &opts, &fabric, &b->far);
	if (err == 0)
		err = bench_sim_phases(&m);
	b->result->stopped = err == 0 && b->result->ops + b->result->failed < b->opts->spec.ops;
	bench_sim_close(&m);
	return err;
}
