/* SPDX-License-Identifier: MIT
 *
 * cli_dead -- `daruma dead ACT`: dead letters, that is tasks that have failed for good. Each act has
 * a file of its own; here is which one it is.
 */
#include "cli/cli.h"

#include "cli/flags.h"

#include <stdio.h>
#include <string.h>

static const struct cli_command acts[] = {
    {"list", cli_dead_list, "list dead letters"},
    {"show", cli_dead_show, "tell one dead letter's story"},
    {"redrive", cli_dead_redrive, "send one again, or many"},
    {"cancel", cli_dead_cancel, "stop a redrive of many"},
    {"resolve", cli_dead_resolve, "close one without sending it"},
};

#define ACT_COUNT (sizeof acts / sizeof *acts)

static void usage(FILE *out)
{
    fprintf(out, "usage: daruma dead ACT [ARGUMENTS]\n\nTasks that have failed for good, and what "
                 "people do about them.\n\n");
    for (size_t i = 0; i < ACT_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", acts[i].name, acts[i].summary);
    }
    fprintf(out,
            "\n'daruma dead ACT --help' tells more. Each takes --json, --server and --token.\n");
}

int cli_dead(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        usage(stdout);
        return flags_finish_help("dead");
    }
    for (size_t i = 0; argc > 1 && i < ACT_COUNT; i++) {
        if (strcmp(argv[1], acts[i].name) == 0) {
            return acts[i].run(argc - 1, argv + 1);
        }
    }
    if (argc > 1) {
        fprintf(stderr,
                "daruma dead: '%.200s' given, expected one of list, show, redrive, cancel, "
                "resolve\n",
                argv[1]);
    } else {
        usage(stderr);
    }
    return CLI_USAGE;
}
