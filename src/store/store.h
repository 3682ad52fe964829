/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.h -- tables from inside a fiber: what the blocking calls of far.h are made of.
 *
 * For the lab and other code of ours that keeps many operations of one handle in flight and wants the time and the
 * counts of each. A far.h call is store_run() with one fiber that makes one store_*() call.
 */
#ifndef FAR_STORE_H
#define FAR_STORE_H

#include <farside/fabric.h>
#include <farside/far.h>

#include "index/index.h"

/*
 * Opens a handle over a loop and a connection that the caller made, such as the simulator's, where all clients share
 * one loop. No thread renews its lease: the loop must run. far_close() closes the connection too, but not the loop; on
 * error both stay the caller's. As far_open() otherwise; `shared_queue` and `credits` of the options are ignored.
 */
int store_open_on(struct far_loop *l, struct far_fabric *fabric, const struct far_opts *opts, struct far **out);

/*
 * Runs fn(task, args[0]) ... fn(task, args[n - 1]) as fibers of f's loop, with its fabric as their connection, and
 * returns when all have ended. Their account is nobody until they call far_account(). Not reentrant. -FAR_ENOMEM:
 * some were not started; those that were have ended.
 */
int store_run(struct far *f, unsigned n, void (*fn)(struct far_task *task, void *arg), void *const args[]);

/*
 * One operation each, from a fiber of `t`'s handle; yields. Results borrow scratch of the task. Everything that the
 * operation spends is charged to the task's account (far_account()), and to the handle's totals when it has none.
 * Error codes as in far.h.
 */
int store_get(struct far_table *t, struct far_task *task, struct far_bytes key, struct far_value *value);
/* *version: 0, or the version that the key must have (UPDATE only); receives the one written. */
int store_put(struct far_table *t, struct far_task *task, enum far_put_mode mode, struct far_bytes key,
	      struct far_bytes value, uint64_t *version);
/* `expect`: 0, or the version that the key must have. */
int store_delete(struct far_table *t, struct far_task *task, struct far_bytes key, uint64_t expect);

/* Is `uri` well formed? 0, or -FAR_EINVAL with a sentence in `text` (FAR_ERRMSG_MAX bytes). */
int store_uri_check(const char *uri, char *text);

#endif
