/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- the parts of one client's pool, shared by the files that implement pool.h.
 *
 *	join.c      superblocks, forming a pool; open and close
 *	session.c   the session's word, leases, fencing
 *	lock.c      fibers that wait for one another
 *	epoch.c     eras, the maintenance round, limbo (rules M1, M2)
 *	chunk.c     the books of own chunks: which blocks are free
 *	alloc.c     blocks, heaps, grants
 *	frees.c     blocks of other clients' chunks: telling their owners, and being told
 *	scavenge.c  chunks of dead clients
 *	table.c     named roots, drop
 *	usage.c     what the page tables tell
 *
 * Everything here belongs to one loop and is touched by its fibers only, so no word needs an atomic. A fiber may be
 * interrupted where it yields and nowhere else; which functions yield is said at each.
 */
#ifndef FAR_POOL_CLIENT_H
#define FAR_POOL_CLIENT_H

#include "base/base.h"
#include "base/zoo.h"
#include "pool/control.h"
#include "pool/pool.h"

/* What a client knows of a node: checked facts of its superblock, and whose chunk each page belongs to. */
struct pool_place {
	struct pool_super super;
	uint32_t *map;         /* by page: 0, or 1 + index in pool.chunks of the own chunk that covers it */
	bool refused;          /* the last grant asked of it: it had no memory */
	uint64_t free_pages;   /* as the node last told, own grants deducted */
};

/* How long this client has seen the word of a session line unchanged. */
struct pool_watch {
	uint64_t serial, word;
	uint64_t since_ns;     /* it was there by then, */
	uint64_t until_ns;     /* and still not before then */
	bool unstoppable;      /* FENCE answered -FAR_EACCESS: it stays in the way of reclamation */
};

/* Fibers that wait for one another. */
struct pool_lock {
	bool held;
	struct pool_waiter *first;
};

/* An own chunk, or one that this client adopted. Its blocks' states are told by two bits each. */
struct pool_chunk {
	struct pool_heap *heap;
	uint64_t off;          /* of the chunk in its node's region */
	uint64_t first;        /* of block 0 */
	uint32_t run;          /* pages */
	uint32_t blocks_n;
	uint32_t free_n;       /* bits set in `free` */
	uint32_t idle_n;       /* bits set in `idle` */
	uint32_t id;           /* 1 + index in pool.chunks */
	uint32_t hint;         /* no free bit below this word */
	bool listed;           /* in heap->avail */
	bool harvesting;       /* a fiber is about to clear remote bits */
	unsigned pins;         /* fibers that work on it and yield: it must stay */
	struct pool_chunk *next, *prev;             /* in heap->avail */
	struct pool_chunk *sibling;                 /* in heap->chunks */
	struct pool_scavenge *scavenge;             /* NULL, or what is still to be found out (scavenge.c) */
	struct {
		uint64_t free; /* may be handed out */
		uint64_t idle; /* free, or in limbo */
	} words[];
};

/* The blocks of one (table, node, kind, class) that this client manages. */
struct pool_heap {
	struct pool_arena *arena;
	uint16_t node;
	uint8_t kind, class;
	uint32_t units;        /* of POOL_UNIT per block */
	uint32_t next_run;     /* pages to ask for next */
	uint32_t chunks_n;
	uint64_t blocks_n;     /* of all its chunks */
	uint64_t free_n;       /* of all its chunks */
	uint64_t limbo_n;      /* own blocks that wait for grace */
	uint32_t whole_n;      /* chunks that are wholly free, */
	uint32_t whole_low;    /* the fewest since pool_release_free() looked last */
	bool dry;              /* ran out since the last round: look for what others freed */
	struct pool_chunk *avail, **avail_last;     /* chunks with free blocks */
	struct pool_chunk *chunks;
	struct pool_chunk *harvest;                 /* the next to be asked for bits */
	struct pool_lock grant;
	struct pool_heap *next;                     /* in arena->list */
};

/* One table's heaps. */
struct pool_arena {
	struct pool *pool;
	struct pool_table *table;
	struct pool_heap *list;
	bool recover;          /* dirty orphans came since recover() began */
	bool audit;            /* look through clean orphans, too */
	struct pool_heap *heaps[];                  /* [node][kind - 1][class] */
};

enum { POOL_FOREIGN_FLUSH = 32 }; /* queued frees of others' blocks that are worth waking the daemon for */

/* A block of a chunk that is not ours, to be told to its owner. */
struct pool_foreign {
	struct far_addr addr;
	uint64_t table_serial;
	uint8_t kind, class, table;
};

