/* SPDX-License-Identifier: MIT
 *
 * cli_run -- `daruma run QUEUE` and `daruma run --task ID` (D4): what waits is due now, whatever
 * backoff, pause or outage says. Stays until each task it took has come to its next outcome, with
 * progress on a terminal. The server goes on by itself when this program is ended.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/destination.h"
#include "cli/effect.h"
#include "cli/explain.h"
#include "cli/follow.h"
#include "cli/screen.h"

#include <inttypes.h>
#include <stdio.h>

#define PATH_MAX_BYTES 256
#define TAKE_TIME_MS                                                                               \
    600000            /* the answer comes when every task is marked: a large queue takes time */
#define STILL_MS 3000 /* without an outcome: what is waited for is said */

struct run_flags {
    struct flags common;
    const char *queue;
    const char *task;
    bool is_left; /* --no-wait */
};

static bool take_queue(void *user, const char *value)
{
    return flags_queue(value, &((struct run_flags *)user)->queue);
}

static bool take_task(void *user, const char *value)
{
    struct run_flags *flags = user;

    flags->task = NULL;
    return flags_task(value, &flags->task);
}

static bool take_no_wait(void *user, const char *value)
{
    (void)value;
    ((struct run_flags *)user)->is_left = true;
    return true;
}

static const struct flag table[] = {
    {"--task", "ID", take_task, "the id of a task", "only this task", NULL, false},
    {"--no-wait", NULL, take_no_wait, NULL, "ends when they are due, not when they are done", NULL,
     false},
};

static const struct flags_form form = {
    .command = "run",
    .operands = "QUEUE|--task ID",
    .purpose =
        "Makes every waiting task of a queue, or one task, due now, and stays until each\n"
        "has come to its next outcome: it succeeded, waits for another try, is unsettled or\n"
        "has failed. Exit status 0: all succeeded; 1: some did not.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_queue,
    .operand_expected = "one QUEUE: letters, digits, - _ and .",
};

static const char unsure[] = "it may have begun: 'daruma queues' and 'daruma tasks QUEUE' show it; "
                             "running it again does no harm";

/* --- a queue ------------------------------------------------------------------------------------ */

/* The server's number has all that did not succeed, most of which wait for another attempt. */
static int64_t failed_for_good(const json_t *run)
{
    return client_number(run, "failed") - client_number(run, "retrying") -
           client_number(run, "unsettled");
}

static void put_failed(const json_t *run)
{
    int64_t retrying = client_number(run, "retrying"), unsettled = client_number(run, "unsettled");

    printf("failed %" PRId64, failed_for_good(run));
    if (retrying > 0) {
        printf(", waiting for another try %" PRId64, retrying);
    }
    if (unsettled > 0) {
        printf(", unsettled %" PRId64, unsettled);
    }
}

/* One line that is written over and over. */
static void show_progress(const struct screen *errors, const char *queue, const json_t *run)
{
    int64_t taken = client_number(run, "taken"), pending = client_number(run, "pending");

    if (errors->has_colour) {
        fprintf(stderr, "\r\033[K%s: %" PRId64 " of %" PRId64 " done, %" PRId64 " failed", queue,
                taken - pending, taken, failed_for_good(run));
        (void)fflush(stderr);
    }
}

static void clear_progress(const struct screen *errors)
{
    if (errors->has_colour) {
        fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
    }
}

/* The server was started again and knows the tasks, but not that they were taken together; that it has no
 * such run has been said. What else is known is how many were taken and how the queue stands. Whether all
 * of them succeeded is not. */
static void tell_forgotten(struct client *client, const struct run_flags *flags, int64_t taken)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/queues/%s", flags->queue); /* fits: a valid name */
    fprintf(stderr,
            "  it was started again, and goes on with the %" PRId64
            " it had taken without counting "
            "them\n",
            taken);
    if (client_look(client, &(struct client_request){.method = "GET", .path = span_of(path)},
                    &answer)) {
        const json_t *counts = json_object_get(answer.document, "counts");
        fprintf(stderr,
                "  %s has now: waiting %" PRId64 ", running %" PRId64 ", unsettled %" PRId64
                ", succeeded %" PRId64 ", failed %" PRId64 "\n",
                flags->queue, client_number(counts, "waiting"), client_number(counts, "running"),
                client_number(counts, "unsettled"), client_number(counts, "succeeded"),
                client_number(counts, "failed"));
    }
}

/* Whether a run that was there is not there any more. */
static bool is_forgotten(const struct client_answer *answer)
{
    return answer->status == 404 && span_is(client_text(answer->document, "code"), "run_unknown");
}

