/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h -- requests to a memory node's control endpoint.
 *
 * The endpoint serves one request at a time, so each is atomic. It does what one-sided verbs cannot: hand out
 * memory and sessions, keep names, and stop a client. Everything else is done by verbs. A request that a client
 * sends again after a broken connection is harmless: each is idempotent or leaves at worst an orphan.
 */
#ifndef FAR_POOL_CONTROL_H
#define FAR_POOL_CONTROL_H

#include "pool/layout.h"

enum control_code {
	/* Any node. Ties the node to a pool: pool_id, node, nodes_n, generations. 0 when done or when it is so already;
	 * -FAR_EINVAL when it belongs to another pool or place. */
	CONTROL_FORM = 1,
	/* Home: opens a session for this connection. Reply: serial, slot. -FAR_ENOMEM when all are taken. */
	CONTROL_SESSION,
	/* Other nodes: tells the serial that the home node gave, so that FENCE finds this connection. Reply: slot,
	 * this node's own line. -FAR_EFENCED when that session has ended. */
	CONTROL_JOIN,
	/* Ends the connection's session; the client promises not to touch the region any more through it. Its chunks
	 * become clean orphans, with CONTROL_DIRTY dirty ones: it could not settle what their bitmaps tell. That is the
	 * one request that a quarantined session may still make. */
	CONTROL_LEAVE,
	/* Home: a range of version sequence numbers for this session. Reply: first (2^20 numbers, given once). */
	CONTROL_RANGE,
	/* A chunk for (table, kind, class), `run` pages at least, of the table that root_serial tells: -FAR_ENOENT when
	 * that one was dropped. Reply: off, run, flags (POOL_PAGE_DIRTY: an orphan
	 * of a dead client, to be scavenged before use; CONTROL_ORPHAN: a clean orphan, its bitmap tells what is
	 * free; neither: fresh, zeroed bitmap). Orphans come first unless CONTROL_FRESH is asked. -FAR_ENOMEM. */
	CONTROL_GRANT,
	/* Gives an own chunk back; all its blocks are free and past grace. With CONTROL_ORPHAN: gives it up as it is;
	 * its bitmap tells what is free (unless it still is to be scavenged), and it becomes an orphan of its table. */
	CONTROL_RELEASE,
	/* Stops session `serial` for good, then orphans its chunks (dirty). Answers when the client can no longer
	 * touch this node's memory; -FAR_EACCESS when it cannot be stopped: its chunks are quarantined then.
	 * 0 also when that session is long gone. */
	CONTROL_FENCE,
	/* Home: takes a name (ROOT_MAKING). Reply: table number, serial, seed. -FAR_EEXIST, -FAR_ENOMEM. */
	CONTROL_ROOT_NEW,
	/* Home: sets the head of a root that this session is making: ROOT_LIVE. When the session ends before, the root
	 * is dropped by the node. */
	CONTROL_ROOT_SET,
	/* Home: removes the name: ROOT_DROPPED; the node stamps `epoch` after that. -FAR_ENOENT. */
	CONTROL_ROOT_DROP,
	/* Home: frees a dropped root's entry after its memory went back. */
	CONTROL_ROOT_FREE,
	/* Any node: frees every chunk of table number `table` (dropped, past grace). Home node last. -FAR_EACCESS:
	 * some are quarantined; try again later. */
	CONTROL_TABLE_FREE,
	/* The own chunk `off`, adopted as POOL_PAGE_DIRTY, was scavenged: its bitmap tells what is free. Until then it
	 * becomes a dirty orphan again, also when the session ends cleanly. */
	CONTROL_SCAVENGED,
};

enum control_flags {
	CONTROL_ORPHAN = 0x100,
	CONTROL_FRESH = 0x200,
	CONTROL_DIRTY = 0x400,
};

struct control_request {
	uint32_t code, flags;
	uint64_t serial;          /* SESSION: 0; JOIN, FENCE: the session */
	uint64_t pool_id[2];      /* FORM */
	uint32_t node, nodes_n;   /* FORM */
	uint64_t generations[POOL_NODES]; /* FORM: of all nodes; what tells later that one came back empty */
	uint32_t table, kind, class, run; /* GRANT (kind: pool_page_kind), ROOT_*, TABLE_FREE */
	uint64_t off;             /* RELEASE, SCAVENGED: of the chunk; ROOT_SET: head */
	uint64_t root_serial; /* GRANT, ROOT_SET, ROOT_DROP, ROOT_FREE, TABLE_FREE: guards against a reused number */
	char design[16], name[64]; /* ROOT_NEW */
};

struct control_reply {
	int32_t err;              /* 0 or -FAR_E */
	uint32_t flags, table, run, slot, pad;
	uint64_t serial, off, first, seed; /* ROOT_NEW: serial is the root's */
};

#endif
