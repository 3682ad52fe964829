/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_node.c -- the memory node as a process: its region, what it listens at, and what ends it.
 *
 * One thread sleeps until a client says something, connects or dies: an idle node costs nothing.
 */
#include "fabric/shm_node.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/endpoint.h"
#include "fabric/event.h"
#include "fabric/shm_file.h"
#include "fabric/shm_listener.h"
#include "fabric/shm_map.h"
#include "fabric/shm_process.h"
#include "fabric/shm_region.h"
#include "fabric/tcp_agent.h"
#include "fabric/verbs_server.h"
#include "pool/node.h"

struct shm_node {
	struct event_loop loop;
	struct shm_region region;
	struct endpoint *endpoint;
	struct shm_listener *listener; /* NULL: nobody maps the region */
	struct tcp_agent *agent;       /* NULL: no client is elsewhere */
	struct verbs_server *verbs;    /* NULL: those have no RDMA */
	int signal, parent;
	struct shm_file file; /* what others do to the region's */
	bool lost;            /* its name is gone, or leads elsewhere */
	bool child;
	bool masked; /* `mask` is to be restored */
	sigset_t mask;
	FILE *log; /* or NULL */
	struct event on_signal, on_parent, on_file;
};

/* The region ------------------------------------------------------------------------------------------------ */

void *
shm_node_region(const struct shm_node *n)
{
	return n->region.base;
}

uint64_t
shm_node_size(const struct shm_node *n)
{
	return n->region.len;
}

/* What opening the region works with. */
struct shm_take {
	struct shm_node *n;
	struct shm_file_id file;
	bool known; /* which file it is */
	FILE *log;
	struct shm_why *why;
};

static int
shm_left_end(void *arg, uint64_t serial, const uint64_t note[2])
{
	struct shm_take *take = arg;
	int err;

	(void)serial;
	err = shm_process_end(note, take->known ? &take->file : NULL, take->why);
	if (err == 1)
		shm_say_killed(take->log, (pid_t)(note[0] & 0x7fffffff),
			       "a client of the node's former life that still mapped the region");
	return err < 0 ? err : 0;
}

static void
shm_node_granted(void *arg, uint64_t off, uint64_t len)
{
	struct shm_region *r = arg;

	if (r->huge)
		r->huge = shm_map_collapse(r->base, r->len, off, len);
}

/*
 * Looks after the region's file. When its name is gone or another file's, what is stored ends with the node. Those at
 * work go on, as with any file that is open; but nobody new begins in the belief that it will last. The name may come
 * back.
 */
static enum shm_file_state
shm_node_look(struct shm_node *n)
{
	const char *path = n->file.path;
	enum shm_file_state state;
	bool lost;

	if (!path)
		return SHM_FILE_HERE;
	state = shm_file_look(&n->file);
	lost = state == SHM_FILE_LOST;
	if (lost && !n->lost && n->log)
		fprintf(n->log,
			"farside node: %s was removed or replaced: no new clients, and what is stored ends "
			"with this node; its bytes are in /proc/%d/fd/%d until then\n",
			path, (int)getpid(), n->file.fd);
	if (!lost && n->lost && n->log)
		fprintf(n->log, "farside node: %s is back: new clients are welcome\n", path);
	n->lost = lost;
	return state;
}

/* Not every file system, and not every change of a folder, sends news: each new client asks. */
static int
shm_node_admit(void *arg)
{
	return shm_node_look(arg) == SHM_FILE_LOST ? -FAR_ENOENT : 0;
}

