/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schedule.c -- builds a world, lets the clients work, settles, judges.
 *
 *	build   calm: every client opens pool and table; the first one makes the table and fills it
 *	work    the clients' fibers work while the simulator interleaves them and strikes as configured
 *	settle  calm: all leave; a newcomer looks at everything
 */
#include "lab/schedule_impl.h"

#include <stdarg.h>
#include <string.h>

enum { SCHEDULE_REGION = (8 << 20) - (64 << 10) }; /* below 8 MiB, nodes keep small tables */

void
schedule_fail(struct schedule *s, enum schedule_verdict verdict, const char *format, ...)
{
	va_list args;

	if (s->out->verdict != SCHEDULE_GOOD)
		return;
	s->out->verdict = verdict;
	va_start(args, format);
	vsnprintf(s->out->why, sizeof(s->out->why), format, args);
	va_end(args);
}

int
schedule_connect(struct schedule_client *c)
{
	int err;

	if (c->lives_n == SCHEDULE_LIVES)
		return -FAR_ENOMEM;
	err = far_sim_connect(c->s->sim, c->s->loop, NULL, &c->fabric);
	if (err)
		return err;
	met_init(&c->mets[c->lives_n]);
	if (c->s->config.met)
		far_fabric_hook(c->fabric, &c->mets[c->lives_n].hook);
	c->lives[c->lives_n++] = c->fabric;
	return 0;
}

void
schedule_calm(struct schedule *s, bool calm)
{
	const struct schedule_config *g = &s->config;
	struct far_sim_policy p = {
		.keep = (unsigned)g->keep,
		.changes = (unsigned)g->changes,
		.change_steps = g->change_steps,
		.weak = g->weak,
		.line = g->line,
		.relaxed = g->relaxed,
		.gap = g->gap,
		.late = (unsigned)g->late,
		.late_ns = g->late_ns,
		.repeat = (unsigned)g->repeat,
		.calm = calm,
		.steps_max = SCHEDULE_STEPS_MAX,
		.zoo = g->zoo,
	};

	far_sim_set_policy(s->sim, &p);
}

/* Building ------------------------------------------------------------------------------------------------ */

static int
schedule_count_splits(struct schedule_client *c, struct far_task *t)
{
	struct far_table_stat stat;
	int err = schedule_stat(c, t, &stat);

	c->s->splits = err ? 0 : stat.splits;
	return err;
}

/* The last client ends the session in which it filled its part. */
static void
schedule_build_former(struct schedule_client *c, struct far_task *t)
{
	if (c->s->config.former == SCHEDULE_FORMER_DIED)
		schedule_desert(c, t);
	else
		c->err = schedule_shut(c, t);
}

/* What was made for others to look at is there; the client's own state may come to an end. */
static void
schedule_build_last(struct schedule_client *c, struct far_task *t)
{
	const struct schedule_config *g = &c->s->config;

	if (!c->err && !g->plain)
		c->err = schedule_count_splits(c, t);
	if (!c->err && g->deed == SCHEDULE_DEED_DROP)
		c->err = schedule_make_other(c, t);
	if (!c->err && (g->former || g->deed == SCHEDULE_DEED_OPEN))
		schedule_build_former(c, t);
}

static void
schedule_build_one(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;
	struct schedule *s = c->s;
	struct schedule_config *g = &s->config;

	if ((c->err = schedule_open(c, t, c->id == 0)) != 0)
		return;
	/* Everybody fills its share, so that blocks have different owners. */
	for (unsigned i = c->id; i < g->fill && !c->err; i += (unsigned)g->clients)
		c->err = schedule_fill(c, t, i, true);
	for (unsigned i = 0; i < g->keys; i++) {
		if (i % g->clients != c->id || !(g->present >> i & 1))
			continue;
		schedule_operate(c, t, LIN_INSERT, i);
		if (g->apart)
			schedule_move(c, t, i, 1);
	}
	if (c->id == g->clients - 1)
		schedule_build_last(c, t);
}

static void
schedule_build_anew(struct far_task *t, void *arg)
{
	struct schedule_client *c = arg;

	c->err = schedule_open(c, t, false);
}

/* Runs a fiber of client `c` alone. */
static int
schedule_build_run(struct schedule_client *c, void (*fn)(struct far_task *t, void *arg))
{
	int err = far_loop_spawn(c->s->loop, c->fabric, fn, c, 0);

	if (err)
		return err;
	far_loop_run(c->s->loop);
	if (c->err)
		schedule_fail(c->s, SCHEDULE_NO_SETUP, "client %u: %s", c->id, far_errname(c->err));
	return 0;
}

