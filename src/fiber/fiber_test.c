/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/error.h>
#include <farside/fiber.h>

#include "base/base.h"
#include "fiber/task.h"
#include "test.h"

/* A clock that moves only when the loop is idle. */
struct test_clock {
	uint64_t now;
	unsigned idles, reads;
};

static uint64_t
test_clock_now(void *arg)
{
	struct test_clock *c = arg;

	c->reads++;
	return c->now;
}

static void
test_clock_idle(void *arg, uint64_t until)
{
	struct test_clock *c = arg;

	REQUIRE(until != UINT64_MAX);
	CHECK(until >= c->now);
	c->now = until;
	c->idles++;
}

static struct far_loop *
test_loop(struct test_clock *c)
{
	struct far_loop_opts opts = { .clock = { test_clock_now, test_clock_idle, c }, .seed = 1 };
	struct far_loop *l;

	REQUIRE(far_loop_open(&opts, &l) == 0);
	return l;
}

/* What fibers did, one letter each. */
static char test_log[4096];
static size_t test_log_len;

static void
test_note(char c)
{
	REQUIRE(test_log_len + 1 < sizeof(test_log));
	test_log[test_log_len++] = c;
	test_log[test_log_len] = '\0';
}

static void
test_start(void)
{
	test_log_len = 0;
	test_log[0] = '\0';
}

static void
test_spawn(struct far_loop *l, void (*fn)(struct far_task *, void *), void *arg)
{
	REQUIRE(far_loop_spawn(l, NULL, fn, arg, 0) == 0);
}

static void
noting_fiber(struct far_task *t, void *arg)
{
	const char *name = arg;

	for (int i = 0; i < 3; i++) {
		test_note(*name);
		far_yield(t);
	}
}

static void
test_yield_three_fibers_take_turns(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);

	test_start();
	test_spawn(l, noting_fiber, "a");
	test_spawn(l, noting_fiber, "b");
	test_spawn(l, noting_fiber, "c");
	far_loop_run(l);
	CHECK(strcmp(test_log, "abcabcabc") == 0);
	CHECK_EQ(c.reads, 0); /* no timer, no clock */
	far_loop_close(l);
}

static void
sleeping_fiber(struct far_task *t, void *arg)
{
	const char *name = arg;

	far_sleep(t, (uint64_t)(*name - '0') * 100);
	test_note(*name);
	CHECK_EQ(far_now(t), (*name - '0') * 100);
}

static void
test_sleep_any_order_wakes_in_order_of_time(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);

	test_start();
	for (const char *s = "728195364"; *s; s++)
		test_spawn(l, sleeping_fiber, (void *)s);
	far_loop_run(l);
	CHECK(strcmp(test_log, "123456789") == 0);
	CHECK_EQ(c.idles, 9);
	far_loop_close(l);
}

static void
same_time_fiber(struct far_task *t, void *arg)
{
	far_sleep(t, 50);
	test_note(*(const char *)arg);
}

static void
test_sleep_equal_times_wakes_in_order_of_start(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);

	test_start();
	for (const char *s = "abcdefghij"; *s; s++)
		test_spawn(l, same_time_fiber, (void *)s);
	far_loop_run(l);
	CHECK(strcmp(test_log, "abcdefghij") == 0);
	far_loop_close(l);
}

static void
timer_fiber(struct far_task *t, void *arg)
{
	uint64_t *last = arg;
	uint64_t when;

	for (int i = 0; i < 20; i++) {
		when = far_now(t) + far_rand(t) % 1000;
		if (far_rand(t) % 2)
			CHECK(!far_park_until(t, when));
		else
			far_sleep(t, when - far_now(t));
		CHECK(far_now(t) >= when);
		CHECK(far_now(t) >= *last);
		*last = far_now(t);
	}
}

