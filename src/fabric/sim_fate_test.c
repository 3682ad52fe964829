/* SPDX-License-Identifier: Apache-2.0 */
/* sim_fate_test.c -- what the simulator does to protocols when it is asked to: each fault shows, and only then. */
#include "base/base.h"
#include "fabric/backend.h"
#include "fabric/sim_rig.h"
#include "pool/control.h"
#include "test.h"

enum { CLIENTS = 3, REGION = 1 << 20, WORDS = 16, SEEDS = 200, LONG_NS = 1000000 };

/* A world of two nodes, and what its clients saw. */
struct rig {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric[CLIENTS];
	enum far_sim_fate fate; /* of client 1, after so many words */
	unsigned fuse;
	int err[CLIENTS][3];
	uint64_t seen[CLIENTS][WORDS];
};

static struct far_addr
at(unsigned node, uint64_t off)
{
	return far_addr_make(node, off);
}

static uint64_t *
word(struct rig *r, unsigned node, uint64_t off)
{
	return (uint64_t *)((char *)far_sim_region(r->sim, node) + off);
}

static void
rig_open(struct rig *r, uint64_t seed, bool raw, const struct far_sim_policy *p)
{
	struct far_sim_opts o = { .seed = seed, .nodes_n = 2, .region_len = REGION, .raw = raw };

	memset(r, 0, sizeof(*r));
	sim_rig_open(&o, &r->sim, &r->loop);
	far_sim_set_policy(r->sim, p);
	for (unsigned i = 0; i < CLIENTS; i++)
		REQUIRE(far_sim_connect(r->sim, r->loop, NULL, &r->fabric[i]) == 0);
}

static void
rig_close(struct rig *r)
{
	sim_rig_close(r->sim, r->loop, r->fabric, CLIENTS);
}

static void
rig_run(struct rig *r, unsigned clients, void (*fn)(struct far_task *t, void *arg))
{
	sim_rig_run(r, r->loop, r->fabric, clients, fn);
}

/* Granules ------------------------------------------------------------------------------------------------ */

/* Two lines, written by client 0; the others look for a mix inside a line (0) and across lines (1). */
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
			c->rig->seen[0][i == WORDS / 2] += buf[i] != buf[i - 1];
	}
}

static void
test_sim_line_tears_between_lines_only(void)
{
	uint64_t seen[2][2] = { { 0 } };
	struct rig r;

	for (unsigned seed = 0; seed < 2 * SEEDS; seed++) {
		rig_open(&r, seed, true, &(struct far_sim_policy){ .line = seed % 2 });
		rig_run(&r, CLIENTS, tear);
		for (unsigned i = 0; i < 2; i++)
			seen[seed % 2][i] += r.seen[0][i];
		rig_close(&r);
	}
	CHECK(seen[0][0] > 0 && seen[0][1] > 0);
	CHECK(seen[1][0] == 0 && seen[1][1] > 0);
}

/* Client 0 adds 1, client 1 writes 100, client 2 tries an exchange that must fail. */
static void
collide(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t v = 100, old;

	if (c->id == 0)
		far_faa(t, at(0, 8), 1, &old);
	else if (c->id == 1)
		far_write(t, at(0, 8), &v, 8);
	else
		far_cas(t, at(0, 8), 7, 8, &old);
	CHECK_EQ(far_wait(t), 0);
}

static void
count(struct far_task *t, void *arg)
{
	uint64_t old;

	for (int i = 0; i < 10; i++) {
		far_faa(t, at(1, 8), 1, &old);
		CHECK_EQ(far_wait(t), 0);
	}
}

static void
test_sim_gap_loses_writes_but_no_atomics(void)
{
	unsigned lost[2] = { 0, 0 };
	struct rig r;

	for (unsigned seed = 0; seed < 2 * SEEDS; seed++) {
		bool gap = seed % 2;

		rig_open(&r, seed, true, &(struct far_sim_policy){ .gap = gap });
		CHECK_EQ(far_fabric_caps(r.fabric[0]), gap ? 0 : FAR_CAP_ATOMIC_GLOBAL);
		rig_run(&r, CLIENTS, collide);
		rig_run(&r, CLIENTS, count);
		CHECK_EQ(*word(&r, 1, 8), 10 * CLIENTS);
		CHECK(*word(&r, 0, 8) == 100 || *word(&r, 0, 8) == 101 || *word(&r, 0, 8) == 1);
		lost[gap] += *word(&r, 0, 8) == 1;
		rig_close(&r);
	}
	CHECK(lost[0] == 0 && lost[1] > 10);
}

