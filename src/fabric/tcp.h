/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h -- the client side of memory nodes behind TCP. */
#ifndef FAR_FABRIC_TCP_H
#define FAR_FABRIC_TCP_H

#include "fabric/backend.h"
#include "fabric/tcp_key.h"
#include "fabric/tcp_uri.h"

extern const struct far_fabric_ops tcp_fabric_ops;

/* What only the backend's own files use. ------------------------------------------------------------------- */

enum {
	TCP_LINK_FRAMES = 1024, /* frames of chains in flight at most, a power of two */
	TCP_LINK_CALLS = 64,    /* calls, the same */
	TCP_LINK_BUFFER = 4 * TCP_FRAME_MAX,
};

/* A frame of a chain that was not answered yet. */
struct tcp_sent {
	struct far_chain *chain;
	uint64_t seq, start; /* start: place of its first byte in all that the connection sends */
	bool last;           /* of its chain */
};

/* The connection to one node. */
struct tcp_link {
	int sock;              /* -1: closed */
	int err;               /* 0, or what every operation gets from now on */
	uint64_t region_len;
	uint64_t pool_id[2];
	unsigned caps;
	bool attaches;         /* only calls travel here */
	uint64_t timeout_ns;
	uint64_t seq;          /* of the last frame */
	uint64_t pushed;       /* bytes given to the system so far */
	struct far_chain_list waiting; /* chains that are not, or not wholly, in the buffer */
	struct tcp_cursor put;   /* in the first of these, when its `op` is not NULL */
	struct tcp_sent sent[TCP_LINK_FRAMES];
	uint32_t sent_at, sent_n;
	struct tcp_cursor got;   /* in the chain of the first frame sent, the same */
	unsigned calls_n;
	struct {
		struct far_chain *chain;
		uint64_t seq, start_ns;
	} calls[TCP_LINK_CALLS];
	uint64_t heard_ns, looked_ns;
	bool asked;              /* a ping is in flight */
	uint8_t *out, *in;       /* TCP_LINK_BUFFER each */
	uint32_t out_at, out_n, in_at, in_n;
};

/* tcp_link.c. Buffers for a link that is zero but for its time-out; to be closed also after an error. -FAR_ENOMEM. */
int tcp_link_init(struct tcp_link *k);

/* Connects; blocks for k->timeout_ns at most. k->pool_id: of the pool that it must be, or zero; then what
 * the node says. `key` may be of length 0. On error the link is closed. */
int tcp_link_open(struct tcp_link *k, const struct tcp_place *place, const struct tcp_key *key);
void tcp_link_close(struct tcp_link *k);

/* Asks a node that is reached another way (k->attaches) for that; blocks. Nothing has been posted. The answer has `len`
 * bytes, at most TCP_ATTACH_MAX, as what is asked. */
int tcp_link_attach(struct tcp_link *k, const void *ask, void *answer, uint32_t len);

/* Ends the connection: everything in flight comes back in *done, and later operations get `err`. */
void tcp_link_die(struct tcp_link *k, int err, struct far_chain_list *done);

/* Takes in a chain; it comes back in *done. */
void tcp_link_post(struct tcp_link *k, struct far_chain *c, struct far_chain_list *done);

/* Is anything in flight? */
static inline bool
tcp_link_is_busy(const struct tcp_link *k)
{
	return k->waiting.first || k->sent_n > 0 || k->calls_n > 0;
}

/* Sends what it can, takes what has arrived; what is answered or lost moves to *done. True: something arrived. */
bool tcp_link_move(struct tcp_link *k, struct far_chain_list *done);

/* Gives a node up that is silent although it was asked: everything in flight moves to *done. */
void tcp_link_look(struct tcp_link *k, uint64_t now, struct far_chain_list *done);

#endif
