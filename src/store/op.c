/* SPDX-License-Identifier: Apache-2.0 */
/* op.c -- operations on one key: from a fiber (store.h), blocking (far.h), and many at once. */
#include "base/base.h"
#include "store/handle.h"

int
store_begin(struct far_table *t, struct far_task *task, struct store_bracket *b)
{
	int err = pool_enter(t->f->pool, task), left;

	FAR_ASSERT(t->index && t->ops && t->pt->pool == t->f->pool);
	if (err)
		return err;
	err = pool_table_alive(t->pt);
	if (err) {
		left = pool_leave(t->f->pool, task);
		return left ? left : err;
	}
	b->before = far_account_now(task);
	if (!b->before)
		far_account(task, &t->f->ops);
	return 0;
}

int
store_end(struct far_table *t, struct far_task *task, struct store_bracket *b, int err)
{
	int left, gone;

	FAR_ASSERT(pool_is_inside(task) && far_account_now(task));
	if (!b->before)
		far_account(task, NULL);
	left = pool_leave(t->f->pool, task);
	/* Revoked meanwhile: what was read may be anybody's, whatever it looks like. But who gave the session up tells
	 * why. */
	if (left)
		return err == -FAR_EUNSURE || err == -FAR_ENODE ? err : left;
	/* Memory of a dropped table belongs to others: strange findings there are no corruption. */
	if (err < 0 && (gone = pool_table_alive(t->pt)) != 0)
		return gone;
	return err;
}

static int
store_key_check(struct far_bytes key)
{
	return key.len == 0 || key.len > FAR_KEY_MAX ? -FAR_EKEYLEN : 0;
}

int
store_get(struct far_table *t, struct far_task *task, struct far_bytes key, struct far_value *value)
{
	struct store_bracket b;
	int err = store_key_check(key);

	if (!err)
		err = store_begin(t, task, &b);
	return err ? err : store_end(t, task, &b, t->ops->get(t->index, task, key, value));
}

/*
 * True when an operation that found no room may start over: memory that waits for its epoch has been waited for,
 * which an operation cannot do inside its bracket, because it holds up the epoch itself. Bounded by pool_relieve().
 */
static bool
store_finds_room(struct far_table *t, struct far_task *task, struct pool_relief *r, int *err)
{
	int again;

	if (*err != -FAR_ENOMEM)
		return false;
	FAR_ASSERT(!pool_is_inside(task));
	again = pool_relieve(t->pt, task, r);
	if (again)
		*err = again;
	return again == 0;
}

int
store_put(struct far_table *t, struct far_task *task, enum far_put_mode mode, struct far_bytes key,
	  struct far_bytes value, uint64_t *version)
{
	struct far_scratch_mark mark = far_scratch_mark(task);
	struct pool_relief relief = { 0 };
	struct store_bracket b;
	uint64_t expect = *version;
	int err = store_key_check(key);

	FAR_ASSERT(!expect || mode == FAR_PUT_UPDATE);
	if (!err && value.len > FAR_VALUE_MAX)
		err = -FAR_EVALLEN;
	if (err)
		return err;
	do {
		far_scratch_reset(task, mark);
		*version = expect;
		err = store_begin(t, task, &b);
		if (!err)
			err = store_end(t, task, &b,
					t->ops->put(t->index, task, mode, key, value, version));
	} while (store_finds_room(t, task, &relief, &err));
	/* No version is 0: that stands for any. */
	FAR_ASSERT(err || *version != 0);
	return err;
}

int
store_delete(struct far_table *t, struct far_task *task, struct far_bytes key, uint64_t expect)
{
	struct store_bracket b;
	int err = store_key_check(key);

	if (!err)
		err = store_begin(t, task, &b);
	return err ? err : store_end(t, task, &b, t->ops->del(t->index, task, key, expect));
}

/* One request --------------------------------------------------------------------------------------------- */

