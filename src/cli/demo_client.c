/* SPDX-License-Identifier: Apache-2.0 */
/* demo_client.c -- the lives of the demo's client processes: loading, and the mixed phase. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/bytes.h"
#include "cli/cli.h"
#include "cli/demo.h"

static int
demo_fail(struct demo_slot *slot, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(slot->message, sizeof(slot->message), format, args);
	va_end(args);
	return CLI_FAIL;
}

/* What the handle says about `err`. */
static int
demo_fail_far(struct demo_slot *slot, const struct far *f, int err)
{
	return demo_fail(slot, "%s", *far_errmsg(f) ? far_errmsg(f) : far_strerror(err));
}

static int
demo_client_open(const char *uri, const char *table, struct far **f, struct far_table **t,
		 struct demo_slot *slot)
{
	struct far_opts opts = { .errmsg = slot->message };
	int err;

	if (far_open(uri, &opts, f) != 0)
		return CLI_FAIL;
	if ((err = far_table_open(*f, table, t)) == 0)
		return CLI_OK;
	demo_fail_far(slot, *f, err);
	far_close(*f);
	return CLI_FAIL;
}

static void
demo_client_close(struct far *f, struct far_table *t, struct demo_slot *slot)
{
	far_counts(f, &slot->spent, &slot->background);
	far_table_close(t);
	far_close(f);
}

/* Loading ----------------------------------------------------------------------------------------------------- */

enum { DEMO_BATCH = 256 };

/* Requests that are to run at once, and the bytes that they point into. */
struct demo_batch {
	struct far_table *table;
	struct far *far;
	struct demo_slot *slot;
	struct far_request reqs[DEMO_BATCH];
	size_t key_at[DEMO_BATCH], value_at[DEMO_BATCH];
	size_t n;
	struct bytes bytes;
};

static int
demo_batch_flush(struct demo_batch *b)
{
	int err;

	for (size_t i = 0; i < b->n; i++) {
		b->reqs[i].key.data = b->bytes.data + b->key_at[i];
		b->reqs[i].value.data = b->bytes.data + b->value_at[i];
	}
	err = far_batch(b->table, b->reqs, b->n);
	for (size_t i = 0; i < b->n && err == 0; i++)
		err = b->reqs[i].result;
	if (err != 0)
		return demo_fail_far(b->slot, b->far, err);
	atomic_fetch_add(&b->slot->finished, b->n);
	b->n = 0;
	bytes_reset(&b->bytes, (size_t)4 << 20);
	return CLI_OK;
}

/* Two requests on one key in a batch are concurrent; here the later one must win. */
static bool
demo_batch_has(const struct demo_batch *b, struct far_bytes key)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->reqs[i].key.len == key.len &&
		    memcmp(b->bytes.data + b->key_at[i], key.data, key.len) == 0)
			return true;
	return false;
}

static int
demo_batch_add(struct demo_batch *b, enum far_request_kind kind, struct far_bytes key,
	       struct far_bytes value)
{
	int code;

	if ((b->n == DEMO_BATCH || (kind == FAR_PUT && demo_batch_has(b, key))) &&
	    (code = demo_batch_flush(b)) != CLI_OK)
		return code;
	b->reqs[b->n] = (struct far_request){ .kind = kind, .key = key, .value = value };
	b->key_at[b->n] = b->bytes.len;
	b->value_at[b->n] = b->bytes.len + key.len;
	if (bytes_add(&b->bytes, key.data, key.len) != 0 ||
	    bytes_add(&b->bytes, value.data, value.len) != 0)
		return demo_fail(b->slot, "out of memory");
	b->n++;
	return CLI_OK;
}

static int
demo_load_source(struct demo_batch *b, const struct demo_plan *p, const struct demo_source *s)
{
	struct record_source *r;
	struct record rec;
	int code = CLI_OK, err;

	if (demo_source_open(p, s, &r, b->slot->message) != 0)
		return CLI_FAIL;
	while ((err = record_next(r, &rec)) == 1 && code == CLI_OK)
		code = demo_batch_add(b, FAR_PUT, rec.key, rec.value);
	if (err < 0)
		code = demo_fail(b->slot, "%s", record_error(r));
	record_close(r);
	return code;
}

static int
demo_load_registry(struct demo_batch *b, const struct demo_plan *p, unsigned number)
{
	int code = CLI_OK;

	for (unsigned i = 0; demo_source_at(i) && code == CLI_OK; i++)
		if (demo_source_at(i)->loader == number)
			code = demo_load_source(b, p, demo_source_at(i));
	return code == CLI_OK ? demo_batch_flush(b) : code;
}

