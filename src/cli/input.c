/* SPDX-License-Identifier: Apache-2.0 */
/* input.c -- descriptor -> (gunzip) -> buffer -> lines. */
#include "cli/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "cli/bytes.h"

enum {
	INPUT_RAW_LEN = 256 << 10,
	INPUT_PEEK_MAX = 64 << 10,
	INPUT_KEEP = 1 << 20, /* a buffer that one long line has grown above this is given back */
};

enum input_kind {
	INPUT_UNKNOWN,
	INPUT_PLAIN,
	INPUT_GZIP,
	INPUT_GZIP_BETWEEN, /* a member has ended: the end or another member follows */
};

struct input {
	int fd;
	enum input_kind kind;
	bool raw_end; /* the descriptor has no more */
	bool end;     /* nothing more will be appended to `text` */
	bool started; /* the byte order mark was looked for */
	z_stream z;
	unsigned char *raw; /* INPUT_RAW_LEN bytes: */
	size_t raw_at, raw_len;
	struct bytes text; /* decoded; consumed up to `at`; no "\n" in [at, seen) */
	size_t at, seen;
	uint64_t line, read, size;
	const char *error;
};

int
input_open(const char *path, struct input **out)
{
	struct input *in = calloc(1, sizeof(*in));
	struct stat st;

	if (!in || !(in->raw = malloc(INPUT_RAW_LEN))) {
		free(in);
		return -FAR_ENOMEM;
	}
	in->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (in->fd >= 0 && fstat(in->fd, &st) == 0) {
		if (S_ISREG(st.st_mode))
			in->size = (uint64_t)st.st_size;
		if (S_ISDIR(st.st_mode)) {
			close(in->fd);
			in->fd = -1;
			errno = EISDIR;
		}
	}
	if (in->fd < 0) {
		free(in->raw);
		free(in);
		return -FAR_EIO;
	}
	in->error = "";
	*out = in;
	return 0;
}

void
input_close(struct input *in)
{
	if (!in)
		return;
	if (in->kind == INPUT_GZIP || in->kind == INPUT_GZIP_BETWEEN)
		inflateEnd(&in->z);
	if (in->fd != STDIN_FILENO)
		close(in->fd);
	bytes_free(&in->text);
	free(in->raw);
	free(in);
}

static int
input_fail(struct input *in, int err, const char *why)
{
	in->error = why;
	return err;
}

/* One read() appended to `raw`, which has room. */
static int
input_read_raw(struct input *in)
{
	ssize_t n;

	if (in->raw_at == in->raw_len)
		in->raw_at = in->raw_len = 0;
	n = read(in->fd, in->raw + in->raw_len, INPUT_RAW_LEN - in->raw_len);
	if (n < 0)
		return errno == EINTR ? input_fail(in, -FAR_EINTR, "interrupted")
				      : input_fail(in, -FAR_EIO, strerror(errno));
	if (n == 0)
		in->raw_end = true;
	in->raw_len += (size_t)n;
	in->read += (uint64_t)n;
	return 0;
}

static bool
input_at_magic(const struct input *in)
{
	return in->raw_len - in->raw_at >= 2 && in->raw[in->raw_at] == 0x1f &&
	       in->raw[in->raw_at + 1] == 0x8b;
}

/* Decides between plain text, gzip, and the next gzip member, once two bytes are here. */
static int
input_choose(struct input *in)
{
	int err = 0;

	while (!err && !in->raw_end && in->raw_len - in->raw_at < 2)
		err = input_read_raw(in);
	if (err)
		return err;
	if (in->kind == INPUT_GZIP_BETWEEN) {
		if (in->raw_at == in->raw_len) {
			in->end = true;
			return 0;
		}
		if (!input_at_magic(in))
			return input_fail(in, -FAR_EIO,
					  "something that is not gzip follows the gzip data");
		inflateReset(&in->z);
		in->kind = INPUT_GZIP;
		return 0;
	}
	if (!input_at_magic(in)) {
		in->kind = INPUT_PLAIN;
		return 0;
	}
	/* 15 + 16: the largest window, gzip framing. */
	if (inflateInit2(&in->z, 15 + 16) != Z_OK)
		return input_fail(in, -FAR_ENOMEM, "out of memory");
	in->kind = INPUT_GZIP;
	return 0;
}

static int
input_inflate(struct input *in)
{
	int status;

	if (bytes_room(&in->text, INPUT_RAW_LEN) != 0)
		return input_fail(in, -FAR_ENOMEM, "out of memory");
	in->z.next_in = in->raw + in->raw_at;
	in->z.avail_in = (unsigned)(in->raw_len - in->raw_at);
	in->z.next_out = (unsigned char *)in->text.data + in->text.len;
	in->z.avail_out = INPUT_RAW_LEN;
	status = inflate(&in->z, Z_NO_FLUSH);
	in->raw_at = in->raw_len - in->z.avail_in;
	in->text.len += INPUT_RAW_LEN - in->z.avail_out;
	if (status == Z_STREAM_END)
		in->kind = INPUT_GZIP_BETWEEN;
	else if (status != Z_OK && status != Z_BUF_ERROR)
		return input_fail(in, -FAR_EIO, "the gzip data is damaged");
	return 0;
}

