/* SPDX-License-Identifier: Apache-2.0 */
/* name.h -- what tables, designs and leases may be called. */
#ifndef FAR_POOL_NAME_H
#define FAR_POOL_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Do the first `max` bytes of `name` hold a string of 1 to max - 1 characters out of A-Z a-z 0-9 . _ -? */
static inline bool
pool_name_is_good(const char *name, size_t max)
{
	size_t len = strnlen(name, max);

	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '.' &&
		    c != '_' && c != '-')
			return false;
	}
	return len > 0 && len < max;
}

#endif