static int
demo_load_readings(struct demo_batch *b, const struct demo_plan *p, unsigned number)
{
	int code = CLI_OK;

	for (uint64_t i = number; i < p->readings && code == CLI_OK; i += DEMO_LOADERS) {
		char key[DEMO_KEY_MAX], value[DEMO_VALUE_MAX];

		code = demo_batch_add(b, FAR_INSERT, demo_device(p, i, key),
				      demo_reading(i, 1, value));
	}
	return code == CLI_OK ? demo_batch_flush(b) : code;
}

int
demo_load(const struct demo_plan *p, const char *uri, unsigned number, struct demo_slot *slot)
{
	struct far_table *registry = NULL, *readings = NULL;
	struct demo_batch *b = calloc(1, sizeof(*b));
	struct far *f = NULL;
	int code;

	if (!b)
		return demo_fail(slot, "out of memory");
	if ((code = demo_client_open(uri, DEMO_REGISTRY, &f, &registry, slot)) != CLI_OK)
		goto out;
	b->far = f;
	b->slot = slot;
	b->table = registry;
	code = demo_load_registry(b, p, number);
	far_table_close(registry);
	if (code == CLI_OK && far_table_open(f, DEMO_READINGS, &readings) != 0)
		code = demo_fail(slot, "%s", far_errmsg(f));
	b->table = readings;
	if (code == CLI_OK)
		code = demo_load_readings(b, p, number);
	demo_client_close(f, readings, slot);
out:
	bytes_free(&b->bytes);
	free(b);
	return code;
}

/* The mixed phase --------------------------------------------------------------------------------------------- */

static int
demo_operate(struct far_table *t, const struct demo_op *op, struct far_bytes key,
	     struct far_value *found)
{
	char buf[DEMO_VALUE_MAX];

	switch (op->kind) {
	case DEMO_UPDATE:
		return far_update(t, key, demo_reading(op->device, op->n, buf), NULL);
	case DEMO_DELETE:
		return far_delete(t, key);
	case DEMO_PUT:
		return far_put(t, key, demo_reading(op->device, op->n, buf), NULL);
	default:
		return far_get(t, key, found);
	}
}

/* Is the outcome of `op` what it must be, `before` being the reading that was there? */
static bool
demo_plausible(const struct demo_op *op, uint64_t before, int err, const struct far_value *found)
{
	bool read = op->kind == DEMO_READ_OWN || op->kind == DEMO_READ_ANY;
	uint64_t n = read && err == 0 ? demo_reading_number(op->device, found->bytes) : 0;

	if (op->kind == DEMO_READ_ANY)
		return err == -FAR_ENOENT || (err == 0 && n != 0);
	return err == demo_op_result(op, before) && (!read || n == before);
}

static int
demo_mixed_run(const struct demo_plan *p, unsigned client, struct far *f, struct far_table *t,
	       struct demo_slot *slot, uint32_t *state)
{
	/* The last client goes on until it is killed. */
	uint64_t ops = client == p->clients - 1 ? UINT32_MAX - 2 : p->ops;

	for (uint64_t k = 0; k < ops; k++) {
		struct demo_op op = demo_op(p, client, k);
		uint32_t *before = &state[op.device / p->clients];
		struct far_value found = { .version = 0 };
		char key[DEMO_KEY_MAX];
		int err;

		/* 1. Note that it starts, so that whoever looks after a kill knows what may have happened. */
		atomic_store(&slot->started, k + 1);
		err = demo_operate(t, &op, demo_device(p, op.device, key), &found);
		/* 2. Compare with what only this client can have left behind. */
		if (err != 0 && err != -FAR_ENOENT)
			return demo_fail_far(slot, f, err);
		if (!demo_plausible(&op, *before, err, &found))
			return demo_fail(
				slot, "operation %llu on %s: %s, reading %llu instead of %u",
				(unsigned long long)k, key, far_strerror(err),
				(unsigned long long)demo_reading_number(op.device, found.bytes),
				*before);
		if (op.kind != DEMO_READ_ANY)
			*before = (uint32_t)demo_op_after(&op, *before);
		/* 3. Note that it is done. */
		atomic_fetch_add_explicit(&slot->kinds[op.kind], 1, memory_order_relaxed);
		atomic_store(&slot->finished, k + 1);
		if (k % 1024 == 0)
			far_counts(f, &slot->spent, &slot->background);
	}
	return CLI_OK;
}

int
demo_mixed(const struct demo_plan *p, const char *uri, unsigned number, struct demo_slot *slot)
{
	uint32_t *state = malloc((p->readings / p->clients + 1) * sizeof(*state));
	struct far_table *t;
	struct far *f;
	int code;

	if (!state)
		return demo_fail(slot, "out of memory");
	for (uint64_t i = 0; i <= p->readings / p->clients; i++)
		state[i] = 1;
	if ((code = demo_client_open(uri, DEMO_READINGS, &f, &t, slot)) == CLI_OK) {
		code = demo_mixed_run(p, number, f, t, slot, state);
		demo_client_close(f, t, slot);
	}
	free(state);
	return code;
}
