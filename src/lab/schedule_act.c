/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule_act.c -- what a client of a schedule does.
 *
 * A client that loses a node goes on with its session as long as the library lets it, and tries again after a while:
 * whatever it may have left half-done is the library's business. Once its session is over it stops. It closes that
 * session, or deserts it, and the others fence it when its lease is over. When it may come back, it connects anew,
 * opens a new one and goes on.
 */
#include <string.h>

#include "lab/schedule_impl.h"

/* Keys and values ----------------------------------------------------------------------------------------- */

static uint64_t
schedule_hash_mix(const void *key, size_t len, uint64_t seed)
{
	uint64_t word = 0;

	memcpy(&word, key, far_min(len, 8));
	return far_mix64(word ^ seed);
}

static uint64_t
schedule_hash_fingerprint(const void *key, size_t len, uint64_t seed)
{
	return schedule_hash_mix(key, len, seed) >> 8;
}

static uint64_t
schedule_hash_deep(const void *key, size_t len, uint64_t seed)
{
	uint64_t h = schedule_hash_mix(key, len, seed);

	/* Three keys in four agree in their two low bits. */
	return h >> 62 ? h & ~(uint64_t)3 : h;
}

void
schedule_key(unsigned i, struct schedule_key *k)
{
	size_t len = 0;

	/* By hand: each operation asks for one. */
	FAR_ASSERT(i < 1000);
	k->name[len++] = i < SCHEDULE_KEYS ? 'k' : 'f';
	if (i >= 100)
		k->name[len++] = (char)('0' + i / 100);
	if (i >= 10)
		k->name[len++] = (char)('0' + i / 10 % 10);
	k->name[len++] = (char)('0' + i % 10);
	k->name[len] = 0;
	k->bytes = far_bytes(k->name, len);
}

size_t
schedule_value(const struct schedule *s, uint32_t op, uint8_t buf[])
{
	size_t min = s->config.value_min, max = s->config.value_max;
	size_t len = min + far_mix64(s->config.seed ^ op) % (max - min + 1);
	uint64_t number = op, pattern = far_mix64(op + 1);

	memcpy(buf, &number, 8);
	for (size_t i = 8; i < len; i += 8)
		memcpy(buf + i, &pattern, 8);
	return len;
}

uint32_t
schedule_writer(const struct schedule *s, struct far_bytes value)
{
	uint8_t buf[SCHEDULE_VALUE + 8];
	uint64_t number;

	if (value.len < 8)
		return 0;
	memcpy(&number, value.data, 8);
	if (number >= SCHEDULE_OPS_ALL + SCHEDULE_FILL)
		return 0;
	if (schedule_value(s, (uint32_t)number, buf) != value.len ||
	    memcmp(buf, value.data, value.len) != 0)
		return 0;
	return (uint32_t)number + 1;
}

/* Sessions ------------------------------------------------------------------------------------------------ */

static int
schedule_make_table(struct schedule_client *c, struct far_task *t, const char *name,
		    const struct far_index_opts *o, struct pool_table **pt)
{
	const struct far_index_ops *d = c->s->design;
	struct far_addr head;
	int err;

	if ((err = pool_table_new(c->pool, t, name, d->name, pt)) != 0 ||
	    (err = d->create(*pt, t, o, &head)) != 0)
		return err;
	return pool_table_commit(*pt, t, head);
}

int
schedule_make_other(struct schedule_client *c, struct far_task *t)
{
	struct far_index_opts o = { .groups = 1 };
	struct pool_table *pt = NULL;
	int err = schedule_make_table(c, t, SCHEDULE_OTHER, &o, &pt), closed;

	closed = pool_table_close(pt, t);
	return err ? err : closed;
}

