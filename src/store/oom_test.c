/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom_test.c -- every allocation fails once.
 *
 * One client opens a pool, makes a table and drops it, opens another, in which two others have put keys, changes these
 * and adds more until it splits, reads, scans, inspects, repairs it when one of the others has died, and closes. The
 * k-th allocation of all that is refused, for each k in turn until none is left (and once more with all that follow
 * refused, until a call has failed). Whatever call that hits ends with -FAR_ENOMEM or well, and does its work when it
 * is made again; who could not keep what it had begun loses its session and opens another. In the end every key has its
 * value, the table is whole, memory of the nodes adds up, and none is lost here.
 *
 * Only this thread allocates.
 */
#include "base/base.h"
#include "fabric/backend.h"
#include "fabric/sim_rig.h"
#include "memory.h"
#include "store/handle.h"

enum {
	OOM_LEASE_NS = 2000000,
	OOM_KEYS = 120,
	OOM_KEPT = 4, /* more keys, of the one that dies */
	OOM_TRIES = 8,
};

struct oom_world {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far *other; /* nothing is refused to it, but in maintenance that runs meanwhile */
	struct far_table *others;
	struct far *dying; /* until OOM_WAIT */
	struct far_table *dyings;
	struct far *f;
	struct far_table *t;
	unsigned sessions, failed; /* opened; calls that ended with -FAR_ENOMEM */
};

static struct far *
oom_connect(struct oom_world *w, uint64_t seed, int *err)
{
	struct far_opts o = { .lease_ns = OOM_LEASE_NS, .seed = seed, .fibers = 4 };
	struct far_fabric *fabric;
	struct far *f = NULL;

	*err = far_sim_connect(w->sim, w->loop, NULL, &fabric);
	if (!*err && (*err = store_open_on(w->loop, fabric, &o, &f)) != 0)
		far_fabric_close(fabric);
	return f;
}

/* Each step of the story; `i` counts its repetitions. */
enum oom_step {
	OOM_CREATE,
	OOM_OPEN,
	OOM_PUT,
	OOM_GET,
	OOM_BATCH,
	OOM_MOVE,
	OOM_WALK,
	OOM_CHECK,
	OOM_STAT,
	OOM_LIST,
	OOM_NODES,
	OOM_WAIT, /* one client dies, and is fenced */
	OOM_REPAIR,
	OOM_DELETE,
	OOM_DROP,
	OOM_STEPS,
};

static struct far_bytes
oom_key(char key[16], unsigned i)
{
	snprintf(key, 16, "key %u", i);
	return far_str(key);
}

/* A long one now and then. */
static struct far_bytes
oom_value(unsigned i)
{
	static char bytes[20000];

	memset(bytes, 'a' + (int)(i % 26), sizeof(bytes));
	return far_bytes(bytes, i % 16 == 7 ? sizeof(bytes) : 10 + i);
}