/* Two WRITEs of one chain, the second of which is a flag; who sees the flag looks at the first. */
static void
flag(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t one = 1, set = 0, data = 0;

	if (c->id == 0) {
		far_write(t, at(0, 64), &one, 8);
		far_write(t, at(0, 128), &one, 8);
		CHECK_EQ(far_wait(t), 0);
		return;
	}
	far_read(t, at(0, 128), &set, 8);
	CHECK_EQ(far_wait(t), 0);
	far_read(t, at(0, 64), &data, 8);
	CHECK_EQ(far_wait(t), 0);
	c->rig->seen[0][0] += set && !data;
}

static void
test_sim_relaxed_writes_pass_writes(void)
{
	uint64_t passed[2] = { 0, 0 };
	struct rig r;

	for (unsigned seed = 0; seed < 2 * SEEDS; seed++) {
		rig_open(&r, seed, true, &(struct far_sim_policy){ .weak = true, .relaxed = seed % 2 });
		rig_run(&r, CLIENTS, flag);
		passed[seed % 2] += r.seen[0][0];
		rig_close(&r);
	}
	CHECK(passed[0] == 0 && passed[1] > 10);
}

/* Order of clients ---------------------------------------------------------------------------------------- */

/* Client 0 waits for what client 1 writes at its end. */
static void
spin(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t v = 0, buf[WORDS];

	if (c->id == 0) {
		while (v == 0) {
			far_read(t, at(0, 8), &v, 8);
			CHECK_EQ(far_wait(t), 0);
		}
		return;
	}
	for (unsigned i = 0; i < 10; i++) {
		far_read(t, at(0, 64), buf, sizeof(buf));
		CHECK_EQ(far_wait(t), 0);
	}
	c->rig->seen[c->id][0] = far_now(t);
	v = 1;
	far_write(t, at(0, 8), &v, 8);
	CHECK_EQ(far_wait(t), 0);
}

static void
test_sim_priorities_let_one_go_first_and_nobody_starve(void)
{
	unsigned alone[2] = { 0, 0 };
	struct rig r;

	for (unsigned seed = 0; seed < 2 * SEEDS; seed++) {
		struct far_sim_policy p = { .changes = seed % 2, .change_steps = 1000 };
		uint64_t first, last;

		rig_open(&r, seed, true, &p);
		rig_run(&r, CLIENTS, spin);
		first = far_min(r.seen[1][0], r.seen[2][0]);
		last = far_max(r.seen[1][0], r.seen[2][0]);
		/* One had finished before the other did anything of note. */
		alone[seed % 2] += last >= first + 9 * WORDS * 100;
		rig_close(&r);
	}
	CHECK(alone[1] > SEEDS / 2 && alone[0] < SEEDS / 10);
}

/* Things that stand still --------------------------------------------------------------------------------- */

static void
stroll(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t v, start = far_now(t), most = 0;

	for (int i = 0; i < 50; i++) {
		far_read(t, at(0, 8), &v, 8);
		CHECK_EQ(far_wait(t), 0);
		most = far_max(most, far_now(t) - start);
		start = far_now(t);
	}
	c->rig->seen[c->id][0] = far_max(c->rig->seen[c->id][0], most);
	c->rig->seen[c->id][1]++;
}

static void
test_sim_late_completions_come(void)
{
	struct rig r;

	rig_open(&r, 3, true, &(struct far_sim_policy){ .late = 8, .late_ns = LONG_NS });
	rig_run(&r, CLIENTS, stroll);
	for (unsigned i = 0; i < CLIENTS; i++)
		CHECK(r.seen[i][0] > LONG_NS / 4 && r.seen[i][0] < 2 * LONG_NS);
	CHECK(far_sim_faults(r.sim)->lates > 5);
	rig_close(&r);
}

