/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- the suite of fabric_conform.h. Each case says which guarantee it holds a backend to. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "base/base.h"
#include "conform/fabric_conform.h"
#include "fabric/hook.h"
#include "test.h"

static const struct conform_backend *conform_backend;

struct conform_world;
struct conform_client;

typedef void conform_body(struct far_task *t, struct conform_client *c);

/* The bodies of a case's clients; the last one is that of all others too. */
#define BODIES(...) ((conform_body *const[]){ __VA_ARGS__, NULL })

/* One client: what its body gets as `arg`. */
struct conform_client {
	struct conform_world *world;
	unsigned index;
	struct far_loop *loop;
	bool own_loop;
	struct far_fabric *fabric;
	struct hook_fault fault;
	conform_body *body;
	uint64_t acked, tried; /* for the case */
	pthread_t thread;
};

struct conform_world {
	void *backend;
	unsigned clients_n;
	struct conform_client clients[CONFORM_CLIENTS];
	uint64_t arrived; /* of conform_meet() */
	uint64_t told;    /* for the case: what one client tells the others outside the fabric */
	uint64_t seen[2][4096];
};

/* The world of a case --------------------------------------------------------------------------------------- */

static bool
conform_open(struct conform_world *w, unsigned nodes)
{
	memset(w, 0, sizeof(*w));
	w->backend = conform_backend->open(nodes);
	if (!w->backend)
		test_skip_reason = "no world of this backend here";
	return w->backend != NULL;
}

static struct conform_client *
conform_connect(struct conform_world *w, const struct far_fabric_opts *opts)
{
	const struct conform_backend *b = conform_backend;
	struct conform_client *c = &w->clients[w->clients_n];
	struct far_loop_opts lo = { .seed = 1 + w->clients_n };

	REQUIRE(w->clients_n < CONFORM_CLIENTS);
	c->world = w;
	c->index = w->clients_n++;
	c->loop = w->clients[0].loop;
	if (b->clock)
		lo.clock = b->clock(w->backend);
	if (c->index == 0 || b->threads) {
		REQUIRE(far_loop_open(&lo, &c->loop) == 0);
		c->own_loop = true;
	}
	REQUIRE(b->connect(w->backend, c->loop, opts, &c->fabric) == 0);
	hook_fault_init(&c->fault, 77 + c->index);
	if (b->faults > 0) {
		struct hook_fault_rule r = { .when = HOOK_FAULT_RANDOM, .fraction = b->faults, .err = -FAR_EUNSURE };

		hook_fault_add(&c->fault, &r);
	}
	far_fabric_hook(c->fabric, &c->fault.hook);
	return c;
}

static void
conform_close(struct conform_world *w)
{
	for (unsigned i = 0; i < w->clients_n; i++)
		far_fabric_close(w->clients[i].fabric);
	for (unsigned i = 0; i < w->clients_n; i++) {
		if (w->clients[i].own_loop)
			far_loop_close(w->clients[i].loop);
	}
	conform_backend->close(w->backend);
}

static void
conform_fiber(struct far_task *t, void *arg)
{
	struct conform_client *c = arg;

	c->body(t, c);
}

static void *
conform_thread(void *arg)
{
	struct conform_client *c = arg;

	far_loop_run(c->loop);
	return NULL;
}

/* Runs the bodies of all clients against each other. */
static void
conform_run(struct conform_world *w)
{
	unsigned loops = conform_backend->threads ? w->clients_n : 1;

	for (unsigned i = 0; i < w->clients_n; i++) {
		struct conform_client *c = &w->clients[i];

		REQUIRE(far_loop_spawn(c->loop, c->fabric, conform_fiber, c, 0) == 0);
	}
	for (unsigned i = 1; i < loops; i++)
		REQUIRE(pthread_create(&w->clients[i].thread, NULL, conform_thread, &w->clients[i]) == 0);
	conform_thread(&w->clients[0]);
	for (unsigned i = 1; i < loops; i++)
		pthread_join(w->clients[i].thread, NULL);
}

