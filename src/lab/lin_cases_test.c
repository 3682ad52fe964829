/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin_cases_test.c -- histories made by hand, and what the checker must say of each.
 *
 * A history of one key is two lines. The first is time: a small letter calls an operation, the capital returns it; who
 * does not return is pending. The second tells the operations a, b, c ...: "put" and "get=a" went well, and the second
 * found the value of a; "!" behind it: the key was absent (of "ins": present); "~": its version was another one. "uif=a"
 * and "dif=a" expect the version that a wrote.
 */
#include <ctype.h>

#include "base/base.h"
#include "lab/lin.h"
#include "test.h"

enum { CASE_OPS = 16 };

struct made {
	struct lin_op ops[CASE_OPS];
	uint32_t events[2 * CASE_OPS];
	struct lin_history h;
};

static const char *const made_names[LIN_KINDS] = { "get", "ins", "upd", "put", "del", "uif", "dif", "has" };

static void
made_op(struct made *m, uint32_t i, const char *word)
{
	struct lin_op *op = &m->ops[i];
	bool writes;
	uint32_t of;

	for (op->kind = 0; strncmp(word, made_names[op->kind], 3) != 0; op->kind++)
		REQUIRE(op->kind + 1 < LIN_KINDS);
	writes = op->kind != LIN_GET && op->kind != LIN_CONTAINS && op->kind != LIN_DELETE && op->kind != LIN_DELETE_IF;
	op->pending = true;
	word += 3;
	if (*word == '=') {
		of = (uint32_t)(word[1] - 'a');
		if (op->kind == LIN_GET) {
			op->value = of + 1;
			op->version = 100 + of;
		} else {
			op->expect = 100 + of;
		}
		word += 2;
	}
	if (*word)
		op->result = *word == '~' ? -FAR_ECHANGED : op->kind == LIN_INSERT ? -FAR_EEXIST
										   : -FAR_ENOENT;
	if (writes && op->result == 0)
		op->version = 100 + i;
}

static void
made_init(struct made *m, const char *times, const char *ops)
{
	char words[256], *save = NULL;

	memset(m, 0, sizeof(*m));
	m->h = (struct lin_history){ m->ops, m->events, 0, 0 };
	snprintf(words, sizeof(words), "%s", ops);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		made_op(m, m->h.ops_n++, w);
	for (; *times; times++) {
		uint32_t i = (uint32_t)(tolower(*times) - 'a');

		REQUIRE(i < m->h.ops_n);
		m->events[m->h.events_n++] = islower(*times) ? LIN_CALL(i) : LIN_RETURN(i);
		m->ops[i].pending = islower(*times);
	}
	/* Nobody knows what a pending writer got, but who depends on it. */
	for (uint32_t i = 0; i < m->h.ops_n; i++) {
		bool known = false;

		for (uint32_t j = 0; j < m->h.ops_n; j++)
			known |= m->ops[j].expect == 100 + i;
		if (m->ops[i].pending && m->ops[i].kind != LIN_GET && !known)
			m->ops[i].version = 0;
	}
}

static void
made_check(struct lin *l, const char *times, const char *ops, bool good)
{
	struct made m;
	int got;

	made_init(&m, times, ops);
	got = lin_check(l, &m.h, NULL);
	if (got != good)
		printf("# %s, %s: %d\n", times, ops, got);
	CHECK_EQ(got, good);
}

/* Every operation, every result, in every state that the key may be in ---------------------------------------- */

enum { ABSENT = 1, PRESENT = 2, OTHER = 4 };

/* What comes before operation `x`, and around it. The key's value is then that of a (PRESENT), or that of b (OTHER). */
static const struct {
	const char *times, *ops; /* 'x' is the operation, 'X' its return */
	unsigned states;
} situations[] = {
	{ "xX", "", ABSENT },
	{ "aAxX", "put", PRESENT },
	{ "aAxX", "ins", PRESENT },
	{ "aAxX", "del!", ABSENT },
	{ "aAxX", "upd!", ABSENT },
	{ "aAbBxX", "put put", OTHER },
	{ "aAbBxX", "ins upd", OTHER },
	{ "aAbBxX", "put uif=a", OTHER },
	{ "aAbBxX", "put del", ABSENT },
	{ "aAbBxX", "put dif=a", ABSENT },
	{ "aAbBxX", "put ins!", PRESENT },
	{ "axAX", "put", ABSENT | PRESENT },
	{ "xaXA", "put", ABSENT | PRESENT },
	{ "aAxbBX", "put put", PRESENT | OTHER },
	{ "axX", "put", ABSENT | PRESENT },
	{ "aAbxX", "put del", PRESENT | ABSENT },
	{ "aAbxX", "put put", PRESENT | OTHER },
	{ "aAcbxX", "put put del", PRESENT | OTHER | ABSENT },
	{ "xXaA", "put", ABSENT },
	{ "xaAX", "put", ABSENT | PRESENT },
};

