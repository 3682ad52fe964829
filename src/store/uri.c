/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c -- what is wrong with a pool URI, in words. */
#include "store/handle.h"

#include "base/base.h"

#define URI_SCHEME   "shm:"
#define URI_EXPECTED "expected shm:PATH[,PATH...]"

enum {
	URI_PATH_MAX = 107,        /* bytes of a Unix socket's path */
	URI_PROBE_NS = 1000000000, /* who waited in vain does not wait as long to learn for whom */
};

/* Is this path the one of an earlier node? Its number, or `node`. */
static unsigned
store_uri_twin(const char *uri, unsigned node, struct far_bytes path)
{
	const char *at = uri + strlen(URI_SCHEME);

	for (unsigned i = 0; i < node; i++) {
		size_t len = strcspn(at, ",");

		if (len == path.len && memcmp(at, path.data, len) == 0)
			return i;
		at += len + 1;
	}
	return node;
}

static int
store_uri_check_path(const char *uri, unsigned node, struct far_bytes path, char *text)
{
	unsigned twin = store_uri_twin(uri, node, path);

	FAR_ASSERT(twin <= node && node < FAR_NODES_MAX);
	if (path.len == 0)
		snprintf(text, FAR_ERRMSG_MAX,
			 "pool '%.100s': the path of node %u is empty; " URI_EXPECTED, uri, node);
	else if (path.len > URI_PATH_MAX)
		snprintf(text, FAR_ERRMSG_MAX,
			 "pool '%.100s...': the path of node %u has %zu bytes, more than %d", uri,
			 node, path.len, URI_PATH_MAX);
	else if (twin != node)
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.100s': node %u is node %u again", uri, node,
			 twin);
	else
		return 0;
	return -FAR_EINVAL;
}

int
store_uri_check(const char *uri, char *text)
{
	const char *at = uri + strlen(URI_SCHEME);
	unsigned nodes = 1;
	int err = 0;

	if (strncmp(uri, URI_SCHEME, strlen(URI_SCHEME)) != 0) {
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.100s': " URI_EXPECTED, uri);
		return -FAR_EINVAL;
	}
	for (const char *p = at; *p; p++)
		nodes += *p == ',';
	if (nodes > FAR_NODES_MAX) {
		snprintf(text, FAR_ERRMSG_MAX, "pool of %u memory nodes: at most %d are possible",
			 nodes, FAR_NODES_MAX);
		return -FAR_EINVAL;
	}
	for (unsigned i = 0; i < nodes && !err; i++) {
		size_t len = strcspn(at, ",");

		err = store_uri_check_path(uri, i, far_bytes(at, len), text);
		at += len + 1;
	}
	return err;
}

/* Does a node answer alone? Its own error, or 0. */
static int
store_uri_probe(const char *path, size_t len)
{
	struct far_loop_opts opts = { .seed = 1 };
	struct far_fabric_opts patience = { .timeout_ns = URI_PROBE_NS };
	struct far_fabric *fabric = NULL;
	struct far_loop *loop = NULL;
	char *uri;
	int err = -FAR_ENOMEM;

	if (asprintf(&uri, URI_SCHEME "%.*s", (int)len, path) < 0)
		return err;
	err = far_loop_open(&opts, &loop);
	if (!err)
		err = far_fabric_open(uri, loop, &patience, &fabric);
	far_fabric_close(fabric);
	far_loop_close(loop);
	free(uri);
	return err;
}

static const char *
store_uri_trouble(int err)
{
	switch (err) {
	case -FAR_ENODE:
		return "nobody serves it, or it does not answer";
	case -FAR_ENOENT:
		return "the file of its region was removed or replaced; it takes no new clients";
	case -FAR_ENOMEM:
		return "no room for one more client: out of memory or open files, here or there";
	default:
		return far_strerror(err);
	}
}

void
store_uri_explain(const char *uri, int err, char *text)
{
	const char *at = uri + strlen(URI_SCHEME);

	/* Which of the nodes is it? Only a failure can afford to ask each. */
	FAR_ASSERT(err < 0);
	for (unsigned node = 0;; node++, at++) {
		size_t len = strcspn(at, ",");
		int own;

		/* It is well formed, or nothing would have been opened. */
		FAR_ASSERT(node < FAR_NODES_MAX);
		own = store_uri_probe(at, len);

		if (own) {
			snprintf(text, FAR_ERRMSG_MAX, "memory node %u at '%.*s': %s", node,
				 (int)far_min(len, 120), at, store_uri_trouble(own));
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
			"one is named twice or not at all, or the first one came back empty",
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
