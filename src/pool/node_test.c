/* SPDX-License-Identifier: Apache-2.0 */
/* node_test.c -- each request to a memory node, without any fabric. */
#include "pool/node_rig.h"

/* Format and start ------------------------------------------------------------------------------------------ */

static void
test_format_any_size_places_tables_before_data(void)
{
	static const uint64_t lens[] = { 320 << 10, 1 << 20, 4 << 20, (8 << 20) - 4096, 8 << 20, 64 << 20,
					 (uint64_t)24 << 30 };
	struct rig r;

	for (size_t i = 0; i < FAR_LEN(lens); i++) {
		rig_init(&r, lens[i]);
		const struct pool_super *s = r.region;

		CHECK(s->pages_off + s->pages_n * 8 <= s->data_off);
		CHECK(s->private_off + s->sessions_n * 64 <= s->pages_off);
		CHECK(s->data_off + s->pages_n * POOL_PAGE <= lens[i]);
		CHECK_EQ(s->data_off % (lens[i] < 4 * MIB ? POOL_PAGE : POOL_SUPERPAGE), 0);
		CHECK(s->pages_n >= 4);
		CHECK_EQ(s->epoch, 1);
		rig_fini(&r);
	}
}

static void
test_format_too_small_is_refused(void)
{
	struct rig r;
	void *small = calloc(1, 256 << 10);

	rig_init(&r, MIB);
	CHECK_EQ(node_format(small, 256 << 10, &r.around.env), -FAR_EINVAL);
	CHECK_EQ(node_format(small, 0, &r.around.env), -FAR_EINVAL);
	free(small);
	rig_fini(&r);
}

static void
test_open_foreign_region_is_an_error(void)
{
	struct pool_super *s, saved;
	struct node *n = NULL;
	struct rig r;

	rig_init(&r, MIB);
	s = r.region;
	saved = *s;
	CHECK_EQ(node_open(r.region, MIB / 2, &r.around.env, &n), -FAR_ECORRUPT);
	CHECK_EQ(node_open(r.region, 100, &r.around.env, &n), -FAR_EFORMAT);
	s->format++;
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_EFORMAT);
	*s = saved;
	s->magic = 0;
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_EFORMAT);
	*s = saved;
	s->data_off += 8;
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_ECORRUPT);
	s->sum = node_super_sum(s);
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_ECORRUPT);
	*s = saved;
	r.node->pages[1] = pool_page_pack((struct pool_page){ .kind = POOL_PAGE_BLOCKS, .run = 5000 });
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_ECORRUPT);
	r.node->pages[1] = 0;
	CHECK(n == NULL);
	rig_fini(&r);
}

/* Whatever bytes a region holds, open refuses or ends up with consistent tables. */
static void
test_open_scribbled_region_never_crashes(void)
{
	struct far_rng rng;
	struct rig r;
	int opened = 0;

	far_rng_seed(&rng, 5);
	for (int i = 0; i < 3000; i++) {
		rig_home(&r, 512 << 10, 2);
		rig_grant(&r, 0, rig_table(&r, 0, "a"), POOL_PAGE_BLOCKS, 2);
		for (uint64_t k = far_rng_below(&rng, 4) + 1; k > 0; k--)
			((uint64_t *)r.region)[far_rng_below(&rng, r.node->id.data_off / 8)] ^=
				UINT64_C(1) << far_rng_below(&rng, 64);
		node_close(r.node);
		if (node_open(r.region, r.len, &r.around.env, &r.node) == 0) {
			rig_check(&r);
			CALL(&r, 5, .code = CONTROL_SESSION);
			rig_check(&r);
			node_close(r.node);
			opened++;
		}
		munmap(r.region, r.len);
	}
	CHECK(opened > 0);
}

/* Who waits until every session has announced a later epoch would wait for ever. */
static void
test_open_dropped_root_with_an_impossible_epoch_is_stamped_anew(void)
{
	static const uint64_t odd[] = { 0, 2, UINT64_MAX };
	struct control_reply t;
	struct rig r;

	rig_home(&r, MIB, 1);
	t = rig_table(&r, 0, "a");
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_DROP, .table = t.table, .root_serial = t.serial), 0);
	for (size_t i = 0; i < FAR_LEN(odd); i++) {
		r.node->roots[t.table].epoch = odd[i];
		rig_reopen(&r);
		CHECK_EQ(r.node->roots[t.table].epoch, 1);
	}
	rig_fini(&r);
}

