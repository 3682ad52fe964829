/* SPDX-License-Identifier: Apache-2.0 */
/* The same against agents that copy word by word, one connection's beside another's. */
#include "conform/fabric_process.h"

int
main(int argc, char **argv)
{
	struct conform_backend b = conform_tcp(11);

	return fabric_conform(&b, argc, argv);
}
