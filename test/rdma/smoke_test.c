/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smoke_test.c -- does the RDMA device of this machine do what the verbs backend builds on? Plain ibverbs, nothing of
 * the library: two queue pairs of this process, connected to each other.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "test.h"

enum { REGION = 1 << 20,
       DEPTH = 64,
       TURNS = 200 * 1000 * 1000 };

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct {
	struct ibv_context *context;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	uint32_t gid_index;
	union ibv_gid gid;
	struct ibv_port_attr port;
	char *memory; /* REGION bytes that the other end reaches, then as many of our own */
	struct ibv_mr *mr;
} dev;

/* Device and memory ----------------------------------------------------------------------------------------- */

static bool
dev_gid(void)
{
	for (uint32_t i = 0; i < (uint32_t)dev.port.gid_tbl_len; i++) {
		struct ibv_gid_entry e;

		if (ibv_query_gid_ex(dev.context, 1, i, &e, 0) == 0 && e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    e.gid.raw[10] == 0xff) {
			dev.gid_index = i;
			dev.gid = e.gid;
			return true;
		}
	}
	return false;
}

/* Opens the first device at first need; false: there is none. */
static bool
dev_open(void)
{
	struct ibv_device **list;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
	int n = 0;

	if (dev.context)
		return true;
	list = ibv_get_device_list(&n);
	if (!list || n == 0) {
		test_skip_reason = "no RDMA device";
		return false;
	}
	dev.context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(dev.context);
	REQUIRE(ibv_query_device(dev.context, &dev.attr) == 0);
	REQUIRE(ibv_query_port(dev.context, 1, &dev.port) == 0);
	REQUIRE(dev_gid());
	REQUIRE((dev.pd = ibv_alloc_pd(dev.context)) != NULL);
	dev.memory = mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	REQUIRE(dev.memory != MAP_FAILED);
	REQUIRE((dev.mr = ibv_reg_mr(dev.pd, dev.memory, 2 * REGION, access)) != NULL);
	return true;
}

static void
end_open(struct end *e)
{
	struct ibv_qp_init_attr a = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = 64 },
	};

	REQUIRE((e->cq = ibv_create_cq(dev.context, 2 * DEPTH, NULL, NULL, 0)) != NULL);
	a.send_cq = a.recv_cq = e->cq;
	REQUIRE((e->qp = ibv_create_qp(dev.pd, &a)) != NULL);
}

/* Brings `e` to the state in which it sends to `to`. */
static void
end_connect(struct end *e, const struct end *to)
{
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1 };
	int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	REQUIRE(ibv_modify_qp(e->qp, &a, mask) == 0);
	path.grh.dgid = dev.gid;
	path.grh.sgid_index = (uint8_t)dev.gid_index;
	path.grh.hop_limit = 64;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				  .path_mtu = dev.port.active_mtu,
				  .dest_qp_num = to->qp->qp_num,
				  .max_dest_rd_atomic = 16,
				  .min_rnr_timer = 12,
				  .ah_attr = path };
	mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	REQUIRE(ibv_modify_qp(e->qp, &a, mask) == 0);
	a = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 16
	};
	mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN;
	mask |= IBV_QP_MAX_QP_RD_ATOMIC;
	REQUIRE(ibv_modify_qp(e->qp, &a, mask) == 0);
}

static void
end_close(struct end *e)
{
	REQUIRE(ibv_destroy_qp(e->qp) == 0);
	REQUIRE(ibv_destroy_cq(e->cq) == 0);
}

static bool
pair_open(struct end pair[2])
{
	if (!dev_open())
		return false;
	memset(dev.memory, 0, 2 * REGION);
	end_open(&pair[0]);
	end_open(&pair[1]);
	end_connect(&pair[0], &pair[1]);
	end_connect(&pair[1], &pair[0]);
	return true;
}

static void
pair_close(struct end pair[2])
{
	end_close(&pair[0]);
	end_close(&pair[1]);
}

/* Work requests --------------------------------------------------------------------------------------------- */

/* One request and the memory of our own that it works with. */
struct work {
	struct ibv_sge sge;
	struct ibv_send_wr wr;
};

/* Word `word` of the other end; its result or data is at the same place of our own part. */
static void
work_init(struct work *w, enum ibv_wr_opcode code, unsigned word, uint32_t len)
{
	uint64_t there = (uintptr_t)dev.memory + word * 8;

	memset(w, 0, sizeof(*w));
	w->sge = (struct ibv_sge){ there + REGION, len, dev.mr->lkey };
	w->wr.opcode = code;
	w->wr.sg_list = &w->sge;
	w->wr.num_sge = 1;
	if (code == IBV_WR_ATOMIC_CMP_AND_SWP || code == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->wr.wr.atomic.remote_addr = there;
		w->wr.wr.atomic.rkey = dev.mr->rkey;
	} else {
		w->wr.wr.rdma.remote_addr = there;
		w->wr.wr.rdma.rkey = dev.mr->rkey;
	}
}

/* Posts `n` requests as one list, the last one signalled, and returns the status of the first completion. */
static int
works_run(struct end *e, struct work *w, unsigned n)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int got = 0;

	for (unsigned i = 0; i + 1 < n; i++)
		w[i].wr.next = &w[i + 1].wr;
	w[n - 1].wr.send_flags |= IBV_SEND_SIGNALED;
	REQUIRE(ibv_post_send(e->qp, &w[0].wr, &bad) == 0);
	for (long i = 0; i < TURNS && got == 0; i++)
		got = ibv_poll_cq(e->cq, 1, &wc);
	REQUIRE(got == 1);
	return (int)wc.status;
}

static uint64_t *
here(unsigned word)
{
	return (uint64_t *)(dev.memory + REGION) + word;
}

