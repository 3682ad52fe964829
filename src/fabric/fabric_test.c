/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pthread.h>

#include "base/base.h"
#include "fabric/shm.h"
#include "test.h"

enum { REGION = 1 << 16, NODES = 2 };

/* One client of two nodes in memory, and a body that runs as its fiber. */
struct world {
	struct far_loop *loop;
	struct far_fabric *f;
	struct shm_memory nodes[NODES];
	int calls, not_yet;
};

static int
world_call(void *arg, const void *req, size_t len, void *reply, size_t max)
{
	struct world *w = arg;

	w->calls++;
	if (w->not_yet > 0 && w->not_yet--)
		return -FAR_EAGAIN;
	if (len == 1)
		return -FAR_EFENCED;
	memcpy(reply, req, far_min(len, max));
	return (int)len;
}

static void
world_open(struct world *w, const struct far_fabric_opts *opts)
{
	memset(w, 0, sizeof(*w));
	REQUIRE(far_loop_open(NULL, &w->loop) == 0);
	for (int i = 0; i < NODES; i++) {
		w->nodes[i].base = calloc(1, REGION);
		w->nodes[i].len = REGION;
		w->nodes[i].call = world_call;
		w->nodes[i].arg = w;
	}
	REQUIRE(shm_connect_memory(w->nodes, NODES, w->loop, opts, &w->f) == 0);
}

static void
world_close(struct world *w)
{
	far_fabric_close(w->f);
	far_loop_close(w->loop);
	for (int i = 0; i < NODES; i++)
		free(w->nodes[i].base);
}

static void
world_run(struct world *w, void (*fn)(struct far_task *t, void *arg))
{
	REQUIRE(far_loop_spawn(w->loop, w->f, fn, w, 0) == 0);
	far_loop_run(w->loop);
}

static void
each_verb_body(struct far_task *t, void *arg)
{
	uint64_t out[4] = { 1, 2, 3, 4 }, in[4] = { 0 }, old[3];
	struct far_addr a = far_addr_make(0, 256), b = far_addr_make(1, 512);

	CHECK_EQ(far_wait(t), 0);
	far_write(t, a, out, 32);
	far_cas(t, a, 1, 10, &old[0]);
	far_cas(t, a, 1, 20, &old[1]);
	far_faa(t, far_addr_add(a, 8), 5, &old[2]);
	far_read(t, a, in, 32);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(old[0], 1);
	CHECK_EQ(old[1], 10);
	CHECK_EQ(old[2], 2);
	CHECK_EQ(in[0], 10);
	CHECK_EQ(in[1], 7);
	CHECK_EQ(in[3], 4);

	far_write(t, b, in, 16);
	far_read(t, a, out, 32);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(out[1], 7);
	far_read(t, b, out, 16);
	far_forget(t);
	CHECK_EQ(far_wait(t), 0);
	out[0] = 0;
	far_read(t, b, out, 16);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(out[0], 10);
}

static void
test_verbs_one_of_each_do_what_they_say(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, each_verb_body);
	CHECK_EQ(far_fabric_nodes(w.f), 2);
	CHECK_EQ(far_fabric_region_len(w.f, 1), REGION);
	CHECK_EQ(far_fabric_region_len(w.f, 2), 0);
	CHECK_EQ(far_fabric_caps(w.f), FAR_CAP_ATOMIC_GLOBAL);
	CHECK(strcmp(far_fabric_name(w.f), "shm") == 0);
	world_close(&w);
}

static void
wrong_address_body(struct far_task *t, void *arg)
{
	char buf[64];
	uint64_t old;

	far_read(t, far_addr_make(2, 0), buf, 8);
	CHECK_EQ(far_wait(t), -FAR_EACCESS); /* no such node */
	far_read(t, far_addr_make(0, 0), buf, (size_t)1 << 40);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	far_read(t, far_addr_make(0, REGION), buf, 8);
	far_read(t, far_addr_make(1, 0), buf, 8);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	far_cas(t, far_addr_make(1, 4), 0, 1, &old);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	CHECK_EQ(far_wait(t), 0);
}

static void
test_verbs_at_wrong_addresses_end_with_access_errors(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, wrong_address_body);
	world_close(&w);
}

