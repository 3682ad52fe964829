/* SPDX-License-Identifier: Apache-2.0 */
/* uri.c -- what is wrong with a pool URI, in words. */
#include "store/handle.h"

#include "base/base.h"
#include "fabric/tcp_key.h"
#include "fabric/tcp_uri.h"

#define URI_EXPECTED "expected shm:PATH[,PATH...], tcp://HOST:PORT[,HOST:PORT...] or verbs://..."

enum {
	URI_PATH_MAX = 107,        /* bytes of a Unix socket's path */
	URI_SHOWN = 120,           /* of it in a message */
	URI_WHY = 200,
	URI_PROBE_NS = 1000000000, /* who waited in vain does not wait as long to learn for whom */
};

/* What "%.*s" takes of a path. */
#define STORE_URI_SHOWN(path) (int)far_min((path).len, URI_SHOWN), (const char *)(path).data

static bool
store_uri_is_rdma(const char *uri)
{
	return strncmp(uri, "verbs:", 6) == 0;
}

/* Are its nodes named by host and port? */
static bool
store_uri_is_net(const char *uri)
{
	return strncmp(uri, "tcp:", 4) == 0 || store_uri_is_rdma(uri);
}

/* Parses the URI of nodes on a network. -FAR_EINVAL and `why` (of URI_WHY bytes). */
static int
store_uri_parse(const char *uri, struct tcp_uri *out, char *why)
{
	FAR_ASSERT(store_uri_is_net(uri));
	return tcp_uri_parse(strchr(uri, ':') + 1, store_uri_is_rdma(uri), out, why, URI_WHY);
}

/* What stands before the nodes; NULL: no scheme that is known. */
static const char *
store_uri_scheme(const char *uri)
{
	if (strncmp(uri, "tcp://", 6) == 0)
		return "tcp://";
	if (strncmp(uri, "verbs://", 8) == 0)
		return "verbs://";
	return strncmp(uri, "shm:", 4) == 0 ? "shm:" : NULL;
}

/* What ends a node's place. A socket's path may hold anything but a comma. */
static const char *
store_uri_ends(const char *uri)
{
	return store_uri_is_net(uri) ? ",?" : ",";
}

/* The path or address of a node; false: there is none of that number, and *path is untouched. */
static bool
store_uri_path(const char *uri, unsigned node, struct far_bytes *path)
{
	const char *at, *ends = store_uri_ends(uri);

	FAR_ASSERT(store_uri_scheme(uri));
	at = uri + strlen(store_uri_scheme(uri));
	for (; node > 0; node--) {
		at += strcspn(at, ends);
		if (*at++ != ',')
			return false;
	}
	*path = far_bytes(at, strcspn(at, ends));
	return true;
}

/* What stands behind the nodes. */
static const char *
store_uri_tail(const char *uri)
{
	return store_uri_is_net(uri) ? uri + strcspn(uri, "?") : "";
}

/* Is this path the one of an earlier node? Its number, or `node`. */
static unsigned
store_uri_twin(const char *uri, unsigned node, struct far_bytes path)
{
	struct far_bytes other;

	for (unsigned i = 0; i < node && store_uri_path(uri, i, &other); i++) {
		if (other.len == path.len && memcmp(other.data, path.data, path.len) == 0)
			return i;
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
			 "pool '%.80s': the path of node %u is empty; " URI_EXPECTED, uri, node);
	else if (path.len > URI_PATH_MAX && !store_uri_is_net(uri))
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

/* What only URIs of nodes on a network can have wrong. */
static int
store_uri_check_net(const char *uri, char *text)
{
	struct tcp_uri parsed;
	char why[URI_WHY];

	if (!store_uri_is_net(uri) || store_uri_parse(uri, &parsed, why) == 0)
		return 0;
	snprintf(text, FAR_ERRMSG_MAX, "pool '%.60s': %.180s", uri, why);
	return -FAR_EINVAL;
}

int
store_uri_check(const char *uri, char *text)
{
	struct far_bytes path;
	unsigned nodes = 0;
	int err = 0;

	if (!store_uri_scheme(uri)) {
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.80s': " URI_EXPECTED, uri);
		return -FAR_EINVAL;
	}
	while (store_uri_path(uri, nodes, &path))
		nodes++;
	if (nodes > FAR_NODES_MAX) {
		snprintf(text, FAR_ERRMSG_MAX, "pool of %u memory nodes: at most %d are possible",
			 nodes, FAR_NODES_MAX);
		return -FAR_EINVAL;
	}
	for (unsigned i = 0; i < nodes && !err && store_uri_path(uri, i, &path); i++)
		err = store_uri_check_path(uri, i, path, text);
	return err ? err : store_uri_check_net(uri, text);
}

/* Does a node of the pool answer alone? Its own error, or 0; the fabric's words for it, if it has any, in `why`. */
static int
store_uri_probe(const char *pool, struct far_bytes path, char why[FAR_FABRIC_ERRMSG])
{
	struct far_loop_opts opts = { .seed = 1 };
	struct far_fabric_opts patience = { .timeout_ns = URI_PROBE_NS, .errmsg = why };
	struct far_fabric *fabric = NULL;
	struct far_loop *loop = NULL;
	char *uri;
	int err = -FAR_ENOMEM;

	why[0] = '\0';
	/* An address that was checked: what is asked here is that node and no other one. */
	FAR_ASSERT(path.len > 0);
	if (asprintf(&uri, "%s%.*s%s", store_uri_scheme(pool), (int)path.len,
		     (const char *)path.data, store_uri_tail(pool)) < 0)
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
	case -FAR_EACCESS:
		return "it may not be used: another user's socket, a wrong key, or one side has no key";
	case -FAR_ENOENT:
		return "the file of its region was removed or replaced; it takes no new clients";
	case -FAR_ENOMEM:
		return "no room for one more client: out of memory or open files, here or there";
	default:
		return far_strerror(err);
	}
}

