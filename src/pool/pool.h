/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h -- one client's part in a pool of memory nodes: session, epochs, allocation, takeover.
 *
 * Rules that every user relies on:
 *
 * M1 Memory of any owner is reused only when every session has announced an epoch later than the unlink, or was
 *    fenced at the nodes. So an address or slot word read inside pool_enter()/pool_leave() still means the same
 *    until pool_leave(), and a CAS that expects it cannot succeed on a reused word.
 * M2 A remote word cached across pool_leave() is valid only while the design's refresh() (index.h) keeps it: a
 *    session announces epoch e after it read e, refreshed its caches, and ended all operations begun before.
 * M3 A block is retired by the client whose CAS unlinked it, once.
 * M4 A lease is not a fence: nothing of a silent client is taken over before every node acknowledged FENCE.
 */
#ifndef FAR_POOL_H
#define FAR_POOL_H

#include <farside/error.h>
#include <farside/fabric.h>

#include "index/index.h"
#include "pool/class.h"
#include "pool/layout.h"

struct pool;

/* Why the nodes of a fabric are not a pool. A place is a node's number in the fabric. */
enum pool_misfit_kind {
	POOL_FITS,        /* or it is not known */
	POOL_TWICE,       /* `place` is the same node as place `other` */
	POOL_STRANGER,    /* `place` belongs to another pool than place `other` */
	POOL_TOO_FEW,     /* the pool has `nodes_n`; a bit of `missing` for each that has no place */
	POOL_TOO_MANY,    /* the pool has `nodes_n` */
	POOL_OTHER_ORDER, /* `place` is the pool's node `other` */
	POOL_EMPTY,       /* `place` is new, or has lost what it held */
};

struct pool_misfit {
	enum pool_misfit_kind kind;
	unsigned place, other, nodes_n;
	uint32_t missing;
};

struct pool_opts {
	uint64_t lease_ns; /* 0 = POOL_LEASE_NS */
	uint64_t tick_ns;  /* between maintenance rounds, 0 = POOL_TICK_NS */
	uint64_t zoo;      /* mistakes to make (base/zoo.h) */
	struct pool_misfit *misfit; /* NULL, or where -FAR_EINVAL and -FAR_ENODE of pool_open() are explained */
};

#define POOL_LEASE_NS ((uint64_t)2000 * 1000 * 1000)
#define POOL_TICK_NS  ((uint64_t)100 * 1000 * 1000)

/*
 * Opens a session over the fabric of task `t`: checks every superblock, forms the pool when this is the first
 * open, and starts the maintenance daemon on t's loop. -FAR_EFORMAT, -FAR_EINVAL (nodes of different pools or in
 * another order), -FAR_ENODE, -FAR_ENOMEM.
 */
int pool_open(struct far_task *t, const struct pool_opts *opts, struct pool **out);

/* Ends the session: flushes frees, hands chunks back. Tables are closed and no operation runs. Afterwards the pool is
 * freed, also on error (whose code is returned), and the nodes that still listen know that the session is over; what
 * could not be handed back, others scavenge. NULL is fine. The maintenance daemon has ended when this returns. */
int pool_close(struct pool *p, struct far_task *t);

/* What a crash looks like to the others (tests, simulator): not a word to the nodes from now on. No operation runs and
 * the indexes are closed; the maintenance daemon ends, and frees the pool, when the loop runs next. */
void pool_abandon(struct pool *p);
/* Frees the local state of a pool whose loop was closed. NULL is fine. */
void pool_forget(struct pool *p);

/* Brackets of an operation (M1). Cheap; never yields. -FAR_EFENCED when this session was revoked or given up,
 * -FAR_ENODE. */
int pool_enter(struct pool *p, struct far_task *t);
/* Also to be checked before a result is returned: -FAR_EFENCED when the session was revoked meanwhile. */
int pool_leave(struct pool *p, struct far_task *t);

/*
 * `err` kept the caller from finishing, or from taking back, what others may be waiting for: a lock, a claim, a slot
 * that is not live yet. The session ends: it shows no sign of life any more, the others fence it when its lease is over
 * and recover what it held, and every later pool_enter() and pool_leave() is -FAR_EFENCED. Returns err. Never yields.
 */
int pool_give_up(struct pool *p, int err);

/* Whether all nodes answer: to be asked before one takes what only they let one finish, so that a node that has been
 * gone for long costs nobody a session. 0, at once when there is only one node; or -FAR_ENODE. Yields. */
int pool_ask_nodes(struct pool *p, struct far_task *t);

/* Is `t` between the two? For assertions. */
bool pool_is_inside(const struct far_task *t);

/* A version that was never given before: client : 16 | sequence : 48. May yield (a range of numbers runs out every
 * 2^20). */
int pool_version(struct pool *p, struct far_task *t, uint64_t *version);

/* The serial of this session: what a lock word holds. */
uint64_t pool_serial(const struct pool *p);

/* How long a silent session lives: what waiting for another client is measured by. */
uint64_t pool_lease(const struct pool *p);

/* Memory nodes of the pool. */
unsigned pool_nodes(const struct pool *p);

/* How many sessions besides this one are open. READs the session table. Yields. Or -FAR_E. */
int pool_others(struct pool *p, struct far_task *t);

/* What maintenance spent (chunk grants, leases, epochs). Charge own background work to it, too. */
struct far_count *pool_background(struct pool *p);

/*
 * Is session `serial` gone for good? 1: it ended or was fenced, now or earlier: its locks may be taken over.
 * 0: it lives, or its lease still runs. Reads the session table, and sends FENCE when the lease has run out on
 * this client's clock since it first saw the unchanged word. Yields. -FAR_EACCESS: it cannot be stopped.
 */
int pool_gone(struct pool *p, struct far_task *t, uint64_t serial);

