/* SPDX-License-Identifier: Apache-2.0 */
/* outage_test.c -- processes that use the library while memory nodes are killed and come back. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <farside/far.h>

#include "base/base.h"
#include "e2e/sessions.h"
#include "fabric/shm_node.h"
#include "test.h"

enum {
	OUTAGE_SIZE = 16 << 20,
	OUTAGE_USERS = 3,
	OUTAGE_KEYS = 500,
	OUTAGE_WAIT_MS = 20000,
};

/* Nodes as processes of their own, in one directory; node i serves dir/n<i> on file dir/f<i>. */
struct outage {
	char dir[32], path[2][64], file[2][64], uri[160];
	pid_t node[2];
};

static int
outage_start(struct outage *o, unsigned i)
{
	struct shm_node_opts opts = { o->path[i], o->file[i], OUTAGE_SIZE, .child = true };
	struct shm_why why = { "" };
	int err = shm_node_fork(&opts, NULL, &o->node[i], &why);

	if (err)
		printf("# %s\n", why.text);
	return err;
}

static void
outage_end(struct outage *o, unsigned i, int sig)
{
	kill(o->node[i], sig);
	waitpid(o->node[i], NULL, 0);
}

static void
outage_init(struct outage *o, unsigned nodes)
{
	memset(o, 0, sizeof(*o));
	/* A user that was killed shows in its exit status. */
	signal(SIGPIPE, SIG_IGN);
	strcpy(o->dir, "/tmp/farside-outage-XXXXXX");
	REQUIRE(mkdtemp(o->dir) != NULL);
	for (unsigned i = 0; i < nodes; i++) {
		snprintf(o->path[i], sizeof(o->path[i]), "%s/n%u", o->dir, i);
		snprintf(o->file[i], sizeof(o->file[i]), "%s/f%u", o->dir, i);
		REQUIRE(outage_start(o, i) == 0);
	}
	snprintf(o->uri, sizeof(o->uri), nodes == 2 ? "shm:%s,%s" : "shm:%s", o->path[0], o->path[1]);
}

static void
outage_fini(struct outage *o, unsigned nodes)
{
	for (unsigned i = 0; i < nodes; i++) {
		outage_end(o, i, SIGTERM);
		unlink(o->path[i]);
		unlink(o->file[i]);
	}
	CHECK(rmdir(o->dir) == 0);
}

/* Users ----------------------------------------------------------------------------------------------------- */

/* A process that uses the pool; it and the test go on in turns, a byte each. */
struct user {
	pid_t pid;
	int to, from;
};

static bool
user_hear(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	char byte;

	return poll(&ready, 1, OUTAGE_WAIT_MS) == 1 && read(fd, &byte, 1) == 1;
}

static struct user
user_start(const char *uri, unsigned id, int (*run)(const char *uri, unsigned id, int to, int from))
{
	int there[2], back[2];
	struct user u;

	REQUIRE(pipe(there) == 0 && pipe(back) == 0);
	fflush(stdout);
	if ((u.pid = fork()) == 0)
		_exit(run(uri, id, back[1], there[0]));
	close(there[0]);
	close(back[1]);
	u.to = there[1];
	u.from = back[0];
	return u;
}

static int
user_end(struct user *u)
{
	int status = -1;

	CHECK(write(u->to, "g", 1) == 1);
	waitpid(u->pid, &status, 0);
	close(u->to);
	close(u->from);
	return status;
}

static struct far_bytes
user_key(char buf[32], unsigned id, unsigned i)
{
	return far_bytes(buf, (size_t)snprintf(buf, 32, "user %u key %u", id, i));
}

/* Puts, and then gets, until the node is gone; the number of keys that are there for sure. */
static unsigned
user_work(struct far_table *t, unsigned id, int *err)
{
	struct far_value v;
	unsigned n = 0;
	char buf[32];

	for (*err = 0; *err == 0;) {
		if (n == OUTAGE_KEYS) {
			*err = far_get(t, user_key(buf, id, 0), &v);
			continue;
		}
		*err = far_put(t, user_key(buf, id, n), far_bytes(buf, 8), NULL);
		n += *err == 0;
	}
	return n;
}

