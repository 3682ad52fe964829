/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h -- the bytes of a memory node's region.
 *
 *	0                superblock (4 KiB): identity, checked by every client; then the pool epoch
 *	sessions_off     session table: one 64-byte line per client session. The home node (node 0) holds the lines
 *	                 that clients read and write; the others note there who owns chunks of theirs
 *	roots_off        named-root table: one 128-byte entry per table. Home node; the others note there only which
 *	                 table a number stands for
 *	private_off      the node's own notes on sessions, a 64-byte line each; clients never look
 *	pages_off        page table: one word per 64 KiB page of the data area
 *	data_off         data area, 2 MiB aligned (64 KiB in regions below 4 MiB): chunks = runs of pages
 *
 * Who writes what. The node (its control endpoint) writes the superblock, the sessions' serials, roots, private
 * part and page table, each change one 8-byte store or ordered so that a crash between two stores is repaired at
 * start. Clients READ them. Clients CAS the pool epoch and WRITE their own session's `word`; nobody else does.
 * Chunks belong to clients: their bitmaps are changed by FAA only.
 */
#ifndef FAR_POOL_LAYOUT_H
#define FAR_POOL_LAYOUT_H

#include <stdint.h>

#include "pool/class.h"

#define POOL_MAGIC   0x3145444953524146ULL /* "FARSIDE1" */
#define POOL_ENDIAN  0x0102030405060708ULL

enum {
	POOL_FORMAT = 1,
	POOL_SUPER_LEN = 4096,
	POOL_SESSIONS = 1024,
	POOL_ROOTS = 256,
	POOL_NODES = 16,
	POOL_PAGE = 64 << 10,
	POOL_SUPERPAGE = 2 << 20,
};

#define POOL_SERIAL_MAX ((UINT64_C(1) << 56) - 1) /* of sessions and tables: beside a serial there is room for a kind */
#define POOL_REGION_MAX (UINT64_C(1) << 46)       /* bytes: an index packs an address into so many bits */

/* All fields up to `sum` are fixed once the node joined a pool. */
struct pool_super {
	uint64_t magic, endian;
	uint32_t format, page_len;
	uint64_t region_len;
	uint64_t pool_id[2];          /* zero until a first client forms the pool */
	uint32_t node, nodes_n;
	uint32_t sessions_n, roots_n; /* lines of the tables; small regions have fewer than POOL_SESSIONS, POOL_ROOTS */
	uint64_t sessions_off, roots_off, private_off, pages_off, pages_n, data_off;
	uint64_t generation;          /* random at format: a node that comes back empty has another one */
	uint64_t generations[POOL_NODES]; /* of all nodes when the pool was formed */
	uint64_t sum;                 /* XXH3-64 of everything above */
	uint64_t pad[32];
	/* Offset 512: the pool epoch, home node only. Starts at 1; changed by CAS, one step at a time. */
	uint64_t epoch;
	uint64_t pad2[7];
	/* Offset 576: written by the node. */
	uint64_t next_serial;         /* serials handed out so far */
	uint64_t sessions_high;       /* session lines at and above were never used */
	uint64_t pages_free;          /* no chunk covers them */
	uint64_t quarantine_n;        /* sessions whose client this node cannot stop, */
	uint64_t quarantine_pages;    /* pages of their chunks, */
	uint64_t quarantine_pid;      /* and the process of one of them; 0: there is none, or it is not known */
	uint64_t pad3[2];
};
_Static_assert(sizeof(struct pool_super) == 640, "superblock");
_Static_assert(__builtin_offsetof(struct pool_super, epoch) == 512, "epoch has its own line");

/*
 * A session's line. serial: 0 = free, else unique in the pool's life (never reused, starts at 1). word is the
 * client's: announced epoch : 48 | beat : 16. A client is silent when its word does not change.
 */
struct pool_session_line {
	uint64_t serial;
	uint64_t word;
	uint64_t quarantined; /* the node's: 1 when FENCE could not stop the client */
	uint64_t pad[5];
};
_Static_assert(sizeof(struct pool_session_line) == 64, "session line");

/* The node's note on the session of the same line. */
struct pool_private {
	uint64_t serial;      /* whom `note` is about; it counts only while the session line holds it too */
	uint64_t note[2];     /* who that is, in the words of the fabric (shm: process id, its start time) */
	uint64_t range_next;  /* number of the next range of sequence numbers of this line: kept for ever */
	uint64_t pad[4];
};
_Static_assert(sizeof(struct pool_private) == 64, "private line");

enum { POOL_RANGE_BITS = 20, POOL_SEQUENCE_BITS = 48 };

#define POOL_WORD(epoch, beat)  ((uint64_t)(epoch) << 16 | ((beat) & 0xffff))
#define POOL_EPOCH_MAX          ((UINT64_C(1) << 48) - 1)
#define POOL_WORD_EPOCH(w)      ((uint64_t)(w) >> 16)

