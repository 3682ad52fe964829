/* SPDX-License-Identifier: Apache-2.0 */
/* takeover_test.c -- clients that die or stand still, nodes that die, and far memory that lies. */
#include "pool/rig.h"

static struct far_addr blocks[10];
static bool scavenge_linked[10];

static void
alloc_ten(struct rig *r, struct far_task *t, unsigned client)
{
	for (unsigned i = 0; i < 10; i++) {
		uint64_t hash = 1000 + i;

		REQUIRE(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 3, &blocks[i]) == 0);
		far_write(t, blocks[i], &hash, 8);
		CHECK_EQ(far_wait(t), 0);
		scavenge_linked[i] = i < 5;
	}
	/* Linked, unlinked and in limbo when the client dies. */
	rig_retire(tables[client], t, 3, blocks[9]);
}

/* Faults ---------------------------------------------------------------------------------------------------- */

static void
watch_the_dead(struct rig *r, struct far_task *t, unsigned client)
{
	uint64_t start = far_now(t), dead = pool_serial(r->pool[1]);
	struct pool *p = r->pool[client];

	CHECK_EQ(pool_gone(p, t, pool_serial(p)), 0);
	CHECK_EQ(pool_gone(p, t, dead), 0);
	while (pool_gone(p, t, dead) == 0 && far_now(t) - start < 10 * r->opts.lease_ns)
		far_sleep(t, r->opts.tick_ns);
	CHECK_EQ(pool_gone(p, t, dead), 1);
	CHECK(far_now(t) - start > r->opts.lease_ns / 2);
	CHECK(far_now(t) - start < 2 * r->opts.lease_ns);
	CHECK_EQ(p->err, 0);
}

static void
test_silent_session_is_gone_only_after_its_lease_and_fence(void)
{
	struct rig r;

	rig_open(&r, 2, 4 << 20, 13);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, rig_join);
	far_sim_pause(r.fabric[1], 10 * r.opts.lease_ns);
	rig_run(&r, 0, watch_the_dead);
	rig_run(&r, 0, rig_leave);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Moves the epoch on as fast as it goes. */
static bool epochs_end;

static void
epochs_fiber(struct far_task *t, void *arg)
{
	while (!epochs_end)
		CHECK_EQ(pool_tick(arg, t), 0);
}

static void
look_amid_epochs(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool *p = r->pool[client];
	uint64_t start = p->epoch;

	epochs_end = false;
	for (unsigned i = 0; i < 2; i++)
		REQUIRE(far_loop_spawn(r->loop, r->fabric[i], epochs_fiber, r->pool[i], 0) == 0);
	for (unsigned i = 0; i < 1000; i++)
		CHECK_EQ(pool_gone(p, t, pool_serial(r->pool[1]) + 1), 1);
	epochs_end = true;
	CHECK(p->epoch > start + 50);
}

static void
test_session_lines_read_while_the_epoch_moves_are_no_damage(void)
{
	struct rig r;

	rig_open(&r, 1, 4 << 20, 17);
	far_sim_set_policy(r.sim, &(struct far_sim_policy){ .weak = true });
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, rig_join);
	rig_run(&r, 0, look_amid_epochs);
	rig_run(&r, 0, rig_leave);
	rig_run(&r, 1, rig_leave);
	rig_close(&r);
}

static void
expect_fenced(struct rig *r, struct far_task *t, unsigned client)
{
	far_sleep(t, 20 * r->opts.lease_ns);
	CHECK_EQ(pool_enter(r->pool[client], t), -FAR_EFENCED);
	CHECK_EQ(pool_close(r->pool[client], t), -FAR_EFENCED);
	r->pool[client] = NULL;
}

static void
test_paused_session_finds_itself_fenced(void)
{
	struct rig r;

	rig_open(&r, 2, 4 << 20, 14);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, rig_join);
	far_sim_pause(r.fabric[1], 10 * r.opts.lease_ns);
	rig_run(&r, 1, expect_fenced);
	rig_run(&r, 0, rig_leave);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Several first clients form the pool at once, and READ superblocks that are being written. */
static void
test_first_clients_that_come_together_form_one_pool(void)
{
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct rig_call c[4];
		struct rig r;

		rig_open(&r, 2, 4 << 20, seed);
		far_sim_set_policy(r.sim, &(struct far_sim_policy){ .keep = seed % 4 * 2, .weak = seed % 2 });
		for (unsigned i = 0; i < 4; i++) {
			c[i] = (struct rig_call){ &r, rig_join, i };
			REQUIRE(far_sim_connect(r.sim, r.loop, NULL, &r.fabric[i]) == 0);
			REQUIRE(far_loop_spawn(r.loop, r.fabric[i], rig_fiber, &c[i], 0) == 0);
		}
		far_loop_run(r.loop);
		rig_close(&r);
	}
}

