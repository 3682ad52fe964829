/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a memory node's agent against clients that send anything over TCP. Whatever they do, all that is said to them
 * is whole, nothing outside the region is touched, and another client is served.
 */
#include <sys/socket.h>

#include <farside/error.h>

#include "fabric/endpoint.h"
#include "fabric/tcp_agent_impl.h"
#include "fuzz/fuzz.h"
#include "pool/control.h"
#include "pool/node.h"

enum { AGENT_PEERS = 3,
       AGENT_STEPS = 32,
       AGENT_REGION = 512 << 10,
       AGENT_TURNS = 1000,
       AGENT_RUNS = 64,
       AGENT_WORD = AGENT_REGION - 64 }; /* where the healthy client works */

struct agent_fuzz {
	struct event_loop loop;
	struct endpoint *endpoint;
	struct tcp_agent *agent;
	uint8_t *region; /* an allocation of its own: a sanitizer watches its ends */
};

struct agent_peer {
	int sock; /* -1: none */
	bool greeted, welcomed;
	uint64_t seq;
	size_t n;
	uint8_t in[2 * TCP_FRAME_MAX];
};

static struct agent_peer agent_peers[AGENT_PEERS + 1];

static void
agent_start(struct agent_fuzz *f)
{
	struct node_env env = { .random = endpoint_random };
	struct endpoint_opts eo = { .len = AGENT_REGION };
	struct tcp_agent_opts to = { .loop = &f->loop, .len = AGENT_REGION, .uri = "tcp://127.0.0.1:0" };
	struct shm_why why;

	f->region = aligned_alloc(4096, AGENT_REGION);
	FUZZ_CHECK(f->region);
	memset(f->region, 0, AGENT_REGION);
	FUZZ_CHECK(event_loop_open(&f->loop) == 0 && node_format(f->region, AGENT_REGION, &env) == 0);
	eo.base = to.base = f->region;
	FUZZ_CHECK(endpoint_open(&eo, &f->endpoint) == 0);
	to.endpoint = f->endpoint;
	FUZZ_CHECK(tcp_agent_open(&to, &f->agent, &why) == 0);
}

static void
agent_stop(struct agent_fuzz *f)
{
	tcp_agent_close(f->agent);
	endpoint_close(f->endpoint);
	event_loop_close(&f->loop);
	free(f->region);
}

static void
agent_settle(struct agent_fuzz *f)
{
	for (int i = 0; i < AGENT_TURNS && event_turn(&f->loop, 0) > 0; i++)
		tcp_agent_turn(f->agent);
	tcp_agent_turn(f->agent);
}

/* Whole frames, after a whole welcome. */
static void
agent_read(struct agent_peer *p)
{
	struct tcp_frame head;
	size_t at = 0;
	ssize_t n = recv(p->sock, p->in + p->n, sizeof(p->in) - p->n, MSG_DONTWAIT);

	p->n += n > 0 ? (size_t)n : 0;
	if (!p->welcomed && p->n >= sizeof(struct tcp_welcome)) {
		const struct tcp_welcome *w = (const void *)p->in;

		FUZZ_CHECK(w->magic == TCP_MAGIC && w->err <= 0);
		p->welcomed = true;
		at = sizeof(*w);
	}
	while (p->welcomed && p->n - at >= sizeof(head)) {
		memcpy(&head, p->in + at, sizeof(head));
		FUZZ_CHECK(tcp_frame_fits(&head) && head.err <= 0 && head.seq <= p->seq);
		FUZZ_CHECK(head.kind == TCP_BYE ? head.err != 0 && head.len == 0 : head.seq > 0);
		if (p->n - at - sizeof(head) < head.len)
			break;
		at += sizeof(head) + head.len;
	}
	memmove(p->in, p->in + at, p->n - at);
	p->n -= at;
}

static void
agent_close(struct agent_peer *p)
{
	close(p->sock);
	*p = (struct agent_peer){ .sock = -1 };
}