/*
 * A named root. state: 0 free, else kind : 8 | serial : 56; serial is unique in the pool's life. The node stores
 * `state` last; as a READ may tear, a client trusts an entry when it found the same words twice. A dropped table is
 * safe to free when every session announced an epoch later than `epoch`, given that each session looks at the roots
 * of its open tables AFTER it read the epoch that it is going to announce (in a later chain).
 */
struct pool_root {
	uint64_t state;
	uint64_t head;        /* far_addr of the design's header, 0 while the table is being made */
	uint64_t seed;        /* of the table's hash; secret */
	uint64_t epoch; /* POOL_ROOT_DROPPED: pool epoch read after the name was removed; UINT64_MAX: not yet read */
	char design[16];      /* NUL-padded */
	char name[64];        /* NUL-padded */
	uint64_t pad[2];
};
_Static_assert(sizeof(struct pool_root) == 128, "root");

enum pool_root_kind {
	POOL_ROOT_FREE = 0,
	POOL_ROOT_MAKING = 1, /* name taken, head not set; its maker is session `head` while it lasts */
	POOL_ROOT_LIVE = 2,
	POOL_ROOT_DROPPED = 3, /* name gone, memory waits for grace */
};

#define POOL_ROOT_STATE(kind, serial) ((uint64_t)(kind) << 56 | (serial))
#define POOL_ROOT_KIND(state)         ((unsigned)((state) >> 56))
#define POOL_ROOT_SERIAL(state)       ((state) & 0xffffffffffffffULL)

/*
 * A page word describes the chunk that starts at its page:
 * kind : 2 | flags : 6 | class : 8 | table (root's number) : 8 | run in pages : 20 | owner (session line + 1,
 * 0 = orphan) : 16. The owner is a line of this node's own session table. Chunks of 2 MiB and more start at a
 * superpage, smaller ones lie within one, and a superpage holds one kind only (not in regions below 8 MiB).
 */
enum pool_page_kind {
	POOL_PAGE_FREE = 0,
	POOL_PAGE_BLOCKS = 1,
	POOL_PAGE_INDEX = 2,
	POOL_PAGE_INSIDE = 3, /* belongs to the chunk that starts `run` pages earlier; nothing else is set */
};
enum pool_page_flags {
	POOL_PAGE_DIRTY = 1,       /* orphan of a dead client: its bitmap does not tell which blocks are free */
	POOL_PAGE_QUARANTINED = 2, /* its owner could not be stopped: not reused before that process has ended */
};

struct pool_page {
	unsigned kind, flags, class, table, run, owner;
};

static inline uint64_t
pool_page_pack(struct pool_page p)
{
	return (uint64_t)p.kind << 62 | (uint64_t)p.flags << 56 | (uint64_t)p.class << 48 |
	       (uint64_t)p.table << 40 | (uint64_t)p.run << 16 | p.owner;
}

static inline struct pool_page
pool_page_unpack(uint64_t w)
{
	struct pool_page p = { (unsigned)(w >> 62), (unsigned)(w >> 56) & 0x3f, (unsigned)(w >> 48) & 0xff,
			       (unsigned)(w >> 40) & 0xff, (unsigned)(w >> 16) & 0xfffff, (unsigned)w & 0xffff };
	return p;
}

/*
 * A chunk holds blocks of one class for one table: a bitmap, then the blocks. Bit i set: block i was unlinked (or
 * never used) and waits for the chunk's owner, who clears the bit when it takes the block back. Set by FAA of
 * 1 << i by whoever unlinked the block, cleared by FAA of -(1 << i) by the owner; both only for a bit known to be
 * in the other state, so that no carry ever runs. One block per chunk above POOL_CHUNK_MAX / 4.
 */
enum {
	POOL_CHUNK_MAX = POOL_SUPERPAGE, /* of several blocks */
};

/* Blocks of `class` in a chunk of `run` pages, and where the first starts. */
static inline uint32_t
pool_chunk_blocks(unsigned class, uint64_t run, uint64_t *first_off)
{
	uint64_t len = run * POOL_PAGE, block = pool_class_len(class);
	uint64_t n = (len - POOL_UNIT) / block, head;

	/* n shrinks until bitmap and blocks fit; the bitmap is rounded up to 64 B lines of 512 bits. */
	for (;; n--) {
		head = (n + 511) / 512 * POOL_UNIT;
		if (head + n * block <= len)
			break;
	}
	*first_off = head;
	return (uint32_t)n;
}

/* Words of a bitmap that has a bit for each of `n` blocks. */
static inline uint32_t
pool_bitmap_words(uint32_t n)
{
	return (n + 63) / 64;
}

/* The bits of word `w`, of those, that stand for a block. */
static inline uint64_t
pool_bitmap_mask(uint32_t n, uint32_t w)
{
	uint32_t left = n - w * 64;

	return left < 64 ? ((uint64_t)1 << left) - 1 : UINT64_MAX;
}

#endif
