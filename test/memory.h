/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h -- what happens when memory runs out: one allocation of the code under test fails.
 *
 * For the tests in `memory_tests` of meson.build alone, whose linker sends every call of malloc() and the like here,
 * but for those inside of shared libraries.
 */
#ifndef FAR_TEST_MEMORY_H
#define FAR_TEST_MEMORY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "test.h"

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *old, size_t len);
void __real_free(void *p);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t len);

void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *old, size_t len);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t len);
__attribute__((format(printf, 2, 3))) int __wrap_asprintf(char **out, const char *format, ...);

enum { MEMORY_SITES = 256 };

static uint64_t memory_fail_at;  /* 1: the next allocation fails, 2: the one after it, ...; 0: none */
static bool memory_stays_short;  /* and all behind it, until memory_fail_at is set anew */
static uint64_t memory_failed;   /* allocations that failed so far */
static int64_t memory_live;      /* allocations that were not freed; what shared libraries do is not in it */
static void *memory_sites[MEMORY_SITES]; /* places in the code that were told no */
static unsigned memory_sites_n;

static inline void
memory_note_site(void *site)
{
	unsigned i = 0;

	while (i < memory_sites_n && memory_sites[i] != site)
		i++;
	if (i == memory_sites_n && i < MEMORY_SITES)
		memory_sites[memory_sites_n++] = site;
}

static inline bool
memory_fails(void *site)
{
	bool fails = memory_fail_at == 1;

	memory_fail_at -= memory_fail_at > (memory_stays_short ? 1 : 0);
	memory_failed += fails;
	if (fails)
		memory_note_site(site);
	else
		memory_live++;
	return fails;
}

void *
__wrap_malloc(size_t len)
{
	return memory_fails(__builtin_return_address(0)) ? NULL : __real_malloc(len);
}

void *
__wrap_calloc(size_t n, size_t len)
{
	return memory_fails(__builtin_return_address(0)) ? NULL : __real_calloc(n, len);
}

void *
__wrap_realloc(void *old, size_t len)
{
	if (memory_fails(__builtin_return_address(0)))
		return NULL;
	memory_live -= old != NULL;
	return __real_realloc(old, len);
}

void
__wrap_free(void *p)
{
	memory_live -= p != NULL;
	__real_free(p);
}

char *
__wrap_strdup(const char *s)
{
	return memory_fails(__builtin_return_address(0)) ? NULL : __real_strdup(s);
}

char *
__wrap_strndup(const char *s, size_t len)
{
	return memory_fails(__builtin_return_address(0)) ? NULL : __real_strndup(s, len);
}

int
__wrap_asprintf(char **out, const char *format, ...)
{
	va_list args;
	int n;

	if (memory_fails(__builtin_return_address(0)))
		return -1;
	va_start(args, format);
	n = vasprintf(out, format, args);
	va_end(args);
	return n;
}

/*
 * Runs `run` once for each allocation that it makes, and that one fails: it must end with `want` then. At last it runs
 * with none failing, and must return 0. Returns how many allocations there were.
 */
static inline unsigned
memory_sweep(int (*run)(void *arg), void *arg, int want)
{
	for (unsigned k = 1;; k++) {
		uint64_t before = memory_failed;
		int err;

		memory_fail_at = k;
		err = run(arg);
		memory_fail_at = 0;
		if (err != (memory_failed == before ? 0 : want))
			printf("# allocation %u\n", k);
		CHECK_EQ(err, memory_failed == before ? 0 : want);
		if (memory_failed == before)
			return k - 1;
	}
}

#endif
