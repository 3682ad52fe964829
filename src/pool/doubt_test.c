/* SPDX-License-Identifier: Apache-2.0 */
/* doubt_test.c -- a client that is told what cannot be refuses, by an error that says so, and goes on afterwards. */
#include <xxhash.h>

#include "fabric/hook.h"
#include "pool/rig.h"

/* Superblocks ----------------------------------------------------------------------------------------------- */

/* Whoever can write a superblock can write its sum, too. */
static void
doubt_sum(struct pool_super *s)
{
	s->sum = XXH3_64bits(s, offsetof(struct pool_super, sum));
}

struct doubt_lie {
	size_t at, len;
	uint64_t value;
	int want;
};

#define LIE(field, value, want)                                                                          \
	{                                                                                                \
		offsetof(struct pool_super, field), sizeof(((struct pool_super *)0)->field), value, want \
	}

/* What every lie of `node` does to a client that joins. */
static void
doubt_open(struct rig *r, struct far_task *t, unsigned node, const struct doubt_lie *lies, size_t n)
{
	struct pool_super *s = far_sim_region(r->sim, node), good = *s;

	for (size_t i = 0; i < n; i++) {
		struct pool *p = NULL;
		int err;

		memcpy((char *)s + lies[i].at, &lies[i].value, lies[i].len);
		doubt_sum(s);
		err = pool_open(t, &r->opts, &p);
		if (err != lies[i].want || p)
			printf("# lie %zu of node %u\n", i, node);
		CHECK_EQ(err, lies[i].want);
		CHECK(p == NULL);
		*s = good;
	}
}

static void
doubt_supers(struct rig *r, struct far_task *t, unsigned client)
{
	static const struct doubt_lie lies[] = {
		LIE(page_len, 4096, -FAR_EFORMAT),
		LIE(endian, 1, -FAR_EFORMAT),
		LIE(region_len, UINT64_C(1) << 40, -FAR_ECORRUPT),
		LIE(data_off, UINT64_C(1) << 40, -FAR_ECORRUPT),
		LIE(data_off, (1 << 20) + 8, -FAR_ECORRUPT),
		LIE(pages_n, 1 << 20, -FAR_ECORRUPT),
		LIE(sessions_n, 0, -FAR_ECORRUPT),
		LIE(sessions_n, POOL_SESSIONS + 1, -FAR_ECORRUPT),
		LIE(roots_n, 0, -FAR_ECORRUPT),
		LIE(roots_n, POOL_ROOTS + 1, -FAR_ECORRUPT),
		LIE(sessions_off, 4097, -FAR_ECORRUPT),
		LIE(roots_off, 8193, -FAR_ECORRUPT),
		LIE(pages_off, 8193, -FAR_ECORRUPT),
		LIE(sessions_off, 3 << 20, -FAR_ECORRUPT),
		LIE(roots_off, 3 << 20, -FAR_ECORRUPT),
		LIE(pages_off, 3 << 20, -FAR_ECORRUPT),
		LIE(sessions_off, (2 << 20) - 64, -FAR_ECORRUPT),
		LIE(roots_off, (2 << 20) - 64, -FAR_ECORRUPT),
		LIE(pages_off, (2 << 20) - 64, -FAR_ECORRUPT),
		LIE(generation, 7, -FAR_ENODE),
		LIE(node, 1, -FAR_EINVAL),
		LIE(nodes_n, 1, -FAR_EINVAL),
		LIE(nodes_n, 3, -FAR_EINVAL),
	};
	static const struct doubt_lie others[] = {
		LIE(pool_id[0], 7, -FAR_EINVAL),
		LIE(pool_id[1], 7, -FAR_EINVAL),
		LIE(generation, 7, -FAR_ENODE),
		LIE(node, 0, -FAR_EINVAL),
		LIE(nodes_n, 16, -FAR_EINVAL),
		LIE(page_len, 1, -FAR_EFORMAT),
		LIE(roots_n, 0, -FAR_ECORRUPT),
		LIE(pages_n, 999, -FAR_ECORRUPT),
	};
	uint64_t real = r->fabric[client]->region_len[0];
	static const struct doubt_lie huge[] = {
		LIE(pages_n, UINT64_C(1) << 32, -FAR_ECORRUPT),
	};
	struct pool_super *s = far_sim_region(r->sim, 0), good = *s;

	doubt_open(r, t, 0, lies, FAR_LEN(lies));
	doubt_open(r, t, 1, others, FAR_LEN(others));
	/* A region that no address reaches the end of. */
	r->fabric[client]->region_len[0] = s->region_len = UINT64_C(1) << 56;
	doubt_open(r, t, 0, huge, 1);
	r->fabric[client]->region_len[0] = real;
	*s = good;
	rig_join(r, t, client);
	rig_leave(r, t, client);
}