/*
 * Limbo: own blocks in the order in which they were unlinked. Entries [head, tail) of a ring; those below `stamped`
 * carry the stamp of the mark they lie under.
 */
enum { POOL_MARKS = 32 };
struct pool_limbo {
	uint64_t *ring;        /* far_addr.raw; 0 = withdrawn */
	uint64_t mask;         /* length - 1 */
	uint64_t head, tail, stamped;
	struct {
		uint64_t end, stamp;
	} marks[POOL_MARKS];   /* oldest first */
	unsigned marks_n;
};

struct pool {
	struct far_fabric *fabric;
	/* The daemon uses the pool while `daemon_alive`; it ends at `closing` or `abandoned`. */
	struct far_task *daemon;
	struct far_task *closer;
	bool daemon_alive, closing, abandoned;

	uint64_t lease_ns, tick_ns, hurry_ns, zoo;
	unsigned nodes_n;
	struct pool_place *places;

	/* Session. `err`: 0, or why nothing works any more (-FAR_EFENCED, -FAR_ENODE). */
	int err;
	bool given_up;         /* S5 */
	uint64_t serial;
	uint32_t slot;
	uint16_t beat;
	uint64_t beat_ns;      /* when the word was last written */
	uint64_t version_next, version_end;
	struct pool_watch *watch;                   /* by session line */
	uint32_t high;         /* session lines that may be in use */

	/* Epochs. */
	uint64_t epoch;        /* of the pool, as last read */
	uint64_t announced;    /* by this session */
	uint64_t others;       /* the smallest epoch that another session announced, as last read */
	uint64_t era;
	uint64_t inside[2];    /* operations by parity of their era */
	struct far_task *drainer;
	struct pool_lock tick;
	uint64_t ticks;
	bool hurry;            /* memory is short here: next round soon */
	bool starved;          /* somebody waits for memory here: look for dropped tables, too */
	bool hurry_others;     /* it is short at another client that waits for us, too */

	/* Memory. */
	struct pool_limbo limbo;
	struct pool_foreign *foreign;
	size_t foreign_n, foreign_max;
	struct pool_chunk **chunks;                 /* by id - 1; NULL: unused */
	uint32_t chunks_n, chunks_max;
	uint32_t chunk_unused; /* no unused place below */
	uint64_t harvest_ns;   /* when all heaps had their portion of harvests */
	struct pool_scavenge *scavenges;
	uint64_t scavenged;    /* steps taken so far */
	uint64_t press_ns;     /* until then heaps take fresh chunks, wait for no grace: somebody waited in vain */
	uint64_t gains;        /* blocks and chunks that became available so far: who waits for memory looks here */
	uint64_t bad_frees;    /* frees of what is no block, or was free: dropped */

	struct pool_table *tables;
	struct far_count background;
};

/* Beats with this bit ask the others to hurry, too. */
enum { POOL_BEAT_HURRY = 0x8000 };

/* What a step of this client returns that neither failed (-FAR_E...) nor is done (0). */
enum pool_step {
	POOL_ORPHAN = 1,  /* GRANT gave a chunk that somebody left: what is free in it has to pass limbo */
	POOL_IN_LIMBO,    /* there is memory, but it waits for grace */
	POOL_NOT_YET,     /* the epoch at which it was dropped is not past grace */
	POOL_AGAIN,       /* what was READ was too short */
};

/* session.c ----------------------------------------------------------------------------------------------- */

/* Sends `req` to `node`: 0 and *reply, or an error of the call or of the node. Yields. */
int pool_call(struct pool *p, struct far_task *t, unsigned node, struct control_request *req,
	      struct control_reply *reply);

/* Notes an error that ends the session: -FAR_EFENCED, or -FAR_ENODE of the home node. Returns err. */
int pool_note_error(struct pool *p, int err);

/* 0, or why nothing works any more: -FAR_EFENCED, -FAR_ENODE. Finds out whether S5 ends the session now. */
int pool_state(struct pool *p);

static inline struct far_addr
pool_home(uint64_t off)
{
	return far_addr_make(0, off);
}

/* WRITEs this session's word: `epoch` and a new beat; nothing when the session is over. Yields. */
int pool_beat(struct pool *p, struct far_task *t, uint64_t epoch);

/* What the home node told in one chain. */
struct pool_view {
	uint64_t epoch;
	uint64_t others;       /* the smallest epoch that another session announced, UINT64_MAX when there is none */
	bool hurry;            /* somebody is short of memory */
	unsigned sessions_n;   /* others that are open */
};

/* READs epoch and session lines in one chain and updates the watches. Yields. -FAR_EFENCED when the own line is
 * another's. */
