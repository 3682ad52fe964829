/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c -- what is wrong with a pool URI, in words. */
#include "store/handle.h"

#include "base/base.h"

#define URI_SCHEME   "shm:"
#define URI_EXPECTED "expected shm:PATH[,PATH...]"

int
store_uri_check(const char *uri, char *text)
{
	const char *at = uri + strlen(URI_SCHEME);
	unsigned nodes = 0;

	if (strncmp(uri, URI_SCHEME, strlen(URI_SCHEME)) != 0) {
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.100s': " URI_EXPECTED, uri);
		return -FAR_EINVAL;
	}
	for (;; at++) {
		size_t len = strcspn(at, ",");

		if (len == 0) {
			snprintf(text, FAR_ERRMSG_MAX,
				 "pool '%.100s': the path of node %u is empty; " URI_EXPECTED, uri,
				 nodes);
			return -FAR_EINVAL;
		}
		nodes++;
		at += len;
		if (*at == '\0')
			break;
	}
	if (nodes > FAR_NODES_MAX) {
		snprintf(text, FAR_ERRMSG_MAX, "pool of %u memory nodes: at most %d are possible",
			 nodes, FAR_NODES_MAX);
		return -FAR_EINVAL;
	}
	return 0;
}

/* Does a node answer alone? Its own error, or 0. */
static int
store_uri_probe(const char *path, size_t len)
{
	struct far_loop_opts opts = { .seed = 1 };
	struct far_fabric *fabric = NULL;
	struct far_loop *loop = NULL;
	char *uri;
	int err = -FAR_ENOMEM;

	if (asprintf(&uri, URI_SCHEME "%.*s", (int)len, path) < 0)
		return err;
	err = far_loop_open(&opts, &loop);
	if (!err)
		err = far_fabric_open(uri, loop, NULL, &fabric);
	far_fabric_close(fabric);
	far_loop_close(loop);
	free(uri);
	return err;
}

void
store_uri_explain(const char *uri, int err, char *text)
{
	const char *at = uri + strlen(URI_SCHEME);

	/* Which of the nodes is it? Only a failure can afford to ask each. */
	for (unsigned node = 0;; node++, at++) {
		size_t len = strcspn(at, ",");
		int own = store_uri_probe(at, len);

		if (own) {
			snprintf(text, FAR_ERRMSG_MAX, "memory node %u at '%.*s': %s", node,
				 (int)far_min(len, 120), at,
				 own == -FAR_ENODE ? "nobody serves it" : far_strerror(own));
			return;
		}
		at += len;
		if (*at == '\0')
			break;
	}
	if (err == -FAR_EINVAL)
		snprintf(
			text, FAR_ERRMSG_MAX,
			"pool '%.120s': its nodes belong to another pool or stand in another order, "
			"or the first one came back empty",
			uri);
	else if (err == -FAR_ENODE)
		/* All answer: one of them is not what it was. */
		snprintf(text, FAR_ERRMSG_MAX,
			 "pool '%.120s': one of its nodes came back empty, what it held is lost; "
			 "start all nodes anew",
			 uri);
	else
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.120s': %s", uri, far_strerror(err));
}