static int
store_request_get(struct far_table *t, struct far_task *task, struct far_request *r)
{
	struct far_value value;
	int err = store_get(t, task, r->key, &value);
	void *copy;

	if (err)
		return err;
	FAR_ASSERT(value.version != 0 && value.bytes.len <= FAR_VALUE_MAX);
	/* The task's scratch ends with the request; the result lasts until the handle's next call. */
	copy = store_arena_alloc(&t->f->results, value.bytes.len);
	if (!copy)
		return -FAR_ENOMEM;
	if (value.bytes.len > 0)
		memcpy(copy, value.bytes.data, value.bytes.len);
	r->value = far_bytes(copy, value.bytes.len);
	r->version = value.version;
	return 0;
}

static int
store_request_contains(struct far_table *t, struct far_task *task, struct far_request *r)
{
	struct far_value value;
	int err = store_get(t, task, r->key, &value);

	if (!err)
		r->version = value.version;
	return err;
}

/* No version is 0, which to the index means "any": the answer is known up to the key's presence. */
static int
store_request_expect_none(struct far_table *t, struct far_task *task, struct far_request *r)
{
	struct far_value value;
	int err = store_get(t, task, r->key, &value);

	FAR_ASSERT(r->version == 0);
	return err ? err : -FAR_ECHANGED;
}

static int
store_request_put(struct far_table *t, struct far_task *task, struct far_request *r,
		  enum far_put_mode mode)
{
	uint64_t version = r->kind == FAR_UPDATE_IF ? r->version : 0;
	int err;

	FAR_ASSERT(mode != FAR_PUT_INSERT || r->kind == FAR_INSERT);
	if (r->kind == FAR_UPDATE_IF && version == 0)
		return store_request_expect_none(t, task, r);
	err = store_put(t, task, mode, r->key, r->value, &version);
	if (!err)
		r->version = version;
	return err;
}

static int
store_request_run(struct far_table *t, struct far_task *task, struct far_request *r)
{
	switch (r->kind) {
	case FAR_GET:
		return store_request_get(t, task, r);
	case FAR_CONTAINS:
		return store_request_contains(t, task, r);
	case FAR_PUT:
		return store_request_put(t, task, r, FAR_PUT_UPSERT);
	case FAR_INSERT:
		return store_request_put(t, task, r, FAR_PUT_INSERT);
	case FAR_UPDATE:
	case FAR_UPDATE_IF:
		return store_request_put(t, task, r, FAR_PUT_UPDATE);
	case FAR_DELETE:
		return store_delete(t, task, r->key, 0);
	case FAR_DELETE_IF:
		if (r->version == 0)
			return store_request_expect_none(t, task, r);
		return store_delete(t, task, r->key, r->version);
	default:
		return -FAR_EINVAL;
	}
}

/* Blocking calls ------------------------------------------------------------------------------------------ */

struct store_single {
	struct far_table *t;
	struct far_request *request;
};

static void
store_single_fiber(struct far_task *task, void *arg)
{
	struct store_single *s = arg;

	s->request->result = store_request_run(s->t, task, s->request);
}

static int
store_single(struct far_table *t, struct far_request *r)
{
	struct store_single s = { t, r };
	struct far *f = t->f;
	int err;

	FAR_ASSERT(r->kind < FAR_REQUEST_KINDS);
	store_enter(f);
	err = store_call(f, store_single_fiber, &s);
	if (!err)
		err = r->result;
	if (err)
		store_note(t, r->key, err);
	return store_leave(f, err);
}

int
far_get(struct far_table *t, struct far_bytes key, struct far_value *value)
{
	struct far_request r = { .kind = FAR_GET, .key = key };
	int err = store_single(t, &r);

	if (!err && value)
		*value = (struct far_value){ r.value, r.version };
	return err;
}

int
far_contains(struct far_table *t, struct far_bytes key)
{
	struct far_request r = { .kind = FAR_CONTAINS, .key = key };

	return store_single(t, &r);
}

static int
store_single_put(struct far_table *t, struct far_request *r, uint64_t *version)
{
	int err = store_single(t, r);

	if (!err && version)
		*version = r->version;
	return err;
}

int
far_put(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version)
{
	struct far_request r = { .kind = FAR_PUT, .key = key, .value = value };

	return store_single_put(t, &r, version);
}

