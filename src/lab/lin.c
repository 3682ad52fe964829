/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin.c -- the search.
 *
 * Each key's calls and returns form a list in time order. The candidates are the calls before the first return. The
 * search takes a candidate that fits the state, lifts it and its return out of the list, and starts over; when none
 * fits, it takes the last one back. Two things keep it short. A candidate that fits and changes nothing, such as a
 * lookup, is taken at once, and nothing else is tried in its stead: if there is an order in which it comes later,
 * there is one in which it comes now. The others are tried in the order of their returns, pending ones last: an
 * operation that has time is taken when one that has none needs it, not long before, where everything in between
 * would have to be taken back to find out.
 *
 * A configuration is the set of operations taken and the state; one that was seen before cannot help. They are noted
 * from the first step back on: before that none comes twice, and most histories need no step back.
 *
 * A state is a value (0: absent). Its version is a matter of the value: what its writer or any reader reported.
 */
#include "lab/lin.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { LIN_SEEN_MAX = 1 << 20 };

/* A configuration that was visited, while `round` is the current one. */
struct lin_seen {
	uint64_t set[2];
	uint32_t state, round;
};

struct lin {
	const struct lin_history *h;
	uint64_t *versions;       /* by value - 1; 0: nobody reported it */
	uint32_t *returns;        /* by operation: its return event, 0: pending */
	uint32_t *bits;           /* by operation: its place in the set */
	uint32_t *next, *prev;    /* by event + 1; 0 is the list's head */
	uint32_t ops_max, events_max;

	struct lin_seen *seen;
	uint32_t seen_n, seen_max, round;

	uint64_t set[2];
	uint32_t state;
	bool back;                /* it took one back */
	uint32_t left;            /* operations with a return that are not taken */
	struct {
		uint32_t event, state;
		bool chosen; /* there were others */
	} taken[LIN_KEY_OPS];
	uint32_t taken_n;
};

const char *
lin_kind_name(unsigned kind)
{
	static const char *const names[LIN_KINDS] = {
		"get", "insert", "update", "upsert", "delete", "update_if", "delete_if", "contains"
	};

	return kind < LIN_KINDS ? names[kind] : "?";
}

int
lin_new(struct lin **out)
{
	struct lin *l = calloc(1, sizeof(*l));

	if (!l)
		return -FAR_ENOMEM;
	l->seen_max = 64;
	l->seen = calloc(l->seen_max, sizeof(*l->seen));
	if (!l->seen) {
		free(l);
		return -FAR_ENOMEM;
	}
	*out = l;
	return 0;
}

void
lin_free(struct lin *l)
{
	if (!l)
		return;
	free(l->versions);
	free(l->returns);
	free(l->bits);
	free(l->next);
	free(l->prev);
	free(l->seen);
	free(l);
}

/* Room for the history's operations and events. */
static int
lin_reserve(struct lin *l, uint32_t ops, uint32_t events)
{
	if (ops > l->ops_max) {
		l->ops_max = ops * 2;
		free(l->versions);
		free(l->returns);
		free(l->bits);
		l->versions = malloc(l->ops_max * sizeof(*l->versions));
		l->returns = malloc(l->ops_max * sizeof(*l->returns));
		l->bits = malloc(l->ops_max * sizeof(*l->bits));
	}
	if (events > l->events_max) {
		l->events_max = events * 2;
		free(l->next);
		free(l->prev);
		l->next = malloc((l->events_max + 1) * sizeof(*l->next));
		l->prev = malloc((l->events_max + 1) * sizeof(*l->prev));
	}
	if ((ops && (!l->versions || !l->returns || !l->bits)) ||
	    (events && (!l->next || !l->prev))) {
		l->ops_max = l->events_max = 0;
		return -FAR_ENOMEM;
	}
	return 0;
}

