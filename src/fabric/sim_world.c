/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_world.c -- the simulator's memory nodes and its time: made once, reset for each run.
 *
 * Every write to a node's memory notes its page, so that a reset restores only what the last run changed.
 */
#include <string.h>

#include "fabric/sim_impl.h"
#include "pool/node.h"

/* Nodes --------------------------------------------------------------------------------------------------- */

/* The session is some client's connection to this node: it ends here and now. */
static int
sim_stop(void *arg, uint64_t serial)
{
	struct sim_node *n = arg;
	unsigned node = (unsigned)(n - n->sim->nodes);

	for (struct sim_conn *k = n->sim->conns; k; k = k->next) {
		if (k->session[node] != serial || k->life[node] != n->life)
			continue;
		if (k->protected)
			return -FAR_EACCESS;
		k->cut[node] = true;
		n->sim->faults.fenced++;
		sim_trouble(n->sim, n->sim->now);
		k->zombie |= !k->dead;
		sim_cut(n->sim, k, (int)node, -FAR_EFENCED);
	}
	return 0;
}

void
far_sim_protect(struct far_fabric *f)
{
	FAR_CONTAINER(f, struct sim_conn, base)->protected = true;
}

static uint64_t
sim_random(void *arg)
{
	return far_rng_next(&((struct sim_node *)arg)->sim->rng);
}

static struct node_env
sim_env(struct sim_node *n)
{
	struct node_env env = {
		.stop = sim_stop, .random = sim_random, .arg = n, .zoo = n->sim->policy.zoo
	};

	return env;
}

static int
sim_node_format(struct far_sim *s, struct sim_node *n)
{
	struct node_env env = sim_env(n);
	const struct pool_super *super = (const void *)n->region;
	int err;

	n->up = true;
	if (s->raw)
		return 0;
	if ((err = node_format(n->region, s->region_len, &env)) != 0 ||
	    (err = node_open(n->region, s->region_len, &env, &n->node)) != 0)
		return err;
	n->head_len = super->pages_off + super->pages_n * sizeof(uint64_t);
	far_sim_touch(s, (unsigned)(n - s->nodes), 0, n->head_len);
	return 0;
}

static void
sim_node_free(struct sim_node *n)
{
	node_close(n->node);
	free(n->region);
	free(n->image);
	free(n->dirty);
	free(n->dirty_list);
}

static int
sim_node_init(struct far_sim *s, struct sim_node *n)
{
	uint64_t pages = s->region_len / SIM_PAGE + 1;
	int err;

	n->sim = s;
	n->region = calloc(1, s->region_len);
	n->image = calloc(1, s->region_len);
	n->dirty = calloc(pages, sizeof(*n->dirty));
	n->dirty_list = malloc(pages * sizeof(*n->dirty_list));
	if (!n->region || !n->image || !n->dirty || !n->dirty_list)
		return -FAR_ENOMEM;
	if ((err = sim_node_format(s, n)) != 0)
		return err;
	/* The image that resets go back to. */
	for (uint32_t i = 0; i < n->dirty_n; i++) {
		uint64_t off = (uint64_t)n->dirty_list[i] * SIM_PAGE;

		memcpy(n->image + off, n->region + off, far_min(SIM_PAGE, s->region_len - off));
		n->dirty[n->dirty_list[i]] = 0;
	}
	n->dirty_n = 0;
	return 0;
}

void
far_sim_node_down(struct far_sim *s, unsigned node)
{
	struct sim_node *n = &s->nodes[node];

	sim_cut(s, NULL, (int)node, -FAR_EUNSURE);
	s->faults.downs++;
	sim_trouble(s, s->now);
	n->gap_op = NULL;
	n->up = false;
	n->life++;
	node_close(n->node);
	n->node = NULL;
}

/* Zeroes the region. What is not dirty is as it was formatted, which is zero behind the head. */
static void
sim_node_wipe(struct far_sim *s, struct sim_node *n)
{
	far_sim_touch(s, (unsigned)(n - s->nodes), 0, n->head_len);
	for (uint32_t i = 0; i < n->dirty_n; i++) {
		uint64_t off = (uint64_t)n->dirty_list[i] * SIM_PAGE;

		memset(n->region + off, 0, far_min(SIM_PAGE, s->region_len - off));
	}
}

