/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coord.h -- named leases with fencing epochs, for what must have one owner at a time outside any memory node.
 *
 * Who is to use it: programs around a pool of which one is to act at a time, on something that no memory node guards:
 * a gateway that serves a range of clients, a controller that moves tables between pools, the writer of a replica's
 * log. Nothing inside a pool needs it. Sessions have their own leases in the home node, a chunk is granted to one
 * client at a time, and all repair may be done by several clients at once, also by two operators with
 * `farside check --repair`.
 *
 * How: acquire, and hand the epoch to whatever the lease protects, together with each change. That keeps the largest
 * epoch it has seen, in one atomic step with the change. Renew a few times per ttl. When ttl has passed since the last
 * success began, stop; when a call says -FAR_EFENCED, stop for good.
 *
 * A lease is not a fence: its holder may be paused past its end and act later. So each acquire gives an epoch, larger
 * than every earlier one of that name; whatever the lease protects refuses smaller epochs than the largest it has seen.
 *
 * No clock is shared. A record holds a beat that renewing changes; who wants another's lease must have seen the record
 * unchanged for the lease's ttl on its own clock. A holder counts on its lease until ttl after the moment at which it
 * began its last successful acquire or renew.
 *
 * Every call completes at once. -FAR_EAGAIN: another process is inside; try again soon. -FAR_EIO: the storage failed,
 * errno tells why, and the call may or may not have taken effect. -FAR_ECORRUPT: the record is broken.
 */
#ifndef FAR_POOL_COORD_H
#define FAR_POOL_COORD_H

#include <stdbool.h>

#include <farside/error.h>
#include <farside/fiber.h>

enum { COORD_NAME_MAX = 63 }; /* of names and owners: [A-Za-z0-9._-], not empty, no leading dot */

struct coord;

struct coord_lease {
	char owner[COORD_NAME_MAX + 1]; /* the last one */
	bool held;                      /* not released */
	uint64_t epoch;
	uint64_t ttl_ns;
	uint64_t silent_ns; /* for how long this observer has seen it unchanged */
};

/* Records in files of `dir`, which must exist; each change is on disk before the call returns, and a process may be
 * killed at any moment. `clock` is copied. -FAR_ENOENT, -FAR_EIO, -FAR_ENOMEM. */
int coord_file_open(const char *dir, const struct far_clock *clock, struct coord **out);

/* Records in memory, shared by all that open the same store on one loop. The store outlives them; NULL: out of memory.
 * Freeing NULL is fine. */
struct coord_store;
struct coord_store *coord_store_new(void);
void coord_store_free(struct coord_store *s);

/* `clock` is copied. -FAR_ENOMEM. */
int coord_sim_open(struct coord_store *s, const struct far_clock *clock, struct coord **out);

/* Leases stay as they are. NULL is fine. */
void coord_close(struct coord *c);

/* Takes the lease when it is free, run out, or `owner`'s own. *epoch receives the fencing epoch. -FAR_EEXIST: another
 * owner holds it; ask again, each call watches its beat. -FAR_EINVAL (name, owner, ttl 0). */
int coord_acquire(struct coord *c, const char *name, const char *owner, uint64_t ttl_ns, uint64_t *epoch);

/* Goes on holding it. -FAR_EFENCED: the lease has gone to another epoch. */
int coord_renew(struct coord *c, const char *name, uint64_t epoch, uint64_t ttl_ns);

/* Frees the lease; its epoch is remembered. -FAR_EFENCED. */
int coord_release(struct coord *c, const char *name, uint64_t epoch);

/* -FAR_ENOENT: never acquired. */
int coord_read(struct coord *c, const char *name, struct coord_lease *out);

/* What a backend implements. -------------------------------------------------------------------------------- */

struct coord_record {
	uint64_t epoch; /* 0: never acquired */
	uint64_t beat;
	uint64_t ttl_ns;
	uint64_t held;
	char owner[COORD_NAME_MAX + 1];
};

struct coord_ops {
	/* Keeps everybody else out and reads the record (all zero when there is none). */
	int (*begin)(struct coord *c, const char *name, struct coord_record *r);
	/* Writes the record if `r` is not NULL, then lets the others in; only after a begin that returned 0. */
	int (*end)(struct coord *c, const char *name, const struct coord_record *r);
	void (*close)(struct coord *c);
};

/* Head of every backend's object. */
struct coord {
	const struct coord_ops *ops;
	struct far_clock clock;
	struct coord_seen *seen;
};

#endif