static void
test_join_superblock_that_lies_is_refused(void)
{
	struct rig r;

	rig_open(&r, 2, 4 << 20, 31);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, doubt_supers);
	rig_run(&r, 0, rig_leave);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* The home node knows of no pool: it is the wrong one, or came back empty; or one is there twice. */
static void
doubt_strangers(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s[2] = { far_sim_region(r->sim, 0), far_sim_region(r->sim, 1) }, good[2];
	struct pool *p = NULL;

	good[0] = *s[0];
	good[1] = *s[1];
	s[1]->pool_id[1] = 7; /* half of an id is one, too */
	doubt_sum(s[1]);
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_EINVAL);
	*s[1] = good[1];
	s[1]->generation = s[0]->generation;
	doubt_sum(s[1]);
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_EINVAL);
	CHECK(p == NULL);
	*s[1] = good[1];
	/* Formed with another node than the one that is here now. */
	s[0]->pool_id[0] = 7;
	s[0]->nodes_n = 2;
	s[0]->generations[0] = s[0]->generation;
	doubt_sum(s[0]);
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_ENODE);
	*s[0] = good[0];
	rig_join(r, t, client);
	rig_leave(r, t, client);
}

static void
test_join_nodes_of_different_pools_is_refused(void)
{
	struct rig r;

	rig_open(&r, 2, 4 << 20, 32);
	rig_run(&r, 0, doubt_strangers);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Answers --------------------------------------------------------------------------------------------------- */

/* Changes answers on their way: those to request `code`, or (0) superblocks that are READ. */
struct doubt_hook {
	struct far_hook hook;
	unsigned code, node;
	unsigned after; /* so many are left as they are */
	void (*change)(void *answer, struct far_op *op);
	unsigned changed;
};

static void
doubt_after(struct far_hook *hook, struct far_chain *c)
{
	struct doubt_hook *d = FAR_CONTAINER(hook, struct doubt_hook, hook);

	for (struct far_op *op = c->first; op && !c->status && c->node == d->node; op = op->next) {
		bool call = op->code == FAR_OP_CALL;

		if (call ? ((struct control_request *)op->buf)->code != d->code
			 : d->code != 0 || op->code != FAR_OP_READ || op->len != sizeof(struct pool_super))
			continue;
		if (d->after) {
			d->after--;
			continue;
		}
		d->change(call ? op->reply : op->buf, op);
		d->changed++;
	}
}

static void
doubt_begin(struct rig *r, unsigned client, struct doubt_hook *d)
{
	d->hook.after = doubt_after;
	far_fabric_hook(r->fabric[client], &d->hook);
}

static void
doubt_end(struct rig *r, unsigned client, struct doubt_hook *d)
{
	far_fabric_unhook(r->fabric[client], &d->hook);
	CHECK(d->changed > 0);
}

#define DOUBT(name, statement)                                    \
	static void doubt_##name(void *answer, struct far_op *op) \
	{                                                         \
		struct control_reply *a = answer;                 \
		(void)op;                                         \
		(void)a;                                          \
		statement;                                        \
	}

DOUBT(fails, a->err = -FAR_EIO)
DOUBT(succeeds_too_well, a->err = 1)
DOUBT(short, op->reply_max = sizeof(*a) - 8)
DOUBT(no_serial, a->serial = 0)
DOUBT(slot_outside, a->slot = POOL_SESSIONS)
DOUBT(off_below, a->off = 8)
DOUBT(off_odd, a->off += 8)
DOUBT(off_beyond, a->off += UINT64_C(1) << 40)
DOUBT(run_none, a->run = 0)
DOUBT(run_beyond, a->run = UINT32_MAX)
DOUBT(first_beyond, a->first = UINT64_C(1) << POOL_SEQUENCE_BITS)
DOUBT(table_outside, a->table = POOL_ROOTS)

/* A lie, and what the call ends with that hears it. */
struct doubt_case {
	struct doubt_hook hook;
	int want;
};

static struct doubt_case doubt_now;

static void
doubt_join(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool *p = NULL;

	doubt_begin(r, client, &doubt_now.hook);
	CHECK_EQ(pool_open(t, &r->opts, &p), doubt_now.want);
	CHECK(p == NULL);
	doubt_end(r, client, &doubt_now.hook);
}

/* A connection for each, as whoever asks again would have. */
static void
doubt_joins(struct rig *r, const struct doubt_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		doubt_now = cases[i];
		rig_run(r, 1, doubt_join);
		far_fabric_close(r->fabric[1]);
		r->fabric[1] = NULL;
	}
}

