/* SPDX-License-Identifier: Apache-2.0 */
/* lin_scan_test.c -- iterations that keep their promise, and such that break one part of it. */
#include "lab/lin_scan.h"

#include "base/base.h"
#include "base/rand.h"
#include "test.h"

enum { KEYS = 5,
       OPS = 60,
       SCANS = 8,
       CLIENTS = 3 };

/* Writes and deletes of several clients on some keys, and scans that run meanwhile. */
struct world {
	struct lin_op ops[OPS];
	uint32_t events[2 * OPS];
	struct lin_history h;
	struct lin_item items[SCANS][KEYS + 1];
	struct lin_scan scans[SCANS];
	uint32_t scans_n;
	/* By key: the moments at which its value changed, as places in events, and the values; 0: absent. */
	struct {
		uint32_t at[OPS], value[OPS], n;
	} life[KEYS];
};

static uint32_t
world_value(const struct world *w, uint32_t key, uint32_t at)
{
	uint32_t value = 0;

	for (uint32_t i = 0; i < w->life[key].n && w->life[key].at[i] <= at; i++)
		value = w->life[key].value[i];
	return value;
}

static void
world_happen(struct world *w, uint32_t i)
{
	struct lin_op *op = &w->ops[i];
	uint32_t *n = &w->life[op->key].n;

	if (op->kind == LIN_DELETE && !world_value(w, op->key, UINT32_MAX)) {
		op->result = -FAR_ENOENT;
		return;
	}
	op->version = op->kind == LIN_DELETE ? 0 : 1000 + i;
	w->life[op->key].at[*n] = w->h.events_n;
	w->life[op->key].value[*n] = op->kind == LIN_DELETE ? 0 : i + 1;
	*n += 1;
}

/* What a scan tells: of each key what it was at a random moment of the scan. */
static void
world_scan(struct world *w, struct far_rng *r)
{
	struct lin_scan *s = &w->scans[w->scans_n];
	uint32_t a = (uint32_t)far_rng_below(r, w->h.events_n + 1), b = (uint32_t)far_rng_below(r, w->h.events_n + 1);

	*s = (struct lin_scan){ w->items[w->scans_n], 0, a < b ? a : b, a < b ? b : a, true };
	for (uint32_t k = 0; k < KEYS; k++) {
		uint32_t at = s->begin + (uint32_t)far_rng_below(r, s->end - s->begin + 1);
		uint32_t value = world_value(w, k, at);

		if (value)
			w->items[w->scans_n][s->items_n++] = (struct lin_item){ k, value, w->ops[value - 1].version };
	}
	w->scans_n++;
}

static void
world_draw(struct world *w, struct far_rng *r)
{
	int at[CLIENTS] = { -1, -1, -1 };
	bool happened[CLIENTS] = { false };

	memset(w, 0, sizeof(*w));
	w->h = (struct lin_history){ w->ops, w->events, 0, 0 };
	for (int steps = 0; steps < 4 * OPS; steps++) {
		uint32_t c = (uint32_t)far_rng_below(r, CLIENTS);

		if (at[c] < 0) {
			if (w->h.ops_n == OPS)
				continue;
			at[c] = (int)w->h.ops_n++;
			w->ops[at[c]] = (struct lin_op){ .kind = far_rng_below(r, 3) ? LIN_UPSERT : LIN_DELETE,
							 .client = (uint16_t)c,
							 .key = (uint32_t)far_rng_below(r, KEYS) };
			happened[c] = false;
			w->events[w->h.events_n++] = LIN_CALL(at[c]);
		} else if (!happened[c]) {
			world_happen(w, (uint32_t)at[c]);
			happened[c] = true;
		} else {
			w->events[w->h.events_n++] = LIN_RETURN(at[c]);
			at[c] = -1;
		}
	}
	for (uint32_t c = 0; c < CLIENTS; c++) {
		if (at[c] < 0)
			continue;
		w->ops[at[c]].pending = true;
		w->ops[at[c]].version = 0;
	}
	while (w->scans_n < SCANS)
		world_scan(w, r);
}

static void
test_scans_of_what_was_at_some_moment_are_good(void)
{
	static struct world w;
	struct far_rng r;
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	far_rng_seed(&r, 1);
	for (int i = 0; i < 2000 && !test_failures; i++) {
		world_draw(&w, &r);
		/* A version that only scans have seen is that of the value. */
		for (uint32_t s = 0; s < w.scans_n; s++)
			for (uint32_t k = 0; k < w.scans[s].items_n; k++)
				w.items[s][k].version = 1000 + w.items[s][k].value - 1;
		CHECK_EQ(lin_scan_check(l, &w.h, w.scans, w.scans_n, NULL), LIN_SCAN_GOOD);
	}
	lin_free(l);
}

/* A table with the keys 0 to 2, and one that was deleted; then a scan, with a write of key 1 in it and one behind. */
static void
world_small(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->h = (struct lin_history){ w->ops, w->events, 7, 0 };
	for (uint32_t i = 0; i < 7; i++) {
		w->ops[i] = (struct lin_op){ .kind = LIN_UPSERT, .key = i, .version = 10 + i };
		if (i == 4)
			w->ops[i] = (struct lin_op){ .kind = LIN_DELETE, .key = 3 };
		if (i >= 5)
			w->ops[i].key = 1;
		w->events[w->h.events_n++] = LIN_CALL(i);
		w->events[w->h.events_n++] = LIN_RETURN(i);
	}
	w->scans[0] = (struct lin_scan){ w->items[0], 3, 10, 12, true };
	w->scans_n = 1;
	for (uint32_t k = 0; k < 3; k++)
		w->items[0][k] = (struct lin_item){ k, k + 1, 10 + k };
}

