/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "fabric/hook.h"
#include "fabric/shm.h"
#include "test.h"

enum { REGION = 4096 };

struct world {
	struct far_loop *loop;
	struct far_fabric *f;
	struct shm_memory node;
	uint64_t words[REGION / 8];
	int errs[64];
};

static int
world_call(void *arg, const void *req, size_t len, void *reply, size_t max)
{
	memcpy(reply, "reply", 6);
	return 6;
}

static void
world_run(struct world *w, struct far_hook *hook, void (*fn)(struct far_task *t, void *arg))
{
	memset(w, 0, sizeof(*w));
	w->node.base = w->words;
	w->node.len = REGION;
	w->node.call = world_call;
	REQUIRE(far_loop_open(NULL, &w->loop) == 0);
	REQUIRE(shm_connect_memory(&w->node, 1, w->loop, NULL, &w->f) == 0);
	far_fabric_hook(w->f, hook);
	REQUIRE(far_loop_spawn(w->loop, w->f, fn, w, 0) == 0);
	far_loop_run(w->loop);
	far_fabric_unhook(w->f, hook);
	far_fabric_close(w->f);
	far_loop_close(w->loop);
}

static void
mixed_body(struct far_task *t, void *arg)
{
	uint64_t word = 7, old, in[2];
	char reply[8];

	far_write(t, far_addr_make(0, 64), &word, 8);
	far_cas(t, far_addr_make(0, 64), 7, 9, &old);
	CHECK_EQ(far_wait(t), 0);
	far_faa(t, far_addr_make(0, 64), 1, &old);
	far_fence(t);
	far_read(t, far_addr_make(0, 64), in, 16);
	CHECK_EQ(far_wait(t), 0);
	far_read(t, far_addr_make(0, REGION), in, 16);
	CHECK_EQ(far_wait(t), -FAR_EACCESS);
	CHECK_EQ(far_call(t, 0, "abc", 4, reply, sizeof(reply)), 6);
}

static void
test_count_sums_all_chains_without_an_account(void)
{
	static struct world w;
	struct hook_count h;

	hook_count_init(&h);
	world_run(&w, &h.hook, mixed_body);
	CHECK_EQ(h.sum.round_trips, 4);
	CHECK_EQ(h.sum.verbs[FAR_OP_READ], 2);
	CHECK_EQ(h.sum.verbs[FAR_OP_WRITE], 1);
	CHECK_EQ(h.sum.verbs[FAR_OP_CAS], 1);
	CHECK_EQ(h.sum.verbs[FAR_OP_FAA], 1);
	CHECK_EQ(h.sum.verbs[FAR_OP_CALL], 1);
	CHECK_EQ(h.sum.bytes_out, 78 + 8 + 90 + 90 + 78 + 78 + 62 + 4 + 66);
	CHECK_EQ(h.sum.bytes_in, 66 + 74 + 74 + 66 + 16 + 66 + 16 + 66 + 62 + 6);
	CHECK_EQ(h.failed, 1);
}

static void
append_line(void *arg, const char *line)
{
	char *text = arg;

	REQUIRE(strlen(text) + strlen(line) < 1000);
	strcat(text, line);
	strcat(text, "\n");
}

static const char expected_trace[] = "1.0 write n0:0x40 8\n"
				     "1.1 cas n0:0x40 0x7 -> 0x9\n"
				     "1 ok 0x7\n"
				     "2.0 faa n0:0x40 0x1\n"
				     "2.1 fence read n0:0x40 16\n"
				     "2 ok 0x9\n"
				     "3.0 read n0:0x1000 16\n"
				     "3 FAR_EACCESS\n"
				     "4.0 call n0:0x0 4\n"
				     "4 ok\n";

static void
test_trace_known_chains_give_known_lines(void)
{
	static struct world w;
	struct hook_trace h;
	char text[1024] = "";

	hook_trace_init(&h, append_line, text);
	world_run(&w, &h.hook, mixed_body);
	CHECK(strcmp(text, expected_trace) == 0);
}