int pool_read_view(struct pool *p, struct far_task *t, struct pool_view *view);

/* FENCEs sessions whose lease ran out. Yields. */
int pool_fence_silent(struct pool *p, struct far_task *t);

/* READs what each node tells of itself: ends the session when one came back empty (S4), and notes what is free there.
 * Yields. */
int pool_look_at_nodes(struct pool *p, struct far_task *t);

/* Whether the home node does not answer. Yields. */
bool pool_home_is_gone(struct pool *p, struct far_task *t);

/* join.c -------------------------------------------------------------------------------------------------- */

/* Frees the local state. */
void pool_free(struct pool *p);

/* lock.c -------------------------------------------------------------------------------------------------- */

/* One fiber at a time; the others follow in order of arrival. Yields. */
void pool_lock(struct pool_lock *l, struct far_task *t);
void pool_unlock(struct pool_lock *l);

/* epoch.c ------------------------------------------------------------------------------------------------- */

/* The smallest epoch that any session announced: stamps below it are past grace. */
static inline uint64_t
pool_floor(const struct pool *p)
{
	return far_min(p->others, p->announced);
}

/* The maintenance fiber. */
void pool_daemon(struct far_task *t, void *arg);

/* Asks the daemon for a round soon. */
void pool_hurry(struct pool *p);

/* Puts own block `addr` into limbo. -FAR_ENOMEM (of the process): it is not. */
int pool_limbo_push(struct pool *p, struct far_addr addr);

/* Takes the blocks of `arena` out of limbo; they stay idle. */
void pool_limbo_withdraw(struct pool *p, const struct pool_arena *arena);

/* chunk.c ------------------------------------------------------------------------------------------------- */

/* The own chunk that covers `addr`, or NULL. */
static inline struct pool_chunk *
pool_chunk_at(const struct pool *p, struct far_addr addr)
{
	unsigned node = far_addr_node(addr);
	uint64_t off = far_addr_off(addr), page;
	uint32_t id;

	if (node >= p->nodes_n || off < p->places[node].super.data_off)
		return NULL;
	page = (off - p->places[node].super.data_off) / POOL_PAGE;
	if (page >= p->places[node].super.pages_n)
		return NULL;
	id = p->places[node].map[page];
	return id ? p->chunks[id - 1] : NULL;
}

/* The index of the block that starts at `off`, or -1 when none does. */
static inline int64_t
pool_chunk_index(const struct pool_chunk *c, uint64_t off)
{
	uint32_t units;

	if (off < c->first || off % POOL_UNIT)
		return -1;
	units = (uint32_t)((off - c->first) / POOL_UNIT);
	if (units % c->heap->units || units / c->heap->units >= c->blocks_n)
		return -1;
	return units / c->heap->units;
}

static inline struct far_addr
pool_chunk_block(const struct pool_chunk *c, uint32_t i)
{
	return far_addr_make(c->heap->node, c->first + (uint64_t)i * c->heap->units * POOL_UNIT);
}

static inline bool
pool_chunk_is_idle(const struct pool_chunk *c, uint32_t i)
{
	return c->words[i / 64].idle >> i % 64 & 1;
}

/* Enters the chunk of `run` pages at `off` of the heap's node into the heap's books, with no block free or idle; it is
 * the heap's until pool_chunk_forget(). NULL: out of memory. */
struct pool_chunk *pool_chunk_new(struct pool *p, struct pool_heap *h, uint64_t off, uint32_t run);
/* Strikes it out and frees it. No block of it is in limbo, and no fiber works on it. */
void pool_chunk_forget(struct pool *p, struct pool_chunk *c);
/* All blocks of a new chunk become free: nobody ever used them. */
void pool_chunk_fill(struct pool *p, struct pool_chunk *c);

/* A free block of a heap that has one. */
struct far_addr pool_heap_take(struct pool_heap *h);
/* Block i, in use until now, is in nobody's hands any more: into limbo. -FAR_ECORRUPT: it is idle already. */
int pool_chunk_retire(struct pool *p, struct pool_chunk *c, uint32_t i);
/* Block i, idle until now, is past grace, and free. */
void pool_chunk_free(struct pool *p, struct pool_chunk *c, uint32_t i);
/* Block i, in use until now, is free at once: no other client can know of it. */
void pool_chunk_unalloc(struct pool *p, struct pool_chunk *c, uint32_t i);
/* Lets the allocator use the chunk when it has free blocks and is not being scavenged. */
void pool_chunk_offer(struct pool_chunk *c);

/* Blocks in use for the caller: neither free nor in limbo. */
static inline uint64_t
pool_heap_used(const struct pool_heap *h)
{
	return h->blocks_n - h->free_n - h->limbo_n;
}

