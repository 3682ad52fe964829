/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.c -- draws a run, plays it, judges it.
 *
 *	build   calm: every client opens pool and table; the first one makes the table and fills it
 *	play    the clients' fibers work while the simulator interleaves them
 *	settle  calm: all leave; a newcomer waits for the dead to be fenced, reads every key, checks the table and
 *	        compares what is granted with what is in use and what is free
 *
 * A value tells which operation wrote it, so that the history needs no table of values.
 */
#include "lab/schedule.h"

#include <stdarg.h>
#include <string.h>

#include "base/base.h"
#include "base/rand.h"
#include "fabric/sim.h"
#include "lab/lin.h"
#include "pool/pool.h"

enum {
	SCHEDULE_CLIENTS = 6,
	SCHEDULE_FIBERS = 2, /* per client */
	SCHEDULE_OPS = 12,   /* per client */
	SCHEDULE_KEYS = 4,   /* that the clients fight for */
	SCHEDULE_FRESH = 24, /* keys that are inserted once, to make splits */
	SCHEDULE_FILL = 64,  /* keys that nobody touches */
	SCHEDULE_OPS_ALL = 256,
	SCHEDULE_REGION = (8 << 20) - (64 << 10), /* below 8 MiB, nodes keep small tables */
	SCHEDULE_STEPS_MAX = 3000000,
	SCHEDULE_LEASE_MIN = 500000, /* ns */
	SCHEDULE_TRIES = 50,
};

/* The table's own hash; all fingerprints alike; or low bits alike, so that splits do not part most keys. */
enum schedule_hash {
	SCHEDULE_HASH_OWN,
	SCHEDULE_HASH_FINGERPRINT,
	SCHEDULE_HASH_DEEP,
	SCHEDULE_HASHES,
};

/* What the seed drew. */
struct schedule_config {
	unsigned nodes_n, clients_n, keys_n, fresh_n, fill_n, fibers_n;
	unsigned ops_n[SCHEDULE_CLIENTS];
	unsigned value_max; /* bytes */
	enum schedule_hash hash;
	bool no_backoff;
	bool apart;       /* blocks moved away from their slots at the start */
	uint64_t pace_ns; /* sleep between operations at most */
	uint64_t lease_ns, tick_ns;
	unsigned present; /* bit per key: there at the start */
	int victim;       /* or -1 */
	enum far_sim_fate fate;
	uint64_t fuse, pause_ns;
	struct far_sim_policy policy;
};

struct schedule_client {
	struct schedule *s;
	unsigned id;
	struct far_fabric *fabric;
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
	unsigned left;                                  /* operations still to begin */
	uint64_t known[SCHEDULE_KEYS + SCHEDULE_FRESH]; /* version last seen */
	/* An outcome is unknown: it is dead, or as good as that. */
	bool stopped;
	int err; /* of building or settling */
};

struct schedule {
	struct far_sim *sims[2]; /* with one node, with two */
	struct far_loop *loops[2];
	struct far_sim *sim;
	struct far_loop *loop;
	struct lin *lin;
	struct far_rng rng;
	uint64_t seed;
	unsigned flags;
	const struct far_index_ops *design;
	struct schedule_config config;
	struct schedule_client clients[SCHEDULE_CLIENTS + 1];
	unsigned fresh_used;

	struct lin_op ops[SCHEDULE_OPS_ALL];
	uint32_t events[2 * SCHEDULE_OPS_ALL];
	struct lin_history history;
	unsigned moves;
	struct schedule_result *out;
};

const char *
schedule_verdict_name(unsigned verdict)
{
	static const char *const names[] = {
		"good",
		"not linearizable",
		"wrong value",
		"wrong result",
		"lost key",
		"broken table",
		"lost memory",
		"endless",
		"no setup",
	};

	return verdict < FAR_LEN(names) ? names[verdict] : "?";
}

