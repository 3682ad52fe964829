/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_test.c -- the client's side: chains longer than a frame, nodes that fall silent. */
#include "fabric/tcp.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/rand.h"
#include "fabric/shm_node.h"
#include "test.h"

enum { RIG_SIZE = 8 << 20,
       RIG_FREE = 4 << 20 };

/* A node, one client, and the test's body as its fiber. */
struct rig {
	struct shm_child node;
	struct far_loop *loop;
	struct far_fabric *fabric;
	uint64_t took_ns;
};

static void
rig_run(void (*body)(struct far_task *t, void *arg), uint64_t timeout_ns)
{
	struct far_fabric_opts opts = { .timeout_ns = timeout_ns, .credits = 100000 };
	struct shm_why why;
	struct rig r;

	REQUIRE(shm_node_spawn_tcp(RIG_SIZE, 0, &r.node, &why) == 0);
	REQUIRE(far_loop_open(NULL, &r.loop) == 0);
	REQUIRE(far_fabric_open(r.node.tcp_uri, r.loop, &opts, &r.fabric) == 0);
	REQUIRE(far_loop_spawn(r.loop, r.fabric, body, &r, 0) == 0);
	far_loop_run(r.loop);
	far_fabric_close(r.fabric);
	far_loop_close(r.loop);
	kill(r.node.pid, SIGCONT);
	shm_node_stop(&r.node);
}

static struct far_addr
at(uint64_t off)
{
	return far_addr_make(0, RIG_FREE + off);
}

/* Every kind of operation, of all lengths, in one chain of thousands. */
static void
long_body(struct far_task *t, void *arg)
{
	enum { N = 3000, LEN = 4096 };
	uint64_t *out = calloc(N, LEN), *in = calloc(N, LEN), old[N], found[N];
	struct far_rng rng;

	REQUIRE(out && in);
	far_rng_seed(&rng, 3);
	for (int i = 0; i < N * LEN / 8; i++)
		out[i] = far_rng_next(&rng);
	for (int i = 0; i < N; i++) {
		uint64_t len = i % 100 == 0 ? LEN * 40 : far_rng_below(&rng, 64) * 8;

		far_write(t, at(64), out + i * 8, len);
		far_faa(t, at(0), 1, &old[i]);
		far_read(t, at(64), in + i * 8, len);
		far_cas(t, at(8), (uint64_t)i, (uint64_t)i + 1, &found[i]);
		/* What a chain reads later, it may have overwritten: each is looked at by itself. */
		if (i % 100 == 0) {
			CHECK_EQ(far_wait(t), 0);
			CHECK(memcmp(in + i * 8, out + i * 8, len) == 0);
		}
	}
	CHECK_EQ(far_wait(t), 0);
	for (int i = 0; i < N; i++)
		CHECK(old[i] == (uint64_t)i && found[i] == (uint64_t)i);
	far_read(t, at(8), old, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(old[0], N);
	free(out);
	free(in);
}

static void
test_chain_of_thousands_keeps_order_and_results(void)
{
	rig_run(long_body, 0);
}

static void
outside_body(struct far_task *t, void *arg)
{
	enum { LEN = 1 << 20 };
	uint64_t *out = malloc(LEN), word = 7, old = 5;

	REQUIRE(out);
	memset(out, 0xff, LEN);
	far_write(t, at(0), &word, 8);
	far_write(t, far_addr_make(0, RIG_SIZE - LEN / 2), out, LEN);
	far_faa(t, at(0), 1, &old);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	CHECK_EQ(old, 5);
	far_read(t, far_addr_make(0, RIG_SIZE - LEN / 2), out, LEN / 2);
	far_read(t, at(0), &word, 8);
	CHECK_EQ(far_wait(t), 0);
	/* What came before it happened; of itself and of what followed, nothing. */
	CHECK_EQ(word, 7);
	for (int i = 0; i < LEN / 16; i++)
		CHECK_EQ(out[i], 0);
	free(out);
}

static void
test_long_write_across_the_end_changes_nothing(void)
{
	rig_run(outside_body, 0);
}

/* How often this thread has gone to sleep. */
static long
sleeps(void)
{
	struct rusage use;

	REQUIRE(getrusage(RUSAGE_THREAD, &use) == 0);
	return use.ru_nvcsw;
}

static void
silent_body(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t word = 1, start;
	long slept;

	far_write(t, at(0), &word, 8);
	CHECK_EQ(far_wait(t), 0);
	kill(r->node.pid, SIGSTOP);
	waitpid(r->node.pid, NULL, WUNTRACED);
	start = far_now(t);
	slept = sleeps();
	far_write(t, at(0), &word, 8);
	CHECK_EQ(far_wait(t), -FAR_EUNSURE);
	/* Many that wait like this leave the processors to who has something to do. */
	CHECK(sleeps() - slept < 1000);
	r->took_ns = far_now(t) - start;
	CHECK(r->took_ns > 300000000 && r->took_ns < 3000000000);
	/* A connection that failed stays failed, and a change may still come. */
	CHECK_EQ(r->fabric->unsure, 1);
	far_read(t, at(0), &word, 8);
	CHECK_EQ(far_wait(t), -FAR_ENODE);
}

static void
test_silent_node_is_given_up_after_the_time_out(void)
{
	rig_run(silent_body, 500000000);
}

/* A node that only takes its time answers a ping. */
static void
slow_body(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t word;

	for (int i = 0; i < 3; i++) {
		kill(r->node.pid, SIGSTOP);
		waitpid(r->node.pid, NULL, WUNTRACED);
		far_sleep(t, 100000000);
		kill(r->node.pid, SIGCONT);
		far_read(t, at(0), &word, 8);
		CHECK_EQ(far_wait(t), 0);
	}
}

static void
test_node_that_pauses_briefly_is_waited_for(void)
{
	rig_run(slow_body, 2000000000);
}

static void
cut_body(struct far_task *t, void *arg)
{
	struct rig *r = arg;
	uint64_t word = 1, old;

	kill(r->node.pid, SIGKILL);
	waitpid(r->node.pid, NULL, 0);
	r->node.pid = 0;
	far_faa(t, at(0), 1, &old);
	old = (uint64_t)-far_wait(t);
	CHECK(old == FAR_EUNSURE || old == FAR_ENODE);
	far_read(t, at(0), &word, 8);
	CHECK_EQ(far_wait(t), -FAR_ENODE);
}

static void
test_killed_node_ends_operations_at_once(void)
{
	rig_run(cut_body, 0);
}

TEST_MAIN(TEST(test_chain_of_thousands_keeps_order_and_results), TEST(test_long_write_across_the_end_changes_nothing),
	  TEST(test_silent_node_is_given_up_after_the_time_out), TEST(test_node_that_pauses_briefly_is_waited_for),
	  TEST(test_killed_node_ends_operations_at_once))
