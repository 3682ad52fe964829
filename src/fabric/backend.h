/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend.h -- what a fabric backend and a hook implement. The guarantees G1-G6 stand in <farside/fabric.h>.
 */
#ifndef FAR_FABRIC_BACKEND_H
#define FAR_FABRIC_BACKEND_H

#include <farside/error.h>
#include <farside/fabric.h>

/* Operations for one node that were noted between two waits; owned by the waiting task. */
struct far_chain {
	struct far_op *first;
	struct far_op *last;
	uint32_t n;
	uint16_t node;
	uint64_t number;        /* of this connection: 1, 2, ... in the order of submission */
	int status;             /* 0 or -FAR_E: at first what a hook wants it to be, see `cut`; valid once done */
	struct far_task *task;  /* who waits */
	struct far_chain *next; /* the backend's while in flight */
	/* Only the first `cut` operations take effect: all `n` unless a hook set it lower. A backend changes `status`
	 * only when an operation fails by itself; that one and those behind it have no effect then. */
	uint32_t cut;
};

/* Chains that a backend has in its hands, in order. An empty list's `last` points to its `first`. */
struct far_chain_list {
	struct far_chain *first, **last;
};

static inline void
far_chain_list_add(struct far_chain_list *list, struct far_chain *c)
{
	c->next = NULL;
	*list->last = c;
	list->last = &c->next;
}

/* The first one, or NULL. */
static inline struct far_chain *
far_chain_list_take(struct far_chain_list *list)
{
	struct far_chain *c = list->first;

	if (c) {
		list->first = c->next;
		if (!c->next)
			list->last = &list->first;
	}
	return c;
}

struct far_fabric_ops {
	const char *name; /* the URI's scheme: "shm", "sim" */
	bool quiet;       /* the backend calls each connection's poller itself; the loop does not */
	/* Connects to the nodes of `spec` (the URI after "name:"); may block. On error *out is untouched. NULL: not
	 * opened by URI. */
	int (*open)(const char *spec, struct far_loop *l, const struct far_fabric_opts *opts,
		    struct far_fabric **out);
	/* Disconnects and frees. No chain is in flight. */
	void (*close)(struct far_fabric *f);
	/* Starts a chain; never blocks. 0: accepted, it will come back from poll() exactly once. -FAR_EAGAIN: the
	 * queue is full, post it again after a completion. A dead node shows in poll(), not here. */
	int (*post)(struct far_fabric *f, struct far_chain *c);
	/* The next finished chain with its status set, or NULL; never blocks. */
	struct far_chain *(*poll)(struct far_fabric *f);
	/* No fiber is runnable and nothing finished: may block until something does, for FABRIC_IDLE_NS at most; or
	 * for some milliseconds, but not beyond fiber_due(), where that is sure to wake it. NULL: nothing to do. */
	void (*idle)(struct far_fabric *f);
};

enum { FABRIC_IDLE_NS = 100 * 1000 };

/* A hook watches or bends the chains of a fabric: count, trace, fault. Hooks run in the order added. */
struct far_hook {
	/* Before a chain is posted or queued. May set c->cut and c->status (fault). NULL: not interested. */
	void (*before)(struct far_hook *h, struct far_chain *c);
	/* After it came back, before its task runs. */
	void (*after)(struct far_hook *h, struct far_chain *c);
	struct far_hook *next;
};

/* Head of every backend's connection object. */
struct far_fabric {
	const struct far_fabric_ops *ops;
	struct far_loop *loop;
	struct far_poller poller;
	unsigned nodes_n;
	unsigned caps;
	uint64_t region_len[FAR_NODES_MAX];
	struct far_hook *hooks;
	unsigned credits;       /* operations in flight at most, but for a chain that is longer than that */
	uint64_t ops_in_flight; /* posted and not yet back */
	unsigned in_flight;     /* chains, the same */
	uint64_t chains;        /* submitted so far */
	uint32_t unsure;        /* nodes, a bit each, where something of ours may still change memory: a chain with more
	                         * than READs and requests ended with -FAR_EUNSURE */
	struct far_chain *queue, **queue_tail; /* waiting for credits, in order */
	struct far_shared_queue *shared_queue;
};

/* `h` stays the caller's and outlives the fabric or is removed. */
void far_fabric_hook(struct far_fabric *f, struct far_hook *h);
void far_fabric_unhook(struct far_fabric *f, struct far_hook *h);

/* Common start of every connection, zeroed but for nodes_n, caps and region_len: the other fields, registration with
 * the loop. Called by each backend's open() and by far_sim_connect(). far_fabric_close() is its counterpart. `opts` may
 * be NULL. */
void far_fabric_init(struct far_fabric *f, const struct far_fabric_ops *ops, struct far_loop *l,
		     const struct far_fabric_opts *opts);

#endif
