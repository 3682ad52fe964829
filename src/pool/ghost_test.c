/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghost_test.c -- rule M1 under random schedules, with clients that die or pause between any two words.
 *
 * The "table" is a row of slots; each holds the address of a block. Clients read blocks through slots and through words
 * that they cached, replace them, and retire what they replaced. A ghost that sees everything notes which addresses
 * each client has in its hands, in an operation or in its cache. When an allocator hands a block out, nobody may have
 * it: neither a slot, nor a client that is still in the session table (dead ones that were not fenced included).
 *
 * Run with a number as the second argument to play that one seed.
 */
#include "pool/rig.h"

enum {
	GHOST_SLOTS = 16,
	GHOST_CLIENTS = 3,
	GHOST_FIBERS = 2,
	GHOST_OPS = 12,
	GHOST_OPS_LONG = 120,
	GHOST_HELD = 8,
	GHOST_BLOCKS = 4096,
	GHOST_CLASS = 20,
};

struct ghost;

/* One client's part; also its index. */
struct far_index {
	struct ghost *g;
	unsigned client;
	uint64_t serial;
	struct pool_table *pt;
	uint64_t cached[GHOST_SLOTS];
	uint64_t held[GHOST_FIBERS][GHOST_HELD];
	unsigned held_n[GHOST_FIBERS];
	uint64_t taken[GHOST_FIBERS];
};

struct ghost_block {
	uint64_t addr, tag;
	uint64_t taker; /* session that allocated it and has not linked it yet */
};

struct ghost {
	struct rig rig;
	struct far_index ix[GHOST_CLIENTS + 1];
	struct ghost_block blocks[GHOST_BLOCKS];
	struct far_addr head;
	uint64_t next_tag;
	unsigned violations, allocs, reuses, kills;
	unsigned nodes;
	bool drops;            /* client 0 drops the table and makes it anew, again and again */
	bool takeover; /* long enough for survivors to take over what the dead left, at work */
};

static struct ghost_block *
ghost_block(struct ghost *g, uint64_t addr)
{
	uint64_t i = far_mix64(addr) % GHOST_BLOCKS;

	while (g->blocks[i].addr && g->blocks[i].addr != addr)
		i = (i + 1) % GHOST_BLOCKS;
	g->blocks[i].addr = addr;
	return &g->blocks[i];
}

static void
ghost_complain(struct ghost *g, const char *what, uint64_t addr, unsigned client)
{
	if (g->violations++ < 3)
		printf("# %s: block %llx, client %u\n", what, (unsigned long long)addr, client);
}

/* Whether the home node still knows the session. */
static bool
ghost_is_session(struct ghost *g, uint64_t serial)
{
	const struct pool_super *s = far_sim_region(g->rig.sim, 0);
	const struct pool_session_line *l = (const void *)((const char *)s + s->sessions_off);

	for (unsigned i = 0; i < s->sessions_n; i++) {
		if (l[i].serial == serial)
			return true;
	}
	return false;
}

/* Whether a slot points to it now. */
static bool
ghost_is_linked(struct ghost *g, uint64_t addr)
{
	const char *region = far_sim_region(g->rig.sim, far_addr_node(g->head));
	const uint64_t *slots = (const void *)(region + far_addr_off(g->head));

	for (unsigned i = 0; i < GHOST_SLOTS; i++) {
		if (slots[i] == addr)
			return true;
	}
	return false;
}

static void
ghost_check_client(struct ghost *g, struct far_index *ix, uint64_t addr)
{
	/* No operation uses the cache of a table that was noticed to be dropped. */
	for (unsigned i = 0; i < GHOST_SLOTS && ix->pt && !ix->pt->gone; i++) {
		if (ix->cached[i] == addr)
			ghost_complain(g, "handed out while cached", addr, ix->client);
	}
	for (unsigned i = 0; i < GHOST_FIBERS * GHOST_HELD; i++) {
		unsigned f = i / GHOST_HELD, k = i % GHOST_HELD;

		if (k < ix->held_n[f] && ix->held[f][k] == addr)
			ghost_complain(g, "handed out while held", addr, ix->client);
	}
}

