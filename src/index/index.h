/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h -- what an index design implements. A design is one folder and one line in src/index/registry.c.
 *
 * Every function is called from a fiber, inside pool_enter()/pool_leave() unless it says otherwise, and may yield.
 * Operations own nothing: what they return borrows task scratch and is valid until the caller resets it.
 */
#ifndef FAR_INDEX_H
#define FAR_INDEX_H

#include <farside/fabric.h>
#include <farside/far.h>

struct pool_table;
struct far_index;

enum far_put_mode {
	FAR_PUT_UPSERT,
	FAR_PUT_INSERT,
	FAR_PUT_UPDATE,
};

/* Splits of one client, for who wants to know what others do meanwhile. */
struct far_index_watch {
	uint64_t begun; /* nobody else may begin the same one now */
	uint64_t ended; /* well or not */
	/* NULL, or: a lock or a claim of session `serial` is this client's now. Must not yield. */
	void (*took)(struct far_index_watch *w, uint64_t serial);
};

/* Options of a design instance; how it was created is in its remote header, this is how one client uses it. */
struct far_index_opts {
	unsigned groups;   /* create: bucket groups per subtable, 0 = the design's default */
	bool no_backoff;   /* see struct far_opts */
	uint64_t zoo;      /* mistakes to make (base/zoo.h) */
	struct far_index_watch *watch; /* NULL, or the caller's, who keeps it as long as the index */
	/* NULL = the table's seeded hash; tests force collisions with it. */
	uint64_t (*hash)(const void *key, size_t len, uint64_t seed);
};

/* One live entry as a scan meets it. */
struct far_entry {
	struct far_bytes key, value;
	uint64_t version;
};

/* Memory of which the pool wants to know whether a table uses it. */
struct far_index_part {
	struct far_addr addr;
	uint64_t hash; /* the first word found there (untrusted) */
	int reached;   /* the answer: 1 yes, 0 no, or -FAR_E */
};

struct far_index_ops {
	const char *name;
	/* Makes an empty table in memory of `pt` and returns its head: what the root name will point to. Not inside
	 * pool_enter(). -FAR_ENOMEM. */
	int (*create)(struct pool_table *pt, struct far_task *t, const struct far_index_opts *opts,
		      struct far_addr *head);
	/* Opens the table at pt->head. `pt` outlives the index. On error *out is untouched. Inside pool_enter(); called
	 * by far_index_open() alone, which tells the pool before the brackets end. */
	int (*open)(struct pool_table *pt, struct far_task *t, const struct far_index_opts *opts,
		    struct far_index **out);
	/* Frees the client's state; no operation is running. NULL is fine. */
	void (*close)(struct far_index *ix);

	/* 0 and *value, or -FAR_ENOENT. */
	int (*get)(struct far_index *ix, struct far_task *t, struct far_bytes key, struct far_value *value);
	/* *version: 0, or the version that the key must have (UPDATE only); on success it receives the one written. */
	int (*put)(struct far_index *ix, struct far_task *t, enum far_put_mode mode, struct far_bytes key,
		   struct far_bytes value, uint64_t *version);
	/* `expect`: 0, or the version that the key must have. */
	int (*del)(struct far_index *ix, struct far_task *t, struct far_bytes key, uint64_t expect);
	/* Moves the key's block to `node`. */
	int (*move)(struct far_index *ix, struct far_task *t, struct far_bytes key, unsigned node);

	/* One step of a walk: returns the entries of the part of hash space that starts at *cursor (0 = the start),
	 * and moves *cursor to where the next part starts; *last is set when there is none. *entries borrows scratch.
	 * Values longer than `inline_max` bytes are left out (value.data == NULL, value.len set): fetch them by get.
	 * Returns their number or -FAR_E. */
	int (*scan)(struct far_index *ix, struct far_task *t, uint64_t *cursor, size_t inline_max,
		    struct far_entry **entries, bool *last);

	/* Fills keys, slots, subtables, depth, index_bytes, block_bytes, splits, design. */
	int (*stat)(struct far_index *ix, struct far_task *t, struct far_table_stat *out);
	int (*check)(struct far_index *ix, struct far_task *t, far_report_fn *report, void *arg);

	/* The pool is about to announce a later epoch: drop every cached remote word that is no longer in memory.
	 * Called outside operations, while others run. */
	int (*refresh)(struct far_index *ix, struct far_task *t);
	/* Finishes or undoes what dead (fenced) clients left half-done, such as splits. */
	int (*recover)(struct far_index *ix, struct far_task *t);
	/* Finds out which of n blocks, or index parts (`index`), are reachable from the table. Those of one hash, such
	 * as blocks that were never used, are best asked for together. */
	void (*reach)(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n, bool index);
};

/* The design of that name (NULL: the default) or NULL. */
const struct far_index_ops *far_index_find(const char *name);

/* The i-th design or NULL. */
const struct far_index_ops *far_index_at(unsigned i);

/* Opens the table at pt->head with `ops` and makes it pt's: from here on the pool has it refreshed before it announces
 * a later epoch (M2). Inside pool_enter(). Codes of ops->open(); on error *out is untouched. */
int far_index_open(const struct far_index_ops *ops, struct pool_table *pt, struct far_task *t,
		   const struct far_index_opts *opts, struct far_index **out);

#endif