/* alloc.c ------------------------------------------------------------------------------------------------- */

/* Gives wholly free chunks back: all of them, or those that their heap did without since the last call. Yields. */
int pool_release_free(struct pool *p, struct far_task *t, bool all);

/* Gives the table an arena without heaps, which it owns. -FAR_ENOMEM. */
int pool_arena_open(struct pool *p, struct pool_table *pt);
/* Hands the chunks of an arena to the nodes as orphans, and frees it, also on error. Yields. */
int pool_arena_close(struct pool_arena *a, struct far_task *t);
/* Frees the local state only, with the pool's. */
void pool_arena_free(struct pool_arena *a);

/* Pages of the smallest chunk that holds a block of `class`. */
static inline uint32_t
pool_run_min(unsigned class)
{
	return (uint32_t)((POOL_UNIT + pool_class_len(class) + POOL_PAGE - 1) / POOL_PAGE);
}

/* The heap of (node, kind, class), made when there is none; it is the arena's. NULL: out of memory. */
struct pool_heap *pool_heap_of(struct pool_arena *a, unsigned node, unsigned kind, unsigned class);

/* GRANT for a heap: a fresh chunk goes into use, an orphan's bits into limbo, a dirty one to the scavenger. Inside
 * pool_enter(), so that the heap stays. Returns 0 (fresh), POOL_ORPHAN or -FAR_E. Yields. */
int pool_heap_grow(struct pool_heap *h, struct far_task *t, unsigned flags, uint32_t run);

/* frees.c ------------------------------------------------------------------------------------------------- */

/* Queues a block of another client's chunk, which this client unlinked, for the next flush. Never yields. */
void pool_foreign_push(struct pool_table *pt, enum pool_kind kind, unsigned class, struct far_addr addr);
/* Sets the bits of all blocks queued until now. Yields. */
int pool_foreign_flush(struct pool *p, struct far_task *t);
/* Forgets what is queued for a dropped table. */
void pool_foreign_drop(struct pool *p, uint64_t table_serial);

/* READs the bitmap of an own chunk, takes the bits found and puts their blocks into limbo. Yields. */
int pool_harvest(struct pool *p, struct far_task *t, struct pool_chunk *c);
/* A portion of all harvests: heaps that ran dry first. Yields. */
int pool_harvest_some(struct pool *p, struct far_task *t);

/* Sets the bit of every idle block in the remote bitmap: the chunk is about to be given up. Yields. */
int pool_chunk_publish(struct pool *p, struct far_task *t, const struct pool_chunk *c);

/* scavenge.c ---------------------------------------------------------------------------------------------- */

/* Notes that `c` was adopted dirty. */
int pool_scavenge_begin(struct pool *p, struct pool_chunk *c);
/* Forgets that. */
void pool_scavenge_end(struct pool *p, struct pool_chunk *c);
/* How many chunks of this table are still to be looked through; *done grows with every bit of progress. */
unsigned pool_scavenges_of(const struct pool_table *pt, uint64_t *done);
/* A portion of the work on all dirty chunks. Yields. */
int pool_scavenge_some(struct pool *p, struct far_task *t);

/* table.c ------------------------------------------------------------------------------------------------- */

/* Notes READs of the open tables' root states. No table is closed before the wait: closing takes pool.tick. */
void pool_roots_note(struct pool *p, struct far_task *t);
/* Marks the tables whose root was not found as it should be. */
void pool_roots_mark(struct pool *p);
/* Forgets the memory of tables that were marked, after every operation that saw them alive has ended. */
void pool_tables_discard(struct pool *p);
/* Frees dropped tables that are past grace. Yields. */
int pool_drops_finish(struct pool *p, struct far_task *t);

/* usage.c ------------------------------------------------------------------------------------------------- */

/* Adopts the orphans of a table, and returns how many. Yields. */
int pool_adopt(struct pool_table *pt, struct far_task *t);

/* misfit.c ------------------------------------------------------------------------------------------------ */

/* A first client has tied the node to a pool. */
static inline bool
pool_is_formed(const struct pool_super *s)
{
	return s->pool_id[0] || s->pool_id[1];
}

/* True, and *m tells, when one node has two places: by another path, or by a copy of its file. Its generation, a random
 * number, says so. A pool formed with it twice could never be opened again. The superblocks were checked. */
bool pool_misfit_twice(const struct pool *p, struct pool_misfit *m);
/* Why the nodes of these superblocks, which were checked, are not a pool. */
void pool_misfit_find(const struct pool *p, struct pool_misfit *m);

#endif
