/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_impl.h -- what the files of a schedule share.
 *
 *	schedule_config.c  names of the parameters;  schedule_draw.c  draws them
 *	schedule.c         worlds; builds the table, lets the clients work, ends
 *	schedule_act.c     what a client does: operations, and coming back after it lost its session
 *	schedule_scan.c    and scans
 *	schedule_settle.c  all leave, then a newcomer waits for the dead to be fenced and inspects everything
 *	schedule_judge.c   is that how it must be?
 *	schedule_print.c   verdict, configuration, history
 *
 * A value tells which operation wrote it, so that the history needs no table of values.
 */
#ifndef FAR_LAB_SCHEDULE_IMPL_H
#define FAR_LAB_SCHEDULE_IMPL_H

#include "base/base.h"
#include "base/rand.h"
#include "fabric/sim.h"
#include "lab/lin.h"
#include "lab/met.h"
#include "lab/schedule.h"
#include "pool/pool.h"

enum {
	SCHEDULE_OPS_ALL = 256,
	SCHEDULE_LIVES = 4, /* connections of a client, one after the other */
	SCHEDULE_STEPS_MAX = 3000000,
	SCHEDULE_VERBS_MAX = 1000, /* of an operation that begins after the last fault */
};

struct schedule_client {
	struct schedule *s;
	unsigned id;
	struct far_rng rng;
	struct far_fabric *fabric; /* the present one: lives[lives_n - 1] */
	struct far_fabric *lives[SCHEDULE_LIVES];
	unsigned lives_n;
	struct met mets[SCHEDULE_LIVES]; /* what it knew in each, where that is looked at */
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
	struct far_index_watch watch;
	unsigned left;                                  /* operations still to begin */
	unsigned working;                               /* fibers */
	unsigned comebacks;                             /* that it may still make */
	uint64_t known[SCHEDULE_KEYS + SCHEDULE_FRESH]; /* version last seen */
	bool shaken;   /* its last operation met a node that did not answer */
	bool stopped;  /* its session is over: it is dead, or as good as that */
	bool deserted; /* some session of it was left open */
	int err;       /* of building or settling */
	bool inspects;
};

struct schedule {
	struct far_sim *sims[SCHEDULE_NODES]; /* by nodes - 1 */
	struct far_loop *loops[SCHEDULE_NODES];
	struct far_sim *sim;
	struct far_loop *loop;
	struct lin *lin;
	const struct far_index_ops *design;
	struct schedule_config config;
	struct schedule_client clients[SCHEDULE_CLIENTS + 1];
	unsigned fresh_used;
	unsigned grown;      /* fillers, once somebody inspected */
	uint64_t grown_from; /* splits before */
	uint64_t killed;     /* clients, before somebody inspected */
	uint64_t splits;     /* before the clients began to work */

	struct lin_op ops[SCHEDULE_OPS_ALL];
	uint32_t events[2 * SCHEDULE_OPS_ALL];
	struct lin_history history;
	unsigned moves;
	struct schedule_result *out;

	void (*trace)(void *arg, const char *text);
	void *trace_arg;
};

/* The first thing that goes wrong is what counts. */
void schedule_fail(struct schedule *s, enum schedule_verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static inline uint64_t
schedule_lease(const struct schedule *s)
{
	return s->config.lease_ns ? s->config.lease_ns : POOL_LEASE_NS;
}

/* Connects a client anew. -FAR_ENOMEM. */
int schedule_connect(struct schedule_client *c);

/* schedule_act.c -------------------------------------------------------------------------------------------- */

/* Keys 0 ... are those of the history; fillers come behind them. */
struct schedule_key {
	char name[16];
	struct far_bytes bytes;
};

void schedule_key(unsigned i, struct schedule_key *k);

/* The value of operation `op` (fillers: SCHEDULE_OPS_ALL + i): its number, then bytes that follow from it. Returns its
 * length; up to 7 more bytes of `buf` are spoilt. */
size_t schedule_value(const struct schedule *s, uint32_t op, uint8_t buf[]);

/* 1 + the operation that wrote the bytes, 0 when they are nobody's. */
uint32_t schedule_writer(const struct schedule *s, struct far_bytes value);

/* The table of CREATE and DROP. */
#define SCHEDULE_OTHER "u"

/* Opens pool, table and index; client 0 of a new world (`make`) makes the table. */
int schedule_open(struct schedule_client *c, struct far_task *t, bool make);

/* Makes the other table, and puts it away. */
int schedule_make_other(struct schedule_client *c, struct far_task *t);

/* What the design tells of the table. */
int schedule_stat(struct schedule_client *c, struct far_task *t, struct far_table_stat *stat);

/* Whether an operation that ended with *err may start over: it found no memory, and some may have come free meanwhile.
 * If not, *err tells why. */
bool schedule_again(struct schedule_client *c, struct far_task *t, struct pool_relief *relief, int *err);

/* One operation, entered in the history. */
void schedule_operate(struct schedule_client *c, struct far_task *t, enum lin_kind kind, unsigned key);
void schedule_move(struct schedule_client *c, struct far_task *t, unsigned key, unsigned node);

/* Walks over the table, entered in the history as a lookup of each key (schedule_scan.c). */
void schedule_scan(struct schedule_client *c, struct far_task *t);

/* A fiber of a client at work. */
void schedule_work(struct far_task *t, void *arg);

/* Gives up index and session without a word to the nodes. */
void schedule_desert(struct schedule_client *c, struct far_task *t);

/* schedule_deed.c ------------------------------------------------------------------------------------------- */

/* Does the deed of the configuration. */
void schedule_deed(struct schedule_client *c, struct far_task *t);

/* schedule_settle.c ----------------------------------------------------------------------------------------- */

/* A key that nobody touches: `put`, or verified. */
int schedule_fill(struct schedule_client *c, struct far_task *t, unsigned i, bool put);

/* Closes index, table and session: the first error. All are gone afterwards. */
int schedule_shut(struct schedule_client *c, struct far_task *t);

/* Waits until the dead are fenced, and adopts what they left: the number of chunks, or an error. */
int schedule_take_over(struct schedule_client *c, struct far_task *t);

/* All leave, dead or alive; then somebody new looks at everything (not where speed is measured). */
int schedule_settle(struct schedule *s);

/* schedule_judge.c ------------------------------------------------------------------------------------------ */

/* Notes what one operation cost: `began` is when. */
void schedule_judge_op(struct schedule *s, uint32_t i, uint64_t began, const struct far_count *spent);

/* `err` ended an attempt to open or inspect the table. Is that right, as things stand? */
bool schedule_may_fail(const struct schedule *s, int err);

void schedule_judge(struct schedule *s);

/* schedule.c ------------------------------------------------------------------------------------------------ */

/* Whether chains take effect at once, for set-up, or as configured. */
void schedule_calm(struct schedule *s, bool calm);

#endif
