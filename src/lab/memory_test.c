/* SPDX-License-Identifier: Apache-2.0 */
/* memory_test.c -- memory that runs out while histories and profiles are read. */
#include "memory.h"

#include <farside/error.h>

#include "base/base.h"
#include "lab/history.h"
#include "lab/profile.h"

static char hungry_text[] = "farside-history 1\n1 call 1.1 upsert 5 -\n2 return 1.1 ok 1f -\n3 call 1.2 get 5 -\n";

static int
hungry_history(void *arg)
{
	FILE *in = fmemopen(hungry_text, strlen(hungry_text), "r"), *out = fopen("/dev/null", "w");
	struct history h = { .n = 0 };
	int err;

	(void)arg;
	REQUIRE(in && out);
	err = history_read(&h, in, NULL);
	if (!err)
		err = history_print(&h, out);
	history_free(&h);
	fclose(in);
	fclose(out);
	return err;
}

static void
test_history_out_of_memory_is_said(void)
{
	CHECK(memory_sweep(hungry_history, NULL, -FAR_ENOMEM) >= 2);
}

static void
test_profile_out_of_memory_is_said(void)
{
	struct nic_profile p;
	char message[256] = "";

	memory_fail_at = 1;
	CHECK_EQ(profile_load("cx4-100", &p, message, sizeof(message)), -FAR_ENOMEM);
	CHECK(strstr(message, "'cx4-100' cannot be read"));
	CHECK_EQ(profile_load("cx4-100", &p, message, sizeof(message)), 0);
	/* A name of the list is left out. */
	memory_fail_at = 2;
	CHECK_EQ(profile_load("none", &p, message, sizeof(message)), -FAR_ENOENT);
	CHECK(strstr(message, "cx6-200"));
}

TEST_MAIN(TEST(test_history_out_of_memory_is_said), TEST(test_profile_out_of_memory_is_said))