/* Which of the nodes is it? Only a failure can afford to ask each. False: all answer. */
static bool
store_uri_ask(const char *uri, char *text)
{
	char why[FAR_FABRIC_ERRMSG];
	struct far_bytes path;
	int n;

	for (unsigned node = 0; store_uri_path(uri, node, &path); node++) {
		int own = store_uri_probe(uri, path, why);

		/* It is well formed, or nothing would have been opened. */
		FAR_ASSERT(node < FAR_NODES_MAX);
		if (own == 0)
			continue;
		n = snprintf(text, FAR_ERRMSG_MAX, "memory node %u at '%.*s': ", node,
			     STORE_URI_SHOWN(path));
		/* A long reason is cut. */
		strncat(text, why[0] ? why : store_uri_trouble(own),
			FAR_ERRMSG_MAX - 1 - (size_t)n);
		return true;
	}
	return false;
}

/* "node 1" or "nodes 1, 2": as many as there is room for. */
static void
store_uri_missing(uint32_t missing, char *text, size_t text_len)
{
	const char *before = missing & (missing - 1) ? "nodes " : "node ";
	size_t at = 0;

	FAR_ASSERT(missing != 0);
	for (unsigned i = 0; i < FAR_NODES_MAX && at < text_len; i++) {
		if (!(missing >> i & 1))
			continue;
		at += (size_t)snprintf(text + at, text_len - at, "%s%u", before, i);
		before = ", ";
	}
}

static void
store_uri_misfit(const char *uri, const struct pool_misfit *m, char *text)
{
	char missing[80];
	unsigned named = 1;
	struct far_bytes path = { "", 0 };

	while (store_uri_path(uri, named, &path))
		named++;
	FAR_ASSERT(store_uri_path(uri, m->place, &path));
	switch (m->kind) {
	case POOL_TWICE:
		snprintf(text, FAR_ERRMSG_MAX, "memory node %u at '%.*s' is node %u again",
			 m->place, STORE_URI_SHOWN(path), m->other);
		break;
	case POOL_STRANGER:
		snprintf(text, FAR_ERRMSG_MAX,
			 "memory node %u at '%.*s' belongs to another pool than node %u", m->place,
			 STORE_URI_SHOWN(path), m->other);
		break;
	case POOL_TOO_FEW:
		FAR_ASSERT(m->nodes_n > named);
		store_uri_missing(m->missing, missing, sizeof(missing));
		snprintf(
			text, FAR_ERRMSG_MAX,
			"pool '%.80s' has %u memory nodes, of which the URI names %u: %s %s missing",
			uri, m->nodes_n, named, missing, m->nodes_n - named > 1 ? "are" : "is");
		break;
	case POOL_TOO_MANY:
		snprintf(
			text, FAR_ERRMSG_MAX,
			"pool '%.80s' has %u memory node%s, but the URI names %u; a pool does not grow",
			uri, m->nodes_n, m->nodes_n == 1 ? "" : "s", named);
		break;
	case POOL_OTHER_ORDER:
		snprintf(text, FAR_ERRMSG_MAX,
			 "memory node %u at '%.*s' is the pool's node %u: they stand in another order",
			 m->place, STORE_URI_SHOWN(path), m->other);
		break;
	case POOL_EMPTY:
		snprintf(text, FAR_ERRMSG_MAX,
			 "memory node %u at '%.*s' is new or came back empty, and others belong to a pool; "
			 "without what it held, start all nodes anew",
			 m->place, STORE_URI_SHOWN(path));
		break;
	case POOL_FITS:
		break;
	}
}

/* True: the trouble is the key file. */
static bool
store_uri_explain_key(const char *uri, char *text)
{
	struct tcp_uri parsed;
	struct tcp_key key;
	char why[URI_WHY];
	bool wrong;

	if (!store_uri_is_net(uri) || store_uri_parse(uri, &parsed, why) != 0 ||
	    parsed.key[0] == '\0')
		return false;
	wrong = tcp_key_read(parsed.key, &key, why, sizeof(why)) != 0;
	FAR_ASSERT(wrong || key.len >= TCP_KEY_MIN);
	tcp_key_wipe(&key);
	if (wrong)
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.60s': %.180s", uri, why);
	return wrong;
}

void
store_uri_explain(const char *uri, int err, const struct pool_misfit *m, char *text)
{
	FAR_ASSERT(err < 0);
	if (m->kind != POOL_FITS)
		store_uri_misfit(uri, m, text);
	else if (!store_uri_explain_key(uri, text) && !store_uri_ask(uri, text))
		snprintf(text, FAR_ERRMSG_MAX, "pool '%.120s': %s", uri, far_strerror(err));
}
