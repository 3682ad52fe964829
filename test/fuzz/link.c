/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: the client's side of a node's control socket against a node that says anything. The harness is the node: its
 * hello with or without a region, then packets instead of replies.
 */
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/base.h"
#include "fabric/shm.h"
#include "fabric/shm_wire.h"
#include "fuzz/fuzz.h"
#include "pool/control.h"

enum { LINK_REGION = 64 << 10,
       LINK_CALLS = 4,
       LINK_STEPS = 24 };

/* What the node's thread sends next: it waits at `go` for work and at `done` for the fuzzer. */
struct link_node {
	int listen, region;
	struct sockaddr_un addr;
	pthread_barrier_t go, done;
	uint8_t hello[64];
	size_t hello_len;
	unsigned fds; /* descriptors that go along */
	int sock;
};

static void
link_send_hello(const struct link_node *n)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { (void *)(uintptr_t)n->hello, n->hello_len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	const int fds[2] = { n->region, n->region };
	struct cmsghdr *cmsg;

	if (n->fds) {
		m.msg_control = control.bytes;
		m.msg_controllen = CMSG_SPACE(n->fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&m);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n->fds * sizeof(int));
		memcpy(control.bytes + CMSG_LEN(0), fds, n->fds * sizeof(int));
	}
	(void)sendmsg(n->sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void *
link_serve(void *arg)
{
	struct link_node *n = arg;

	for (;;) {
		pthread_barrier_wait(&n->go);
		n->sock = accept4(n->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		FUZZ_CHECK(n->sock >= 0);
		link_send_hello(n);
		/* Nothing to say is the end. */
		if (n->hello_len == 0)
			shutdown(n->sock, SHUT_RDWR);
		pthread_barrier_wait(&n->done);
	}
	return NULL;
}

/* In the abstract name space: no file is left behind. */
static void
link_start(struct link_node *n)
{
	pthread_t thread;

	n->addr.sun_family = AF_UNIX;
	snprintf(n->addr.sun_path + 1, sizeof(n->addr.sun_path) - 1, "farside-fuzz-%d", (int)getpid());
	n->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	FUZZ_CHECK(bind(n->listen, (struct sockaddr *)&n->addr, sizeof(n->addr)) == 0 && listen(n->listen, 1) == 0);
	n->region = memfd_create("fuzz-region", MFD_CLOEXEC);
	FUZZ_CHECK(n->region >= 0 && ftruncate(n->region, LINK_REGION) == 0);
	FUZZ_CHECK(pthread_barrier_init(&n->go, NULL, 2) == 0 && pthread_barrier_init(&n->done, NULL, 2) == 0);
	FUZZ_CHECK(pthread_create(&thread, NULL, link_serve, n) == 0 && pthread_detach(thread) == 0);
}

static int
link_open(struct link_node *n, struct fuzz_in *in, struct shm_link *k)
{
	struct shm_hello hello = { SHM_MAGIC, SHM_VERSION, 0, LINK_REGION };
	unsigned mode = fuzz_byte(in);
	int err;

	n->fds = (mode & 3) == 3 ? 2 : (mode & 3) != 2;
	n->hello_len = sizeof(hello);
	if (mode & 4)
		hello.region_len = fuzz_word(in, 8);
	if (mode & 8)
		hello.err = (int32_t)fuzz_word(in, 4);
	if (mode & 16)
		hello.magic ^= fuzz_word(in, 8);
	if (mode & 32)
		hello.version = (uint32_t)fuzz_word(in, 4);
	if (mode & 64)
		n->hello_len = fuzz_byte(in) % sizeof(n->hello);
	memcpy(n->hello, &hello, sizeof(hello));
	pthread_barrier_wait(&n->go);
	err = shm_link_open(k, n->addr.sun_path, sizeof(n->addr.sun_path) - 1, UINT64_C(1000000000));
	pthread_barrier_wait(&n->done);
	return err;
}

struct link_call {
	struct far_chain chain;
	struct far_op op;
	struct control_request request;
	uint8_t *reply;
	bool waits;
};

/* A new call in each place that has none. */
static void
link_call(struct shm_link *k, struct link_call *c, struct fuzz_in *in, struct far_chain_list *done)
{
	static const uint32_t rooms[] = { sizeof(struct control_reply), 0, 8, SHM_PAYLOAD_MAX };
	uint32_t room = rooms[fuzz_byte(in) & 3];

	if (c->waits)
		return;
	/* Exactly as long as told, so that a longer answer is noticed. */
	free(c->reply);
	FUZZ_CHECK((c->reply = malloc(room + 1)));
	c->op = (struct far_op){ .code = FAR_OP_CALL, .len = sizeof(c->request), .buf = &c->request };
	c->op.reply = c->reply;
	c->op.reply_max = room;
	c->chain = (struct far_chain){ .first = &c->op, .last = &c->op, .n = 1, .cut = 1 };
	FUZZ_CHECK(shm_link_call(k, &c->chain, 0, done) == 0);
	c->waits = true;
}

/* A packet from the node: a frame that answers a call or nothing, with any length. */
static void
link_packet(int sock, struct fuzz_in *in)
{
	static uint8_t packet[sizeof(struct shm_frame) + 2 * SHM_PAYLOAD_MAX];
	unsigned mode = fuzz_byte(in);
	struct shm_frame frame = { .len = sizeof(struct control_reply) };
	size_t len;

	frame.seq = (uint64_t)SHM_CALLS * fuzz_byte(in) + fuzz_byte(in);
	if (mode & 1)
		frame.len = (uint32_t)fuzz_word(in, mode & 2 ? 4 : 2);
	len = sizeof(frame) + far_min(frame.len, 2 * SHM_PAYLOAD_MAX);
	if (mode & 4)
		len = fuzz_word(in, 2) % sizeof(packet);
	memcpy(packet, &frame, sizeof(frame));
	memset(packet + sizeof(frame), (int)(mode >> 3), 64);
	(void)send(sock, packet, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
link_take(struct link_call *calls, struct far_chain_list *done)
{
	struct far_chain *c;

	while ((c = far_chain_list_take(done))) {
		struct link_call *l = FAR_CONTAINER(c, struct link_call, chain);

		FUZZ_CHECK(l >= calls && l < calls + LINK_CALLS && l->waits);
		FUZZ_CHECK(c->status == 0 || c->status == -FAR_EUNSURE || c->status == -FAR_ENODE ||
			   c->status == -FAR_ECORRUPT);
		l->waits = false;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct link_node n;
	static struct link_call calls[LINK_CALLS];
	struct fuzz_in in = { data, size };
	struct shm_link k = { .sock = -1 };
	struct far_chain_list done = { .last = &done.first };
	int err;

	if (!n.addr.sun_family)
		link_start(&n);
	err = link_open(&n, &in, &k);
	FUZZ_CHECK(err <= 0 && err >= -FAR_EAGAIN && (err != 0 || (k.words.len > 0 && k.words.len <= LINK_REGION)));
	for (unsigned i = 0; err == 0 && i < LINK_STEPS && in.left > 0; i++) {
		unsigned step = fuzz_byte(&in);

		if (step % 8 < LINK_CALLS)
			link_call(&k, &calls[step % 8], &in, &done);
		else if (step == 0xff)
			shutdown(n.sock, SHUT_RDWR);
		else
			link_packet(n.sock, &in);
		shm_link_receive(&k, &done);
		link_take(calls, &done);
	}
	close(n.sock);
	if (err == 0)
		shm_link_receive(&k, &done);
	link_take(calls, &done);
	/* The end of the node is an answer to everything. */
	for (unsigned i = 0; i < LINK_CALLS; i++)
		FUZZ_CHECK(!calls[i].waits);
	if (err == 0)
		shm_link_close(&k);
	return 0;
}