static const int results[] = { 0, -FAR_ENOENT, -FAR_EEXIST, -FAR_ECHANGED };

/* The one right result in a state; of a lookup that tells the value of a, in state OTHER: none. */
static const struct {
	int absent, present, other;
} right[LIN_KINDS] = {
	[LIN_GET] = { -FAR_ENOENT, 0, 1 },
	[LIN_INSERT] = { 0, -FAR_EEXIST, -FAR_EEXIST },
	[LIN_UPDATE] = { -FAR_ENOENT, 0, 0 },
	[LIN_UPSERT] = { 0, 0, 0 },
	[LIN_DELETE] = { -FAR_ENOENT, 0, 0 },
	[LIN_UPDATE_IF] = { -FAR_ENOENT, 0, -FAR_ECHANGED },
	[LIN_DELETE_IF] = { -FAR_ENOENT, 0, -FAR_ECHANGED },
	[LIN_CONTAINS] = { -FAR_ENOENT, 0, 0 },
};

static void
test_lin_each_operation_has_the_right_result_in_each_state(void)
{
	unsigned good_n = 0, bad_n = 0;
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	for (size_t s = 0; s < FAR_LEN(situations); s++) {
		for (unsigned i = 0; i < LIN_KINDS * FAR_LEN(results); i++) {
			unsigned kind = i % LIN_KINDS;
			int result = results[i / LIN_KINDS];
			bool good = ((situations[s].states & ABSENT) && result == right[kind].absent) ||
				    ((situations[s].states & PRESENT) && result == right[kind].present) ||
				    ((situations[s].states & OTHER) && result == right[kind].other);
			char times[16], ops[64];
			struct made m;
			uint32_t x;

			/* The operation is the last one by name. */
			snprintf(ops, sizeof(ops), "%s %s=a", situations[s].ops, made_names[kind]);
			x = 0;
			for (const char *p = situations[s].times; *p; p++)
				x += islower(*p) && *p != 'x';
			for (size_t p = 0; p <= strlen(situations[s].times); p++) {
				char c = situations[s].times[p];

				times[p] = c == 'x' ? (char)('a' + x) : c == 'X' ? (char)('A' + x)
										 : c;
			}
			made_init(&m, times, x == 0 ? ops + 1 : ops);
			m.ops[x].result = result;
			if (kind == LIN_GET && result)
				m.ops[x].value = 0;
			CHECK_EQ(lin_check(l, &m.h, NULL), good);
			if (test_failures) {
				printf("# %s, %s: %s\n", times, ops, far_errname(result));
				lin_free(l);
				return;
			}
			*(good ? &good_n : &bad_n) += 1;
		}
	}
	printf("# %u good, %u bad\n", good_n, bad_n);
	CHECK(good_n >= 100 && bad_n >= 100);
	lin_free(l);
}

/* Known anomalies --------------------------------------------------------------------------------------------- */

