/* SPDX-License-Identifier: Apache-2.0 */
#include "index/common/block.h"
#include "index/common/gate.h"
#include "index/common/patience.h"
#include "test.h"

union room {
	struct block b;
	char bytes[4096];
};

static void
test_block_round_trip_verifies(void)
{
	union room r;
	struct far_bytes key = FAR_STR("0123456789abcdef"), value = FAR_STR("12345678");

	memset(&r, 0xff, sizeof(r));
	block_make(&r.b, 77, 1234, key, value);
	CHECK_EQ(block_len(key.len, value.len), 64);
	CHECK_EQ(block_verify(&r.b, 64), 0);
	CHECK(block_has_key(&r.b, 77, key));
	CHECK(!block_has_key(&r.b, 77, FAR_STR("0123456789abcde")));
	CHECK(!block_has_key(&r.b, 78, key));
	CHECK(block_value(&r.b).len == 8 && memcmp(block_value(&r.b).data, "12345678", 8) == 0);
}

static void
test_block_any_flipped_bit_is_noticed(void)
{
	union room r;

	block_make(&r.b, 77, 1234, FAR_STR("key"), FAR_STR("a value"));
	for (size_t bit = 0; bit < 8 * (40 + 3 + 7); bit++) {
		r.bytes[bit / 8] ^= (char)(1 << bit % 8);
		CHECK_EQ(block_verify(&r.b, 64), -FAR_ECORRUPT);
		r.bytes[bit / 8] ^= (char)(1 << bit % 8);
	}
	CHECK_EQ(block_verify(&r.b, 64), 0);
}

static void
test_block_lengths_beyond_its_room_are_refused(void)
{
	union room r;

	block_make(&r.b, 77, 1234, FAR_STR("key"), FAR_STR("a value"));
	CHECK_EQ(block_verify(&r.b, 49), -FAR_ECORRUPT);
	r.b.key_len = 0;
	CHECK_EQ(block_verify(&r.b, 64), -FAR_ECORRUPT);
	r.b.key_len = UINT32_MAX;
	r.b.value_len = UINT32_MAX;
	CHECK_EQ(block_verify(&r.b, 64), -FAR_ECORRUPT);
}

/* The gate, with fibers that take turns. */
struct gate_log {
	struct gate gate;
	int inside, inside_max, sent, answered, last, result;
};

struct gate_writer {
	struct gate_log *log;
	int id;
	bool blind;
};

static void
gate_writer(struct far_task *t, void *arg)
{
	struct gate_writer *w = arg;
	struct gate_log *log = w->log;
	struct gate_pass pass = { .hash = 7, .key = FAR_STR("key"), .blind = w->blind };

	if (gate_enter(&log->gate, t, &pass)) {
		log->answered++;
		CHECK_EQ(pass.result, log->result);
		return;
	}
	if (++log->inside > log->inside_max)
		log->inside_max = log->inside;
	far_sleep(t, 1000);
	log->inside--;
	log->sent++;
	log->last = w->id;
	gate_leave(&log->gate, &pass, log->result);
}

static void
gate_run(bool blind, struct gate_log *log)
{
	struct gate_writer w[10];
	struct far_loop *loop;

	REQUIRE(far_loop_open(&(struct far_loop_opts){ .seed = 1 }, &loop) == 0);
	for (int i = 0; i < 10; i++) {
		w[i] = (struct gate_writer){ log, i, blind };
		REQUIRE(far_loop_spawn(loop, NULL, gate_writer, &w[i], 0) == 0);
	}
	far_loop_run(loop);
	far_loop_close(loop);
	for (int i = 0; i < GATE_LANES; i++)
		CHECK(log->gate.inside[i] == NULL);
}

static void
test_gate_blind_writes_behind_one_are_combined(void)
{
	struct gate_log log = { .result = -FAR_ENOMEM };

	gate_run(true, &log);
	CHECK_EQ(log.inside_max, 1);
	CHECK_EQ(log.sent, 2);
	CHECK_EQ(log.answered, 8);
	CHECK_EQ(log.last, 9);
}

static void
test_gate_other_writes_go_one_by_one(void)
{
	struct gate_log log = { .result = 0 };

	gate_run(false, &log);
	CHECK_EQ(log.inside_max, 1);
	CHECK_EQ(log.sent, 10);
	CHECK_EQ(log.answered, 0);
}

/* Writes that come back at once, beside one that came before them. */
static void
gate_returning(struct far_task *t, void *arg)
{
	struct gate_writer *w = arg;

	for (int i = 0; i < 50; i++)
		gate_writer(t, w);
}

static void
gate_patient(struct far_task *t, void *arg)
{
	struct gate_writer *w = arg;

	gate_writer(t, w);
	w->id = w->log->sent;
}

static void
test_gate_oldest_writer_is_not_overtaken_for_ever(void)
{
	struct gate_log log = { .result = 0 };
	struct gate_writer w[4];
	struct far_loop *loop;

	REQUIRE(far_loop_open(&(struct far_loop_opts){ .seed = 1 }, &loop) == 0);
	for (int i = 0; i < 4; i++) {
		w[i] = (struct gate_writer){ &log, i, false };
		REQUIRE(far_loop_spawn(loop, NULL, i == 1 ? gate_patient : gate_returning, &w[i], 0) == 0);
	}
	far_loop_run(loop);
	far_loop_close(loop);
	CHECK_EQ(log.sent, 151);
	CHECK(w[1].id <= 8);
}

