/* SPDX-License-Identifier: Apache-2.0 */
/* image.c -- makes the images, finds the words worth damaging, damages them. */
#include "fuzz/image.h"

#include <xxhash.h>

#include "fabric/sim_impl.h"
#include "pool/node_impl.h"

enum { IMAGE_STEPS_MAX = 16000000,
       IMAGE_FUSE_MAX = 12000,
       IMAGE_VICTIM_KEYS = 40 };

struct far_bytes
image_key(unsigned i, char *buf)
{
	return far_bytes(buf, (size_t)snprintf(buf, 16, "key %u", i));
}

int
image_open(struct image_client *c, struct far_task *t, bool create)
{
	const struct far_index_ops *race = far_index_find("race");
	struct far_index_opts o = { .groups = 1 };
	struct far_addr head;
	int err, left;

	if ((err = pool_open(t, NULL, &c->pool)) != 0)
		return err;
	if (create) {
		if ((err = pool_table_new(c->pool, t, "t", "race", &c->pt)) != 0 ||
		    (err = race->create(c->pt, t, &o, &head)) != 0 ||
		    (err = pool_table_commit(c->pt, t, head)) != 0)
			return err;
	} else if ((err = pool_table_open(c->pool, t, "t", &c->pt)) != 0) {
		return err;
	}
	if ((err = pool_enter(c->pool, t)) != 0)
		return err;
	err = far_index_open(race, c->pt, t, &o, &c->ix);
	left = pool_leave(c->pool, t);
	return err ? err : left;
}

void
image_close(struct image_client *c, struct far_task *t)
{
	if (c->pt)
		pool_table_detach(c->pt, t);
	race_close(c->ix);
	(void)pool_table_close(c->pt, t);
	(void)pool_close(c->pool, t);
	*c = (struct image_client){ .pool = NULL };
}

/* Making ---------------------------------------------------------------------------------------------------- */

static int
image_put(struct image_client *c, struct far_task *t, unsigned i, size_t len)
{
	static const char bytes[1024] = "a value";
	struct far_scratch_mark m = far_scratch_mark(t);
	struct pool_relief relief = { 0 };
	uint64_t version = 0;
	char key[16];
	int err;

	do {
		if ((err = pool_enter(c->pool, t)) != 0)
			return err;
		err = race_put(c->ix, t, FAR_PUT_UPSERT, image_key(i, key), far_bytes(bytes, len), &version);
		(void)pool_leave(c->pool, t);
	} while (err == -FAR_ENOMEM && pool_relieve(c->pt, t, &relief) == 0);
	far_scratch_reset(t, m);
	return err;
}

static void
image_move(struct image_client *c, struct far_task *t, unsigned i, unsigned node)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	char key[16];

	FUZZ_CHECK(pool_enter(c->pool, t) == 0);
	FUZZ_CHECK(race_move(c->ix, t, image_key(i, key), node) == 0);
	FUZZ_CHECK(pool_leave(c->pool, t) == 0);
	far_scratch_reset(t, m);
}

static void
image_make(struct far_task *t, void *arg)
{
	struct image_client c = { .pool = NULL };

	(void)arg;
	FUZZ_CHECK(image_open(&c, t, true) == 0);
	for (unsigned i = 0; i < IMAGE_KEYS; i++)
		FUZZ_CHECK(image_put(&c, t, i, i % 8 == 7 ? 600 : i) == 0);
	for (unsigned i = 0; i < IMAGE_KEYS; i += 3)
		image_move(&c, t, i, i / 3 % IMAGE_NODES);
	image_close(&c, t);
}

/* Inserts until it dies. */
static void
image_victim(struct far_task *t, void *arg)
{
	struct image *im = arg;
	struct image_client c = { .pool = NULL };

	FUZZ_CHECK(image_open(&c, t, false) == 0);
	far_sim_fuse(im->fabric[1], im->fuse, FAR_SIM_KILL, 0);
	for (unsigned i = 0; i < IMAGE_VICTIM_KEYS && image_put(&c, t, IMAGE_KEYS * 2 + i, 8) == 0; i++)
		;
	pool_table_detach(c.pt, t);
	race_close(c.ix);
	pool_abandon(c.pool);
	far_sim_kill(im->fabric[1]);
}