static int
schedule_build(struct schedule *s)
{
	const struct schedule_config *g = &s->config;
	struct schedule_client *last = &s->clients[g->clients - 1];
	int err = 0;

	for (unsigned i = 0; i < g->clients && !err; i++)
		err = schedule_build_run(&s->clients[i], schedule_build_one);
	if (err || s->out->verdict != SCHEDULE_GOOD ||
	    (!g->former && g->deed != SCHEDULE_DEED_OPEN))
		return err;
	if ((err = schedule_connect(last)) != 0 || g->deed == SCHEDULE_DEED_OPEN)
		return err;
	return schedule_build_run(last, schedule_build_anew);
}

/* Work ---------------------------------------------------------------------------------------------------- */

/* What will go wrong, from now on. */
static void
schedule_arm(struct schedule *s)
{
	struct schedule_config *g = &s->config;
	uint64_t now = far_sim_now(s->sim);

	if (g->victim && g->strike)
		far_sim_aim(s->clients[g->victim - 1].fabric, g->fuse,
			    (enum far_sim_point)(g->strike - 1), (enum far_sim_fate)g->fate,
			    g->fate_ns);
	else if (g->victim)
		far_sim_fuse(s->clients[g->victim - 1].fabric, g->fuse, (enum far_sim_fate)g->fate,
			     g->fate_ns);
	if (g->second && g->second <= g->clients)
		far_sim_aim(s->clients[g->second - 1].fabric, g->second_fuse,
			    (enum far_sim_point)g->second_strike, FAR_SIM_KILL, 0);
	if (g->breaker && g->breaker != g->victim)
		far_sim_fuse(s->clients[g->breaker - 1].fabric, g->break_fuse, FAR_SIM_BREAK,
			     g->break_ns);
	for (unsigned i = 0; i < g->clients; i++) {
		if (g->freeze_ns[i])
			far_sim_plan_pause(s->clients[i].fabric, now + g->freeze_at[i],
					   g->freeze_ns[i]);
	}
	if (g->outage)
		far_sim_plan_node(s->sim, (unsigned)g->outage - 1, now + g->outage_at, g->outage_ns,
				  (enum far_sim_return)g->outage_how);
	far_sim_refuse(s->sim, g->refuse, g->refuse_all);
}

/* What has not struck yet must not strike while the others settle. */
static void
schedule_disarm(struct schedule *s)
{
	for (unsigned i = 0; i < s->config.clients; i++) {
		for (unsigned k = 0; k < s->clients[i].lives_n; k++) {
			struct far_fabric *f = s->clients[i].lives[k];

			far_sim_fuse(f, UINT64_MAX, FAR_SIM_KILL, 0);
			far_sim_aim(f, UINT64_MAX, FAR_SIM_BEFORE, FAR_SIM_KILL, 0);
			far_sim_plan_pause(f, UINT64_MAX, 0);
		}
	}
	for (unsigned i = 0; i < s->config.nodes; i++)
		far_sim_plan_node(s->sim, i, UINT64_MAX, 0, FAR_SIM_NEVER);
	far_sim_refuse(s->sim, 0, false);
}

static int
schedule_let_work(struct schedule *s)
{
	struct schedule_config *g = &s->config;
	uint64_t steps = far_sim_steps(s->sim), verbs = far_sim_verbs(s->sim);
	int err;

	schedule_calm(s, false);
	schedule_arm(s);
	for (unsigned i = 0; i < g->clients * g->fibers; i++) {
		struct schedule_client *c = &s->clients[i % g->clients];

		if ((err = far_loop_spawn(s->loop, c->fabric, schedule_work, c, 0)) != 0)
			return err;
		c->working++;
	}
	far_loop_run(s->loop);
	s->out->steps = far_sim_steps(s->sim) - steps;
	s->out->verbs = far_sim_verbs(s->sim) - verbs;
	s->out->hash = far_sim_hash(s->sim);
	s->out->faults = *far_sim_faults(s->sim);
	s->out->lost = s->out->faults.ups_empty > 0;
	for (unsigned i = 0; i < g->clients; i++)
		s->out->client_verbs[i] = far_sim_client_verbs(s->clients[i].fabric);
	if (far_sim_exhausted(s->sim))
		schedule_fail(s, SCHEDULE_ENDLESS, "more than %u steps", SCHEDULE_STEPS_MAX);
	schedule_disarm(s);
	schedule_calm(s, true);
	return 0;
}

/* Running ------------------------------------------------------------------------------------------------- */

