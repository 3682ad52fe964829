/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_micro.c -- what the bottom layers cost on shared memory, in nanoseconds of processor time.
 *
 * usage: fabric_micro [SECONDS-PER-LINE [KIB]]
 *
 * Addresses are random in a region of KIB (256 MiB; 256 shows the software alone). A "lookup" is the traffic of a
 * table's get: two READs of 128 B in one round trip, then one of 64 B.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/base.h"
#include "base/rand.h"
#include "fabric/shm.h"

enum { MICRO_BATCH = 2000 };

struct micro {
	struct far_loop *loop;
	struct far_fabric *fabric;
	struct far_rng rng;
	uint64_t region_len;
	uint64_t until, ops;
	uint64_t sum; /* of what was read, so that nothing is optimised away */
};

static uint64_t
micro_cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static struct far_addr
micro_addr(struct micro *m)
{
	return far_addr_make(0, far_rng_below(&m->rng, m->region_len / 128) * 128);
}

static void
micro_nothing(struct far_task *t, void *arg)
{
	struct micro *m = arg;

	m->ops++;
}

static void
micro_spawn(struct far_task *t, void *arg)
{
	while (far_now(t) < ((struct micro *)arg)->until) {
		for (int i = 0; i < MICRO_BATCH; i++) {
			far_loop_spawn(far_task_loop(t), NULL, micro_nothing, arg, 0);
			far_yield(t);
		}
	}
}

static void
micro_switch(struct far_task *t, void *arg)
{
	struct micro *m = arg;

	while (far_now(t) < m->until) {
		for (int i = 0; i < MICRO_BATCH; i++)
			far_yield(t);
		m->ops += MICRO_BATCH;
	}
}

static void
micro_read(struct far_task *t, void *arg)
{
	struct micro *m = arg;
	uint64_t word;

	while (far_now(t) < m->until) {
		for (int i = 0; i < MICRO_BATCH; i++) {
			far_read(t, micro_addr(m), &word, 8);
			if (far_wait(t) != 0)
				abort();
			m->sum += word;
		}
		m->ops += MICRO_BATCH;
	}
}

static void
micro_lookup(struct far_task *t, void *arg)
{
	struct micro *m = arg;
	uint64_t buckets[2][16], block[8];

	while (far_now(t) < m->until) {
		for (int i = 0; i < MICRO_BATCH; i++) {
			far_read(t, micro_addr(m), buckets[0], sizeof(buckets[0]));
			far_read(t, micro_addr(m), buckets[1], sizeof(buckets[1]));
			if (far_wait(t) != 0)
				abort();
			far_read(t, micro_addr(m), block, sizeof(block));
			if (far_wait(t) != 0)
				abort();
			m->sum += buckets[0][1] + buckets[1][2] + block[3];
		}
		m->ops += MICRO_BATCH;
	}
}

static void
micro_update(struct far_task *t, void *arg)
{
	struct micro *m = arg;
	uint64_t block[8] = { 0 }, old;

	while (far_now(t) < m->until) {
		for (int i = 0; i < MICRO_BATCH; i++) {
			far_write(t, micro_addr(m), block, sizeof(block));
			far_cas(t, micro_addr(m), 0, 0, &old);
			if (far_wait(t) != 0)
				abort();
			m->sum += old;
		}
		m->ops += MICRO_BATCH;
	}
}

static void
micro_run(struct micro *m, const char *what, void (*fn)(struct far_task *, void *), int fibers,
	  double seconds)
{
	uint64_t start = micro_cpu_now();

	m->ops = 0;
	m->until = far_loop_now(m->loop) + (uint64_t)(seconds * 1e9);
	for (int i = 0; i < fibers; i++) {
		if (far_loop_spawn(m->loop, m->fabric, fn, m, 0) != 0)
			abort();
	}
	far_loop_run(m->loop);
	printf("%-24s %3d fibers %8.1f ns\n", what, fibers,
	       (double)(micro_cpu_now() - start) / (double)m->ops);
}

int
main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 0.3;
	static const int fibers[] = { 1, 4, 16, 32 };
	uint64_t len = argc > 2 ? strtoull(argv[2], NULL, 10) << 10 : 256 << 20;
	struct shm_memory node = { .len = len };
	struct micro m = { .region_len = len };

	far_rng_seed(&m.rng, 1);
	node.base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (node.base == MAP_FAILED || far_loop_open(NULL, &m.loop) != 0 ||
	    shm_connect_memory(&node, 1, m.loop, NULL, &m.fabric) != 0)
		return 1;
	madvise(node.base, len, MADV_HUGEPAGE);
	memset(node.base, 0, len);
	micro_run(&m, "yield", micro_switch, 2, seconds);
	micro_run(&m, "yield", micro_switch, 16, seconds);
	micro_run(&m, "spawn, run, end", micro_spawn, 1, seconds);
	for (size_t i = 0; i < FAR_LEN(fibers); i++)
		micro_run(&m, "read 8 B", micro_read, fibers[i], seconds);
	for (size_t i = 0; i < FAR_LEN(fibers); i++)
		micro_run(&m, "lookup", micro_lookup, fibers[i], seconds);
	for (size_t i = 0; i < FAR_LEN(fibers); i++)
		micro_run(&m, "write 64 B + cas", micro_update, fibers[i], seconds);
	far_fabric_close(m.fabric);
	far_loop_close(m.loop);
	return m.sum == 1; /* the region is all zero */
}
