/* SPDX-License-Identifier: Apache-2.0 */
/* sim_test.c -- the simulator shows what far memory may show, and the same again for the same seed. */
#include "fabric/sim.h"

#include "base/base.h"
#include "fabric/backend.h"
#include "fabric/sim_rig.h"
#include "pool/node.h"
#include "test.h"

enum { CLIENTS = 4, REGION = 1 << 20, WORDS = 16, SEEDS = 200 };

/* One world, its loop and its clients. */
struct rig {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric[CLIENTS];
	int err[CLIENTS];
	uint64_t seen[CLIENTS][WORDS];
	unsigned torn, rounds;
	bool fence;
};

static struct far_addr
at(unsigned node, uint64_t off)
{
	return far_addr_make(node, off);
}

static void
rig_connect(struct rig *r)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		REQUIRE(far_sim_connect(r->sim, r->loop, NULL, &r->fabric[i]) == 0);
}

static void
rig_open(struct rig *r, uint64_t seed, bool raw)
{
	struct far_sim_opts o = { .seed = seed, .nodes_n = 2, .region_len = REGION, .raw = raw };

	memset(r, 0, sizeof(*r));
	sim_rig_open(&o, &r->sim, &r->loop);
	rig_connect(r);
}

static void
rig_disconnect(struct rig *r)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		far_fabric_close(r->fabric[i]);
}

static void
rig_reset(struct rig *r, uint64_t seed)
{
	rig_disconnect(r);
	REQUIRE(far_sim_reset(r->sim, seed) == 0);
	far_loop_reset(r->loop, seed);
	rig_connect(r);
}

static void
rig_close(struct rig *r)
{
	sim_rig_close(r->sim, r->loop, r->fabric, CLIENTS);
}

static void
rig_run(struct rig *r, void (*fn)(struct far_task *t, void *arg), unsigned clients)
{
	sim_rig_run(r, r->loop, r->fabric, clients, fn);
}

/* Tearing ------------------------------------------------------------------------------------------------- */

static void
tear(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t buf[WORDS];

	for (uint64_t k = 1; k <= 4; k++) {
		for (unsigned i = 0; i < WORDS; i++)
			buf[i] = k;
		if (c->id == 0)
			far_write(t, at(0, 64), buf, sizeof(buf));
		else
			far_read(t, at(0, 64), buf, sizeof(buf));
		CHECK_EQ(far_wait(t), 0);
		for (unsigned i = 1; i < WORDS; i++)
			if (buf[i] != buf[0]) {
				c->rig->torn++;
				/* Words in any order: an older one may follow a newer one. */
				c->rig->rounds += buf[i] > buf[i - 1];
				break;
			}
	}
}

static void
test_sim_reads_tear_in_any_order_but_not_when_calm(void)
{
	struct rig r;

	rig_open(&r, 1, true);
	rig_run(&r, tear, CLIENTS);
	for (unsigned i = 0; i < 20; i++) {
		rig_reset(&r, i);
		rig_run(&r, tear, CLIENTS);
	}
	CHECK(r.torn > 20 && r.rounds > 0 && r.rounds < r.torn);
	r.torn = 0;
	far_sim_set_policy(r.sim, &(struct far_sim_policy){ .calm = true });
	rig_run(&r, tear, CLIENTS);
	CHECK_EQ(r.torn, 0);
	rig_close(&r);
}

/* Atomics ------------------------------------------------------------------------------------------------- */

static void
count_faa(struct far_task *t, void *arg)
{
	uint64_t old;

	for (int i = 0; i < 10; i++) {
		far_faa(t, at(1, 8), 1, &old);
		CHECK_EQ(far_wait(t), 0);
	}
}

static void
count_cas(struct far_task *t, void *arg)
{
	uint64_t have = 0, old;

	for (int i = 0; i < 10;) {
		far_cas(t, at(1, 8), have, have + 1, &old);
		CHECK_EQ(far_wait(t), 0);
		i += old == have;
		have = old == have ? have + 1 : old;
	}
}