/* Looking --------------------------------------------------------------------------------------------------- */

static uint64_t *
image_word(const struct image *im, struct far_addr a)
{
	FUZZ_CHECK(far_addr_node(a) < IMAGE_NODES && far_addr_off(a) < IMAGE_REGION);
	return (uint64_t *)((uint8_t *)far_sim_region(im->sim, far_addr_node(a)) + far_addr_off(a));
}

static void
image_note(struct image *im, enum image_part part, uint64_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n && im->parts[part].n < FAR_LEN(im->parts[part].words); i++) {
		im->parts[part].room[im->parts[part].n] = (n - i) * 8;
		im->parts[part].words[im->parts[part].n++] = words + i;
	}
}

/* Counts fates by kind. */
static void
image_note_subtable(struct image *im, struct far_addr a, unsigned fates[4])
{
	uint64_t *line = image_word(im, a), *buckets = line + RACE_FATE_LEN / 8;

	for (unsigned i = 0; i < im->parts[IMAGE_FATE].n; i++) {
		if (im->parts[IMAGE_FATE].words[i] == line)
			return;
	}
	fates[RACE_FATE_KIND(line[0])]++;
	image_note(im, IMAGE_FATE, line, 3);
	for (unsigned i = 0; i < RACE_GROUP_LEN / 8; i++) {
		uint64_t word = buckets[i];

		image_note(im, i % RACE_BUCKET_WORDS ? IMAGE_SLOT : IMAGE_HEADER, buckets + i, 1);
		if (i % RACE_BUCKET_WORDS && (word & RACE_ADDR_MASK) != 0)
			image_note(im, IMAGE_BLOCK, image_word(im, race_unpack(word & RACE_ADDR_MASK)),
				   far_min(pool_class_len(race_slot_class(word)), 96) / 8);
	}
	if (RACE_FATE_KIND(line[0]) == RACE_FATE_DECIDED) {
		image_note_subtable(im, race_unpack(line[0] & RACE_ADDR_MASK), fates);
		image_note_subtable(im, race_unpack(line[1] & RACE_ADDR_MASK), fates);
	}
}

static void
image_note_table(struct image *im, unsigned fates[4])
{
	const struct pool_super *super = far_sim_region(im->sim, 0);
	const struct pool_root *root = (void *)((uint8_t *)far_sim_region(im->sim, 0) + super->roots_off);
	struct race_head *head;
	uint64_t *dir;

	for (unsigned p = 0; p < IMAGE_PARTS; p++)
		im->parts[p].n = 0;
	FUZZ_CHECK(POOL_ROOT_KIND(root->state) == POOL_ROOT_LIVE);
	head = (struct race_head *)image_word(im, (struct far_addr){ root->head });
	dir = image_word(im, race_unpack(head->root & RACE_ADDR_MASK));
	image_note(im, IMAGE_HEAD, (uint64_t *)head, 12);
	image_note(im, IMAGE_DIR, dir, UINT64_C(1) << race_dir_depth(head->root));
	for (uint64_t i = 0; i < UINT64_C(1) << race_dir_depth(head->root); i++)
		image_note_subtable(im, race_unpack(dir[i] & RACE_ADDR_MASK), fates);
}

