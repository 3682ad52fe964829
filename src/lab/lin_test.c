/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin_test.c -- the checker against a checker too simple to be wrong: it tries every order of every subset.
 */
#include "lab/lin.h"

#include "base/base.h"
#include "base/rand.h"
#include "test.h"

enum { OPS = 7,
       CLIENTS = 4 };

struct history {
	struct lin_op ops[32];
	uint32_t events[64];
	struct lin_history h;
};

/* Brute force --------------------------------------------------------------------------------------------- */

struct brute {
	const struct history *t;
	uint32_t key;
	uint32_t call[OPS], ret[OPS]; /* places in events; ret of a pending one: UINT32_MAX */
	uint32_t order[OPS];
	uint32_t n;
};

/* A version that the writer did not tell is whatever the readers say; 0 when nobody read it. */
static uint64_t
brute_version_read(const struct brute *b, uint32_t value)
{
	for (uint32_t g = 0; g < b->t->h.ops_n; g++) {
		const struct lin_op *op = &b->t->ops[g];

		if (op->kind == LIN_GET && op->result == 0 && op->value == value && op->version != 0)
			return op->version;
	}
	return 0;
}

/* Plays order[] from an absent key. */
static bool
brute_plays(const struct brute *b)
{
	bool present = false;
	uint64_t learnt[OPS] = { 0 };
	uint32_t value = 0;

	for (uint32_t i = 0; i < b->n; i++) {
		const struct lin_op *op = &b->t->ops[b->order[i]];
		int want = 0;
		uint64_t version = present ? learnt[value - 1] : 0;

		switch (op->kind) {
		case LIN_GET:
		case LIN_CONTAINS:
			want = present ? 0 : -FAR_ENOENT;
			break;
		case LIN_INSERT:
			want = present ? -FAR_EEXIST : 0;
			break;
		case LIN_UPDATE:
		case LIN_DELETE:
			want = present ? 0 : -FAR_ENOENT;
			break;
		case LIN_UPDATE_IF:
		case LIN_DELETE_IF:
			want = !present ? -FAR_ENOENT : version == op->expect ? 0
									      : -FAR_ECHANGED;
			break;
		}
		if (!op->pending && op->result != want)
			return false;
		if (op->kind == LIN_GET) {
			if (want == 0 && !op->pending && (op->value != value || op->version != version))
				return false;
		} else if (want == 0 && op->kind != LIN_CONTAINS) {
			present = op->kind != LIN_DELETE && op->kind != LIN_DELETE_IF;
			value = b->order[i] + 1;
			learnt[value - 1] = op->version;
			if (learnt[value - 1] == 0)
				learnt[value - 1] = brute_version_read(b, value);
		}
	}
	return true;
}

static bool
brute_any(struct brute *b, uint32_t used, uint32_t all)
{
	bool complete = true;

	for (uint32_t i = 0; i < b->t->h.ops_n; i++)
		if ((all >> i & 1) && !(used >> i & 1) && !b->t->ops[i].pending)
			complete = false;
	if (complete && brute_plays(b))
		return true;
	for (uint32_t i = 0; i < b->t->h.ops_n; i++) {
		bool fits = (all >> i & 1) && !(used >> i & 1);

		/* Nobody left behind may have returned before it was called. */
		for (uint32_t j = 0; fits && j < b->t->h.ops_n; j++)
			if ((all >> j & 1) && !(used >> j & 1) && b->ret[j] < b->call[i])
				fits = false;
		if (!fits)
			continue;
		b->order[b->n++] = i;
		if (brute_any(b, used | 1u << i, all))
			return true;
		b->n--;
	}
	return false;
}

static bool
brute_check(const struct history *t)
{
	for (uint32_t key = 0; key < 2; key++) {
		struct brute b = { .t = t, .key = key };
		uint32_t all = 0;

		memset(b.ret, 0xff, sizeof(b.ret));
		for (uint32_t e = 0; e < t->h.events_n; e++) {
			uint32_t op = t->events[e] >> 1;

			*(t->events[e] & 1 ? &b.ret[op] : &b.call[op]) = e;
			if (t->ops[op].key == key)
				all |= 1u << op;
		}
		if (!brute_any(&b, 0, all))
			return false;
	}
	return true;
}

