/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c -- opening and closing a pool, the heart thread, running fibers for the blocking calls, error texts. */
#include "store/handle.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base.h"

void
store_enter(struct far *f)
{
	int failed = pthread_mutex_lock(&f->lock);

	FAR_ASSERT(!failed);
	store_arena_reset(&f->results, STORE_KEEP);
	f->error.code = 0;
	f->error.text[0] = '\0';
}

int
store_leave(struct far *f, int err)
{
	int failed = pthread_mutex_unlock(&f->lock);

	FAR_ASSERT(!failed);
	return err;
}

int
store_call(struct far *f, void (*fn)(struct far_task *task, void *arg), void *arg)
{
	int err = far_loop_spawn(f->loop, f->fabric, fn, arg, 0);

	FAR_ASSERT(f->loop && f->fabric);
	if (!err)
		far_loop_run(f->loop);
	return err;
}

int
store_run(struct far *f, unsigned n, void (*fn)(struct far_task *task, void *arg),
	  void *const args[])
{
	int err = 0;

	FAR_ASSERT(n == 0 || (fn && args));
	store_enter(f);
	for (unsigned i = 0; i < n && !err; i++)
		err = far_loop_spawn(f->loop, f->fabric, fn, args[i], 0);
	far_loop_run(f->loop);
	return store_leave(f, err);
}

/* Errors -------------------------------------------------------------------------------------------------- */

bool
store_is_about_key(int err)
{
	switch (-err) {
	case FAR_ENOENT:
	case FAR_EEXIST:
	case FAR_EKEYLEN:
	case FAR_EVALLEN:
	case FAR_EFULL:
	case FAR_ECHANGED:
	case FAR_ECONTENDED:
	case FAR_EINVAL:
		return true;
	default:
		return false;
	}
}

int
store_note(const struct far_table *t, struct far_bytes key, int err)
{
	struct store_error *e = &t->f->error;

	FAR_ASSERT(err < 0 && t);
	e->code = err;
	e->table = t;
	e->key_len = key.data ? key.len : 0;
	if (e->key_len > 0)
		memcpy(e->key, key.data, far_min(key.len, sizeof(e->key)));
	return err;
}

int
store_say(struct far *f, int err, const char *format, ...)
{
	va_list args;

	FAR_ASSERT(err < 0);
	va_start(args, format);
	vsnprintf(f->error.text, sizeof(f->error.text), format, args);
	va_end(args);
	f->error.code = 0;
	return err;
}

/* Writes the key for people: what is not printable ASCII as \xNN. */
static void
store_key_text(const struct store_error *e, char *out, size_t out_len)
{
	size_t at = 0, n = far_min(e->key_len, sizeof(e->key));

	for (size_t i = 0; i < n && at + 5 < out_len; i++) {
		bool plain = e->key[i] >= 0x20 && e->key[i] < 0x7f && e->key[i] != '\\';

		at += (size_t)snprintf(out + at, out_len - at, plain ? "%c" : "\\x%02x", e->key[i]);
	}
	FAR_ASSERT(at < out_len);
	snprintf(out + at, out_len - at, "%s", e->key_len > n ? "..." : "");
}

static void
store_error_format(struct store_error *e)
{
	const struct far_table *t = e->table;
	char key[4 * sizeof(e->key) + 4];

	FAR_ASSERT(e->code < 0 && t);
	store_key_text(e, key, sizeof(key));
	if (e->code == -FAR_ENOENT && pool_table_alive(t->pt) != 0)
		snprintf(e->text, sizeof(e->text), "table '%s' was dropped", t->pt->name);
	else if (e->key_len > 0)
		snprintf(e->text, sizeof(e->text), "table '%.63s': key '%.120s': %s", t->pt->name,
			 key, far_strerror(e->code));
	else
		snprintf(e->text, sizeof(e->text), "table '%s': %s", t->pt->name,
			 far_strerror(e->code));
	e->code = 0;
}

const char *
far_errmsg(const struct far *f)
{
	/* The text is made on demand; to the caller the handle looks unchanged. */
	struct store_error *e = &((struct far *)f)->error;

	if (e->code != 0)
		store_error_format(e);
	return e->text;
}