/* Appends some bytes to `text`, or sets `end`. */
static int
input_fill(struct input *in)
{
	int err;

	/* What was consumed makes room first. */
	if (in->at > 0) {
		memmove(in->text.data, in->text.data + in->at, in->text.len - in->at);
		in->text.len -= in->at;
		in->seen -= in->at;
		in->at = 0;
		if (in->text.len == 0)
			bytes_reset(&in->text, INPUT_KEEP);
	}
	if (bytes_room(&in->text, 1) != 0)
		return input_fail(in, -FAR_ENOMEM, "out of memory");
	if (in->kind == INPUT_UNKNOWN || in->kind == INPUT_GZIP_BETWEEN) {
		err = input_choose(in);
		if (err || in->end)
			return err;
	}
	if (in->raw_at == in->raw_len && !in->raw_end) {
		err = input_read_raw(in);
		if (err)
			return err;
	}
	if (in->kind == INPUT_PLAIN) {
		if (bytes_add(&in->text, in->raw + in->raw_at, in->raw_len - in->raw_at) != 0)
			return input_fail(in, -FAR_ENOMEM, "out of memory");
		in->raw_at = in->raw_len;
		in->end = in->raw_end;
		return 0;
	}
	if (in->raw_at == in->raw_len && in->raw_end)
		return input_fail(in, -FAR_EIO, "the gzip data ends too early");
	return input_inflate(in);
}

/* Drops the UTF-8 mark; refuses UTF-16, of which every second byte would be NUL. */
static int
input_start(struct input *in)
{
	const unsigned char *s;
	size_t n;

	while (!in->end && in->text.len < 3) {
		int err = input_fill(in);

		if (err)
			return err;
	}
	s = (const unsigned char *)in->text.data;
	n = in->text.len;
	in->started = true;
	if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0)
		in->at = in->seen = 3;
	if (n >= 2 && (memcmp(s, "\xff\xfe", 2) == 0 || memcmp(s, "\xfe\xff", 2) == 0))
		return input_fail(in, -FAR_EIO,
				  "this is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8");
	return 0;
}

/* Skips the rest of a line that is too long. */
static int
input_skip_line(struct input *in)
{
	char *newline = NULL;
	int err = 0;

	while (!err && !newline) {
		newline = memchr(in->text.data + in->at, '\n', in->text.len - in->at);
		in->at = newline ? (size_t)(newline + 1 - in->text.data) : in->text.len;
		in->seen = in->at;
		if (!newline && in->end)
			break;
		if (!newline)
			err = input_fill(in);
	}
	in->line++;
	return err ? err : input_fail(in, -FAR_ESYNTAX, "the line is longer than 24 MiB");
}

int
input_line(struct input *in, struct far_bytes *line)
{
	int err = in->started ? 0 : input_start(in);

	while (!err) {
		char *from = in->text.data + in->seen;
		char *newline = in->seen < in->text.len
					? memchr(from, '\n', in->text.len - in->seen)
					: NULL;
		size_t stop = newline ? (size_t)(newline + 1 - in->text.data) : in->text.len;

		if (stop - in->at > INPUT_LINE_MAX)
			return input_skip_line(in);
		if (newline || in->end) {
			*line = far_bytes(in->text.data + in->at, stop - in->at);
			in->at = in->seen = stop;
			in->line += line->len > 0;
			return line->len > 0;
		}
		in->seen = stop;
		err = input_fill(in);
	}
	return err;
}

uint64_t
input_line_number(const struct input *in)
{
	return in->line;
}

int
input_peek(struct input *in, size_t want, struct far_bytes *view)
{
	int err = in->started ? 0 : input_start(in);

	if (want > INPUT_PEEK_MAX)
		want = INPUT_PEEK_MAX;
	while (!err && !in->end && in->text.len - in->at < want)
		err = input_fill(in);
	*view = far_bytes(in->text.data ? in->text.data + in->at : "", in->text.len - in->at);
	return err ? err : 1;
}

bool
input_would_wait(const struct input *in)
{
	struct pollfd p = { .fd = in->fd, .events = POLLIN };

	if (in->end || in->raw_end || in->raw_at < in->raw_len ||
	    (in->at < in->text.len && memchr(in->text.data + in->at, '\n', in->text.len - in->at)))
		return false;
	return poll(&p, 1, 0) == 0;
}

double
input_progress(const struct input *in)
{
	return in->size == 0 || in->read > in->size ? -1 : (double)in->read / (double)in->size;
}

const char *
input_error(const struct input *in)
{
	return in->error;
}
