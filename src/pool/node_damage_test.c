/* SPDX-License-Identifier: Apache-2.0 */
/* node_damage_test.c -- a node on memory that somebody spoiled, at its limits, and what its verification finds. */
#include "pool/node_rig.h"

/* Start ----------------------------------------------------------------------------------------------------- */

/* A formed home node with a table, a chunk of two pages and a session; 9 MiB have 113 pages in four superpages. */
static void
damage_home(struct rig *r, uint64_t len)
{
	struct control_reply t;

	rig_home(r, len, 1);
	t = rig_table(r, 0, "a");
	CHECK_EQ(rig_grant(r, 0, t, POOL_PAGE_BLOCKS, 2).err, 0);
}

/* Opens the region as it is, which must not succeed, and puts `good` back. */
static void
damage_open(struct rig *r, const void *good, uint64_t len, int want)
{
	struct node *n = NULL;

	CHECK_EQ(node_open(r->region, r->len, &r->around.env, &n), want);
	CHECK(n == NULL);
	memcpy(r->region, good, len);
}

/* What damage_open() puts back: all but the data. */
static void *
damage_save(const struct rig *r)
{
	void *good = malloc(r->node->id.data_off);

	REQUIRE(good);
	return memcpy(good, r->region, r->node->id.data_off);
}

static void
damage_end(struct rig *r, void *good)
{
	free(good);
	rig_reopen(r);
	CHECK_EQ(CALL_ERR(r, 0, .code = CONTROL_SESSION), 0);
	rig_fini(r);
}

/* Whoever can write a superblock can write its sum, too. */
static void
test_open_superblock_that_cannot_be_is_ecorrupt(void)
{
	static const struct {
		size_t at, len;
		uint64_t value;
	} lies[] = {
#define LIE(field, value) { offsetof(struct pool_super, field), sizeof(((struct pool_super *)0)->field), value }
		LIE(page_len, 4096),
		LIE(region_len, 2 << 20),
		LIE(region_len, 9 << 10),
		LIE(sessions_n, 17),
		LIE(roots_off, 0),
		LIE(pages_n, 1),
		LIE(data_off, 3 << 16),
		LIE(nodes_n, POOL_NODES + 1),
		LIE(node, 2),
		LIE(epoch, 0),
		LIE(epoch, UINT64_C(1) << 48),
		LIE(sessions_high, 17),
		LIE(next_serial, POOL_SERIAL_MAX + 1),
	};
	struct pool_super *s;
	struct rig r;
	void *good;

	damage_home(&r, MIB);
	good = damage_save(&r);
	s = r.region;
	for (size_t i = 0; i < FAR_LEN(lies); i++) {
		memcpy((char *)s + lies[i].at, &lies[i].value, lies[i].len);
		s->sum = node_super_sum(s);
		damage_open(&r, good, r.node->id.data_off, -FAR_ECORRUPT);
	}
	s->endian = 0;
	damage_open(&r, good, r.node->id.data_off, -FAR_EFORMAT);
	/* A sum is right, but no region is that short. */
	s->region_len = 256 << 10;
	s->sum = node_super_sum(s);
	r.len = s->region_len;
	damage_open(&r, good, r.node->id.data_off, -FAR_ECORRUPT);
	r.len = MIB;
	damage_end(&r, good);
}

static void
test_format_beyond_an_address_is_refused(void)
{
	struct node_env env = { 0 };

	/* Nothing is touched. */
	CHECK_EQ(node_format(NULL, POOL_REGION_MAX + 1, &env), -FAR_EINVAL);
}

