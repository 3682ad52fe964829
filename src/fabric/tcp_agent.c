/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_agent.c -- listens for clients on other machines, and cuts off who takes too long.
 */

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <farside/error.h>
#include <farside/fiber.h>

#include "fabric/tcp_agent_impl.h"
#include "fabric/tcp_uri.h"

enum {
	TCP_ACCEPT_BURST = 16,
	TCP_BACKLOG = 128,
	TCP_ALIVE_S = 30,     /* silence until the system asks whether a client lives */
	TCP_POLLS = 16,       /* of one socket between two looks at all of them */
	TCP_SWEEP_MS = 250,   /* between two looks at the clocks of connections */
	TCP_WEAK_TURNS = 64,  /* steps of weak execution between two looks at the sockets */
};

/* Limits of time, in milliseconds. */
enum {
	TCP_HANDSHAKE_MS = 2000,
	TCP_FRAME_MS = 5000,  /* from a frame's first byte to its last */
	TCP_STUCK_MS = 10000, /* nobody takes answers */
	TCP_LINGER_MS = 1000, /* from TCP_BYE on */
};

#define TCP_MS UINT64_C(1000000)

/* Connections ------------------------------------------------------------------------------------------------ */

static void
tcp_agent_accepting(struct tcp_agent *a, bool on)
{
	if (on && !a->on_connect.loop)
		event_add(a->loop, &a->on_connect, a->sock, EPOLLIN);
	else if (!on)
		event_remove(&a->on_connect);
}

/* The one that has been a stranger for longest is cut off. */
static void
tcp_agent_drop_stranger(struct tcp_agent *a)
{
	struct tcp_conn *oldest = NULL;

	for (struct tcp_conn *c = a->conns; c; c = c->next) {
		if (tcp_conn_is_stranger(c))
			oldest = c; /* the list begins with the youngest */
	}
	if (oldest)
		tcp_conn_close(oldest);
}

static void
tcp_on_socket(struct event *event, uint32_t what)
{
	tcp_conn_ready(FAR_CONTAINER(event, struct tcp_conn, on_socket), what);
}

void
tcp_agent_adopt(struct tcp_agent *a, int sock, const char *name)
{
	struct tcp_conn *c;

	if (a->strangers_n >= TCP_STRANGERS_MAX)
		tcp_agent_drop_stranger(a);
	c = tcp_conn_new(a, sock);
	if (!c) {
		close(sock);
		return;
	}
	c->on_socket.ready = tcp_on_socket;
	c->watched = EPOLLIN;
	snprintf(c->name, sizeof(c->name), "%s", name);
	if (event_add(a->loop, &c->on_socket, sock, c->watched) != 0)
		tcp_conn_close(c);
}

/* A client may have nothing to ask for as long as it likes, if only its machine lives. */
static void
tcp_agent_tune(int sock)
{
	int one = 1, idle = TCP_ALIVE_S, every = TCP_ALIVE_S / 6, n = 3;

	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(sock, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof(every));
	setsockopt(sock, IPPROTO_TCP, TCP_KEEPCNT, &n, sizeof(n));
	setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static void
tcp_agent_add(struct tcp_agent *a, int sock, const struct sockaddr *addr, socklen_t addr_len)
{
	char host[40] = "?", port[8] = "?", name[64];

	tcp_agent_tune(sock);
	getnameinfo(addr, addr_len, host, sizeof(host), port, sizeof(port),
		    NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(name, sizeof(name), "%s port %s", host, port);
	tcp_agent_adopt(a, sock, name);
}

static void
tcp_on_connect(struct event *event, uint32_t what)
{
	struct tcp_agent *a = FAR_CONTAINER(event, struct tcp_agent, on_connect);

	a->now = far_clock_real.now(far_clock_real.arg);
	for (int i = 0; i < TCP_ACCEPT_BURST; i++) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr);
		int sock = accept4(a->sock, (struct sockaddr *)&addr, &len,
				   SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (sock < 0) {
			/* Out of descriptors or memory: the next sweep tries again. */
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
			    errno == ENOMEM)
				tcp_agent_accepting(a, false);
			return;
		}
		tcp_agent_add(a, sock, (struct sockaddr *)&addr, len);
	}
}