static void
test_join_answers_that_cannot_be_end_it(void)
{
	static const struct doubt_case cases[] = {
		{ { .code = CONTROL_SESSION, .change = doubt_no_serial }, -FAR_ECORRUPT },
		{ { .code = CONTROL_SESSION, .change = doubt_slot_outside }, -FAR_ECORRUPT },
		{ { .code = CONTROL_SESSION, .change = doubt_succeeds_too_well }, -FAR_ECORRUPT },
		{ { .code = CONTROL_SESSION, .change = doubt_short }, -FAR_ECORRUPT },
		{ { .code = CONTROL_SESSION, .change = doubt_fails }, -FAR_EIO },
		{ { .code = CONTROL_JOIN, .node = 1, .change = doubt_fails }, -FAR_EIO },
		{ { .code = CONTROL_JOIN, .node = 2, .change = doubt_fails }, -FAR_EIO },
	};
	struct rig r;

	rig_open(&r, 3, 4 << 20, 33);
	rig_run(&r, 0, rig_join);
	doubt_joins(&r, cases, FAR_LEN(cases));
	rig_run(&r, 1, rig_join);
	rig_run(&r, 1, rig_leave);
	rig_run(&r, 0, rig_leave);
	rig_check_nodes(&r, 3);
	rig_close(&r);
}

static void
doubt_other_place(void *answer, struct far_op *op)
{
	((struct pool_super *)answer)->node ^= 1;
	doubt_sum(answer);
	(void)op;
}

static void
doubt_other_life(void *answer, struct far_op *op)
{
	((struct pool_super *)answer)->generation ^= 1;
	doubt_sum(answer);
	(void)op;
}

static void
doubt_other_pool(void *answer, struct far_op *op)
{
	((struct pool_super *)answer)->pool_id[1] ^= 1;
	doubt_sum(answer);
	(void)op;
}

static void
doubt_no_pool(void *answer, struct far_op *op)
{
	memset(((struct pool_super *)answer)->pool_id, 0, 16);
	doubt_sum(answer);
	(void)op;
}

/* Node 1 is READ before the pool is formed, after the home node was, and at last. */
static void
test_form_nodes_that_change_their_mind_are_refused(void)
{
	static const struct doubt_case cases[] = {
		{ { .code = CONTROL_FORM, .change = doubt_fails }, -FAR_EIO },
		{ { .code = CONTROL_FORM, .node = 1, .change = doubt_fails }, -FAR_EIO },
		{ { .node = 1, .after = 2, .change = doubt_other_place }, -FAR_EINVAL },
		{ { .node = 1, .after = 2, .change = doubt_other_pool }, -FAR_EINVAL },
		{ { .node = 1, .after = 2, .change = doubt_no_pool }, -FAR_EINVAL },
		{ { .node = 1, .after = 2, .change = doubt_other_life }, -FAR_ENODE },
	};

	for (size_t i = 0; i < FAR_LEN(cases); i++) {
		struct rig r;

		rig_open(&r, 2, 4 << 20, 34);
		doubt_joins(&r, &cases[i], 1);
		/* What the liar told the first client does not keep the next one out. */
		rig_run(&r, 0, rig_join);
		rig_run(&r, 0, rig_leave);
		rig_check_nodes(&r, 2);
		rig_close(&r);
	}
}