/* Histories ----------------------------------------------------------------------------------------------- */

struct state {
	uint32_t value;
	uint64_t version;
};

/* Operation `i` happens now. */
static void
history_happen(struct lin_op *op, uint32_t i, struct state *s)
{
	uint64_t version = 100 + i;

	op->result = op->kind == LIN_INSERT ? (s->value ? -FAR_EEXIST : 0) : op->kind == LIN_UPSERT ? 0
								     : !s->value                    ? -FAR_ENOENT
												    : 0;
	if (op->result == 0 && (op->kind == LIN_UPDATE_IF || op->kind == LIN_DELETE_IF) && op->expect != s->version)
		op->result = -FAR_ECHANGED;
	if (op->result != 0 || op->kind == LIN_CONTAINS)
		return;
	if (op->kind == LIN_GET) {
		op->value = s->value;
		op->version = s->version;
	} else if (op->kind == LIN_DELETE || op->kind == LIN_DELETE_IF) {
		*s = (struct state){ 0, 0 };
	} else {
		*s = (struct state){ i + 1, version };
		op->version = version;
	}
}

static void
history_event(struct history *t, uint32_t event)
{
	t->events[t->h.events_n++] = event;
}

/* A random run of CLIENTS clients on one or two keys, each operation at one moment between call and return,
 * if at all. */
static void
history_draw(struct history *t, struct far_rng *r)
{
	struct state s[2] = { { 0, 0 } };
	int at[CLIENTS], happened[CLIENTS];
	bool conditional = far_rng_below(r, 2);
	uint32_t keys = 1 + (uint32_t)far_rng_below(r, 2), n = 2 + (uint32_t)far_rng_below(r, OPS - 1);

	memset(t, 0, sizeof(*t));
	memset(at, 0xff, sizeof(at));
	t->h = (struct lin_history){ t->ops, t->events, 0, 0 };
	for (int steps = 0; steps < 200; steps++) {
		uint32_t c = (uint32_t)far_rng_below(r, CLIENTS);
		struct lin_op *op;

		if (at[c] < 0) {
			if (t->h.ops_n == n)
				continue;
			at[c] = (int)t->h.ops_n++;
			op = &t->ops[at[c]];
			op->kind = (uint8_t)far_rng_below(r, conditional ? LIN_KINDS : LIN_UPDATE_IF);
			op->client = (uint16_t)c;
			op->key = (uint32_t)far_rng_below(r, keys);
			op->expect = far_rng_below(r, 3) ? s[op->key].version : 100 + far_rng_below(r, OPS);
			happened[c] = 0;
			history_event(t, LIN_CALL(at[c]));
			continue;
		}
		op = &t->ops[at[c]];
		if (!happened[c]) {
			history_happen(op, (uint32_t)at[c], &s[op->key]);
			happened[c] = 1;
		} else if (steps < 40) {
			history_event(t, LIN_RETURN(at[c]));
			at[c] = -1;
		}
	}
	/* Who has not returned is pending, and nobody knows what it got (who depends on it may know its version). */
	for (uint32_t c = 0; c < CLIENTS; c++) {
		if (at[c] < 0)
			continue;
		t->ops[at[c]].pending = true;
		if (!conditional)
			t->ops[at[c]].version = 0;
		t->ops[at[c]].value = 0;
		t->ops[at[c]].result = 0;
	}
}

/* Changes something that somebody saw, or when. */
static void
history_spoil(struct history *t, struct far_rng *r)
{
	struct lin_op *op = &t->ops[far_rng_below(r, t->h.ops_n)], *other = &t->ops[far_rng_below(r, t->h.ops_n)];
	static const int results[] = { 0, -FAR_ENOENT, -FAR_EEXIST, -FAR_ECHANGED };

	switch (far_rng_below(r, 4)) {
	case 0:
		op->result = results[far_rng_below(r, FAR_LEN(results))];
		break;
	case 1:
		op->value = (uint32_t)far_rng_below(r, t->h.ops_n + 1);
		op->version = op->value ? t->ops[op->value - 1].version : 0;
		break;
	case 2:
		op->version = other->version;
		break;
	default:
		for (uint32_t e = 1; e < t->h.events_n; e++) {
			uint32_t a = t->events[e - 1], b = t->events[e];

			/* A return moves before somebody else's call: a stricter order. */
			if (!(a & 1) && (b & 1) && a >> 1 != b >> 1 && far_rng_below(r, 2)) {
				t->events[e - 1] = b;
				t->events[e] = a;
			}
		}
		break;
	}
}