/* Opens the region's tables once nobody of an earlier run can touch them. */
static int
shm_node_take(struct shm_node *n, const struct shm_node_opts *opts, struct shm_why *why)
{
	struct node_env env = { .random = endpoint_random };
	const char *name = opts->file ? opts->file : opts->path ? opts->path
								: opts->listen;
	struct shm_take take = { .n = n, .log = opts->log, .why = why };
	struct endpoint_opts eo = { .left = shm_left_end,
				    .left_arg = &take,
				    .admit = shm_node_admit,
				    .admit_arg = n,
				    .granted = shm_node_granted,
				    .granted_arg = &n->region };
	int err;

	err = opts->file ? shm_region_open(opts->file, opts->size, &env, &n->region, why)
			 : shm_region_make(opts->size, &env, &n->region, why);
	if (err)
		return err;
	why->text[0] = '\0';
	take.known = shm_process_mapped(n->region.base, &take.file);
	eo.base = n->region.base;
	eo.len = n->region.len;
	if ((err = endpoint_open(&eo, &n->endpoint)) != 0 && why->text[0] == '\0')
		shm_why(why, err, "%s: %s", name, far_strerror(err));
	return err;
}

/* What ends the node ----------------------------------------------------------------------------------------- */

static void
shm_on_signal(struct event *event, uint32_t what)
{
	struct signalfd_siginfo taken;

	/* Taken: it must not be pending when it is unblocked. */
	if (read(event->fd, &taken, sizeof(taken)) == (ssize_t)sizeof(taken))
		event_end(event->loop, 0);
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
	n->signal = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	n->on_signal.ready = shm_on_signal;
	if (n->signal < 0 || event_loop_open(&n->loop) != 0 ||
	    event_add(&n->loop, &n->on_signal, n->signal, EPOLLIN) != 0)
		return shm_why(why, -FAR_EIO, "epoll or signalfd: %s", strerror(errno));
	return 0;
}

static void
shm_on_parent(struct event *event, uint32_t what)
{
	event_end(event->loop, 0);
}

static int
shm_node_parent(struct shm_node *n, struct shm_why *why)
{
	pid_t parent = getppid();

	n->parent = (int)syscall(SYS_pidfd_open, parent, 0);
	/* It may have ended in between: then this process has another parent now. */
	n->on_parent.ready = shm_on_parent;
	if (n->parent < 0 || getppid() != parent ||
	    event_add(&n->loop, &n->on_parent, n->parent, EPOLLIN) != 0)
		return shm_why(why, -FAR_EIO, "cannot watch the parent process");
	return 0;
}

/*
 * A file that is cut under its mapping makes every access behind its new end a bus error, here and in the clients. So
 * the node ends as soon as it learns of it, and with it the connections. Without that, only the bus error would tell.
 */
static void
shm_on_file(struct event *event, uint32_t what)
{
	struct shm_node *n = FAR_CONTAINER(event, struct shm_node, on_file);

	if (shm_node_look(n) == SHM_FILE_CUT)
		event_end(event->loop, -FAR_ECORRUPT);
}

static int
shm_node_watch_file(struct shm_node *n, const char *path, struct shm_why *why)
{
	int err = shm_file_init(&n->file, path, n->region.fd, n->region.len);

	n->on_file.ready = shm_on_file;
	if (!err && n->file.notify >= 0)
		err = event_add(&n->loop, &n->on_file, n->file.notify, EPOLLIN);
	return err ? shm_why(why, err, "%s: cannot watch it: %s", path, strerror(errno)) : 0;
}

/* Start and end --------------------------------------------------------------------------------------------- */

/* Are its clients to reach the region by RDMA? */
static bool
shm_node_has_rdma(const struct shm_node_opts *opts)
{
	return opts->listen && strncmp(opts->listen, "verbs:", 6) == 0;
}

/* Puts the region behind an RDMA device. Its pages must stay where they are from now on. */
static int
shm_node_register(struct shm_node *n, const struct shm_node_opts *opts, struct shm_why *why)
{
	struct tcp_uri uri;
	int err = tcp_agent_parse(opts->listen, &uri, why);

	n->region.huge = false;
	if (!err)
		err = verbs_server_open(&uri, &n->region, &n->verbs, why);
	if (!err && opts->log)
		fprintf(opts->log, "farside node: %s\n", verbs_server_name(n->verbs));
	return err;
}

