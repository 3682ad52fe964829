/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_key.h -- the secret that clients and memory nodes of a pool share, and proofs that one has it.
 *
 * A proof is HMAC-SHA256 under the key over the role of who proves, and over all that was said before, in which both
 * sides have put 32 fresh random bytes: it is good for one connection and for one side of it. What follows on the
 * connection is not protected by it: who can change packets on the way can take a connection over.
 */
#ifndef FAR_FABRIC_TCP_KEY_H
#define FAR_FABRIC_TCP_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/tcp_wire.h"

enum { TCP_KEY_MIN = 16, TCP_KEY_MAX = 4096 }; /* bytes of a key file */

struct tcp_key {
	size_t len; /* 0: none */
	unsigned char bytes[TCP_KEY_MAX];
};

/* Reads a key: all bytes of the file, a last newline included. `why` (of `why_len` bytes) says what is wrong:
 * -FAR_EACCESS (others may read the file), -FAR_EINVAL (too short or too long), -FAR_EIO. */
int tcp_key_read(const char *file, struct tcp_key *out, char *why, size_t why_len);

/* Forgets the secret. */
void tcp_key_wipe(struct tcp_key *k);

/* Fresh random bytes of the system; false: it has none. */
bool tcp_nonce_fill(uint8_t nonce[TCP_NONCE]);

/* The proofs of either side; what they cover is filled in already. False: out of memory. */
bool tcp_agent_prove(const struct tcp_key *k, const struct tcp_hello *h, const struct tcp_welcome *w,
		     uint8_t mac[TCP_MAC]);
bool tcp_client_prove(const struct tcp_key *k, const struct tcp_hello *h, const struct tcp_welcome *w,
		      uint8_t mac[TCP_MAC]);

/* Compares in a time that does not depend on where they differ. */
bool tcp_mac_equal(const uint8_t a[TCP_MAC], const uint8_t b[TCP_MAC]);

#endif