/* The first thing that went wrong is what counts. */
__attribute__((format(printf, 3, 4))) static void
schedule_fail(struct schedule *s, enum schedule_verdict verdict, const char *format, ...)
{
	va_list args;

	if (s->out->verdict != SCHEDULE_GOOD)
		return;
	s->out->verdict = verdict;
	va_start(args, format);
	vsnprintf(s->out->why, sizeof(s->out->why), format, args);
	va_end(args);
}

/* Drawing ------------------------------------------------------------------------------------------------- */

static uint64_t
schedule_below(struct schedule *s, uint64_t n)
{
	return far_rng_below(&s->rng, n);
}

static uint64_t
schedule_between(struct schedule *s, uint64_t low, uint64_t high)
{
	return low + schedule_below(s, high - low + 1);
}

static bool
schedule_one_in(struct schedule *s, unsigned n)
{
	return schedule_below(s, n) == 0;
}

/* The measured kind: always the same shape. */
static void
schedule_draw_plain(struct schedule *s, struct schedule_config *c)
{
	static const unsigned keep[] = { 0, 3, 6 };

	*c = (struct schedule_config){ .nodes_n = 1, .clients_n = 4, .fibers_n = 1, .fill_n = 8, .value_max = 16 };
	c->keys_n = (unsigned)schedule_between(s, 1, 4);
	c->present = (unsigned)schedule_below(s, 1u << c->keys_n);
	for (unsigned i = 0; i < c->clients_n; i++)
		c->ops_n[i] = 6;
	c->victim = -1;
	c->policy.keep = keep[schedule_below(s, 3)];
	c->policy.weak = schedule_one_in(s, 2);
}

static void
schedule_draw_times(struct schedule *s, struct schedule_config *c)
{
	static const uint64_t paces[] = { 0, 0, 2000, 50000 };

	c->pace_ns = paces[schedule_below(s, FAR_LEN(paces))];
	c->victim = -1;
	if (!(s->flags & SCHEDULE_TICKS) || schedule_one_in(s, 3))
		return;
	/* Never shorter than a round of maintenance of all clients takes; where chains starve, even a live client may
	 * miss such a lease. */
	c->tick_ns = (uint64_t)10000 << schedule_below(s, 5);
	c->lease_ns = SCHEDULE_LEASE_MIN + c->tick_ns * schedule_between(s, 8, 30);
	if (schedule_one_in(s, 2))
		c->pace_ns = c->tick_ns;
}

static void
schedule_draw_fate(struct schedule *s, struct schedule_config *c)
{
	if (!(s->flags & SCHEDULE_CRASH) || !schedule_one_in(s, 2))
		return;
	c->victim = (int)schedule_below(s, c->clients_n);
	c->fuse = schedule_between(s, 1, schedule_one_in(s, 2) ? 300 : 1500);
	c->fate = schedule_one_in(s, 3) ? FAR_SIM_PAUSE : FAR_SIM_KILL;
	/* Within the lease, past it, or far past it. */
	c->pause_ns = (c->lease_ns ? c->lease_ns : POOL_LEASE_NS) / 2 * schedule_between(s, 1, 8);
}

static void
schedule_draw(struct schedule *s, struct schedule_config *c)
{
	static const unsigned keep[] = { 0, 0, 3, 6 };
	static const unsigned fills[] = { 0, 10, 14, 17, 19, 20, 21, 30, 45, 60 };
	static const unsigned values[] = { 16, 16, 64, 200, 700 };

	memset(c, 0, sizeof(*c));
	c->nodes_n = s->flags & SCHEDULE_NODES && schedule_one_in(s, 3) ? 2 : 1;
	c->apart = c->nodes_n == 2 && !schedule_one_in(s, 3);
	c->clients_n = (unsigned)schedule_between(s, 3, 6);
	c->keys_n = (unsigned)schedule_between(s, 1, SCHEDULE_KEYS);
	c->fresh_n = schedule_one_in(s, 2) ? (unsigned)schedule_below(s, SCHEDULE_FRESH + 1) : 0;
	c->fill_n = fills[schedule_below(s, FAR_LEN(fills))];
	c->fibers_n = schedule_one_in(s, 3) ? SCHEDULE_FIBERS : 1;
	for (unsigned i = 0; i < c->clients_n; i++)
		c->ops_n[i] = (unsigned)schedule_between(s, 2, SCHEDULE_OPS);
	c->value_max = values[schedule_below(s, FAR_LEN(values))];
	c->hash = schedule_one_in(s, 2) ? SCHEDULE_HASH_OWN
					: (enum schedule_hash)schedule_below(s, SCHEDULE_HASHES);
	c->no_backoff = schedule_one_in(s, 4);
	c->present = (unsigned)schedule_below(s, 1u << c->keys_n);
	c->policy.keep = keep[schedule_below(s, FAR_LEN(keep))];
	c->policy.weak = schedule_one_in(s, 2);
	schedule_draw_times(s, c);
	schedule_draw_fate(s, c);
}

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

