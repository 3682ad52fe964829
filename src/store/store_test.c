/* SPDX-License-Identifier: Apache-2.0 */
/* store_test.c -- far.h over memory nodes of their own, each a child process. */
#include <farside/fabric.h>
#include <farside/far.h>

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "fabric/shm_node.h"
#include "test.h"

#define MIB ((uint64_t)1 << 20)

/* A pool of one node, a handle and a table. */
struct world {
	struct shm_child node;
	struct far *f;
	struct far_table *t;
};

static void
test_open_opts(struct world *w, uint64_t size, const struct far_opts *opts)
{
	struct shm_why why;

	memset(w, 0, sizeof(*w));
	REQUIRE(shm_node_spawn(size, &w->node, &why) == 0);
	REQUIRE(far_open(w->node.uri, opts, &w->f) == 0);
	REQUIRE(far_table_create(w->f, "t", NULL) == 0);
	REQUIRE(far_table_open(w->f, "t", &w->t) == 0);
}

static void
test_open(struct world *w, uint64_t size)
{
	test_open_opts(w, size, NULL);
}

static void
test_close(struct world *w)
{
	far_table_close(w->t);
	far_close(w->f);
	shm_node_stop(&w->node);
}

static bool
test_equal(struct far_bytes a, struct far_bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* "k0000001" and so on, in the caller's buffer. */
static struct far_bytes
test_key(char *buf, unsigned i)
{
	return far_bytes(buf, (size_t)sprintf(buf, "k%07u", i));
}

/* The number in such a key, which no NUL ends; UINT_MAX when it is none. */
static unsigned
test_number(struct far_bytes key)
{
	char buf[16] = "";

	if (key.len != 8)
		return UINT_MAX;
	memcpy(buf, key.data, 8);
	return (unsigned)strtoul(buf + 1, NULL, 10);
}

/* Opening ------------------------------------------------------------------------------------------------- */

static void
test_uri(const char *uri, int err, const char *text)
{
	char msg[FAR_ERRMSG_MAX] = "";
	struct far_opts opts = { .errmsg = msg };
	struct far *f = NULL;

	CHECK_EQ(far_open(uri, &opts, &f), err);
	CHECK(f == NULL);
	if (!strstr(msg, text)) {
		printf("# '%s': '%s' lacks '%s'\n", uri, msg, text);
		test_failures++;
	}
}

static void
test_open_wrong_uri_says_what_is_expected(void)
{
	char many[400] = "shm:a", longest[200] = "shm:";

	test_uri("", -FAR_EINVAL, "expected shm:PATH");
	test_uri("/tmp/x", -FAR_EINVAL, "expected shm:PATH");
	test_uri("tcp:host", -FAR_EINVAL, ", tcp://HOST:PORT");
	test_uri("verbs:host", -FAR_EINVAL, "or verbs://");
	test_uri("verbs://host", -FAR_EINVAL, "memory node 0: the port is missing");
	test_uri("verbs://h:1,h:1?gid=1", -FAR_EINVAL, "node 1 is node 0 again");
	test_uri("verbs://h:1?gid=256", -FAR_EINVAL, "a GID's index");
	test_uri("verbs://h:1?windows=maybe", -FAR_EINVAL, "device=NAME, gid=INDEX");
	test_uri("verbs://127.0.0.1:1?key=/nonexistent", -FAR_EIO, "/nonexistent: No such file");
	test_uri("tcp://", -FAR_EINVAL, "node 0 is empty");
	test_uri("tcp://host", -FAR_EINVAL, "memory node 0: the port is missing");
	test_uri("tcp://h:1,[::1:2", -FAR_EINVAL, "memory node 1: an address in brackets");
	test_uri("tcp://h:1,h:65536", -FAR_EINVAL, "memory node 1: a port is a number");
	test_uri("tcp://h:1,g:2,h:1", -FAR_EINVAL, "node 2 is node 0 again");
	test_uri("tcp://h:1?kex=f", -FAR_EINVAL, "only key=FILE is known");
	test_uri("tcp://127.0.0.1:1?key=/nonexistent", -FAR_EIO, "/nonexistent: No such file");
	test_uri("tcp://127.0.0.1:1", -FAR_ENODE, "memory node 0 at '127.0.0.1:1'");
	test_uri("shm:", -FAR_EINVAL, "the path of node 0 is empty");
	test_uri("shm:/a,", -FAR_EINVAL, "the path of node 1 is empty");
	test_uri("shm:,/a", -FAR_EINVAL, "the path of node 0 is empty");
	for (int i = 0; i < 16; i++)
		strcat(many, ",b");
	test_uri(many, -FAR_EINVAL, "at most 16");
	test_uri("shm:/a,/b,/a", -FAR_EINVAL, "node 2 is node 0 again");
	memset(longest + 4, 'x', 108);
	test_uri(longest, -FAR_EINVAL, "the path of node 0 has 108 bytes, more than 107");
	/* Hosts have a limit of their own. */
	memset(memcpy(longest, "tcp://", 6) + 6, 'x', 120);
	test_uri(longest, -FAR_EINVAL, "memory node 0: the port is missing");
	CHECK_EQ(far_open("nonsense", NULL, NULL), -FAR_EINVAL);
}

static void
test_open_missing_node_names_it(void)
{
	struct shm_child node;
	struct shm_why why;
	char uri[200];

	REQUIRE(shm_node_spawn(32 * MIB, &node, &why) == 0);
	snprintf(uri, sizeof(uri), "%s,/nonexistent/socket", node.uri);
	test_uri(uri, -FAR_ENODE, "memory node 1 at '/nonexistent/socket'");
	snprintf(uri, sizeof(uri), "%s", node.uri);
	shm_node_stop(&node);
	test_uri(uri, -FAR_ENODE, "memory node 0 at");
}

/* By another path, which the URI does not tell. The node learns nothing of it: the pool can still be formed. */
static void
test_open_one_node_twice_is_refused_and_harms_nothing(void)
{
	struct shm_child a, b;
	struct shm_why why;
	char twice[250], uri[250], link[] = "/tmp/farside-test-XXXXXX";
	struct far *f;

	REQUIRE(shm_node_spawn(32 * MIB, &a, &why) == 0);
	REQUIRE(shm_node_spawn(32 * MIB, &b, &why) == 0);
	REQUIRE(mkdtemp(link) && rmdir(link) == 0 && symlink(a.uri + 4, link) == 0);
	snprintf(twice, sizeof(twice), "%s,%s", a.uri, link);
	snprintf(uri, sizeof(uri), "%s,%s", a.uri, b.uri + 4);
	test_uri(twice, -FAR_EINVAL, "memory node 1 at '/tmp/farside-test-");
	unlink(link);
	REQUIRE(far_open(uri, NULL, &f) == 0);
	far_close(f);
	shm_node_stop(&a);
	shm_node_stop(&b);
}

static void
test_open_wrong_order_is_refused(void)
{
	struct shm_child a, b;
	struct shm_why why;
	char uri[250], swapped[250];
	struct far *f;

	REQUIRE(shm_node_spawn(32 * MIB, &a, &why) == 0);
	REQUIRE(shm_node_spawn(32 * MIB, &b, &why) == 0);
	snprintf(uri, sizeof(uri), "%s,%s", a.uri, b.uri + 4);
	snprintf(swapped, sizeof(swapped), "%s,%s", b.uri, a.uri + 4);
	REQUIRE(far_open(uri, NULL, &f) == 0);
	far_close(f);
	test_uri(swapped, -FAR_EINVAL, "is the pool's node 1: they stand in another order");
	shm_node_stop(&a);
	shm_node_stop(&b);
}

static void
test_open_more_or_fewer_nodes_than_the_pool_says_how_many(void)
{
	struct shm_child n[4];
	struct shm_why why;
	char uri[1000];
	struct far *f;

	for (int i = 0; i < 4; i++)
		REQUIRE(shm_node_spawn(32 * MIB, &n[i], &why) == 0);
	snprintf(uri, sizeof(uri), "%s,%s,%s", n[0].uri, n[1].uri + 4, n[2].uri + 4);
	REQUIRE(far_open(uri, NULL, &f) == 0);
	far_close(f);
	test_uri(n[0].uri, -FAR_EINVAL, "has 3 memory nodes, of which the URI names 1: nodes 1, 2 are missing");
	test_uri(n[2].uri, -FAR_EINVAL, "the URI names 1: nodes 0, 1 are missing");
	snprintf(uri, sizeof(uri), "%s,%s", n[0].uri, n[2].uri + 4);
	test_uri(uri, -FAR_EINVAL, "has 3 memory nodes, of which the URI names 2: node 1 is missing");
	snprintf(uri, sizeof(uri), "%s,%s,%s,%s", n[0].uri, n[1].uri + 4, n[2].uri + 4, n[3].uri + 4);
	test_uri(uri, -FAR_EINVAL, "has 3 memory nodes, but the URI names 4");
	/* A node of its own pool, and one of none. */
	snprintf(uri, sizeof(uri), "%s,%s,%s", n[0].uri, n[1].uri + 4, n[3].uri + 4);
	test_uri(uri, -FAR_ENODE, "is new or came back empty");
	REQUIRE(far_open(n[3].uri, NULL, &f) == 0);
	far_close(f);
	test_uri(uri, -FAR_EINVAL, "belongs to another pool than node 0");
	for (int i = 0; i < 4; i++)
		shm_node_stop(&n[i]);
}

/* Tables -------------------------------------------------------------------------------------------------- */

static void
test_tables_are_made_listed_and_dropped_by_name(void)
{
	struct far_table_info *list = NULL;
	struct far_table *t = NULL;
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_table_create(w.f, "t", NULL), -FAR_EEXIST);
	CHECK(strcmp(far_errmsg(w.f), "table 't': exists already") == 0);
	CHECK_EQ(far_table_open(w.f, "no", &t), -FAR_ENOENT);
	CHECK(strcmp(far_errmsg(w.f), "table 'no': not found") == 0);
	CHECK_EQ(far_table_drop(w.f, "no"), -FAR_ENOENT);
	CHECK_EQ(far_table_create(w.f, "u-1.x_Y", NULL), 0);
	CHECK_EQ(far_table_list(w.f, &list), 2);
	CHECK(strcmp(list[0].design, "race") == 0);
	free(list);
	CHECK_EQ(far_table_drop(w.f, "u-1.x_Y"), 0);
	CHECK_EQ(far_table_list(w.f, &list), 1);
	CHECK(strcmp(list[0].name, "t") == 0);
	free(list);
	test_close(&w);
}

