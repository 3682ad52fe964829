/* SPDX-License-Identifier: Apache-2.0 */
/* Each server of the timing model alone. */
#include "fabric/nic.h"

#include "fabric/nic_card.h"
#include "test.h"

/* A card without caches. */
static struct nic_profile
plain_card(void)
{
	return (struct nic_profile){ NIC_CARD, .credits = 8, .threads = 1 };
}

static const struct nic_op read_8 = { .off = 4096, .in = 8, .len = 8 };
static const struct nic_op read_1k = { .off = 4096, .in = 1024, .len = 1024 };
static const struct nic_op faa = { .off = 4096, .out = 8, .in = 8, .len = 8, .atomic = true };

struct rig {
	struct nic_profile p;
	struct nic_port port;
	struct nic_node node;
	struct nic_pair pair;
};

static void
rig_init(struct rig *r, const struct nic_profile *p)
{
	memset(r, 0, sizeof(*r));
	r->p = *p;
	REQUIRE(nic_node_init(&r->p, &r->node) == 0);
}

/* One operation that meets nobody, from `at` until it is in the client's memory. */
static uint64_t
rig_pass(struct rig *r, uint64_t at, const struct nic_op *op)
{
	at = nic_request(&r->p, &r->port, at, op);
	at = nic_execute(&r->p, &r->node, &r->pair, at, op);
	at = nic_response(&r->p, &r->node, at, op);
	return nic_receive(&r->p, &r->port, at, op);
}

static void
test_read_alone_takes_round_trip_engines_and_wires(void)
{
	struct nic_profile p = plain_card();
	struct rig r;

	rig_init(&r, &p);
	/* Request 100 B, response 100 + 8 B, each once on the wire although two ports see it. */
	CHECK_EQ(rig_pass(&r, 0, &read_8), 2000000 + 9000 + 7000 + 100 * 8 + 108 * 8);
	CHECK_EQ(rig_pass(&r, 10000000, &read_1k) - 10000000, nic_alone(&p, &read_1k));
	CHECK_EQ(nic_alone(&p, &read_1k) - nic_alone(&p, &read_8), 1016 * 8);
	nic_node_fini(&r.node);
}

static void
test_wire_counts_a_frame_for_every_packet(void)
{
	struct nic_profile p = plain_card();
	struct nic_op one = { .in = 4096, .len = 4096 }, two = { .in = 4104, .len = 4104 };

	CHECK_EQ(nic_alone(&p, &two) - nic_alone(&p, &one), (8 + 100) * 8);
}

static void
test_requests_at_once_leave_one_after_another(void)
{
	struct nic_profile p = plain_card();
	struct nic_port c = { 0 };

	/* The engine is slower than the wire (800 ps per request). */
	for (uint64_t i = 1; i <= 100; i++)
		CHECK_EQ(nic_request(&p, &c, 0, &read_8), i * 9000 + 800 + 1000000);
	/* Whoever comes after a pause finds it idle. */
	CHECK_EQ(nic_request(&p, &c, 5000000, &read_8), 5000000 + 9000 + 800 + 1000000);
}

static void
test_node_under_small_reads_is_bound_by_messages_under_large_ones_by_its_wire(void)
{
	struct nic_profile p = plain_card();
	uint64_t small = 0, large = 0;
	struct rig r;

	rig_init(&r, &p);
	for (unsigned i = 0; i < 1000; i++)
		small = nic_response(&p, &r.node, nic_execute(&p, &r.node, &r.pair, 0, &read_8), &read_8);
	nic_node_fini(&r.node);
	rig_init(&r, &p);
	for (unsigned i = 0; i < 1000; i++)
		large = nic_response(&p, &r.node, nic_execute(&p, &r.node, &r.pair, 0, &read_1k), &read_1k);
	nic_node_fini(&r.node);
	/* 7,000 ps a message; 1,124 B of 8 ps. */
	CHECK_EQ(small, 1000 * 7000 + 108 * 8 + 800 + 1000000);
	CHECK_EQ(large, 1000 * 1124 * 8 + 7000 + 800 + 1000000);
}

