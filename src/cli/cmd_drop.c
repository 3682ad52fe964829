/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_drop.c -- farside drop TABLE. */
#include "cli/commands.h"

struct drop {
	struct cli_common common;
	struct cli_args args;
};

static error_t
drop_parse(int key, char *arg, struct argp_state *state)
{
	struct drop *d = state->input;

	if (key != ARGP_KEY_INIT)
		return cli_parse_args(key, state, &d->args);
	state->child_inputs[0] = &d->common;
	return 0;
}

static int
drop_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		NULL,     drop_parse,
		"TABLE",  "Removes a table and gives its memory back to the nodes.",
		children, NULL,
		NULL
	};
	struct drop d = { .common = { .command = "drop" }, .args = { .min = 1, .max = 1 } };
	struct far *f;
	int code, err;

	cli_parse(&argp, argc, argv, &d);
	code = cli_open(&d.common, NULL, &f);
	if (code != CLI_OK)
		return code;
	err = far_table_drop(f, d.args.arg[0]);
	if (err)
		code = cli_fail(&d.common, f, err);
	else if (d.common.json)
		code = cli_print_json(&d.common,
				      json_pack("{s:s,s:b}", "table", d.args.arg[0], "dropped", 1));
	far_close(f);
	return cli_finish(&d.common, code);
}

const struct cli_command cli_drop = { "drop", "remove a table", drop_run };
