/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload.c -- the YCSB generators, key numbers and bytes.
 */
#include "lab/workload.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <farside/error.h>

#include "base/base.h"

/* Zipfian ----------------------------------------------------------------------------------------------------- */

enum { ZIPF_EXACT = 1000 };

double
zipf_zeta(uint64_t n, double theta)
{
	double sum = 0, a = ZIPF_EXACT, b = (double)n, tail;

	for (uint64_t i = 1; i <= n && i < ZIPF_EXACT; i++)
		sum += pow((double)i, -theta);
	if (n < ZIPF_EXACT)
		return sum;
	tail = (pow(b, 1 - theta) - pow(a, 1 - theta)) / (1 - theta);
	tail += (pow(a, -theta) + pow(b, -theta)) / 2;
	tail += theta / 12 * (pow(a, -theta - 1) - pow(b, -theta - 1));
	tail -= theta * (theta + 1) * (theta + 2) / 720 * (pow(a, -theta - 3) - pow(b, -theta - 3));
	return sum + tail;
}

static void
zipf_set_eta(struct zipf *z)
{
	/* Below three items zipf_next() decides before it comes to eta, whose divisor would be zero. */
	z->eta = z->n < 3 ? 1
			  : (1 - pow(2.0 / (double)z->n, 1 - z->theta)) / (1 - z->zeta2 / z->zetan);
}

void
zipf_init(struct zipf *z, uint64_t n, double theta)
{
	z->n = n;
	z->theta = theta;
	z->zeta2 = zipf_zeta(2, theta);
	z->zetan = zipf_zeta(n, theta);
	z->alpha = 1 / (1 - theta);
	zipf_set_eta(z);
}

void
zipf_grow(struct zipf *z, uint64_t n)
{
	if (n <= z->n)
		return;
	for (uint64_t i = z->n + 1; i <= n; i++)
		z->zetan += pow((double)i, -z->theta);
	z->n = n;
	zipf_set_eta(z);
}

uint64_t
zipf_next(const struct zipf *z, struct far_rng *rng)
{
	double u = far_rng_unit(rng), uz = u * z->zetan;

	if (uz < 1 || z->n < 2)
		return 0;
	if (uz < z->zeta2 || z->n < 3)
		return 1;
	return far_min((uint64_t)((double)z->n * pow(z->eta * u - z->eta + 1, z->alpha)), z->n - 1);
}

uint64_t
workload_fnv64(uint64_t x)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (int i = 0; i < 8; i++, x >>= 8)
		h = (h ^ (x & 0xff)) * 0x100000001b3ULL;
	return h >> 63 ? -h : h;
}

/* Specs ------------------------------------------------------------------------------------------------------- */

static const struct workload_spec workload_specs[] = {
	{ .name = "A",
	  .percent = { [WORKLOAD_READ] = 50, [WORKLOAD_UPDATE] = 50 },
	  .dist = WORKLOAD_SCRAMBLED },
	{ .name = "B",
	  .percent = { [WORKLOAD_READ] = 95, [WORKLOAD_UPDATE] = 5 },
	  .dist = WORKLOAD_SCRAMBLED },
	{ .name = "C", .percent = { [WORKLOAD_READ] = 100 }, .dist = WORKLOAD_SCRAMBLED },
	{ .name = "D",
	  .percent = { [WORKLOAD_READ] = 95, [WORKLOAD_INSERT] = 5 },
	  .dist = WORKLOAD_LATEST },
	{ .name = "F",
	  .percent = { [WORKLOAD_READ] = 50, [WORKLOAD_RMW] = 50 },
	  .dist = WORKLOAD_SCRAMBLED },
	{ .name = "insert", .percent = { [WORKLOAD_INSERT] = 100 }, .dist = WORKLOAD_UNIFORM },
	{ .name = "update", .percent = { [WORKLOAD_UPDATE] = 100 }, .dist = WORKLOAD_SCRAMBLED },
	{ .name = "delete", .percent = { [WORKLOAD_DELETE] = 100 }, .dist = WORKLOAD_UNIFORM },
	{ .name = "negative", .percent = { [WORKLOAD_ABSENT] = 100 }, .dist = WORKLOAD_UNIFORM },
};

static const char *const workload_dists[] = { "uniform", "zipfian", "scrambled", "latest" };