int
schedule_new(struct schedule **out)
{
	struct schedule *s = calloc(1, sizeof(*s));

	if (!s || lin_new(&s->lin) != 0) {
		free(s);
		return -FAR_ENOMEM;
	}
	for (unsigned i = 0; i < SCHEDULE_NODES; i++) {
		struct far_sim_opts o = { .nodes_n = i + 1, .region_len = SCHEDULE_REGION };
		struct far_loop_opts l = { .seed = 0 };

		if (far_sim_open(&o, &s->sims[i]) != 0)
			goto fail;
		l.clock = far_sim_clock(s->sims[i]);
		if (far_loop_open(&l, &s->loops[i]) != 0)
			goto fail;
	}
	*out = s;
	return 0;
fail:
	schedule_free(s);
	return -FAR_ENOMEM;
}

void
schedule_free(struct schedule *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < SCHEDULE_NODES; i++) {
		far_loop_close(s->loops[i]);
		far_sim_close(s->sims[i]);
	}
	lin_free(s->lin);
	free(s);
}

/* Tells a step of the world. */
static void
schedule_tell(void *arg, const struct far_sim_step *p)
{
	static const char *const names[FAR_OP_CODES] = { "read", "write", "cas", "faa", "call" };
	struct schedule *s = arg;
	char line[128];

	snprintf(line, sizeof(line), "%10llu c%u%s n%u:0x%llx %s 0x%llx",
		 (unsigned long long)p->now, p->client, p->stray ? "*" : "", p->node,
		 (unsigned long long)p->off, names[p->code], (unsigned long long)p->value);
	s->trace(s->trace_arg, line);
}

void
schedule_trace(struct schedule *s, void (*line)(void *arg, const char *text), void *arg)
{
	s->trace = line;
	s->trace_arg = arg;
	for (unsigned i = 0; i < SCHEDULE_NODES; i++)
		far_sim_tell(s->sims[i], line ? schedule_tell : NULL, s);
}

static int
schedule_start(struct schedule *s)
{
	const struct schedule_config *g = &s->config;
	int err;

	s->sim = s->sims[g->nodes - 1];
	s->loop = s->loops[g->nodes - 1];
	s->history = (struct lin_history){ s->ops, s->events, 0, 0 };
	s->fresh_used = s->moves = 0;
	s->splits = s->grown = 0;
	schedule_calm(s, true);
	if ((err = far_sim_reset(s->sim, g->seed)) != 0)
		return err;
	far_loop_reset(s->loop, g->seed);
	memset(s->clients, 0, sizeof(s->clients));
	for (unsigned i = 0; i < g->clients; i++) {
		struct schedule_client *c = &s->clients[i];

		c->s = s;
		c->id = i;
		c->left = (unsigned)g->ops[i];
		c->comebacks = (unsigned)far_min(g->comebacks, SCHEDULE_LIVES - 1);
		far_rng_seed(&c->rng, far_mix64(g->seed + i + 1));
		if ((err = schedule_connect(c)) != 0)
			return err;
	}
	return 0;
}

/* Daemons of abandoned pools end here, also those that wait for a chain that stands still. */
static void
schedule_end(struct schedule *s)
{
	for (unsigned i = 0; i <= SCHEDULE_CLIENTS; i++)
		for (unsigned n = 0; n < s->clients[i].lives_n; n++)
			far_sim_kill(s->clients[i].lives[n]);
	far_loop_turn(s->loop);
	for (unsigned i = 0; i <= SCHEDULE_CLIENTS; i++) {
		struct schedule_client *c = &s->clients[i];

		while (c->lives_n > 0) {
			far_fabric_close(c->lives[--c->lives_n]);
			met_fini(&c->mets[c->lives_n]);
		}
	}
}

int
schedule_play(struct schedule *s, const struct schedule_config *config,
	      const struct far_index_ops *design,
	      struct schedule_result *out)
{
	int err;

	FAR_ASSERT(schedule_config_is_valid(config));
	memset(out, 0, sizeof(*out));
	s->out = out;
	s->config = *config;
	s->design = design;
	if ((err = schedule_start(s)) == 0)
		err = schedule_build(s);
	if (!err && out->verdict == SCHEDULE_GOOD)
		err = schedule_let_work(s);
	if (!err)
		err = schedule_settle(s);
	if (!err)
		schedule_judge(s);
	out->ops = s->history.ops_n;
	out->deaths = far_sim_faults(s->sim)->kills;
	schedule_end(s);
	return err;
}

int
schedule_run(struct schedule *s, uint64_t seed, const struct far_index_ops *design, unsigned flags,
	     struct schedule_result *out)
{
	struct schedule_config config;

	schedule_config_draw(&config, seed, flags);
	return schedule_play(s, &config, design, out);
}
