/* SPDX-License-Identifier: Apache-2.0 */
/* hook_fault.c -- lets chains fail where a network or a node would. */
#include <string.h>

#include "base/base.h"
#include "fabric/hook.h"

static bool
hook_fault_fits(struct hook_fault *h, const struct hook_fault_rule *r)
{
	uint64_t last = r->last ? r->last : r->first;

	if (last != 0 && (h->chains < r->first || h->chains > last))
		return false;
	return r->fraction == 0 || far_rng_unit(&h->rng) < r->fraction;
}

static uint32_t
hook_fault_cut(struct hook_fault *h, const struct hook_fault_rule *r, const struct far_chain *c)
{
	switch (r->when) {
	case HOOK_FAULT_BEFORE:
		return 0;
	case HOOK_FAULT_CUT:
		return (uint32_t)far_min(r->cut, c->n);
	case HOOK_FAULT_RANDOM:
		return (uint32_t)far_rng_below(&h->rng, (uint64_t)c->n + 1);
	default:
		return c->n;
	}
}

static void
hook_fault_before(struct far_hook *hook, struct far_chain *c)
{
	struct hook_fault *h = FAR_CONTAINER(hook, struct hook_fault, hook);

	h->chains++;
	for (unsigned i = 0; i < h->rules_n; i++) {
		const struct hook_fault_rule *r = &h->rules[i];

		if (!hook_fault_fits(h, r))
			continue;
		c->cut = hook_fault_cut(h, r, c);
		c->status = r->err;
		h->failed++;
		return;
	}
}

void
hook_fault_init(struct hook_fault *h, uint64_t seed)
{
	memset(h, 0, sizeof(*h));
	h->hook.before = hook_fault_before;
	far_rng_seed(&h->rng, seed);
}

void
hook_fault_add(struct hook_fault *h, const struct hook_fault_rule *rule)
{
	FAR_ASSERT(h->rules_n < HOOK_FAULT_RULES && rule->err < 0);
	h->rules[h->rules_n++] = *rule;
}
