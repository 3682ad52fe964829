/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: a memory node's control endpoint. Several connections send requests, clients end, the node restarts; its
 * tables must stay consistent. When a client has scribbled over them, the node must merely live.
 */
#include "fuzz/requests.h"

enum { CONTROL_REGIONS = 3,
       CONTROL_REQUESTS = 96 };

/* As they were formatted; all but the data area, of which a node reads nothing. */
struct control_region {
	void *region, *image;
	uint64_t len, head_len;
};

static void
control_make(struct control_region *c, uint64_t len)
{
	struct requests r = { .len = len };
	const struct pool_super *super;

	env_rig_init(&r.around);
	c->region = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	FUZZ_CHECK(c->region != MAP_FAILED && node_format(c->region, len, &r.around.env) == 0);
	super = c->region;
	c->len = len;
	c->head_len = super->pages_off + super->pages_n * sizeof(uint64_t);
	c->image = malloc(c->head_len);
	FUZZ_CHECK(c->image);
	memcpy(c->image, c->region, c->head_len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* One superpage that mixes kinds; several of them; several with tables of full size. */
	static const uint64_t lens[CONTROL_REGIONS] = { 1 << 20, 7 << 20, 22 << 20 };
	static struct control_region regions[CONTROL_REGIONS];
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in), which = mode % 8 == 7 ? 2 : mode % 2;
	struct control_region *c = &regions[which];
	struct requests r = { .len = lens[which] };
	struct control_request form = {
		.code = CONTROL_FORM, .pool_id = { 7, 8 }, .node = mode >> 3 & 1, .nodes_n = 2
	};

	env_rig_init(&r.around);
	if (!c->region)
		control_make(c, lens[which]);
	memcpy(c->region, c->image, c->head_len);
	r.region = c->region;
	FUZZ_CHECK(node_open(r.region, r.len, &r.around.env, &r.node) == 0);
	if (mode & 0x10)
		requests_serve(&r, 0, &form);
	requests_run(&r, &in, CONTROL_REQUESTS);
	return 0;
}
