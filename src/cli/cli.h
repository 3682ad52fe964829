/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h -- what the subcommands of `farside` share.
 *
 * A command is one file with one `const struct cli_command cli_NAME` and one line in main.c. It parses its options
 * with cli_parse() and takes the common ones (--pool, --json) from cli_common_argp as a child parser:
 *
 *	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
 *
 *	case ARGP_KEY_INIT:
 *		state->child_inputs[0] = &args->common;
 *
 * Data goes to standard output, everything else to standard error.
 */
#ifndef FAR_CLI_H
#define FAR_CLI_H

#include <argp.h>
#include <jansson.h>

#include <farside/far.h>

#include "cli/bytes.h"

/* Exit codes of the program; `farside --help` and farside(1) list them. */
enum cli_exit {
	CLI_OK = 0,
	CLI_NO = 1,    /* the answer is no: not found, exists already, version changed; something is wrong in a table */
	CLI_USAGE = 2, /* wrong command line, pool URI, name, key or value */
	CLI_FAIL = 3,  /* the pool, the system or the input failed */
	CLI_SIGNAL = 128, /* plus the number of the signal that ended it: 130, 143; 141: nobody reads the output */
};

struct cli_command {
	const char *name;
	const char *summary; /* one line for `farside --help` */
	/* argv[0] is "farside NAME". Returns an exit code; never leaves the program otherwise than through argp. */
	int (*run)(int argc, char **argv);
};

/* The options that most commands take. */
struct cli_common {
	const char *command; /* for messages; the command sets it before it parses */
	const char *pool;    /* --pool, else FARSIDE_POOL, else NULL */
	bool json;
};

/* Parses --pool and --json into the `struct cli_common` that is its input. */
extern const struct argp cli_common_argp;

/* Parses --hex and --base64 into the `enum bytes_code` that is its input. */
extern const struct argp cli_code_argp;

/* The value of --if-version. Anything else ends the program with a message of argp. */
uint64_t cli_version(struct argp_state *state, const char *arg);

/* A command's arguments: at least `min`, at most `max`. */
struct cli_args {
	char **arg; /* n of them, in argv */
	unsigned n, min, max;
};

/* Parses a command line as argp_parse() does, which ends the program when it is wrong. Whoever meant an argument that
 * starts with - to be a key is told how to say that. */
void cli_parse(const struct argp *argp, int argc, char **argv, void *input);

/* Takes ARGP_KEY_ARGS and the keys that end parsing; to be called for what the command's own parser does not know. */
error_t cli_parse_args(int key, struct argp_state *state, struct cli_args *args);

/* Appends the key or value that a command line argument stands for: decoded, or with "-" all of standard input (its
 * last newline is dropped where it is decoded). At most `max` bytes; `what` is for messages. Returns an exit code,
 * having said what is wrong. */
int cli_read_bytes(const struct cli_common *c, const char *what, const char *arg, enum bytes_code code, size_t max,
		   struct bytes *out);

/* Writes bytes to standard output. Returns an exit code, having said what went wrong. */
int cli_write(const struct cli_common *c, const struct bytes *b);

/* Prints "farside COMMAND: TEXT" to standard error, as argp does. Returns CLI_FAIL. */
int cli_error(const struct cli_common *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says what went wrong in a call on `f` that returned `err` (-FAR_E...), and returns the exit code for it. */
int cli_fail(const struct cli_common *c, const struct far *f, int err);

/* The exit code for -FAR_E... */
int cli_exit_code(int err);

/* The common options name a pool: NULL (none at all) only when it is `optional`. Else says what is wrong and returns
 * CLI_USAGE. */
int cli_check_pool(const struct cli_common *c, bool optional);

/* Opens the pool of the common options. On failure says why and returns the exit code. `opts` may be NULL. */
int cli_open(const struct cli_common *c, const struct far_opts *opts, struct far **out);

/* The same, and then table `name`; close both with cli_close(). */
int cli_open_table(const struct cli_common *c, const char *name, struct far **f, struct far_table **t);

/* Closes both; either may be NULL. */
void cli_close(struct far *f, struct far_table *t);

/* Prints `value` as one line and drops the reference, also on error. NULL (out of memory) is an error. Returns an
 * exit code, having said what went wrong. */
int cli_print_json(const struct cli_common *c, json_t *value);

/* Flushes and closes standard output. `code` stands unless writing failed (disk full, closed pipe). */
int cli_finish(const struct cli_common *c, int code);

/* Says why writing to `file` failed, as errno tells; when its reader went away, nothing. What standard output still
 * held is dropped when a signal cut the write short. Returns an exit code. */
int cli_output_error(const struct cli_common *c, const char *file);

/* From here on SIGINT, SIGTERM and SIGHUP only set a flag (the second one ends the program as usual). */
void cli_catch_signals(void);

/* From here on these signals end the program with a message: for commands that are one long call and change nothing
 * that would be missed. */
void cli_end_on_signals(const struct cli_common *c);

/* True after the first signal that was caught. */
bool cli_interrupted(void);

/* Says that the command was interrupted and returns its exit code; only when it was. */
int cli_say_interrupted(const struct cli_common *c);

/* True when standard error is a terminal: there progress is shown. */
bool cli_shows_progress(void);

#endif
