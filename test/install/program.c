/* SPDX-License-Identifier: Apache-2.0 */
/* program.c -- compiled against the installed library only: opens no pool, sees the right error. */
#include <farside/far.h>
#include <stdio.h>

int
main(void)
{
	struct far *f = NULL;
	int err = far_open("nowhere:", NULL, &f);

	printf("%s: %s\n", far_errname(err), far_strerror(err));
	return err == -FAR_EINVAL && f == NULL ? 0 : 1;
}
