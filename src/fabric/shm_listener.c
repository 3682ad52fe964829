/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_listener.c -- clients on this machine: the Unix socket at which they get the region, and their processes.
 *
 * What ends what:
 *
 *	client sends LEAVE         its session ends at once; it promises not to touch the region any more. The library
 *	                           does so in every close, also after errors
 *	client's process ends      its session is freed, its chunks become dirty orphans
 *	connection is closed       nothing: without LEAVE nobody promised anything, and the process may still write
 *	                           through its mapping. Its session goes on without a connection ("detached") until the
 *	                           process ends or somebody fences it, which kills the process: by then it has been
 *	                           silent for a lease
 *	FENCE                      the process is killed; the answer waits until its pidfd tells the end
 *
 * Before an ended process counts as such, what it had sent is served: a clean LEAVE may be among it.
 */
#include "fabric/shm_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/endpoint.h"
#include "fabric/shm_process.h"
#include "fabric/shm_wire.h"
#include "pool/control.h"

enum {
	SHM_CONNS_MAX = 1024,
	SHM_DRAIN_MAX = 1024, /* packets served for a process that has ended */
	SHM_FDS_SPARE = 64,   /* file descriptors for everything but connections */
	SHM_BACKLOG = 128,
};

/* A client's connection, and its process as long as that may touch the region. */
struct shm_conn {
	struct endpoint_peer peer;
	struct shm_listener *listener;
	int sock; /* -1: closed, or detached */
	struct shm_process process;
	bool killed;
	struct event on_socket, on_process;
	struct shm_conn *next, **link;
};

struct shm_listener {
	struct event_loop *loop;
	struct endpoint *endpoint;
	const struct shm_region *region;
	struct sockaddr_un addr;
	ino_t socket_ino;
	int sock;
	FILE *log; /* or NULL */
	unsigned conns_n, conns_max;
	struct shm_conn *conns;
	struct event on_connect; /* not watched: no more clients are taken now */
};

/* Processes ------------------------------------------------------------------------------------------------- */

void
shm_say_killed(FILE *log, pid_t pid, const char *why)
{
	if (log)
		fprintf(log, "farside node: killed process %d: %s\n", (int)pid, why);
}

static struct shm_conn *
shm_conn_of(struct endpoint_peer *p)
{
	return FAR_CONTAINER(p, struct shm_conn, peer);
}

static void
shm_conn_who(const struct endpoint_peer *p, uint64_t note[2])
{
	const struct shm_conn *c = FAR_CONTAINER(p, const struct shm_conn, peer);

	note[0] = c->process.note[0];
	note[1] = c->process.note[1];
}

