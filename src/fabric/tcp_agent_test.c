/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_agent_test.c -- the agent against clients that break the rules, byte by byte. Expected each time: a clean end for
 * who did it, and nothing for the others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <farside/error.h>

#include "conform/agents.h"
#include "fabric/tcp_key.h"
#include "pool/control.h"
#include "test.h"

enum { RIG_REGION = 4 << 20,
       RIG_WORD = RIG_REGION - 4096, /* from here on nobody else works */
       RIG_WAIT_MS = 5000 };

/* One connection that is written by hand. */
struct peer {
	int sock;
	uint64_t seq;
	struct tcp_hello hello;
	struct tcp_welcome welcome;
	struct tcp_frame answer; /* the last */
	uint8_t body[TCP_BODY_MAX];
};

static struct agents *
rig_open(unsigned nodes_n, const char *key)
{
	return agents_open(&(struct agents_opts){ .nodes_n = nodes_n, .region_len = RIG_REGION, .key = key });
}

static void
peer_dial(struct peer *p, const struct agents *a, unsigned node)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };

	addr.sin_port = htons((uint16_t)agents_port(a, node));
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->seq = 0;
	p->sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(p->sock >= 0 && connect(p->sock, (struct sockaddr *)&addr, sizeof(addr)) == 0);
}

static void
peer_send(struct peer *p, const void *data, size_t len)
{
	REQUIRE(send(p->sock, data, len, MSG_NOSIGNAL) == (ssize_t)len);
}

/* All of it; false: the agent hung up or said nothing. */
static bool
peer_hear(struct peer *p, void *data, size_t len)
{
	uint8_t *at = data;

	while (len > 0) {
		struct pollfd ready = { .fd = p->sock, .events = POLLIN };
		ssize_t n;

		if (poll(&ready, 1, RIG_WAIT_MS) != 1 || (n = recv(p->sock, at, len, 0)) <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* Nothing comes any more, and the connection has ended. */
static bool
peer_ended(struct peer *p)
{
	struct pollfd ready = { .fd = p->sock, .events = POLLIN };
	char byte;

	return poll(&ready, 1, RIG_WAIT_MS) == 1 && recv(p->sock, &byte, 1, 0) <= 0;
}

static bool
peer_greet(struct peer *p)
{
	p->hello = (struct tcp_hello){ .magic = TCP_MAGIC, .version = TCP_VERSION };
	peer_send(p, &p->hello, sizeof(p->hello));
	return peer_hear(p, &p->welcome, sizeof(p->welcome));
}

static void
peer_open(struct peer *p, const struct agents *a, unsigned node)
{
	peer_dial(p, a, node);
	REQUIRE(peer_greet(p) && p->welcome.err == 0);
}

/* The next answer, its body in p->body. */
static bool
peer_answer(struct peer *p)
{
	if (!peer_hear(p, &p->answer, sizeof(p->answer)))
		return false;
	CHECK(tcp_frame_fits(&p->answer));
	return peer_hear(p, p->body, p->answer.len);
}

/* Sends a frame whose head lacks its number and check sum. */
static void
peer_frame(struct peer *p, struct tcp_frame f, const void *body)
{
	f.seq = ++p->seq;
	f.sum = tcp_frame_sum(&f);
	peer_send(p, &f, sizeof(f));
	if (f.len > 0)
		peer_send(p, body, f.len);
}

/* One operation and what it carries. */
struct wire_op {
	struct tcp_op op;
	uint64_t carried[2];
};

static struct wire_op
wire_op(unsigned code, uint64_t off, uint32_t len, uint64_t first, uint64_t second)
{
	return (struct wire_op){ { .code = (uint8_t)code, .len = len, .off = off }, { first, second } };
}

/* Sends one operation; its error, or that of the end. */
static int
peer_op(struct peer *p, unsigned flags, struct wire_op o)
{
	struct tcp_frame f = { .kind = TCP_CHAIN, .flags = (uint8_t)flags, .ops_n = 1 };

	f.len = (uint32_t)sizeof(o.op) + tcp_op_out(o.op.code, o.op.len <= 16 ? o.op.len : 16);
	peer_frame(p, f, &o);
	return peer_answer(p) ? p->answer.err : -FAR_ENODE;
}

static struct control_reply
peer_call(struct peer *p, struct control_request req)
{
	struct control_reply reply = { .err = -FAR_ENODE };

	peer_frame(p, (struct tcp_frame){ .kind = TCP_CALL, .len = sizeof(req), .used = sizeof(req) }, &req);
	if (peer_answer(p) && p->answer.kind == TCP_CALL && p->answer.used == sizeof(reply))
		memcpy(&reply, p->body, sizeof(reply));
	return reply;
}

/* Somebody else comes and is served. */
static void
check_others(const struct agents *a)
{
	static uint64_t n;
	struct peer p;

	n++;
	peer_open(&p, a, 0);
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_WRITE, RIG_WORD, 8, n, 0)), 0);
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_READ, RIG_WORD, 8, 0, 0)), 0);
	CHECK(memcmp(p.body, &n, 8) == 0);
	close(p.sock);
}

