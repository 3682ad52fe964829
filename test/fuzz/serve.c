/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: the node's side of its control socket against a client that sends anything. The node runs in a thread; the
 * harness is several clients at once. Whatever they do, another client is served.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm_node.h"
#include "fabric/shm_wire.h"
#include "fuzz/fuzz.h"
#include "pool/control.h"

enum { SERVE_PEERS = 3,
       SERVE_STEPS = 24,
       SERVE_RUNS = 64,       /* then a new node: sessions of connections that broke stay until this process ends */
       SERVE_WAIT_MS = 200000 };

struct serve_node {
	pthread_t thread;
	sem_t ready;
	struct shm_node *node;
	char path[64];
	unsigned runs;
};

static struct serve_node *serve_last; /* for the end of the process */

struct serve_packet {
	struct shm_frame frame;
	uint8_t body[2 * SHM_PAYLOAD_MAX];
};

static void *
serve_thread(void *arg)
{
	struct serve_node *n = arg;
	struct shm_node_opts opts = { .path = n->path, .size = 1 << 20 };
	struct shm_why why;

	/* Signals are blocked in this thread, and taken here. */
	FUZZ_CHECK(shm_node_open(&opts, &n->node, &why) == 0);
	FUZZ_CHECK(sem_post(&n->ready) == 0);
	FUZZ_CHECK(shm_node_serve(n->node, &why) == 0);
	shm_node_close(n->node);
	return NULL;
}

static void
serve_stop(struct serve_node *n)
{
	FUZZ_CHECK(pthread_kill(n->thread, SIGTERM) == 0 && pthread_join(n->thread, NULL) == 0);
	FUZZ_CHECK(sem_destroy(&n->ready) == 0);
	n->runs = 0;
}

/* The last node takes its socket with it. */
static void
serve_end(void)
{
	if (serve_last && serve_last->runs > 0)
		serve_stop(serve_last);
}

static void
serve_start(struct serve_node *n)
{
	if (!serve_last)
		FUZZ_CHECK(atexit(serve_end) == 0);
	serve_last = n;
	if (n->runs == SERVE_RUNS)
		serve_stop(n);
	if (n->runs++ > 0)
		return;
	snprintf(n->path, sizeof(n->path), "/tmp/farside-fuzz-%d", (int)getpid());
	FUZZ_CHECK(sem_init(&n->ready, 0, 0) == 0);
	FUZZ_CHECK(pthread_create(&n->thread, NULL, serve_thread, n) == 0);
	while (sem_wait(&n->ready) != 0)
		FUZZ_CHECK(errno == EINTR);
}

static void
serve_wait(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLIN };

	FUZZ_CHECK(poll(&p, 1, SERVE_WAIT_MS) == 1);
}

static int
serve_connect(const struct serve_node *n)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct shm_hello hello;

	strcpy(addr.sun_path, n->path);
	FUZZ_CHECK(sock >= 0 && connect(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	serve_wait(sock);
	/* The descriptor that came along is dropped by the system, as nothing takes it. */
	FUZZ_CHECK(recv(sock, &hello, sizeof(hello), 0) == (ssize_t)sizeof(hello));
	FUZZ_CHECK(hello.magic == SHM_MAGIC && hello.err == 0);
	return sock;
}

/* A packet: a whole request, or one whose lengths do not fit. */
static void
serve_send(int sock, struct fuzz_in *in, uint64_t seq)
{
	static struct serve_packet p;
	unsigned mode = fuzz_byte(in);
	struct control_request req = { .code = mode & 15 };
	size_t len = sizeof(p.frame) + sizeof(req);

	req.serial = fuzz_byte(in);
	req.root_serial = fuzz_byte(in);
	req.run = req.kind = 1;
	req.nodes_n = 1;
	req.pool_id[0] = 7;
	strcpy(req.name, "t");
	strcpy(req.design, "race");
	p.frame = (struct shm_frame){ .seq = seq, .len = sizeof(req) };
	memcpy(p.body, &req, sizeof(req));
	if (mode & 16)
		p.frame.len = (uint32_t)fuzz_word(in, mode & 32 ? 4 : 2);
	if (mode & 16 && mode & 64)
		len = sizeof(p.frame) + far_min(p.frame.len, sizeof(p.body));
	if (mode & 128)
		len = fuzz_word(in, 2) % sizeof(p);
	(void)send(sock, &p, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Answers are whole. */
static void
serve_receive(int sock)
{
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} p;
	ssize_t n = recv(sock, &p, sizeof(p), MSG_DONTWAIT | MSG_TRUNC);

	FUZZ_CHECK(n <= 0 || (n == (ssize_t)sizeof(p) && p.frame.len == sizeof(p.reply) && p.reply.err <= 0));
}

/* Sends a request and waits for its answer among others'. */
static void
serve_ask(int sock, uint32_t code)
{
	struct {
		struct shm_frame frame;
		struct control_request req;
	} p = { .frame = { .seq = 1, .len = sizeof(p.req) }, .req = { .code = code } };
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} r;

	FUZZ_CHECK(send(sock, &p, sizeof(p), MSG_NOSIGNAL) == (ssize_t)sizeof(p));
	serve_wait(sock);
	FUZZ_CHECK(recv(sock, &r, sizeof(r), 0) == (ssize_t)sizeof(r) && r.frame.seq == 1);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct serve_node n;
	struct fuzz_in in = { data, size };
	int peers[SERVE_PEERS] = { -1, -1, -1 }, other;

	serve_start(&n);
	for (unsigned i = 0; i < SERVE_STEPS && in.left > 0; i++) {
		unsigned what = fuzz_byte(&in), peer = what % SERVE_PEERS;

		if (peers[peer] < 0)
			peers[peer] = serve_connect(&n);
		if (what >= 0xf0) {
			close(peers[peer]);
			peers[peer] = -1;
			continue;
		}
		serve_send(peers[peer], &in, i);
		if (what & 0x40)
			serve_receive(peers[peer]);
	}
	other = serve_connect(&n);
	serve_ask(other, CONTROL_RANGE);
	close(other);
	for (unsigned i = 0; i < SERVE_PEERS; i++) {
		if (peers[i] >= 0)
			close(peers[i]);
	}
	return 0;
}
