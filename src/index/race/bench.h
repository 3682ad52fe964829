/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- for tests of RACE: one client with the table "t" open, whose operations are counted one by one. */
#ifndef FAR_RACE_BENCH_H
#define FAR_RACE_BENCH_H

#include "base/base.h"
#include "conform/world.h"
#include "fabric/sim.h"
#include "index/race/race.h"
#include "test.h"

struct bench {
	struct world *w;
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
	struct far_count count;
	uint64_t lease_ns;    /* 0: the default */
	unsigned elsewhere;   /* a node where the first subtable does not lie */
};

static inline void
bench_open(struct bench *b, struct far_task *t, bool create, unsigned groups)
{
	struct pool_opts po = { .lease_ns = b->lease_ns };
	struct far_index_opts o = { .groups = groups };
	struct far_addr head;

	REQUIRE(pool_open(t, &po, &b->pool) == 0);
	if (create) {
		REQUIRE(pool_table_new(b->pool, t, "t", "race", &b->pt) == 0);
		REQUIRE(race_create(b->pt, t, &o, &head) == 0);
		REQUIRE(pool_table_commit(b->pt, t, head) == 0);
	} else {
		REQUIRE(pool_table_open(b->pool, t, "t", &b->pt) == 0);
	}
	REQUIRE(pool_enter(b->pool, t) == 0);
	REQUIRE(far_index_open(far_index_find("race"), b->pt, t, &o, &b->ix) == 0);
	CHECK_EQ(pool_leave(b->pool, t), 0);
	b->elsewhere = !far_addr_node(race_unpack(race_of(b->ix)->dir[0]));
}

static inline void
bench_close(struct bench *b, struct far_task *t)
{
	pool_table_detach(b->pt, t);
	race_close(b->ix);
	CHECK_EQ(pool_table_close(b->pt, t), 0);
	CHECK_EQ(pool_close(b->pool, t), 0);
}

enum bench_op {
	BENCH_GET,
	BENCH_INSERT,
	BENCH_UPDATE,
	BENCH_DELETE,
	BENCH_MOVE,
};

/* Runs one operation on an account of its own. */
static inline int
bench_op(struct bench *b, struct far_task *t, enum bench_op op, const char *key)
{
	struct far_bytes k = far_str(key), v = FAR_STR("8 bytes.");
	struct far_scratch_mark m = far_scratch_mark(t);
	struct far_count *before;
	struct far_value value;
	uint64_t version = 0;
	int err;

	memset(&b->count, 0, sizeof(b->count));
	REQUIRE(pool_enter(b->pool, t) == 0);
	before = far_account(t, &b->count);
	switch (op) {
	case BENCH_GET:
		err = race_get(b->ix, t, k, &value);
		break;
	case BENCH_INSERT:
		err = race_put(b->ix, t, FAR_PUT_INSERT, k, v, &version);
		break;
	case BENCH_UPDATE:
		err = race_put(b->ix, t, FAR_PUT_UPDATE, k, v, &version);
		break;
	case BENCH_DELETE:
		err = race_del(b->ix, t, k, 0);
		break;
	default:
		err = race_move(b->ix, t, k, b->elsewhere);
	}
	far_account(t, before);
	CHECK_EQ(pool_leave(b->pool, t), 0);
	far_scratch_reset(t, m);
	return err;
}

/* "WHO I" */
static inline const char *
bench_key(char *buf, const char *who, unsigned i)
{
	snprintf(buf, 32, "%s %u", who, i);
	return buf;
}

/* What a crash looks like: nobody hears of this client again. On the simulator the caller kills its connection. */
static inline void
bench_abandon(struct bench *b)
{
	b->pt->index = NULL;
	race_close(b->ix);
	pool_abandon(b->pool);
}

static inline void
bench_report(void *arg, const char *line)
{
	printf("# check: %s\n", line);
}

/* After all clients have ended, one looks through their chunks: what the nodes handed out is in use, free, or a chunk's
 * header; nothing is lost, whoever died. */
static inline void
bench_audit(struct bench *b, struct far_task *t)
{
	struct far_table_stat stat;
	struct pool_usage u;

	bench_open(b, t, false, 0);
	CHECK(pool_table_adopt_orphans(b->pt, t) >= 0);
	CHECK_EQ(pool_enter(b->pool, t), 0);
	CHECK_EQ(race_check(b->ix, t, bench_report, NULL), 0);
	CHECK_EQ(race_stat(b->ix, t, &stat), 0);
	CHECK_EQ(pool_leave(b->pool, t), 0);
	CHECK_EQ(pool_table_usage(b->pt, t, &u), 0);
	CHECK_EQ(u.granted[0], stat.block_bytes + u.free[0] + u.header[0]);
	CHECK_EQ(u.granted[1], stat.index_bytes + u.free[1] + u.header[1]);
	bench_close(b, t);
}

#endif
