/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_wire.h -- what a client and a memory node on one machine say to each other.
 *
 * The node listens on a Unix socket of type SOCK_SEQPACKET at the path that the pool URI names (mode 0600). One
 * connection per client fabric and node; every message is one packet in the machine's own byte order.
 *
 * 1. node -> client, once, as soon as the node has accepted: struct shm_hello, with the region's file descriptor as
 *    SCM_RIGHTS (none when `err` is set, and then the node closes). The client sends nothing before. It maps
 *    `region_len` bytes read-write and refuses a file that is shorter.
 * 2. client -> node, any number, also before earlier ones are answered: struct shm_frame and `len` bytes of request
 *    (struct control_request of pool/control.h).
 * 3. node -> client, one per request, in any order (FENCE may take long): struct shm_frame with the request's `seq`
 *    and `len` bytes of reply. A packet whose size is not that of the frame and its `len` breaks the connection.
 *
 * The end of the connection tells both sides of the other's death, or of its clean end after CONTROL_LEAVE. As a
 * mapping outlives its connection, the node concludes from it nothing about the client's access to the region: it
 * waits for the end of the process.
 */
#ifndef FAR_FABRIC_SHM_WIRE_H
#define FAR_FABRIC_SHM_WIRE_H

#include <stdint.h>

#define SHM_MAGIC 0x314d485352414648ULL /* "HFARSHM1" */

enum {
	SHM_VERSION = 2,
	SHM_PAYLOAD_MAX = 4096, /* bytes of one request or reply */
};

struct shm_hello {
	uint64_t magic;
	uint32_t version;
	int32_t err;         /* 0, or -FAR_E: the node does not take this client */
	uint64_t region_len; /* bytes */
};
_Static_assert(sizeof(struct shm_hello) == 24, "hello");

struct shm_frame {
	uint64_t seq; /* the client's number of the request: 1, 2, ... */
	uint32_t len; /* bytes that follow, at most SHM_PAYLOAD_MAX */
	uint32_t pad;
};
_Static_assert(sizeof(struct shm_frame) == 16, "frame");

#endif