static void
test_sim_parked_chain_leaves_the_clients_others_alone(void)
{
	struct sim_client c = { .id = 0 };
	struct rig r;

	rig_open(&r, 3, true, &(struct far_sim_policy){ .keep = 0 });
	c.rig = &r;
	far_sim_fuse(r.fabric[0], 20, FAR_SIM_PARK, LONG_NS);
	for (int i = 0; i < 2; i++)
		REQUIRE(far_loop_spawn(r.loop, r.fabric[0], stroll, &c, 0) == 0);
	while (r.seen[0][1] == 0)
		far_loop_turn(r.loop);
	/* One of the two fibers is through before the other's chain goes on. */
	CHECK(far_sim_now(r.sim) < LONG_NS / 2);
	far_loop_run(r.loop);
	CHECK(r.seen[0][0] >= LONG_NS && r.seen[0][1] == 2);
	CHECK_EQ(far_sim_faults(r.sim)->parks, 1);
	CHECK(far_sim_trouble_end(r.sim) >= LONG_NS);
	rig_close(&r);
}

static void
test_sim_plans_strike_at_their_time(void)
{
	struct rig r;

	rig_open(&r, 3, true, &(struct far_sim_policy){ .keep = 0 });
	for (unsigned i = 0; i < 2; i++)
		far_sim_plan_pause(r.fabric[i], 1000 * (i + 1), LONG_NS * (i + 1));
	rig_run(&r, CLIENTS, stroll);
	for (unsigned i = 0; i < CLIENTS; i++)
		CHECK_EQ(r.seen[i][0] / LONG_NS, i < 2 ? i + 1 : 0);
	CHECK_EQ(far_sim_faults(r.sim)->pauses, 2);
	rig_close(&r);
}

/* Connections that break ---------------------------------------------------------------------------------- */

static void
broken(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t buf[WORDS], v;

	memset(buf, 0xff, sizeof(buf));
	far_write(t, at(0, 64), buf, sizeof(buf));
	far_write(t, at(0, 256), buf, sizeof(buf));
	c->rig->err[c->id][0] = far_wait(t);
	/* The buffers may be used again at once: what lands later is a copy. */
	memset(buf, 0x11, sizeof(buf));
	far_read(t, at(0, 8), &v, 8);
	c->rig->err[c->id][1] = far_wait(t);
	far_read(t, at(1, 8), &v, 8);
	c->rig->err[c->id][2] = far_wait(t);
}

static void
wait_long(struct far_task *t, void *arg)
{
	far_sleep(t, 2 * LONG_NS);
}

static unsigned
written(struct rig *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WORDS; i++) {
		CHECK(*word(r, 0, 64 + 8 * i) == 0 || *word(r, 0, 64 + 8 * i) == UINT64_MAX);
		n += *word(r, 0, 64 + 8 * i) != 0;
		n += *word(r, 0, 256 + 8 * i) != 0;
	}
	return n;
}

static void
test_sim_broken_connection_leaves_work_that_lands_late(void)
{
	unsigned landed = 0, lost = 0;
	struct rig r;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		rig_open(&r, seed, true, &(struct far_sim_policy){ .weak = seed % 2 });
		far_sim_fuse(r.fabric[0], 1 + seed % 30, FAR_SIM_BREAK, seed % 4 ? LONG_NS : 0);
		rig_run(&r, 1, broken);
		CHECK_EQ(r.err[0][0], -FAR_EUNSURE);
		CHECK_EQ(r.err[0][1], -FAR_ENODE);
		CHECK_EQ(r.err[0][2], 0);
		CHECK(written(&r) < 2 * WORDS || seed % 30 == 29);
		rig_run(&r, 1, wait_long);
		if (written(&r) == 2 * WORDS)
			landed++;
		else
			lost++;
		CHECK(written(&r) == 2 * WORDS || written(&r) == 1 + seed % 30);
		CHECK_EQ(far_sim_faults(r.sim)->landed, far_sim_faults(r.sim)->strays);
		rig_close(&r);
	}
	CHECK(landed > SEEDS / 4 && lost > SEEDS / 4);
}

/* Client 0 writes and counts; client 1 writes there when that is over. */
static void
repeated(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t buf[WORDS], old;

	memset(buf, c->id ? 0 : 0xff, sizeof(buf));
	if (c->id == 0) {
		far_write(t, at(0, 64), buf, sizeof(buf));
		far_faa(t, at(0, 512), 1, &old);
		far_faa(t, at(0, 520), 1, &old);
	} else {
		far_sleep(t, LONG_NS / 8);
		far_read(t, at(0, 512), &c->rig->seen[1][0], 8);
		CHECK_EQ(far_wait(t), 0);
		far_write(t, at(0, 64), buf, sizeof(buf));
	}
	c->rig->err[c->id][0] = far_wait(t);
}