/* Handshake ------------------------------------------------------------------------------------------------- */

static void
test_agent_other_protocols_are_hung_up_on(void)
{
	static const char *const others[] = { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "SSH-2.0-x\r\n" };
	struct agents *a = rig_open(1, NULL);
	struct peer p;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		peer_dial(&p, a, 0);
		peer_send(&p, others[i], 9);
		CHECK(peer_ended(&p));
		close(p.sock);
	}
	check_others(a);
	agents_close(a);
}

static void
test_agent_other_version_or_pool_is_told(void)
{
	struct agents *a = rig_open(1, NULL);
	struct peer p;

	peer_dial(&p, a, 0);
	p.hello = (struct tcp_hello){ .magic = TCP_MAGIC, .version = TCP_VERSION + 1 };
	peer_send(&p, &p.hello, sizeof(p.hello));
	CHECK(peer_hear(&p, &p.welcome, sizeof(p.welcome)) && p.welcome.err == -FAR_EFORMAT);
	CHECK(peer_ended(&p));
	close(p.sock);
	peer_open(&p, a, 0);
	CHECK_EQ(peer_call(&p, (struct control_request){ .code = CONTROL_FORM, .pool_id = { 1, 2 }, .nodes_n = 1 }).err,
		 0);
	close(p.sock);
	peer_dial(&p, a, 0);
	p.hello = (struct tcp_hello){ .magic = TCP_MAGIC, .version = TCP_VERSION, .pool_id = { 1, 3 } };
	peer_send(&p, &p.hello, sizeof(p.hello));
	CHECK(peer_hear(&p, &p.welcome, sizeof(p.welcome)) && p.welcome.err == -FAR_EINVAL);
	CHECK_EQ(p.welcome.pool_id[1], 2);
	close(p.sock);
	check_others(a);
	agents_close(a);
}

/* Verbs before the handshake are another protocol. */
static void
test_agent_cut_at_any_byte_harms_nobody(void)
{
	struct {
		struct tcp_hello hello;
		struct tcp_frame frame;
		struct wire_op op;
	} all = { { .magic = TCP_MAGIC, .version = TCP_VERSION },
		  { .kind = TCP_CHAIN, .seq = 1, .ops_n = 1 },
		  wire_op(FAR_OP_CAS, RIG_WORD + 64, 8, 0, 1) };
	struct agents *a = rig_open(1, NULL);
	uint64_t *word = (uint64_t *)(agents_region(a, 0) + RIG_WORD + 64);
	struct peer p;

	all.frame.len = sizeof(all.op);
	all.frame.sum = tcp_frame_sum(&all.frame);
	peer_dial(&p, a, 0);
	peer_send(&p, &all.frame, sizeof(all.frame));
	CHECK(peer_ended(&p));
	close(p.sock);
	for (size_t k = 0; k < sizeof(all); k++) {
		peer_dial(&p, a, 0);
		peer_send(&p, &all, k);
		close(p.sock);
	}
	check_others(a);
	CHECK_EQ(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0);
	agents_close(a);
}

