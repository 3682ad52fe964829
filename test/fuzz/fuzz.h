/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h -- what the fuzz targets share: taking an input apart, and saying what went wrong.
 *
 * A target defines LLVMFuzzerTestOneInput(). libFuzzer runs it, or replay.c in builds without a fuzzer. An input is a
 * program of small choices; where it ends, every further choice is 0.
 */
#ifndef FAR_FUZZ_H
#define FAR_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stays on everywhere: a finding is a crash. */
#define FUZZ_CHECK(cond)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct fuzz_in {
	const uint8_t *at;
	size_t left;
};

/* Up to 8 bytes, least significant first. */
static inline uint64_t
fuzz_word(struct fuzz_in *in, unsigned bytes)
{
	uint64_t word = 0;

	for (unsigned i = 0; i < bytes && in->left > 0; i++, in->at++, in->left--)
		word |= (uint64_t)*in->at << 8 * i;
	return word;
}

static inline unsigned
fuzz_byte(struct fuzz_in *in)
{
	return (unsigned)fuzz_word(in, 1);
}

/* At most `max` bytes as a string of its own, which the caller frees: a sanitizer notices what reads past its end. */
static inline char *
fuzz_string(struct fuzz_in *in, size_t max)
{
	size_t len = in->left < max ? in->left : max;
	char *s = malloc(len + 1);

	FUZZ_CHECK(s);
	if (len > 0)
		memcpy(s, in->at, len);
	s[len] = '\0';
	in->at += len;
	in->left -= len;
	return s;
}

/* Puts bytes into a file of this process's own; returns its path. */
static inline const char *
fuzz_file(const void *data, size_t len)
{
	static char path[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		FUZZ_CHECK(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	FUZZ_CHECK(ftruncate(fd, 0) == 0);
	FUZZ_CHECK(pwrite(fd, data, len, 0) == (ssize_t)len);
	return path;
}

#endif
