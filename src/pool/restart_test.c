/* SPDX-License-Identifier: Apache-2.0 */
/* restart_test.c -- nodes that crash and come back, with their memory or without, and clients that nobody can stop. */
#include "pool/rig.h"

enum { CLIENTS = 3, BLOCKS = 400, CLASS = 3 };

/* What a client wrote and was told to be there; its table has the number of the client. */
struct ledger {
	unsigned n;
	struct far_addr at[BLOCKS];
};
static struct ledger ledgers[CLIENTS];

static uint64_t
written(unsigned client, unsigned i)
{
	return (uint64_t)(client + 1) << 32 | i;
}

/* Takes blocks of both nodes and writes to them until `n` are there or something fails; returns that. */
static int
write_blocks(struct rig *r, struct far_task *t, unsigned client, unsigned n)
{
	struct ledger *l = &ledgers[client];
	unsigned nodes = pool_nodes(r->pool[client]);
	int err = 0;

	while (l->n < n && !err) {
		uint64_t value = written(client, l->n);

		err = pool_alloc(tables[client], t, l->n % nodes, POOL_BLOCKS, CLASS, &l->at[l->n]);
		if (!err)
			err = pool_enter(r->pool[client], t);
		if (err)
			break;
		far_write(t, l->at[l->n], &value, sizeof(value));
		err = far_wait(t);
		if (pool_leave(r->pool[client], t) != 0 && !err)
			err = r->pool[client]->err;
		l->n += err == 0;
	}
	return err;
}

static void
write_some(struct rig *r, struct far_task *t, unsigned client)
{
	CHECK_EQ(write_blocks(r, t, client, ledgers[client].n + 20), 0);
}

/* Works until the node is gone; the maintenance runs along. */
static void
write_until_lost(struct rig *r, struct far_task *t, unsigned client)
{
	int err = 0;

	for (unsigned i = 0; i < 100 && !err; i++) {
		err = write_blocks(r, t, client, (unsigned)far_min(ledgers[client].n + 3, BLOCKS));
		far_sleep(t, r->opts.tick_ns / 3);
	}
	if (err && err != -FAR_ENODE && err != -FAR_EFENCED && err != -FAR_EUNSURE)
		CHECK_EQ(err, -FAR_ENODE);
}

/* What an application does then. */
static void
give_up(struct rig *r, struct far_task *t, unsigned client)
{
	int err = pool_table_close(tables[client], t);

	CHECK(err == -FAR_ENODE || err == -FAR_EFENCED || err == -FAR_EUNSURE);
	err = pool_close(r->pool[client], t);
	CHECK(err == -FAR_ENODE || err == -FAR_EFENCED);
	r->pool[client] = NULL;
	tables[client] = NULL;
}

static void
reconnect(struct rig *r, unsigned client)
{
	far_fabric_close(r->fabric[client]);
	r->fabric[client] = NULL;
}

static void
verify_blocks(struct rig *r, struct far_task *t, unsigned client)
{
	for (unsigned c = 0; c < CLIENTS; c++) {
		for (unsigned i = 0; i < ledgers[c].n; i++) {
			uint64_t found = 0;

			far_read(t, ledgers[c].at[i], &found, sizeof(found));
			CHECK_EQ(far_wait(t), 0);
			CHECK_EQ(found, written(c, i));
		}
	}
}

static void
start_clients(struct rig *r, uint64_t seed)
{
	memset(ledgers, 0, sizeof(ledgers));
	rig_open(r, 2, 8 << 20, seed);
	rig_run(r, 0, rig_make_table);
	for (unsigned c = 1; c < CLIENTS; c++)
		rig_run(r, c, rig_open_table);
}

/* New sessions find all data, take new memory, and leave nothing behind. */
static void
go_on(struct rig *r)
{
	rig_check_nodes(r, 2);
	for (unsigned c = 0; c < CLIENTS; c++) {
		reconnect(r, c);
		rig_run(r, c, rig_open_table);
		rig_run(r, c, verify_blocks);
		rig_run(r, c, write_some);
	}
	for (unsigned c = 0; c < CLIENTS; c++)
		rig_run(r, c, verify_blocks);
	for (unsigned c = 0; c < CLIENTS; c++)
		rig_run(r, c, rig_close_table);
	rig_check_nodes(r, 2);
}

static unsigned
sessions_at(struct rig *r, unsigned node)
{
	const struct pool_super *s = far_sim_region(r->sim, node);
	const struct pool_session_line *lines = (const void *)((const char *)s + s->sessions_off);
	unsigned n = 0;

	for (uint32_t i = 0; i < s->sessions_n; i++)
		n += lines[i].serial != 0;
	return n;
}

/* Nodes ----------------------------------------------------------------------------------------------------- */

