/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo.h -- what `farside demo` is made of: data, client processes, verification.
 *
 * Two tables: "registry" holds the IEEE registry of device makers and the stations and places of weather-util,
 * "readings" the latest reading of each device. A device's id is one of the registry's address blocks and a counter.
 * What a client does in the mixed phase is a pure function of (seed, client, number of the operation), and each device
 * is written by one client only, so what must be in the table afterwards follows from how far each client came.
 */
#ifndef FAR_CLI_DEMO_H
#define FAR_CLI_DEMO_H

#include <stdatomic.h>

#include <farside/fabric.h>
#include <farside/far.h>

#include "cli/record.h"

enum {
	DEMO_LOADERS = 2,
	DEMO_CLIENTS_MAX = 32,
	DEMO_KEY_MAX = 64,    /* bytes of a device's key */
	DEMO_VALUE_MAX = 128, /* bytes of a reading */
};

#define DEMO_REGISTRY "registry"
#define DEMO_READINGS "readings"

struct demo_blocks {
	char (*text)[16]; /* sorted, distinct */
	uint64_t n;
};

struct demo_plan {
	const char *ieee_dir, *weather_dir;
	uint64_t readings;   /* devices, each with a first reading */
	uint64_t ops;        /* of each client in the mixed phase */
	unsigned clients;    /* of the mixed phase, 2 to DEMO_CLIENTS_MAX; the last one works until it is killed */
	uint64_t seed;
	struct demo_blocks blocks;
};

/* Data -------------------------------------------------------------------------------------------------------- */

/* One file of records; loader `loader` loads it. */
struct demo_source {
	const char *file;
	struct record_opts opts;
	unsigned loader;
	bool weather; /* in which directory it lies */
};

/* The i-th source or NULL. */
const struct demo_source *demo_source_at(unsigned i);

/* Opens source `s`. On error *out is untouched and `why` (FAR_ERRMSG_MAX bytes) says what to install. */
int demo_source_open(const struct demo_plan *p, const struct demo_source *s, struct record_source **out, char *why);

/* Reads the address blocks of the registry into p->blocks, which the caller frees. */
int demo_blocks_read(struct demo_plan *p, char *why);
void demo_blocks_free(struct demo_blocks *b);

/* The key of device `i`: unique. */
struct far_bytes demo_device(const struct demo_plan *p, uint64_t i, char buf[DEMO_KEY_MAX]);

/* What device `i` says in its reading number `n` (>= 1), as JSON. */
struct far_bytes demo_reading(uint64_t i, uint64_t n, char buf[DEMO_VALUE_MAX]);

/* The number of the reading of device `i` that `value` is; 0 when it is none. */
uint64_t demo_reading_number(uint64_t i, struct far_bytes value);

/* The mixed phase --------------------------------------------------------------------------------------------- */

enum demo_kind {
	DEMO_READ_OWN, /* what is found is known exactly */
	DEMO_READ_ANY, /* of whatever client's device: some reading of it, or none */
	DEMO_UPDATE,
	DEMO_DELETE,
	DEMO_PUT,
	DEMO_KINDS,
};

struct demo_op {
	enum demo_kind kind;
	uint64_t device;
	uint64_t n; /* reading that UPDATE and PUT write */
};

/* Operation `k` of `client`. All but READ_ANY are on devices with device % clients == client. */
struct demo_op demo_op(const struct demo_plan *p, unsigned client, uint64_t k);

/* With reading `before` of its device in the table (0: none): what the operation returns (0 or -FAR_ENOENT), and the
 * reading that is there afterwards. */
int demo_op_result(const struct demo_op *op, uint64_t before);
uint64_t demo_op_after(const struct demo_op *op, uint64_t before);

/* Processes --------------------------------------------------------------------------------------------------- */

/* What one client process tells the others, in shared memory: it stays when the process is killed. */
struct demo_slot {
	_Atomic uint64_t started, finished; /* operations; written before and after each one */
	_Atomic uint64_t kinds[DEMO_KINDS];
	struct far_count spent, background; /* at the end, and every 1024 operations */
	char message[FAR_ERRMSG_MAX * 2];   /* why it failed */
};

/* The lives of the client processes: they return an exit code, with slot->message set when it is not 0. `number`
 * counts from 0. */
int demo_load(const struct demo_plan *p, const char *uri, unsigned number, struct demo_slot *slot);
int demo_mixed(const struct demo_plan *p, const char *uri, unsigned number, struct demo_slot *slot);

/* Verification ------------------------------------------------------------------------------------------------ */

struct demo_verdict {
	uint64_t rows, records;   /* of the sources: read, and with distinct keys */
	uint64_t devices;         /* that have a reading */
	uint64_t compared, wrong; /* keys looked up; found otherwise than expected, or left over */
	bool in_flight;           /* the killed client had started an operation that it did not finish, */
	bool in_flight_happened;  /* which may have changed the table, and did */
	int64_t violations;       /* found by check */
	struct far_table_stat registry, readings;
	struct far_count spent;
	char message[FAR_ERRMSG_MAX * 2]; /* the first thing that is wrong, or why verification failed */
};

/* Compares both tables with the sources and with what `slots` say that the clients did. `stop` is asked now and
 * then: true ends it with -FAR_EINTR. -FAR_E when it could not be done; else 0, whatever it found. */
int demo_verify(const struct demo_plan *p, const char *uri, const struct demo_slot *slots, bool (*stop)(void),
		struct demo_verdict *v);

#endif
