/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demo_verify.c -- is every record there, as the sources and the clients' progress say, and nothing else?
 *
 * What is expected is made anew: the files are read again, and each client's operations are played again on a plain
 * array. Then every key is looked up, and both tables are walked and counted: as many keys as are expected, all of
 * which were found, leave no room for another one.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/bytes.h"
#include "cli/demo.h"

enum { DEMO_LOOKUPS = 512 };

struct demo_check {
	const struct demo_plan *plan;
	bool (*stop)(void);
	struct demo_verdict *verdict;
	struct far *far;
	struct far_table *table;
};

/* Keeps the first message. */
static void
demo_say(struct demo_verdict *v, const char *format, ...)
{
	va_list args;

	if (*v->message)
		return;
	va_start(args, format);
	vsnprintf(v->message, sizeof(v->message), format, args);
	va_end(args);
}

static void
demo_wrong(struct demo_verdict *v, struct far_bytes key, const char *what)
{
	v->wrong++;
	demo_say(v, "key %.*s: %s", (int)far_min(key.len, 100), (const char *)key.data, what);
}

static int
demo_error(struct demo_check *c, int err)
{
	demo_say(c->verdict, "%s", *far_errmsg(c->far) ? far_errmsg(c->far) : far_strerror(err));
	return err;
}

/* The registry ------------------------------------------------------------------------------------------------ */

/* All records of all sources, in the order in which they were loaded. */
struct demo_records {
	struct bytes bytes;
	struct demo_record {
		size_t key_at, key_len, value_len; /* the value follows the key */
	} * all;
	size_t n, cap;
};

static int
demo_records_add(struct demo_records *all, const struct record *rec)
{
	struct demo_record *r;
	void *grown;

	if (all->n == all->cap) {
		if (!(grown = realloc(all->all, (all->cap * 2 + 4096) * sizeof(*all->all))))
			return -FAR_ENOMEM;
		all->all = grown;
		all->cap = all->cap * 2 + 4096;
	}
	r = &all->all[all->n++];
	*r = (struct demo_record){ all->bytes.len, rec->key.len, rec->value.len };
	if (bytes_add(&all->bytes, rec->key.data, rec->key.len) != 0)
		return -FAR_ENOMEM;
	return bytes_add(&all->bytes, rec->value.data, rec->value.len);
}

static int
demo_records_read(struct demo_check *c, const struct demo_source *s, struct demo_records *all)
{
	struct record_source *r;
	struct record rec;
	int err;

	if ((err = demo_source_open(c->plan, s, &r, c->verdict->message)) != 0)
		return err;
	while ((err = record_next(r, &rec)) == 1)
		if ((err = demo_records_add(all, &rec)) != 0)
			break;
	if (err != 0)
		demo_say(c->verdict, "%s", *record_error(r) ? record_error(r) : far_strerror(err));
	record_close(r);
	return err;
}

/* By key, and among equal keys by order of loading. */
static int
demo_record_cmp(const void *a, const void *b, void *arg)
{
	const struct demo_record *x = a, *y = b;
	const char *bytes = arg;
	int cmp = memcmp(bytes + x->key_at, bytes + y->key_at, far_min(x->key_len, y->key_len));

	if (cmp != 0 || x->key_len != y->key_len)
		return cmp != 0 ? cmp : x->key_len < y->key_len ? -1
								: 1;
	return x->key_at < y->key_at ? -1 : 1;
}

/* Leaves the last record of each key. */
static void
demo_records_unique(struct demo_records *all)
{
	size_t n = 0;

	qsort_r(all->all, all->n, sizeof(*all->all), demo_record_cmp, all->bytes.data);
	for (size_t i = 0; i < all->n; i++) {
		const struct demo_record *r = &all->all[i], *last = n ? &all->all[n - 1] : NULL;

		if (last && last->key_len == r->key_len &&
		    memcmp(all->bytes.data + last->key_at, all->bytes.data + r->key_at,
			   r->key_len) == 0)
			n--;
		all->all[n++] = *r;
	}
	all->n = n;
}

