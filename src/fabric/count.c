/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.c -- bytes of operations in RoCEv2 frames.
 *
 * A frame has 62 B around its payload: Ethernet 14 + check sum 4, IPv4 20, UDP 8, base transport header 12,
 * invariant check sum 4. READ and WRITE requests add 16 B (address, key, length), atomics 28; responses add 4, those of
 * atomics 12. A CALL is a SEND each way, each acknowledged.
 */
#include "fabric/count.h"

enum {
	COUNT_FRAME = 62,
	COUNT_MTU = 4096,
	COUNT_ADDRESS = 16,
	COUNT_ATOMIC = 28,
	COUNT_ACK = 4,
	COUNT_ATOMIC_ACK = 12,
};

/* Frames and payload of a message of `len` bytes. */
static inline uint64_t
count_frames(uint64_t len)
{
	return len +
	       (len <= COUNT_MTU ? COUNT_FRAME : (len + COUNT_MTU - 1) / COUNT_MTU * COUNT_FRAME);
}

void
fabric_count_op(struct far_count *c, const struct far_op *op)
{
	uint64_t len = op->len;

	c->verbs[op->code]++;
	switch (op->code) {
	case FAR_OP_READ:
		c->bytes_out += COUNT_FRAME + COUNT_ADDRESS;
		c->bytes_in += count_frames(len) + COUNT_ACK;
		c->payload_in += len;
		break;
	case FAR_OP_WRITE:
		c->bytes_out += count_frames(len) + COUNT_ADDRESS;
		c->bytes_in += COUNT_FRAME + COUNT_ACK;
		c->payload_out += len;
		break;
	case FAR_OP_CAS:
	case FAR_OP_FAA:
		c->bytes_out += COUNT_FRAME + COUNT_ATOMIC;
		c->bytes_in += COUNT_FRAME + COUNT_ATOMIC_ACK;
		c->payload_out += op->code == FAR_OP_CAS ? 16 : 8;
		c->payload_in += 8;
		break;
	case FAR_OP_CALL:
		c->bytes_out += count_frames(len);
		c->bytes_in += COUNT_FRAME + COUNT_ACK;
		c->payload_out += len;
		break;
	}
}

void
fabric_count_reply(struct far_count *c, uint64_t len)
{
	c->bytes_in += count_frames(len);
	c->bytes_out += COUNT_FRAME + COUNT_ACK;
	c->payload_in += len;
}

void
far_count_add(struct far_count *sum, const struct far_count *c)
{
	sum->round_trips += c->round_trips;
	for (int i = 0; i < FAR_OP_CODES; i++)
		sum->verbs[i] += c->verbs[i];
	sum->bytes_out += c->bytes_out;
	sum->bytes_in += c->bytes_in;
	sum->payload_out += c->payload_out;
	sum->payload_in += c->payload_in;
	sum->retries += c->retries;
	sum->false_hits += c->false_hits;
	sum->split_waits += c->split_waits;
	sum->combined += c->combined;
}

void
far_count_sub(struct far_count *sum, const struct far_count *c)
{
	sum->round_trips -= c->round_trips;
	for (int i = 0; i < FAR_OP_CODES; i++)
		sum->verbs[i] -= c->verbs[i];
	sum->bytes_out -= c->bytes_out;
	sum->bytes_in -= c->bytes_in;
	sum->payload_out -= c->payload_out;
	sum->payload_in -= c->payload_in;
	sum->retries -= c->retries;
	sum->false_hits -= c->false_hits;
	sum->split_waits -= c->split_waits;
	sum->combined -= c->combined;
}