int
workload_find(const char *name, struct workload_spec *s)
{
	for (size_t i = 0; i < FAR_LEN(workload_specs); i++) {
		if (strcasecmp(name, workload_specs[i].name) != 0)
			continue;
		*s = workload_specs[i];
		s->theta = WORKLOAD_THETA;
		s->items = WORKLOAD_ITEMS;
		s->key_len = WORKLOAD_KEY_LEN;
		s->value_len = WORKLOAD_VALUE_LEN;
		return 0;
	}
	return -FAR_ENOENT;
}

int
workload_dist_find(const char *name, enum workload_dist *dist)
{
	for (size_t i = 0; i < FAR_LEN(workload_dists); i++) {
		if (strcmp(name, workload_dists[i]) == 0) {
			*dist = (enum workload_dist)i;
			return 0;
		}
	}
	return -FAR_ENOENT;
}

const char *
workload_dist_name(enum workload_dist dist)
{
	return workload_dists[dist];
}

const char *
workload_check(const struct workload_spec *s)
{
	uint64_t most = s->keys + (s->percent[WORKLOAD_INSERT] ? s->ops : 0);
	unsigned sum = 0;

	for (int i = 0; i < WORKLOAD_KINDS; i++)
		sum += s->percent[i];
	if (sum != 100)
		return "the shares of the operations do not add up to 100 %";
	if (s->items < 1)
		return "popularity needs at least one item";
	if (s->keys < 1)
		return "a workload needs at least one key";
	if (!(s->theta > 0 && s->theta < 1))
		return "theta must lie between 0 and 1, both excluded";
	if (s->key_len < 1 || s->key_len > 64 << 10)
		return "a key has 1 to 65536 bytes";
	if (s->value_len > 16 << 20)
		return "a value has at most 16777216 bytes";
	if (most > workload_number_max(s->key_len))
		return "keys of this size are too short for so many of them";
	if (s->percent[WORKLOAD_DELETE] && s->ops > s->keys)
		return "a workload that deletes needs as many keys as operations";
	return NULL;
}

/* Sequence ---------------------------------------------------------------------------------------------------- */

/*
 * An insert that is done marks its place in the window with its number + 1; whoever finds the place of the limit
 * marked moves the limit on. Should an insert be overtaken by as many others as the window is long, the limit stays
 * behind: later reads then choose among the keys below it, which is safe.
 */
enum { WORKLOAD_WINDOW = 1 << 20 };

struct workload_seq {
	_Atomic uint64_t next;
	_Atomic uint64_t limit;
	_Atomic uint64_t done[WORKLOAD_WINDOW];
};

int
workload_seq_open(uint64_t keys, struct workload_seq **out)
{
	struct workload_seq *q = calloc(1, sizeof(*q));

	if (!q)
		return -FAR_ENOMEM;
	atomic_init(&q->next, keys);
	atomic_init(&q->limit, keys);
	*out = q;
	return 0;
}

void
workload_seq_close(struct workload_seq *q)
{
	free(q);
}

uint64_t
workload_seq_take(struct workload_seq *q)
{
	return atomic_fetch_add(&q->next, 1);
}

void
workload_seq_done(struct workload_seq *q, uint64_t number)
{
	uint64_t at = atomic_load(&q->limit);

	atomic_store(&q->done[number % WORKLOAD_WINDOW], number + 1);
	/* Bounded: each round moves the limit, or loses to somebody who did. */
	while (atomic_load(&q->done[at % WORKLOAD_WINDOW]) == at + 1)
		if (atomic_compare_exchange_weak(&q->limit, &at, at + 1))
			at++;
}

uint64_t
workload_seq_limit(const struct workload_seq *q)
{
	return atomic_load_explicit(&q->limit, memory_order_relaxed);
}

/* Generators -------------------------------------------------------------------------------------------------- */

enum { WORKLOAD_TRIES = 1000 };

void
workload_init(struct workload *w, const struct workload_spec *spec, struct workload_seq *seq,
	      uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->spec = spec;
	w->seq = seq;
	far_rng_seed(&w->rng, seed);
	/* As YCSB: keys to come are drawn too, and drawn again while they are not there yet, so that growth does not
	 * change which keys are hot. */
	w->space = spec->keys + 2 * spec->ops * spec->percent[WORKLOAD_INSERT] / 100;
	zipf_init(&w->zipf,
		  spec->dist == WORKLOAD_SCRAMBLED ? spec->items : spec->keys,
		  spec->theta);
}

static uint64_t
workload_scrambled(struct workload *w, uint64_t limit)
{
	uint64_t number = 0;

	for (int i = 0; i < WORKLOAD_TRIES; i++) {
		number = workload_fnv64(zipf_next(&w->zipf, &w->rng)) % w->space;
		if (number < limit)
			return number;
	}
	return number % limit;
}

