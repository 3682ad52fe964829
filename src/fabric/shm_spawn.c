/* SPDX-License-Identifier: Apache-2.0 */
/* shm_spawn.c -- a memory node as a child process. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/error.h>

#include "base/base.h"
#include "fabric/shm_region.h"

static void
shm_child_path(const struct shm_child *c, char *path, size_t max)
{
	snprintf(path, max, "%s/node", c->dir);
}

/* How the start of a child went. */
struct shm_report {
	int err;
	char uri[SHM_URI_MAX];
	struct shm_why why;
};
_Static_assert(sizeof(struct shm_report) <= 4096, "one write");

/* The child's life: reports how its start went through `report`, serves, and cleans up. */
static _Noreturn void
shm_child_run(const struct shm_node_opts *opts, const char *dir, int report)
{
	struct shm_node *n = NULL;
	struct shm_report r = { .err = 0 };
	int err = r.err = shm_node_open(opts, &n, &r.why);

	if (!err && shm_node_uri(n))
		snprintf(r.uri, sizeof(r.uri), "%s", shm_node_uri(n));
	if (write(report, &r, sizeof(r)) != (ssize_t)sizeof(r))
		err = -FAR_EIO;
	close(report);
	if (err == 0)
		err = shm_node_serve(n, &r.why);
	shm_node_close(n);
	if (dir)
		rmdir(dir);
	/* The parent's buffers and handlers are not ours to run. */
	_exit(err ? 1 : 0);
}

static int
shm_child_wait(int report, char *listens, struct shm_why *why)
{
	struct shm_report r;
	ssize_t n;

	do
		n = read(report, &r, sizeof(r));
	while (n < 0 && errno == EINTR);
	/* It is shorter than what a pipe takes at once. */
	if (n != (ssize_t)sizeof(r))
		return shm_why(why, -FAR_EIO, "the memory node ended before it served");
	if (r.err)
		*why = r.why;
	else if (listens)
		memcpy(listens, r.uri, sizeof(r.uri));
	return r.err;
}

static void
shm_child_end(pid_t pid)
{
	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int
shm_node_fork(const struct shm_node_opts *opts, const char *dir, pid_t *pid, struct shm_why *why)
{
	int report[2], err;
	pid_t child;

	if (pipe2(report, O_CLOEXEC) != 0)
		return shm_why(why, -FAR_EIO, "pipe: %s", strerror(errno));
	if ((child = fork()) == 0) {
		close(report[0]);
		shm_child_run(opts, dir, report[1]);
	}
	err = child < 0 ? shm_why(why, -FAR_EIO, "fork: %s", strerror(errno)) : 0;
	close(report[1]);
	if (err == 0)
		err = shm_child_wait(report[0], opts->listens, why);
	close(report[0]);
	if (err && child > 0)
		shm_child_end(child);
	if (err == 0)
		*pid = child;
	return err;
}

/* Starts a node in a directory of its own; path and size come here, the other options from the caller. */
static int
shm_child_start(struct shm_node_opts *opts, struct shm_child *out, struct shm_why *why)
{
	const char *tmp = getenv("TMPDIR");
	struct shm_child c = { .pid = 0 };
	char path[sizeof(c.dir) + 8], listens[SHM_URI_MAX] = "";
	int err;

	opts->path = path;
	opts->child = true;
	opts->listens = listens;

	/* A socket's path must be short. */
	snprintf(c.dir, sizeof(c.dir), "%s/farside-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	if (mkdtemp(c.dir) == NULL)
		return shm_why(why, -FAR_EIO, "%s: %s", c.dir, strerror(errno));
	snprintf(c.uri, sizeof(c.uri), "shm:%s/node", c.dir);
	shm_child_path(&c, path, sizeof(path));
	if ((err = shm_node_fork(opts, c.dir, &c.pid, why)) != 0) {
		shm_node_stop(&c);
		return err;
	}
	/* An address and a port of this machine. */
	FAR_ASSERT(strlen(listens) < sizeof(c.tcp_uri));
	strcpy(c.tcp_uri, listens);
	*out = c;
	return 0;
}

int
shm_node_spawn(uint64_t size, struct shm_child *out, struct shm_why *why)
{
	struct shm_node_opts opts = { .size = size };

	return shm_child_start(&opts, out, why);
}

int
shm_node_spawn_tcp(uint64_t size, uint64_t weakness, struct shm_child *out, struct shm_why *why)
{
	struct shm_node_opts opts = { .size = size,
				      .listen = "tcp://127.0.0.1:0",
				      .weakness = weakness };

	return shm_child_start(&opts, out, why);
}

void
shm_uri_add(char *uri, size_t len, const char *node)
{
	const char *slashes = strncmp(node, "shm:", 4) == 0 ? NULL : strstr(node, "://");
	size_t at = strlen(uri), scheme = slashes ? (size_t)(slashes + 3 - node) : 4;

	FAR_ASSERT(slashes || strncmp(node, "shm:", 4) == 0);
	snprintf(uri + at, len - at, "%s%s", at ? "," : "", at ? node + scheme : node);
}

void
shm_node_stop(struct shm_child *c)
{
	char path[sizeof(c->dir) + 8];

	if (c->pid > 0)
		shm_child_end(c->pid);
	if (c->dir[0] != '\0') {
		/* Left when the node was killed. */
		shm_child_path(c, path, sizeof(path));
		unlink(path);
		rmdir(c->dir);
	}
	*c = (struct shm_child){ .pid = 0 };
}