/* Time --------------------------------------------------------------------------------------------------------- */

static bool
tcp_conn_is_late(const struct tcp_conn *c, uint64_t now)
{
	uint64_t begun = now - c->begun, taken = now - c->taken;

	switch (c->state) {
	case TCP_STRANGER:
	case TCP_PROVING:
		return begun > TCP_HANDSHAKE_MS * TCP_MS;
	case TCP_LEAVING:
		return begun > TCP_LINGER_MS * TCP_MS;
	case TCP_OPEN:
		if (c->out_at < c->out_n)
			return taken > TCP_STUCK_MS * TCP_MS;
		return !c->running && c->in_at < c->in_n && begun > TCP_FRAME_MS * TCP_MS;
	case TCP_DEAD:
		break;
	}
	return false;
}

static void
tcp_agent_sweep(struct tcp_agent *a)
{
	a->swept = a->now;
	for (struct tcp_conn *c = a->conns; c; c = c->next) {
		if (tcp_conn_is_late(c, a->now))
			tcp_conn_close(c);
	}
	tcp_agent_accepting(a, true);
}

/* Frees the dead. Ending a session may make more of them. */
static void
tcp_agent_bury(struct tcp_agent *a)
{
	struct tcp_conn *next;

	while (a->dead_n > 0) {
		a->dead_n = 0;
		for (struct tcp_conn *c = a->conns; c; c = next) {
			next = c->next;
			if (c->state == TCP_DEAD)
				tcp_conn_bury(c);
		}
	}
}

static bool
tcp_agent_spins(const struct tcp_agent *a)
{
	return a->spin_ns > 0 && a->now - a->worked < a->spin_ns;
}

/* While the agent polls, asking the busiest socket itself saves asking epoll for all of them each time. */
static void
tcp_agent_poll(struct tcp_agent *a)
{
	for (int i = 0; i < TCP_POLLS && a->hot && tcp_agent_spins(a); i++)
		tcp_conn_ready(a->hot, EPOLLIN);
}

int
tcp_agent_wait(const struct tcp_agent *a)
{
	if (!a)
		return -1;
	if (a->running_n > 0 || tcp_agent_spins(a))
		return 0;
	return a->conns_n > 0 || !a->on_connect.loop ? TCP_SWEEP_MS : -1;
}

void
tcp_agent_turn(struct tcp_agent *a)
{
	if (!a)
		return;
	a->now = far_clock_real.now(far_clock_real.arg);
	for (int i = 0; i < TCP_WEAK_TURNS && a->running_n > 0; i++)
		tcp_agent_step(a);
	tcp_agent_poll(a);
	if (a->now - a->swept >= TCP_SWEEP_MS * TCP_MS)
		tcp_agent_sweep(a);
	tcp_agent_bury(a);
}

/* Start and end -------------------------------------------------------------------------------------------------- */

const char *
tcp_agent_uri(const struct tcp_agent *a)
{
	return a->uri;
}

int
tcp_agent_parse(const char *uri, struct tcp_uri *out, struct shm_why *why)
{
	bool rdma = strncmp(uri, "verbs:", 6) == 0;
	char text[200];

	if (!rdma && strncmp(uri, "tcp:", 4) != 0)
		return shm_why(why, -FAR_EINVAL,
			       "'%s' is not of the form tcp://HOST:PORT or verbs://HOST:PORT", uri);
	if (tcp_uri_parse(strchr(uri, ':') + 1, rdma, out, text, sizeof(text)) != 0)
		return shm_why(why, -FAR_EINVAL, "'%s': %s", uri, text);
	if (out->nodes_n != 1)
		return shm_why(why, -FAR_EINVAL, "'%s': a node listens at one address", uri);
	return 0;
}

/* Reachable from this machine only? */
static bool
tcp_is_loopback(const struct sockaddr *addr)
{
	static const uint8_t six[16] = { [15] = 1 };

	if (addr->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == 127;
	return addr->sa_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)addr)->sin6_addr, six, 16) == 0;
}

