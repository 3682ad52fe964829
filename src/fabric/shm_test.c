/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of the control socket, against nodes that a thread plays, well or badly. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "fabric/shm.h"
#include "fabric/shm_wire.h"
#include "test.h"

enum { REGION = 1 << 16 };

/* What a played node does with the one client that connects. */
struct played {
	struct shm_hello hello;
	off_t file_len;   /* of the region's file, as opposed to what the hello says */
	bool no_region, silent;
	uint64_t timeout_ns; /* of the client */
	void (*serve)(struct played *n, int sock);
	char dir[64], path[96], uri[128];
	int listener, memfd;
	pthread_t thread;
};

struct packet {
	struct shm_frame frame;
	char data[SHM_PAYLOAD_MAX];
};

static void
played_hello(struct played *n, int sock)
{
	struct iovec iov = { &n->hello, sizeof(n->hello) };
	union {
		struct cmsghdr head;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	memset(&control, 0, sizeof(control));
	if (!n->no_region) {
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &n->memfd, sizeof(int));
	}
	REQUIRE(sendmsg(sock, &msg, MSG_NOSIGNAL) == sizeof(n->hello));
}

static void *
played_thread(void *arg)
{
	struct played *n = arg;
	int sock = accept(n->listener, NULL, NULL);
	char byte;

	REQUIRE(sock >= 0);
	if (!n->silent)
		played_hello(n, sock);
	if (n->serve)
		n->serve(n, sock);
	else
		(void)!recv(sock, &byte, 1, 0); /* until the client hangs up */
	close(sock);
	return NULL;
}