/* Nobody asks for a table before the pool is formed, however often FORM was cut short. */
static void
test_open_tables_of_no_pool_is_ecorrupt(void)
{
	struct pool_super *s, saved;
	struct node *n = NULL;
	struct rig r;

	rig_home(&r, MIB, 1);
	rig_table(&r, 0, "a");
	s = r.region;
	saved = *s;
	s->pool_id[0] = s->pool_id[1] = 0;
	s->node = s->nodes_n = 0;
	memset(s->generations, 0, sizeof(s->generations));
	s->sum = node_super_sum(s);
	CHECK_EQ(node_open(r.region, MIB, &r.around.env, &n), -FAR_ECORRUPT);
	*s = saved;
	rig_fini(&r);
}

/* Sessions -------------------------------------------------------------------------------------------------- */

static void
test_form_twice_keeps_the_first_pool(void)
{
	struct rig r;

	rig_init(&r, MIB);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SESSION), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FORM, .pool_id = { 7, 8 }, .node = 2, .nodes_n = 2), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FORM, .nodes_n = 2), -FAR_EINVAL);
	rig_form(&r, 0);
	rig_form(&r, 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FORM, .pool_id = { 7, 8 }, .node = 1, .nodes_n = 2), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FORM, .pool_id = { 7, 9 }, .nodes_n = 2), -FAR_EINVAL);
	rig_reopen(&r);
	CHECK_EQ(r.node->id.pool_id[1], 8);
	rig_fini(&r);
}

static void
test_session_all_lines_taken_is_enomem_until_one_leaves(void)
{
	struct control_reply reply;
	uint64_t extra[16] = { 0 }, none = 0;
	struct control_request req = { .code = CONTROL_SESSION };
	struct rig r;

	rig_home(&r, MIB, 0);
	for (unsigned i = 0; i < 16; i++) {
		CHECK(node_serve(r.node, &extra[i], &req, &reply) && reply.err == 0);
		CHECK_EQ(reply.slot, i);
		CHECK_EQ(extra[i], reply.serial);
	}
	CHECK(node_serve(r.node, &none, &req, &reply));
	CHECK_EQ(reply.err, -FAR_ENOMEM);
	CHECK_EQ(reply.serial, 0);
	CHECK_EQ(none, 0);
	req.code = CONTROL_LEAVE;
	CHECK(node_serve(r.node, &extra[5], &req, &reply) && extra[5] == 0);
	req.code = CONTROL_SESSION;
	CHECK(node_serve(r.node, &none, &req, &reply) && reply.slot == 5);
	CHECK(none > extra[15]);
	rig_fini(&r);
}

static void
test_session_line_starts_at_the_current_epoch(void)
{
	struct rig r;

	rig_home(&r, MIB, 1);
	CALL(&r, 0, .code = CONTROL_LEAVE);
	r.node->lines[0].word = POOL_WORD(1, 77);
	r.node->super->epoch = 9;
	CALL(&r, 1, .code = CONTROL_SESSION);
	CHECK_EQ(r.node->lines[0].word, POOL_WORD(9, 0));
	rig_fini(&r);
}

static void
test_range_never_repeats_for_one_line(void)
{
	uint64_t last = 0;
	struct rig r;

	rig_home(&r, MIB, 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(CALL(&r, 0, .code = CONTROL_SESSION).slot, 0);
		for (int k = 0; k < 3; k++) {
			uint64_t first = CALL(&r, 0, .code = CONTROL_RANGE).first;

			CHECK(first >= last + (1 << 20));
			last = first;
		}
		if (i % 2)
			rig_reopen(&r);
		else
			CALL(&r, 0, .code = CONTROL_LEAVE);
	}
	CALL(&r, 0, .code = CONTROL_SESSION);
	r.node->sessions[0].range_next = r.node->private[0].range_next = UINT64_C(1) << 28;
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RANGE), -FAR_ENOMEM);
	rig_fini(&r);
}

struct seen {
	unsigned n;
	uint64_t serial, note[2];
};

