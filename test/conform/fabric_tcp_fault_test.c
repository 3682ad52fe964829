/* SPDX-License-Identifier: Apache-2.0 */
/* The same clients on one loop, while one chain of ten fails. */
#include "conform/fabric_process.h"

int
main(int argc, char **argv)
{
	struct conform_backend b = conform_tcp(0);

	b.threads = false;
	b.faults = 0.1;
	return fabric_conform(&b, argc, argv);
}
