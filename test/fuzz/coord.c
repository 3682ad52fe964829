/* SPDX-License-Identifier: Apache-2.0 */
/* Target: what stands in a lease's file, with and without its check sum mended, and calls on it. */
#include <fcntl.h>

#include <xxhash.h>

#include "fuzz/fuzz.h"
#include "pool/coord.h"

#define COORD_FUZZ_MAGIC 0x31455341454c4146ULL

static int coord_dir = -1;
static uint64_t coord_now_ns;

static uint64_t
coord_now(void *arg)
{
	(void)arg;
	return coord_now_ns;
}

static char coord_path[] = "/dev/shm/farside-fuzz-XXXXXX";

/* Nothing stays behind, unless a finding ends the process. */
static void
coord_remove(void)
{
	unlinkat(coord_dir, "a.lease", 0);
	unlinkat(coord_dir, "a.lease.new", 0);
	rmdir(coord_path);
}

static struct coord *
coord_start(void)
{
	static struct coord *c;
	struct far_clock clock = { .now = coord_now };

	if (c)
		return c;
	FUZZ_CHECK(mkdtemp(coord_path));
	coord_dir = open(coord_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_CHECK(coord_dir >= 0 && atexit(coord_remove) == 0);
	FUZZ_CHECK(coord_file_open(coord_path, &clock, &c) == 0);
	return c;
}

static void
coord_put(struct fuzz_in *in, bool mend)
{
	uint64_t words[14] = { 0 };
	size_t len = in->left < sizeof(words) ? in->left : sizeof(words);
	int fd = openat(coord_dir, "a.lease", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	memcpy(words, in->at, len);
	if (mend) {
		words[0] = COORD_FUZZ_MAGIC;
		words[13] = XXH3_64bits(words, 13 * 8);
		len = sizeof(words);
	}
	FUZZ_CHECK(fd >= 0 && write(fd, words, len) == (ssize_t)len);
	close(fd);
	in->at += len < in->left ? len : in->left;
	in->left -= len < in->left ? len : in->left;
}

static bool
coord_clean(int err)
{
	return err == 0 || err == -FAR_ECORRUPT || err == -FAR_EEXIST || err == -FAR_EFENCED || err == -FAR_ENOENT ||
	       err == -FAR_EINVAL;
}

static void
coord_step(struct coord *c, struct fuzz_in *in, unsigned op)
{
	static const char *const owners[] = { "one", "two", "", ".x" };
	struct coord_lease before = { .epoch = 0 };
	uint64_t epoch = 0;
	int err, known = coord_read(c, "a", &before);

	FUZZ_CHECK(coord_clean(known));
	FUZZ_CHECK(known != 0 || (before.epoch > 0 && strlen(before.owner) <= COORD_NAME_MAX));
	switch (op & 3) {
	case 0:
		err = coord_acquire(c, "a", owners[op >> 2 & 3], fuzz_word(in, 2), &epoch);
		/* Whatever the lease protects refuses smaller ones. */
		FUZZ_CHECK(err != 0 || epoch > before.epoch);
		break;
	case 1:
		err = coord_renew(c, "a", op & 4 ? before.epoch : fuzz_word(in, 8), fuzz_word(in, 2));
		break;
	case 2:
		err = coord_release(c, "a", op & 4 ? before.epoch : fuzz_word(in, 8));
		break;
	default:
		coord_now_ns += fuzz_word(in, 3);
		err = 0;
	}
	FUZZ_CHECK(coord_clean(err));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	unsigned mode = fuzz_byte(&in);
	struct coord *c = coord_start();

	coord_put(&in, mode & 1);
	for (unsigned i = 0; i < (mode >> 1 & 7); i++)
		coord_step(c, &in, fuzz_byte(&in));
	return 0;
}
