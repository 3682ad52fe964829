/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requests.h -- control requests drawn from a fuzzer's input, for a memory node without any fabric.
 *
 * Numbers that the node gave (serials, offsets, tables) come back in later requests, right or a little wrong: else
 * nearly every request would be refused at the door.
 */
#ifndef FAR_FUZZ_REQUESTS_H
#define FAR_FUZZ_REQUESTS_H

#include "fuzz/fuzz.h"
#include "pool/env_rig.h"
#include "pool/node_impl.h"

enum { REQUEST_CONNS = 8,
       REQUEST_SEEN = 16 };

struct requests {
	void *region;
	uint64_t len;
	struct node *node;
	struct env_rig around;
	uint64_t at[REQUEST_CONNS];            /* the session of each connection */
	uint64_t serials[REQUEST_SEEN], offs[REQUEST_SEEN];
	unsigned serials_n, offs_n;
	bool scribbled;                        /* a client wrote where only the node should */
};

static void
requests_violation(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "# %s\n", line);
}

static inline void
requests_check(const struct requests *r)
{
	FUZZ_CHECK(r->scribbled || node_check(r->node, requests_violation, NULL) == 0);
}

/* One of the numbers seen, a neighbour of one, or any. */
static uint64_t
requests_pick(struct fuzz_in *in, const uint64_t seen[], unsigned n)
{
	unsigned how = fuzz_byte(in);

	if (n == 0 || how >= 0xf0)
		return fuzz_word(in, how & 8 ? 8 : 1);
	return seen[how % (n < REQUEST_SEEN ? n : REQUEST_SEEN)] + (how >= 0xe0);
}

static struct control_request
requests_draw(struct requests *r, struct fuzz_in *in, unsigned code)
{
	static const char *const names[] = { "t", "u", "v", "", "w/", "a.b_c-9" };
	struct control_request req = { .code = code };
	unsigned shape = fuzz_byte(in);

	if (shape == 0xff) {
		uint8_t *raw = (uint8_t *)&req;

		for (size_t i = 0; i < sizeof(req); i++)
			raw[i] = (uint8_t)fuzz_byte(in);
		return req;
	}
	req.flags = (uint32_t[]){ 0, CONTROL_FRESH, CONTROL_ORPHAN, 7 }[shape & 3];
	req.table = shape >> 2 & 7;
	req.serial = requests_pick(in, r->serials, r->serials_n);
	req.root_serial = requests_pick(in, r->serials, r->serials_n);
	req.off = requests_pick(in, r->offs, r->offs_n);
	req.kind = 1 + (shape >> 5 & 1) + (shape >> 6 == 3);
	shape = fuzz_byte(in);
	req.class = shape & 0x80 ? shape & 0x7f : shape & 7;
	shape = fuzz_byte(in);
	req.run = shape < 0xf0 ? shape & 0x3f : (uint32_t)fuzz_word(in, 4);
	req.node = shape & 1;
	req.nodes_n = 2;
	req.pool_id[0] = 7;
	strcpy(req.design, "race");
	strcpy(req.name, names[shape % FAR_LEN(names)]);
	return req;
}

static void
requests_reopen(struct requests *r)
{
	int err;

	node_close(r->node);
	r->node = NULL;
	memset(r->at, 0, sizeof(r->at));
	err = node_open(r->region, r->len, &r->around.env, &r->node);
	FUZZ_CHECK(err == 0 || (r->scribbled && (err == -FAR_ECORRUPT || err == -FAR_EFORMAT)));
}

/* What befalls a node besides requests. */
static void
requests_event(struct requests *r, struct fuzz_in *in, unsigned event)
{
	static const int stops[] = { 0, -FAR_EAGAIN, -FAR_EACCESS, -FAR_EINVAL };
	struct pool_super *super = r->region;

	switch (event) {
	case 0:
		node_stopped(r->node, requests_pick(in, r->serials, r->serials_n));
		break;
	case 1:
		r->around.stop_result = stops[fuzz_byte(in) % FAR_LEN(stops)];
		break;
	case 2:
		super->epoch += super->epoch < 1 << 20;
		break;
	case 3:
		r->scribbled = true;
		((uint64_t *)r->region)[fuzz_word(in, 2) % (r->node->id.data_off / 8)] = fuzz_word(in, 8);
		break;
	default:
		requests_reopen(r);
	}
}

static void
requests_serve(struct requests *r, unsigned conn, const struct control_request *req)
{
	struct control_reply reply;
	bool complete = node_serve(r->node, &r->at[conn], req, &reply);

	FUZZ_CHECK(reply.err <= 0 && reply.err >= -FAR_EAGAIN);
	FUZZ_CHECK(complete || req->code == CONTROL_FENCE);
	if (reply.err != 0)
		return;
	if (reply.serial != 0)
		r->serials[r->serials_n++ % REQUEST_SEEN] = reply.serial;
	if (reply.off == 0)
		return;
	/* A chunk lies in the data area, as a client will rely on. */
	FUZZ_CHECK(reply.off >= r->node->id.data_off && reply.off % POOL_PAGE == 0 && reply.run >= req->run);
	FUZZ_CHECK(reply.run <= (r->len - reply.off) / POOL_PAGE);
	r->offs[r->offs_n++ % REQUEST_SEEN] = reply.off;
}

/* Until the input ends; the tables are verified now and then, and at the end. */
static void
requests_run(struct requests *r, struct fuzz_in *in, unsigned max)
{
	for (unsigned i = 0; i < max && in->left > 0 && r->node; i++) {
		unsigned what = fuzz_byte(in), code = what % 20;

		if (code >= 15) {
			requests_event(r, in, code - 15);
		} else {
			struct control_request req = requests_draw(r, in, code);

			requests_serve(r, what / 20 % REQUEST_CONNS, &req);
		}
		if (i % 16 == 15 && r->node)
			requests_check(r);
	}
	if (r->node)
		requests_check(r);
	node_close(r->node);
	r->node = NULL;
}

#endif
