/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node_roots.c -- named tables, and which table a number stands for.
 *
 * On the home node an entry's fields are stored before its state, which makes them count. On the other nodes only
 * the state is used: LIVE with the serial of the latest table of that number that asked for memory here, DROPPED once
 * that memory was freed. Serials grow, so a late request for an earlier table is recognised.
 */
#include <string.h>

#include "pool/name.h"
#include "pool/node_impl.h"

#define NODE_EPOCH_UNREAD UINT64_MAX

static bool
node_name_valid(const char *name, size_t max)
{
	if (!pool_name_is_good(name, max))
		return false;
	/* NUL-padded: readers may compare all bytes. */
	for (size_t i = strlen(name); i < max; i++)
		if (name[i] != 0)
			return false;
	return true;
}

static void
node_root_put(struct node *n, unsigned i, size_t field, uint64_t value)
{
	FAR_ASSERT(i < n->id.roots_n && field % 8 == 0 && field < sizeof(*n->roots));
	memcpy((uint8_t *)&n->names[i] + field, &value, sizeof(value));
	node_put((uint64_t *)((uint8_t *)&n->roots[i] + field), value);
}

static void
node_root_state(struct node *n, unsigned i, unsigned kind, uint64_t serial)
{
	FAR_ASSERT(!kind || (serial != 0 && serial <= POOL_SERIAL_MAX));
	node_root_put(n, i, offsetof(struct pool_root, state),
		      kind ? POOL_ROOT_STATE(kind, serial) : 0);
}

/* A session that announces an epoch above the stamp read it after the state had changed, and saw that. */
static void
node_root_gone(struct node *n, unsigned i)
{
	FAR_ASSERT(node_is_home(n) && n->names[i].state != 0);
	node_root_put(n, i, offsetof(struct pool_root, epoch), NODE_EPOCH_UNREAD);
	node_root_state(n, i, POOL_ROOT_DROPPED, POOL_ROOT_SERIAL(n->names[i].state));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	node_root_put(n, i, offsetof(struct pool_root, epoch), node_epoch(n));
}

int
node_roots_load(struct node *n)
{
	for (unsigned i = 0; i < n->id.roots_n; i++) {
		struct pool_root *r = &n->names[i];
		unsigned kind;

		*r = n->roots[i];
		kind = POOL_ROOT_KIND(r->state);
		if (r->state == 0)
			continue;
		/* Of no pool yet, or no more: a FORM that was cut short looks alike, but before it nobody asks. */
		if (n->id.nodes_n == 0)
			return -FAR_ECORRUPT;
		if (kind == POOL_ROOT_FREE || kind > POOL_ROOT_DROPPED ||
		    POOL_ROOT_SERIAL(r->state) == 0)
			return -FAR_ECORRUPT;
		if (!node_is_home(n))
			continue;
		if (!node_name_valid(r->name, sizeof(r->name)) ||
		    !node_name_valid(r->design, sizeof(r->design)) ||
		    POOL_ROOT_SERIAL(r->state) > n->id.next_serial)
			return -FAR_ECORRUPT;
		/* Its maker is gone; or a crash came before the stamp; or no epoch of this pool is that late or 0,
		 * and who waited for a later one would wait for ever. No session is older than the new stamp. */
		if (kind == POOL_ROOT_MAKING ||
		    (kind == POOL_ROOT_DROPPED && (r->epoch == 0 || r->epoch > node_epoch(n))))
			node_root_gone(n, i);
	}
	return 0;
}

/* The other nodes' part of node_root_guard(): they learn of a table when it first asks. */
static int
node_root_learn(struct node *n, unsigned table, uint64_t serial)
{
	uint64_t state = n->names[table].state, known = POOL_ROOT_SERIAL(state);

	FAR_ASSERT(!node_is_home(n) && serial);
	if (serial < known || (serial == known && POOL_ROOT_KIND(state) == POOL_ROOT_DROPPED))
		return -FAR_ENOENT;
	if (serial == known)
		return 0;
	/* The number was given to a new table only after the old one's chunks were freed everywhere. */
	if (n->table_chunks[table] > 0)
		return -FAR_EINVAL;
	node_root_state(n, table, POOL_ROOT_LIVE, serial);
	return 0;
}

int
node_root_guard(struct node *n, const struct node_session *me, unsigned table, uint64_t serial)
{
	const struct pool_root *r;

	if (table >= n->id.roots_n || serial == 0 || serial > POOL_SERIAL_MAX)
		return -FAR_EINVAL;
	if (!node_is_home(n))
		return node_root_learn(n, table, serial);
	r = &n->names[table];
	if (r->state == POOL_ROOT_STATE(POOL_ROOT_LIVE, serial) ||
	    (r->state == POOL_ROOT_STATE(POOL_ROOT_MAKING, serial) && r->head == me->serial))
		return 0;
	return -FAR_ENOENT;
}

void
node_roots_leave(struct node *n, const struct node_session *s)
{
	FAR_ASSERT(node_is_home(n) && s->serial);
	for (unsigned i = 0; i < n->id.roots_n; i++)
		if (POOL_ROOT_KIND(n->names[i].state) == POOL_ROOT_MAKING &&
		    n->names[i].head == s->serial)
			node_root_gone(n, i);
}

