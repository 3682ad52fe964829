/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_tcp.c -- READs of 64 B over TCP on loopback, beside what the same bytes cost without any fabric.
 *
 * usage: fabric_tcp [SECONDS-PER-RUN [ROUNDS]]
 *
 * The floor is two processes that poll: one sends DEPTH requests at once, the other one answers with as many bytes as a
 * memory node would, once all have come. Both ways are measured in turns, because what else the machine does changes
 * from second to second; the best of all rounds stands for each. A node's agent polls as long as that here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/rand.h"
#include "fabric/shm_node.h"
#include "fabric/tcp_wire.h"

enum {
	FLOOR_LEN = 64,
	FLOOR_OUT = sizeof(struct tcp_frame) + sizeof(struct tcp_op), /* bytes of a request, */
	FLOOR_IN = sizeof(struct tcp_frame) + FLOOR_LEN,              /* and of its answer */
	FLOOR_DEPTH_MAX = 64,
	FLOOR_REGION = 64 << 20,
	FLOOR_WINDOW = 1 << 20, /* of it that is READ */
	FLOOR_SPIN_US = 1000,
};

static uint64_t
floor_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

/* The floor -------------------------------------------------------------------------------------------------- */

/* Receives `len` bytes, polling; false: the other side is gone. */
static bool
floor_receive(int sock, char *buf, size_t len)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = recv(sock, buf, len - got, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		got += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static _Noreturn void
floor_serve(int listener, unsigned depth)
{
	static char in[FLOOR_DEPTH_MAX * FLOOR_OUT], out[FLOOR_DEPTH_MAX * FLOOR_IN];
	int sock = accept(listener, NULL, NULL), one = 1;

	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (floor_receive(sock, in, depth * FLOOR_OUT)) {
		if (send(sock, out, depth * FLOOR_IN, MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* Requests per second. */
static double
floor_measure(unsigned depth, double seconds)
{
	static char in[FLOOR_DEPTH_MAX * FLOOR_IN], out[FLOOR_DEPTH_MAX * FLOOR_OUT];
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int listener = socket(AF_INET, SOCK_STREAM, 0), sock = socket(AF_INET, SOCK_STREAM, 0),
	    one = 1;
	uint64_t n = 0, start, end;
	socklen_t len = sizeof(addr);
	pid_t pid;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (struct sockaddr *)&addr, len) != 0 || listen(listener, 1) != 0 ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) != 0)
		abort();
	if ((pid = fork()) == 0) {
		close(sock); /* or it would never see the end of it */
		floor_serve(listener, depth);
	}
	if (pid < 0 || connect(sock, (struct sockaddr *)&addr, sizeof(addr)) != 0)
		abort();
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	start = floor_now();
	end = start + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i % 64 != 0 || floor_now() < end; i++, n += depth) {
		if (send(sock, out, depth * FLOOR_OUT, MSG_NOSIGNAL) < 0 ||
		    !floor_receive(sock, in, depth * FLOOR_IN))
			abort();
	}
	end = floor_now();
	close(sock);
	close(listener);
	waitpid(pid, NULL, 0);
	return (double)n / ((double)(end - start) * 1e-9);
}

/* The fabric -------------------------------------------------------------------------------------------------- */

struct floor_client {
	struct far_rng rng;
	uint64_t until, n;
};

static void
floor_reader(struct far_task *t, void *arg)
{
	struct floor_client *c = arg;
	uint64_t buf[FLOOR_LEN / 8];

	/* Looking at the clock is no part of what is measured. */
	for (unsigned i = 0; i % 64 != 0 || far_now(t) < c->until; i++) {
		uint64_t off = far_rng_below(&c->rng, FLOOR_WINDOW / FLOOR_LEN) * FLOOR_LEN;

		far_read(t, far_addr_make(0, FLOOR_REGION - FLOOR_WINDOW + off), buf, FLOOR_LEN);
		if (far_wait(t) != 0)
			abort();
		c->n++;
	}
}

/* Memory is there once it was written. */
static void
floor_fill(struct far_task *t, void *arg)
{
	static char zeros[FLOOR_WINDOW];

	far_write(t, far_addr_make(0, FLOOR_REGION - FLOOR_WINDOW), zeros, sizeof(zeros));
	if (far_wait(t) != 0)
		abort();
}

static double
fabric_measure(const char *uri, unsigned depth, double seconds)
{
	struct floor_client c = { .n = 0 };
	struct far_fabric *fabric;
	struct far_loop *loop;
	uint64_t start;

	far_rng_seed(&c.rng, 1);
	if (far_loop_open(NULL, &loop) != 0 || far_fabric_open(uri, loop, NULL, &fabric) != 0)
		abort();
	if (far_loop_spawn(loop, fabric, floor_fill, NULL, 0) != 0)
		abort();
	far_loop_run(loop);
	start = far_loop_now(loop);
	c.until = start + (uint64_t)(seconds * 1e9);
	for (unsigned i = 0; i < depth; i++) {
		if (far_loop_spawn(loop, fabric, floor_reader, &c, 0) != 0)
			abort();
	}
	far_loop_run(loop);
	seconds = (double)(far_loop_now(loop) - start) * 1e-9;
	far_fabric_close(fabric);
	far_loop_close(loop);
	return (double)c.n / seconds;
}

int
main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.5;
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	static const unsigned depths[] = { 1, 16, 64 };
	char listens[SHM_URI_MAX];
	struct shm_node_opts opts = { .listen = "tcp://127.0.0.1:0",
				      .listens = listens,
				      .size = FLOOR_REGION,
				      .child = true,
				      .spin_us = FLOOR_SPIN_US };
	struct shm_why why;
	pid_t node;

	if (shm_node_fork(&opts, NULL, &node, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	printf("READ %d B over loopback, thousand per second\n%6s %10s %10s %8s\n", FLOOR_LEN,
	       "depth", "floor", "tcp:", "part");
	for (size_t i = 0; i < FAR_LEN(depths); i++) {
		double base = 0, fabric = 0;

		for (int r = 0; r < rounds; r++) {
			double b = floor_measure(depths[i], seconds),
			       f = fabric_measure(listens, depths[i], seconds);

			base = b > base ? b : base;
			fabric = f > fabric ? f : fabric;
		}
		printf("%6u %10.0f %10.0f %7.0f%%\n", depths[i], base / 1000, fabric / 1000, 100 * fabric / base);
	}
	kill(node, SIGTERM);
	waitpid(node, NULL, 0);
	return 0;
}