static void
played_start(struct played *n, void (*serve)(struct played *n, int sock))
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memset(n, 0, sizeof(*n));
	n->hello = (struct shm_hello){ SHM_MAGIC, SHM_VERSION, 0, REGION };
	n->file_len = REGION;
	n->serve = serve;
	strcpy(n->dir, "/tmp/farside-test-XXXXXX");
	REQUIRE(mkdtemp(n->dir));
	snprintf(n->path, sizeof(n->path), "%s/n0", n->dir);
	snprintf(n->uri, sizeof(n->uri), "shm:%s", n->path);
	strcpy(addr.sun_path, n->path);
	n->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	REQUIRE(bind(n->listener, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	REQUIRE(listen(n->listener, 1) == 0);
	n->memfd = memfd_create("played", 0);
	REQUIRE(n->memfd >= 0);
}

static void
played_run(struct played *n)
{
	REQUIRE(ftruncate(n->memfd, n->file_len) == 0);
	REQUIRE(pthread_create(&n->thread, NULL, played_thread, n) == 0);
}

static void
played_stop(struct played *n)
{
	pthread_join(n->thread, NULL);
	close(n->listener);
	close(n->memfd);
	unlink(n->path);
	rmdir(n->dir);
}

static bool
next_packet(int sock, struct packet *p)
{
	ssize_t len = recv(sock, p, sizeof(*p), 0);

	if (len == 0)
		return false;
	REQUIRE((size_t)len == sizeof(p->frame) + p->frame.len);
	return true;
}

static void
send_packet(int sock, const struct packet *p, size_t len)
{
	REQUIRE(send(sock, p, sizeof(p->frame) + len, MSG_NOSIGNAL) >= 0);
}

/* Connecting ----------------------------------------------------------------------------------------------- */

static int
try_connect(struct played *n, uint64_t timeout_ns)
{
	struct far_fabric_opts opts = { .timeout_ns = timeout_ns };
	struct far_fabric *f = NULL;
	struct far_loop *l;
	int err;

	played_run(n);
	REQUIRE(far_loop_open(NULL, &l) == 0);
	err = far_fabric_open(n->uri, l, &opts, &f);
	CHECK((err == 0) == (f != NULL));
	far_fabric_close(f);
	far_loop_close(l);
	played_stop(n);
	return err;
}

static void
test_connect_good_hello_succeeds(void)
{
	struct played n;

	played_start(&n, NULL);
	CHECK_EQ(try_connect(&n, 0), 0);
}

static void
test_connect_other_version_or_magic_is_a_format_error(void)
{
	struct played n;

	played_start(&n, NULL);
	n.hello.version++;
	CHECK_EQ(try_connect(&n, 0), -FAR_EFORMAT);
	played_start(&n, NULL);
	n.hello.magic++;
	CHECK_EQ(try_connect(&n, 0), -FAR_EFORMAT);
}

static void
test_connect_truncated_region_is_a_format_error(void)
{
	static const uint64_t lens[] = { 0, REGION + 8, REGION - 1, UINT64_MAX & ~7ULL };
	struct played n;

	for (size_t i = 0; i < FAR_LEN(lens); i++) {
		played_start(&n, NULL);
		n.hello.region_len = lens[i];
		CHECK_EQ(try_connect(&n, 0), -FAR_EFORMAT);
	}
	played_start(&n, NULL);
	n.no_region = true;
	CHECK_EQ(try_connect(&n, 0), -FAR_EFORMAT);
}

static void
test_connect_refusal_comes_through(void)
{
	struct played n;

	played_start(&n, NULL);
	n.no_region = true;
	n.hello.err = -FAR_ENOMEM;
	CHECK_EQ(try_connect(&n, 0), -FAR_ENOMEM);
	played_start(&n, NULL);
	n.hello.err = 77; /* no such error */
	CHECK_EQ(try_connect(&n, 0), -FAR_EFORMAT);
}

static void
hang_up(struct played *n, int sock)
{
}

static void
test_connect_silent_or_closing_node_is_a_node_error(void)
{
	struct played n;

	played_start(&n, NULL);
	n.silent = true;
	CHECK_EQ(try_connect(&n, 20 * 1000 * 1000), -FAR_ENODE);
	played_start(&n, hang_up);
	n.silent = true;
	CHECK_EQ(try_connect(&n, 0), -FAR_ENODE);
}

static void
test_connect_full_backlog_is_a_node_error(void)
{
	struct far_fabric_opts opts = { .timeout_ns = 20 * 1000 * 1000 };
	struct far_fabric *f = NULL;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct far_loop *l;
	struct played n;
	int socks[8], socks_n = 0, err;

	played_start(&n, NULL);
	n.silent = true;
	strcpy(addr.sun_path, n.path);
	do {
		REQUIRE(socks_n < 8);
		socks[socks_n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		err = connect(socks[socks_n++], (struct sockaddr *)&addr, sizeof(addr));
	} while (err == 0);
	CHECK_EQ(errno, EAGAIN);
	REQUIRE(far_loop_open(NULL, &l) == 0);
	CHECK_EQ(far_fabric_open(n.uri, l, &opts, &f), -FAR_ENODE);
	CHECK(f == NULL);
	far_loop_close(l);
	for (int i = 0; i < socks_n; i++)
		close(socks[i]);
	played_run(&n);
	played_stop(&n);
}

static void
on_alarm(int sig)
{
	(void)sig;
}

/* Each signal interrupts the wait, and none may start it anew. */
static void
test_connect_silent_node_under_signals_is_a_node_error(void)
{
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction act = { .sa_handler = on_alarm }, old;
	struct played n;

	played_start(&n, NULL);
	n.silent = true;
	REQUIRE(sigaction(SIGALRM, &act, &old) == 0);
	REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHECK_EQ(try_connect(&n, 60 * 1000 * 1000), -FAR_ENODE);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &old, NULL);
}

enum { FULL_MAX = 64 };

/* Once both sockets are connected all other places for descriptors are taken: the region's has none. */
static void
hello_when_full(struct played *n, int sock)
{
	int fds[FULL_MAX], fds_n = 0, fd;
	struct rlimit was, tight;
	char byte;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &was) == 0);
	tight = was;
	tight.rlim_cur = FULL_MAX;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &tight) == 0);
	while ((fd = dup(sock)) >= 0)
		fds[fds_n++] = fd;
	played_hello(n, sock);
	/* The client hangs up. */
	CHECK_EQ(recv(sock, &byte, 1, 0), 0);
	while (fds_n > 0)
		close(fds[--fds_n]);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &was) == 0);
}