/* What a run that does not get on waits for. */
static void tell_still(struct client *client, const char *queue, int64_t pending)
{
    enum destination destination = destination_of(client, span_of(queue));

    fprintf(stderr, "%s: %" PRId64 " not done yet", queue, pending);
    if (destination == DESTINATION_WORKERS) {
        fprintf(stderr,
                ": it has no targets, so a task without one of its own waits for a worker to "
                "lease it");
    }
    fprintf(stderr, "; 'daruma tasks %s' shows them, and they go on without this command\n", queue);
}

/* Says once that a run stands still. */
struct still {
    int64_t since_ms; /* of the last outcome */
    int64_t pending;
    bool is_told;
};

static void look_still(struct client *client, const char *queue, const json_t *run,
                       struct still *still)
{
    int64_t pending = client_number(run, "pending"), now_ms = clock_mono_ms(&clock_real);

    if (pending != still->pending) {
        still->pending = pending;
        still->since_ms = now_ms;
    } else if (!still->is_told && now_ms - still->since_ms >= STILL_MS) {
        const struct screen errors = screen_of(stderr);
        clear_progress(&errors);
        tell_still(client, queue, pending);
        still->is_told = true;
    }
}

static int watch_run(struct client *client, const struct run_flags *flags, const char *path,
                     struct client_answer *answer)
{
    const struct screen errors = screen_of(stderr);
    int64_t taken = client_number(answer->document, "taken");
    struct still still = {.pending = -1};
    int exit_code;
    int64_t pace_ms = 0;

    for (;;) {
        exit_code = client_ask_patiently(
            client, &(struct client_request){.method = "GET", .path = span_of(path)}, answer);
        if (exit_code != CLI_DONE || client_number(answer->document, "pending") <= 0) {
            break;
        }
        look_still(client, flags->queue, answer->document, &still);
        show_progress(&errors, flags->queue, answer->document);
        client_pace(&pace_ms);
    }
    clear_progress(&errors);
    if (exit_code == CLI_FAILED && is_forgotten(answer)) {
        tell_forgotten(client, flags, taken);
    }
    return exit_code;
}

static int report_run(const struct run_flags *flags, const struct client_answer *answer)
{
    const json_t *run = answer->document;

    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer->text));
    } else if (flags->is_left) {
        printf("%s: taken %" PRId64 "\n", flags->queue, client_number(run, "taken"));
    } else {
        printf("%s: taken %" PRId64 ", succeeded %" PRId64 ", ", flags->queue,
               client_number(run, "taken"), client_number(run, "succeeded"));
        put_failed(run);
        printf("\n");
    }
    return client_number(run, "failed") > 0 ? CLI_FAILED : CLI_DONE;
}

/* A run's id goes into a path. */
static bool run_path(const json_t *run, char ret_path[PATH_MAX_BYTES])
{
    struct span id = client_text(run, "run");
    int64_t number;

    if (!span_to_int(id, &number)) {
        return false;
    }
    (void)snprintf(ret_path, PATH_MAX_BYTES, "/v1/runs/%" PRId64, number); /* fits */
    return true;
}

static int run_queue(struct client *client, const struct run_flags *flags)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/queues/%s:run", flags->queue); /* fits: a valid name */
    int exit_code = client_ask(
        client,
        &(struct client_request){
            .method = "POST", .path = span_of(path), .wait_ms = TAKE_TIME_MS, .unsure = unsure},
        &answer);
    if (exit_code == CLI_DONE && !flags->is_left) {
        exit_code = run_path(answer.document, path)
                        ? watch_run(client, flags, path, &answer)
                        : explain_stranger(&form, &flags->common, &answer);
    }
    return exit_code == CLI_DONE ? report_run(flags, &answer) : exit_code;
}

/* --- a task ------------------------------------------------------------------------------------- */

static int run_task(struct client *client, const struct run_flags *flags)
{
    AUTO(client_answer_done) struct client_answer answer = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/tasks/%s:run", flags->task); /* fits: a valid id */
    int exit_code = client_ask(
        client, &(struct client_request){.method = "POST", .path = span_of(path), .unsure = unsure},
        &answer);
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (!flags->is_left) {
        exit_code = follow_attempt(client, flags->task, &answer);
        return exit_code == CLI_DONE ? follow_report(&flags->common, &answer) : exit_code;
    }
    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
    } else {
        printf("%s due now\n", flags->task);
    }
    return CLI_DONE;
}

int cli_run(int argc, char **argv)
{
    AUTO(client_close_p) struct client *client = NULL;
    struct run_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if ((flags.queue != NULL) == (flags.task != NULL)) {
        flags_complain(&form, "%s given, expected one of QUEUE and --task ID",
                       flags.queue != NULL ? "both" : "neither");
        return CLI_USAGE;
    }
    effect_begin();
    exit_code = client_open(&form, &flags.common, &client);
    if (exit_code == CLI_DONE) {
        exit_code = flags.queue != NULL ? run_queue(client, &flags) : run_task(client, &flags);
    }
    return effect_finish(&form, exit_code);
}