static int
demo_lookup_registry(struct demo_check *c, const struct demo_records *all, size_t from, size_t n)
{
	struct far_request reqs[DEMO_LOOKUPS];
	int err;

	for (size_t i = 0; i < n; i++)
		reqs[i] = (struct far_request){
			.kind = FAR_GET,
			.key = far_bytes(all->bytes.data + all->all[from + i].key_at,
					 all->all[from + i].key_len),
		};
	if ((err = far_batch(c->table, reqs, n)) != 0)
		return demo_error(c, err);
	for (size_t i = 0; i < n; i++) {
		const struct demo_record *r = &all->all[from + i];
		const char *want = all->bytes.data + r->key_at + r->key_len;

		c->verdict->compared++;
		if (reqs[i].result != 0)
			demo_wrong(c->verdict, reqs[i].key, far_strerror(reqs[i].result));
		else if (reqs[i].value.len != r->value_len ||
			 memcmp(reqs[i].value.data, want, r->value_len) != 0)
			demo_wrong(c->verdict, reqs[i].key, "another value than in the source");
	}
	return c->stop() ? -FAR_EINTR : 0;
}

static int
demo_check_registry(struct demo_check *c)
{
	struct demo_records all = { .n = 0 };
	int err = 0;

	for (unsigned i = 0; demo_source_at(i) && err == 0; i++)
		err = demo_records_read(c, demo_source_at(i), &all);
	c->verdict->rows = all.n;
	if (err == 0)
		demo_records_unique(&all);
	c->verdict->records = all.n;
	for (size_t at = 0; at < all.n && err == 0; at += DEMO_LOOKUPS)
		err = demo_lookup_registry(c, &all, at, far_min(DEMO_LOOKUPS, all.n - at));
	free(all.all);
	bytes_free(&all.bytes);
	return err;
}

/* The readings ------------------------------------------------------------------------------------------------ */

/* What must be there: per device the number of its reading, 0 = none; and one operation that may have happened. */
struct demo_state {
	uint32_t *reading;
	bool unsure;
	struct demo_op op;
};

static int
demo_replay(const struct demo_plan *p, const struct demo_slot *slots, struct demo_state *s,
	    struct demo_verdict *v)
{
	s->reading = malloc(p->readings * sizeof(*s->reading));
	if (!s->reading)
		return -FAR_ENOMEM;
	for (uint64_t i = 0; i < p->readings; i++)
		s->reading[i] = 1;
	for (unsigned client = 0; client < p->clients; client++) {
		uint64_t finished = atomic_load(&slots[client].finished);

		for (uint64_t k = 0; k < finished; k++) {
			struct demo_op op = demo_op(p, client, k);

			s->reading[op.device] = (uint32_t)demo_op_after(&op, s->reading[op.device]);
		}
		if (atomic_load(&slots[client].started) == finished)
			continue;
		v->in_flight = true;
		s->op = demo_op(p, client, finished);
		s->unsure =
			demo_op_after(&s->op, s->reading[s->op.device]) != s->reading[s->op.device];
	}
	return 0;
}

/* `n`: the reading found, 0 = none, UINT64_MAX = bytes that are no reading of this device. */
static void
demo_judge(struct demo_check *c, struct demo_state *s, uint64_t device, uint64_t n,
	   struct far_bytes key)
{
	uint64_t want = s->reading[device];
	char what[80];

	c->verdict->compared++;
	if (s->unsure && device == s->op.device && n == demo_op_after(&s->op, want)) {
		c->verdict->in_flight_happened = true;
		s->reading[device] = (uint32_t)n;
		return;
	}
	if (n == want)
		return;
	snprintf(what, sizeof(what), "reading %" PRId64 " instead of %" PRIu64, (int64_t)n, want);
	demo_wrong(c->verdict, key, what);
}