/* Keys 0 ... are those of the history; fillers come behind them. */
struct schedule_key {
	char name[16];
	struct far_bytes bytes;
};

static void
schedule_key(unsigned i, struct schedule_key *k)
{
	size_t len = 0;

	/* By hand: each operation asks for one. */
	FAR_ASSERT(i < 100);
	k->name[len++] = i < SCHEDULE_KEYS ? 'k' : 'f';
	if (i >= 10)
		k->name[len++] = (char)('0' + i / 10);
	k->name[len++] = (char)('0' + i % 10);
	k->name[len] = 0;
	k->bytes = far_bytes(k->name, len);
}

/* The value of operation `op`: its number, then bytes that follow from it. Returns its length; up to 7 more bytes of
 * `buf` are spoilt. */
static size_t
schedule_value(const struct schedule *s, uint32_t op, uint8_t buf[])
{
	size_t len = 8 + far_mix64(s->seed ^ op) % (s->config.value_max - 7);
	uint64_t number = op, pattern = far_mix64(op + 1);

	memcpy(buf, &number, 8);
	for (size_t i = 8; i < len; i += 8)
		memcpy(buf + i, &pattern, 8);
	return len;
}

/* 1 + the operation that wrote the bytes, 0 when they are nobody's. */
static uint32_t
schedule_writer(const struct schedule *s, struct far_bytes value)
{
	uint8_t buf[1024];
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

/* Operations ---------------------------------------------------------------------------------------------- */

/* Runs one operation and whatever retries memory asks for. */
static int
schedule_call(struct schedule_client *c, struct far_task *t, struct lin_op *op,
	      struct far_bytes value)
{
	const struct far_index_ops *d = c->s->design;
	struct pool_relief relief = { 0 };
	struct schedule_key key;
	int err, left;

	schedule_key(op->key, &key);
	do {
		struct far_value got = { .version = 0 };

		if ((err = pool_enter(c->pool, t)) != 0)
			return err;
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
		if (left)
			return left;
	} while ((err == -FAR_ENOMEM || err == -FAR_EAGAIN) &&
		 pool_relieve(c->pt, t, &relief) == 0);
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
		c->stopped = true;
		return;
	default:
		/* It must not have had an effect: as a pending read it has none. */
		op->kind = LIN_GET;
		op->value = 0;
		if (err != -FAR_ECONTENDED)
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

static void
schedule_operate(struct schedule_client *c, struct far_task *t, enum lin_kind kind, unsigned key)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct schedule *s = c->s;
	uint32_t i = s->history.ops_n;
	struct far_bytes value;
	struct lin_op *op = &s->ops[i];
	uint8_t *buf;

	if (i == SCHEDULE_OPS_ALL || !(buf = far_scratch(t, s->config.value_max + 8)))
		return;
	s->history.ops_n++;
	*op = (struct lin_op){ .kind = (uint8_t)kind, .pending = true, .client = (uint16_t)c->id, .key = key };
	if (kind == LIN_UPDATE_IF || kind == LIN_DELETE_IF)
		op->expect = c->known[key] ? c->known[key] : 1;
	value = far_bytes(buf, schedule_value(s, i, buf));
	s->events[s->history.events_n++] = LIN_CALL(i);
	schedule_returned(c, i, schedule_call(c, t, op, value));
	far_scratch_reset(t, mark);
}

static void
schedule_move(struct schedule_client *c, struct far_task *t, unsigned key, unsigned node)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	struct pool_relief relief = { 0 };
	struct schedule_key k;
	int err, left;

	schedule_key(key, &k);
	do {
		if ((err = pool_enter(c->pool, t)) != 0)
			break;
		err = c->s->design->move(c->ix, t, k.bytes, node);
		if ((left = pool_leave(c->pool, t)) != 0)
			err = left;
	} while ((err == -FAR_ENOMEM || err == -FAR_EAGAIN) &&
		 pool_relieve(c->pt, t, &relief) == 0);
	far_scratch_reset(t, mark);
	c->s->moves++;
	c->stopped |= err == -FAR_EFENCED || err == -FAR_EUNSURE || err == -FAR_ENODE;
	if (err && !c->stopped && err != -FAR_ENOENT && err != -FAR_ECONTENDED)
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
	struct schedule_config *g = &s->config;
	/* All drawn one after the other: arguments are evaluated in no order. */
	unsigned key = (unsigned)schedule_below(s, g->keys_n);
	enum lin_kind kind = kinds[schedule_below(s, FAR_LEN(kinds))];

	if (g->nodes_n > 1 && schedule_one_in(s, 6)) {
		schedule_move(c, t, key, (unsigned)schedule_below(s, g->nodes_n));
		return;
	}
	if (s->fresh_used < g->fresh_n && schedule_one_in(s, 3)) {
		key = SCHEDULE_KEYS + s->fresh_used++;
		kind = schedule_one_in(s, 2) ? LIN_INSERT : LIN_UPSERT;
	} else if (s->fresh_used > 0 && schedule_one_in(s, 6)) {
		key = SCHEDULE_KEYS + (unsigned)schedule_below(s, s->fresh_used);
	}
	schedule_operate(c, t, kind, key);
}

