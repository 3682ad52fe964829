/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h -- what a handle and a table consist of; private to src/store.
 *
 * Every public call takes the handle's lock, forgets the last results and error, runs one or more fibers to their
 * end, and gives the lock back. The heart thread only tries the lock: when it gets it, the application is elsewhere
 * and the maintenance daemon needs a turn; when it does not, the loop is running and drives the daemon itself.
 */
#ifndef FAR_STORE_HANDLE_H
#define FAR_STORE_HANDLE_H

#include <pthread.h>

#include "pool/pool.h"
#include "store/arena.h"
#include "store/store.h"

enum {
	STORE_FIBERS = 32, /* in a batch, when the application does not say */
	STORE_FIBERS_MAX = 4096,
	STORE_HEART_MS = 20,         /* between looks of the heart thread: a maintenance round takes several */
	STORE_KEEP = 1 << 20,        /* bytes of results kept between calls */
	STORE_INLINE_MAX = 64 << 10, /* larger values do not come with a scan's step */
	STORE_INLINE_MIN = 1 << 10,
	STORE_STEP_BYTES = 16 << 20, /* a scan's step above this makes the next ones leave out more */
};

/* The last error. Its text is made when somebody asks: a miss must stay cheap. */
struct store_error {
	int code; /* 0: text stands as it is */
	const struct far_table *table;
	size_t key_len;
	unsigned char key[48]; /* the key's start */
	char text[FAR_ERRMSG_MAX];
};

struct far {
	pthread_mutex_t lock; /* held while the loop runs */
	struct far_loop *loop;
	bool loop_lent; /* by the caller of store_open_on() */
	struct far_fabric *fabric;
	struct pool *pool;
	struct pool_misfit misfit; /* why it could not be opened */
	struct far_table *tables;
	unsigned fibers;
	bool no_backoff;
	struct far_count ops;       /* spent inside operations */
	struct store_arena results; /* until the next call */
	struct store_error error;

	pthread_t heart;
	bool heart_runs;
	int heart_stop; /* an eventfd: written to end the thread; -1: there is none */
	int heart_ms;
};

struct far_table {
	struct far *f;
	struct pool_table *pt;
	const struct far_index_ops *ops;
	struct far_index *index;
	struct far_table *next; /* in f->tables */
};

/* Takes the lock; the last results and error end. */
void store_enter(struct far *f);
/* Gives the lock back and passes on `err`. */
int store_leave(struct far *f, int err);

/* Runs fn(task, arg) to its end; the lock is held. -FAR_ENOMEM: it was not started. */
int store_call(struct far *f, void (*fn)(struct far_task *task, void *arg), void *arg);

/* Notes an error of an operation on `key` (data NULL: of the table), and returns it. */
int store_note(const struct far_table *t, struct far_bytes key, int err);

/* Notes an error in words, and returns it. */
int store_say(struct far *f, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Brackets of anything that calls the index from a fiber: the account and pool_enter(). After store_begin() returned 0
 * comes store_end(), which returns `err` or a worse error that was found meanwhile. */
struct store_bracket {
	struct far_count *before;
};
int store_begin(struct far_table *t, struct far_task *task, struct store_bracket *b);
int store_end(struct far_table *t, struct far_task *task, struct store_bracket *b, int err);

/* True when `err` tells about one key and its table's other keys are not affected. */
bool store_is_about_key(int err);

/* The pool at `uri` did not open and `err` is why, with what its superblocks told: puts it into words that name the
 * node, at most FAR_ERRMSG_MAX bytes. */
void store_uri_explain(const char *uri, int err, const struct pool_misfit *m, char *text);

/* Closes a table; the lock is held. */
void store_table_close(struct far_table *t);

#endif
