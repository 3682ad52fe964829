/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_stat.c -- farside stat [TABLE]: what memory holds. */
#include <farside/fabric.h>

#include "cli/commands.h"

struct stat_args {
	struct cli_common common;
	struct cli_args args;
};

static error_t
stat_parse(int key, char *arg, struct argp_state *state)
{
	struct stat_args *s = state->input;

	if (key != ARGP_KEY_INIT)
		return cli_parse_args(key, state, &s->args);
	state->child_inputs[0] = &s->common;
	return 0;
}

static double
stat_ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

/*
 * What is granted but neither in use nor known to be free: which blocks of a chunk are free knows the client that has
 * it, until it leaves or somebody looks through what it left when it died.
 */
static uint64_t
stat_held(const struct far_table_stat *s)
{
	uint64_t granted = s->granted_index_bytes + s->granted_block_bytes;
	uint64_t known = s->index_bytes + s->block_bytes + s->free_index_bytes +
			 s->free_block_bytes + s->header_bytes;

	return granted > known ? granted - known : 0;
}

/* One kind of chunk: with what clients hold, and with the headers, both counted for both kinds together, in use +
 * free = granted. */
static void
stat_print_kind(const char *kind, uint64_t used, uint64_t free_bytes, uint64_t granted)
{
	printf("%-8s %14llu in use  %14llu free  %14llu granted\n", kind, (unsigned long long)used,
	       (unsigned long long)free_bytes, (unsigned long long)granted);
}

static void
stat_print_table(const char *name, const struct far_table_stat *s)
{
	uint64_t used = s->index_bytes + s->block_bytes,
		 idle = s->free_index_bytes + s->free_block_bytes;
	uint64_t granted = s->granted_index_bytes + s->granted_block_bytes, held = stat_held(s);

	printf("table    %s (%s)\n", name, s->design);
	printf("keys     %llu in %llu slots (load factor %.3f)\n", (unsigned long long)s->keys,
	       (unsigned long long)s->slots, stat_ratio(s->keys, s->slots));
	printf("index    %llu subtable%s, directory depth %u, %llu split%s\n",
	       (unsigned long long)s->subtables, s->subtables == 1 ? "" : "s", s->depth,
	       (unsigned long long)s->splits, s->splits == 1 ? "" : "s");
	printf("per key  %.1f bytes of index, %.1f bytes of blocks\n",
	       stat_ratio(s->index_bytes, s->keys), stat_ratio(s->block_bytes, s->keys));
	stat_print_kind("index", s->index_bytes, s->free_index_bytes, s->granted_index_bytes);
	stat_print_kind("blocks", s->block_bytes, s->free_block_bytes, s->granted_block_bytes);
	printf("total    %llu in use + %llu free", (unsigned long long)used,
	       (unsigned long long)idle);
	if (held)
		printf(" + %llu with clients at work or dead", (unsigned long long)held);
	printf(" + %llu headers and ends of chunks = %llu; granted %llu\n",
	       (unsigned long long)s->header_bytes,
	       (unsigned long long)(used + idle + held + s->header_bytes),
	       (unsigned long long)granted);
}

static json_t *
stat_json_table(const char *name, const struct far_table_stat *s)
{
	return json_pack(
		"{s:s,s:s,s:I,s:I,s:f,s:I,s:i,s:I,s:f,s:f,s:{s:I,s:I,s:I},s:{s:I,s:I,s:I},s:I,s:I}",
		"name", name, "design", s->design, "keys", (json_int_t)s->keys, "slots",
		(json_int_t)s->slots, "load_factor", stat_ratio(s->keys, s->slots), "subtables",
		(json_int_t)s->subtables, "depth", (int)s->depth, "splits", (json_int_t)s->splits,
		"index_bytes_per_key", stat_ratio(s->index_bytes, s->keys), "block_bytes_per_key",
		stat_ratio(s->block_bytes, s->keys), "index", "in_use", (json_int_t)s->index_bytes,
		"free", (json_int_t)s->free_index_bytes, "granted",
		(json_int_t)s->granted_index_bytes, "blocks", "in_use", (json_int_t)s->block_bytes,
		"free", (json_int_t)s->free_block_bytes, "granted",
		(json_int_t)s->granted_block_bytes, "header_bytes", (json_int_t)s->header_bytes,
		"held_bytes", (json_int_t)stat_held(s));
}