/* Page 0 is used by damage_home(). */
static void
test_open_page_word_that_cannot_be_is_ecorrupt(void)
{
	static const struct {
		uint64_t at;
		struct pool_page page;
	} lies[] = {
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = POOL_CLASSES, .run = 1 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 1, .table = 255 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 0 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 200 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 1, .owner = POOL_SESSIONS + 1 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 1, .flags = 4 } },
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 60, .run = 1 } },
		/* No INSIDE word behind it. */
		{ 2, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 2 } },
		/* Across superpages, a long one amid a superpage, and two kinds in one. */
		{ 31, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 2 } },
		{ 40, { .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 32 } },
		{ 2, { .kind = POOL_PAGE_INDEX, .class = 3, .run = 1 } },
	};
	struct rig r;
	void *good;

	damage_home(&r, 9 * MIB);
	good = damage_save(&r);
	for (size_t i = 0; i < FAR_LEN(lies); i++) {
		r.node->pages[lies[i].at] = pool_page_pack(lies[i].page);
		/* All but the one without them have their INSIDE words. */
		for (unsigned k = 1; k < lies[i].page.run && lies[i].at > 2; k++)
			r.node->pages[lies[i].at + k] =
				pool_page_pack((struct pool_page){ .kind = POOL_PAGE_INSIDE, .run = k });
		damage_open(&r, good, r.node->id.data_off, -FAR_ECORRUPT);
	}
	damage_end(&r, good);
}

static void
test_open_table_of_names_or_sessions_that_cannot_be_is_ecorrupt(void)
{
	struct pool_root *root;
	struct rig r;
	void *good;
	uint64_t len;

	damage_home(&r, MIB);
	good = damage_save(&r);
	len = r.node->id.data_off;
	root = r.node->roots;
	root->state = POOL_ROOT_STATE(POOL_ROOT_FREE, 2);
	damage_open(&r, good, len, -FAR_ECORRUPT);
	root->state = POOL_ROOT_STATE(POOL_ROOT_DROPPED + 1, 2);
	damage_open(&r, good, len, -FAR_ECORRUPT);
	root->state = POOL_ROOT_STATE(POOL_ROOT_LIVE, 0);
	damage_open(&r, good, len, -FAR_ECORRUPT);
	root->state = POOL_ROOT_STATE(POOL_ROOT_LIVE, 99);
	damage_open(&r, good, len, -FAR_ECORRUPT);
	root->name[5] = 'x'; /* behind its end */
	damage_open(&r, good, len, -FAR_ECORRUPT);
	memset(root->design, 'x', sizeof(root->design));
	damage_open(&r, good, len, -FAR_ECORRUPT);
	root->state = 0; /* whose are its chunks? */
	damage_open(&r, good, len, -FAR_ECORRUPT);
	r.node->private[3].range_next = 0;
	damage_open(&r, good, len, -FAR_ECORRUPT);
	r.node->lines[0].serial = POOL_SERIAL_MAX + 1;
	damage_open(&r, good, len, -FAR_ECORRUPT);
	r.node->lines[1].serial = 1; /* above the lines that were ever used */
	damage_open(&r, good, len, -FAR_ECORRUPT);
	r.node->lines[0].serial = 99; /* not yet given */
	damage_open(&r, good, len, -FAR_ECORRUPT);
	damage_end(&r, good);
}

/* FENCE and the start after it may both have been cut short: in doubt nobody trusts a bitmap. */
static void
test_open_quarantined_orphan_is_dirty(void)
{
	struct pool_page p;
	struct rig r;

	damage_home(&r, MIB);
	p = pool_page_unpack(r.node->pages[0]);
	p.owner = 0;
	p.flags = POOL_PAGE_QUARANTINED;
	r.node->pages[0] = pool_page_pack(p);
	rig_reopen(&r);
	CHECK_EQ(pool_page_unpack(r.node->pages[0]).flags, POOL_PAGE_DIRTY);
	rig_fini(&r);
}

static int
damage_refuse(void *arg, uint64_t serial, const uint64_t note[2])
{
	++*(unsigned *)arg;
	CHECK_EQ(note[0], 4711);
	return serial == 2 ? -FAR_EACCESS : 0;
}

static void
test_left_ends_with_the_first_error(void)
{
	unsigned seen = 0;
	struct rig r;

	rig_home(&r, MIB, 3);
	CHECK_EQ(node_left(r.region, MIB, damage_refuse, &seen), -FAR_EACCESS);
	CHECK_EQ(seen, 2);
	CHECK_EQ(node_left(r.region, 100, damage_refuse, &seen), -FAR_EFORMAT);
	rig_fini(&r);
}

/* Limits ---------------------------------------------------------------------------------------------------- */