/* Tables -------------------------------------------------------------------------------------------------- */

/* One open table of one client: identity and allocator state. */
struct pool_table {
	struct pool *pool;
	unsigned number;     /* of its root */
	uint64_t serial;
	uint64_t seed;
	struct far_addr head;
	char name[64];
	char design[16];
	const struct far_index_ops *ops; /* set by the opener with `index`: refresh, recover, reach are called */
	struct far_index *index;
	uint64_t state;      /* of its root, as last READ */
	int gone;            /* 0, or why no operation may use it any more: what pool_table_alive() returns */
	struct pool_arena *arena;
	struct pool_table *next;
};

/* Takes the name and an empty allocator for it; then the caller makes the head and commits. *out is the pool's, until
 * pool_table_close(), which gives the name up again when nothing was committed. Yields. -FAR_EEXIST, -FAR_EINVAL
 * (name), -FAR_ENOMEM. */
int pool_table_new(struct pool *p, struct far_task *t, const char *name, const char *design,
		   struct pool_table **out);
/* Publishes the head. Yields. On error the name is gone again; the object is still to be closed. */
int pool_table_commit(struct pool_table *pt, struct far_task *t, struct far_addr head);

/* The table of that name; *out is the pool's until pool_table_close(). Yields. On error *out is untouched: -FAR_ENOENT,
 * -FAR_EINVAL (name), -FAR_ECORRUPT, -FAR_ENOMEM. */
int pool_table_open(struct pool *p, struct far_task *t, const char *name, struct pool_table **out);
/* The maintenance stops calling `ops`: to be called before the index is closed. Not inside pool_enter(). Yields. */
void pool_table_detach(struct pool_table *pt, struct far_task *t);
/* Frees the local state; hands its chunks back. NULL is fine. Not inside pool_enter(). */
int pool_table_close(struct pool_table *pt, struct far_task *t);

/* Removes the name, waits for grace, frees the memory on all nodes. -FAR_ENOENT. */
int pool_table_drop(struct pool *p, struct far_task *t, const char *name);

/* All live roots; *list is malloc'ed and the caller's. Yields. Returns their number, or -FAR_E. */
int pool_table_list(struct pool *p, struct far_task *t, struct pool_root **list);

/* -FAR_ENOENT after another client dropped the table (checked at every epoch), -FAR_ECORRUPT when its caches could not
 * be refreshed. To be asked at the start of every operation, inside pool_enter(): its memory is used by others as soon
 * as the operations that began before it was noticed have ended. Never yields. */
int pool_table_alive(const struct pool_table *pt);

/* Allocation ---------------------------------------------------------------------------------------------- */

enum pool_kind {
	POOL_BLOCKS = POOL_PAGE_BLOCKS,
	POOL_INDEX = POOL_PAGE_INDEX,
};

/*
 * A block of `class` on `node`, contents undefined. Usually local; a chunk grant yields and is charged to the
 * background, so nothing may be noted. Outside pool_enter() it waits a bounded time for grace when the node is full:
 * -FAR_ENOMEM is final. Inside, the operation itself holds up the epoch, so nothing is waited for, and -FAR_ENOMEM
 * tells to back out, pool_leave(), pool_relieve(), and start over: perhaps there is memory, but it is in limbo.
 * -FAR_ENOENT: the table was dropped.
 */
int pool_alloc(struct pool_table *pt, struct far_task *t, unsigned node, enum pool_kind kind, unsigned class,
	       struct far_addr *out);

/* Gives back what no other client can have seen: reused at once. Never yields. */
void pool_unalloc(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr);

/* The caller's CAS has unlinked this block: it is reused after grace (M1), by the owner of its chunk. Never yields;
 * told to the owner in batches by the maintenance. */
void pool_retire(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr);

/*
 * Waits until an operation that ended with -FAR_ENOMEM is worth another try. Outside pool_enter(). *r is
 * all zero at the operation's first try and kept for the following ones. 0: try again. -FAR_ENOMEM: give up: every
 * session went through several epochs, or two leases passed, without making room, and the nodes had none left for a
 * try that asked for fresh memory instead of waiting for grace.
 */
struct pool_relief {
	uint64_t start_ns, epoch;
	unsigned rounds;
	bool pressed; /* that try has been made */
};
int pool_relieve(struct pool_table *pt, struct far_task *t, struct pool_relief *r);

/* The node with the most free memory for a new subtable. Never yields. */
unsigned pool_pick_node(struct pool *p);

/* Where to ask after pool_alloc() on `node` returned -FAR_ENOMEM: another node when `node` had no memory left to grant;
 * `node` itself when its memory is only in limbo, or there is no other. Never yields. */
unsigned pool_spill_node(struct pool *p, unsigned node);

/* Sums of page tables and bitmaps for this table. */
struct pool_usage {
	uint64_t granted[2], free[2], header[2]; /* bytes by kind: [0] blocks, [1] index */
};
int pool_table_usage(struct pool_table *pt, struct far_task *t, struct pool_usage *out);

/* Adopts every chunk of this table that has no owner, and finds out which of their blocks are free (with pt->ops), also
 * those that a dead client had unlinked and told nobody; returns when that is done. Outside pool_enter(). The number of
 * chunks adopted, or -FAR_E. */
int pool_table_adopt_orphans(struct pool_table *pt, struct far_task *t);

/* Fills info[] for the first `max` nodes; see far_nodes(). Yields. The number of nodes, or -FAR_E. */
int pool_node_info(struct pool *p, struct far_task *t, struct far_node_info *info, unsigned max);

/* One maintenance round now: beat, epoch, refresh, frees, takeover of silent sessions. Yields. */
int pool_tick(struct pool *p, struct far_task *t);

#endif