/* Visited before? Else it is now. 1, 0 or -FAR_E. */
static int
lin_see(struct lin *l)
{
	uint32_t state = l->state;
	uint64_t hash = far_mix64(l->set[0] ^ far_mix64(l->set[1] ^ (uint64_t)state << 32));
	struct lin_seen *s;

	if (l->seen_n * 2 >= l->seen_max) {
		struct lin_seen *old = l->seen, *end = old + l->seen_max;

		if (l->seen_n >= LIN_SEEN_MAX)
			return -FAR_ETIMEOUT;
		l->seen = calloc(l->seen_max * 2, sizeof(*l->seen));
		if (!l->seen) {
			l->seen = old;
			return -FAR_ENOMEM;
		}
		l->seen_max *= 2;
		for (s = old; s < end; s++) {
			uint64_t at = far_mix64(s->set[0] ^
						far_mix64(s->set[1] ^ (uint64_t)s->state << 32));

			if (s->round != l->round)
				continue;
			while (l->seen[at & (l->seen_max - 1)].round)
				at++;
			l->seen[at & (l->seen_max - 1)] = *s;
		}
		free(old);
	}
	for (;; hash++) {
		s = &l->seen[hash & (l->seen_max - 1)];
		if (s->round != l->round)
			break;
		if (s->set[0] == l->set[0] && s->set[1] == l->set[1] && s->state == state)
			return 1;
	}
	*s = (struct lin_seen){ { l->set[0], l->set[1] }, state, l->round };
	l->seen_n++;
	return 0;
}

/* May operation `i` happen in this state, with the result it had? *state becomes the one after it. */
static bool
lin_apply(const struct lin *l, uint32_t i, uint32_t *state)
{
	const struct lin_op *op = &l->h->ops[i];
	uint32_t before = *state;
	bool is_if = op->kind == LIN_UPDATE_IF || op->kind == LIN_DELETE_IF;
	bool is_delete = op->kind == LIN_DELETE || op->kind == LIN_DELETE_IF;
	int result = 0;

	/* What must come out, */
	if (op->kind == LIN_INSERT)
		result = before ? -FAR_EEXIST : 0;
	else if (op->kind != LIN_UPSERT && before == 0)
		result = -FAR_ENOENT;
	else if (is_if && l->versions[before - 1] != op->expect)
		result = -FAR_ECHANGED;
	/* and what changes. */
	if (result == 0 && op->kind != LIN_GET && op->kind != LIN_CONTAINS)
		*state = is_delete ? 0 : i + 1;
	if (op->pending)
		return *state != before;
	if (op->kind == LIN_GET && result == 0 && op->value != before)
		return false;
	return op->result == result;
}

static void
lin_unlink(struct lin *l, uint32_t event)
{
	l->next[l->prev[event]] = l->next[event];
	if (l->next[event])
		l->prev[l->next[event]] = l->prev[event];
}

static void
lin_relink(struct lin *l, uint32_t event)
{
	l->next[l->prev[event]] = event;
	if (l->next[event])
		l->prev[l->next[event]] = event;
}

static inline uint32_t
lin_op_of(const struct lin *l, uint32_t event)
{
	return l->h->events[event - 1] >> 1;
}

static void
lin_take(struct lin *l, uint32_t event, uint32_t state, bool chosen)
{
	uint32_t op = lin_op_of(l, event);

	l->taken[l->taken_n].event = event;
	l->taken[l->taken_n].chosen = chosen;
	l->taken[l->taken_n++].state = l->state;
	l->state = state;
	l->set[l->bits[op] / 64] ^= UINT64_C(1) << l->bits[op] % 64;
	lin_unlink(l, event);
	if (l->returns[op]) {
		lin_unlink(l, l->returns[op]);
		l->left--;
	}
}

/* Takes the last one back. */
static void
lin_untake(struct lin *l)
{
	uint32_t event = l->taken[--l->taken_n].event, op = lin_op_of(l, event);

	l->state = l->taken[l->taken_n].state;
	l->set[l->bits[op] / 64] ^= UINT64_C(1) << l->bits[op] % 64;
	if (l->returns[op]) {
		lin_relink(l, l->returns[op]);
		l->left++;
	}
	lin_relink(l, event);
}

/* When the call's turn comes among the candidates; pending ones' after all others'. */
static inline uint32_t
lin_rank(const struct lin *l, uint32_t event)
{
	uint32_t returns = l->returns[lin_op_of(l, event)];

	return returns ? returns : l->h->events_n + event;
}

/* The next candidate after the one of that rank (0: before all); 0: there is none. */
static uint32_t
lin_candidate(const struct lin *l, uint32_t rank)
{
	uint32_t best = 0, best_rank = UINT32_MAX;

	for (uint32_t e = l->next[0]; e && !(l->h->events[e - 1] & 1); e = l->next[e]) {
		uint32_t r = lin_rank(l, e);

		if (r > rank && r < best_rank) {
			best = e;
			best_rank = r;
		}
	}
	return best;
}

