/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_agent.h -- a memory node's clients on other machines: an agent that executes their chains (tcp_wire.h).
 *
 * It trusts nobody. Nothing of a frame is executed before all of it has arrived and was checked; no length from the
 * wire sizes an allocation; whoever does not finish a handshake, a frame or the taking of answers in time is cut off,
 * and so is the oldest of too many strangers.
 */
#ifndef FAR_FABRIC_TCP_AGENT_H
#define FAR_FABRIC_TCP_AGENT_H

#include "fabric/event.h"
#include "fabric/shm_region.h"
#include "fabric/tcp_key.h"
#include "fabric/tcp_uri.h"

struct endpoint;
struct tcp_agent;

struct tcp_attach_answer {
	uint8_t data[TCP_ATTACH_MAX];
	size_t len;
	void *way; /* for drop() */
};

/* Another way to the region than chains over TCP: clients that asked for it reach the region by themselves. */
struct tcp_attach {
	/* Opens it for a client that sent `len` bytes. 0, or -FAR_E for the client, and then nothing is left of it. */
	int (*take)(void *arg, const void *ask, size_t len, struct tcp_attach_answer *answer);
	/* Closes it: when this returns, the client can touch nothing any more. */
	void (*drop)(void *arg, void *way);
	void *arg;
	unsigned caps; /* enum far_caps */
};

struct tcp_agent_opts {
	struct event_loop *loop;
	struct endpoint *endpoint;
	void *base; /* the region; these three outlive the agent */
	uint64_t len;
	const char *uri;   /* tcp://HOST:PORT[?key=FILE]; port 0: any that is free. With `attach`: verbs://... */
	const struct tcp_attach *attach; /* outlives the agent; NULL: the agent executes chains */
	unsigned spin_us;  /* how long it goes on polling after the last request, before it sleeps */
	uint64_t weakness; /* 0, or a seed: executes chains word by word in a drawn order, one connection's beside
	                    * another's */
	FILE *log;         /* as in struct shm_node_opts */
};

/* Parses a URI that an agent could listen at. -FAR_EINVAL and `why`. */
int tcp_agent_parse(const char *uri, struct tcp_uri *out, struct shm_why *why);

/* Listens, and serves whoever connects in `loop`. An address that is not of this machine alone needs a key. On error
 * *out is untouched and `why` tells more: -FAR_EINVAL, -FAR_EACCESS, -FAR_EEXIST, -FAR_EIO, -FAR_ENOMEM. */
int tcp_agent_open(const struct tcp_agent_opts *opts, struct tcp_agent **out, struct shm_why *why);

/* Closes all connections. NULL is fine. */
void tcp_agent_close(struct tcp_agent *a);

/* Where it listens: "tcp://HOST:PORT", or "verbs://...", with the port that it got. Valid until tcp_agent_close(). */
const char *tcp_agent_uri(const struct tcp_agent *a);

/* The agent's part in the loop: for how many milliseconds the next event_turn() may wait (-1: for ever), and what is to
 * be done after each. NULL is fine. */
int tcp_agent_wait(const struct tcp_agent *a);
void tcp_agent_turn(struct tcp_agent *a);

#endif