static void
test_timers_many_at_random_fire_in_order(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	uint64_t last = 0;

	for (int i = 0; i < 200; i++)
		test_spawn(l, timer_fiber, &last);
	far_loop_run(l);
	CHECK(last > 0);
	far_loop_close(l);
}

struct pair {
	struct far_task *parked;
	bool token, ended;
	uint64_t until;
};

static void
parking_fiber(struct far_task *t, void *arg)
{
	struct pair *p = arg;

	p->parked = t;
	test_note('p');
	far_park(t);
	test_note('w');
	p->ended = true;
}

static void
unparking_fiber(struct far_task *t, void *arg)
{
	struct pair *p = arg;

	test_note('u');
	CHECK(!p->ended);
	far_unpark(p->parked);
	far_unpark(p->parked); /* twice is once */
}

static void
test_park_unparked_later_goes_on(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	struct pair p = { 0 };

	test_start();
	test_spawn(l, parking_fiber, &p);
	test_spawn(l, unparking_fiber, &p);
	far_loop_run(l);
	CHECK(p.ended);
	CHECK(strcmp(test_log, "puw") == 0);
	far_loop_close(l);
}

static void
self_parking_fiber(struct far_task *t, void *arg)
{
	bool *done = arg;

	far_unpark(t);
	far_park(t);
	far_unpark(t);
	CHECK(far_park_until(t, far_now(t) + 10));
	CHECK(!far_park_until(t, far_now(t) + 10));
	*done = true;
}

static void
test_park_unparked_before_returns_at_once(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	bool done = false;

	test_spawn(l, self_parking_fiber, &done);
	far_loop_run(l);
	CHECK(done);
	CHECK_EQ(c.now, 10);
	far_loop_close(l);
}

static void
deadline_fiber(struct far_task *t, void *arg)
{
	struct pair *p = arg;

	p->parked = t;
	p->token = far_park_until(t, p->until);
	p->ended = true;
	/* The timer is gone: a sleep of this task must not be cut short by it. */
	far_sleep(t, 5000);
}

static void
late_fiber(struct far_task *t, void *arg)
{
	struct pair *p = arg;

	far_sleep(t, 100);
	if (!p->ended)
		far_unpark(p->parked);
}

static void
test_park_until_tells_unpark_from_time(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	struct pair early = { .until = 50 }, late = { .until = 500 };

	test_spawn(l, deadline_fiber, &early);
	test_spawn(l, late_fiber, &early);
	test_spawn(l, deadline_fiber, &late);
	test_spawn(l, late_fiber, &late);
	far_loop_run(l);
	CHECK(early.ended && !early.token);
	CHECK(late.ended && late.token);
	CHECK_EQ(c.now, 5100);
	far_loop_close(l);
}

static void
sleep_unparked_fiber(struct far_task *t, void *arg)
{
	*(struct far_task **)arg = t;
	far_sleep(t, 100);
	CHECK_EQ(far_now(t), 100);
	far_park(t); /* the unpark during the sleep was remembered */
	test_note('x');
}

static void
waker_fiber(struct far_task *t, void *arg)
{
	far_unpark(*(struct far_task **)arg);
}

static void
test_unpark_during_sleep_is_remembered(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	struct far_task *sleeper;

	test_start();
	test_spawn(l, sleep_unparked_fiber, &sleeper);
	test_spawn(l, waker_fiber, &sleeper);
	far_loop_run(l);
	CHECK(strcmp(test_log, "x") == 0);
	far_loop_close(l);
}

static void
daemon_fiber(struct far_task *t, void *arg)
{
	for (;;) {
		far_sleep(t, 10);
		++*(unsigned *)arg;
	}
}

static void
hundred_fiber(struct far_task *t, void *arg)
{
	far_sleep(t, 105);
}

static void
test_daemon_alone_does_not_keep_the_loop_running(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	unsigned ticks = 0;

	REQUIRE(far_loop_spawn(l, NULL, daemon_fiber, &ticks, FAR_TASK_DAEMON) == 0);
	far_loop_run(l);
	CHECK_EQ(ticks, 0);
	test_spawn(l, hundred_fiber, NULL);
	far_loop_run(l);
	CHECK_EQ(ticks, 10);
	/* Close drops it where it stands. */
	far_loop_close(l);
}