static int
shm_node_listen(struct shm_node *n, const struct shm_node_opts *opts, struct shm_why *why)
{
	struct shm_listener_opts lo = { &n->loop, n->endpoint, &n->region, opts->path, opts->log };

	struct tcp_agent_opts to = {
		.loop = &n->loop,
		.endpoint = n->endpoint,
		.base = n->region.base,
		.len = n->region.len,
		.uri = opts->listen,
		.spin_us = opts->spin_us,
		.weakness = opts->weakness,
		.log = opts->log,
	};
	int err = opts->path ? shm_listener_open(&lo, &n->listener, why) : 0;

	if (!err && shm_node_has_rdma(opts))
		err = shm_node_register(n, opts, why);
	if (!err && n->verbs)
		to.attach = verbs_server_attach(n->verbs);
	if (!err && opts->listen)
		err = tcp_agent_open(&to, &n->agent, why);
	return err;
}

const char *
shm_node_uri(const struct shm_node *n)
{
	return n->agent ? tcp_agent_uri(n->agent) : NULL;
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
	if ((err = shm_node_take(n, opts, why)) != 0)
		return err;
	if (opts->file && (err = shm_node_watch_file(n, opts->file, why)) != 0)
		return err;
	return shm_node_listen(n, opts, why);
}

int
shm_node_open(const struct shm_node_opts *opts, struct shm_node **out, struct shm_why *why)
{
	struct tcp_uri uri;
	struct shm_node *n;
	int err;

	if (opts->size > UINT64_C(1) << 46)
		return shm_why(why, -FAR_EINVAL, "a region has at most 64 TiB");
	if ((opts->path && (err = shm_listener_check(opts->path, why)) != 0) ||
	    (opts->listen && (err = tcp_agent_parse(opts->listen, &uri, why)) != 0))
		return err;
	/* The device's atomics and those of processors are not atomic among each other. */
	if (opts->path && shm_node_has_rdma(opts))
		return shm_why(why, -FAR_EINVAL,
			       "a node serves clients by shm: or by verbs:, not both");
	if ((n = calloc(1, sizeof(*n))) == NULL)
		return shm_why(why, -FAR_ENOMEM, "out of memory");
	n->loop.epoll = n->signal = n->parent = n->file.notify = -1;
	n->region.fd = n->region.lock_fd = -1;
	n->child = opts->child;
	n->log = opts->log;
	if ((err = shm_node_start(n, opts, why)) != 0) {
		shm_node_close(n);
		return err;
	}
	*out = n;
	return 0;
}

static void
shm_node_unwatch(struct event *e, int fd)
{
	event_remove(e);
	if (fd >= 0)
		close(fd);
}

void
shm_node_close(struct shm_node *n)
{
	if (n == NULL)
		return;
	tcp_agent_close(n->agent);
	verbs_server_close(n->verbs);
	shm_listener_close(n->listener);
	endpoint_close(n->endpoint);
	shm_region_close(&n->region);
	shm_node_unwatch(&n->on_signal, n->signal);
	shm_node_unwatch(&n->on_parent, n->parent);
	event_remove(&n->on_file);
	shm_file_fini(&n->file);
	event_loop_close(&n->loop);
	if (n->masked)
		pthread_sigmask(SIG_SETMASK, &n->mask, NULL);
	free(n);
}

int
shm_node_serve(struct shm_node *n, struct shm_why *why)
{
	while (!n->loop.ended) {
		if (event_turn(&n->loop, tcp_agent_wait(n->agent)) < 0)
			return shm_why(why, -FAR_EIO, "epoll: %s", strerror(errno));
		tcp_agent_turn(n->agent);
	}
	return n->loop.result
		       ? shm_why(why, n->loop.result,
				 "somebody cut the region's file: it does not hold the region any more")
		       : 0;
}
