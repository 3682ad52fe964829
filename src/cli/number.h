/* SPDX-License-Identifier: Apache-2.0 */
/* number.h -- numbers on the command line: decimal digits, a unit where there is one, and nothing else. */
#ifndef FAR_CLI_NUMBER_H
#define FAR_CLI_NUMBER_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_kind {
	NUMBER_PLAIN,   /* no unit: seeds, sums of flags, file descriptors */
	NUMBER_VERSION, /* the same: of a key, as `get --with-version` prints it */
	NUMBER_COUNT,   /* may end in k, m, g or t: powers of 1024 */
	NUMBER_SIZE,    /* the same, of bytes */
	NUMBER_TIME,    /* ends in s, m or h; its value is nanoseconds */
};

struct number_range {
	enum number_kind kind;
	uint64_t min, max;
};

/* Parses all of `text`. False, and *out untouched, when it is no such number or its value is not within `range`. */
bool number_parse(const char *text, struct number_range range, uint64_t *out);

/* The value of --`option`. What number_parse() refuses ends the program with a message of argp that tells the range. */
uint64_t number_option(struct argp_state *state, const char *option, const char *arg, struct number_range range);

/* An option that takes a number, and where that goes: a uint64_t at this offset of the parser's input. */
struct number_slot {
	int key;
	const char *option; /* NULL: the end of an array of slots */
	struct number_range range;
	size_t at;
};

/* Takes the option `key` with number_option() when it is one of `slots`; false when it is none. */
bool number_take(const struct number_slot *slots, int key, const char *arg, struct argp_state *state);

#endif
