/* SPDX-License-Identifier: Apache-2.0 */
/* nic_card.h -- for tests: a network card of round numbers: 1 KiB takes 8,192 ps, a byte 8, and there is no cache. */
#ifndef FAR_FABRIC_NIC_CARD_H
#define FAR_FABRIC_NIC_CARD_H

#include "fabric/nic.h"

/* What a test wants otherwise stands behind it in the initializer: credits and threads at least. */
/* clang-format off */
#define NIC_CARD                         \
	.rtt = 2000000,                  \
	.client_message = 9000,          \
	.node_message = 7000,            \
	.client_out = 8 << 10,           \
	.client_in = 8 << 10,            \
	.node_out = 8 << 10,             \
	.node_in = 8 << 10,              \
	.frame = 100,                    \
	.mtu = 4096,                     \
	.atomic = 20000,                 \
	.atomic_same = 300000
/* clang-format on */

#endif