static int
node_root_vacant(const struct node *n, const char *name)
{
	int vacant = -FAR_ENOMEM;

	FAR_ASSERT(node_is_home(n));
	for (unsigned i = n->id.roots_n; i-- > 0;) {
		unsigned kind = POOL_ROOT_KIND(n->names[i].state);

		if (kind == POOL_ROOT_FREE)
			vacant = (int)i;
		else if (kind != POOL_ROOT_DROPPED &&
			 memcmp(n->names[i].name, name, sizeof(n->names[i].name)) == 0)
			return -FAR_EEXIST;
	}
	return vacant;
}

int
node_root_new(struct node *n, struct node_session *me, const struct control_request *req,
	      struct control_reply *reply)
{
	struct pool_root r = { .head = me->serial };
	uint64_t words[sizeof(r) / sizeof(uint64_t)];
	int i;

	if (!node_name_valid(req->name, sizeof(req->name)) ||
	    !node_name_valid(req->design, sizeof(req->design)))
		return -FAR_EINVAL;
	if ((i = node_root_vacant(n, req->name)) < 0)
		return i;
	FAR_ASSERT(n->names[i].state == 0);
	if ((reply->serial = node_serial_new(n)) == 0)
		return -FAR_ENOMEM;
	reply->table = (uint32_t)i;
	reply->seed = r.seed = n->env.random(n->env.arg);
	memcpy(r.design, req->design, sizeof(r.design));
	memcpy(r.name, req->name, sizeof(r.name));
	memcpy(words, &r, sizeof(r));
	for (size_t w = 1; w < FAR_LEN(words); w++)
		node_root_put(n, (unsigned)i, w * sizeof(uint64_t), words[w]);
	node_root_state(n, (unsigned)i, POOL_ROOT_MAKING, reply->serial);
	return 0;
}

/* The root that a request is about, or NULL: its number has moved on. */
static struct pool_root *
node_root_of(struct node *n, const struct control_request *req)
{
	struct pool_root *r = &n->names[req->table];

	return r->state != 0 && POOL_ROOT_SERIAL(r->state) == req->root_serial ? r : NULL;
}

int
node_root_set(struct node *n, struct node_session *me, const struct control_request *req,
	      struct control_reply *reply)
{
	struct pool_root *r;

	(void)reply;
	if (req->table >= n->id.roots_n || req->off == 0 || req->off >> 48 >= n->id.nodes_n)
		return -FAR_EINVAL;
	if ((r = node_root_of(n, req)) == NULL || POOL_ROOT_KIND(r->state) == POOL_ROOT_DROPPED)
		return -FAR_ENOENT;
	if (POOL_ROOT_KIND(r->state) == POOL_ROOT_LIVE)
		return r->head == req->off ? 0 : -FAR_EEXIST;
	if (r->head != me->serial)
		return -FAR_EACCESS;
	/* A crash between the two drops the root, as its maker ends. */
	node_root_put(n, req->table, offsetof(struct pool_root, head), req->off);
	node_root_state(n, req->table, POOL_ROOT_LIVE, req->root_serial);
	return 0;
}

int
node_root_drop(struct node *n, struct node_session *me, const struct control_request *req,
	       struct control_reply *reply)
{
	struct pool_root *r;

	(void)reply;
	if (req->table >= n->id.roots_n)
		return -FAR_EINVAL;
	if ((r = node_root_of(n, req)) == NULL)
		return -FAR_ENOENT;
	if (POOL_ROOT_KIND(r->state) == POOL_ROOT_DROPPED)
		return 0;
	if (POOL_ROOT_KIND(r->state) == POOL_ROOT_MAKING && r->head != me->serial)
		return -FAR_ENOENT;
	node_root_gone(n, req->table);
	return 0;
}

int
node_root_free(struct node *n, struct node_session *me, const struct control_request *req,
	       struct control_reply *reply)
{
	struct pool_root *r;

	(void)me;
	(void)reply;
	if (req->table >= n->id.roots_n)
		return -FAR_EINVAL;
	if ((r = node_root_of(n, req)) == NULL)
		return 0;
	if (POOL_ROOT_KIND(r->state) != POOL_ROOT_DROPPED || n->table_chunks[req->table] > 0)
		return -FAR_EINVAL;
	node_root_state(n, req->table, POOL_ROOT_FREE, 0);
	return 0;
}

/* 0: the chunks of that number are those of the dropped table; 1: they are not, there is nothing to do. */
static int
node_table_free_guard(struct node *n, const struct control_request *req)
{
	uint64_t state = n->names[req->table].state, known = POOL_ROOT_SERIAL(state);

	if (node_is_home(n)) {
		if (state == 0 || known != req->root_serial)
			return 1;
		return POOL_ROOT_KIND(state) == POOL_ROOT_DROPPED ? 0 : -FAR_EINVAL;
	}
	if (req->root_serial < known)
		return 1;
	if (req->root_serial > known && n->table_chunks[req->table] > 0)
		return -FAR_EINVAL;
	/* From here on a late GRANT is refused. */
	node_root_state(n, req->table, POOL_ROOT_DROPPED, req->root_serial);
	return 0;
}

int
node_table_free(struct node *n, struct node_session *me, const struct control_request *req,
		struct control_reply *reply)
{
	int err;

	(void)me;
	(void)reply;
	if (req->table >= n->id.roots_n || req->root_serial == 0 ||
	    req->root_serial > POOL_SERIAL_MAX)
		return -FAR_EINVAL;
	if ((err = node_table_free_guard(n, req)) != 0)
		return err < 0 ? err : 0;
	FAR_ASSERT(POOL_ROOT_KIND(n->names[req->table].state) == POOL_ROOT_DROPPED);
	return node_free_table(n, req->table);
}
