/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far.h -- tables in far memory.
 *
 *	struct far *f;
 *	struct far_table *t;
 *
 *	far_open("shm:/run/farside/n0,/run/farside/n1", NULL, &f);
 *	far_table_open(f, "devices", &t);
 *	far_put(t, FAR_STR("dev:1"), FAR_STR("21.5"), NULL);
 *	far_get(t, FAR_STR("dev:1"), &value);
 *	far_table_close(t);
 *	far_close(f);
 *
 * One handle per thread: a handle and its tables are used by one thread at a time, and not by a child after fork(),
 * which does not inherit the mapped memory. Every function returns 0 or -FAR_E... (error.h). Operations on one key
 * are linearizable; a batch or an iteration promises nothing across keys.
 *
 * Errors that any operation may return, besides those it names: -FAR_ENODE, -FAR_EUNSURE, -FAR_EFENCED,
 * -FAR_ECORRUPT, -FAR_ENOMEM (of this process), -FAR_ETIMEOUT, -FAR_ECONTENDED; with a key also -FAR_EKEYLEN, and on
 * an open table -FAR_ENOENT after another client dropped it.
 */
#ifndef FARSIDE_FAR_H
#define FARSIDE_FAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <farside/error.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported, and nothing else is */

#define FAR_KEY_MAX   ((size_t)64 << 10)  /* bytes; a key has at least 1 */
#define FAR_VALUE_MAX ((size_t)16 << 20)  /* bytes; a value may be empty */
#define FAR_ERRMSG_MAX 256                /* bytes of a far_errmsg() with its NUL */
#define FAR_NAME_MAX  63                  /* bytes of a table's name: [A-Za-z0-9._-] */

/* Bytes that somebody else owns. */
struct far_bytes {
	const void *data;
	size_t len;
};

static inline struct far_bytes
far_bytes(const void *data, size_t len)
{
	struct far_bytes b = { data, len };
	return b;
}

static inline struct far_bytes
far_str(const char *s)
{
	return far_bytes(s, strlen(s));
}

#define FAR_STR(literal) far_bytes("" literal, sizeof(literal) - 1)

struct far;
struct far_table;
struct far_count;
struct far_shared_queue;

struct far_opts {
	unsigned fibers;     /* operations in flight in far_batch() at most, 0 = 32 */
	unsigned credits;    /* verbs in flight, 0 = default, UINT_MAX = unbounded */
	bool no_backoff;     /* retry a lost CAS at once and do not combine operations on one key (for comparison) */
	/* NULL, or from far_shared_queue_new(): threads post through one queue pair (for comparison). */
	struct far_shared_queue *shared_queue;
	uint64_t lease_ns;   /* how long a silent client counts as alive, 0 = 2 s */
	uint64_t seed;       /* of the handle's random source, 0 = from the system */
	char *errmsg;        /* NULL, or FAR_ERRMSG_MAX bytes: a far_open() that fails says here why, in a sentence */
};

/*
 * Opens the pool at `uri` ("shm:PATH[,PATH...]", 1 to 16 nodes in the pool's order). A first open forms the pool.
 * `opts` may be NULL. The handle holds a session: a lease that a background thread renews until far_close().
 * -FAR_EINVAL (bad URI, wrong order), -FAR_ENODE, -FAR_EFORMAT, -FAR_ENOENT (somebody took a node's file away).
 *
 * After fork() the handle is the parent's alone: the child must not call anything with it, not even far_close()
 * (the session, its connections and its lease thread are the parent's); it opens its own.
 */
int far_open(const char *uri, const struct far_opts *opts, struct far **out);

/* Ends the session: what it owned goes back to the pool. Tables must be closed. NULL is fine. */
void far_close(struct far *f);

/* A sentence on the last error of this handle that names the object, or "". Valid until the next call. */
const char *far_errmsg(const struct far *f);

/* Tables ------------------------------------------------------------------------------------------------ */

struct far_table_opts {
	const char *design;  /* "race"; NULL = default */
	unsigned groups;     /* design parameter, 0 = default */
};

/* -FAR_EEXIST, -FAR_EINVAL (name or design), -FAR_ENOMEM. */
int far_table_create(struct far *f, const char *name, const struct far_table_opts *opts);

/* Opens the table for this handle; on error *out is untouched. -FAR_ENOENT, -FAR_EINVAL (name). */
int far_table_open(struct far *f, const char *name, struct far_table **out);

/* Frees the handle's view of the table; the table stays. Before far_close(). NULL is fine. */
void far_table_close(struct far_table *t);

/* Removes the table and gives its memory back; other clients' operations on it end with -FAR_ENOENT. -FAR_ENOENT,
 * -FAR_EINVAL (name). */
int far_table_drop(struct far *f, const char *name);

struct far_table_info {
	char name[FAR_NAME_MAX + 1];
	char design[16];
};

/* The tables in no order; *list is the caller's to free(). Returns their number or -FAR_E. */
int far_table_list(struct far *f, struct far_table_info **list);

/* Operations -------------------------------------------------------------------------------------------- */

struct far_value {
	struct far_bytes bytes; /* valid until the next call on this handle */
	uint64_t version;       /* changes with every change of the key and never repeats */
};

/* -FAR_ENOENT. `value` may be NULL. */
int far_get(struct far_table *t, struct far_bytes key, struct far_value *value);

/* 0 = present, -FAR_ENOENT. */
int far_contains(struct far_table *t, struct far_bytes key);

