/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_node.c -- serves the control endpoint of a shm node on a Unix socket.
 *
 * One thread sleeps in epoll until a client says something, connects or dies: an idle node costs nothing. What ends
 * what:
 *
 *	client sends LEAVE         its session ends at once; it promises not to touch the region any more. The library
 *	                           does so in every close, also after errors
 *	client's process ends      its session is freed, its chunks become dirty orphans (node_stopped)
 *	connection is closed       nothing: without LEAVE nobody promised anything, and the process may still write
 *	                           through its mapping. Its session goes on without a connection ("detached") until the
 *	                           process ends or somebody fences it, which kills the process: by then it has been
 *	                           silent for a lease
 *	FENCE                      the process is killed; the answer waits until its pidfd tells the end
 *
 * Before an ended process counts as such, what it had sent is served: a clean LEAVE may be among it.
 */
#include "fabric/shm_node.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm_map.h"
#include "fabric/shm_process.h"
#include "fabric/shm_region.h"
#include "fabric/shm_wire.h"
#include "pool/node.h"

enum {
	SHM_CONNS_MAX = 1024,
	SHM_PARKED_MAX = 4,   /* FENCE requests of one connection that wait */
	SHM_DRAIN_MAX = 1024, /* packets served for a process that has ended */
	SHM_FDS_SPARE = 64,   /* file descriptors for everything but connections */
	SHM_BACKLOG = 128,
};

enum shm_watch_kind {
	SHM_WATCH_LISTEN,
	SHM_WATCH_SIGNAL,
	SHM_WATCH_PARENT,
	SHM_WATCH_FILE,
	SHM_WATCH_SOCKET,
	SHM_WATCH_PROCESS,
};

/* What an epoll event points to. */
struct shm_watch {
	enum shm_watch_kind kind;
	struct shm_conn *conn;
};

/* A client's connection, and its process as long as that may touch the region. */
struct shm_conn {
	int sock; /* -1: closed, or detached */
	struct shm_process process;
	bool killed;
	uint64_t session; /* serial, 0 = none */
	struct {
		uint64_t seq, victim; /* victim 0: unused */
	} parked[SHM_PARKED_MAX];
	struct shm_watch on_socket, on_process;
	struct shm_conn *next, **link;
};

struct shm_node {
	struct node *node;
	struct shm_region region;
	struct sockaddr_un addr;
	ino_t socket_ino;
	int epoll, listen, signal, parent;
	int notify; /* tells that somebody else changes the region's file; -1: nobody tells */
	bool accepting;
	bool child;
	bool masked; /* `mask` is to be restored */
	sigset_t mask;
	FILE *log; /* or NULL */
	unsigned conns_n, conns_max;
	struct shm_conn *conns;
	struct shm_conn *serving; /* whose request is being served */
	struct shm_watch on_listen, on_signal, on_parent, on_file;
};

/* Surroundings of the node ---------------------------------------------------------------------------------- */

static uint64_t
shm_env_random(void *arg)
{
	uint64_t word;

	(void)arg;
	/* Never short for 8 bytes; the system has no other failure once it is up. */
	FAR_ASSERT(getrandom(&word, sizeof(word), 0) == (ssize_t)sizeof(word));
	return word;
}

static void
shm_env_who(void *arg, uint64_t note[2])
{
	const struct shm_node *n = arg;

	note[0] = n->serving->process.note[0];
	note[1] = n->serving->process.note[1];
}

static void
shm_say_killed(FILE *log, pid_t pid, const char *why)
{
	if (log)
		fprintf(log, "farside node: killed process %d: %s\n", (int)pid, why);
}

