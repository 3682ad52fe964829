/* SPDX-License-Identifier: Apache-2.0 */
/* commands.h -- every subcommand: one declaration here, one line in main.c's table, one file of its own. */
#ifndef FAR_CLI_COMMANDS_H
#define FAR_CLI_COMMANDS_H

#include "cli/cli.h"

extern const struct cli_command cli_node;
extern const struct cli_command cli_create, cli_drop, cli_ls, cli_put, cli_get, cli_del;
extern const struct cli_command cli_load, cli_dump, cli_scan, cli_stat, cli_check;
extern const struct cli_command cli_bench, cli_demo, cli_sim;

#endif
