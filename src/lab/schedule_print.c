/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_print.c -- a run as text. */
#include <inttypes.h>

#include "lab/schedule_impl.h"

const char *
schedule_verdict_name(unsigned verdict)
{
	static const char *const names[] = {
		"good",
		"not linearizable",
		"wrong value",
		"wrong result",
		"lost key",
		"broken table",
		"lost memory",
		"endless",
		"costly",
		"out of bounds",
		"unfenced",
		"two holders",
		"guessed",
		"wrong scan",
		"no setup",
	};

	return verdict < FAR_LEN(names) ? names[verdict] : "?";
}

static void
schedule_print_op(const struct schedule *s, uint32_t i, bool returned, FILE *out)
{
	const struct lin_op *op = &s->ops[i];
	struct schedule_key key;

	schedule_key(op->key, &key);
	fprintf(out, "#   %s client %u #%u %s %s", returned ? "<-" : "->", op->client, i,
		lin_kind_name(op->kind), key.name);
	if (op->expect)
		fprintf(out, " if %llx", (unsigned long long)op->expect);
	if (!returned && op->pending)
		fprintf(out, " (never returns: %s)", far_errname(op->result));
	if (returned && op->result)
		fprintf(out, ": %s", far_errname(op->result));
	if (returned && !op->result && op->kind == LIN_GET)
		fprintf(out, ": value of #%d", (int)op->value - 1);
	if (returned && !op->result && op->version)
		fprintf(out, ", version %llx", (unsigned long long)op->version);
	fprintf(out, "\n");
}

static void
schedule_print_faults(const struct far_sim_faults *f, FILE *out)
{
	const struct {
		const char *name;
		uint64_t n;
	} all[] = {
		{ "kills", f->kills },
		{ "pauses", f->pauses },
		{ "parked", f->parks },
		{ "broken", f->breaks },
		{ "late", f->lates },
		{ "strays", f->strays },
		{ "landed", f->landed },
		{ "discarded", f->discarded },
		{ "repeats", f->repeats },
		{ "fenced", f->fenced },
		{ "zombies", f->zombies },
		{ "nodes down", f->downs },
		{ "back empty", f->ups_empty },
		{ "back kept", f->ups_kept },
		{ "refused", f->refused },
		{ "invalid", f->invalid },
		{ "trespasses", f->trespasses },
	};

	fprintf(out, "# ");
	for (size_t i = 0; i < FAR_LEN(all); i++) {
		if (all[i].n)
			fprintf(out, " %" PRIu64 " %s;", all[i].n, all[i].name);
	}
	fprintf(out, "\n");
}

void
schedule_print(const struct schedule *s, FILE *out)
{
	const struct schedule_result *r = s->out;

	fprintf(out, "# design %s: %s%s%s\n", s->design->name, schedule_verdict_name(r->verdict),
		r->why[0] ? ": " : "", r->why);
	schedule_config_print(&s->config, out);
	fprintf(out,
		"# %" PRIu64 " steps, %" PRIu64 " verbs, %" PRIu64
		" splits, %u moves, %u comebacks, hash %016" PRIx64 "\n",
		r->steps, r->verbs, r->splits, s->moves, r->comebacks, r->hash);
	schedule_print_faults(&r->faults, out);
	for (uint32_t e = 0; e < s->history.events_n; e++)
		schedule_print_op(s, s->events[e] >> 1, s->events[e] & 1, out);
}
