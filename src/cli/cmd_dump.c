/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_dump.c -- farside dump TABLE: every key and value as JSON lines that `farside load` reads back.
 *
 * With --output a file appears under its name only when it is complete: it is written beside it and renamed.
 */
#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/progress.h"

struct dump {
	struct cli_common common;
	struct cli_args args;
	const char *output;
	FILE *to;
	const char *to_name; /* for messages */
	char *target, *temporary; /* NULL when written in place */
	struct bytes line;
	struct progress progress;
	uint64_t rows, bytes;
};

static const struct argp_option dump_options[] = {
	{ "output", 'o', "FILE", 0, "Write to FILE, which appears when it is complete", 0 },
	{ 0 },
};

static error_t
dump_parse(int key, char *arg, struct argp_state *state)
{
	struct dump *d = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &d->common;
		return 0;
	case 'o':
		d->output = arg;
		return 0;
	default:
		return cli_parse_args(key, state, &d->args);
	}
}

static int
dump_io_error(const struct dump *d)
{
	return cli_output_error(&d->common, d->to_name);
}

/* A new file beside the target, with the mode that the target would get. */
static int
dump_open_temporary(struct dump *d)
{
	mode_t mask = umask(0);
	int fd;

	umask(mask);
	if (asprintf(&d->temporary, "%s.XXXXXX", d->target) < 0) {
		d->temporary = NULL;
		return cli_error(&d->common, "out of memory");
	}
	fd = mkstemp(d->temporary);
	if (fd < 0) {
		free(d->temporary);
		d->temporary = NULL;
		return dump_io_error(d);
	}
	fchmod(fd, 0666 & ~mask);
	d->to = fdopen(fd, "w");
	return d->to ? CLI_OK : dump_io_error(d);
}

static int
dump_open(struct dump *d)
{
	struct stat st;

	d->to = stdout;
	d->to_name = "standard output";
	if (!d->output)
		return CLI_OK;
	d->to_name = d->output;
	if (stat(d->output, &st) == 0 && !S_ISREG(st.st_mode)) {
		/* A device or pipe is written as it is. */
		d->to = fopen(d->output, "w");
		return d->to ? CLI_OK : dump_io_error(d);
	}
	/* A link stays, its target is replaced. */
	d->target = realpath(d->output, NULL);
	if (!d->target)
		d->target = strdup(d->output);
	return d->target ? dump_open_temporary(d) : cli_error(&d->common, "out of memory");
}

/* Completes the file, or removes it when `code` tells of a failure. */
static int
dump_close(struct dump *d, int code)
{
	if (d->to && d->to != stdout) {
		if (code == CLI_OK &&
		    (fflush(d->to) != 0 || (d->temporary && fsync(fileno(d->to)) != 0)))
			code = dump_io_error(d);
		if (code != CLI_OK)
			__fpurge(d->to);
		if (fclose(d->to) != 0 && code == CLI_OK)
			code = dump_io_error(d);
	}
	if (d->temporary && code == CLI_OK && rename(d->temporary, d->target) != 0)
		code = dump_io_error(d);
	if (d->temporary && code != CLI_OK)
		unlink(d->temporary);
	free(d->temporary);
	free(d->target);
	bytes_free(&d->line);
	return code;
}

static int
dump_one(struct dump *d, struct far_bytes key, struct far_bytes value)
{
	struct bytes *b = &d->line;

	bytes_reset(b, 1 << 20);
	if (bytes_add(b, "{", 1) != 0 || bytes_json_member(b, "key", key) != 0 ||
	    bytes_add(b, ",", 1) != 0 || bytes_json_member(b, "value", value) != 0 ||
	    bytes_add(b, "}\n", 2) != 0)
		return cli_error(&d->common, "out of memory");
	d->rows++;
	d->bytes += b->len;
	return fwrite(b->data, 1, b->len, d->to) == b->len ? CLI_OK : dump_io_error(d);
}

static int
dump_walk(struct dump *d, struct far *f, struct far_iter *it)
{
	struct far_bytes key;
	struct far_value value;
	int code = CLI_OK, got = 1;

	while (code == CLI_OK) {
		if (cli_interrupted()) {
			progress_end(&d->progress);
			return cli_say_interrupted(&d->common);
		}
		got = far_iter_next(it, &key, &value);
		if (got <= 0)
			break;
		code = dump_one(d, key, value.bytes);
		progress_update(&d->progress, far_iter_progress(it), d->rows);
	}
	progress_end(&d->progress);
	return got < 0 ? cli_fail(&d->common, f, got) : code;
}

static int
dump_table(struct dump *d)
{
	struct far_iter *it;
	struct far_table *t;
	struct far *f;
	int code = cli_open_table(&d->common, d->args.arg[0], &f, &t), err;

	if (code != CLI_OK)
		return code;
	err = far_iter_open(t, &it);
	if (err) {
		code = cli_fail(&d->common, f, err);
	} else {
		code = dump_open(d);
		progress_start(&d->progress, "keys");
		if (code == CLI_OK)
			code = dump_walk(d, f, it);
		code = dump_close(d, code);
		far_iter_close(it);
	}
	cli_close(f, t);
	return code;
}

static int
dump_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		dump_options,
		dump_parse,
		"TABLE",
		"Writes every key and value as JSON lines: {\"key\":...,\"value\":...}, or "
		"\"key64\", \"value64\" in base64 where they are not UTF-8. farside load reads "
		"them back, byte for byte. With --output, --json reports on standard output "
		"what was written.",
		children,
		NULL,
		NULL
	};
	struct dump d = { .common = { .command = "dump" }, .args = { .min = 1, .max = 1 } };
	int code;

	cli_parse(&argp, argc, argv, &d);
	cli_catch_signals();
	code = dump_table(&d);
	/* Without --output the dump itself is what standard output holds, and JSON anyway. */
	if (code == CLI_OK && d.common.json && d.output)
		code = cli_print_json(&d.common,
				      json_pack("{s:s,s:s,s:I,s:I}", "table", d.args.arg[0], "file",
						d.output, "keys", (json_int_t)d.rows, "bytes",
						(json_int_t)d.bytes));
	return cli_finish(&d.common, code);
}

const struct cli_command cli_dump = { "dump", "write all keys and values as JSON lines", dump_run };