static void
ghost_check_alloc(struct ghost *g, uint64_t addr, uint64_t taker)
{
	struct ghost_block *b = ghost_block(g, addr);

	g->allocs++;
	g->reuses += b->tag != 0;
	if (ghost_is_linked(g, addr))
		ghost_complain(g, "handed out while linked", addr, 99);
	if (b->taker && ghost_is_session(g, b->taker))
		ghost_complain(g, "handed out twice", addr, 99);
	for (unsigned c = 0; c < GHOST_CLIENTS; c++) {
		if (g->ix[c].serial && ghost_is_session(g, g->ix[c].serial))
			ghost_check_client(g, &g->ix[c], addr);
	}
	b->taker = taker;
}

/* The design ------------------------------------------------------------------------------------------------ */

static struct far_addr
ghost_slot(const struct far_index *ix, unsigned i)
{
	return far_addr_add(ix->pt->head, i * 8);
}

static int
ghost_refresh(struct far_index *ix, struct far_task *t)
{
	uint64_t now[GHOST_SLOTS];
	int err;

	far_read(t, ix->pt->head, now, sizeof(now));
	if ((err = far_wait(t)) != 0)
		return err;
	for (unsigned i = 0; i < GHOST_SLOTS; i++) {
		if (ix->cached[i] != now[i])
			ix->cached[i] = 0;
	}
	return 0;
}

static int
ghost_recover(struct far_index *ix, struct far_task *t)
{
	return 0;
}

static int
ghost_reach_one(struct far_index *ix, struct far_task *t, struct far_addr addr, bool index)
{
	uint64_t now[GHOST_SLOTS];
	int err;

	if (index)
		return addr.raw == ix->pt->head.raw;
	far_read(t, ix->pt->head, now, sizeof(now));
	if ((err = far_wait(t)) != 0)
		return err;
	for (unsigned i = 0; i < GHOST_SLOTS; i++) {
		if (now[i] == addr.raw)
			return 1;
	}
	return 0;
}

static void
ghost_reach(struct far_index *ix, struct far_task *t, struct far_index_part *parts, unsigned n, bool index)
{
	for (unsigned i = 0; i < n; i++)
		parts[i].reached = ghost_reach_one(ix, t, parts[i].addr, index);
}

static const struct far_index_ops ghost_ops = {
	.name = "ghost",
	.refresh = ghost_refresh,
	.recover = ghost_recover,
	.reach = ghost_reach,
};

/* Operations ------------------------------------------------------------------------------------------------ */

static void
ghost_hold(struct far_index *ix, unsigned f, uint64_t addr)
{
	if (addr && ix->held_n[f] < GHOST_HELD)
		ix->held[f][ix->held_n[f]++] = addr;
}

/* Reads the block that slot i points to, twice, by the cached word or by the slot. */
static int
ghost_get(struct far_index *ix, struct far_task *t, unsigned f, unsigned i)
{
	uint64_t word = ix->cached[i], tag, block[4];
	int err;

	if (!word || far_rand(t) % 2) {
		far_read(t, ghost_slot(ix, i), &word, 8);
		if ((err = far_wait(t)) != 0)
			return err;
		/* Into the cache only now: what it led to may have been replaced long ago. */
		if (far_rand(t) % 4 == 0)
			far_sleep(t, far_rand(t) % 20000);
		ix->cached[i] = word;
	}
	if (!word)
		return 0;
	ghost_hold(ix, f, word);
	tag = ghost_block(ix->g, word)->tag;
	for (int pass = 0; pass < 2; pass++) {
		far_read(t, (struct far_addr){ word }, block, sizeof(block));
		if ((err = far_wait(t)) != 0)
			return err;
		for (int k = 0; k < 4; k++) {
			if (block[k] != tag)
				ghost_complain(ix->g, "changed in a reader's hands", word, ix->client);
		}
		if (far_rand(t) % 4 == 0)
			far_sleep(t, far_rand(t) % 50000);
	}
	return 0;
}

static int
ghost_write(struct far_index *ix, struct far_task *t, unsigned f, struct far_addr *out)
{
	struct ghost_block *b;
	uint64_t block[4];
	int err = pool_alloc(ix->pt, t, far_rand(t) % ix->g->nodes, POOL_BLOCKS, GHOST_CLASS, out);

	if (err)
		return err;
	ghost_check_alloc(ix->g, out->raw, ix->serial);
	ix->taken[f] = out->raw;
	b = ghost_block(ix->g, out->raw);
	b->tag = ++ix->g->next_tag;
	for (int k = 0; k < 4; k++)
		block[k] = b->tag;
	far_write(t, *out, block, sizeof(block));
	return far_wait(t);
}

