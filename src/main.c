/* SPDX-License-Identifier: MIT
 *
 * main -- finds the command and hands over. Decides nothing.
 */
#include "cli/cli.h"

#include "base/near.h"
#include "base/streams.h"
#include "cli/flags.h"

#include <daruma/version.h>

#include <stdio.h>
#include <string.h>

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int cli_version(int argc, char **argv)
{
    if (argc == 2 && is_help(argv[1])) {
        printf("usage: daruma version\n\nPrints the version of the program.\n");
        return flags_finish_help("version");
    }
    if (argc > 1) {
        fprintf(stderr, "daruma version: '%.200s' given, expected nothing behind it\n", argv[1]);
        return CLI_USAGE;
    }
    printf("daruma %s\n", daruma_version());
    return flags_finish_help("version");
}

static const struct cli_command commands[] = {
    {"serve", cli_serve, "run the server"},
    {"check", cli_check, "check a configuration"},
    {"enqueue", cli_enqueue, "record a task"},
    {"tasks", cli_tasks, "list tasks"},
    {"show", cli_show, "tell one task's story"},
    {"run", cli_run, "run what waits, now"},
    {"queue", cli_queue, "pause, purge, delete or adopt one queue"},
    {"queues", cli_queues, "list queues"},
    {"summarize", cli_summarize, "summarise articles by AI"},
    {"retry", cli_retry, "run a command until it succeeds"},
    {"dead", cli_dead, "dead letters: list, show, redrive, resolve"},
    {"unsettled", cli_unsettled, "list what may have been done"},
    {"settle", cli_settle, "say what became of it"},
    {"audit", cli_audit, "list what people did"},
    {"send", cli_send, "send a request, or keep it"},
    {"flush", cli_flush, "send what was kept"},
    {"spool", cli_spool, "list or drop what was kept"},
    {"key", cli_key, "make the key of a save"},
    {"export", cli_export, "write a store as lines of JSON"},
    {"import", cli_import, "read them into another"},
    {"restore", cli_restore, "put a backup in the place of a store"},
    {"compact", cli_compact, "give back what a store has no use for"},
    {"version", cli_version, "print the version"},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static void usage(FILE *out)
{
    fprintf(out, "usage: daruma COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(out, "\n'daruma COMMAND --help' tells more, and so does 'man daruma-COMMAND'.\n");
}

static const struct cli_command *command_of(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static int refuse_command(const char *name)
{
    struct near near = {.word = span_of(name)};

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        near_offer(&near, commands[i].name);
    }
    if (near.name != NULL) {
        fprintf(stderr, "daruma: no command '%.200s', did you mean '%s'? ", name, near.name);
    } else {
        fprintf(stderr, "daruma: no command '%.200s'; ", name);
    }
    fprintf(stderr, "'daruma help' lists them\n");
    return CLI_USAGE;
}

/* `help dead list` is `dead list --help`: what there is behind a command, it knows itself. */
static int cli_help(int argc, char **argv)
{
    char help[] = "--help";
    bool has_act = argc == 3;

    if (argc < 2 || (argc == 2 && strcmp(argv[1], "help") == 0)) {
        usage(stdout);
        return flags_finish_help("help");
    }
    if (argc > 3) {
        fprintf(stderr, "daruma help: '%.200s' given, expected one command\n", argv[3]);
        return CLI_USAGE;
    }
    const struct cli_command *asked = command_of(argv[1]);
    if (asked == NULL) {
        return refuse_command(argv[1]);
    }
    return asked->run(has_act ? 3 : 2,
                      (char *[]){argv[1], has_act ? argv[2] : help, has_act ? help : NULL, NULL});
}

int main(int argc, char **argv)
{
    if (!streams_hold()) {
        return CLI_FAILED; /* there is nowhere to say it */
    }
    if (argc < 2) {
        usage(stderr);
        return CLI_USAGE;
    }
    if (is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
        return cli_help(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "--version") == 0) {
        return cli_version(argc - 1, argv + 1);
    }
    const struct cli_command *command = command_of(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : refuse_command(argv[1]);
}
