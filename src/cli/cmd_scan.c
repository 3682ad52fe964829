/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_scan.c -- farside scan TABLE: keys and values for people, or as JSON lines. */
#include <string.h>

#include "cli/commands.h"
#include "cli/number.h"

enum { SCAN_SHOWN = 200 /* bytes of a key or value for people */ };

struct scan {
	struct cli_common common;
	struct cli_args args;
	const char *prefix;
	uint64_t limit;
	bool keys;
	struct bytes line;
};

static const struct argp_option scan_options[] = {
	{ "prefix", 'P', "TEXT", 0,
	  "Only keys that start with TEXT (the whole table is walked all the same)", 0 },
	{ "limit", 'n', "N", 0, "At most N keys", 0 },
	{ "keys", 'k', NULL, 0, "Keys without values", 0 },
	{ 0 },
};

static error_t
scan_parse(int key, char *arg, struct argp_state *state)
{
	struct scan *s = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &s->common;
		return 0;
	case 'P':
		s->prefix = arg;
		return 0;
	case 'n':
		s->limit = number_option(state, "limit", arg,
					 (struct number_range){ NUMBER_COUNT, 0, UINT64_MAX });
		return 0;
	case 'k':
		s->keys = true;
		return 0;
	default:
		return cli_parse_args(key, state, &s->args);
	}
}

static int
scan_format(struct scan *s, struct far_bytes key, struct far_bytes value)
{
	struct bytes *b = &s->line;
	int err;

	bytes_reset(b, 1 << 20);
	if (s->common.json) {
		err = bytes_add(b, "{", 1);
		if (!err)
			err = bytes_json_member(b, "key", key);
		if (!err && !s->keys)
			err = bytes_add(b, ",", 1);
		if (!err && !s->keys)
			err = bytes_json_member(b, "value", value);
		return err ? err : bytes_add(b, "}\n", 2);
	}
	err = bytes_human(b, key, SCAN_SHOWN);
	if (!err && !s->keys)
		err = bytes_add(b, "\t", 1);
	if (!err && !s->keys)
		err = bytes_human(b, value, SCAN_SHOWN);
	return err ? err : bytes_add(b, "\n", 1);
}

static bool
scan_wants(const struct scan *s, struct far_bytes key)
{
	size_t len = s->prefix ? strlen(s->prefix) : 0;

	return key.len >= len && (len == 0 || memcmp(key.data, s->prefix, len) == 0);
}

static int
scan_walk(struct scan *s, struct far *f, struct far_iter *it)
{
	struct far_bytes key;
	struct far_value value;
	uint64_t left = s->limit;
	int code = CLI_OK, got = 1;

	while (left > 0 && code == CLI_OK) {
		if (cli_interrupted())
			return cli_say_interrupted(&s->common);
		got = far_iter_next(it, &key, &value);
		if (got <= 0)
			break;
		if (!scan_wants(s, key))
			continue;
		left--;
		if (scan_format(s, key, value.bytes) != 0)
			code = cli_error(&s->common, "out of memory");
		else
			code = cli_write(&s->common, &s->line);
	}
	return got < 0 ? cli_fail(&s->common, f, got) : code;
}

static int
scan_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		scan_options,
		scan_parse,
		"TABLE",
		"Prints the keys and values of a table in no order, for reading: long ones are "
		"cut, what is not printable is escaped. With --json every byte is there, one "
		"object a line.",
		children,
		NULL,
		NULL
	};
	struct scan s = { .common = { .command = "scan" },
			  .args = { .min = 1, .max = 1 },
			  .limit = UINT64_MAX };
	struct far_iter *it;
	struct far_table *t;
	struct far *f;
	int code, err;

	cli_parse(&argp, argc, argv, &s);
	code = cli_open_table(&s.common, s.args.arg[0], &f, &t);
	if (code != CLI_OK)
		return code;
	cli_catch_signals();
	err = far_iter_open(t, &it);
	code = err ? cli_fail(&s.common, f, err) : scan_walk(&s, f, it);
	if (!err)
		far_iter_close(it);
	bytes_free(&s.line);
	cli_close(f, t);
	return cli_finish(&s.common, code);
}

const struct cli_command cli_scan = { "scan", "print keys and values for reading", scan_run };