static void
test_wires_of_both_directions_do_not_wait_for_each_other(void)
{
	struct nic_profile p = plain_card();
	struct nic_op write = { .out = 1024, .len = 1024 };
	struct nic_port c = { 0 };
	uint64_t there = nic_request(&p, &c, 0, &write);

	/* While the WRITE leaves, something else arrives. */
	CHECK_EQ(nic_receive(&p, &c, 1124 * 8, &read_1k), 1124 * 8);
	CHECK_EQ(there, 9000 + 1124 * 8 + 1000000);
}

static void
test_atomics_on_one_word_wait_for_each_other(void)
{
	struct nic_profile p = plain_card();
	struct nic_pair pairs[4] = { { 0 } };
	struct nic_op other = faa;
	struct rig r;
	uint64_t at;

	rig_init(&r, &p);
	at = nic_execute(&p, &r.node, &pairs[0], 0, &faa);
	CHECK_EQ(nic_execute(&p, &r.node, &pairs[1], 0, &faa), at + 300000);
	CHECK_EQ(nic_execute(&p, &r.node, &pairs[2], 0, &faa), at + 600000);
	/* Another word waits for the unit only, which has begun three. */
	other.off += 8;
	CHECK_EQ(nic_execute(&p, &r.node, &pairs[3], 0, &other), at + 60000);
	nic_node_fini(&r.node);
}

static void
test_queue_pair_executes_in_order(void)
{
	struct nic_profile p = plain_card();
	struct nic_pair other = { 0 };
	struct rig r;
	uint64_t at;

	rig_init(&r, &p);
	at = nic_execute(&p, &r.node, &r.pair, 0, &faa);
	/* A READ behind the atomic waits for it, one of another queue pair does not. */
	CHECK_EQ(nic_execute(&p, &r.node, &r.pair, 0, &read_8), at);
	CHECK(nic_execute(&p, &r.node, &other, 0, &read_8) < at);
	nic_node_fini(&r.node);
}

static void
test_page_not_in_the_cache_comes_later(void)
{
	struct nic_profile p = plain_card();
	struct nic_op op = { .page_len = 1 << 16, .in = 8, .len = 8 };
	struct rig r;
	uint64_t miss, hit;

	p.pages = 8;
	p.page_miss = 600000;
	p.page_overlap = 4;
	rig_init(&r, &p);
	miss = nic_execute(&p, &r.node, &r.pair, 1000000, &op) - 1000000;
	hit = nic_execute(&p, &r.node, &r.pair, 10000000, &op) - 10000000;
	CHECK_EQ(miss, hit + 600000);
	CHECK_EQ(r.node.lookups, 2);
	CHECK_EQ(r.node.missed, 1);
	/* An operation across a border needs both pages. */
	op.off = (1 << 16) - 4;
	nic_execute(&p, &r.node, &r.pair, 20000000, &op);
	CHECK_EQ(r.node.lookups, 4);
	CHECK_EQ(r.node.missed, 2);
	/* Many other pages push it out. */
	for (op.off = 1 << 20; op.off < 4 << 20; op.off += 1 << 16)
		nic_execute(&p, &r.node, &r.pair, 30000000, &op);
	op.off = 0;
	CHECK(nic_execute(&p, &r.node, &r.pair, 900000000, &op) - 900000000 == miss);
	nic_node_fini(&r.node);
}

static void
test_cache_holds_as_many_pages_as_it_has_entries(void)
{
	struct nic_profile p = plain_card();
	struct nic_op op = { .page_len = 4096, .in = 8, .len = 8 };
	struct rig r;

	p.pages = NIC_WAYS; /* one set: exact */
	rig_init(&r, &p);
	for (unsigned round = 0; round < 3; round++)
		for (op.off = 0; op.off < NIC_WAYS * 4096; op.off += 4096)
			nic_execute(&p, &r.node, &r.pair, 0, &op);
	CHECK_EQ(r.node.missed, NIC_WAYS);
	/* One page more, in turn: from the second round on, the one that is needed next has just gone. */
	for (unsigned round = 0; round < 3; round++)
		for (op.off = 0; op.off <= NIC_WAYS * 4096; op.off += 4096)
			nic_execute(&p, &r.node, &r.pair, 0, &op);
	CHECK_EQ(r.node.missed, NIC_WAYS + 1 + 2 * (NIC_WAYS + 1));
	nic_node_fini(&r.node);
}

