/* SPDX-License-Identifier: Apache-2.0 */
/* misfit.c -- why the nodes that a client names are not its pool, from their superblocks alone. */
#include "base/base.h"
#include "pool/client.h"

static bool
pool_same_id(const struct pool_super *a, const struct pool_super *b)
{
	return a->pool_id[0] == b->pool_id[0] && a->pool_id[1] == b->pool_id[1];
}

bool
pool_misfit_twice(const struct pool *p, struct pool_misfit *m)
{
	for (unsigned i = 1; i < p->nodes_n; i++) {
		for (unsigned k = 0; k < i; k++) {
			if (p->places[i].super.generation != p->places[k].super.generation)
				continue;
			*m = (struct pool_misfit){ .kind = POOL_TWICE, .place = i, .other = k };
			return true;
		}
	}
	return false;
}

/* The number of places is not the pool's number of nodes. */
static bool
pool_misfit_number(const struct pool *p, const struct pool_super *any, struct pool_misfit *m)
{
	FAR_ASSERT(pool_is_formed(any));
	m->nodes_n = any->nodes_n;
	if (any->nodes_n == p->nodes_n || any->nodes_n > POOL_NODES)
		return false;
	m->kind = any->nodes_n > p->nodes_n ? POOL_TOO_FEW : POOL_TOO_MANY;
	m->missing = (1u << any->nodes_n) - 1;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		const struct pool_super *s = &p->places[i].super;

		if (pool_is_formed(s) && s->node < any->nodes_n)
			m->missing &= ~(1u << s->node);
	}
	return true;
}

/* One place that is not what the pool has there. `any` is the superblock of one of its nodes. */
static bool
pool_misfit_place(const struct pool *p, unsigned i, const struct pool_super *any,
		  struct pool_misfit *m)
{
	const struct pool_super *s = &p->places[i].super;

	FAR_ASSERT(m->kind == POOL_FITS);
	m->place = i;
	m->other = s->node;
	if (pool_is_formed(s) && s->node != i)
		m->kind = POOL_OTHER_ORDER;
	else if (s->generation != any->generations[i])
		m->kind = POOL_EMPTY;
	return m->kind != POOL_FITS;
}

void
pool_misfit_find(const struct pool *p, struct pool_misfit *m)
{
	const struct pool_super *any = NULL;
	unsigned known = 0;

	FAR_ASSERT(p->nodes_n > 0 && p->nodes_n <= POOL_NODES);
	*m = (struct pool_misfit){ .kind = POOL_FITS };
	if (pool_misfit_twice(p, m))
		return;
	while (known < p->nodes_n && !pool_is_formed(&p->places[known].super))
		known++;
	if (known == p->nodes_n)
		return;
	any = &p->places[known].super;
	for (unsigned i = known + 1; i < p->nodes_n; i++) {
		const struct pool_super *s = &p->places[i].super;

		if (!pool_is_formed(s) || pool_same_id(s, any))
			continue;
		*m = (struct pool_misfit){ .kind = POOL_STRANGER, .place = i, .other = known };
		return;
	}
	if (pool_misfit_number(p, any, m))
		return;
	for (unsigned i = 0; i < p->nodes_n; i++) {
		if (pool_misfit_place(p, i, any, m))
			return;
	}
}