static void
test_table_names_and_designs_are_checked(void)
{
	static const char *const names[] = { "", "a b", "a/b", "\xc3\xa9",
					     "0123456789012345678901234567890123456789012345678901234567890123" };
	struct far_table_opts opts = { .design = "nosuch" };
	struct far_table *t = NULL;
	struct world w;

	test_open(&w, 64 * MIB);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CHECK_EQ(far_table_create(w.f, names[i], NULL), -FAR_EINVAL);
		CHECK(strstr(far_errmsg(w.f), "a name has 1 to 63 characters") != NULL);
		CHECK_EQ(far_table_open(w.f, names[i], &t), -FAR_EINVAL);
		CHECK_EQ(far_table_drop(w.f, names[i]), -FAR_EINVAL);
	}
	CHECK_EQ(far_table_create(w.f, "d", &opts), -FAR_EINVAL);
	CHECK(strstr(far_errmsg(w.f), "design 'nosuch'") != NULL);
	test_close(&w);
}

static void
test_table_dropped_by_another_ends_operations(void)
{
	struct far_opts opts = { .lease_ns = 400 * 1000000ull };
	struct far *other;
	struct world w;
	int err = 0;

	test_open_opts(&w, 64 * MIB, &opts);
	REQUIRE(far_put(w.t, FAR_STR("k"), FAR_STR("v"), NULL) == 0);
	REQUIRE(far_open(w.node.uri, &opts, &other) == 0);
	CHECK_EQ(far_table_drop(other, "t"), 0);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), NULL), -FAR_ENOENT);
	CHECK(strcmp(far_errmsg(w.f), "table 't' was dropped") == 0);
	err = far_put(w.t, FAR_STR("k"), FAR_STR("v"), NULL);
	CHECK_EQ(err, -FAR_ENOENT);
	CHECK_EQ(far_table_create(w.f, "t", NULL), 0);
	far_close(other);
	test_close(&w);
}

