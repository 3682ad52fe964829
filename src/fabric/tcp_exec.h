/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_exec.h -- executes the chains of tcp_wire.h on a memory node's region. */
#ifndef FAR_FABRIC_TCP_EXEC_H
#define FAR_FABRIC_TCP_EXEC_H

#include "base/rand.h"
#include "fabric/tcp_wire.h"
#include "fabric/words.h"

/* One frame of a chain under execution. */
struct tcp_exec {
	const uint8_t *at;   /* the next operation */
	unsigned left, done; /* operations */
	uint8_t *answer;     /* where results go */
	uint32_t answer_len; /* bytes so far */
	int err;             /* that of the first operation that failed: nothing runs behind it */
	/* Weak execution: words of the present operation that are done, and the order in which they are. */
	uint64_t words, first, stride;
};

/*
 * Checks the form of `ops_n` operations in `len` bytes that came from far away: 0, and *answer_len is how long the
 * answer's body may become; -FAR_EINVAL; -FAR_ENOTSUP (a code that is not known). Addresses are checked when their
 * turn comes.
 */
int tcp_exec_check(const uint8_t *body, uint32_t len, unsigned ops_n, uint32_t *answer_len);

/* Begins a frame that was checked. `answer` has room for what the check said; both stay until the end. */
void tcp_exec_begin(struct tcp_exec *x, const uint8_t *body, unsigned ops_n, uint8_t *answer);

/* Executes all of it, as strongly ordered as shared memory. */
void tcp_exec_run(struct tcp_exec *x, struct words *w);

/*
 * Executes some of it as weakly as hardware may: at most `budget` words, those of one READ or WRITE in an order drawn
 * from `rng`. True: all is done. Between two calls anything else may be executed.
 */
bool tcp_exec_weakly(struct tcp_exec *x, struct words *w, struct far_rng *rng, unsigned budget);

#endif
