/* SPDX-License-Identifier: Apache-2.0 */
/* session_test.c -- clients and nodes that end, are stopped or are fenced, over verbs. */
#include <farside/fabric.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"
#include "fabric/tcp.h"
#include "fabric/verbs_wire.h"
#include "pool/control.h"
#include "rdma/nodes.h"
#include "test.h"

enum { PATIENCE = 20000 }; /* milliseconds for what has to happen some time */

/* A client, and what its present fiber is to do. */
struct client {
	struct far_loop *loop;
	struct far_fabric *fabric;
	void (*body)(struct far_task *t, struct client *c);
	uint64_t word, serial;
	int err;
};

static struct far_addr
at(uint64_t off)
{
	return far_addr_make(0, NODES_FREE + off);
}

static int
client_connect(struct client *c, const struct nodes *w)
{
	struct far_loop_opts opts = { .seed = 1 };
	char uri[NODES_MAX * SHM_URI_MAX];
	int err;

	memset(c, 0, sizeof(*c));
	nodes_uri(w, uri, sizeof(uri));
	REQUIRE(far_loop_open(&opts, &c->loop) == 0);
	err = far_fabric_open(uri, c->loop, NULL, &c->fabric);
	if (err)
		far_loop_close(c->loop);
	return err;
}

static void
client_open(struct client *c, const struct nodes *w)
{
	REQUIRE(client_connect(c, w) == 0);
}

static void
client_close(struct client *c)
{
	far_fabric_close(c->fabric);
	far_loop_close(c->loop);
}

static void
client_fiber(struct far_task *t, void *arg)
{
	struct client *c = arg;

	c->body(t, c);
}

/* Runs `body` and returns what it left in c->err. */
static int
client_run(struct client *c, void (*body)(struct far_task *t, struct client *c))
{
	c->body = body;
	REQUIRE(far_loop_spawn(c->loop, c->fabric, client_fiber, c, 0) == 0);
	far_loop_run(c->loop);
	return c->err;
}

static void
body_write(struct far_task *t, struct client *c)
{
	far_write(t, at(0), &c->word, 8);
	c->err = far_wait(t);
}

static void
body_read(struct far_task *t, struct client *c)
{
	far_read(t, at(0), &c->word, 8);
	c->err = far_wait(t);
}

static int
call(struct far_task *t, struct control_request req, struct control_reply *reply)
{
	int n = far_call(t, 0, &req, sizeof(req), reply, sizeof(*reply));

	return n < 0 ? n : reply->err;
}

/* Opens a session; its serial goes to c->serial. */
static void
body_session(struct far_task *t, struct client *c)
{
	struct control_request form = { .code = CONTROL_FORM, .pool_id = { 7, 8 }, .nodes_n = 1, .generations = { 5 } };
	struct control_reply reply;

	c->err = call(t, form, &reply);
	if (c->err == 0)
		c->err = call(t, (struct control_request){ .code = CONTROL_SESSION }, &reply);
	c->serial = reply.serial;
}

/* Fences the session c->serial. */
static void
body_fence(struct far_task *t, struct client *c)
{
	struct control_reply reply;

	c->err = call(t, (struct control_request){ .code = CONTROL_FENCE, .serial = c->serial }, &reply);
}

static void
body_nap(struct far_task *t, struct client *c)
{
	far_sleep(t, 1000 * 1000);
}

static bool
nodes_open(struct nodes *w, const char *options)
{
	memset(w, 0, sizeof(*w));
	if (nodes_start(w, NODES_REGION, options))
		return true;
	test_skip_reason = "no memory node here";
	return false;
}

/* Fencing ----------------------------------------------------------------------------------------------------- */

static void
fenced_client(const char *options)
{
	struct client a, b;
	struct nodes w;
	int err = 0;

	if (!nodes_open(&w, options))
		return;
	client_open(&a, &w);
	client_open(&b, &w);
	CHECK_EQ(client_run(&a, body_session), 0);
	a.word = 1;
	CHECK_EQ(client_run(&a, body_write), 0);
	CHECK_EQ(client_run(&b, body_session), 0);
	b.serial = a.serial;
	CHECK_EQ(client_run(&b, body_fence), 0);
	a.word = 2;
	for (int i = 0; i < 5; i++) {
		err = client_run(&a, body_write);
		CHECK(err == -FAR_EFENCED || (i == 0 && err == -FAR_EUNSURE));
	}
	CHECK_EQ(err, -FAR_EFENCED);
	CHECK_EQ(client_run(&a, body_session), -FAR_EFENCED);
	CHECK_EQ(client_run(&b, body_read), 0);
	CHECK_EQ(b.word, 1);
	client_close(&a);
	client_close(&b);
	nodes_stop(&w);
}

static void
test_fence_of_a_client_that_goes_on_lets_nothing_in(void)
{
	fenced_client("");
}