/* Connects `clients` clients and runs their bodies; the world stays open. */
static void
conform_case(struct conform_world *w, unsigned nodes, unsigned clients, conform_body *const bodies[])
{
	if (!conform_open(w, nodes))
		return;
	for (unsigned i = 0; i < clients; i++) {
		struct conform_client *c = conform_connect(w, NULL);

		c->body = bodies[0];
		if (bodies[1])
			bodies++;
	}
	conform_run(w);
}

static struct conform_world conform_static;

/* Waits until all clients are at the same round of the case. */
static void
conform_meet(struct far_task *t, struct conform_client *c, unsigned round)
{
	uint64_t all = (uint64_t)(round + 1) * c->world->clients_n;

	__atomic_fetch_add(&c->world->arrived, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; __atomic_load_n(&c->world->arrived, __ATOMIC_SEQ_CST) < all; i++) {
		if (!conform_backend->threads)
			far_sleep(t, 100);
		else if (i % 64 == 63)
			sched_yield();
	}
}

static struct far_addr
at(unsigned node, uint64_t off)
{
	return far_addr_make(node, conform_backend->free_off + off);
}

/* The outcome of a wait whose operations may be done again: false when they must be. */
static bool
settled(int err)
{
	if (conform_backend->faults > 0 && err == -FAR_EUNSURE)
		return false;
	CHECK_EQ(err, 0);
	return true;
}

static uint64_t
read_word(struct far_task *t, struct far_addr a)
{
	uint64_t w;

	do
		far_read(t, a, &w, 8);
	while (!settled(far_wait(t)));
	return w;
}

static void
write_word(struct far_task *t, struct far_addr a, uint64_t w)
{
	do
		far_write(t, a, &w, 8);
	while (!settled(far_wait(t)));
}

/* Sequential meaning of the verbs -------------------------------------------------------------------------- */

static void
verbs_body(struct far_task *t, struct conform_client *c)
{
	uint64_t out[8], in[8], old;

	for (unsigned node = 0; node < 2; node++) {
		for (int i = 0; i < 8; i++) {
			out[i] = far_mix64((uint64_t)i + node + 1);
			CHECK_EQ(read_word(t, at(node, 64 + (uint64_t)i * 8)), 0);
		}
		do
			far_write(t, at(node, 64), out, 64);
		while (!settled(far_wait(t)));
		do
			far_read(t, at(node, 64), in, 64);
		while (!settled(far_wait(t)));
		CHECK(memcmp(in, out, 64) == 0);
		CHECK_EQ(read_word(t, at(node, 56)), 0);
		CHECK_EQ(read_word(t, at(node, 128)), 0);
	}
	/* A CAS that fails changes nothing and tells what it found. */
	do
		far_cas(t, at(0, 64), 12345, 1, &old);
	while (!settled(far_wait(t)));
	CHECK(old == far_mix64(1));
	CHECK(read_word(t, at(0, 64)) == far_mix64(1));
	do
		far_cas(t, at(0, 64), far_mix64(1), 1, &old);
	while (!settled(far_wait(t)));
	CHECK(read_word(t, at(0, 64)) == 1);
	write_word(t, at(0, 64), UINT64_MAX);
	if (conform_backend->faults == 0) {
		far_faa(t, at(0, 64), 3, &old);
		CHECK_EQ(far_wait(t), 0);
		CHECK(old == UINT64_MAX);
		CHECK_EQ(read_word(t, at(0, 64)), 2); /* wraps, touches no neighbour */
		CHECK(read_word(t, at(0, 72)) == far_mix64(2));
	}
}

static void
test_verbs_alone_do_what_they_say(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 2, 1, BODIES(verbs_body));
	if (w->backend)
		conform_close(w);
}

static void
long_body(struct far_task *t, struct conform_client *c)
{
	enum { LEN = CONFORM_MEMORY / 2 };
	unsigned char *out = malloc(LEN), *in = malloc(LEN);

	REQUIRE(out && in);
	for (size_t i = 0; i < LEN; i++)
		out[i] = (unsigned char)far_mix64(i);
	do
		far_write(t, at(0, 8), out, LEN);
	while (!settled(far_wait(t)));
	memset(in, 0, LEN);
	do
		far_read(t, at(0, 8), in, LEN);
	while (!settled(far_wait(t)));
	CHECK(memcmp(in, out, LEN) == 0);
	free(out);
	free(in);
}

