/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs.c -- memory nodes behind RDMA devices: chains are work requests that the node's device executes (verbs_link.c).
 *
 * Each connection, so each thread, has a device context, a protection domain, and per node a queue pair and a
 * completion queue of its own. post() only queues. poll() links what all fibers have posted to a node and rings one
 * doorbell for it, then takes completions. When nothing runs, idle() goes on polling for a while, then arms the
 * completion queues and sleeps.
 */
#include "fabric/verbs.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/base.h"
#include "fabric/verbs_link.h"

enum {
	VERBS_SPIN_NS = 20 * 1000,    /* polled before the first sleep */
	VERBS_LOOK_TICKS = 64,        /* polls between two looks at the clock */
	VERBS_LOOK_NS = 1000 * 1000,  /* between two looks at the control connections */
	VERBS_HUGE = 2 << 20,
};
/* A node that does not answer for so long is given up; the queue pair itself gives up earlier. */
#define VERBS_TIMEOUT_NS ((uint64_t)5 * 1000 * 1000 * 1000)

struct verbs {
	struct far_fabric base;
	struct verbs_device device; /* none: no node is connected yet */
	struct ibv_mr *mr;
	uint8_t *rings;
	size_t rings_len;
	struct far_chain_list done;
	bool moved; /* poll() has looked at the links since it last returned NULL */
	bool armed; /* the completion queues will wake a sleeper up */
	unsigned ticks;
	uint64_t looked, quiet_since; /* 0: something arrived since the last idle() */
	uint64_t timeout_ns;
	struct verbs_link *links[FAR_NODES_MAX];
};

static int
verbs_post(struct far_fabric *f, struct far_chain *c)
{
	struct verbs *s = FAR_CONTAINER(f, struct verbs, base);

	verbs_link_post(s->links[c->node], c, &s->done);
	return 0;
}

static void
verbs_look(struct verbs *s, uint64_t now)
{
	s->looked = now;
	for (unsigned i = 0; i < s->base.nodes_n; i++)
		verbs_link_look(s->links[i], now, &s->done);
}

static void
verbs_move(struct verbs *s)
{
	uint64_t now;

	s->moved = true;
	for (unsigned i = 0; i < s->base.nodes_n; i++) {
		if (verbs_link_is_busy(s->links[i]) && verbs_link_move(s->links[i], &s->done))
			s->quiet_since = 0;
	}
	if (++s->ticks % VERBS_LOOK_TICKS != 0)
		return;
	now = far_loop_now(s->base.loop);
	if (now - s->looked >= VERBS_LOOK_NS)
		verbs_look(s, now);
}

static struct far_chain *
verbs_poll(struct far_fabric *f)
{
	struct verbs *s = FAR_CONTAINER(f, struct verbs, base);

	if (!s->done.first && !s->moved)
		verbs_move(s);
	if (!s->done.first) {
		s->moved = false;
		return NULL;
	}
	return far_chain_list_take(&s->done);
}

/* Sleeping ---------------------------------------------------------------------------------------------------- */

/* What completes from now on makes the channel readable. */
static void
verbs_arm(struct verbs *s)
{
	for (unsigned i = 0; i < s->base.nodes_n; i++)
		ibv_req_notify_cq(s->links[i]->qp.cq, 0);
	s->armed = true;
}

static void
verbs_take_events(struct verbs *s)
{
	struct ibv_cq *cq;
	void *arg;

	while (s->device.lib.get_cq_event(s->device.channel, &cq, &arg) == 0) {
		s->device.lib.ack_cq_events(cq, 1);
		s->armed = false;
	}
}

static void
verbs_sleep(struct verbs *s)
{
	struct timespec timeout = { 0, FABRIC_IDLE_NS };
	struct pollfd pfd[FAR_NODES_MAX + 1];
	nfds_t n = 0;

	pfd[n++] = (struct pollfd){ .fd = s->device.channel->fd, .events = POLLIN };
	for (unsigned i = 0; i < s->base.nodes_n; i++) {
		if (s->links[i]->err == 0)
			pfd[n++] = (struct pollfd){ .fd = s->links[i]->control->sock,
						    .events = POLLIN };
	}
	ppoll(pfd, n, &timeout, NULL);
	if (pfd[0].revents)
		verbs_take_events(s);
}

static void
verbs_idle(struct far_fabric *f)
{
	struct verbs *s = FAR_CONTAINER(f, struct verbs, base);
	uint64_t now = far_loop_now(f->loop);

	if (f->in_flight == 0)
		return;
	if (s->quiet_since == 0)
		s->quiet_since = now;
	if (now - s->quiet_since < VERBS_SPIN_NS)
		return;
	/* Order: what completed before the arming wakes nobody up. The loop polls before it comes here again. */
	if (!s->armed) {
		verbs_arm(s);
		return;
	}
	verbs_sleep(s);
	now = far_loop_now(f->loop);
	if (now - s->looked >= VERBS_LOOK_NS)
		verbs_look(s, now);
}

/* Opening and closing ----------------------------------------------------------------------------------------- */

static void
verbs_close(struct far_fabric *f)
{
	struct verbs *s = FAR_CONTAINER(f, struct verbs, base);

	for (unsigned i = 0; i < f->nodes_n; i++) {
		verbs_link_close(s->links[i]);
		free(s->links[i]);
	}
	if (s->mr)
		FAR_ASSERT(s->device.lib.dereg_mr(s->mr) == 0);
	verbs_device_close(&s->device);
	if (s->rings)
		munmap(s->rings, s->rings_len);
	free(s);
}

