/* SPDX-License-Identifier: Apache-2.0 */
/* shm_node_test.c -- a memory node as a thread of this process. What needs processes is in test/e2e/. */
#include "fabric/shm_node.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/error.h>

#include "fabric/shm_wire.h"
#include "pool/control.h"
#include "test.h"

struct rig {
	pthread_t thread;
	pthread_barrier_t ready;
	struct shm_node *node;
	char path[64];
};

static void *
rig_thread(void *arg)
{
	struct rig *r = arg;
	struct shm_node_opts opts = { .path = r->path, .size = 1 << 20 };
	struct shm_why why;

	REQUIRE(shm_node_open(&opts, &r->node, &why) == 0);
	pthread_barrier_wait(&r->ready);
	CHECK_EQ(shm_node_serve(r->node, &why), 0);
	shm_node_close(r->node);
	return NULL;
}

static void
rig_start(struct rig *r)
{
	snprintf(r->path, sizeof(r->path), "/tmp/farside-node-test-%d", (int)getpid());
	REQUIRE(pthread_barrier_init(&r->ready, NULL, 2) == 0);
	REQUIRE(pthread_create(&r->thread, NULL, rig_thread, r) == 0);
	pthread_barrier_wait(&r->ready);
}

static void
rig_stop(struct rig *r)
{
	CHECK_EQ(pthread_kill(r->thread, SIGTERM), 0);
	CHECK_EQ(pthread_join(r->thread, NULL), 0);
	CHECK_EQ(pthread_barrier_destroy(&r->ready), 0);
}

static int
rig_connect(const struct rig *r)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct shm_hello hello;

	strcpy(addr.sun_path, r->path);
	REQUIRE(sock >= 0 && connect(sock, (struct sockaddr *)&addr, sizeof(addr)) == 0);
	CHECK_EQ(recv(sock, &hello, sizeof(hello), 0), sizeof(hello));
	CHECK_EQ(hello.err, 0);
	return sock;
}

/* A request that needs a session, and so is refused: but it is answered. */
static void
rig_ask(int sock)
{
	struct {
		struct shm_frame frame;
		struct control_request req;
	} p = { .frame = { .seq = 1, .len = sizeof(p.req) }, .req = { .code = CONTROL_RANGE } };
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} answer;

	CHECK_EQ(send(sock, &p, sizeof(p), MSG_NOSIGNAL), sizeof(p));
	CHECK_EQ(recv(sock, &answer, sizeof(answer), 0), sizeof(answer));
	CHECK_EQ(answer.reply.err, -FAR_EINVAL);
}

/* The copy keeps the connection open after the node has closed it, and its end is an event of nobody. */
static void
test_connection_closed_while_a_fork_holds_a_copy_is_forgotten(void)
{
	struct rig r;
	int sock, other;
	pid_t pid;

	rig_start(&r);
	for (int i = 0; i < 4; i++) {
		sock = rig_connect(&r);
		other = rig_connect(&r);
		if ((pid = fork()) == 0) {
			pause();
			_exit(0);
		}
		REQUIRE(pid > 0);
		/* No frame: the node hangs up, and frees what it knew of us. */
		CHECK_EQ(send(sock, "?", 1, MSG_NOSIGNAL), 1);
		rig_ask(other);
		shutdown(sock, SHUT_RDWR);
		close(sock);
		rig_ask(other);
		close(other);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	rig_stop(&r);
}

TEST_MAIN(TEST(test_connection_closed_while_a_fork_holds_a_copy_is_forgotten))