static uint64_t *
there(unsigned word)
{
	return (uint64_t *)dev.memory + word;
}

/* Cases ----------------------------------------------------------------------------------------------------- */

static void
test_device_when_opened_has_what_the_backend_needs(void)
{
	if (!dev_open())
		return;
	CHECK_EQ(dev.port.state, IBV_PORT_ACTIVE);
	CHECK(dev.attr.atomic_cap != IBV_ATOMIC_NONE);
	CHECK(dev.attr.max_qp_rd_atom >= 16 && dev.attr.max_qp_init_rd_atom >= 16);
	CHECK(dev.attr.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B));
}

static void
test_chain_of_all_verbs_does_what_they_say(void)
{
	struct end pair[2];
	struct work w[5];

	if (!pair_open(pair))
		return;
	for (unsigned i = 0; i < 8; i++)
		*here(i) = 100 + i;
	*there(20) = 7;
	*there(21) = UINT64_MAX;
	work_init(&w[0], IBV_WR_RDMA_WRITE, 0, 64);
	work_init(&w[1], IBV_WR_ATOMIC_CMP_AND_SWP, 20, 8);
	w[1].wr.wr.atomic.compare_add = 7;
	w[1].wr.wr.atomic.swap = 8;
	work_init(&w[2], IBV_WR_ATOMIC_CMP_AND_SWP, 20, 8);
	w[2].sge.addr = (uintptr_t)here(30);
	w[2].wr.wr.atomic.compare_add = 7;
	w[2].wr.wr.atomic.swap = 9;
	work_init(&w[3], IBV_WR_ATOMIC_FETCH_AND_ADD, 21, 8);
	w[3].wr.wr.atomic.compare_add = 3;
	work_init(&w[4], IBV_WR_RDMA_READ, 0, 64);
	w[4].sge.addr = (uintptr_t)here(40);
	CHECK_EQ(works_run(&pair[0], w, 5), IBV_WC_SUCCESS);
	for (unsigned i = 0; i < 8; i++)
		CHECK(*there(i) == 100 + i && *here(40 + i) == 100 + i);
	CHECK(*here(20) == 7 && *here(30) == 8 && *there(20) == 8);
	CHECK(*here(21) == UINT64_MAX && *there(21) == 2);
	pair_close(pair);
}

static void
test_address_outside_the_region_is_refused(void)
{
	struct end pair[2];
	struct work w;

	if (!pair_open(pair))
		return;
	work_init(&w, IBV_WR_RDMA_READ, 2 * REGION / 8, 8);
	w.sge.addr = (uintptr_t)here(0);
	CHECK_EQ(works_run(&pair[0], &w, 1), IBV_WC_REM_ACCESS_ERR);
	pair_close(pair);
}

/* A window that shows the first part of the region to one queue pair: pair[0]. */
static struct ibv_mw *
window_open(struct end pair[2])
{
	struct ibv_mw *mw = ibv_alloc_mw(dev.pd, IBV_MW_TYPE_2);
	struct work w;

	REQUIRE(mw);
	memset(&w, 0, sizeof(w));
	w.wr.opcode = IBV_WR_BIND_MW;
	w.wr.bind_mw.mw = mw;
	w.wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	w.wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = dev.mr,
		.addr = (uintptr_t)dev.memory,
		.length = REGION,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	};
	/* The passive side binds: the window lets in what arrives on its queue pair. */
	CHECK_EQ(works_run(&pair[1], &w, 1), IBV_WC_SUCCESS);
	mw->rkey = w.wr.bind_mw.rkey;
	return mw;
}

static void
test_window_after_invalidation_lets_nothing_in(void)
{
	struct end pair[2];
	struct ibv_mw *mw;
	struct work w;

	if (!pair_open(pair))
		return;
	mw = window_open(pair);
	work_init(&w, IBV_WR_RDMA_WRITE, 3, 8);
	w.wr.wr.rdma.rkey = mw->rkey;
	*here(3) = 1;
	CHECK_EQ(works_run(&pair[0], &w, 1), IBV_WC_SUCCESS);
	CHECK(*there(3) == 1);
	memset(&w, 0, sizeof(w));
	w.wr.opcode = IBV_WR_LOCAL_INV;
	w.wr.invalidate_rkey = mw->rkey;
	CHECK_EQ(works_run(&pair[1], &w, 1), IBV_WC_SUCCESS);
	work_init(&w, IBV_WR_RDMA_WRITE, 3, 8);
	w.wr.wr.rdma.rkey = mw->rkey;
	*here(3) = 2;
	CHECK(works_run(&pair[0], &w, 1) != IBV_WC_SUCCESS);
	CHECK(*there(3) == 1);
	CHECK_EQ(ibv_dealloc_mw(mw), 0);
	pair_close(pair);
}

static void
test_queue_pair_in_error_lets_nothing_in(void)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct end pair[2];
	struct work w;

	if (!pair_open(pair))
		return;
	REQUIRE(ibv_modify_qp(pair[1].qp, &error, IBV_QP_STATE) == 0);
	work_init(&w, IBV_WR_RDMA_WRITE, 3, 8);
	*here(3) = 1;
	CHECK_EQ(works_run(&pair[0], &w, 1), IBV_WC_RETRY_EXC_ERR);
	CHECK(*there(3) == 0);
	pair_close(pair);
}

TEST_MAIN(TEST(test_device_when_opened_has_what_the_backend_needs),
	  TEST(test_chain_of_all_verbs_does_what_they_say),
	  TEST(test_address_outside_the_region_is_refused),
	  TEST(test_window_after_invalidation_lets_nothing_in),
	  TEST(test_queue_pair_in_error_lets_nothing_in))
