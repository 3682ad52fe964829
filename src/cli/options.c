/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- parsing a command line: the options that commands share, their arguments, and words that are neither. */
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "cli/number.h"

enum {
	CLI_OPTIONS_MAX = 64, /* of one command, with those it shares */
	CLI_GETOPT_WORD = 2,  /* what getopt_long() returns for a long option: no letter */
};

static const struct argp_option cli_common_options[] = {
	{ "pool", 'p', "URI", 0,
	  "The pool: shm:PATH[,PATH...] or tcp://HOST:PORT[,HOST:PORT...][?key=FILE] or verbs://..., its memory nodes in order (default: "
	  "$FARSIDE_POOL)",
	  1 },
	{ "json", 'j', NULL, 0, "Print JSON", 1 },
	{ 0 },
};

static error_t
cli_common_parse(int key, char *arg, struct argp_state *state)
{
	struct cli_common *c = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		c->pool = getenv("FARSIDE_POOL");
		return 0;
	case 'p':
		c->pool = arg;
		return 0;
	case 'j':
		c->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_common_argp = { .options = cli_common_options, .parser = cli_common_parse };

static const struct argp_option cli_code_options[] = {
	{ "hex", 'x', NULL, 0,
	  "Keys and values are hexadecimal, here and in the output (JSON: keyhex, valuehex)", 1 },
	{ "base64", 'b', NULL, 0,
	  "Keys and values are base64, here and in the output (JSON: key64, value64)", 1 },
	{ 0 },
};

static error_t
cli_code_parse(int key, char *arg, struct argp_state *state)
{
	enum bytes_code *code = state->input;

	switch (key) {
	case 'x':
	case 'b':
		if (*code != BYTES_RAW && *code != (key == 'x' ? BYTES_HEX : BYTES_BASE64))
			argp_error(state, "--hex and --base64 exclude each other");
		*code = key == 'x' ? BYTES_HEX : BYTES_BASE64;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp cli_code_argp = { .options = cli_code_options, .parser = cli_code_parse };

uint64_t
cli_version(struct argp_state *state, const char *arg)
{
	const struct number_range any = { NUMBER_VERSION, 0, UINT64_MAX };

	return number_option(state, "if-version", arg, any);
}

/* What the command takes, as its help says it. argp puts a root of its own above the command's. */
static const char *
cli_args_doc(const struct argp *root)
{
	if (!root->args_doc && root->children && root->children->argp)
		root = root->children->argp;
	return root->args_doc ? root->args_doc : "more";
}

/* The missing argument may have been taken for short options, which argp has moved to the front by now. */
static const char *
cli_dash_doc(const struct argp_state *state)
{
	const char *first = state->argc > 1 ? state->argv[1] : "";

	if (first[0] != '-' || first[1] == '\0' || first[1] == '-')
		return "";
	return " (one that starts with - comes behind --)";
}

error_t
cli_parse_args(int key, struct argp_state *state, struct cli_args *args)
{
	switch (key) {
	case ARGP_KEY_ARGS:
		args->arg = state->argv + state->next;
		args->n = (unsigned)(state->argc - state->next);
		if (args->n > args->max)
			argp_error(state, "too many arguments: '%s'", args->arg[args->max]);
		return 0;
	case ARGP_KEY_END:
		if (args->n < args->min)
			argp_error(state, "an argument is missing; expected %s%s",
				   cli_args_doc(state->root_argp), cli_dash_doc(state));
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Words that are no options ------------------------------------------------------------------------------------- */

/* A command's options as getopt_long() takes them. */
struct cli_getopt {
	char letters[3 * CLI_OPTIONS_MAX + 3];
	struct option words[CLI_OPTIONS_MAX + 1];
	unsigned letters_n, words_n;
};

static void
cli_getopt_add(struct cli_getopt *g, const struct argp_option *o, int takes)
{
	FAR_ASSERT(g->words_n < CLI_OPTIONS_MAX);
	if (o->name)
		g->words[g->words_n++] = (struct option){ o->name, takes, NULL, CLI_GETOPT_WORD };
	if (o->key <= ' ' || o->key > '~')
		return;
	g->letters[g->letters_n++] = (char)o->key;
	for (int colon = 0; colon < takes; colon++)
		g->letters[g->letters_n++] = ':';
}

static void
cli_getopt_collect(struct cli_getopt *g, const struct argp *argp)
{
	const struct argp_child *child = argp->children;
	int takes = no_argument;

	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
		/* An alias takes what the option before it takes. */
		if (!(o->flags & OPTION_ALIAS))
			takes = !o->arg                          ? no_argument
				: o->flags & OPTION_ARG_OPTIONAL ? optional_argument
								 : required_argument;
		cli_getopt_add(g, o, takes);
	}
	for (; child && child->argp; child++)
		cli_getopt_collect(g, child->argp);
}

/* Is the word, without what follows a '=', the start of several long options' names? argp tells which. */
static bool
cli_is_start(const struct cli_getopt *g, const char *word)
{
	size_t len = strcspn(word, "=");

	for (unsigned i = 0; i < g->words_n; i++) {
		if (strncmp(g->words[i].name, word, len) == 0)
			return true;
	}
	return false;
}

/* The first word that starts with - and is no option; NULL: none. */
static const char *
cli_no_option(const struct argp *argp, int argc, char **argv)
{
	/* '-': arguments come in their order among the options; ':': nothing is printed. */
	struct cli_getopt g = { .letters = "-:", .letters_n = 2 };
	int at = 1, found;

	cli_getopt_add(&g, &(struct argp_option){ .name = "help" }, no_argument);
	cli_getopt_add(&g, &(struct argp_option){ .name = "usage" }, no_argument);
	cli_getopt_collect(&g, argp);
	for (optind = 0; (found = getopt_long(argc, argv, g.letters, g.words, NULL)) != -1;
	     at = optind) {
		/* optopt: the unknown letter, of which argp knows -?; 0 for a long option of no or several meanings; or
		 * CLI_GETOPT_WORD, when a known one has an argument that it does not take. */
		if (found != '?' || optopt == '?' || optopt == CLI_GETOPT_WORD)
			continue;
		if (optopt != 0 || !cli_is_start(&g, argv[at] + 2))
			return argv[at];
	}
	return NULL;
}

void
cli_parse(const struct argp *argp, int argc, char **argv, void *input)
{
	char help[] = "--help", *help_argv[] = { argv[0], help, NULL };
	const char *word = cli_no_option(argp, argc, argv);

	/* Ends the program. */
	if (word && strcmp(word, "-h") == 0)
		argp_parse(argp, 2, help_argv, 0, NULL, input);
	if (word) {
		fprintf(stderr, "%s: '%s' is no option ('%s --help' lists them)%s\n", argv[0],
			word, argv[0],
			argp->args_doc ? "; an argument that starts with - comes behind --" : "");
		exit(CLI_USAGE);
	}
	argp_parse(argp, argc, argv, 0, NULL, input);
}
