/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c -- growing buffers; hexadecimal, base64 and JSON text. */
#include "cli/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Above this a value that needs many escapes is written in base64, so that the longest line stays bounded. */
enum { BYTES_READABLE_MAX = 64 << 10 };

int
bytes_room(struct bytes *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 256;
	char *data;

	if (n <= b->cap - b->len)
		return 0;
	if (n > SIZE_MAX / 4 - b->len)
		return -FAR_ENOMEM;
	while (cap - b->len < n)
		cap *= 2;
	data = realloc(b->data, cap);
	if (!data)
		return -FAR_ENOMEM;
	b->data = data;
	b->cap = cap;
	return 0;
}

int
bytes_add(struct bytes *b, const void *data, size_t n)
{
	int err = bytes_room(b, n);

	if (err)
		return err;
	if (n > 0)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	return 0;
}

void
bytes_reset(struct bytes *b, size_t keep)
{
	b->len = 0;
	if (b->cap > keep)
		bytes_free(b);
}

void
bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ .data = NULL };
}

static const char bytes_digits64[] =
	"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char bytes_digits16[] = "0123456789abcdef";

/* The value of a digit; -1 when it is none. */
static int
bytes_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static int
bytes_64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

static int
bytes_decode_hex(struct bytes *b, const char *s, size_t n)
{
	if (n % 2 != 0)
		return -FAR_ESYNTAX;
	if (bytes_room(b, n / 2) != 0)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < n; i += 2) {
		int high = bytes_hex_digit(s[i]), low = bytes_hex_digit(s[i + 1]);

		if (high < 0 || low < 0)
			return -FAR_ESYNTAX;
		b->data[b->len++] = (char)(high << 4 | low);
	}
	return 0;
}

/* RFC 4648, padding required, no white space: there is one text for each sequence of bytes. */
static int
bytes_decode_64(struct bytes *b, const char *s, size_t n)
{
	if (n % 4 != 0)
		return -FAR_ESYNTAX;
	if (bytes_room(b, n / 4 * 3) != 0)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < n; i += 4) {
		unsigned pad = i + 4 < n ? 0 : s[i + 3] != '=' ? 0
				       : s[i + 2] != '='       ? 1
							       : 2;
		uint32_t word = 0;

		for (unsigned k = 0; k < 4 - pad; k++) {
			int digit = bytes_64_digit(s[i + k]);

			if (digit < 0)
				return -FAR_ESYNTAX;
			word |= (uint32_t)digit << (18 - 6 * k);
		}
		if ((word & ((1U << 8 * pad) - 1)) != 0)
			return -FAR_ESYNTAX;
		for (unsigned k = 0; k < 3 - pad; k++)
			b->data[b->len++] = (char)(word >> (16 - 8 * k));
	}
	return 0;
}

int
bytes_decode(struct bytes *b, enum bytes_code code, struct far_bytes text)
{
	switch (code) {
	case BYTES_HEX:
		return bytes_decode_hex(b, text.data, text.len);
	case BYTES_BASE64:
		return bytes_decode_64(b, text.data, text.len);
	default:
		return bytes_add(b, text.data, text.len);
	}
}

static int
bytes_encode_hex(struct bytes *b, const unsigned char *s, size_t n)
{
	if (bytes_room(b, 2 * n) != 0)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < n; i++) {
		b->data[b->len++] = bytes_digits16[s[i] >> 4];
		b->data[b->len++] = bytes_digits16[s[i] & 15];
	}
	return 0;
}

static int
bytes_encode_64(struct bytes *b, const unsigned char *s, size_t n)
{
	if (bytes_room(b, (n + 2) / 3 * 4) != 0)
		return -FAR_ENOMEM;
	for (size_t i = 0; i < n; i += 3) {
		unsigned have = n - i < 3 ? (unsigned)(n - i) : 3;
		uint32_t word = (uint32_t)s[i] << 16;

		if (have > 1)
			word |= (uint32_t)s[i + 1] << 8;
		if (have > 2)
			word |= s[i + 2];
		for (unsigned k = 0; k < 4; k++)
			b->data[b->len++] =
				k <= have ? bytes_digits64[word >> (18 - 6 * k) & 63] : '=';
	}
	return 0;
}

int
bytes_encode(struct bytes *b, enum bytes_code code, struct far_bytes data)
{
	switch (code) {
	case BYTES_HEX:
		return bytes_encode_hex(b, data.data, data.len);
	case BYTES_BASE64:
		return bytes_encode_64(b, data.data, data.len);
	default:
		return bytes_add(b, data.data, data.len);
	}
}

/* Length of the UTF-8 character at the start of `s`, 1 to 4; 0 when it is malformed (surrogates, overlong forms and
 * code points above 10FFFF are). */