/* Replaces the block of slot i (or takes it away). */
static int
ghost_put(struct far_index *ix, struct far_task *t, unsigned f, unsigned i, bool del)
{
	struct far_addr new = { 0 };
	uint64_t word, old;
	int err;

	far_read(t, ghost_slot(ix, i), &word, 8);
	if ((err = far_wait(t)) != 0)
		return err;
	ghost_hold(ix, f, word);
	if (!del && (err = ghost_write(ix, t, f, &new)) != 0)
		return err;
	if (far_rand(t) % 4 == 0)
		far_sleep(t, far_rand(t) % 20000);
	far_cas(t, ghost_slot(ix, i), word, new.raw, &old);
	if ((err = far_wait(t)) != 0)
		return err;
	if (new.raw)
		ghost_block(ix->g, new.raw)->taker = 0;
	if (old != word) {
		if (new.raw)
			pool_unalloc(ix->pt, POOL_BLOCKS, GHOST_CLASS, new);
		return 0;
	}
	ix->cached[i] = new.raw;
	if (word)
		pool_retire(ix->pt, POOL_BLOCKS, GHOST_CLASS, (struct far_addr){ word });
	return 0;
}

struct ghost_fiber {
	struct ghost *g;
	unsigned client, fiber;
};

static int
ghost_op(struct far_index *ix, struct far_task *t, unsigned f)
{
	struct pool *p = ix->pt->pool;
	unsigned i = far_rand(t) % GHOST_SLOTS, kind = far_rand(t) % 8;
	int err;

	if ((err = pool_enter(p, t)) != 0)
		return err;
	if ((err = pool_table_alive(ix->pt)) == 0)
		err = kind < 3 ? ghost_get(ix, t, f, i) : ghost_put(ix, t, f, i, kind == 7);
	/* What it holds, it holds until here. A client that was killed holds on. */
	ix->held_n[f] = 0;
	if (ix->taken[f] && err != -FAR_EFENCED)
		ghost_block(ix->g, ix->taken[f])->taker = 0;
	ix->taken[f] = 0;
	return pool_leave(p, t) ? p->err : err;
}

/* Makes an empty table; its rows are where the ghost looks from now on. */
static void
ghost_make(struct far_index *ix, struct far_task *t, struct pool *p)
{
	uint64_t zero[GHOST_SLOTS] = { 0 };
	struct pool_table *pt;
	struct far_addr head;

	REQUIRE(pool_table_new(p, t, "row", "ghost", &pt) == 0);
	REQUIRE(pool_alloc(pt, t, 0, POOL_INDEX, 1, &head) == 0);
	far_write(t, head, zero, sizeof(zero));
	REQUIRE(far_wait(t) == 0);
	ix->g->head = head;
	REQUIRE(pool_table_commit(pt, t, head) == 0);
	ix->pt = pt;
	pt->ops = &ghost_ops;
	pt->index = ix;
}

static void
ghost_forget(struct far_index *ix, struct far_task *t)
{
	int err;

	pool_table_detach(ix->pt, t);
	memset(ix->cached, 0, sizeof(ix->cached));
	err = pool_table_close(ix->pt, t);
	CHECK(err == 0 || err == -FAR_EFENCED);
	ix->pt = NULL;
}

/* Drops the table while others work on it, at times while it is still open here; then there is another one. */
static void
ghost_remake(struct far_index *ix, struct far_task *t)
{
	struct pool *p = ix->pt->pool;
	bool early = far_rand(t) % 2;

	if (early)
		ghost_forget(ix, t);
	CHECK_EQ(pool_table_drop(p, t, "row"), 0);
	if (!early)
		ghost_forget(ix, t);
	ghost_make(ix, t, p);
}