static void
count_body(struct far_task *t, void *arg)
{
	static char buf[8192];
	struct far_count c = { 0 }, other = { 0 }, sum = { 0 };
	uint64_t old;

	CHECK(far_account_now(t) == NULL);
	CHECK(far_account(t, &c) == NULL);
	/* A lookup: two pairs of buckets, then a block. */
	far_read(t, far_addr_make(0, 0), buf, 128);
	far_read(t, far_addr_make(0, 4096), buf, 128);
	CHECK_EQ(far_wait(t), 0);
	far_read(t, far_addr_make(0, 0), buf, 64);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(c.round_trips, 2);
	CHECK_EQ(c.verbs[FAR_OP_READ], 3);
	CHECK_EQ(c.bytes_out + c.bytes_in, 752);
	CHECK_EQ(c.bytes_out, 3 * 78);
	CHECK_EQ(c.payload_in, 320);

	CHECK(far_account(t, &other) == &c);
	far_write(t, far_addr_make(0, 0), buf, 64);
	far_read(t, far_addr_make(1, 0), buf, 64);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(other.round_trips, 1);
	CHECK_EQ(other.bytes_out, 78 + 64 + 78);
	CHECK_EQ(other.bytes_in, 66 + 66 + 64);

	memset(&c, 0, sizeof(c));
	far_account(t, &c);
	far_cas(t, far_addr_make(0, 0), 0, 0, &old);
	far_faa(t, far_addr_make(0, 0), 0, &old);
	far_read(t, far_addr_make(0, 0), buf, 4096);
	far_write(t, far_addr_make(0, 0), buf, 4104);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(c.bytes_out, 90 + 90 + 78 + 78 + 4104 + 62);
	CHECK_EQ(c.bytes_in, 74 + 74 + 66 + 4096 + 66);
	CHECK_EQ(c.payload_out, 16 + 8 + 4104);
	CHECK_EQ(c.payload_in, 8 + 8 + 4096);
	CHECK_EQ(far_call(t, 1, buf, 100, buf + 100, 200), 100);
	CHECK_EQ(c.verbs[FAR_OP_CALL], 1);
	CHECK_EQ(c.round_trips, 2);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(c.round_trips, 2); /* nothing noted, nothing sent */

	c.retries = 3;
	far_count_add(&sum, &c);
	far_count_add(&sum, &other);
	far_count_sub(&sum, &c);
	CHECK(memcmp(&sum, &other, sizeof(sum)) == 0);
	far_account(t, NULL);
}

static void
test_count_known_operations_give_their_frames(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, count_body);
	world_close(&w);
}

static void
no_account_body(struct far_task *t, void *arg)
{
	CHECK(far_account_now(t) == NULL);
}

static void
noting_body(struct far_task *t, void *arg)
{
	static char buf[8];
	static struct far_count c;

	far_account(t, &c);
	far_read(t, far_addr_make(0, 0), buf, 8);
	far_fence(t);
}

static void
waiting_body(struct far_task *t, void *arg)
{
	static struct far_count c;

	far_account(t, &c);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(c.round_trips, 0);
}

static void
test_task_reused_inherits_nothing(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, noting_body);
	world_run(&w, no_account_body);
	world_run(&w, waiting_body);
	world_close(&w);
}

static void
call_body(struct far_task *t, void *arg)
{
	struct world *w = arg;
	char reply[8] = "";

	CHECK_EQ(far_call(t, 0, "hello", 6, reply, sizeof(reply)), 6);
	CHECK(strcmp(reply, "hello") == 0);
	w->not_yet = 3;
	CHECK_EQ(far_call(t, 0, "again", 6, reply, sizeof(reply)), 6);
	CHECK_EQ(w->calls, 5);
	CHECK_EQ(far_call(t, 0, "x", 1, reply, sizeof(reply)), -FAR_EFENCED);
	CHECK_EQ(far_call(t, 0, "too long", 9, reply, sizeof(reply)), -FAR_ECORRUPT);
	CHECK_EQ(far_call(t, 7, "hello", 6, reply, sizeof(reply)), -FAR_EACCESS);
}

