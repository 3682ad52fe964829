/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c -- [#####.....]  42 %  1234567 rows  345678/s */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>

#include <farside/fiber.h>

#include "cli/cli.h"

enum {
	PROGRESS_WIDTH = 30,
	PROGRESS_EVERY_NS = 100 * 1000 * 1000,
};

static uint64_t
progress_now(void)
{
	return far_clock_real.now(far_clock_real.arg);
}

void
progress_start(struct progress *p, const char *noun)
{
	*p = (struct progress){ .noun = noun, .shown = cli_shows_progress(), .start = progress_now() };
	p->last = p->start;
}

static void
progress_draw(struct progress *p, double share, uint64_t count, uint64_t now)
{
	double seconds = (double)(now - p->start) * 1e-9;
	int full = (int)(share * PROGRESS_WIDTH);
	char bar[PROGRESS_WIDTH + 1];

	fputs("\r\x1b[K", stderr);
	if (share >= 0) {
		memset(bar, '.', PROGRESS_WIDTH);
		memset(bar, '#', (size_t)full);
		bar[PROGRESS_WIDTH] = '\0';
		fprintf(stderr, "[%s] %3d %%  ", bar, (int)(share * 100));
	}
	fprintf(stderr, "%llu %s  %.0f/s", (unsigned long long)count, p->noun,
		(double)count / seconds);
	fflush(stderr);
	p->drawn = true;
}

void
progress_update(struct progress *p, double share, uint64_t count)
{
	uint64_t now;

	if (!p->shown)
		return;
	now = progress_now();
	if (now - p->last < PROGRESS_EVERY_NS)
		return;
	p->last = now;
	progress_draw(p, share > 1 ? 1 : share, count, now);
}

double
progress_end(struct progress *p)
{
	if (p->drawn)
		fputs("\r\x1b[K", stderr);
	p->drawn = false;
	return (double)(progress_now() - p->start) * 1e-9;
}
