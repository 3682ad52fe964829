/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- opening pools and tables for a command, and what their errors mean to its caller. */
#include "cli/cli.h"

int
cli_exit_code(int err)
{
	switch (-err) {
	case FAR_OK:
		return CLI_OK;
	case FAR_ENOENT:
		return CLI_NO;
	case FAR_EINTR:
		return CLI_INTERRUPTED;
	default:
		return CLI_FAIL;
	}
}

int
cli_fail(const struct cli_common *c, const struct far *f, int err)
{
	const char *text = far_errmsg(f);

	cli_error(c, "%s", *text ? text : far_strerror(err));
	return cli_exit_code(err);
}

int
cli_open(const struct cli_common *c, const struct far_opts *opts, struct far **out)
{
	char text[FAR_ERRMSG_MAX] = "";
	struct far_opts o = { .fibers = 0 };
	int err;

	if (!c->pool) {
		cli_error(c, "which pool? Say --pool shm:PATH[,PATH...] or set FARSIDE_POOL");
		return CLI_USAGE;
	}
	if (opts)
		o = *opts;
	o.errmsg = text;
	err = far_open(c->pool, &o, out);
	if (!err)
		return CLI_OK;
	cli_error(c, "%s", text);
	return err == -FAR_EINVAL ? CLI_USAGE : CLI_FAIL;
}

int
cli_open_table(const struct cli_common *c, const char *name, struct far **f, struct far_table **t)
{
	int code = cli_open(c, NULL, f), err;

	if (code != CLI_OK)
		return code;
	err = far_table_open(*f, name, t);
	if (!err)
		return CLI_OK;
	code = cli_fail(c, *f, err);
	far_close(*f);
	return code;
}

void
cli_close(struct far *f, struct far_table *t)
{
	far_table_close(t);
	far_close(f);
}
