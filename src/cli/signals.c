/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- how SIGINT, SIGTERM and SIGHUP end a command. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"

/* What a signal handler can reach: the one flag that it sets, and the line that it writes. */
static volatile sig_atomic_t cli_signal_seen;
static char cli_signal_text[64];

static void
cli_on_signal(int number)
{
	cli_signal_seen = number;
}

/* The handler is gone when this runs (SA_RESETHAND), so the signal takes its usual way when this returns. */
static void
cli_on_end(int number)
{
	int saved = errno;

	if (write(STDERR_FILENO, cli_signal_text, strlen(cli_signal_text)) < 0)
		errno = saved;
	raise(number);
	errno = saved;
}

static void
cli_handle_signals(void (*handler)(int number))
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	/* No SA_RESTART: a read from a terminal or pipe must return. SA_RESETHAND: the second signal kills. */
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESETHAND }, before;

	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < FAR_LEN(numbers); i++) {
		/* nohup(1) wants its command to outlive the terminal. */
		if (numbers[i] == SIGHUP && sigaction(SIGHUP, NULL, &before) == 0 &&
		    before.sa_handler == SIG_IGN)
			continue;
		sigaction(numbers[i], &action, NULL);
	}
}

void
cli_catch_signals(void)
{
	cli_handle_signals(cli_on_signal);
}

void
cli_end_on_signals(const struct cli_common *c)
{
	snprintf(cli_signal_text, sizeof(cli_signal_text), "farside %s: interrupted\n", c->command);
	cli_handle_signals(cli_on_end);
}

bool
cli_interrupted(void)
{
	return cli_signal_seen != 0;
}

int
cli_say_interrupted(const struct cli_common *c)
{
	cli_error(c, "interrupted");
	return CLI_SIGNAL + cli_signal_seen;
}
