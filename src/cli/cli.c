/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c -- what commands read and write: bytes of arguments and standard input, messages, standard output. */
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* All of standard input, up to one byte more than `max`. */
static int
cli_read_stdin(const struct cli_common *c, size_t max, struct bytes *out)
{
	size_t n;

	do {
		size_t want = max + 1 - out->len < 65536 ? max + 1 - out->len : 65536;

		if (bytes_room(out, want) != 0)
			return cli_error(c, "out of memory");
		n = fread(out->data + out->len, 1, want, stdin);
		out->len += n;
	} while (n > 0 && out->len <= max);
	return ferror(stdin) ? cli_error(c, "standard input: %s", strerror(errno)) : CLI_OK;
}

int
cli_read_bytes(const struct cli_common *c, const char *what, const char *arg, enum bytes_code code,
	       size_t max, struct bytes *out)
{
	struct bytes text = { .len = 0 };
	bool from_stdin = strcmp(arg, "-") == 0;
	int result = CLI_OK, err;

	if (from_stdin && feof(stdin)) {
		cli_error(c, "only one argument can be -: there is nothing left for the %s", what);
		return CLI_USAGE;
	}
	/* Room for the text of `max` bytes, in whatever code, with a newline. */
	if (from_stdin)
		result = cli_read_stdin(c, code == BYTES_RAW ? max : 2 * max + 1, &text);
	else if (bytes_add(&text, arg, strlen(arg)) != 0)
		result = cli_error(c, "out of memory");

	if (result == CLI_OK) {
		if (code != BYTES_RAW && text.len > 0 && text.data[text.len - 1] == '\n')
			text.len--;
		err = bytes_decode(out, code, bytes_view(&text));
		if (err == -FAR_ENOMEM)
			result = cli_error(c, "out of memory");
		else if (err) {
			cli_error(c, "the %s is not %s", what,
				  code == BYTES_HEX ? "hexadecimal" : "base64");
			result = CLI_USAGE;
		} else if (out->len > max) {
			cli_error(c, "the %s has more than %zu bytes", what, max);
			result = CLI_USAGE;
		}
	}
	bytes_free(&text);
	return result;
}

int
cli_write(const struct cli_common *c, const struct bytes *b)
{
	if (b->len > 0 && fwrite(b->data, 1, b->len, stdout) != b->len)
		return cli_output_error(c, "standard output");
	return CLI_OK;
}

int
cli_error(const struct cli_common *c, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "farside%s%s: ", c->command ? " " : "", c->command ? c->command : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	return CLI_FAIL;
}

int
cli_print_json(const struct cli_common *c, json_t *value)
{
	int failed;

	if (!value)
		return cli_error(c, "out of memory");
	failed = json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12)) != 0 ||
		 putchar('\n') == EOF;
	json_decref(value);
	return failed ? cli_output_error(c, "standard output") : CLI_OK;
}

int
cli_output_error(const struct cli_common *c, const char *file)
{
	if (errno == EPIPE)
		return CLI_SIGNAL + SIGPIPE;
	if (errno == EINTR && cli_interrupted()) {
		/* Whoever does not read holds up the rest as well. */
		__fpurge(stdout);
		return cli_say_interrupted(c);
	}
	return cli_error(c, "%s: %s", file, strerror(errno));
}

/* What a write that failed some time ago may have said. */
static int
cli_output_errno(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO };

	return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) ? EPIPE : EIO;
}

int
cli_finish(const struct cli_common *c, int code)
{
	bool failed = ferror(stdout) != 0;

	errno = failed ? cli_output_errno() : 0;
	if (fclose(stdout) == 0 && !failed)
		return code;
	/* A command that stopped because of this has said so. */
	if (code == CLI_FAIL || code > CLI_SIGNAL)
		return code;
	return cli_output_error(c, "standard output");
}

bool
cli_shows_progress(void)
{
	return isatty(STDERR_FILENO);
}