static void
test_lin_random_histories_agree_with_brute_force(void)
{
	struct history t;
	struct far_rng r;
	struct lin *l;
	uint32_t good = 0, bad = 0;

	REQUIRE(lin_new(&l) == 0);
	far_rng_seed(&r, 1);
	for (int i = 0; i < 20000; i++) {
		bool spoilt = i % 4 != 0;
		int got, want;

		history_draw(&t, &r);
		if (spoilt)
			history_spoil(&t, &r);
		got = lin_check(l, &t.h, NULL);
		want = brute_check(&t);
		CHECK_EQ(got, want);
		CHECK(spoilt || got == 1);
		if (got != want)
			break;
		*(got ? &good : &bad) += 1;
	}
	printf("# %u linearizable, %u not\n", good, bad);
	CHECK(good > 2000 && bad > 2000);
	lin_free(l);
}

/* One client after the other: each result follows from those before, so a wrong one has no excuse. */
static void
history_draw_serial(struct history *t, struct far_rng *r)
{
	struct state s = { 0, 0 };
	uint32_t n = 2 + (uint32_t)far_rng_below(r, FAR_LEN(t->ops) - 1);

	memset(t, 0, sizeof(*t));
	t->h = (struct lin_history){ t->ops, t->events, 0, 0 };
	for (uint32_t i = 0; i < n; i++) {
		struct lin_op *op = &t->ops[t->h.ops_n++];

		op->kind = (uint8_t)far_rng_below(r, LIN_KINDS);
		op->expect = far_rng_below(r, 2) ? s.version : 100 + far_rng_below(r, n);
		history_event(t, LIN_CALL(i));
		history_happen(op, i, &s);
		history_event(t, LIN_RETURN(i));
	}
}

/* False: there is nothing to spoil in operation `i`. */
static bool
history_spoil_result(struct history *t, uint32_t i, struct far_rng *r)
{
	static const int results[] = { 0, -FAR_ENOENT, -FAR_EEXIST, -FAR_ECHANGED };
	struct lin_op *op = &t->ops[i];
	int result = results[far_rng_below(r, FAR_LEN(results))];

	if (result != op->result) {
		op->result = result;
		/* A lookup that finds something finds the value of somebody, of the right version. */
		op->value = op->kind == LIN_GET && !result ? 1 + (uint32_t)far_rng_below(r, t->h.ops_n) : 0;
		op->version = op->value ? t->ops[op->value - 1].version : op->version;
		return true;
	}
	if (op->kind != LIN_GET || result)
		return false;
	op->value = (op->value + (uint32_t)far_rng_below(r, t->h.ops_n - 1)) % t->h.ops_n + 1;
	op->version = t->ops[op->value - 1].version;
	return true;
}

static void
test_lin_good_serial_histories_with_one_wrong_result_are_rejected(void)
{
	struct history t;
	struct far_rng r;
	struct lin *l;
	int spoilt = 0;

	REQUIRE(lin_new(&l) == 0);
	far_rng_seed(&r, 2);
	while (spoilt < 10000 && test_failures == 0) {
		history_draw_serial(&t, &r);
		CHECK_EQ(lin_check(l, &t.h, NULL), 1);
		if (!history_spoil_result(&t, (uint32_t)far_rng_below(&r, t.h.ops_n), &r))
			continue;
		spoilt++;
		CHECK_EQ(lin_check(l, &t.h, NULL), 0);
	}
	lin_free(l);
}

/*
 * With clients at the same time: a lookup that returned before the operation whose value it tells was called, one that
 * tells what nobody wrote, a wrong version, and results that the operation never has.
 */