/* Memory for the rings of `n` links, on huge pages when there are any. */
static int
verbs_rings(struct verbs *s, unsigned n, char *why)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
	size_t len = (size_t)n * VERBS_RING, huge = far_align(len, VERBS_HUGE);
	void *at = mmap(NULL, huge, prot, flags | MAP_HUGETLB, -1, 0);

	s->rings_len = at == MAP_FAILED ? len : huge;
	if (at == MAP_FAILED)
		at = mmap(NULL, len, prot, flags, -1, 0);
	if (at == MAP_FAILED)
		return -FAR_ENOMEM;
	s->rings = at;
	/* A fork would copy pinned pages at once, and fail where no huge page is left. */
	madvise(at, s->rings_len, MADV_DONTFORK);
	s->mr = verbs_device_register(&s->device, at, s->rings_len, IBV_ACCESS_LOCAL_WRITE, why);
	return s->mr ? 0 : -FAR_ENOMEM;
}

/* Opens the device that reaches the first node. */
static int
verbs_open_device(struct verbs *s, const struct tcp_link *control, const struct tcp_uri *uri,
		  char *why)
{
	struct verbs_want want = { .device = uri->device, .gid = uri->gid };
	struct sockaddr_storage local;
	socklen_t len = sizeof(local);
	int err;

	if (getsockname(control->sock, (struct sockaddr *)&local, &len) != 0)
		len = 0;
	err = verbs_device_open(&s->device, &want, (const struct sockaddr *)&local, len, why);
	if (!err)
		err = verbs_device_channel(&s->device, why);
	return err ? err : verbs_rings(s, uri->nodes_n, why);
}

/* Connects to the next node's control endpoint, and opens the device when it is the first. */
static int
verbs_open_control(struct verbs *s, struct tcp_link *control, const struct tcp_uri *uri,
		   const struct tcp_key *key, char *why)
{
	unsigned n = s->base.nodes_n;
	int err;

	control->timeout_ns = s->timeout_ns;
	control->attaches = true;
	/* The pool that the first one belongs to is that of all. */
	if (n > 0)
		memcpy(control->pool_id, s->links[0]->control->pool_id, sizeof(control->pool_id));
	err = tcp_link_open(control, &uri->nodes[n], key);
	if (!err && n == 0 && (err = verbs_open_device(s, control, uri, why)) != 0)
		tcp_link_close(control);
	return err;
}

/* Connects to one node more. */
static int
verbs_open_link(struct verbs *s, const struct tcp_uri *uri, const struct tcp_key *key, char *why)
{
	unsigned n = s->base.nodes_n;
	struct tcp_link *control = calloc(1, sizeof(*control));
	struct verbs_link *k = calloc(1, sizeof(*k));
	int err = control && k ? verbs_open_control(s, control, uri, key, why) : -FAR_ENOMEM;

	if (!err) {
		s->base.region_len[n] = control->region_len;
		s->base.caps = n == 0 ? control->caps : s->base.caps & control->caps;
		k->control = control;
		control = NULL;
		k->ring = s->rings + (size_t)n * VERBS_RING;
		k->lkey = s->mr->lkey;
		err = verbs_link_open(k, &s->device);
	}
	if (err) {
		free(control);
		free(k);
		return err;
	}
	s->links[s->base.nodes_n++] = k;
	return 0;
}

static int
verbs_open_links(struct verbs *s, const struct tcp_uri *uri, char *why)
{
	struct tcp_key key = { .len = 0 };
	int err = 0;

	if (uri->key[0] != '\0')
		err = tcp_key_read(uri->key, &key, why, VERBS_WHY);
	for (unsigned i = 0; i < uri->nodes_n && !err; i++)
		err = verbs_open_link(s, uri, &key, why);
	tcp_key_wipe(&key);
	return err;
}

static int
verbs_fabric_open(const char *spec, struct far_loop *l, const struct far_fabric_opts *opts,
		  struct far_fabric **out)
{
	struct tcp_uri *uri = malloc(sizeof(*uri));
	struct verbs *s = calloc(1, sizeof(*s));
	char unasked[VERBS_WHY], *why = opts && opts->errmsg ? opts->errmsg : unasked;
	int err = uri && s ? 0 : -FAR_ENOMEM;

	if (!err)
		err = tcp_uri_parse(spec, true, uri, why, VERBS_WHY);
	if (!err) {
		s->done.last = &s->done.first;
		s->timeout_ns = opts && opts->timeout_ns ? opts->timeout_ns : VERBS_TIMEOUT_NS;
		err = verbs_open_links(s, uri, why);
	}
	free(uri);
	if (err) {
		if (s)
			verbs_close(&s->base);
		return err;
	}
	far_fabric_init(&s->base, &verbs_fabric_ops, l, opts);
	*out = &s->base;
	return 0;
}

const struct far_fabric_ops verbs_fabric_ops = {
	.name = "verbs",
	.open = verbs_fabric_open,
	.close = verbs_close,
	.post = verbs_post,
	.poll = verbs_poll,
	.idle = verbs_idle,
};