static int
doubt_alloc(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr a;

	(void)r;
	/* Of a class that no heap has yet. */
	return rig_alloc_on(tables[client], t, 0, 20, &a);
}

static int
doubt_version(struct rig *r, struct far_task *t, unsigned client)
{
	uint64_t version;

	return pool_version(r->pool[client], t, &version);
}

static const char *doubt_name;

static int
doubt_new(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_table *pt = NULL;
	int err = pool_table_new(r->pool[client], t, doubt_name, "none", &pt);

	CHECK(!err == !!pt);
	return err ? err : pool_table_close(pt, t);
}

static void
doubt_calls(struct rig *r, struct far_task *t, unsigned client)
{
	static const struct {
		struct doubt_hook hook;
		int (*call)(struct rig *r, struct far_task *t, unsigned client);
	} cases[] = {
		{ { .code = CONTROL_GRANT, .change = doubt_off_below }, doubt_alloc },
		{ { .code = CONTROL_GRANT, .change = doubt_off_odd }, doubt_alloc },
		{ { .code = CONTROL_GRANT, .change = doubt_off_beyond }, doubt_alloc },
		{ { .code = CONTROL_GRANT, .change = doubt_run_none }, doubt_alloc },
		{ { .code = CONTROL_GRANT, .change = doubt_run_beyond }, doubt_alloc },
		{ { .code = CONTROL_RANGE, .change = doubt_first_beyond }, doubt_version },
		{ { .code = CONTROL_ROOT_NEW, .change = doubt_table_outside }, doubt_new },
		{ { .code = CONTROL_ROOT_NEW, .change = doubt_no_serial }, doubt_new },
	};

	for (size_t i = 0; i < FAR_LEN(cases); i++) {
		struct doubt_hook d = cases[i].hook;

		/* Each takes a name, which the client cannot give back: it never learned for which number. */
		doubt_name = d.change == doubt_no_serial ? "second" : "first";
		doubt_begin(r, client, &d);
		CHECK_EQ(cases[i].call(r, t, client), -FAR_ECORRUPT);
		doubt_end(r, client, &d);
	}
	CHECK_EQ(doubt_alloc(r, t, client), 0);
	CHECK_EQ(doubt_version(r, t, client), 0);
	CHECK_EQ(doubt_new(r, t, client), -FAR_EEXIST);
	doubt_name = "third";
	CHECK_EQ(doubt_new(r, t, client), 0);
}

/* A chunk that is ours already would be cut into blocks twice. */
static uint64_t doubt_granted;

static void
doubt_grant_again(void *answer, struct far_op *op)
{
	struct control_reply *a = answer;

	(void)op;
	if (doubt_granted)
		a->off = doubt_granted;
	doubt_granted = a->off;
}

static void
doubt_grants(struct rig *r, struct far_task *t, unsigned client)
{
	struct doubt_hook d = { .code = CONTROL_GRANT, .change = doubt_grant_again };
	struct far_addr a, b;

	doubt_granted = 0;
	doubt_begin(r, client, &d);
	CHECK_EQ(rig_alloc_on(tables[client], t, 0, 21, &a), 0);
	CHECK_EQ(rig_alloc_on(tables[client], t, 0, 22, &b), -FAR_ECORRUPT);
	doubt_end(r, client, &d);
	CHECK_EQ(rig_alloc_on(tables[client], t, 0, 21, &b), 0);
	CHECK(a.raw != b.raw);
}

static void
doubt_bad_arguments(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_table *pt = tables[client];
	struct far_addr a;

	CHECK_EQ(pool_alloc(pt, t, 1, POOL_BLOCKS, 3, &a), -FAR_EINVAL);
	CHECK_EQ(pool_alloc(pt, t, 0, POOL_BLOCKS, POOL_CLASSES, &a), -FAR_EINVAL);
	CHECK_EQ(pool_alloc(pt, t, 0, 0, 3, &a), -FAR_EINVAL);
	CHECK_EQ(pool_alloc(pt, t, 0, POOL_INDEX + 1, 3, &a), -FAR_EINVAL);
	CHECK_EQ(pool_table_new(r->pool[client], t, "x", "a name that is far too long", &pt), -FAR_EINVAL);
	CHECK_EQ(pool_table_new(r->pool[client], t, "", "none", &pt), -FAR_EINVAL);
	CHECK_EQ(pool_table_open(r->pool[client], t, "", &pt), -FAR_EINVAL);
}

