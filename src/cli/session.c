/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- opening pools and tables for a command, and what their errors mean to its caller. */
#include "cli/cli.h"
#include "store/store.h"

int
cli_exit_code(int err)
{
	switch (-err) {
	case FAR_OK:
		return CLI_OK;
	case FAR_ENOENT:
	case FAR_EEXIST:
	case FAR_ECHANGED:
		return CLI_NO;
	case FAR_EINVAL:
	case FAR_EKEYLEN:
	case FAR_EVALLEN:
		return CLI_USAGE;
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
cli_check_pool(const struct cli_common *c, bool optional)
{
	char text[FAR_ERRMSG_MAX] = "";

	if (!c->pool && !optional)
		cli_error(
			c,
			"which pool? Say --pool shm:PATH[,PATH...] or tcp://HOST:PORT[,...] or verbs://..., or set FARSIDE_POOL");
	else if (c->pool && store_uri_check(c->pool, text) != 0)
		cli_error(c, "%s", text);
	else
		return CLI_OK;
	return CLI_USAGE;
}

int
cli_open(const struct cli_common *c, const struct far_opts *opts, struct far **out)
{
	char text[FAR_ERRMSG_MAX] = "";
	struct far_opts o = { .fibers = 0 };
	int code = cli_check_pool(c, false);

	if (code != CLI_OK)
		return code;
	if (opts)
		o = *opts;
	o.errmsg = text;
	/* A pool that is well named and does not open has failed, whatever the error. */
	return far_open(c->pool, &o, out) == 0 ? CLI_OK : cli_error(c, "%s", text);
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