static void
test_sim_broken_connection_repeats_writes_but_no_atomics(void)
{
	unsigned again[2] = { 0, 0 };
	struct rig r;

	for (unsigned seed = 0; seed < 2 * SEEDS; seed++) {
		rig_open(&r, seed, true, &(struct far_sim_policy){ .repeat = seed % 2 });
		far_sim_fuse(r.fabric[0], WORDS + 1, FAR_SIM_BREAK, LONG_NS);
		rig_run(&r, 2, repeated);
		CHECK_EQ(r.err[0][0], -FAR_EUNSURE);
		CHECK_EQ(r.seen[1][0], 1);
		rig_run(&r, 1, wait_long);
		again[seed % 2] += *word(&r, 0, 64) == UINT64_MAX;
		CHECK_EQ(*word(&r, 0, 512), 1);
		CHECK(*word(&r, 0, 520) <= 1);
		CHECK_EQ(far_sim_faults(r.sim)->repeats, seed % 2);
		rig_close(&r);
	}
	CHECK(again[0] == 0 && again[1] > SEEDS / 2);
}

static void
test_sim_dead_client_leaves_work_that_lands_late(void)
{
	unsigned landed = 0;
	struct rig r;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		rig_open(&r, seed, true, &(struct far_sim_policy){ .gap = true });
		far_sim_fuse(r.fabric[0], 5, FAR_SIM_KILL, LONG_NS);
		rig_run(&r, 1, broken);
		CHECK_EQ(r.err[0][0], -FAR_EFENCED);
		CHECK_EQ(written(&r), 5);
		rig_run(&r, 1, wait_long);
		landed += written(&r) == 2 * WORDS;
		rig_close(&r);
	}
	CHECK(landed > SEEDS / 2 && landed < SEEDS);
}

static void
test_sim_fate_strikes_at_the_verb_aimed_at(void)
{
	struct rig r;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		enum far_sim_point point = seed % FAR_SIM_POINTS;
		unsigned verb = 1 + seed / FAR_SIM_POINTS % 2;

		rig_open(&r, seed, true, &(struct far_sim_policy){ .keep = seed % 4 });
		far_sim_aim(r.fabric[0], verb, point, FAR_SIM_KILL, 0);
		rig_run(&r, 1, broken);
		CHECK_EQ(r.err[0][0], -FAR_EFENCED);
		CHECK_EQ(written(&r), (verb - 1) * WORDS + point * WORDS / 2);
		CHECK_EQ(far_sim_client_verbs(r.fabric[0]), verb);
		CHECK_EQ(far_sim_faults(r.sim)->kills, 1);
		rig_close(&r);
	}
}

static void
atomic(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	uint64_t old;

	for (unsigned i = 0; i < 3; i++) {
		far_faa(t, at(0, 64), 1, &old);
		c->rig->err[c->id][i] = far_wait(t);
	}
}

static void
test_sim_fate_at_an_atomic_strikes_before_or_after_it(void)
{
	struct rig r;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		enum far_sim_point point = seed % FAR_SIM_POINTS;
		bool gap = seed & 8;

		rig_open(&r, seed, true, &(struct far_sim_policy){ .gap = gap });
		far_sim_aim(r.fabric[0], 2, point, FAR_SIM_KILL, 0);
		rig_run(&r, 1, atomic);
		CHECK_EQ(r.err[0][0], 0);
		CHECK_EQ(r.err[0][1], -FAR_EFENCED);
		/* What an atomic has found, it also stores. */
		CHECK_EQ(*word(&r, 0, 64), point == FAR_SIM_AFTER || (gap && point == FAR_SIM_HALF) ? 2 : 1);
		rig_close(&r);
	}
}

/* Fences -------------------------------------------------------------------------------------------------- */

static int
ask(struct far_task *t, uint32_t code, uint64_t serial, struct control_reply *reply)
{
	struct control_request req = {
		.code = code, .serial = serial, .nodes_n = 2, .pool_id = { 1, 2 }, .kind = 1, .class = 1, .run = 1
	};
	int err = far_call(t, 0, &req, sizeof(req), reply, sizeof(*reply));

	return err < 0 ? err : reply->err;
}

