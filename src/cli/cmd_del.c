/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_del.c -- farside del TABLE KEY... */
#include <limits.h>

#include "cli/commands.h"

struct del {
	struct cli_common common;
	struct cli_args args;
	enum bytes_code code;
	bool conditional; /* on `version` */
	uint64_t version;
	unsigned deleted, missing, changed;
};

static const struct argp_option del_options[] = {
	{ "if-version", 'V', "VERSION", 0,
	  "Only when the key, which is the only one, has this version, as get --with-version prints it",
	  0 },
	{ 0 },
};

static error_t
del_parse(int key, char *arg, struct argp_state *state)
{
	struct del *d = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->common;
		state->child_inputs[1] = &d->code;
		return 0;
	case 'V':
		d->conditional = true;
		d->version = cli_version(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (d->conditional && d->args.n > 2)
			argp_error(state, "--if-version goes with one key");
		return cli_parse_args(key, state, &d->args);
	default:
		return cli_parse_args(key, state, &d->args);
	}
}

/* One key. A missing one is said, and the others are deleted all the same. */
static int
del_one(struct del *d, struct far *f, struct far_table *t, const char *arg)
{
	struct bytes key = { .len = 0 };
	int code = cli_read_bytes(&d->common, "key", arg, d->code, FAR_KEY_MAX, &key), err;

	if (code == CLI_OK) {
		err = d->conditional ? far_delete_if(t, bytes_view(&key), d->version)
				     : far_delete(t, bytes_view(&key));
		d->deleted += err == 0;
		d->missing += err == -FAR_ENOENT;
		d->changed += err == -FAR_ECHANGED;
		if (err)
			code = cli_fail(&d->common, f, err);
	}
	bytes_free(&key);
	return code == CLI_NO ? CLI_OK : code;
}

static int
del_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 },
						      { &cli_code_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = { del_options,
					  del_parse,
					  "TABLE KEY...",
					  "Deletes keys. A KEY of - is read from standard input.",
					  children,
					  NULL,
					  NULL };
	struct del d = { .common = { .command = "del" }, .args = { .min = 2, .max = INT_MAX } };
	struct far_table *t;
	struct far *f;
	int code;

	cli_parse(&argp, argc, argv, &d);
	code = cli_open_table(&d.common, d.args.arg[0], &f, &t);
	if (code != CLI_OK)
		return code;
	for (unsigned i = 1; i < d.args.n && code == CLI_OK; i++)
		code = del_one(&d, f, t, d.args.arg[i]);
	cli_close(f, t);
	if (code == CLI_OK && d.common.json)
		code = cli_print_json(&d.common,
				      json_pack("{s:i,s:i,s:i}", "deleted", d.deleted, "missing",
						d.missing, "changed", d.changed));
	if (code == CLI_OK && d.missing + d.changed > 0)
		code = CLI_NO;
	return cli_finish(&d.common, code);
}

const struct cli_command cli_del = { "del", "delete keys", del_run };