static void
test_answers_that_cannot_be_change_nothing(void)
{
	struct rig r;

	rig_open(&r, 1, 64 << 20, 35);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, doubt_calls);
	rig_run(&r, 0, doubt_grants);
	rig_run(&r, 0, doubt_bad_arguments);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

/* Counters and names ---------------------------------------------------------------------------------------- */

static void
doubt_counters(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s = far_sim_region(r->sim, 0);
	struct {
		uint64_t *at, value;
	} lies[] = {
		{ &s->pages_free, s->pages_n + 1 },
		{ &s->quarantine_pages, s->pages_n + 1 },
		{ &s->quarantine_n, s->sessions_n + 1 },
		{ &s->quarantine_pid, UINT64_C(1) << 31 },
	};
	struct far_node_info info;

	for (size_t i = 0; i < FAR_LEN(lies); i++) {
		uint64_t good = *lies[i].at;

		*lies[i].at = lies[i].value;
		CHECK_EQ(pool_node_info(r->pool[client], t, &info, 1), -FAR_ECORRUPT);
		*lies[i].at = good;
		CHECK_EQ(pool_node_info(r->pool[client], t, &info, 1), 1);
		CHECK_EQ(info.region_bytes, s->region_len);
	}
}

/* A root that is READ differently each time, as if somebody made and dropped tables without end. */
static void
doubt_flicker(void *answer, struct far_op *op)
{
	static uint64_t seed;

	(void)op;
	((struct pool_root *)answer)->seed = ++seed;
}

static void
doubt_after_roots(struct far_hook *hook, struct far_chain *c)
{
	struct doubt_hook *d = FAR_CONTAINER(hook, struct doubt_hook, hook);

	for (struct far_op *op = c->first; op && !c->status; op = op->next) {
		if (op->code != FAR_OP_READ || op->len < sizeof(struct pool_root) || op->len % sizeof(struct pool_root))
			continue;
		d->change(op->buf, op);
		d->changed++;
	}
}

static void
doubt_roots(struct rig *r, struct far_task *t, unsigned client)
{
	struct doubt_hook d = { .change = doubt_flicker, .hook.after = doubt_after_roots };
	struct pool_root *list;
	struct pool_table *pt;

	far_fabric_hook(r->fabric[client], &d.hook);
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ENOENT);
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 0);
	free(list);
	doubt_end(r, client, &d);
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 1);
	free(list);
}

/* A name that does not end, and one that does not begin. */
static void
doubt_names(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s = far_sim_region(r->sim, 0);
	struct pool_root *root = (void *)((char *)s + s->roots_off), good = *root, *list;

	memset(root->name, 'd', sizeof(root->name));
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 0);
	free(list);
	memset(root->name, 0, sizeof(root->name));
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 0);
	free(list);
	*root = good;
	root->head += 4;
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 0);
	free(list);
	*root = good;
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 1);
	free(list);
}

static void
test_counters_and_names_that_cannot_be_are_not_shown(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 36);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, doubt_counters);
	rig_run(&r, 0, doubt_roots);
	rig_run(&r, 0, doubt_names);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

/* Closing --------------------------------------------------------------------------------------------------- */

static struct far_addr doubt_kept[40];

static void
doubt_fill(struct rig *r, struct far_task *t, unsigned client)
{
	(void)r;
	for (size_t i = 0; i < FAR_LEN(doubt_kept); i++)
		REQUIRE(rig_alloc_on(tables[client], t, 0, 3, &doubt_kept[i]) == 0);
}

/* Closes the pool with a table open in it: its chunks must be told as if it had been closed before. */
static void
doubt_leave_all(struct rig *r, struct far_task *t, unsigned client)
{
	for (size_t i = 0; i < 10; i++)
		rig_retire(tables[client], t, 3, doubt_kept[i]);
	rig_leave(r, t, client);
}