static int
seen_each(void *arg, uint64_t serial, const uint64_t note[2])
{
	struct seen *s = arg;

	s->n++;
	s->serial = serial;
	s->note[0] = note[0];
	s->note[1] = note[1];
	return 0;
}

static void
test_left_names_the_sessions_of_the_last_run(void)
{
	struct seen s = { 0 };
	struct rig r;

	rig_home(&r, MIB, 2);
	CALL(&r, 0, .code = CONTROL_LEAVE);
	CHECK_EQ(node_left(r.region, r.len, seen_each, &s), 0);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(s.serial, r.at[1]);
	CHECK(s.note[0] == 4711 && s.note[1] == 42);
	rig_reopen(&r);
	s.n = 0;
	CHECK_EQ(node_left(r.region, r.len, seen_each, &s), 0);
	CHECK_EQ(s.n, 0);
	rig_fini(&r);
}

static void
test_join_after_fence_or_end_is_efenced(void)
{
	struct rig r;

	rig_init(&r, MIB);
	rig_form(&r, 1);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SESSION), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 5), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 5), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 6), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 5), -FAR_EEXIST);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 0), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = UINT64_MAX), -FAR_EINVAL);
	/* FENCE arrives before the victim joined. */
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = 9), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 9), -FAR_EFENCED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 8), 0);
	CALL(&r, 1, .code = CONTROL_LEAVE);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 8), -FAR_EFENCED);
	/* What was forgotten one by one is still known as a whole. */
	for (unsigned i = 0; i < 2 * NODE_GONE; i++)
		CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = 100 + i), 0);
	for (unsigned i = 0; i < 2 * NODE_GONE; i++)
		CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 100 + i), -FAR_EFENCED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 1000), 0);
	rig_fini(&r);
}

/* Chunks ---------------------------------------------------------------------------------------------------- */

static void
test_grant_kinds_never_share_a_superpage(void)
{
	struct control_reply t, b, i, b2;
	struct rig r;

	rig_home(&r, 24 * MIB, 1);
	t = rig_table(&r, 0, "a");
	b = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 1);
	i = rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1);
	b2 = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 8);
	CHECK(b.err == 0 && i.err == 0 && b2.err == 0);
	CHECK(b.off / POOL_SUPERPAGE != i.off / POOL_SUPERPAGE);
	CHECK_EQ(b2.off / POOL_SUPERPAGE, b.off / POOL_SUPERPAGE);
	CHECK_EQ(b.flags, 0);
	/* Once it is empty, the superpage may change its kind. */
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = b.off), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = b2.off), 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 30).err, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 30).off, b.off);
	rig_fini(&r);
}

static void
test_grant_long_run_starts_at_a_superpage(void)
{
	struct control_reply t, big, two, small;
	struct rig r;

	rig_home(&r, 64 * MIB, 1);
	t = rig_table(&r, 0, "a");
	small = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 4);
	big = CALL(&r, 0, .code = CONTROL_GRANT, .table = t.table, .root_serial = t.serial,
		   .kind = POOL_PAGE_BLOCKS, .class = POOL_CLASSES - 1, .run = 259);
	two = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 32);
	CHECK(small.err == 0 && big.err == 0 && two.err == 0);
	CHECK_EQ(big.run, 259);
	CHECK_EQ(big.off % POOL_SUPERPAGE, 0);
	CHECK_EQ(two.off % POOL_SUPERPAGE, 0);
	CHECK_EQ(rig_page(&r, big.off + 200 * POOL_PAGE).run, 200);
	/* The tail of the long one is shared with its kind. */
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 29).off, big.off + 8 * POOL_SUPERPAGE + 3 * POOL_PAGE);
	/* Of the 31 superpages 11 are in use: two more of 9 fit. */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_GRANT, .table = t.table, .root_serial = t.serial,
				  .kind = POOL_PAGE_BLOCKS, .class = POOL_CLASSES - 1, .run = 259),
			 i < 2 ? 0 : -FAR_ENOMEM);
	rig_fini(&r);
}

static void
test_grant_small_region_serves_both_kinds(void)
{
	struct control_reply t;
	struct rig r;

	rig_home(&r, 320 << 10, 1);
	t = rig_table(&r, 0, "a");
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1).err, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2).err, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2).err, -FAR_ENOMEM);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1).err, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1).err, -FAR_ENOMEM);
	rig_fini(&r);
}