static void
test_verbs_half_a_megabyte_long_carry_every_byte(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, 1, BODIES(long_body));
	if (w->backend)
		conform_close(w);
}

/* G1 ------------------------------------------------------------------------------------------------------- */

enum { TORN_WORDS = 16 };

static void
filling_body(struct far_task *t, struct conform_client *c)
{
	uint64_t words[TORN_WORDS];

	for (unsigned r = 1; r <= conform_backend->rounds; r++) {
		for (int i = 0; i < TORN_WORDS; i++)
			words[i] = 0x0101010101010101ULL * (r % 256);
		far_write(t, at(0, 0), words, sizeof(words));
		settled(far_wait(t));
	}
}

static void
torn_reading_body(struct far_task *t, struct conform_client *c)
{
	uint64_t words[TORN_WORDS];

	for (unsigned r = 0; r < conform_backend->rounds; r++) {
		do
			far_read(t, at(0, 0), words, sizeof(words));
		while (!settled(far_wait(t)));
		for (int i = 0; i < TORN_WORDS; i++)
			CHECK(words[i] == 0x0101010101010101ULL * (words[i] & 0xff));
	}
}

static void
test_g1_words_under_concurrent_writes_are_whole(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, 3,
		     BODIES(filling_body, filling_body, torn_reading_body));
	if (w->backend)
		conform_close(w);
}

/* G2 ------------------------------------------------------------------------------------------------------- */

/* Word 0 counts FAAs in its low half and CASes in its high half; word 64 counts FAAs of its own. */
static void
counting_body(struct far_task *t, struct conform_client *c)
{
	uint64_t old = 0, guess = 0;

	for (unsigned r = 0; r < conform_backend->rounds; r++) {
		int err;

		far_faa(t, at(0, 0), 1, &old);
		far_faa(t, at(0, 64), 1, &old);
		c->tried++;
		err = far_wait(t);
		c->acked += err == 0;
		settled(err);
		for (;;) {
			far_cas(t, at(0, 0), guess, guess + (1ULL << 32), &old);
			err = far_wait(t);
			/* Unsure: whether it was counted, no later read can tell. */
			if (!settled(err)) {
				c->tried += 1ULL << 32;
				break;
			}
			if (old == guess) {
				c->tried += 1ULL << 32;
				c->acked += 1ULL << 32;
				break;
			}
			guess = old;
		}
		guess = old;
	}
}

static void
check_between(uint64_t x, uint64_t low, uint64_t high)
{
	CHECK(x >= low && x <= high);
	if (x < low || x > high)
		printf("# %llu is not in [%llu, %llu]\n", (unsigned long long)x, (unsigned long long)low,
		       (unsigned long long)high);
}

static void
count_checking_body(struct far_task *t, struct conform_client *c)
{
	uint64_t tried = 0, acked = 0, sum = read_word(t, at(0, 0)), faas = read_word(t, at(0, 64));

	for (unsigned i = 0; i < c->world->clients_n; i++) {
		tried += c->world->clients[i].tried;
		acked += c->world->clients[i].acked;
	}
	check_between(sum & UINT32_MAX, acked & UINT32_MAX, tried & UINT32_MAX);
	check_between(sum >> 32, acked >> 32, tried >> 32);
	check_between(faas, acked & UINT32_MAX, tried & UINT32_MAX);
	if (conform_backend->faults == 0)
		CHECK_EQ(faas, conform_backend->rounds * CONFORM_CLIENTS);
}

static void
test_g2_concurrent_atomics_lose_nothing(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, CONFORM_CLIENTS,
		     BODIES(counting_body));
	if (!w->backend)
		return;
	w->clients[0].body = count_checking_body;
	REQUIRE(far_loop_spawn(w->clients[0].loop, w->clients[0].fabric, conform_fiber, &w->clients[0], 0) == 0);
	far_loop_run(w->clients[0].loop);
	conform_close(w);
}

static void
adding_body(struct far_task *t, struct conform_client *c)
{
	uint64_t old;

	for (unsigned r = 0; r < conform_backend->rounds; r++) {
		far_faa(t, at(0, 0), 1, &old);
		settled(far_wait(t));
	}
}

