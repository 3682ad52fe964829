/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h -- a memory node's control endpoint behind any transport: which connection has which session, what its
 * end means, and who waits for a FENCE.
 *
 * A transport makes a peer for each connection, hands it the requests that arrive, and says when the client behind it
 * can no longer touch the region. When is that?
 *
 *	shared memory   when the process has ended: a mapping outlives its socket
 *	a network       when the node serves the connection no more. But the client may have connections to other nodes
 *	                of the pool, and nobody may take its memory over before all of them are closed. So the session
 *	                of a connection that was lost goes on, silent, until somebody fences it; then each node closes
 *	                what is left and says so
 *
 * A connection that was lost is never taken up again: what was in flight on it has an unknown outcome, and may have
 * none before the session has ended (G4). A client comes back with a new session.
 */
#ifndef FAR_FABRIC_ENDPOINT_H
#define FAR_FABRIC_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct control_reply;
struct endpoint;
struct endpoint_peer;

struct endpoint_transport {
	/* Sends the answer to the request that came with `tag`. Never frees the peer. False: the connection is broken,
	 * and hang_up() comes next. */
	bool (*reply)(struct endpoint_peer *p, uint64_t tag, const struct control_reply *reply);
	/* The connection is of no use any more. May free the peer. */
	void (*hang_up)(struct endpoint_peer *p);
	/* Cuts the client off for good, as `asker` wants; never frees the peer. 0: it can touch nothing any more;
	 * -FAR_EAGAIN: under way, endpoint_ended() will be called; -FAR_EACCESS, -FAR_EINVAL: not possible. */
	int (*stop)(struct endpoint_peer *p, const struct endpoint_peer *asker);
	/* Notes for a later life of the node who this is. NULL: the node's end is the end of all its connections. */
	void (*who)(const struct endpoint_peer *p, uint64_t note[2]);
};

enum { ENDPOINT_PARKED_MAX = 4 }; /* FENCE requests of one connection that wait */

/* A client's connection; part of what the transport keeps of it. */
struct endpoint_peer {
	const struct endpoint_transport *transport;
	struct endpoint *endpoint;
	uint64_t session; /* serial, 0 = none */
	struct {
		uint64_t tag, victim; /* victim 0: unused */
	} parked[ENDPOINT_PARKED_MAX];
	struct endpoint_peer *next, **link;
};

struct endpoint_opts {
	void *base; /* the region, formatted */
	uint64_t len;
	/* For each session that a former life of the node left, with the note of who(): makes sure that its client is
	 * gone. Non-zero stops the opening and is returned. NULL: they all are. */
	int (*left)(void *arg, uint64_t serial, const uint64_t note[2]);
	void *left_arg;
	/* 0 when new clients may come, or -FAR_E: why not. NULL: they may. */
	int (*admit)(void *arg);
	void *admit_arg;
	/* Memory is about to be handed out. NULL: nothing to do. */
	void (*granted)(void *arg, uint64_t off, uint64_t len);
	void *granted_arg;
};

/* -FAR_E as node_open(), or what left() returned. On error *out is untouched. */
int endpoint_open(const struct endpoint_opts *opts, struct endpoint **out);
/* The region keeps its sessions. No peer is left. NULL is fine. */
void endpoint_close(struct endpoint *e);

/* For node_format() and for the node: 64 random bits of the system. */
uint64_t endpoint_random(void *arg);

/* The identity of the pool that the node belongs to; zero before a first client forms it. */
void endpoint_pool(const struct endpoint *e, uint64_t id[2], unsigned *nodes_n);

/* 0, or why a transport has to refuse a new connection: to be asked for each, and to be told to the client. */
int endpoint_admit(const struct endpoint *e);

/* Takes in a connection; the rest of *p is zero. */
void endpoint_add(struct endpoint *e, struct endpoint_peer *p, const struct endpoint_transport *transport);
/* Forgets a peer: it has no session, or endpoint_ended() follows. */
void endpoint_remove(struct endpoint_peer *p);

/*
 * Serves a request of `len` bytes; the answer comes through reply(), at once or later. False: it could not be sent, the
 * caller hangs up. Frees no peer but others' whose connection turned out to be broken.
 */
bool endpoint_request(struct endpoint_peer *p, uint64_t tag, const void *request, size_t len);

/* Nobody can be answered on this connection any more; its session goes on. */
void endpoint_detach(struct endpoint_peer *p);

/* The client of `session` can no longer touch the region: the session ends, and who fenced it is told. 0 is ignored. */
void endpoint_ended(struct endpoint *e, uint64_t session);

#endif
