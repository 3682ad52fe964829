/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_crash_test.c -- a memory node under random requests and under kills. The crash sweep makes the region read-only
 * and steps over one faulting store at a time, so it stops the shipped code between any two stores, those of memset()
 * included.
 */
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include "pool/node_rig.h"

/* Long and hostile runs ------------------------------------------------------------------------------------- */

static struct control_request
fuzz_request(struct rig *r, struct far_rng *rng, uint64_t step)
{
	/* Another node's serials come from outside and grow. */
	uint64_t serial = node_is_home(r->node) ? far_rng_below(rng, r->node->id.next_serial + 2)
						: step / 4 + far_rng_below(rng, 16);
	struct control_request q = {
		.code = (uint32_t)far_rng_below(rng, 17),
		.flags = far_rng_below(rng, 6) ? 0 : far_rng_below(rng, 2) ? CONTROL_FRESH
									   : CONTROL_ORPHAN,
		.serial = serial,
		.pool_id = { 7, 8 },
		.nodes_n = 2,
		.table = (uint32_t)far_rng_below(rng, 9),
		.kind = (uint32_t)far_rng_below(rng, 4),
		.class = (uint32_t)far_rng_below(rng, 5) * 3,
		.run = (uint32_t)(1 + far_rng_below(rng, far_rng_below(rng, 10) ? 6 : 80)),
		.off = r->node->id.data_off + far_rng_below(rng, r->node->id.pages_n) * POOL_PAGE,
		.design = "race",
		.name = "a",
	};

	/* Mostly the serial that fits, so that requests succeed. */
	q.root_serial = serial;
	if (q.table < r->node->id.roots_n && r->node->names[q.table].state != 0 && far_rng_below(rng, 8))
		q.root_serial = POOL_ROOT_SERIAL(r->node->names[q.table].state);
	q.name[0] = (char)('a' + far_rng_below(rng, 8));
	/* Now and then noise in one field. */
	if (far_rng_below(rng, 16) == 0)
		((uint32_t *)&q)[far_rng_below(rng, sizeof(q) / 4)] = (uint32_t)far_rng_next(rng);
	return q;
}

static void
fuzz_run(uint64_t len, unsigned place, uint64_t seed, int steps)
{
	struct control_reply reply;
	struct far_rng rng;
	struct rig r;
	int done = 0;

	far_rng_seed(&rng, seed);
	rig_init(&r, len);
	rig_form(&r, place);
	for (int i = 0; i < steps; i++) {
		struct control_request q = fuzz_request(&r, &rng, (uint64_t)i);
		unsigned conn = (unsigned)far_rng_below(&rng, 8);

		r.around.stop_result = far_rng_below(&rng, 3) ? 0 : far_rng_below(&rng, 2) ? -FAR_EACCESS
											   : -FAR_EAGAIN;
		node_serve(r.node, &r.at[conn], &q, &reply);
		done += reply.err == 0;
		if (reply.err == -FAR_EFENCED && far_rng_below(&rng, 2)) {
			node_stopped(r.node, r.at[conn]);
			r.at[conn] = 0;
		}
		if (far_rng_below(&rng, 200) == 0)
			rig_reopen(&r);
		if (i % 32 == 0)
			rig_check(&r);
	}
	CHECK(done > steps / (place ? 24 : 8));
	rig_fini(&r);
}

static void
test_serve_random_requests_keeps_tables_consistent(void)
{
	fuzz_run(512 << 10, 0, 1, 20000);
	fuzz_run(5 * MIB, 0, 2, 20000);
	fuzz_run(24 * MIB, 0, 3, 6000);
	fuzz_run(24 * MIB, 1, 4, 6000);
}

/* Crash sweep ----------------------------------------------------------------------------------------------- */

#if defined(__x86_64__) && !TEST_TSAN
static struct {
	void *region;
	size_t len;
	long left;   /* stores still allowed */
	long stores; /* stores seen */
	sigjmp_buf stop;
} sweep;

enum { SWEEP_TRAP_FLAG = 0x100 };

static void
sweep_on_store(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uintptr_t at = (uintptr_t)info->si_addr, from = (uintptr_t)sweep.region;

	(void)sig;
	if (at < from || at >= from + sweep.len)
		abort();
	if (sweep.left-- == 0)
		siglongjmp(sweep.stop, 1);
	sweep.stores++;
	mprotect(sweep.region, sweep.len, PROT_READ | PROT_WRITE);
	u->uc_mcontext.gregs[REG_EFL] |= SWEEP_TRAP_FLAG;
}

static void
sweep_on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig;
	(void)info;
	u->uc_mcontext.gregs[REG_EFL] &= ~(long long)SWEEP_TRAP_FLAG;
	mprotect(sweep.region, sweep.len, PROT_READ);
}

/* Serves `q` with at most `stores` stores; returns whether it was cut short. */
static bool
sweep_serve(struct rig *r, unsigned conn, const struct control_request *q, long stores)
{
	struct sigaction segv = { .sa_sigaction = sweep_on_store, .sa_flags = SA_SIGINFO }, old_segv;
	struct sigaction trap = { .sa_sigaction = sweep_on_step, .sa_flags = SA_SIGINFO }, old_trap;
	volatile bool cut = true;
	struct control_reply reply;

	sigaction(SIGSEGV, &segv, &old_segv);
	sigaction(SIGTRAP, &trap, &old_trap);
	sweep.region = r->region;
	sweep.len = r->len;
	sweep.left = stores;
	if (sigsetjmp(sweep.stop, 1) == 0) {
		mprotect(r->region, r->len, PROT_READ);
		if (q->code == CONTROL_FENCE) {
			node_stopped(r->node, r->at[1]);
		} else {
			node_serve(r->node, &r->at[conn], q, &reply);
			CHECK_EQ(reply.err, 0);
		}
		cut = false;
	}
	mprotect(r->region, r->len, PROT_READ | PROT_WRITE);
	sigaction(SIGSEGV, &old_segv, NULL);
	sigaction(SIGTRAP, &old_trap, NULL);
	return cut;
}

