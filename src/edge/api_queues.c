/* SPDX-License-Identifier: MIT
 *
 * api_queues -- queues: read, create, change, delete, pause, resume, purge, run; and runs.
 */
#include "edge/api.h"

#include "base/json_value.h"

#include <stdio.h>

#define LIKE_SHOWN_MAX  40 /* bytes of a name in a complaint, as in those of the configuration */
#define JSON_ESCAPE_MAX 7  /* bytes that one of a name may be written in, its quotes included */

void api_queue_list(struct exchange *exchange)
{
    api_ask(exchange, (struct ask){.kind = ASK_QUEUES});
}

static void ask_queue(struct exchange *exchange, enum ask_kind kind)
{
    if (api_has_queue(exchange)) {
        api_ask(exchange, (struct ask){.kind = kind});
    }
}

void api_queue_get(struct exchange *exchange)
{
    ask_queue(exchange, ASK_QUEUE);
}

void api_queue_pause(struct exchange *exchange)
{
    ask_queue(exchange, ASK_QUEUE_PAUSE);
}

void api_queue_resume(struct exchange *exchange)
{
    ask_queue(exchange, ASK_QUEUE_RESUME);
}

void api_queue_purge(struct exchange *exchange)
{
    ask_queue(exchange, ASK_QUEUE_PURGE);
}

void api_queue_run(struct exchange *exchange)
{
    ask_queue(exchange, ASK_QUEUE_RUN);
}

/* The settings themselves are the configuration's to judge; here: one JSON object, in UTF-8. */
static bool is_object(struct span text)
{
    struct span value;

    return span_is_utf8(text) && json_value_take(&text, &value) && text.len == 0 &&
           value.at[0] == '{';
}

/* Which of the settings of a target name something of the server's machine; NULL: none does. */
static const char *local_member(struct span target)
{
    static const char *const members[] = {"sign", "ca"};
    struct json_walk walk;
    struct span name, value;

    if (!json_walk_begin(&walk, target, '{')) {
        return NULL;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            if (json_name_is(name, span_of(members[i]))) {
                return members[i];
            }
        }
    }
    return NULL;
}

/* False: it is refused. */
static bool are_targets_plain(struct exchange *exchange, struct span targets)
{
    struct json_walk walk;
    struct span name, value;
    char field[48];

    if (!json_walk_begin(&walk, targets, '[')) {
        return true; /* the configuration says what is wrong with it */
    }
    for (unsigned i = 0; json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE; i++) {
        const char *member = local_member(value);
        if (member != NULL) {
            (void)snprintf(field, sizeof field, "targets[%u].%s", i, member); /* fits */
            exchange_refuse(exchange, PROBLEM_FORBIDDEN,
                            SPAN("the token is limited to queues: secrets and files of the server "
                                 "are named by an admin that is not, or in the configuration"),
                            span_of(field));
            return false;
        }
    }
    return true;
}

/* A name as the configuration would repeat it, which has no such queue. What could be none is left to the
 * configuration, so it is bytes of a name that are repeated here. */
static void refuse_like(struct exchange *exchange, struct span name)
{
    char detail[LIKE_SHOWN_MAX + 80];
    struct span shown = span_until(name, name.len < LIKE_SHOWN_MAX ? name.len : LIKE_SHOWN_MAX);

    (void)snprintf(detail, sizeof detail,
                   "found \"%.*s%s\", expected the name of a queue of the file", SPAN_ARGS(shown),
                   shown.len < name.len ? "..." : ""); /* fits */
    exchange_refuse(exchange, PROBLEM_INVALID, span_of(detail), SPAN("like"));
}

/* The settings of another queue, with what they have of secrets: only of one that the token reaches, whose
 * targets it reaches by that queue's tasks as well. Of any other the answer is the one for a name that no
 * queue has, whether there is one or not. False: it is refused. */
static bool is_like_reached(struct exchange *exchange, struct span value)
{
    char name[TASK_QUEUE_NAME_MAX * JSON_ESCAPE_MAX];
    struct span text = {.at = name, .len = 0};

    if (value.at[0] != '"' || value.len > sizeof name || !json_value_text(value, name, &text.len)) {
        return true; /* no name of a queue: the configuration says so */
    }
    bool is_own = reach_is_own(text);
    bool is_name = task_queue_name_is_valid(is_own ? span_from(text, 1) : text);
    if (!is_name || reach_has(&exchange->reach, text)) {
        return true;
    }
    refuse_like(exchange, text);
    return false;
}

/* A token that is limited to queues names no secret and no file: with a secret and a body of its own
 * choice it would have the server compute any HMAC, and learn from the answer what there is. Nor does it
 * name a queue that is not there for it. Looked at before anything is opened. False: it is refused. */
static bool names_only_its_own(struct exchange *exchange, struct span settings)
{
    const struct reach *reach = &exchange->reach;
    struct json_walk walk;
    struct span name, value;

    if (reach->queue_count == 0 || !reach_has(reach, exchange->queue) ||
        !json_walk_begin(&walk, settings, '{')) {
        return true;
    }
    while (json_walk_next(&walk, &name, &value) == JSON_STEP_VALUE) {
        if (json_name_is(name, SPAN("targets")) && !are_targets_plain(exchange, value)) {
            return false;
        }
        if (json_name_is(name, SPAN("like")) && !is_like_reached(exchange, value)) {
            return false;
        }
    }
    return true;
}

void api_queue_put(struct exchange *exchange)
{
    struct span settings = buf_span(&exchange->body);

    if (!task_queue_name_is_valid(exchange->queue)) {
        exchange_refuse(exchange, PROBLEM_INVALID,
                        SPAN("a name is letters, digits, - _ and . and does not begin with _ or ."),
                        SPAN("queue"));
        return;
    }
    if (!is_object(settings)) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("the settings are one JSON object"),
                        SPAN(""));
        return;
    }
    if (names_only_its_own(exchange, settings)) {
        api_ask(exchange, (struct ask){.kind = ASK_QUEUE_PUT, .settings = settings});
    }
}

void api_queue_delete(struct exchange *exchange)
{
    struct span word = SPAN("false");

    if (path_find(&exchange->path, "force", &word) && !span_is(word, "true") &&
        !span_is(word, "false")) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("force is true or false"), SPAN("force"));
        return;
    }
    if (api_has_queue(exchange)) {
        api_ask(exchange, (struct ask){.kind = ASK_QUEUE_DELETE, .force = span_is(word, "true")});
    }
}

void api_run_get(struct exchange *exchange)
{
    int64_t run;

    if (!span_to_int(exchange->name, &run) || run < 1) {
        exchange_refuse(exchange, PROBLEM_RUN_UNKNOWN, SPAN("this is not the id of a run"),
                        SPAN(""));
        return;
    }
    api_ask(exchange, (struct ask){.kind = ASK_RUN_STATE, .id = {.row = run}});
}