/* Operations ---------------------------------------------------------------------------------------------- */

static void
test_put_insert_update_delete_follow_presence(void)
{
	struct far_value v;
	uint64_t v1 = 0, v2 = 0, v3 = 0;
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), &v), -FAR_ENOENT);
	CHECK_EQ(far_contains(w.t, FAR_STR("k")), -FAR_ENOENT);
	CHECK_EQ(far_update(w.t, FAR_STR("k"), FAR_STR("x"), NULL), -FAR_ENOENT);
	CHECK_EQ(far_delete(w.t, FAR_STR("k")), -FAR_ENOENT);
	CHECK_EQ(far_insert(w.t, FAR_STR("k"), FAR_STR("one"), &v1), 0);
	CHECK_EQ(far_insert(w.t, FAR_STR("k"), FAR_STR("x"), NULL), -FAR_EEXIST);
	CHECK_EQ(far_contains(w.t, FAR_STR("k")), 0);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), &v), 0);
	CHECK(test_equal(v.bytes, FAR_STR("one")));
	CHECK(v.version == v1 && v1 != 0);
	CHECK_EQ(far_update(w.t, FAR_STR("k"), FAR_STR("two"), &v2), 0);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), FAR_STR(""), &v3), 0);
	CHECK(v1 != v2 && v2 != v3 && v1 != v3);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), &v), 0);
	CHECK(v.bytes.len == 0 && v.version == v3);
	CHECK_EQ(far_delete(w.t, FAR_STR("k")), 0);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), NULL), -FAR_ENOENT);
	test_close(&w);
}