static void
test_fence_without_windows_lets_nothing_in(void)
{
	fenced_client("?windows=no");
}

/* A process that writes ever higher numbers until it is told that it was fenced. Exits with 0 then. */
static _Noreturn void
writer(const struct nodes *w, int tell)
{
	struct client c;
	int err = 0;

	client_open(&c, w);
	err = client_run(&c, body_session);
	if (write(tell, &c.serial, sizeof(c.serial)) != sizeof(c.serial))
		_exit(9);
	for (c.word = 1; err == 0 || err == -FAR_EUNSURE; c.word++)
		err = client_run(&c, body_write);
	_exit(err == -FAR_EFENCED ? 0 : 1);
}

/* Starts a writer; its serial goes to *serial. */
static pid_t
writer_start(const struct nodes *w, uint64_t *serial)
{
	int tell[2];
	pid_t pid;

	REQUIRE(pipe(tell) == 0);
	fflush(stdout);
	REQUIRE((pid = fork()) >= 0);
	if (pid == 0)
		writer(w, tell[1]);
	close(tell[1]);
	REQUIRE(read(tell[0], serial, sizeof(*serial)) == sizeof(*serial));
	close(tell[0]);
	return pid;
}

/* Waits until the writers' word has reached `least`. */
static void
writer_await(struct client *c, uint64_t least)
{
	for (int i = 0; i < PATIENCE && client_run(c, body_read) == 0 && c->word < least; i++)
		client_run(c, body_nap);
	CHECK(c->word >= least);
}

static void
test_client_stopped_and_fenced_changes_nothing_when_it_wakes_up(void)
{
	struct client c;
	struct nodes w;
	uint64_t serial, last;
	int status;
	pid_t pid;

	if (!nodes_open(&w, ""))
		return;
	pid = writer_start(&w, &serial);
	client_open(&c, &w);
	CHECK_EQ(client_run(&c, body_session), 0);
	writer_await(&c, 10);
	kill(pid, SIGSTOP);
	c.serial = serial;
	CHECK_EQ(client_run(&c, body_fence), 0);
	CHECK_EQ(client_run(&c, body_read), 0);
	last = c.word;
	kill(pid, SIGCONT);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	CHECK_EQ(status, 0);
	CHECK_EQ(client_run(&c, body_read), 0);
	CHECK_EQ(c.word, last);
	client_close(&c);
	nodes_stop(&w);
}

/* Ends -------------------------------------------------------------------------------------------------------- */

static void
test_killed_clients_leave_a_node_that_serves_others(void)
{
	struct client c;
	struct nodes w;
	uint64_t serial;

	if (!nodes_open(&w, ""))
		return;
	for (int i = 0; i < 10; i++) {
		pid_t pid = writer_start(&w, &serial);

		kill(pid, SIGKILL);
		REQUIRE(waitpid(pid, NULL, 0) == pid);
		client_open(&c, &w);
		CHECK_EQ(client_run(&c, body_session), 0);
		/* Its connection ended with it, and with that its session: there is nothing to wait for. */
		c.serial = serial;
		CHECK_EQ(client_run(&c, body_fence), 0);
		c.word = 0;
		CHECK_EQ(client_run(&c, body_write), 0);
		CHECK_EQ(client_run(&c, body_read), 0);
		CHECK_EQ(c.word, 0);
		client_close(&c);
	}
	nodes_stop(&w);
}

static void
test_killed_node_loses_its_clients_and_its_file_keeps_their_data(void)
{
	static const char file[] = "/dev/shm/session-test";
	struct client old, young;
	struct nodes w = { .n = 0 };
	int err = 0;

	unlink(file);
	if (!nodes_start_file(&w, NODES_REGION, file, ""))
		SKIP("no memory node here");
	client_open(&old, &w);
	old.word = 41;
	CHECK_EQ(client_run(&old, body_write), 0);
	nodes_kill(&w, 0, SIGKILL);
	for (int i = 0; i < PATIENCE && err != -FAR_ENODE; i++) {
		err = client_run(&old, body_write);
		CHECK(err == -FAR_ENODE || err == -FAR_EUNSURE);
	}
	CHECK_EQ(err, -FAR_ENODE);
	w.n = 0;
	REQUIRE(nodes_start_file(&w, NODES_REGION, file, ""));
	CHECK_EQ(client_run(&old, body_write), -FAR_ENODE);
	client_open(&young, &w);
	CHECK_EQ(client_run(&young, body_read), 0);
	CHECK_EQ(young.word, 41);
	client_close(&old);
	client_close(&young);
	nodes_stop(&w);
	unlink(file);
}