/* An FAA that is not atomic against WRITEs would put an old value plus one over a new one. */
static void
overwriting_body(struct far_task *t, struct conform_client *c)
{
	for (uint64_t r = 1; r <= conform_backend->rounds; r++) {
		write_word(t, at(0, 0), r << 32);
		CHECK_EQ(read_word(t, at(0, 0)) >> 32, r);
	}
}

static void
test_g2_global_atomics_do_not_undo_writes(void)
{
	struct conform_world *w = &conform_static;

	if (!conform_open(w, 1))
		return;
	for (int i = 0; i < 3; i++)
		conform_connect(w, NULL)->body = i == 0 ? overwriting_body : adding_body;
	if (far_fabric_caps(w->clients[0].fabric) & FAR_CAP_ATOMIC_GLOBAL)
		conform_run(w);
	else
		test_skip_reason = "no FAR_CAP_ATOMIC_GLOBAL";
	conform_close(w);
}

/* G3 ------------------------------------------------------------------------------------------------------- */

/* Publishes ever larger numbers: data before flag, in one chain. */
static void
publishing_body(struct far_task *t, struct conform_client *c)
{
	uint64_t old, data[8], got[8];

	for (uint64_t r = 1; r <= conform_backend->rounds; r++) {
		for (int i = 0; i < 8; i++)
			data[i] = r;
		far_write(t, at(0, 512), data, sizeof(data)); /* WRITE before WRITE */
		far_write(t, at(0, 1024), &r, 8);
		far_cas(t, at(0, 2048), r - 1, r, &old);      /* WRITE before atomic */
		far_read(t, at(0, 512), got, sizeof(got));    /* WRITE before READ */
		far_faa(t, at(0, 3072), 1, &old);             /* atomic before atomic */
		if (!settled(far_wait(t)))
			continue;
		for (int i = 0; i < 8; i++)
			CHECK_EQ(got[i], r);
	}
}

static void
following_body(struct far_task *t, struct conform_client *c)
{
	for (unsigned r = 0; r < conform_backend->rounds; r++) {
		uint64_t flag = read_word(t, at(0, r % 2 ? 1024 : 2048));

		for (int i = 0; i < 8; i++)
			CHECK(read_word(t, at(0, 512 + (uint64_t)i * 8)) >= flag);
	}
}

static void
test_g3_chain_data_is_there_before_its_flag(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, 3,
		     BODIES(publishing_body, following_body));
	if (w->backend)
		conform_close(w);
}

static void
own_chain_body(struct far_task *t, struct conform_client *c)
{
	for (uint64_t r = 1; r <= conform_backend->rounds; r++) {
		uint64_t one = r * 2, two = r * 2 + 1, old[4], in[4] = { 0 };
		bool same = r == 1 || conform_backend->faults == 0;

		far_read(t, at(0, 0), &in[0], 8);
		far_fence(t);
		far_write(t, at(0, 0), &one, 8);  /* after the READ by the fence */
		far_cas(t, at(0, 0), one, two, &old[0]);
		far_cas(t, at(0, 0), two, one, &old[1]);
		far_read(t, at(0, 0), &in[1], 8); /* atomic before READ */
		far_faa(t, at(0, 0), 1, &old[2]);
		far_fence(t);
		far_write(t, at(0, 0), &one, 8);  /* after the atomic by the fence */
		far_read(t, at(0, 0), &in[2], 8);
		if (!settled(far_wait(t)))
			continue;
		CHECK(old[0] == one && old[1] == two && in[2] == one);
		/* READ before FAA is not promised. */
		CHECK(in[1] == one || in[1] == two);
		CHECK_EQ(old[2], one);
		if (same)
			CHECK_EQ(in[0], r == 1 ? 0 : (r - 1) * 2);
	}
}

static void
test_g3_chain_of_one_word_keeps_its_order(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, 1, BODIES(own_chain_body));
	if (w->backend)
		conform_close(w);
}

/* Each of two clients writes its own word and then reads the other's: not both may read the old one. `apart`: wait
 * between the two (G6), else both are in one chain (G3). */
