/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lin.h -- is a history of operations on a map linearizable?
 *
 * Keys are independent, so each is checked on its own, by the search of Wing and Gong with Lowe's memory of visited
 * configurations. Every writing operation writes a value of its own, so a value names its writer.
 */
#ifndef FAR_LAB_LIN_H
#define FAR_LAB_LIN_H

#include <stdbool.h>
#include <stdint.h>

#include <farside/error.h>

enum lin_kind {
	LIN_GET,
	LIN_INSERT,
	LIN_UPDATE,
	LIN_UPSERT,
	LIN_DELETE,
	LIN_UPDATE_IF,
	LIN_DELETE_IF,
	LIN_CONTAINS, /* a GET that does not tell the value */
	LIN_KINDS,
};

struct lin_op {
	uint8_t kind;
	bool pending;     /* its outcome is unknown: it happened or not, any time after its call */
	uint16_t client;  /* for reports */
	uint32_t key;     /* small numbers from 0 */
	int result;       /* 0, -FAR_ENOENT, -FAR_EEXIST or -FAR_ECHANGED */
	uint32_t value;   /* GET that found something: 1 + index of the operation that wrote it; 0: nobody did */
	uint64_t version; /* found or written; 0: not known, as a rule of a pending writer */
	uint64_t expect;  /* the _IF kinds: the version that the key must have */
};

/* What happened, in order: calls and returns. A pending operation has no return. */
#define LIN_CALL(op)   ((uint32_t)(op) << 1)
#define LIN_RETURN(op) ((uint32_t)(op) << 1 | 1)

struct lin_history {
	const struct lin_op *ops;
	const uint32_t *events;
	uint32_t ops_n, events_n;
};

enum {
	LIN_KEY_OPS = 128, /* operations on one key at most */
	LIN_KEYS = 64,
};

/* A checker's memory, for any number of checks. */
struct lin;
int lin_new(struct lin **out);
void lin_free(struct lin *l);

/* 1: linearizable; 0: not, and *key (may be NULL) tells for which key; -FAR_EINVAL: more operations or keys than above;
 * -FAR_ETIMEOUT: gave up after a million configurations; -FAR_ENOMEM. */
int lin_check(struct lin *l, const struct lin_history *h, uint32_t *key);

const char *lin_kind_name(unsigned kind);

#endif
