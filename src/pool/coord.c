/* SPDX-License-Identifier: Apache-2.0 */
/* coord.c -- the rules of leases, over any storage of records. */
#include "pool/coord.h"

#include <string.h>

#include "base/base.h"
#include "pool/name.h"

/* When this observer first saw a record in its present state. */
struct coord_seen {
	char name[COORD_NAME_MAX + 1];
	uint64_t epoch, beat, since_ns;
	struct coord_seen *next;
};

static bool
coord_name_valid(const char *name)
{
	/* A file is named after it: none is hidden. */
	return name[0] != '.' && pool_name_is_good(name, COORD_NAME_MAX + 1);
}

/* Nanoseconds for which the record has been seen as it is. -FAR_ENOMEM. */
static int
coord_watch(struct coord *c, const char *name, const struct coord_record *r, uint64_t *silent_ns)
{
	uint64_t now = c->clock.now(c->clock.arg);
	struct coord_seen *s;

	FAR_ASSERT(coord_name_valid(name));
	for (s = c->seen; s && strcmp(s->name, name) != 0; s = s->next)
		;
	if (s == NULL) {
		if ((s = calloc(1, sizeof(*s))) == NULL)
			return -FAR_ENOMEM;
		memcpy(s->name, name, strlen(name));
		s->next = c->seen;
		c->seen = s;
	}
	if (s->epoch != r->epoch || s->beat != r->beat) {
		s->epoch = r->epoch;
		s->beat = r->beat;
		s->since_ns = now;
	}
	FAR_ASSERT(now >= s->since_ns);
	*silent_ns = now - s->since_ns;
	return 0;
}

/* Keeps the others out and reads the record; one that no acquire can have written is refused, whoever stored it. */
static int
coord_begin(struct coord *c, const char *name, struct coord_record *r)
{
	int err = c->ops->begin(c, name, r);

	FAR_ASSERT(coord_name_valid(name));
	if (err != 0)
		return err;
	/* No epoch follows the last one: it would be taken for the smallest. */
	if (r->epoch == 0 ? r->held != 0 : r->epoch == UINT64_MAX || !coord_name_valid(r->owner)) {
		c->ops->end(c, name, NULL);
		return -FAR_ECORRUPT;
	}
	return 0;
}

/* May `owner` take the lease? */
static int
coord_free_for(struct coord *c, const char *name, const struct coord_record *r, const char *owner)
{
	uint64_t silent_ns;
	int err;

	if (!r->held || strcmp(r->owner, owner) == 0)
		return 0;
	if ((err = coord_watch(c, name, r, &silent_ns)) != 0)
		return err;
	return silent_ns >= r->ttl_ns ? 0 : -FAR_EEXIST;
}

int
coord_acquire(struct coord *c, const char *name, const char *owner, uint64_t ttl_ns,
	      uint64_t *epoch)
{
	struct coord_record r;
	int err;

	if (!coord_name_valid(name) || !coord_name_valid(owner) || ttl_ns == 0)
		return -FAR_EINVAL;
	if ((err = coord_begin(c, name, &r)) != 0)
		return err;
	if ((err = coord_free_for(c, name, &r, owner)) != 0) {
		c->ops->end(c, name, NULL);
		return err;
	}
	r.epoch++;
	FAR_ASSERT(r.epoch > 0);
	r.beat = 0;
	r.ttl_ns = ttl_ns;
	r.held = 1;
	memset(r.owner, 0, sizeof(r.owner));
	memcpy(r.owner, owner, strlen(owner));
	if ((err = c->ops->end(c, name, &r)) == 0)
		*epoch = r.epoch;
	return err;
}

/* What renew and release share: changes the lease of `epoch` to `ttl_ns` (0: released). */
static int
coord_change(struct coord *c, const char *name, uint64_t epoch, uint64_t ttl_ns)
{
	struct coord_record r;
	int err;

	if (!coord_name_valid(name))
		return -FAR_EINVAL;
	if ((err = coord_begin(c, name, &r)) != 0)
		return err;
	if (!r.held || r.epoch != epoch) {
		c->ops->end(c, name, NULL);
		return -FAR_EFENCED;
	}
	r.beat++;
	r.held = ttl_ns != 0;
	r.ttl_ns = ttl_ns;
	return c->ops->end(c, name, &r);
}

int
coord_renew(struct coord *c, const char *name, uint64_t epoch, uint64_t ttl_ns)
{
	return ttl_ns == 0 ? -FAR_EINVAL : coord_change(c, name, epoch, ttl_ns);
}

int
coord_release(struct coord *c, const char *name, uint64_t epoch)
{
	return coord_change(c, name, epoch, 0);
}

int
coord_read(struct coord *c, const char *name, struct coord_lease *out)
{
	struct coord_record r;
	int err;

	if (!coord_name_valid(name))
		return -FAR_EINVAL;
	if ((err = coord_begin(c, name, &r)) != 0 || (err = c->ops->end(c, name, NULL)) != 0)
		return err;
	if (r.epoch == 0)
		return -FAR_ENOENT;
	memcpy(out->owner, r.owner, sizeof(out->owner));
	out->held = r.held != 0;
	out->epoch = r.epoch;
	out->ttl_ns = r.ttl_ns;
	return coord_watch(c, name, &r, &out->silent_ns);
}

void
coord_close(struct coord *c)
{
	struct coord_seen *next;

	if (c == NULL)
		return;
	for (struct coord_seen *s = c->seen; s; s = next) {
		next = s->next;
		free(s);
	}
	c->ops->close(c);
}