static void
test_conditional_change_needs_the_version(void)
{
	uint64_t v1 = 0, v2 = 0;
	struct far_value v;
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_update_if(w.t, FAR_STR("k"), FAR_STR("x"), 1, NULL), -FAR_ENOENT);
	CHECK_EQ(far_update_if(w.t, FAR_STR("k"), FAR_STR("x"), 0, NULL), -FAR_ENOENT);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), FAR_STR("a"), &v1), 0);
	CHECK_EQ(far_update_if(w.t, FAR_STR("k"), FAR_STR("b"), v1, &v2), 0);
	CHECK_EQ(far_update_if(w.t, FAR_STR("k"), FAR_STR("c"), v1, NULL), -FAR_ECHANGED);
	CHECK_EQ(far_update_if(w.t, FAR_STR("k"), FAR_STR("c"), 0, NULL), -FAR_ECHANGED);
	CHECK_EQ(far_delete_if(w.t, FAR_STR("k"), v1), -FAR_ECHANGED);
	CHECK_EQ(far_delete_if(w.t, FAR_STR("k"), 0), -FAR_ECHANGED);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), &v), 0);
	CHECK(test_equal(v.bytes, FAR_STR("b")));
	CHECK_EQ(far_delete_if(w.t, FAR_STR("k"), v2), 0);
	CHECK_EQ(far_delete_if(w.t, FAR_STR("k"), v2), -FAR_ENOENT);
	test_close(&w);
}

static void
test_lengths_at_and_beyond_their_limits(void)
{
	char *big = malloc(FAR_VALUE_MAX + 1), key[FAR_KEY_MAX + 1];
	struct far_value v;
	struct world w;

	REQUIRE(big != NULL);
	memset(big, 'v', FAR_VALUE_MAX + 1);
	memset(key, 'k', sizeof(key));
	test_open(&w, 256 * MIB);
	CHECK_EQ(far_put(w.t, far_bytes(key, FAR_KEY_MAX), far_bytes(big, FAR_VALUE_MAX), NULL), 0);
	CHECK_EQ(far_get(w.t, far_bytes(key, FAR_KEY_MAX), &v), 0);
	CHECK(test_equal(v.bytes, far_bytes(big, FAR_VALUE_MAX)));
	CHECK_EQ(far_put(w.t, far_bytes(key, sizeof(key)), FAR_STR("v"), NULL), -FAR_EKEYLEN);
	CHECK_EQ(far_get(w.t, far_bytes(key, sizeof(key)), NULL), -FAR_EKEYLEN);
	CHECK_EQ(far_delete(w.t, far_bytes(key, 0)), -FAR_EKEYLEN);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), far_bytes(big, FAR_VALUE_MAX + 1), NULL), -FAR_EVALLEN);
	CHECK_EQ(far_put(w.t, FAR_STR("\0"), FAR_STR("\0\xff"), NULL), 0);
	CHECK_EQ(far_get(w.t, FAR_STR("\0"), &v), 0);
	CHECK(test_equal(v.bytes, FAR_STR("\0\xff")));
	test_close(&w);
	free(big);
}

