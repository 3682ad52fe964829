/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Target: gzip input. The harness compresses the input, in one or several members, and damages what comes out; so
 * the decoder is reached with almost valid data, which random bytes never are.
 */
#include <zlib.h>

#include "cli/input.h"
#include "fuzz/fuzz.h"

enum { GZIP_MAX = 64 << 10 };

struct gzip {
	uint8_t packed[2 * GZIP_MAX];
	size_t len;
};

static void
gzip_member(struct gzip *g, const uint8_t *data, size_t len, unsigned level)
{
	z_stream z = { .next_in = (unsigned char *)(uintptr_t)data, .avail_in = (unsigned)len };

	/* A small window and little memory: it is made anew for each run. */
	FUZZ_CHECK(deflateInit2(&z, (int)level, Z_DEFLATED, 9 + 16, 1, Z_DEFAULT_STRATEGY) == Z_OK);
	z.next_out = g->packed + g->len;
	z.avail_out = (unsigned)(sizeof(g->packed) - g->len);
	FUZZ_CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
	g->len = sizeof(g->packed) - z.avail_out;
	deflateEnd(&z);
}

/* Reads all lines; undamaged ones must be the text. */
static void
gzip_read(const struct gzip *g, const uint8_t *text, size_t text_len, bool whole)
{
	struct far_bytes line;
	struct input *in;
	size_t at = 0;
	int err;

	FUZZ_CHECK(input_open(fuzz_file(g->packed, g->len), &in) == 0);
	while ((err = input_line(in, &line)) == 1) {
		FUZZ_CHECK(line.len > 0);
		FUZZ_CHECK(!whole || (line.len <= text_len - at && memcmp(text + at, line.data, line.len) == 0));
		at += line.len;
	}
	FUZZ_CHECK(err == 0 || (err == -FAR_EIO && input_error(in)[0] != '\0'));
	FUZZ_CHECK(!whole || (err == 0 && at == text_len));
	input_close(in);
}

static bool
gzip_has_mark(const uint8_t *text, size_t len)
{
	return (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) || (len >= 2 && memcmp(text, "\xff\xfe", 2) == 0) ||
	       (len >= 2 && memcmp(text, "\xfe\xff", 2) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gzip g;
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in), members = 1 + mode % 3, damages = mode >> 2 & 3;
	uint8_t spots[12] = { 0 };
	size_t at = 0;

	if (in.left > GZIP_MAX / 2)
		return 0;
	g.len = 0;
	if (mode & 0x80) {
		/* The bytes as they are. */
		memcpy(g.packed, in.at, g.len = in.left);
		gzip_read(&g, NULL, 0, false);
		return 0;
	}
	for (unsigned i = 0; i < damages; i++)
		memcpy(spots + i * 4, &(uint32_t){ (uint32_t)fuzz_word(&in, 4) }, 4);
	for (unsigned i = 0; i < members; i++) {
		size_t len = i + 1 == members ? in.left - at : in.left / members;

		gzip_member(&g, in.at + at, len, mode >> 4 & 3);
		at += len;
	}
	for (unsigned i = 0; i < damages; i++) {
		uint8_t *d = spots + i * 4;

		if (d[0] & 1)
			g.len -= (d[1] | d[2] << 8) % (g.len + 1);
		else if (g.len > 0)
			g.packed[(d[1] | (size_t)d[2] << 8) % g.len] ^= d[3];
	}
	gzip_read(&g, in.at, in.left, damages == 0 && !gzip_has_mark(in.at, in.left));
	return 0;
}
