/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_wire.h -- what a client and a memory node's agent say to each other over TCP. doc/wire-format.md explains it.
 *
 * One connection per client fabric and node. All numbers are little-endian, all parts are multiples of 8 bytes.
 *
 * 1. client -> agent: struct tcp_hello.
 * 2. agent -> client: struct tcp_welcome. With `err` set that was all. When the pool has a key, it proves that the
 *    agent knows it, and the client answers with struct tcp_proof.
 * 3. client -> agent: frames of requests, any number before earlier ones are answered. A frame is executed when all of
 *    it has arrived and was checked; operations run in their order, frames in theirs.
 * 4. agent -> client: one frame for each. Chains are answered in their order, calls at any time (FENCE may take long).
 *
 * A chain is one frame: struct tcp_frame, then for each operation struct tcp_op and what it carries; the answer has
 * what READs read and atomics found, in order. A chain that is longer than a frame continues in the next ones
 * (TCP_CONTINUES): an operation that fails ends all of it. A frame that breaks the format is answered with TCP_BYE and
 * the end of the connection; nothing of it is executed.
 *
 * A node whose region is reached by RDMA says TCP_ATTACHED. Then the connection carries everything but chains, and the
 * first request is TCP_ATTACH (verbs_wire.h).
 */
#ifndef FAR_FABRIC_TCP_WIRE_H
#define FAR_FABRIC_TCP_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <farside/fabric.h>

#include "base/base.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire is little-endian");

#define TCP_MAGIC 0x3150435452414648ULL /* "HFARTCP1" */

enum {
	TCP_VERSION = 1,
	TCP_NONCE = 32,
	TCP_MAC = 32,
	TCP_FRAME_MAX = 64 << 10, /* bytes of a frame, in either direction */
	TCP_OPS_MAX = 512,        /* operations of a frame */
	TCP_ATTACH_MAX = 256,     /* bytes of TCP_ATTACH, either way */
	TCP_CALL_MAX = 4096,      /* bytes of a request to the control endpoint, and of its reply */
};

struct tcp_hello {
	uint64_t magic;
	uint32_t version;
	uint32_t flags;      /* 0 */
	uint64_t pool_id[2]; /* zero: any pool */
	uint8_t nonce[TCP_NONCE];
};
_Static_assert(sizeof(struct tcp_hello) == 64, "hello");

enum tcp_welcome_flags {
	TCP_KEYED = 1,    /* the client must prove that it has the pool's key */
	TCP_ATTACHED = 2, /* chains do not travel here: TCP_ATTACH tells the way */
};

struct tcp_welcome {
	uint64_t magic;
	uint32_t version;
	int32_t err;          /* 0, or -FAR_E: the agent does not take this client */
	uint64_t region_len;  /* bytes */
	uint64_t pool_id[2];  /* zero until a first client forms the pool */
	uint64_t verbs;       /* operation codes that the agent knows, a bit each */
	uint32_t flags, caps; /* enum tcp_welcome_flags, enum far_caps */
	uint8_t nonce[TCP_NONCE];
	uint8_t mac[TCP_MAC]; /* of "agent", the hello, and this up to here; zero without a key */
};
_Static_assert(sizeof(struct tcp_welcome) == 120, "welcome");

struct tcp_proof {
	uint8_t mac[TCP_MAC]; /* of "client", the hello, and the whole welcome */
};

enum tcp_kind {
	TCP_CHAIN = 1,
	TCP_CALL = 2, /* one request to the control endpoint (pool/control.h) */
	TCP_PING = 3, /* answered at once with the same */
	TCP_BYE = 4,  /* agent -> client: `err` says why this is the end */
	TCP_ATTACH = 5, /* once: what is needed for another way to the region, and back */
};

enum tcp_flags {
	TCP_CONTINUES = 1, /* the chain of the last frame goes on */
};