static bool
history_spoil_surely(struct history *t, uint32_t i, struct far_rng *r)
{
	struct lin_op *op = &t->ops[i];
	bool called[32] = { false };

	if (op->pending)
		return false;
	if (op->kind != LIN_GET || op->result || far_rng_below(r, 4) == 0) {
		static const int never[LIN_KINDS] = {
			-FAR_ECHANGED,
			-FAR_ENOENT,
			-FAR_EEXIST,
			-FAR_ENOENT,
			-FAR_ECHANGED,
			-FAR_EEXIST,
			-FAR_EEXIST,
			-FAR_EEXIST,
		};

		op->result = never[op->kind];
		return true;
	}
	if (far_rng_below(r, 2)) {
		op->version++;
		/* Unless the writer said nothing and nobody else read it. */
		return t->ops[op->value - 1].version != 0;
	}
	op->value = 0;
	for (uint32_t e = 0; t->events[e] != LIN_RETURN(i); e++)
		called[t->events[e] >> 1] = true;
	for (uint32_t w = 0; w < t->h.ops_n; w++)
		if (!called[w] && t->ops[w].kind == LIN_UPSERT && t->ops[w].key == op->key)
			op->value = w + 1;
	op->version = op->value ? t->ops[op->value - 1].version : 0;
	return true;
}

static void
test_lin_good_histories_with_one_wrong_result_are_rejected(void)
{
	struct history t;
	struct far_rng r;
	struct lin *l;
	int spoilt = 0;

	REQUIRE(lin_new(&l) == 0);
	far_rng_seed(&r, 3);
	while (spoilt < 10000 && test_failures == 0) {
		history_draw(&t, &r);
		CHECK_EQ(lin_check(l, &t.h, NULL), 1);
		if (!history_spoil_surely(&t, (uint32_t)far_rng_below(&r, t.h.ops_n), &r))
			continue;
		spoilt++;
		CHECK_EQ(lin_check(l, &t.h, NULL), 0);
	}
	lin_free(l);
}

static void
test_lin_stale_read_is_found_and_names_key(void)
{
	struct lin_op ops[] = {
		{ .kind = LIN_UPSERT, .key = 3, .version = 10 },
		{ .kind = LIN_UPSERT, .key = 3, .version = 11 },
		{ .kind = LIN_GET, .key = 3, .value = 1, .version = 10 },
	};
	uint32_t events[] = { LIN_CALL(0), LIN_RETURN(0), LIN_CALL(1), LIN_RETURN(1), LIN_CALL(2), LIN_RETURN(2) };
	struct lin_history h = { ops, events, 3, 6 };
	struct lin *l;
	uint32_t key = 0;

	REQUIRE(lin_new(&l) == 0);
	CHECK_EQ(lin_check(l, &h, &key), 0);
	CHECK_EQ(key, 3);
	/* The same while the second write is pending: it need not have happened. */
	ops[1].pending = true;
	ops[1].version = 0;
	events[3] = LIN_CALL(2);
	events[4] = LIN_RETURN(2);
	h.events_n = 5;
	CHECK_EQ(lin_check(l, &h, &key), 1);
	/* And the other way round: it may have. */
	ops[2].value = 2;
	ops[2].version = 77;
	CHECK_EQ(lin_check(l, &h, &key), 1);
	/* But a value that nobody wrote cannot be read, nor one with two versions. */
	ops[2].value = 0;
	CHECK_EQ(lin_check(l, &h, &key), 0);
	ops[2].value = 1;
	CHECK_EQ(lin_check(l, &h, &key), 0);
	lin_free(l);
}

