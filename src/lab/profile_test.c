/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and finding profiles, and that those that are installed make sense. */
#include "lab/profile.h"

#include <unistd.h>

#include <farside/error.h>

#include "lab/verbs.h"
#include "test.h"

static char message[512];

static int
parse(const char *text, struct nic_profile *p)
{
	message[0] = '\0';
	return profile_parse(text, "here", p, message, sizeof(message));
}

static void
test_profile_text_gives_units_of_the_model(void)
{
	struct nic_profile p;

	REQUIRE(parse("# a comment\n\n rtt_ns = 1420.5 # another\r\ncredits=8\nthreads = 96\n"
		      "node_out_gbit = 100\npage_bytes = 2m\nbatch = 1\nsend_cache = 1k",
		      &p) == 0);
	CHECK_EQ(p.rtt, 1420500);
	CHECK_EQ(p.node_out, 81920); /* 12.5 GB/s */
	CHECK_EQ(p.page_len, 2 << 20);
	CHECK_EQ(p.send_cache, 1024);
	CHECK(p.batch && !p.loads);
	CHECK_EQ(p.client_out, 0);
	/* 0 is no limit. */
	REQUIRE(parse("rtt_ns=1\ncredits=1\nthreads=1\nnode_in_gbit=0\nbatch=0\n", &p) == 0);
	CHECK_EQ(p.node_in, 0);
	CHECK(!p.batch);
}

static void
test_profile_text_that_is_wrong_is_refused_with_its_line(void)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "rtt_ns = 1\nspeed = 3\n", "line 2 has a key" },
		{ "rtt_ns\n", "line 1 is not of the form" },
		{ "rtt_ns = 1\nrtt_ns = 2\n", "line 2 sets its key a second time" },
		{ "rtt_ns = -1\n", "line 1 has no value" },
		{ "rtt_ns = 1us\n", "line 1 has no value" },
		{ "rtt_ns = nan\n", "line 1 has no value" },
		{ "rtt_ns = 1e30\n", "line 1 has no value" },
		{ "rtt_ns =\n", "line 1 has no value" },
		{ "credits = 1.5\n", "line 1 has no value" },
		{ "batch = 2\n", "line 1 has no value" },
		{ "batch = 0.5\n", "line 1 has no value" },
		{ "node_out_gbit = 1e-30\n", "line 1 has no value" },
		{ "credits = 8t\n", "line 1 has no value" },
		{ "credits = 8k8\n", "line 1 has no value" },
		{ "rtt_ns = inf\n", "line 1 has no value" },
		{ "rtt_ns = 1\nthreads = 1\n", "must not be 0" },
		{ "rtt_ns = 1\ncredits = 1\n", "must not be 0" },
		{ "credits = 8\nthreads = 1\n", "must not be 0" },
		{ "", "must not be 0" },
	};
	char wide[400];
	struct nic_profile p = { .rtt = 7 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		CHECK_EQ(parse(cases[i].text, &p), -FAR_EINVAL);
		if (!strstr(message, cases[i].says))
			printf("# case %zu: %s\n", i, message);
		CHECK(strstr(message, cases[i].says) && strstr(message, "here"));
	}
	memset(wide, ' ', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	CHECK_EQ(parse(wide, &p), -FAR_EINVAL);
	CHECK(strstr(message, "too long"));
	CHECK_EQ(p.rtt, 7);
}

static void
test_unknown_profile_tells_which_there_are(void)
{
	struct nic_profile p;

	CHECK_EQ(profile_load("cx9-800", &p, message, sizeof(message)), -FAR_ENOENT);
	CHECK(strstr(message, "'cx9-800'") && strstr(message, "cx4-100, cx5-100, cx6-200, cxl, tcp"));
	CHECK_EQ(profile_load("/nowhere/x.ini", &p, message, sizeof(message)), -FAR_ENOENT);
}

static void
profile_file(const char *path, const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	REQUIRE(f && fwrite(text, 1, len, f) == len && fclose(f) == 0);
}

/* Files that are none, and a folder of one's own. */
static void
test_profile_files_that_are_none_are_refused(void)
{
	static const char good[] = "rtt_ns=1\ncredits=1\nthreads=1\n";
	static char large[65 << 10], far_away[5000];
	char dir[] = "/tmp/farside-profile-XXXXXX", path[64], deep[80], *was = strdup(getenv("FARSIDE_PROFILES"));
	struct nic_profile p = { .rtt = 7 };

	REQUIRE(was && mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/mine.ini", dir);
	profile_file(path, "rtt_ns = 1\0", 11);
	CHECK_EQ(profile_load(path, &p, message, sizeof(message)), -FAR_EINVAL);
	memset(large, '\n', sizeof(large));
	profile_file(path, large, sizeof(large));
	CHECK_EQ(profile_load(path, &p, message, sizeof(message)), -FAR_EINVAL);
	CHECK(strstr(message, "cannot be read"));
	CHECK_EQ(profile_load("/tmp/", &p, message, sizeof(message)), -FAR_EIO);
	profile_file(path, good, sizeof(good) - 1);
	snprintf(deep, sizeof(deep), "%s/deeper", path);
	CHECK_EQ(profile_load(deep, &p, message, sizeof(message)), -FAR_EIO);
	CHECK_EQ(p.rtt, 7);
	setenv("FARSIDE_PROFILES", dir, 1);
	CHECK_EQ(profile_load("mine", &p, message, sizeof(message)), 0);
	CHECK(p.rtt == 1000 && strcmp(p.name, "mine") == 0);
	CHECK_EQ(profile_load("other", &p, message, sizeof(message)), -FAR_ENOENT);
	CHECK(strstr(message, "mine"));
	memset(far_away, 'x', sizeof(far_away) - 1);
	setenv("FARSIDE_PROFILES", far_away, 1);
	CHECK_EQ(profile_load("mine", &p, message, sizeof(message)), -FAR_ENOENT);
	unsetenv("FARSIDE_PROFILES");
	CHECK_EQ(profile_load("mine", &p, message, sizeof(message)), -FAR_ENOENT);
	setenv("FARSIDE_PROFILES", was, 1);
	free(was);
	unlink(path);
	rmdir(dir);
}

static void
test_profiles_of_the_project_run(void)
{
	static const char *const names[] = { "cx4-100", "cx5-100", "cx6-200", "cxl", "tcp" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct verbs_load read = { .len = 64, .machines = 1, .threads = 2, .depth = 4 };
		struct verbs_result a, b;
		struct nic_profile p;

		REQUIRE(profile_load(names[i], &p, message, sizeof(message)) == 0);
		CHECK(strcmp(p.name, names[i]) == 0);
		REQUIRE(verbs_run(&p, &read, &a) == 0 && verbs_run(&p, &read, &b) == 0);
		CHECK(a.rate > 0 && a.mean_ns > 0);
		/* One seed, one run. */
		CHECK(a.hash == b.hash && a.rate == b.rate);
	}
}

TEST_MAIN(TEST(test_profile_text_gives_units_of_the_model),
	  TEST(test_profile_text_that_is_wrong_is_refused_with_its_line),
	  TEST(test_unknown_profile_tells_which_there_are), TEST(test_profile_files_that_are_none_are_refused),
	  TEST(test_profiles_of_the_project_run))
