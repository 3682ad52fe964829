/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_link.c -- a client's connection to the agent of one memory node (protocol: tcp_wire.h).
 *
 * Chains become frames in the order in which they were posted, and frames are answered in theirs. So the answers need
 * no directory: the first frame sent is the next to be answered, and `got` walks the operations of its chain as `put`
 * did.
 * Calls are answered at any time, and found by their number.
 *
 * A connection that broke stays broken (G4). What was handed to the system may or may not have happened; what still lay
 * in the buffer did not.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/tcp.h"

/* A call may wait for the end of a process on the node. Pings tell that the node lives meanwhile. */
#define TCP_CALL_NS ((uint64_t)30 * 1000 * 1000 * 1000)

/* Connecting ----------------------------------------------------------------------------------------------- */

/* Sockets live in real time, whatever clock the loop goes by. */
static int
tcp_link_left_ms(uint64_t deadline)
{
	uint64_t now = far_clock_real.now(far_clock_real.arg);

	return deadline > now ? (int)far_min((deadline - now + 999999) / 1000000, INT32_MAX) : 0;
}

static int
tcp_link_await(int sock, short what, uint64_t deadline)
{
	struct pollfd pfd = { .fd = sock, .events = what };
	int n;

	do
		n = poll(&pfd, 1, tcp_link_left_ms(deadline));
	while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : -FAR_ENODE;
}

static int
tcp_link_error(int err)
{
	return err == ENOMEM || err == EMFILE || err == ENFILE || err == ENOBUFS ? -FAR_ENOMEM
										 : -FAR_ENODE;
}

/* A connected socket, or -FAR_E. */
static int
tcp_link_dial_one(const struct addrinfo *ai, uint64_t deadline)
{
	int sock = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = 0, failed = 0, one = 1;
	socklen_t len = sizeof(failed);

	if (sock < 0)
		return tcp_link_error(errno);
	if (connect(sock, ai->ai_addr, ai->ai_addrlen) != 0 && errno != EINPROGRESS &&
	    errno != EINTR)
		err = tcp_link_error(errno);
	if (!err)
		err = tcp_link_await(sock, POLLOUT, deadline);
	if (!err && (getsockopt(sock, SOL_SOCKET, SO_ERROR, &failed, &len) != 0 || failed != 0))
		err = tcp_link_error(failed);
	if (err) {
		close(sock);
		return err;
	}
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return sock;
}

/* Tries all addresses of the host. */
static int
tcp_link_dial(const struct tcp_place *place, uint64_t deadline)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	int sock = -FAR_ENODE;

	if (getaddrinfo(place->host, place->port, &hints, &found) != 0)
		return -FAR_ENODE;
	for (struct addrinfo *ai = found; ai && sock < 0; ai = ai->ai_next)
		sock = tcp_link_dial_one(ai, deadline);
	freeaddrinfo(found);
	return sock;
}

