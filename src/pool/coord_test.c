/* SPDX-License-Identifier: Apache-2.0 */
/* coord_test.c -- leases: one suite for both backends, then what only files have. */
#include "pool/coord.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xxhash.h>

#include "test.h"

static const uint64_t TTL = 1000;

struct rig {
	uint64_t now;
	struct far_clock clock;
	struct coord_store *store;
	char dir[40];
	struct coord *a, *b; /* two users */
};

static uint64_t
rig_now(void *arg)
{
	return ((struct rig *)arg)->now;
}

static void
rig_init(struct rig *r, bool file)
{
	memset(r, 0, sizeof(*r));
	r->now = 500;
	r->clock = (struct far_clock){ .now = rig_now, .arg = r };
	if (file) {
		strcpy(r->dir, "/tmp/farside-coord-XXXXXX");
		REQUIRE(mkdtemp(r->dir) != NULL);
		REQUIRE(coord_file_open(r->dir, &r->clock, &r->a) == 0);
		REQUIRE(coord_file_open(r->dir, &r->clock, &r->b) == 0);
	} else {
		REQUIRE((r->store = coord_store_new()) != NULL);
		REQUIRE(coord_sim_open(r->store, &r->clock, &r->a) == 0);
		REQUIRE(coord_sim_open(r->store, &r->clock, &r->b) == 0);
	}
}