static void
test_agent_crowd_of_silent_strangers_keeps_nobody_out(void)
{
	enum { CROWD = 400 };
	struct agents *a = rig_open(1, NULL);
	static struct peer crowd[CROWD];
	unsigned ended = 0;

	for (int i = 0; i < CROWD; i++)
		peer_dial(&crowd[i], a, 0);
	check_others(a);
	/* All of them are gone after the time of a handshake. */
	for (int i = 0; i < CROWD; i++) {
		ended += peer_ended(&crowd[i]);
		close(crowd[i].sock);
	}
	CHECK_EQ(ended, CROWD);
	check_others(a);
	agents_close(a);
}

/* Keys ------------------------------------------------------------------------------------------------------ */

static void
key_make(char path[32], const char *text, mode_t mode)
{
	int fd;

	strcpy(path, "/tmp/farside-key-XXXXXX");
	fd = mkstemp(path);
	REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	close(fd);
}

static int
key_open(const struct agents *a, const char *key)
{
	struct far_fabric *f = NULL;
	struct far_loop *l;
	char uri[200];
	int err;

	REQUIRE(far_loop_open(NULL, &l) == 0);
	snprintf(uri, sizeof(uri), "tcp://127.0.0.1:%u%s%s", agents_port(a, 0), key ? "?key=" : "", key ? key : "");
	err = far_fabric_open(uri, l, NULL, &f);
	far_fabric_close(f);
	far_loop_close(l);
	return err;
}

static void
test_key_only_who_has_it_gets_in(void)
{
	char right[32], wrong[32], loose[32], shorter[32];
	struct agents *a, *open;

	key_make(right, "0123456789abcdef0123456789abcdef", 0600);
	key_make(wrong, "0123456789abcdef0123456789abcdeF", 0600);
	key_make(loose, "0123456789abcdef0123456789abcdef", 0640);
	key_make(shorter, "0123456789", 0600);
	a = rig_open(1, right);
	open = rig_open(1, NULL);
	CHECK_EQ(key_open(a, right), 0);
	CHECK_EQ(key_open(a, wrong), -FAR_EACCESS);
	CHECK_EQ(key_open(a, NULL), -FAR_EACCESS);
	CHECK_EQ(key_open(a, loose), -FAR_EACCESS);
	CHECK_EQ(key_open(a, shorter), -FAR_EINVAL);
	CHECK_EQ(key_open(a, "/tmp/farside-no-such-key"), -FAR_EIO);
	/* An agent without a key cannot prove that it is the right one. */
	CHECK_EQ(key_open(open, right), -FAR_EACCESS);
	CHECK_EQ(key_open(open, NULL), 0);
	agents_close(a);
	agents_close(open);
	unlink(right);
	unlink(wrong);
	unlink(loose);
	unlink(shorter);
}

/* What proved one connection proves no other one, and without a proof nothing is executed. */
static void
test_key_proof_of_another_connection_is_refused(void)
{
	struct tcp_key key;
	struct tcp_proof proof;
	struct agents *a;
	char path[32], why[100];
	struct peer p;

	key_make(path, "a key of more than sixteen bytes", 0600);
	REQUIRE(tcp_key_read(path, &key, why, sizeof(why)) == 0);
	a = rig_open(1, path);
	peer_open(&p, a, 0);
	REQUIRE(tcp_client_prove(&key, &p.hello, &p.welcome, proof.mac));
	peer_send(&p, &proof, sizeof(proof));
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_WRITE, RIG_WORD, 8, 5, 0)), 0);
	close(p.sock);
	peer_open(&p, a, 0);
	peer_send(&p, &proof, sizeof(proof));
	CHECK(peer_answer(&p) && p.answer.kind == TCP_BYE && p.answer.err == -FAR_EACCESS);
	close(p.sock);
	/* The agent's own proof sent back is none. */
	peer_open(&p, a, 0);
	peer_send(&p, p.welcome.mac, TCP_MAC);
	CHECK(peer_answer(&p) && p.answer.kind == TCP_BYE && p.answer.err == -FAR_EACCESS);
	CHECK_EQ(*(uint64_t *)(agents_region(a, 0) + RIG_WORD), 5);
	close(p.sock);
	agents_close(a);
	unlink(path);
}

