/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h -- what a memory node waits for: descriptors that become ready, on epoll.
 *
 * Everything happens in the one thread that calls event_run().
 */
#ifndef FAR_FABRIC_EVENT_H
#define FAR_FABRIC_EVENT_H

#include <stdbool.h>
#include <stdint.h>

struct event_loop;

/* One watched descriptor; part of what it is about. */
struct event {
	/* It is ready: `what` as in struct epoll_event. May remove any event, also its own, and may end the loop. */
	void (*ready)(struct event *e, uint32_t what);
	struct event_loop *loop; /* NULL: not watched */
	int fd;
};

struct event_loop {
	int epoll;
	bool ended;
	int result; /* of event_run() once it ended */
	struct event **batch; /* those that are being served; NULL: none */
	int batch_n;
};

/* -FAR_EIO. On error there is nothing to close. */
int event_loop_open(struct event_loop *l);
void event_loop_close(struct event_loop *l);

/* Lets this process have as many open files as it may, and says how many those are; 0: not known. */
uint64_t event_files_max(void);

/* Watches `fd`, which stays the caller's; e->ready is set. -FAR_EIO. */
int event_add(struct event_loop *l, struct event *e, int fd, uint32_t what);

/* Waits for something else from now on. */
void event_change(struct event *e, uint32_t what);

/* Ends that, also for what is ready already: ready() is not called any more. An event that is not watched is fine.
 * Before its descriptor is closed: a fork may hold a copy, and closing alone would not end its events then. */
void event_remove(struct event *e);

/* event_run() returns `result` after the present event. */
void event_end(struct event_loop *l, int result);

/* Serves what is ready, waiting for `timeout_ms` at most (-1: for ever). Returns how many events that were, or
 * -FAR_EIO. */
int event_turn(struct event_loop *l, int timeout_ms);

#endif