static void
test_serials_used_up_end_sessions_and_names_not_the_node(void)
{
	struct rig r;

	rig_home(&r, MIB, 1);
	r.node->super->next_serial = POOL_SERIAL_MAX - 1;
	rig_reopen(&r);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SESSION), 0);
	CHECK_EQ(r.at[0], POOL_SERIAL_MAX);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_SESSION), -FAR_ENOMEM);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_ROOT_NEW, .name = "a", .design = "race"), -FAR_ENOMEM);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RANGE), 0);
	rig_fini(&r);
}

static void
test_range_of_a_line_used_up_is_enomem(void)
{
	struct rig r;

	rig_home(&r, MIB, 1);
	r.node->private[0].range_next = UINT64_C(1) << (POOL_SEQUENCE_BITS - POOL_RANGE_BITS);
	rig_reopen(&r);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SESSION), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RANGE), -FAR_ENOMEM);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_SESSION), 0);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_RANGE), 0);
	rig_fini(&r);
}

static void
test_join_all_lines_taken_is_enomem_until_one_leaves(void)
{
	uint64_t at[NODE_SMALL_SESSIONS + 1] = { 0 };
	struct control_request req = { .code = CONTROL_JOIN };
	struct control_reply reply;
	struct rig r;

	rig_init(&r, MIB);
	rig_form(&r, 1);
	for (unsigned i = 0; i <= NODE_SMALL_SESSIONS; i++) {
		req.serial = 100 + i;
		CHECK(node_serve(r.node, &at[i], &req, &reply));
		CHECK_EQ(reply.err, i < NODE_SMALL_SESSIONS ? 0 : -FAR_ENOMEM);
	}
	CHECK_EQ(at[NODE_SMALL_SESSIONS], 0);
	CHECK(node_serve(r.node, &at[3], &(struct control_request){ .code = CONTROL_LEAVE }, &reply));
	CHECK(node_serve(r.node, &at[NODE_SMALL_SESSIONS], &req, &reply));
	CHECK_EQ(reply.err, 0);
	CHECK_EQ(reply.slot, 3);
	rig_fini(&r);
}

static void
test_requests_out_of_place_are_einval(void)
{
	static const struct control_request bad[] = {
		{ .code = 0 },
		{ .code = 99 },
		{ .code = CONTROL_FORM, .nodes_n = 2 },
		{ .code = CONTROL_FORM, .nodes_n = 0, .pool_id = { 7, 8 } },
		{ .code = CONTROL_FORM, .nodes_n = POOL_NODES + 1, .pool_id = { 7, 8 } },
		{ .code = CONTROL_FORM, .nodes_n = 2, .pool_id = { 0, 8 } },
		{ .code = CONTROL_FORM, .nodes_n = 2, .pool_id = { 8, 0 } },
		{ .code = CONTROL_FORM, .nodes_n = 3, .pool_id = { 7, 8 } },
		{ .code = CONTROL_SESSION },
		{ .code = CONTROL_JOIN, .serial = 5 },
		{ .code = CONTROL_LEAVE, .flags = 1 },
		{ .code = CONTROL_FENCE, .serial = 0 },
		{ .code = CONTROL_FENCE, .serial = POOL_SERIAL_MAX + 1 },
		{ .code = CONTROL_RELEASE, .flags = 1 },
		{ .code = CONTROL_ROOT_SET, .table = 0, .off = 0 },
		{ .code = CONTROL_ROOT_SET, .table = 0, .off = UINT64_C(2) << 48 },
		{ .code = CONTROL_ROOT_SET, .table = 255, .off = 8 },
		{ .code = CONTROL_ROOT_DROP, .table = 255 },
		{ .code = CONTROL_ROOT_FREE, .table = 255 },
		{ .code = CONTROL_TABLE_FREE, .table = 255, .root_serial = 1 },
		{ .code = CONTROL_TABLE_FREE, .table = 0, .root_serial = 0 },
		{ .code = CONTROL_TABLE_FREE, .table = 0, .root_serial = POOL_SERIAL_MAX + 1 },
		{ .code = CONTROL_GRANT, .kind = 1, .run = 1, .root_serial = POOL_SERIAL_MAX + 1 },
		{ .code = CONTROL_GRANT, .kind = 1, .run = 1, .root_serial = 0 },
	};
	struct rig r;

	rig_home(&r, MIB, 1);
	for (size_t i = 0; i < FAR_LEN(bad); i++)
		CHECK_EQ(rig_call(&r, 0, bad[i]).err, -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 7, .code = CONTROL_RANGE), -FAR_EINVAL); /* without a session */
	rig_fini(&r);
}

