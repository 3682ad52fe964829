/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_create.c -- farside create TABLE. */
#include "cli/commands.h"
#include "cli/number.h"

struct create {
	struct cli_common common;
	struct cli_args args;
	struct far_table_opts opts;
	bool if_missing;
};

static const struct argp_option create_options[] = {
	{ "design", 'd', "NAME", 0, "Index design (default: race)", 0 },
	{ "groups", 'g', "N", 0, "Bucket groups of one subtable (race: 1 to 4096)", 0 },
	{ "if-missing", 'i', NULL, 0, "A table that exists already is no error", 0 },
	{ 0 },
};

static error_t
create_parse(int key, char *arg, struct argp_state *state)
{
	struct create *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->common;
		return 0;
	case 'd':
		c->opts.design = arg;
		return 0;
	case 'g':
		c->opts.groups = (unsigned)number_option(
			state, "groups", arg, (struct number_range){ NUMBER_COUNT, 1, 1 << 20 });
		return 0;
	case 'i':
		c->if_missing = true;
		return 0;
	default:
		return cli_parse_args(key, state, &c->args);
	}
}

static int
create_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		create_options, create_parse, "TABLE", "Creates an empty table.",
		children,       NULL,         NULL
	};
	struct create c = { .common = { .command = "create" }, .args = { .min = 1, .max = 1 } };
	struct far *f;
	int code, err;

	cli_parse(&argp, argc, argv, &c);
	code = cli_open(&c.common, NULL, &f);
	if (code != CLI_OK)
		return code;
	err = far_table_create(f, c.args.arg[0], &c.opts);
	if (err && !(err == -FAR_EEXIST && c.if_missing))
		code = cli_fail(&c.common, f, err);
	else if (c.common.json)
		code = cli_print_json(&c.common, json_pack("{s:s,s:b}", "table", c.args.arg[0],
							   "created", err == 0));
	far_close(f);
	return cli_finish(&c.common, code);
}

const struct cli_command cli_create = { "create", "create a table", create_run };