/* Sends all of it: little enough for an empty socket buffer. */
static int
tcp_link_say(int sock, const void *data, size_t len)
{
	return send(sock, data, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -FAR_ENODE;
}

static int
tcp_link_hear(int sock, void *data, size_t len, uint64_t deadline)
{
	uint8_t *at = data;

	while (len > 0) {
		int err = tcp_link_await(sock, POLLIN, deadline);
		ssize_t n;

		if (err)
			return err;
		n = recv(sock, at, len, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return -FAR_ENODE;
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int
tcp_link_known_error(int32_t err)
{
	return err < 0 && err >= -FAR_EAGAIN ? err : -FAR_EFORMAT;
}

/* What the agent says of itself, checked. */
static int
tcp_link_judge(struct tcp_link *k, const struct tcp_key *key, const struct tcp_hello *h,
	       const struct tcp_welcome *w)
{
	const uint64_t verbs = k->attaches ? 0 : (1 << FAR_OP_CALL) - 1;
	uint8_t right[TCP_MAC];

	if (w->magic != TCP_MAGIC || w->version != TCP_VERSION)
		return -FAR_EFORMAT;
	if (w->err != 0)
		return tcp_link_known_error(w->err);
	/* A node of another transport. */
	if (((w->flags & TCP_ATTACHED) != 0) != k->attaches)
		return -FAR_EINVAL;
	/* One side has a key, the other one has none. */
	if (((w->flags & TCP_KEYED) != 0) != (key->len > 0))
		return -FAR_EACCESS;
	if (key->len > 0 &&
	    (!tcp_agent_prove(key, h, w, right) || !tcp_mac_equal(right, w->mac)))
		return -FAR_EACCESS;
	if (w->region_len == 0 || w->region_len % 8 != 0 || w->region_len >> 48 != 0 ||
	    (w->verbs & verbs) != verbs)
		return -FAR_EFORMAT;
	k->region_len = w->region_len;
	k->caps = w->caps & FAR_CAP_ATOMIC_GLOBAL;
	k->pool_id[0] = w->pool_id[0];
	k->pool_id[1] = w->pool_id[1];
	return 0;
}

/* Hello, welcome, proof; and a ping, whose answer says that the proof was right. */
static int
tcp_link_shake(struct tcp_link *k, const struct tcp_key *key, uint64_t deadline)
{
	struct tcp_hello h = { .magic = TCP_MAGIC, .version = TCP_VERSION };
	struct tcp_frame ping = { .seq = ++k->seq, .kind = TCP_PING }, pong;
	struct tcp_welcome w;
	struct tcp_proof proof;
	int err;

	h.pool_id[0] = k->pool_id[0];
	h.pool_id[1] = k->pool_id[1];
	if (!tcp_nonce_fill(h.nonce))
		return -FAR_ENOMEM;
	if ((err = tcp_link_say(k->sock, &h, sizeof(h))) != 0 ||
	    (err = tcp_link_hear(k->sock, &w, sizeof(w), deadline)) != 0 ||
	    (err = tcp_link_judge(k, key, &h, &w)) != 0)
		return err;
	if (key->len > 0) {
		if (!tcp_client_prove(key, &h, &w, proof.mac))
			return -FAR_ENOMEM;
		if ((err = tcp_link_say(k->sock, &proof, sizeof(proof))) != 0)
			return err;
	}
	ping.sum = tcp_frame_sum(&ping);
	if ((err = tcp_link_say(k->sock, &ping, sizeof(ping))) != 0 ||
	    (err = tcp_link_hear(k->sock, &pong, sizeof(pong), deadline)) != 0)
		return err;
	if (!tcp_frame_fits(&pong) || (pong.kind == TCP_PING && pong.seq != ping.seq))
		return -FAR_EFORMAT;
	return pong.kind == TCP_PING ? 0 : tcp_link_known_error(pong.err);
}

int
tcp_link_init(struct tcp_link *k)
{
	k->sock = -1;
	k->waiting.last = &k->waiting.first;
	k->out = malloc(TCP_LINK_BUFFER);
	k->in = malloc(TCP_LINK_BUFFER);
	return k->out && k->in ? 0 : -FAR_ENOMEM;
}

int
tcp_link_open(struct tcp_link *k, const struct tcp_place *place, const struct tcp_key *key)
{
	uint64_t deadline = far_clock_real.now(far_clock_real.arg) + k->timeout_ns;
	int err = tcp_link_init(k);

	if (!err && (k->sock = tcp_link_dial(place, deadline)) < 0)
		err = k->sock;
	if (!err)
		err = tcp_link_shake(k, key, deadline);
	if (err)
		tcp_link_close(k);
	return err;
}

int
tcp_link_attach(struct tcp_link *k, const void *ask, void *answer, uint32_t len)
{
	uint64_t deadline = far_clock_real.now(far_clock_real.arg) + k->timeout_ns;
	struct {
		struct tcp_frame head;
		uint8_t body[TCP_ATTACH_MAX];
	} m = { .head = { .seq = ++k->seq, .kind = TCP_ATTACH, .used = len } };
	int err;

	FAR_ASSERT(len <= TCP_ATTACH_MAX);
	m.head.len = (uint32_t)far_align(len, 8);
	m.head.sum = tcp_frame_sum(&m.head);
	memcpy(m.body, ask, len);
	if ((err = tcp_link_say(k->sock, &m, sizeof(m.head) + m.head.len)) != 0 ||
	    (err = tcp_link_hear(k->sock, &m.head, sizeof(m.head), deadline)) != 0)
		return err;
	if (!tcp_frame_fits(&m.head) || m.head.len > TCP_ATTACH_MAX)
		return -FAR_EFORMAT;
	if (m.head.err != 0)
		return tcp_link_known_error(m.head.err);
	if (m.head.kind != TCP_ATTACH || m.head.seq != k->seq || m.head.used != len)
		return -FAR_EFORMAT;
	err = tcp_link_hear(k->sock, m.body, m.head.len, deadline);
	memcpy(answer, m.body, len);
	return err;
}

void
tcp_link_close(struct tcp_link *k)
{
	if (k->sock >= 0)
		close(k->sock);
	k->sock = -1;
	free(k->out);
	free(k->in);
	k->out = k->in = NULL;
}

/* The end of a connection ------------------------------------------------------------------------------------ */

/* A chain some of which may have been sent. */
static void
tcp_link_lose(struct far_chain *c, bool sent, int err)
{
	if (sent)
		c->status = -FAR_EUNSURE;
	else if (c->status != -FAR_EUNSURE)
		c->status = err;
}

/* Everything in flight comes back; `err` for what comes later. */
void
tcp_link_die(struct tcp_link *k, int err, struct far_chain_list *done)
{
	struct far_chain *c;

	k->err = err;
	for (; k->sent_n > 0; k->sent_n--, k->sent_at++) {
		const struct tcp_sent *s = &k->sent[k->sent_at % TCP_LINK_FRAMES];

		tcp_link_lose(s->chain, s->start < k->pushed || k->got.op, err);
		k->got.op = NULL;
		if (s->last)
			far_chain_list_add(done, s->chain);
	}
	for (int i = 0; i < TCP_LINK_CALLS; i++) {
		if (!k->calls[i].chain)
			continue;
		tcp_link_lose(k->calls[i].chain, true, err);
		far_chain_list_add(done, k->calls[i].chain);
		k->calls[i].chain = NULL;
	}
	k->calls_n = 0;
	while ((c = far_chain_list_take(&k->waiting)) != NULL) {
		tcp_link_lose(c, k->put.op != NULL, err);
		k->put.op = NULL;
		far_chain_list_add(done, c);
	}
	shutdown(k->sock, SHUT_RDWR);
}

/* Putting chains into frames ---------------------------------------------------------------------------------- */

/* A READ or WRITE that takes several frames must fail as a whole: the target would notice only at its end. */
static void
tcp_link_check_long(const struct tcp_link *k, struct far_chain *c)
{
	const struct far_op *op = c->first;

	for (uint32_t i = 0; i < c->cut; i++, op = op->next) {
		uint64_t off = far_addr_off(op->addr);

		if (op->len <= TCP_BODY_MAX / 2 || op->code == FAR_OP_CALL)
			continue;
		if ((off | op->len) % 8 == 0 && off <= k->region_len &&
		    op->len <= k->region_len - off)
			continue;
		c->cut = i;
		c->status = -FAR_EACCESS;
	}
}

void
tcp_link_post(struct tcp_link *k, struct far_chain *c, struct far_chain_list *done)
{
	if (k->err != 0)
		c->status = k->err;
	else if (c->first->code == FAR_OP_CALL && c->first->len > TCP_CALL_MAX)
		c->status = -FAR_EINVAL;
	else {
		tcp_link_check_long(k, c);
		if (c->cut > 0) {
			far_chain_list_add(&k->waiting, c);
			return;
		}
	}
	far_chain_list_add(done, c);
}

/* Begins a frame at the buffer's end; its body follows. */
static struct tcp_frame *
tcp_link_frame(struct tcp_link *k, enum tcp_kind kind)
{
	struct tcp_frame *f = (struct tcp_frame *)(k->out + k->out_n);

	*f = (struct tcp_frame){ .seq = ++k->seq, .kind = (uint8_t)kind };
	k->out_n += (uint32_t)sizeof(*f);
	return f;
}

/* Appends bytes and pads them. */
static void
tcp_link_append(struct tcp_link *k, const void *data, uint32_t len)
{
	memcpy(k->out + k->out_n, data, len);
	memset(k->out + k->out_n + len, 0, far_align(len, 8) - len);
	k->out_n += (uint32_t)far_align(len, 8);
}

static void
tcp_link_end_frame(struct tcp_link *k, struct tcp_frame *f)
{
	f->len = (uint32_t)(k->out + k->out_n - (uint8_t *)(f + 1));
	f->sum = tcp_frame_sum(f);
}

static void
tcp_link_put_op(struct tcp_link *k, const struct tcp_cursor *at, uint32_t len)
{
	const struct far_op *op = at->op;
	struct tcp_op *wire = (struct tcp_op *)(k->out + k->out_n);

	*wire = (struct tcp_op){
		.code = op->code,
		.flags = at->off == 0 ? op->flags : 0,
		.len = len,
		.off = far_addr_off(op->addr) + at->off,
	};
	k->out_n += (uint32_t)sizeof(*wire);
	if (op->code == FAR_OP_WRITE)
		tcp_link_append(k, (const uint8_t *)op->buf + at->off, len);
	else if (op->code == FAR_OP_CAS)
		tcp_link_append(k, (uint64_t[]){ op->expect, op->desired }, 16);
	else if (op->code == FAR_OP_FAA)
		tcp_link_append(k, &op->addend, 8);
}

/* One frame of the first chain that waits. True: that was its last. */
static bool
tcp_link_put_chain(struct tcp_link *k, struct far_chain *c)
{
	struct tcp_sent *s = &k->sent[(k->sent_at + k->sent_n++) % TCP_LINK_FRAMES];
	struct tcp_room room = tcp_room_new();
	struct tcp_frame *f;
	uint32_t len;

	s->start = k->pushed + (k->out_n - k->out_at);
	f = tcp_link_frame(k, TCP_CHAIN);
	if (k->put.op)
		f->flags = TCP_CONTINUES;
	else
		k->put = (struct tcp_cursor){ c->first, c->cut, 0 };
	while (tcp_piece_take(&k->put, &room, &len)) {
		tcp_link_put_op(k, &k->put, len);
		tcp_cursor_move(&k->put, len);
		f->ops_n++;
	}
	tcp_link_end_frame(k, f);
	s->chain = c;
	s->seq = f->seq;
	s->last = k->put.left == 0;
	if (s->last)
		k->put.op = NULL;
	return s->last;
}

static void
tcp_link_put_call(struct tcp_link *k, struct far_chain *c)
{
	struct tcp_frame *f = tcp_link_frame(k, TCP_CALL);
	int place = 0;

	tcp_link_append(k, c->first->buf, c->first->len);
	f->used = c->first->len;
	tcp_link_end_frame(k, f);
	while (k->calls[place].chain)
		place++;
	k->calls[place].chain = c;
	k->calls[place].seq = f->seq;
	k->calls[place].start_ns = 0;
	k->calls_n++;
}

/* Puts what waits into the buffer, as far as it has room. */
static void
tcp_link_put(struct tcp_link *k)
{
	struct far_chain *c;
	bool last = true;

	while ((c = k->waiting.first) && TCP_LINK_BUFFER - k->out_n >= TCP_FRAME_MAX) {
		if (c->first->code == FAR_OP_CALL) {
			if (k->calls_n == TCP_LINK_CALLS)
				return;
			tcp_link_put_call(k, c);
		} else {
			if (k->sent_n == TCP_LINK_FRAMES)
				return;
			last = tcp_link_put_chain(k, c);
		}
		if (last)
			far_chain_list_take(&k->waiting);
		last = true;
	}
}

/* Fills the buffer and empties it into the socket until one of them has no room. False: the connection broke. */
static bool
tcp_link_push(struct tcp_link *k)
{
	ssize_t n;

	for (;;) {
		tcp_link_put(k);
		if (k->out_at == k->out_n)
			return true;
		n = send(k->sock, k->out + k->out_at, k->out_n - k->out_at,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		k->pushed += (uint64_t)n;
		k->out_at += (uint32_t)n;
		if (k->out_at == k->out_n)
			k->out_at = k->out_n = 0;
		if (!k->waiting.first)
			return true;
	}
}

/* Taking answers ----------------------------------------------------------------------------------------------- */

/* Takes the results of one frame of a chain; false: they are not what was asked for. */
static bool
tcp_link_take_results(struct tcp_link *k, const struct tcp_frame *f, const uint8_t *body)
{
	struct tcp_room room = tcp_room_new();
	uint32_t left = f->len, len, ops_n = 0;

	while (ops_n < f->ops_n && tcp_piece_take(&k->got, &room, &len)) {
		const struct far_op *op = k->got.op;
		uint32_t in = tcp_op_in(op->code, len);

		if (in > left)
			return false;
		if (in > 0)
			memcpy((uint8_t *)op->buf + k->got.off, body, far_min(len, in));
		body += in;
		left -= in;
		ops_n++;
		tcp_cursor_move(&k->got, len);
	}
	if (ops_n != f->ops_n || left != 0)
		return false;
	/* All that the frame had: it is as full as it was sent. */
	return f->err != 0 || !tcp_piece_take(&k->got, &room, &len);
}

static bool
tcp_link_take_chain(struct tcp_link *k, const struct tcp_frame *f, const uint8_t *body,
		    struct far_chain_list *done)
{
	struct tcp_sent *s = &k->sent[k->sent_at % TCP_LINK_FRAMES];
	struct far_chain *c = s->chain;

	if (k->sent_n == 0 || f->seq != s->seq)
		return false;
	if (!k->got.op)
		k->got = (struct tcp_cursor){ c->first, c->cut, 0 };
	/* Where the chain has failed, nothing comes any more. */
	if (k->got.left > 0 && !tcp_link_take_results(k, f, body))
		return false;
	if (f->err != 0) {
		c->status = tcp_link_known_error(f->err);
		k->got.left = 0;
	}
	if (s->last) {
		k->got.op = NULL;
		far_chain_list_add(done, c);
	}
	k->sent_at++;
	k->sent_n--;
	return true;
}

static bool
tcp_link_take_call(struct tcp_link *k, const struct tcp_frame *f, const uint8_t *body,
		   struct far_chain_list *done)
{
	struct far_chain *c = NULL;
	struct far_op *op;

	for (int i = 0; i < TCP_LINK_CALLS && !c; i++) {
		if (!k->calls[i].chain || k->calls[i].seq != f->seq)
			continue;
		c = k->calls[i].chain;
		k->calls[i].chain = NULL;
		k->calls_n--;
	}
	if (!c)
		return false;
	op = c->first;
	/* A fault hook may have set the status: then the request took effect and its answer is lost. */
	if (c->status == 0 && f->used > op->reply_max)
		c->status = -FAR_ECORRUPT;
	if (c->status == 0) {
		memcpy(op->reply, body, f->used);
		op->reply_max = f->used;
	}
	far_chain_list_add(done, c);
	return true;
}

/* One frame; -FAR_E: the connection is over. */
static int
tcp_link_take(struct tcp_link *k, const struct tcp_frame *f, const uint8_t *body,
	      struct far_chain_list *done)
{
	switch (f->kind) {
	case TCP_CHAIN:
		return tcp_link_take_chain(k, f, body, done) ? 0 : -FAR_ENODE;
	case TCP_CALL:
		return tcp_link_take_call(k, f, body, done) ? 0 : -FAR_ENODE;
	case TCP_PING:
		k->asked = false;
		return 0;
	case TCP_BYE:
		return f->err == -FAR_EFENCED ? -FAR_EFENCED : -FAR_ENODE;
	default:
		return -FAR_ENODE;
	}
}

/* Takes the frames that have arrived whole. */
static int
tcp_link_take_all(struct tcp_link *k, struct far_chain_list *done)
{
	struct tcp_frame f;
	int err = 0;

	while (!err && k->in_n - k->in_at >= sizeof(f)) {
		memcpy(&f, k->in + k->in_at, sizeof(f));
		if (!tcp_frame_fits(&f))
			return -FAR_ENODE;
		if (k->in_n - k->in_at - sizeof(f) < f.len)
			break;
		err = tcp_link_take(k, &f, k->in + k->in_at + sizeof(f), done);
		k->in_at += (uint32_t)sizeof(f) + f.len;
	}
	if (k->in_at == k->in_n)
		k->in_at = k->in_n = 0;
	/* Room for a whole frame, at a place that is a multiple of 8. */
	if (TCP_LINK_BUFFER - k->in_at < TCP_FRAME_MAX) {
		memmove(k->in, k->in + k->in_at, k->in_n - k->in_at);
		k->in_n -= k->in_at;
		k->in_at = 0;
	}
	return err;
}

bool
tcp_link_move(struct tcp_link *k, struct far_chain_list *done)
{
	ssize_t n;
	int err;

	if (k->err != 0)
		return false;
	if (!tcp_link_push(k)) {
		/* It may still have said why. */
		n = recv(k->sock, k->in + k->in_n, TCP_LINK_BUFFER - k->in_n, MSG_DONTWAIT);
		if (n > 0)
			k->in_n += (uint32_t)n;
		err = tcp_link_take_all(k, done);
		tcp_link_die(k, err ? err : -FAR_ENODE, done);
		return true;
	}
	n = recv(k->sock, k->in + k->in_n, TCP_LINK_BUFFER - k->in_n, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n > 0) {
		k->in_n += (uint32_t)n;
		k->heard_ns = 0;
		err = tcp_link_take_all(k, done);
	} else {
		err = -FAR_ENODE;
	}
	if (err)
		tcp_link_die(k, err, done);
	return true;
}

/* Silence ------------------------------------------------------------------------------------------------------ */

static void
tcp_link_ask(struct tcp_link *k)
{
	struct tcp_frame *f;

	/* What is in the buffer asks as well. */
	if (k->out_n > 0)
		return;
	f = tcp_link_frame(k, TCP_PING);
	tcp_link_end_frame(k, f);
	k->asked = true;
}

void
tcp_link_look(struct tcp_link *k, uint64_t now, struct far_chain_list *done)
{
	/* Silence counts from when something was in flight and this process was there to listen. */
	bool away = now - k->looked_ns > k->timeout_ns / 2;

	k->looked_ns = now;
	if (k->err != 0)
		return;
	if (k->heard_ns == 0 || away || !tcp_link_is_busy(k)) {
		k->heard_ns = now;
		return;
	}
	for (int i = 0; i < TCP_LINK_CALLS && k->calls_n > 0; i++) {
		if (!k->calls[i].chain)
			continue;
		if (k->calls[i].start_ns == 0)
			k->calls[i].start_ns = now;
		if (now - k->calls[i].start_ns > TCP_CALL_NS) {
			tcp_link_die(k, -FAR_ENODE, done);
			return;
		}
	}
	if (now - k->heard_ns > k->timeout_ns)
		tcp_link_die(k, -FAR_ENODE, done);
	else if (now - k->heard_ns > k->timeout_ns / 4 && !k->asked)
		tcp_link_ask(k);
}