static void
test_requests_to_another_node_than_home(void)
{
	struct control_reply c;
	struct rig r;

	rig_init(&r, MIB);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 5), -FAR_EINVAL); /* of no pool yet */
	rig_form(&r, 1);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_SESSION), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 0), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = POOL_SERIAL_MAX + 1), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 5), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 5), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_JOIN, .serial = 6), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 1, .code = CONTROL_JOIN, .serial = 5), -FAR_EEXIST);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RANGE), -FAR_EINVAL);
	c = CALL(&r, 0, .code = CONTROL_GRANT, .root_serial = 9, .kind = 1, .class = 3, .run = 1);
	CHECK_EQ(c.err, 0);
	/* That number's chunks are table 9's: no later table can have it already. */
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_GRANT, .root_serial = 12, .kind = 1, .class = 3, .run = 1),
		 -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .root_serial = 12), -FAR_EINVAL);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .root_serial = 8), 0);
	CHECK_EQ(rig_page(&r, c.off).kind, POOL_PAGE_BLOCKS);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .root_serial = 9), 0);
	CHECK_EQ(rig_page(&r, c.off).kind, POOL_PAGE_FREE);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_TABLE_FREE, .root_serial = 12), 0);
	rig_fini(&r);
}

/* The last superpage is cut short, and rows of free ones are interrupted. */
static void
test_grant_looks_past_superpages_that_do_not_hold_it(void)
{
	struct control_reply t, c[4], big;
	struct rig r;

	rig_home(&r, 17 * MIB, 1);
	t = rig_table(&r, 0, "a");
	/* Seven superpages whole, and 16 pages. */
	CHECK_EQ(r.node->id.pages_n, 7 * NODE_SPAN + NODE_SPAN / 2);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ((c[i] = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, NODE_SPAN)).err, 0);
	/* Free: 0, in use: 1, free: 2, in use: 3, free: 4 to 6 and a half. */
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c[0].off), 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = c[2].off), 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 4 * NODE_SPAN).err, -FAR_ENOMEM);
	big = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 2 * NODE_SPAN + 1);
	CHECK_EQ(big.off, c[0].off + 4 * (uint64_t)POOL_SUPERPAGE);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = big.off), 0);
	/* A tail in a superpage that holds the other kind. */
	big = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 3 * NODE_SPAN);
	CHECK_EQ(big.off, c[0].off + 4 * (uint64_t)POOL_SUPERPAGE);
	CHECK_EQ((c[0] = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, NODE_SPAN)).err, 0);
	CHECK_EQ((c[2] = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, NODE_SPAN)).err, 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, NODE_SPAN / 2 + 1).err, -FAR_ENOMEM);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 1).err, 0);
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_RELEASE, .off = big.off), 0);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 3 * NODE_SPAN + 1).err, -FAR_ENOMEM);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 3 * NODE_SPAN + NODE_SPAN / 2).err, -FAR_ENOMEM);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_INDEX, 3 * NODE_SPAN + NODE_SPAN / 2 - 1).err, -FAR_ENOMEM);
	CHECK_EQ(rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 9 * NODE_SPAN).err, -FAR_ENOMEM);
	rig_fini(&r);
}

/* Who left many small chunks must not make every request for a longer one walk through all of them. */
static void
test_grant_gives_up_looking_through_short_orphans(void)
{
	struct control_reply t, c;
	struct rig r;

	rig_home(&r, 128 * MIB, 2);
	t = rig_table(&r, 0, "a");
	for (unsigned i = 0; i < NODE_ORPHANS_LOOK + 2; i++) {
		c = rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, i == 0 ? 2 : 1);
		CHECK_EQ(c.err, 0);
	}
	CHECK_EQ(CALL_ERR(&r, 0, .code = CONTROL_LEAVE), 0);
	/* The one that is long enough was left first, and lies at the end of the list. */
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 2);
	CHECK_EQ(c.err, 0);
	CHECK_EQ(c.flags, 0);
	c = rig_grant(&r, 1, t, POOL_PAGE_BLOCKS, 1);
	CHECK_EQ(c.flags, CONTROL_ORPHAN);
	rig_fini(&r);
}

