/* SPDX-License-Identifier: MIT
 *
 * api_tasks -- create, read, list, run, cancel: one task, or a page of them.
 */
#include "edge/api.h"
#include "edge/aside.h"
#include "edge/parse_task.h"

#include <stdio.h>
#include <stdlib.h>

void api_ask(struct exchange *exchange, struct ask ask)
{
    ask.exchange = exchange->id;
    ask.queue = exchange->queue;
    ask.who = exchange->who;
    ask.reach = exchange->reach;
    exchange->asked = ask.kind;
    exchange->step = EXCHANGE_ASKED;
    edge_put_ask(exchange, &ask);
}

bool api_has_queue(struct exchange *exchange)
{
    if (task_queue_name_is_valid(exchange->queue)) {
        return true;
    }
    exchange_refuse(exchange, PROBLEM_QUEUE_UNKNOWN, SPAN("no queue can have this name"), SPAN(""));
    return false;
}

bool api_has_task(struct exchange *exchange, struct task_id *ret_id)
{
    if (id_parse(exchange->name, ret_id)) {
        return true;
    }
    exchange_refuse(exchange, PROBLEM_TASK_UNKNOWN, SPAN("this is not the id of a task"), SPAN(""));
    return false;
}

bool api_number(struct exchange *exchange, const char *name, int64_t min, int64_t max,
                int64_t *value)
{
    struct span text;
    int64_t number;
    char detail[96];

    if (!path_find(&exchange->path, name, &text)) {
        return true;
    }
    if (span_to_int(text, &number) && number >= min && number <= max) {
        *value = number;
        return true;
    }
    (void)snprintf(detail, sizeof detail, "%s must be a whole number from %lld to %lld", name,
                   (long long)min, (long long)max); /* cut at worst */
    exchange_refuse(exchange, PROBLEM_INVALID, span_of(detail), span_of(name));
    return false;
}

void api_parse_options(const struct exchange *exchange, struct parse_options *ret_options)
{
    const struct edge_options *options = &exchange->edge->options;

    *ret_options = (struct parse_options){
        .parse_policy = options->parse_policy,
        .parse_user = options->parse_user,
        .now_ms = clock_wall_ms(options->clock),
    };
}

/* What a task takes from elsewhere than its own text. */
static int prepare(struct exchange *exchange, struct submission *submission,
                   struct parse_options *ret_options, struct error *err)
{
    api_parse_options(exchange, ret_options);
    if (exchange->key.at != NULL) {
        int failed = parse_key(exchange->key, submission->arena, &ret_options->key, err);
        if (failed != 0) {
            return failed;
        }
    }
    submission->queue = arena_copy(submission->arena, exchange->queue);
    return submission->queue.at != NULL ? 0 : fail(err, FAULT_MEMORY, "no memory for a task");
}

static void submit(struct exchange *exchange, const struct submission *submission)
{
    buf_done(&exchange->body);
    exchange->step = EXCHANGE_ASKED;
    edge_put_submission(exchange, submission); /* the arena is the engine's now */
}

static void submit_read(struct exchange *exchange, struct aside_task *task)
{
    if (task->failed != 0) {
        exchange_refuse_error(exchange, &task->error);
        return;
    }
    submit(exchange, &task->submission);
    task->submission.arena = NULL;
}

void api_task_create(struct exchange *exchange)
{
    struct parse_options options;
    struct error error = {0};

    if (!api_has_queue(exchange)) {
        return;
    }
    struct submission submission = {.exchange = exchange->id,
                                    .arena = parse_arena_new(exchange->body.len)};
    int failed = submission.arena == NULL ? fail(&error, FAULT_MEMORY, "no memory for a task")
                                          : prepare(exchange, &submission, &options, &error);
    if (failed == 0 && edge_read_aside(exchange, &(struct aside_task){.then = submit_read,
                                                                      .options = options,
                                                                      .submission = submission})) {
        return;
    }
    if (failed == 0) {
        failed = parse_task(&options, buf_span(&exchange->body), &submission, &error);
    }
    if (failed != 0) {
        arena_free(submission.arena);
        exchange_refuse_error(exchange, &error);
        return;
    }
    submit(exchange, &submission);
}

void api_task_get(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_TASK};

    if (!api_has_task(exchange, &ask.id) ||
        !api_number(exchange, "wait_ms", 0, ENGINE_WAIT_MAX_MS, &ask.wait_ms)) {
        return;
    }
    if (exchange->edge->is_draining) {
        ask.wait_ms = 0;
    }
    if (ask.wait_ms > 0 && !edge_start_waiting(exchange, ask.id)) {
        exchange_refuse(exchange, PROBLEM_OVERLOADED, SPAN(EDGE_WAITERS_TOO_MANY), SPAN(""));
        return;
    }
    api_ask(exchange, ask);
}

/* label.NAME=VALUE, once. */
static bool read_label(struct exchange *exchange, struct store_filter *filter)
{
    for (size_t i = 0; i < exchange->path.parameter_count; i++) {
        const struct parameter *parameter = &exchange->path.parameters[i];
        if (!span_starts(parameter->name, "label.")) {
            continue;
        }
        if (filter->label_name.len > 0) {
            exchange_refuse(exchange, PROBLEM_INVALID, SPAN("only one label can be asked for"),
                            parameter->name);
            return false;
        }
        filter->label_name = span_from(parameter->name, strlen("label."));
        filter->label_value = parameter->value;
    }
    return true;
}

static bool read_state(struct exchange *exchange, struct store_filter *filter)
{
    struct span word;

    if (!path_find(&exchange->path, "state", &word) || task_state_parse(word, &filter->states)) {
        return true;
    }
    exchange_refuse(exchange, PROBLEM_INVALID,
                    SPAN("state is one of waiting, running, unsettled, succeeded, failed, "
                         "cancelled"),
                    SPAN("state"));
    return false;
}

void api_task_list(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_LIST,
                      .filter = {.states = STORE_ALL_STATES & ~(1u << TASK_GONE)}};
    int64_t limit = ENGINE_LIST_LIMIT;

    if (!api_has_queue(exchange) || !read_state(exchange, &ask.filter) ||
        !read_label(exchange, &ask.filter) ||
        !api_number(exchange, "limit", 1, ENGINE_LIST_LIMIT_MAX, &limit) ||
        !api_number(exchange, "after", 0, INT64_MAX, &ask.filter.after_row)) {
        return;
    }
    ask.filter.limit = (size_t)limit;
    api_ask(exchange, ask);
}

void api_task_run(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_RUN};

    if (api_has_task(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}

void api_task_cancel(struct exchange *exchange)
{
    struct ask ask = {.kind = ASK_CANCEL};

    if (api_has_task(exchange, &ask.id)) {
        api_ask(exchange, ask);
    }
}