/* The port that it got, into a->uri. */
static void
tcp_agent_name(struct tcp_agent *a, const char *host)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	unsigned port = 0;

	if (getsockname(a->sock, (struct sockaddr *)&addr, &len) == 0)
		port = ntohs(addr.ss_family == AF_INET ? ((struct sockaddr_in *)&addr)->sin_port
						       : ((struct sockaddr_in6 *)&addr)->sin6_port);
	snprintf(a->uri, sizeof(a->uri), strchr(host, ':') ? "%s://[%s]:%u" : "%s://%s:%u",
		 a->attach ? "verbs" : "tcp", host, port);
}

static int
tcp_agent_bind(struct tcp_agent *a, const struct tcp_place *place, const struct addrinfo *ai,
	       struct shm_why *why)
{
	int one = 1;

	if (a->key.len == 0 && !tcp_is_loopback(ai->ai_addr))
		return shm_why(
			why, -FAR_EACCESS,
			"%s: others than this machine could connect: that needs a key (?key=FILE)",
			place->host);
	a->sock = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (a->sock < 0)
		return shm_why(why, -FAR_EIO, "socket: %s", strerror(errno));
	/* A node that was killed leaves connections behind that still end; they do not keep its port. */
	setsockopt(a->sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(a->sock, ai->ai_addr, ai->ai_addrlen) != 0 || listen(a->sock, TCP_BACKLOG) != 0)
		return shm_why(why, errno == EADDRINUSE ? -FAR_EEXIST : -FAR_EIO, "%s port %s: %s",
			       place->host, place->port, strerror(errno));
	tcp_agent_name(a, place->host);
	return 0;
}

static int
tcp_agent_listen(struct tcp_agent *a, const char *uri, struct shm_why *why)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found;
	struct tcp_uri parsed;
	int err;

	if ((err = tcp_agent_parse(uri, &parsed, why)) != 0)
		return err;
	if (parsed.key[0] != '\0' &&
	    (err = tcp_key_read(parsed.key, &a->key, why->text, sizeof(why->text))) != 0)
		return err;
	err = getaddrinfo(parsed.nodes[0].host, parsed.nodes[0].port, &hints, &found);
	if (err != 0)
		return shm_why(why, -FAR_EIO, "%s: %s", parsed.nodes[0].host, gai_strerror(err));
	err = tcp_agent_bind(a, &parsed.nodes[0], found, why);
	freeaddrinfo(found);
	return err;
}

int
tcp_agent_open(const struct tcp_agent_opts *opts, struct tcp_agent **out, struct shm_why *why)
{
	struct tcp_agent *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return shm_why(why, -FAR_ENOMEM, "out of memory");
	a->loop = opts->loop;
	a->endpoint = opts->endpoint;
	a->words = (struct words){ opts->base, opts->len, false, 0 };
	a->log = opts->log;
	a->sock = -1;
	a->spin_ns = (uint64_t)opts->spin_us * 1000;
	a->attach = opts->attach;
	a->weak = opts->weakness != 0;
	far_rng_seed(&a->rng, opts->weakness);
	a->now = a->swept = far_clock_real.now(far_clock_real.arg);
	a->on_connect.ready = tcp_on_connect;
	event_files_max();
	err = tcp_agent_listen(a, opts->uri, why);
	if (err == 0 && (err = event_add(a->loop, &a->on_connect, a->sock, EPOLLIN)) != 0)
		shm_why(why, err, "epoll: %s", strerror(errno));
	if (err) {
		tcp_agent_close(a);
		return err;
	}
	*out = a;
	return 0;
}

void
tcp_agent_close(struct tcp_agent *a)
{
	if (!a)
		return;
	event_remove(&a->on_connect);
	if (a->sock >= 0)
		close(a->sock);
	while (a->conns) {
		tcp_conn_close(a->conns);
		tcp_conn_free(a->conns);
	}
	tcp_key_wipe(&a->key);
	free(a);
}
