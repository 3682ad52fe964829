/* SPDX-License-Identifier: Apache-2.0 */
/* sim_impl.h -- what the files of the simulated fabric share: sim_conn.c takes chains, sim.c moves them, sim_fate.c
 * stops them, sim_world.c makes nodes. */
#ifndef FAR_FABRIC_SIM_IMPL_H
#define FAR_FABRIC_SIM_IMPL_H

#include "base/base.h"
#include "base/rand.h"
#include "base/zoo.h"
#include "fabric/backend.h"
#include "fabric/sim.h"

struct node;
struct sim_nic;
struct sim_thread;

enum {
	SIM_LANES = 8,          /* operations of a group at most */
	SIM_PIECE = 64,         /* words */
	SIM_LINE = 8,           /* the same */
	SIM_PAGE = 1024,        /* unit of dirty tracking */
	SIM_POLL_STEPS = 32,    /* then timers have a look */
	SIM_STEP_NS = 100,
	SIM_ALONE = 2048,       /* steps without a change, where priorities rule: so nobody starves */
};

#define SIM_NEVER UINT64_MAX
#define SIM_LINE_MASK ((UINT64_C(1) << SIM_LINE) - 1)

/* Priorities that are drawn lie above those that who falls behind gets: `lowest`, counting down from here. */
#define SIM_PRIORITY ((uint64_t)1 << 63)

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
	/* The atomic in whose gap we are (policy.gap): what it will store where; NULL: none. */
	const struct far_op *gap_op;
	uint64_t *gap_word, gap_value;
	uint64_t down_ns, up_ns;                 /* the plan; SIM_NEVER: none */
	enum far_sim_return how;
};

/* A chain that its client does not wait for any more, with operations and buffers of its own. */
struct sim_stray {
	uint32_t repeats;       /* WRITEs that are done once more: all there are of it. 0: what was left of a chain */
	struct far_chain chain;
	struct far_op ops[];
};

struct sim_lane {
	struct far_op *op;
	uint8_t *at;            /* remote memory of the operation */
	const uint8_t *from;    /* of a READ or WRITE: its words, and where they go */
	uint8_t *to;
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
	uint64_t thaw_ns;       /* held until then, or until its client goes on */
	struct sim_stray *stray; /* owns `chain`; NULL: a task waits for it */
};

struct sim_conn {
	struct far_fabric base;
	struct far_sim *sim;
	unsigned id;
	bool dead;
	bool protected;                  /* no node can stop it */
	bool zombie;                     /* fenced while it lived, and not yet noticed it */
	bool cut[FAR_NODES_MAX];         /* fenced there */
	bool fenced[FAR_NODES_MAX];      /* a FENCE of its session there was acknowledged */
	bool broken[FAR_NODES_MAX];      /* the queue pair to there */
	uint64_t life[FAR_NODES_MAX];    /* of the node when we connected */
	uint64_t session[FAR_NODES_MAX]; /* node_serve() keeps it */
	uint64_t thaw_ns;                /* paused until then; 0 = not paused */
	uint64_t plan_ns, plan_len_ns;   /* it will be paused then, for so long; SIM_NEVER: no plan */
	uint64_t priority;               /* policy.changes */
	struct sim_run *held;            /* runs that stand still */
	uint64_t fuse;                   /* steps to go */
	enum far_sim_fate fate;
	uint64_t fate_ns;
	uint64_t verbs;                  /* begun */
	uint64_t aim_verb;               /* the fuse is lit in this one; SIM_NEVER: none */
	enum far_sim_point aim_point;
	const struct far_op *aim;        /* that verb, while it is under way */
	uint32_t aim_left;               /* words of it still to do before the fate strikes */
	struct far_chain *done, **done_tail;
	struct sim_thread *thread;       /* performance mode */
	struct sim_conn *next;
};

struct far_sim {
	struct far_rng rng;
	uint64_t draws;                  /* state of the steps' own random source */
	struct far_sim_policy policy;
	uint64_t keep_mask;
	/* Not side by side: compilers would change `now` and `steps` by one wide access, which is slower. */
	uint64_t now, hash, steps, verbs;
	bool exhausted;
	unsigned nodes_n;
	uint64_t region_len;
	bool raw;
	struct sim_node nodes[FAR_NODES_MAX];

	struct sim_conn *conns;          /* by id, ascending */
	unsigned conns_n;                /* ids given */
	uint64_t event_ns;               /* the next thing that happens by time: a thaw, a plan */
	uint64_t trouble_ns;             /* far_sim_trouble_end() */
	struct far_sim_faults faults;
	uint64_t refuse;                 /* grants until one is refused; 0: none is */
	bool refuse_all;                 /* and those behind it */
	struct far_loop *loop;
	struct far_poller poller;