static void
test_scan_that_breaks_the_promise_is_found_with_its_key(void)
{
	struct world w;
	uint32_t key = 99;
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	world_small(&w);
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_GOOD);
	/* S3: the value before and the one written meanwhile are good; the one of later is not, nor one of nobody, with
	 * another version, or of another key. */
	w.items[0][1] = (struct lin_item){ 1, 6, 15 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_GOOD);
	w.items[0][1] = (struct lin_item){ 1, 7, 16 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	CHECK_EQ(key, 1);
	w.items[0][1] = (struct lin_item){ 1, 0, 15 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	w.items[0][1] = (struct lin_item){ 1, 6, 11 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	w.items[0][1] = (struct lin_item){ 1, 1, 10 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	/* S1: key 2 was there all the time. */
	world_small(&w);
	w.scans[0].items_n = 2;
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	CHECK_EQ(key, 2);
	w.scans[0].whole = false;
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_GOOD);
	/* But key 3 may be missing when the delete is not over before the scan begins, and may come. */
	world_small(&w);
	w.scans[0].begin = 9;
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_GOOD);
	w.items[0][w.scans[0].items_n++] = (struct lin_item){ 3, 4, 13 };
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_GOOD);
	/* S2: and must not when it was over. */
	w.scans[0].begin = 10;
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_BAD);
	CHECK_EQ(key, 3);
	/* S4 */
	world_small(&w);
	w.items[0][w.scans[0].items_n++] = w.items[0][0];
	CHECK_EQ(lin_scan_check(l, &w.h, w.scans, 1, &key), LIN_SCAN_TWICE);
	CHECK_EQ(key, 0);
	/* Without any scan it is about the operations alone. */
	CHECK_EQ(lin_scan_check(l, &w.h, NULL, 0, &key), LIN_SCAN_GOOD);
	w.ops[4].result = -FAR_ENOENT;
	CHECK_EQ(lin_scan_check(l, &w.h, NULL, 0, &key), LIN_SCAN_BAD);
	lin_free(l);
}

/* Two scans, one after the other while a write is under way, and the second tells the older value. */
static void
test_scans_that_go_back_in_time_are_found(void)
{
	struct lin_item new = { 0, 2, 11 }, old = { 0, 1, 10 };
	struct lin_op ops[] = {
		{ .kind = LIN_UPSERT, .version = 10 },
		{ .kind = LIN_UPSERT, .version = 11 },
		{ .kind = LIN_CONTAINS, .key = 1, .result = -FAR_ENOENT },
	};
	uint32_t events[] = { LIN_CALL(0), LIN_RETURN(0), LIN_CALL(1), LIN_CALL(2), LIN_RETURN(2), LIN_RETURN(1) };
	struct lin_history h = { ops, events, 3, 6 };
	struct lin_scan scans[] = { { &old, 1, 3, 4, true }, { &new, 1, 5, 5, true } };
	struct lin *l;

	REQUIRE(lin_new(&l) == 0);
	CHECK_EQ(lin_scan_check(l, &h, scans, 2, NULL), LIN_SCAN_GOOD);
	scans[0].items = &new;
	scans[1].items = &old;
	CHECK_EQ(lin_scan_check(l, &h, scans, 2, NULL), LIN_SCAN_BAD);
	CHECK_EQ(lin_scan_check(l, &h, scans, 1, NULL), LIN_SCAN_GOOD);
	CHECK_EQ(lin_scan_check(l, &h, scans + 1, 1, NULL), LIN_SCAN_GOOD);
	lin_free(l);
}

/* As many operations on a key as the checker bears, less one: each scan is looked at by itself. */
static void
test_scans_of_a_long_history_are_looked_at_in_groups(void)
{
	static struct lin_op ops[LIN_KEY_OPS];
	static uint32_t events[2 * LIN_KEY_OPS];
	struct lin_history h = { ops, events, LIN_KEY_OPS - 1, 2 * (LIN_KEY_OPS - 1) };
	struct lin_item last = { 0, LIN_KEY_OPS - 1, LIN_KEY_OPS - 1 };
	struct lin_scan scans[5];
	struct lin *l;

	for (uint32_t i = 0; i < LIN_KEY_OPS; i++) {
		ops[i] = (struct lin_op){ .kind = LIN_UPSERT, .version = i + 1 };
		events[2 * i] = LIN_CALL(i);
		events[2 * i + 1] = LIN_RETURN(i);
	}
	for (unsigned i = 0; i < 5; i++)
		scans[i] = (struct lin_scan){ &last, 1, h.events_n, h.events_n, true };
	REQUIRE(lin_new(&l) == 0);
	CHECK_EQ(lin_scan_check(l, &h, scans, 5, NULL), LIN_SCAN_GOOD);
	scans[4].begin = 0;
	scans[4].end = h.events_n - 2;
	CHECK_EQ(lin_scan_check(l, &h, scans, 5, NULL), LIN_SCAN_BAD);
	h.ops_n = LIN_KEY_OPS;
	h.events_n = 2 * h.ops_n;
	CHECK_EQ(lin_scan_check(l, &h, scans, 5, NULL), -FAR_EINVAL);
	ops[0].key = LIN_KEYS;
	CHECK_EQ(lin_scan_check(l, &h, scans, 1, NULL), -FAR_EINVAL);
	lin_free(l);
}

TEST_MAIN(TEST(test_scans_of_what_was_at_some_moment_are_good),
	  TEST(test_scan_that_breaks_the_promise_is_found_with_its_key),
	  TEST(test_scans_that_go_back_in_time_are_found), TEST(test_scans_of_a_long_history_are_looked_at_in_groups))
