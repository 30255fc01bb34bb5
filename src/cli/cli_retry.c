/* SPDX-License-Identifier: MIT
 *
 * cli_retry -- `daruma retry -- CMD`: runs a command under the library's own retry, so that the
 * waits of a shell script and of a program are the same waits. One run is one call of daruma_retry;
 * its exit status is the call's code.
 *
 * Ends with the command's last exit status, and adds nothing to its output but one line on stderr
 * for each retry.
 */
#include "cli/cli.h"

#include "cli/flags.h"
#include "cli/retry_child.h"
#include "cli/retry_flags.h"

#include <daruma/env.h>
#include <daruma/retry.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Every run of one command. */
struct runs {
    const struct retry_flags *flags;
    struct child child;
    struct child_end last;
    uint64_t runs_max;
    int64_t deadline_ms; /* 0: none */
};

static int runs_call(void *user, const struct daruma_attempt *attempt,
                     struct daruma_error *ret_error)
{
    struct runs *runs = user;

    (void)ret_error; /* the status says it all */
    runs->last = child_run(&runs->child, runs->flags->command, attempt->deadline_ms);
    if (runs->last.start_error != 0) {
        fprintf(stderr, "daruma retry: %s: %s\n", runs->flags->command[0],
                strerror(runs->last.start_error));
    }
    return runs->last.status;
}

static bool runs_condition(void *user, const struct daruma_error *error, uint32_t attempt)
{
    const struct runs *runs = user;

    (void)error;
    (void)attempt;
    return !runs->last.is_final && runs->flags->is_on[runs->last.status];
}

static void runs_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                          uint64_t delay_ms)
{
    const struct runs *runs = user;

    (void)error;
    if (!runs->flags->is_quiet) {
        fprintf(stderr, "retrying in %" PRIu64 " ms (attempt %" PRIu64 "/%" PRIu64 ")\n", delay_ms,
                (uint64_t)attempt + 1, runs->runs_max);
    }
}

/* Nonzero gives up: a signal came, or the machine slept so long that nothing is left for a run. */
static int runs_sleep(void *user, uint64_t delay_ms)
{
    struct runs *runs = user;

    if (!child_wait(&runs->child, delay_ms)) {
        return 1;
    }
    return runs->deadline_ms != 0 && daruma_now_ms() >= runs->deadline_ms;
}

static int runs_make(struct runs *runs, struct daruma_retry_options *options)
{
    struct daruma_dice dice = daruma_dice_seed(runs->flags->seed);
    struct daruma_env env = {
        .sleep_ms = runs_sleep, .dice = runs->flags->has_seed ? &dice : NULL, .user = runs};
    struct daruma_error error;

    options->condition = runs_condition;
    options->on_retry = runs_on_retry;
    options->user = runs;
    options->env = &env;
    int code = daruma_retry(runs_call, runs, options, &error);
    if (code == DARUMA_INVALID) {
        fprintf(stderr, "daruma retry: %s\n", error.message);
        return CLI_USAGE;
    }
    if (code == DARUMA_CANCELLED && runs->child.ended_by != 0) {
        return CHILD_SIGNALLED + runs->child.ended_by;
    }
    return runs->last.status;
}

int cli_retry(int argc, char **argv)
{
    struct retry_flags flags;
    struct daruma_retry_options options;

    if (!retry_flags_read(argc, argv, &flags)) {
        return CLI_USAGE;
    }
    if (flags.is_help) {
        retry_flags_help(stdout);
        return flags_finish_help("retry");
    }
    if (!retry_flags_apply(&flags, &options)) {
        return CLI_USAGE;
    }
    struct runs runs = {.flags = &flags, .runs_max = 1};
    if (options.max_retries != DARUMA_NO_RETRIES) {
        runs.runs_max += options.max_retries;
    }
    if (options.timeout_ms != 0) {
        runs.deadline_ms = daruma_now_ms() + options.timeout_ms;
    }
    child_init(&runs.child);
    return runs_make(&runs, &options);
}
