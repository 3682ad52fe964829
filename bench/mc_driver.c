/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mc_driver.c -- YCSB C over memcached's text protocol, one connection.
 *
 * usage: mc_driver PORT KEYS OPS DEPTH
 *
 * Loads KEYS keys of 16 B with values of 32 B, then keeps DEPTH gets of uniformly drawn keys in flight: as many new
 * ones are sent in one write as answers came in one read. Every value is compared with what was stored. Prints the
 * operations per second. Keys, values and the generator are those of `farside bench`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "lab/workload.h"

enum {
	MC_DEPTH_MAX = 1024,
	MC_REQUEST_MAX = 128,
	MC_ANSWER_MAX = 256,
	MC_LOAD_BATCH = 256,
};

struct mc {
	int fd;
	struct workload_spec spec;
	struct workload gen;
	uint64_t asked[MC_DEPTH_MAX]; /* key numbers in flight, a ring */
	unsigned depth;
	uint64_t sent, answered, ops;
	char in[MC_DEPTH_MAX * MC_ANSWER_MAX];
	size_t in_len;
	char out[MC_DEPTH_MAX * MC_REQUEST_MAX];
};

static int
mc_die(const char *what)
{
	fprintf(stderr, "mc_driver: %s\n", what);
	exit(1);
}

/* The server may still be starting: tries for five seconds. */
static int
mc_connect(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	const struct timespec nap = { .tv_nsec = 20000000 };
	int one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 250; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (fd < 0)
			mc_die(strerror(errno));
		if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return fd;
		}
		close(fd);
		nanosleep(&nap, NULL);
	}
	return mc_die("no server at this port");
}

static void
mc_send(struct mc *m, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(m->fd, m->out + at, len - at);

		if (n <= 0)
			mc_die("the connection broke");
		at += (size_t)n;
	}
}

static void
mc_receive(struct mc *m)
{
	ssize_t n = read(m->fd, m->in + m->in_len, sizeof(m->in) - m->in_len);

	if (n <= 0)
		mc_die("the connection broke");
	m->in_len += (size_t)n;
}

/* Stores all keys; sets need no answer but the last. */
static void
mc_load(struct mc *m)
{
	char value[64];

	for (uint64_t number = 0; number < m->spec.keys;) {
		size_t len = 0;

		for (int i = 0; i < MC_LOAD_BATCH && number < m->spec.keys; i++, number++) {
			memcpy(m->out + len, "set ", 4);
			workload_key(&m->spec, number, m->out + len + 4);
			len += 4 + m->spec.key_len;
			len += (size_t)sprintf(m->out + len, " 0 0 %zu%s\r\n", m->spec.value_len,
					       number + 1 < m->spec.keys ? " noreply" : "");
			workload_value(&m->spec, number, number * 77, value);
			memcpy(m->out + len, value, m->spec.value_len);
			memcpy(m->out + len + m->spec.value_len, "\r\n", 2);
			len += m->spec.value_len + 2;
		}
		mc_send(m, len);
	}
	while (m->in_len < 8)
		mc_receive(m);
	if (memcmp(m->in, "STORED\r\n", 8) != 0)
		mc_die("could not load the keys");
	m->in_len = 0;
}

static void
mc_ask(struct mc *m, unsigned n)
{
	size_t len = 0;

	for (; n > 0 && m->sent < m->ops; n--) {
		uint64_t number = workload_next(&m->gen).number;

		m->asked[m->sent++ % m->depth] = number;
		memcpy(m->out + len, "get ", 4);
		workload_key(&m->spec, number, m->out + len + 4);
		memcpy(m->out + len + 4 + m->spec.key_len, "\r\n", 2);
		len += 6 + m->spec.key_len;
	}
	mc_send(m, len);
}

/* Takes the complete answers out of the buffer; returns how many there were. */
static unsigned
mc_take(struct mc *m)
{
	/* "VALUE <key> 0 <len>\r\n<value>\r\nEND\r\n" */
	char head[32];
	size_t tail = (size_t)sprintf(head, " 0 %zu\r\n", m->spec.value_len);
	size_t start = 6 + m->spec.key_len + tail, len = start + m->spec.value_len + 7, at = 0;
	unsigned n = 0;

	for (; m->in_len - at >= len; at += len, n++) {
		const char *answer = m->in + at;

		if (memcmp(answer, "VALUE ", 6) != 0 ||
		    memcmp(answer + start - tail, head, tail) != 0 ||
		    memcmp(answer + len - 7, "\r\nEND\r\n", 7) != 0 ||
		    !workload_value_ok(&m->spec, m->asked[m->answered++ % m->depth], answer + start,
				       m->spec.value_len))
			mc_die("an unexpected answer");
	}
	if (n == 0 && m->in_len >= 5 && memcmp(m->in, "VALUE", 5) != 0)
		mc_die("a key is missing");
	memmove(m->in, m->in + at, m->in_len - at);
	m->in_len -= at;
	return n;
}

static double
mc_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int
main(int argc, char **argv)
{
	static struct mc m;
	struct workload_seq *seq;
	double begin;

	if (argc != 5 || workload_find("C", &m.spec) != 0)
		mc_die("usage: mc_driver PORT KEYS OPS DEPTH");
	m.spec.keys = strtoull(argv[2], NULL, 10);
	m.ops = m.spec.ops = strtoull(argv[3], NULL, 10);
	m.depth = (unsigned)strtoul(argv[4], NULL, 10);
	m.spec.dist = WORKLOAD_UNIFORM;
	if (m.depth < 1 || m.depth > MC_DEPTH_MAX || workload_check(&m.spec) != NULL)
		mc_die("numbers out of range");
	if (workload_seq_open(m.spec.keys, &seq) != 0)
		mc_die("out of memory");
	workload_init(&m.gen, &m.spec, seq, 1);
	m.fd = mc_connect(atoi(argv[1]));
	mc_load(&m);

	begin = mc_now();
	mc_ask(&m, m.depth);
	while (m.answered < m.ops) {
		mc_receive(&m);
		mc_ask(&m, mc_take(&m));
	}
	printf("%.0f\n", (double)m.ops / (mc_now() - begin));
	close(m.fd);
	workload_seq_close(seq);
	return 0;
}
