/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_config.h -- everything that makes one run of a schedule what it is.
 *
 * A seed draws a configuration; a scenario spells one out, as lines of a name and its values. Two runs with equal
 * configurations are equal. What a client does is drawn from a stream of its own, so that fewer operations of one, or
 * one fault less, leave the others' wishes alone: that is what shrinking relies on.
 */
#ifndef FAR_LAB_SCHEDULE_CONFIG_H
#define FAR_LAB_SCHEDULE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
	SCHEDULE_CLIENTS = 6,
	SCHEDULE_FIBERS = 2, /* per client */
	SCHEDULE_OPS = 12,   /* per client */
	SCHEDULE_KEYS = 4,   /* that the clients fight for */
	SCHEDULE_FRESH = 24, /* keys that are inserted once, to make splits */
	SCHEDULE_FILL = 64,  /* keys that nobody touches */
	SCHEDULE_GROW = 64,  /* more of these, to see a table grow in the end */
	SCHEDULE_NODES = 2,
	SCHEDULE_VALUE = 1024, /* bytes */
};

enum schedule_flags {
	SCHEDULE_CRASH = 1,    /* in some a client dies, or stands still for longer than its lease, or many in turn */
	SCHEDULE_APART = 2,    /* some have two nodes, with blocks apart from their slots */
	SCHEDULE_TICKS = 4,    /* some have short leases and epochs, so that memory is reused meanwhile */
	SCHEDULE_AUDIT = 8,    /* count memory at the end */
	SCHEDULE_PLAIN = 16,   /* 4 clients, 6 operations each, one group of slots, no splits: for measuring speed */
	SCHEDULE_FAULTS = 32,  /* in some a connection breaks, a node fails, or grants are refused */
	SCHEDULE_RELAXED = 64, /* some reorder the WRITEs of a chain, which no design has to survive */
	SCHEDULE_ALL = SCHEDULE_CRASH | SCHEDULE_APART | SCHEDULE_TICKS | SCHEDULE_AUDIT | SCHEDULE_FAULTS,
};

/* The table's own hash; all fingerprints alike; or low bits alike, so that splits do not part most keys. */
enum schedule_hash {
	SCHEDULE_HASH_OWN,
	SCHEDULE_HASH_FINGERPRINT,
	SCHEDULE_HASH_DEEP,
	SCHEDULE_HASHES,
};

/* What the last client does instead of operations that it draws (schedule_deed.c). Up to MOVE: on key 0. */
enum schedule_deed {
	SCHEDULE_DEED_NONE,
	SCHEDULE_DEED_GET,
	SCHEDULE_DEED_INSERT,
	SCHEDULE_DEED_INSERT_PRESENT,
	SCHEDULE_DEED_UPSERT,
	SCHEDULE_DEED_UPSERT_PRESENT,
	SCHEDULE_DEED_UPDATE,
	SCHEDULE_DEED_UPDATE_IF,
	SCHEDULE_DEED_DELETE,
	SCHEDULE_DEED_DELETE_IF,
	SCHEDULE_DEED_MOVE,     /* to node 1 */
	SCHEDULE_DEED_SPLIT,    /* an insert that splits a subtable */
	SCHEDULE_DEED_DOUBLE,   /* and doubles the directory */
	SCHEDULE_DEED_SCAN,
	SCHEDULE_DEED_OPEN,     /* a session, table and index */
	SCHEDULE_DEED_CLOSE,
	SCHEDULE_DEED_CREATE,   /* another table */
	SCHEDULE_DEED_DROP,
	SCHEDULE_DEED_GRANT,    /* an upsert without a chunk to take its block from */
	SCHEDULE_DEED_TICK,     /* rounds of maintenance, */
	SCHEDULE_DEED_FREE,     /* with blocks to give back to their owners */
	SCHEDULE_DEED_TAKEOVER, /* of what a dead client left */
	SCHEDULE_DEEDS,
};

/* What the last client did before the session with which it works. */
enum schedule_former {
	SCHEDULE_FORMER_NONE,
	SCHEDULE_FORMER_LEFT, /* it filled its part of the table, and closed its session, */
	SCHEDULE_FORMER_DIED, /* or died */
	SCHEDULE_FORMERS,
};

/* All members are numbers, and all arrays have a place per client: the table in schedule_config.c names each. Times are
 * in nanoseconds of virtual time, counted from when the clients begin to work. */
struct schedule_config {
	uint64_t seed;      /* of steps and wishes */
	uint64_t plain;     /* nobody inspects afterwards */
	uint64_t audit;
	uint64_t met;       /* nobody may expect what it never met (met.h) */
	uint64_t nodes, clients, fibers;
	uint64_t keys, fresh, fill;
	uint64_t present;   /* bit per key: there at the start */
	uint64_t ops[SCHEDULE_CLIENTS];
	uint64_t scans;     /* one act in so many is a scan; 0: none is */
	uint64_t value_min, value_max; /* bytes, 8 to SCHEDULE_VALUE */
	uint64_t hash;
	uint64_t no_backoff;
	uint64_t apart;     /* blocks moved away from their slots at the start */
	uint64_t pace_ns;   /* sleep between operations at most */
	uint64_t tick_ns, lease_ns; /* 0: the pool's */
	uint64_t deed, former;
	uint64_t linger;    /* with so many operations left, clients sleep until a lease that runs is over */
	uint64_t grow;      /* who inspects inserts until a subtable is split */
	uint64_t comebacks; /* so often a client that lost its session opens a new one */
	/* far_sim_policy */
	uint64_t keep, changes, change_steps, weak, line, relaxed, gap, late, late_ns, repeat;
	/* Faults. Clients and nodes: 1 + the number, 0 = nobody. */
	uint64_t victim, fate, fuse, fate_ns; /* enum far_sim_fate */
	uint64_t strike;    /* 1 + enum far_sim_point: `fuse` counts verbs, not steps */
	uint64_t second, second_fuse, second_strike; /* one more dies, at a verb; clients + 1: who inspects */
	uint64_t breaker, break_fuse, break_ns;
	uint64_t freeze_at[SCHEDULE_CLIENTS], freeze_ns[SCHEDULE_CLIENTS];
	uint64_t outage, outage_at, outage_ns, outage_how; /* enum far_sim_return */
	uint64_t refuse, refuse_all;
	uint64_t zoo;       /* mistakes to make (base/zoo.h): in a build that can */
};

/* What `seed` draws with `flags` of enum schedule_flags. */
void schedule_config_draw(struct schedule_config *c, uint64_t seed, unsigned flags);

/* One line per member that is not 0. */
void schedule_config_print(const struct schedule_config *c, FILE *out);

/* Sets a member from its name and values ("ops", "2 0 1"). False: there is no such member, or that is no value of
 * it. */
bool schedule_config_set(struct schedule_config *c, const char *name, const char *values);

/* Reads what schedule_config_print() wrote; what is not named is 0. Lines may be empty or start with '#'. Returns 0,
 * the number of the first line that cannot be, or -FAR_EINVAL: together they make no run. */
int schedule_config_read(struct schedule_config *c, FILE *in);

/* The i-th number of a configuration, or NULL. */
uint64_t *schedule_config_number(struct schedule_config *c, unsigned i);

/* Whether it can be played. */
bool schedule_config_is_valid(const struct schedule_config *c);

#endif