/* Head of a frame in either direction. */
struct tcp_frame {
	uint64_t seq;   /* 1, 2, ... of the connection; an answer has that of its request, TCP_BYE 0 */
	uint32_t len;   /* bytes that follow, a multiple of 8 */
	uint8_t kind;   /* enum tcp_kind */
	uint8_t flags;  /* enum tcp_flags; 0 in answers */
	uint16_t ops_n; /* operations that follow; in answers: those that took effect; 0 for other kinds than chains */
	int32_t err;    /* of an answer: 0, or -FAR_E of the first operation that did not */
	uint32_t used;  /* CALL, ATTACH: bytes of `len` that count; else 0 */
	uint64_t sum;   /* tcp_frame_sum() of everything above */
};
_Static_assert(sizeof(struct tcp_frame) == 32, "frame");

enum { TCP_BODY_MAX = TCP_FRAME_MAX - sizeof(struct tcp_frame) };

/* An operation of a chain. Behind it: WRITE its bytes, padded to 8; CAS expect and desired; FAA the addend. */
struct tcp_op {
	uint8_t code;  /* enum far_op_code; codes from FAR_OP_CODES on are for verbs to come */
	uint8_t flags; /* enum far_op_flags */
	uint16_t zero;
	uint32_t len; /* 8 for atomics */
	uint64_t off;
};
_Static_assert(sizeof(struct tcp_op) == 16, "operation");

/* It tells a head from anything else that a bug may leave in its place; it is no protection against an enemy. */
static inline uint64_t
tcp_frame_sum(const struct tcp_frame *f)
{
	uint64_t w[3];

	memcpy(w, f, sizeof(w));
	return far_mix64(w[0] + far_mix64(w[1] + far_mix64(w[2] + TCP_MAGIC)));
}

/* Whether a head keeps to the format, whatever it says: `seq`, `ops_n` and `flags` are for the reader to judge. */
static inline bool
tcp_frame_fits(const struct tcp_frame *f)
{
	return f->sum == tcp_frame_sum(f) && f->len % 8 == 0 && f->len <= TCP_BODY_MAX && f->used <= f->len;
}

/* Chains in pieces: client and agent cut alike, so lengths need no mention. ----------------------------------- */

/* A place in a chain. */
struct tcp_cursor {
	const struct far_op *op;
	uint32_t left; /* operations from here on, this one included */
	uint32_t off;  /* bytes of this one that are done */
};

/* What is left of a frame and of its answer. */
struct tcp_room {
	uint32_t out, in, ops;
};

static inline struct tcp_room
tcp_room_new(void)
{
	return (struct tcp_room){ TCP_BODY_MAX, TCP_BODY_MAX, TCP_OPS_MAX };
}

/* Bytes of an operation of `len` bytes in a frame (behind its head), and in the answer. */
static inline uint32_t
tcp_op_out(unsigned code, uint32_t len)
{
	return code == FAR_OP_WRITE ? (uint32_t)far_align(len, 8) : code == FAR_OP_CAS ? 16
							    : code == FAR_OP_FAA       ? 8
										       : 0;
}

static inline uint32_t
tcp_op_in(unsigned code, uint32_t len)
{
	return code == FAR_OP_READ ? (uint32_t)far_align(len, 8) : code == FAR_OP_WRITE ? 0
											: 8;
}

/* The longest piece of a READ or WRITE. */
static inline uint32_t
tcp_piece_max(unsigned code)
{
	return code == FAR_OP_WRITE ? TCP_BODY_MAX - sizeof(struct tcp_op) : TCP_BODY_MAX;
}

/* Takes the next piece, of *len bytes of c->op from c->off on, out of the room; false when it does not fit or the chain
 * has no more. The caller then moves on with tcp_cursor_move(). */
static inline bool
tcp_piece_take(const struct tcp_cursor *c, struct tcp_room *room, uint32_t *len)
{
	uint32_t n, out, in;

	if (c->left == 0 || room->ops == 0)
		return false;
	n = (uint32_t)far_min(c->op->len - c->off, tcp_piece_max(c->op->code));
	out = (uint32_t)sizeof(struct tcp_op) + tcp_op_out(c->op->code, n);
	in = tcp_op_in(c->op->code, n);
	if (out > room->out || in > room->in)
		return false;
	room->out -= out;
	room->in -= in;
	room->ops--;
	*len = n;
	return true;
}

static inline void
tcp_cursor_move(struct tcp_cursor *c, uint32_t len)
{
	c->off += len;
	if (c->off < c->op->len)
		return;
	c->off = 0;
	c->op = c->op->next;
	c->left--;
}

#endif