static void
test_call_replies_and_errors_come_back(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, call_body);
	world_close(&w);
}

/* Watches how much is in flight, in what order chains are posted and come back. */
struct watch {
	struct far_hook hook;
	struct far_fabric *f;
	uint64_t most;
	unsigned before, after;
	uint32_t node[64];
};

static void
watch_before(struct far_hook *h, struct far_chain *c)
{
	struct watch *w = FAR_CONTAINER(h, struct watch, hook);

	w->before++;
}

static void
watch_after(struct far_hook *h, struct far_chain *c)
{
	struct watch *w = FAR_CONTAINER(h, struct watch, hook);

	w->node[w->after++ % 64] = (uint32_t)c->n;
	w->most = far_max(w->most, w->f->ops_in_flight + c->n);
}

static void
five_reads_body(struct far_task *t, void *arg)
{
	uint64_t in[5];

	for (int i = 0; i < 5; i++)
		far_read(t, far_addr_make(0, (uint64_t)i * 8), &in[i], 8);
	CHECK_EQ(far_wait(t), 0);
}

static void
many_reads_body(struct far_task *t, void *arg)
{
	uint64_t in[40];

	for (int i = 0; i < 40; i++)
		far_read(t, far_addr_make(0, (uint64_t)i * 8), &in[i], 8);
	CHECK_EQ(far_wait(t), 0);
}

static uint64_t
most_in_flight(unsigned credits)
{
	struct far_fabric_opts opts = { .credits = credits };
	struct watch watch = { .hook = { .before = watch_before, .after = watch_after } };
	struct world w;

	world_open(&w, &opts);
	watch.f = w.f;
	far_fabric_hook(w.f, &watch.hook);
	for (int i = 0; i < 20; i++) {
		void (*fn)(struct far_task *, void *) = i == 10 ? many_reads_body : five_reads_body;

		REQUIRE(far_loop_spawn(w.loop, w.f, fn, &w, 0) == 0);
	}
	far_loop_run(w.loop);
	CHECK_EQ(watch.before, 20);
	CHECK_EQ(watch.after, 20);
	CHECK_EQ(watch.node[10], 40); /* nobody overtook */
	far_fabric_unhook(w.f, &watch.hook);
	world_close(&w);
	return watch.most;
}

static void
test_credits_bound_what_is_in_flight(void)
{
	CHECK_EQ(most_in_flight(10), 40); /* the long chain went alone */
	CHECK_EQ(most_in_flight(40), 40);
	CHECK_EQ(most_in_flight(60), 60);
	CHECK_EQ(most_in_flight(UINT_MAX), 19 * 5 + 40);
	CHECK_EQ(most_in_flight(0), 19 * 5 + 40);
}

/* A backend whose queue is full now and then. */
static const struct far_fabric_ops *full_real;
static unsigned full_refused, full_order[64], full_posted;

static int
full_post(struct far_fabric *f, struct far_chain *c)
{
	if (++full_refused % 3)
		return -FAR_EAGAIN;
	full_order[full_posted++ % FAR_LEN(full_order)] = (unsigned)c->number;
	return full_real->post(f, c);
}

static void
test_queue_full_keeps_the_order_and_loses_nothing(void)
{
	struct far_fabric_ops full;
	struct world w;

	full_refused = full_posted = 0;
	world_open(&w, NULL);
	full_real = w.f->ops;
	full = *full_real;
	full.post = full_post;
	w.f->ops = &full;
	for (int i = 0; i < 20; i++)
		REQUIRE(far_loop_spawn(w.loop, w.f, five_reads_body, &w, 0) == 0);
	far_loop_run(w.loop);
	CHECK_EQ(full_posted, 20);
	for (unsigned i = 0; i < full_posted; i++)
		CHECK_EQ(full_order[i], i + 1);
	CHECK_EQ(w.f->in_flight + w.f->ops_in_flight, 0);
	w.f->ops = full_real;
	world_close(&w);
}

enum { SHARED_ADDS = 2000 };

static void
shared_adds_body(struct far_task *t, void *arg)
{
	uint64_t old;

	for (int i = 0; i < SHARED_ADDS; i++) {
		far_faa(t, far_addr_make(0, 0), 1, &old);
		CHECK_EQ(far_wait(t), 0);
	}
}

