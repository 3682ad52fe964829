/* SPDX-License-Identifier: Apache-2.0 */
/* The performance mode of the simulator: chains over the timing model, and that time is what the model says. */
#include <limits.h>

#include "fabric/backend.h"
#include "fabric/nic_card.h"
#include "fabric/sim_rig.h"
#include "test.h"

enum { CLIENTS = 4, REGION = 1 << 16 };

static const struct nic_profile card = {
	NIC_CARD, .wake = 100000, .doorbell = 50000, .credits = 16, .threads = 96
};

struct rig {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *clients[CLIENTS];
	unsigned clients_n;
	uint64_t took_ns[CLIENTS * 2], sum;
	unsigned n;
	int err;
};

static void
rig_make(struct rig *r, const struct far_sim_opts *o, const struct far_sim_timing *t)
{
	memset(r, 0, sizeof(*r));
	sim_rig_open(o, &r->sim, &r->loop);
	REQUIRE(far_sim_time(r->sim, t) == 0);
}

static void
rig_open(struct rig *r, const struct nic_profile *p, unsigned nodes, uint64_t seed)
{
	const struct far_sim_opts o = { .seed = seed, .nodes_n = nodes, .region_len = REGION, .raw = true };
	const struct far_sim_timing t = { .profile = p, .machines = 2, .queues = 1 };

	rig_make(r, &o, &t);
}

static void
rig_open_scaled(struct rig *r, const struct nic_profile *p, uint64_t footprint)
{
	const struct far_sim_opts o = { .seed = 1, .nodes_n = 1, .region_len = REGION, .raw = true };
	const struct far_sim_timing t = { .profile = p, .footprint = footprint };

	rig_make(r, &o, &t);
}

static struct far_fabric *
rig_connect(struct rig *r)
{
	struct far_fabric **f = &r->clients[r->clients_n++];

	REQUIRE(far_sim_connect(r->sim, r->loop, NULL, f) == 0);
	return *f;
}

static void
rig_close(struct rig *r)
{
	sim_rig_close(r->sim, r->loop, r->clients, r->clients_n);
}

static void
spawn(struct rig *r, struct far_fabric *f, void (*fn)(struct far_task *t, void *arg))
{
	REQUIRE(far_loop_spawn(r->loop, f, fn, r, 0) == 0);
}

static void
one_read(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t begin = far_now(t), word;

	far_read(t, far_addr_make(0, 64), &word, 8);
	CHECK_EQ(far_wait(t), 0);
	r->took_ns[r->n++] = far_now(t) - begin;
}

static void
test_read_alone_takes_what_the_model_says(void)
{
	const struct nic_op op = { .off = 64, .in = 8, .len = 8 };
	struct rig r;

	rig_open(&r, &card, 1, 1);
	spawn(&r, rig_connect(&r), one_read);
	far_loop_run(r.loop);
	CHECK_EQ(r.took_ns[0], (card.doorbell + nic_alone(&card, &op) + card.wake) / NIC_PS);
	rig_close(&r);
}

static void
test_thread_posts_and_takes_one_chain_after_another(void)
{
	struct far_fabric *f;
	struct rig r;

	rig_open(&r, &card, 1, 1);
	f = rig_connect(&r);
	spawn(&r, f, one_read);
	spawn(&r, f, one_read);
	far_loop_run(r.loop);
	/* The second doorbell waits for the first; when both are back, the thread takes one and then the other. */
	CHECK(r.took_ns[1] >= r.took_ns[0] + card.wake / NIC_PS);
	rig_close(&r);
}

static void
test_computing_delays_what_is_posted_next(void)
{
	struct far_fabric *f;
	uint64_t quick;
	struct rig r;

	rig_open(&r, &card, 1, 1);
	f = rig_connect(&r);
	spawn(&r, f, one_read);
	far_loop_run(r.loop);
	quick = r.took_ns[0];
	far_sim_spend(f, 777);
	spawn(&r, f, one_read);
	far_loop_run(r.loop);
	/* To the picosecond; the clock shows nanoseconds. */
	CHECK(r.took_ns[1] >= quick + 777 && r.took_ns[1] <= quick + 778);
	rig_close(&r);
}

static void
add_100(struct far_task *t, void *arg)
{
	struct rig *r = arg;

	for (unsigned i = 0; i < 100; i++) {
		uint64_t old;

		far_faa(t, far_addr_make(0, 128), 1, &old);
		CHECK_EQ(far_wait(t), 0);
		r->sum += old;
	}
}

static void
test_atomics_are_atomic_and_wait_for_each_other(void)
{
	struct rig r;

	rig_open(&r, &card, 1, 1);
	for (unsigned i = 0; i < 8; i++)
		spawn(&r, i < CLIENTS ? rig_connect(&r) : r.clients[i - CLIENTS], add_100);
	far_loop_run(r.loop);
	CHECK_EQ(r.sum, 800 * 799 / 2);
	/* 800 of 300 ns. */
	CHECK(far_sim_now(r.sim) >= 800 * 300);
	rig_close(&r);
}

