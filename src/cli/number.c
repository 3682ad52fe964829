/* SPDX-License-Identifier: Apache-2.0 */
/* number.c -- numbers on the command line. */
#include "cli/number.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_SECOND UINT64_C(1000000000)

#define NUMBER_UNITS " (k, m, g, t: powers of 1024)"

enum {
	NUMBER_TEXT = 24,     /* bytes of a number with its unit and NUL */
	NUMBER_EXPECTED = 128 /* of what is expected */
};

static const char number_powers[] = "kKmMgGtT"; /* of 1024: two letters each */

/* What the letters behind the digits stand for; 0: nothing known. */
static uint64_t
number_unit(enum number_kind kind, const char *suffix)
{
	char letter = *suffix;
	const char *power;

	if (letter != '\0' && suffix[1] != '\0')
		return 0;
	switch (kind) {
	case NUMBER_TIME:
		return letter == 's' ? NUMBER_SECOND
		       : letter == 'm' ? 60 * NUMBER_SECOND
		       : letter == 'h' ? 3600 * NUMBER_SECOND
				       : 0;
	case NUMBER_COUNT:
	case NUMBER_SIZE:
		if (letter == '\0')
			return 1;
		power = strchr(number_powers, letter);
		return power ? UINT64_C(1024) << 10 * ((power - number_powers) / 2) : 0;
	default:
		return letter == '\0';
	}
}

bool
number_parse(const char *text, struct number_range range, uint64_t *out)
{
	uint64_t unit, n;
	char *end;

	/* strtoull() would take white space and a sign, too. */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = number_unit(range.kind, end);
	if (errno != 0 || unit == 0 || n > range.max / unit || n * unit < range.min)
		return false;
	*out = n * unit;
	return true;
}

/* 1048576 is "1m"; what is smaller reads better as it is. */
static const char *
number_text(uint64_t n, char text[NUMBER_TEXT])
{
	bool large = n >= 1 << 20;
	int power = 0;

	for (; large && n % 1024 == 0 && number_powers[2 * power] != '\0'; n /= 1024)
		power++;
	if (power == 0)
		snprintf(text, NUMBER_TEXT, "%" PRIu64, n);
	else
		snprintf(text, NUMBER_TEXT, "%" PRIu64 "%c", n, number_powers[2 * power - 2]);
	return text;
}

/* "number from 1 to 16"; a bound that is only the type's is none. */
static const char *
number_expected(struct number_range range, char text[NUMBER_EXPECTED])
{
	const char *noun = range.kind == NUMBER_SIZE ? "number of bytes" : "number";
	bool units = range.kind != NUMBER_PLAIN && range.max >= 1024;
	char min[NUMBER_TEXT], max[NUMBER_TEXT];

	number_text(range.min, min);
	number_text(range.max, max);
	if (range.max < INT64_MAX)
		snprintf(text, NUMBER_EXPECTED, "%s from %s to %s%s", noun, min, max,
			 units ? NUMBER_UNITS : "");
	else if (range.min > 0)
		snprintf(text, NUMBER_EXPECTED, "%s from %s on%s", noun, min,
			 units ? NUMBER_UNITS : "");
	else
		snprintf(text, NUMBER_EXPECTED, "%s%s", noun, units ? NUMBER_UNITS : "");
	return text;
}

uint64_t
number_option(struct argp_state *state, const char *option, const char *arg,
	      struct number_range range)
{
	char expected[NUMBER_EXPECTED];
	uint64_t n = 0;

	if (number_parse(arg, range, &n))
		return n;
	switch (range.kind) {
	case NUMBER_PLAIN:
	case NUMBER_COUNT:
	case NUMBER_SIZE:
		argp_error(state, "--%s: '%s' is no %s", option, arg,
			   number_expected(range, expected));
		break;
	case NUMBER_VERSION:
		argp_error(state, "--%s: '%s' is no version; get --with-version prints a key's",
			   option, arg);
		break;
	case NUMBER_TIME:
		argp_error(state,
			   "--%s: '%s' is no time such as 90s, 10m or 2h, up to %" PRIu64 "h",
			   option, arg, range.max / (3600 * NUMBER_SECOND));
		break;
	}
	return n;
}

bool
number_take(const struct number_slot *slots, int key, const char *arg, struct argp_state *state)
{
	for (; slots->option; slots++) {
		uint64_t *to = (uint64_t *)((char *)state->input + slots->at);

		if (slots->key != key)
			continue;
		*to = number_option(state, slots->option, arg, slots->range);
		return true;
	}
	return false;
}
