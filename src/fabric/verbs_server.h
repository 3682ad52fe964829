/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_server.h -- a memory node's region behind an RDMA device.
 *
 * The node's processor has no part in what clients do to the region: it connects their queue pairs, hands each a key of
 * its own to the region, and takes both away again. The key is a type-2 memory window, which lets in only what arrives
 * on that queue pair, where the device has those; else a registration of the region for this client alone, which takes
 * much longer to make.
 *
 * One device serves the whole region: atomics of two devices are not atomic among each other.
 */
#ifndef FAR_FABRIC_VERBS_SERVER_H
#define FAR_FABRIC_VERBS_SERVER_H

#include <sys/socket.h>

#include "fabric/shm_region.h"
#include "fabric/tcp_agent.h"

struct tcp_uri;
struct verbs_server;

/*
 * Registers the region, which outlives the server, with the device that `uri` names, or with the one that has `uri`'s
 * host as its address, or with the first that fits. On error *out is untouched and `why` names the limit that was met,
 * its value and the way out: -FAR_ENOTSUP, -FAR_EACCESS, -FAR_ENOMEM, -FAR_EIO.
 */
int verbs_server_open(const struct tcp_uri *uri, const struct shm_region *region, struct verbs_server **out,
		      struct shm_why *why);
/* No client is attached. NULL is fine. */
void verbs_server_close(struct verbs_server *s);

/* For the agent that talks with the clients; lives as long as the server. */
const struct tcp_attach *verbs_server_attach(const struct verbs_server *s);

/* Device, port, GID and kind of keys, for people. */
const char *verbs_server_name(const struct verbs_server *s);

#endif
