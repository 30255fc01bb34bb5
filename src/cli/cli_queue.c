/* SPDX-License-Identifier: MIT
 *
 * cli_queue -- `daruma queue ACT NAME`: what a person does to one queue, above all to one that a change
 * of the configuration has left behind with tasks in it.
 */
#include "cli/cli.h"

#include "base/fault.h"
#include "cli/client.h"
#include "cli/effect.h"
#include "cli/screen.h"

#include <stdio.h>
#include <string.h>

#define PATH_BYTES 256
#define BODY_BYTES 256
#define ACTS       "adopt, pause, resume, purge or delete"

struct queue_flags {
    struct flags common;
    const char *act, *queue, *like;
    bool is_forced;
};

/* What each act asks of the server; NULL: nothing stands there. */
static const struct act {
    const char *name, *method, *suffix, *done;
    bool goes_on; /* after it, its tasks are expected to be sent */
} acts[] = {
    {"adopt", "PUT", "", "is worked as that one is", true},
    {"pause", "POST", ":pause", "is paused", false},
    {"resume", "POST", ":resume", "goes on", true},
    {"purge", "POST", ":purge", "is empty but for what is under way", false},
    {"delete", "DELETE", "", "is deleted", false},
};

#define ACT_COUNT (sizeof acts / sizeof *acts)

static const struct act *act_of(const char *name)
{
    for (size_t i = 0; i < ACT_COUNT; i++) {
        if (strcmp(acts[i].name, name) == 0) {
            return &acts[i];
        }
    }
    return NULL;
}

static bool take_word(void *user, const char *value)
{
    struct queue_flags *flags = user;

    if (flags->act == NULL) {
        flags->act = value;
        return act_of(value) != NULL;
    }
    return flags->queue == NULL && flags_queue(value, &flags->queue);
}

static bool take_like(void *user, const char *value)
{
    return flags_queue(value, &((struct queue_flags *)user)->like);
}

static bool take_force(void *user, const char *value)
{
    (void)value;
    ((struct queue_flags *)user)->is_forced = true;
    return true;
}

static const struct flag table[] = {
    {"--like", "QUEUE", take_like, "the name of a queue of the server's file",
     "adopt: the queue whose settings it is worked by", "like", false},
    {"--force", NULL, take_force, NULL, "delete: also with tasks in it, which are forgotten", NULL,
     false},
};

static const struct flags_form form = {
    .command = "queue",
    .operands = "ACT NAME",
    .purpose = "Does something to one queue: " ACTS ".\n"
               "'adopt OLD --like NEW' has what waits in OLD carried out by the settings of NEW.\n",
    .flags = table,
    .flag_count = sizeof table / sizeof *table,
    .take_operand = take_word,
    .operand_expected = "one of " ACTS ", and the name of a queue",
};

static const char unsure[] = "it may have been done: 'daruma queues' tells";

/* A queue that is adopted stays paused if it was; one that is held is resumed and goes on being held. */
static void tell(const char *queue, const struct act *act, const json_t *answer)
{
    const struct screen screen = screen_of(stdout);
    struct span why = client_text(answer, "held_because");

    if (act->goes_on && why.len > 0) {
        printf("%s is not paused, and nothing of it is sent all the same: ", queue);
        (void)screen_put(&screen, why, SCREEN_UNCUT);
        printf("; 'daruma queues' tells what to do\n");
        return;
    }
    printf("%s %s\n", queue, act->done);
    if (act->goes_on && json_is_true(json_object_get(answer, "paused"))) {
        printf("%s is still paused, and nothing of it is sent until: daruma queue resume %s\n",
               queue, queue);
    }
}

static int ask(const struct queue_flags *flags)
{
    AUTO(client_close_p) struct client *client = NULL;
    AUTO(client_answer_done) struct client_answer answer = {0};
    const struct act *act = act_of(flags->act);
    char path[PATH_BYTES], body[BODY_BYTES] = "";
    int exit_code = client_open(&form, &flags->common, &client);

    if (exit_code != CLI_DONE) {
        return exit_code;
    }
    (void)snprintf(path, sizeof path, "/v1/queues/%s%s%s", flags->queue, act->suffix,
                   flags->is_forced ? "?force=true" : ""); /* fits: a valid name */
    if (flags->like != NULL) {
        (void)snprintf(body, sizeof body, "{\"like\":\"%s\"}", flags->like); /* likewise */
    }
    exit_code = client_ask(
        client,
        &(struct client_request){
            .method = act->method, .path = span_of(path), .body = span_of(body), .unsure = unsure},
        &answer);
    if (exit_code == CLI_DONE && flags->common.is_json) {
        screen_put_json(answer.text.len > 0 ? buf_span(&answer.text) : SPAN("{}"));
    } else if (exit_code == CLI_DONE) {
        tell(flags->queue, act, answer.document);
    }
    return exit_code;
}

/* NULL: the flags go together. */
static const char *mistake(const struct queue_flags *flags)
{
    bool is_adopt = strcmp(flags->act, "adopt") == 0;

    if (flags->queue == NULL) {
        return "no NAME given, expected that of a queue";
    }
    if (is_adopt != (flags->like != NULL)) {
        return is_adopt ? "--like is missing: the name of a queue of the server's file is expected"
                        : "--like: expected with adopt only";
    }
    bool is_stray = flags->is_forced && strcmp(flags->act, "delete") != 0;
    return is_stray ? "--force: expected with delete only" : NULL;
}

int cli_queue(int argc, char **argv)
{
    struct queue_flags flags = {0};
    int exit_code;

    if (!flags_read(&form, argc, argv, &flags, &exit_code)) {
        return exit_code;
    }
    if (flags.act == NULL) {
        flags_complain(&form, "no ACT given, expected one of " ACTS);
        return CLI_USAGE;
    }
    const char *wrong = mistake(&flags);
    if (wrong != NULL) {
        flags_complain(&form, "%s", wrong);
        return CLI_USAGE;
    }
    effect_begin();
    return effect_finish(&form, ask(&flags));
}