static void
agent_send(struct agent_peer *p, const void *data, size_t len)
{
	(void)send(p->sock, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
agent_connect(struct agent_fuzz *f, struct agent_peer *p)
{
	int pair[2];

	*p = (struct agent_peer){ .sock = -1 };
	FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	p->sock = pair[0];
	tcp_agent_adopt(f->agent, pair[1], "fuzz");
}

static void
agent_greet(struct agent_peer *p, uint64_t spoil)
{
	struct tcp_hello h = { .magic = TCP_MAGIC, .version = TCP_VERSION };

	if (spoil)
		((uint8_t *)&h)[spoil % sizeof(h)] ^= (uint8_t)(spoil >> 8);
	agent_send(p, &h, sizeof(h));
	p->greeted = true;
}

/* One operation at `at`, mostly well formed; returns its end. */
static uint8_t *
agent_op(struct fuzz_in *in, uint8_t *at, const uint8_t *end)
{
	unsigned what = fuzz_byte(in);
	struct tcp_op op = { .code = what % (FAR_OP_CALL + (what >= 0xf0)) };

	op.flags = what & 0x08 ? FAR_OP_FENCE : 0;
	op.len = op.code >= FAR_OP_CAS || what & 0x10 ? 8 : (uint32_t)fuzz_word(in, 2) & ~7U;
	op.off = fuzz_word(in, what & 0x20 ? 8 : 3) & ~(what & 0x40 ? 0ULL : 7ULL);
	if (what & 0x80 && what < 0xf0)
		op.len = (uint32_t)fuzz_word(in, 4);
	if ((size_t)(end - at) < sizeof(op))
		return at;
	memcpy(at, &op, sizeof(op));
	at += sizeof(op);
	if (op.len <= TCP_BODY_MAX && tcp_op_out(op.code, op.len) <= (size_t)(end - at))
		at += tcp_op_out(op.code, op.len);
	return at;
}

static uint32_t
agent_call(struct fuzz_in *in, uint8_t *body)
{
	struct control_request req = { .code = fuzz_byte(in) % 16, .nodes_n = 1, .run = 1, .kind = 1 };

	req.serial = fuzz_byte(in);
	req.root_serial = fuzz_byte(in);
	req.pool_id[0] = 7;
	strcpy(req.name, "t");
	strcpy(req.design, "race");
	memcpy(body, &req, sizeof(req));
	return sizeof(req);
}

static void
agent_frame(struct agent_peer *p, struct fuzz_in *in)
{
	static uint8_t bytes[2 * TCP_FRAME_MAX];
	uint8_t *body = bytes + sizeof(struct tcp_frame), *at = body, *end = bytes + TCP_FRAME_MAX;
	unsigned mode = fuzz_byte(in);
	struct tcp_frame f = { .seq = ++p->seq, .kind = (mode & 3) == 3 ? TCP_CALL : TCP_CHAIN };

	memset(bytes, 0, TCP_FRAME_MAX);
	if (f.kind == TCP_CALL) {
		f.used = agent_call(in, body);
		at = body + far_align(f.used, 8);
	} else {
		f.flags = mode & 4 ? TCP_CONTINUES : 0;
		for (f.ops_n = 1 + fuzz_byte(in) % 8; f.ops_n > 0 && at - body < 60000; f.ops_n--)
			at = agent_op(in, at, end);
		/* As many as there are, or not. */
		f.ops_n = (uint16_t)(mode & 8 ? fuzz_byte(in) % 3 : 0);
		for (uint8_t *o = body; o < at; f.ops_n++) {
			struct tcp_op op;

			memcpy(&op, o, sizeof(op));
			o += sizeof(op) + (op.len <= TCP_BODY_MAX ? tcp_op_out(op.code, op.len) : 0);
		}
	}
	f.len = (uint32_t)(at - body);
	if (mode & 16)
		((uint8_t *)&f)[fuzz_byte(in) % sizeof(f)] ^= (uint8_t)fuzz_byte(in);
	if (!(mode & 32))
		f.sum = tcp_frame_sum(&f);
	memcpy(bytes, &f, sizeof(f));
	agent_send(p, bytes,
		   mode & 64 ? fuzz_word(in, 2) % (sizeof(f) + f.len % TCP_FRAME_MAX + 1)
			     : sizeof(f) + far_min(f.len, TCP_BODY_MAX));
}

/* A client that keeps to the rules gets what it asks for. */
static void
agent_serve_healthy(struct agent_fuzz *f, struct agent_peer *p)
{
	struct {
		struct tcp_frame f;
		struct tcp_op write;
		uint64_t word;
		struct tcp_op read;
	} out = { .f = { .seq = 1, .kind = TCP_CHAIN, .ops_n = 2 } };
	struct {
		struct tcp_welcome w;
		struct tcp_frame f;
		uint64_t word;
	} in;

	agent_connect(f, p);
	agent_greet(p, 0);
	out.f.len = sizeof(out) - sizeof(out.f);
	out.f.sum = tcp_frame_sum(&out.f);
	out.word = 4711;
	out.write = (struct tcp_op){ .code = FAR_OP_WRITE, .len = 8, .off = AGENT_WORD };
	out.read = (struct tcp_op){ .code = FAR_OP_READ, .len = 8, .off = AGENT_WORD };
	agent_send(p, &out, sizeof(out));
	agent_settle(f);
	FUZZ_CHECK(recv(p->sock, &in, sizeof(in), MSG_DONTWAIT) == (ssize_t)sizeof(in));
	FUZZ_CHECK(in.w.err == 0 && in.f.err == 0 && in.f.ops_n == 2 && in.word == 4711);
	agent_close(p);
}

static void
agent_step(struct agent_fuzz *f, struct fuzz_in *in)
{
	unsigned what = fuzz_byte(in);
	struct agent_peer *p = &agent_peers[what % AGENT_PEERS];
	uint8_t raw[256];

	if (p->sock < 0)
		agent_connect(f, p);
	if (what >= 0xf8) {
		agent_close(p);
	} else if (what >= 0xf0) {
		memset(raw, (int)fuzz_byte(in), sizeof(raw));
		agent_send(p, raw, fuzz_byte(in));
	} else if (!p->greeted) {
		agent_greet(p, what & 0x40 ? fuzz_word(in, 2) : 0);
	} else {
		agent_frame(p, in);
	}
	/* Sometimes several arrive at once. */
	if (what & 0x08)
		return;
	agent_settle(f);
	if (p->sock >= 0)
		agent_read(p);
}

static struct agent_fuzz agent_last; /* for the end of the process */

static void
agent_end(void)
{
	agent_stop(&agent_last);
}

/* A fresh node now and then: making one takes longer than most inputs. */
static struct agent_fuzz *
agent_renew(void)
{
	static unsigned runs;

	if (runs++ % AGENT_RUNS == 0) {
		if (runs == 1)
			FUZZ_CHECK(atexit(agent_end) == 0);
		else
			agent_stop(&agent_last);
		agent_start(&agent_last);
	}
	return &agent_last;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct agent_fuzz *f = agent_renew();

	for (unsigned i = 0; i <= AGENT_PEERS; i++)
		agent_peers[i].sock = -1;
	for (unsigned i = 0; i < AGENT_STEPS && in.left > 0; i++)
		agent_step(f, &in);
	agent_settle(f);
	agent_serve_healthy(f, &agent_peers[AGENT_PEERS]);
	for (unsigned i = 0; i < AGENT_PEERS; i++) {
		if (agent_peers[i].sock >= 0)
			close(agent_peers[i].sock);
	}
	agent_settle(f);
	FUZZ_CHECK(f->agent->conns_n == 0 || f->agent->strangers_n < f->agent->conns_n);
	return 0;
}