/* G3: each operation of the chain sees the one before it. */
static void
ordered_chain(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t five = 5, seen = 0, old = 0, after = 0;

	far_write(t, far_addr_make(0, 256), &five, 8);
	far_read(t, far_addr_make(0, 256), &seen, 8);
	far_cas(t, far_addr_make(0, 256), 5, 6, &old);
	far_read(t, far_addr_make(0, 256), &after, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(seen, 5);
	CHECK_EQ(old, 5);
	CHECK_EQ(after, 6);
	r->n++;
}

static void
test_chain_keeps_its_order(void)
{
	struct rig r;

	rig_open(&r, &card, 1, 1);
	spawn(&r, rig_connect(&r), ordered_chain);
	far_loop_run(r.loop);
	CHECK_EQ(r.n, 1);
	rig_close(&r);
}

static void
beyond_the_end(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t one = 1, word;

	far_write(t, far_addr_make(0, 512), &one, 8);
	far_read(t, far_addr_make(0, REGION), &word, 8);
	far_write(t, far_addr_make(0, 520), &one, 8);
	r->err = far_wait(t);
}

static void
test_operation_outside_the_region_fails_and_ends_its_chain(void)
{
	uint64_t *words;
	struct rig r;

	rig_open(&r, &card, 1, 1);
	spawn(&r, rig_connect(&r), beyond_the_end);
	far_loop_run(r.loop);
	words = far_sim_region(r.sim, 0);
	CHECK_EQ(r.err, -FAR_EACCESS);
	CHECK_EQ(words[512 / 8], 1);
	CHECK_EQ(words[520 / 8], 0);
	rig_close(&r);
}

/* Sixteen READs in one chain. */
static void
many_reads(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t begin = far_now(t), words[16];

	for (unsigned i = 0; i < 16; i++)
		far_read(t, far_addr_make(0, 8 * i), &words[i], 8);
	CHECK_EQ(far_wait(t), 0);
	r->took_ns[r->n++] = far_now(t) - begin;
}

static uint64_t
many_reads_with(uint64_t reads_max)
{
	struct nic_profile p = card;
	struct rig r;

	p.reads_max = reads_max;
	rig_open(&r, &p, 1, 1);
	spawn(&r, rig_connect(&r), many_reads);
	far_loop_run(r.loop);
	rig_close(&r);
	return r.took_ns[0];
}

static void
test_reads_in_flight_are_limited_per_queue_pair(void)
{
	uint64_t free = many_reads_with(0), four = many_reads_with(4), one = many_reads_with(1);

	CHECK_EQ(many_reads_with(16), free);
	/* Four rounds instead of one, sixteen instead of one, less what the others wait for the engine in one round. */
	CHECK(four + 16 * 9 >= free + 3 * card.rtt / NIC_PS && four <= free + 4 * card.rtt / NIC_PS);
	CHECK(one + 16 * 9 >= free + 15 * card.rtt / NIC_PS && one <= free + 16 * card.rtt / NIC_PS);
}

static void
read_often(struct far_task *t, void *arg)
{
	uint64_t word;

	for (unsigned i = 0; i < 50; i++) {
		far_read(t, far_addr_make(0, 8 * (far_rand(t) % 1000)), &word, 8);
		CHECK_EQ(far_wait(t), 0);
		far_sleep(t, far_rand(t) % 3000);
	}
}

/* Two machines of two threads; a sleep now and then, so that timers and the network mix. */
static uint64_t
mixed_run(uint64_t seed, bool shared, uint64_t *end)
{
	struct nic_profile p = card;
	struct rig r;
	uint64_t hash;

	p.doorbell = 800000;
	p.contention = 400000;
	p.contention_half = 2;
	rig_open(&r, &p, 1, seed);
	for (unsigned i = 0; i < CLIENTS; i++) {
		struct far_fabric *f = rig_connect(&r);

		far_sim_place(f, i / 2, shared ? 0 : FAR_SIM_OWN_QUEUE);
		spawn(&r, f, read_often);
		spawn(&r, f, add_100);
	}
	far_loop_run(r.loop);
	hash = far_sim_hash(r.sim);
	*end = far_sim_now(r.sim);
	rig_close(&r);
	return hash;
}

static void
test_same_seed_gives_the_same_run(void)
{
	uint64_t a, b, c;

	CHECK(mixed_run(3, false, &a) == mixed_run(3, false, &b));
	CHECK_EQ(a, b);
	CHECK(mixed_run(4, false, &c) != mixed_run(3, false, &a));
}

static void
test_shared_queue_pair_slows_its_threads_down(void)
{
	uint64_t own, shared;

	mixed_run(3, false, &own);
	mixed_run(3, true, &shared);
	CHECK(shared > own + own / 10);
}

static void
sleep_5us(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t begin = far_now(t);

	far_sleep(t, 5000);
	r->took_ns[7] = far_now(t) - begin;
}

static void
test_timers_fire_to_the_nanosecond_between_completions(void)
{
	struct far_fabric *f;
	struct rig r;

	rig_open(&r, &card, 1, 1);
	f = rig_connect(&r);
	spawn(&r, f, add_100);
	spawn(&r, f, sleep_5us);
	far_loop_run(r.loop);
	CHECK_EQ(r.took_ns[7], 5000);
	rig_close(&r);
}

static void
write_slowly(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t one = 1;

	for (unsigned i = 0; i < 1000 && r->err == 0; i++) {
		far_write(t, far_addr_make(1, 8 * i), &one, 8);
		r->err = far_wait(t);
	}
}

static void
node_dies(struct far_task *t, void *arg)
{
	struct rig *r = arg;

	/* In the middle of the second round trip. */
	far_sleep(t, 3000);
	far_sim_node_down(r->sim, 1);
}

static void
test_node_that_dies_fails_what_is_in_flight(void)
{
	uint64_t *words, written = 0;
	struct rig r;

	rig_open(&r, &card, 2, 1);
	spawn(&r, rig_connect(&r), write_slowly);
	spawn(&r, rig_connect(&r), node_dies);
	far_loop_run(r.loop);
	words = far_sim_region(r.sim, 1);
	for (unsigned i = 0; i < 1000; i++)
		written += words[i];
	CHECK(r.err == -FAR_EUNSURE || r.err == -FAR_ENODE);
	CHECK(written >= 1 && written <= 2);
	rig_close(&r);
}

/* How long eight READs of one thread take, all started at once. */
static uint64_t
eight_reads(bool batch)
{
	struct nic_profile p = card;
	struct far_fabric *f;
	uint64_t end;
	struct rig r;

	p.doorbell = p.node_batch = 2000000;
	p.batch = batch;
	rig_open(&r, &p, 1, 1);
	f = rig_connect(&r);
	for (unsigned i = 0; i < 8; i++)
		spawn(&r, f, one_read);
	far_loop_run(r.loop);
	end = far_sim_now(r.sim);
	rig_close(&r);
	return end;
}

/* How long 200 READs all over the region take, one after another. */
static void
read_all_over(struct far_task *t, void *arg)
{
	uint64_t word;

	for (unsigned i = 0; i < 200; i++) {
		far_read(t, far_addr_make(0, i * 264 % (REGION - 8) & ~7u), &word, 8);
		CHECK_EQ(far_wait(t), 0);
	}
}

/* The same with a translation cache of 64 pages of 64 KiB, for a table that many times larger. */
static uint64_t
read_with_footprint(uint64_t footprint)
{
	struct nic_profile p = card;
	uint64_t end;
	struct rig r;

	p.pages = 64;
	p.page_len = 1 << 16;
	p.page_miss = 600000;
	p.page_overlap = 1;
	rig_open_scaled(&r, &p, footprint);
	spawn(&r, rig_connect(&r), read_all_over);
	far_loop_run(r.loop);
	end = far_sim_now(r.sim);
	rig_close(&r);
	return end;
}

static void
test_footprint_makes_pages_smaller(void)
{
	uint64_t one = read_with_footprint(1), many = read_with_footprint(1024);

	/* One page against 200: 199 misses of 600 ns more. */
	CHECK(many >= one + 199 * 600 && many <= one + 199 * 600 + 1);
}

static void
test_batches_of_a_thread_travel_together(void)
{
	/* One doorbell instead of eight; the thread takes all answers at the end. */
	CHECK(eight_reads(true) + 7 * 2000 <= eight_reads(false) + 8 * card.wake / NIC_PS);
}

static void
test_loads_keep_their_thread_busy(void)
{
	struct nic_profile p = card;
	struct far_fabric *f;
	struct rig r;

	p.loads = true;
	rig_open(&r, &p, 1, 1);
	f = rig_connect(&r);
	for (unsigned i = 0; i < 4; i++)
		spawn(&r, f, one_read);
	far_loop_run(r.loop);
	/* However many fibers: one after another. */
	CHECK(far_sim_now(r.sim) >= 4 * card.rtt / NIC_PS);
	rig_close(&r);
}

TEST_MAIN(TEST(test_read_alone_takes_what_the_model_says), TEST(test_thread_posts_and_takes_one_chain_after_another),
	  TEST(test_computing_delays_what_is_posted_next), TEST(test_atomics_are_atomic_and_wait_for_each_other),
	  TEST(test_chain_keeps_its_order),
	  TEST(test_operation_outside_the_region_fails_and_ends_its_chain),
	  TEST(test_reads_in_flight_are_limited_per_queue_pair), TEST(test_same_seed_gives_the_same_run),
	  TEST(test_shared_queue_pair_slows_its_threads_down),
	  TEST(test_timers_fire_to_the_nanosecond_between_completions),
	  TEST(test_node_that_dies_fails_what_is_in_flight), TEST(test_footprint_makes_pages_smaller),
	  TEST(test_batches_of_a_thread_travel_together),
	  TEST(test_loads_keep_their_thread_busy))
