/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_agent_impl.h -- what the files of the agent share: tcp_agent.c listens and keeps time, tcp_conn.c serves. */
#ifndef FAR_FABRIC_TCP_AGENT_IMPL_H
#define FAR_FABRIC_TCP_AGENT_IMPL_H

#include "fabric/endpoint.h"
#include "fabric/tcp_agent.h"
#include "fabric/tcp_exec.h"

enum {
	TCP_CONNS_MAX = 4096,
	TCP_STRANGERS_MAX = 128,
	TCP_BUFFER = 112 << 10, /* of what arrives, and of answers: more than a frame, and no mapping of its own */
};

enum tcp_state {
	TCP_STRANGER, /* waits for its hello */
	TCP_PROVING,  /* waits for its proof */
	TCP_OPEN,
	TCP_LEAVING,  /* TCP_BYE is on its way; what arrives is thrown away */
	TCP_DEAD,     /* closed */
};

struct tcp_conn {
	struct endpoint_peer peer;
	struct tcp_agent *agent;
	enum tcp_state state;
	int sock;
	struct event on_socket;
	uint32_t watched; /* what of it */
	uint64_t begun;   /* when it came, or the present frame began; or when it began to leave */
	uint64_t taken;   /* when it last took answers, or when they began to wait */
	uint64_t seq;     /* of the last frame */
	int chain_err;    /* of the present chain, when it continues */
	bool running;     /* `exec` has begun and not ended; only in weak execution */
	struct tcp_frame frame; /* that one's head */
	struct tcp_exec exec;
	uint8_t *in, *out; /* TCP_BUFFER bytes each */
	uint8_t *scratch;  /* the same for the answer of a weak execution, or NULL */
	uint32_t in_at, in_n, out_at, out_n;
	struct tcp_hello hello;
	struct tcp_welcome welcome;
	void *way; /* of agent->attach, or NULL */
	char name[64];
	struct tcp_conn *next, **link;
};

struct tcp_agent {
	struct event_loop *loop;
	struct endpoint *endpoint;
	struct words words;
	struct tcp_key key;
	const struct tcp_attach *attach; /* or NULL */
	FILE *log;
	int sock;
	struct event on_connect; /* not watched: no file descriptor is left */
	char uri[320];
	uint64_t now, spin_ns, worked, swept;
	struct far_rng rng; /* of weak execution */
	bool weak;
	unsigned conns_n, strangers_n, dead_n, running_n;
	struct tcp_conn *conns;
	struct tcp_conn *serving; /* flushes by itself in the end */
	struct tcp_conn *hot;     /* the last one that asked for something, or NULL */
};

/* Serves a connected socket; it is the agent's from here on, also when it cannot be served. `name` is for the log. */
void tcp_agent_adopt(struct tcp_agent *a, int sock, const char *name);

/* A new connection, which nobody watches yet; NULL: no memory. `sock` becomes the connection's. */
struct tcp_conn *tcp_conn_new(struct tcp_agent *a, int sock);

/* The socket is ready. */
void tcp_conn_ready(struct tcp_conn *c, uint32_t what);

/* Closes the socket. The next tcp_agent_turn() does the rest. */
void tcp_conn_close(struct tcp_conn *c);

/* Of a dead connection: it is freed, or it stays for the sake of its session. */
void tcp_conn_bury(struct tcp_conn *c);
void tcp_conn_free(struct tcp_conn *c);

static inline bool
tcp_conn_is_stranger(const struct tcp_conn *c)
{
	return c->state == TCP_STRANGER || c->state == TCP_PROVING;
}

/* Weak execution: some words of one of the frames that are being executed. */
void tcp_agent_step(struct tcp_agent *a);

#endif