static void
crossing(struct far_task *t, struct conform_client *c, bool apart)
{
	unsigned me = c->index, rounds = (unsigned)far_min(conform_backend->rounds, FAR_LEN(c->world->seen[0]));

	for (unsigned r = 0; r < rounds; r++) {
		uint64_t one = 1, got;
		int err;

		conform_meet(t, c, r);
		far_write(t, at(0, (r * 2 + me) * 64 % CONFORM_MEMORY), &one, 8);
		err = apart ? far_wait(t) : 0;
		far_read(t, at(0, (r * 2 + !me) * 64 % CONFORM_MEMORY), &got, 8);
		err = err ? err : far_wait(t);
		far_forget(t);
		/* What failed proves nothing: as if it had seen the other. */
		c->world->seen[me][r] = settled(err) ? got : 1;
	}
}

static void
crossing_chain_body(struct far_task *t, struct conform_client *c)
{
	crossing(t, c, false);
}

static void
crossing_waits_body(struct far_task *t, struct conform_client *c)
{
	crossing(t, c, true);
}

static void
crossing_case(conform_body *body)
{
	struct conform_world *w = &conform_static;
	unsigned rounds;

	conform_case(w, 1, 2, BODIES(body));
	if (!w->backend)
		return;
	rounds = (unsigned)far_min(conform_backend->rounds, FAR_LEN(w->seen[0]));
	for (unsigned r = 0; r < rounds; r++)
		CHECK(w->seen[0][r] || w->seen[1][r]);
	conform_close(w);
}

static void
test_g3_write_before_read_of_another_word_holds(void)
{
	crossing_case(crossing_chain_body);
}

/* G4 ------------------------------------------------------------------------------------------------------- */

/* Counts what goes out and what comes back. */
struct balance {
	struct far_hook hook;
	uint64_t sent, back, most;
	uint64_t returns[4096]; /* by the chain's number */
};

static void
balance_before(struct far_hook *h, struct far_chain *c)
{
	struct balance *b = FAR_CONTAINER(h, struct balance, hook);

	b->sent++;
	b->most = far_max(b->most, b->sent - b->back);
}

static void
balance_after(struct far_hook *h, struct far_chain *c)
{
	struct balance *b = FAR_CONTAINER(h, struct balance, hook);

	b->back++;
	b->returns[c->number % FAR_LEN(b->returns)]++;
}

static void
many_fiber(struct far_task *t, void *arg)
{
	struct conform_client *c = arg;
	uint64_t in[20], old;

	for (int i = 0; i < 5; i++) {
		unsigned n = 1 + (unsigned)(far_rand(t) % 20);

		for (unsigned j = 0; j < n; j++)
			far_read(t, at(j % 2, j * 8), &in[j], 8);
		far_faa(t, at(0, 0), 1, &old);
		c->acked += settled(far_wait(t));
	}
	c->tried++;
}

static void
many_body(struct far_task *t, struct conform_client *c)
{
	for (int i = 0; i < 100; i++)
		REQUIRE(far_loop_spawn(far_task_loop(t), far_task_conn(t), many_fiber, c, 0) == 0);
}

static void
test_g4_many_chains_few_credits_all_come_back_once(void)
{
	static const unsigned credits[] = { 1, 8, 64, UINT_MAX };
	struct conform_world *w = &conform_static;

	for (size_t i = 0; i < FAR_LEN(credits); i++) {
		struct far_fabric_opts opts = { .credits = credits[i] };
		static struct balance b;
		struct conform_client *c;

		if (!conform_open(w, 2))
			return;
		memset(&b, 0, sizeof(b));
		b.hook.before = balance_before;
		b.hook.after = balance_after;
		c = conform_connect(w, &opts);
		far_fabric_hook(c->fabric, &b.hook);
		c->body = many_body;
		conform_run(w);
		CHECK_EQ(c->tried, 100);
		CHECK(conform_backend->faults > 0 || c->acked == 500);
		CHECK(b.most >= 50);
		CHECK_EQ(b.sent, b.back);
		for (uint64_t n = 1; n <= b.sent; n++)
			CHECK_EQ(b.returns[n % FAR_LEN(b.returns)], 1);
		far_fabric_unhook(c->fabric, &b.hook);
		conform_close(w);
	}
}