	struct sim_run **active;
	uint32_t active_n, active_max;
	bool watched;                    /* somebody looks at each step: `tell`, an aim, or a fence */
	void (*tell)(void *arg, const struct far_sim_step *step);
	void *tell_arg;
	bool aims;                       /* some client has an aim, */
	bool fences;                     /* was fenced somewhere */
	uint64_t lowest;                 /* priority given so far */
	uint64_t change_step;            /* the next change of priorities */
	unsigned changes_left;
	uint32_t alone;                  /* steps since the last change */
	uint32_t at;                     /* who stepped last; >= active_n: draw */
	const struct sim_conn *favour;   /* whose run that was */
	struct sim_run *free_runs;
	unsigned done_n;                 /* chains in all conn.done */
	struct sim_nic *nic;             /* performance mode, or NULL */
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

/* Makes `l`, whose remote memory is known, the lane of `op`. */
static inline void
sim_lane_of(struct sim_lane *l, struct far_op *op)
{
	bool writes = op->code == FAR_OP_WRITE;

	l->op = op;
	l->from = writes ? op->buf : l->at;
	l->to = writes ? l->at : op->buf;
}

static inline void
sim_set_watched(struct far_sim *s)
{
	s->watched = s->tell || s->aims || s->fences;
}

static inline void
sim_trouble(struct far_sim *s, uint64_t until)
{
	s->trouble_ns = far_max(s->trouble_ns, until);
}

/* sim.c --------------------------------------------------------------------------------------------------- */

/* Lets `r` step. -FAR_ENOMEM. */
int sim_activate(struct far_sim *s, struct sim_run *r);
void sim_deactivate(struct far_sim *s, struct sim_run *r);

/* Ends `r`, which is neither active nor held any more: its task gets `status`. */
void sim_end(struct far_sim *s, struct sim_run *r, int status);

/* Begins the next group of operations. False: there is none, and *status tells how the chain ended. */
bool sim_group_begin(struct far_sim *s, struct sim_run *r, int *status);

/* Does a whole operation of r's chain now. -FAR_EACCESS: it is invalid (G5), and nothing was done. */
int sim_apply(struct far_sim *s, struct sim_run *r, struct far_op *op);

/* The node's atomic in the gap stores. */
void sim_gap_close(struct sim_node *n);

/* Has the core fetch all chains that are done; 0: there was none. */
int sim_collect(struct far_sim *s);

/* The world's poller. */
int sim_poll_all(struct far_poller *p, bool idle);
bool sim_busy(struct far_poller *p);

/* sim_conn.c ---------------------------------------------------------------------------------------------- */

/* A run in no list, or NULL. */
struct sim_run *sim_run_new(struct far_sim *s);

/* sim_fate.c ---------------------------------------------------------------------------------------------- */

/* Ends every run of `k` (NULL: anybody's) at `node` (< 0: any node). With -FAR_EUNSURE, runs that did nothing yet end
 * with -FAR_ENODE. Of a client that is paused, runs end when it goes on. */
void sim_cut(struct far_sim *s, struct sim_conn *k, int node, int status);

/* `r`, which is in no list, stands still until `until`. */
void sim_hold(struct far_sim *s, struct sim_run *r, uint64_t until);

/* The fuse of r's client has burnt down; `r` has just stepped, is active and no stray. */
void sim_fuse_burnt(struct far_sim *s, struct sim_run *r);

/* Begins the verb that the aim of r's client is at: `words` long. */
void sim_aim_begin(struct sim_conn *k, const struct far_op *op, uint32_t words);

/* The client has ended, and nothing of it is in flight any more. */
void sim_evict(struct far_sim *s, struct sim_conn *k);

/* The run is longer than anybody wanted: every client is dead. */
void sim_exhaust(struct far_sim *s);

/* What is due by now happens. */
void sim_events(struct far_sim *s);
/* Finds out when the next thing is due. */
void sim_events_next(struct far_sim *s);

/* The first client falls behind all others. */
void sim_demote(struct far_sim *s, struct sim_conn *k);

/* sim_nic.c: performance mode ----------------------------------------------------------------------------- */

/* Starts r's chain; sim_end() follows in its time. Always 0. */
int sim_nic_post(struct far_sim *s, struct sim_run *r);
/* As sim_cut(): nothing of these chains takes effect any more; they end in their time. */
void sim_nic_cut(struct far_sim *s, struct sim_conn *k, int node, int status);
/* Moves time to the next completion or timer. */
int sim_nic_poll(struct far_sim *s, bool idle);
bool sim_nic_busy(const struct far_sim *s);
int sim_nic_connect(struct sim_conn *k);
void sim_nic_disconnect(struct sim_conn *k);
/* What the profile makes of a client's credits. */
unsigned sim_nic_credits(const struct far_sim *s, unsigned credits);
void sim_nic_close(struct far_sim *s);

#endif
