/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- the remote bytes of a RACE table (Zuo et al., USENIX ATC 2021, section 4.1).
 *
 *	head       256 B on the home node: {constants} {root word, directory version, doubling lock, splits}
 *	directory  2^depth words on the home node: low hash bits -> subtable
 *	subtable   {fate line} {groups of three buckets: main 0, shared, main 1}
 *
 *	            64 B          64 B          64 B
 *	        +-----------+ +-----------+ +-----------+
 *	group   |  main 0   | |  shared   | |  main 1   |     bucket = header + 7 slots
 *	        +-----------+ +-----------+ +-----------+
 *	         \_____ pair of main 0 ___/
 *	                       \____ pair of main 1 ____/     pair = 128 B, one READ
 *
 * A key hashes to two main buckets of one subtable and may lie in any of the 28 slots of their pairs.
 *
 * slot word       fingerprint 8 | class 7 | tentative 1 | frozen 1 | 0 1 | node 6 | offset / 64 : 40;
 *                 all zero = empty; frozen alone = empty and frozen
 * bucket header   depth 8 | tag 24 | suffix 32; constant while the subtable lives
 * directory word  depth 8 | frozen 1 | 0 9 | node 6 | offset / 64 : 40
 * root word       as a directory word: depth of the directory and where it lies
 * fate word       kind 2 | 0 16 | node 6 | offset / 64 : 40 (decided, retired: first child) or serial 56 (claimed)
 *
 * Only CAS and FAA ever change slots, directory words, the root and fate words once they are shared.
 */
#ifndef FAR_RACE_LAYOUT_H
#define FAR_RACE_LAYOUT_H

#include <farside/fabric.h>

#include "pool/class.h"

#define RACE_MAGIC 0x3130304543415246ULL /* "FRACE001" */

enum {
	RACE_SLOTS = 7, /* per bucket */
	RACE_BUCKET_WORDS = 8,
	RACE_PAIR_WORDS = 16,
	RACE_PAIR_LEN = 128,
	RACE_GROUP_LEN = 192,
	RACE_FATE_LEN = 64,
	RACE_GROUPS = 63, /* default: a subtable of 12,160 B fits a class of 12,288 */
	RACE_GROUPS_MAX = 4096,
	RACE_DEPTH_MAX = 21, /* directory of 16 MiB: the largest that a block holds */
	RACE_HEAD_LEN = 256,
};

struct race_head {
	uint64_t magic;
	uint64_t groups; /* per subtable, 1 .. RACE_GROUPS_MAX */
	uint64_t serial; /* of the root entry that names this table */
	uint64_t sum;    /* XXH3-64 of the three words before */
	uint64_t pad[4];
	/* Offset 64: changing words, read together. */
	uint64_t root;
	uint64_t version;  /* FAA + 1 after each change of the directory, before memory is retired */
	uint64_t doubling; /* 0 or the serial of the session that doubles */
	uint64_t splits;   /* FAA + 1 per split */
	uint64_t pad2[20];
};
_Static_assert(sizeof(struct race_head) == RACE_HEAD_LEN, "head");
_Static_assert(__builtin_offsetof(struct race_head, root) == 64, "root line");

struct race_root_line {
	uint64_t root, version, doubling, splits;
};

struct race_fate_line {
	uint64_t fate;
	uint64_t high;  /* packed address of the second child; WRITTEN by the claimer before it decides */
	uint64_t ident; /* the header of every bucket here */
	uint64_t pad[5];
};
_Static_assert(sizeof(struct race_fate_line) == RACE_FATE_LEN, "fate line");

/* Packed addresses: node 6 | offset / 64 : 40. ----------------------------------------------------------- */

#define RACE_ADDR_MASK (((uint64_t)1 << 46) - 1)

static inline uint64_t
race_pack(struct far_addr a)
{
	return (uint64_t)far_addr_node(a) << 40 | far_addr_off(a) / POOL_UNIT;
}

static inline struct far_addr
race_unpack(uint64_t word)
{
	return far_addr_make((unsigned)(word >> 40) & 0x3f, (word & (((uint64_t)1 << 40) - 1)) * POOL_UNIT);
}

/* Is word `i` of a subtable's buckets a header? Else it is a slot. */
static inline bool
race_is_header(uint64_t i)
{
	return i % RACE_BUCKET_WORDS == 0;
}

/* Slots. ------------------------------------------------------------------------------------------------- */

#define RACE_FROZEN    ((uint64_t)1 << 47)
#define RACE_TENTATIVE ((uint64_t)1 << 48)

static inline uint64_t
race_slot(uint8_t fp, unsigned class, struct far_addr block)
{
	return (uint64_t)fp << 56 | (uint64_t) class << 49 | race_pack(block);
}

static inline uint8_t
race_slot_fp(uint64_t w)
{
	return (uint8_t)(w >> 56);
}

static inline unsigned
race_slot_class(uint64_t w)
{
	return (unsigned)(w >> 49) & 0x7f;
}

/* Holds a key that readers see. */
static inline bool
race_slot_live(uint64_t w)
{
	return (w & ~RACE_FROZEN) != 0 && !(w & RACE_TENTATIVE);
}

/* Directory and root words. ------------------------------------------------------------------------------ */

#define RACE_DIR_FROZEN ((uint64_t)1 << 55)

static inline uint64_t
race_dir(unsigned depth, struct far_addr a)
{
	return (uint64_t)depth << 56 | race_pack(a);
}

static inline unsigned
race_dir_depth(uint64_t w)
{
	return (unsigned)(w >> 56);
}

/* Headers. ----------------------------------------------------------------------------------------------- */

static inline uint64_t
race_ident(unsigned depth, uint32_t tag, uint32_t suffix)
{
	return (uint64_t)depth << 56 | (uint64_t)(tag & 0xffffff) << 32 | suffix;
}

static inline uint32_t
race_suffix(uint64_t hash, unsigned depth)
{
	return (uint32_t)(hash & (((uint64_t)1 << depth) - 1));
}

/* Fates. ------------------------------------------------------------------------------------------------- */

enum race_fate_kind {
	RACE_FATE_NONE = 0,
	RACE_FATE_CLAIMED = 1, /* a session freezes and copies; what is frozen here is still current */
	RACE_FATE_DECIDED = 2, /* the two children are current, this subtable is history */
	RACE_FATE_RETIRED = 3, /* and its memory was given back, once */
};

#define RACE_FATE(kind, payload) ((uint64_t)(kind) << 62 | (payload))
#define RACE_FATE_KIND(w)        ((unsigned)((w) >> 62))
#define RACE_FATE_SERIAL(w)      ((w)&0xffffffffffffffULL)

#endif
