/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a memory node that starts on a damaged file. It refuses the file, or its tables are consistent and it
 * serves as always.
 */
#include "fuzz/requests.h"

enum { NODE_LEN = 4 << 20,
       NODE_REQUESTS = 24 };

static const struct control_request node_past[] = {
	{ .code = CONTROL_SESSION },
	{ .code = CONTROL_ROOT_NEW, .design = "race", .name = "t" },
	{ .code = CONTROL_GRANT, .root_serial = 2, .kind = POOL_PAGE_INDEX, .class = 3, .run = 1 },
	{ .code = CONTROL_GRANT, .root_serial = 2, .kind = POOL_PAGE_BLOCKS, .class = 3, .run = 4 },
	{ .code = CONTROL_ROOT_SET, .root_serial = 2, .off = 1 << 20 },
	{ .code = CONTROL_ROOT_NEW, .design = "race", .name = "u" },
	{ .code = CONTROL_GRANT, .table = 1, .root_serial = 3, .kind = POOL_PAGE_BLOCKS, .class = 1, .run = 2 },
	{ .code = CONTROL_ROOT_SET, .table = 1, .root_serial = 3, .off = 1 << 20 },
	{ .code = CONTROL_ROOT_DROP, .table = 1, .root_serial = 3 },
	{ .code = CONTROL_GRANT, .root_serial = 2, .kind = POOL_PAGE_BLOCKS, .class = 30, .run = 9 },
	{ .code = CONTROL_RANGE },
	{ .code = CONTROL_ROOT_NEW, .design = "race", .name = "v" },
};

/* A node with tables in all states, as a kill leaves it. Its head, which is what a start looks at. */
static uint8_t *
node_image(uint64_t *head_len)
{
	struct requests r = { .len = NODE_LEN };
	struct control_request form = { .code = CONTROL_FORM, .pool_id = { 7, 8 }, .nodes_n = 2 };
	const struct pool_super *super;
	uint8_t *image;

	env_rig_init(&r.around);
	r.region = aligned_alloc(4096, NODE_LEN);
	FUZZ_CHECK(r.region);
	memset(r.region, 0, NODE_LEN);
	FUZZ_CHECK(node_format(r.region, r.len, &r.around.env) == 0);
	FUZZ_CHECK(node_open(r.region, r.len, &r.around.env, &r.node) == 0);
	requests_serve(&r, 0, &form);
	for (size_t i = 0; i < FAR_LEN(node_past); i++) {
		struct control_reply reply;

		FUZZ_CHECK(node_serve(r.node, &r.at[0], &node_past[i], &reply) && reply.err == 0);
	}
	node_close(r.node);
	super = r.region;
	*head_len = super->pages_off + super->pages_n * sizeof(uint64_t);
	image = malloc(*head_len);
	FUZZ_CHECK(image);
	memcpy(image, r.region, *head_len);
	free(r.region);
	return image;
}

static void
node_damage(struct requests *r, struct fuzz_in *in, uint64_t head_len)
{
	const struct pool_super *super = r->region;
	/* Parts of the head, so that each gets its share: most of it are lines that nobody ever used. */
	const uint64_t parts[] = {
		0, 512, super->sessions_off, super->roots_off, super->private_off, super->pages_off
	};
	unsigned how = fuzz_byte(in);
	uint64_t at = parts[how % FAR_LEN(parts)] / 8 + fuzz_byte(in), *words = r->region, word = fuzz_word(in, 8);

	at %= head_len / 8;
	switch (how / 6 % 3) {
	case 0:
		words[at] = word;
		break;
	case 1:
		words[at] ^= UINT64_C(1) << word % 64;
		break;
	default:
		words[at] = words[(at + word) % (head_len / 8)];
	}
}

static int
node_each(void *arg, uint64_t serial, const uint64_t note[2])
{
	FUZZ_CHECK(serial != 0 && note);
	return ++*(unsigned *)arg > 1000000;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *image, *region;
	static uint64_t head_len;
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in), left = 0;
	struct requests r = { .len = NODE_LEN };
	struct pool_super *super;
	int err;

	env_rig_init(&r.around);
	if (!image) {
		image = node_image(&head_len);
		region = mmap(NULL, NODE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		FUZZ_CHECK(region != MAP_FAILED);
	}
	memcpy(region, image, head_len);
	super = r.region = region;
	for (unsigned i = 0; i < (mode & 7); i++)
		node_damage(&r, &in, head_len);
	if (mode & 8)
		super->sum = node_super_sum(super);
	/* A file that was cut, or had something appended. */
	if (mode >> 4 == 15)
		r.len = fuzz_word(&in, 3) % NODE_LEN / 8 * 8;
	err = node_left(r.region, r.len, node_each, &left);
	FUZZ_CHECK(err == 0 || err == -FAR_EFORMAT || err == -FAR_ECORRUPT);
	err = node_open(r.region, r.len, &r.around.env, &r.node);
	FUZZ_CHECK(err == 0 || err == -FAR_EFORMAT || err == -FAR_ECORRUPT);
	if (err != 0)
		return 0;
	requests_check(&r);
	requests_run(&r, &in, NODE_REQUESTS);
	return 0;
}