static void
test_errmsg_names_table_and_key(void)
{
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK(strcmp(far_errmsg(w.f), "") == 0);
	far_get(w.t, FAR_STR("dev:1\n\xff"), NULL);
	CHECK(strcmp(far_errmsg(w.f), "table 't': key 'dev:1\\x0a\\xff': not found") == 0);
	far_get(w.t, FAR_STR("0123456789012345678901234567890123456789012345678901234567890123456789"), NULL);
	CHECK(strstr(far_errmsg(w.f), "34567...'") != NULL);
	CHECK_EQ(far_put(w.t, FAR_STR("a"), FAR_STR("b"), NULL), 0);
	CHECK(strcmp(far_errmsg(w.f), "") == 0);
	test_close(&w);
}

static void
test_move_needs_a_node_that_exists(void)
{
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), FAR_STR("v"), NULL), 0);
	CHECK_EQ(far_move(w.t, FAR_STR("k"), 1), -FAR_EINVAL);
	CHECK_EQ(far_move(w.t, FAR_STR("no"), 0), -FAR_ENOENT);
	CHECK_EQ(far_move(w.t, FAR_STR("k"), 0), 0);
	CHECK_EQ(far_contains(w.t, FAR_STR("k")), 0);
	test_close(&w);
}

static void
test_counts_of_a_get_are_exact(void)
{
	struct far_count before, after, background;
	struct far_value v;
	struct world w;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_put(w.t, FAR_STR("0123456789abcdef"), FAR_STR("01234567"), NULL), 0);
	CHECK_EQ(far_get(w.t, FAR_STR("0123456789abcdef"), &v), 0);
	far_counts(w.f, &before, &background);
	CHECK(background.round_trips > 0);
	CHECK_EQ(far_get(w.t, FAR_STR("0123456789abcdef"), &v), 0);
	far_counts(w.f, &after, NULL);
	far_count_sub(&after, &before);
	CHECK_EQ(after.round_trips, 2);
	CHECK_EQ(after.verbs[FAR_OP_WRITE] + after.verbs[FAR_OP_CAS] + after.verbs[FAR_OP_FAA], 0);
	test_close(&w);
}

/* Batches ------------------------------------------------------------------------------------------------- */

static void
test_batch_of_every_kind_gives_each_its_result(void)
{
	struct far_request r[] = {
		{ .kind = FAR_GET, .key = FAR_STR("a") },
		{ .kind = FAR_GET, .key = FAR_STR("no") },
		{ .kind = FAR_CONTAINS, .key = FAR_STR("b") },
		{ .kind = FAR_PUT, .key = FAR_STR("c"), .value = FAR_STR("new") },
		{ .kind = FAR_INSERT, .key = FAR_STR("d"), .value = FAR_STR("x") },
		{ .kind = FAR_UPDATE, .key = FAR_STR("no2"), .value = FAR_STR("x") },
		{ .kind = FAR_UPDATE_IF, .key = FAR_STR("e"), .value = FAR_STR("x"), .version = 1 },
		{ .kind = FAR_DELETE, .key = FAR_STR("f") },
		{ .kind = FAR_DELETE_IF, .key = FAR_STR("g"), .version = 1 },
		{ .kind = FAR_PUT, .key = FAR_STR(""), .value = FAR_STR("x") },
	};
	static const char *const keys[] = { "a", "b", "d", "e", "f", "g" };
	uint64_t version = 0;
	struct world w;

	test_open(&w, 64 * MIB);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		REQUIRE(far_put(w.t, far_str(keys[i]), far_str(keys[i]), &version) == 0);
	r[8].version = version;
	CHECK_EQ(far_batch(w.t, r, sizeof(r) / sizeof(r[0])), 0);
	CHECK_EQ(r[0].result, 0);
	CHECK(test_equal(r[0].value, FAR_STR("a")));
	CHECK_EQ(r[1].result, -FAR_ENOENT);
	CHECK_EQ(r[2].result, 0);
	CHECK(r[2].version != 0);
	CHECK_EQ(r[3].result, 0);
	CHECK(r[3].version != 0);
	CHECK_EQ(r[4].result, -FAR_EEXIST);
	CHECK_EQ(r[5].result, -FAR_ENOENT);
	CHECK_EQ(r[6].result, -FAR_ECHANGED);
	CHECK_EQ(r[7].result, 0);
	CHECK_EQ(r[8].result, 0);
	CHECK_EQ(r[9].result, -FAR_EKEYLEN);
	CHECK_EQ(far_batch(w.t, r, 0), 0);
	test_close(&w);
}