static unsigned
bytes_utf8(const unsigned char *s, size_t len)
{
	unsigned n = s[0] < 0x80   ? 1
		     : s[0] < 0xc2 ? 0
		     : s[0] < 0xe0 ? 2
		     : s[0] < 0xf0 ? 3
		     : s[0] < 0xf5 ? 4
				   : 0;
	unsigned char low = 0x80, high = 0xbf;

	if (n < 2)
		return n;
	if (len < n)
		return 0;
	/* The second byte excludes overlong forms, surrogates and what lies above 10FFFF. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (unsigned i = 2; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return n;
}

/* Bytes of a character inside a JSON string. */
static unsigned
bytes_json_len(unsigned char c)
{
	if (c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t')
		return 2;
	return c < 0x20 || c == 0x7f ? 6 : 1;
}

/* Length of the JSON string of `data` without quotes; SIZE_MAX when it is not UTF-8. */
static size_t
bytes_json_size(struct far_bytes data)
{
	const unsigned char *s = data.data;
	size_t size = 0;

	for (size_t i = 0; i < data.len;) {
		unsigned n = bytes_utf8(s + i, data.len - i);

		if (n == 0)
			return SIZE_MAX;
		size += n > 1 ? n : bytes_json_len(s[i]);
		i += n;
	}
	return size;
}

/* Room is there. */
static void
bytes_json_char(struct bytes *b, unsigned char c)
{
	char *out = b->data + b->len;

	switch (bytes_json_len(c)) {
	case 1:
		out[0] = (char)c;
		b->len += 1;
		return;
	case 2:
		out[0] = '\\';
		out[1] = (char)(c == '\n' ? 'n' : c == '\r' ? 'r'
					  : c == '\t'       ? 't'
							    : c);
		b->len += 2;
		return;
	default:
		memcpy(out, "\\u00", 4);
		out[4] = bytes_digits16[c >> 4];
		out[5] = bytes_digits16[c & 15];
		b->len += 6;
		return;
	}
}

int
bytes_json_member(struct bytes *b, const char *name, struct far_bytes data)
{
	size_t size = bytes_json_size(data), size64 = (data.len + 2) / 3 * 4;
	bool plain = size != SIZE_MAX && (size <= BYTES_READABLE_MAX || size <= size64);

	if (bytes_room(b, strlen(name) + (plain ? size : size64) + 16) != 0)
		return -FAR_ENOMEM;
	b->len += (size_t)sprintf(b->data + b->len, "\"%s%s\":\"", name, plain ? "" : "64");
	if (plain) {
		for (size_t i = 0; i < data.len; i++)
			bytes_json_char(b, ((const unsigned char *)data.data)[i]);
	} else {
		bytes_encode_64(b, data.data, data.len);
	}
	b->data[b->len++] = '"';
	return 0;
}

int
bytes_json_member_in(struct bytes *b, enum bytes_code code, const char *name, struct far_bytes data)
{
	const char *suffix = code == BYTES_HEX ? "hex\":\"" : "64\":\"";
	size_t at = b->len;

	if (code == BYTES_RAW)
		return bytes_json_member(b, name, data);
	if (bytes_add(b, "\"", 1) == 0 && bytes_add(b, name, strlen(name)) == 0 &&
	    bytes_add(b, suffix, strlen(suffix)) == 0 && bytes_encode(b, code, data) == 0 &&
	    bytes_add(b, "\"", 1) == 0)
		return 0;
	b->len = at;
	return -FAR_ENOMEM;
}

int
bytes_human(struct bytes *b, struct far_bytes data, size_t max)
{
	const unsigned char *s = data.data;
	size_t n = far_min(data.len, max), i = 0;

	if (bytes_room(b, 4 * n + 64) != 0)
		return -FAR_ENOMEM;
	while (i < n) {
		unsigned len = bytes_utf8(s + i, data.len - i);
		/* C1 controls (C2 80 - C2 9F) can steer a terminal as C0 ones do. */
		bool control = len == 0 || (len == 1 && (s[i] < 0x20 || s[i] == 0x7f)) ||
			       (len == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0);

		if (control || s[i] == '\\') {
			const char *plain = s[i] == '\n'   ? "\\n"
					    : s[i] == '\t' ? "\\t"
					    : s[i] == '\r' ? "\\r"
					    : s[i] == '\\' ? "\\\\"
							   : NULL;

			b->len += plain ? (size_t)sprintf(b->data + b->len, "%s", plain)
					: (size_t)sprintf(b->data + b->len, "\\x%02x", s[i]);
			i++;
			continue;
		}
		memcpy(b->data + b->len, s + i, len);
		b->len += len;
		i += len;
	}
	if (data.len > i)
		b->len += (size_t)sprintf(b->data + b->len, "... (%zu bytes)", data.len);
	return 0;
}