/* Verification ---------------------------------------------------------------------------------------------- */

struct damage_report {
	int lines;
	char text[4096];
};

static void
damage_note(void *arg, const char *line)
{
	struct damage_report *d = arg;

	d->lines++;
	snprintf(d->text + strlen(d->text), sizeof(d->text) - strlen(d->text), "%s\n# ", line);
}

/* Changes the 8 bytes at `at` to `value`, and verifies: something must be found, `want` among it. */
static void
damage_find(struct rig *r, void *at, uint64_t value, const char *want)
{
	struct damage_report d = { 0 };
	uint64_t good;
	int found;

	memcpy(&good, at, sizeof(good));
	memcpy(at, &value, sizeof(value));
	found = node_check(r->node, damage_note, &d);
	CHECK(found > 0 && found == d.lines);
	CHECK_EQ(node_check(r->node, NULL, NULL), found);
	if (!strstr(d.text, want)) {
		printf("# found %s not '%s'\n", d.text, want);
		CHECK(!"the right violation");
	}
	memcpy(at, &good, sizeof(good));
}

static void
test_check_finds_what_is_wrong_with_pages(void)
{
	struct pool_page p;
	struct node *n;
	struct rig r;

	damage_home(&r, 9 * MIB);
	n = r.node;
	damage_find(&r, &n->pages[5], 1, "not in its superpage");
	damage_find(&r, &n->words[0], 0, "owns 0 chunks, not 1");
	damage_find(&r, &n->words[40], pool_page_pack((struct pool_page){ .kind = POOL_PAGE_BLOCKS }),
		    "page 40: the region differs");
	p = pool_page_unpack(n->pages[0]);
	p.class = POOL_CLASSES;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "no chunk starts here");
	p = pool_page_unpack(n->pages[0]);
	p.run = 0;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "no chunk starts here");
	p.run = 500;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "table 0: 0 chunks, not 1");
	p.run = 33;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "pages are free");
	p = pool_page_unpack(n->pages[0]);
	p.table = 255;
	n->id.roots_n--;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "no chunk starts here");
	n->id.roots_n++;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "table 255, which does not exist");
	p = pool_page_unpack(n->pages[0]);
	p.owner = 7;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "owner 7 has no session");
	p.owner = POOL_SESSIONS + 1;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "owner 1025 has no session");
	p.owner = 0;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "an orphan that nobody can adopt");
	p.flags = POOL_PAGE_QUARANTINED;
	damage_find(&r, &n->pages[0], pool_page_pack(p), "quarantined orphan");
	damage_find(&r, &n->pages[1], pool_page_pack((struct pool_page){ .kind = POOL_PAGE_INSIDE, .run = 2 }),
		    "not inside its chunk");
	damage_find(&r, &n->pages[1], pool_page_pack((struct pool_page){ .kind = POOL_PAGE_INDEX, .run = 1 }),
		    "not inside its chunk");
	damage_find(&r, &n->pages_free, 3, "pages are free");
	damage_find(&r, &n->super->pages_free, 3, "pages are free");
	damage_find(&r, n->spans, UINT32_MAX | (uint64_t)POOL_PAGE_BLOCKS << 32, "takes it for free");
	damage_find(&r, n->spans, 0xfffffffc | (uint64_t)POOL_PAGE_INDEX << 32, "of kind 2");
	rig_fini(&r);
}

/* Chunks whose words are whole, but which lie where none may. */
static void
test_check_finds_chunks_across_superpages(void)
{
	struct damage_report d = { 0 };
	struct control_reply t;
	struct rig r;

	rig_home(&r, 9 * MIB, 1);
	t = rig_table(&r, 0, "a");
	rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 31);
	rig_grant(&r, 0, t, POOL_PAGE_BLOCKS, 31);
	for (unsigned i = 0; i < 2; i++) {
		struct pool_page p = pool_page_unpack(r.node->words[0]);

		/* The first one starts a page later, and ends in the next superpage. */
		p.run = i ? 40 : 31;
		r.node->words[2] = r.node->pages[2] = pool_page_pack(p);
		r.node->words[0] = r.node->pages[0] = 0;
		CHECK(node_check(r.node, damage_note, &d) > 0);
		r.node->words[0] = r.node->pages[0] = pool_page_pack((struct pool_page){
			.kind = p.kind, .class = p.class, .table = p.table, .run = 31, .owner = p.owner });
		r.node->words[2] = r.node->pages[2] =
			pool_page_pack((struct pool_page){ .kind = POOL_PAGE_INSIDE, .run = 2 });
		rig_check(&r);
	}
	rig_fini(&r);
}

