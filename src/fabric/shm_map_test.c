/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/shm_map.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

enum { MIB = 1 << 20, ROUNDS = 200000 };

static int
map_file(uint64_t len)
{
	int fd = memfd_create("shm_map_test", MFD_CLOEXEC);

	REQUIRE(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
	return fd;
}

static void
test_map_any_length_is_aligned_and_shared(void)
{
	static const uint64_t lens[] = { 4096, 3 * MIB, 4 * MIB, 9 * MIB + 4096 };

	for (size_t i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		int fd = map_file(lens[i]);
		char *a = shm_map(fd, lens[i]), *b = shm_map(fd, lens[i]);

		REQUIRE(a && b);
		CHECK_EQ((uintptr_t)a % (2 * MIB), 0);
		CHECK_EQ((uintptr_t)b % (2 * MIB), 0);
		a[lens[i] - 1] = 7;
		CHECK_EQ(b[lens[i] - 1], 7);
		munmap(a, lens[i]);
		munmap(b, lens[i]);
		close(fd);
	}
}

static void
test_map_bad_file_is_an_error(void)
{
	errno = 0;
	CHECK(shm_map(-1, 4096) == NULL);
	CHECK_EQ(errno, EBADF);
}

static void *
map_adder(void *arg)
{
	uint64_t *words = arg;

	/* A word in each page of four superpages. */
	for (uint64_t i = 0; i < ROUNDS; i++)
		__atomic_fetch_add(&words[i * 512 % (8 * MIB / 8)], 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void
test_collapse_under_writers_loses_nothing(void)
{
	int fd = map_file(8 * MIB);
	uint64_t *node = shm_map(fd, 8 * MIB), *client = shm_map(fd, 8 * MIB), sum = 0;
	pthread_t threads[2];

	REQUIRE(node && client);
	for (int i = 0; i < 2; i++)
		REQUIRE(pthread_create(&threads[i], NULL, map_adder, client) == 0);
	for (int i = 0; i < 20; i++)
		shm_map_collapse(node, 8 * MIB, (uint64_t)i % 4 * 2 * MIB + 4096, 2 * MIB);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < 8 * MIB / 8; i++)
		sum += node[i];
	CHECK_EQ(sum, 2 * ROUNDS);
	munmap(node, 8 * MIB);
	munmap(client, 8 * MIB);
	close(fd);
}

static void
test_collapse_at_a_short_end_stays_inside(void)
{
	int fd = map_file(5 * MIB);
	char *base = shm_map(fd, 5 * MIB);

	REQUIRE(base);
	base[5 * MIB - 1] = 3;
	shm_map_collapse(base, 5 * MIB, 4 * MIB, 1 * MIB);
	shm_map_collapse(base, 5 * MIB, 0, 5 * MIB);
	CHECK_EQ(base[5 * MIB - 1], 3);
	munmap(base, 5 * MIB);
	close(fd);
}

TEST_MAIN(TEST(test_map_any_length_is_aligned_and_shared), TEST(test_map_bad_file_is_an_error),
	  TEST(test_collapse_under_writers_loses_nothing), TEST(test_collapse_at_a_short_end_stays_inside))
