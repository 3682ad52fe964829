/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c -- memory nodes behind TCP: chains are frames, executed by the agent of a node (tcp_agent.h).
 *
 * post() only queues. poll() puts what all fibers have posted into frames and sends it at once, one system call per
 * node, then takes the answers that have arrived. When nothing runs, idle() goes on polling for as long as answers
 * usually take, if that is not long, and then sleeps.
 */
#include "fabric/tcp.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "fiber/task.h"

enum {
	TCP_NEAR_NS = 100 * 1000, /* an answer that takes longer is not polled for */
	TCP_WAKE_NS = 10 * 1000,  /* about what it costs to fall asleep and to wake up */
	TCP_SLEEP_NS = 5 * 1000 * 1000, /* at once, at most */
	TCP_LOOK_TICKS = 4096,   /* polls without any sleep between two looks at the clock */
};
/* A node that is silent for so long while something is in flight is given up. */
#define TCP_TIMEOUT_NS ((uint64_t)5 * 1000 * 1000 * 1000)

struct tcp {
	struct far_fabric base;
	struct far_chain_list done;
	bool moved;           /* poll() has looked at the links since it last returned NULL */
	unsigned ticks;
	uint64_t quiet_since; /* 0: something arrived since the last idle() */
	uint64_t answer_ns;   /* how long nothing arrives, usually */
	struct tcp_link *links[FAR_NODES_MAX];
};

static int
tcp_post(struct far_fabric *f, struct far_chain *c)
{
	struct tcp *s = FAR_CONTAINER(f, struct tcp, base);

	tcp_link_post(s->links[c->node], c, &s->done);
	return 0;
}

static void
tcp_look(struct tcp *s, uint64_t now)
{
	for (unsigned i = 0; i < s->base.nodes_n; i++)
		tcp_link_look(s->links[i], now, &s->done);
}

/* Something arrived. */
static void
tcp_heard(struct tcp *s)
{
	if (s->quiet_since == 0)
		return;
	s->answer_ns = (s->answer_ns * 7 + far_loop_now(s->base.loop) - s->quiet_since) / 8;
	s->quiet_since = 0;
}

static struct far_chain *
tcp_poll(struct far_fabric *f)
{
	struct tcp *s = FAR_CONTAINER(f, struct tcp, base);

	if (!s->done.first && !s->moved) {
		s->moved = true;
		for (unsigned i = 0; i < f->nodes_n; i++) {
			if (tcp_link_is_busy(s->links[i]) && tcp_link_move(s->links[i], &s->done))
				tcp_heard(s);
		}
		if (++s->ticks % TCP_LOOK_TICKS == 0)
			tcp_look(s, far_loop_now(f->loop));
	}
	if (!s->done.first) {
		s->moved = false;
		return NULL;
	}
	return far_chain_list_take(&s->done);
}

/* Sleeps until something arrives or can be sent, or a task's time has come: very many clients that share few processors
 * with a node must not wake up in vain all the time. */
static void
tcp_sleep(struct tcp *s, uint64_t now)
{
	uint64_t due = fiber_due(s->base.loop);
	struct timespec timeout = { 0, 0 };
	struct pollfd pfd[FAR_NODES_MAX];
	nfds_t n = 0;

	for (unsigned i = 0; i < s->base.nodes_n; i++) {
		const struct tcp_link *k = s->links[i];

		if (k->err == 0 && tcp_link_is_busy(k))
			pfd[n++] = (struct pollfd){
				.fd = k->sock,
				.events = (short)(POLLIN | (k->out_at < k->out_n ? POLLOUT : 0)),
			};
	}
	timeout.tv_nsec = due > now ? (long)far_min(due - now, TCP_SLEEP_NS) : 0;
	if (n > 0)
		ppoll(pfd, n, &timeout, NULL);
}

static void
tcp_idle(struct far_fabric *f)
{
	struct tcp *s = FAR_CONTAINER(f, struct tcp, base);
	uint64_t now = far_loop_now(f->loop), spin = TCP_WAKE_NS;

	if (f->in_flight == 0)
		return;
	if (s->quiet_since == 0)
		s->quiet_since = now;
	if (s->answer_ns < TCP_NEAR_NS)
		spin += 2 * s->answer_ns;
	if (now - s->quiet_since < spin)
		return;
	tcp_sleep(s, now);
	tcp_look(s, far_loop_now(f->loop));
}

static void
tcp_close(struct far_fabric *f)
{
	struct tcp *s = FAR_CONTAINER(f, struct tcp, base);

	for (unsigned i = 0; i < f->nodes_n; i++) {
		tcp_link_close(s->links[i]);
		free(s->links[i]);
	}
	free(s);
}

/* Connects to one node more. Whether they belong together is for the pool to say, which knows how to explain it. */
static int
tcp_open_link(struct tcp *s, const struct tcp_place *place, const struct tcp_key *key,
	      uint64_t timeout_ns)
{
	struct tcp_link *k = calloc(1, sizeof(*k));
	unsigned n = s->base.nodes_n;
	int err;

	if (!k)
		return -FAR_ENOMEM;
	k->timeout_ns = timeout_ns;
	if ((err = tcp_link_open(k, place, key)) != 0) {
		free(k);
		return err;
	}
	s->base.region_len[n] = k->region_len;
	s->base.caps = n == 0 ? k->caps : s->base.caps & k->caps;
	s->links[s->base.nodes_n++] = k;
	return 0;
}

static int
tcp_open_links(struct tcp *s, const struct tcp_uri *uri, uint64_t timeout_ns)
{
	struct tcp_key key = { .len = 0 };
	char why[200];
	int err = 0;

	if (uri->key[0] != '\0')
		err = tcp_key_read(uri->key, &key, why, sizeof(why));
	for (unsigned i = 0; i < uri->nodes_n && !err; i++)
		err = tcp_open_link(s, &uri->nodes[i], &key, timeout_ns);
	tcp_key_wipe(&key);
	return err;
}

static int
tcp_fabric_open(const char *spec, struct far_loop *l, const struct far_fabric_opts *opts,
		struct far_fabric **out)
{
	uint64_t timeout_ns = opts && opts->timeout_ns ? opts->timeout_ns : TCP_TIMEOUT_NS;
	struct tcp_uri *uri = malloc(sizeof(*uri));
	struct tcp *s = calloc(1, sizeof(*s));
	char why[200];
	int err = uri && s ? 0 : -FAR_ENOMEM;

	if (!err)
		err = tcp_uri_parse(spec, false, uri, why, sizeof(why));
	if (!err) {
		s->done.last = &s->done.first;
		err = tcp_open_links(s, uri, timeout_ns);
	}
	free(uri);
	if (err) {
		if (s)
			tcp_close(&s->base);
		return err;
	}
	far_fabric_init(&s->base, &tcp_fabric_ops, l, opts);
	*out = &s->base;
	return 0;
}

const struct far_fabric_ops tcp_fabric_ops = {
	.name = "tcp",
	.open = tcp_fabric_open,
	.close = tcp_close,
	.post = tcp_post,
	.poll = tcp_poll,
	.idle = tcp_idle,
};