/* Frames ---------------------------------------------------------------------------------------------------- */

/* Sends what breaks the format: the agent says so, executes nothing and hangs up. */
static void
check_refused(const struct agents *a, struct tcp_frame f, const void *body, int err)
{
	struct peer p;

	peer_open(&p, a, 0);
	peer_frame(&p, f, body);
	CHECK(peer_answer(&p));
	CHECK_EQ(p.answer.kind, TCP_BYE);
	CHECK_EQ(p.answer.err, err);
	CHECK(peer_ended(&p));
	close(p.sock);
}

static void
test_frame_that_breaks_the_format_is_not_executed(void)
{
	struct wire_op two[2] = { wire_op(FAR_OP_FAA, RIG_WORD + 128, 8, 1, 0),
				  wire_op(FAR_OP_FAA, RIG_WORD + 128, 8, 1, 0) };
	struct agents *a = rig_open(1, NULL);
	uint64_t *word = (uint64_t *)(agents_region(a, 0) + RIG_WORD + 128);
	struct tcp_frame f = { .kind = TCP_CHAIN, .len = 24, .ops_n = 1 };
	struct wire_op w;

	for (uint32_t len = 0; len < 64; len += 8) {
		f.len = len;
		if (len != 24)
			check_refused(a, f, two, -FAR_EINVAL);
	}
	f.len = 24;
	f.ops_n = 0;
	check_refused(a, f, two, -FAR_EINVAL);
	f.ops_n = 2;
	check_refused(a, f, two, -FAR_EINVAL);
	f.ops_n = UINT16_MAX;
	check_refused(a, f, two, -FAR_EINVAL);
	f.ops_n = 1;
	f.kind = 9;
	check_refused(a, f, two, -FAR_ENOTSUP);
	f.kind = TCP_CHAIN;
	f.flags = 2;
	check_refused(a, f, two, -FAR_EINVAL);
	f.flags = 0;
	f.used = 8;
	check_refused(a, f, two, -FAR_EINVAL);
	f.used = 0;
	w = two[0];
	w.op.len = 16; /* an atomic of two words */
	check_refused(a, f, &w, -FAR_EINVAL);
	w = two[0];
	w.op.code = FAR_OP_CALL;
	check_refused(a, f, &w, -FAR_ENOTSUP);
	w.op.code = 200;
	check_refused(a, f, &w, -FAR_ENOTSUP);
	w = two[0];
	w.op.flags = 0x80;
	check_refused(a, f, &w, -FAR_EINVAL);
	w = wire_op(FAR_OP_WRITE, RIG_WORD, UINT32_MAX, 0, 0);
	check_refused(a, f, &w, -FAR_EINVAL);
	w = wire_op(FAR_OP_READ, 0, UINT32_MAX, 0, 0);
	check_refused(a, f, &w, -FAR_EINVAL);
	check_others(a);
	CHECK_EQ(__atomic_load_n(word, __ATOMIC_SEQ_CST), 0);
	agents_close(a);
}

/* Heads that are wrong by themselves: the check sum, the number, the length. */
static void
test_frame_with_wrong_head_ends_the_connection(void)
{
	struct agents *a = rig_open(1, NULL);
	struct peer p;

	for (int i = 0; i < 5; i++) {
		struct tcp_frame f = { .seq = 1, .kind = TCP_PING };

		peer_open(&p, a, 0);
		if (i == 0)
			f.seq = 0;
		else if (i == 1)
			f.seq = 2;
		else if (i == 2)
			f.len = UINT32_MAX;
		else if (i == 3)
			f.len = 4;
		f.sum = tcp_frame_sum(&f) ^ (i == 4);
		peer_send(&p, &f, sizeof(f));
		CHECK(peer_answer(&p) && p.answer.kind == TCP_BYE && p.answer.err == -FAR_EFORMAT);
		CHECK(peer_ended(&p));
		close(p.sock);
	}
	check_others(a);
	agents_close(a);
}