static void
test_connect_without_a_free_descriptor_is_no_format_error(void)
{
	struct played n;

	played_start(&n, hello_when_full);
	n.silent = true;
	CHECK_EQ(try_connect(&n, 0), -FAR_ENOMEM);
}

/* Calls ---------------------------------------------------------------------------------------------------- */

enum { CALLERS = 100 };

struct client {
	struct far_loop *loop;
	struct far_fabric *f;
	int calls, errs[CALLERS];
};

static void
client_run(struct played *n, struct client *c, int fibers, void (*fn)(struct far_task *t, void *arg))
{
	struct far_fabric_opts opts = { .timeout_ns = n->timeout_ns };

	memset(c, 0, sizeof(*c));
	played_run(n);
	REQUIRE(far_loop_open(NULL, &c->loop) == 0);
	REQUIRE(far_fabric_open(n->uri, c->loop, &opts, &c->f) == 0);
	for (int i = 0; i < fibers; i++)
		REQUIRE(far_loop_spawn(c->loop, c->f, fn, c, 0) == 0);
	far_loop_run(c->loop);
	far_fabric_close(c->f);
	far_loop_close(c->loop);
	played_stop(n);
}

static void
echoing_body(struct far_task *t, void *arg)
{
	struct client *c = arg;
	int me = c->calls++;
	uint64_t word = (uint64_t)me, reply[2];

	c->errs[me] = far_call(t, 0, &word, 8, reply, sizeof(reply));
	if (c->errs[me] == 8)
		CHECK_EQ(reply[0], me);
}

/* Answers in turned order, in groups of ten. */
static void
echo_backwards(struct played *n, int sock)
{
	static struct packet p[10];
	int i = 0;

	while (next_packet(sock, &p[i])) {
		if (++i < 10)
			continue;
		while (i > 0) {
			i--;
			send_packet(sock, &p[i], p[i].frame.len);
		}
	}
}

static void
test_call_replies_in_any_order_find_their_callers(void)
{
	struct played n;
	struct client c;

	played_start(&n, echo_backwards);
	client_run(&n, &c, CALLERS, echoing_body);
	CHECK_EQ(c.calls, CALLERS);
	for (int i = 0; i < CALLERS; i++)
		CHECK_EQ(c.errs[i], 8);
}

static void
reading_on_body(struct far_task *t, void *arg)
{
	uint64_t word = 1;
	int err = 0;

	far_write(t, far_addr_make(0, 64), &word, 8);
	CHECK_EQ(far_wait(t), 0);
	CHECK_EQ(far_call(t, 0, &word, 8, &word, 8), -FAR_EUNSURE);
	/* From now on nothing happens at that node. */
	for (int i = 0; i < 3; i++) {
		far_read(t, far_addr_make(0, 64), &word, 8);
		err = far_wait(t);
		CHECK_EQ(err, -FAR_ENODE);
		CHECK_EQ(far_call(t, 0, &word, 8, &word, 8), -FAR_ENODE);
	}
}

static void
take_one_and_hang_up(struct played *n, int sock)
{
	static struct packet p;

	(void)next_packet(sock, &p);
}

static void
test_call_in_flight_when_the_node_ends_is_unsure(void)
{
	struct played n;
	struct client c;

	played_start(&n, take_one_and_hang_up);
	client_run(&n, &c, 1, reading_on_body);
}

static void
quiet_reader_body(struct far_task *t, void *arg)
{
	uint64_t word, start = far_now(t);
	int err = 0;

	while (err == 0 && far_now(t) - start < 2000 * 1000 * 1000ULL) {
		far_read(t, far_addr_make(0, 64), &word, 8);
		err = far_wait(t);
	}
	CHECK_EQ(err, -FAR_ENODE);
}

static void
take_one_and_stall(struct played *n, int sock)
{
	static struct packet p;

	while (next_packet(sock, &p))
		;
}

