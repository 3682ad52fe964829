/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_wire.h -- how a client and a memory node connect a queue pair.
 *
 * They talk over a TCP connection as for tcp: (tcp_wire.h): the same handshake, the same key, the same requests to the
 * control endpoint. Only chains do not travel on it. Instead the client asks for a queue pair of the node's, once, by
 * TCP_ATTACH with its own offer; the answer is the node's offer, and by then the node's queue pair is ready to receive.
 * The queue pair lives as long as the connection. All numbers are little-endian, but for the GID, whose bytes have an
 * order of their own.
 */
#ifndef FAR_FABRIC_VERBS_WIRE_H
#define FAR_FABRIC_VERBS_WIRE_H

#include <stdint.h>

enum { VERBS_VERSION = 1 };

struct verbs_offer {
	uint32_t version;
	uint32_t qpn, psn;  /* 24 bits each */
	uint32_t rd_atomic; /* READs and atomics that this side serves at a time */
	uint8_t gid[16];
	uint16_t lid;       /* 0 on Ethernet */
	uint8_t mtu;        /* enum ibv_mtu, at most */
	uint8_t link_layer; /* 1 InfiniBand, 2 Ethernet */
	uint32_t rkey;      /* the node's: of the region, for this queue pair alone; the client's: 0 */
	uint64_t base;      /* the node's: where the region begins; the client's: 0 */
};
_Static_assert(sizeof(struct verbs_offer) == 48, "offer");

#endif