enum { MANY = 20000 };

static void
test_batch_of_many_comes_back_whole(void)
{
	static struct far_request r[MANY];
	static char keys[MANY][16];
	struct world w;
	unsigned wrong = 0;

	test_open(&w, 128 * MIB);
	for (unsigned i = 0; i < MANY; i++) {
		struct far_bytes key = test_key(keys[i], i);

		r[i] = (struct far_request){ .kind = FAR_INSERT, .key = key, .value = key };
	}
	CHECK_EQ(far_batch(w.t, r, MANY), 0);
	for (unsigned i = 0; i < MANY; i++) {
		wrong += r[i].result != 0;
		r[i] = (struct far_request){ .kind = FAR_GET, .key = r[i].key };
	}
	CHECK_EQ(far_batch(w.t, r, MANY), 0);
	for (unsigned i = 0; i < MANY; i++)
		wrong += r[i].result != 0 || !test_equal(r[i].value, r[i].key);
	CHECK_EQ(wrong, 0);
	test_close(&w);
}

/* Iteration ----------------------------------------------------------------------------------------------- */

static void
test_iteration_of_an_empty_table_ends(void)
{
	struct far_bytes key;
	struct far_value v;
	struct far_iter *it;
	struct world w;

	test_open(&w, 64 * MIB);
	REQUIRE(far_iter_open(w.t, &it) == 0);
	CHECK_EQ(far_iter_next(it, &key, &v), 0);
	CHECK_EQ(far_iter_next(it, &key, &v), 0);
	CHECK(far_iter_progress(it) == 1);
	far_iter_close(it);
	test_close(&w);
}

/* Keys 0 to 1999 stay, the odd ones of 2000 to 3999 are deleted on the way, new ones force splits. */
static void
test_iteration_under_changes_meets_what_stays_exactly_once(void)
{
	static unsigned char seen[40000];
	struct far_bytes key;
	struct far_value v;
	struct far_iter *it;
	struct world w;
	unsigned added = 4000, steps = 0, wrong = 0;
	double before = 0;
	char buf[16];
	int got;

	test_open(&w, 128 * MIB);
	memset(seen, 0, sizeof(seen));
	for (unsigned i = 0; i < 4000; i++)
		REQUIRE(far_put(w.t, test_key(buf, i), test_key(buf, i), NULL) == 0);
	REQUIRE(far_iter_open(w.t, &it) == 0);
	while ((got = far_iter_next(it, &key, &v)) == 1) {
		unsigned i = test_number(key);

		wrong += !test_equal(key, v.bytes) || i >= sizeof(seen);
		if (i < sizeof(seen))
			seen[i]++;
		wrong += far_iter_progress(it) < before || far_iter_progress(it) > 1;
		before = far_iter_progress(it);
		if (steps < 2000)
			far_delete(w.t, test_key(buf, 2000 + (steps | 1)));
		for (unsigned k = 0; k < 5 && added < sizeof(seen); k++, added++)
			REQUIRE(far_put(w.t, test_key(buf, added), test_key(buf, added), NULL) == 0);
		steps++;
	}
	CHECK_EQ(got, 0);
	for (unsigned i = 0; i < sizeof(seen); i++)
		wrong += seen[i] > 1 || (seen[i] == 0 && (i < 2000 || (i < 4000 && i % 2 == 0)));
	CHECK_EQ(wrong, 0);
	far_iter_close(it);
	test_close(&w);
}

