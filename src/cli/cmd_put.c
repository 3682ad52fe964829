/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_put.c -- farside put TABLE KEY VALUE. */
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"

struct put {
	struct cli_common common;
	struct cli_args args;
	enum bytes_code code;
	struct far_request request;
	struct bytes key, value;
};

static const struct argp_option put_options[] = {
	{ "insert", 'i', NULL, 0, "Only when the key is absent", 0 },
	{ "update", 'u', NULL, 0, "Only when the key is present", 0 },
	{ "if-version", 'V', "VERSION", 0,
	  "Only when the key has this version, as get --with-version prints it", 0 },
	{ 0 },
};

/* One condition at most. */
static void
put_take_kind(struct put *p, struct argp_state *state, enum far_request_kind kind)
{
	if (p->request.kind != FAR_PUT && p->request.kind != kind)
		argp_error(state, "--insert, --update and --if-version exclude each other");
	p->request.kind = kind;
}

static error_t
put_parse(int key, char *arg, struct argp_state *state)
{
	struct put *p = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &p->common;
		state->child_inputs[1] = &p->code;
		return 0;
	case 'i':
		put_take_kind(p, state, FAR_INSERT);
		return 0;
	case 'u':
		put_take_kind(p, state, FAR_UPDATE);
		return 0;
	case 'V':
		put_take_kind(p, state, FAR_UPDATE_IF);
		p->request.version = cli_version(state, arg);
		return 0;
	default:
		return cli_parse_args(key, state, &p->args);
	}
}

static int
put_request(struct put *p)
{
	struct far_request *r = &p->request;
	struct far_table *t;
	struct far *f;
	int code = cli_open_table(&p->common, p->args.arg[0], &f, &t), err;

	if (code != CLI_OK)
		return code;
	r->key = bytes_view(&p->key);
	r->value = bytes_view(&p->value);
	switch (r->kind) {
	case FAR_INSERT:
		err = far_insert(t, r->key, r->value, &r->version);
		break;
	case FAR_UPDATE:
		err = far_update(t, r->key, r->value, &r->version);
		break;
	case FAR_UPDATE_IF:
		err = far_update_if(t, r->key, r->value, r->version, &r->version);
		break;
	default:
		err = far_put(t, r->key, r->value, &r->version);
		break;
	}
	if (err)
		code = cli_fail(&p->common, f, err);
	cli_close(f, t);
	return code;
}

static int
put_print(struct put *p)
{
	struct bytes out = { .len = 0 };
	char version[32];
	int code;

	/* A string: many readers of JSON cannot hold 64 bits. */
	snprintf(version, sizeof(version), ",\"version\":\"%" PRIu64 "\"}\n", p->request.version);
	if (bytes_add(&out, "{", 1) != 0 ||
	    bytes_json_member_in(&out, p->code, "key", bytes_view(&p->key)) != 0 ||
	    bytes_add(&out, version, strlen(version)) != 0)
		code = cli_error(&p->common, "out of memory");
	else
		code = cli_write(&p->common, &out);
	bytes_free(&out);
	return code;
}

static int
put_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 },
						      { &cli_code_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		put_options,
		put_parse,
		"TABLE KEY VALUE",
		"Stores a value under a key. A VALUE (or KEY) of - is read from standard input.",
		children,
		NULL,
		NULL
	};
	struct put p = { .common = { .command = "put" },
			 .args = { .min = 3, .max = 3 },
			 .request = { .kind = FAR_PUT } };
	int code;

	cli_parse(&argp, argc, argv, &p);
	code = cli_read_bytes(&p.common, "key", p.args.arg[1], p.code, FAR_KEY_MAX, &p.key);
	if (code == CLI_OK)
		code = cli_read_bytes(&p.common, "value", p.args.arg[2], p.code, FAR_VALUE_MAX,
				      &p.value);
	if (code == CLI_OK)
		code = put_request(&p);
	if (code == CLI_OK && p.common.json)
		code = put_print(&p);
	bytes_free(&p.key);
	bytes_free(&p.value);
	return cli_finish(&p.common, code);
}

const struct cli_command cli_put = { "put", "store a value under a key", put_run };
