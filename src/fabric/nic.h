/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nic.h -- how long things take at a network card: the timing model of the simulator's performance mode.
 *
 * Pure arithmetic without memory, events or operations of its own, so that each part can be tested alone. Everything
 * is a server that does one thing at a time, in the order in which it is asked; a server is the moment at which it
 * will be free. An operation passes, in this order,
 *
 *	nic_post     its thread's doorbell, behind the lock of the queue pair
 *	nic_request  the client's card: message engine, wire
 *	nic_execute  the node's card: wire, message engine, translation, atomic unit; here it takes effect
 *	nic_response the node's wire
 *	nic_receive  the client's wire
 *
 * and each function is asked in the order of `at`, which is the caller's business. Times are picoseconds: a card that
 * moves 110 million messages per second has 9.09 ns for each. doc/performance-model.md has the equations and tells
 * where the constants come from.
 */
#ifndef FAR_FABRIC_NIC_H
#define FAR_FABRIC_NIC_H

#include <stdbool.h>
#include <stdint.h>

enum {
	NIC_PS = 1000,          /* picoseconds per nanosecond */
	NIC_ATOMIC_LOCKS = 4096, /* addresses are hashed to so many */
	NIC_WAYS = 4,           /* of the translation cache */
	NIC_PAGES_MAX = 1 << 20, /* entries of it at most */
};

/* The constants of one kind of network. Times in ps, 0 = free; wires in ps per KiB, 0 = no limit. */
struct nic_profile {
	char name[32];
	/* The way there and back without any of the following. */
	uint64_t rtt;
	/* The client's thread. */
	uint64_t operation;    /* computing per operation of an index */
	uint64_t wake;         /* per round trip: taking its completion, switching to its fiber */
	uint64_t doorbell;     /* per doorbell: what its thread does under the lock of the queue pair */
	uint64_t request;      /* per work request, the same */
	uint64_t contention;   /* more for the doorbell, per thread that waits for the lock, */
	uint64_t contention_half; /* with so many waiting half as much */
	/* The client's card. */
	uint64_t client_message;
	uint64_t client_out, client_in;
	uint64_t send_cache;   /* work requests that it keeps while they are in flight, 0 = any number; */
	uint64_t send_miss;    /* each one beyond costs its message engine so much */
	/* The node's card. */
	uint64_t node_message; /* also: per operation of a node that is a process */
	uint64_t node_batch;   /* per batch of requests that come together */
	uint64_t node_out, node_in;
	uint64_t atomic;       /* the atomic unit begins one in so much time, */
	uint64_t atomic_same;  /* and on one address only after so much */
	uint64_t call;         /* a control request */
	uint64_t pages;        /* of the translation cache, 0 = all fit; */
	uint64_t page_len;     /* bytes of a page */
	uint64_t page_miss;    /* a page that is not there comes so much later */
	uint64_t page_overlap; /* so many misses at once */
	/* Both. */
	uint64_t frame;        /* bytes around each packet, */
	uint64_t mtu;          /* which carries so much at most */
	/* Connections. */
	uint64_t reads_max;    /* READs and atomics in flight per queue pair, 0 = any number */
	uint64_t credits;      /* the default of a client's credits, in verbs */
	uint64_t threads;      /* of a machine, which has one card */
	uint64_t queues;       /* queue pairs of a machine's threads that share some */
	bool batch;            /* chains that a thread posts in one turn travel together */
	bool loads;            /* the thread itself waits for each chain: loads and stores, not messages */
};

/* The lock of a queue pair: when those who came will leave it. */
struct nic_lock {
	uint64_t *leaves; /* a ring of max, n in use from `first` on */
	uint32_t first, n, max;
	uint64_t free;
};

/* One machine of clients. */
struct nic_port {
	uint64_t engine, out, in; /* free from then on */
	uint64_t in_flight;       /* work requests; kept by the caller */
};

/* One memory node. */
struct nic_node {
	uint64_t engine, out, in, unit, misses;
	uint64_t locks[NIC_ATOMIC_LOCKS];
	uint64_t *pages; /* sets of NIC_WAYS page numbers + 1, the latest first */
	uint64_t sets;
	uint64_t lookups, missed;
};

/* A queue pair at one node: it answers in order. */
struct nic_pair {
	uint64_t order;
	uint64_t opens; /* the node begins with the last batch */
	uint64_t reads; /* in flight; kept by the caller */
};

/* What one operation asks of a card. */
struct nic_op {
	uint64_t off;          /* in the node's memory */
	uint64_t page_len;     /* as nic_profile.page_len; smaller where a table stands for a larger one */
	uint32_t out, in;      /* payload in the request and in the response */
	uint32_t len;          /* of the memory touched */
	bool atomic, call;
	bool first;            /* of what came together */
};

/* 0, or -FAR_ENOMEM. */
int nic_node_init(const struct nic_profile *p, struct nic_node *n);
void nic_node_fini(struct nic_node *n);
void nic_lock_fini(struct nic_lock *l);

/* A thread that comes to the lock at `at` with `verbs` requests has rung the doorbell at the time returned. UINT64_MAX:
 * out of memory. */
uint64_t nic_post(const struct nic_profile *p, struct nic_lock *l, uint64_t at, unsigned verbs);

/* Ready to be sent at `at`; returns when the last bit is at the node's port. */
uint64_t nic_request(const struct nic_profile *p, struct nic_port *c, uint64_t at, const struct nic_op *op);

/* At the node's port at `at`; returns when it takes effect. */
uint64_t nic_execute(const struct nic_profile *p, struct nic_node *n, struct nic_pair *q, uint64_t at,
		     const struct nic_op *op);

/* Done at `at`; returns when the last bit of the response is at the client's port. */
uint64_t nic_response(const struct nic_profile *p, struct nic_node *n, uint64_t at, const struct nic_op *op);

/* At the client's port at `at`; returns when it is in its memory. */
uint64_t nic_receive(const struct nic_profile *p, struct nic_port *c, uint64_t at, const struct nic_op *op);

/* What one operation takes alone, without its thread's part: all caches hit. */
uint64_t nic_alone(const struct nic_profile *p, const struct nic_op *op);

#endif