static void
rig_fini(struct rig *r)
{
	struct dirent *e;
	DIR *d;

	coord_close(r->a);
	coord_close(r->b);
	coord_store_free(r->store);
	if (r->dir[0] == '\0')
		return;
	REQUIRE((d = opendir(r->dir)) != NULL);
	while ((e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	CHECK(rmdir(r->dir) == 0);
}

static void
each_backend(void (*run)(struct rig *r))
{
	struct rig r;

	for (int file = 0; file < 2; file++) {
		rig_init(&r, file);
		run(&r);
		rig_fini(&r);
	}
}

static void
acquire_held(struct rig *r)
{
	uint64_t first = 0, second = 0;

	CHECK_EQ(coord_acquire(r->a, "home", "one", TTL, &first), 0);
	CHECK_EQ(coord_acquire(r->b, "home", "two", TTL, &second), -FAR_EEXIST);
	/* The other one renews in time, as seen from here. */
	for (int i = 0; i < 5; i++) {
		r->now += TTL - 1;
		CHECK_EQ(coord_renew(r->a, "home", first, TTL), 0);
		CHECK_EQ(coord_acquire(r->b, "home", "two", TTL, &second), -FAR_EEXIST);
	}
	/* Another name is another lease. */
	CHECK_EQ(coord_acquire(r->b, "away", "two", TTL, &second), 0);
}

static void
test_acquire_held_lease_is_refused_while_it_beats(void)
{
	each_backend(acquire_held);
}

static void
acquire_silent(struct rig *r)
{
	uint64_t first = 0, second = 0;
	struct coord_lease l;

	CHECK_EQ(coord_acquire(r->a, "home", "one", TTL, &first), 0);
	r->now += 10 * TTL;
	/* Silent for long, but not yet seen by this one. */
	CHECK_EQ(coord_acquire(r->b, "home", "two", TTL, &second), -FAR_EEXIST);
	r->now += TTL - 1;
	CHECK_EQ(coord_acquire(r->b, "home", "two", TTL, &second), -FAR_EEXIST);
	CHECK_EQ(coord_read(r->b, "home", &l), 0);
	CHECK_EQ(l.silent_ns, TTL - 1);
	r->now += 1;
	CHECK_EQ(coord_acquire(r->b, "home", "two", TTL, &second), 0);
	CHECK(second > first);
	/* The late one is fenced, whatever it tries. */
	CHECK_EQ(coord_renew(r->a, "home", first, TTL), -FAR_EFENCED);
	CHECK_EQ(coord_release(r->a, "home", first), -FAR_EFENCED);
	CHECK_EQ(coord_read(r->a, "home", &l), 0);
	CHECK(l.held && l.epoch == second && strcmp(l.owner, "two") == 0);
}

static void
test_acquire_silent_lease_fences_its_holder(void)
{
	each_backend(acquire_silent);
}

static void
release_then_acquire(struct rig *r)
{
	uint64_t epoch = 0, last = 0;
	struct coord_lease l;

	CHECK_EQ(coord_read(r->a, "home", &l), -FAR_ENOENT);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(coord_acquire(i % 2 ? r->a : r->b, "home", "one", TTL, &epoch), 0);
		CHECK(epoch > last);
		last = epoch;
		/* Its own lease again: a new epoch fences what it was before. */
		CHECK_EQ(coord_acquire(r->a, "home", "one", TTL, &epoch), 0);
		CHECK(epoch > last);
		CHECK_EQ(coord_release(r->a, "home", last), -FAR_EFENCED);
		last = epoch;
		CHECK_EQ(coord_release(r->a, "home", epoch), 0);
		CHECK_EQ(coord_release(r->a, "home", epoch), -FAR_EFENCED);
		CHECK_EQ(coord_renew(r->a, "home", epoch, TTL), -FAR_EFENCED);
		CHECK_EQ(coord_read(r->b, "home", &l), 0);
		CHECK(!l.held && l.epoch == epoch);
	}
}

static void
test_release_keeps_the_epoch_growing(void)
{
	each_backend(release_then_acquire);
}

static void
bad_arguments(struct rig *r)
{
	static const char *const bad[] = { "", ".", "..", "a/b", ".hidden", "a b", "\xff" };
	char longest[COORD_NAME_MAX + 2];
	struct coord_lease l;
	uint64_t epoch;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(coord_acquire(r->a, bad[i], "one", TTL, &epoch), -FAR_EINVAL);
		CHECK_EQ(coord_acquire(r->a, "home", bad[i], TTL, &epoch), -FAR_EINVAL);
		CHECK_EQ(coord_read(r->a, bad[i], &l), -FAR_EINVAL);
		CHECK_EQ(coord_release(r->a, bad[i], 1), -FAR_EINVAL);
	}
	CHECK_EQ(coord_acquire(r->a, "home", "one", 0, &epoch), -FAR_EINVAL);
	CHECK_EQ(coord_renew(r->a, "home", 1, 0), -FAR_EINVAL);
	memset(longest, 'x', sizeof(longest));
	longest[COORD_NAME_MAX + 1] = '\0';
	CHECK_EQ(coord_acquire(r->a, longest, "one", TTL, &epoch), -FAR_EINVAL);
	longest[COORD_NAME_MAX] = '\0';
	CHECK_EQ(coord_acquire(r->a, longest, longest, TTL, &epoch), 0);
	CHECK_EQ(coord_read(r->a, longest, &l), 0);
	CHECK(strcmp(l.owner, longest) == 0);
}

static void
test_call_with_bad_arguments_is_einval(void)
{
	each_backend(bad_arguments);
}

/* Files ------------------------------------------------------------------------------------------------------ */

static void
test_file_broken_record_is_ecorrupt(void)
{
	struct coord_lease l;
	struct rig r;
	uint64_t epoch;
	char path[80];
	int fd;

	rig_init(&r, true);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), 0);
	snprintf(path, sizeof(path), "%s/home.lease", r.dir);
	for (int i = 0; i < 112; i++) {
		char byte;

		fd = open(path, O_RDWR | O_CLOEXEC);
		REQUIRE(fd >= 0 && pread(fd, &byte, 1, i) == 1);
		byte ^= 4;
		CHECK(pwrite(fd, &byte, 1, i) == 1);
		CHECK_EQ(coord_read(r.b, "home", &l), -FAR_ECORRUPT);
		byte ^= 4;
		CHECK(pwrite(fd, &byte, 1, i) == 1);
		close(fd);
	}
	CHECK_EQ(coord_read(r.b, "home", &l), 0);
	CHECK(truncate(path, 111) == 0);
	CHECK_EQ(coord_acquire(r.b, "home", "one", TTL, &epoch), -FAR_ECORRUPT);
	/* The lock was given back. */
	CHECK_EQ(coord_acquire(r.a, "away", "one", TTL, &epoch), 0);
	rig_fini(&r);
}

