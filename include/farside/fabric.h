/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h -- one-sided operations on the memory of other machines.
 *
 * A fiber notes operations and then waits. Everything noted between two waits for one memory node travels as one
 * ordered chain = one doorbell = one round trip:
 *
 *	far_read(t, addr, buf, len);
 *	far_cas(t, slot, expect, desired, &old);
 *	err = far_wait(t);
 *
 * Guarantees of every backend; test/conform/fabric.c checks each:
 *
 * G1 An aligned 8-byte word is never torn. A longer READ or WRITE may tear at any 8-byte boundary, and its words
 *    may be observed in any order.
 * G2 CAS and FAA are atomic against CAS and FAA of every client of the fabric. Against plain WRITEs to the same
 *    word, and against the memory node's own CPU, only with FAR_CAP_ATOMIC_GLOBAL.
 * G3 Within one chain: a WRITE takes effect before a later WRITE, READ or atomic; an atomic before a later atomic
 *    or READ. A WRITE noted after a READ or atomic is ordered after it only with far_fence() between. Nothing is
 *    ordered across nodes or across chains except by waiting.
 * G4 Every accepted operation completes exactly once, with a result or an error, also when its node dies. One that
 *    failed with FAR_EUNSURE may or may not have taken effect, and may still do so until FENCE of its session is
 *    acknowledged. So a connection that failed stays failed: nothing is posted behind such an operation, and memory
 *    that it could write to goes to nobody else before the session has ended there.
 * G5 Addresses and lengths are checked against the region at the target: out of range is FAR_EACCESS, never memory
 *    corruption. READ and WRITE need 8-byte aligned addresses and lengths, atomics an aligned word.
 * G6 After far_wait() returned 0, WRITEs are visible to every later READ by any client.
 */
#ifndef FARSIDE_FABRIC_H
#define FARSIDE_FABRIC_H

#include <farside/fiber.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported, and nothing else is */

/* A remote address, memory node : 16 | offset : 48. All zero is "none" (offset 0 holds the superblock). */
struct far_addr {
	uint64_t raw;
};

static inline struct far_addr
far_addr_make(unsigned node, uint64_t off)
{
	struct far_addr a = { (uint64_t)node << 48 | (off & 0xffffffffffffULL) };
	return a;
}

static inline unsigned
far_addr_node(struct far_addr a)
{
	return (unsigned)(a.raw >> 48);
}

static inline uint64_t
far_addr_off(struct far_addr a)
{
	return a.raw & 0xffffffffffffULL;
}

/* `a` moved by `n` bytes; the caller knows that it stays inside the node's region. */
static inline struct far_addr
far_addr_add(struct far_addr a, uint64_t n)
{
	struct far_addr r = { a.raw + n };
	return r;
}

enum far_op_code {
	FAR_OP_READ,
	FAR_OP_WRITE,
	FAR_OP_CAS,
	FAR_OP_FAA,
	FAR_OP_CALL, /* a request to the node's control endpoint; rare, alone in its chain */
	FAR_OP_CODES,
};

enum far_op_flags {
	FAR_OP_FENCE = 1, /* starts after every earlier READ and atomic of its chain */
};

/* One operation as data. Buffers stay the caller's and must live until far_wait() returns. */
struct far_op {
	uint8_t code;
	uint8_t flags;
	uint16_t pad;
	uint32_t len;         /* bytes; 8 for atomics; request length for CALL */
	struct far_addr addr; /* CALL: offset 0 of the node */
	void *buf;            /* READ into, WRITE from, CALL request; atomics: where the old word goes (never NULL) */
	union {
		uint64_t expect; /* CAS */
		uint64_t addend; /* FAA */
		void *reply;     /* CALL: receives up to reply_max bytes */
	};
	union {
		uint64_t desired;   /* CAS */
		uint64_t reply_max; /* CALL; holds the reply's length afterwards */
	};
	struct far_op *next; /* in its chain, to the same node */
};

/* Counts of one account: exact, on every backend. Bytes are those of RoCEv2 frames over Ethernet (62 B of headers
 * and check sums per packet, 4,096-byte MTU); payload is what the operations carried. */
struct far_count {
	uint64_t round_trips; /* far_wait() calls that had something to wait for */
	uint64_t verbs[FAR_OP_CODES];
	uint64_t bytes_out, bytes_in;
	uint64_t payload_out, payload_in;
	uint64_t retries;     /* an operation started over (index code adds here) */
	uint64_t false_hits;  /* blocks READ because their fingerprint matched, of another key */
	uint64_t split_waits; /* round trips spent waiting for another client's split */
	uint64_t combined;    /* operations answered by another one of this client on the same key */
};

