/* SPDX-License-Identifier: Apache-2.0 */
/* hook_trace.c -- tells what a connection does, in lines of text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "fabric/hook.h"

enum { HOOK_TRACE_LINE = 256 };

static void
hook_trace_op(char *line, const struct far_chain *c, unsigned i, const struct far_op *op)
{
	static const char *const names[FAR_OP_CODES] = { "read", "write", "cas", "faa", "call" };
	int n = snprintf(line, HOOK_TRACE_LINE, "%" PRIu64 ".%u %s%s n%u:0x%" PRIx64, c->number, i,
			 op->flags & FAR_OP_FENCE ? "fence " : "", names[op->code],
			 far_addr_node(op->addr), far_addr_off(op->addr));
	size_t room = HOOK_TRACE_LINE - (size_t)n;

	if (op->code == FAR_OP_CAS)
		snprintf(line + n, room, " 0x%" PRIx64 " -> 0x%" PRIx64, op->expect, op->desired);
	else if (op->code == FAR_OP_FAA)
		snprintf(line + n, room, " 0x%" PRIx64, op->addend);
	else
		snprintf(line + n, room, " %" PRIu32, op->len);
}

static void
hook_trace_before(struct far_hook *hook, struct far_chain *c)
{
	struct hook_trace *h = FAR_CONTAINER(hook, struct hook_trace, hook);
	char line[HOOK_TRACE_LINE];
	unsigned i = 0;

	for (const struct far_op *op = c->first; op; op = op->next) {
		hook_trace_op(line, c, i++, op);
		h->line(h->arg, line);
	}
}

static void
hook_trace_after(struct far_hook *hook, struct far_chain *c)
{
	struct hook_trace *h = FAR_CONTAINER(hook, struct hook_trace, hook);
	char line[HOOK_TRACE_LINE];
	int n = snprintf(line, sizeof(line), "%" PRIu64 " %s", c->number,
			 c->status == 0 ? "ok" : far_errname(c->status));

	/* The words found stand there only when the whole chain took effect; a long chain's do not all fit. */
	for (const struct far_op *op = c->status == 0 ? c->first : NULL; op; op = op->next) {
		uint64_t old;

		if ((op->code != FAR_OP_CAS && op->code != FAR_OP_FAA) || n + 32 > HOOK_TRACE_LINE)
			continue;
		memcpy(&old, op->buf, sizeof(old));
		n += snprintf(line + n, (size_t)(HOOK_TRACE_LINE - n), " 0x%" PRIx64, old);
	}
	h->line(h->arg, line);
}

void
hook_trace_init(struct hook_trace *h, void (*line)(void *arg, const char *line), void *arg)
{
	memset(h, 0, sizeof(*h));
	h->hook.before = hook_trace_before;
	h->hook.after = hook_trace_after;
	h->line = line;
	h->arg = arg;
}

static void
hook_trace_print(void *arg, const char *line)
{
	FILE *file = arg;

	fputs(line, file);
	fputc('\n', file);
}

void
hook_trace_init_file(struct hook_trace *h, FILE *file)
{
	hook_trace_init(h, hook_trace_print, file);
}
