/* SPDX-License-Identifier: Apache-2.0 */
/* table.c -- tables by name: create, open, close, drop, list, stat, check. */
#include "base/base.h"
#include "pool/name.h"
#include "store/handle.h"

/* One call about tables, for whatever its fiber does. */
struct store_table_call {
	struct far *f;
	const char *name;
	const struct far_table_opts *opts;
	const struct far_index_ops *ops;
	struct far_table *t;
	struct pool_root *roots;
	struct far_table_stat *stat;
	far_report_fn *report;
	void *report_arg;
	int result;
};

/* Runs the fiber of a call that names its table, and words its error. */
static int
store_table_run(struct store_table_call *c, void (*fn)(struct far_task *task, void *arg))
{
	int err = store_call(c->f, fn, c);

	FAR_ASSERT(c->f && c->name);
	if (!err)
		err = c->result;
	if (err < 0 && c->f->error.text[0] == '\0')
		store_say(c->f, err, "table '%.63s': %s", c->name, far_strerror(err));
	return err;
}

static int
store_name_error(struct far *f, const char *name)
{
	return store_say(f, -FAR_EINVAL,
			 "table '%.80s': a name has 1 to %d characters out of A-Z a-z 0-9 . _ -",
			 name, FAR_NAME_MAX);
}

static void
store_create_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;
	struct far_index_opts opts = { .groups = c->opts ? c->opts->groups : 0,
				       .no_backoff = c->f->no_backoff };
	struct pool_table *pt = NULL;
	struct far_addr head;

	c->result = pool_table_new(c->f->pool, task, c->name, c->ops->name, &pt);
	if (c->result)
		return;
	FAR_ASSERT(pt && !pt->head.raw && !pt->index);
	c->result = c->ops->create(pt, task, &opts, &head);
	if (!c->result)
		c->result = pool_table_commit(pt, task, head);
	/* Without a head the name goes with the object. */
	(void)pool_table_close(pt, task);
}

int
far_table_create(struct far *f, const char *name, const struct far_table_opts *opts)
{
	const char *design = opts ? opts->design : NULL;
	struct store_table_call c = {
		.f = f, .name = name, .opts = opts, .ops = far_index_find(design)
	};
	int err;

	store_enter(f);
	if (!pool_name_is_good(name, FAR_NAME_MAX + 1))
		err = store_name_error(f, name);
	else if (!c.ops)
		err = store_say(f, -FAR_EINVAL, "design '%.40s': there is none of that name",
				design ? design : "");
	else
		err = store_table_run(&c, store_create_fiber);
	if (err == -FAR_EINVAL && c.ops && opts && opts->groups)
		err = store_say(f, err, "design '%.40s': no subtables of %u groups", c.ops->name,
				opts->groups);
	return store_leave(f, err);
}

/* Inside brackets: what the index caches while it is opened must not be reused before refresh() knows of it (M2). */
static int
store_open_index(struct far_table *t, struct far_task *task, const struct far_index_opts *opts)
{
	int err = pool_enter(t->pt->pool, task);

	FAR_ASSERT(t->ops && !t->index);
	if (err)
		return err;
	err = far_index_open(t->ops, t->pt, task, opts, &t->index);
	FAR_ASSERT(err || t->index == t->pt->index);
	/* A session that was revoked meanwhile tells so at the next operation. */
	(void)pool_leave(t->pt->pool, task);
	return err;
}

static void
store_open_index_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;
	const struct far_index_opts opts = { .no_backoff = c->f->no_backoff };
	struct far_table *t = c->t;

	FAR_ASSERT(!t->pt);
	c->result = pool_table_open(c->f->pool, task, c->name, &t->pt);
	if (c->result)
		return;
	t->ops = far_index_find(t->pt->design);
	if (!t->ops) {
		c->result = store_say(c->f, -FAR_ENOTSUP,
				      "table '%.63s' has design '%.15s', which is not known here",
				      c->name, t->pt->design);
	} else {
		c->result = store_open_index(t, task, &opts);
	}
	if (c->result)
		(void)pool_table_close(t->pt, task);
}

int
far_table_open(struct far *f, const char *name, struct far_table **out)
{
	struct store_table_call c = { .f = f, .name = name };
	int err;

	store_enter(f);
	c.t = calloc(1, sizeof(*c.t));
	if (!pool_name_is_good(name, FAR_NAME_MAX + 1))
		err = store_name_error(f, name);
	else
		err = c.t ? store_table_run(&c, store_open_index_fiber) : -FAR_ENOMEM;
	if (err) {
		free(c.t);
		return store_leave(f, err);
	}
	FAR_ASSERT(c.t->pt && c.t->index && c.t->ops);
	c.t->f = f;
	c.t->next = f->tables;
	f->tables = c.t;
	*out = c.t;
	return store_leave(f, 0);
}