/* Member by member: *sum += *c, *sum -= *c. */
void far_count_add(struct far_count *sum, const struct far_count *c);
void far_count_sub(struct far_count *sum, const struct far_count *c);

enum far_caps {
	FAR_CAP_ATOMIC_GLOBAL = 1, /* atomics are atomic against WRITEs and the node's CPU too */
};

/* One client thread's connections to the memory nodes of a pool. */
struct far_fabric;

/* One queue pair for several threads: whoever posts or polls holds its lock. What that costs is worth measuring; it
 * has no other use. */
struct far_shared_queue;

/* -FAR_ENOMEM. It outlives every fabric opened with it. Freeing NULL is fine. */
int far_shared_queue_new(struct far_shared_queue **out);
void far_shared_queue_free(struct far_shared_queue *q);

struct far_fabric_opts {
	unsigned credits;     /* operations in flight at most, 0 = default (FAR_CREDITS), UINT_MAX = unbounded */
	struct far_shared_queue *shared_queue; /* NULL, or: threads post through one queue pair, for comparison */
	uint64_t timeout_ns;  /* for a node's answer, 0 = default */
	char *errmsg;         /* NULL, or FAR_FABRIC_ERRMSG bytes, "" at first: an open that fails may say here why */
};

enum {
	FAR_CREDITS = 512,
	FAR_FABRIC_ERRMSG = 400,
	FAR_NODES_MAX = 16,
};

/*
 * Connects to the nodes of `uri` ("shm:PATH[,PATH...]", "tcp://HOST:PORT[,HOST:PORT...][?key=FILE]",
 * "verbs://HOST:PORT[,HOST:PORT...][?OPTION[&OPTION...]]"; "sim:" is opened by far_sim_connect) and registers the
 * fabric with `l`. The node's place in the list is its number. May block. On error *out is untouched:
 * -FAR_EINVAL (bad URI), -FAR_ENODE, -FAR_EFORMAT, -FAR_EACCESS, -FAR_ENOMEM, -FAR_ENOTSUP (no RDMA here).
 */
int far_fabric_open(const char *uri, struct far_loop *l, const struct far_fabric_opts *opts, struct far_fabric **out);

/* Disconnects. No operation may be in flight. NULL is fine. */
void far_fabric_close(struct far_fabric *f);

unsigned far_fabric_nodes(const struct far_fabric *f);
unsigned far_fabric_caps(const struct far_fabric *f);
const char *far_fabric_name(const struct far_fabric *f);

/* Length in bytes of a node's region, as known at connect. */
uint64_t far_fabric_region_len(const struct far_fabric *f, unsigned node);

/* Noting: never blocks, never fails; what is wrong with an operation shows in far_wait(). ---------------- */

void far_read(struct far_task *t, struct far_addr addr, void *buf, size_t len);
void far_write(struct far_task *t, struct far_addr addr, const void *buf, size_t len);
/* *old receives the word found; the exchange happened when it equals `expect`. */
void far_cas(struct far_task *t, struct far_addr addr, uint64_t expect, uint64_t desired, uint64_t *old);
void far_faa(struct far_task *t, struct far_addr addr, uint64_t addend, uint64_t *old);
/* The next operation noted starts after every READ and atomic noted so far (to its node). */
void far_fence(struct far_task *t);

/*
 * Sends all that was noted, one chain per node, and waits. Other fibers run meanwhile. Returns 0 when every
 * operation completed, else the first error: -FAR_EACCESS, -FAR_ENODE (nothing happened at that node),
 * -FAR_EUNSURE, -FAR_EFENCED, -FAR_ENOMEM (noting ran out of memory: nothing was sent). With nothing noted: 0.
 */
int far_wait(struct far_task *t);

/* Forgets what was noted since the last wait: nothing of it is sent. */
void far_forget(struct far_task *t);

/*
 * One request to the control endpoint of `node`; waits. Nothing may be noted. Returns the reply's length (at most
 * reply_max; a longer reply is -FAR_ECORRUPT) or an error as far_wait() does.
 */
int far_call(struct far_task *t, unsigned node, const void *req, size_t req_len, void *reply, size_t reply_max);

/* Charges later operations of the task to `c` (NULL: nobody); returns the account in force until now. */
struct far_count *far_account(struct far_task *t, struct far_count *c);
/* The account in force, or NULL. */
struct far_count *far_account_now(struct far_task *t);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