static bool
oom_same(struct far_bytes a, struct far_bytes b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

static int
oom_get(struct oom_world *w, unsigned i)
{
	struct far_value v;
	char key[16];
	int err = far_get(w->t, oom_key(key, i), &v);

	if (!err)
		CHECK(oom_same(v.bytes, oom_value(i)));
	return err;
}

static int
oom_batch(struct oom_world *w)
{
	struct far_request r[OOM_KEYS / 2];
	char keys[OOM_KEYS / 2][16];
	int err;

	for (unsigned i = 0; i < FAR_LEN(r); i++)
		r[i] = (struct far_request){ .kind = FAR_GET, .key = oom_key(keys[i], i) };
	err = far_batch(w->t, r, FAR_LEN(r));
	for (unsigned i = 0; i < FAR_LEN(r) && !err; i++) {
		CHECK_EQ(r[i].result, 0);
		CHECK(oom_same(r[i].value, oom_value(i)));
	}
	return err;
}

static int
oom_walk(struct oom_world *w)
{
	struct far_iter *it;
	struct far_bytes key;
	struct far_value value;
	unsigned n = 0;
	int got = far_iter_open(w->t, &it);

	if (got)
		return got;
	while ((got = far_iter_next(it, &key, &value)) > 0)
		n++;
	far_iter_close(it);
	if (!got)
		CHECK_EQ(n, OOM_KEYS + OOM_KEPT);
	return got;
}

static int
oom_list(struct oom_world *w)
{
	struct far_table_info *list;
	int n = far_table_list(w->f, &list);

	if (n < 0)
		return n;
	CHECK_EQ(n, 2);
	free(list);
	return 0;
}

static void
oom_sleep(struct far_task *task, void *arg)
{
	far_sleep(task, 3 * OOM_LEASE_NS);
}

/* One client dies; the others notice it. */
static int
oom_wait(struct oom_world *w)
{
	uint64_t left = memory_fail_at;
	void *nothing = NULL;

	memory_fail_at = 0;
	if (w->dying) {
		far_sim_kill(w->dying->fabric);
		far_table_close(w->dyings);
		far_close(w->dying);
		w->dying = NULL;
	}
	memory_fail_at = left;
	return store_run(w->f, 1, oom_sleep, &nothing);
}

static int
oom_do(struct oom_world *w, enum oom_step step, unsigned i)
{
	static const struct far_table_opts small = { .groups = 1 };
	struct far_node_info info[2];
	struct far_table_stat stat;
	char key[16];
	int n;

	switch (step) {
	case OOM_CREATE:
		return far_table_create(w->f, "u", &small);
	case OOM_OPEN:
		return w->t ? 0 : far_table_open(w->f, "t", &w->t);
	case OOM_PUT:
		return far_put(w->t, oom_key(key, i), oom_value(i), NULL);
	case OOM_GET:
		return oom_get(w, i);
	case OOM_BATCH:
		return oom_batch(w);
	case OOM_MOVE:
		return far_move(w->t, oom_key(key, i), i % 2);
	case OOM_WALK:
		return oom_walk(w);
	case OOM_CHECK:
		return far_table_check(w->t, NULL, NULL);
	case OOM_STAT:
		return far_table_stat(w->t, &stat);
	case OOM_LIST:
		return oom_list(w);
	case OOM_NODES:
		n = far_nodes(w->f, info, 2);
		return n < 0 ? n : 0;
	case OOM_WAIT:
		return oom_wait(w);
	case OOM_REPAIR:
		n = far_table_repair(w->t);
		return n < 0 ? n : 0;
	case OOM_DELETE:
		return far_delete(w->t, oom_key(key, i));
	default:
		if (i == 0)
			return far_table_drop(w->f, "u");
		far_table_close(w->t);
		w->t = NULL;
		return far_table_drop(w->f, "t");
	}
}

/* Another session for who lost its own, or has had none yet; with the table, when there should be one. */
static void
oom_session(struct oom_world *w, bool table)
{
	int err = -FAR_ENOMEM;

	if (w->t)
		far_table_close(w->t);
	far_close(w->f);
	w->f = NULL;
	w->t = NULL;
	for (int i = 0; i < OOM_TRIES && err; i++) {
		memory_fail_at = i ? 0 : memory_fail_at;
		w->f = oom_connect(w, 10 + w->sessions, &err);
		CHECK(err == 0 || err == -FAR_ENOMEM);
		w->failed += err != 0;
	}
	REQUIRE(err == 0);
	w->sessions++;
	for (int i = 0; i < OOM_TRIES && table && !w->t; i++) {
		memory_fail_at = i ? 0 : memory_fail_at;
		err = far_table_open(w->f, "t", &w->t);
		CHECK(err == 0 || err == -FAR_ENOMEM);
		w->failed += err != 0;
	}
}

/* What the call says when it had done its work before memory ran out, and is made once more. */
static bool
oom_was_done(enum oom_step step, int err)
{
	return (step == OOM_CREATE && err == -FAR_EEXIST) ||
	       ((step == OOM_DELETE || step == OOM_DROP) && err == -FAR_ENOENT);
}

/* Makes the call until it ends well: the second time nothing is refused any more. */
static void
oom_step(struct oom_world *w, enum oom_step step, unsigned i)
{
	int err = -FAR_ENOMEM;

	for (int tries = 0; tries < OOM_TRIES && err; tries++) {
		if (memory_failed && (tries > 0 || !memory_stays_short))
			memory_fail_at = 0;
		err = oom_do(w, step, i);
		if (tries > 0 && oom_was_done(step, err))
			err = 0;
		if (err != 0 && err != -FAR_ENOMEM && err != -FAR_EFENCED) {
			printf("# step %d, %u: %s\n", step, i, far_errname(err));
			CHECK(!"an error that has nothing to do with memory");
		}
		w->failed += err == -FAR_ENOMEM;
		if (err == -FAR_EFENCED) {
			memory_fail_at = 0;
			oom_session(w, step != OOM_OPEN && (step != OOM_DROP || i == 0));
		}
	}
	CHECK_EQ(err, 0);
}

static const struct {
	enum oom_step step;
	unsigned times;
} oom_story[] = {
	{ OOM_CREATE, 1 },
	{ OOM_OPEN, 1 },
	{ OOM_PUT, OOM_KEYS },
	{ OOM_GET, OOM_KEYS },
	{ OOM_BATCH, 1 },
	{ OOM_MOVE, 8 },
	{ OOM_WALK, 1 },
	{ OOM_CHECK, 1 },
	{ OOM_STAT, 1 },
	{ OOM_LIST, 1 },
	{ OOM_DROP, 1 },
	{ OOM_NODES, 1 },
	{ OOM_WAIT, 1 },
	{ OOM_REPAIR, 1 },
};

/* All that the nodes handed out for the table is in use, free, or a chunk's header. */
static void
oom_audit(struct oom_world *w)
{
	struct far_table_stat s;

	CHECK(far_table_repair(w->t) >= 0);
	CHECK_EQ(far_table_check(w->t, NULL, NULL), 0);
	REQUIRE(far_table_stat(w->t, &s) == 0);
	CHECK_EQ(s.keys, OOM_KEYS + OOM_KEPT);
	CHECK(s.splits > 2);
	CHECK_EQ(s.granted_block_bytes + s.granted_index_bytes,
		 s.free_block_bytes + s.free_index_bytes + s.header_bytes + s.block_bytes + s.index_bytes);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(far_sim_node_check(w->sim, i), 0);
}

/* Before the story: one client makes the table and puts keys, another one too. */
static void
oom_before(struct oom_world *w)
{
	static const struct far_table_opts small = { .groups = 1 };
	static const char bytes[3000]; /* of a length that nobody else writes: its chunk waits for the repair */
	char key[16];
	int err;

	w->dying = oom_connect(w, 1, &err);
	REQUIRE(err == 0);
	CHECK_EQ(far_table_create(w->dying, "t", &small), 0);
	REQUIRE(far_table_open(w->dying, "t", &w->dyings) == 0);
	for (unsigned i = 0; i < OOM_KEYS / 6; i++)
		CHECK_EQ(far_put(w->dyings, oom_key(key, i), far_bytes(bytes, sizeof(bytes)), NULL), 0);
	for (unsigned i = OOM_KEYS; i < OOM_KEYS + OOM_KEPT; i++)
		CHECK_EQ(far_put(w->dyings, oom_key(key, i), far_bytes(bytes, sizeof(bytes)), NULL), 0);
	w->other = oom_connect(w, 2, &err);
	REQUIRE(err == 0 && far_table_open(w->other, "t", &w->others) == 0);
	for (unsigned i = OOM_KEYS / 6; i < 2 * OOM_KEYS / 6; i++)
		CHECK_EQ(far_put(w->others, oom_key(key, i), FAR_STR("of another"), NULL), 0);
}

/* The whole story with the k-th allocation refused. Returns how many were. */
static uint64_t
oom_play(struct oom_world *w, uint64_t k, bool forever)
{
	struct far_sim_opts o = { .seed = 7, .nodes_n = 2, .region_len = 4 << 20 };
	struct far_sim_policy p = { .calm = true };

	*w = (struct oom_world){ .sessions = 0 };
	memory_failed = 0;
	sim_rig_open(&o, &w->sim, &w->loop);
	far_sim_set_policy(w->sim, &p);
	oom_before(w);
	memory_fail_at = k;
	memory_stays_short = forever;
	oom_session(w, false);
	for (unsigned s = 0; s < FAR_LEN(oom_story); s++) {
		for (unsigned i = 0; i < oom_story[s].times; i++)
			oom_step(w, oom_story[s].step, i);
	}
	far_table_close(w->t);
	w->t = NULL;
	far_close(w->f);
	w->f = NULL;
	far_table_close(w->others);
	far_close(w->other);
	memory_fail_at = 0;
	/* Who could not note a block that it had unlinked lost it: until its chunk had no owner any more. */
	oom_session(w, true);
	oom_audit(w);
	for (unsigned i = 0; i < OOM_KEYS; i++)
		oom_step(w, OOM_DELETE, i);
	oom_step(w, OOM_DROP, 1);
	far_close(w->f);
	far_loop_close(w->loop);
	far_sim_close(w->sim);
	return memory_failed;
}

static void
oom_sweep(bool forever)
{
	uint64_t k = 0, failed = 0, sessions = 0;
	int64_t live = memory_live;
	struct oom_world w;
	bool more = true;
	int before;

	oom_play(&w, 0, false);
	CHECK_EQ(w.failed, 0);
	CHECK_EQ(memory_live, live);
	while (more && test_failures < 10) {
		before = test_failures;
		more = oom_play(&w, ++k, forever) > 0;
		CHECK_EQ(memory_live, live);
		failed += w.failed > 0;
		sessions += w.sessions > 2;
		if (test_failures > before)
			printf("# ... when allocation %llu is refused\n", (unsigned long long)k);
	}
	printf("# of %llu allocations %llu made a call fail, and %llu cost a session; %u places\n",
	       (unsigned long long)k - 1, (unsigned long long)failed, (unsigned long long)sessions, memory_sites_n);
}

static void
test_store_each_allocation_fails_once_and_nothing_is_lost(void)
{
	oom_sweep(false);
	/* Most of what the library has: what only shared memory or a table of many chunks needs is missing. */
	CHECK(memory_sites_n >= 30);
}

static void
test_store_all_allocations_fail_from_one_on_and_nothing_is_lost(void)
{
	oom_sweep(true);
}

TEST_MAIN(TEST(test_store_each_allocation_fails_once_and_nothing_is_lost),
	  TEST(test_store_all_allocations_fail_from_one_on_and_nothing_is_lost))
