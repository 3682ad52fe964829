/* SPDX-License-Identifier: Apache-2.0 */
/* san.h -- tells AddressSanitizer and ThreadSanitizer about stacks and switches; nothing in other builds. */
#ifndef FAR_FIBER_SAN_H
#define FAR_FIBER_SAN_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#ifndef FIBER_ASAN
#define FIBER_ASAN 0
#endif
#ifndef FIBER_TSAN
#define FIBER_TSAN 0
#endif

#if FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* What the sanitizers know of a stack. */
struct fiber_san {
	const void *bottom;
	size_t len;
	void *fake, *tsan;
};

static inline void
fiber_san_init(struct fiber_san *s, const void *bottom, size_t len)
{
	s->bottom = bottom;
	s->len = len;
	s->fake = NULL;
#if FIBER_TSAN
	s->tsan = __tsan_create_fiber(0);
#else
	s->tsan = NULL;
#endif
}

/* The stack is left for good, or goes back to the system. */
static inline void
fiber_san_fini(struct fiber_san *s)
{
#if FIBER_ASAN
	__asan_unpoison_memory_region(s->bottom, s->len);
#endif
#if FIBER_TSAN
	__tsan_destroy_fiber(s->tsan);
#endif
	(void)s;
}

/* The calling thread's own stack; its bounds become known when it is left. */
static inline void
fiber_san_thread(struct fiber_san *s)
{
#if FIBER_TSAN
	s->tsan = __tsan_get_current_fiber();
#endif
	(void)s;
}

static inline void
fiber_san_leave(struct fiber_san *from, const struct fiber_san *to)
{
#if FIBER_ASAN
	__sanitizer_start_switch_fiber(&from->fake, to->bottom, to->len);
#endif
#if FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
	(void)from, (void)to;
}

static inline void
fiber_san_arrive(struct fiber_san *at, struct fiber_san *from)
{
#if FIBER_ASAN
	__sanitizer_finish_switch_fiber(at->fake, &from->bottom, &from->len);
#endif
	(void)at, (void)from;
}

/* Scratch memory that is handed out, or not. */
static inline void
fiber_san_open(void *p, size_t len)
{
#if FIBER_ASAN
	__asan_unpoison_memory_region(p, len);
#endif
	(void)p, (void)len;
}

#if FIBER_ASAN && !defined(__clang__)
/* GCC takes the call for a read of what malloc() just gave. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
static inline void
fiber_san_close(void *p, size_t len)
{
#if FIBER_ASAN
	__asan_poison_memory_region(p, len);
#endif
	(void)p, (void)len;
}
#if FIBER_ASAN && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
