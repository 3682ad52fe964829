/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile.h -- the constants of the simulator's performance mode, from files that people can read and write.
 *
 * A profile is a file NAME.ini of lines "key = value"; "#" starts a comment. Keys that a file does not name are 0,
 * which means free or unlimited. They are looked for in the folder that FARSIDE_PROFILES names, then beside the
 * program (../share/farside/profiles), then where the program was to be installed.
 */
#ifndef FAR_LAB_PROFILE_H
#define FAR_LAB_PROFILE_H

#include <stddef.h>

#include "fabric/nic.h"

/* Reads the profile of that name, or the file at that path when there is a "/" in it. -FAR_ENOENT, -FAR_EINVAL or
 * -FAR_EIO; then `message` (of message_len bytes) holds a sentence: what is wrong in which line, or which profiles
 * there are. */
int profile_load(const char *name, struct nic_profile *out, char *message, size_t message_len);

/* Reads a profile from `text`, which ends with a NUL. `where` is how messages call it. -FAR_EINVAL. */
int profile_parse(const char *text, const char *where, struct nic_profile *out, char *message, size_t message_len);

#endif
