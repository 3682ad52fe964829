/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.h -- one client's writes to one key go one at a time.
 *
 * Fibers of one client that write the same key would only make each other's CAS fail. The gate lets one through;
 * the others wait at this client, without a verb. Of several waiting upserts only the newest is sent: the older
 * ones are answered with it, as if each had happened just before it ("combining"). That is linearizable, because
 * all of them are still running while it runs.
 */
#ifndef FAR_INDEX_GATE_H
#define FAR_INDEX_GATE_H

#include <farside/fabric.h>
#include <farside/far.h>

enum { GATE_LANES = 64 };

/* One writer at the gate; lives on its fiber's stack until gate_leave(). The caller fills the first three. */
struct gate_pass {
	uint64_t hash;
	struct far_bytes key;    /* two keys may have one hash: their writes have nothing to do with each other */
	bool blind;              /* an upsert: may be answered by a later one */
	bool answered;           /* by another's result */
	int result;
	struct far_task *task;
	struct gate_pass *next;      /* passes inside, of one lane; or of those that wait, the next older one */
	struct gate_pass *waiting;   /* the first that waits behind this one, newest first */
	struct gate_pass *followers; /* older upserts that this one answers */
};

struct gate {
	uint64_t zoo; /* mistakes to make (base/zoo.h) */
	struct gate_pass *inside[GATE_LANES];
};

/*
 * Returns false when `p` may write now; call gate_leave() with the outcome. Returns true when another upsert has
 * done it: p->result is the outcome and there is nothing to leave. Yields.
 */
bool gate_enter(struct gate *g, struct far_task *t, struct gate_pass *p);

/* Ends p's turn with `result`, answers the upserts that it stands for, and lets the next writer in. Never yields. */
void gate_leave(struct gate *g, struct gate_pass *p, int result);

#endif
