/* SPDX-License-Identifier: Apache-2.0 */
/* program.cc -- the same from C++. */
#include <farside/far.h>

#include <cstdio>

int
main()
{
	struct far *f = nullptr;
	struct far_bytes key = FAR_STR("device");
	int err = far_open("nowhere:", nullptr, &f);

	std::printf("%s: %s, %zu\n", far_errname(err), far_strerror(err), key.len);
	return err == -FAR_EINVAL && f == nullptr ? 0 : 1;
}
