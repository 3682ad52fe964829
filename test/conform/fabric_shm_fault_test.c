/* SPDX-License-Identifier: Apache-2.0 */
/* The same clients on one loop, while one chain of ten fails. */
#include "conform/fabric_shm.h"

int
main(int argc, char **argv)
{
	struct conform_backend b = conform_shm();

	b.threads = false;
	b.faults = 0.1;
	b.rounds = 4000;
	return fabric_conform(&b, argc, argv);
}
