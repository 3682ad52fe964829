/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.c -- records in shared memory.
 *
 * A record is there when its call's stamp is: that word is stored last, and a record is complete when its return's
 * stamp is. A process that is killed in between leaves a record that begins nothing, as its operation had not begun.
 */
#include "lab/recorder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/base.h"

enum { RECORDER_CANCELLED = HISTORY_ITEM + 1 };

/* The head of the shared memory; each word that all write to has a line of its own. */
struct recorder_head {
	_Alignas(64) uint64_t stamp;
	_Alignas(64) uint32_t lanes_used;
};

struct recorder {
	struct recorder_head *head;
	struct history_op *ops; /* lanes_n times lane_len */
	uint32_t lanes_n, lane_len;
	size_t size;
};

static uint64_t
recorder_stamp(struct recorder *r)
{
	return __atomic_add_fetch(&r->head->stamp, 1, __ATOMIC_SEQ_CST);
}

int
recorder_new(uint32_t lanes, uint32_t len, struct recorder **out)
{
	struct recorder *r;
	void *memory;

	if (lanes == 0 || len == 0)
		return -FAR_EINVAL;
	if (!(r = calloc(1, sizeof(*r))))
		return -FAR_ENOMEM;
	r->lanes_n = lanes;
	r->lane_len = len;
	r->size = sizeof(*r->head) + (size_t)lanes * len * sizeof(*r->ops);
	memory = mmap(NULL, r->size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		free(r);
		return -FAR_ENOMEM;
	}
	r->head = memory;
	r->ops = (struct history_op *)(r->head + 1);
	*out = r;
	return 0;
}

void
recorder_free(struct recorder *r)
{
	if (!r)
		return;
	munmap(r->head, r->size);
	free(r);
}

int
recorder_open(struct recorder *r, struct recorder_lane *out)
{
	uint32_t lane = __atomic_load_n(&r->head->lanes_used, __ATOMIC_SEQ_CST);

	do {
		if (lane == r->lanes_n)
			return -FAR_ENOMEM;
	} while (!__atomic_compare_exchange_n(&r->head->lanes_used, &lane, lane + 1, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	*out = (struct recorder_lane){ .r = r, .lane = lane };
	return 0;
}

uint32_t
recorder_room(const struct recorder_lane *l)
{
	return l->r->lane_len - l->used;
}

static struct history_op *
recorder_next(struct recorder_lane *l, const struct history_op *op, uint64_t stamp)
{
	struct history_op *to = &l->r->ops[(size_t)l->lane * l->r->lane_len + l->used];

	FAR_ASSERT(l->used < l->r->lane_len);
	l->used++;
	*to = *op;
	__atomic_store_n(&to->call, stamp, __ATOMIC_SEQ_CST);
	return to;
}

struct history_op *
recorder_call(struct recorder_lane *l, uint32_t kind, uint32_t key, uint64_t expect)
{
	struct history_op op = {
		.kind = kind,
		.key = key,
		.expect = expect,
		.id = history_id(l->lane + 1, l->used + 1),
	};

	return recorder_next(l, &op, recorder_stamp(l->r));
}

void
recorder_return(struct recorder_lane *l, struct history_op *op, int result)
{
	op->result = result;
	__atomic_store_n(&op->ret, recorder_stamp(l->r), __ATOMIC_SEQ_CST);
}

void
recorder_cancel(struct history_op *op)
{
	op->kind = RECORDER_CANCELLED;
}

void
recorder_item(struct recorder_lane *l, const struct history_op *scan, uint32_t key,
	      uint64_t version, uint64_t value)
{
	struct history_op op = {
		.kind = HISTORY_ITEM, .key = key, .id = scan->id, .version = version, .value = value
	};

	recorder_next(l, &op, scan->call);
}

int
recorder_collect(const struct recorder *r, struct history *h)
{
	uint32_t lanes = __atomic_load_n(&r->head->lanes_used, __ATOMIC_SEQ_CST);
	int err = 0;

	for (uint32_t lane = 0; lane < lanes; lane++) {
		const struct history_op *ops = &r->ops[(size_t)lane * r->lane_len];

		for (uint32_t i = 0; i < r->lane_len && !err; i++) {
			struct history_op op = ops[i];

			if (!__atomic_load_n(&ops[i].call, __ATOMIC_SEQ_CST))
				break;
			if (op.kind == RECORDER_CANCELLED)
				continue;
			/* A pending operation may have left half of what it found. */
			if (!op.ret && op.kind != HISTORY_ITEM)
				op.value = op.version = 0;
			err = history_add(h, &op);
		}
	}
	return err;
}
