/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a RACE table with damaged bytes. Two clients work on it; damage comes before they open it, or while they
 * work. Whatever they find, each call ends, in bounded steps, with a result or an error.
 */
#include "fuzz/image.h"

enum { TABLE_OPS = 16,
       TABLE_DAMAGES = 8 };

struct table {
	struct image *im;
	struct fuzz_in *in;
	unsigned damages; /* still to come before the table is open, or so many at once after it */
	bool early;
	bool whole;       /* nothing was damaged */
	bool busy;        /* splits are under way */
	unsigned sum;     /* of all bytes that came back: a sanitizer looks at each */
};

static void
table_spoil(struct table *s)
{
	static const uint8_t parts[16] = { IMAGE_HEAD, IMAGE_DIR, IMAGE_FATE, IMAGE_HEADER, IMAGE_SLOT, IMAGE_SLOT,
					   IMAGE_BLOCK, IMAGE_BLOCK, IMAGE_BITMAP, IMAGE_SESSIONS, IMAGE_ROOTS,
					   IMAGE_PAGES, IMAGE_DIR, IMAGE_FATE, IMAGE_SLOT, IMAGE_HEAD };

	s->whole = false;
	image_damage(s->im, s->in, (enum image_part)parts[fuzz_byte(s->in) & 15]);
}

static void
table_touch(struct table *s, struct far_bytes b)
{
	for (size_t i = 0; b.data && i < b.len; i++)
		s->sum += ((const uint8_t *)b.data)[i];
}

static void
table_report(void *arg, const char *line)
{
	table_touch(arg, far_str(line));
}

static int
table_scan(struct table *s, struct image_client *c, struct far_task *t)
{
	struct far_entry *entries;
	uint64_t cursor = 0;
	bool last = false;
	int n = 0;

	while (!last && n >= 0) {
		struct far_scratch_mark m = far_scratch_mark(t);

		n = race_scan(c->ix, t, &cursor, 1024, &entries, &last);
		for (int i = 0; i < n; i++) {
			table_touch(s, entries[i].key);
			table_touch(s, entries[i].value);
		}
		far_scratch_reset(t, m);
	}
	return n;
}

/* Calls inside pool_enter(). */
static int
table_call(struct table *s, struct image_client *c, struct far_task *t, unsigned op)
{
	static const char bytes[700] = "another value";
	unsigned number = fuzz_byte(s->in) % (2 * IMAGE_KEYS);
	struct far_value value = { .version = 0 };
	struct far_table_stat stat;
	struct far_index_part part;
	uint64_t version = 0, at;
	char buf[16];
	struct far_bytes key = image_key(number, buf);
	int err;

	switch (op) {
	case 0:
		err = race_get(c->ix, t, key, &value);
		if (err == 0)
			table_touch(s, value.bytes);
		return err;
	case 1:
	case 2:
	case 3:
		return race_put(c->ix, t, (enum far_put_mode)(op - 1), key, far_bytes(bytes, number * 7), &version);
	case 4:
		return race_del(c->ix, t, key, number & 1);
	case 5:
		return race_move(c->ix, t, key, number & 1);
	case 6:
		return table_scan(s, c, t);
	case 7:
		return race_stat(c->ix, t, &stat);
	case 8:
		return race_check(c->ix, t, table_report, s);
	case 9:
		return race_recover(c->ix, t);
	default:
		at = (1 + (number >> 1)) * (uint64_t)POOL_PAGE + fuzz_word(s->in, 2) * POOL_UNIT;
		part = (struct far_index_part){ .addr = far_addr_make(number & 1, at), .hash = fuzz_word(s->in, 8) };
		race_reach(c->ix, t, &part, 1, number & 2);
		return part.reached;
	}
}

static int
table_op(struct table *s, struct image_client *c, struct far_task *t, unsigned op)
{
	struct far_scratch_mark m = far_scratch_mark(t);
	struct pool_relief relief = { 0 };
	struct pool_usage usage;
	int err, left;

	switch (op) {
	case 11:
		return pool_table_adopt_orphans(c->pt, t);
	case 12:
		return pool_table_usage(c->pt, t, &usage);
	case 13:
		return pool_tick(c->pool, t);
	case 14:
		far_sleep(t, fuzz_word(s->in, 2) * 100000);
		return 0;
	default:
		break;
	}
	do {
		if ((err = pool_enter(c->pool, t)) != 0)
			return err;
		err = table_call(s, c, t, op);
		left = pool_leave(c->pool, t);
		far_scratch_reset(t, m);
	} while (!left && err == -FAR_ENOMEM && pool_relieve(c->pt, t, &relief) == 0);
	return left ? left : err;
}

static void
table_client(struct far_task *t, void *arg)
{
	struct table *s = arg;
	struct image_client c = { .pool = NULL };
	int err = image_open(&c, t, false);

	FUZZ_CHECK(err <= 0 && err >= -FAR_EAGAIN);
	for (; err == 0 && !s->early && s->damages > 0; s->damages--)
		table_spoil(s);
	for (unsigned i = 0; err == 0 && i < TABLE_OPS && s->in->left > 0; i++) {
		unsigned op = fuzz_byte(s->in);
		int got;

		if (op % 16 == 15) {
			table_spoil(s);
			continue;
		}
		got = table_op(s, &c, t, op % 16);
		FUZZ_CHECK(got >= -FAR_EAGAIN);
		FUZZ_CHECK(!s->whole || got != -FAR_ECORRUPT);
		FUZZ_CHECK(!s->whole || s->busy || op % 16 != 8 || got == 0);
	}
	image_close(&c, t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in);
	struct table s = { .in = &in, .whole = true };

	s.damages = mode >> 2 & (TABLE_DAMAGES - 1);
	s.early = mode & 0x20;
	s.busy = (mode & 3) % IMAGE_KINDS != IMAGE_WHOLE || mode & 0x80;
	s.im = image_start((enum image_kind)((mode & 3) % IMAGE_KINDS), mode >> 6);
	for (; s.early && s.damages > 0; s.damages--)
		table_spoil(&s);
	image_spawn(s.im, 0, table_client, &s);
	if (mode & 0x80)
		image_spawn(s.im, 1, table_client, &s);
	image_run(s.im);
	FUZZ_CHECK(!far_sim_exhausted(s.im->sim));
	image_stop(s.im);
	return 0;
}
