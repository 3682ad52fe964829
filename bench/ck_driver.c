/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ck_driver.c -- YCSB C on a hash table in this process's own memory: ck_ht of Concurrency Kit.
 *
 * usage: ck_driver KEYS OPS
 *
 * Stores copies of KEYS keys of 16 B with values of 32 B, then looks up uniformly drawn keys and copies the value
 * out. Each operation is timed into a histogram, as `farside bench` does, so that both pay for measuring. Prints the
 * operations per second. Keys, values and the generator are those of `farside bench`.
 */
#include <ck_ht.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "lab/hist.h"
#include "lab/workload.h"

enum {
	CK_KEY_LEN = 16,
	CK_VALUE_LEN = 32,
};

struct ck_pair {
	char key[CK_KEY_LEN];
	char value[CK_VALUE_LEN];
};

static int
ck_die(const char *what)
{
	fprintf(stderr, "ck_driver: %s\n", what);
	exit(1);
}

static void *
ck_malloc(size_t len)
{
	return malloc(len);
}

static void
ck_free(void *p, size_t len, bool deferred)
{
	free(p);
}

static struct ck_malloc ck_allocator = { .malloc = ck_malloc, .free = ck_free };

static void
ck_hash(ck_ht_hash_t *h, const void *key, size_t len, uint64_t seed)
{
	h->value = XXH3_64bits_withSeed(key, len, seed);
}

static void
ck_load(ck_ht_t *table, const struct workload_spec *spec)
{
	for (uint64_t number = 0; number < spec->keys; number++) {
		struct ck_pair *pair = malloc(sizeof(*pair));
		ck_ht_entry_t entry;
		ck_ht_hash_t hash;

		if (!pair)
			ck_die("out of memory");
		workload_key(spec, number, pair->key);
		workload_value(spec, number, number * 77, pair->value);
		ck_ht_hash(&hash, table, pair->key, CK_KEY_LEN);
		ck_ht_entry_set(&entry, hash, pair->key, CK_KEY_LEN, pair->value);
		if (!ck_ht_put_spmc(table, hash, &entry))
			ck_die("could not store a key");
	}
}

static bool
ck_get(ck_ht_t *table, const char *key, char *value)
{
	ck_ht_entry_t entry;
	ck_ht_hash_t hash;

	ck_ht_hash(&hash, table, key, CK_KEY_LEN);
	ck_ht_entry_key_set(&entry, key, CK_KEY_LEN);
	if (!ck_ht_get_spmc(table, hash, &entry))
		return false;
	memcpy(value, ck_ht_entry_value(&entry), CK_VALUE_LEN);
	return true;
}

static uint64_t
ck_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double
ck_run(ck_ht_t *table, const struct workload_spec *spec, struct workload *gen)
{
	static struct hist times;
	uint64_t begin = ck_now(), from = begin, to;

	for (uint64_t i = 0; i < spec->ops; i++) {
		char key[CK_KEY_LEN], value[CK_VALUE_LEN];
		uint64_t number = workload_next(gen).number;

		workload_key(spec, number, key);
		if (!ck_get(table, key, value) ||
		    !workload_value_ok(spec, number, value, CK_VALUE_LEN))
			ck_die("a wrong value");
		to = ck_now();
		hist_add(&times, to - from);
		from = to;
	}
	return (double)spec->ops * 1e9 / (double)(from - begin);
}

int
main(int argc, char **argv)
{
	struct workload_spec spec;
	struct workload_seq *seq;
	struct workload gen;
	ck_ht_t table;

	if (argc != 3 || workload_find("C", &spec) != 0)
		ck_die("usage: ck_driver KEYS OPS");
	spec.keys = strtoull(argv[1], NULL, 10);
	spec.ops = strtoull(argv[2], NULL, 10);
	spec.dist = WORKLOAD_UNIFORM;
	if (workload_check(&spec) != NULL)
		ck_die("numbers out of range");
	if (workload_seq_open(spec.keys, &seq) != 0)
		ck_die("out of memory");
	workload_init(&gen, &spec, seq, 1);
	if (!ck_ht_init(&table, CK_HT_MODE_BYTESTRING, ck_hash, &ck_allocator, spec.keys * 2, 1))
		ck_die("could not make a table");
	ck_load(&table, &spec);
	printf("%.0f\n", ck_run(&table, &spec, &gen));
	return 0;
}
