/* SPDX-License-Identifier: Apache-2.0 */
/* met.c -- see met.h. */
#include "lab/met.h"

#include <string.h>

#include "base/base.h"

#define MET_ADDR (((uint64_t)1 << 46) - 1)

enum { MET_MIN = 1024 };

static uint64_t *
met_place(const struct met *m, uint64_t word)
{
	uint64_t i = far_mix64(word) & m->mask;

	while (m->words[i] && m->words[i] != word)
		i = (i + 1) & m->mask;
	return &m->words[i];
}

static void
met_grow(struct met *m)
{
	struct met more = { .mask = m->words ? 2 * m->mask + 1 : MET_MIN - 1 };

	more.words = calloc(more.mask + 1, sizeof(*more.words));
	if (!more.words) {
		m->full = true;
		return;
	}
	for (uint64_t i = 0; m->words && i <= m->mask; i++) {
		if (m->words[i])
			*met_place(&more, m->words[i]) = m->words[i];
	}
	free(m->words);
	m->words = more.words;
	m->mask = more.mask;
}

static void
met_add_one(struct met *m, uint64_t word)
{
	uint64_t *at;

	if (!word || m->full)
		return;
	if (!m->words || 2 * m->n > m->mask) {
		met_grow(m);
		if (m->full)
			return;
	}
	at = met_place(m, word);
	m->n += !*at;
	*at = word;
}

static void
met_add(struct met *m, const void *buf, uint64_t len)
{
	for (uint64_t at = 0; at + 8 <= len; at += 8) {
		uint64_t word;

		memcpy(&word, (const char *)buf + at, 8);
		met_add_one(m, word);
		met_add_one(m, word & MET_ADDR);
	}
}

static bool
met_knows(const struct met *m, uint64_t word)
{
	uint64_t addr = word & MET_ADDR;

	if (!word || m->full)
		return true;
	return m->words && (*met_place(m, word) || (addr && *met_place(m, addr)));
}

static void
met_before(struct far_hook *hook, struct far_chain *c)
{
	struct met *m = FAR_CONTAINER(hook, struct met, hook);

	for (const struct far_op *op = c->first; op; op = op->next) {
		if (op->code == FAR_OP_WRITE)
			met_add(m, op->buf, op->len);
		if (op->code != FAR_OP_CAS)
			continue;
		if (!met_knows(m, op->expect)) {
			m->guesses++;
			m->guess = op->expect;
		}
		met_add(m, &op->desired, 8);
	}
}

static void
met_after(struct far_hook *hook, struct far_chain *c)
{
	struct met *m = FAR_CONTAINER(hook, struct met, hook);

	for (const struct far_op *op = c->first; op; op = op->next) {
		if (op->code == FAR_OP_READ || op->code == FAR_OP_CAS || op->code == FAR_OP_FAA)
			met_add(m, op->buf, op->len);
		if (op->code == FAR_OP_FAA) {
			uint64_t now;

			memcpy(&now, op->buf, 8);
			now += op->addend;
			met_add(m, &now, 8);
		}
	}
}

void
met_init(struct met *m)
{
	*m = (struct met){ .hook = { .before = met_before, .after = met_after } };
}

void
met_fini(struct met *m)
{
	free(m->words);
	m->words = NULL;
}