static void
test_operation_outside_is_refused_and_the_connection_lives(void)
{
	static const uint64_t wrong[] = { RIG_REGION,     RIG_REGION - 4, UINT64_MAX,
					  UINT64_MAX - 7, RIG_WORD + 1,   1ULL << 63 };
	struct agents *a = rig_open(1, NULL);
	struct peer p;

	peer_open(&p, a, 0);
	for (unsigned code = FAR_OP_READ; code <= FAR_OP_FAA; code++) {
		for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
			CHECK_EQ(peer_op(&p, 0, wire_op(code, wrong[i], 8, 0, 1)), -FAR_EACCESS);
	}
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_READ, RIG_REGION - 8, 16, 0, 0)), -FAR_EACCESS);
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_READ, RIG_WORD, 0, 0, 0)), 0);
	CHECK_EQ(p.answer.len, 0);
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_FAA, RIG_WORD, 8, 1, 0)), 0);
	close(p.sock);
	agents_close(a);
}

static void
test_chain_in_several_frames_ends_where_it_failed(void)
{
	struct agents *a = rig_open(1, NULL);
	struct peer p;

	peer_open(&p, a, 0);
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_FAA, RIG_WORD, 8, 1, 0)), 0);
	CHECK_EQ(peer_op(&p, TCP_CONTINUES, wire_op(FAR_OP_FAA, RIG_REGION, 8, 1, 0)), -FAR_EACCESS);
	CHECK_EQ(peer_op(&p, TCP_CONTINUES, wire_op(FAR_OP_FAA, RIG_WORD, 8, 1, 0)), -FAR_EACCESS);
	CHECK_EQ(p.answer.ops_n, 0);
	/* The next chain is another one. */
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_FAA, RIG_WORD, 8, 0, 0)), 0);
	CHECK_EQ(*(uint64_t *)p.body, 1);
	close(p.sock);
	agents_close(a);
}

/* READs without end whose answers nobody takes: the agent stops listening before it has taken much memory. */
static void
test_answers_nobody_takes_stop_the_sender(void)
{
	struct wire_op read = wire_op(FAR_OP_READ, 0, 32 << 10, 0, 0);
	struct tcp_frame f = { .kind = TCP_CHAIN, .len = sizeof(read.op), .ops_n = 1 };
	struct agents *a = rig_open(1, NULL);
	struct peer p;
	int sent = 0;

	peer_open(&p, a, 0);
	REQUIRE(fcntl(p.sock, F_SETFL, O_NONBLOCK) == 0);
	for (; sent < 1000000; sent++) {
		f.seq = ++p.seq;
		f.sum = tcp_frame_sum(&f);
		if (send(p.sock, &f, sizeof(f), MSG_NOSIGNAL) != (ssize_t)sizeof(f) ||
		    send(p.sock, &read.op, sizeof(read.op), MSG_NOSIGNAL) != (ssize_t)sizeof(read.op))
			break;
	}
	CHECK(sent > 10 && sent < 1000000);
	check_others(a);
	close(p.sock);
	check_others(a);
	agents_close(a);
}

/* Sessions -------------------------------------------------------------------------------------------------- */

/* Forms a pool of all agents over connections p[0..n). */
static void
form(struct peer *p, const struct agents *a, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct control_request req = { .code = CONTROL_FORM, .pool_id = { 1, 2 }, .node = i, .nodes_n = n };

		peer_open(&p[i], a, i);
		CHECK_EQ(peer_call(&p[i], req).err, 0);
	}
}

