/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_conn.c -- one connection of a client on another machine: handshake, frames, end.
 *
 * A connection is a stranger until its handshake is done, then its frames are served, and in the end it is dead: its
 * socket is closed, and the next tcp_agent_turn() frees it. With a session that was not left it stays as a reminder
 * until that is fenced, unless this is the pool's only node: then the client had no other connection, and its session
 * ends with this one (endpoint.h).
 *
 * One thread runs all of this, so a request is served between two frames, and a FENCE that was served cut off all that
 * its victim can do: what is executed of a frame is executed at once, or (weak execution) dropped where it stands.
 *
 * Memory per connection is fixed: a buffer for what arrives and one for answers. While the next answer might not fit,
 * nothing more is executed or received, which in the end stops the sender (back-pressure).
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <farside/error.h>
#include <farside/fiber.h>

#include "fabric/tcp_agent_impl.h"
#include "pool/control.h"

enum {
	TCP_ANSWERS = 1024,  /* bytes that answers of calls may take besides the present frame's */
	TCP_EARLY = 32,      /* frames whose answers go out together at most */
	TCP_WEAK_WORDS = 12, /* executed in a row at most, by weak execution */
};

/* Ends ------------------------------------------------------------------------------------------------------- */

/* The client's own way to the region. */
static void
tcp_conn_detach(struct tcp_conn *c)
{
	const struct tcp_attach *attach = c->agent->attach;

	if (c->way)
		attach->drop(attach->arg, c->way);
	c->way = NULL;
}

void
tcp_conn_close(struct tcp_conn *c)
{
	struct tcp_agent *a = c->agent;

	if (c->state == TCP_DEAD)
		return;
	a->strangers_n -= tcp_conn_is_stranger(c);
	a->running_n -= c->running;
	c->running = false;
	c->state = TCP_DEAD;
	a->dead_n++;
	tcp_conn_detach(c);
	a->hot = a->hot == c ? NULL : a->hot;
	event_remove(&c->on_socket);
	close(c->sock);
	endpoint_detach(&c->peer);
}

/* Sends what waits to be sent. */
static void
tcp_conn_flush(struct tcp_conn *c)
{
	ssize_t n;

	if (c->state == TCP_DEAD || c->out_at == c->out_n)
		return;
	n = send(c->sock, c->out + c->out_at, c->out_n - c->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR)
			tcp_conn_close(c);
		return;
	}
	c->taken = c->agent->now;
	c->out_at += (uint32_t)n;
	if (c->out_at < c->out_n)
		return;
	c->out_at = c->out_n = 0;
	/* That was all. Closing now would make the system drop what the client has not taken yet. */
	if (c->state == TCP_LEAVING)
		shutdown(c->sock, SHUT_WR);
}

/* Bytes that the answers' buffer has left behind what waits there. */
static uint32_t
tcp_conn_room(struct tcp_conn *c)
{
	if (TCP_BUFFER - c->out_n < TCP_FRAME_MAX + TCP_ANSWERS && c->out_at > 0) {
		memmove(c->out, c->out + c->out_at, c->out_n - c->out_at);
		c->out_n -= c->out_at;
		c->out_at = 0;
	}
	return TCP_BUFFER - c->out_n;
}

/* Appends a frame's head; its body lies behind that already or follows. False: no room. */
static bool
tcp_conn_head(struct tcp_conn *c, struct tcp_frame f)
{
	if (tcp_conn_room(c) < sizeof(f) + f.len)
		return false;
	if (c->out_at == c->out_n)
		c->taken = c->agent->now;
	f.sum = tcp_frame_sum(&f);
	memcpy(c->out + c->out_n, &f, sizeof(f));
	c->out_n += (uint32_t)sizeof(f);
	return true;
}

/* Ends the connection after telling why. What the client sent and is not served yet is dropped. */
static void
tcp_conn_bye(struct tcp_conn *c, int err)
{
	struct tcp_agent *a = c->agent;

	if (c->state != TCP_OPEN ||
	    !tcp_conn_head(c, (struct tcp_frame){ .kind = TCP_BYE, .err = err })) {
		tcp_conn_close(c);
		return;
	}
	a->running_n -= c->running;
	c->running = false;
	c->state = TCP_LEAVING;
	c->begun = a->now;
	c->in_at = c->in_n = 0;
	tcp_conn_detach(c);
	endpoint_detach(&c->peer);
	tcp_conn_flush(c);
}