static void
test_requests_beyond_the_send_cache_cost_more(void)
{
	struct nic_profile p = plain_card();
	struct nic_port c = { .in_flight = 100 };

	p.send_cache = 100;
	p.send_miss = 4000;
	CHECK_EQ(nic_request(&p, &c, 0, &read_8), 9000 + 800 + 1000000);
	c = (struct nic_port){ .in_flight = 400 };
	/* Three of four are fetched again. */
	CHECK_EQ(nic_request(&p, &c, 0, &read_8), 9000 + 3000 + 800 + 1000000);
}

static void
test_doorbells_of_one_queue_pair_wait_for_its_lock(void)
{
	struct nic_profile p = { .doorbell = 200000, .request = 50000 };
	struct nic_lock l = { 0 };

	CHECK_EQ(nic_post(&p, &l, 1000, 2), 301000);
	CHECK_EQ(nic_post(&p, &l, 1000, 1), 551000);
	CHECK_EQ(nic_post(&p, &l, 400000, 1), 801000);
	CHECK_EQ(nic_post(&p, &l, 2000000, 1), 2250000);
	nic_lock_fini(&l);
}

static void
test_waiting_threads_slow_the_lock_down(void)
{
	struct nic_profile p = { .doorbell = 100000, .contention = 30000, .contention_half = 10 };
	struct nic_lock l = { 0 };
	uint64_t last = 0, now = 0;

	for (unsigned i = 0; i < 100; i++) {
		last = now;
		now = nic_post(&p, &l, 0, 0);
	}
	/* 99 before it: 99 * 30,000 * 10 / 109. */
	CHECK_EQ(now - last, 100000 + 99 * 30000 * 10 / 109);
	/* They have left. */
	CHECK_EQ(nic_post(&p, &l, now, 0), now + 100000);
	nic_lock_fini(&l);
}

static void
test_batches_that_meet_before_the_node_looks_are_one(void)
{
	struct nic_profile p = plain_card();
	struct nic_op op = read_8;
	struct rig r;
	uint64_t first, second;

	p.node_batch = 1000000;
	p.node_in = 0;
	op.first = true;
	rig_init(&r, &p);
	/* Idle: it begins at once, so the second is too late for the first batch, the third in time for the second. */
	first = nic_execute(&p, &r.node, &r.pair, 0, &op);
	CHECK_EQ(first, 1007000);
	second = nic_execute(&p, &r.node, &r.pair, 10, &op);
	CHECK_EQ(second, first + 1007000);
	CHECK_EQ(nic_execute(&p, &r.node, &r.pair, 20, &op), second + 7000);
	nic_node_fini(&r.node);
}

TEST_MAIN(TEST(test_read_alone_takes_round_trip_engines_and_wires), TEST(test_wire_counts_a_frame_for_every_packet),
	  TEST(test_requests_at_once_leave_one_after_another),
	  TEST(test_node_under_small_reads_is_bound_by_messages_under_large_ones_by_its_wire),
	  TEST(test_wires_of_both_directions_do_not_wait_for_each_other),
	  TEST(test_atomics_on_one_word_wait_for_each_other), TEST(test_queue_pair_executes_in_order),
	  TEST(test_page_not_in_the_cache_comes_later), TEST(test_cache_holds_as_many_pages_as_it_has_entries),
	  TEST(test_requests_beyond_the_send_cache_cost_more),
	  TEST(test_doorbells_of_one_queue_pair_wait_for_its_lock), TEST(test_waiting_threads_slow_the_lock_down),
	  TEST(test_batches_that_meet_before_the_node_looks_are_one))
