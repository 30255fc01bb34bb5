/* SPDX-License-Identifier: MIT
 *
 * cli_show -- `daruma show ID`: one task as a story: what was asked, how it stands, each attempt with
 * what came of it and how long was waited afterwards, and the answer. Bodies are cut for people;
 * --json has them whole.
 */
#include "cli/cli.h"

#include "cli/explain.h"
#include "cli/story.h"

#include <stdio.h>

#define PATH_MAX_BYTES 128

struct show_flags {
    struct flags common;
    const char *task;
};

static bool take_task(void *user, const char *value)
{
    return flags_task(value, &((struct show_flags *)user)->task);
}

static const struct flags_form form = {
    .command = "show",
    .operands = "ID",
    .purpose = "Tells one task's story: its request, its state, each attempt, its answer.\n",
    .take_operand = take_task,
    .operand_expected = "one ID of a task, such as 0198c0de-0000-7000-8000-000000000000",
};

/* --- the parts ------------------------------------------------------------------------------------ */

static void put_head(const struct screen *screen, const json_t *task)
{
    struct span state = client_text(task, "state");

    (void)screen_put_coloured(screen, SCREEN_BOLD, client_text(task, "id"), SCREEN_UNCUT);
    story_put(screen, SPAN("  "));
    (void)screen_put_coloured(screen, screen_state_colour(state), state, SCREEN_UNCUT);
    fprintf(screen->out, "\n");
    story_line(screen, "queue", client_text(task, "queue"));
    story_line(screen, "key", client_text(task, "key"));
}

static void put_times(const struct screen *screen, const json_t *task)
{
    bool is_waiting = span_is(client_text(task, "state"), "waiting");

    story_line(screen, "created", client_text(task, "created_at"));
    if (is_waiting) {
        story_line(screen, "due", client_text(task, "due_at"));
    }
    story_tries(screen, task);
}

/* --- the dead letter ------------------------------------------------------------------------------ */

/* Only what has failed can be one: the others are not asked about. */
static bool has_failure(const json_t *task)
{
    const json_t *trail = json_object_get(task, "trail");

    for (size_t i = 0; i < json_array_size(trail); i++) {
        if (client_text(json_array_get(trail, i), "class").len > 0) {
            return true;
        }
    }
    return false;
}

/* Only what was unsettled is settled by a person: the others are not asked about. */
static bool may_be_settled(const json_t *task)
{
    const json_t *trail = json_object_get(task, "trail");
    size_t count = json_array_size(trail);
    const json_t *last = count > 0 ? json_array_get(trail, count - 1) : NULL;
    struct span state = client_text(task, "state");

    if (span_is(state, "unsettled") || span_is(state, "running")) {
        return false;
    }
    return last == NULL
               ? !span_is(state, "waiting")
               : client_text(last, "class").len > 0 && !span_is(client_text(last, "sent"), "no");
}

/* What else there is to tell; each NULL: nothing. */
struct extras {
    const json_t *letter;  /* never of what did not fail for good */
    const json_t *settled; /* what people did with it, from the audit trail */
};

static void put_task(const struct screen *screen, const json_t *task, const struct extras *extras,
                     enum destination destination)
{
    const json_t *letter = extras->letter;

    put_head(screen, task);
    story_labels(screen, json_object_get(task, "labels"));
    put_times(screen, task);
    story_settled(screen, extras->settled);
    story_letter(screen, letter);
    story_request(screen, json_object_get(task, "request"), destination);
    story_edit(screen, json_object_get(letter, "edit"));
    story_trail(screen, json_object_get(task, "trail"));
    if (json_array_size(json_object_get(task, "trail")) == 0) { /* else an attempt tells it */
        story_line(screen, "why", client_text(json_object_get(task, "error"), "message"));
    }
    story_answer(screen, task);
}

/* --- the command ---------------------------------------------------------------------------------- */

static bool look(struct client *client, const char *path, struct client_answer *answer)
{
    return client_look(client, &(struct client_request){.method = "GET", .path = span_of(path)},
                       answer);
}

static int show(struct client *client, const struct show_flags *flags)
{
    const struct screen screen = screen_of(stdout);
    AUTO(client_answer_done) struct client_answer answer = {0}, letter = {0}, acts = {0};
    struct extras extras = {0};
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "/v1/tasks/%s", flags->task); /* fits: a valid id */
    int exit_code = client_ask(
        client, &(struct client_request){.method = "GET", .path = span_of(path)}, &answer);
    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    if (flags->common.is_json) {
        screen_put_json(buf_span(&answer.text));
        return CLI_DONE;
    }
    /* A token may be allowed the task and not these. */
    (void)snprintf(path, sizeof path, "/v1/dead-letters/%s", flags->task); /* fits */
    if (has_failure(answer.document) && look(client, path, &letter)) {
        extras.letter = letter.document;
    }
    (void)snprintf(path, sizeof path, "/v1/audit?task=%s", flags->task); /* fits */
    if (may_be_settled(answer.document) && look(client, path, &acts)) {
        extras.settled = json_object_get(acts.document, "audit");
    }
    put_task(&screen, answer.document, &extras, destination_otherwise(client, answer.document));
    return CLI_DONE;
}

int cli_show(int argc, char **argv)
{
    AUTO(client_close_p) struct client *client = NULL;
    struct show_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.task == NULL) {
        flags_complain(&form, "no ID given, expected daruma show ID [FLAGS]");
        return CLI_USAGE;
    }
    exit_code = client_open(&form, &flags.common, &client);
    if (exit_code == CLI_DONE) {
        exit_code = show(client, &flags);
    }
    return explain_finish(&form, exit_code);
}