static void
test_iteration_fetches_long_values_and_skips_deleted_ones(void)
{
	size_t len = 300000;
	char *big = malloc(len), buf[16];
	unsigned got_n = 0, wrong = 0;
	struct far_bytes key;
	struct far_value v;
	struct far_iter *it;
	struct world w;

	REQUIRE(big != NULL);
	test_open(&w, 128 * MIB);
	for (unsigned i = 0; i < 40; i++) {
		memset(big, (int)i, len);
		REQUIRE(far_put(w.t, test_key(buf, i), far_bytes(big, len), NULL) == 0);
	}
	REQUIRE(far_iter_open(w.t, &it) == 0);
	CHECK_EQ(far_iter_next(it, &key, &v), 1);
	for (unsigned i = 1; i < 40; i += 2)
		far_delete(w.t, test_key(buf, i));
	while (far_iter_next(it, &key, &v) == 1) {
		unsigned i = test_number(key);

		wrong += i % 2 || v.bytes.len != len || ((const char *)v.bytes.data)[len - 1] != (char)i;
		got_n++;
	}
	CHECK_EQ(wrong, 0);
	CHECK(got_n == 19 || got_n == 20);
	far_iter_close(it);
	test_close(&w);
	free(big);
}

/* Life ---------------------------------------------------------------------------------------------------- */

static void
test_idle_handle_keeps_its_lease(void)
{
	struct far_opts opts = { .lease_ns = 200 * 1000000ull };
	struct far *other;
	struct world w;

	test_open_opts(&w, 64 * MIB, &opts);
	REQUIRE(far_open(w.node.uri, &opts, &other) == 0);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), FAR_STR("v"), NULL), 0);
	poll(NULL, 0, 1200);
	CHECK_EQ(far_get(w.t, FAR_STR("k"), NULL), 0);
	CHECK_EQ(far_table_create(other, "u", NULL), 0);
	far_close(other);
	test_close(&w);
}

static void *
test_thread(void *arg)
{
	const struct world *w = arg;
	struct far_table *t;
	struct far *f;
	char buf[16];

	if (far_open(w->node.uri, NULL, &f) != 0)
		return (void *)1;
	if (far_table_open(f, "t", &t) != 0)
		return (void *)2;
	for (unsigned i = 0; i < 5000; i++) {
		int err = far_put(t, test_key(buf, i), FAR_STR("v"), NULL);

		if (err)
			return (void *)3;
	}
	far_table_close(t);
	far_close(f);
	return NULL;
}

static void
test_threads_with_a_handle_each_share_a_table(void)
{
	pthread_t threads[3];
	struct world w;
	char buf[16];

	test_open(&w, 128 * MIB);
	for (int i = 0; i < 3; i++)
		REQUIRE(pthread_create(&threads[i], NULL, test_thread, &w) == 0);
	for (int i = 0; i < 3; i++) {
		void *result;

		pthread_join(threads[i], &result);
		CHECK(result == NULL);
	}
	for (unsigned i = 0; i < 5000; i++)
		CHECK_EQ(far_contains(w.t, test_key(buf, i)), 0);
	test_close(&w);
}

static void
test_full_node_loses_nothing_and_recovers(void)
{
	struct far_opts opts = { .lease_ns = 400 * 1000000ull };
	size_t len = 60000;
	char *big = calloc(1, len), buf[16];
	unsigned n = 0, lost = 0;
	struct world w;
	int err;

	REQUIRE(big != NULL);
	test_open_opts(&w, 16 * MIB, &opts);
	while ((err = far_insert(w.t, test_key(buf, n), far_bytes(big, len), NULL)) == 0 && n < 1000)
		n++;
	CHECK_EQ(err, -FAR_ENOMEM);
	CHECK(strstr(far_errmsg(w.f), "out of memory") != NULL);
	CHECK(n > 20);
	for (unsigned i = 0; i < n; i++)
		lost += far_contains(w.t, test_key(buf, i)) != 0;
	CHECK_EQ(lost, 0);
	for (unsigned i = 0; i < n; i += 2)
		CHECK_EQ(far_delete(w.t, test_key(buf, i)), 0);
	for (unsigned i = 0; i < n / 4; i++)
		CHECK_EQ(far_insert(w.t, test_key(buf, 5000 + i), far_bytes(big, len), NULL), 0);
	CHECK_EQ(far_table_check(w.t, NULL, NULL), 0);
	test_close(&w);
	free(big);
}

