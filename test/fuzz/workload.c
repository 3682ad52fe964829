/* SPDX-License-Identifier: Apache-2.0 */
/* Target: names of workloads and distributions, and workloads that somebody asks for. */
#include <farside/error.h>

#include "fuzz/fuzz.h"
#include "lab/workload.h"

enum { WORKLOAD_STEPS = 32,
       WORKLOAD_BYTES = 4096 };

static void
workload_names(const char *s)
{
	struct workload_spec spec;
	enum workload_dist dist;
	int err = workload_find(s, &spec);

	FUZZ_CHECK(err == 0 || err == -FAR_ENOENT);
	spec.keys = spec.ops = 1000;
	FUZZ_CHECK(err != 0 || workload_check(&spec) == NULL);
	err = workload_dist_find(s, &dist);
	FUZZ_CHECK(err == -FAR_ENOENT || (err == 0 && strcasecmp(workload_dist_name(dist), s) == 0));
}

/* A spec that passed the check can be played, whatever it says. */
static void
workload_play(const struct workload_spec *s, uint64_t seed)
{
	static struct workload_seq *kept[64];
	struct workload_seq *q = NULL, **place = NULL;
	uint8_t *key = malloc(s->key_len), *value = malloc(s->value_len ? s->value_len : 1);
	struct workload w;

	/* Its window is large: one per power of two is kept, unless its inserts could use the numbers up. */
	if ((s->percent[WORKLOAD_INSERT] == 0 || s->key_len >= 12) && (s->keys & (s->keys - 1)) == 0)
		place = &kept[__builtin_ctzll(s->keys)];
	if (place && *place)
		q = *place;
	else
		FUZZ_CHECK(workload_seq_open(s->keys, &q) == 0);
	if (place)
		*place = q;
	FUZZ_CHECK(key && value);
	workload_init(&w, s, q, seed);
	for (unsigned i = 0; i < WORKLOAD_STEPS; i++) {
		struct workload_step step = workload_next(&w);

		FUZZ_CHECK(step.kind < WORKLOAD_KINDS && s->percent[step.kind] > 0);
		FUZZ_CHECK(step.kind != WORKLOAD_READ || step.number < workload_seq_limit(q));
		workload_key(s, step.number, key);
		workload_value(s, step.number, i, value);
		FUZZ_CHECK(workload_value_ok(s, step.number, value, s->value_len));
		if (step.kind == WORKLOAD_INSERT)
			workload_seq_done(q, step.number);
	}
	if (!place)
		workload_seq_close(q);
	free(key);
	free(value);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in);
	struct workload_spec spec = { .name = "fuzz" };
	uint64_t bits;
	char *s;

	if (mode & 1) {
		workload_names(s = fuzz_string(&in, 64));
		free(s);
		return 0;
	}
	for (unsigned i = 0; i < WORKLOAD_KINDS; i++)
		spec.percent[i] = (unsigned)fuzz_word(&in, mode & 2 ? 4 : 1);
	spec.dist = (enum workload_dist)(fuzz_byte(&in) % 4);
	bits = fuzz_word(&in, 8);
	if (mode & 4)
		memcpy(&spec.theta, &bits, sizeof(spec.theta));
	else
		spec.theta = (double)(bits >> 11) * 0x1p-53;
	spec.keys = mode & 8 ? fuzz_word(&in, 8) : UINT64_C(1) << (fuzz_byte(&in) & 63);
	spec.ops = fuzz_word(&in, mode & 16 ? 8 : 2);
	spec.key_len = fuzz_word(&in, mode & 32 ? 8 : 1);
	spec.value_len = fuzz_word(&in, mode & 64 ? 8 : 1);
	if (workload_check(&spec) == NULL && mode & 0x80 && spec.key_len <= WORKLOAD_BYTES &&
	    spec.value_len <= WORKLOAD_BYTES)
		workload_play(&spec, fuzz_word(&in, 8));
	return 0;
}