void
tcp_conn_free(struct tcp_conn *c)
{
	struct tcp_agent *a = c->agent;

	FAR_ASSERT(c->state == TCP_DEAD);
	endpoint_remove(&c->peer);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	a->conns_n--;
	free(c->in);
	free(c->out);
	free(c->scratch);
	free(c);
}

void
tcp_conn_bury(struct tcp_conn *c)
{
	struct tcp_agent *a = c->agent;
	uint64_t session = c->peer.session, pool_id[2];
	unsigned nodes_n;

	endpoint_pool(a->endpoint, pool_id, &nodes_n);
	if (session != 0 && nodes_n != 1) {
		free(c->in);
		free(c->out);
		free(c->scratch);
		c->in = c->out = c->scratch = NULL;
		return;
	}
	tcp_conn_free(c);
	endpoint_ended(a->endpoint, session);
}

/* The control endpoint's side ---------------------------------------------------------------------------------- */

static struct tcp_conn *
tcp_conn_of(struct endpoint_peer *p)
{
	return FAR_CONTAINER(p, struct tcp_conn, peer);
}

static bool
tcp_conn_reply(struct endpoint_peer *p, uint64_t tag, const struct control_reply *reply)
{
	struct tcp_conn *c = tcp_conn_of(p);
	struct tcp_frame f = { .seq = tag, .kind = TCP_CALL, .used = sizeof(*reply) };

	f.len = (uint32_t)far_align(sizeof(*reply), 8);
	if (c->state != TCP_OPEN || !tcp_conn_head(c, f))
		return false;
	memset(c->out + c->out_n, 0, f.len);
	memcpy(c->out + c->out_n, reply, sizeof(*reply));
	c->out_n += f.len;
	if (c->agent->serving != c)
		tcp_conn_flush(c);
	return true;
}

static void
tcp_conn_hang_up(struct endpoint_peer *p)
{
	tcp_conn_close(tcp_conn_of(p));
}

static int
tcp_conn_stop(struct endpoint_peer *p, const struct endpoint_peer *asker)
{
	struct tcp_conn *c = tcp_conn_of(p);
	struct tcp_agent *a = c->agent;

	p->session = 0;
	if (a->log)
		fprintf(a->log,
			"farside node: cut off %s: a client that was silent past its lease\n",
			c->name);
	if (c->state == TCP_DEAD)
		a->dead_n++; /* it stayed for this */
	else
		tcp_conn_bye(c, -FAR_EFENCED);
	return 0;
}

static const struct endpoint_transport tcp_transport = {
	.reply = tcp_conn_reply,
	.hang_up = tcp_conn_hang_up,
	.stop = tcp_conn_stop,
};

/* Frames ------------------------------------------------------------------------------------------------------- */

/* Answers a chain's frame; the body of the answer is at `exec.answer`. */
static void
tcp_conn_answer(struct tcp_conn *c)
{
	struct tcp_frame f = {
		.seq = c->frame.seq,
		.kind = TCP_CHAIN,
		.len = c->exec.answer_len,
		.ops_n = (uint16_t)c->exec.done,
		.err = c->exec.err,
	};

	c->chain_err = c->exec.err;
	/* There is room: nothing began before that was sure. */
	FAR_ASSERT(tcp_conn_head(c, f));
	if (c->exec.answer != c->out + c->out_n && f.len > 0)
		memmove(c->out + c->out_n, c->exec.answer, f.len);
	c->out_n += f.len;
}

