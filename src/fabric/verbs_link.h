/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_link.h -- a client's queue pair to one memory node, and the connection that it was agreed on over. */
#ifndef FAR_FABRIC_VERBS_LINK_H
#define FAR_FABRIC_VERBS_LINK_H

#include "fabric/tcp.h"
#include "fabric/verbs_device.h"

enum {
	VERBS_DEPTH = 512,         /* work requests in flight at most; a power of two */
	VERBS_BATCH = 32,          /* linked ones behind one doorbell */
	VERBS_RING = 256 << 10,    /* registered memory of a link */
	VERBS_PIECE = 64 << 10,    /* the longest work request: a longer operation is several */
};

/* A work request that was not acknowledged yet. */
struct verbs_sent {
	struct far_chain *chain;
	void *to;            /* where its result goes, or NULL */
	const uint8_t *from; /* and where it arrives */
	uint32_t len;
	uint32_t held;       /* bytes of the ring that it takes */
	bool last;           /* of its chain */
};

struct verbs_link {
	struct verbs_device *device;
	struct tcp_link *control;
	struct verbs_qp qp;
	uint64_t base; /* of the region, at the node */
	uint32_t rkey;
	int err; /* 0, or what every operation gets from now on */
	/* Chains that are not, or not wholly, posted; and the place in the first one, when its `op` is not NULL. */
	struct far_chain_list waiting;
	struct tcp_cursor put;
	struct verbs_sent sent[VERBS_DEPTH]; /* by the low bits of their numbers */
	uint64_t first, next; /* numbers: of the oldest of these, of the next one */
	/* Registered memory: results arrive in it, long WRITEs leave from it. Taken and freed in the order of posts. */
	uint8_t *ring;
	uint32_t lkey;
	uint32_t ring_at, ring_used;
	uint64_t moved_ns; /* when the oldest was first seen waiting; 0: not yet */
	uint64_t looked_ns;
	uint64_t timeout_ns;
};

/* Connects to the node at the other end of k->control, which is closed and freed also after an error; blocks. k->ring
 * and k->lkey are set, the rest is zero; the ring has VERBS_RING bytes and outlives the link. -FAR_E. */
int verbs_link_open(struct verbs_link *k, struct verbs_device *d);
void verbs_link_close(struct verbs_link *k);

/* Takes in a chain; it comes back in *done. */
void verbs_link_post(struct verbs_link *k, struct far_chain *c, struct far_chain_list *done);

/* Is anything in flight? */
static inline bool
verbs_link_is_busy(const struct verbs_link *k)
{
	return k->waiting.first || k->first != k->next || tcp_link_is_busy(k->control);
}

/* Posts what it can, takes what is done. True: something was. */
bool verbs_link_move(struct verbs_link *k, struct far_chain_list *done);

/* Hears what the node says besides, and gives it up when it is silent. */
void verbs_link_look(struct verbs_link *k, uint64_t now, struct far_chain_list *done);

#endif
