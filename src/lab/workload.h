/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.h -- the operations of a benchmark: which key, which kind, which bytes.
 *
 * The YCSB core workloads (Cooper et al., SoCC 2010) with their generators as published: zipfian after Gray et al.
 * (SIGMOD 1994, "Quickly generating billion-record synthetic databases"), scrambled over 10 billion items, latest,
 * uniform. Key numbers 0 ... keys - 1 are loaded; inserts take the numbers that follow.
 *
 * A spec is shared and constant; a sequence is shared by all generators of a run; a generator belongs to one thread.
 */
#ifndef FAR_LAB_WORKLOAD_H
#define FAR_LAB_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rand.h"

/* Gray's zipfian generator: item i of n is drawn with probability (1 / (i + 1)^theta) / zeta(n, theta). ------- */

struct zipf {
	uint64_t n;
	double theta;
	double zeta2, zetan; /* sums of 1 / i^theta for i = 1 ... 2 and 1 ... n */
	double alpha, eta;
};

/* Sum of 1 / i^theta for i = 1 ... n: exact terms for small i, Euler-Maclaurin for the rest (error below 1e-12). */
double zipf_zeta(uint64_t n, double theta);

/* n >= 1, 0 < theta < 1. */
void zipf_init(struct zipf *z, uint64_t n, double theta);

/* Makes room for more items by adding the new terms only. Fewer items than now: no change. */
void zipf_grow(struct zipf *z, uint64_t n);

/* In [0, z->n); 0 is the most frequent. */
uint64_t zipf_next(const struct zipf *z, struct far_rng *rng);

/* FNV-1a over the eight bytes of `x`, least significant first, made non-negative as YCSB does. */
uint64_t workload_fnv64(uint64_t x);

/* Workloads --------------------------------------------------------------------------------------------------- */

enum workload_dist {
	WORKLOAD_UNIFORM,
	WORKLOAD_ZIPFIAN,   /* key number = rank */
	WORKLOAD_SCRAMBLED, /* key number = hash of the rank */
	WORKLOAD_LATEST,    /* key number = newest minus rank */
};

enum workload_kind {
	WORKLOAD_READ,
	WORKLOAD_UPDATE,
	WORKLOAD_INSERT,
	WORKLOAD_DELETE,
	WORKLOAD_RMW,    /* read, change, write back */
	WORKLOAD_ABSENT, /* read of a key that never existed */
	WORKLOAD_KINDS,
};

struct workload_spec {
	char name[16];
	unsigned percent[WORKLOAD_KINDS]; /* sum: 100 */
	enum workload_dist dist;
	double theta;
	uint64_t items;   /* scrambled: ranks are drawn among so many, whatever the number of keys */
	uint64_t keys;    /* loaded before the run */
	uint64_t ops;
	size_t key_len;
	size_t value_len;
};

enum { WORKLOAD_KEY_LEN = 16, WORKLOAD_VALUE_LEN = 32 };
#define WORKLOAD_THETA 0.99
#define WORKLOAD_ITEMS ((uint64_t)10000000001) /* as YCSB: the skew does not depend on the number of keys */

/* Fills `s` with the mix and distribution of "A", "B", "C", "D", "F", "insert", "update", "delete" or "negative" (any
 * case), and the defaults above. -FAR_ENOENT. */
int workload_find(const char *name, struct workload_spec *s);

/* uniform, zipfian, scrambled, latest. -FAR_ENOENT. */
int workload_dist_find(const char *name, enum workload_dist *dist);
const char *workload_dist_name(enum workload_dist dist);

/* NULL when the spec makes sense, else a sentence that says why not (static storage). */
const char *workload_check(const struct workload_spec *s);

/* The key numbers in use, shared by the threads of a run: what was inserted, in order of completion. */
struct workload_seq;

/* *out starts with `keys` keys present. -FAR_ENOMEM. */
int workload_seq_open(uint64_t keys, struct workload_seq **out);
void workload_seq_close(struct workload_seq *q);

/* A number that nobody took yet. */
uint64_t workload_seq_take(struct workload_seq *q);

/* The insert of `number` is done (or failed for good: nobody waits for it). Numbers below workload_seq_limit() are
 * done without gaps. */
void workload_seq_done(struct workload_seq *q, uint64_t number);
uint64_t workload_seq_limit(const struct workload_seq *q);

/* One thread's generator. */
struct workload {
	const struct workload_spec *spec;
	struct workload_seq *seq;
	struct far_rng rng;
	struct zipf zipf;
	uint64_t space; /* scrambled: the numbers that a rank may be hashed to */
};

struct workload_step {
	enum workload_kind kind;
	uint64_t number; /* of the key */
};

/* `spec` and `seq` outlive `w`. Costs O(1) thanks to zipf_zeta(). */
void workload_init(struct workload *w, const struct workload_spec *spec, struct workload_seq *seq, uint64_t seed);

/* A WORKLOAD_INSERT must be answered by workload_seq_done(). */
struct workload_step workload_next(struct workload *w);

/* Bytes ------------------------------------------------------------------------------------------------------- */

/* Writes the key of `number`: spec->key_len bytes, of fixed length, unique, in hashed order. Keys of numbers at or
 * above workload_number_max() are never inserted: they are the absent ones. */
void workload_key(const struct workload_spec *s, uint64_t number, void *buf);

/* How many key numbers the key length can tell apart, besides as many absent ones. */
uint64_t workload_number_max(size_t key_len);

/* Writes spec->value_len bytes that depend on the key and on `stamp`, any number. */
void workload_value(const struct workload_spec *s, uint64_t number, uint64_t stamp, void *buf);

/* True when the bytes are what workload_value() wrote for this key with some stamp. */
bool workload_value_ok(const struct workload_spec *s, uint64_t number, const void *buf, size_t len);

#endif