static void
store_close_table_fiber(struct far_task *task, void *arg)
{
	struct far_table *t = arg;

	FAR_ASSERT(t->index == t->pt->index);
	/* The daemon may be inside one of the index's functions: detach waits for it. */
	pool_table_detach(t->pt, task);
	t->ops->close(t->index);
	/* The table's death is no error of its closing; chunks not handed back now go when the session ends. */
	(void)pool_table_close(t->pt, task);
}

void
store_table_close(struct far_table *t)
{
	struct far *f = t->f;
	struct far_table **at = &f->tables;

	while (*at != t) {
		FAR_ASSERT(*at);
		at = &(*at)->next;
	}
	*at = t->next;
	/* Without memory for a fiber the objects stay until the process ends: the daemon uses them. */
	if (store_call(f, store_close_table_fiber, t) == 0)
		free(t);
}

void
far_table_close(struct far_table *t)
{
	struct far *f;

	if (!t)
		return;
	f = t->f;
	store_enter(f);
	store_table_close(t);
	store_leave(f, 0);
}

static void
store_drop_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;

	FAR_ASSERT(!pool_is_inside(task));
	c->result = pool_table_drop(c->f->pool, task, c->name);
}

int
far_table_drop(struct far *f, const char *name)
{
	struct store_table_call c = { .f = f, .name = name };
	int err;

	store_enter(f);
	err = pool_name_is_good(name, FAR_NAME_MAX + 1) ? store_table_run(&c, store_drop_fiber)
							: store_name_error(f, name);
	return store_leave(f, err);
}

static void
store_list_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;

	c->result = pool_table_list(c->f->pool, task, &c->roots);
}

int
far_table_list(struct far *f, struct far_table_info **list)
{
	struct store_table_call c = { .f = f, .name = "" };
	struct far_table_info *info;
	int n;

	store_enter(f);
	n = store_call(f, store_list_fiber, &c);
	if (!n)
		n = c.result;
	if (n < 0)
		return store_leave(f, store_say(f, n, "list of tables: %s", far_strerror(n)));
	FAR_ASSERT(c.roots);
	info = calloc((size_t)n + 1, sizeof(*info));
	for (int i = 0; info && i < n; i++) {
		/* Both come NUL-padded, not NUL-terminated, from memory that others write. */
		memcpy(info[i].name, c.roots[i].name, sizeof(info[i].name) - 1);
		memcpy(info[i].design, c.roots[i].design, sizeof(info[i].design) - 1);
	}
	free(c.roots);
	*list = info;
	return store_leave(f, info ? n : -FAR_ENOMEM);
}

/* Inspection ---------------------------------------------------------------------------------------------- */

static void
store_stat_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;
	struct far_table_stat *s = c->stat;
	struct store_bracket b;
	struct pool_usage u;

	FAR_ASSERT(s && c->t->f == c->f);
	memset(s, 0, sizeof(*s));
	c->result = store_begin(c->t, task, &b);
	if (c->result)
		return;
	c->result = store_end(c->t, task, &b, c->t->ops->stat(c->t->index, task, s));
	if (!c->result)
		c->result = pool_table_usage(c->t->pt, task, &u);
	if (c->result)
		return;
	s->granted_block_bytes = u.granted[0];
	s->granted_index_bytes = u.granted[1];
	s->free_block_bytes = u.free[0];
	s->free_index_bytes = u.free[1];
	s->header_bytes = u.header[0] + u.header[1];
}

static void
store_check_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;
	struct store_bracket b;

	c->result = store_begin(c->t, task, &b);
	FAR_ASSERT(c->t->f == c->f);
	if (!c->result)
		c->result =
			store_end(c->t, task, &b,
				  c->t->ops->check(c->t->index, task, c->report, c->report_arg));
}

static int
store_inspect(struct store_table_call *c, void (*fn)(struct far_task *task, void *arg))
{
	int err;

	FAR_ASSERT(c->t && c->t->f == c->f);
	store_enter(c->f);
	err = store_call(c->f, fn, c);
	if (!err)
		err = c->result;
	if (err < 0)
		store_note(c->t, far_bytes(NULL, 0), err);
	return store_leave(c->f, err);
}

int
far_table_stat(struct far_table *t, struct far_table_stat *out)
{
	struct store_table_call c = { .f = t->f, .t = t, .stat = out };

	return store_inspect(&c, store_stat_fiber);
}

int
far_table_check(struct far_table *t, far_report_fn *report, void *arg)
{
	struct store_table_call c = { .f = t->f, .t = t, .report = report, .report_arg = arg };

	return store_inspect(&c, store_check_fiber);
}

static void
store_repair_fiber(struct far_task *task, void *arg)
{
	struct store_table_call *c = arg;

	FAR_ASSERT(!pool_is_inside(task));
	c->result = pool_table_adopt_orphans(c->t->pt, task);
}

int
far_table_repair(struct far_table *t)
{
	struct store_table_call c = { .f = t->f, .t = t };

	return store_inspect(&c, store_repair_fiber);
}
