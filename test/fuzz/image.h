/* SPDX-License-Identifier: Apache-2.0 */
/* image.h -- two memory nodes in the simulator with a RACE table, made once, and damage to their bytes. */
#ifndef FAR_FUZZ_IMAGE_H
#define FAR_FUZZ_IMAGE_H

#include "base/base.h"
#include "fabric/sim.h"
#include "fuzz/fuzz.h"
#include "index/race/race.h"

enum {
	IMAGE_NODES = 2,
	IMAGE_REGION = 7 << 20,
	IMAGE_KEYS = 48, /* present in all; the same number more never were */
};

/* What the table's maker left. */
enum image_kind {
	IMAGE_WHOLE,
	IMAGE_CLAIMED, /* a client died in the middle of a split */
	IMAGE_DECIDED, /* after its decision, before the directory told of it */
	IMAGE_KINDS,
};

/* Where damage is worth its while. */
enum image_part {
	IMAGE_HEAD,
	IMAGE_DIR,
	IMAGE_FATE,
	IMAGE_HEADER,
	IMAGE_SLOT,
	IMAGE_BLOCK,
	IMAGE_BITMAP,
	IMAGE_SUPER,
	IMAGE_SESSIONS,
	IMAGE_ROOTS,
	IMAGE_PAGES,
	IMAGE_PARTS,
};

struct image {
	struct far_sim *sim;
	struct far_loop *loop;
	struct far_fabric *fabric[2];
	uint64_t fuse; /* steps that a client has to live while the image is made */
	struct {
		uint64_t *words[4096];
		uint64_t room[4096]; /* IMAGE_BLOCK: bytes from here to the block's end */
		unsigned n;
	} parts[IMAGE_PARTS];
};

/* One client with the table open. */
struct image_client {
	struct pool *pool;
	struct pool_table *pt;
	struct far_index *ix;
};

/* The image of that kind, as it was made; the nodes have just restarted on it. Aborts when it cannot be made. */
struct image *image_start(enum image_kind kind, uint64_t seed);
/* Ends a run: closes the connections. */
void image_stop(struct image *im);

/* Runs `fn` as a fiber of client 0 or 1 from the next image_run() on. */
void image_spawn(struct image *im, unsigned client, void (*fn)(struct far_task *t, void *arg), void *arg);
void image_run(struct image *im);

/* Opens a session and the table. On error what was opened is still to be closed. */
int image_open(struct image_client *c, struct far_task *t, bool create);
void image_close(struct image_client *c, struct far_task *t);

/* Key `i`; IMAGE_KEYS and more are absent. `buf` has 16 bytes. */
struct far_bytes image_key(unsigned i, char *buf);

/* Takes one change from the input: of a word of `part`, or of any word of its neighbourhood. */
void image_damage(struct image *im, struct fuzz_in *in, enum image_part part);

#endif