static void
open_must_fail(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s = far_sim_region(r->sim, 0);
	struct pool *p = NULL;

	s->pages_n ^= 1;
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_ECORRUPT);
	s->pages_n ^= 1;
	s->format++;
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_EFORMAT);
	s->format--;
	s->magic ^= 1;
	CHECK_EQ(pool_open(t, &r->opts, &p), -FAR_EFORMAT);
	s->magic ^= 1;
	CHECK(p == NULL);
}

static void
test_open_of_a_broken_superblock_fails_cleanly(void)
{
	struct rig r;

	rig_open(&r, 1, 4 << 20, 15);
	rig_run(&r, 0, rig_join);
	rig_run(&r, 1, open_must_fail);
	rig_run(&r, 0, rig_leave);
	rig_close(&r);
}

static void
lose_home(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr a;

	far_sim_node_down(r->sim, 0);
	CHECK_EQ(far_sim_node_up(r->sim, 0, false), 0);
	far_sleep(t, 4 * r->opts.tick_ns);
	CHECK_EQ(pool_enter(r->pool[client], t), -FAR_ENODE);
	CHECK(pool_alloc(tables[client], t, 0, POOL_BLOCKS, 30, &a) == -FAR_ENODE);
	CHECK(pool_table_close(tables[client], t) != 0);
	CHECK(pool_close(r->pool[client], t) != 0);
	r->pool[client] = NULL;
}

static void
test_home_node_that_comes_back_empty_ends_the_session(void)
{
	struct rig r;

	rig_open(&r, 2, 8 << 20, 16);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, lose_home);
	rig_close(&r);
}

static void
lose_other(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_addr a;

	for (unsigned i = 0; i < 8; i++)
		REQUIRE(pool_alloc(tables[client], t, 1, POOL_BLOCKS, 3, &blocks[i]) == 0);
	far_sim_node_down(r->sim, 1);
	/* What is in the free list is still given out; its WRITE fails. Asking the node fails here. */
	CHECK_EQ(rig_alloc_on(tables[client], t, 1, 40, &a), -FAR_ENODE);
	CHECK_EQ(rig_alloc_on(tables[client], t, 0, 40, &a), 0);
	rig_retire(tables[client], t, 3, blocks[0]);
	CHECK_EQ(pool_tick(r->pool[client], t), 0);
	far_sleep(t, 20 * r->opts.tick_ns);
	CHECK_EQ(pool_enter(r->pool[client], t), 0);
	CHECK_EQ(pool_leave(r->pool[client], t), 0);
	CHECK(pool_table_close(tables[client], t) == -FAR_ENODE);
	CHECK(pool_close(r->pool[client], t) == -FAR_ENODE);
	r->pool[client] = NULL;
}

static void
test_node_that_dies_fails_calls_and_close_frees_everything(void)
{
	struct rig r;

	rig_open(&r, 2, 8 << 20, 21);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, lose_other);
	rig_close(&r);
}

/* Roots come from far away. */
static void
spoil_roots(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_super *s = far_sim_region(r->sim, 0);
	struct pool_root *root = (void *)((char *)s + s->roots_off);
	struct pool_root good = *root;
	struct pool_table *pt;

	memset(root->design, 'x', sizeof(root->design));
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ECORRUPT);
	*root = good;
	root->head = far_addr_make(0, s->region_len).raw;
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ECORRUPT);
	root->head = far_addr_make(3, s->data_off).raw;
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ECORRUPT);
	root->head = far_addr_make(0, s->roots_off).raw;
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ECORRUPT);
	*root = good;
	root->state = POOL_ROOT_STATE(POOL_ROOT_LIVE, 0);
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ECORRUPT);
	*root = good;
	memset(root->name, 'd', sizeof(root->name));
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), -FAR_ENOENT);
	*root = good;
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &pt), 0);
	CHECK_EQ(pool_table_close(pt, t), 0);
}

