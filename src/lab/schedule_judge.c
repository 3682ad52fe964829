/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_judge.c -- what must hold of a run. */
#include "lab/schedule_impl.h"

/* Round trips that a lookup takes when nobody gets in its way: both bucket pairs, the block. */
enum { JUDGE_GET_TRIPS = 2 };

void
schedule_judge_op(struct schedule *s, uint32_t i, uint64_t began, const struct far_count *spent)
{
	uint64_t verbs = 0, who = (uint64_t)s->ops[i].client + 1;

	for (unsigned v = 0; v < FAR_OP_CODES; v++)
		verbs += spent->verbs[v];
	if (who != s->config.victim && who != s->config.second)
		s->out->most_ns = far_max(s->out->most_ns, far_sim_now(s->sim) - began);
	if (far_sim_trouble_end(s->sim) < began) {
		s->out->most_verbs = far_max(s->out->most_verbs, verbs);
		if (verbs > SCHEDULE_VERBS_MAX)
			schedule_fail(s, SCHEDULE_ENDLESS, "operation %u took %llu verbs", i,
				      (unsigned long long)verbs);
	}
	if (far_sim_trouble_end(s->sim) == 0 && s->ops[i].kind == LIN_GET && !spent->retries &&
	    !spent->split_waits && spent->round_trips > JUDGE_GET_TRIPS)
		schedule_fail(s, SCHEDULE_COSTLY, "operation %u: %llu round trips", i,
			      (unsigned long long)spent->round_trips);
}

bool
schedule_may_fail(const struct schedule *s, int err)
{
	const struct far_sim_faults *f = far_sim_faults(s->sim);

	switch (err) {
	case -FAR_EFENCED:
		return true;
	case -FAR_ENODE:
	case -FAR_EUNSURE:
		return f->downs || f->breaks || f->ups_kept || f->ups_empty;
	case -FAR_ENOENT:
	case -FAR_EINVAL:
		return f->ups_empty;
	case -FAR_ENOMEM:
		return f->refused;
	default:
		return false;
	}
}

static bool
schedule_wrote(const struct lin_op *op)
{
	return !op->pending && op->result == 0 && op->kind != LIN_GET && op->kind != LIN_DELETE &&
	       op->kind != LIN_DELETE_IF;
}

static void
schedule_judge_versions(struct schedule *s)
{
	uint32_t wrote[SCHEDULE_OPS_ALL], n = 0;

	for (uint32_t i = 0; i < s->history.ops_n; i++) {
		if (!schedule_wrote(&s->ops[i]))
			continue;
		for (uint32_t j = 0; j < n; j++)
			if (s->ops[i].version == s->ops[wrote[j]].version)
				schedule_fail(s, SCHEDULE_WRONG_VALUE,
					      "operations %u and %u wrote one version", wrote[j],
					      i);
		wrote[n++] = i;
	}
}

static void
schedule_judge_guesses(struct schedule *s)
{
	for (unsigned i = 0; i <= SCHEDULE_CLIENTS; i++) {
		for (unsigned n = 0; n < s->clients[i].lives_n; n++) {
			const struct met *m = &s->clients[i].mets[n];

			if (m->guesses)
				schedule_fail(s, SCHEDULE_GUESSED,
					      "client %u expected %llx, which it had not met", i,
					      (unsigned long long)m->guess);
		}
	}
}

void
schedule_judge(struct schedule *s)
{
	uint32_t key = 0;
	int ok;

	schedule_judge_versions(s);
	schedule_judge_guesses(s);
	ok = lin_check(s->lin, &s->history, &key);
	if (ok == 0)
		schedule_fail(s, SCHEDULE_NOT_LINEARIZABLE, "key %u", key);
	else if (ok < 0)
		schedule_fail(s, SCHEDULE_NO_SETUP, "checker: %s", far_errname(ok));
	if (far_sim_faults(s->sim)->invalid)
		schedule_fail(s, SCHEDULE_OUT_OF_BOUNDS, "%llu operations outside the region",
			      (unsigned long long)far_sim_faults(s->sim)->invalid);
	if (far_sim_faults(s->sim)->trespasses)
		schedule_fail(s, SCHEDULE_OUT_OF_BOUNDS, "%llu operations without a right to it",
			      (unsigned long long)far_sim_faults(s->sim)->trespasses);
	if (far_sim_faults(s->sim)->unfenced)
		schedule_fail(s, SCHEDULE_UNFENCED, "%llu words changed by fenced clients",
			      (unsigned long long)far_sim_faults(s->sim)->unfenced);
	for (unsigned i = 0; i < s->config.nodes && s->config.audit; i++)
		if (far_sim_node_check(s->sim, i) != 0)
			schedule_fail(s, SCHEDULE_BROKEN_TABLE, "node %u: its own tables", i);
}
