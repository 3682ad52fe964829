/* SPDX-License-Identifier: Apache-2.0 */
/* recorder_test.c -- histories that processes note down, also killed ones; as text and back; and judged. */
#include "lab/recorder.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/rand.h"
#include "test.h"

enum { PROCESSES = 3,
       STEPS = 300,
       KEYS = 40 };

/* A table of one word per key, in shared memory: value's id, and who comes next. Each operation holds a lock. */
struct table {
	uint32_t lock;
	uint64_t version;
	struct {
		uint64_t id, version;
	} rows[KEYS];
};

struct world {
	struct recorder *r;
	struct table *t;
};

static void
world_init(struct world *w)
{
	REQUIRE(recorder_new(PROCESSES + 1, 2000, &w->r) == 0);
	w->t = mmap(NULL, sizeof(*w->t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	REQUIRE(w->t != MAP_FAILED);
}

static void
world_fini(struct world *w)
{
	recorder_free(w->r);
	munmap(w->t, sizeof(*w->t));
}

static void
table_lock(struct table *t)
{
	while (__atomic_exchange_n(&t->lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void
table_unlock(struct table *t)
{
	__atomic_store_n(&t->lock, 0, __ATOMIC_RELEASE);
}

/* One operation, true to the rules. */
static void
world_operate(struct world *w, struct recorder_lane *l, struct far_rng *r)
{
	static const uint8_t kinds[] = { LIN_GET, LIN_UPSERT, LIN_DELETE, LIN_INSERT, LIN_CONTAINS };
	uint32_t key = (uint32_t)far_rng_below(r, KEYS);
	struct history_op *op = recorder_call(l, kinds[far_rng_below(r, FAR_LEN(kinds))], key, 0);
	bool there;
	int result = 0;

	table_lock(w->t);
	there = w->t->rows[key].id != 0;
	if (op->kind == LIN_INSERT)
		result = there ? -FAR_EEXIST : 0;
	else if (op->kind != LIN_UPSERT)
		result = there ? 0 : -FAR_ENOENT;
	if (!result && (op->kind == LIN_UPSERT || op->kind == LIN_INSERT)) {
		w->t->rows[key].id = op->id;
		op->version = w->t->rows[key].version = ++w->t->version;
	} else if (!result && op->kind == LIN_DELETE) {
		w->t->rows[key].id = 0;
	} else if (!result && op->kind == LIN_GET) {
		op->value = w->t->rows[key].id;
		op->version = w->t->rows[key].version;
	}
	table_unlock(w->t);
	recorder_return(l, op, result);
}

static void
world_scan(struct world *w, struct recorder_lane *l)
{
	struct history_op *scan = recorder_call(l, HISTORY_SCAN, 0, 0);

	for (uint32_t key = 0; key < KEYS; key++) {
		table_lock(w->t);
		if (w->t->rows[key].id)
			recorder_item(l, scan, key, w->t->rows[key].version, w->t->rows[key].id);
		table_unlock(w->t);
	}
	recorder_return(l, scan, 0);
}

static _Noreturn void
world_process(struct world *w, uint64_t seed, bool dies)
{
	struct recorder_lane l;
	struct far_rng r;

	far_rng_seed(&r, seed);
	if (recorder_open(w->r, &l) != 0)
		_exit(1);
	for (int i = 0; i < STEPS; i++) {
		if (i % 50 == 25)
			world_scan(w, &l);
		if (i == STEPS / 2 && dies) {
			recorder_cancel(recorder_call(&l, LIN_UPSERT, 0, 0));
			recorder_call(&l, LIN_UPSERT, 1, 0);
			kill(getpid(), SIGKILL);
		}
		world_operate(w, &l, &r);
	}
	_exit(0);
}

/* A history of three processes, of which one is killed. */
static void
world_play(struct world *w, struct history *h)
{
	pid_t pids[PROCESSES];
	int status;

	world_init(w);
	fflush(stdout);
	for (unsigned i = 0; i < PROCESSES; i++)
		if ((pids[i] = fork()) == 0)
			world_process(w, i + 1, i == 0);
	for (unsigned i = 0; i < PROCESSES; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i]);
		CHECK_EQ(status, i == 0 ? SIGKILL : 0);
	}
	CHECK_EQ(recorder_collect(w->r, h), 0);
}

static void
test_recorder_keeps_what_a_killed_process_noted(void)
{
	struct history_report r;
	struct history h = { 0 };
	struct world w;

	world_play(&w, &h);
	CHECK_EQ(history_check(&h, &r), 0);
	CHECK_EQ(r.verdict, HISTORY_GOOD);
	CHECK_EQ(r.pending, 1);
	CHECK_EQ(r.scans, 3 + 2 * 6);
	CHECK_EQ(r.ops, STEPS / 2 + 1 + 2 * STEPS);
	CHECK_EQ(r.keys, KEYS);
	CHECK(r.items > 100);
	history_free(&h);
	world_fini(&w);
}

static void
test_recorder_without_room_says_so(void)
{
	struct recorder_lane l;
	struct recorder *r;

	CHECK_EQ(recorder_new(0, 1, &r), -FAR_EINVAL);
	REQUIRE(recorder_new(1, 3, &r) == 0);
	CHECK_EQ(recorder_open(r, &l), 0);
	recorder_call(&l, LIN_GET, 1, 0);
	CHECK_EQ(recorder_room(&l), 2);
	CHECK_EQ(recorder_open(r, &l), -FAR_ENOMEM);
	recorder_free(r);
	recorder_free(NULL);
}

/* Text ------------------------------------------------------------------------------------------------------- */

static int
text_read(const char *text, struct history *h, unsigned *line)
{
	FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int err;

	REQUIRE(in != NULL);
	err = history_read(h, in, line);
	fclose(in);
	return err;
}

static char *
text_print(const struct history *h)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	REQUIRE(out != NULL);
	CHECK_EQ(history_print(h, out), 0);
	fclose(out);
	return text;
}

static void
test_history_printed_and_read_is_the_same(void)
{
	struct history h = { 0 }, again = { 0 };
	struct history_report r, r2;
	char *text, *text2;
	struct world w;
	unsigned line;

	world_play(&w, &h);
	text = text_print(&h);
	CHECK_EQ(text_read(text, &again, &line), 0);
	CHECK_EQ(again.n, h.n);
	text2 = text_print(&again);
	CHECK(strcmp(text, text2) == 0);
	CHECK_EQ(history_check(&h, &r), 0);
	CHECK_EQ(history_check(&again, &r2), 0);
	CHECK(memcmp(&r, &r2, sizeof(r)) == 0);
	free(text);
	free(text2);
	history_free(&h);
	history_free(&again);
	world_fini(&w);
}

#define HEAD "farside-history 1\n"

static void
test_history_text_that_is_none_is_refused_with_its_line(void)
{
	static const struct {
		const char *text;
		unsigned line;
	} bad[] = {
		{ "# nothing\n", 1 },
		{ "farside-history 2\n", 1 },
		{ HEAD "1 call 1.1 upsert 1", 2 },
		{ HEAD "1 call 1.1 upsert 1 -", 2 },
		{ HEAD "1 call 1.1 upsert 1 - -\n", 2 },
		{ HEAD "0 call 1.1 upsert 1 -\n", 2 },
		{ HEAD "-1 call 1.1 upsert 1 -\n", 2 },
		{ HEAD "18446744073709551616 call 1.1 upsert 1 -\n", 2 },
		{ HEAD "1 call 0.1 upsert 1 -\n", 2 },
		{ HEAD "1 call 1.0 upsert 1 -\n", 2 },
		{ HEAD "1 call 11 upsert 1 -\n", 2 },
		{ HEAD "1 call 1. upsert 1 -\n", 2 },
		{ HEAD "1 call 1.4294967296 upsert 1 -\n", 2 },
		{ HEAD "1 call 1.1 put 1 -\n", 2 },
		{ HEAD "1 call 1.1 ? 1 -\n", 2 },
		{ HEAD "1 call 1.1 upsert x -\n", 2 },
		{ HEAD "1 call 1.1 upsert 4294967296 -\n", 2 },
		{ HEAD "1 call 1.1 upsert 1 xyz\n", 2 },
		{ HEAD "1 call 1.1 upsert 1 A\n", 2 },
		{ HEAD "1 went 1.1 upsert 1 -\n", 2 },
		{ HEAD "# 1\n1 call 1.1 upsert 1 -\n2 return 1.1 fine 1 -\n", 4 },
		{ HEAD "1 call 1.1 get 1 -\n2 return 1.1 ok 1 -1\n", 3 },
		{ HEAD "1 call 1.1 scan 0 -\n1 item 1.1 x 1 1.1\n", 3 },
		/* Returns without their calls, or before them; these are found at the end. */
		{ HEAD "2 return 1.1 ok 1 -\n", 2 },
		{ HEAD "1 call 1.1 upsert 1 -\n2 return 1.2 ok 1 -\n", 3 },
		{ HEAD "1 call 1.1 upsert 1 -\n2 return 1.1 ok 1 -\n3 return 1.1 ok 1 -\n", 4 },
		{ HEAD "2 call 1.1 upsert 1 -\n1 return 1.1 ok 1 -\n", 3 },
		/* An id that is called twice: which of them has returned? */
		{ HEAD "20 call 1.1 delete 5 -\n15 call 1.1 contains 5 -\n16 return 1.1 absent - -\n", 4 },
	};

	for (size_t i = 0; i < FAR_LEN(bad); i++) {
		struct history h = { 0 };
		unsigned line = 0;

		CHECK_EQ(text_read(bad[i].text, &h, &line), -FAR_ESYNTAX);
		CHECK_EQ(line, bad[i].line);
		if (line != bad[i].line)
			printf("# %s\n", bad[i].text);
		history_free(&h);
	}
}

/* Judging ----------------------------------------------------------------------------------------------------- */

#define WRITES "1 call 1.1 upsert 5 -\n2 return 1.1 ok a -\n3 call 1.2 upsert 5 -\n4 return 1.2 ok b -\n"
#define SCAN "5 call 2.1 scan 0 -\n"

static void
test_history_is_judged(void)
{
	static const struct {
		const char *text;
		enum history_verdict verdict;
		uint32_t key;
	} cases[] = {
		{ HEAD, HISTORY_GOOD, 0 },
		{ HEAD WRITES "5 call 2.1 get 5 -\n6 return 2.1 ok b 1.2\n", HISTORY_GOOD, 0 },
		{ HEAD WRITES "5 call 2.1 get 5 -\n6 return 2.1 ok a 1.1\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES "5 call 2.1 get 5 -\n6 return 2.1 ok b 9.9\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES "5 call 2.1 get 5 -\n6 return 2.1 ok b -\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES "5 call 2.1 update_if 5 b\n6 return 2.1 ok c -\n", HISTORY_GOOD, 0 },
		{ HEAD WRITES "5 call 2.1 update_if 5 a\n6 return 2.1 ok c -\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES "5 call 2.1 update_if 5 a\n6 return 2.1 changed - -\n", HISTORY_GOOD, 0 },
		{ HEAD WRITES "5 call 2.1 contains 5 -\n6 return 2.1 absent - -\n", HISTORY_NOT_LINEARIZABLE, 5 },
		/* A pending delete may have happened; a version comes once, also on another key. */
		{ HEAD WRITES "5 call 2.1 delete 5 -\n6 call 2.2 get 5 -\n7 return 2.2 absent - -\n", HISTORY_GOOD, 0 },
		{ HEAD WRITES "5 call 2.1 upsert 6 -\n6 return 2.1 ok b -\n", HISTORY_SAME_VERSION, 0 },
		{ HEAD WRITES SCAN "5 item 2.1 5 b 1.2\n9 return 2.1 ok - -\n", HISTORY_GOOD, 0 },
		{ HEAD WRITES SCAN "9 return 2.1 ok - -\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES SCAN, HISTORY_GOOD, 0 },
		{ HEAD WRITES SCAN "5 item 2.1 5 a 1.1\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES SCAN "5 item 2.1 5 a 1.1\n9 return 2.1 ok - -\n", HISTORY_NOT_LINEARIZABLE, 5 },
		{ HEAD WRITES SCAN "5 item 2.1 5 b 1.2\n5 item 2.1 5 b 1.2\n", HISTORY_TWICE, 5 },
		{ HEAD WRITES SCAN "5 item 2.1 5 b 1.2\n5 item 2.1 6 b 1.2\n", HISTORY_STRANGER, 6 },
		/* An iteration that began before the second write, and ended behind it. */
		{ HEAD "1 call 1.1 upsert 5 -\n2 return 1.1 ok a -\n3 call 2.1 scan 0 -\n3 item 2.1 5 a 1.1\n"
		       "4 call 1.2 upsert 5 -\n6 return 1.2 ok b -\n7 return 2.1 ok - -\n",
		  HISTORY_GOOD, 0 },
	};

	for (size_t i = 0; i < FAR_LEN(cases); i++) {
		struct history_report r = { 0 };
		struct history h = { 0 };

		CHECK_EQ(text_read(cases[i].text, &h, NULL), 0);
		CHECK_EQ(history_check(&h, &r), 0);
		CHECK_EQ(r.verdict, cases[i].verdict);
		CHECK_EQ(r.key, cases[i].key);
		if (r.verdict != cases[i].verdict)
			printf("%s", cases[i].text);
		history_free(&h);
	}
}

static void
test_history_that_contradicts_itself_is_invalid(void)
{
	static const char *const cases[] = {
		HEAD "1 call 1.1 upsert 5 -\n",
		HEAD WRITES "5 item 3.1 5 b 1.2\n",
	};

	for (size_t i = 0; i < FAR_LEN(cases); i++) {
		struct history_report r;
		struct history h = { 0 };

		/* In two texts that are joined. */
		CHECK_EQ(text_read(cases[i], &h, NULL), 0);
		CHECK_EQ(text_read(cases[i], &h, NULL), 0);
		CHECK_EQ(history_check(&h, &r), -FAR_EINVAL);
		history_free(&h);
	}
}

static void
test_history_with_too_much_of_one_key_is_undecided(void)
{
	struct history_report r;
	struct history h = { 0 };

	for (uint32_t i = 0; i < LIN_KEY_OPS; i++) {
		struct history_op op = { .call = 2 * i + 1, .ret = 2 * i + 2, .version = i + 1, .kind = LIN_UPSERT };

		op.id = history_id(1, i + 1);
		CHECK_EQ(history_add(&h, &op), 0);
	}
	CHECK_EQ(history_check(&h, &r), 0);
	CHECK_EQ(r.verdict, HISTORY_UNDECIDED);
	h.n--;
	CHECK_EQ(history_check(&h, &r), 0);
	CHECK_EQ(r.verdict, HISTORY_GOOD);
	history_free(&h);
}

TEST_MAIN(TEST(test_recorder_keeps_what_a_killed_process_noted), TEST(test_recorder_without_room_says_so),
	  TEST(test_history_printed_and_read_is_the_same),
	  TEST(test_history_text_that_is_none_is_refused_with_its_line), TEST(test_history_is_judged),
	  TEST(test_history_that_contradicts_itself_is_invalid),
	  TEST(test_history_with_too_much_of_one_key_is_undecided))