static void
gate_other_key(struct far_task *t, void *arg)
{
	struct gate_writer *w = arg;
	char text = (char)w->id;
	struct gate_pass pass = { .hash = 7, .key = far_bytes(&text, 1), .blind = true };

	if (gate_enter(&w->log->gate, t, &pass)) {
		w->log->answered++;
		return;
	}
	far_sleep(t, 1000);
	w->log->sent++;
	gate_leave(&w->log->gate, &pass, 0);
}

static void
test_gate_keys_of_one_hash_are_not_combined(void)
{
	struct gate_log log = { .result = 0 };
	struct gate_writer w[6];
	struct far_loop *loop;

	REQUIRE(far_loop_open(&(struct far_loop_opts){ .seed = 1 }, &loop) == 0);
	for (int i = 0; i < 6; i++) {
		w[i] = (struct gate_writer){ &log, i / 2, true };
		REQUIRE(far_loop_spawn(loop, NULL, gate_other_key, &w[i], 0) == 0);
	}
	far_loop_run(loop);
	far_loop_close(loop);
	CHECK_EQ(log.sent + log.answered, 6);
	CHECK_EQ(log.answered, 0);
}

/* Time that passes by being waited for. */
static uint64_t
patience_now(void *arg)
{
	return *(uint64_t *)arg;
}

static void
patience_idle(void *arg, uint64_t until)
{
	*(uint64_t *)arg = until;
}

struct patience_case {
	uint64_t lease_ns;
	bool changing;  /* at each look another client is at it */
	uint64_t stall_ns; /* the second look takes so long */
	unsigned looks; /* until patience ends, */
	unsigned soon;  /* the first of them that come before the waits are long */
	uint64_t took_ns;
};

static void
patience_fiber(struct far_task *t, void *arg)
{
	struct patience_case *c = arg;
	uint64_t start = far_now(t);
	struct patience p;

	patience_start(&p, c->lease_ns);
	while (patience_wait(&p, t) == 0 && c->looks < 10000) {
		if (++c->looks == 2)
			far_sleep(t, c->stall_ns);
		c->soon += !patience_is_long(&p);
		patience_meet(&p, c->changing ? 1 + c->looks : 1);
	}
	c->took_ns = far_now(t) - start;
}

static struct patience_case
patience_play(struct patience_case c)
{
	uint64_t now = 1;
	struct far_loop *loop;

	REQUIRE(far_loop_open(&(struct far_loop_opts){ .clock = { patience_now, patience_idle, &now } }, &loop) == 0);
	REQUIRE(far_loop_spawn(loop, NULL, patience_fiber, &c, 0) == 0);
	far_loop_run(loop);
	far_loop_close(loop);
	return c;
}

static struct patience_case
patience_run(uint64_t lease_ns, bool changing)
{
	return patience_play((struct patience_case){ .lease_ns = lease_ns, .changing = changing });
}

static void
test_patience_of_a_client_that_was_held_up_is_not_used_up(void)
{
	struct patience_case c = { .lease_ns = 2000000000, .stall_ns = 10000000000 };

	c = patience_play(c);
	CHECK_EQ(c.looks, patience_run(c.lease_ns, false).looks);
}

static void
test_patience_lasts_a_multiple_of_the_lease_and_few_looks(void)
{
	static const uint64_t leases[] = { 1, 100000, 500000, 200000000, 2000000000, 3600000000000 };

	for (size_t i = 0; i < FAR_LEN(leases); i++) {
		struct patience_case c = patience_run(leases[i], false);

		CHECK(c.took_ns >= PATIENCE_LEASES * leases[i]);
		CHECK(c.took_ns <= (PATIENCE_LEASES + 1) * leases[i] + 10);
		CHECK(c.looks <= (PATIENCE_LEASES + 1) * PATIENCE_PART);
	}
}

static void
test_patience_looks_soon_at_first_and_rarely_later(void)
{
	struct patience_case c = patience_run(2000000000, false);

	/* 64 us, 256 us, 1 ms, 4 ms, 16 ms, 66 ms; then an eighth of a second each. */
	CHECK_EQ(c.soon, 6);
	CHECK(c.looks <= 6 + PATIENCE_LEASES * PATIENCE_PART + 1);
}

static void
test_patience_ends_though_the_client_waited_for_changes_for_ever(void)
{
	struct patience_case c = patience_run(2000000000, true);

	CHECK(c.took_ns > PATIENCE_LEASES * c.lease_ns);
	CHECK(c.took_ns <= (PATIENCE_OTHERS + 1) * (PATIENCE_LEASES + 1) * c.lease_ns);
	CHECK(c.looks < 10000);
}

TEST_MAIN(TEST(test_block_round_trip_verifies), TEST(test_block_any_flipped_bit_is_noticed),
	  TEST(test_block_lengths_beyond_its_room_are_refused), TEST(test_gate_blind_writes_behind_one_are_combined),
	  TEST(test_gate_other_writes_go_one_by_one),
	  TEST(test_gate_oldest_writer_is_not_overtaken_for_ever),
	  TEST(test_gate_keys_of_one_hash_are_not_combined),
	  TEST(test_patience_of_a_client_that_was_held_up_is_not_used_up),
	  TEST(test_patience_lasts_a_multiple_of_the_lease_and_few_looks),
	  TEST(test_patience_looks_soon_at_first_and_rarely_later),
	  TEST(test_patience_ends_though_the_client_waited_for_changes_for_ever))
