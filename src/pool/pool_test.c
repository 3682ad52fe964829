/* SPDX-License-Identifier: Apache-2.0 */
/* pool_test.c -- one client and a few, in virtual time. */
#include "pool/rig.h"

static struct far_addr blocks[20000];
static unsigned blocks_n;

static void
test_pool_open_and_close_leaves_clean_nodes(void)
{
	struct rig r;

	rig_open(&r, 2, 4 << 20, 1);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, rig_join);
	CHECK(r.pool[0] && pool_serial(r.pool[0]) == 1 && pool_serial(r.pool[1]) == 2);
	rig_run(&r, 0, rig_leave);
	rig_run(&r, 1, rig_leave);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

static int
compare_raw(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
alloc_all_kinds(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_usage u0, u;
	uint64_t sum = 0;

	REQUIRE(pool_table_usage(tables[client], t, &u0) == 0);
	CHECK_EQ(u0.granted[1] - u0.free[1] - u0.header[1], 256);
	blocks_n = 0;
	for (unsigned class = 0; class < 40; class += 3) {
		for (int i = 0; i < 300 - 7 * (int)class; i++) {
			REQUIRE(pool_alloc(tables[client], t, i % 2, POOL_BLOCKS, class, &blocks[blocks_n]) == 0);
			CHECK_EQ(far_addr_node(blocks[blocks_n]), i % 2);
			sum += pool_class_len(class);
			blocks_n++;
		}
	}
	REQUIRE(pool_table_usage(tables[client], t, &u) == 0);
	CHECK_EQ(u.granted[0] - u.free[0] - u.header[0], sum);
	/* No two blocks overlap: sorted by address, each ends before the next begins. */
	qsort(blocks, blocks_n, sizeof(blocks[0]), compare_raw);
	for (unsigned i = 0; i + 1 < blocks_n; i++) {
		struct pool_chunk *c = pool_chunk_at(r->pool[client], blocks[i]);

		CHECK(blocks[i].raw + (uint64_t)c->heap->units * POOL_UNIT <= blocks[i + 1].raw);
	}
	for (unsigned i = 0; i < blocks_n; i++) {
		struct pool_chunk *c = pool_chunk_at(r->pool[client], blocks[i]);

		REQUIRE(pool_enter(r->pool[client], t) == 0);
		if (i % 3)
			pool_retire(tables[client], c->heap->kind, c->heap->class, blocks[i]);
		else
			pool_unalloc(tables[client], c->heap->kind, c->heap->class, blocks[i]);
		CHECK_EQ(pool_leave(r->pool[client], t), 0);
	}
	CHECK_EQ(pool_tick(r->pool[client], t), 0);
	CHECK_EQ(r->pool[client]->bad_frees, 0);
	REQUIRE(pool_table_usage(tables[client], t, &u) == 0);
	CHECK_EQ(u.granted[0] - u.free[0] - u.header[0], 0);
	/* A client that allocates no more gives everything back. */
	far_sleep(t, 20 * r->opts.tick_ns);
	REQUIRE(pool_table_usage(tables[client], t, &u) == 0);
	CHECK_EQ(u.granted[0], 0);
}

static void
test_alloc_of_all_classes_is_exact_and_comes_back(void)
{
	struct rig r;

	rig_open(&r, 2, 64 << 20, 2);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_all_kinds);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Half a superpage and its bitmap do not divide one: what no block fits in stays with the node. */
static void
alloc_large(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_usage u;

	for (uint64_t len = 40000; len < 1 << 20; len += len / 3) {
		unsigned class = pool_class_of(len), n = 8;

		for (unsigned i = 0; i < n; i++)
			REQUIRE(pool_alloc(tables[client], t, 0, POOL_BLOCKS, class, &blocks[i]) == 0);
		for (unsigned i = 0; i < n; i++) {
			struct pool_chunk *c = pool_chunk_at(r->pool[client], blocks[i]);
			uint64_t used = c->blocks_n * pool_class_len(class) + POOL_UNIT;

			CHECK((uint64_t)c->run * POOL_PAGE - used < POOL_PAGE);
		}
	}
	REQUIRE(pool_table_usage(tables[client], t, &u) == 0);
	CHECK(u.header[0] * 8 < u.granted[0]);
}

static void
test_alloc_of_large_blocks_wastes_less_than_a_page_a_chunk(void)
{
	struct rig r;

	rig_open(&r, 1, 64 << 20, 1);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_large);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

/* Two clients ----------------------------------------------------------------------------------------------- */

static void
alloc_1000(struct rig *r, struct far_task *t, unsigned client)
{
	for (blocks_n = 0; blocks_n < 1000; blocks_n++)
		REQUIRE(pool_alloc(tables[client], t, blocks_n % 2, POOL_BLOCKS, 3, &blocks[blocks_n]) == 0);
}

static void
retire_1000(struct rig *r, struct far_task *t, unsigned client)
{
	for (unsigned i = 0; i < 1000; i++)
		rig_retire(tables[client], t, 3, blocks[i]);
	/* Flushed at the latest before the next epoch; then the owner finds the bits within a few rounds. */
	far_sleep(t, 8 * r->opts.tick_ns);
	CHECK_EQ(r->pool[client]->foreign_n, 0);
	CHECK_EQ(r->pool[client]->bad_frees, 0);
}

static void
expect_nothing_used(struct rig *r, struct far_task *t, unsigned client)
{
	far_sleep(t, 8 * r->opts.tick_ns);
	CHECK_EQ(rig_used_bytes(tables[client], t), 0);
	CHECK_EQ(r->pool[client]->bad_frees, 0);
}

static void
test_retire_of_another_clients_blocks_gives_them_back_to_it(void)
{
	struct rig r;

	rig_open(&r, 2, 16 << 20, 3);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 0, alloc_1000);
	rig_run(&r, 1, retire_1000);
	rig_run(&r, 0, expect_nothing_used);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

static void
test_close_of_a_table_makes_its_free_blocks_known(void)
{
	struct rig r;

	rig_open(&r, 2, 16 << 20, 4);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_1000);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, retire_1000);
	rig_run(&r, 1, expect_nothing_used);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

