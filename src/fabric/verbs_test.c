/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_test.c -- RDMA where there is none. What needs a device is in test/rdma/. */
#include "fabric/verbs.h"

#include <dirent.h>

#include "fabric/shm_node.h"
#include "test.h"

static bool
has_device(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	bool found = false;

	for (struct dirent *e; dir && !found && (e = readdir(dir)) != NULL;)
		found = e->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

static void
test_node_without_a_device_says_what_is_missing(void)
{
	struct shm_node_opts opts = { .size = 1 << 20, .listen = "verbs://127.0.0.1:0" };
	struct shm_why why = { "" };
	struct shm_node *n = NULL;

	if (has_device())
		SKIP("there is a device");
	CHECK_EQ(shm_node_open(&opts, &n, &why), -FAR_ENOTSUP);
	CHECK(n == NULL);
	CHECK(strstr(why.text, "RDMA device") || strstr(why.text, "libibverbs") || strstr(why.text, "without RDMA"));
}

static void
test_node_does_not_serve_memory_to_processors_and_a_device(void)
{
	struct shm_node_opts opts = { .size = 1 << 20, .path = "/tmp/both", .listen = "verbs://127.0.0.1:0" };
	struct shm_why why = { "" };
	struct shm_node *n = NULL;

	CHECK_EQ(shm_node_open(&opts, &n, &why), -FAR_EINVAL);
	CHECK(strstr(why.text, "not both") != NULL);
}

static void
test_client_of_nobody_gets_an_error(void)
{
	static const char *const wrong[] = { "verbs:", "verbs://", "verbs://127.0.0.1", "verbs://127.0.0.1:1?nonsense" };
	struct far_loop_opts lo = { .seed = 1 };
	struct far_fabric *f = NULL;
	struct far_loop *l;
	int err;

	REQUIRE(far_loop_open(&lo, &l) == 0);
	err = far_fabric_open("verbs://127.0.0.1:1", l, NULL, &f);
	CHECK(err == -FAR_ENODE || err == -FAR_ENOTSUP);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		err = far_fabric_open(wrong[i], l, NULL, &f);
		CHECK(err == -FAR_EINVAL || err == -FAR_ENOTSUP);
	}
	CHECK(f == NULL);
	far_loop_close(l);
}

TEST_MAIN(TEST(test_node_without_a_device_says_what_is_missing),
	  TEST(test_node_does_not_serve_memory_to_processors_and_a_device), TEST(test_client_of_nobody_gets_an_error))