/* The table was dropped: waits for the next one. */
static int
ghost_reopen(struct far_index *ix, struct far_task *t)
{
	struct pool *p = ix->pt->pool;
	struct pool_table *pt;
	int err = -FAR_ENOENT;

	ghost_forget(ix, t);
	while (err == -FAR_ENOENT) {
		err = pool_table_open(p, t, "row", &pt);
		if (err == -FAR_ENOENT)
			far_sleep(t, 20000);
	}
	if (!err) {
		ix->pt = pt;
		pt->ops = &ghost_ops;
		pt->index = ix;
	}
	return err;
}

static void
ghost_worker(struct far_task *t, void *arg)
{
	struct ghost_fiber *w = arg;
	struct far_index *ix = &w->g->ix[w->client];
	int err;

	for (int n = 0; n < (w->g->takeover || w->g->drops ? GHOST_OPS_LONG : GHOST_OPS); n++) {
		struct pool_relief relief = { 0 };

		if (w->g->takeover && w->fiber == 0 && far_rand(t) % 16 == 0) {
			err = pool_adopt(ix->pt, t);
			if (err == -FAR_EFENCED)
				return;
			CHECK(err >= 0);
		}
		if (w->g->drops && w->client == 0 && far_rand(t) % 16 == 0)
			ghost_remake(ix, t);

		while ((err = ghost_op(ix, t, w->fiber)) == -FAR_ENOMEM) {
			if ((err = pool_relieve(ix->pt, t, &relief)) != 0)
				break;
		}
		if (err == -FAR_ENOENT && w->g->drops)
			err = ghost_reopen(ix, t);
		if (err == -FAR_EFENCED)
			return;
		CHECK_EQ(err, 0);
		if (far_rand(t) % 3 == 0)
			far_sleep(t, far_rand(t) % 100000);
	}
}

/* Schedules ------------------------------------------------------------------------------------------------- */

static struct ghost *ghost_now;

static void
ghost_start(struct rig *r, struct far_task *t, unsigned client)
{
	struct ghost *g = ghost_now;
	struct far_index *ix = &g->ix[client];

	rig_join(r, t, client);
	REQUIRE(r->pool[client]);
	ix->g = g;
	ix->client = client;
	ix->serial = pool_serial(r->pool[client]);
	if (client == 0)
		ghost_make(ix, t, r->pool[0]);
	else
		REQUIRE(pool_table_open(r->pool[client], t, "row", &ix->pt) == 0);
	ix->pt->ops = &ghost_ops;
	ix->pt->index = ix;
}

static void
ghost_end(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_index *ix = &ghost_now->ix[client];
	struct pool *p = r->pool[client];
	int err;

	CHECK_EQ(p->bad_frees, 0);
	/* A pause may strike here, too. */
	if (ix->pt)
		ghost_forget(ix, t);
	err = pool_close(p, t);
	CHECK(err == 0 || (err == -FAR_EFENCED && client > 0));
	r->pool[client] = NULL;
}

/* The slots' blocks must be in use, and little else. */
static void
ghost_audit(struct rig *r, struct far_task *t, unsigned client)
{
	struct ghost *g = ghost_now;
	struct far_index *ix = &g->ix[client];
	uint64_t now[GHOST_SLOTS], linked = 0, used;
	struct pool_usage u;

	far_sleep(t, 3 * r->opts.lease_ns);
	CHECK(pool_table_adopt_orphans(ix->pt, t) >= 0);
	far_sleep(t, 4 * r->opts.tick_ns);
	far_read(t, ix->pt->head, now, sizeof(now));
	CHECK_EQ(far_wait(t), 0);
	for (unsigned i = 0; i < GHOST_SLOTS; i++) {
		struct far_addr a = { now[i] };
		struct pool_chunk *c = a.raw ? pool_chunk_at(r->pool[client], a) : NULL;
		int64_t k = c ? pool_chunk_index(c, far_addr_off(a)) : -1;

		if (!a.raw)
			continue;
		linked++;
		CHECK(k >= 0);
		if (k >= 0 && c->words[k / 64].idle >> k % 64 & 1)
			ghost_complain(g, "linked, but free after takeover", a.raw, client);
	}
	CHECK_EQ(pool_table_usage(ix->pt, t, &u), 0);
	used = (u.granted[0] - u.free[0] - u.header[0]) / pool_class_len(GHOST_CLASS);
	if (used < linked)
		ghost_complain(g, "fewer blocks in use than linked", 0, client);
	/* What a dead client had unlinked, but not told, of chunks of clients that ended cleanly. */
	if (used > linked + g->kills * GHOST_FIBERS * GHOST_OPS_LONG || (!g->kills && used != linked))
		ghost_complain(g, "leaked blocks", used - linked, client);
	CHECK_EQ(u.granted[1] - u.free[1] - u.header[1], pool_class_len(1));
}

