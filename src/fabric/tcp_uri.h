/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_uri.h -- tcp://HOST:PORT[,HOST:PORT...][?key=FILE]
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets; PORT is a number. FILE holds the pool's key.
 */
#ifndef FAR_FABRIC_TCP_URI_H
#define FAR_FABRIC_TCP_URI_H

#include <farside/fabric.h>

struct tcp_place {
	char host[256];
	char port[6];
};

struct tcp_uri {
	unsigned nodes_n;
	struct tcp_place nodes[FAR_NODES_MAX];
	char key[1024]; /* path of the key file, "" = none */
};

/* Parses what follows "tcp:". -FAR_EINVAL: `why` (of `why_len` bytes) says what is wrong with it. */
int tcp_uri_parse(const char *spec, struct tcp_uri *out, char *why, unsigned why_len);

#endif
