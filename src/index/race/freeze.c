/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c -- setting the frozen mark in words that others may be changing by CAS.
 *
 * A word with the mark never changes again (R3, D2): whoever wants to change it finds that its CAS fails. So the words
 * that the freezer has at the end are the last ones.
 */
#include "base/base.h"
#include "index/race/race.h"

/* Of freezing: each word that is lost to another's CAS means that the other made progress. */
enum { RACE_FREEZE_ROUNDS = 64 };

/* Is word `i` to be frozen still? */
static bool
race_freeze_todo(const struct race_freeze *f, uint64_t i)
{
	if (!f->words[i] && far_zoo(f->zoo, ZOO_SPLIT_SKIPS_EMPTY))
		return false;
	return !(f->words[i] & f->mark) && !(f->headers && race_is_header(i));
}

/* CASes the mark into the words [at, end) that lack it, once; returns how many still do, or an error. */
static int
race_freeze_batch(const struct race_freeze *f, struct far_task *t, uint64_t at, uint64_t end)
{
	uint64_t old[RACE_BATCH];
	int err, todo = 0;

	FAR_ASSERT(at < end && end <= f->n && end - at <= RACE_BATCH);
	for (uint64_t i = at; i < end; i++) {
		if (race_freeze_todo(f, i))
			far_cas(t, far_addr_add(f->at, i * 8), f->words[i], f->words[i] | f->mark,
				&old[i - at]);
	}
	if ((err = far_wait(t)) != 0)
		return err;
	for (uint64_t i = at; i < end; i++) {
		if (!race_freeze_todo(f, i))
			continue;
		/* Lost: the word that won is the one to freeze, unless it came frozen. */
		f->words[i] = old[i - at] == f->words[i] ? f->words[i] | f->mark : old[i - at];
		todo += race_freeze_todo(f, i);
	}
	return todo;
}

int
race_freeze(const struct race_freeze *f, struct far_task *t)
{
	uint64_t todo = 1;

	FAR_ASSERT(f->mark && (f->mark & (f->mark - 1)) == 0);
	FAR_ASSERT(f->words && f->n);
	for (int round = 0; todo; round++) {
		if (round == RACE_FREEZE_ROUNDS)
			return -FAR_ECONTENDED;
		todo = 0;
		for (uint64_t at = 0; at < f->n; at += RACE_BATCH) {
			int got = race_freeze_batch(f, t, at, far_min(f->n, at + RACE_BATCH));

			if (got < 0)
				return got;
			todo += (uint64_t)got;
		}
	}
	return 0;
}
