/* SPDX-License-Identifier: Apache-2.0 */
#include "conform/fabric_process.h"

int
main(int argc, char **argv)
{
	struct conform_backend b = conform_shm();

	return fabric_conform(&b, argc, argv);
}
