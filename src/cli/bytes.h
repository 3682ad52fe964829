/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h -- growing buffers, and bytes as text: hexadecimal, base64, JSON. */
#ifndef FAR_CLI_BYTES_H
#define FAR_CLI_BYTES_H

#include <stdio.h>

#include <farside/far.h>

/* Zero-initialised is empty. */
struct bytes {
	char *data;
	size_t len, cap;
};

/* Makes room for `n` more bytes. -FAR_ENOMEM: the buffer is unchanged. */
int bytes_room(struct bytes *b, size_t n);
int bytes_add(struct bytes *b, const void *data, size_t n);
/* Empties it; memory above `keep` bytes goes back. */
void bytes_reset(struct bytes *b, size_t keep);
void bytes_free(struct bytes *b);

static inline struct far_bytes
bytes_view(const struct bytes *b)
{
	return far_bytes(b->data ? b->data : "", b->len);
}

enum bytes_code {
	BYTES_RAW,
	BYTES_HEX,
	BYTES_BASE64,
};

/* Appends what `text` stands for. -FAR_ESYNTAX: it is not of that code; -FAR_ENOMEM. */
int bytes_decode(struct bytes *b, enum bytes_code code, struct far_bytes text);
/* Appends `data` in that code. -FAR_ENOMEM. */
int bytes_encode(struct bytes *b, enum bytes_code code, struct far_bytes data);

/* Appends "NAME":"data" with JSON escapes; where data is not UTF-8 or base64 is much shorter: "NAME64":"base64". */
int bytes_json_member(struct bytes *b, const char *name, struct far_bytes data);
/* The same in the code asked for: "NAME64":"base64" or "NAMEhex":"hexadecimal" always. */
int bytes_json_member_in(struct bytes *b, enum bytes_code code, const char *name, struct far_bytes data);

/* Appends data for people: printable UTF-8 as it is, everything else escaped as in C; cut after `max` bytes. */
int bytes_human(struct bytes *b, struct far_bytes data, size_t max);

#endif