/* Loses its handle to an outage, opens another one, finds everything. 0, or where it failed. */
static int
user_survives(const char *uri, unsigned id, int to, int from)
{
	struct far_table *t;
	struct far_value v;
	struct far *f;
	char buf[32];
	unsigned n;
	int err;

	if (far_open(uri, NULL, &f) != 0 || far_table_open(f, "t", &t) != 0 || write(to, "r", 1) != 1)
		return 1;
	n = user_work(t, id, &err);
	far_close(f);
	if ((err != -FAR_ENODE && err != -FAR_EUNSURE) || write(to, "c", 1) != 1 || !user_hear(from))
		return 2;
	if (far_open(uri, NULL, &f) != 0 || far_table_open(f, "t", &t) != 0)
		return 3;
	for (unsigned i = 0; i < n; i++) {
		if (far_get(t, user_key(buf, id, i), &v) != 0)
			return 4;
	}
	if (far_put(t, user_key(buf, id, n), far_bytes(buf, 8), NULL) != 0)
		return 5;
	far_close(f);
	return n > 0 ? 0 : 6;
}

static void
violation(void *arg, const char *line)
{
	(void)arg;
	printf("# %s\n", line);
}

static void
test_node_restarts_clients_that_closed_their_handles_go_on(void)
{
	struct user users[OUTAGE_USERS];
	struct far_table *t;
	struct outage o;
	struct far *f;

	outage_init(&o, 1);
	REQUIRE(far_open(o.uri, NULL, &f) == 0);
	CHECK_EQ(far_table_create(f, "t", NULL), 0);
	far_close(f);
	for (unsigned i = 0; i < OUTAGE_USERS; i++) {
		users[i] = user_start(o.uri, i, user_survives);
		CHECK(user_hear(users[i].from));
	}
	usleep(30000);
	outage_end(&o, 0, SIGKILL);
	for (unsigned i = 0; i < OUTAGE_USERS; i++)
		CHECK(user_hear(users[i].from));
	/* None of them has its memory mapped any more, so none is killed. */
	REQUIRE(outage_start(&o, 0) == 0);
	for (unsigned i = 0; i < OUTAGE_USERS; i++)
		CHECK_EQ(user_end(&users[i]), 0);
	REQUIRE(far_open(o.uri, NULL, &f) == 0);
	REQUIRE(far_table_open(f, "t", &t) == 0);
	CHECK(far_table_repair(t) >= 0);
	CHECK_EQ(far_table_check(t, violation, NULL), 0);
	far_close(f);
	outage_fini(&o, 1);
}

/* Two handles, one of which is closed when the home node is gone; the process lives on. */
static int
user_closes(const char *uri, unsigned id, int to, int from)
{
	struct far *f, *g;
	struct far_table *t;
	char buf[32];

	if (far_open(uri, NULL, &f) != 0 || far_open(uri, NULL, &g) != 0)
		return 1;
	/* A table on each node. */
	for (char name[2] = "a"; name[0] <= 'b'; name[0]++) {
		if (far_table_create(f, name, NULL) != 0 || far_table_open(f, name, &t) != 0)
			return 2;
		for (unsigned i = 0; i < 100; i++) {
			if (far_put(t, user_key(buf, id, i), far_bytes(buf, 8), NULL) != 0)
				return 3;
		}
	}
	if (write(to, "r", 1) != 1 || !user_hear(from))
		return 4;
	far_close(f);
	if (write(to, "c", 1) != 1 || !user_hear(from))
		return 5;
	far_close(g);
	return 0;
}

static void
test_handle_closed_after_an_error_ends_its_session_not_the_process(void)
{
	struct outage o;
	struct user u;

	outage_init(&o, 2);
	u = user_start(o.uri, 0, user_closes);
	CHECK(user_hear(u.from));
	CHECK_EQ(sessions_in_file(o.file[1]), 2);
	outage_end(&o, 0, SIGKILL);
	CHECK(write(u.to, "g", 1) == 1);
	CHECK(user_hear(u.from));
	/* The other handle's is left, and nobody has to be fenced. */
	CHECK_EQ(sessions_in_file(o.file[1]), 1);
	CHECK_EQ(user_end(&u), 0);
	CHECK_EQ(sessions_in_file(o.file[1]), 0);
	outage_fini(&o, 2);
}

TEST_MAIN(TEST(test_node_restarts_clients_that_closed_their_handles_go_on),
	  TEST(test_handle_closed_after_an_error_ends_its_session_not_the_process))