static void
reuse_orphans(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_usage u0, u;
	struct pool_relief relief = { 0 };
	struct far_addr a;
	int err;

	rig_open_table(r, t, client);
	REQUIRE(pool_table_usage(tables[client], t, &u0) == 0);
	CHECK(u0.granted[0] > 0);
	do {
		REQUIRE(pool_enter(r->pool[client], t) == 0);
		err = pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &a);
		CHECK_EQ(pool_leave(r->pool[client], t), 0);
	} while (err == -FAR_ENOMEM && pool_relieve(tables[client], t, &relief) == 0);
	CHECK_EQ(err, 0);
	REQUIRE(pool_table_usage(tables[client], t, &u) == 0);
	CHECK_EQ(u.granted[0], u0.granted[0]);
	rig_close_table(r, t, client);
}

/* Its session ends while it waits for memory. */
static void
starve_and_die(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr at;

	far_sim_refuse(r->sim, 1, true);
	far_sim_fuse(r->fabric[client], 300, FAR_SIM_KILL, 0);
	CHECK_EQ(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 5, &at), -FAR_EFENCED);
	CHECK(far_sim_faults(r->sim)->refused > 0);
}

static void
test_alloc_tells_that_the_session_ended_while_it_waited(void)
{
	struct rig r;

	rig_open(&r, 1, 16 << 20, 15);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, starve_and_die);
	rig_close(&r);
}

static void
retire_half(struct rig *r, struct far_task *t, unsigned client)
{
	for (unsigned i = 0; i < 1000; i++) {
		if (i % 8)
			rig_retire(tables[client], t, 3, blocks[i]);
	}
}

static void
test_alloc_of_many_short_sessions_reuses_the_same_chunks(void)
{
	struct rig r;

	rig_open(&r, 2, 16 << 20, 5);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_1000);
	rig_run(&r, 0, retire_half);
	rig_run(&r, 0, rig_close_table);
	for (unsigned i = 0; i < 20; i++)
		rig_run(&r, 1 + i % 5, reuse_orphans);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Epochs ---------------------------------------------------------------------------------------------------- */

static bool op_done;

static void
long_operation(struct rig *r, struct far_task *t, unsigned client)
{
	REQUIRE(pool_enter(r->pool[client], t) == 0);
	far_sleep(t, 5 * r->opts.lease_ns);
	CHECK_EQ(pool_leave(r->pool[client], t), 0);
	op_done = true;
}

struct long_call {
	struct rig *rig;
	unsigned client;
};

static void
long_fiber(struct far_task *t, void *arg)
{
	struct long_call *c = arg;

	long_operation(c->rig, t, c->client);
}