/* Inserts or replaces. `version` (may be NULL) receives the new version. -FAR_EVALLEN, -FAR_EFULL, and -FAR_ENOMEM also
 * when the memory node has no room; so may the three below. */
int far_put(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version);

/* Only when the key is absent: -FAR_EEXIST. */
int far_insert(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version);

/* Only when the key is present: -FAR_ENOENT. */
int far_update(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version);

/* Only when the key's version is `expect`: -FAR_ECHANGED, -FAR_ENOENT. */
int far_update_if(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t expect,
		  uint64_t *version);

/* Removes the key; the second only when its version is `expect`. -FAR_ENOENT, -FAR_ECHANGED. */
int far_delete(struct far_table *t, struct far_bytes key);
int far_delete_if(struct far_table *t, struct far_bytes key, uint64_t expect);

/* Moves the key's block to memory node `node` (its slot stays). -FAR_ENOENT, -FAR_EINVAL. */
int far_move(struct far_table *t, struct far_bytes key, unsigned node);

/* Batches ----------------------------------------------------------------------------------------------- */

enum far_request_kind {
	FAR_GET,
	FAR_CONTAINS, /* a get without the value: the version alone */
	FAR_PUT,
	FAR_INSERT,
	FAR_UPDATE,
	FAR_UPDATE_IF,
	FAR_DELETE,
	FAR_DELETE_IF,
	FAR_REQUEST_KINDS,
};

struct far_request {
	enum far_request_kind kind;
	struct far_bytes key;
	struct far_bytes value; /* what to write; a get's result: valid until the next call on this handle */
	uint64_t version;       /* in: expected (the _IF kinds); out: found or written */
	int result;             /* out: 0 or -FAR_E, as the single operation returns it */
};

/*
 * Runs `n` independent requests with many in flight, in no order; two on one key are concurrent. Returns when all
 * are done: 0, or the first error that is not about one key's state (such as -FAR_ENODE or -FAR_ENOMEM); requests
 * that had not begun by then are not made and have that error as their result.
 */
int far_batch(struct far_table *t, struct far_request *reqs, size_t n);

/* Iteration --------------------------------------------------------------------------------------------- */

/*
 * Walks the whole table while others change it: a key that is present throughout comes exactly once, one that is
 * absent throughout never comes, none comes twice; each value was the key's at some moment of the walk.
 */
struct far_iter;

/* On error *out is untouched. To be closed before its table. */
int far_iter_open(struct far_table *t, struct far_iter **out);

/* 1: *key and *value hold the next one, valid until the next call on the handle; 0: the end; or -FAR_E. */
int far_iter_next(struct far_iter *it, struct far_bytes *key, struct far_value *value);

/* Share of the table walked so far, 0 to 1. */
double far_iter_progress(const struct far_iter *it);

/* Frees the iterator. NULL is fine. */
void far_iter_close(struct far_iter *it);

/* Inspection -------------------------------------------------------------------------------------------- */

struct far_table_stat {
	char design[16];
	uint64_t keys;
	uint64_t slots;           /* capacity of the index */
	uint64_t subtables;
	unsigned depth;           /* log2 of the directory's length */
	uint64_t index_bytes;     /* of subtables and directory in use */
	uint64_t block_bytes;     /* of key-value blocks in use */
	uint64_t granted_index_bytes; /* chunks that the nodes handed out to this table: index, */
	uint64_t granted_block_bytes; /* blocks */
	uint64_t free_index_bytes;    /* of these: not in use: index, */
	uint64_t free_block_bytes;    /* blocks (in use + free + chunk headers = granted) */
	uint64_t header_bytes;        /* chunk headers and ends too short for a block, both kinds */
	uint64_t splits;          /* subtables split since the table was made */
};

/* Walks the table, which others may change meanwhile: then the numbers are near the truth, not exact. */
int far_table_stat(struct far_table *t, struct far_table_stat *out);

/* One sentence of far_table_check() about a broken rule; `line` is valid during the call. */
typedef void far_report_fn(void *arg, const char *line);

/*
 * Walks the table's remote structure and reports every violated invariant. Returns the number of violations or
 * -FAR_E. Run it on a table that nobody changes: otherwise unfinished work of others may be reported.
 */
int far_table_check(struct far_table *t, far_report_fn *report, void *arg);

/*
 * Takes over what dead clients left of this table: finishes or undoes their half-done work, and finds the blocks that
 * nothing refers to any more, so that they are used again. This happens anyway as memory is needed; others may go on
 * working. Returns the number of chunks taken over or -FAR_E.
 */
int far_table_repair(struct far_table *t);

/* Round trips, verbs and bytes spent by this handle: `ops` inside operations, `background` for everything else
 * (chunk grants, leases, epochs). Either may be NULL. See <farside/fabric.h>. */
void far_counts(const struct far *f, struct far_count *ops, struct far_count *background);

struct far_node_info {
	uint64_t region_bytes, granted_bytes; /* size of the region, and what of it is handed out in chunks */
	uint64_t generation;                  /* another one after the node came back empty */
	/*
	 * Sessions of clients that went silent and that the node is not allowed to stop, the size of their chunks, and
	 * the process id of one of them on the node's machine (0: unknown). While there is one, nothing that any client
	 * frees in this pool is used again: that client might still write there. It ends with the process.
	 */
	uint64_t quarantined_bytes;
	unsigned quarantined_sessions;
	int quarantined_pid;
};

/* Fills info[] for the first `max` nodes. Returns the number of nodes of the pool, which may be more, or -FAR_E. */
int far_nodes(struct far *f, struct far_node_info *info, unsigned max);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