static void
test_call_without_an_answer_times_out(void)
{
	struct played n;
	struct client c;

	played_start(&n, take_one_and_stall);
	n.timeout_ns = 400 * 1000 * 1000;
	client_run(&n, &c, 1, reading_on_body);
}

static void
test_reads_notice_the_end_of_the_node(void)
{
	struct played n;
	struct client c;

	played_start(&n, hang_up);
	client_run(&n, &c, 1, quiet_reader_body);
}

/* Replies that break the protocol: each ends the connection. */
static int broken_kind;

static void
reply_wrongly(struct played *n, int sock)
{
	static struct packet p;

	if (!next_packet(sock, &p))
		return;
	switch (broken_kind) {
	case 0:
		p.frame.seq++; /* nobody asked */
		break;
	case 1:
		p.frame.len += 8; /* longer than the packet */
		break;
	case 2:
		p.frame.len = 0; /* shorter */
		break;
	default:
		send_packet(sock, &p, p.frame.len);
		send_packet(sock, &p, p.frame.len); /* twice */
		(void)next_packet(sock, &p);
		return;
	}
	send_packet(sock, &p, 8);
	(void)next_packet(sock, &p);
}

static void
breaking_body(struct far_task *t, void *arg)
{
	uint64_t word = 5;
	int err = far_call(t, 0, &word, 8, &word, 8), want = broken_kind < 3 ? -FAR_EUNSURE : 8;

	CHECK_EQ(err, want);
	if (broken_kind == 3)
		far_sleep(t, 5 * 1000 * 1000);
	for (int i = 0; i < 100000 && err != -FAR_ENODE; i++) {
		far_read(t, far_addr_make(0, 0), &word, 8);
		err = far_wait(t);
	}
	CHECK_EQ(err, -FAR_ENODE);
}

static void
test_reply_that_breaks_the_protocol_ends_the_connection(void)
{
	for (broken_kind = 0; broken_kind < 4; broken_kind++) {
		struct played n;
		struct client c;

		played_start(&n, reply_wrongly);
		client_run(&n, &c, 1, breaking_body);
	}
}

static void
echo(struct played *n, int sock)
{
	static struct packet p;

	while (next_packet(sock, &p))
		send_packet(sock, &p, p.frame.len);
}

static void
long_body(struct far_task *t, void *arg)
{
	static char big[SHM_PAYLOAD_MAX + 8], reply[SHM_PAYLOAD_MAX + 8];

	memset(big, 3, sizeof(big));
	CHECK_EQ(far_call(t, 0, big, SHM_PAYLOAD_MAX, reply, sizeof(reply)), SHM_PAYLOAD_MAX);
	CHECK(memcmp(big, reply, SHM_PAYLOAD_MAX) == 0);
	CHECK_EQ(far_call(t, 0, big, SHM_PAYLOAD_MAX + 8, reply, sizeof(reply)), -FAR_EINVAL);
	CHECK_EQ(far_call(t, 0, big, 16, reply, 8), -FAR_ECORRUPT);
	CHECK_EQ(far_call(t, 0, big, 16, reply, 16), 16);
}

static void
test_call_lengths_are_checked(void)
{
	struct played n;
	struct client c;

	played_start(&n, echo);
	client_run(&n, &c, 1, long_body);
}

TEST_MAIN(TEST(test_connect_good_hello_succeeds), TEST(test_connect_other_version_or_magic_is_a_format_error),
	  TEST(test_connect_truncated_region_is_a_format_error), TEST(test_connect_refusal_comes_through),
	  TEST(test_connect_silent_or_closing_node_is_a_node_error),
	  TEST(test_connect_full_backlog_is_a_node_error),
	  TEST(test_connect_silent_node_under_signals_is_a_node_error),
	  TEST(test_connect_without_a_free_descriptor_is_no_format_error),
	  TEST(test_call_replies_in_any_order_find_their_callers),
	  TEST(test_call_in_flight_when_the_node_ends_is_unsure), TEST(test_call_without_an_answer_times_out),
	  TEST(test_reads_notice_the_end_of_the_node),
	  TEST(test_reply_that_breaks_the_protocol_ends_the_connection), TEST(test_call_lengths_are_checked))
