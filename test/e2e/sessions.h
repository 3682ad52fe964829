/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h -- for tests: how many sessions a node has open, as its file tells. */
#ifndef FAR_E2E_SESSIONS_H
#define FAR_E2E_SESSIONS_H

#include <fcntl.h>
#include <unistd.h>

#include "pool/layout.h"
#include "test.h"

static inline unsigned
sessions_in_file(const char *file)
{
	struct pool_session_line line;
	struct pool_super s;
	unsigned n = 0;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	REQUIRE(fd >= 0 && pread(fd, &s, sizeof(s), 0) == (ssize_t)sizeof(s));
	for (unsigned k = 0; k < s.sessions_n; k++) {
		off_t at = (off_t)(s.sessions_off + k * sizeof(line));

		REQUIRE(pread(fd, &line, sizeof(line), at) == (ssize_t)sizeof(line));
		n += line.serial != 0;
	}
	close(fd);
	return n;
}

#endif
