/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h -- a progress line on standard error while it is a terminal. */
#ifndef FAR_CLI_PROGRESS_H
#define FAR_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *noun;       /* what is counted: "rows" */
	bool shown;             /* is there a terminal? */
	bool drawn;
	uint64_t start, last;   /* ns */
};

/* Starts the clock; `noun` is borrowed until progress_end(). */
void progress_start(struct progress *p, const char *noun);

/* Cheap: draws ten times a second at most. `share` is 0 to 1, negative when unknown. */
void progress_update(struct progress *p, double share, uint64_t count);

/* Removes the line. Returns the seconds since the start. */
double progress_end(struct progress *p);

#endif