static void
test_turn_runs_what_is_due_and_does_not_wait(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	unsigned ticks = 0;

	REQUIRE(far_loop_spawn(l, NULL, daemon_fiber, &ticks, FAR_TASK_DAEMON) == 0);
	far_loop_turn(l);
	CHECK_EQ(ticks, 0);
	c.now = 10;
	far_loop_turn(l);
	CHECK_EQ(ticks, 1);
	CHECK_EQ(c.idles, 0);
	far_loop_close(l);
}

static void
stuck_fiber(struct far_task *t, void *arg)
{
	char *p = far_scratch(t, 64);

	REQUIRE(p);
	if (far_rand(t) % 2)
		far_sleep(t, 1000);
	far_park(t);
	test_note('!');
}

static void
seeing_fiber(struct far_task *t, void *arg)
{
	*(uint64_t *)arg = far_rand(t);
	far_sleep(t, 10);
	test_note('s');
}

static void
test_reset_drops_every_task_and_starts_the_stream_anew(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	uint64_t seen[2];

	test_start();
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 5; i++)
			REQUIRE(far_loop_spawn(l, NULL, stuck_fiber, NULL, i < 3 ? 0 : FAR_TASK_DAEMON) == 0);
		far_loop_turn(l);
		test_spawn(l, stuck_fiber, NULL); /* never begins */
		far_loop_reset(l, 99);
		test_spawn(l, seeing_fiber, &seen[round > 0]);
		far_loop_run(l);
		CHECK(seen[0] == seen[round > 0]);
	}
	CHECK(strcmp(test_log, "ssssssssssssssssssss") == 0);
	far_loop_close(l);
}

struct test_poller {
	struct far_poller p;
	struct far_task *waits;
	int busy, polls, idle_polls;
};

static int
test_poll(struct far_poller *p, bool idle)
{
	struct test_poller *tp = FAR_CONTAINER(p, struct test_poller, p);

	tp->polls++;
	tp->idle_polls += idle;
	if (tp->busy == 0 || --tp->busy > 0)
		return 0;
	far_unpark(tp->waits);
	return 1;
}

static bool
test_busy(struct far_poller *p)
{
	return FAR_CONTAINER(p, struct test_poller, p)->busy > 0;
}

static void
polled_fiber(struct far_task *t, void *arg)
{
	struct test_poller *tp = arg;

	tp->waits = t;
	tp->busy = 5;
	far_park(t);
	CHECK_EQ(tp->busy, 0);
}

static void
test_poller_busy_keeps_the_loop_awake(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	struct test_poller tp = { .p = { .poll = test_poll, .busy = test_busy } };

	far_loop_add(l, &tp.p);
	test_spawn(l, polled_fiber, &tp);
	far_loop_run(l);
	CHECK_EQ(c.idles, 0);
	CHECK(tp.polls >= 5);
	CHECK(tp.idle_polls >= 4);
	far_loop_remove(l, &tp.p);
	far_loop_close(l);
}

static void
yielding_fiber(struct far_task *t, void *arg)
{
	for (int i = 0; i < 1000; i++)
		far_yield(t);
}

static void
test_poller_is_polled_while_fibers_yield(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	struct test_poller tp = { .p = { .poll = test_poll, .busy = test_busy } };
	unsigned ticks = 0;

	far_loop_add(l, &tp.p);
	REQUIRE(far_loop_spawn(l, NULL, daemon_fiber, &ticks, FAR_TASK_DAEMON) == 0);
	test_spawn(l, yielding_fiber, NULL);
	far_loop_run(l);
	CHECK(tp.polls >= 900);
	CHECK(c.reads > 0 && c.reads < 100); /* every 32nd round, while a timer runs */
	far_loop_remove(l, &tp.p);
	far_loop_close(l);
}

