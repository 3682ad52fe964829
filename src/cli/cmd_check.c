/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c -- farside check TABLE: every violated invariant, one a line; --repair first. */
#include "cli/commands.h"

struct check {
	struct cli_common common;
	struct cli_args args;
	bool repair;
	int adopted;
	json_t *found;
	bool failed; /* to note one */
};

static const struct argp_option check_options[] = {
	{ "repair", 'r', NULL, 0,
	  "First finish what dead clients left half-done, and take over their memory", 0 },
	{ 0 },
};

static error_t
check_parse(int key, char *arg, struct argp_state *state)
{
	struct check *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &c->common;
		return 0;
	case 'r':
		c->repair = true;
		return 0;
	default:
		return cli_parse_args(key, state, &c->args);
	}
}

static void
check_report(void *arg, const char *line)
{
	struct check *c = arg;

	if (!c->common.json)
		puts(line);
	else if (json_array_append_new(c->found, json_string(line)) != 0)
		c->failed = true;
}

static int
check_table(struct check *c, struct far *f, struct far_table *t)
{
	int n, code = CLI_OK;

	c->adopted = c->repair ? far_table_repair(t) : 0;
	if (c->adopted < 0)
		return cli_fail(&c->common, f, c->adopted);
	n = far_table_check(t, check_report, c);
	if (n < 0)
		return cli_fail(&c->common, f, n);
	if (c->failed)
		return cli_error(&c->common, "out of memory");
	if (c->common.json)
		code = cli_print_json(&c->common,
				      json_pack("{s:s,s:i,s:O,s:i}", "table", c->args.arg[0],
						"violations", n, "found", c->found,
						"adopted_chunks", c->adopted));
	else if (n == 0)
		printf("table '%s': no violations\n", c->args.arg[0]);
	return code == CLI_OK && n > 0 ? CLI_NO : code;
}

static int
check_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		check_options,
		check_parse,
		"TABLE",
		"Walks a table's memory and prints every violated invariant, one a line. Nobody "
		"should change the table meanwhile: unfinished work of others may be reported.",
		children,
		NULL,
		NULL
	};
	struct check c = { .common = { .command = "check" }, .args = { .min = 1, .max = 1 } };
	struct far_table *t;
	struct far *f;
	int code;

	cli_parse(&argp, argc, argv, &c);
	cli_end_on_signals(&c.common);
	code = cli_open_table(&c.common, c.args.arg[0], &f, &t);
	if (code != CLI_OK)
		return code;
	c.found = json_array();
	code = c.found ? check_table(&c, f, t) : cli_error(&c.common, "out of memory");
	json_decref(c.found);
	cli_close(f, t);
	return cli_finish(&c.common, code);
}

const struct cli_command cli_check = { "check", "verify a table's structure", check_run };