static void
test_grant_fills_24_gib_and_finds_every_hole(void)
{
	struct control_reply t, c;
	uint64_t n = 0, last = 0;
	struct rig r;

	rig_home(&r, (uint64_t)24 << 30, 1);
	t = rig_table(&r, 0, "a");
	while ((c = rig_grant(&r, 0, t, n % 3 ? POOL_PAGE_BLOCKS : POOL_PAGE_INDEX, 32)).err == 0) {
		CHECK(c.off > last);
		last = c.off;
		n++;
	}
	CHECK_EQ(c.err, -FAR_ENOMEM);
	CHECK_EQ(n, r.node->id.pages_n / 32);
	/* Holes at the end, at the start and in the middle are found. */
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t off = r.node->id.data_off + (i * 5000) * POOL_SUPERPAGE;

		CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = off), 0);
		CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 7).off, off);
		CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 25).off, off + 7 * POOL_PAGE);
		CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1).err, -FAR_ENOMEM);
	}
	rig_fini(&r);
}

static void
test_grant_bitmap_of_a_fresh_chunk_is_zero(void)
{
	struct control_reply t, c;
	uint64_t head;
	struct rig r;

	rig_home(&r, MIB, 1);
	t = rig_table(&r, 0, "a");
	memset((uint8_t *)r.region + r.node->id.data_off, 0xff, r.node->id.pages_n * POOL_PAGE);
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2);
	pool_chunk_blocks(3, 2, &head);
	for (uint64_t i = 0; i < head; i++)
		CHECK_EQ(((uint8_t *)r.region)[c.off + i], 0);
	rig_fini(&r);
}

static void
test_grant_bad_arguments_are_refused(void)
{
	static const struct control_request bad[] = {
		{ .kind = 0, .run = 1 },
		{ .kind = 3, .run = 1 },
		{ .kind = 1, .run = 0 },
		{ .kind = 1, .run = UINT32_MAX },
		{ .kind = 1, .run = 1, .class = POOL_CLASSES },
		{ .kind = 1, .run = 1, .class = POOL_CLASSES - 1 },
		{ .kind = 1, .run = 1, .flags = 1 },
		{ .kind = 1, .run = 1, .table = 256 },
	};
	struct control_reply t;
	struct rig r;

	rig_home(&r, MIB, 1);
	t = rig_table(&r, 0, "a");
	for (size_t i = 0; i < FAR_LEN(bad); i++) {
		struct control_request req = bad[i];

		req.code = CONTROL_GRANT;
		req.root_serial = t.serial;
		CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EINVAL);
	}
	CHECK_EQ(rig_call(&r, 1, (struct control_request){ .code = CONTROL_GRANT }).err, -FAR_EINVAL);
	rig_fini(&r);
}

static void
test_release_of_foreign_or_odd_offsets_is_refused(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, MIB, 2);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_RELEASE, .off = c.off), -FAR_EACCESS);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off + POOL_PAGE), -FAR_EACCESS);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off + 8), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = 0), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = UINT64_C(1) << 60), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off), 0);
	rig_fini(&r);
}

static void
test_orphans_come_first_clean_before_dirty(void)
{
	struct control_reply t, u, clean, dirty, c;
	struct rig r;

	rig_home(&r, 24 * MIB, 4);
	t = rig_table(&r, 0, "a");
	u = rig_table(&r, 0, "b");
	dirty = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 4);
	clean = rig_grant(&r, 2, t, POOL_PAGE_BLOCKS, 4);
	rig_grant(&r, 2, u, POOL_PAGE_BLOCKS, 4);
	node_stopped(r.node, r.at[1]);
	CHECK_EQ(rig_page(&r, dirty.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(rig_page(&r, dirty.off).owner, 0);
	CHECK_EQ(CALL_ERR(&r, 2, .code = CONTROL_LEAVE), 0);
	rig_check(&r);
	/* Another kind, a longer run or an explicit wish get a fresh one. */
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 4).flags, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 5).flags, 0);
	CHECK_EQ(CALL(&r, 0, .code = CONTROL_GRANT, .table = t.table, .root_serial = t.serial, .kind = 1,
		      .class = 3, .run = 1, .flags = CONTROL_FRESH)
			 .flags,
		 0);
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2);
	CHECK_EQ(c.off, clean.off);
	CHECK_EQ(c.run, 4);
	CHECK_EQ(c.flags, CONTROL_ORPHAN);
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 4);
	CHECK_EQ(c.off, dirty.off);
	CHECK_EQ(c.flags, POOL_PAGE_DIRTY);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 1).flags, 0);
	rig_fini(&r);
}