/* A frame of operations. */
static void
tcp_conn_chain(struct tcp_conn *c, const uint8_t *body, uint32_t answer_len)
{
	struct tcp_agent *a = c->agent;
	uint8_t *to = c->out + c->out_n + sizeof(struct tcp_frame);

	FAR_ASSERT(TCP_BUFFER - c->out_n >= sizeof(struct tcp_frame) + answer_len);
	if (!(c->frame.flags & TCP_CONTINUES))
		c->chain_err = 0;
	if (c->chain_err != 0) {
		c->exec = (struct tcp_exec){ .err = c->chain_err };
		tcp_conn_answer(c);
		return;
	}
	tcp_exec_begin(&c->exec, body, c->frame.ops_n, a->weak ? c->scratch : to);
	if (a->weak) {
		c->running = true;
		a->running_n++;
		return;
	}
	tcp_exec_run(&c->exec, &a->words);
	tcp_conn_answer(c);
}

/* Opens the client's own way to the region; false: no room to say so. */
static bool
tcp_conn_attach(struct tcp_conn *c, const uint8_t *body)
{
	const struct tcp_attach *attach = c->agent->attach;
	struct tcp_frame f = { .seq = c->frame.seq, .kind = TCP_ATTACH };
	struct tcp_attach_answer answer = { .len = 0 };

	f.err = attach->take(attach->arg, body, c->frame.used, &answer);
	c->way = answer.way;
	f.used = (uint32_t)answer.len;
	f.len = (uint32_t)far_align(answer.len, 8);
	if (!tcp_conn_head(c, f))
		return false;
	memcpy(c->out + c->out_n, answer.data, f.len);
	c->out_n += f.len;
	return true;
}

/* Whether the head is one that may come now, and how long its answer may get. 0 or -FAR_E. */
static int
tcp_conn_check(const struct tcp_conn *c, const uint8_t *body, uint32_t *answer_len)
{
	const struct tcp_frame *f = &c->frame;

	*answer_len = 0;
	if (f->err != 0 || (f->flags & ~TCP_CONTINUES) != 0)
		return -FAR_EINVAL;
	if (f->kind == (c->agent->attach ? TCP_CHAIN : TCP_ATTACH))
		return -FAR_ENOTSUP;
	switch (f->kind) {
	case TCP_ATTACH:
		*answer_len = TCP_ATTACH_MAX;
		return f->used > TCP_ATTACH_MAX || f->ops_n != 0 || f->flags != 0 || c->way
			       ? -FAR_EINVAL
			       : 0;
	case TCP_CHAIN:
		return f->used != 0 ? -FAR_EINVAL
				    : tcp_exec_check(body, f->len, f->ops_n, answer_len);
	case TCP_CALL:
		*answer_len = sizeof(struct control_reply);
		return f->used > TCP_CALL_MAX || f->ops_n != 0 || f->flags != 0 ? -FAR_EINVAL : 0;
	case TCP_PING:
		return f->len != 0 || f->ops_n != 0 || f->flags != 0 ? -FAR_EINVAL : 0;
	default:
		return -FAR_ENOTSUP;
	}
}

/* Serves a frame that has arrived. */
static void
tcp_conn_serve(struct tcp_conn *c, const uint8_t *body, uint32_t answer_len)
{
	bool fine = true;

	switch (c->frame.kind) {
	case TCP_CHAIN:
		tcp_conn_chain(c, body, answer_len);
		break;
	case TCP_ATTACH:
		fine = tcp_conn_attach(c, body);
		break;
	case TCP_CALL:
		fine = endpoint_request(&c->peer, c->frame.seq, body, c->frame.used);
		break;
	default:
		fine = tcp_conn_head(c,
				     (struct tcp_frame){ .seq = c->frame.seq, .kind = TCP_PING });
		break;
	}
	if (!fine)
		tcp_conn_close(c);
}

/* Takes the next frame. False: there is none, or no room for its answer, or the connection has ended. */
static bool
tcp_conn_next(struct tcp_conn *c)
{
	const uint8_t *at = c->in + c->in_at;
	uint32_t n = c->in_n - c->in_at, answer_len;
	int err;

	if (c->state != TCP_OPEN || c->running || n < sizeof(c->frame))
		return false;
	memcpy(&c->frame, at, sizeof(c->frame));
	if (!tcp_frame_fits(&c->frame) || c->frame.seq != c->seq + 1) {
		tcp_conn_bye(c, -FAR_EFORMAT);
		return false;
	}
	if (n - sizeof(c->frame) < c->frame.len)
		return false;
	at += sizeof(c->frame);
	if ((err = tcp_conn_check(c, at, &answer_len)) != 0) {
		tcp_conn_bye(c, err);
		return false;
	}
	if (tcp_conn_room(c) < sizeof(c->frame) + answer_len + TCP_ANSWERS)
		tcp_conn_flush(c);
	if (c->state != TCP_OPEN ||
	    tcp_conn_room(c) < sizeof(c->frame) + answer_len + TCP_ANSWERS)
		return false;
	c->seq++;
	c->in_at += (uint32_t)sizeof(c->frame) + c->frame.len;
	c->begun = c->agent->now;
	tcp_conn_serve(c, at, answer_len);
	return true;
}