/* A page word that is a lie must not lead to an FAA outside of a bitmap. */
static void
spoil_pages(struct rig *r, struct far_task *t, unsigned client)
{
	static const struct pool_page lies[] = {
		{ .kind = POOL_PAGE_INSIDE, .run = 1000000 },
		{ .kind = POOL_PAGE_INSIDE, .run = 0 },
		{ .kind = POOL_PAGE_BLOCKS, .class = 200, .run = 1 },
		{ .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 0 },
		{ .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 1048575 },
		{ .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 1, .table = 7 },
		{ .kind = POOL_PAGE_BLOCKS, .class = 60, .run = 1 },
		{ .kind = POOL_PAGE_FREE },
	};
	struct pool_super *s = far_sim_region(r->sim, 0);
	uint64_t *pages = (void *)((char *)s + s->pages_off), good;
	struct pool *p = r->pool[client];
	uint64_t page = (far_addr_off(blocks[0]) - s->data_off) / POOL_PAGE;
	struct pool_usage u;

	good = pages[page];
	for (unsigned i = 0; i < FAR_LEN(lies); i++) {
		pages[page] = pool_page_pack(lies[i]);
		rig_retire(tables[client], t, 3, blocks[0]);
		far_sleep(t, 4 * r->opts.tick_ns);
		CHECK_EQ(p->bad_frees, i + 1);
		CHECK_EQ(p->foreign_n, 0);
		if (lies[i].kind == POOL_PAGE_BLOCKS && lies[i].table == tables[client]->number)
			CHECK_EQ(pool_table_usage(tables[client], t, &u), -FAR_ECORRUPT);
	}
	pages[page] = good;
	/* Addresses that are none: outside, between blocks, on no node. */
	rig_retire(tables[client], t, 3, far_addr_add(blocks[0], 8));
	rig_retire(tables[client], t, 3, far_addr_make(9, 4096));
	rig_retire(tables[client], t, 3, far_addr_make(0, s->region_len + 64));
	rig_retire(tables[client], t, 3, far_addr_make(0, 64));
	far_sleep(t, 4 * r->opts.tick_ns);
	CHECK_EQ(p->bad_frees, FAR_LEN(lies) + 4);
	p->bad_frees = 0;
}

/* Bits that are lies: of blocks that are free already, and beyond the last block. */
static void
spoil_bitmap(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_chunk *c = pool_chunk_at(r->pool[client], blocks[0]);
	uint64_t *bits = (void *)((char *)far_sim_region(r->sim, 0) + c->off), free_n;

	CHECK_EQ(c->blocks_n, 255);
	bits[3] |= (uint64_t)1 << 63;
	rig_retire(tables[client], t, 3, blocks[4]);
	far_sleep(t, 8 * r->opts.tick_ns);
	free_n = c->heap->free_n;
	bits[pool_chunk_index(c, far_addr_off(blocks[4])) / 64] |=
		(uint64_t)1 << pool_chunk_index(c, far_addr_off(blocks[4])) % 64;
	far_sleep(t, 8 * r->opts.tick_ns);
	CHECK(r->pool[client]->bad_frees > 0);
	CHECK_EQ(c->heap->free_n, free_n);
	/* The same retired twice, and by a wrong class. */
	r->pool[client]->bad_frees = 0;
	bits[0] = bits[1] = bits[2] = bits[3] = 0;
	rig_retire(tables[client], t, 3, blocks[4]);
	rig_retire(tables[client], t, 4, blocks[6]);
	CHECK_EQ(r->pool[client]->bad_frees, 2);
}

static void
test_lies_in_far_memory_are_noticed(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 22);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_ten);
	rig_run(&r, 0, spoil_roots);
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, spoil_pages);
	rig_run(&r, 0, spoil_bitmap);
	rig_run(&r, 0, rig_close_table);
	rig_run(&r, 1, rig_close_table);
	rig_close(&r);
}

/* Takeover -------------------------------------------------------------------------------------------------- */

static unsigned scavenge_recovered, scavenge_asked;
static uint64_t scavenge_takes_ns;

static int
scavenge_recover(struct far_index *ix, struct far_task *t)
{
	far_sleep(t, scavenge_takes_ns);
	scavenge_recovered++;
	return 0;
}

/* As if client 2 unlinked block 3 right before the lookup, and had not told it yet. */
static int
scavenge_reach_one(struct far_addr addr, uint64_t hash, bool index)
{
	CHECK(scavenge_recovered > 0);
	if (index)
		return addr.raw == tables[1]->head.raw;
	scavenge_asked++;
	for (unsigned i = 0; i < 10; i++) {
		if (addr.raw != blocks[i].raw)
			continue;
		CHECK_EQ(hash, 1000 + i);
		if (i == 3 && scavenge_linked[3]) {
			scavenge_linked[3] = false;
			pool_retire(tables[2], POOL_BLOCKS, 3, addr);
		}
		return scavenge_linked[i];
	}
	return 0;
}

