/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liar_test.c -- nothing that comes from a memory node is believed.
 *
 * Two clients work on one table while now and then a word of what a node answers is another one: of a READ, of what an
 * atomic found, of a reply to a request. Whatever they make of it, they end with error codes: no assertion fails, no
 * loop goes on for ever, and sanitizers find nothing.
 */
#include "base/base.h"
#include "base/rand.h"
#include "fabric/backend.h"
#include "fabric/sim_rig.h"
#include "pool/control.h"
#include "store/store.h"

enum { LIAR_CLIENTS = 2, LIAR_KEYS = 24 };

struct liar {
	struct far_hook hook;
	struct far_rng rng;
	uint64_t chains;    /* one in so many has a lie in it; 0: none has */
	uint64_t told;
};

struct liar_world {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric[LIAR_CLIENTS];
	struct far *f[LIAR_CLIENTS];
	struct far_table *t[LIAR_CLIENTS];
	struct liar liar[LIAR_CLIENTS];
	struct far_rng rng;
	uint64_t done, failed;
};

/* What `word` is said to be: something near it, or at a limit of one of its fields. */
static uint64_t
liar_word(struct far_rng *rng, uint64_t word)
{
	static const uint64_t limits[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1, INT64_MAX, UINT32_MAX, UINT64_C(1) << 48,
					   UINT64_C(1) << 56 };

	switch (far_rng_below(rng, 4)) {
	case 0:
		return limits[far_rng_below(rng, FAR_LEN(limits))];
	case 1:
		return word + far_rng_below(rng, 5) - 2;
	case 2:
		return word ^ UINT64_C(1) << far_rng_below(rng, 64);
	default:
		return word | UINT64_C(1) << (40 + far_rng_below(rng, 24));
	}
}

/* Changes one word, of a shorter end its bytes. */
static void
liar_change(struct far_rng *rng, void *buf, uint64_t len)
{
	uint64_t at, n, word = 0;

	if (len == 0)
		return;
	at = far_rng_below(rng, (len + 7) / 8) * 8;
	n = far_min(len - at, 8);
	memcpy(&word, (char *)buf + at, n);
	word = liar_word(rng, word);
	memcpy((char *)buf + at, &word, n);
}

static void
liar_after(struct far_hook *hook, struct far_chain *c)
{
	struct liar *l = FAR_CONTAINER(hook, struct liar, hook);
	uint64_t skip;
	struct far_op *op = c->first;

	if (c->status || !l->chains || far_rng_below(&l->rng, l->chains))
		return;
	for (skip = far_rng_below(&l->rng, c->n); skip && op->next; skip--)
		op = op->next;
	l->told++;
	if (op->code == FAR_OP_CALL)
		liar_change(&l->rng, op->reply, op->reply_max);
	else if (op->code != FAR_OP_WRITE)
		liar_change(&l->rng, op->buf, op->len);
}

static int
liar_open(struct liar_world *w, unsigned i, uint64_t seed)
{
	struct far_opts o = { .lease_ns = 2000000, .seed = seed, .fibers = 8 };
	int err;

	REQUIRE(far_sim_connect(w->sim, w->loop, NULL, &w->fabric[i]) == 0);
	w->liar[i].hook.after = liar_after;
	far_rng_seed(&w->liar[i].rng, seed);
	far_fabric_hook(w->fabric[i], &w->liar[i].hook);
	err = store_open_on(w->loop, w->fabric[i], &o, &w->f[i]);
	if (err)
		far_fabric_close(w->fabric[i]);
	return err;
}

static void
liar_close(struct liar_world *w, unsigned i)
{
	if (w->t[i])
		far_table_close(w->t[i]);
	far_close(w->f[i]);
	w->t[i] = NULL;
	w->f[i] = NULL;
}

static int
liar_walk(struct far_table *t)
{
	struct far_iter *it;
	struct far_bytes key;
	struct far_value value;
	int got = far_iter_open(t, &it), left = 100 * LIAR_KEYS;

	if (got)
		return got;
	while ((got = far_iter_next(it, &key, &value)) > 0 && left-- > 0)
		;
	far_iter_close(it);
	return got;
}