/* Handshake ---------------------------------------------------------------------------------------------------- */

static void
tcp_conn_open(struct tcp_conn *c)
{
	c->agent->strangers_n--;
	c->state = TCP_OPEN;
	c->begun = c->agent->now;
}

/* 0, or why this client is not taken. */
static int
tcp_conn_judge(const struct tcp_conn *c, const uint64_t pool_id[2])
{
	const struct tcp_hello *h = &c->hello;

	if (h->magic != TCP_MAGIC || h->version != TCP_VERSION || h->flags != 0)
		return -FAR_EFORMAT;
	if ((h->pool_id[0] || h->pool_id[1]) && (pool_id[0] || pool_id[1]) &&
	    (h->pool_id[0] != pool_id[0] || h->pool_id[1] != pool_id[1]))
		return -FAR_EINVAL;
	if (c->agent->conns_n - c->agent->strangers_n >= TCP_CONNS_MAX)
		return -FAR_EAGAIN;
	return 0;
}

/* Answers the hello. */
static void
tcp_conn_greet(struct tcp_conn *c)
{
	struct tcp_agent *a = c->agent;
	struct tcp_welcome w = { .magic = TCP_MAGIC, .version = TCP_VERSION };
	unsigned nodes_n;

	endpoint_pool(a->endpoint, w.pool_id, &nodes_n);
	w.err = tcp_conn_judge(c, w.pool_id);
	if (w.err == 0)
		w.err = endpoint_admit(a->endpoint);
	w.region_len = a->words.len;
	w.verbs = a->attach ? 0 : (1 << FAR_OP_CALL) - 1;
	w.flags = (a->key.len > 0 ? TCP_KEYED : 0) | (a->attach ? TCP_ATTACHED : 0);
	w.caps = a->attach ? a->attach->caps : a->weak ? 0
						       : FAR_CAP_ATOMIC_GLOBAL;
	if (!tcp_nonce_fill(w.nonce) ||
	    (a->key.len > 0 && !tcp_agent_prove(&a->key, &c->hello, &w, w.mac)))
		w.err = -FAR_ENOMEM;
	c->welcome = w;
	memcpy(c->out + c->out_n, &w, sizeof(w));
	c->out_n += (uint32_t)sizeof(w);
	tcp_conn_flush(c);
	if (c->state == TCP_DEAD || w.err != 0)
		tcp_conn_close(c);
	else if (a->key.len > 0)
		c->state = TCP_PROVING;
	else
		tcp_conn_open(c);
}

/* Takes the next step of the handshake; false: it has not arrived yet. */
static bool
tcp_conn_shake(struct tcp_conn *c)
{
	const uint8_t *at = c->in + c->in_at;
	uint32_t n = c->in_n - c->in_at;
	struct tcp_proof theirs, right;

	if (c->state == TCP_STRANGER) {
		/* Who speaks another protocol is not waited for. */
		if (n >= 8 && memcmp(at, &(uint64_t){ TCP_MAGIC }, 8) != 0)
			tcp_conn_close(c);
		if (n < sizeof(c->hello) || c->state == TCP_DEAD)
			return false;
		memcpy(&c->hello, at, sizeof(c->hello));
		c->in_at += (uint32_t)sizeof(c->hello);
		tcp_conn_greet(c);
		return true;
	}
	if (n < sizeof(theirs))
		return false;
	memcpy(&theirs, at, sizeof(theirs));
	c->in_at += (uint32_t)sizeof(theirs);
	if (tcp_client_prove(&c->agent->key, &c->hello, &c->welcome, right.mac) &&
	    tcp_mac_equal(theirs.mac, right.mac)) {
		tcp_conn_open(c);
		return true;
	}
	c->agent->strangers_n--;
	c->state = TCP_OPEN;
	tcp_conn_bye(c, -FAR_EACCESS);
	return true;
}