static bool
line_is(const struct agents *a, unsigned slot, uint64_t serial)
{
	const struct pool_super *s = (const void *)agents_region(a, 0);
	uint64_t *line = (uint64_t *)(agents_region(a, 0) + s->sessions_off + slot * 64);

	for (int i = 0; i < RIG_WAIT_MS; i++) {
		if (__atomic_load_n(line, __ATOMIC_SEQ_CST) == serial)
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

static void
test_fence_cuts_the_client_off_before_it_is_acknowledged(void)
{
	struct agents *a = rig_open(1, NULL);
	struct control_reply victim;
	struct peer p, other;

	form(&p, a, 1);
	peer_open(&other, a, 0);
	victim = peer_call(&p, (struct control_request){ .code = CONTROL_SESSION });
	CHECK_EQ(victim.err, 0);
	CHECK_EQ(peer_call(&other, (struct control_request){ .code = CONTROL_SESSION }).err, 0);
	CHECK_EQ(peer_call(&other, (struct control_request){ .code = CONTROL_FENCE, .serial = victim.serial }).err, 0);
	CHECK(line_is(a, victim.slot, 0));
	/* It wakes up and goes on where it was. */
	CHECK_EQ(peer_op(&p, 0, wire_op(FAR_OP_WRITE, RIG_WORD + 256, 8, 1, 0)), -FAR_EFENCED);
	CHECK_EQ(p.answer.kind, TCP_BYE);
	check_others(a);
	CHECK_EQ(*(uint64_t *)(agents_region(a, 0) + RIG_WORD + 256), 0);
	close(p.sock);
	close(other.sock);
	agents_close(a);
}

static void
test_session_of_the_only_node_ends_with_its_connection(void)
{
	struct agents *a = rig_open(1, NULL);
	struct control_reply s;
	struct peer p;

	form(&p, a, 1);
	s = peer_call(&p, (struct control_request){ .code = CONTROL_SESSION });
	CHECK(s.err == 0 && line_is(a, s.slot, s.serial));
	close(p.sock);
	CHECK(line_is(a, s.slot, 0));
	agents_close(a);
}

/* The client may still have its connection to the other node: the session lasts until both have been told. */
static void
test_session_of_several_nodes_outlives_its_connection_until_fenced(void)
{
	struct agents *a = rig_open(2, NULL);
	struct control_reply s, t;
	struct peer p[2], other;

	form(p, a, 2);
	s = peer_call(&p[0], (struct control_request){ .code = CONTROL_SESSION });
	CHECK_EQ(peer_call(&p[1], (struct control_request){ .code = CONTROL_JOIN, .serial = s.serial }).err, 0);
	peer_open(&other, a, 0);
	t = peer_call(&other, (struct control_request){ .code = CONTROL_SESSION });
	CHECK_EQ(t.err, 0);
	close(p[0].sock);
	/* Long enough for the node to notice. */
	check_others(a);
	poll(NULL, 0, 50);
	CHECK(line_is(a, s.slot, s.serial));
	CHECK_EQ(peer_op(&p[1], 0, wire_op(FAR_OP_FAA, RIG_WORD, 8, 1, 0)), 0);
	CHECK_EQ(peer_call(&other, (struct control_request){ .code = CONTROL_FENCE, .serial = s.serial }).err, 0);
	CHECK(line_is(a, s.slot, 0));
	/* A session that was fenced does not come back under its number. */
	close(other.sock);
	close(p[1].sock);
	agents_close(a);
}

TEST_MAIN(TEST(test_agent_other_protocols_are_hung_up_on), TEST(test_agent_other_version_or_pool_is_told),
	  TEST(test_agent_cut_at_any_byte_harms_nobody), TEST(test_agent_crowd_of_silent_strangers_keeps_nobody_out),
	  TEST(test_key_only_who_has_it_gets_in), TEST(test_key_proof_of_another_connection_is_refused),
	  TEST(test_frame_that_breaks_the_format_is_not_executed), TEST(test_frame_with_wrong_head_ends_the_connection),
	  TEST(test_operation_outside_is_refused_and_the_connection_lives),
	  TEST(test_chain_in_several_frames_ends_where_it_failed), TEST(test_answers_nobody_takes_stop_the_sender),
	  TEST(test_fence_cuts_the_client_off_before_it_is_acknowledged),
	  TEST(test_session_of_the_only_node_ends_with_its_connection),
	  TEST(test_session_of_several_nodes_outlives_its_connection_until_fenced))