/* A thread's own connection, through the queue of all. */
struct sharer {
	struct shm_memory *nodes;
	struct far_shared_queue *queue;
	pthread_t thread;
};

static void *
sharer_thread(void *arg)
{
	struct sharer *s = arg;
	struct far_fabric_opts opts = { .shared_queue = s->queue };
	struct far_fabric *f;
	struct far_loop *l;

	REQUIRE(far_loop_open(NULL, &l) == 0);
	REQUIRE(shm_connect_memory(s->nodes, NODES, l, &opts, &f) == 0);
	REQUIRE(far_loop_spawn(l, f, shared_adds_body, NULL, 0) == 0);
	far_loop_run(l);
	far_fabric_close(f);
	far_loop_close(l);
	return NULL;
}

static void
test_shared_queue_serves_threads_one_at_a_time(void)
{
	struct sharer s[3];
	struct world w;

	world_open(&w, NULL);
	REQUIRE(far_shared_queue_new(&s[0].queue) == 0);
	for (unsigned i = 0; i < FAR_LEN(s); i++) {
		s[i].nodes = w.nodes;
		s[i].queue = s[0].queue;
		REQUIRE(pthread_create(&s[i].thread, NULL, sharer_thread, &s[i]) == 0);
	}
	for (unsigned i = 0; i < FAR_LEN(s); i++)
		pthread_join(s[i].thread, NULL);
	CHECK_EQ(*(uint64_t *)w.nodes[0].base, FAR_LEN(s) * SHARED_ADDS);
	far_shared_queue_free(s[0].queue);
	far_shared_queue_free(NULL);
	world_close(&w);
}

static void
foreign_unpark_body(struct far_task *t, void *arg)
{
	uint64_t in;

	far_unpark(t); /* for the park below, not for the wait */
	far_read(t, far_addr_make(0, 0), &in, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK(far_park_until(t, far_now(t)));
	CHECK(!far_park_until(t, far_now(t)));
}

static void
test_unpark_during_wait_is_kept_for_park(void)
{
	struct world w;

	world_open(&w, NULL);
	world_run(&w, foreign_unpark_body);
	world_close(&w);
}

static void
test_open_wrong_uris_are_refused(void)
{
	struct far_fabric *f = NULL;
	struct far_loop *l;
	char many[200] = "shm:a";

	REQUIRE(far_loop_open(NULL, &l) == 0);
	CHECK_EQ(far_fabric_open("", l, NULL, &f), -FAR_EINVAL);
	CHECK_EQ(far_fabric_open("shm", l, NULL, &f), -FAR_EINVAL);
	CHECK_EQ(far_fabric_open("nfs:/tmp", l, NULL, &f), -FAR_EINVAL);
	CHECK_EQ(far_fabric_open("shm:", l, NULL, &f), -FAR_EINVAL);
	CHECK_EQ(far_fabric_open("shm:/nonexistent/n0", l, NULL, &f), -FAR_ENODE);
	CHECK_EQ(far_fabric_open("shm:,", l, NULL, &f), -FAR_EINVAL);
	for (int i = 0; i < FAR_NODES_MAX; i++)
		strcat(many, ",/a");
	CHECK_EQ(far_fabric_open(many, l, NULL, &f), -FAR_EINVAL);
	CHECK(f == NULL);
	far_fabric_close(NULL);
	far_loop_close(l);
}

TEST_MAIN(TEST(test_verbs_one_of_each_do_what_they_say),
	  TEST(test_verbs_at_wrong_addresses_end_with_access_errors),
	  TEST(test_count_known_operations_give_their_frames),
	  TEST(test_task_reused_inherits_nothing),
	  TEST(test_call_replies_and_errors_come_back),
	  TEST(test_credits_bound_what_is_in_flight),
	  TEST(test_queue_full_keeps_the_order_and_loses_nothing),
	  TEST(test_shared_queue_serves_threads_one_at_a_time),
	  TEST(test_unpark_during_wait_is_kept_for_park),
	  TEST(test_open_wrong_uris_are_refused))