static int
demo_lookup_readings(struct demo_check *c, struct demo_state *s, uint64_t from, size_t n)
{
	static char keys[DEMO_LOOKUPS][DEMO_KEY_MAX];
	struct far_request reqs[DEMO_LOOKUPS];
	int err;

	for (size_t i = 0; i < n; i++)
		reqs[i] = (struct far_request){ .kind = FAR_GET,
						.key = demo_device(c->plan, from + i, keys[i]) };
	if ((err = far_batch(c->table, reqs, n)) != 0)
		return demo_error(c, err);
	for (size_t i = 0; i < n; i++) {
		uint64_t found = 0;

		if (reqs[i].result == 0 &&
		    (found = demo_reading_number(from + i, reqs[i].value)) == 0)
			found = UINT64_MAX;
		if (reqs[i].result != 0 && reqs[i].result != -FAR_ENOENT)
			return demo_error(c, reqs[i].result);
		demo_judge(c, s, from + i, found, reqs[i].key);
	}
	return c->stop() ? -FAR_EINTR : 0;
}

static int
demo_check_readings(struct demo_check *c, const struct demo_slot *slots)
{
	struct demo_state s = { .reading = NULL };
	int err = demo_replay(c->plan, slots, &s, c->verdict);

	for (uint64_t i = 0; i < c->plan->readings && err == 0; i += DEMO_LOOKUPS)
		err = demo_lookup_readings(c, &s, i, far_min(DEMO_LOOKUPS, c->plan->readings - i));
	for (uint64_t i = 0; i < c->plan->readings && err == 0; i++)
		c->verdict->devices += s.reading[i] != 0;
	free(s.reading);
	return err;
}

/* Both -------------------------------------------------------------------------------------------------------- */

/* Walks the table: it must hold `want` keys, which are those that were found before. */
static int
demo_count(struct demo_check *c, const char *name, uint64_t want)
{
	struct far_iter *it;
	struct far_value value;
	struct far_bytes key;
	uint64_t n = 0;
	int err;

	if ((err = far_iter_open(c->table, &it)) != 0)
		return demo_error(c, err);
	while ((err = far_iter_next(it, &key, &value)) == 1)
		if (++n % 4096 == 0 && c->stop())
			break;
	far_iter_close(it);
	if (err != 0)
		return err == 1 ? -FAR_EINTR : demo_error(c, err);
	if (n != want) {
		c->verdict->wrong++;
		demo_say(c->verdict,
			 "a walk over table %s meets %" PRIu64 " keys instead of %" PRIu64, name, n,
			 want);
	}
	return 0;
}

static void
demo_violation(void *arg, const char *line)
{
	demo_say(arg, "check: %s", line);
}

static int
demo_inspect(struct demo_check *c, struct far_table_stat *stat)
{
	int found, err;

	if ((found = far_table_check(c->table, demo_violation, c->verdict)) < 0)
		return demo_error(c, found);
	c->verdict->violations += found;
	err = far_table_stat(c->table, stat);
	return err != 0 ? demo_error(c, err) : 0;
}

static int
demo_verify_tables(struct demo_check *c, const struct demo_slot *slots)
{
	struct demo_verdict *v = c->verdict;
	int err;

	if ((err = far_table_open(c->far, DEMO_REGISTRY, &c->table)) != 0)
		return demo_error(c, err);
	if ((err = demo_check_registry(c)) == 0 &&
	    (err = demo_count(c, DEMO_REGISTRY, v->records)) == 0)
		err = demo_inspect(c, &v->registry);
	far_table_close(c->table);
	if (err != 0)
		return err;
	if ((err = far_table_open(c->far, DEMO_READINGS, &c->table)) != 0)
		return demo_error(c, err);
	if ((err = demo_check_readings(c, slots)) == 0 &&
	    (err = demo_count(c, DEMO_READINGS, v->devices)) == 0)
		err = demo_inspect(c, &v->readings);
	far_table_close(c->table);
	return err;
}

int
demo_verify(const struct demo_plan *p, const char *uri, const struct demo_slot *slots,
	    bool (*stop)(void), struct demo_verdict *v)
{
	struct demo_check c = { .plan = p, .stop = stop, .verdict = v };
	struct far_opts opts = { .errmsg = v->message, .fibers = 64 };
	int err;

	memset(v, 0, sizeof(*v));
	if ((err = far_open(uri, &opts, &c.far)) != 0)
		return err;
	if ((err = demo_verify_tables(&c, slots)) != 0)
		demo_say(v, "%s", far_strerror(err));
	far_counts(c.far, &v->spent, NULL);
	far_close(c.far);
	return err;
}