static void
parent_fiber(struct far_task *t, void *arg)
{
	int *n = arg;

	CHECK_EQ(t->word, 0);
	CHECK(far_task_conn(t) == (void *)0x1234);
	t->word = 77;
	if (++*n < 1000)
		REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), parent_fiber, n, 0) == 0);
}

static void
test_spawn_from_a_fiber_reuses_ended_tasks(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	int n = 0;

	REQUIRE(far_loop_spawn(l, (void *)0x1234, parent_fiber, &n, 0) == 0);
	far_loop_run(l);
	CHECK_EQ(n, 1000);
	far_loop_close(l);
}

static void
deep_fiber(struct far_task *t, void *arg)
{
	volatile char buf[40 << 10];
	double d = 1.5;
	char text[32];

	memset((char *)buf, *(int *)arg, sizeof(buf));
	far_yield(t);
	for (size_t i = 0; i < sizeof(buf); i += 997)
		CHECK_EQ(buf[i], *(int *)arg);
	/* Alignment of the stack: printf of a double crashes when it is off. */
	snprintf(text, sizeof(text), "%.3f", d);
	CHECK(strcmp(text, "1.500") == 0);
}

static void
test_stack_deep_use_is_kept_across_switches(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);
	int id[20];

	for (int i = 0; i < 20; i++) {
		id[i] = i;
		test_spawn(l, deep_fiber, &id[i]);
	}
	far_loop_run(l);
	far_loop_close(l);
}

static unsigned
dig(unsigned depth, const volatile char *above)
{
	volatile char buf[4096];

	buf[0] = (char)depth;
	buf[1] = above[0];
	return depth == 0 ? 0 : dig(depth - 1, buf) + (unsigned)buf[1];
}

static void
digging_fiber(struct far_task *t, void *arg)
{
	char top = 1;

	*(unsigned *)arg = dig(*(unsigned *)arg, &top);
}

