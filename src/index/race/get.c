/* SPDX-License-Identifier: Apache-2.0 */
/* get.c -- lookup (paper, section 4.2): 2 round trips for a hit, 1 for a miss. */
#include "base/base.h"
#include "index/race/race.h"

/* The fate of the view's subtable, when the view needs it: far_wait() brings it. */
static void
race_note_fate(struct far_task *t, const struct race_view *v, uint64_t *fate)
{
	*fate = 0;
	if (race_view_frozen(v))
		far_read(t, v->subtable, fate, sizeof(*fate));
}

int
race_get(struct far_index *ix, struct far_task *t, struct far_bytes key, struct far_value *value)
{
	struct race *r = race_of(ix);
	struct backoff b = { .off = r->no_backoff };
	uint64_t hash = race_hash(r, key), fate;
	struct race_matches m;
	struct race_match *hit;
	struct race_view v;
	unsigned looks = 0;
	int err, found;

	FAR_ASSERT(pool_is_inside(t) && key.len);
	for (;;) {
		/* 1. Read both bucket pairs. */
		if ((err = race_lookup(r, t, hash, &v)) != 0)
			return err;
		/* 2. Read every block that has our fingerprint; and the fate, when a slot is frozen (R4). */
		race_view_match(&v, far_zoo(r->zoo, ZOO_GET_TENTATIVE), &m);
		race_note_fate(t, &v, &fate);
		if ((found = race_find(r, t, &m, key, &hit)) < 0)
			return found;
		/* 3. Split since? What we saw is history. */
		if (RACE_FATE_KIND(fate) >= RACE_FATE_DECIDED &&
		    !far_zoo(r->zoo, ZOO_GET_NO_FATE)) {
			/* Counted as a retry before it costs a round trip. */
			if ((err = backoff_wait(t, &b)) != 0 || (err = race_follow(r, t, &v)) != 0)
				return err;
			continue;
		}
		/* 4. The key's block, or none. */
		if (found == RACE_DONE)
			break;
		if ((err = race_damaged(r, t, &b, &looks)) != 0)
			return err;
	}
	if (!hit)
		return -FAR_ENOENT;
	FAR_ASSERT(hit >= m.at && hit < m.at + m.n);
	value->bytes = block_value(hit->block);
	value->version = hit->block->version;
	return 0;
}