static void
scavenge_reach(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n, bool index)
{
	for (unsigned i = 0; i < n; i++)
		parts[i].reached = scavenge_reach_one(parts[i].addr, parts[i].hash, index);
}

static const struct far_index_ops scavenge_ops = {
	.name = "none",
	.recover = scavenge_recover,
	.reach = scavenge_reach,
};

static void
adopt_all(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool_table *pt = tables[client];
	struct far_addr a;
	unsigned n;

	far_sleep(t, 2 * r->opts.lease_ns);
	pt->ops = &scavenge_ops;
	pt->index = (struct far_index *)pt;
	CHECK_EQ(pool_table_adopt_orphans(pt, t), 2);
	far_sleep(t, 4 * r->opts.tick_ns);
	/* Blocks 0, 1, 2 and 4 are linked; 3 came through its bit; all others were the dead client's secret. */
	CHECK_EQ(rig_used_bytes(pt, t), 4 * pool_class_len(3) + 0 * scavenge_asked);
	CHECK_EQ(r->pool[1]->bad_frees, 0);
	CHECK_EQ(r->pool[2]->bad_frees, 0);
	for (n = 0; pt->arena->heaps[3]->avail; n++) {
		REQUIRE(pool_alloc(pt, t, 0, POOL_BLOCKS, 3, &a) == 0);
		for (unsigned i = 0; i < 5; i++)
			CHECK(a.raw != blocks[i].raw || i == 3);
	}
	CHECK_EQ(n, pt->arena->heaps[3]->blocks_n - 4);
	pool_table_detach(pt, t);
}

static void
scavenge_dead_client(uint64_t takes_ns)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 17);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_ten);
	rig_run(&r, 2, rig_open_table);
	far_sim_kill(r.fabric[0]);
	scavenge_recovered = scavenge_asked = 0;
	scavenge_takes_ns = takes_ns;
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, adopt_all);
	CHECK(scavenge_asked >= 255);
	rig_run(&r, 1, rig_close_table);
	rig_run(&r, 2, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

static void
test_chunks_of_a_dead_client_are_scavenged_exactly(void)
{
	scavenge_dead_client(0);
}

static void
test_recovery_longer_than_a_lease_does_not_end_the_session(void)
{
	scavenge_dead_client(600000000);
	scavenge_takes_ns = 0;
}

/* Without an index nobody knows what is in use: nothing may be handed out. */
static void
expect_dirty_adopted(struct rig *r, struct far_task *t, unsigned client)
{
	far_sleep(t, 2 * r->opts.lease_ns);
	CHECK_EQ(pool_table_adopt_orphans(tables[client], t), 2);
	far_sleep(t, 20 * r->opts.tick_ns);
	CHECK(rig_used_bytes(tables[client], t) > 200 * pool_class_len(3));
}

static void
test_session_that_ends_amid_scavenging_leaves_dirty_orphans(void)
{
	struct rig r;

	rig_open(&r, 1, 8 << 20, 18);
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, alloc_ten);
	far_sim_kill(r.fabric[0]);
	rig_run(&r, 2, rig_open_table);
	rig_run(&r, 2, expect_dirty_adopted);
	rig_run(&r, 2, rig_close_table);
	rig_run(&r, 2, rig_open_table);
	scavenge_recovered = scavenge_asked = 0;
	rig_run(&r, 1, rig_open_table);
	rig_run(&r, 1, adopt_all);
	rig_run(&r, 1, rig_close_table);
	rig_run(&r, 2, rig_close_table);
	rig_check_nodes(&r, 1);
	rig_close(&r);
}

TEST_MAIN(TEST(test_first_clients_that_come_together_form_one_pool),
	  TEST(test_silent_session_is_gone_only_after_its_lease_and_fence),
	  TEST(test_session_lines_read_while_the_epoch_moves_are_no_damage),
	  TEST(test_paused_session_finds_itself_fenced),
	  TEST(test_open_of_a_broken_superblock_fails_cleanly),
	  TEST(test_home_node_that_comes_back_empty_ends_the_session),
	  TEST(test_node_that_dies_fails_calls_and_close_frees_everything),
	  TEST(test_lies_in_far_memory_are_noticed),
	  TEST(test_chunks_of_a_dead_client_are_scavenged_exactly),
	  TEST(test_recovery_longer_than_a_lease_does_not_end_the_session),
	  TEST(test_session_that_ends_amid_scavenging_leaves_dirty_orphans))