static bool
shm_has_ended(const struct shm_conn *c)
{
	struct pollfd p = { .fd = c->process.pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static int
shm_env_stop(void *arg, uint64_t serial)
{
	struct shm_node *n = arg;
	struct shm_conn *c;
	bool ended;
	int err;

	for (c = n->conns; c && c->session != serial; c = c->next)
		;
	if (c == NULL)
		return -FAR_EACCESS;
	/* A process that fences a session of its own would only kill itself. */
	if (c->process.pid == n->serving->process.pid)
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

static int
shm_watch(struct shm_node *n, int fd, struct shm_watch *w, enum shm_watch_kind kind,
	  struct shm_conn *c)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = w };

	w->kind = kind;
	w->conn = c;
	return epoll_ctl(n->epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Closes what was watched. That alone would not end its events while a fork of this process holds a copy. */
static void
shm_unwatch(struct shm_node *n, int fd)
{
	epoll_ctl(n->epoll, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

/* Not accepting leaves connects in the backlog instead of waking up for them again and again. */
static void
shm_accepting(struct shm_node *n, bool on)
{
	if (n->accepting == on)
		return;
	if (on)
		n->accepting = shm_watch(n, n->listen, &n->on_listen, SHM_WATCH_LISTEN, NULL) == 0;
	else
		n->accepting = epoll_ctl(n->epoll, EPOLL_CTL_DEL, n->listen, NULL) != 0;
}

static void
shm_conn_free(struct shm_node *n, struct shm_conn *c)
{
	if (c->sock >= 0)
		shm_unwatch(n, c->sock);
	if (c->process.pidfd >= 0)
		shm_unwatch(n, c->process.pidfd);
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	free(c);
	n->conns_n--;
	shm_accepting(n, true);
}

/* The socket is of no use any more. */
static void
shm_conn_hang_up(struct shm_node *n, struct shm_conn *c)
{
	if (c->session == 0) {
		shm_conn_free(n, c);
		return;
	}
	shm_unwatch(n, c->sock);
	c->sock = -1;
	memset(c->parked, 0, sizeof(c->parked));
}

/* False when the client does not take its answers: its connection is broken then. One that closed its end is not: what
 * it sent before, a LEAVE perhaps, is still to be served. */
static bool
shm_conn_reply(const struct shm_conn *c, uint64_t seq, const struct control_reply *reply)
{
	struct {
		struct shm_frame frame;
		struct control_reply reply;
	} packet = { .frame = { .seq = seq, .len = sizeof(*reply) }, .reply = *reply };
	ssize_t sent = send(c->sock, &packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL);

	return sent == (ssize_t)sizeof(packet) ||
	       (sent < 0 && (errno == EPIPE || errno == ECONNRESET));
}

static bool
shm_conn_park(struct shm_conn *c, uint64_t seq, uint64_t victim)
{
	struct control_reply full = { .err = -FAR_EAGAIN };

	for (int i = 0; i < SHM_PARKED_MAX; i++) {
		if (c->parked[i].victim == 0) {
			c->parked[i].victim = victim;
			c->parked[i].seq = seq;
			return true;
		}
	}
	return shm_conn_reply(c, seq, &full);
}

/* Answers everybody who fenced `victim`. */
static void
shm_answer_fence(struct shm_node *n, uint64_t victim)
{
	struct control_reply done = { .err = 0 };
	struct shm_conn *next;

	for (struct shm_conn *c = n->conns; c; c = next) {
		bool fine = true;

		next = c->next;
		for (int i = 0; i < SHM_PARKED_MAX; i++) {
			if (c->parked[i].victim != victim)
				continue;
			c->parked[i].victim = 0;
			fine = fine && shm_conn_reply(c, c->parked[i].seq, &done);
		}
		if (!fine)
			shm_conn_hang_up(n, c);
	}
}

/* Serves one packet; false: it broke the rules, or its sender is gone. */
static bool
shm_conn_packet(struct shm_node *n, struct shm_conn *c, const uint8_t *packet, size_t len)
{
	struct control_reply reply = { .err = -FAR_EINVAL };
	struct control_request req;
	struct shm_frame frame;
	uint64_t left = c->session;
	bool fine;

	if (len < sizeof(frame))
		return false;
	memcpy(&frame, packet, sizeof(frame));
	if (frame.len > SHM_PAYLOAD_MAX || len != sizeof(frame) + frame.len)
		return false;
	if (frame.len != sizeof(req))
		return shm_conn_reply(c, frame.seq, &reply);
	memcpy(&req, packet + sizeof(frame), sizeof(req));
	n->serving = c;
	if (!node_serve(n->node, &c->session, &req, &reply))
		return shm_conn_park(c, frame.seq, req.serial);
	/* Before the client touches it: memory in use would have to be copied. */
	if (req.code == CONTROL_GRANT && reply.err == 0 && n->region.huge)
		n->region.huge = shm_map_collapse(n->region.base, n->region.len, reply.off,
						  (uint64_t)reply.run * POOL_PAGE);
	fine = shm_conn_reply(c, frame.seq, &reply);
	/* Nobody can wait here for the end of its own session, so `c` stays. */
	if (left != 0 && c->session == 0)
		shm_answer_fence(n, left);
	return fine;
}

/* Receives and serves one packet. 1: done; 0: none is there; -1: the connection is over. */
static int
shm_conn_receive(struct shm_node *n, struct shm_conn *c)
{
	uint8_t packet[sizeof(struct shm_frame) + SHM_PAYLOAD_MAX];
	ssize_t len = recv(c->sock, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	/* A packet longer than the buffer has a frame that cannot match its length. */
	if (len <= 0 || (size_t)len > sizeof(packet) || !shm_conn_packet(n, c, packet, (size_t)len))
		return -1;
	return 1;
}

static void
shm_on_ended(struct shm_node *n, struct shm_conn *c)
{
	uint64_t session;

	/* 1. What it said before. */
	for (int i = 0; c->sock >= 0 && i < SHM_DRAIN_MAX && shm_conn_receive(n, c) == 1; i++)
		;
	/* 2. It cannot touch the region any more. */
	session = c->session;
	shm_conn_free(n, c);
	if (session != 0) {
		node_stopped(n->node, session);
		shm_answer_fence(n, session);
	}
}

static void
shm_on_packet(struct shm_node *n, struct shm_conn *c)
{
	if (shm_conn_receive(n, c) < 0)
		shm_conn_hang_up(n, c);
}

/* Greets the client; the region's descriptor goes along when err is 0. */
static bool
shm_hello_send(const struct shm_node *n, int sock, int err)
{
	struct shm_hello hello = { SHM_MAGIC, SHM_VERSION, err, n->region.len };
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
		memcpy(CMSG_DATA(cmsg), &n->region.fd, sizeof(int));
	}
	return sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(hello);
}

/* Takes in a client, or says why not. On error the socket is still the caller's. */
static int
shm_conn_add(struct shm_node *n, int sock)
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
	c->sock = sock;
	c->next = n->conns;
	c->link = &n->conns;
	if (c->next)
		c->next->link = &c->next;
	n->conns = c;
	n->conns_n++;
	if (shm_watch(n, sock, &c->on_socket, SHM_WATCH_SOCKET, c) != 0 ||
	    shm_watch(n, c->process.pidfd, &c->on_process, SHM_WATCH_PROCESS, c) != 0 ||
	    !shm_hello_send(n, sock, 0))
		shm_conn_free(n, c);
	return 0;
}

static void
shm_on_connect(struct shm_node *n)
{
	int sock = accept4(n->listen, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), err;

	if (sock < 0) {
		/* Out of descriptors or memory: wait for a connection to end. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			shm_accepting(n, n->conns_n == 0);
		return;
	}
	if ((err = shm_conn_add(n, sock)) != 0) {
		shm_hello_send(n, sock, err);
		close(sock);
	}
}

/* Start and end --------------------------------------------------------------------------------------------- */

uint64_t
shm_node_size(const struct shm_node *n)
{
	return n->region.len;
}

struct shm_left {
	struct shm_file_id file;
	bool known; /* which file it is */
	FILE *log;
	struct shm_why *why;
};

static int
shm_left_end(void *arg, uint64_t serial, const uint64_t note[2])
{
	struct shm_left *left = arg;
	int err;

	(void)serial;
	err = shm_process_end(note, left->known ? &left->file : NULL, left->why);
	if (err == 1)
		shm_say_killed(left->log, (pid_t)(note[0] & 0x7fffffff),
			       "a client of the node's former life that still mapped the region");
	return err < 0 ? err : 0;
}

/* Opens the region's tables once nobody of an earlier run can touch them. */
static int
shm_node_take(struct shm_node *n, const struct shm_node_opts *opts, struct shm_why *why)
{
	struct node_env env = {
		.stop = shm_env_stop, .who = shm_env_who, .random = shm_env_random, .arg = n
	};
	const char *name = opts->file ? opts->file : opts->path;
	struct shm_left left = { .log = opts->log, .why = why };
	int err;

	err = opts->file ? shm_region_open(opts->file, opts->size, &env, &n->region, why)
			 : shm_region_make(opts->size, &env, &n->region, why);
	if (err)
		return err;
	why->text[0] = '\0';
	left.known = shm_process_mapped(n->region.base, &left.file);
	if ((err = node_left(n->region.base, n->region.len, shm_left_end, &left)) == 0)
		err = node_open(n->region.base, n->region.len, &env, &n->node);
	if (err && why->text[0] == '\0')
		shm_why(why, err, "%s: %s", name, far_strerror(err));
	return err;
}

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
shm_node_bind(struct shm_node *n, struct shm_why *why)
{
	const char *path = n->addr.sun_path;
	struct stat st;

	/* A socket takes its file's mode from itself: nobody else can connect at any moment. */
	if (fchmod(n->listen, 0600) != 0)
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
	if (bind(n->listen, (struct sockaddr *)&n->addr, sizeof(n->addr)) != 0)
		return shm_why(why, errno == EADDRINUSE ? -FAR_EEXIST : -FAR_EIO, "%s: %s", path,
			       strerror(errno));
	if (listen(n->listen, SHM_BACKLOG) != 0 || lstat(path, &st) != 0)
		return shm_why(why, -FAR_EIO, "%s: %s", path, strerror(errno));
	n->socket_ino = st.st_ino;
	return 0;
}

/* Binds under a lock on the directory, so that two nodes never take over one stale socket. */
static int
shm_node_listen(struct shm_node *n, struct shm_why *why)
{
	char dir[sizeof(n->addr.sun_path) + 2], *slash;
	int fd, err;

	snprintf(dir, sizeof(dir), "%s", n->addr.sun_path);
	if ((slash = strrchr(dir, '/')) == NULL)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	if ((n->listen = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
		return shm_why(why, -FAR_EIO, "socket: %s", strerror(errno));
	if ((fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return shm_why(why, -FAR_EIO, "%s: %s", dir, strerror(errno));
	if (flock(fd, LOCK_EX) != 0)
		err = shm_why(why, -FAR_EIO, "%s: cannot lock: %s", dir, strerror(errno));
	else
		err = shm_node_bind(n, why);
	close(fd);
	return err;
}

/* Two descriptors per connection: as many connections as this process may have. */
static unsigned
shm_conns_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return SHM_CONNS_MAX / 4;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= SHM_FDS_SPARE)
		return 1;
	return (unsigned)far_min(SHM_CONNS_MAX, (limit.rlim_cur - SHM_FDS_SPARE) / 2);
}

/* Signals become events: from now on they do not end the process before the socket is gone. */
static int
shm_node_signals(struct shm_node *n, struct shm_why *why)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	if (n->child)
		signal(SIGINT, SIG_IGN);
	else
		sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_BLOCK, &set, &n->mask);
	n->masked = true;
	n->epoll = epoll_create1(EPOLL_CLOEXEC);
	n->signal = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (n->epoll < 0 || n->signal < 0 ||
	    shm_watch(n, n->signal, &n->on_signal, SHM_WATCH_SIGNAL, NULL) != 0)
		return shm_why(why, -FAR_EIO, "epoll or signalfd: %s", strerror(errno));
	return 0;
}

static int
shm_node_parent(struct shm_node *n, struct shm_why *why)
{
	pid_t parent = getppid();

	n->parent = (int)syscall(SYS_pidfd_open, parent, 0);
	/* It may have ended in between: then this process has another parent now. */
	if (n->parent < 0 || getppid() != parent ||
	    shm_watch(n, n->parent, &n->on_parent, SHM_WATCH_PARENT, NULL) != 0)
		return shm_why(why, -FAR_EIO, "cannot watch the parent process");
	return 0;
}

/*
 * A file that is cut under its mapping makes every access behind its new end a bus error, here and in the clients. So
 * the node ends as soon as it learns of it, and with it the connections. Stores through a mapping are no event, so
 * this costs nothing. Without it, only the bus error would tell.
 */
static void
shm_node_watch_file(struct shm_node *n)
{
	char path[64];

	if ((n->notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", n->region.fd);
	if (inotify_add_watch(n->notify, path, IN_MODIFY) >= 0)
		shm_watch(n, n->notify, &n->on_file, SHM_WATCH_FILE, NULL);
}

/* Whether the file still holds the whole region. */
static bool
shm_node_file_is_whole(struct shm_node *n)
{
	char events[1024];
	struct stat st;

	while (read(n->notify, events, sizeof(events)) > 0)
		;
	return fstat(n->region.fd, &st) == 0 && (uint64_t)st.st_size >= n->region.len;
}

/* The socket comes last: whoever connects is served at once. */
static int
shm_node_start(struct shm_node *n, const struct shm_node_opts *opts, struct shm_why *why)
{
	int err;

	if ((err = shm_node_signals(n, why)) != 0)
		return err;
	if (n->child && (err = shm_node_parent(n, why)) != 0)
		return err;
	if ((err = shm_node_take(n, opts, why)) != 0 || (err = shm_node_listen(n, why)) != 0)
		return err;
	if (opts->file)
		shm_node_watch_file(n);
	shm_accepting(n, true);
	return n->accepting ? 0 : shm_why(why, -FAR_EIO, "epoll: %s", strerror(errno));
}

int
shm_node_open(const struct shm_node_opts *opts, struct shm_node **out, struct shm_why *why)
{
	struct shm_node *n;
	size_t len = strlen(opts->path);
	int err;

	if (len == 0 || len >= sizeof(n->addr.sun_path) || strchr(opts->path, ',') != NULL)
		return shm_why(why, -FAR_EINVAL,
			       "%s: a socket's path has 1 to %zu bytes and no comma", opts->path,
			       sizeof(n->addr.sun_path) - 1);
	if (opts->size > UINT64_C(1) << 46)
		return shm_why(why, -FAR_EINVAL, "a region has at most 64 TiB");
	if ((n = calloc(1, sizeof(*n))) == NULL)
		return shm_why(why, -FAR_ENOMEM, "out of memory");
	n->epoll = n->listen = n->signal = n->parent = n->notify = -1;
	n->region.fd = n->region.lock_fd = -1;
	n->addr.sun_family = AF_UNIX;
	memcpy(n->addr.sun_path, opts->path, len);
	n->child = opts->child;
	n->log = opts->log;
	n->conns_max = shm_conns_max();
	if ((err = shm_node_start(n, opts, why)) != 0) {
		shm_node_close(n);
		return err;
	}
	*out = n;
	return 0;
}

void
shm_node_close(struct shm_node *n)
{
	struct stat st;

	if (n == NULL)
		return;
	/* The name may be another node's by now. */
	if (n->socket_ino != 0 && lstat(n->addr.sun_path, &st) == 0 && st.st_ino == n->socket_ino)
		unlink(n->addr.sun_path);
	if (n->listen >= 0)
		close(n->listen);
	n->accepting = true; /* nothing is to be watched again */
	while (n->conns)
		shm_conn_free(n, n->conns);
	node_close(n->node);
	shm_region_close(&n->region);
	if (n->signal >= 0)
		close(n->signal);
	if (n->parent >= 0)
		close(n->parent);
	if (n->notify >= 0)
		close(n->notify);
	if (n->epoll >= 0)
		close(n->epoll);
	if (n->masked)
		pthread_sigmask(SIG_SETMASK, &n->mask, NULL);
	free(n);
}

/* Serves one event. 1: go on; 0: it is time to end; -FAR_ECORRUPT. */
static int
shm_node_event(struct shm_node *n, struct shm_watch *w)
{
	struct signalfd_siginfo taken;

	switch (w->kind) {
	case SHM_WATCH_LISTEN:
		shm_on_connect(n);
		return 1;
	case SHM_WATCH_SOCKET:
		shm_on_packet(n, w->conn);
		return 1;
	case SHM_WATCH_PROCESS:
		shm_on_ended(n, w->conn);
		return 1;
	case SHM_WATCH_FILE:
		return shm_node_file_is_whole(n) ? 1 : -FAR_ECORRUPT;
	case SHM_WATCH_SIGNAL:
		/* Taken: it must not be pending when it is unblocked. */
		return read(n->signal, &taken, sizeof(taken)) != (ssize_t)sizeof(taken);
	case SHM_WATCH_PARENT:
		break;
	}
	return 0;
}

int
shm_node_serve(struct shm_node *n, struct shm_why *why)
{
	struct epoll_event e;
	int got, err = 1;

	/* One event at a time: serving one may free what another one points to. */
	while (err == 1) {
		got = epoll_wait(n->epoll, &e, 1, -1);
		if (got < 0 && errno != EINTR)
			return shm_why(why, -FAR_EIO, "epoll: %s", strerror(errno));
		if (got == 1)
			err = shm_node_event(n, e.data.ptr);
	}
	return err ? shm_why(why, err,
			     "somebody cut the region's file: it does not hold the region any more")
		   : 0;
}
