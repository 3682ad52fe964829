/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c -- fibers that do nothing but one kind of operation, and count. */
#include "lab/verbs.h"

#include <stdlib.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/sim.h"

enum {
	VERBS_REGION = 16 << 20,
	VERBS_NS = 200 * 1000,
	VERBS_CHAIN = 64, /* operations of a chain at most */
	VERBS_LEN = 64 << 10,
};

struct verbs {
	const struct verbs_load *load;
	uint32_t chain;
	uint64_t from, to; /* the time that counts */
	uint64_t chains, ns;
	uint8_t *buf; /* what is moved does not matter */
};

static void
verbs_note(struct verbs *v, struct far_task *t)
{
	const struct verbs_load *l = v->load;
	uint64_t place = far_rand(t) % (VERBS_REGION - VERBS_LEN) & ~(uint64_t)7;

	switch (l->kind) {
	case VERBS_READ:
		far_read(t, far_addr_make(0, place), v->buf, l->len);
		return;
	case VERBS_WRITE:
		far_write(t, far_addr_make(0, place), v->buf, l->len);
		return;
	case VERBS_FAA:
		far_faa(t, far_addr_make(0, place), 1, (uint64_t *)v->buf);
		return;
	case VERBS_FAA_SAME:
		far_faa(t, far_addr_make(0, 0), 1, (uint64_t *)v->buf);
		return;
	}
}

static void
verbs_fiber(struct far_task *t, void *arg)
{
	struct verbs *v = arg;
	uint64_t begin = far_now(t), end;

	while (begin < v->to) {
		for (uint32_t i = 0; i < v->chain; i++)
			verbs_note(v, t);
		FAR_ASSERT(far_wait(t) == 0);
		end = far_now(t);
		if (end >= v->from && end < v->to) {
			v->chains++;
			v->ns += end - begin;
		}
		begin = end;
	}
}

/* Connects the threads of all machines and starts their fibers. */
static int
verbs_start(struct verbs *v, struct far_sim *s, struct far_loop *loop, struct far_fabric *fabrics[])
{
	const struct verbs_load *l = v->load;
	const struct far_fabric_opts opts = { .credits = l->credits };
	int err = 0;

	for (unsigned i = 0; i < l->machines * l->threads && err == 0; i++) {
		unsigned machine = i / l->threads;

		if ((err = far_sim_connect(s, loop, &opts, &fabrics[i])) != 0)
			return err;
		far_sim_place(fabrics[i], machine,
			      l->queues ? machine * l->queues + i % l->threads % l->queues
					: FAR_SIM_OWN_QUEUE);
		for (unsigned j = 0; j < l->depth && err == 0; j++)
			err = far_loop_spawn(loop, fabrics[i], verbs_fiber, v, 0);
	}
	return err;
}

static int
verbs_on(struct verbs *v, struct far_sim *s, struct verbs_result *out)
{
	unsigned threads = v->load->machines * v->load->threads;
	struct far_loop_opts opts = { .clock = far_sim_clock(s), .seed = 1 };
	struct far_fabric **fabrics = calloc(threads, sizeof(struct far_fabric *));
	struct far_loop *loop = NULL;
	int err = fabrics ? far_loop_open(&opts, &loop) : -FAR_ENOMEM;

	if (err == 0 && (err = verbs_start(v, s, loop, fabrics)) == 0) {
		far_loop_run(loop);
		out->rate = (double)(v->chains * v->chain) * 1e9 / (double)(v->to - v->from);
		out->mean_ns = v->chains ? (double)v->ns / (double)v->chains : 0;
		out->hash = far_sim_hash(s);
	}
	for (unsigned i = 0; fabrics && i < threads; i++)
		far_fabric_close(fabrics[i]);
	far_loop_close(loop);
	free(fabrics);
	return err;
}

int
verbs_run(const struct nic_profile *p, const struct verbs_load *l, struct verbs_result *out)
{
	struct verbs v = { .load = l, .chain = l->chain ? l->chain : 1 };
	const struct far_sim_opts opts = {
		.seed = 1, .nodes_n = 1, .region_len = VERBS_REGION, .raw = true
	};
	const struct far_sim_timing timing = {
		.profile = p, .machines = l->machines, .queues = l->queues * l->machines
	};
	struct far_sim *s = NULL;
	int err;

	FAR_ASSERT(v.chain <= VERBS_CHAIN && l->len <= VERBS_LEN && l->len % 8 == 0);
	v.from = l->ns ? l->ns : VERBS_NS;
	v.to = 2 * v.from;
	v.buf = malloc(VERBS_LEN);
	err = v.buf ? far_sim_open(&opts, &s) : -FAR_ENOMEM;
	if (err == 0)
		err = far_sim_time(s, &timing);
	if (err == 0)
		err = verbs_on(&v, s, out);
	far_sim_close(s);
	free(v.buf);
	return err;
}
