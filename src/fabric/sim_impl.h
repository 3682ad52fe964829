/* SPDX-License-Identifier: Apache-2.0 */
/* sim_impl.h -- what the files of the simulated fabric share: sim.c moves chains, sim_world.c makes nodes. */
#ifndef FAR_FABRIC_SIM_IMPL_H
#define FAR_FABRIC_SIM_IMPL_H

#include "base/base.h"
#include "base/rand.h"
#include "fabric/backend.h"
#include "fabric/sim.h"

struct node;

enum {
	SIM_LANES = 8,          /* operations of a group at most */
	SIM_PIECE = 64,         /* words */
	SIM_PAGE = 4096,        /* unit of dirty tracking */
	SIM_POLL_STEPS = 32,    /* then timers have a look */
	SIM_STEP_NS = 100,
};

#define SIM_NEVER UINT64_MAX

struct sim_node {
	struct far_sim *sim;
	uint8_t *region;
	uint8_t *image;         /* the region as it was formatted */
	uint8_t *dirty;         /* by page: differs from the image, or may */
	uint32_t *dirty_list;
	uint32_t dirty_n;
	struct node *node;      /* NULL: raw memory, or down */
	bool up;
	uint64_t life;          /* counts restarts */
	uint64_t head_len;      /* what the node's own code writes to, but for bitmaps of chunks */
};

struct sim_lane {
	struct far_op *op;
	uint8_t *at;            /* remote memory of the operation */
	uint64_t tag;           /* of its first word in the trace */
	uint64_t left;          /* words of this piece that are still to do */
	uint32_t base;          /* its first word */
	uint32_t words;         /* of this piece */
	uint32_t pieces;        /* still to do, this one included */
};

struct sim_run {
	struct far_chain *chain;
	struct sim_conn *conn;
	struct far_op *next_op; /* the first that has not begun */
	uint32_t ops_left;      /* that may begin */
	uint32_t index;         /* in active[] */
	bool began;
	unsigned lanes_n;
	struct sim_lane lanes[SIM_LANES];
	struct sim_run *next;   /* in conn.held, or free */
};

struct sim_conn {
	struct far_fabric base;
	struct far_sim *sim;
	unsigned id;
	bool dead;
	bool cut[FAR_NODES_MAX];         /* fenced there */
	uint64_t life[FAR_NODES_MAX];    /* of the node when we connected */
	uint64_t session[FAR_NODES_MAX]; /* node_serve() keeps it */
	uint64_t thaw_ns;                /* paused until then; 0 = not paused */
	struct sim_run *held;
	uint64_t fuse;                   /* steps to go */
	enum far_sim_fate fate;
	uint64_t fate_ns;
	struct far_chain *done, **done_tail;
	int (*poll)(struct far_poller *p, bool idle); /* the core's */
	struct sim_conn *next;
};

struct far_sim {
	struct far_rng rng;
	uint64_t draws;                  /* state of the steps' own random source */
	struct far_sim_policy policy;
	uint64_t keep_mask;
	uint64_t now, steps, verbs, hash;
	bool exhausted;
	unsigned nodes_n;
	uint64_t region_len;
	bool raw;
	struct sim_node nodes[FAR_NODES_MAX];

	struct sim_conn *conns;          /* by id, ascending */
	unsigned conns_n;                /* ids given */
	uint64_t thaw_ns;                /* the earliest of all paused */
	struct far_loop *loop;
	struct far_poller poller;

	struct sim_run **active;
	uint32_t active_n, active_max;
	uint32_t at;                     /* who stepped last; >= active_n: draw */
	const struct sim_conn *favour;   /* whose run that was */
	struct sim_run *free_runs;
	unsigned done_n;                 /* chains in all conn.done */
};

static inline void
sim_dirty(struct sim_node *n, uint64_t off)
{
	uint64_t page = off / SIM_PAGE;

	if (n->dirty[page])
		return;
	n->dirty[page] = 1;
	n->dirty_list[n->dirty_n++] = (uint32_t)page;
}

/* Ends every run of `k` (NULL: anybody's) at `node` (< 0: any node). With -FAR_EUNSURE, runs that did nothing yet end
 * with -FAR_ENODE. */
void sim_cut(struct far_sim *s, struct sim_conn *k, int node, int status);

/* The world's poller. */
int sim_poll_all(struct far_poller *p, bool idle);
bool sim_busy(struct far_poller *p);

#endif