/* node_open() wants everybody gone who had a session here; other nodes see them go. */
static void
sim_node_evict(struct far_sim *s, unsigned node)
{
	for (struct sim_conn *k = s->conns; k; k = k->next) {
		if (!k->session[node] || k->cut[node] || k->life[node] == s->nodes[node].life)
			continue;
		sim_evict(s, k);
		for (unsigned i = 0; i < s->nodes_n; i++) {
			struct sim_node *n = &s->nodes[i];

			if (!n->node || !k->session[i] || k->life[i] != n->life)
				continue;
			node_stopped(n->node, k->session[i]);
			far_sim_touch(s, i, 0, n->head_len);
			k->cut[i] = true;
		}
		k->session[node] = 0;
	}
}

int
far_sim_node_up(struct far_sim *s, unsigned node, bool keep)
{
	struct sim_node *n = &s->nodes[node];
	struct node_env env = sim_env(n);

	s->faults.ups_kept += keep;
	s->faults.ups_empty += !keep;
	sim_trouble(s, s->now);
	if (!keep) {
		sim_node_wipe(s, n);
		return sim_node_format(s, n);
	}
	n->up = true;
	if (s->raw)
		return 0;
	sim_node_evict(s, node);
	far_sim_touch(s, node, 0, n->head_len);
	return node_open(n->region, s->region_len, &env, &n->node);
}

bool
far_sim_node_is_up(const struct far_sim *s, unsigned node)
{
	return s->nodes[node].up;
}

void *
far_sim_region(struct far_sim *s, unsigned node)
{
	return s->nodes[node].region;
}

static void
sim_node_report(void *arg, const char *line)
{
	fprintf(stderr, "# node: %s\n", line);
}

int
far_sim_node_check(struct far_sim *s, unsigned node)
{
	return s->nodes[node].node ? node_check(s->nodes[node].node, sim_node_report, NULL) : 0;
}

/* Time ---------------------------------------------------------------------------------------------------- */

static uint64_t
sim_now(void *arg)
{
	return ((struct far_sim *)arg)->now;
}

/* Nothing is in flight, but for those who are paused: jumps to the next event. */
static void
sim_idle(void *arg, uint64_t until)
{
	struct far_sim *s = arg;
	uint64_t to = far_min(until, s->event_ns);

	if (to == SIM_NEVER) {
		fprintf(stderr, "farside: sim: deadlock at step %llu\n",
			(unsigned long long)s->steps);
		abort();
	}
	s->now = far_max(s->now, to);
	s->steps++;
	if (s->now >= s->event_ns)
		sim_events(s);
}

struct far_clock
far_sim_clock(struct far_sim *s)
{
	struct far_clock c = { sim_now, sim_idle, s };

	return c;
}

/* The world ----------------------------------------------------------------------------------------------- */

static void
sim_start(struct far_sim *s, uint64_t seed)
{
	far_rng_seed(&s->rng, seed);
	s->draws = far_rng_next(&s->rng);
	s->now = s->steps = s->verbs = s->hash = 0;
	s->exhausted = false;
	s->conns_n = 0;
	s->trouble_ns = s->refuse = 0;
	s->refuse_all = false;
	memset(&s->faults, 0, sizeof(s->faults));
	s->lowest = SIM_PRIORITY;
	s->alone = 0;
	s->event_ns = SIM_NEVER;
	for (unsigned i = 0; i < s->nodes_n; i++) {
		s->nodes[i].gap_op = NULL;
		s->nodes[i].down_ns = s->nodes[i].up_ns = SIM_NEVER;
	}
	s->at = UINT32_MAX;
	s->favour = NULL;
	s->aims = s->fences = false;
	sim_set_watched(s);
}

