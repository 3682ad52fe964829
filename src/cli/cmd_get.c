/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_get.c -- farside get TABLE KEY. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"

struct get {
	struct cli_common common;
	struct cli_args args;
	enum bytes_code code;
	bool with_version;
};

static const struct argp_option get_options[] = {
	{ "with-version", 'V', NULL, 0,
	  "Print the version first, on a line of its own, for --if-version of put and del (JSON always has it)",
	  0 },
	{ 0 },
};

static error_t
get_parse(int key, char *arg, struct argp_state *state)
{
	struct get *g = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &g->common;
		state->child_inputs[1] = &g->code;
		return 0;
	case 'V':
		g->with_version = true;
		return 0;
	default:
		return cli_parse_args(key, state, &g->args);
	}
}

static int
get_format(const struct get *g, const struct far_value *value, struct bytes *out)
{
	char version[32];
	int err = 0;

	snprintf(version, sizeof(version), "%" PRIu64 "\n", value->version);
	if (g->with_version)
		err = bytes_add(out, version, strlen(version));
	if (!err)
		err = bytes_encode(out, g->code, value->bytes);
	/* The bytes and nothing else, but for a reader at a terminal and for text codes. */
	if (!err && (g->code != BYTES_RAW || isatty(STDOUT_FILENO)))
		err = bytes_add(out, "\n", 1);
	return err;
}

static int
get_format_json(const struct get *g, struct far_bytes key, const struct far_value *value,
		struct bytes *out)
{
	char version[48];
	int err = bytes_add(out, "{", 1);

	snprintf(version, sizeof(version), ",\"version\":\"%" PRIu64 "\"}\n", value->version);
	if (!err)
		err = bytes_json_member_in(out, g->code, "key", key);
	if (!err)
		err = bytes_add(out, ",", 1);
	if (!err)
		err = bytes_json_member_in(out, g->code, "value", value->bytes);
	return err ? err : bytes_add(out, version, strlen(version));
}

static int
get_request(const struct get *g, struct far_bytes key)
{
	struct bytes out = { .len = 0 };
	struct far_value value;
	struct far_table *t;
	struct far *f;
	int code = cli_open_table(&g->common, g->args.arg[0], &f, &t), err;

	if (code != CLI_OK)
		return code;
	err = far_get(t, key, &value);
	if (err)
		code = cli_fail(&g->common, f, err);
	else if ((g->common.json ? get_format_json(g, key, &value, &out)
				 : get_format(g, &value, &out)) != 0)
		code = cli_error(&g->common, "out of memory");
	else
		code = cli_write(&g->common, &out);
	bytes_free(&out);
	cli_close(f, t);
	return code;
}

static int
get_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 },
						      { &cli_code_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		get_options,
		get_parse,
		"TABLE KEY",
		"Prints the value of a key, byte for byte. A KEY of - is read from standard "
		"input.",
		children,
		NULL,
		NULL
	};
	struct get g = { .common = { .command = "get" }, .args = { .min = 2, .max = 2 } };
	struct bytes key = { .len = 0 };
	int code;

	cli_parse(&argp, argc, argv, &g);
	code = cli_read_bytes(&g.common, "key", g.args.arg[1], g.code, FAR_KEY_MAX, &key);
	if (code == CLI_OK)
		code = get_request(&g, bytes_view(&key));
	bytes_free(&key);
	return cli_finish(&g.common, code);
}

const struct cli_command cli_get = { "get", "print the value of a key", get_run };