/* The check sum tells that somebody wrote it, not that it makes sense. */
static void
test_file_record_that_no_acquire_writes_is_ecorrupt(void)
{
	enum { EPOCH = 1, OWNER = 5, SUM = 13, WORDS };
	static const struct {
		int word;
		uint64_t value;
	} odd[] = { { EPOCH, UINT64_MAX }, { EPOCH, 0 }, { OWNER, 0 }, { OWNER, '/' } };
	uint64_t words[WORDS], saved, epoch;
	struct coord_lease l;
	char path[80];
	struct rig r;
	int fd;

	rig_init(&r, true);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), 0);
	snprintf(path, sizeof(path), "%s/home.lease", r.dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(fd >= 0 && pread(fd, words, sizeof(words), 0) == sizeof(words));
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		saved = words[odd[i].word];
		words[odd[i].word] = odd[i].value;
		words[SUM] = XXH3_64bits(words, SUM * 8);
		CHECK(pwrite(fd, words, sizeof(words), 0) == sizeof(words));
		words[odd[i].word] = saved;
		CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), -FAR_ECORRUPT);
		CHECK_EQ(coord_renew(r.a, "home", UINT64_MAX, TTL), -FAR_ECORRUPT);
		CHECK_EQ(coord_read(r.b, "home", &l), -FAR_ECORRUPT);
	}
	close(fd);
	rig_fini(&r);
}

static void
test_file_other_process_inside_is_eagain(void)
{
	struct rig r;
	uint64_t epoch;
	int fd;

	rig_init(&r, true);
	fd = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	REQUIRE(fd >= 0 && flock(fd, LOCK_EX) == 0);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), -FAR_EAGAIN);
	close(fd);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), 0);
	rig_fini(&r);
}

/* Things of other kinds stand in the way; when they are gone, all is as before. */
static void
test_file_that_cannot_be_read_or_written_is_eio(void)
{
	char path[80], temp[80], other[80];
	struct coord_lease l;
	uint64_t epoch;
	struct rig r;

	rig_init(&r, true);
	snprintf(path, sizeof(path), "%s/home.lease", r.dir);
	snprintf(temp, sizeof(temp), "%s/home.lease.new", r.dir);
	snprintf(other, sizeof(other), "%s/other", r.dir);
	/* A folder is opened, and not read. */
	REQUIRE(mkdir(path, 0700) == 0);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), -FAR_EIO);
	CHECK_EQ(coord_read(r.a, "home", &l), -FAR_EIO);
	REQUIRE(rmdir(path) == 0 && symlink(other, path) == 0);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), -FAR_EIO);
	CHECK(access(other, F_OK) != 0);
	REQUIRE(unlink(path) == 0);
	/* The file of the record to come. */
	REQUIRE(mkdir(temp, 0700) == 0);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), -FAR_EIO);
	REQUIRE(rmdir(temp) == 0);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), 0);
	CHECK_EQ(epoch, 1);
	rig_fini(&r);
}