int
schedule_stat(struct schedule_client *c, struct far_task *t, struct far_table_stat *stat)
{
	int err = pool_enter(c->pool, t), left;

	if (err)
		return err;
	err = c->s->design->stat(c->ix, t, stat);
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

/* A session is over when the home node has forgotten it, which it does last (S1 in pool/session.c). */
static void
schedule_took(struct far_index_watch *w, uint64_t serial)
{
	struct schedule_client *c = FAR_CONTAINER(w, struct schedule_client, watch);
	const struct pool_super *super = far_sim_region(c->s->sim, 0);
	const struct pool_session_line *lines =
		(const void *)((const char *)super + super->sessions_off);

	/* What a client finds locked in its own name is damage, or left by a fiber that is gone. */
	for (unsigned i = 0; i < super->sessions_n && serial != pool_serial(c->pool); i++) {
		if (lines[i].serial == serial)
			schedule_fail(c->s, SCHEDULE_TWO_HOLDERS,
				      "client %u took a lock of session %llu, which is not over",
				      c->id, (unsigned long long)serial);
	}
}

int
schedule_open(struct schedule_client *c, struct far_task *t, bool make)
{
	static uint64_t (*const hashes[])(const void *, size_t, uint64_t) = {
		NULL, schedule_hash_fingerprint,
		schedule_hash_deep
	};
	const struct schedule_config *g = &c->s->config;
	struct far_index_opts o = { .groups = 1,
				    .no_backoff = g->no_backoff,
				    .hash = hashes[g->hash],
				    .zoo = g->zoo,
				    .watch = &c->watch };
	struct pool_opts po = { .lease_ns = g->lease_ns, .tick_ns = g->tick_ns, .zoo = g->zoo };
	int err, left;

	c->watch.took = schedule_took;
	if ((err = pool_open(t, &po, &c->pool)) != 0 ||
	    (err = make ? schedule_make_table(c, t, "t", &o, &c->pt)
			: pool_table_open(c->pool, t, "t", &c->pt)) != 0 ||
	    (err = pool_enter(c->pool, t)) != 0)
		return err;
	err = far_index_open(c->s->design, c->pt, t, &o, &c->ix);
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

void
schedule_desert(struct schedule_client *c, struct far_task *t)
{
	if (c->pt)
		pool_table_detach(c->pt, t);
	c->s->design->close(c->ix);
	c->deserted |= c->pool != NULL;
	pool_abandon(c->pool);
	c->ix = NULL;
	c->pt = NULL;
	c->pool = NULL;
}

/* The session is over. Some say so to the nodes that still listen, as a user of the library would. */
static void
schedule_quit(struct schedule_client *c, struct far_task *t)
{
	if (far_rng_below(&c->rng, 2) == 0 || !c->pool || !c->pt) {
		schedule_desert(c, t);
		return;
	}
	pool_table_detach(c->pt, t);
	c->s->design->close(c->ix);
	/* Errors are what it has had enough of; what it says must be true all the same. */
	(void)pool_table_close(c->pt, t);
	(void)pool_close(c->pool, t);
	c->deserted = true;
	c->ix = NULL;
	c->pt = NULL;
	c->pool = NULL;
}

/* A client that lost its session, on a new connection. */
static void
schedule_come_back(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	int err;

	err = schedule_open(c, t, false);
	if (err && !schedule_may_fail(c->s, err))
		schedule_fail(c->s, SCHEDULE_WRONG_RESULT, "client %u comes back: %s", c->id,
			      far_errname(err));
	if (!err) {
		c->stopped = false;
		c->s->out->comebacks++;
	}
	schedule_work(t, c);
}

/* The last fiber of a client ends. Whose session is over ends, or starts anew. */
static void
schedule_leave_work(struct schedule_client *c, struct far_task *t)
{
	if (!c->stopped)
		return;
	schedule_quit(c, t);
	if (!c->comebacks)
		return;
	c->comebacks--;
	c->working = 1;
	if (schedule_connect(c) != 0 ||
	    far_loop_spawn(c->s->loop, c->fabric, schedule_come_back, c, 0) != 0)
		c->working = 0;
}

/* Operations ---------------------------------------------------------------------------------------------- */

bool
schedule_again(struct schedule_client *c, struct far_task *t, struct pool_relief *relief, int *err)
{
	int relieved;

	if (*err != -FAR_ENOMEM)
		return false;
	relieved = pool_relieve(c->pt, t, relief);
	if (relieved)
		*err = relieved;
	return !relieved;
}

/* Runs one operation and whatever retries memory asks for. */
static int
schedule_call(struct schedule_client *c, struct far_task *t, struct lin_op *op,
	      struct far_bytes value)
{
	const struct far_index_ops *d = c->s->design;
	struct pool_relief relief = { 0 };
	struct schedule_key key;
	int err, left;

	if (!c->pool)
		return -FAR_EFENCED;
	schedule_key(op->key, &key);
	do {
		struct far_value got = { .version = 0 };

		if ((err = pool_enter(c->pool, t)) != 0) {
			c->stopped = true;
			return err;
		}
		op->version = op->expect;
		switch (op->kind) {
		case LIN_GET:
			err = d->get(c->ix, t, key.bytes, &got);
			op->version = got.version;
			op->value = err ? 0 : schedule_writer(c->s, got.bytes);
			break;
		case LIN_INSERT:
			err = d->put(c->ix, t, FAR_PUT_INSERT, key.bytes, value, &op->version);
			break;
		case LIN_UPSERT:
			err = d->put(c->ix, t, FAR_PUT_UPSERT, key.bytes, value, &op->version);
			break;
		case LIN_UPDATE:
		case LIN_UPDATE_IF:
			err = d->put(c->ix, t, FAR_PUT_UPDATE, key.bytes, value, &op->version);
			break;
		default:
			err = d->del(c->ix, t, key.bytes, op->expect);
		}
		left = pool_leave(c->pool, t);
		c->stopped |= left != 0 || err == -FAR_EFENCED;
		if (left)
			return left;
	} while (schedule_again(c, t, &relief, &err));
	return err;
}

/* Enters the outcome in the history. */
static void
schedule_returned(struct schedule_client *c, uint32_t i, int err)
{
	struct schedule *s = c->s;
	struct lin_op *op = &s->ops[i];
	bool writes = op->kind != LIN_GET && op->kind != LIN_DELETE && op->kind != LIN_DELETE_IF;

	op->result = err;
	switch (err) {
	case 0:
	case -FAR_ENOENT:
	case -FAR_EEXIST:
	case -FAR_ECHANGED:
		break;
	case -FAR_EFENCED:
	case -FAR_EUNSURE:
	case -FAR_ENODE:
		/* It happened or not. */
		op->version = 0;
		c->shaken = true;
		return;
	default:
		/* It must not have had an effect: as a pending read it has none. */
		op->kind = LIN_GET;
		op->value = 0;
		if (err != -FAR_ECONTENDED && !schedule_may_fail(s, err))
			schedule_fail(s, SCHEDULE_WRONG_RESULT, "operation %u: %s", i,
				      far_errname(err));
		return;
	}
	op->pending = false;
	s->events[s->history.events_n++] = LIN_RETURN(i);
	if (err != 0 || !(writes || op->kind == LIN_GET))
		return;
	c->known[op->key] = op->version;
	if (op->kind == LIN_GET && op->value == 0)
		schedule_fail(s, SCHEDULE_WRONG_VALUE, "operation %u read bytes that nobody wrote",
			      i);
}

/* Splits that clients other than `c` have begun so far; *open is set when one of them is at it now. */
static uint64_t
schedule_others_split(const struct schedule_client *c, bool *open)
{
	uint64_t begun = 0;

	for (unsigned i = 0; i < c->s->config.clients; i++) {
		const struct far_index_watch *w = &c->s->clients[i].watch;

		if (i == c->id)
			continue;
		begun += w->begun;
		*open |= w->begun != w->ended;
	}
	return begun;
}

void
schedule_operate(struct schedule_client *c, struct far_task *t, enum lin_kind kind, unsigned key)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct schedule *s = c->s;
	uint32_t i = s->history.ops_n;
	struct far_bytes value;
	struct lin_op *op = &s->ops[i];
	struct far_count spent = { 0 }, *before;
	uint64_t began = far_now(t), splits;
	bool open = false;
	uint8_t *buf;
	int err;

	if (i == SCHEDULE_OPS_ALL || !(buf = far_scratch(t, s->config.value_max + 8)))
		return;
	s->history.ops_n++;
	*op = (struct lin_op){ .kind = (uint8_t)kind, .pending = true, .client = (uint16_t)c->id, .key = key };
	if (kind == LIN_UPDATE_IF || kind == LIN_DELETE_IF)
		op->expect = c->known[key] ? c->known[key] : 1;
	value = far_bytes(buf, schedule_value(s, i, buf));
	s->events[s->history.events_n++] = LIN_CALL(i);
	splits = schedule_others_split(c, &open);
	before = far_account(t, &spent);
	err = schedule_call(c, t, op, value);
	far_account(t, before);
	s->out->overlaps += open || schedule_others_split(c, &open) != splits;
	schedule_judge_op(s, i, began, &spent);
	schedule_returned(c, i, err);
	far_scratch_reset(t, mark);
}

void
schedule_move(struct schedule_client *c, struct far_task *t, unsigned key, unsigned node)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct pool_relief relief = { 0 };
	struct schedule_key k;
	int err, left;

	if (!c->pool)
		return;
	schedule_key(key, &k);
	do {
		if ((left = err = pool_enter(c->pool, t)) != 0)
			break;
		err = c->s->design->move(c->ix, t, k.bytes, node);
		if ((left = pool_leave(c->pool, t)) != 0)
			err = left;
	} while (schedule_again(c, t, &relief, &err));
	far_scratch_reset(t, mark);
	c->s->moves++;
	c->stopped |= left != 0 || err == -FAR_EFENCED;
	c->shaken |= err == -FAR_EUNSURE || err == -FAR_ENODE;
	if (err && !c->stopped && err != -FAR_ENOENT && err != -FAR_ECONTENDED &&
	    !schedule_may_fail(c->s, err))
		schedule_fail(c->s, SCHEDULE_WRONG_RESULT, "move: %s", far_errname(err));
}