static bool
shm_has_ended(const struct shm_conn *c)
{
	struct pollfd p = { .fd = c->process.pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static const struct endpoint_transport shm_transport;

/* A process that fences a session of its own would only kill itself. */
static bool
shm_is_own(const struct shm_conn *c, const struct endpoint_peer *asker)
{
	return asker->transport == &shm_transport &&
	       FAR_CONTAINER(asker, const struct shm_conn, peer)->process.pid == c->process.pid;
}

static int
shm_conn_stop(struct endpoint_peer *p, const struct endpoint_peer *asker)
{
	struct shm_conn *c = shm_conn_of(p);
	struct shm_listener *n = c->listener;
	bool ended;
	int err;

	if (shm_is_own(c, asker))
		return -FAR_EINVAL;
	ended = c->killed || shm_has_ended(c);
	err = shm_process_kill(&c->process);
	if (err == -FAR_EAGAIN && !ended) {
		for (struct shm_conn *k = n->conns; k; k = k->next)
			k->killed |= k->process.pid == c->process.pid;
		shm_say_killed(n->log, c->process.pid, "a client that was silent past its lease");
	}
	return err;
}

/* Connections ----------------------------------------------------------------------------------------------- */

/* Not accepting leaves connects in the backlog instead of waking up for them again and again. */
static void
shm_accepting(struct shm_listener *n, bool on)
{
	if ((n->on_connect.loop != NULL) == on)
		return;
	if (on)
		event_add(n->loop, &n->on_connect, n->sock, EPOLLIN);
	else
		event_remove(&n->on_connect);
}

static void
shm_unwatch(struct event *e, int fd)
{
	event_remove(e);
	close(fd);
}

static void
shm_conn_free(struct shm_conn *c)
{
	struct shm_listener *n = c->listener;

	if (c->sock >= 0)
		shm_unwatch(&c->on_socket, c->sock);
	if (c->process.pidfd >= 0)
		shm_unwatch(&c->on_process, c->process.pidfd);
	endpoint_remove(&c->peer);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	free(c);
	n->conns_n--;
}

/* The socket is of no use any more. */
static void
shm_conn_hang_up(struct endpoint_peer *p)
{
	struct shm_conn *c = shm_conn_of(p);
	struct shm_listener *n = c->listener;

	if (p->session == 0) {
		shm_conn_free(c);
		shm_accepting(n, true);
		return;
	}
	shm_unwatch(&c->on_socket, c->sock);
	c->sock = -1;
	endpoint_detach(p);
}

/* False when the client does not take its answers: its connection is broken then. One that closed its end is not: what
 * it sent before, a LEAVE perhaps, is still to be served. */
static bool
shm_conn_reply(struct endpoint_peer *p, uint64_t seq, const struct control_reply *reply)
{
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} packet = { .frame = { .seq = seq, .len = sizeof(*reply) }, .reply = *reply };
	ssize_t sent =
		send(shm_conn_of(p)->sock, &packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL);

	return sent == (ssize_t)sizeof(packet) ||
	       (sent < 0 && (errno == EPIPE || errno == ECONNRESET));
}

static const struct endpoint_transport shm_transport = {
	.reply = shm_conn_reply,
	.hang_up = shm_conn_hang_up,
	.stop = shm_conn_stop,
	.who = shm_conn_who,
};

/* Serves one packet; false: it broke the rules, or its sender is gone. */
static bool
shm_conn_packet(struct shm_conn *c, const uint8_t *packet, size_t len)
{
	struct shm_frame frame;

	if (len < sizeof(frame))
		return false;
	memcpy(&frame, packet, sizeof(frame));
	if (frame.len > SHM_PAYLOAD_MAX || len != sizeof(frame) + frame.len)
		return false;
	return endpoint_request(&c->peer, frame.seq, packet + sizeof(frame), frame.len);
}

/* Receives and serves one packet. 1: done; 0: none is there; -1: the connection is over. */
static int
shm_conn_receive(struct shm_conn *c)
{
	uint8_t packet[sizeof(struct shm_frame) + SHM_PAYLOAD_MAX];
	ssize_t len = recv(c->sock, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* A packet longer than the buffer has a frame that cannot match its length. */
	if (len <= 0 || (size_t)len > sizeof(packet) || !shm_conn_packet(c, packet, (size_t)len))
		return -1;
	return 1;
}

static void
shm_on_ended(struct event *event, uint32_t what)
{
	struct shm_conn *c = FAR_CONTAINER(event, struct shm_conn, on_process);
	struct shm_listener *n = c->listener;
	uint64_t session;

	/* 1. What it said before. */
	for (int i = 0; c->sock >= 0 && i < SHM_DRAIN_MAX && shm_conn_receive(c) == 1; i++)
		;
	/* 2. It cannot touch the region any more. */
	session = c->peer.session;
	shm_conn_free(c);
	endpoint_ended(n->endpoint, session);
	shm_accepting(n, true);
}

static void
shm_on_packet(struct event *event, uint32_t what)
{
	struct shm_conn *c = FAR_CONTAINER(event, struct shm_conn, on_socket);

	if (shm_conn_receive(c) < 0)
		shm_conn_hang_up(&c->peer);
}

/* Greets the client; the region's descriptor goes along when err is 0. */
static bool
shm_hello_send(const struct shm_listener *n, int sock, int err)
{
	struct shm_hello hello = { SHM_MAGIC, SHM_VERSION, err, n->region->len };
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec iov = { &hello, sizeof(hello) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (err == 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		cmsg = CMSG_FIRSTHDR(&m);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &n->region->fd, sizeof(int));
	}
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(hello);
}

/* Takes in a client, or says why not. On error the socket is still the caller's. */
static int
shm_conn_add(struct shm_listener *n, int sock)
{
	struct shm_conn *c;
	int err;

	if (n->conns_n >= n->conns_max)
		return -FAR_EAGAIN;
	if ((c = calloc(1, sizeof(*c))) == NULL)
		return -FAR_ENOMEM;
	if ((err = shm_process_peer(sock, &c->process)) != 0) {
		free(c);
		return err;
	}
	c->listener = n;
	c->sock = sock;
	c->next = n->conns;
	c->link = &n->conns;
	if (c->next)
		c->next->link = &c->next;
	n->conns = c;
	n->conns_n++;
	endpoint_add(n->endpoint, &c->peer, &shm_transport);
	c->on_socket.ready = shm_on_packet;
	c->on_process.ready = shm_on_ended;
	if (event_add(n->loop, &c->on_socket, sock, EPOLLIN) != 0 ||
	    event_add(n->loop, &c->on_process, c->process.pidfd, EPOLLIN) != 0 ||
	    !shm_hello_send(n, sock, 0))
		shm_conn_free(c);
	return 0;
}

static void
shm_on_connect(struct event *event, uint32_t what)
{
	struct shm_listener *n = FAR_CONTAINER(event, struct shm_listener, on_connect);
	int sock = accept4(n->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), err;

	if (sock < 0) {
		/* Out of descriptors or memory: wait for a connection to end. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			shm_accepting(n, n->conns_n == 0);
		return;
	}
	if ((err = endpoint_admit(n->endpoint)) != 0 || (err = shm_conn_add(n, sock)) != 0) {
		shm_hello_send(n, sock, err);
		close(sock);
	}
}

/* The socket ------------------------------------------------------------------------------------------------- */

/* Is somebody listening at the path? */
static bool
shm_path_alive(const struct sockaddr_un *addr)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused;

	if (sock < 0)
		return true;
	refused = connect(sock, (const struct sockaddr *)addr, sizeof(*addr)) != 0 &&
		  errno == ECONNREFUSED;
	close(sock);
	return !refused;
}

static int
shm_listener_bind(struct shm_listener *n, struct shm_why *why)
{
	const char *path = n->addr.sun_path;
	struct stat st;

	/* A socket takes its file's mode from itself: nobody else can connect at any moment. */
	if (fchmod(n->sock, 0600) != 0)
		return shm_why(why, -FAR_EIO, "%s: %s", path, strerror(errno));
	if (lstat(path, &st) == 0) {
		if (!S_ISSOCK(st.st_mode))
			return shm_why(why, -FAR_EEXIST, "%s: exists and is not a socket", path);
		if (shm_path_alive(&n->addr))
			return shm_why(why, -FAR_EEXIST,
				       "%s: another memory node serves this socket", path);
		/* Left by one that was killed. */
		unlink(path);
	}
	if (bind(n->sock, (struct sockaddr *)&n->addr, sizeof(n->addr)) != 0)
		return shm_why(why, errno == EADDRINUSE ? -FAR_EEXIST : -FAR_EIO, "%s: %s", path,
			       strerror(errno));
	if (listen(n->sock, SHM_BACKLOG) != 0 || lstat(path, &st) != 0)
		return shm_why(why, -FAR_EIO, "%s: %s", path, strerror(errno));
	n->socket_ino = st.st_ino;
	return 0;
}

/* Binds under a lock on the directory, so that two nodes never take over one stale socket. */
static int
shm_listener_listen(struct shm_listener *n, struct shm_why *why)
{
	char dir[sizeof(n->addr.sun_path) + 2], *slash;
	int fd, err;

	snprintf(dir, sizeof(dir), "%s", n->addr.sun_path);
	if ((slash = strrchr(dir, '/')) == NULL)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	if ((n->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
		return shm_why(why, -FAR_EIO, "socket: %s", strerror(errno));
	if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return shm_why(why, -FAR_EIO, "%s: %s", dir, strerror(errno));
	if (flock(fd, LOCK_EX) != 0)
		err = shm_why(why, -FAR_EIO, "%s: cannot lock: %s", dir, strerror(errno));
	else
		err = shm_listener_bind(n, why);
	close(fd);
	return err;
}

/* Two descriptors per connection: as many connections as this process may have. */
static unsigned
shm_conns_max(void)
{
	uint64_t files = event_files_max();

	return files <= SHM_FDS_SPARE + 1
		       ? 1
		       : (unsigned)far_min(SHM_CONNS_MAX, (files - SHM_FDS_SPARE) / 2);
}

int
shm_listener_check(const char *path, struct shm_why *why)
{
	size_t len = strlen(path), max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

	if (len > 0 && len <= max && strchr(path, ',') == NULL)
		return 0;
	return shm_why(why, -FAR_EINVAL, "%s: a socket's path has 1 to %zu bytes and no comma",
		       path, max);
}

int
shm_listener_open(const struct shm_listener_opts *opts, struct shm_listener **out,
		  struct shm_why *why)
{
	struct shm_listener *n;
	int err = shm_listener_check(opts->path, why);

	if (err)
		return err;
	if ((n = calloc(1, sizeof(*n))) == NULL)
		return shm_why(why, -FAR_ENOMEM, "out of memory");
	n->loop = opts->loop;
	n->endpoint = opts->endpoint;
	n->region = opts->region;
	n->log = opts->log;
	n->sock = -1;
	n->addr.sun_family = AF_UNIX;
	strcpy(n->addr.sun_path, opts->path);
	n->conns_max = shm_conns_max();
	n->on_connect.ready = shm_on_connect;
	if ((err = shm_listener_listen(n, why)) == 0 &&
	    (err = event_add(n->loop, &n->on_connect, n->sock, EPOLLIN)) != 0)
		shm_why(why, err, "epoll: %s", strerror(errno));
	if (err) {
		shm_listener_close(n);
		return err;
	}
	*out = n;
	return 0;
}

void
shm_listener_close(struct shm_listener *n)
{
	struct stat st;

	if (n == NULL)
		return;
	/* The name may be another node's by now. */
	if (n->socket_ino != 0 && lstat(n->addr.sun_path, &st) == 0 && st.st_ino == n->socket_ino)
		unlink(n->addr.sun_path);
	event_remove(&n->on_connect);
	if (n->sock >= 0)
		close(n->sock);
	while (n->conns)
		shm_conn_free(n->conns);
	free(n);
}
