/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_node.c -- `farside node`: serves memory to clients on this machine and on others. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/number.h"
#include "fabric/shm_node.h"

struct node_args {
	struct cli_common common;
	struct shm_node_opts opts;
	int ready_fd; /* -1: standard output */
	bool spins;   /* --spin was given */
};

static const struct argp_option node_options[] = {
	{ "size", 's', "BYTES", 0,
	  "Size of the region, at least 320k; k, m, g, t are powers of 1024. Not needed for a FILE that exists",
	  0 },
	{ "file", 'f', "FILE", 0,
	  "Keep the region in FILE (mode 0600), over restarts too; without it the region is in memory "
	  "and ends with the node",
	  0 },
	{ "listen", 'l', "URI", 0,
	  "Serve clients on other machines, too: tcp://HOST:PORT[?key=FILE]; or with RDMA, and then them alone: "
	  "verbs://HOST:PORT[?OPTION[&OPTION...]], the options being key=FILE, device=NAME, gid=INDEX and windows=no. "
	  "HOST says on which network; PORT 0 is any that is free. All but this machine's own address need a key, at "
	  "least 16 bytes that only nodes and clients have",
	  0 },
	{ "spin", 'S', "USEC", 0,
	  "With --listen: go on polling for USEC microseconds after a request before sleeping (default 20)",
	  0 },
	{ "ready-fd", 'r', "N", 0, "Write the ready line to file descriptor N and close it", 0 },
	{ 0 },
};

static error_t
node_parse(int key, char *arg, struct argp_state *state)
{
	struct node_args *a = state->input;

	switch (key) {
	case 's':
		a->opts.size = number_option(
			state, "size", arg,
			(struct number_range){ NUMBER_SIZE, 1, UINT64_C(1) << 46 });
		return 0;
	case 'f':
		a->opts.file = arg;
		return 0;
	case 'l':
		a->opts.listen = arg;
		return 0;
	case 'S':
		a->spins = true;
		a->opts.spin_us = (unsigned)number_option(
			state, "spin", arg, (struct number_range){ NUMBER_PLAIN, 0, 1000000 });
		return 0;
	case 'r':
		a->ready_fd = (int)number_option(
			state, "ready-fd", arg, (struct number_range){ NUMBER_PLAIN, 0, 1 << 20 });
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "one node serves one socket");
		if (strncmp(arg, "shm:", 4) != 0 || arg[4] == '\0')
			argp_error(state, "'%s' is not of the form shm:PATH", arg);
		a->opts.path = arg + 4;
		return 0;
	case ARGP_KEY_END:
		if (a->opts.path == NULL && a->opts.listen == NULL)
			argp_error(state, "where to serve? Give shm:PATH or --listen");
		if (a->spins && a->opts.listen == NULL)
			argp_error(state, "--spin is for --listen");
		if (a->opts.size == 0 && (a->opts.file == NULL || access(a->opts.file, F_OK) != 0))
			argp_error(state, "how large? Give --size");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp node_argp = {
	.options = node_options,
	.parser = node_parse,
	.args_doc = "[shm:PATH]",
	.doc = "Serves memory to clients on this machine at the Unix socket PATH, to clients on other machines at a TCP "
	       "port, or to both, until SIGINT or SIGTERM.\v"
	       "As soon as it serves, it prints one line: ready shm:PATH BYTES. With --listen the address comes behind "
	       "or instead of shm:PATH.\n\n"
	       "A node that was killed leaves clients behind that may still write to its FILE. Its next start kills "
	       "them before it serves.\n\n"
	       "Examples:\n"
	       "  farside node shm:/run/user/1000/n0 --size 4G\n"
	       "  farside node shm:/run/user/1000/n1 --size 4G --file /var/tmp/n1.far\n"
	       "  farside node --listen tcp://10.0.0.5:7400?key=/etc/farside.key --size 4G\n"
	       "  farside node --listen verbs://10.0.0.5:7400?key=/etc/farside.key --size 4G\n",
};

static int
node_say_ready(const struct node_args *a, const struct shm_node *n)
{
	FILE *to = a->ready_fd < 0 ? stdout : fdopen(a->ready_fd, "w");
	int failed;

	if (to == NULL)
		return cli_error(&a->common, "--ready-fd %d: %s", a->ready_fd, strerror(errno));
	failed = fputs("ready", to) < 0;
	if (a->opts.path)
		failed |= fprintf(to, " shm:%s", a->opts.path) < 0;
	if (a->opts.listen)
		failed |= fprintf(to, " %s", shm_node_uri(n)) < 0;
	failed |= fprintf(to, " %llu\n", (unsigned long long)shm_node_size(n)) < 0;
	failed |= (a->ready_fd < 0 ? fflush(to) : fclose(to)) != 0;
	return failed ? cli_error(&a->common, "cannot write the ready line: %s", strerror(errno))
		      : CLI_OK;
}

static int
node_run(int argc, char **argv)
{
	struct node_args a = {
		.common.command = "node", .opts.log = stderr, .opts.spin_us = 20, .ready_fd = -1
	};
	struct shm_node *n = NULL;
	struct shm_why why;
	int code, err;

	cli_parse(&node_argp, argc, argv, &a);
	if ((err = shm_node_open(&a.opts, &n, &why)) != 0) {
		cli_error(&a.common, "%s", why.text);
		return err == -FAR_EINVAL ? CLI_USAGE : CLI_FAIL;
	}
	code = node_say_ready(&a, n);
	if (code == CLI_OK && shm_node_serve(n, &why) != 0)
		code = cli_error(&a.common, "%s", why.text);
	shm_node_close(n);
	return cli_finish(&a.common, code);
}

const struct cli_command cli_node = {
	.name = "node",
	.summary = "serve memory to clients",
	.run = node_run,
};