static void
test_orphan_by_release_is_adopted_by_another(void)
{
	struct control_reply t, c, d;
	struct rig r;

	rig_home(&r, 24 * MIB, 2);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 4);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off, .flags = CONTROL_FRESH), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off, .flags = CONTROL_ORPHAN), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c.off), -FAR_EACCESS);
	rig_check(&r);
	d = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1);
	CHECK_EQ(d.off, c.off);
	CHECK_EQ(d.flags, CONTROL_ORPHAN);
	rig_fini(&r);
}

static void
test_orphan_dirty_until_scavenged(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, 24 * MIB, 3);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 4);
	node_stopped(r.node, r.at[1]);
	CHECK_EQ(rig_grant(&r, 2, t, POOL_PAGE_BLOCKS, 4).off, c.off);
	CALL(&r, 2, .code = CONTROL_LEAVE);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 4).off, c.off);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SCAVENGED, .off = c.off + POOL_PAGE), -FAR_EACCESS);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SCAVENGED, .off = c.off), 0);
	CALL(&r, 0, .code = CONTROL_LEAVE);
	CHECK_EQ(rig_page(&r, c.off).flags, 0);
	rig_fini(&r);
}

/* FENCE ----------------------------------------------------------------------------------------------------- */

static void
test_fence_waits_for_the_stop_and_then_orphans(void)
{
	struct control_request req = { .code = CONTROL_FENCE };
	struct control_reply t, c, reply;
	struct rig r;

	rig_home(&r, MIB, 3);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1);
	r.around.stop_result = -FAR_EAGAIN;
	req.serial = r.at[1];
	CHECK(!node_serve(r.node, &r.at[0], &req, &reply));
	CHECK_EQ(r.around.stopped, r.at[1]);
	CHECK(rig_page(&r, c.off).owner != 0);
	/* The victim gets nothing any more, nor may it strike back. */
	CHECK_EQ(rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1).err, -FAR_EFENCED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_LEAVE), -FAR_EFENCED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_FENCE, .serial = r.at[0]), -FAR_EFENCED);
	CHECK(!node_serve(r.node, &r.at[2], &req, &reply));
	node_stopped(r.node, r.at[1]);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(r.node->lines[1].serial, 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = r.at[1]), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_RANGE), -FAR_EFENCED);
	rig_fini(&r);
}

static void
test_fence_unstoppable_client_quarantines_until_it_exits(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, MIB, 2);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 3);
	r.around.stop_result = -FAR_EACCESS;
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = r.at[1]), -FAR_EACCESS);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_QUARANTINED);
	CHECK(r.node->lines[1].serial != 0 && r.node->lines[1].quarantined == 1);
	CHECK_EQ(r.node->super->quarantine_n, 1);
	CHECK_EQ(r.node->super->quarantine_pages, c.run);
	CHECK_EQ(r.node->super->quarantine_pid, 4711);
	CHECK(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 3).off != c.off);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_DROP, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial),
		 -FAR_EACCESS);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_FREE, .table = t.table, .root_serial = t.serial), -FAR_EINVAL);
	rig_check(&r);
	node_stopped(r.node, r.at[1]);
	CHECK_EQ(r.node->super->quarantine_n + r.node->super->quarantine_pages + r.node->super->quarantine_pid, 0);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_FREE, .table = t.table, .root_serial = t.serial), 0);
	rig_fini(&r);
}

