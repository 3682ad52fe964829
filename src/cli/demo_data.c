/* SPDX-License-Identifier: Apache-2.0 */
/* demo_data.c -- the demo's sources, its devices and readings, and what each client does. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/rand.h"
#include "cli/demo.h"

/* Sources ----------------------------------------------------------------------------------------------------- */

static const struct demo_source demo_sources[] = {
	{ "oui.csv", { .format = RECORD_CSV, .key = "Assignment", .prefix = "maker:" }, 0, false },
	{ "mam.csv", { .format = RECORD_CSV, .key = "Assignment", .prefix = "maker:" }, 0, false },
	{ "oui36.csv",
	  { .format = RECORD_CSV, .key = "Assignment", .prefix = "maker:" },
	  0,
	  false },
	{ "iab.csv", { .format = RECORD_CSV, .key = "Assignment", .prefix = "maker:" }, 0, false },
	{ "stations.gz", { .format = RECORD_INI, .prefix = "station:" }, 1, true },
	{ "zones.gz", { .format = RECORD_INI, .prefix = "zone:" }, 1, true },
	{ "zctas.gz", { .format = RECORD_INI, .prefix = "zcta:" }, 1, true },
	{ "places.gz", { .format = RECORD_INI, .prefix = "place:" }, 1, true },
	{ "airports.gz", { .format = RECORD_INI, .prefix = "airport:" }, 1, true },
};

const struct demo_source *
demo_source_at(unsigned i)
{
	return i < FAR_LEN(demo_sources) ? &demo_sources[i] : NULL;
}

int
demo_source_open(const struct demo_plan *p, const struct demo_source *s, struct record_source **out,
		 char *why)
{
	char path[4096];
	int err;

	snprintf(path, sizeof(path), "%s/%s", s->weather ? p->weather_dir : p->ieee_dir, s->file);
	if ((err = record_open(path, &s->opts, out)) == 0)
		return 0;
	if (err == -FAR_EIO && errno == ENOENT)
		snprintf(why, FAR_ERRMSG_MAX, "%.150s is not there: please install the package %s",
			 path, s->weather ? "weather-util-data" : "ieee-data");
	else
		snprintf(why, FAR_ERRMSG_MAX, "%.150s: %s", path,
			 err == -FAR_EIO ? strerror(errno) : far_strerror(err));
	return err;
}

/* Blocks ------------------------------------------------------------------------------------------------------ */

static int
demo_block_add(struct demo_blocks *b, uint64_t *cap, struct far_bytes key)
{
	const char *colon = memchr(key.data, ':', key.len);
	size_t len = colon ? key.len - (size_t)(colon + 1 - (const char *)key.data) : 0;

	if (len == 0 || len >= sizeof(b->text[0]))
		return -FAR_ESYNTAX;
	if (b->n == *cap) {
		void *grown = realloc(b->text, (*cap * 2 + 1024) * sizeof(b->text[0]));

		if (!grown)
			return -FAR_ENOMEM;
		b->text = grown;
		*cap = *cap * 2 + 1024;
	}
	memset(b->text[b->n], 0, sizeof(b->text[0]));
	memcpy(b->text[b->n++], colon + 1, len);
	return 0;
}

static int
demo_block_cmp(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(((struct demo_blocks *)0)->text[0]));
}

static int
demo_blocks_of(struct demo_plan *p, const struct demo_source *s, uint64_t *cap, char *why)
{
	struct record_source *r;
	struct record rec;
	int err;

	if ((err = demo_source_open(p, s, &r, why)) != 0)
		return err;
	while ((err = record_next(r, &rec)) == 1)
		if ((err = demo_block_add(&p->blocks, cap, rec.key)) != 0)
			break;
	if (err != 0)
		snprintf(why, FAR_ERRMSG_MAX, "%s",
			 *record_error(r) ? record_error(r) : far_strerror(err));
	record_close(r);
	return err;
}