/* Client 1 is stopped in the middle of a WRITE, and fenced by client 0 after a while. */
static void
fence(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	struct control_reply reply;
	uint64_t buf[WORDS], v;

	ask(t, CONTROL_FORM, 0, &reply);
	CHECK_EQ(ask(t, CONTROL_SESSION, 0, &reply), 0);
	c->rig->seen[c->id][0] = reply.serial;
	far_sleep(t, LONG_NS / 10 - far_now(t));
	if (c->id == 0) {
		far_sleep(t, LONG_NS / 10);
		CHECK_EQ(ask(t, CONTROL_FENCE, c->rig->seen[1][0], &reply), 0);
		/* Others use the memory: what lands now, for the first or for the second time, would show. */
		for (unsigned i = 0; i < WORDS; i++)
			c->rig->seen[0][1] += *word(c->rig, 0, REGION - 128 + 8 * i) += 2;
		return;
	}
	for (unsigned i = 0; i < WORDS; i++)
		buf[i] = 1;
	far_sim_fuse(c->rig->fabric[1], c->rig->fuse, c->rig->fate, LONG_NS);
	far_write(t, at(0, REGION - 128), buf, sizeof(buf));
	c->rig->err[1][0] = far_wait(t);
	c->rig->seen[1][1] = far_now(t);
	far_read(t, at(0, 8), &v, 8);
	c->rig->err[1][1] = far_wait(t);
}

static void
test_sim_nothing_of_a_fenced_client_lands(void)
{
	static const enum far_sim_fate fates[] = { FAR_SIM_PAUSE, FAR_SIM_PARK, FAR_SIM_BREAK, FAR_SIM_KILL };
	unsigned cut = 0;
	struct rig r;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		enum far_sim_fate fate = fates[seed % FAR_LEN(fates)];
		uint64_t sum = 0;

		rig_open(&r, seed, false, &(struct far_sim_policy){ .repeat = seed / 4 % 2 });
		r.fate = fate;
		r.fuse = 1 + seed % 15;
		rig_run(&r, 2, fence);
		rig_run(&r, 1, wait_long);
		for (unsigned i = 0; i < WORDS; i++)
			sum += *word(&r, 0, REGION - 128 + 8 * i);
		CHECK_EQ(sum, r.seen[0][1]);
		cut += sum < 3 * WORDS;
		CHECK_EQ(far_sim_faults(r.sim)->fenced, 1);
		CHECK_EQ(far_sim_faults(r.sim)->zombies, fate == FAR_SIM_PAUSE || fate == FAR_SIM_PARK);
		/* Who stands still learns it late. */
		if (fate == FAR_SIM_PAUSE)
			CHECK(r.seen[1][1] >= LONG_NS && r.err[1][0] == -FAR_EFENCED);
		rig_close(&r);
	}
	CHECK(cut > SEEDS / 2);
}