/* The heart thread ---------------------------------------------------------------------------------------- */

static void
store_heart_turn(struct far *f)
{
	if (pthread_mutex_trylock(&f->lock) != 0)
		return;
	FAR_ASSERT(!f->loop_lent);
	far_loop_turn(f->loop);
	pthread_mutex_unlock(&f->lock);
}

static void *
store_heart(void *arg)
{
	struct far *f = arg;
	struct pollfd stop = { .fd = f->heart_stop, .events = POLLIN };

	/* Until far_close() writes to the descriptor. No signal comes here, so poll() fails for no other reason. */
	FAR_ASSERT(stop.fd >= 0 && f->heart_ms > 0);
	while (poll(&stop, 1, f->heart_ms) == 0)
		store_heart_turn(f);
	return NULL;
}

/* What the heart thread blocks: all but what an instruction of its own raises, which must find its handler. */
static void
store_heart_mask(sigset_t *set)
{
	static const int own[] = { SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP };

	sigfillset(set);
	for (size_t i = 0; i < FAR_LEN(own); i++)
		sigdelset(set, own[i]);
}

static int
store_heart_start(struct far *f)
{
	sigset_t mask, before;
	int failed;

	FAR_ASSERT(!f->heart_runs && f->heart_stop < 0 && f->pool);
	f->heart_stop = eventfd(0, EFD_CLOEXEC);
	if (f->heart_stop < 0)
		return -FAR_EIO;
	/* Signals are the application's: none is delivered to this thread. */
	store_heart_mask(&mask);
	pthread_sigmask(SIG_SETMASK, &mask, &before);
	failed = pthread_create(&f->heart, NULL, store_heart, f);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	f->heart_runs = failed == 0;
	return failed ? -FAR_ENOMEM : 0;
}

static void
store_heart_end(struct far *f)
{
	uint64_t one = 1;

	if (f->heart_runs) {
		FAR_ASSERT(write(f->heart_stop, &one, sizeof(one)) == (ssize_t)sizeof(one));
		pthread_join(f->heart, NULL);
		f->heart_runs = false;
	}
	if (f->heart_stop >= 0)
		close(f->heart_stop);
	f->heart_stop = -1;
}

/* Opening and closing ------------------------------------------------------------------------------------- */

static struct far *
store_new(const struct far_opts *opts)
{
	struct far *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fibers = opts->fibers ? (unsigned)far_min(opts->fibers, STORE_FIBERS_MAX) : STORE_FIBERS;
	f->no_backoff = opts->no_backoff;
	/* A short lease (in tests) wants a fast heart. */
	f->heart_ms = STORE_HEART_MS;
	if (opts->lease_ns)
		f->heart_ms = (int)far_max(far_min(opts->lease_ns / 50000000, STORE_HEART_MS), 1);
	FAR_ASSERT(f->fibers && f->fibers <= STORE_FIBERS_MAX && f->heart_ms > 0);
	f->heart_stop = -1;
	pthread_mutex_init(&f->lock, NULL);
	return f;
}

