/* SPDX-License-Identifier: Apache-2.0 */
/* node_rig.h -- a memory node without any fabric, for tests. */
#ifndef FAR_POOL_NODE_RIG_H
#define FAR_POOL_NODE_RIG_H

#include <sys/mman.h>

#include "pool/env_rig.h"
#include "pool/node_impl.h"
#include "test.h"

struct rig {
	void *region;
	uint64_t len;
	struct node *node;
	struct env_rig around;
	uint64_t at[8]; /* the session of each connection */
};

static inline void
rig_violation(void *arg, const char *line)
{
	(void)arg;
	printf("# %s\n", line);
}

static inline struct control_reply
rig_call(struct rig *r, unsigned conn, struct control_request req)
{
	struct control_reply reply;

	CHECK(node_serve(r->node, &r->at[conn], &req, &reply));
	return reply;
}

#define CALL(r, conn, ...)     rig_call((r), (conn), (struct control_request){ __VA_ARGS__ })
#define CALL_ERR(r, conn, ...) (CALL(r, conn, __VA_ARGS__).err)

static inline void
rig_init(struct rig *r, uint64_t len)
{
	memset(r, 0, sizeof(*r));
	r->len = len;
	env_rig_init(&r->around);
	r->region = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	REQUIRE(r->region != MAP_FAILED);
	REQUIRE(node_format(r->region, len, &r->around.env) == 0);
	REQUIRE(node_open(r->region, len, &r->around.env, &r->node) == 0);
}

/* Forms a pool of two with this node at place `node`. */
static inline void
rig_form(struct rig *r, unsigned node)
{
	CHECK_EQ(CALL_ERR(r, 0, .code = CONTROL_FORM, .pool_id = { 7, 8 }, .node = node, .nodes_n = 2), 0);
}

static inline void
rig_home(struct rig *r, uint64_t len, unsigned sessions)
{
	rig_init(r, len);
	rig_form(r, 0);
	for (unsigned i = 0; i < sessions; i++)
		CHECK_EQ(CALL_ERR(r, i, .code = CONTROL_SESSION), 0);
}

static inline void
rig_check(struct rig *r)
{
	CHECK_EQ(node_check(r->node, rig_violation, NULL), 0);
}

static inline void
rig_fini(struct rig *r)
{
	rig_check(r);
	node_close(r->node);
	munmap(r->region, r->len);
}

/* A kill -9 and a restart. */
static inline void
rig_reopen(struct rig *r)
{
	node_close(r->node);
	r->node = NULL;
	memset(r->at, 0, sizeof(r->at));
	REQUIRE(node_open(r->region, r->len, &r->around.env, &r->node) == 0);
	rig_check(r);
}

/* Makes a live table "t<i>"; its number equals the order of making. */
static inline struct control_reply
rig_table(struct rig *r, unsigned conn, const char *name)
{
	struct control_request req = { .code = CONTROL_ROOT_NEW, .design = "race" };
	struct control_reply reply;

	snprintf(req.name, sizeof(req.name), "%s", name);
	reply = rig_call(r, conn, req);
	CHECK_EQ(reply.err, 0);
	CHECK_EQ(CALL_ERR(r, conn, .code = CONTROL_ROOT_SET, .table = reply.table, .root_serial = reply.serial,
			  .off = 1 << 20),
		 0);
	return reply;
}

static inline struct control_reply
rig_grant(struct rig *r, unsigned conn, struct control_reply t, unsigned kind, unsigned run)
{
	return CALL(r, conn, .code = CONTROL_GRANT, .table = t.table, .root_serial = t.serial, .kind = kind,
		    .class = 3, .run = run);
}

static inline struct pool_page
rig_page(struct rig *r, uint64_t off)
{
	return pool_page_unpack(r->node->pages[(off - r->node->id.data_off) / POOL_PAGE]);
}

static const uint64_t MIB = 1 << 20;

#endif