static void
test_stack_overflow_ends_the_process(void)
{
	pid_t child = fork();
	int status;

	REQUIRE(child >= 0);
	if (child == 0) {
		struct rlimit none = { 0, 0 };
		unsigned depth = 1000; /* 4 MiB */
		struct test_clock c = { 0 };
		struct far_loop *l = test_loop(&c);

		setrlimit(RLIMIT_CORE, &none);
		(void)!freopen("/dev/null", "w", stderr);
		for (int i = 0; i < 4; i++)
			test_spawn(l, noting_fiber, "x"); /* neighbours */
		test_spawn(l, digging_fiber, &depth);
		far_loop_run(l);
		_exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

static void
scratch_fiber(struct far_task *t, void *arg)
{
	struct far_scratch_mark start = far_scratch_mark(t), m;
	char *a = far_scratch(t, 100), *b, *c;

	CHECK((uintptr_t)a % 16 == 0);
	memset(a, 1, 100);
	m = far_scratch_mark(t);
	for (int round = 0; round < 3; round++) {
		b = far_scratch(t, 200 << 10); /* larger than a block */
		c = far_scratch(t, 33);
		CHECK((uintptr_t)b % 16 == 0 && (uintptr_t)c % 16 == 0);
		memset(b, 2, 200 << 10);
		memset(c, 3, 33);
		CHECK(b[(200 << 10) - 1] == 2 && a[99] == 1);
		far_scratch_reset(t, m);
	}
	CHECK(far_scratch(t, SIZE_MAX) == NULL);
	CHECK(far_scratch(t, SIZE_MAX / 4) == NULL);
	far_scratch_reset(t, start);
	CHECK(far_scratch(t, 100) == a);
	for (int i = 0; i < 1000; i++)
		memset(far_scratch(t, 1000), 5, 1000);
}

static void
test_scratch_marks_give_memory_back(void)
{
	struct test_clock c = { 0 };
	struct far_loop *l = test_loop(&c);

	test_spawn(l, scratch_fiber, NULL);
	far_loop_run(l);
	test_spawn(l, scratch_fiber, NULL);
	far_loop_run(l);
	far_loop_close(l);
}

static void
rand_fiber(struct far_task *t, void *arg)
{
	*(uint64_t *)arg = far_rand(t);
}

static void
test_rand_same_seed_gives_the_same_stream(void)
{
	uint64_t got[3];

	for (int i = 0; i < 3; i++) {
		struct far_loop_opts opts = { .seed = i == 2 ? 8 : 7 };
		struct far_loop *l;

		REQUIRE(far_loop_open(&opts, &l) == 0);
		test_spawn(l, rand_fiber, &got[i]);
		far_loop_run(l);
		far_loop_close(l);
	}
	CHECK(got[0] == got[1]);
	CHECK(got[0] != got[2]);
}

static void
real_fiber(struct far_task *t, void *arg)
{
	uint64_t start = far_now(t);

	far_sleep(t, 3 * 1000 * 1000);
	CHECK(far_now(t) - start >= 3 * 1000 * 1000);
}

static void
test_real_clock_sleep_lasts_as_long_as_asked(void)
{
	struct far_loop *l;

	REQUIRE(far_loop_open(NULL, &l) == 0);
	test_spawn(l, real_fiber, NULL);
	far_loop_run(l);
	far_loop_close(l);
}

/* Two threads take turns with one loop; a fiber that began in one goes on in the other. */
struct shared_loop {
	pthread_mutex_t lock;
	struct far_loop *loop;
	unsigned turns;
};

static void
turning_fiber(struct far_task *t, void *arg)
{
	unsigned *turns = arg;

	for (;;) {
		++*turns;
		far_sleep(t, 1);
	}
}

static void *
turning_thread(void *arg)
{
	struct shared_loop *s = arg;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&s->lock);
		far_loop_turn(s->loop);
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

static void
test_two_threads_taking_turns_share_a_loop(void)
{
	struct shared_loop s = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t other;

	REQUIRE(far_loop_open(NULL, &s.loop) == 0);
	for (int i = 0; i < 3; i++)
		REQUIRE(far_loop_spawn(s.loop, NULL, turning_fiber, &s.turns, FAR_TASK_DAEMON) == 0);
	REQUIRE(pthread_create(&other, NULL, turning_thread, &s) == 0);
	turning_thread(&s);
	pthread_join(other, NULL);
	CHECK(s.turns >= 3);
	far_loop_close(s.loop);
}

TEST_MAIN(TEST(test_yield_three_fibers_take_turns), TEST(test_sleep_any_order_wakes_in_order_of_time),
	  TEST(test_sleep_equal_times_wakes_in_order_of_start), TEST(test_timers_many_at_random_fire_in_order),
	  TEST(test_park_unparked_later_goes_on), TEST(test_park_unparked_before_returns_at_once),
	  TEST(test_park_until_tells_unpark_from_time), TEST(test_unpark_during_sleep_is_remembered),
	  TEST(test_daemon_alone_does_not_keep_the_loop_running),
	  TEST(test_turn_runs_what_is_due_and_does_not_wait),
	  TEST(test_reset_drops_every_task_and_starts_the_stream_anew), TEST(test_poller_busy_keeps_the_loop_awake),
	  TEST(test_poller_is_polled_while_fibers_yield), TEST(test_spawn_from_a_fiber_reuses_ended_tasks),
	  TEST(test_stack_deep_use_is_kept_across_switches), TEST(test_stack_overflow_ends_the_process),
	  TEST(test_scratch_marks_give_memory_back),
	  TEST(test_rand_same_seed_gives_the_same_stream), TEST(test_real_clock_sleep_lasts_as_long_as_asked),
	  TEST(test_two_threads_taking_turns_share_a_loop))