int
demo_blocks_read(struct demo_plan *p, char *why)
{
	struct demo_blocks *b = &p->blocks;
	uint64_t cap = 0, n = 0;
	int err = 0;

	*b = (struct demo_blocks){ .text = NULL };
	for (unsigned i = 0; demo_source_at(i) && err == 0; i++)
		if (!demo_source_at(i)->weather)
			err = demo_blocks_of(p, demo_source_at(i), &cap, why);
	if (err == 0 && b->n == 0) {
		snprintf(why, FAR_ERRMSG_MAX, "%s holds no address block", p->ieee_dir);
		err = -FAR_ENOENT;
	}
	if (err != 0) {
		demo_blocks_free(b);
		return err;
	}
	qsort(b->text, b->n, sizeof(b->text[0]), demo_block_cmp);
	for (uint64_t i = 0; i < b->n; i++)
		if (n == 0 || demo_block_cmp(b->text[n - 1], b->text[i]) != 0)
			memcpy(b->text[n++], b->text[i], sizeof(b->text[0]));
	b->n = n;
	return 0;
}

void
demo_blocks_free(struct demo_blocks *b)
{
	free(b->text);
	*b = (struct demo_blocks){ .text = NULL };
}

/* Devices and readings ---------------------------------------------------------------------------------------- */

struct far_bytes
demo_device(const struct demo_plan *p, uint64_t i, char buf[DEMO_KEY_MAX])
{
	/* The dash keeps a long block with a short counter apart from a short block with a long counter. */
	int len = snprintf(buf, DEMO_KEY_MAX, "dev:%s-%06" PRIx64, p->blocks.text[i % p->blocks.n],
			   i / p->blocks.n);

	return far_bytes(buf, (size_t)len);
}

struct far_bytes
demo_reading(uint64_t i, uint64_t n, char buf[DEMO_VALUE_MAX])
{
	uint64_t x = far_mix64(far_mix64(i + 1) + n);
	int len = snprintf(
		buf, DEMO_VALUE_MAX,
		"{\"reading\":%" PRIu64 ",\"celsius\":%d.%02d,\"humidity\":%d,\"battery\":%d}", n,
		(int)(x % 40), (int)(x >> 8 & 63), (int)(x >> 16) % 50 + 50, (int)(x >> 40 & 63));

	return far_bytes(buf, (size_t)len);
}

uint64_t
demo_reading_number(uint64_t i, struct far_bytes value)
{
	static const char lead[] = "{\"reading\":";
	char again[DEMO_VALUE_MAX];
	const char *text = value.data;
	struct far_bytes want;
	uint64_t n = 0;

	if (value.len < sizeof(lead) || memcmp(text, lead, sizeof(lead) - 1) != 0)
		return 0;
	for (size_t at = sizeof(lead) - 1; at < value.len && text[at] >= '0' && text[at] <= '9';
	     at++)
		n = n * 10 + (uint64_t)(text[at] - '0');
	want = demo_reading(i, n, again);
	return want.len == value.len && memcmp(want.data, text, want.len) == 0 ? n : 0;
}

/* The mixed phase --------------------------------------------------------------------------------------------- */

struct demo_op
demo_op(const struct demo_plan *p, unsigned client, uint64_t k)
{
	uint64_t own = (p->readings - client + p->clients - 1) / p->clients;
	struct demo_op op = { .n = k + 2 };
	struct far_rng rng;
	uint64_t dice;
	double u;

	far_rng_seed(&rng, far_mix64(far_mix64(p->seed + client + 1) + k));
	dice = far_rng_below(&rng, 100);
	op.kind = dice < 50 ? DEMO_READ_OWN : dice < 70 ? DEMO_READ_ANY
				      : dice < 90       ? DEMO_UPDATE
				      : dice < 96       ? DEMO_DELETE
							: DEMO_PUT;
	/* Some devices are busier than others: deleted ones are met again. */
	u = far_rng_unit(&rng);
	op.device = op.kind == DEMO_READ_ANY
			    ? far_rng_below(&rng, p->readings)
			    : client + p->clients * (uint64_t)(u * u * u * (double)own);
	return op;
}

int
demo_op_result(const struct demo_op *op, uint64_t before)
{
	return op->kind == DEMO_PUT || before != 0 ? 0 : -FAR_ENOENT;
}

uint64_t
demo_op_after(const struct demo_op *op, uint64_t before)
{
	switch (op->kind) {
	case DEMO_UPDATE:
		return before ? op->n : 0;
	case DEMO_DELETE:
		return 0;
	case DEMO_PUT:
		return op->n;
	default:
		return before;
	}
}