/* On shared memory the region outlives its node: what needs the node fails, and nothing hangs. */
static void
test_node_killed_ends_operations_with_an_error(void)
{
	struct far_request r = { .kind = FAR_GET, .key = FAR_STR("k") };
	struct far_table *t = NULL;
	struct far_node_info info;
	struct world w;
	char buf[16];
	int err = 0;

	test_open(&w, 64 * MIB);
	CHECK_EQ(far_put(w.t, FAR_STR("k"), FAR_STR("v"), NULL), 0);
	REQUIRE(kill(w.node.pid, SIGKILL) == 0);
	for (unsigned i = 0; i < 1000000 && !err; i++)
		err = far_put(w.t, test_key(buf, i), FAR_STR("v"), NULL);
	CHECK(err == -FAR_ENODE || err == -FAR_EUNSURE);
	CHECK(strlen(far_errmsg(w.f)) > 0);
	CHECK_EQ(far_table_create(w.f, "u", NULL), -FAR_ENODE);
	CHECK(strstr(far_errmsg(w.f), "a memory node is gone") != NULL);
	CHECK_EQ(far_table_open(w.f, "t", &t), -FAR_ENODE);
	/* A put of which nobody knows what became of it ends the session. */
	err = far_batch(w.t, &r, 1);
	CHECK(err == -FAR_ENODE || err == -FAR_EFENCED);
	CHECK_EQ(r.result, err);
	CHECK_EQ(far_nodes(w.f, &info, 1), -FAR_ENODE);
	test_close(&w);
}

static void
test_stat_adds_up_to_what_was_granted(void)
{
	struct far_table_stat s;
	struct far_node_info info[1];
	struct world w;
	char buf[16];

	test_open(&w, 128 * MIB);
	for (unsigned i = 0; i < 3000; i++)
		REQUIRE(far_put(w.t, test_key(buf, i), FAR_STR("v"), NULL) == 0);
	CHECK_EQ(far_table_stat(w.t, &s), 0);
	CHECK_EQ(s.keys, 3000);
	CHECK(s.slots >= 3000 && s.splits >= 1);
	CHECK_EQ(s.index_bytes + s.block_bytes + s.free_index_bytes + s.free_block_bytes + s.header_bytes,
		 s.granted_index_bytes + s.granted_block_bytes);
	CHECK_EQ(far_nodes(w.f, info, 1), 1);
	CHECK_EQ(info[0].granted_bytes, s.granted_index_bytes + s.granted_block_bytes);
	/* What the handle that made the table left; then nothing is left. */
	CHECK(far_table_repair(w.t) >= 0);
	CHECK_EQ(far_table_repair(w.t), 0);
	test_close(&w);
}

static void
test_close_with_open_tables_and_null_is_fine(void)
{
	struct world w;

	test_open(&w, 64 * MIB);
	far_close(w.f);
	shm_node_stop(&w.node);
	far_close(NULL);
	far_table_close(NULL);
	far_iter_close(NULL);
}

TEST_MAIN(
	TEST(test_open_wrong_uri_says_what_is_expected),
	TEST(test_open_missing_node_names_it),
	TEST(test_open_one_node_twice_is_refused_and_harms_nothing),
	TEST(test_open_wrong_order_is_refused),
	TEST(test_open_more_or_fewer_nodes_than_the_pool_says_how_many),
	TEST(test_tables_are_made_listed_and_dropped_by_name),
	TEST(test_table_names_and_designs_are_checked),
	TEST(test_table_dropped_by_another_ends_operations),
	TEST(test_put_insert_update_delete_follow_presence),
	TEST(test_conditional_change_needs_the_version),
	TEST(test_lengths_at_and_beyond_their_limits),
	TEST(test_errmsg_names_table_and_key),
	TEST(test_move_needs_a_node_that_exists),
	TEST(test_counts_of_a_get_are_exact),
	TEST(test_batch_of_every_kind_gives_each_its_result),
	TEST(test_batch_of_many_comes_back_whole),
	TEST(test_iteration_of_an_empty_table_ends),
	TEST(test_iteration_under_changes_meets_what_stays_exactly_once),
	TEST(test_iteration_fetches_long_values_and_skips_deleted_ones),
	TEST(test_idle_handle_keeps_its_lease),
	TEST(test_threads_with_a_handle_each_share_a_table),
	TEST(test_full_node_loses_nothing_and_recovers),
	TEST(test_node_killed_ends_operations_with_an_error),
	TEST(test_stat_adds_up_to_what_was_granted),
	TEST(test_close_with_open_tables_and_null_is_fine))
