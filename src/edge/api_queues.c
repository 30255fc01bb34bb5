/* SPDX-License-Identifier: MIT
 *
 * api_queues -- queues: read, create, change, delete, pause, resume, purge, run; and runs.
 */
#include "edge/api.h"

#include "base/json_value.h"

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
    api_ask(exchange, (struct ask){.kind = ASK_QUEUE_PUT, .settings = settings});
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
