/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin_scan.c -- iterations as lookups.
 *
 * A key has a bounded number of operations, so the scans are looked at in groups, in their order: each group together
 * with all operations.
 */
#include "lab/lin_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* A history under construction: that of the caller, and lookups. */
struct lin_scan_copy {
	struct lin_history h;
	struct lin_op *ops;
	uint32_t *events;
	uint32_t ops_n, events_n;
};

/* The scan's lookup of each key of `keys`. */
static void
lin_scan_add(struct lin_scan_copy *c, const struct lin_scan *s, uint64_t keys)
{
	const struct lin_item *of[LIN_KEYS] = { NULL };

	for (uint32_t i = 0; i < s->items_n; i++)
		if (s->items[i].key < LIN_KEYS)
			of[s->items[i].key] = &s->items[i];
	for (; keys; keys &= keys - 1) {
		uint32_t key = (uint32_t)__builtin_ctzll(keys);

		if (!of[key] && !s->whole)
			continue;
		c->ops[c->ops_n++] = (struct lin_op){
			.kind = LIN_GET,
			.key = key,
			.result = of[key] ? 0 : -FAR_ENOENT,
			.value = of[key] ? of[key]->value : 0,
			.version = of[key] ? of[key]->version : 0,
		};
	}
}

/* Puts the lookups' calls and returns among the events. At one place all calls come before all returns. */
static void
lin_scan_weave(struct lin_scan_copy *c, const struct lin_history *h,
	       const struct lin_scan *scans, uint32_t n, const uint32_t *first)
{
	for (uint32_t at = 0; at <= h->events_n; at++) {
		for (uint32_t s = 0; s < n; s++)
			for (uint32_t i = first[s]; scans[s].begin == at && i < first[s + 1]; i++)
				c->events[c->events_n++] = LIN_CALL(i);
		for (uint32_t s = 0; s < n; s++)
			for (uint32_t i = first[s]; scans[s].end == at && i < first[s + 1]; i++)
				c->events[c->events_n++] = LIN_RETURN(i);
		if (at < h->events_n)
			c->events[c->events_n++] = h->events[at];
	}
}

/* The history with the lookups of up to LIN_KEY_OPS scans. */
static int
lin_scan_group(struct lin *l, const struct lin_history *h, const struct lin_scan *scans,
	       uint32_t n, uint32_t *key)
{
	struct lin_scan_copy c = { 0 };
	uint32_t first[LIN_KEY_OPS + 1];
	uint64_t keys = 0;
	size_t ops_max;
	int ok = -FAR_ENOMEM;

	for (uint32_t i = 0; i < h->ops_n; i++)
		keys |= UINT64_C(1) << h->ops[i].key;
	ops_max = h->ops_n + (size_t)n * (size_t)__builtin_popcountll(keys);
	c.ops = malloc((ops_max + 1) * sizeof(*c.ops));
	c.events = malloc((2 * ops_max + 1) * sizeof(*c.events));
	if (c.ops && c.events) {
		memcpy(c.ops, h->ops, h->ops_n * sizeof(*c.ops));
		c.ops_n = h->ops_n;
		for (uint32_t s = 0; s < n; s++) {
			first[s] = c.ops_n;
			lin_scan_add(&c, &scans[s], keys);
		}
		first[n] = c.ops_n;
		lin_scan_weave(&c, h, scans, n, first);
		c.h = (struct lin_history){ c.ops, c.events, c.ops_n, c.events_n };
		ok = lin_check(l, &c.h, key);
	}
	free(c.ops);
	free(c.events);
	return ok;
}

static bool
lin_scan_repeats(const struct lin_scan *s, uint32_t *key)
{
	uint64_t seen = 0;

	for (uint32_t i = 0; i < s->items_n; i++) {
		uint64_t bit = UINT64_C(1) << s->items[i].key % LIN_KEYS;

		if (s->items[i].key >= LIN_KEYS)
			continue;
		if (!(seen & bit)) {
			seen |= bit;
			continue;
		}
		if (key)
			*key = s->items[i].key;
		return true;
	}
	return false;
}

int
lin_scan_check(struct lin *l, const struct lin_history *h, const struct lin_scan *scans,
	       uint32_t scans_n, uint32_t *key)
{
	uint32_t ops_n[LIN_KEYS] = { 0 }, most = 0, room;
	int ok = 1;

	for (uint32_t i = 0; i < h->ops_n; i++) {
		if (h->ops[i].key >= LIN_KEYS)
			return -FAR_EINVAL;
		most = (uint32_t)far_max(most, ++ops_n[h->ops[i].key]);
	}
	if (most > LIN_KEY_OPS || (most == LIN_KEY_OPS && scans_n > 0))
		return -FAR_EINVAL;
	if (scans_n == 0)
		return lin_check(l, h, key);
	room = LIN_KEY_OPS - most;
	for (uint32_t s = 0; s < scans_n; s++)
		if (lin_scan_repeats(&scans[s], key))
			return LIN_SCAN_TWICE;
	for (uint32_t s = 0; s < scans_n && ok == 1; s += room)
		ok = lin_scan_group(l, h, scans + s, (uint32_t)far_min(room, scans_n - s), key);
	return ok;
}