/* Sockets ------------------------------------------------------------------------------------------------------ */

/* Watches what matters now. */
static void
tcp_conn_watch(struct tcp_conn *c)
{
	bool full = c->in_n == TCP_BUFFER, waits = c->out_at < c->out_n;
	uint32_t want = (full || c->running ? 0 : EPOLLIN) | (waits ? EPOLLOUT : 0);

	if (c->state != TCP_DEAD && want != c->watched)
		event_change(&c->on_socket, c->watched = want);
}

/* Serves what has arrived, as far as answers have room. */
static void
tcp_conn_work(struct tcp_conn *c)
{
	struct tcp_agent *a = c->agent;

	a->serving = c;
	while (tcp_conn_is_stranger(c) && tcp_conn_shake(c))
		;
	for (unsigned n = 1; tcp_conn_next(c); n++) {
		a->worked = a->now;
		a->hot = c;
		/* Of very many, the client works on the first answers while the others are on their way. */
		if (n % TCP_EARLY == 0)
			tcp_conn_flush(c);
	}
	a->serving = NULL;
	tcp_conn_flush(c);
	if (!c->running && c->state == TCP_OPEN) {
		/* What is left is the start of a frame, or waits for room. */
		memmove(c->in, c->in + c->in_at, c->in_n - c->in_at);
		c->in_n -= c->in_at;
		c->in_at = 0;
	}
	tcp_conn_watch(c);
}

static void
tcp_conn_receive(struct tcp_conn *c)
{
	ssize_t n = recv(c->sock, c->in + c->in_n, TCP_BUFFER - c->in_n, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		tcp_conn_close(c);
		return;
	}
	if (n < 0)
		return;
	if (c->state == TCP_LEAVING)
		return;
	/* A frame begins, or the rest of one is late already. */
	if (c->in_n == 0 && c->state == TCP_OPEN)
		c->begun = c->agent->now;
	c->in_n += (uint32_t)n;
}

void
tcp_conn_ready(struct tcp_conn *c, uint32_t what)
{
	c->agent->now = far_clock_real.now(far_clock_real.arg);
	if (what & EPOLLOUT)
		tcp_conn_flush(c);
	if (what & (EPOLLIN | EPOLLHUP | EPOLLERR) && c->state != TCP_DEAD &&
	    c->in_n < TCP_BUFFER && !c->running)
		tcp_conn_receive(c);
	if (c->state != TCP_DEAD)
		tcp_conn_work(c);
}

void
tcp_agent_step(struct tcp_agent *a)
{
	uint64_t skip = far_rng_below(&a->rng, a->running_n);
	struct tcp_conn *c = a->conns;

	while (!c->running || skip-- > 0)
		c = c->next;
	if (!tcp_exec_weakly(&c->exec, &a->words, &a->rng,
			     1 + (unsigned)far_rng_below(&a->rng, TCP_WEAK_WORDS)))
		return;
	c->running = false;
	a->running_n--;
	tcp_conn_answer(c);
	tcp_conn_work(c);
}

struct tcp_conn *
tcp_conn_new(struct tcp_agent *a, int sock)
{
	struct tcp_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->in = malloc(TCP_BUFFER);
	c->out = malloc(TCP_BUFFER);
	c->scratch = a->weak ? malloc(TCP_BUFFER) : NULL;
	if (!c->in || !c->out || (a->weak && !c->scratch)) {
		free(c->in);
		free(c->out);
		free(c->scratch);
		free(c);
		return NULL;
	}
	c->agent = a;
	c->sock = sock;
	c->begun = c->taken = a->now;
	c->next = a->conns;
	c->link = &a->conns;
	if (c->next)
		c->next->link = &c->next;
	a->conns = c;
	a->conns_n++;
	a->strangers_n++;
	endpoint_add(a->endpoint, &c->peer, &tcp_transport);
	return c;
}
