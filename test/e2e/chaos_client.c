/* SPDX-License-Identifier: Apache-2.0 */
/* chaos_client.c -- a client that does everything the library offers, and notes each operation before and after it. */
#include "e2e/chaos.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farside/far.h>

#include "base/base.h"
#include "base/rand.h"

enum { CLIENT_KNOWN = 1024,
       CLIENT_RECENT = 400,   /* fresh keys that are still worked on */
       CLIENT_SCAN_EVERY = 1000,
       CLIENT_NAP_US = 300,
       CLIENT_OPEN_TRIES = 4000 };

struct client {
	const struct chaos_client_opts *opts;
	struct chaos_shared *shared;
	struct chaos_seat *seat;
	struct recorder_lane lane;
	struct far_rng rng;
	struct far *f;
	struct far_table *t;
	bool lost;   /* the session is of no use any more */
	bool failed; /* the seat says why */
	struct {
		uint32_t key;
		uint64_t version;
	} known[CLIENT_KNOWN];
};

/* Operations of a batch, or one. */
struct client_ops {
	struct history_op *ops[CHAOS_BATCH];
	struct far_request requests[CHAOS_BATCH];
	char keys[CHAOS_BATCH][24];
	uint8_t values[CHAOS_BATCH][CHAOS_VALUE_MAX];
	unsigned n;
};

static void
client_fail(struct client *c, const char *format, ...)
{
	va_list args;

	if (c->failed)
		return;
	c->failed = true;
	va_start(args, format);
	vsnprintf(c->seat->why, sizeof(c->seat->why), format, args);
	va_end(args);
}

/* Keys and values ------------------------------------------------------------------------------------------- */

static struct far_bytes
client_key(char buf[24], uint32_t key)
{
	return far_bytes(buf, (size_t)snprintf(buf, 24, "key %u", key));
}

static uint32_t
client_key_number(struct far_bytes key)
{
	char buf[24] = "", again[24];
	uint32_t n;

	if (key.len < 5 || key.len >= sizeof(buf))
		return UINT32_MAX;
	memcpy(buf, key.data, key.len);
	n = (uint32_t)strtoul(buf + 4, NULL, 10);
	return client_key(again, n).len == key.len && memcmp(again, buf, key.len) == 0 ? n : UINT32_MAX;
}

/* The value of operation `id`: its name, and then bytes that follow from it. Returns the length. */
static size_t
client_value(uint64_t id, uint8_t buf[CHAOS_VALUE_MAX])
{
	uint64_t hash = far_mix64(id), word = id;
	size_t len = 8 + hash % 200;

	if (hash >> 59 == 0)
		len = 8 + (hash >> 8) % (CHAOS_VALUE_MAX - 16);
	for (size_t i = 0; i < len; i += 8) {
		memcpy(buf + i, &word, 8);
		word = far_mix64(word + i + 1);
	}
	return len;
}

/* Who wrote these bytes; 0: nobody. */
static uint64_t
client_writer(struct far_bytes value)
{
	static uint8_t buf[CHAOS_VALUE_MAX];
	uint64_t id = 0;

	if (value.len < 8)
		return 0;
	memcpy(&id, value.data, 8);
	return client_value(id, buf) == value.len && memcmp(buf, value.data, value.len) == 0 ? id : 0;
}

/* May one more operation be made on the key? */
static bool
client_claim(struct client *c, uint32_t key)
{
	return __atomic_fetch_add(&c->shared->used[key], 1, __ATOMIC_SEQ_CST) < CHAOS_KEY_OPS;
}

/* A key that nobody used before, claimed. */
static uint32_t
client_fresh(struct client *c)
{
	uint32_t key = __atomic_fetch_add(&c->shared->next_key, 1, __ATOMIC_SEQ_CST);

	if (key >= CHAOS_KEYS) {
		client_fail(c, "no keys left");
		return 0;
	}
	client_claim(c, key);
	return key;
}