static void
test_lin_too_many_operations_is_an_error(void)
{
	static struct lin_op ops[LIN_KEY_OPS + 1];
	static uint32_t events[2 * (LIN_KEY_OPS + 1)];
	struct lin_history h = { ops, events, LIN_KEY_OPS, 2 * LIN_KEY_OPS };
	struct lin *l;

	for (uint32_t i = 0; i <= LIN_KEY_OPS; i++)
		ops[i] = (struct lin_op){ .kind = LIN_UPSERT, .version = i + 1 };
	for (uint32_t i = 0; i < LIN_KEY_OPS; i++) {
		events[i] = LIN_CALL(i);
		events[LIN_KEY_OPS + i] = LIN_RETURN(i);
	}
	REQUIRE(lin_new(&l) == 0);
	CHECK_EQ(lin_check(l, &h, NULL), 1);
	for (uint32_t i = 0; i <= LIN_KEY_OPS; i++) {
		events[2 * i] = LIN_CALL(i);
		events[2 * i + 1] = LIN_RETURN(i);
	}
	h.ops_n = LIN_KEY_OPS + 1;
	h.events_n = 2 * h.ops_n;
	CHECK_EQ(lin_check(l, &h, NULL), -FAR_EINVAL);
	h.ops_n = h.events_n = 0;
	CHECK_EQ(lin_check(l, &h, NULL), 1);
	lin_free(l);
}

/*
 * As long as a key's history may be, and good: one in eight operations returns only after many others, or never, though
 * most of these happened at some time. Towards the end there are lookups only.
 */
struct long_history {
	struct lin_op ops[LIN_KEY_OPS];
	uint32_t events[2 * LIN_KEY_OPS];
	struct lin_history h;
	struct {
		int op;         /* -1: none */
		uint32_t ready; /* the step in which it happens */
		uint32_t done;  /* and in which it returns; UINT32_MAX: never */
	} open[LIN_KEY_OPS];
};

/* Begins, lets happen and ends what is due. */
static void
long_history_step(struct long_history *t, uint32_t step, struct state *s, struct far_rng *r)
{
	uint32_t i = t->h.ops_n, slow = far_rng_below(r, 8) == 0 ? 8 : 0;
	struct lin_op *op = &t->ops[i];

	*op = (struct lin_op){ .kind = (uint8_t)(step < LIN_KEY_OPS - 30 ? far_rng_below(r, LIN_KINDS) : LIN_GET) };
	op->expect = far_rng_below(r, 3) ? s->version : 1;
	t->h.ops_n++;
	t->events[t->h.events_n++] = LIN_CALL(i);
	t->open[i].op = (int)i;
	t->open[i].ready = step + (uint32_t)far_rng_below(r, 2 + 5 * slow);
	t->open[i].done = t->open[i].ready + (uint32_t)far_rng_below(r, 2 + 5 * slow);
	if (slow && far_rng_below(r, 2))
		t->open[i].done = UINT32_MAX;
	for (uint32_t o = 0; o <= i; o++) {
		if (t->open[o].op < 0)
			continue;
		if (t->open[o].ready == step)
			history_happen(&t->ops[o], o, s);
		if (t->open[o].done != step)
			continue;
		t->events[t->h.events_n++] = LIN_RETURN(o);
		t->open[o].op = -1;
	}
}

static void
test_lin_long_histories_with_slow_and_pending_operations_are_decided(void)
{
	static struct long_history t;
	uint32_t pending = 0;
	struct far_rng r;
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	far_rng_seed(&r, 4);
	for (int n = 0; n < 2000 && test_failures == 0; n++) {
		struct state s = { 0, 0 };

		memset(&t, 0, sizeof(t));
		t.h = (struct lin_history){ t.ops, t.events, 0, 0 };
		for (uint32_t step = 0; step < LIN_KEY_OPS; step++)
			long_history_step(&t, step, &s, &r);
		for (uint32_t o = 0; o < LIN_KEY_OPS; o++) {
			if (t.open[o].op < 0)
				continue;
			pending++;
			t.ops[o].pending = true;
			t.ops[o].result = 0;
			t.ops[o].value = 0;
		}
		CHECK_EQ(lin_check(l, &t.h, NULL), 1);
	}
	printf("# %u pending\n", pending);
	CHECK(pending > 2000 * 4);
	lin_free(l);
}

TEST_MAIN(TEST(test_lin_random_histories_agree_with_brute_force),
	  TEST(test_lin_good_serial_histories_with_one_wrong_result_are_rejected),
	  TEST(test_lin_good_histories_with_one_wrong_result_are_rejected),
	  TEST(test_lin_stale_read_is_found_and_names_key), TEST(test_lin_too_many_operations_is_an_error),
	  TEST(test_lin_long_histories_with_slow_and_pending_operations_are_decided))