/* Works until its node is gone: then every wait ends with an error, at once or after a while. */
static void
surviving_body(struct far_task *t, struct conform_client *c)
{
	uint64_t word = 0;
	int err = 0;

	write_word(t, at(0, 0), 1);
	if (c->index == 0)
		conform_backend->kill(c->world->backend, 1);
	for (int i = 0; i < 1000 && err != -FAR_ENODE; i++) {
		far_read(t, at(1, 0), &word, 8);
		err = far_wait(t);
		CHECK(err == 0 || err == -FAR_ENODE || err == -FAR_EUNSURE);
		far_sleep(t, 1000 * 1000);
	}
	CHECK_EQ(err, -FAR_ENODE);
	for (int i = 0; i < 20; i++) {
		far_write(t, at(1, 0), &word, 8);
		CHECK_EQ(far_wait(t), -FAR_ENODE);
	}
	CHECK_EQ(read_word(t, at(0, 0)), 1);
}

static void
test_g4_dead_node_ends_operations_with_errors(void)
{
	struct conform_world *w = &conform_static;

	if (!conform_backend->kill || conform_backend->faults > 0)
		SKIP("this backend's nodes do not die");
	conform_case(w, 2, 2,
		     BODIES(surviving_body));
	if (w->backend)
		conform_close(w);
}

/* G5 ------------------------------------------------------------------------------------------------------- */

static void
refuse(struct far_task *t, enum far_op_code code, struct far_addr a, size_t len)
{
	uint64_t buf[4] = { 9, 9, 9, 9 };
	int err;

	do {
		switch (code) {
		case FAR_OP_READ:
			far_read(t, a, buf, len);
			break;
		case FAR_OP_WRITE:
			far_write(t, a, buf, len);
			break;
		case FAR_OP_CAS:
			far_cas(t, a, 0, 9, buf);
			break;
		default:
			far_faa(t, a, 9, buf);
			break;
		}
		err = far_wait(t);
	} while (conform_backend->faults > 0 && err == -FAR_EUNSURE);
	CHECK_EQ(err, -FAR_EACCESS);
}

static void
bounds_body(struct far_task *t, struct conform_client *c)
{
	const uint64_t end = far_fabric_region_len(c->fabric, 0), top = 1ULL << 48;
	const uint64_t wrong[] = { end, end + 8, end * 2, top / 2, top - 8, top - 16, top - end };

	for (int code = FAR_OP_READ; code <= FAR_OP_FAA; code++) {
		for (size_t i = 0; i < FAR_LEN(wrong); i++)
			refuse(t, (enum far_op_code)code, far_addr_make(0, wrong[i]), 8);
		refuse(t, (enum far_op_code)code, far_addr_make(2, 0), 8);
		refuse(t, (enum far_op_code)code, far_addr_make(0xffff, 0), 8);
		/* Not aligned. */
		refuse(t, (enum far_op_code)code, far_addr_add(at(0, 0), 4), 8);
		refuse(t, (enum far_op_code)code, far_addr_add(at(0, 0), 1), 8);
	}
	for (int code = FAR_OP_READ; code <= FAR_OP_WRITE; code++) {
		refuse(t, (enum far_op_code)code, far_addr_make(0, end - 8), 16);
		refuse(t, (enum far_op_code)code, far_addr_make(0, end - 24), 32);
		refuse(t, (enum far_op_code)code, at(0, 0), 12);
	}
	CHECK_EQ(read_word(t, at(0, 0)), 0);
	/* The last word is in. */
	(void)read_word(t, far_addr_make(0, end - 8));
}

static void
test_g5_addresses_outside_are_refused_and_touch_nothing(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 2, 1, BODIES(bounds_body));
	if (w->backend)
		conform_close(w);
}

