/* SPDX-License-Identifier: Apache-2.0 */
/* event.c -- epoll, and events that others remove while they wait for their turn. */
#include "fabric/event.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"

enum { EVENT_BATCH = 32 };

int
event_loop_open(struct event_loop *l)
{
	*l = (struct event_loop){ .epoll = epoll_create1(EPOLL_CLOEXEC) };
	return l->epoll < 0 ? -FAR_EIO : 0;
}

void
event_loop_close(struct event_loop *l)
{
	if (l->epoll >= 0)
		close(l->epoll);
	l->epoll = -1;
}

uint64_t
event_files_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

int
event_add(struct event_loop *l, struct event *e, int fd, uint32_t what)
{
	struct epoll_event ee = { .events = what, .data.ptr = e };

	FAR_ASSERT(!e->loop && e->ready);
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ee) != 0)
		return -FAR_EIO;
	e->loop = l;
	e->fd = fd;
	return 0;
}

void
event_change(struct event *e, uint32_t what)
{
	struct epoll_event ee = { .events = what, .data.ptr = e };

	/* It takes no memory, and the descriptor is one that was added. */
	FAR_ASSERT(e->loop && epoll_ctl(e->loop->epoll, EPOLL_CTL_MOD, e->fd, &ee) == 0);
}

void
event_remove(struct event *e)
{
	struct event_loop *l = e->loop;

	if (!l)
		return;
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, e->fd, NULL);
	for (int i = 0; i < l->batch_n; i++) {
		if (l->batch[i] == e)
			l->batch[i] = NULL;
	}
	e->loop = NULL;
}

void
event_end(struct event_loop *l, int result)
{
	l->ended = true;
	l->result = result;
}

int
event_turn(struct event_loop *l, int timeout_ms)
{
	struct epoll_event found[EVENT_BATCH];
	struct event *batch[EVENT_BATCH];
	int n = epoll_wait(l->epoll, found, EVENT_BATCH, timeout_ms);

	if (n < 0)
		return errno == EINTR ? 0 : -FAR_EIO;
	for (int i = 0; i < n; i++)
		batch[i] = found[i].data.ptr;
	l->batch = batch;
	l->batch_n = n;
	for (int i = 0; i < n && !l->ended; i++) {
		if (batch[i])
			batch[i]->ready(batch[i], found[i].events);
	}
	l->batch = NULL;
	l->batch_n = 0;
	return n;
}
