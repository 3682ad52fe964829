/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_memory_test.c -- noting operations without memory: far_wait() says so, nothing is sent, and it goes on. */
#include <farside/error.h>

#include "base/base.h"
#include "fabric/sim_rig.h"
#include "memory.h"

static int
hungry_answer(const uint64_t *in, int err)
{
	/* Nothing of a chain that was not noted whole may have been sent. */
	if (err)
		CHECK_EQ(in[0], 99);
	return err;
}

static int
hungry_ops(struct far_task *t)
{
	uint64_t in[40] = { 99 }, old;

	far_write(t, far_addr_make(0, 4096), in, 8);
	far_fence(t);
	far_cas(t, far_addr_make(0, 4096), 99, 100, &old);
	far_faa(t, far_addr_make(0, 4096), 1, &old);
	for (unsigned i = 0; i < FAR_LEN(in); i++)
		far_read(t, far_addr_make(0, 4096 + i * 8), &in[i], 8);
	return hungry_answer(in, far_wait(t));
}

static int
hungry_call(struct far_task *t)
{
	char reply[256];
	int got = far_call(t, 0, "?", 1, reply, sizeof(reply));

	/* The node's answer to nonsense is an answer. */
	return got == -FAR_ENOMEM ? got : 0;
}

static void
hungry_fiber(struct far_task *t, void *arg)
{
	*(int *)arg = hungry_ops(t);
	if (!*(int *)arg)
		*(int *)arg = hungry_call(t);
}

struct hungry {
	struct far_loop *loop;
	struct far_fabric *fabric;
};

/* A fiber that has noted nothing before: its stack and what else it needs is there. */
static int
hungry_once(void *arg)
{
	struct hungry *h = arg;
	int err = -1;

	if (far_loop_spawn(h->loop, h->fabric, hungry_fiber, &err, 0) != 0)
		return -FAR_ENOMEM;
	far_loop_run(h->loop);
	return err;
}

static void
test_wait_without_memory_is_enomem_and_sends_nothing(void)
{
	struct far_sim_opts o = { .seed = 3, .nodes_n = 1, .region_len = 1 << 20, .raw = true };
	struct hungry h;
	struct far_sim *sim;

	sim_rig_open(&o, &sim, &h.loop);
	REQUIRE(far_sim_connect(sim, h.loop, NULL, &h.fabric) == 0);
	CHECK(memory_sweep(hungry_once, &h, -FAR_ENOMEM) >= 2);
	sim_rig_close(sim, h.loop, &h.fabric, 1);
}

static void
forget_fiber(struct far_task *t, void *arg)
{
	uint64_t in = 99;

	memory_fail_at = 1;
	far_fence(t);
	far_read(t, far_addr_make(0, 0), &in, 8);
	far_forget(t);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(in, 99);
	far_read(t, far_addr_make(0, 0), &in, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(in, 0);
	*(int *)arg = 1;
}

/* Whoever forgets what it could not note starts anew; so does the next fiber on the same stack. */
static void
test_forget_without_memory_leaves_no_error(void)
{
	struct far_sim_opts o = { .seed = 3, .nodes_n = 1, .region_len = 1 << 20, .raw = true };
	struct far_fabric *fabric;
	struct far_loop *loop;
	struct far_sim *sim;
	int done = 0;

	sim_rig_open(&o, &sim, &loop);
	REQUIRE(far_sim_connect(sim, loop, NULL, &fabric) == 0);
	REQUIRE(far_loop_spawn(loop, fabric, forget_fiber, &done, 0) == 0);
	far_loop_run(loop);
	CHECK_EQ(done, 1);
	sim_rig_close(sim, loop, &fabric, 1);
}

static void
test_shared_queue_without_memory_is_enomem(void)
{
	struct far_shared_queue *q = NULL;

	memory_fail_at = 1;
	CHECK_EQ(far_shared_queue_new(&q), -FAR_ENOMEM);
	CHECK(q == NULL);
}

TEST_MAIN(TEST(test_wait_without_memory_is_enomem_and_sends_nothing), TEST(test_forget_without_memory_leaves_no_error),
	  TEST(test_shared_queue_without_memory_is_enomem))
