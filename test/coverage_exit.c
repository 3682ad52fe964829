/* SPDX-License-Identifier: Apache-2.0 */
/*
 * coverage_exit.c -- part of builds with -Db_coverage=true alone: a process that leaves by _exit() writes its counters.
 *
 * Nodes are children that end so, and most of a node's code runs in them. The linker puts this in the place of _exit().
 */
#include <gcov.h>

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);

void
__wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}