static void
test_trace_file_gets_the_same_lines(void)
{
	static struct world w;
	struct hook_trace h;
	char text[1024] = "";
	FILE *file = tmpfile();

	REQUIRE(file);
	hook_trace_init_file(&h, file);
	world_run(&w, &h.hook, mixed_body);
	rewind(file);
	CHECK_EQ(fread(text, 1, sizeof(text) - 1, file), sizeof(expected_trace) - 1);
	CHECK(strcmp(text, expected_trace) == 0);
	fclose(file);
}

/* Chain i adds 1 to words 0 to 3, one after the other. */
static void
adding_body(struct far_task *t, void *arg)
{
	struct world *w = arg;
	uint64_t old[4];

	for (int i = 0; i < 40; i++) {
		for (int j = 0; j < 4; j++)
			far_faa(t, far_addr_make(0, (uint64_t)j * 8), 1ULL << i, &old[j]);
		w->errs[i] = far_wait(t);
	}
}

static void
test_fault_by_number_takes_effect_as_far_as_told(void)
{
	static struct world w;
	struct hook_fault h;

	hook_fault_init(&h, 1);
	hook_fault_add(&h, &(struct hook_fault_rule){ .when = HOOK_FAULT_BEFORE, .first = 3, .err = -FAR_ENODE });
	hook_fault_add(&h, &(struct hook_fault_rule){ .when = HOOK_FAULT_AFTER, .first = 5, .err = -FAR_EUNSURE });
	hook_fault_add(&h, &(struct hook_fault_rule){
				   .when = HOOK_FAULT_CUT, .first = 7, .last = 8, .cut = 2, .err = -FAR_EUNSURE });
	world_run(&w, &h.hook, adding_body);
	for (int i = 0; i < 40; i++) {
		bool unsure = i == 4 || i == 6 || i == 7;

		CHECK_EQ(w.errs[i], i == 2 ? -FAR_ENODE : unsure ? -FAR_EUNSURE
								 : 0);
		for (int j = 0; j < 4; j++)
			CHECK_EQ(w.words[j] >> i & 1, i == 2 || ((i == 6 || i == 7) && j >= 2) ? 0 : 1);
	}
	CHECK_EQ(h.chains, 40);
	CHECK_EQ(h.failed, 4);
}

static void
test_fault_by_fraction_depends_on_the_seed_only(void)
{
	static struct world w[3];
	uint64_t failed[3], cut = 0;

	for (int i = 0; i < 3; i++) {
		struct hook_fault h;

		hook_fault_init(&h, i == 2 ? 12 : 11);
		hook_fault_add(&h, &(struct hook_fault_rule){
					   .when = HOOK_FAULT_RANDOM, .fraction = 0.5, .err = -FAR_EUNSURE });
		world_run(&w[i], &h.hook, adding_body);
		failed[i] = h.failed;
		CHECK(failed[i] > 5 && failed[i] < 35);
	}
	CHECK(memcmp(w[0].errs, w[1].errs, sizeof(w[0].errs)) == 0);
	CHECK(memcmp(w[0].words, w[1].words, sizeof(w[0].words)) == 0);
	CHECK(memcmp(w[0].errs, w[2].errs, sizeof(w[0].errs)) != 0);
	/* What took effect is always a beginning. */
	for (int j = 0; j < 3; j++) {
		CHECK_EQ(w[0].words[j + 1] & ~w[0].words[j], 0);
		cut += w[0].words[j + 1] != w[0].words[j];
	}
	CHECK(cut > 0);
}

TEST_MAIN(TEST(test_count_sums_all_chains_without_an_account), TEST(test_trace_known_chains_give_known_lines),
	  TEST(test_trace_file_gets_the_same_lines), TEST(test_fault_by_number_takes_effect_as_far_as_told),
	  TEST(test_fault_by_fraction_depends_on_the_seed_only))
