/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_uri.h -- tcp://HOST:PORT[,HOST:PORT...][?key=FILE], verbs://HOST:PORT[,HOST:PORT...][?OPTION[&OPTION...]]
 *
 * HOST is a name, an IPv4 address, or an IPv6 address in brackets; PORT is a number. FILE holds the pool's key.
 * Options of verbs: key=FILE; device=NAME and gid=INDEX, which RDMA device of this machine and which of its addresses;
 * windows=no, of a node: clients get a key of the whole region each instead of a memory window.
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
	char device[64]; /* "": any */
	int gid;         /* -1: the best */
	bool no_windows;
};

/* Parses what follows "tcp:" or (`rdma`) "verbs:". -FAR_EINVAL: `why` (of `why_len` bytes) says what is wrong with it. */
int tcp_uri_parse(const char *spec, bool rdma, struct tcp_uri *out, char *why, unsigned why_len);

#endif
