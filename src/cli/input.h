/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h -- lines of a file or of standard input, gunzipped when they start with gzip's magic number.
 *
 * Memory is bounded by the longest line, INPUT_LINE_MAX. A byte order mark at the start is dropped.
 */
#ifndef FAR_CLI_INPUT_H
#define FAR_CLI_INPUT_H

#include <farside/far.h>

/* Fits base64 of the longest key and value. */
#define INPUT_LINE_MAX ((size_t)24 << 20)

struct input;

/* `path`: "-" is standard input. -FAR_EIO (errno tells), -FAR_ENOMEM. */
int input_open(const char *path, struct input **out);
void input_close(struct input *in);

/*
 * 1 and the next line with its "\n" (the last one may lack it), valid until the next call; 0: the end;
 * -FAR_ESYNTAX: a line longer than INPUT_LINE_MAX was skipped, reading can go on; -FAR_EIO; -FAR_EINTR: a signal
 * came while waiting; -FAR_ENOMEM.
 */
int input_line(struct input *in, struct far_bytes *line);

/* The number of the line returned last, from 1. */
uint64_t input_line_number(const struct input *in);

/*
 * What comes next, without taking it: at least `want` bytes (at most 64 KiB) unless the input ends before.
 * 1 or an error as above; view->len tells how much there is.
 */
int input_peek(struct input *in, size_t want, struct far_bytes *view);

/* True when the next line is not here yet and reading it may wait long, as for a pipe. */
bool input_would_wait(const struct input *in);

/* Share of the file read so far, 0 to 1; negative when its size is unknown. */
double input_progress(const struct input *in);

/* Why the last call failed. */
const char *input_error(const struct input *in);

#endif
