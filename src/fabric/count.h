/* SPDX-License-Identifier: Apache-2.0 */
/* count.h -- what operations cost on an Ethernet with RoCEv2. */
#ifndef FAR_FABRIC_COUNT_H
#define FAR_FABRIC_COUNT_H

#include <farside/fabric.h>

/* One operation as it is sent. */
void fabric_count_op(struct far_count *c, const struct far_op *op);

/* The reply of a CALL, `len` bytes. */
void fabric_count_reply(struct far_count *c, uint64_t len);

#endif