/* Clients that a node cannot stop: why memory does not come back, and what to do about it. */
static void
stat_print_quarantine(const struct far_node_info *info, int n)
{
	bool any = false;

	for (int i = 0; i < n; i++) {
		if (!info[i].quarantined_sessions)
			continue;
		any = true;
		printf("node %-3d %14llu bytes in quarantine: %u silent clients that it may not stop",
		       i, (unsigned long long)info[i].quarantined_bytes,
		       info[i].quarantined_sessions);
		if (info[i].quarantined_pid)
			printf(", process %d among them", info[i].quarantined_pid);
		putchar('\n');
	}
	if (any)
		printf("warning  until their processes end, nothing that is freed in this pool is used again\n");
}

static void
stat_print_nodes(const struct far_node_info *info, int n)
{
	for (int i = 0; i < n; i++)
		printf("node %-3d %14llu bytes   %14llu granted (%.1f %%)\n", i,
		       (unsigned long long)info[i].region_bytes,
		       (unsigned long long)info[i].granted_bytes,
		       100 * stat_ratio(info[i].granted_bytes, info[i].region_bytes));
	stat_print_quarantine(info, n);
}

static json_t *
stat_json_nodes(const struct far_node_info *info, int n)
{
	json_t *all = json_array();

	for (int i = 0; all && i < n; i++)
		json_array_append_new(all,
				      json_pack("{s:i,s:I,s:I,s:{s:i,s:I,s:i}}", "node", i,
						"region_bytes", (json_int_t)info[i].region_bytes,
						"granted_bytes", (json_int_t)info[i].granted_bytes,
						"quarantined", "sessions",
						(int)info[i].quarantined_sessions, "bytes",
						(json_int_t)info[i].quarantined_bytes, "pid",
						info[i].quarantined_pid));
	return all;
}

static int
stat_print(const struct stat_args *s, struct far *f, const struct far_table_stat *table)
{
	struct far_node_info info[FAR_NODES_MAX];
	const char *name = table ? s->args.arg[0] : NULL;
	int n = far_nodes(f, info, FAR_NODES_MAX);

	if (n < 0)
		return cli_fail(&s->common, f, n);
	if (s->common.json)
		return cli_print_json(
			&s->common,
			table ? json_pack("{s:o,s:o}", "table", stat_json_table(name, table),
					  "nodes", stat_json_nodes(info, n))
			      : json_pack("{s:o}", "nodes", stat_json_nodes(info, n)));
	if (table)
		stat_print_table(name, table);
	stat_print_nodes(info, n);
	return CLI_OK;
}

static int
stat_table(const struct stat_args *s, struct far *f)
{
	struct far_table_stat table;
	struct far_table *t;
	int err, code;

	err = far_table_open(f, s->args.arg[0], &t);
	if (err)
		return cli_fail(&s->common, f, err);
	err = far_table_stat(t, &table);
	code = err ? cli_fail(&s->common, f, err) : stat_print(s, f, &table);
	far_table_close(t);
	return code;
}

static int
stat_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &cli_common_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		NULL,
		stat_parse,
		"[TABLE]",
		"Shows the memory of each node and, with TABLE, what the table uses of it.",
		children,
		NULL,
		NULL
	};
	struct stat_args s = { .common = { .command = "stat" }, .args = { .max = 1 } };
	struct far *f;
	int code;

	cli_parse(&argp, argc, argv, &s);
	cli_end_on_signals(&s.common);
	code = cli_open(&s.common, NULL, &f);
	if (code != CLI_OK)
		return code;
	code = s.args.n > 0 ? stat_table(&s, f) : stat_print(&s, f, NULL);
	far_close(f);
	return cli_finish(&s.common, code);
}

const struct cli_command cli_stat = { "stat", "show memory of nodes and tables", stat_run };