static uint64_t
workload_draw(struct workload *w)
{
	uint64_t limit = workload_seq_limit(w->seq);

	switch (w->spec->dist) {
	case WORKLOAD_UNIFORM:
		return far_rng_below(&w->rng, limit);
	case WORKLOAD_SCRAMBLED:
		return workload_scrambled(w, limit);
	case WORKLOAD_ZIPFIAN:
		zipf_grow(&w->zipf, limit);
		return zipf_next(&w->zipf, &w->rng);
	case WORKLOAD_LATEST:
		zipf_grow(&w->zipf, limit);
		return limit - 1 - zipf_next(&w->zipf, &w->rng);
	}
	return 0;
}

static enum workload_kind
workload_draw_kind(struct workload *w)
{
	unsigned dice, kind = 0;

	for (unsigned i = 0; i < WORKLOAD_KINDS; i++)
		if (w->spec->percent[i] == 100)
			return (enum workload_kind)i;
	dice = (unsigned)far_rng_below(&w->rng, 100);
	while (dice >= w->spec->percent[kind])
		dice -= w->spec->percent[kind++];
	return (enum workload_kind)kind;
}

struct workload_step
workload_next(struct workload *w)
{
	struct workload_step s = { .kind = workload_draw_kind(w) };

	switch (s.kind) {
	case WORKLOAD_INSERT:
		s.number = workload_seq_take(w->seq);
		break;
	case WORKLOAD_DELETE:
		/* The sequence starts at the number of keys: every key once. */
		s.number = workload_seq_take(w->seq) - w->spec->keys;
		break;
	case WORKLOAD_ABSENT:
		s.number = workload_number_max(w->spec->key_len) + workload_draw(w);
		break;
	default:
		s.number = workload_draw(w);
		break;
	}
	return s;
}

/* Bytes ------------------------------------------------------------------------------------------------------- */

static unsigned
workload_key_bits(size_t key_len)
{
	return (unsigned)far_min(key_len, 16) * 4;
}

uint64_t
workload_number_max(size_t key_len)
{
	return (uint64_t)1 << (workload_key_bits(key_len) - 1);
}

/* A bijection of `bits`-bit numbers: each step is one. */
static uint64_t
workload_mix(uint64_t x, unsigned bits)
{
	uint64_t mask = UINT64_MAX >> (64 - bits);
	unsigned half = (bits + 1) / 2;

	x &= mask;
	x = (x ^ x >> half) * 0xff51afd7ed558ccdULL & mask;
	x = (x ^ x >> half) * 0xc4ceb9fe1a85ec53ULL & mask;
	x = (x ^ x >> half) * 0x9e3779b97f4a7c15ULL & mask;
	return x ^ x >> half;
}

void
workload_key(const struct workload_spec *s, uint64_t number, void *buf)
{
	unsigned bits = workload_key_bits(s->key_len);
	uint64_t x = workload_mix(number, bits);
	unsigned char *out = buf;

	for (unsigned i = 0; i < bits / 4; i++)
		out[i] = (unsigned char)"0123456789abcdef"[x >> (bits - 4 - 4 * i) & 15];
	if (s->key_len > bits / 4)
		memset(out + bits / 4, '.', s->key_len - bits / 4);
}

/* Word i is base + i * stamp, base depends on the key: the first word tells the key, the second the stamp, and all
 * others must agree with them. The last word may be cut short. */
void
workload_value(const struct workload_spec *s, uint64_t number, uint64_t stamp, void *buf)
{
	uint64_t word = far_mix64(number + 1);

	for (size_t at = 0; at < s->value_len; at += sizeof(word), word += stamp)
		memcpy((char *)buf + at, &word, far_min(sizeof(word), s->value_len - at));
}

bool
workload_value_ok(const struct workload_spec *s, uint64_t number, const void *buf, size_t len)
{
	uint64_t word = far_mix64(number + 1), stamp = 0;

	if (len != s->value_len)
		return false;
	if (len >= 2 * sizeof(word)) {
		memcpy(&stamp, (const char *)buf + sizeof(word), sizeof(stamp));
		stamp -= word;
	}
	/* With less than two words the stamp is not known: only the first word is compared. */
	for (size_t at = 0; at < len && (at == 0 || len >= 2 * sizeof(word));
	     at += sizeof(word), word += stamp)
		if (memcmp((const char *)buf + at, &word, far_min(sizeof(word), len - at)) != 0)
			return false;
	return true;
}