int
far_sim_open(const struct far_sim_opts *opts, struct far_sim **out)
{
	struct far_sim *s;
	int err = 0;

	if (opts->nodes_n < 1 || opts->nodes_n > FAR_NODES_MAX || opts->region_len % 8)
		return -FAR_EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -FAR_ENOMEM;
	s->nodes_n = opts->nodes_n;
	s->region_len = opts->region_len;
	s->raw = opts->raw;
	s->poller.poll = sim_poll_all;
	s->poller.busy = sim_busy;
	s->policy.step_ns = SIM_STEP_NS;
	/* Every world is formatted alike, so that a run after far_sim_reset() is that of a new world. */
	sim_start(s, 0);
	for (unsigned i = 0; i < s->nodes_n && err == 0; i++)
		err = sim_node_init(s, &s->nodes[i]);
	sim_start(s, opts->seed);
	if (err != 0) {
		far_sim_close(s);
		return err;
	}
	*out = s;
	return 0;
}

int
far_sim_reset(struct far_sim *s, uint64_t seed)
{
	int err = 0;

	FAR_ASSERT(!s->conns);
	sim_nic_close(s);
	for (unsigned i = 0; i < s->nodes_n && err == 0; i++) {
		struct sim_node *n = &s->nodes[i];
		struct node_env env = sim_env(n);

		for (uint32_t p = 0; p < n->dirty_n; p++) {
			uint64_t off = (uint64_t)n->dirty_list[p] * SIM_PAGE;

			memcpy(n->region + off, n->image + off,
			       far_min(SIM_PAGE, s->region_len - off));
			n->dirty[n->dirty_list[p]] = 0;
		}
		n->dirty_n = 0;
		n->up = true;
		node_close(n->node);
		n->node = NULL;
		if (!s->raw)
			err = node_open(n->region, s->region_len, &env, &n->node);
	}
	sim_start(s, seed);
	return err;
}

void
far_sim_close(struct far_sim *s)
{
	struct sim_run *r;

	if (!s)
		return;
	FAR_ASSERT(!s->conns);
	sim_nic_close(s);
	for (unsigned i = 0; i < s->nodes_n; i++)
		sim_node_free(&s->nodes[i]);
	while ((r = s->free_runs)) {
		s->free_runs = r->next;
		free(r);
	}
	free(s->active);
	free(s);
}

/* Everybody gets a priority, and the changes a first date. */
static void
sim_prioritize(struct far_sim *s)
{
	for (struct sim_conn *k = s->conns; k; k = k->next)
		k->priority = far_rng_next(&s->rng) | SIM_PRIORITY;
	s->changes_left = s->policy.changes;
	s->change_step = s->steps + 1 + far_rng_below(&s->rng, s->policy.change_steps + 1);
	s->lowest = SIM_PRIORITY;
	s->alone = 0;
}

void
far_sim_set_policy(struct far_sim *s, const struct far_sim_policy *p)
{
	FAR_ASSERT(p->keep <= 6 && !(p->keep && p->changes));
	s->policy = *p;
	if (!s->policy.step_ns)
		s->policy.step_ns = SIM_STEP_NS;
	s->keep_mask = p->keep ? (UINT64_C(1) << p->keep) - 1 : 0;
	sim_set_watched(s);
	for (unsigned i = 0; i < s->nodes_n; i++)
		sim_gap_close(&s->nodes[i]);
	if (p->changes && !p->calm)
		sim_prioritize(s);
}

uint64_t
far_sim_now(const struct far_sim *s)
{
	return s->now;
}

uint64_t
far_sim_steps(const struct far_sim *s)
{
	return s->steps;
}

uint64_t
far_sim_verbs(const struct far_sim *s)
{
	return s->verbs;
}

bool
far_sim_exhausted(const struct far_sim *s)
{
	return s->exhausted;
}

void
far_sim_tell(struct far_sim *s, void (*tell)(void *arg, const struct far_sim_step *step), void *arg)
{
	s->tell = tell;
	s->tell_arg = arg;
	sim_set_watched(s);
}

const struct far_sim_faults *
far_sim_faults(const struct far_sim *s)
{
	return &s->faults;
}

uint64_t
far_sim_trouble_end(const struct far_sim *s)
{
	return s->trouble_ns;
}

uint64_t
far_sim_hash(const struct far_sim *s)
{
	return s->hash;
}

uint64_t
far_sim_rand(struct far_sim *s)
{
	return far_rng_next(&s->rng);
}