static void
ghost_fate(struct ghost *g, unsigned client)
{
	uint64_t draw = far_sim_rand(g->rig.sim), steps = 1 + far_sim_rand(g->rig.sim) % 6000;

	if (draw % 3 == 0) {
		far_sim_fuse(g->rig.fabric[client], steps, FAR_SIM_KILL, 0);
		g->kills++;
	} else if (draw % 3 == 1) {
		/* Longer than a lease at times: then it is fenced while it sleeps. */
		far_sim_fuse(g->rig.fabric[client], steps, FAR_SIM_PAUSE, draw / 3 % (2 * g->rig.opts.lease_ns));
		g->kills++;
	}
}

static void
ghost_play(struct ghost *g, uint64_t seed)
{
	struct far_sim_policy policy = { .keep = (unsigned)(seed % 4), .weak = seed / 4 % 2, .step_ns = 10 };
	struct ghost_fiber w[GHOST_CLIENTS][GHOST_FIBERS];
	bool faults = seed % 3 != 0;

	memset(g, 0, sizeof(*g));
	ghost_now = g;
	g->nodes = 1 + seed % 2;
	rig_open(&g->rig, g->nodes, 2 << 20, seed);
	far_sim_set_policy(g->rig.sim, &policy);
	g->rig.opts = (struct pool_opts){ .lease_ns = 2000000, .tick_ns = 40000 };
	g->takeover = seed % 8 == 5;
	g->drops = seed % 8 == 3;
	if (g->takeover || g->drops)
		g->rig.opts = (struct pool_opts){ .lease_ns = 400000, .tick_ns = 30000 };
	for (unsigned c = 0; c < GHOST_CLIENTS; c++)
		rig_run(&g->rig, c, ghost_start);
	for (unsigned c = 0; c < GHOST_CLIENTS; c++) {
		for (unsigned f = 0; f < GHOST_FIBERS; f++) {
			w[c][f] = (struct ghost_fiber){ g, c, f };
			/* One fiber closes and opens the table for all: with drops there is only one. */
			if (g->drops && f)
				break;
			REQUIRE(!far_loop_spawn(g->rig.loop, g->rig.fabric[c], ghost_worker, &w[c][f], 0));
		}
		if (faults && c > 0)
			ghost_fate(g, c);
	}
	far_loop_run(g->rig.loop);
	for (unsigned c = 1; c < GHOST_CLIENTS; c++)
		rig_run(&g->rig, c, ghost_end);
	rig_run(&g->rig, 0, ghost_audit);
	rig_run(&g->rig, 0, ghost_end);
	for (unsigned i = 0; i < g->nodes; i++)
		CHECK_EQ(far_sim_node_check(g->rig.sim, i), 0);
	rig_close(&g->rig);
}

static uint64_t ghost_first = 1, ghost_count = 1500;

static void
test_block_is_never_reused_in_anybodys_hands(void)
{
	static struct ghost g;
	uint64_t allocs = 0, reuses = 0, kills = 0;

	for (uint64_t seed = ghost_first; seed < ghost_first + ghost_count && !test_failures; seed++) {
		ghost_play(&g, seed);
		if (g.violations || test_failures)
			printf("# seed %llu\n", (unsigned long long)seed);
		CHECK_EQ(g.violations, 0);
		allocs += g.allocs;
		reuses += g.reuses;
		kills += g.kills;
	}
	printf("# %llu allocations, %llu of a block that was used before, %llu faults\n", (unsigned long long)allocs,
	       (unsigned long long)reuses, (unsigned long long)kills);
	/* Else it shows nothing. */
	if (ghost_count > 100)
		CHECK(reuses > allocs / 10 && kills > ghost_count / 2);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = { TEST(test_block_is_never_reused_in_anybodys_hands) };

	if (argc > 2) {
		ghost_first = strtoull(argv[2], NULL, 0);
		ghost_count = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	}
	return test_run(cases, FAR_LEN(cases), argc, argv);
}
