/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h -- the client side of memory nodes behind RDMA devices. */
#ifndef FAR_FABRIC_VERBS_H
#define FAR_FABRIC_VERBS_H

#include "fabric/backend.h"

extern const struct far_fabric_ops verbs_fabric_ops;

#endif