static void
churn_beside_a_long_operation(struct rig *r, struct far_task *t, unsigned client)
{
	struct long_call call = { r, 1 };
	struct far_addr a[64], b;
	uint64_t epoch;

	for (int i = 0; i < 64; i++)
		REQUIRE(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &a[i]) == 0);
	op_done = false;
	REQUIRE(far_loop_spawn(r->loop, r->fabric[1], long_fiber, &call, 0) == 0);
	far_sleep(t, r->opts.tick_ns);
	epoch = r->pool[client]->epoch;
	for (int i = 0; i < 64; i++)
		rig_retire(tables[client], t, 3, a[i]);
	while (!op_done) {
		/* None of the retired ones, although they were the lowest free addresses. */
		REQUIRE(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &b) == 0);
		for (int i = 0; i < 64; i++)
			CHECK(b.raw != a[i].raw || op_done);
		pool_unalloc(tables[client], POOL_BLOCKS, 3, b);
		far_sleep(t, r->opts.tick_ns);
		CHECK(r->pool[client]->epoch <= epoch + 2 || op_done);
	}
	CHECK_EQ(r->pool[0]->err, 0);
	CHECK_EQ(r->pool[1]->err, 0);
	far_sleep(t, 10 * r->opts.tick_ns);
	CHECK(r->pool[client]->epoch > epoch + 2);
	REQUIRE(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &b) == 0);
	CHECK_EQ(b.raw, a[0].raw);
}

static void
test_epoch_stands_still_during_an_operation_but_the_lease_does_not_end(void)
{
	struct rig r;

	rig_open(&r, 1, 16 << 20, 6);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 0, churn_beside_a_long_operation);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static bool held;

/* An operation that lasts for many leases. */
static void
hold_fiber(struct far_task *t, void *arg)
{
	struct rig *r = arg;

	REQUIRE(pool_enter(r->pool[1], t) == 0);
	far_sleep(t, 20 * r->opts.lease_ns);
	CHECK_EQ(pool_leave(r->pool[1], t), 0);
	held = false;
}

/* Everything freed is in limbo and stays there; the node has room. */
static void
churn_without_grace(struct rig *r, struct far_task *t, unsigned client)
{
	uint64_t bytes = 0;
	struct far_addr a;

	held = true;
	REQUIRE(far_loop_spawn(r->loop, r->fabric[1], hold_fiber, r, 0) == 0);
	far_sleep(t, r->opts.tick_ns);
	while (held && bytes < 16 << 20) {
		REQUIRE(rig_alloc_one(tables[client], t, 17, &a) == 0);
		rig_retire(tables[client], t, 17, a);
		bytes += pool_class_len(17);
	}
	CHECK(held);
}

static void
test_alloc_gets_what_the_node_has_when_grace_does_not_come(void)
{
	struct rig r;

	rig_open(&r, 1, 64 << 20, 6);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 0, churn_without_grace);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

/* Memory ---------------------------------------------------------------------------------------------------- */

enum { UPDATE_KEYS = 1000,
       UPDATES = 400000 };

static struct far_addr keys[UPDATE_KEYS];

static int
update_once(struct pool_table *pt, struct far_task *t, unsigned key)
{
	struct far_addr a, old = keys[key];
	uint64_t word = 1;
	int err;

	if ((err = pool_enter(pt->pool, t)) != 0)
		return err;
	err = pool_alloc(pt, t, 0, POOL_BLOCKS, 3, &a);
	if (!err) {
		/* A round trip now and then, as a real update has; most cost nothing here, so that they come fast. */
		if (key == 7) {
			far_write(t, a, &word, 8);
			err = far_wait(t);
		}
		keys[key] = a;
		if (old.raw)
			pool_retire(pt, POOL_BLOCKS, 3, old);
	}
	return pool_leave(pt->pool, t) ? pt->pool->err : err;
}

static void
update_many(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_table *pt = tables[client];
	uint64_t most = 0, retries = 0;

	memset(keys, 0, sizeof(keys));
	for (unsigned i = 0; i < UPDATES; i++) {
		struct pool_relief relief = { 0 };
		int err;

		while ((err = update_once(pt, t, i % UPDATE_KEYS)) == -FAR_ENOMEM && !pool_relieve(pt, t, &relief))
			retries++;
		REQUIRE(err == 0);
		most = far_max(most, pt->arena->heaps[1 * 0 + 3]->blocks_n);
	}
	/* alloc.c, A2: with L bytes in use, max(2 L, L + 4 MiB) and a chunk of 2 MiB. */
	CHECK(most * 256 <= UPDATE_KEYS * 256 + (4 << 20) + (2 << 20));
	CHECK(most >= 2 * UPDATE_KEYS);
	CHECK(retries < UPDATES / 1000);
	for (unsigned i = 0; i < UPDATE_KEYS; i++)
		rig_retire(pt, t, 3, keys[i]);
	far_sleep(t, 40 * r->opts.tick_ns);
	CHECK_EQ(rig_used_bytes(pt, t), 0);
}

