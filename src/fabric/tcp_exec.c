/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_exec.c -- frames come from far away: nothing of one is executed before all of it was checked here. */
#include "fabric/tcp_exec.h"

#include <farside/error.h>

int
tcp_exec_check(const uint8_t *body, uint32_t len, unsigned ops_n, uint32_t *answer_len)
{
	uint64_t answer = 0, left = len;
	struct tcp_op op;

	if (ops_n == 0 || ops_n > TCP_OPS_MAX)
		return -FAR_EINVAL;
	for (unsigned i = 0; i < ops_n; i++) {
		uint64_t out;

		if (left < sizeof(op))
			return -FAR_EINVAL;
		memcpy(&op, body, sizeof(op));
		if (op.code >= FAR_OP_CALL)
			return -FAR_ENOTSUP;
		if ((op.flags & ~FAR_OP_FENCE) != 0 || op.zero != 0 || op.len > TCP_BODY_MAX ||
		    (op.code != FAR_OP_READ && op.code != FAR_OP_WRITE && op.len != 8))
			return -FAR_EINVAL;
		out = sizeof(op) + tcp_op_out(op.code, op.len);
		answer += tcp_op_in(op.code, op.len);
		if (out > left || answer > TCP_BODY_MAX)
			return -FAR_EINVAL;
		left -= out;
		body += out;
	}
	*answer_len = (uint32_t)answer;
	return left == 0 ? 0 : -FAR_EINVAL;
}

void
tcp_exec_begin(struct tcp_exec *x, const uint8_t *body, unsigned ops_n, uint8_t *answer)
{
	*x = (struct tcp_exec){ .at = body, .left = ops_n, .answer = answer };
}

static void
tcp_exec_done(struct tcp_exec *x, const struct tcp_op *op)
{
	x->at += sizeof(*op) + tcp_op_out(op->code, op->len);
	x->answer_len += tcp_op_in(op->code, op->len);
	x->left--;
	x->done++;
}

static void
tcp_exec_fail(struct tcp_exec *x)
{
	x->err = -FAR_EACCESS;
	x->left = 0;
}

/* An atomic, or all of a READ or WRITE. */
static inline void
tcp_exec_op(struct tcp_exec *x, struct words *w)
{
	uint8_t *answer = x->answer + x->answer_len;
	struct tcp_op op;
	const uint8_t *carried;
	unsigned char *p;
	uint64_t args[2] = { 0, 0 }, old;

	memcpy(&op, x->at, sizeof(op));
	carried = x->at + sizeof(op);
	p = words_place(w, op.off, op.len);
	if (!p) {
		tcp_exec_fail(x);
		return;
	}
	switch (op.code) {
	case FAR_OP_READ:
		words_read(w, p, answer, op.len);
		break;
	case FAR_OP_WRITE:
		words_write(w, p, carried, op.len);
		break;
	default:
		memcpy(args, carried, tcp_op_out(op.code, 8));
		old = op.code == FAR_OP_CAS ? words_cas(w, p, args[0], args[1])
					    : words_faa(w, p, args[0]);
		memcpy(answer, &old, 8);
		break;
	}
	tcp_exec_done(x, &op);
}

void
tcp_exec_run(struct tcp_exec *x, struct words *w)
{
	while (x->left > 0)
		tcp_exec_op(x, w);
	words_settle(w);
}

/* Weak execution ------------------------------------------------------------------------------------------- */

static uint64_t
tcp_exec_gcd(uint64_t a, uint64_t b)
{
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Draws an order of `n` words: from `first` on in steps that meet each of them. */
static void
tcp_exec_order(struct tcp_exec *x, struct far_rng *rng, uint64_t n)
{
	x->first = far_rng_below(rng, n);
	x->stride = 1 + far_rng_below(rng, n);
	while (tcp_exec_gcd(x->stride, n) != 1)
		x->stride++;
}

/* Some words of a READ or WRITE; returns how many. */
static unsigned
tcp_exec_words(struct tcp_exec *x, struct words *w, const struct tcp_op *op, unsigned char *p,
	       unsigned budget)
{
	uint64_t n = op->len / 8;
	unsigned some = 0;

	for (; x->words < n && some < budget; x->words++, some++) {
		uint64_t at = (x->first + x->words * x->stride) % n * 8;

		if (op->code == FAR_OP_READ)
			words_read(w, p + at, x->answer + x->answer_len + at, 8);
		else
			words_write(w, p + at, x->at + sizeof(*op) + at, 8);
	}
	return some;
}

bool
tcp_exec_weakly(struct tcp_exec *x, struct words *w, struct far_rng *rng, unsigned budget)
{
	while (x->left > 0 && budget > 0) {
		unsigned char *p;
		struct tcp_op op;

		memcpy(&op, x->at, sizeof(op));
		p = words_place(w, op.off, op.len);
		if (!p || op.len <= 8) {
			tcp_exec_op(x, w);
			budget--;
			continue;
		}
		if (x->words == 0)
			tcp_exec_order(x, rng, op.len / 8);
		budget -= tcp_exec_words(x, w, &op, p, budget);
		if (x->words < op.len / 8)
			break;
		x->words = 0;
		tcp_exec_done(x, &op);
	}
	words_settle(w);
	return x->left == 0;
}