/* One operation of a client at work. */
static void
schedule_act(struct schedule_client *c, struct far_task *t)
{
	static const uint8_t kinds[] = { LIN_GET, LIN_GET, LIN_GET, LIN_UPSERT, LIN_UPSERT,
					 LIN_INSERT, LIN_INSERT, LIN_UPDATE, LIN_UPDATE, LIN_DELETE,
					 LIN_DELETE, LIN_GET, LIN_UPDATE_IF, LIN_DELETE_IF };
	struct schedule *s = c->s;
	const struct schedule_config *g = &s->config;
	/* All drawn one after the other: arguments are evaluated in no order. */
	unsigned key = (unsigned)far_rng_below(&c->rng, g->keys);
	enum lin_kind kind = kinds[far_rng_below(&c->rng, FAR_LEN(kinds))];

	if (g->scans && far_rng_below(&c->rng, g->scans) == 0) {
		schedule_scan(c, t);
		return;
	}
	if (g->nodes > 1 && far_rng_below(&c->rng, 6) == 0) {
		schedule_move(c, t, key, (unsigned)far_rng_below(&c->rng, g->nodes));
		return;
	}
	if (s->fresh_used < g->fresh && far_rng_below(&c->rng, 3) == 0) {
		key = SCHEDULE_KEYS + s->fresh_used++;
		kind = far_rng_below(&c->rng, 2) == 0 ? LIN_INSERT : LIN_UPSERT;
	} else if (s->fresh_used > 0 && far_rng_below(&c->rng, 6) == 0) {
		key = SCHEDULE_KEYS + (unsigned)far_rng_below(&c->rng, s->fresh_used);
	}
	schedule_operate(c, t, kind, key);
}

/* Until who has died by now can be taken over. */
static void
schedule_linger(struct schedule_client *c, struct far_task *t)
{
	far_sleep(t, schedule_lease(c->s) * 3 / 2);
	c->s->out->lingered[c->id] = far_sim_client_verbs(c->fabric);
}

void
schedule_work(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	const struct schedule_config *g = &c->s->config;

	if (g->deed && c->id == g->clients - 1)
		schedule_deed(c, t);
	while (c->left > 0 && !c->stopped) {
		if (g->linger == c->left)
			schedule_linger(c, t);
		c->left--;
		if (g->pace_ns)
			far_sleep(t, far_rng_below(&c->rng, g->pace_ns));
		/* A node does not answer: perhaps later. */
		if (c->shaken)
			far_sleep(t, g->tick_ns ? g->tick_ns : POOL_TICK_NS);
		c->shaken = false;
		schedule_act(c, t);
	}
	if (--c->working == 0)
		schedule_leave_work(c, t);
}