static const struct {
	const char *times, *ops;
	bool good;
} anomalies[] = {
	/* A read goes back in time, or two disagree about the order of two writes. */
	{ "aAbBcC", "put put get=a", false },
	{ "aAbcCdDB", "put put get=b get=a", false },
	{ "aAbcCdDB", "put put get=a get=b", true },
	{ "abcCdDABeE", "put put get=a get=b get=a", false },
	{ "abcCdDABeE", "put put get=a get=b get=b", true },
	{ "abcdCDefEFAB", "put put get=a get=b get=b get=a", false },
	{ "abcdCDefEFAB", "put put get=a get=b get=b get=b", true },
	/* A lost update: both took the same version for the current one. */
	{ "aAbcBC", "put uif=a uif=a", false },
	{ "aAbcBC", "put uif=a uif=a~", true },
	{ "aAbcBCdD", "put uif=a uif=a~ get=b", true },
	{ "aAbcBCdD", "put uif=a uif=a~ get=a", false },
	{ "aAbcBC", "put dif=a uif=a", false },
	{ "aAbcBC", "put dif=a uif=a!", true },
	{ "aAbcBC", "put dif=a dif=a", false },
	{ "aAbcBC", "put dif=a dif=a!", true },
	{ "aAbcBC", "put dif=a~ put", true },
	{ "aAbBcC", "put dif=a~ put", false },
	/* Two inserts both win, or both lose. */
	{ "abAB", "ins ins", false },
	{ "abAB", "ins ins!", true },
	{ "abAB", "ins! ins!", false },
	{ "aAbcBCdD", "ins! del ins get=c", false },
	{ "abcABC", "ins! del ins", true },
	{ "abcABC", "ins del ins", true },
	{ "abcABC", "ins del! ins", false },
	/* A deleted key shows up again, or a delete is lost. */
	{ "aAbBcC", "put del get=a", false },
	{ "aAbcBC", "put del get=a", true },
	{ "aAbcCBdD", "put del get! get=a", false },
	{ "aAbcBCdD", "put del del get!", false },
	{ "aAbcBCdD", "put del del! get!", true },
	{ "aAbcBCdDeE", "put del upd get=c get!", false },
	{ "aAbcBCdD", "put del upd get!", true },
	{ "aAbcBCdD", "put del upd get=c", false },
	{ "aAbcBCdD", "put del upd! get!", true },
	{ "aAbcBCdD", "put del put get=c", true },
	/* It is seen, gone and seen again: the fault of the published insert. */
	{ "abBcCA", "ins get=a get!", false },
	{ "abBcCA", "ins get! get=a", true },
	{ "abcCdDeEABfF", "ins ins! get=a get! get=a get=a", false },
	/* A pending operation may take effect late, but once, and not before its call. */
	{ "abBcC", "put get! get=a", true },
	{ "abBcC", "put get=a get!", false },
	{ "abBcCdDeE", "put put get=a get=b get=a", false },
	{ "abBcCdD", "put put get=b get=a", true },
	{ "aAbcCdD", "put del get! get=a", false },
	{ "aAbcCdD", "put del get=a get!", true },
	{ "aAbcCdDeE", "put del get! put get!", false },
	{ "aAbcCdDeE", "put del get=a put get!", true },
	{ "bBaA", "put get=a", false },
	{ "aAbBcCd", "put get=d get=a put", false },
	{ "abcCdDeE", "put put get=a get=b get=a", false },
	{ "abcCdD", "put put get=b get=a", true },
	{ "aAbcC", "put uif=a get=b", true },
	{ "aAbBcdD", "put put uif=a get=c", false },
	{ "aAbcCdD", "put uif=a uif=a get=b", false },
	{ "aAbcCdD", "put uif=a uif=a~ get=b", true },
	{ "abBcC", "ins ins get=a", false },
	{ "abBcC", "ins ins! get=a", true },
	{ "abBcC", "ins ins get=b", true },
	{ "aAbcCdDeE", "put upd del get! get=b", false },
	{ "aAbcCdDeE", "put upd get=a get=b has", true },
	/* A version is that of one value. */
	{ "aAbcBC", "put put uif=b", true },
	{ "aAbBcCdD", "put uif=a uif=b get=c", true },
	{ "aAbBcCdD", "put uif=a uif=a get=c", false },
	{ "aAbBcCdD", "put del put uif=a", false },
	{ "aAbBcCdD", "put del put uif=a~", true },
	{ "aAbBcCdD", "put del put uif=c", true },
	/* Only presence. */
	{ "aAbBcC", "has! put has", true },
	{ "aAbBcC", "has put has", false },
	{ "aAbcCBdD", "put del has! has!", true },
	{ "aAbcCBdD", "put del has! has", false },
};

static void
test_lin_anomalies_are_told_from_what_only_looks_like_one(void)
{
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	for (size_t i = 0; i < FAR_LEN(anomalies); i++)
		made_check(l, anomalies[i].times, anomalies[i].ops, anomalies[i].good);
	lin_free(l);
}

TEST_MAIN(TEST(test_lin_each_operation_has_the_right_result_in_each_state),
	  TEST(test_lin_anomalies_are_told_from_what_only_looks_like_one))