static uint32_t
client_hot(struct client *c)
{
	uint32_t *hot = &c->shared->hot[far_rng_below(&c->rng, CHAOS_HOT)];
	uint32_t key = __atomic_load_n(hot, __ATOMIC_SEQ_CST), fresh;

	if (client_claim(c, key))
		return key;
	fresh = client_fresh(c);
	__atomic_compare_exchange_n(hot, &key, fresh, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return fresh;
}

static uint32_t
client_pick(struct client *c)
{
	uint64_t draw = far_rng_below(&c->rng, 100);
	uint32_t next = __atomic_load_n(&c->shared->next_key, __ATOMIC_SEQ_CST), key;

	if (draw < 5)
		return client_fresh(c);
	if (draw < 30) {
		key = next - 1 - (uint32_t)far_rng_below(&c->rng, far_min(next, CLIENT_RECENT));
		if (client_claim(c, key))
			return key;
	}
	return client_hot(c);
}

/* Operations ------------------------------------------------------------------------------------------------ */

/* What was found out about a key's version. */
static void
client_learn(struct client *c, const struct history_op *op)
{
	c->known[op->key % CLIENT_KNOWN].key = op->key;
	c->known[op->key % CLIENT_KNOWN].version = op->version;
}

static uint64_t
client_known(const struct client *c, uint32_t key)
{
	uint32_t i = key % CLIENT_KNOWN;

	return c->known[i].key == key && c->known[i].version ? c->known[i].version : 1;
}

/* Makes room for what one step notes at most, in a lane of its own if need be. */
static bool
client_make_room(struct client *c)
{
	if (recorder_room(&c->lane) < 2 * CHAOS_BATCH && recorder_open(c->opts->recorder, &c->lane) != 0)
		client_fail(c, "no lane left to write to");
	return !c->failed;
}

static void
client_note_call(struct client *c, struct client_ops *b, uint32_t kind, uint32_t key)
{
	static const enum far_request_kind kinds[LIN_KINDS] = {
		FAR_GET, FAR_INSERT, FAR_UPDATE, FAR_PUT, FAR_DELETE, FAR_UPDATE_IF, FAR_DELETE_IF, FAR_CONTAINS,
	};
	bool is_if = kind == LIN_UPDATE_IF || kind == LIN_DELETE_IF;
	struct far_request *r = &b->requests[b->n];
	struct history_op *op = recorder_call(&c->lane, kind, key, is_if ? client_known(c, key) : 0);

	*r = (struct far_request){ .kind = kinds[kind], .version = op->expect };
	r->key = client_key(b->keys[b->n], key);
	r->value = far_bytes(b->values[b->n], client_value(op->id, b->values[b->n]));
	b->ops[b->n++] = op;
}

static void
client_note_return(struct client *c, struct history_op *op, const struct far_request *r)
{
	bool writes = op->kind != LIN_GET && op->kind != LIN_DELETE && op->kind != LIN_DELETE_IF &&
		      op->kind != LIN_CONTAINS;

	switch (r->result) {
	case 0:
	case -FAR_ENOENT:
	case -FAR_EEXIST:
	case -FAR_ECHANGED:
		break;
	case -FAR_ENODE:
	case -FAR_EUNSURE:
	case -FAR_EFENCED:
		/* It happened or not: it stays pending. */
		c->lost = true;
		return;
	case -FAR_ECONTENDED:
		c->seat->gave_up++;
		recorder_cancel(op);
		return;
	default:
		client_fail(c, "%s of key %u: %s", lin_kind_name(op->kind), op->key, far_errname(r->result));
		return;
	}
	if (r->result == 0 && (writes || op->kind == LIN_GET))
		op->version = r->version;
	if (r->result == 0 && op->kind == LIN_GET)
		op->value = client_writer(r->value);
	recorder_return(&c->lane, op, r->result);
	__atomic_fetch_add(&c->shared->ops, 1, __ATOMIC_RELAXED);
	if (op->version && !c->failed)
		client_learn(c, op);
}

static int
client_call_one(struct client *c, struct far_request *r)
{
	struct far_value found = { .version = 0 };
	int err;

	switch (r->kind) {
	case FAR_GET:
		err = far_get(c->t, r->key, &found);
		r->value = found.bytes;
		r->version = found.version;
		return err;
	case FAR_CONTAINS:
		return far_contains(c->t, r->key);
	case FAR_PUT:
		return far_put(c->t, r->key, r->value, &r->version);
	case FAR_INSERT:
		return far_insert(c->t, r->key, r->value, &r->version);
	case FAR_UPDATE:
		return far_update(c->t, r->key, r->value, &r->version);
	case FAR_UPDATE_IF:
		return far_update_if(c->t, r->key, r->value, r->version, &r->version);
	case FAR_DELETE:
		return far_delete(c->t, r->key);
	default:
		return far_delete_if(c->t, r->key, r->version);
	}
}

/* Calls what is noted: one operation by itself, several as a batch. */
static void
client_call(struct client *c, struct client_ops *b)
{
	uint64_t began = chaos_now();

	if (b->n == 1)
		b->requests[0].result = client_call_one(c, &b->requests[0]);
	else
		far_batch(c->t, b->requests, b->n);
	for (unsigned i = 0; i < b->n; i++)
		client_note_return(c, b->ops[i], &b->requests[i]);
	if (!c->lost && !__atomic_load_n(&c->seat->excused, __ATOMIC_SEQ_CST))
		c->seat->slowest_ns = far_max(c->seat->slowest_ns, chaos_now() - began);
}

static uint32_t
client_kind(struct client *c)
{
	static const uint8_t kinds[] = { LIN_GET, LIN_GET, LIN_GET, LIN_GET, LIN_CONTAINS, LIN_UPSERT, LIN_UPSERT,
					 LIN_INSERT, LIN_INSERT, LIN_UPDATE, LIN_UPDATE, LIN_DELETE, LIN_UPDATE_IF,
					 LIN_UPDATE_IF, LIN_DELETE_IF };

	return kinds[far_rng_below(&c->rng, FAR_LEN(kinds))];
}

static void
client_operate(struct client *c, unsigned n)
{
	static struct client_ops b;

	b.n = 0;
	if (!client_make_room(c))
		return;
	for (unsigned i = 0; i < n; i++) {
		uint32_t key = client_pick(c), kind = client_kind(c);

		if (c->failed)
			return;
		/* A key's first operation makes it, as a rule. */
		if (__atomic_load_n(&c->shared->used[key], __ATOMIC_RELAXED) == 1)
			kind = far_rng_below(&c->rng, 2) ? LIN_INSERT : LIN_UPSERT;
		client_note_call(c, &b, kind, key);
	}
	client_call(c, &b);
	c->seat->batches += n > 1;
}

/* Other operations come in between now and then, if `busy`. */
static void
client_scan(struct client *c, bool busy)
{
	struct history_op *scan;
	struct far_iter *it = NULL;
	struct far_bytes key;
	struct far_value value;
	int got;

	if (!client_make_room(c))
		return;
	scan = recorder_call(&c->lane, HISTORY_SCAN, 0, 0);
	got = far_iter_open(c->t, &it);
	for (unsigned n = 0; got == 0 && !c->lost && client_make_room(c); n++) {
		got = far_iter_next(it, &key, &value);
		if (got != 1)
			break;
		recorder_item(&c->lane, scan, client_key_number(key), value.version, client_writer(value.bytes));
		got = 0;
		if (busy && n % 64 == 63)
			client_operate(c, 1);
	}
	far_iter_close(it);
	if (got == -FAR_ENODE || got == -FAR_EUNSURE || got == -FAR_EFENCED)
		c->lost = true;
	else if (got)
		client_fail(c, "iteration: %s", far_errname(got));
	if (!c->lost && !c->failed)
		recorder_return(&c->lane, scan, 0);
}

static void
client_move(struct client *c)
{
	char buf[24];
	int err = far_move(c->t, client_key(buf, client_hot(c)), (unsigned)far_rng_below(&c->rng, 2));

	c->seat->moves++;
	if (err == -FAR_ENODE || err == -FAR_EUNSURE || err == -FAR_EFENCED)
		c->lost = true;
	else if (err && err != -FAR_ENOENT && err != -FAR_ECONTENDED)
		client_fail(c, "move: %s", far_errname(err));
}

static void
client_step(struct client *c)
{
	uint64_t draw = far_rng_below(&c->rng, CLIENT_SCAN_EVERY);

	if (draw == 0)
		client_scan(c, true);
	else if (draw < CLIENT_SCAN_EVERY / 20)
		client_move(c);
	else if (draw < CLIENT_SCAN_EVERY / 5)
		client_operate(c, 2 + (unsigned)far_rng_below(&c->rng, CHAOS_BATCH - 1));
	else
		client_operate(c, 1);
}

/* Sessions -------------------------------------------------------------------------------------------------- */

static void
client_close(struct client *c)
{
	__atomic_store_n(&c->seat->open, 0, __ATOMIC_SEQ_CST);
	far_close(c->f);
	c->f = NULL;
	c->t = NULL;
	c->lost = false;
}

/* Opens pool and table, as soon as all nodes are there. */
static void
client_open(struct client *c)
{
	struct far_opts o = { .lease_ns = c->opts->lease_ns, .seed = far_rng_next(&c->rng) | 1 };
	int err = -FAR_ENODE;

	for (int i = 0; i < CLIENT_OPEN_TRIES; i++) {
		err = far_open(c->opts->uri, &o, &c->f);
		if (!err)
			err = far_table_open(c->f, CHAOS_TABLE, &c->t);
		if (!err) {
			__atomic_store_n(&c->seat->open, 1, __ATOMIC_SEQ_CST);
			return;
		}
		client_close(c);
		if (err != -FAR_ENODE && err != -FAR_EUNSURE && err != -FAR_EFENCED)
			break;
		usleep(5000);
	}
	client_fail(c, "cannot open the table: %s", far_errname(err));
}

static void
client_init(struct client *c, const struct chaos_client_opts *opts)
{
	*c = (struct client){ .opts = opts, .shared = opts->shared, .seat = &opts->shared->seats[opts->seat] };
	far_rng_seed(&c->rng, opts->seed);
	if (recorder_open(opts->recorder, &c->lane) != 0)
		client_fail(c, "no lane left to write to");
	else
		client_open(c);
}

int
chaos_client_run(const struct chaos_client_opts *opts)
{
	static struct client c;
	uint32_t mode;

	client_init(&c, opts);
	while (!c.failed && (mode = __atomic_load_n(&c.shared->mode, __ATOMIC_SEQ_CST)) != CHAOS_END) {
		if (mode == CHAOS_TRICKLE)
			usleep(CLIENT_NAP_US);
		client_step(&c);
		if (!c.lost || c.failed)
			continue;
		client_close(&c);
		client_open(&c);
		c.seat->comebacks++;
	}
	client_close(&c);
	return c.failed ? 3 : 0;
}

int
chaos_client_verify(const struct chaos_client_opts *opts)
{
	static struct client c;
	static struct client_ops b;
	uint32_t keys = opts->shared->next_key;

	client_init(&c, opts);
	if (!c.failed)
		client_scan(&c, false);
	for (uint32_t key = 0; key < keys && !c.failed && client_make_room(&c); key++) {
		b.n = 0;
		client_note_call(&c, &b, LIN_GET, key);
		client_call(&c, &b);
	}
	if (c.lost)
		client_fail(&c, "the session was lost");
	client_close(&c);
	return c.failed ? 3 : 0;
}
