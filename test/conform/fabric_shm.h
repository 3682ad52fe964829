/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_shm.h -- the shm backend for the conformance suite, its nodes inside the test program. */
#ifndef FAR_TEST_FABRIC_SHM_H
#define FAR_TEST_FABRIC_SHM_H

#include "conform/fabric_conform.h"

struct conform_backend conform_shm(void);

#endif
