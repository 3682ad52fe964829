/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_process.h -- real memory nodes for the conformance suite: processes of their own. */
#ifndef FAR_TEST_FABRIC_PROCESS_H
#define FAR_TEST_FABRIC_PROCESS_H

#include "conform/fabric_conform.h"

/* Reached through shared memory. */
struct conform_backend conform_shm(void);

/* Reached through their agents. `weakness`: 0, or a seed for agents that are as weakly ordered as hardware may be. */
struct conform_backend conform_tcp(uint64_t weakness);

#endif