/* Nobody's processor is asked. */
static void
test_node_that_is_stopped_is_read_and_written_all_the_same(void)
{
	struct client c;
	struct nodes w;

	if (!nodes_open(&w, ""))
		return;
	client_open(&c, &w);
	kill(w.pid[0], SIGSTOP);
	for (uint64_t i = 1; i <= 100; i++) {
		c.word = i;
		CHECK_EQ(client_run(&c, body_write), 0);
		c.word = 0;
		CHECK_EQ(client_run(&c, body_read), 0);
		CHECK_EQ(c.word, i);
	}
	kill(w.pid[0], SIGCONT);
	CHECK_EQ(client_run(&c, body_session), 0);
	client_close(&c);
	nodes_stop(&w);
}

/* Connecting -------------------------------------------------------------------------------------------------- */

static void
test_many_connects_and_closes_take_nothing_away(void)
{
	struct client c;
	struct nodes w;

	if (!nodes_open(&w, ""))
		return;
	for (uint64_t i = 0; i < 40; i++) {
		client_open(&c, &w);
		CHECK_EQ(client_run(&c, body_read), 0);
		CHECK_EQ(c.word, i);
		c.word = i + 1;
		CHECK_EQ(client_run(&c, body_write), 0);
		client_close(&c);
	}
	nodes_stop(&w);
}

static void
key_write(const char *file, const char *text)
{
	FILE *f;

	unlink(file);
	REQUIRE((f = fopen(file, "w")) != NULL);
	REQUIRE(fchmod(fileno(f), 0600) == 0 && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void
test_key_of_another_pool_is_refused(void)
{
	struct nodes w = { .n = 0 };
	struct client c;
	size_t len;

	key_write("right.key", "a secret of sixteen bytes or more");
	key_write("wrong.key", "b secret of sixteen bytes or more");
	if (!nodes_start(&w, NODES_REGION, "?key=right.key"))
		SKIP("no memory node here");
	len = strlen(w.uri[0]);
	CHECK_EQ(client_connect(&c, &w), -FAR_EACCESS);
	strcpy(w.uri[0] + len, "?key=wrong.key");
	CHECK_EQ(client_connect(&c, &w), -FAR_EACCESS);
	strcpy(w.uri[0] + len, "?key=right.key&device=rxe0");
	REQUIRE(client_connect(&c, &w) == 0);
	CHECK_EQ(client_run(&c, body_read), 0);
	client_close(&c);
	nodes_stop(&w);
	unlink("right.key");
	unlink("wrong.key");
}

static void
test_node_of_another_transport_is_refused(void)
{
	struct nodes w, tcp;
	struct client c;

	if (!nodes_open(&w, ""))
		return;
	tcp = w;
	memcpy(tcp.uri[0], "tcp", 3);
	strcpy(tcp.uri[0] + 3, w.uri[0] + strlen("verbs"));
	CHECK_EQ(client_connect(&c, &tcp), -FAR_EINVAL);
	client_open(&c, &w);
	CHECK_EQ(client_run(&c, body_read), 0);
	client_close(&c);
	nodes_stop(&w);
}

/* Offers that no queue pair can have sent. */
static void
test_offers_of_random_bytes_are_refused(void)
{
	struct tcp_key key = { .len = 0 };
	struct verbs_offer offer, answer;
	struct far_rng rng;
	struct client c;
	struct nodes w;

	if (!nodes_open(&w, ""))
		return;
	far_rng_seed(&rng, 5);
	for (int i = 0; i < 100; i++) {
		struct tcp_link k = { .timeout_ns = 5000000000, .attaches = true };
		struct tcp_uri uri;
		char why[200];

		REQUIRE(tcp_uri_parse(w.uri[0] + strlen("verbs:"), true, &uri, why, sizeof(why)) == 0);
		REQUIRE(tcp_link_open(&k, &uri.nodes[0], &key) == 0);
		for (size_t at = 0; at < sizeof(offer); at += 8)
			memcpy((char *)&offer + at, (uint64_t[]){ far_rng_next(&rng) }, 8);
		/* Some get further, to where the device judges them. */
		if (i % 2)
			offer.version = VERBS_VERSION;
		CHECK(tcp_link_attach(&k, &offer, &answer, sizeof(offer)) < 0);
		tcp_link_close(&k);
	}
	client_open(&c, &w);
	CHECK_EQ(client_run(&c, body_read), 0);
	client_close(&c);
	nodes_stop(&w);
}

TEST_MAIN(TEST(test_fence_of_a_client_that_goes_on_lets_nothing_in), TEST(test_fence_without_windows_lets_nothing_in),
	  TEST(test_client_stopped_and_fenced_changes_nothing_when_it_wakes_up),
	  TEST(test_killed_clients_leave_a_node_that_serves_others),
	  TEST(test_killed_node_loses_its_clients_and_its_file_keeps_their_data),
	  TEST(test_node_that_is_stopped_is_read_and_written_all_the_same),
	  TEST(test_many_connects_and_closes_take_nothing_away), TEST(test_key_of_another_pool_is_refused),
	  TEST(test_node_of_another_transport_is_refused), TEST(test_offers_of_random_bytes_are_refused))
