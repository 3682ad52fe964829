/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c -- memory nodes on this machine: chains are loads, stores and atomic instructions on a shared mapping.
 *
 * poll() executes chains in the order of their posts. Before the first of a batch it prefetches every line that the
 * batch touches, in one tight loop: so the cache misses and page walks of all fibers that wait overlap. (Prefetching
 * at post does not do that: a prefetch waits for its page walk, and the code between two posts fills the
 * processor's window.)
 * words.h says what the guarantees rest on.
 */
#include "fabric/shm.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/base.h"

enum {
	SHM_LINE = 64,
	SHM_PREFETCH = 1024,        /* bytes of one operation; the processor foresees the rest */
	SHM_BATCH = 32,             /* chains prefetched at once */
	SHM_CHECK_TICKS = 16,       /* chains and idle polls between two looks at the clock */
	SHM_CHECK_NS = 1000 * 1000, /* between two looks at the sockets */
};
/* A node that is silent for so long is given up; FENCE waits for the end of a process. */
#define SHM_TIMEOUT_NS ((uint64_t)30 * 1000 * 1000 * 1000)

struct shm {
	struct far_fabric base;
	struct far_chain_list posted, done; /* to be executed; calls that were answered */
	unsigned ahead;               /* posted chains, from the first, that were prefetched */
	uint64_t checked;             /* when the sockets were looked at */
	unsigned ticks;
	uint64_t timeout_ns;
	struct shm_link links[];
};

/* Executing ------------------------------------------------------------------------------------------------ */

/* Where an operation goes, or NULL. */
static inline unsigned char *
shm_place(const struct shm_link *k, const struct far_op *op)
{
	return words_place(&k->words, far_addr_off(op->addr), op->len);
}

static inline int
shm_execute_op(struct words *w, const struct far_op *op)
{
	unsigned char *p = words_place(w, far_addr_off(op->addr), op->len);
	uint64_t word;

	if (!p)
		return -FAR_EACCESS;
	switch (op->code) {
	case FAR_OP_READ:
		words_read(w, p, op->buf, op->len);
		return 0;
	case FAR_OP_WRITE:
		words_write(w, p, op->buf, op->len);
		return 0;
	case FAR_OP_CAS:
		word = words_cas(w, p, op->expect, op->desired);
		break;
	case FAR_OP_FAA:
		word = words_faa(w, p, op->addend);
		break;
	default:
		return -FAR_ENOTSUP;
	}
	memcpy(op->buf, &word, 8);
	return 0;
}

static void
shm_execute(struct shm *s, struct far_chain *c)
{
	const struct shm_link *k = &s->links[c->node];
	struct words w = k->words; /* the compiler knows that nobody else changes it */
	const struct far_op *op = c->first;
	int err = 0;

	if (k->dead) {
		c->status = -FAR_ENODE;
		return;
	}
	for (uint32_t i = 0; i < c->cut && err == 0; i++, op = op->next)
		err = shm_execute_op(&w, op);
	words_settle(&w);
	if (err != 0)
		c->status = err;
}

/* Inlined by force: GCC takes a function that only prefetches for one without effect, and drops its calls. */
__attribute__((always_inline)) static inline void
shm_prefetch(const struct shm_link *k, const struct far_op *op)
{
	const unsigned char *p = shm_place(k, op), *end;

	if (!p)
		return;
	end = p + far_min(op->len, SHM_PREFETCH);
	for (; p < end; p += SHM_LINE)
		__builtin_prefetch(p);
	__builtin_prefetch(end - 1);
}

/* Prefetches for the next batch. */
static void
shm_prefetch_batch(struct shm *s)
{
	for (const struct far_chain *c = s->posted.first; c && s->ahead < SHM_BATCH; c = c->next) {
		for (const struct far_op *op = c->first; op; op = op->next)
			shm_prefetch(&s->links[c->node], op);
		s->ahead++;
	}
}

/* Asks a node inside this process; false: it wants to be asked again. */
static bool
shm_call_memory(const struct shm_link *k, struct far_chain *c)
{
	struct far_op *op = c->first;
	int n = -FAR_ENOTSUP;

	if (c->cut == 0)
		return true;
	if (k->memory.call)
		n = k->memory.call(k->memory.arg, op->buf, op->len, op->reply, op->reply_max);
	if (n == -FAR_EAGAIN)
		return false;
	if (n < 0 || (uint64_t)n > op->reply_max)
		c->status = n < 0 ? n : -FAR_ECORRUPT;
	else
		op->reply_max = (uint64_t)n;
	return true;
}

/* The backend's functions ---------------------------------------------------------------------------------- */

static int
shm_post(struct far_fabric *f, struct far_chain *c)
{
	struct shm *s = FAR_CONTAINER(f, struct shm, base);
	struct shm_link *k = &s->links[c->node];

	if (c->first->code == FAR_OP_CALL && k->sock >= 0 && c->cut > 0)
		return shm_link_call(k, c, far_loop_now(f->loop), &s->done);
	far_chain_list_add(&s->posted, c);
	return 0;
}

/* Takes what the nodes said, and notices their end. */
static void
shm_look(struct shm *s, uint64_t now)
{
	s->checked = now;
	for (unsigned i = 0; i < s->base.nodes_n; i++) {
		if (s->links[i].sock < 0)
			continue;
		shm_link_receive(&s->links[i], &s->done);
		if (now > s->timeout_ns)
			shm_link_expire(&s->links[i], now - s->timeout_ns, &s->done);
	}
}

/* The same now and then, while nobody waits for it. */
static void
shm_check(struct shm *s)
{
	uint64_t now;

	if (++s->ticks % SHM_CHECK_TICKS != 0)
		return;
	now = far_loop_now(s->base.loop);
	if (now - s->checked >= SHM_CHECK_NS)
		shm_look(s, now);
}

static struct far_chain *
shm_poll(struct far_fabric *f)
{
	struct shm *s = FAR_CONTAINER(f, struct shm, base);
	struct far_chain *c;

	if (s->ahead == 0)
		shm_prefetch_batch(s);
	c = far_chain_list_take(&s->posted);
	if (c) {
		s->ahead--;
		shm_check(s);
		if (c->first->code != FAR_OP_CALL) {
			shm_execute(s, c);
			return c;
		}
		if (shm_call_memory(&s->links[c->node], c))
			return c;
		far_chain_list_add(&s->posted, c);
		return NULL;
	}
	for (unsigned i = 0; i < f->nodes_n && !s->done.first; i++) {
		if (s->links[i].calls_n > 0)
			shm_link_receive(&s->links[i], &s->done);
	}
	return far_chain_list_take(&s->done);
}

/* Sleeps until a reply comes, so that a node on the same processor can work on it. */
static void
shm_idle(struct far_fabric *f)
{
	struct shm *s = FAR_CONTAINER(f, struct shm, base);
	struct timespec timeout = { 0, FABRIC_IDLE_NS };
	struct pollfd pfd[FAR_NODES_MAX];
	nfds_t n = 0;

	for (unsigned i = 0; i < f->nodes_n; i++) {
		if (s->links[i].calls_n > 0)
			pfd[n++] = (struct pollfd){ .fd = s->links[i].sock, .events = POLLIN };
	}
	if (n == 0)
		shm_check(s);
	else if (ppoll(pfd, n, &timeout, NULL) == 0)
		shm_look(s, far_loop_now(f->loop));
}

static void
shm_close(struct far_fabric *f)
{
	struct shm *s = FAR_CONTAINER(f, struct shm, base);

	for (unsigned i = 0; i < f->nodes_n; i++)
		shm_link_close(&s->links[i]);
	free(s);
}

static struct shm *
shm_new(unsigned nodes_n, const struct far_fabric_opts *opts)
{
	struct shm *s = calloc(1, sizeof(*s) + nodes_n * sizeof(s->links[0]));

	if (!s)
		return NULL;
	s->base.caps = FAR_CAP_ATOMIC_GLOBAL;
	s->timeout_ns = opts && opts->timeout_ns ? opts->timeout_ns : SHM_TIMEOUT_NS;
	s->posted.last = &s->posted.first;
	s->done.last = &s->done.first;
	for (unsigned i = 0; i < nodes_n; i++)
		s->links[i].sock = -1;
	return s;
}

static int
shm_fabric_open(const char *spec, struct far_loop *l, const struct far_fabric_opts *opts,
		struct far_fabric **out)
{
	unsigned n = 1;
	struct shm *s;
	int err;

	for (const char *p = spec; *p; p++)
		n += *p == ',';
	if (n > FAR_NODES_MAX)
		return -FAR_EINVAL;
	s = shm_new(n, opts);
	if (!s)
		return -FAR_ENOMEM;
	for (const char *p = spec; s->base.nodes_n < n; p++) {
		size_t len = strcspn(p, ",");
		struct shm_link *k = &s->links[s->base.nodes_n];

		err = shm_link_open(k, p, len, s->timeout_ns);
		if (err != 0) {
			shm_close(&s->base);
			return err;
		}
		s->base.region_len[s->base.nodes_n++] = k->words.len;
		p += len;
	}
	far_fabric_init(&s->base, &shm_fabric_ops, l, opts);
	*out = &s->base;
	return 0;
}

int
shm_connect_memory(const struct shm_memory *nodes, unsigned n, struct far_loop *l,
		   const struct far_fabric_opts *opts, struct far_fabric **out)
{
	struct shm *s;

	if (n == 0 || n > FAR_NODES_MAX)
		return -FAR_EINVAL;
	for (unsigned i = 0; i < n; i++) {
		if ((uintptr_t)nodes[i].base % 8 != 0)
			return -FAR_EINVAL;
	}
	s = shm_new(n, opts);
	if (!s)
		return -FAR_ENOMEM;
	for (unsigned i = 0; i < n; i++) {
		s->links[i].words = (struct words){ nodes[i].base, nodes[i].len, false, 0 };
		s->base.region_len[i] = nodes[i].len;
		s->links[i].memory = nodes[i];
	}
	s->base.nodes_n = n;
	far_fabric_init(&s->base, &shm_fabric_ops, l, opts);
	*out = &s->base;
	return 0;
}

const struct far_fabric_ops shm_fabric_ops = {
	.name = "shm",
	.open = shm_fabric_open,
	.close = shm_close,
	.post = shm_post,
	.poll = shm_poll,
	.idle = shm_idle,
};
