/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_load.c -- farside load TABLE FILE...: records of text files into a table. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "cli/batch.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/record.h"

enum {
	LOAD_FIBERS = 64,
	LOAD_BAD_SHOWN = 10, /* messages about skipped records */
};

struct load {
	struct cli_common common;
	struct cli_args args;
	struct record_opts record;
	const char *table;
	bool create, skip_bad, interrupted;
	struct far *f;
	struct far_table *t; /* NULL: to be created with the first record */
	struct batch *batch;
	struct progress progress;
	uint64_t bad;
};

enum {
	LOAD_CREATE = 0x100,
	LOAD_SKIP_BAD,
	LOAD_DELIMITER,
};

static const struct argp_option load_options[] = {
	{ "table", 't', "TABLE", 0, "The table; all arguments are files then", 0 },
	{ "key", 'k', "COLUMN", 0,
	  "The column that is the key; A,B joins several. For INI the default is " RECORD_SECTION
	  ", the section's name",
	  0 },
	{ "value", 'v', "COLUMN", 0,
	  "This column alone is the value, as it is (default: the row as JSON)", 0 },
	{ "format", 'f', "FORMAT", 0,
	  "csv, tsv, ini, json, dump or auto (default: by name or content)", 0 },
	{ "delimiter", LOAD_DELIMITER, "CHAR", 0, "Between columns of CSV (default: a comma)", 0 },
	{ "prefix", 'P', "TEXT", 0, "Put before each key", 0 },
	{ "create", LOAD_CREATE, NULL, 0, "Create the table when it is missing", 0 },
	{ "skip-bad", LOAD_SKIP_BAD, NULL, 0, "Count malformed records instead of stopping", 0 },
	{ 0 },
};

static void
load_parse_format(struct load *l, const char *name, struct argp_state *state)
{
	for (unsigned i = 0; record_format_name(i); i++) {
		if (strcmp(name, record_format_name(i)) == 0) {
			l->record.format = i;
			return;
		}
	}
	argp_error(state, "--format: '%s' is none of auto, csv, tsv, ini, json, dump", name);
}

static error_t
load_parse(int key, char *arg, struct argp_state *state)
{
	struct load *l = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &l->common;
		return 0;
	case 't':
		l->table = arg;
		return 0;
	case 'k':
		l->record.key = arg;
		return 0;
	case 'v':
		l->record.value = arg;
		return 0;
	case 'f':
		load_parse_format(l, arg, state);
		return 0;
	case 'P':
		l->record.prefix = arg;
		return 0;
	case LOAD_DELIMITER:
		if (strlen(arg) != 1)
			argp_error(state, "--delimiter: '%s' is not one character", arg);
		l->record.delimiter = arg[0];
		return 0;
	case LOAD_CREATE:
		l->create = true;
		return 0;
	case LOAD_SKIP_BAD:
		l->skip_bad = true;
		return 0;
	case ARGP_KEY_ARGS:
		l->args.min = l->table ? 1 : 2;
		return cli_parse_args(key, state, &l->args);
	default:
		return cli_parse_args(key, state, &l->args);
	}
}

static int
load_store_error(struct load *l, const char *file, int err)
{
	uint64_t line = batch_failed_line(l->batch);
	const char *text = far_errmsg(l->f);

	progress_end(&l->progress);
	if (line == 0)
		return cli_error(&l->common, "%s", *text ? text : far_strerror(err));
	return cli_error(&l->common, "%s:%llu: not stored: %s", file, (unsigned long long)line,
			 far_strerror(err));
}

/* A record that could not be read: CLI_OK when loading goes on. */
static int
load_bad(struct load *l, const struct record_source *r, int err)
{
	if (err == -FAR_EINTR) {
		l->interrupted = true;
		return CLI_OK;
	}
	l->bad += err == -FAR_ESYNTAX;
	if (err != -FAR_ESYNTAX || !l->skip_bad) {
		progress_end(&l->progress);
		cli_error(&l->common, "%s", record_error(r));
		return err == -FAR_EINVAL ? CLI_USAGE : CLI_FAIL;
	}
	if (l->bad <= LOAD_BAD_SHOWN) {
		progress_end(&l->progress);
		cli_error(&l->common, "skipped: %s", record_error(r));
	}
	if (l->bad == LOAD_BAD_SHOWN)
		cli_error(&l->common, "skipped: further ones are only counted");
	return CLI_OK;
}

/* The table is missing, and the input has been understood: a refused one leaves no table behind. */
static int
load_create(struct load *l)
{
	int err = far_table_create(l->f, l->table, NULL);

	if (!err || err == -FAR_EEXIST)
		err = far_table_open(l->f, l->table, &l->t);
	if (err)
		return cli_fail(&l->common, l->f, err);
	batch_aim(l->batch, l->t);
	return CLI_OK;
}