static void
test_updates_of_few_keys_stay_within_the_bound(void)
{
	struct rig r;

	rig_open(&r, 1, 64 << 20, 7);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, update_many);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
fill(struct rig *r, struct far_task *t, unsigned client)
{
	int err;

	for (blocks_n = 0; blocks_n < FAR_LEN(blocks); blocks_n++) {
		if ((err = rig_alloc_one(tables[client], t, 17, &blocks[blocks_n])) != 0)
			break;
	}
	CHECK_EQ(err, -FAR_ENOMEM);
	CHECK(blocks_n > 100);
	CHECK_EQ(rig_alloc_one(tables[client], t, 17, &blocks[blocks_n]), -FAR_ENOMEM);
}

static void
empty_and_take_another_class(struct rig *r, struct far_task *t, unsigned client)
{
	unsigned n = 0;
	struct far_addr a;

	for (unsigned i = 0; i < blocks_n; i++)
		rig_retire(tables[client], t, 17, blocks[i]);
	while (rig_alloc_one(tables[client], t, 20, &a) == 0)
		n++;
	CHECK(n * pool_class_len(20) > blocks_n * pool_class_len(17) * 8 / 10);
	CHECK_EQ(r->pool[client]->bad_frees, 0);
}

static void
test_alloc_on_a_full_node_fails_and_works_after_frees(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 8);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, fill);
	rig_run(&r, 0, empty_and_take_another_class);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
test_alloc_on_a_full_node_works_after_frees_of_another_clients_blocks(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 9);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 0, fill);
	/* Client 1 frees what client 0 manages, and needs it in another class. */
	rig_run(&r, 1, empty_and_take_another_class);
	rig_run(&r, 1, rig_close_table);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
test_alloc_on_a_full_node_takes_over_what_others_left(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 19);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, fill);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_open_table);
	/* All memory is in orphans of another class. */
	rig_run(&r, 1, empty_and_take_another_class);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
nothing_reached(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n, bool index)
{
	for (unsigned i = 0; i < n; i++)
		parts[i].reached = index;
}

static void
take_from_the_dead(struct rig *r, struct far_task *t, unsigned client)
{
	static const struct far_index_ops ops = { .name = "none", .reach = nothing_reached };
	uint64_t start = far_now(t);
	struct far_addr a;

	tables[client]->ops = &ops;
	tables[client]->index = (struct far_index *)r;
	CHECK_EQ(rig_alloc_one(tables[client], t, 20, &a), 0);
	/* Nothing was taken from a client whose lease still ran. */
	CHECK(far_now(t) - start > r->opts.lease_ns * 9 / 10);
	pool_table_detach(tables[client], t);
}

static void
test_alloc_on_a_full_node_takes_over_what_the_dead_left(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 20);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, fill);
	far_sim_kill(r.fabric[0]);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, take_from_the_dead);
	rig_run(&r, 1, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

/* Tables ---------------------------------------------------------------------------------------------------- */

static void
drop_and_make_again(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_node_info info;
	struct pool_root *list;

	CHECK_EQ(pool_table_drop(r->pool[client], t, "nonsense"), -FAR_ENOENT);
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 1);
	CHECK(strcmp(list[0].name, "devices") == 0 && strcmp(list[0].design, "none") == 0);
	free(list);
	CHECK_EQ(pool_table_drop(r->pool[client], t, "devices"), 0);
	CHECK_EQ(pool_table_list(r->pool[client], t, &list), 0);
	free(list);
	CHECK_EQ(pool_node_info(r->pool[client], t, &info, 1), 1);
	CHECK_EQ(info.granted_bytes, 0);
	CHECK_EQ(r->pool[client]->err, 0);
}

static void
notice_drop(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr a;

	CHECK_EQ(pool_table_alive(tables[client]), -FAR_ENOENT);
	CHECK_EQ(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &a), -FAR_ENOENT);
	/* Late calls of an operation that was on its way are ignored. */
	pool_retire(tables[client], POOL_BLOCKS, 3, blocks[0]);
	pool_unalloc(tables[client], POOL_BLOCKS, 3, blocks[1]);
	CHECK_EQ(r->pool[client]->foreign_n, 0);
}

