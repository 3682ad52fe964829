/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_uri_test.c -- addresses of memory nodes on other machines. */
#include "fabric/tcp_uri.h"

#include <farside/error.h>

#include "test.h"

static int
parse(const char *spec, bool rdma, struct tcp_uri *out)
{
	char why[200] = "";
	int err = tcp_uri_parse(spec, rdma, out, why, sizeof(why));

	/* A refusal says why. */
	CHECK((err != 0) == (why[0] != '\0'));
	return err;
}

static void
test_uri_of_several_nodes_gives_their_places_in_order(void)
{
	struct tcp_uri u;

	CHECK_EQ(parse("//alpha:7,10.0.0.1:65535,[fe80::1]:080", false, &u), 0);
	CHECK_EQ(u.nodes_n, 3);
	CHECK(strcmp(u.nodes[0].host, "alpha") == 0 && strcmp(u.nodes[0].port, "7") == 0);
	CHECK(strcmp(u.nodes[1].host, "10.0.0.1") == 0 && strcmp(u.nodes[1].port, "65535") == 0);
	CHECK(strcmp(u.nodes[2].host, "fe80::1") == 0 && strcmp(u.nodes[2].port, "80") == 0);
	CHECK(u.key[0] == '\0' && u.device[0] == '\0' && u.gid == -1 && !u.no_windows);
}

static void
test_uri_options_of_rdma_are_known_to_verbs_alone(void)
{
	static const char spec[] = "//a:1?device=mlx5_0&gid=3&windows=no&key=/k";
	struct tcp_uri u;

	CHECK_EQ(parse(spec, true, &u), 0);
	CHECK(strcmp(u.device, "mlx5_0") == 0 && strcmp(u.key, "/k") == 0 && u.gid == 3 && u.no_windows);
	CHECK_EQ(parse("//a:1?device=mlx5_0", false, &u), -FAR_EINVAL);
	/* To tcp: all of it is the name of a file. */
	CHECK_EQ(parse("//a:1?key=/k&gid=3", false, &u), 0);
	CHECK(strcmp(u.key, "/k&gid=3") == 0);
}

static void
test_uri_that_is_wrong_is_refused(void)
{
	static const char *const wrong[] = {
		"",
		"/",
		"//",
		"//a",
		"//a:",
		"//:1",
		"//a:65536",
		"//a:x",
		"//a:1,",
		"//[::1:1",
		"//a:1?",
		"//a:1?key=",
		"//a:1?nonsense",
		"//a:1?device=",
		"//a:1?gid=",
		"//a:1?gid=256",
		"//a:1?gid=x",
		"//a:1?windows=yes",
		"//a:1?gid=1&",
		"//a:1?&gid=1",
		"//a:1?device=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	};
	struct tcp_uri u;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_EQ(parse(wrong[i], true, &u), -FAR_EINVAL);
		if (test_failures)
			printf("# ... %s\n", wrong[i]);
	}
}

static void
test_uri_that_repeats_its_scheme_is_told_so(void)
{
	char why[200] = "";
	struct tcp_uri u;

	CHECK_EQ(tcp_uri_parse("//a:1,tcp://b:1", false, &u, why, sizeof(why)), -FAR_EINVAL);
	CHECK(strcmp(why, "memory node 1: the scheme stands once, before the first node") == 0);
}

TEST_MAIN(TEST(test_uri_of_several_nodes_gives_their_places_in_order),
	  TEST(test_uri_options_of_rdma_are_known_to_verbs_alone), TEST(test_uri_that_is_wrong_is_refused),
	  TEST(test_uri_that_repeats_its_scheme_is_told_so))
