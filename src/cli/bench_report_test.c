/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench_report.h"

#include <unistd.h>

#include "test.h"

static struct bench_result *bench_r;
static struct bench_opts bench_o;
static struct bench_about bench_a = { .pool = "embedded", .threads = 2, .clients = 1, .opts = &bench_o };
static const struct cli_common bench_c = { .command = "bench" };

/* Four gets of 10, 20, 30 and 40 us, 3 round trips and 2 READs each, and one update. */
static void
bench_example(void)
{
	struct bench_account *get, *update;

	if (!bench_r)
		REQUIRE((bench_r = malloc(sizeof(*bench_r))) != NULL);
	memset(bench_r, 0, sizeof(*bench_r));
	REQUIRE(workload_find("A", &bench_o.spec) == 0);
	bench_o.spec.keys = 1000;
	bench_o.depth = 8;
	get = &bench_r->kinds[BENCH_GET_HIT];
	update = &bench_r->kinds[BENCH_UPDATE];
	for (int i = 1; i <= 4; i++)
		hist_add(&get->time, (uint64_t)i * 10000);
	get->spent.round_trips = 12;
	get->spent.verbs[FAR_OP_READ] = 8;
	get->spent.bytes_in = 3001;
	hist_add(&update->time, 77);
	update->spent.verbs[FAR_OP_CAS] = 1;
	bench_r->ops = 5;
	bench_r->run_ns = 500000000;
	bench_r->table.keys = 750;
	bench_r->table.slots = 1000;
	strcpy(bench_r->table.design, "race");
	bench_r->background.bytes_in = 5;
	bench_r->background.bytes_out = 6;
}

static double
bench_number(const json_t *j, const char *a, const char *b, const char *c)
{
	const json_t *at = json_object_get(j, a);

	at = b ? json_object_get(at, b) : at;
	at = c ? json_object_get(at, c) : at;
	REQUIRE(json_is_number(at));
	return json_number_value(at);
}

static void
test_report_json_has_every_member(void)
{
	static const char *const members[] = { "n",           "p50_ns",      "p99_ns",    "p999_ns",
					       "max_ns",      "round_trips", "reads",     "writes",
					       "cas",         "faa",         "bytes_out", "bytes_in",
					       "payload_out", "payload_in",  "retries",   "split_waits",
					       "false_hits" };
	static const char *const kinds[] = { "get_hit", "get_miss", "insert", "update", "delete", "rmw" };
	json_t *j;

	bench_example();
	REQUIRE((j = bench_report_json(&bench_a, bench_r)) != NULL);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (size_t m = 0; m < sizeof(members) / sizeof(*members); m++)
			bench_number(j, "operations", kinds[k], members[m]);
	CHECK(strcmp(json_string_value(json_object_get(j, "design")), "race") == 0);
	CHECK(strcmp(json_string_value(json_object_get(j, "pool")), "embedded") == 0);
	CHECK(strcmp(json_string_value(json_object_get(j, "workload")), "A") == 0);
	CHECK(strcmp(json_string_value(json_object_get(j, "distribution")), "scrambled") == 0);
	CHECK(bench_number(j, "keys", NULL, NULL) == 1000 && bench_number(j, "ops", NULL, NULL) == 5);
	CHECK(bench_number(j, "threads", NULL, NULL) == 2 && bench_number(j, "ops_per_s", NULL, NULL) == 10);
	CHECK(bench_number(j, "table", "keys", NULL) == 750 && bench_number(j, "table", "load_factor", NULL) == 0.75);
	CHECK(bench_number(j, "table", "index_bytes", NULL) == 0 && bench_number(j, "table", "splits", NULL) == 0);
	CHECK(bench_number(j, "table", "block_bytes", NULL) == 0);
	CHECK(bench_number(j, "cache", "hits", NULL) == 0 && bench_number(j, "cache", "misses", NULL) == 0);
	CHECK(bench_number(j, "background", "round_trips", NULL) == 0);
	CHECK(bench_number(j, "background", "bytes", NULL) == 11);
	json_decref(j);
}

static void
test_report_json_means_are_per_operation(void)
{
	json_t *j;

	bench_example();
	REQUIRE((j = bench_report_json(&bench_a, bench_r)) != NULL);
	CHECK(json_is_integer(json_object_get(json_object_get(json_object_get(j, "operations"), "get_hit"), "reads")));
	CHECK(bench_number(j, "operations", "get_hit", "round_trips") == 3);
	CHECK(bench_number(j, "operations", "get_hit", "reads") == 2);
	CHECK(bench_number(j, "operations", "get_hit", "bytes_in") == 750.25);
	CHECK(bench_number(j, "operations", "get_hit", "n") == 4);
	CHECK(bench_number(j, "operations", "get_hit", "max_ns") == 40000);
	CHECK(bench_number(j, "operations", "get_hit", "p50_ns") >= 20000);
	CHECK(bench_number(j, "operations", "get_hit", "p50_ns") <= 20000 * 65.0 / 64);
	CHECK(bench_number(j, "operations", "update", "cas") == 1);
	CHECK(bench_number(j, "operations", "delete", "round_trips") == 0);
	json_decref(j);
}

static void
test_report_plot_writes_svg(void)
{
	char path[] = "/tmp/farside-plot-XXXXXX", head[4096] = "";
	int fd = mkstemp(path), code;

	if (access("/usr/bin/gnuplot", X_OK) != 0)
		SKIP("gnuplot is not installed");
	REQUIRE(fd >= 0);
	bench_example();
	code = bench_report_plot(&bench_c, &bench_a, bench_r, path);
	CHECK_EQ(code, CLI_OK);
	CHECK(read(fd, head, sizeof(head) - 1) > 0);
	CHECK(strstr(head, "<svg") != NULL);
	close(fd);
	unlink(path);
}

static void
test_report_plot_without_gnuplot_or_folder_fails(void)
{
	char *path = strdup(getenv("PATH"));

	bench_example();
	CHECK_EQ(bench_report_plot(&bench_c, &bench_a, bench_r, "/nonexistent/a.svg"), CLI_FAIL);
	setenv("PATH", "/nonexistent", 1);
	CHECK_EQ(bench_report_plot(&bench_c, &bench_a, bench_r, "/tmp/never-written.svg"), CLI_FAIL);
	setenv("PATH", path, 1);
	free(path);
	bench_r->ops = 0;
	CHECK_EQ(bench_report_plot(&bench_c, &bench_a, bench_r, "/tmp/never-written.svg"), CLI_FAIL);
	CHECK(access("/tmp/never-written.svg", F_OK) != 0);
	bench_report_text(&bench_a, bench_r);
}

TEST_MAIN(TEST(test_report_json_has_every_member), TEST(test_report_json_means_are_per_operation),
	  TEST(test_report_plot_writes_svg), TEST(test_report_plot_without_gnuplot_or_folder_fails))