/* What a client may change of a node's tables, and what it may not. */
static void
trespass(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	const struct pool_super *s = far_sim_region(c->rig->sim, 0);
	struct far_addr epoch = at(0, offsetof(struct pool_super, epoch)), line, pages = at(0, s->pages_off);
	struct control_reply reply;
	uint64_t v = 65536, old;

	ask(t, CONTROL_FORM, 0, &reply);
	CHECK_EQ(ask(t, CONTROL_SESSION, 0, &reply), 0);
	line = at(0, s->sessions_off + reply.slot * sizeof(struct pool_session_line));
	far_write(t, far_addr_add(line, offsetof(struct pool_session_line, word)), &v, 8);
	far_cas(t, epoch, 1, 2, &old);
	far_read(t, pages, &old, 8);
	far_faa(t, at(0, REGION - 8), 1, &old);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(far_sim_faults(c->rig->sim)->trespasses, 0);
	/* Its own line's serial, another line's word, the epoch by other means, the page tables of both nodes. */
	far_write(t, line, &v, 8);
	far_write(t, far_addr_add(line, sizeof(struct pool_session_line) + 8), &v, 8);
	far_write(t, epoch, &v, 8);
	far_faa(t, epoch, 1, &old);
	far_cas(t, pages, 5, 6, &old);
	far_write(t, at(1, s->pages_off), &v, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(far_sim_faults(c->rig->sim)->trespasses, 6);
}

static void
test_sim_change_of_a_nodes_tables_is_counted(void)
{
	struct rig r;

	for (unsigned calm = 0; calm < 2; calm++) {
		rig_open(&r, 3, false, &(struct far_sim_policy){ .calm = calm });
		rig_run(&r, 1, trespass);
		rig_close(&r);
	}
}

/* Nodes --------------------------------------------------------------------------------------------------- */

static void
outage(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	struct far_fabric *again;
	uint64_t v = 7;

	far_write(t, at(1, REGION - 8), &v, 8);
	CHECK_EQ(far_wait(t), 0);
	far_sleep(t, LONG_NS);
	far_read(t, at(1, REGION - 8), &v, 8);
	c->rig->err[0][0] = far_wait(t);
	CHECK(!far_sim_node_is_up(c->rig->sim, 1));
	far_sleep(t, LONG_NS);
	far_read(t, at(1, REGION - 8), &v, 8);
	c->rig->err[0][1] = far_wait(t);
	REQUIRE(far_sim_connect(c->rig->sim, c->rig->loop, NULL, &again) == 0);
	far_fabric_close(again);
}

static void
test_sim_node_fails_and_comes_back_as_planned(void)
{
	struct rig r;

	for (enum far_sim_return how = FAR_SIM_EMPTY; how <= FAR_SIM_NEVER; how++) {
		rig_open(&r, 3, false, &(struct far_sim_policy){ .keep = 0 });
		far_sim_plan_node(r.sim, 1, LONG_NS / 2, LONG_NS, how);
		rig_run(&r, 1, outage);
		CHECK_EQ(r.err[0][0], -FAR_ENODE);
		CHECK_EQ(r.err[0][1], -FAR_ENODE);
		CHECK_EQ(far_sim_node_is_up(r.sim, 1), how != FAR_SIM_NEVER);
		CHECK_EQ(*word(&r, 1, REGION - 8), how == FAR_SIM_EMPTY ? 0 : 7);
		CHECK_EQ(far_sim_faults(r.sim)->ups_kept, how == FAR_SIM_KEPT);
		CHECK_EQ(far_sim_faults(r.sim)->ups_empty, how == FAR_SIM_EMPTY);
		CHECK_EQ(far_sim_node_check(r.sim, 1), 0);
		rig_close(&r);
	}
}

static void
grants(struct far_task *t, void *arg)
{
	struct sim_client *c = arg;
	struct control_reply reply;

	CHECK_EQ(ask(t, CONTROL_FORM, 0, &reply), 0);
	CHECK_EQ(ask(t, CONTROL_SESSION, 0, &reply), 0);
	for (unsigned i = 0; i < 3; i++)
		c->rig->err[0][i] = ask(t, CONTROL_GRANT, 0, &reply);
}

static void
test_sim_grants_are_refused_once_or_for_ever(void)
{
	struct rig r;

	for (unsigned forever = 0; forever < 2; forever++) {
		rig_open(&r, 3, false, &(struct far_sim_policy){ .keep = 0 });
		far_sim_refuse(r.sim, 2, forever);
		rig_run(&r, 1, grants);
		for (unsigned i = 0; i < 3; i++)
			CHECK_EQ(r.err[0][i] == -FAR_ENOMEM, i == 1 || (i == 2 && forever));
		CHECK_EQ(far_sim_faults(r.sim)->refused, 1 + forever);
		rig_close(&r);
	}
}

TEST_MAIN(TEST(test_sim_line_tears_between_lines_only), TEST(test_sim_gap_loses_writes_but_no_atomics),
	  TEST(test_sim_relaxed_writes_pass_writes), TEST(test_sim_priorities_let_one_go_first_and_nobody_starve),
	  TEST(test_sim_late_completions_come), TEST(test_sim_parked_chain_leaves_the_clients_others_alone),
	  TEST(test_sim_plans_strike_at_their_time), TEST(test_sim_broken_connection_leaves_work_that_lands_late),
	  TEST(test_sim_broken_connection_repeats_writes_but_no_atomics),
	  TEST(test_sim_dead_client_leaves_work_that_lands_late), TEST(test_sim_fate_strikes_at_the_verb_aimed_at),
	  TEST(test_sim_fate_at_an_atomic_strikes_before_or_after_it), TEST(test_sim_nothing_of_a_fenced_client_lands),
	  TEST(test_sim_change_of_a_nodes_tables_is_counted),
	  TEST(test_sim_node_fails_and_comes_back_as_planned), TEST(test_sim_grants_are_refused_once_or_for_ever))