/* Stores all records of one source. What was read before an error is stored as well. */
static int
load_source(struct load *l, const char *file, struct record_source *r)
{
	struct record rec;
	int code = CLI_OK, got = 1, err = 0;

	while (got != 0 && code == CLI_OK && !err && !l->interrupted) {
		/* Nobody knows how long a slow input lets the records gathered so far wait. */
		if (batch_waiting(l->batch) && record_would_wait(r))
			err = batch_flush(l->batch);
		got = err ? 0 : record_next(r, &rec);
		if (got >= 0 && !l->t && (code = load_create(l)) != CLI_OK)
			break;
		if (got == 1)
			err = batch_add(l->batch, rec.key, rec.value, rec.line);
		else if (got < 0)
			code = load_bad(l, r, got);
		l->interrupted = l->interrupted || cli_interrupted();
		progress_update(&l->progress, record_progress(r), batch_counts(l->batch)->rows);
	}
	if (!err)
		err = batch_flush(l->batch);
	return err ? load_store_error(l, file, err) : code;
}

static int
load_file(struct load *l, const char *file)
{
	const char *name = strcmp(file, "-") == 0 ? "standard input" : file;
	struct record_source *r;
	int err = record_open(file, &l->record, &r), code;

	if (err)
		return cli_error(&l->common, "%s: %s", name,
				 err == -FAR_EIO ? strerror(errno) : far_strerror(err));
	code = load_source(l, name, r);
	record_close(r);
	return code;
}

/* What was stored. `code`: how loading ended. */
static int
load_summary(struct load *l, double seconds, int code)
{
	const struct batch_counts *c = batch_counts(l->batch);
	bool stopped = code != CLI_OK;
	const char *end = l->interrupted ? "; interrupted" : stopped ? "; stopped"
								     : "";

	/* Nothing was tried: the message is all there is to say. */
	if (stopped && c->rows == 0 && l->bad == 0)
		return CLI_OK;
	if (l->common.json)
		return cli_print_json(
			&l->common,
			json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:f,s:b,s:b}", "table", l->table,
				  "rows", (json_int_t)c->rows, "new", (json_int_t)c->fresh,
				  "replaced", (json_int_t)c->replaced, "duplicates",
				  (json_int_t)c->duplicates, "bad", (json_int_t)l->bad, "seconds",
				  seconds, "interrupted", l->interrupted, "stopped", stopped));
	printf("%llu rows: %llu new, %llu replaced, %llu duplicates; %llu bad; %.2f seconds%s\n",
	       (unsigned long long)c->rows, (unsigned long long)c->fresh,
	       (unsigned long long)c->replaced, (unsigned long long)c->duplicates,
	       (unsigned long long)l->bad, seconds, end);
	return CLI_OK;
}

static int
load_table(struct load *l, unsigned first)
{
	int code = CLI_OK, said;

	if (batch_open(l->t, &l->batch) != 0)
		return cli_error(&l->common, "out of memory");
	cli_catch_signals();
	progress_start(&l->progress, "rows");
	for (unsigned i = first; i < l->args.n && code == CLI_OK && !l->interrupted; i++)
		code = load_file(l, l->args.arg[i]);
	said = load_summary(l, progress_end(&l->progress), code);
	batch_close(l->batch);
	if (code == CLI_OK && l->interrupted)
		code = cli_say_interrupted(&l->common);
	return code == CLI_OK ? said : code;
}

static int
load_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		load_options,
		load_parse,
		"[TABLE] FILE...",
		"Loads CSV, TSV, INI, JSON lines or a dump, gzipped or not, from files or (-) "
		"standard input. A row's value is a JSON object of its other columns. When a "
		"key comes several times, the last one stands.",
		children,
		NULL,
		NULL
	};
	struct load l = { .common = { .command = "load" }, .args = { .min = 1, .max = INT_MAX } };
	struct far_opts opts = { .fibers = LOAD_FIBERS };
	unsigned first;
	int code, err;

	cli_parse(&argp, argc, argv, &l);
	first = l.table ? 0 : 1;
	if (!l.table)
		l.table = l.args.arg[0];
	code = cli_open(&l.common, &opts, &l.f);
	if (code != CLI_OK)
		return code;
	err = far_table_open(l.f, l.table, &l.t);
	if (err == -FAR_ENOENT && l.create)
		err = 0;
	if (err == -FAR_ENOENT) {
		cli_error(&l.common, "table '%s': not found; --create makes it", l.table);
		code = CLI_NO;
	} else {
		code = err ? cli_fail(&l.common, l.f, err) : load_table(&l, first);
	}
	cli_close(l.f, l.t);
	return cli_finish(&l.common, code);
}

const struct cli_command cli_load = { "load", "load CSV, TSV, INI, JSON lines or a dump",
				      load_run };
