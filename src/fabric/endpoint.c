/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c -- sessions of connections. */
#include "fabric/endpoint.h"

#include <string.h>
#include <sys/random.h>

#include <farside/error.h>

#include "base/base.h"
#include "pool/node.h"

struct endpoint {
	struct node *node;
	struct endpoint_peer *peers;
	struct endpoint_peer *serving; /* whose request is being served */
	int (*admit)(void *arg);
	void *admit_arg;
	void (*granted)(void *arg, uint64_t off, uint64_t len);
	void *granted_arg;
};

/* Surroundings of the node ---------------------------------------------------------------------------------- */

uint64_t
endpoint_random(void *arg)
{
	uint64_t word;

	(void)arg;
	/* Never short for 8 bytes; the system has no other failure once it is up. */
	FAR_ASSERT(getrandom(&word, sizeof(word), 0) == (ssize_t)sizeof(word));
	return word;
}

static void
endpoint_who(void *arg, uint64_t note[2])
{
	const struct endpoint *e = arg;

	if (e->serving->transport->who)
		e->serving->transport->who(e->serving, note);
}

static int
endpoint_stop(void *arg, uint64_t serial)
{
	struct endpoint *e = arg;

	for (struct endpoint_peer *p = e->peers; p; p = p->next) {
		if (p->session == serial)
			return p->transport->stop(p, e->serving);
	}
	return -FAR_EACCESS;
}

int
endpoint_open(const struct endpoint_opts *opts, struct endpoint **out)
{
	struct endpoint *e = calloc(1, sizeof(*e));
	struct node_env env = {
		.stop = endpoint_stop, .who = endpoint_who, .random = endpoint_random, .arg = e
	};
	int err = e ? 0 : -FAR_ENOMEM;

	if (!err && opts->left)
		err = node_left(opts->base, opts->len, opts->left, opts->left_arg);
	if (!err)
		err = node_open(opts->base, opts->len, &env, &e->node);
	if (err) {
		free(e);
		return err;
	}
	e->admit = opts->admit;
	e->admit_arg = opts->admit_arg;
	e->granted = opts->granted;
	e->granted_arg = opts->granted_arg;
	*out = e;
	return 0;
}

int
endpoint_admit(const struct endpoint *e)
{
	return e->admit ? e->admit(e->admit_arg) : 0;
}

void
endpoint_close(struct endpoint *e)
{
	if (!e)
		return;
	FAR_ASSERT(!e->peers);
	node_close(e->node);
	free(e);
}

void
endpoint_pool(const struct endpoint *e, uint64_t id[2], unsigned *nodes_n)
{
	const struct pool_super *s = node_identity(e->node);

	id[0] = s->pool_id[0];
	id[1] = s->pool_id[1];
	*nodes_n = s->nodes_n;
}

/* Peers ----------------------------------------------------------------------------------------------------- */

void
endpoint_add(struct endpoint *e, struct endpoint_peer *p,
	     const struct endpoint_transport *transport)
{
	p->transport = transport;
	p->endpoint = e;
	p->next = e->peers;
	p->link = &e->peers;
	if (p->next)
		p->next->link = &p->next;
	e->peers = p;
}

void
endpoint_remove(struct endpoint_peer *p)
{
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
}

void
endpoint_detach(struct endpoint_peer *p)
{
	memset(p->parked, 0, sizeof(p->parked));
}

/* FENCE that waits ------------------------------------------------------------------------------------------ */

static bool
endpoint_park(struct endpoint_peer *p, uint64_t tag, uint64_t victim)
{
	struct control_reply full = { .err = -FAR_EAGAIN };

	for (int i = 0; i < ENDPOINT_PARKED_MAX; i++) {
		if (p->parked[i].victim == 0) {
			p->parked[i].victim = victim;
			p->parked[i].tag = tag;
			return true;
		}
	}
	return p->transport->reply(p, tag, &full);
}

/* Answers what `p` waits for of `victim`; false: it does not take its answers. */
static bool
endpoint_unpark(struct endpoint_peer *p, uint64_t victim)
{
	struct control_reply done = { .err = 0 };
	bool fine = true;

	for (int i = 0; i < ENDPOINT_PARKED_MAX; i++) {
		if (p->parked[i].victim != victim)
			continue;
		p->parked[i].victim = 0;
		fine = fine && p->transport->reply(p, p->parked[i].tag, &done);
	}
	return fine;
}

/* Answers everybody who fenced `victim`. */
static void
endpoint_answer_fence(struct endpoint *e, uint64_t victim)
{
	struct endpoint_peer *next;

	for (struct endpoint_peer *p = e->peers; p; p = next) {
		next = p->next;
		if (!endpoint_unpark(p, victim))
			p->transport->hang_up(p);
	}
}

void
endpoint_ended(struct endpoint *e, uint64_t session)
{
	if (session == 0)
		return;
	node_stopped(e->node, session);
	endpoint_answer_fence(e, session);
}

/* Requests -------------------------------------------------------------------------------------------------- */

bool
endpoint_request(struct endpoint_peer *p, uint64_t tag, const void *request, size_t len)
{
	struct control_reply reply = { .err = -FAR_EINVAL };
	struct endpoint *e = p->endpoint;
	struct control_request req;
	uint64_t left = p->session;
	bool fine;

	if (len != sizeof(req))
		return p->transport->reply(p, tag, &reply);
	memcpy(&req, request, sizeof(req));
	e->serving = p;
	if (!node_serve(e->node, &p->session, &req, &reply))
		return endpoint_park(p, tag, req.serial);
	/* Before the client touches it: memory in use would have to be copied. */
	if (req.code == CONTROL_GRANT && reply.err == 0 && e->granted)
		e->granted(e->granted_arg, reply.off, (uint64_t)reply.run * POOL_PAGE);
	fine = p->transport->reply(p, tag, &reply);
	/* Nobody can wait here for the end of its own session, so `p` stays. */
	if (left != 0 && p->session == 0)
		endpoint_answer_fence(e, left);
	return fine;
}