/* A life of a home node. Serials: sessions 1 and 2, roots 3 and 4. */
static const struct {
	unsigned conn;
	struct control_request q;
} sweep_script[] = {
	{ 0, { .code = CONTROL_FORM, .pool_id = { 7, 8 }, .nodes_n = 2, .generations = { 5, 6 } } },
	{ 0, { .code = CONTROL_SESSION } },
	{ 1, { .code = CONTROL_SESSION } },
	{ 1, { .code = CONTROL_RANGE } },
	{ 0, { .code = CONTROL_ROOT_NEW, .design = "race", .name = "table" } },
	{ 0, { .code = CONTROL_GRANT, .root_serial = 3, .kind = 2, .class = 1, .run = 3 } },
	{ 0, { .code = CONTROL_ROOT_SET, .root_serial = 3, .off = 4096 } },
	{ 0, { .code = CONTROL_GRANT, .root_serial = 3, .kind = 1, .class = 1, .run = 1 } },
	{ 1, { .code = CONTROL_GRANT, .root_serial = 3, .kind = 1, .class = 1, .run = 2 } },
	{ 1, { .code = CONTROL_GRANT, .root_serial = 3, .kind = 1, .class = 2, .run = 40 } },
	{ 1, { .code = CONTROL_ROOT_NEW, .design = "race", .name = "other" } },
	{ 1, { .code = CONTROL_GRANT, .table = 1, .root_serial = 4, .kind = 1, .class = 1, .run = 1 } },
	{ 0, { .code = CONTROL_FENCE } }, /* of connection 1 */
	{ 0, { .code = CONTROL_GRANT, .root_serial = 3, .kind = 1, .class = 1, .run = 2 } },
	{ 0, { .code = CONTROL_RELEASE, .off = POOL_SUPERPAGE } },
	{ 0, { .code = CONTROL_TABLE_FREE, .table = 1, .root_serial = 4 } },
	{ 0, { .code = CONTROL_ROOT_FREE, .table = 1, .root_serial = 4 } },
	{ 0, { .code = CONTROL_ROOT_DROP, .root_serial = 3 } },
	{ 0, { .code = CONTROL_TABLE_FREE, .root_serial = 3 } },
	{ 0, { .code = CONTROL_ROOT_FREE, .root_serial = 3 } },
	{ 0, { .code = CONTROL_ROOT_NEW, .design = "race", .name = "table" } },
	{ 0, { .code = CONTROL_LEAVE } },
};

/* Runs the script up to step `at`, stops that one after `stores` stores, restarts. False: it was not cut short. */
static bool
sweep_once(size_t at, long stores)
{
	uint64_t serial = 0, range = 0, given;
	struct rig r;
	bool cut;

	rig_init(&r, 7 * MIB);
	for (size_t i = 0; i < at; i++) {
		struct control_reply reply = { 0 };

		if (sweep_script[i].q.code == CONTROL_FENCE)
			node_stopped(r.node, r.at[1]);
		else
			reply = rig_call(&r, sweep_script[i].conn, sweep_script[i].q);
		CHECK_EQ(reply.err, 0);
		serial = far_max(serial, reply.serial);
		range = far_max(range, reply.first);
	}
	cut = sweep_serve(&r, sweep_script[at].conn, &sweep_script[at].q, stores);
	rig_reopen(&r);
	for (unsigned i = 0; i < r.node->id.sessions_n; i++)
		CHECK_EQ(r.node->lines[i].serial, 0);
	/* Still one pool; it serves on, and repeats neither serials nor sequence numbers. */
	rig_form(&r, 0);
	for (unsigned i = 0; i < 2; i++) {
		given = CALL(&r, i, .code = CONTROL_SESSION).serial;
		CHECK(given > serial);
		serial = given;
	}
	CHECK(CALL(&r, 1, .code = CONTROL_RANGE).first > range);
	rig_table(&r, 1, "fresh");
	rig_fini(&r);
	return cut;
}

static void
test_crash_between_any_two_stores_is_repaired(void)
{
	long stores;

	for (size_t at = 0; at < FAR_LEN(sweep_script); at++) {
		for (stores = 0; stores < 10000 && sweep_once(at, stores); stores++)
			;
		CHECK(stores > 0 && stores < 10000);
	}
	CHECK(sweep.stores > 1000);
}

#else
static void
test_crash_between_any_two_stores_is_repaired(void)
{
	SKIP("steps over stores by the x86 trap flag, which ThreadSanitizer does not bear");
}
#endif

static void
test_crash_while_formatting_leaves_no_region(void)
{
	/* The magic is stored last: whatever came before it counts for nothing. */
	struct node *n = NULL;
	struct rig r;

	rig_init(&r, MIB);
	((struct pool_super *)r.region)->magic = 0;
	CHECK_EQ(node_open(r.region, r.len, &r.around.env, &n), -FAR_EFORMAT);
	((struct pool_super *)r.region)->magic = POOL_MAGIC;
	rig_fini(&r);
}
TEST_MAIN(TEST(test_serve_random_requests_keeps_tables_consistent),
	  TEST(test_crash_between_any_two_stores_is_repaired),
	  TEST(test_crash_while_formatting_leaves_no_region))
