/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls.c -- farside ls: the tables of a pool. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"

struct ls {
	struct cli_common common;
	struct cli_args args;
};

static error_t
ls_parse(int key, char *arg, struct argp_state *state)
{
	struct ls *l = state->input;

	if (key != ARGP_KEY_INIT)
		return cli_parse_args(key, state, &l->args);
	state->child_inputs[0] = &l->common;
	return 0;
}

static int
ls_compare(const void *a, const void *b)
{
	return strcmp(((const struct far_table_info *)a)->name,
		      ((const struct far_table_info *)b)->name);
}

static int
ls_print(const struct ls *l, const struct far_table_info *list, int n)
{
	json_t *all;

	if (!l->common.json) {
		for (int i = 0; i < n; i++)
			printf("%-32s %s\n", list[i].name, list[i].design);
		return CLI_OK;
	}
	all = json_array();
	for (int i = 0; all && i < n; i++) {
		json_t *one =
			json_pack("{s:s,s:s}", "name", list[i].name, "design", list[i].design);

		if (json_array_append_new(all, one) != 0) {
			json_decref(all);
			all = NULL;
		}
	}
	return cli_print_json(&l->common, all);
}

static int
ls_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		NULL,     ls_parse, NULL, "Lists the tables of a pool: name and index design.",
		children, NULL,     NULL
	};
	struct ls l = { .common = { .command = "ls" } };
	struct far_table_info *list = NULL;
	struct far *f;
	int code, n;

	cli_parse(&argp, argc, argv, &l);
	code = cli_open(&l.common, NULL, &f);
	if (code != CLI_OK)
		return code;
	n = far_table_list(f, &list);
	if (n < 0) {
		code = cli_fail(&l.common, f, n);
	} else {
		qsort(list, (size_t)n, sizeof(*list), ls_compare);
		code = ls_print(&l, list, n);
	}
	free(list);
	far_close(f);
	return cli_finish(&l.common, code);
}

const struct cli_command cli_ls = { "ls", "list tables", ls_run };