static void
image_note_node(struct image *im, unsigned node)
{
	uint8_t *region = far_sim_region(im->sim, node);
	struct pool_super *super = (void *)region;
	uint64_t *pages = (void *)(region + super->pages_off);

	image_note(im, IMAGE_SUPER, (uint64_t *)super, 36);
	image_note(im, IMAGE_SUPER, &super->epoch, 10);
	for (unsigned i = 0; i < 4; i++)
		image_note(im, IMAGE_SESSIONS, (uint64_t *)(region + super->sessions_off) + i * 8, 2);
	image_note(im, IMAGE_ROOTS, (uint64_t *)(region + super->roots_off), 2 * sizeof(struct pool_root) / 8);
	image_note(im, IMAGE_PAGES, pages, super->pages_n);
	for (uint64_t i = 0; i < super->pages_n; i++) {
		if (pool_page_unpack(pages[i]).kind % POOL_PAGE_INSIDE != 0)
			image_note(im, IMAGE_BITMAP, (uint64_t *)(region + super->data_off + i * POOL_PAGE), 16);
	}
}

/* Resets go back to what is there now. */
static void
image_keep(struct image *im)
{
	for (unsigned k = 0; k < IMAGE_NODES; k++) {
		struct sim_node *n = &im->sim->nodes[k];

		memcpy(n->image, n->region, IMAGE_REGION);
		memset(n->dirty, 0, IMAGE_REGION / SIM_PAGE);
		n->dirty_n = 0;
	}
}

/* Tries deaths one step after the other until the table is left as wanted. */
static void
image_break(struct image *im, enum image_kind kind)
{
	for (unsigned fuse = 1; fuse < IMAGE_FUSE_MAX; fuse += 3) {
		unsigned fates[4] = { 0 };

		far_loop_reset(im->loop, fuse);
		FUZZ_CHECK(far_sim_reset(im->sim, fuse) == 0);
		im->fuse = fuse;
		image_spawn(im, 1, image_victim, im);
		image_run(im);
		far_loop_turn(im->loop);
		image_stop(im);
		image_note_table(im, fates);
		if (fates[kind == IMAGE_CLAIMED ? RACE_FATE_CLAIMED : RACE_FATE_DECIDED] > 0)
			return;
	}
	FUZZ_CHECK(!"a death leaves the table as wanted");
}

static struct image *
image_new(enum image_kind kind)
{
	struct far_sim_opts so = { .seed = 1, .nodes_n = IMAGE_NODES, .region_len = IMAGE_REGION };
	struct far_loop_opts lo = { .seed = 1 };
	struct image *im = calloc(1, sizeof(*im));
	unsigned fates[4] = { 0 };

	FUZZ_CHECK(im && far_sim_open(&so, &im->sim) == 0);
	lo.clock = far_sim_clock(im->sim);
	FUZZ_CHECK(far_loop_open(&lo, &im->loop) == 0);
	image_spawn(im, 0, image_make, NULL);
	image_run(im);
	image_stop(im);
	image_keep(im);
	if (kind != IMAGE_WHOLE) {
		image_break(im, kind);
		image_keep(im);
	}
	image_note_table(im, fates);
	for (unsigned i = 0; i < IMAGE_NODES; i++)
		image_note_node(im, i);
	return im;
}

/* Running --------------------------------------------------------------------------------------------------- */

static struct image *images[IMAGE_KINDS];

/* A leak is what is left after this. */
static void
image_free_all(void)
{
	for (unsigned i = 0; i < IMAGE_KINDS; i++) {
		if (!images[i])
			continue;
		far_loop_close(images[i]->loop);
		far_sim_close(images[i]->sim);
		free(images[i]);
	}
}

struct image *
image_start(enum image_kind kind, uint64_t seed)
{
	static bool begun;
	struct far_sim_policy p = { .calm = seed % 2 == 0, .keep = 3, .steps_max = IMAGE_STEPS_MAX };
	struct image *im;

	if (!begun)
		begun = atexit(image_free_all) == 0;
	if (!images[kind])
		images[kind] = image_new(kind);
	im = images[kind];
	far_loop_reset(im->loop, seed);
	FUZZ_CHECK(far_sim_reset(im->sim, seed) == 0);
	far_sim_set_policy(im->sim, &p);
	return im;
}

