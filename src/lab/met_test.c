/* SPDX-License-Identifier: Apache-2.0 */
/* met_test.c -- a CAS that guesses is noticed, and none else. */
#include "fabric/sim_rig.h"
#include "lab/met.h"

#define ADDRESS ((uint64_t)0x123456789)

struct guess {
	uint64_t expect;
	bool read, wrote, cas, faa; /* what the client does before */
};

static void
guess(struct far_task *t, void *arg)
{
	const struct guess *g = arg;
	uint64_t word = ADDRESS, old;
	struct far_addr a = far_addr_make(0, 64), b = far_addr_make(0, 72), c = far_addr_make(0, 80);

	if (g->read)
		far_read(t, a, &old, 8);
	if (g->wrote)
		far_write(t, b, &word, 8);
	if (g->cas)
		far_cas(t, b, 0, ADDRESS, &old);
	if (g->faa)
		far_faa(t, c, ADDRESS, &old);
	CHECK_EQ(far_wait(t), 0);
	far_cas(t, b, g->expect, 1, &old);
	CHECK_EQ(far_wait(t), 0);
}

/* How often it guesses. Another client has put ADDRESS there, with a mark in its high bits. */
static uint64_t
guess_run(const struct guess *g)
{
	struct far_sim_opts o = { .seed = 3, .nodes_n = 1, .region_len = 1 << 16, .raw = true };
	struct guess mine = *g;
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric;
	uint64_t *words;
	struct met m;

	sim_rig_open(&o, &sim, &loop);
	words = far_sim_region(sim, 0);
	words[8] = ADDRESS | (uint64_t)9 << 56;
	REQUIRE(far_sim_connect(sim, loop, NULL, &fabric) == 0);
	met_init(&m);
	far_fabric_hook(fabric, &m.hook);
	REQUIRE(far_loop_spawn(loop, fabric, guess, &mine, 0) == 0);
	far_loop_run(loop);
	sim_rig_close(sim, loop, &fabric, 1);
	met_fini(&m);
	return m.guesses;
}

static void
test_met_word_that_nobody_told_is_a_guess(void)
{
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS }), 1);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS + 1, .read = true }), 1);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS + 1, .wrote = true, .faa = true }), 1);
	CHECK_EQ(guess_run(&(struct guess){ .expect = (uint64_t)9 << 56, .read = true }), 1);
}

static void
test_met_word_that_was_read_written_or_found_is_known(void)
{
	CHECK_EQ(guess_run(&(struct guess){ .expect = 0 }), 0);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS | (uint64_t)9 << 56, .read = true }), 0);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS | (uint64_t)7 << 56, .read = true }), 0);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS, .wrote = true }), 0);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS, .cas = true }), 0);
	CHECK_EQ(guess_run(&(struct guess){ .expect = ADDRESS, .faa = true }), 0);
}

TEST_MAIN(TEST(test_met_word_that_nobody_told_is_a_guess),
	  TEST(test_met_word_that_was_read_written_or_found_is_known))