/* Takes all candidates that fit and change nothing. */
static void
lin_take_idle(struct lin *l)
{
	uint32_t e = l->next[0];

	while (e && !(l->h->events[e - 1] & 1)) {
		uint32_t state = l->state;

		if (!lin_apply(l, lin_op_of(l, e), &state) || state != l->state) {
			e = l->next[e];
			continue;
		}
		lin_take(l, e, state, false);
		/* That return may have been the first one. */
		e = l->next[0];
	}
}

/* Back to the last choice; the rank of what was chosen. 0: there is none. */
static uint32_t
lin_back(struct lin *l)
{
	while (l->taken_n > 0) {
		lin_untake(l);
		if (l->taken[l->taken_n].chosen)
			return lin_rank(l, l->taken[l->taken_n].event);
	}
	return 0;
}

static int
lin_search(struct lin *l)
{
	uint32_t rank = 0;

	for (;;) {
		uint32_t event, state;
		int seen = 0;

		if (rank == 0)
			lin_take_idle(l);
		if (l->left == 0)
			return 1;
		state = l->state;
		event = lin_candidate(l, rank);
		if (!event) {
			l->back = true;
			if ((rank = lin_back(l)) == 0)
				return 0;
			continue;
		}
		rank = lin_rank(l, event);
		if (!lin_apply(l, lin_op_of(l, event), &state))
			continue;
		lin_take(l, event, state, true);
		if (l->back && (seen = lin_see(l)) < 0)
			return seen;
		if (seen)
			lin_untake(l);
		else
			rank = 0;
	}
}

/* Lists the key's events. Returns the number of its operations. */
static uint32_t
lin_list(struct lin *l, uint32_t key)
{
	const struct lin_history *h = l->h;
	uint32_t last = 0, n = 0;

	l->left = 0;
	for (uint32_t e = 1; e <= h->events_n; e++) {
		uint32_t op = h->events[e - 1] >> 1;

		if (h->ops[op].key != key)
			continue;
		l->next[last] = e;
		l->prev[e] = last;
		last = e;
		if (!(h->events[e - 1] & 1)) {
			l->bits[op] = n++;
			l->left += l->returns[op] != 0;
		}
	}
	l->next[last] = 0;
	return n;
}

/* Collects returns and versions; finds values that nobody wrote and versions that do not fit. 1, 0 or -FAR_E. */
static int
lin_prepare(struct lin *l, uint64_t *keys, uint32_t *bad)
{
	const struct lin_history *h = l->h;

	memset(l->returns, 0, h->ops_n * sizeof(*l->returns));
	for (uint32_t e = 1; e <= h->events_n; e++)
		if (h->events[e - 1] & 1)
			l->returns[h->events[e - 1] >> 1] = e;
	for (uint32_t i = 0; i < h->ops_n; i++) {
		if (h->ops[i].key >= LIN_KEYS)
			return -FAR_EINVAL;
		*keys |= UINT64_C(1) << h->ops[i].key;
		l->versions[i] = h->ops[i].kind == LIN_GET ? 0 : h->ops[i].version;
	}
	for (uint32_t i = 0; i < h->ops_n; i++) {
		const struct lin_op *op = &h->ops[i];

		if (op->kind != LIN_GET || op->pending || op->result != 0)
			continue;
		*bad = op->key;
		if (op->value == 0 || op->value > h->ops_n || h->ops[op->value - 1].key != op->key)
			return 0;
		if (l->versions[op->value - 1] == 0)
			l->versions[op->value - 1] = op->version;
		if (l->versions[op->value - 1] != op->version)
			return 0;
	}
	return 1;
}

int
lin_check(struct lin *l, const struct lin_history *h, uint32_t *key)
{
	uint64_t keys = 0;
	uint32_t bad = 0;
	int ok;

	if ((ok = lin_reserve(l, h->ops_n, h->events_n)) != 0)
		return ok;
	l->h = h;
	ok = lin_prepare(l, &keys, &bad);
	for (; ok == 1 && keys; keys &= keys - 1) {
		bad = (uint32_t)__builtin_ctzll(keys);
		l->set[0] = l->set[1] = 0;
		l->state = l->taken_n = l->seen_n = 0;
		l->back = false;
		if (++l->round == 0) {
			memset(l->seen, 0, l->seen_max * sizeof(*l->seen));
			l->round = 1;
		}
		ok = lin_list(l, bad) > LIN_KEY_OPS ? -FAR_EINVAL : lin_search(l);
	}
	if (ok == 0 && key)
		*key = bad;
	return ok;
}