int
far_insert(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version)
{
	struct far_request r = { .kind = FAR_INSERT, .key = key, .value = value };

	return store_single_put(t, &r, version);
}

int
far_update(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t *version)
{
	struct far_request r = { .kind = FAR_UPDATE, .key = key, .value = value };

	return store_single_put(t, &r, version);
}

int
far_update_if(struct far_table *t, struct far_bytes key, struct far_bytes value, uint64_t expect,
	      uint64_t *version)
{
	struct far_request r = {
		.kind = FAR_UPDATE_IF, .key = key, .value = value, .version = expect
	};

	return store_single_put(t, &r, version);
}

int
far_delete(struct far_table *t, struct far_bytes key)
{
	struct far_request r = { .kind = FAR_DELETE, .key = key };

	return store_single(t, &r);
}

int
far_delete_if(struct far_table *t, struct far_bytes key, uint64_t expect)
{
	struct far_request r = { .kind = FAR_DELETE_IF, .key = key, .version = expect };

	return store_single(t, &r);
}

struct store_move {
	struct far_table *t;
	struct far_bytes key;
	unsigned node;
	int err;
};

static void
store_move_fiber(struct far_task *task, void *arg)
{
	struct store_move *m = arg;
	struct pool_relief relief = { 0 };
	struct store_bracket b;

	FAR_ASSERT(!pool_is_inside(task));
	m->err = store_key_check(m->key);
	if (!m->err && m->node >= pool_nodes(m->t->f->pool))
		m->err = -FAR_EINVAL;
	if (m->err)
		return;
	do {
		m->err = store_begin(m->t, task, &b);
		if (!m->err)
			m->err = store_end(m->t, task, &b,
					   m->t->ops->move(m->t->index, task, m->key, m->node));
	} while (store_finds_room(m->t, task, &relief, &m->err));
}

int
far_move(struct far_table *t, struct far_bytes key, unsigned node)
{
	struct store_move m = { .t = t, .key = key, .node = node };
	struct far *f = t->f;
	int err;

	store_enter(f);
	err = store_call(f, store_move_fiber, &m);
	if (!err)
		err = m.err;
	if (err)
		store_note(t, key, err);
	return store_leave(f, err);
}

/* Batches ------------------------------------------------------------------------------------------------- */

struct store_batch {
	struct far_table *t;
	struct far_request *requests;
	size_t n, next;
	int err; /* the first one that is not about a key */
};

/* Each fiber takes the next request until none is left. */
static void
store_batch_fiber(struct far_task *task, void *arg)
{
	struct store_batch *b = arg;
	struct far_scratch_mark mark = far_scratch_mark(task);

	FAR_ASSERT(b->n && b->next <= b->n);
	while (b->next < b->n) {
		struct far_request *r = &b->requests[b->next++];

		FAR_ASSERT(b->next <= b->n && !pool_is_inside(task));
		r->result = b->err ? b->err : store_request_run(b->t, task, r);
		if (!b->err && !store_is_about_key(r->result))
			b->err = r->result;
		far_scratch_reset(task, mark);
	}
}

int
far_batch(struct far_table *t, struct far_request *reqs, size_t n)
{
	struct store_batch b = { .t = t, .requests = reqs, .n = n };
	struct far *f = t->f;
	unsigned fibers = (unsigned)far_min(n, f->fibers);
	int err = 0;

	FAR_ASSERT(fibers <= STORE_FIBERS_MAX && (fibers || !n));
	store_enter(f);
	for (unsigned i = 0; i < fibers && !err; i++)
		err = far_loop_spawn(f->loop, f->fabric, store_batch_fiber, &b, 0);
	far_loop_run(f->loop);
	FAR_ASSERT(b.next <= n);
	/* Fewer fibers than wanted do the work as well; none does not. */
	for (size_t i = b.next; i < n; i++)
		reqs[i].result = err;
	if (b.next == n)
		err = b.err;
	if (err)
		store_note(t, far_bytes(NULL, 0), err);
	return store_leave(f, err);
}