static void
test_leave_dirty_is_what_a_quarantined_client_may_still_say(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, MIB, 2);
	t = rig_table(&r, 0, "a");
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 3);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_LEAVE, .flags = CONTROL_FRESH), -FAR_EINVAL);
	r.around.stop_result = -FAR_EACCESS;
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = r.at[1]), -FAR_EACCESS);
	/* What it says of its bitmaps may be old. */
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_LEAVE), -FAR_EFENCED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_RANGE), -FAR_EFENCED);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_QUARANTINED);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_LEAVE, .flags = CONTROL_DIRTY), 0);
	CHECK_EQ(r.at[1], 0);
	CHECK_EQ(rig_page(&r, c.off).flags, POOL_PAGE_DIRTY);
	CHECK_EQ(rig_page(&r, c.off).owner, 0);
	CHECK_EQ(r.node->super->quarantine_n, 0);
	rig_fini(&r);
}

static void
test_fence_own_or_unborn_session_is_einval(void)
{
	struct rig r;

	rig_home(&r, MIB, 2);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = r.at[0]), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = 0), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = 999), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 5, .code = CONTROL_FENCE, .serial = r.at[0]), -FAR_EINVAL);
	r.around.stop_result = -FAR_EINVAL;
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_FENCE, .serial = r.at[1]), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_RANGE), 0);
	rig_fini(&r);
}

/* Roots ----------------------------------------------------------------------------------------------------- */

static void
test_root_new_bad_names_are_refused(void)
{
	static const char *const bad[] = { "", "a b", "a/b", "\xc3\xa4", "a\n" };
	struct control_request req = { .code = CONTROL_ROOT_NEW, .design = "race" };
	struct rig r;

	rig_home(&r, MIB, 1);
	for (size_t i = 0; i < FAR_LEN(bad); i++) {
		memset(req.name, 0, sizeof(req.name));
		strcpy(req.name, bad[i]);
		CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EINVAL);
	}
	memset(req.name, 'a', sizeof(req.name));
	CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EINVAL);
	req.name[63] = 0;
	req.name[5] = 0;
	CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EINVAL);
	req.name[5] = 'a';
	memset(req.design, 'r', sizeof(req.design));
	CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EINVAL);
	req.design[15] = 0;
	CHECK_EQ(rig_call(&r, 0, req).err, 0);
	CHECK_EQ(rig_call(&r, 0, req).err, -FAR_EEXIST);
	rig_fini(&r);
}

static void
test_root_goes_from_new_to_free(void)
{
	struct control_reply t, u;
	struct rig r;

	rig_home(&r, MIB, 2);
	t = rig_table(&r, 0, "a");
	CHECK_EQ(r.node->roots[t.table].seed, t.seed);
	CHECK_EQ(r.node->roots[t.table].head, 1 << 20);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_NEW, .name = "a", .design = "x"), -FAR_EEXIST);
	rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_DROP, .table = t.table, .root_serial = t.serial + 1),
		 -FAR_ENOENT);
	r.node->super->epoch = 33;
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_DROP, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(r.node->roots[t.table].epoch, 33);
	CHECK_EQ(rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1).err, -FAR_ENOENT);
	/* The name is free at once, the number is not. */
	u = rig_table(&r, 1, "a");
	CHECK(u.table != t.table && u.serial > t.serial && u.seed != t.seed);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_FREE, .table = t.table, .root_serial = t.serial), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_FREE, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_FREE, .table = t.table, .root_serial = t.serial), 0);
	/* Late requests for the old table do not touch the new one of its number. */
	t = rig_table(&r, 1, "c");
	u = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial - 2), 0);
	CHECK_EQ(rig_page(&r, u.off).kind, POOL_PAGE_BLOCKS);
	rig_fini(&r);
}

static void
test_root_all_numbers_taken_is_enomem(void)
{
	char name[] = "t0";
	struct rig r;

	rig_home(&r, MIB, 1);
	for (int i = 0; i < 8; i++, name[1]++)
		rig_table(&r, 0, name);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_NEW, .name = "x", .design = "race"), -FAR_ENOMEM);
	rig_fini(&r);
}

static void
test_root_of_a_maker_that_ends_is_dropped(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, MIB, 3);
	t = CALL(&r, 0, .code = CONTROL_ROOT_NEW, .name = "a", .design = "race");
	CHECK_EQ(rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1).err, -FAR_ENOENT);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_SET, .table = t.table, .root_serial = t.serial, .off = 64),
		 -FAR_EACCESS);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_DROP, .table = t.table, .root_serial = t.serial), -FAR_ENOENT);
	c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 1);
	node_stopped(r.node, r.at[0]);
	CHECK_EQ(POOL_ROOT_KIND(r.node->roots[t.table].state), POOL_ROOT_DROPPED);
	CHECK_EQ(r.node->roots[t.table].epoch, 1);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_ROOT_NEW, .name = "a", .design = "race"), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_TABLE_FREE, .table = t.table, .root_serial = t.serial), 0);
	CHECK_EQ(rig_page(&r, c.off).kind, POOL_PAGE_FREE);
	rig_reopen(&r);
	rig_fini(&r);
}