static void
test_node_back_with_its_memory_clients_reopen_and_find_all(void)
{
	for (unsigned down = 0; down < 2; down++) {
		struct rig r;

		start_clients(&r, 30 + down);
		for (unsigned c = 0; c < CLIENTS; c++)
			rig_run(&r, c, write_some);
		far_sim_node_down(r.sim, down);
		for (unsigned c = 0; c < CLIENTS; c++) {
			rig_run(&r, c, write_until_lost);
			rig_run(&r, c, give_up);
		}
		/* They said at the other node that they go: it need not wait for anything. */
		CHECK_EQ(sessions_at(&r, !down), 0);
		CHECK_EQ(far_sim_node_up(r.sim, down, true), 0);
		CHECK_EQ(sessions_at(&r, down), 0);
		go_on(&r);
		rig_close(&r);
	}
}

static unsigned outage_node;
static uint64_t outage_ns;

static void
strike(struct rig *r, struct far_task *t, unsigned client)
{
	far_sleep(t, far_sim_rand(r->sim) % (20 * r->opts.tick_ns));
	far_sim_node_down(r->sim, outage_node);
	far_sleep(t, outage_ns);
	CHECK_EQ(far_sim_node_up(r->sim, outage_node, true), 0);
}

/* In the midst of everything; some clients notice only when it is back. */
static void
test_node_restarts_at_random_moments_nothing_acknowledged_is_lost(void)
{
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct rig_call calls[CLIENTS + 1];
		struct rig r;

		start_clients(&r, seed);
		outage_node = seed % 2;
		outage_ns = seed % 3 * r.opts.lease_ns / 2;
		far_sim_set_policy(r.sim, &(struct far_sim_policy){ .keep = seed % 4, .weak = seed % 2 });
		REQUIRE(far_sim_connect(r.sim, r.loop, NULL, &r.fabric[CLIENTS]) == 0);
		for (unsigned c = 0; c <= CLIENTS; c++) {
			calls[c] = (struct rig_call){ &r, c < CLIENTS ? write_until_lost : strike, c };
			REQUIRE(far_loop_spawn(r.loop, r.fabric[c], rig_fiber, &calls[c], 0) == 0);
		}
		far_loop_run(r.loop);
		/* Whoever did not notice has been stopped. */
		CHECK_EQ(sessions_at(&r, 0) + sessions_at(&r, 1), 0);
		for (unsigned c = 0; c < CLIENTS; c++) {
			CHECK(ledgers[c].n > 0 && ledgers[c].n < BLOCKS);
			rig_run(&r, c, give_up);
		}
		go_on(&r);
		rig_close(&r);
	}
}

static int open_error;

static void
try_to_open(struct rig *r, struct far_task *t, unsigned client)
{
	open_error = pool_open(t, &r->opts, &r->pool[client]);
	if (open_error == 0)
		CHECK_EQ(pool_close(r->pool[client], t), 0);
	r->pool[client] = NULL;
}

/* Old addresses mean nothing any more, whoever asks. */
static void
read_old(struct rig *r, struct far_task *t, unsigned client)
{
	unsigned failed = 0;

	for (unsigned i = 0; i < ledgers[client].n; i++) {
		uint64_t found = 0;
		int err;

		far_read(t, ledgers[client].at[i], &found, sizeof(found));
		err = far_wait(t);
		CHECK(err == -FAR_ENODE || (err == 0 && found == written(client, i)));
		failed += err != 0;
	}
	CHECK_EQ(failed, ledgers[client].n / 2);
}

static void
test_node_back_empty_ends_sessions_and_refuses_new_ones(void)
{
	for (unsigned down = 0; down < 2; down++) {
		struct rig r;

		start_clients(&r, 40 + down);
		for (unsigned c = 0; c < CLIENTS; c++)
			rig_run(&r, c, write_some);
		far_sim_node_down(r.sim, down);
		CHECK_EQ(far_sim_node_up(r.sim, down, false), 0);
		for (unsigned c = 0; c < CLIENTS; c++) {
			rig_run(&r, c, read_old);
			rig_run(&r, c, write_until_lost);
			rig_run(&r, c, give_up);
			reconnect(&r, c);
			rig_run(&r, c, try_to_open);
			CHECK_EQ(open_error, down ? -FAR_ENODE : -FAR_EINVAL);
		}
		rig_check_nodes(&r, 2);
		rig_close(&r);
	}
}

static void
expect_no_table(struct rig *r, struct far_task *t, unsigned client)
{
	rig_join(r, t, client);
	REQUIRE(r->pool[client]);
	CHECK_EQ(pool_table_open(r->pool[client], t, "devices", &tables[client]), -FAR_ENOENT);
	rig_leave(r, t, client);
}