static void
half_wrong_body(struct far_task *t, struct conform_client *c)
{
	uint64_t one = 1, old;
	int err;

	far_write(t, at(0, 0), &one, 8);
	far_faa(t, far_addr_make(0, far_fabric_region_len(c->fabric, 0)), 1, &old);
	far_read(t, at(1, 0), &old, 8);
	err = far_wait(t);
	CHECK(err == -FAR_EACCESS || (conform_backend->faults > 0 && err == -FAR_EUNSURE));
	CHECK(read_word(t, at(0, 0)) <= 1);
	/* The connection lives on. */
	write_word(t, at(0, 0), 5);
	CHECK_EQ(read_word(t, at(0, 0)), 5);
}

static void
test_g5_connection_works_after_a_refusal(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 2, 1, BODIES(half_wrong_body));
	if (w->backend)
		conform_close(w);
}

/* G6 ------------------------------------------------------------------------------------------------------- */

static void
test_g6_write_waited_for_before_read_of_another_word_holds(void)
{
	crossing_case(crossing_waits_body);
}

static void
telling_body(struct far_task *t, struct conform_client *c)
{
	for (uint64_t r = 1; r <= conform_backend->rounds; r++) {
		write_word(t, at(0, r % 8 * 8), r);
		__atomic_store_n(&c->world->told, r, __ATOMIC_RELAXED);
	}
}

static void
told_body(struct far_task *t, struct conform_client *c)
{
	for (unsigned i = 0; i < conform_backend->rounds; i++) {
		uint64_t r = __atomic_load_n(&c->world->told, __ATOMIC_RELAXED);

		CHECK(read_word(t, at(0, r % 8 * 8)) >= r);
	}
}

static void
test_g6_write_waited_for_is_seen_by_whom_we_tell(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 1, 3,
		     BODIES(telling_body, told_body));
	if (w->backend)
		conform_close(w);
}

/* Accounts ------------------------------------------------------------------------------------------------- */

static void
account_body(struct far_task *t, struct conform_client *c)
{
	static char buf[8192];
	struct far_count n = { 0 };
	uint64_t old;

	far_account(t, &n);
	far_read(t, at(0, 0), buf, 128);
	far_read(t, at(0, 4096), buf, 128);
	settled(far_wait(t));
	far_read(t, at(0, 0), buf, 64);
	settled(far_wait(t));
	CHECK_EQ(n.round_trips, 2);
	CHECK_EQ(n.bytes_out + n.bytes_in, 752);
	far_write(t, at(1, 0), buf, 4104);
	far_cas(t, at(0, 0), 0, 0, &old);
	settled(far_wait(t));
	CHECK_EQ(n.round_trips, 3);
	CHECK_EQ(n.bytes_out, 3 * 78 + 78 + 4104 + 62 + 90);
	CHECK_EQ(n.bytes_in, 3 * 66 + 320 + 66 + 74);
	far_account(t, NULL);
}

static void
test_account_counts_the_same_on_every_backend(void)
{
	struct conform_world *w = &conform_static;

	conform_case(w, 2, 1, BODIES(account_body));
	if (w->backend)
		conform_close(w);
}

int
fabric_conform(const struct conform_backend *b, int argc, char **argv)
{
	static const struct test_case cases[] = {
		TEST(test_verbs_alone_do_what_they_say),
		TEST(test_verbs_half_a_megabyte_long_carry_every_byte),
		TEST(test_g1_words_under_concurrent_writes_are_whole),
		TEST(test_g2_concurrent_atomics_lose_nothing),
		TEST(test_g2_global_atomics_do_not_undo_writes),
		TEST(test_g3_chain_data_is_there_before_its_flag),
		TEST(test_g3_chain_of_one_word_keeps_its_order),
		TEST(test_g3_write_before_read_of_another_word_holds),
		TEST(test_g4_many_chains_few_credits_all_come_back_once),
		TEST(test_g4_dead_node_ends_operations_with_errors),
		TEST(test_g5_addresses_outside_are_refused_and_touch_nothing),
		TEST(test_g5_connection_works_after_a_refusal),
		TEST(test_g6_write_waited_for_before_read_of_another_word_holds),
		TEST(test_g6_write_waited_for_is_seen_by_whom_we_tell),
		TEST(test_account_counts_the_same_on_every_backend),
	};

	conform_backend = b;
	return test_run(cases, FAR_LEN(cases), argc, argv);
}