static void
schedule_work(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	uint64_t pace = c->s->config.pace_ns;

	while (c->left > 0 && !c->stopped) {
		c->left--;
		if (pace)
			far_sleep(t, schedule_below(c->s, pace));
		schedule_act(c, t);
	}
}

/* Building ------------------------------------------------------------------------------------------------ */

static int
schedule_open(struct schedule_client *c, struct far_task *t)
{
	static uint64_t (*const hashes[])(const void *, size_t, uint64_t) = {
		NULL, schedule_hash_fingerprint,
		schedule_hash_deep
	};
	struct schedule *s = c->s;
	struct far_index_opts o = { .groups = 1,
				    .no_backoff = s->config.no_backoff,
				    .hash = hashes[s->config.hash] };
	struct pool_opts po = { .lease_ns = s->config.lease_ns, .tick_ns = s->config.tick_ns };
	struct far_addr head;
	int err, left;

	if ((err = pool_open(t, &po, &c->pool)) != 0)
		return err;
	if (c->id == 0) {
		if ((err = pool_table_new(c->pool, t, "t", s->design->name, &c->pt)) != 0 ||
		    (err = s->design->create(c->pt, t, &o, &head)) != 0 ||
		    (err = pool_table_commit(c->pt, t, head)) != 0)
			return err;
	} else if ((err = pool_table_open(c->pool, t, "t", &c->pt)) != 0) {
		return err;
	}
	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	if ((err = s->design->open(c->pt, t, &o, &c->ix)) == 0) {
		c->pt->ops = s->design;
		c->pt->index = c->ix;
	}
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

/* A key that nobody touches; `put` or verified. */
static int
schedule_fill(struct schedule_client *c, struct far_task *t, unsigned i, bool put)
{
	struct far_scratch_mark mark = far_scratch_mark(t);
	uint8_t buf[1024];
	struct far_bytes value = far_bytes(buf, schedule_value(c->s, SCHEDULE_OPS_ALL + i, buf));
	struct far_value got;
	struct schedule_key key;
	uint64_t version = 0;
	int err = pool_enter(c->pool, t);

	schedule_key(SCHEDULE_KEYS + SCHEDULE_FRESH + i, &key);
	if (err)
		return err;
	if (put)
		err = c->s->design->put(c->ix, t, FAR_PUT_INSERT, key.bytes, value, &version);
	else
		err = c->s->design->get(c->ix, t, key.bytes, &got);
	if (!put && (err || schedule_writer(c->s, got.bytes) != SCHEDULE_OPS_ALL + i + 1))
		schedule_fail(c->s, SCHEDULE_LOST_KEY, "untouched key %s: %s", key.name,
			      err ? far_errname(err) : "another value");
	far_scratch_reset(t, mark);
	pool_leave(c->pool, t);
	return err;
}

static void
schedule_build(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	struct schedule *s = c->s;
	struct schedule_config *g = &s->config;

	if ((c->err = schedule_open(c, t)) != 0)
		return;
	/* Everybody fills its share, so that blocks have different owners. */
	for (unsigned i = c->id; i < g->fill_n && !c->err; i += g->clients_n)
		c->err = schedule_fill(c, t, i, true);
	for (unsigned i = 0; i < g->keys_n; i++) {
		if (i % g->clients_n != c->id || !(g->present >> i & 1))
			continue;
		schedule_operate(c, t, LIN_INSERT, i);
		if (g->apart)
			schedule_move(c, t, i, 1);
	}
}

/* Runs `fn` as a fiber of each client in turn, or of all at once. */
static int
schedule_each(struct schedule *s, void (*fn)(struct far_task *t, void *arg), unsigned fibers,
	      bool at_once)
{
	for (unsigned f = 0; f < fibers; f++) {
		for (unsigned i = 0; i < s->config.clients_n; i++) {
			struct schedule_client *c = &s->clients[i];
			int err = far_loop_spawn(s->loop, c->fabric, fn, c, 0);

			if (err)
				return err;
			if (!at_once)
				far_loop_run(s->loop);
		}
	}
	far_loop_run(s->loop);
	return 0;
}

static void
schedule_calm(struct schedule *s, bool calm)
{
	struct far_sim_policy p = s->config.policy;

	p.calm = calm;
	p.steps_max = SCHEDULE_STEPS_MAX;
	far_sim_set_policy(s->sim, &p);
}

/* Settling ------------------------------------------------------------------------------------------------ */

static void
schedule_report(void *arg, const char *line)
{
	schedule_fail(arg, SCHEDULE_BROKEN_TABLE, "check: %s", line);
}

/* Lets the pool fence the dead, and the design finish what they left half-done. */
static int
schedule_wait_dead(struct schedule_client *c, struct far_task *t)
{
	uint64_t lease_ns = c->s->config.lease_ns ? c->s->config.lease_ns : POOL_LEASE_NS;
	int n = -FAR_ETIMEOUT;

	if (!c->s->out->crashed)
		return 0;
	far_sleep(t, 3 * lease_ns);
	/* It waits a few leases; ours may be shorter than a design's wait for a lock. */
	for (int tries = 0; tries < SCHEDULE_TRIES && n == -FAR_ETIMEOUT; tries++)
		n = pool_table_adopt_orphans(c->pt, t);
	return n < 0 ? n : 0;
}

static int
schedule_inspect_all(struct schedule_client *c, struct far_task *t, struct far_table_stat *stat)
{
	struct schedule *s = c->s;
	int err, n, left;

	if ((err = schedule_wait_dead(c, t)) != 0)
		return err;
	for (unsigned i = 0; i < s->config.keys_n; i++)
		schedule_operate(c, t, LIN_GET, i);
	for (unsigned i = 0; i < s->fresh_used; i++)
		schedule_operate(c, t, LIN_GET, SCHEDULE_KEYS + i);
	for (unsigned i = 0; i < s->config.fill_n; i++)
		schedule_fill(c, t, i, false);
	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	n = s->design->check(c->ix, t, schedule_report, s);
	err = n < 0 ? n : s->design->stat(c->ix, t, stat);
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

/* Adds up. Of the dead, blocks may be lost that they had unlinked and told nobody about. */
static int
schedule_audit(struct schedule_client *c, struct far_task *t, const struct far_table_stat *stat)
{
	static const char *const kinds[] = { "blocks", "index" };
	uint64_t used[] = { stat->block_bytes, stat->index_bytes };
	struct schedule *s = c->s;
	struct pool_usage u;
	int err = pool_table_usage(c->pt, t, &u);

	for (int k = 0; k < 2 && !err; k++) {
		uint64_t known = u.free[k] + u.header[k] + used[k];

		if (u.granted[k] < known || (u.granted[k] > known && !s->out->crashed))
			schedule_fail(s, SCHEDULE_LOST_MEMORY,
				      "%s: granted %llu, free %llu, headers %llu, in use %llu",
				      kinds[k], (unsigned long long)u.granted[k],
				      (unsigned long long)u.free[k],
				      (unsigned long long)u.header[k], (unsigned long long)used[k]);
	}
	return err;
}

static void
schedule_close(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	int err;

	if (c->pt)
		pool_table_detach(c->pt, t);
	c->s->design->close(c->ix);
	c->ix = NULL;
	if (c->stopped) {
		pool_abandon(c->pool);
		c->pool = NULL;
		return;
	}
	c->err = c->pt ? pool_table_close(c->pt, t) : 0;
	err = pool_close(c->pool, t);
	c->err = c->err ? c->err : err;
	c->pool = NULL;
	if (c->err == -FAR_EFENCED)
		c->stopped = true;
	else if (c->err)
		schedule_fail(c->s, SCHEDULE_WRONG_RESULT, "client %u closes: %s", c->id,
			      far_errname(c->err));
}

/* A newcomer looks at everything after the others have left. */
static void
schedule_inspect(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	struct schedule *s = c->s;
	struct far_table_stat stat = { .splits = 0 };
	int err = schedule_open(c, t);

	if (!err)
		err = schedule_inspect_all(c, t, &stat);
	if (!err && s->flags & SCHEDULE_AUDIT)
		err = schedule_audit(c, t, &stat);
	if (err || c->stopped)
		schedule_fail(s, SCHEDULE_WRONG_RESULT, "inspection: %s", far_errname(err));
	s->out->splits = stat.splits;
	schedule_close(t, c);
}

/* Judging ------------------------------------------------------------------------------------------------- */

static bool
schedule_wrote(const struct lin_op *op)
{
	return !op->pending && op->result == 0 && op->kind != LIN_GET && op->kind != LIN_DELETE &&
	       op->kind != LIN_DELETE_IF;
}

static void
schedule_judge_versions(struct schedule *s)
{
	uint32_t wrote[SCHEDULE_OPS_ALL], n = 0;

	for (uint32_t i = 0; i < s->history.ops_n; i++) {
		if (!schedule_wrote(&s->ops[i]))
			continue;
		for (uint32_t j = 0; j < n; j++)
			if (s->ops[i].version == s->ops[wrote[j]].version)
				schedule_fail(s, SCHEDULE_WRONG_VALUE,
					      "operations %u and %u wrote one version", wrote[j],
					      i);
		wrote[n++] = i;
	}
}

static void
schedule_judge(struct schedule *s)
{
	uint32_t key = 0;
	int ok;

	schedule_judge_versions(s);
	ok = lin_check(s->lin, &s->history, &key);
	if (ok == 0)
		schedule_fail(s, SCHEDULE_NOT_LINEARIZABLE, "key %u", key);
	else if (ok < 0)
		schedule_fail(s, SCHEDULE_NO_SETUP, "checker: %s", far_errname(ok));
	for (unsigned i = 0; i < s->config.nodes_n && s->flags & SCHEDULE_AUDIT; i++)
		if (far_sim_node_check(s->sim, i) != 0)
			schedule_fail(s, SCHEDULE_BROKEN_TABLE, "node %u: its own tables", i);
}

/* Running ------------------------------------------------------------------------------------------------- */

int
schedule_new(struct schedule **out)
{
	struct schedule *s = calloc(1, sizeof(*s));

	if (!s || lin_new(&s->lin) != 0) {
		free(s);
		return -FAR_ENOMEM;
	}
	for (unsigned i = 0; i < 2; i++) {
		struct far_sim_opts o = { .nodes_n = i + 1, .region_len = SCHEDULE_REGION };
		struct far_loop_opts l = { .seed = 0 };

		if (far_sim_open(&o, &s->sims[i]) != 0)
			goto fail;
		l.clock = far_sim_clock(s->sims[i]);
		if (far_loop_open(&l, &s->loops[i]) != 0)
			goto fail;
	}
	*out = s;
	return 0;
fail:
	schedule_free(s);
	return -FAR_ENOMEM;
}

void
schedule_free(struct schedule *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < 2; i++) {
		far_loop_close(s->loops[i]);
		far_sim_close(s->sims[i]);
	}
	lin_free(s->lin);
	free(s);
}

static int
schedule_start(struct schedule *s, uint64_t seed, const struct far_index_ops *design,
	       unsigned flags)
{
	int err;

	s->seed = seed;
	s->flags = flags;
	s->design = design;
	far_rng_seed(&s->rng, seed);
	(flags & SCHEDULE_PLAIN ? schedule_draw_plain : schedule_draw)(s, &s->config);
	s->sim = s->sims[s->config.nodes_n - 1];
	s->loop = s->loops[s->config.nodes_n - 1];
	s->history = (struct lin_history){ s->ops, s->events, 0, 0 };
	s->fresh_used = s->moves = 0;
	if ((err = far_sim_reset(s->sim, seed)) != 0)
		return err;
	far_loop_reset(s->loop, seed);
	memset(s->clients, 0, sizeof(s->clients));
	schedule_calm(s, true);
	for (unsigned i = 0; i < s->config.clients_n; i++) {
		struct schedule_client *c = &s->clients[i];

		c->s = s;
		c->id = i;
		c->left = s->config.ops_n[i];
		if ((err = far_sim_connect(s->sim, s->loop, NULL, &c->fabric)) != 0)
			return err;
	}
	return 0;
}

static int
schedule_play(struct schedule *s)
{
	struct schedule_config *g = &s->config;
	uint64_t steps, verbs;
	int err;

	schedule_calm(s, false);
	if (g->victim >= 0)
		far_sim_fuse(s->clients[g->victim].fabric, g->fuse, g->fate, g->pause_ns);
	steps = far_sim_steps(s->sim);
	verbs = far_sim_verbs(s->sim);
	if ((err = schedule_each(s, schedule_work, g->fibers_n, true)) != 0)
		return err;
	s->out->steps = far_sim_steps(s->sim) - steps;
	s->out->verbs = far_sim_verbs(s->sim) - verbs;
	s->out->hash = far_sim_hash(s->sim);
	if (far_sim_exhausted(s->sim))
		schedule_fail(s, SCHEDULE_ENDLESS, "more than %u steps", SCHEDULE_STEPS_MAX);
	/* A fuse that is still burning must not strike while the others settle. */
	if (g->victim >= 0)
		far_sim_fuse(s->clients[g->victim].fabric, UINT64_MAX, FAR_SIM_KILL, 0);
	schedule_calm(s, true);
	return 0;
}

/* All leave, dead or alive; then somebody new comes (not where speed is measured). */
static int
schedule_settle(struct schedule *s)
{
	struct schedule_client *c = &s->clients[SCHEDULE_CLIENTS];
	int err = schedule_each(s, schedule_close, 1, false);

	for (unsigned i = 0; i < s->config.clients_n; i++)
		s->out->crashed |= s->clients[i].stopped;
	if (s->out->crashed && !s->config.lease_ns && s->config.victim < 0)
		schedule_fail(s, SCHEDULE_WRONG_RESULT,
			      "a client was fenced that had done nothing wrong");
	if (err || far_sim_exhausted(s->sim) || s->out->verdict == SCHEDULE_NO_SETUP ||
	    s->flags & SCHEDULE_PLAIN)
		return err;
	*c = (struct schedule_client){ .s = s, .id = SCHEDULE_CLIENTS };
	if ((err = far_sim_connect(s->sim, s->loop, NULL, &c->fabric)) != 0 ||
	    (err = far_loop_spawn(s->loop, c->fabric, schedule_inspect, c, 0)) != 0)
		return err;
	far_loop_run(s->loop);
	return 0;
}

/* Daemons of abandoned pools end here. */
static void
schedule_end(struct schedule *s)
{
	far_loop_turn(s->loop);
	for (unsigned i = 0; i <= SCHEDULE_CLIENTS; i++) {
		far_fabric_close(s->clients[i].fabric);
		s->clients[i].fabric = NULL;
	}
}

int
schedule_run(struct schedule *s, uint64_t seed, const struct far_index_ops *design, unsigned flags,
	     struct schedule_result *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	s->out = out;
	err = schedule_start(s, seed, design, flags);
	if (err)
		return err;
	err = schedule_each(s, schedule_build, 1, false);
	for (unsigned i = 0; i < s->config.clients_n; i++)
		if (s->clients[i].err)
			schedule_fail(s, SCHEDULE_NO_SETUP, "client %u: %s", i,
				      far_errname(s->clients[i].err));
	if (!err && out->verdict == SCHEDULE_GOOD)
		err = schedule_play(s);
	if (!err)
		err = schedule_settle(s);
	if (!err)
		schedule_judge(s);
	out->ops = s->history.ops_n;
	schedule_end(s);
	return err;
}

/* Printing ------------------------------------------------------------------------------------------------ */

static void
schedule_print_op(const struct schedule *s, uint32_t i, bool returned, FILE *out)
{
	const struct lin_op *op = &s->ops[i];
	struct schedule_key key;

	schedule_key(op->key, &key);
	fprintf(out, "  %s client %u #%u %s %s", returned ? "<-" : "->", op->client, i,
		lin_kind_name(op->kind), key.name);
	if (op->expect)
		fprintf(out, " if %llx", (unsigned long long)op->expect);
	if (!returned && op->pending)
		fprintf(out, " (never returns: %s)", far_errname(op->result));
	if (returned && op->result)
		fprintf(out, ": %s", far_errname(op->result));
	if (returned && !op->result && op->kind == LIN_GET)
		fprintf(out, ": value of #%d", (int)op->value - 1);
	if (returned && !op->result && op->version)
		fprintf(out, ", version %llx", (unsigned long long)op->version);
	fprintf(out, "\n");
}

void
schedule_print(const struct schedule *s, FILE *out)
{
	const struct schedule_config *c = &s->config;

	fprintf(out, "seed %llu, design %s: %s%s%s\n", (unsigned long long)s->seed, s->design->name,
		schedule_verdict_name(s->out->verdict), s->out->why[0] ? ": " : "", s->out->why);
	fprintf(out,
		"  %u nodes, %u clients with %u fibers, %u keys, %u fresh, %u fillers, hash %u, values <= %u B%s%s\n",
		c->nodes_n, c->clients_n, c->fibers_n, c->keys_n, c->fresh_n, c->fill_n, c->hash,
		c->value_max, c->apart ? ", blocks apart" : "",
		c->no_backoff ? ", no back-off" : "");
	fprintf(out, "  pace %llu ns, tick %llu ns, lease %llu ns, keep %u%s\n",
		(unsigned long long)c->pace_ns, (unsigned long long)c->tick_ns,
		(unsigned long long)c->lease_ns, c->policy.keep,
		c->policy.weak ? ", weak order" : "");
	if (c->victim >= 0)
		fprintf(out, "  client %d %s after %llu steps\n", c->victim,
			c->fate == FAR_SIM_KILL ? "dies" : "stands still",
			(unsigned long long)c->fuse);
	fprintf(out, "  %llu steps, %llu verbs, %llu splits, %u moves, hash %016llx\n",
		(unsigned long long)s->out->steps, (unsigned long long)s->out->verbs,
		(unsigned long long)s->out->splits, s->moves, (unsigned long long)s->out->hash);
	for (uint32_t e = 0; e < s->history.events_n; e++)
		schedule_print_op(s, s->events[e] >> 1, s->events[e] & 1, out);
}