static void
count_wrong(struct far_task *t, void *arg)
{
	uint64_t v;

	for (int i = 0; i < 10; i++) {
		far_read(t, at(1, 8), &v, 8);
		CHECK_EQ(far_wait(t), 0);
		v++;
		far_write(t, at(1, 8), &v, 8);
		CHECK_EQ(far_wait(t), 0);
	}
}

static void
test_sim_counter_by_atomics_is_exact_by_writes_loses(void)
{
	struct rig r;
	uint64_t *word;
	unsigned lost = 0;

	rig_open(&r, 1, true);
	word = (uint64_t *)((char *)far_sim_region(r.sim, 1) + 8);
	for (unsigned i = 0; i < 50; i++) {
		rig_reset(&r, i);
		CHECK_EQ(*word, 0);
		rig_run(&r, count_faa, CLIENTS);
		rig_run(&r, count_cas, CLIENTS);
		CHECK_EQ(*word, 2 * 10 * CLIENTS);
		rig_reset(&r, i);
		rig_run(&r, count_wrong, CLIENTS);
		lost += *word != 10 * CLIENTS;
	}
	CHECK(lost > 25);
	rig_close(&r);
}

/* Order inside a chain ------------------------------------------------------------------------------------ */

/* WRITE then READ, atomic, WRITE: always in that order. READ then WRITE: only with a fence. */
static void
order(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	struct far_addr own = at(0, 8 + 8 * c->id);
	uint64_t one = 1, two = 2, got, old, before[WORDS], after[WORDS] = { 0 };

	far_write(t, own, &one, 8);
	far_read(t, own, &got, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(got, 1);
	far_write(t, own, &two, 8);
	far_cas(t, own, 2, 3, &old);
	far_read(t, own, &got, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK(old == 2 && got == 3);
	memset(after, 0xff, sizeof(after));
	far_read(t, at(0, 64), before, sizeof(before));
	if (c->rig->fence)
		far_fence(t);
	far_write(t, at(0, 64), after, sizeof(after));
	CHECK_EQ(far_wait(t), 0);
	for (unsigned i = 0; i < WORDS; i++)
		c->rig->rounds += before[i] != 0;
}

static void
test_sim_weak_order_lets_write_pass_read_unless_fenced(void)
{
	struct rig r;

	rig_open(&r, 1, true);
	for (unsigned mode = 0; mode < 4; mode++) {
		far_sim_set_policy(r.sim, &(struct far_sim_policy){ .weak = mode & 1 });
		r.rounds = 0;
		for (unsigned i = 0; i < SEEDS; i++) {
			rig_reset(&r, i);
			r.fence = mode & 2;
			rig_run(&r, order, 1);
		}
		CHECK_EQ(r.rounds > 0, mode == 1);
	}
	rig_close(&r);
}

/* Determinism --------------------------------------------------------------------------------------------- */

static void
mixed(struct far_task *t, void *arg)
{
	tear(t, arg);
	count_cas(t, arg);
	far_sleep(t, far_rand(t) % 1000);
	count_wrong(t, arg);
	order(t, arg);
}

static uint64_t
mixed_hash(struct rig *r, unsigned seed)
{
	static const unsigned keep[] = { 0, 3, 6 };

	far_sim_set_policy(r->sim, &(struct far_sim_policy){ .keep = keep[seed % 3], .weak = seed % 2 });
	rig_run(r, mixed, CLIENTS);
	return far_sim_hash(r->sim);
}

static void
test_sim_same_seed_same_hash_on_old_and_new_world(void)
{
	uint64_t hash[SEEDS];
	struct rig r;

	rig_open(&r, 1, true);
	for (unsigned i = 0; i < SEEDS; i++) {
		rig_reset(&r, i);
		hash[i] = mixed_hash(&r, i);
		for (unsigned j = 0; j < i; j++)
			CHECK(hash[i] != hash[j]);
	}
	rig_close(&r);
	for (unsigned i = 0; i < SEEDS; i += 10) {
		rig_open(&r, i, true);
		CHECK(mixed_hash(&r, i) == hash[i]);
		rig_close(&r);
	}
}

/* Fate ---------------------------------------------------------------------------------------------------- */

static void
fate(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t buf[WORDS];

	memset(buf, 0xff, sizeof(buf));
	far_write(t, at(0, 64), buf, sizeof(buf));
	c->rig->err[0] = far_wait(t);
	far_read(t, at(1, 64), buf, sizeof(buf));
	c->rig->err[1] = far_wait(t);
}

static void
test_sim_killed_client_stops_between_two_words(void)
{
	struct rig r;
	uint64_t *region;
	unsigned written = 0;

	rig_open(&r, 5, true);
	region = far_sim_region(r.sim, 0);
	far_sim_fuse(r.fabric[0], 5, FAR_SIM_KILL, 0);
	rig_run(&r, fate, 1);
	for (unsigned i = 0; i < WORDS; i++)
		written += region[8 + i] != 0;
	CHECK_EQ(written, 5);
	CHECK_EQ(r.err[0], -FAR_EFENCED);
	CHECK_EQ(r.err[1], -FAR_EFENCED);
	rig_close(&r);
}

static void
pausing(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t v = c->id;

	for (int i = 0; i < 20; i++) {
		far_write(t, at(0, 8 + 8 * c->id), &v, 8);
		CHECK_EQ(far_wait(t), 0);
		far_sleep(t, 1000);
	}
	c->rig->seen[c->id][0] = far_now(t);
}

static void
test_sim_paused_client_lets_time_and_others_go_on(void)
{
	struct rig r;

	rig_open(&r, 5, true);
	far_sim_fuse(r.fabric[2], 7, FAR_SIM_PAUSE, 1000000);
	rig_run(&r, pausing, CLIENTS);
	for (unsigned i = 0; i < CLIENTS; i++)
		CHECK_EQ(r.seen[i][0] >= 1000000, i == 2);
	CHECK(far_sim_now(r.sim) < 1100000);
	rig_close(&r);
}

static void
test_sim_endless_run_is_ended(void)
{
	struct rig r;

	rig_open(&r, 5, true);
	far_sim_set_policy(r.sim, &(struct far_sim_policy){ .steps_max = 10 });
	rig_run(&r, fate, 1);
	CHECK(far_sim_exhausted(r.sim));
	CHECK_EQ(r.err[1], -FAR_EFENCED);
	rig_close(&r);
}

static void
outage(struct far_task *t, void *arg)
{
	static uint64_t many[2048];
	struct sim_client *c = arg;

	if (c->id == 1) {
		far_sleep(t, 10000);
		far_sim_node_down(c->rig->sim, 0);
		return;
	}
	far_write(t, at(0, 4096), many, sizeof(many));
	c->rig->err[0] = far_wait(t);
	far_read(t, at(1, 64), many, sizeof(many));
	c->rig->err[1] = far_wait(t);
	far_read(t, at(0, 64), many, sizeof(many));
	c->rig->err[2] = far_wait(t);
}

static void
test_sim_node_that_fails_comes_back_empty_or_not(void)
{
	struct rig r;
	uint64_t *region;

	for (int keep = 0; keep < 2; keep++) {
		rig_open(&r, 5, true);
		region = far_sim_region(r.sim, 0);
		region[100] = 1;
		far_sim_touch(r.sim, 0, 800, 8);
		rig_run(&r, outage, 2);
		CHECK_EQ(r.err[0], -FAR_EUNSURE);
		CHECK_EQ(r.err[1], 0);
		CHECK_EQ(r.err[2], -FAR_ENODE);
		CHECK_EQ(far_sim_node_up(r.sim, 0, keep), 0);
		CHECK_EQ(region[100], keep);
		/* Old connections are no good. */
		rig_run(&r, fate, 1);
		CHECK_EQ(r.err[0], -FAR_ENODE);
		rig_disconnect(&r);
		rig_connect(&r);
		rig_run(&r, fate, 1);
		CHECK_EQ(r.err[0], 0);
		rig_close(&r);
	}
}

/* The node ------------------------------------------------------------------------------------------------ */

static int
ask(struct far_task *t, uint32_t code, uint64_t serial, struct control_reply *reply)
{
	struct control_request req = { .code = code, .serial = serial, .nodes_n = 2, .pool_id = { 1, 2 } };
	int err = far_call(t, 0, &req, sizeof(req), reply, sizeof(*reply));

	return err < 0 ? err : reply->err;
}

static void
fencing(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	struct control_reply reply;
	uint64_t v = 1;

	CHECK_EQ(ask(t, CONTROL_FORM, 0, &reply), 0);
	CHECK_EQ(ask(t, CONTROL_SESSION, 0, &reply), 0);
	c->rig->seen[c->id][0] = reply.serial;
	far_sleep(t, 100000);
	if (c->id == 0)
		CHECK_EQ(ask(t, CONTROL_FENCE, c->rig->seen[1][0], &reply), 0);
	far_sleep(t, 100000);
	far_read(t, at(0, 8), &v, 8);
	c->rig->err[c->id] = far_wait(t);
	far_read(t, at(1, 8), &v, 8);
	CHECK_EQ(far_wait(t), 0);
}

static void
test_sim_fenced_session_is_cut_at_that_node(void)
{
	struct rig r;

	rig_open(&r, 5, false);
	for (int i = 0; i < 3; i++) {
		rig_run(&r, fencing, 3);
		CHECK_EQ(r.err[0], 0);
		CHECK_EQ(r.err[1], -FAR_EFENCED);
		CHECK_EQ(r.err[2], 0);
		CHECK(r.seen[0][0] != r.seen[1][0] && r.seen[0][0] != r.seen[2][0]);
		CHECK_EQ(far_sim_node_check(r.sim, 0), 0);
		rig_reset(&r, 5);
	}
	rig_close(&r);
}

static void
invalid(struct far_task *t, void *arg)
{
	struct control_reply reply;
	uint64_t v[2], one = 1;

	far_write(t, at(0, 64), &one, 8);
	far_read(t, at(0, REGION - 8), v, 16);
	far_write(t, at(0, 72), &one, 8);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	far_read(t, at(0, 64), v, 16);
	CHECK_EQ(far_wait(t), 0);
	CHECK(v[0] == 1 && v[1] == 0);
	far_faa(t, at(0, 4), 1, v);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	far_read(t, at(0, 0xfffffffffff8), v, 16);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	far_read(t, at(0, 8), v, 12);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	/* Raw memory has no control endpoint. */
	CHECK_EQ(ask(t, CONTROL_SESSION, 0, &reply), -FAR_ENOTSUP);
}

static void
test_sim_wrong_addresses_are_refused(void)
{
	struct rig r;

	rig_open(&r, 5, true);
	for (int i = 0; i < 4; i++) {
		far_sim_set_policy(r.sim, &(struct far_sim_policy){ .weak = i & 1, .calm = i & 2 });
		rig_run(&r, invalid, 1);
		CHECK(far_sim_faults(r.sim)->invalid > 0);
		rig_reset(&r, 5);
	}
	rig_close(&r);
}

TEST_MAIN(TEST(test_sim_reads_tear_in_any_order_but_not_when_calm),
	  TEST(test_sim_counter_by_atomics_is_exact_by_writes_loses),
	  TEST(test_sim_weak_order_lets_write_pass_read_unless_fenced),
	  TEST(test_sim_same_seed_same_hash_on_old_and_new_world), TEST(test_sim_killed_client_stops_between_two_words),
	  TEST(test_sim_paused_client_lets_time_and_others_go_on), TEST(test_sim_endless_run_is_ended),
	  TEST(test_sim_node_that_fails_comes_back_empty_or_not), TEST(test_sim_fenced_session_is_cut_at_that_node),
	  TEST(test_sim_wrong_addresses_are_refused))
