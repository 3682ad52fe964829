/* SPDX-License-Identifier: Apache-2.0 */
/* coord_sim.c -- leases in memory. One loop runs all its users, and no call yields: each is atomic. */
#include <string.h>

#include "base/base.h"
#include "pool/coord.h"

struct coord_entry {
	char name[COORD_NAME_MAX + 1];
	struct coord_record record;
	struct coord_entry *next;
};

struct coord_store {
	struct coord_entry *entries;
};

struct coord_sim {
	struct coord base;
	struct coord_store *store;
};

struct coord_store *
coord_store_new(void)
{
	return calloc(1, sizeof(struct coord_store));
}

void
coord_store_free(struct coord_store *s)
{
	struct coord_entry *next;

	if (s == NULL)
		return;
	for (struct coord_entry *e = s->entries; e; e = next) {
		next = e->next;
		free(e);
	}
	free(s);
}

static struct coord_entry *
coord_entry_find(struct coord *c, const char *name)
{
	struct coord_entry *e = FAR_CONTAINER(c, struct coord_sim, base)->store->entries;

	while (e && strcmp(e->name, name) != 0)
		e = e->next;
	return e;
}

static int
coord_sim_begin(struct coord *c, const char *name, struct coord_record *r)
{
	const struct coord_entry *e = coord_entry_find(c, name);

	*r = e ? e->record : (struct coord_record){ 0 };
	return 0;
}

static int
coord_sim_end(struct coord *c, const char *name, const struct coord_record *r)
{
	struct coord_store *s = FAR_CONTAINER(c, struct coord_sim, base)->store;
	struct coord_entry *e = coord_entry_find(c, name);

	if (r == NULL)
		return 0;
	if (e == NULL) {
		if ((e = calloc(1, sizeof(*e))) == NULL)
			return -FAR_ENOMEM;
		FAR_ASSERT(strlen(name) <= COORD_NAME_MAX);
		memcpy(e->name, name, strlen(name));
		e->next = s->entries;
		s->entries = e;
	}
	e->record = *r;
	return 0;
}

static void
coord_sim_close(struct coord *c)
{
	free(FAR_CONTAINER(c, struct coord_sim, base));
}

static const struct coord_ops coord_sim_ops = {
	.begin = coord_sim_begin,
	.end = coord_sim_end,
	.close = coord_sim_close,
};

int
coord_sim_open(struct coord_store *s, const struct far_clock *clock, struct coord **out)
{
	struct coord_sim *sim = calloc(1, sizeof(*sim));

	if (sim == NULL)
		return -FAR_ENOMEM;
	sim->base.ops = &coord_sim_ops;
	sim->base.clock = *clock;
	sim->store = s;
	*out = &sim->base;
	return 0;
}