static void
test_all_nodes_back_empty_are_a_new_pool(void)
{
	struct rig r;

	start_clients(&r, 50);
	for (unsigned node = 0; node < 2; node++)
		far_sim_node_down(r.sim, node);
	for (unsigned node = 0; node < 2; node++)
		CHECK_EQ(far_sim_node_up(r.sim, node, false), 0);
	for (unsigned c = 0; c < CLIENTS; c++) {
		rig_run(&r, c, write_until_lost);
		rig_run(&r, c, give_up);
		reconnect(&r, c);
		rig_run(&r, c, expect_no_table);
	}
	rig_run(&r, 0, rig_make_table);
	rig_run(&r, 0, rig_close_table);
	rig_check_nodes(&r, 2);
	rig_close(&r);
}

/* Clients that nobody can stop ------------------------------------------------------------------------------ */

/* Frees as much as it takes, with one silent client in the way: not one block is handed out twice. */
static void
churn_without_reuse(struct rig *r, struct far_task *t, unsigned client)
{
	struct pool *p = r->pool[client];
	struct far_node_info info;
	struct far_addr a;
	uint64_t epoch;
	unsigned n = 0;
	int err;

	while (pool_gone(p, t, pool_serial(r->pool[1])) == 0)
		far_sleep(t, r->opts.tick_ns);
	CHECK_EQ(pool_gone(p, t, pool_serial(r->pool[1])), -FAR_EACCESS);
	CHECK_EQ(pool_node_info(p, t, &info, 1), pool_nodes(p));
	CHECK_EQ(info.quarantined_sessions, 1);
	CHECK(info.quarantined_bytes >= POOL_PAGE && info.quarantined_bytes <= info.granted_bytes);
	epoch = p->epoch;
	while ((err = rig_alloc_one(tables[client], t, 40, &a)) == 0 && n++ < 10000)
		rig_retire(tables[client], t, 40, a);
	CHECK_EQ(err, -FAR_ENOMEM);
	CHECK(n * pool_class_len(40) < 4 << 20);
	CHECK(p->epoch <= epoch + 1);
	CHECK_EQ(p->err, 0);
}

/* It wakes up, learns where it stands, and goes. */
static void
wake_up(struct rig *r, struct far_task *t, unsigned client)
{
	far_sleep(t, 40 * r->opts.lease_ns);
	CHECK_EQ(pool_enter(r->pool[client], t), -FAR_EFENCED);
	CHECK_EQ(pool_table_close(tables[client], t), -FAR_EFENCED);
	CHECK_EQ(pool_close(r->pool[client], t), -FAR_EFENCED);
	r->pool[client] = NULL;
}

static void
churn_with_reuse(struct rig *r, struct far_task *t, unsigned client)
{
	struct far_node_info info;
	struct far_addr a;

	CHECK_EQ(pool_node_info(r->pool[client], t, &info, 1), pool_nodes(r->pool[client]));
	CHECK_EQ(info.quarantined_sessions, 0);
	CHECK_EQ(info.quarantined_bytes, 0);
	for (unsigned i = 0; i < 1000; i++) {
		REQUIRE(rig_alloc_one(tables[client], t, 40, &a) == 0);
		rig_retire(tables[client], t, 40, a);
	}
}

static void
test_client_that_cannot_be_stopped_holds_up_reuse_until_it_leaves(void)
{
	for (unsigned nodes = 1; nodes <= 2; nodes++) {
		struct rig r;

		rig_open(&r, nodes, 4 << 20, 60);
		memset(ledgers, 0, sizeof(ledgers));
		rig_run(&r, 0, rig_make_table);
		rig_run(&r, 1, rig_open_table);
		rig_run(&r, 1, write_some);
		far_sim_protect(r.fabric[1]);
		far_sim_pause(r.fabric[1], 30 * r.opts.lease_ns);
		rig_run(&r, 0, churn_without_reuse);
		rig_check_nodes(&r, nodes);
		rig_run(&r, 1, wake_up);
		for (unsigned i = 0; i < nodes; i++)
			CHECK_EQ(sessions_at(&r, i), 1);
		rig_run(&r, 0, churn_with_reuse);
		rig_run(&r, 0, rig_close_table);
		rig_check_nodes(&r, nodes);
		rig_close(&r);
	}
}

TEST_MAIN(TEST(test_node_back_with_its_memory_clients_reopen_and_find_all),
	  TEST(test_node_restarts_at_random_moments_nothing_acknowledged_is_lost),
	  TEST(test_node_back_empty_ends_sessions_and_refuses_new_ones),
	  TEST(test_all_nodes_back_empty_are_a_new_pool),
	  TEST(test_client_that_cannot_be_stopped_holds_up_reuse_until_it_leaves))