static void
test_drop_with_users_elsewhere_frees_all_and_they_notice(void)
{
	struct rig r;

	rig_open(&r, 1, 16 << 20, 10);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 2, rig_join);
	blocks_n = 0;
	rig_run(&r, 0, long_operation);
	for (unsigned i = 0; i < 2; i++) {
		rig_run(&r, i, i ? retire_half : long_operation);
	}
	rig_run(&r, 2, drop_and_make_again);
	rig_run(&r, 0, notice_drop);
	rig_run(&r, 1, notice_drop);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_run(&r, 2, rig_leave);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
make_and_forget(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_table *pt;

	CHECK_EQ(pool_table_new(r->pool[client], t, "devices", "none", &pt), -FAR_EEXIST);
	CHECK_EQ(pool_table_new(r->pool[client], t, "a/b", "none", &pt), -FAR_EINVAL);
	CHECK_EQ(pool_table_new(r->pool[client], t, "", "none", &pt), -FAR_EINVAL);
	REQUIRE(pool_table_new(r->pool[client], t, "half", "none", &pt) == 0);
	/* Closed without a commit: the name is free again. */
	CHECK_EQ(pool_table_close(pt, t), 0);
	REQUIRE(pool_table_new(r->pool[client], t, "half", "none", &pt) == 0);
	CHECK_EQ(pool_table_close(pt, t), 0);
	CHECK_EQ(pool_table_open(r->pool[client], t, "half", &pt), -FAR_ENOENT);
}

static void
test_table_names_are_checked_and_given_back(void)
{
	struct rig r;

	rig_open(&r, 1, 16 << 20, 11);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, make_and_forget);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
take_versions(struct rig *r, struct far_task *t, unsigned client)
{
	uint64_t last = 0, v;

	for (int i = 0; i < 3 << 20; i++) {
		REQUIRE(pool_version(r->pool[client], t, &v) == 0);
		if (v <= last)
			CHECK(v > last);
		last = v;
	}
}

static void
test_versions_never_repeat(void)
{
	struct rig r;

	rig_open(&r, 1, 4 << 20, 12);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 0, take_versions);
	rig_run(&r, 0, rig_leave);
	rig_close(&r);
}

/* Fills part of node 0: whoever comes later must see it without waiting for a tick. */
static void
fill_first_node(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr at;

	for (int i = 0; i < 8; i++)
		REQUIRE(rig_alloc_on(tables[client], t, 0, pool_class_of(256 << 10), &at) == 0);
}

static void
expect_second_node(struct rig *r, struct far_task *t, unsigned client)
{
	rig_join(r, t, client);
	REQUIRE(r->pool[client]);
	CHECK_EQ(pool_pick_node(r->pool[client]), 1);
	for (unsigned i = 0; i < 2; i++) {
		const struct pool_super *s = far_sim_region(r->sim, i);

		CHECK_EQ(r->pool[client]->places[i].free_pages, s->pages_free);
	}
	rig_leave(r, t, client);
}

static void
test_new_client_picks_the_node_with_more_room(void)
{
	struct rig r;

	rig_open(&r, 2, 16 << 20, 14);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, fill_first_node);
	rig_run(&r, 1, expect_second_node);
	rig_run(&r, 0, rig_close_table);
	rig_close(&r);
}

TEST_MAIN(TEST(test_pool_open_and_close_leaves_clean_nodes),
	  TEST(test_alloc_of_all_classes_is_exact_and_comes_back),
	  TEST(test_alloc_of_large_blocks_wastes_less_than_a_page_a_chunk),
	  TEST(test_retire_of_another_clients_blocks_gives_them_back_to_it),
	  TEST(test_close_of_a_table_makes_its_free_blocks_known),
	  TEST(test_alloc_of_many_short_sessions_reuses_the_same_chunks),
	  TEST(test_epoch_stands_still_during_an_operation_but_the_lease_does_not_end),
	  TEST(test_alloc_gets_what_the_node_has_when_grace_does_not_come),
	  TEST(test_updates_of_few_keys_stay_within_the_bound),
	  TEST(test_alloc_on_a_full_node_fails_and_works_after_frees),
	  TEST(test_alloc_on_a_full_node_works_after_frees_of_another_clients_blocks),
	  TEST(test_alloc_on_a_full_node_takes_over_what_others_left),
	  TEST(test_alloc_on_a_full_node_takes_over_what_the_dead_left),
	  TEST(test_drop_with_users_elsewhere_frees_all_and_they_notice),
	  TEST(test_table_names_are_checked_and_given_back),
	  TEST(test_versions_never_repeat),
	  TEST(test_alloc_tells_that_the_session_ended_while_it_waited),
	  TEST(test_new_client_picks_the_node_with_more_room))
