/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a client's connection over TCP against an agent that answers anything. Every chain comes back once, and
 * nothing is written but where its operations said.
 */
#include <sys/socket.h>

#include "fabric/tcp.h"
#include "fuzz/fuzz.h"

enum { ANSWERS_CHAINS = 4,
       ANSWERS_OPS = 3,
       ANSWERS_STEPS = 32,
       ANSWERS_REGION = 1 << 20 };

struct answers_chain {
	struct far_chain chain;
	struct far_op op[ANSWERS_OPS];
	uint8_t *buf[ANSWERS_OPS]; /* exactly as long as told */
	bool waits;
};

struct answers {
	struct tcp_link link;
	struct far_chain_list done;
	int sock; /* the agent's end */
	uint64_t seq;
	struct answers_chain chains[ANSWERS_CHAINS];
};

static void
answers_post(struct answers *a, struct answers_chain *c, struct fuzz_in *in)
{
	unsigned n = 1 + fuzz_byte(in) % ANSWERS_OPS;

	if (c->waits)
		return;
	for (unsigned i = 0; i < n; i++) {
		unsigned what = fuzz_byte(in), code = what % FAR_OP_CALL;
		uint32_t len = code >= FAR_OP_CAS ? 8
			       : what & 0x80      ? (uint32_t)fuzz_word(in, 3) & 0x3fff8
						  : fuzz_byte(in) & ~7U;

		free(c->buf[i]);
		FUZZ_CHECK((c->buf[i] = calloc(1, len + 1)));
		c->op[i] = (struct far_op){ .code = (uint8_t)code, .len = len, .buf = c->buf[i] };
		c->op[i].next = i + 1 < n ? &c->op[i + 1] : NULL;
	}
	if (fuzz_byte(in) >= 0xe0) {
		n = 1;
		c->op[0].code = FAR_OP_CALL;
		c->op[0].reply = c->buf[0];
		c->op[0].reply_max = c->op[0].len;
		c->op[0].next = NULL;
	}
	c->chain = (struct far_chain){ .first = c->op, .last = &c->op[n - 1], .n = n, .cut = n };
	c->waits = true;
	tcp_link_post(&a->link, &c->chain, &a->done);
}

/* An answer: mostly to the frame whose turn it is. */
static void
answers_say(struct answers *a, struct fuzz_in *in)
{
	static uint8_t bytes[2 * TCP_FRAME_MAX];
	unsigned mode = fuzz_byte(in);
	struct tcp_frame f = { .seq = mode & 1 ? fuzz_byte(in) : ++a->seq, .kind = TCP_CHAIN };

	f.kind = mode & 2 ? (uint8_t)fuzz_byte(in) : TCP_CHAIN;
	f.len = (uint32_t)fuzz_word(in, mode & 4 ? 2 : 1) & ~7U;
	f.ops_n = (uint16_t)(fuzz_byte(in) % 4);
	f.err = mode & 8 ? (int32_t)fuzz_word(in, 4) : 0;
	f.used = mode & 16 ? fuzz_byte(in) : 0;
	if (mode & 32)
		((uint8_t *)&f)[fuzz_byte(in) % sizeof(f)] ^= (uint8_t)fuzz_byte(in);
	f.sum = mode & 64 ? 1 : tcp_frame_sum(&f);
	memcpy(bytes, &f, sizeof(f));
	memset(bytes + sizeof(f), 0xab, 64);
	(void)send(a->sock, bytes, mode & 128 ? fuzz_byte(in) : sizeof(f) + far_min(f.len, TCP_BODY_MAX),
		   MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
answers_take(struct answers *a)
{
	static uint8_t sink[TCP_LINK_BUFFER];
	struct far_chain *c;

	tcp_link_move(&a->link, &a->done);
	while (recv(a->sock, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
	while ((c = far_chain_list_take(&a->done))) {
		struct answers_chain *one = FAR_CONTAINER(c, struct answers_chain, chain);

		FUZZ_CHECK(one->waits && c->status <= 0);
		one->waits = false;
	}
}

static void
answers_start(struct answers *a)
{
	int pair[2];

	memset(a, 0, sizeof(*a));
	a->done.last = &a->done.first;
	a->link.timeout_ns = 1000000000;
	FUZZ_CHECK(tcp_link_init(&a->link) == 0);
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	a->link.sock = pair[0];
	a->link.region_len = ANSWERS_REGION;
	a->sock = pair[1];
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct answers a;
	struct fuzz_in in = { data, size };

	answers_start(&a);
	for (unsigned i = 0; i < ANSWERS_STEPS && in.left > 0; i++) {
		unsigned what = fuzz_byte(&in);

		if (what % 8 < ANSWERS_CHAINS)
			answers_post(&a, &a.chains[what % ANSWERS_CHAINS], &in);
		else if (what == 0xff)
			shutdown(a.sock, SHUT_RDWR);
		else
			answers_say(&a, &in);
		answers_take(&a);
	}
	/* The end of the node is an answer to everything. */
	close(a.sock);
	a.sock = -1;
	tcp_link_move(&a.link, &a.done);
	tcp_link_move(&a.link, &a.done);
	answers_take(&a);
	for (unsigned i = 0; i < ANSWERS_CHAINS; i++) {
		FUZZ_CHECK(!a.chains[i].waits);
		for (unsigned k = 0; k < ANSWERS_OPS; k++)
			free(a.chains[i].buf[k]);
	}
	tcp_link_close(&a.link);
	return 0;
}
