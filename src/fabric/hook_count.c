/* SPDX-License-Identifier: Apache-2.0 */
/* hook_count.c -- sums what a connection sends. */
#include <string.h>

#include "base/base.h"
#include "fabric/count.h"
#include "fabric/hook.h"

static void
hook_count_before(struct far_hook *hook, struct far_chain *c)
{
	struct hook_count *h = FAR_CONTAINER(hook, struct hook_count, hook);

	h->sum.round_trips++;
	for (const struct far_op *op = c->first; op; op = op->next)
		fabric_count_op(&h->sum, op);
}

static void
hook_count_after(struct far_hook *hook, struct far_chain *c)
{
	struct hook_count *h = FAR_CONTAINER(hook, struct hook_count, hook);

	if (c->status != 0)
		h->failed++;
	else if (c->first->code == FAR_OP_CALL)
		fabric_count_reply(&h->sum, c->first->reply_max);
}

void
hook_count_init(struct hook_count *h)
{
	memset(h, 0, sizeof(*h));
	h->hook.before = hook_count_before;
	h->hook.after = hook_count_after;
}