static void
store_free(struct far *f)
{
	FAR_ASSERT(!f->heart_runs && f->heart_stop < 0 && !f->tables);
	far_fabric_close(f->fabric);
	if (!f->loop_lent)
		far_loop_close(f->loop);
	/* Only what could not be closed in a fiber is left of the session. */
	pool_forget(f->pool);
	store_arena_free(&f->results);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

struct store_open {
	struct far *f;
	struct pool_opts opts;
	int err;
};

static void
store_open_fiber(struct far_task *task, void *arg)
{
	struct store_open *o = arg;

	FAR_ASSERT(!o->f->pool);
	o->err = pool_open(task, &o->opts, &o->f->pool);
}

static int
store_open_loop(struct far *f, uint64_t seed)
{
	struct far_loop_opts opts = { .seed = seed };

	/* A handle without entropy would repeat another's back-offs and table seeds: no fallback. */
	if (!seed && getrandom(&opts.seed, sizeof(opts.seed), 0) != (ssize_t)sizeof(opts.seed))
		return -FAR_EIO;
	FAR_ASSERT(!f->loop);
	return far_loop_open(&opts, &f->loop);
}

/* The loop and the connection are there: begins the session. */
static int
store_open_session(struct far *f, const struct far_opts *opts)
{
	struct store_open o = { .f = f, .opts.misfit = &f->misfit };
	int err;

	o.opts.lease_ns = opts->lease_ns;
	if (opts->lease_ns)
		o.opts.tick_ns = far_min(POOL_TICK_NS, opts->lease_ns / 20);
	FAR_ASSERT(f->loop && f->fabric && !f->pool);
	err = store_call(f, store_open_fiber, &o);
	return err ? err : o.err;
}

static int
store_open_pool(struct far *f, const char *uri, const struct far_opts *opts)
{
	struct far_fabric_opts fabric = { .credits = opts->credits,
					  .shared_queue = opts->shared_queue };
	int err = store_open_loop(f, opts->seed);

	if (!err)
		err = far_fabric_open(uri, f->loop, &fabric, &f->fabric);
	return err ? err : store_open_session(f, opts);
}

int
far_open(const char *uri, const struct far_opts *opts, struct far **out)
{
	static const struct far_opts defaults = { .fibers = 0 };
	const struct far_opts *o = opts ? opts : &defaults;
	char unused[FAR_ERRMSG_MAX], *text = o->errmsg ? o->errmsg : unused;
	struct far *f;
	int err;

	text[0] = '\0';
	err = store_uri_check(uri, text);
	if (err)
		return err;
	f = store_new(o);
	err = f ? store_open_pool(f, uri, o) : -FAR_ENOMEM;
	if (!err)
		err = store_heart_start(f);
	if (!err) {
		FAR_ASSERT(f->pool && f->heart_runs && !f->loop_lent);
		*out = f;
		return 0;
	}
	if (f) {
		struct pool_misfit misfit = f->misfit;

		far_close(f);
		store_uri_explain(uri, err, &misfit, text);
	}
	return err;
}

int
store_open_on(struct far_loop *l, struct far_fabric *fabric, const struct far_opts *opts,
	      struct far **out)
{
	struct far *f = store_new(opts);
	int err;

	if (!f)
		return -FAR_ENOMEM;
	f->loop = l;
	f->loop_lent = true;
	f->fabric = fabric;
	err = store_open_session(f, opts);
	if (!err) {
		FAR_ASSERT(f->pool && !f->heart_runs);
		*out = f;
		return 0;
	}
	f->fabric = NULL;
	store_free(f);
	return err;
}

static void
store_close_fiber(struct far_task *task, void *arg)
{
	struct far *f = arg;

	FAR_ASSERT(!f->tables && !f->heart_runs);
	/* What could not be handed back now, the others take over when the lease has run out. */
	(void)pool_close(f->pool, task);
	f->pool = NULL;
}

void
far_close(struct far *f)
{
	if (!f)
		return;
	store_heart_end(f);
	if (f->pool) {
		while (f->tables)
			store_table_close(f->tables);
		(void)store_call(f, store_close_fiber, f);
	}
	store_free(f);
}

void
far_counts(const struct far *f, struct far_count *ops, struct far_count *background)
{
	/* Only the lock changes. */
	struct far *lockable = (struct far *)f;

	FAR_ASSERT(f->pool);
	pthread_mutex_lock(&lockable->lock);
	if (ops)
		*ops = f->ops;
	if (background)
		*background = *pool_background(f->pool);
	pthread_mutex_unlock(&lockable->lock);
}

struct store_nodes {
	struct far *f;
	struct far_node_info *info;
	unsigned max;
	int result;
};

static void
store_nodes_fiber(struct far_task *task, void *arg)
{
	struct store_nodes *n = arg;

	FAR_ASSERT(n->info || !n->max);
	n->result = pool_node_info(n->f->pool, task, n->info, n->max);
}

int
far_nodes(struct far *f, struct far_node_info *info, unsigned max)
{
	struct store_nodes n = { .f = f, .info = info, .max = max };
	int err;

	store_enter(f);
	err = store_call(f, store_nodes_fiber, &n);
	if (!err)
		err = n.result;
	if (err < 0)
		store_say(f, err, "memory nodes: %s", far_strerror(err));
	return store_leave(f, err);
}
