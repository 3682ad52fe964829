/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_impl.h -- what the files of the memory node share.
 *
 * The node keeps a copy of every table that it writes and works on the copy alone: after node_open() the region is
 * output. Every store to the region goes through node_put(); a comment beside it says what a crash before or after
 * that store leaves.
 */
#ifndef FAR_POOL_NODE_IMPL_H
#define FAR_POOL_NODE_IMPL_H

#include "base/base.h"
#include "base/zoo.h"
#include "pool/node.h"

enum {
	NODE_SPAN = POOL_SUPERPAGE / POOL_PAGE, /* pages of a superpage */
	NODE_SMALL = 8 << 20,                   /* smaller regions have fewer lines, and mix kinds in superpages */
	NODE_SMALL_SESSIONS = 16,
	NODE_SMALL_ROOTS = 8,
	NODE_PAGES_MIN = 4,
	NODE_GONE = 64,           /* serials of ended sessions that a node remembers exactly */
	NODE_ORPHANS_LOOK = 1024, /* orphans looked at for one that is long enough */
	NODE_WAIT = 1,            /* a handler's result: the reply comes later */
};

enum node_session_state {
	NODE_SESSION_LIVE,
	NODE_SESSION_FENCING,     /* stop() is under way */
	NODE_SESSION_QUARANTINED, /* it cannot be stopped: its line and chunks stay until it exits */
};

struct node_session {
	uint64_t serial; /* 0 = free */
	uint64_t range_next;
	uint32_t chunks;
	uint32_t quarantine_pages; /* of its chunks, once it is quarantined */
	uint32_t pid;              /* of its process, 0 = not known */
	enum node_session_state state;
};

/* One superpage of the data area (the last may be cut short). */
struct node_span {
	uint32_t free; /* bit i: page i is free */
	uint8_t kind;  /* of the chunks in it; POOL_PAGE_FREE: all its pages are free */
};

struct node {
	uint8_t *region;
	struct pool_super *super;
	struct pool_session_line *lines;
	struct pool_root *roots;
	struct pool_private *private;
	uint64_t *pages;
	struct node_env env;

	/* The node's own copies; `id` of the superblock. */
	struct pool_super id;
	struct node_session *sessions;
	struct pool_root *names;
	uint64_t *words;        /* page table */
	uint32_t *table_chunks; /* per table number */
	uint64_t pages_free;
	bool mixed;             /* superpages hold both kinds: the region has too few */

	/* Free pages. hint[k][r]: no superpage of kind k below it has a free run of r pages; hint[0][0]: none below
	 * is wholly free. */
	struct node_span *spans;
	uint32_t spans_n;
	uint32_t hint[3][NODE_SPAN];

	/* Orphans by table, kind, class and dirtiness: page + 1 of the first, then next[page]. */
	uint32_t *orphans;
	uint32_t *next;

	/* Ended sessions, so that a late JOIN does not revive one. All serials up to gone_floor count as ended. */
	uint64_t gone[NODE_GONE];
	uint64_t gone_floor;
	unsigned gone_at;
};

/* A store to the region. Clients may see it at once, and a crash may come right after it. */
static inline void
node_put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* The one word that clients change and the node reads. */
static inline uint64_t
node_epoch(const struct node *n)
{
	return __atomic_load_n(&n->super->epoch, __ATOMIC_SEQ_CST);
}

static inline bool
node_is_home(const struct node *n)
{
	return n->id.nodes_n > 0 && n->id.node == 0;
}

static inline unsigned
node_slot(const struct node *n, const struct node_session *s)
{
	return (unsigned)(s - n->sessions);
}

/* node_super.c: the superblock. --------------------------------------------------------------------------- */

/* XXH3-64 of the fields before `sum`. */
uint64_t node_super_sum(const struct pool_super *s);

/* Copies a region's superblock to *out and checks it against `len`. -FAR_EFORMAT, -FAR_ECORRUPT. A FORM that a crash
 * cut short counts as not begun (*torn is set). */
int node_super_read(const void *region, uint64_t len, struct pool_super *out, bool *torn);

/* node_pages.c: chunks. ----------------------------------------------------------------------------------- */

/* Reads the page table: undoes what was half done, turns every owned chunk into a dirty orphan. -FAR_ECORRUPT. */
int node_pages_load(struct node *n);

int node_grant(struct node *n, struct node_session *me, const struct control_request *req,
	       struct control_reply *reply);
int node_release(struct node *n, struct node_session *me, const struct control_request *req,
		 struct control_reply *reply);
int node_scavenged(struct node *n, struct node_session *me, const struct control_request *req,
		   struct control_reply *reply);

/* The session's chunks become orphans. */
void node_orphan(struct node *n, struct node_session *s, bool dirty);
/* They are marked, and s->quarantine_pages counts them. */
void node_quarantine(struct node *n, struct node_session *s);

/* Frees every chunk of the table. -FAR_EACCESS: all but quarantined ones. */
int node_free_table(struct node *n, unsigned table);

/* The list of such orphans. */
static inline uint32_t *
node_orphans(const struct node *n, struct pool_page p)
{
	size_t i = ((size_t)p.table * 2 + p.kind - 1) * POOL_CLASSES + p.class;

	return &n->orphans[i * 2 + (p.flags & POOL_PAGE_DIRTY ? 1 : 0)];
}

/* node_roots.c: named tables. ----------------------------------------------------------------------------- */

/* Reads the roots: a table that was being made is dropped. -FAR_ECORRUPT. */
int node_roots_load(struct node *n);

/* 0 when the table of that number is still the one of `serial` and `me` may grow it; -FAR_ENOENT, -FAR_EINVAL. */
int node_root_guard(struct node *n, const struct node_session *me, unsigned table, uint64_t serial);

/* Drops what the session was making. */
void node_roots_leave(struct node *n, const struct node_session *s);

int node_root_new(struct node *n, struct node_session *me, const struct control_request *req,
		  struct control_reply *reply);
int node_root_set(struct node *n, struct node_session *me, const struct control_request *req,
		  struct control_reply *reply);
int node_root_drop(struct node *n, struct node_session *me, const struct control_request *req,
		   struct control_reply *reply);
int node_root_free(struct node *n, struct node_session *me, const struct control_request *req,
		   struct control_reply *reply);
int node_table_free(struct node *n, struct node_session *me, const struct control_request *req,
		    struct control_reply *reply);

/* node.c */

/* A serial that was never given before in the pool's life; 0 when all are used up. */
uint64_t node_serial_new(struct node *n);

#endif
