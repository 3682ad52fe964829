/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_tcp.h -- the tcp backend for the conformance suite, its nodes as processes. */
#ifndef FAR_TEST_FABRIC_TCP_H
#define FAR_TEST_FABRIC_TCP_H

#include "conform/fabric_conform.h"

/* `weakness`: 0, or a seed for agents that are as weakly ordered as hardware may be. */
struct conform_backend conform_tcp(uint64_t weakness);

#endif