/* The address that an index holds for a block was a remote word once: of an own chunk ... */
static void
doubt_own_frees(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool *p = r->pool[client];
	struct pool_chunk *c = pool_chunk_at(p, doubt_kept[0]);
	struct far_addr chunk = far_addr_make(0, c->off);

	rig_retire(tables[client], t, 3, chunk); /* its bitmap */
	rig_retire(tables[client], t, 3, far_addr_add(doubt_kept[0], 8));
	rig_retire(tables[client], t, 3, far_addr_add(doubt_kept[0], POOL_UNIT));
	rig_retire(tables[client], t, 3, far_addr_make(0, c->first + c->blocks_n * pool_class_len(3)));
	rig_retire(tables[client], t, 4, doubt_kept[0]);
	REQUIRE(pool_enter(p, t) == 0);
	pool_retire(tables[client], POOL_INDEX, 3, doubt_kept[0]);
	CHECK_EQ(pool_leave(p, t), 0);
	CHECK_EQ(p->bad_frees, 6);
	CHECK_EQ(rig_used_bytes(tables[client], t), FAR_LEN(doubt_kept) * pool_class_len(3));
	p->bad_frees = 0;
}

/* ... and of another client's. */
static void
doubt_foreign_frees(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s = far_sim_region(r->sim, 0);
	struct pool_chunk *c = pool_chunk_at(r->pool[0], doubt_kept[0]);
	uint64_t *word = (uint64_t *)((char *)s + s->pages_off) + (c->off - s->data_off) / POOL_PAGE, good[2];
	struct pool_page page = pool_page_unpack(*word);
	struct pool *p = r->pool[client];

	good[0] = word[0];
	good[1] = word[1];
	/* Behind its last block. */
	rig_retire(tables[client], t, 3, far_addr_make(0, c->first + c->blocks_n * pool_class_len(3)));
	/* The page belongs to a chunk that ends before it. */
	word[1] = pool_page_pack((struct pool_page){ .kind = POOL_PAGE_INSIDE, .run = 1 });
	rig_retire(tables[client], t, 3, far_addr_make(0, c->off + POOL_PAGE + 4096));
	far_sleep(t, 4 * r->opts.tick_ns);
	CHECK_EQ(p->bad_frees, 2);
	/* No block of that class fits in so few pages. */
	page.class = pool_class_of(1 << 20);
	word[0] = pool_page_pack(page);
	rig_retire(tables[client], t, page.class, doubt_kept[0]);
	far_sleep(t, 4 * r->opts.tick_ns);
	CHECK_EQ(p->bad_frees, 3);
	CHECK_EQ(p->foreign_n, 0);
	p->bad_frees = 0;
	word[0] = good[0];
	word[1] = good[1];
}

static void
test_frees_of_what_is_no_block_are_dropped(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 38);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, doubt_fill);
	rig_run(&r, 0, doubt_own_frees);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, doubt_foreign_frees);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
doubt_count_kept(struct rig *r, struct far_task *t, unsigned client)
{
	CHECK_EQ(pool_table_adopt_orphans(tables[client], t), 2);
	far_sleep(t, 20 * r->opts.tick_ns);
	CHECK_EQ(rig_used_bytes(tables[client], t), (FAR_LEN(doubt_kept) - 10) * pool_class_len(3));
}

static void
test_close_pool_with_an_open_table_tells_what_is_free(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 37);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, doubt_fill);
	rig_run(&r, 0, doubt_leave_all);
	rig_check_nodes(&r, 1);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, doubt_count_kept);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

TEST_MAIN(TEST(test_join_superblock_that_lies_is_refused), TEST(test_join_nodes_of_different_pools_is_refused),
	  TEST(test_join_answers_that_cannot_be_end_it), TEST(test_form_nodes_that_change_their_mind_are_refused),
	  TEST(test_answers_that_cannot_be_change_nothing),
	  TEST(test_counters_and_names_that_cannot_be_are_not_shown),
	  TEST(test_frees_of_what_is_no_block_are_dropped),
	  TEST(test_close_pool_with_an_open_table_tells_what_is_free))