static void
test_table_number_reused_elsewhere_keeps_late_requests_out(void)
{
	struct control_reply old = { .table = 3, .serial = 10 }, new = { .table = 3, .serial = 20 }, c;
	struct rig r;

	rig_init(&r, MIB);
	rig_form(&r, 1);
	CALL(&r, 0, .code = CONTROL_JOIN, .serial = 5);
	CHECK_EQ(rig_grant(&r, 0, old, POOL_PAGE_BLOCKS, 1).err, 0);
	CHECK_EQ(rig_grant(&r, 0, new, POOL_PAGE_BLOCKS, 1).err, -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = 3, .root_serial = 10), 0);
	CHECK_EQ(rig_grant(&r, 0, old, POOL_PAGE_BLOCKS, 1).err, -FAR_ENOENT);
	c = rig_grant(&r, 0, new, POOL_PAGE_BLOCKS, 1);
	CHECK_EQ(c.err, 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = 3, .root_serial = 10), 0);
	CHECK_EQ(rig_page(&r, c.off).kind, POOL_PAGE_BLOCKS);
	CHECK_EQ(rig_grant(&r, 0, old, POOL_PAGE_BLOCKS, 1).err, -FAR_ENOENT);
	rig_reopen(&r);
	CALL(&r, 0, .code = CONTROL_JOIN, .serial = 6);
	CHECK_EQ(rig_grant(&r, 0, old, POOL_PAGE_BLOCKS, 1).err, -FAR_ENOENT);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .table = 3, .root_serial = 20), 0);
	CHECK_EQ(r.node->table_chunks[3], 0);
	rig_fini(&r);
}

TEST_MAIN(TEST(test_format_any_size_places_tables_before_data),
	  TEST(test_format_too_small_is_refused),
	  TEST(test_open_foreign_region_is_an_error),
	  TEST(test_open_scribbled_region_never_crashes),
	  TEST(test_open_dropped_root_with_an_impossible_epoch_is_stamped_anew),
	  TEST(test_open_tables_of_no_pool_is_ecorrupt),
	  TEST(test_form_twice_keeps_the_first_pool),
	  TEST(test_session_all_lines_taken_is_enomem_until_one_leaves),
	  TEST(test_session_line_starts_at_the_current_epoch),
	  TEST(test_range_never_repeats_for_one_line),
	  TEST(test_left_names_the_sessions_of_the_last_run),
	  TEST(test_join_after_fence_or_end_is_efenced),
	  TEST(test_grant_kinds_never_share_a_superpage),
	  TEST(test_grant_long_run_starts_at_a_superpage),
	  TEST(test_grant_small_region_serves_both_kinds),
	  TEST(test_grant_fills_24_gib_and_finds_every_hole),
	  TEST(test_grant_bitmap_of_a_fresh_chunk_is_zero),
	  TEST(test_grant_bad_arguments_are_refused),
	  TEST(test_release_of_foreign_or_odd_offsets_is_refused),
	  TEST(test_orphans_come_first_clean_before_dirty),
	  TEST(test_orphan_by_release_is_adopted_by_another),
	  TEST(test_orphan_dirty_until_scavenged),
	  TEST(test_fence_waits_for_the_stop_and_then_orphans),
	  TEST(test_fence_unstoppable_client_quarantines_until_it_exits),
	  TEST(test_leave_dirty_is_what_a_quarantined_client_may_still_say),
	  TEST(test_fence_own_or_unborn_session_is_einval),
	  TEST(test_root_new_bad_names_are_refused),
	  TEST(test_root_goes_from_new_to_free),
	  TEST(test_root_all_numbers_taken_is_enomem),
	  TEST(test_root_of_a_maker_that_ends_is_dropped),
	  TEST(test_table_number_reused_elsewhere_keeps_late_requests_out))