static void
test_check_finds_what_is_wrong_with_sessions(void)
{
	struct node *n;
	struct rig r;

	damage_home(&r, 9 * MIB);
	n = r.node;
	damage_find(&r, &n->lines[0].serial, 99, "session line 0: the region differs");
	damage_find(&r, &n->private[4].range_next, 0, "session line 4: range");
	damage_find(&r, &n->private[0].serial, 99, "a session that was never opened");
	damage_find(&r, &n->super->sessions_high, 0, "a session that was never opened");
	damage_find(&r, &n->super->next_serial, 0, "a session that was never opened");
	damage_find(&r, &n->super->quarantine_n, 1, "0 sessions are quarantined, not 1");
	damage_find(&r, &n->super->sum, 1, "superblock");
	damage_find(&r, &n->super->magic, 1, "superblock");
	damage_find(&r, &n->id.next_serial, 1, "superblock");
	damage_find(&r, &n->id.sum, 1, "superblock");
	damage_find(&r, &n->id.sessions_high, 0, "superblock");
	n->sessions[5].range_next = 0;
	damage_find(&r, &n->private[5].range_next, 0, "session line 5: range");
	n->sessions[5].range_next = 1;
	rig_fini(&r);
}

static void
test_check_finds_what_is_wrong_with_names(void)
{
	struct pool_root saved;
	struct node *n;
	struct rig r;

	damage_home(&r, 9 * MIB);
	rig_table(&r, 0, "b");
	rig_table(&r, 0, "c");
	n = r.node;
	damage_find(&r, &n->roots[1].seed, 99, "root 1: the region differs");
	saved = n->names[1];
	n->names[1].state = n->roots[1].state = POOL_ROOT_STATE(POOL_ROOT_MAKING, 3);
	n->names[1].head = 99;
	damage_find(&r, &n->roots[1].head, 99, "its maker is gone");
	n->names[1] = n->roots[1] = saved;
	n->names[1].state = n->roots[1].state = POOL_ROOT_STATE(POOL_ROOT_DROPPED, 3);
	n->names[1].epoch = n->roots[1].epoch = 1;
	rig_check(&r);
	n->names[1].epoch = 9;
	damage_find(&r, &n->roots[1].epoch, 9, "dropped without an epoch");
	n->names[1].epoch = 0;
	damage_find(&r, &n->roots[1].epoch, 0, "dropped without an epoch");
	n->names[1] = n->roots[1] = saved;
	memcpy(n->names[1].name, "a\0\0\0\0\0\0", 8);
	damage_find(&r, n->roots[1].name, 'a', "roots 0 and 1: one name");
	n->names[1] = saved;
	rig_fini(&r);
}

TEST_MAIN(TEST(test_open_superblock_that_cannot_be_is_ecorrupt), TEST(test_format_beyond_an_address_is_refused),
	  TEST(test_open_page_word_that_cannot_be_is_ecorrupt),
	  TEST(test_open_table_of_names_or_sessions_that_cannot_be_is_ecorrupt),
	  TEST(test_open_quarantined_orphan_is_dirty), TEST(test_left_ends_with_the_first_error),
	  TEST(test_serials_used_up_end_sessions_and_names_not_the_node), TEST(test_range_of_a_line_used_up_is_enomem),
	  TEST(test_join_all_lines_taken_is_enomem_until_one_leaves), TEST(test_requests_out_of_place_are_einval),
	  TEST(test_requests_to_another_node_than_home), TEST(test_grant_looks_past_superpages_that_do_not_hold_it),
	  TEST(test_grant_gives_up_looking_through_short_orphans), TEST(test_check_finds_what_is_wrong_with_pages),
	  TEST(test_check_finds_chunks_across_superpages), TEST(test_check_finds_what_is_wrong_with_sessions),
	  TEST(test_check_finds_what_is_wrong_with_names))