/* Several of one kind or another, and then the same keys are looked up. */
static int
liar_batch(struct liar_world *w, struct far_table *t)
{
	struct far_request r[8];
	char keys[8][16];

	for (unsigned k = 0; k < FAR_LEN(r); k++) {
		snprintf(keys[k], sizeof(keys[k]), "key %u", (unsigned)far_rng_below(&w->rng, LIAR_KEYS));
		r[k] = (struct far_request){ .kind = (enum far_request_kind)far_rng_below(&w->rng, FAR_REQUEST_KINDS),
					     .key = far_str(keys[k]),
					     .value = FAR_STR("value"),
					     .version = far_rng_below(&w->rng, 3) };
	}
	return far_batch(t, r, FAR_LEN(r));
}

static int
liar_do(struct liar_world *w, unsigned i)
{
	struct far_table *t = w->t[i];
	struct far_table_stat stat;
	struct far_value value;
	char key[16];

	snprintf(key, sizeof(key), "key %u", (unsigned)far_rng_below(&w->rng, LIAR_KEYS));
	switch (far_rng_below(&w->rng, 16)) {
	case 0:
		return far_get(t, far_str(key), &value);
	case 1:
		return far_delete(t, far_str(key));
	case 2:
		return far_move(t, far_str(key), (unsigned)far_rng_below(&w->rng, 2));
	case 3:
		return liar_walk(t);
	case 4:
		return far_table_check(t, NULL, NULL);
	case 5:
		return far_table_stat(t, &stat);
	case 6:
		return far_table_repair(t);
	case 7:
	case 8:
		return liar_batch(w, t);
	default:
		return far_put(t, far_str(key), FAR_STR("value"), NULL);
	}
}

/* The next thing that client `i` does, whatever state it is in. */
static int
liar_turn(struct liar_world *w, unsigned i)
{
	static const struct far_table_opts small = { .groups = 1 };
	struct far_table_info *list;
	int n;

	if (!w->f[i])
		return liar_open(w, i, far_rng_next(&w->rng) | 1);
	if (!w->t[i]) {
		(void)far_table_create(w->f[i], "t", &small);
		return far_table_open(w->f[i], "t", &w->t[i]);
	}
	switch (far_rng_below(&w->rng, 64)) {
	case 0:
		liar_close(w, i);
		return 0;
	case 1:
		n = far_table_drop(w->f[i], "t");
		return n;
	case 2:
		if ((n = far_table_list(w->f[i], &list)) >= 0)
			free(list);
		return n;
	default:
		return liar_do(w, i);
	}
}

static void
liar_run(struct liar_world *w, uint64_t seed, unsigned turns)
{
	struct far_sim_opts o = { .seed = seed, .nodes_n = 2, .region_len = 2 << 20 };
	struct far_sim_policy p = { .calm = true };

	memset(w, 0, sizeof(*w));
	far_rng_seed(&w->rng, seed);
	sim_rig_open(&o, &w->sim, &w->loop);
	far_sim_set_policy(w->sim, &p);
	for (unsigned n = 0; n < turns; n++) {
		unsigned i = (unsigned)far_rng_below(&w->rng, LIAR_CLIENTS);
		int err = liar_turn(w, i);

		w->done += err >= 0;
		w->failed += err < 0;
		/* Its session is over: only another one can go on. */
		if ((err == -FAR_EFENCED || err == -FAR_ENODE || err == -FAR_ENOMEM) && w->f[i])
			liar_close(w, i);
		for (i = 0; i < LIAR_CLIENTS; i++)
			w->liar[i].chains = n < 20 ? 0 : 8 + seed % 4 * 40;
	}
	for (unsigned i = 0; i < LIAR_CLIENTS; i++)
		liar_close(w, i);
	far_loop_close(w->loop);
	far_sim_close(w->sim);
}

static void
test_store_survives_nodes_that_lie(void)
{
	uint64_t done = 0, failed = 0, told = 0;

	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct liar_world w;

		/* Whoever aborts does so in one of these. */
		if (seed % 100 == 1) {
			printf("# seeds from %llu\n", (unsigned long long)seed);
			fflush(stdout);
		}
		liar_run(&w, seed, 150);
		done += w.done;
		failed += w.failed;
		told += w.liar[0].told + w.liar[1].told;
	}
	printf("# %llu calls that ended well, %llu that did not, %llu lies\n", (unsigned long long)done,
	       (unsigned long long)failed, (unsigned long long)told);
	CHECK(done > 100000);
	CHECK(failed > 30000);
	CHECK(told > 30000);
}

TEST_MAIN(TEST(test_store_survives_nodes_that_lie))
