/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_config.c -- names of a schedule's parameters: print, read, set. */
#include "lab/schedule_config.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <farside/error.h>

#include "base/base.h"
#include "base/zoo.h"
#include "fabric/sim.h"

#define FIELD(name) #name, offsetof(struct schedule_config, name)

static const struct {
	const char *name;
	size_t at;
	unsigned n;
} schedule_fields[] = {
	{ FIELD(seed), 1 },
	{ FIELD(plain), 1 },
	{ FIELD(audit), 1 },
	{ FIELD(met), 1 },
	{ FIELD(nodes), 1 },
	{ FIELD(clients), 1 },
	{ FIELD(fibers), 1 },
	{ FIELD(keys), 1 },
	{ FIELD(fresh), 1 },
	{ FIELD(fill), 1 },
	{ FIELD(present), 1 },
	{ FIELD(ops), SCHEDULE_CLIENTS },
	{ FIELD(scans), 1 },
	{ FIELD(value_min), 1 },
	{ FIELD(value_max), 1 },
	{ FIELD(hash), 1 },
	{ FIELD(no_backoff), 1 },
	{ FIELD(apart), 1 },
	{ FIELD(pace_ns), 1 },
	{ FIELD(tick_ns), 1 },
	{ FIELD(lease_ns), 1 },
	{ FIELD(deed), 1 },
	{ FIELD(former), 1 },
	{ FIELD(linger), 1 },
	{ FIELD(grow), 1 },
	{ FIELD(comebacks), 1 },
	{ FIELD(keep), 1 },
	{ FIELD(changes), 1 },
	{ FIELD(change_steps), 1 },
	{ FIELD(weak), 1 },
	{ FIELD(line), 1 },
	{ FIELD(relaxed), 1 },
	{ FIELD(gap), 1 },
	{ FIELD(late), 1 },
	{ FIELD(late_ns), 1 },
	{ FIELD(repeat), 1 },
	{ FIELD(victim), 1 },
	{ FIELD(fate), 1 },
	{ FIELD(fuse), 1 },
	{ FIELD(fate_ns), 1 },
	{ FIELD(strike), 1 },
	{ FIELD(second), 1 },
	{ FIELD(second_fuse), 1 },
	{ FIELD(second_strike), 1 },
	{ FIELD(breaker), 1 },
	{ FIELD(break_fuse), 1 },
	{ FIELD(break_ns), 1 },
	{ FIELD(freeze_at), SCHEDULE_CLIENTS },
	{ FIELD(freeze_ns), SCHEDULE_CLIENTS },
	{ FIELD(outage), 1 },
	{ FIELD(outage_at), 1 },
	{ FIELD(outage_ns), 1 },
	{ FIELD(outage_how), 1 },
	{ FIELD(refuse), 1 },
	{ FIELD(refuse_all), 1 },
	{ FIELD(zoo), 1 },
};

enum { SCHEDULE_LINE = 256 };

static const uint64_t *
schedule_field(const struct schedule_config *c, size_t i)
{
	return (const uint64_t *)((const char *)c + schedule_fields[i].at);
}

void
schedule_config_print(const struct schedule_config *c, FILE *out)
{
	for (size_t i = 0; i < FAR_LEN(schedule_fields); i++) {
		const uint64_t *v = schedule_field(c, i);
		uint64_t any = 0;

		for (unsigned k = 0; k < schedule_fields[i].n; k++)
			any |= v[k];
		if (!any)
			continue;
		fprintf(out, "%s", schedule_fields[i].name);
		for (unsigned k = 0; k < schedule_fields[i].n; k++)
			fprintf(out, " %" PRIu64, v[k]);
		fprintf(out, "\n");
	}
}

bool
schedule_config_set(struct schedule_config *c, const char *name, const char *values)
{
	size_t i = 0;
	uint64_t *v;
	char *end;

	while (i < FAR_LEN(schedule_fields) && strcmp(schedule_fields[i].name, name) != 0)
		i++;
	if (i == FAR_LEN(schedule_fields))
		return false;
	v = (uint64_t *)((char *)c + schedule_fields[i].at);
	for (unsigned k = 0; k < schedule_fields[i].n; k++) {
		values += strspn(values, " \t,");
		/* A client that is not named has none. */
		if (k > 0 && !*values) {
			v[k] = 0;
			continue;
		}
		errno = 0;
		v[k] = strtoull(values, &end, 0);
		if (end == values || errno || *values == '-')
			return false;
		values = end;
	}
	return values[strspn(values, " \t")] == 0;
}

int
schedule_config_read(struct schedule_config *c, FILE *in)
{
	char line[SCHEDULE_LINE];

	memset(c, 0, sizeof(*c));
	for (int n = 1; fgets(line, sizeof(line), in); n++) {
		char *values = line + strcspn(line, " \t\n");

		line[strcspn(line, "\n")] = 0;
		if (!line[0] || line[0] == '#')
			continue;
		if (!*values)
			return n;
		*values++ = 0;
		if (!schedule_config_set(c, line, values))
			return n;
	}
	return schedule_config_is_valid(c) ? 0 : -FAR_EINVAL;
}

uint64_t *
schedule_config_number(struct schedule_config *c, unsigned i)
{
	return i < sizeof(*c) / sizeof(uint64_t) ? (uint64_t *)c + i : NULL;
}

bool
schedule_config_is_valid(const struct schedule_config *c)
{
	for (unsigned i = 0; i < SCHEDULE_CLIENTS; i++)
		if (c->ops[i] > SCHEDULE_OPS)
			return false;
	if (c->nodes < 1 || c->nodes > SCHEDULE_NODES || c->clients < 1 ||
	    c->clients > SCHEDULE_CLIENTS || c->fibers < 1 || c->fibers > SCHEDULE_FIBERS)
		return false;
	if (c->keys < 1 || c->keys > SCHEDULE_KEYS || c->fresh > SCHEDULE_FRESH ||
	    c->fill > SCHEDULE_FILL || c->hash >= SCHEDULE_HASHES)
		return false;
	if (c->value_min < 8 || c->value_min > c->value_max || c->value_max > SCHEDULE_VALUE)
		return false;
	if (c->keep > 6 || (c->keep && c->changes) || (c->late | c->repeat) > UINT32_MAX)
		return false;
	if ((c->zoo && !ZOO_BUILT) || (c->apart && c->nodes == 1))
		return false;
	if (c->fate > FAR_SIM_BREAK || c->outage_how > FAR_SIM_NEVER || c->outage > c->nodes)
		return false;
	if (c->deed >= SCHEDULE_DEEDS || c->former >= SCHEDULE_FORMERS ||
	    (c->deed == SCHEDULE_DEED_MOVE && c->nodes < 2))
		return false;
	if (c->strike > FAR_SIM_POINTS || c->second_strike >= FAR_SIM_POINTS ||
	    c->second > c->clients + 1)
		return false;
	return c->victim <= c->clients && c->breaker <= c->clients && (!c->victim || c->fuse) &&
	       (!c->breaker || c->break_fuse);
}