void
image_stop(struct image *im)
{
	far_loop_turn(im->loop);
	for (unsigned i = 0; i < FAR_LEN(im->fabric); i++) {
		far_fabric_close(im->fabric[i]);
		im->fabric[i] = NULL;
	}
}

void
image_spawn(struct image *im, unsigned client, void (*fn)(struct far_task *t, void *arg), void *arg)
{
	if (!im->fabric[client])
		FUZZ_CHECK(far_sim_connect(im->sim, im->loop, NULL, &im->fabric[client]) == 0);
	FUZZ_CHECK(far_loop_spawn(im->loop, im->fabric[client], fn, arg, 0) == 0);
}

void
image_run(struct image *im)
{
	far_loop_run(im->loop);
}

/* Damage ---------------------------------------------------------------------------------------------------- */

/* A reset restores the word. */
static void
image_touch(struct image *im, const void *word)
{
	for (unsigned k = 0; k < IMAGE_NODES; k++) {
		const uint8_t *region = far_sim_region(im->sim, k), *at = word;

		if (at >= region && at < region + IMAGE_REGION)
			far_sim_touch(im->sim, k, (uint64_t)(at - region), 8);
	}
}

/* The check sum of the object that a part's word lies in is made to fit again: what lies behind it is reached. */
static void
image_mend(struct image *im, enum image_part part, unsigned at)
{
	struct pool_super *super = far_sim_region(im->sim, at / (im->parts[IMAGE_SUPER].n / IMAGE_NODES) % IMAGE_NODES);
	struct race_head *head = (struct race_head *)im->parts[IMAGE_HEAD].words[0];
	const uint64_t *rooms = im->parts[IMAGE_BLOCK].room;
	struct block *b;
	uint64_t len;

	if (part == IMAGE_SUPER)
		super->sum = node_super_sum(super);
	if (part == IMAGE_HEAD)
		head->sum = XXH3_64bits(head, offsetof(struct race_head, sum));
	image_touch(im, &super->sum);
	image_touch(im, &head->sum);
	if (part != IMAGE_BLOCK)
		return;
	/* Its first word has the most room. */
	while (at > 0 && rooms[at - 1] == rooms[at] + 8)
		at--;
	b = (struct block *)im->parts[IMAGE_BLOCK].words[at];
	len = block_len(b->key_len, b->value_len);
	image_touch(im, &b->sum);
	/* Blocks may be longer than what is noted of them; what lies behind them is memory of the node. */
	if (len <= 4096)
		b->sum = XXH3_64bits_withSeed((const char *)b + offsetof(struct block, version),
					      len - offsetof(struct block, version), b->hash);
}

void
image_damage(struct image *im, struct fuzz_in *in, enum image_part part)
{
	unsigned how = fuzz_byte(in), n = im->parts[part].n, at = (unsigned)fuzz_word(in, 2) % n;
	uint64_t *word = im->parts[part].words[at], old = *word;

	switch (how & 7) {
	case 0:
		*word = fuzz_word(in, 8);
		break;
	case 1:
		*word ^= UINT64_C(1) << (fuzz_byte(in) & 63);
		break;
	case 2:
		*word += (uint64_t)(int8_t)fuzz_byte(in);
		break;
	case 3:
		*word = *im->parts[part].words[fuzz_word(in, 2) % n];
		break;
	case 4:
		/* The address of another, the rest as it was. */
		*word = (old & ~RACE_ADDR_MASK) | (*im->parts[part].words[fuzz_word(in, 2) % n] & RACE_ADDR_MASK);
		break;
	case 5:
		/* Addresses a little off, fingerprint and class kept. */
		*word = (old & ~RACE_ADDR_MASK) | ((old + (uint64_t)(int8_t)fuzz_byte(in)) & RACE_ADDR_MASK);
		break;
	case 6:
		((uint8_t *)word)[fuzz_byte(in) % 8] = (uint8_t)fuzz_byte(in);
		break;
	default:
		*word = 0;
	}
	if (how & 8)
		image_mend(im, part, at);
	image_touch(im, word);
}