/* Nothing is written in place: who had the lease has it still. */
static void
test_file_without_room_keeps_the_lease_as_it_was(void)
{
	struct rlimit was, none;
	uint64_t epoch, again;
	struct coord_lease l;
	struct rig r;

	rig_init(&r, true);
	CHECK_EQ(coord_acquire(r.a, "home", "one", TTL, &epoch), 0);
	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(getrlimit(RLIMIT_FSIZE, &was) == 0);
	none = was;
	none.rlim_cur = 50;
	REQUIRE(setrlimit(RLIMIT_FSIZE, &none) == 0);
	CHECK_EQ(coord_renew(r.a, "home", epoch, 2 * TTL), -FAR_EIO);
	CHECK_EQ(coord_acquire(r.b, "away", "two", TTL, &again), -FAR_EIO);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &was) == 0);
	signal(SIGXFSZ, SIG_DFL);
	CHECK_EQ(coord_read(r.b, "home", &l), 0);
	CHECK(l.epoch == epoch && strcmp(l.owner, "one") == 0);
	CHECK_EQ(coord_renew(r.a, "home", epoch, 2 * TTL), 0);
	CHECK_EQ(coord_acquire(r.b, "away", "two", TTL, &again), 0);
	rig_fini(&r);
}

static void
test_file_directory_missing_is_enoent(void)
{
	struct coord *c = NULL;
	struct rig r;

	rig_init(&r, true);
	CHECK_EQ(coord_file_open("/nonexistent/dir", &r.clock, &c), -FAR_ENOENT);
	CHECK_EQ(coord_file_open("/dev/null", &r.clock, &c), -FAR_EIO);
	CHECK(c == NULL);
	rig_fini(&r);
}

/* Acquires and renews for ever, telling each epoch it was given. */
static _Noreturn void
child_run(struct coord *c, int report)
{
	uint64_t epoch;

	for (;;) {
		if (coord_acquire(c, "home", "child", TTL, &epoch) != 0 ||
		    write(report, &epoch, sizeof(epoch)) != (ssize_t)sizeof(epoch) ||
		    coord_renew(c, "home", epoch, TTL) != 0)
			_exit(1);
	}
}

static void
test_file_kill_at_any_moment_keeps_the_largest_epoch(void)
{
	uint64_t told = 0, epoch;
	struct coord *child;
	struct rig r;
	int report[2];
	pid_t pid;

	rig_init(&r, true);
	for (int i = 0; i < 60; i++) {
		REQUIRE(pipe2(report, O_CLOEXEC) == 0);
		if ((pid = fork()) == 0) {
			if (coord_file_open(r.dir, &r.clock, &child) == 0)
				child_run(child, report[1]);
			_exit(1);
		}
		/* It is somewhere in its next round when the kill comes. */
		for (int k = 0; k <= i % 5; k++) {
			REQUIRE(read(report[0], &epoch, sizeof(epoch)) == (ssize_t)sizeof(epoch));
			CHECK(epoch > told);
			told = epoch;
		}
		for (volatile int spin = 0; spin < i * 1000; spin++)
			;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(report[1]);
		while (read(report[0], &epoch, sizeof(epoch)) == (ssize_t)sizeof(epoch)) {
			CHECK(epoch > told);
			told = epoch;
		}
		close(report[0]);
		CHECK_EQ(coord_acquire(r.a, "home", "child", TTL, &epoch), 0);
		CHECK(epoch > told);
		told = epoch;
	}
	rig_fini(&r);
}

TEST_MAIN(TEST(test_acquire_held_lease_is_refused_while_it_beats),
	  TEST(test_acquire_silent_lease_fences_its_holder),
	  TEST(test_release_keeps_the_epoch_growing),
	  TEST(test_call_with_bad_arguments_is_einval),
	  TEST(test_file_broken_record_is_ecorrupt),
	  TEST(test_file_record_that_no_acquire_writes_is_ecorrupt),
	  TEST(test_file_other_process_inside_is_eagain),
	  TEST(test_file_that_cannot_be_read_or_written_is_eio),
	  TEST(test_file_without_room_keeps_the_lease_as_it_was),
	  TEST(test_file_directory_missing_is_enoent),
	  TEST(test_file_kill_at_any_moment_keeps_the_largest_epoch))
