/* SPDX-License-Identifier: MIT
 *
 * reply -- what the engine says, as an answer to whoever asked. Everything is rendered before
 * edge_reply returns, since what a reply points at is gone then; lists, and the bodies of single
 * tasks, are rendered already, by the reader (edge_render).
 */
#include "edge/edge_internal.h"
#include "edge/gateway.h"

#include "edge/api.h"
#include "edge/render.h"

#include <inttypes.h>
#include <stdio.h>

#define PARSE_MEMORY_MAX 65536 /* for a policy that a task brought along */

/* How many attempts the task may have: its own policy's word, else the queue's. */
static uint32_t attempts_max(const struct edge_renderer *renderer, const struct record *record,
                             const struct queue_view *queue)
{
    uint32_t most = queue != NULL ? queue->attempts_max : 0;
    struct daruma_policy policy;
    struct task_options options;

    options_read(record->task.options, &options);
    if (options.retry.len == 0 || renderer->parse_policy == NULL) {
        return most;
    }
    struct arena *arena = arena_new(PARSE_MEMORY_MAX);
    if (arena != NULL &&
        renderer->parse_policy(renderer->parse_user, options.retry, arena, &policy, NULL) == 0) {
        most = policy.attempts_max;
    }
    arena_free(arena);
    return most;
}

/* --- on the reader's thread ---------------------------------------------------------------------- */

static void write_list(struct writer *writer, const struct edge_renderer *renderer,
                       const struct reply *reply)
{
    const struct queue_view *queue = reply->queue_count > 0 ? &reply->queues[0] : NULL;
    char cursor[24];

    write_open(writer, '{');
    write_name(writer, "tasks");
    write_open(writer, '[');
    for (size_t i = 0; i < reply->record_count; i++) {
        const struct record *record = &reply->records[i];
        render_task(writer, record,
                    &(struct render_task){.queue = queue != NULL ? queue->name : SPAN(""),
                                          .attempts_max = attempts_max(renderer, record, queue),
                                          .parts = RENDER_REQUEST});
    }
    write_close(writer, ']');
    write_name(writer, "next");
    if (reply->next_row != 0) { /* a string: it is nothing to calculate with */
        (void)snprintf(cursor, sizeof cursor, "%" PRId64, reply->next_row); /* fits */
        write_text(writer, span_of(cursor));
    } else {
        write_null(writer);
    }
    write_close(writer, '}');
}

/* What is shown of a task that is read whole. */
static unsigned parts_of(enum reply_kind kind)
{
    return kind == REPLY_TASK ? RENDER_REQUEST | RENDER_LIFE | RENDER_BODIES
                              : RENDER_LIFE | RENDER_BODIES;
}

/* A list as a whole; of a task what needs no queue, which includes its bodies. */
int edge_render(void *user, const struct reply *reply, struct buf *out)
{
    struct writer writer = {.out = out};

    if (reply->kind == REPLY_LIST) {
        write_list(&writer, user, reply);
    } else if (reply->kind == REPLY_TASK || reply->kind == REPLY_DUPLICATE) {
        render_task_rest(&writer, &reply->records[0], parts_of(reply->kind));
    }
    return writer.failed;
}

/* --- answers ------------------------------------------------------------------------------------- */

static struct edge_renderer renderer_of(const struct exchange *exchange)
{
    const struct edge_options *options = &exchange->edge->options;

    return (struct edge_renderer){options->parse_policy, options->parse_user};
}

uint32_t answer_attempts_max(const struct exchange *exchange, const struct record *record,
                             const struct queue_view *queue)
{
    const struct edge_renderer renderer = renderer_of(exchange);

    return attempts_max(&renderer, record, queue);
}

/* queues[0] is the queue that the records are in. */
static void answer_task(struct exchange *exchange, const struct reply *reply, int status,
                        unsigned parts)
{
    const struct queue_view *queue = reply->queue_count > 0 ? &reply->queues[0] : NULL;
    const struct record *record = &reply->records[0];
    struct writer writer;

    if (exchange_begin(exchange, status, &writer) == NULL) {
        return;
    }
    const struct render_task about = {
        .queue = queue != NULL ? queue->name : exchange->queue,
        .attempts_max = answer_attempts_max(exchange, record, queue),
        .parts = parts,
        .rest = reply->rendered != NULL ? buf_span(reply->rendered) : (struct span){0},
    };
    render_task(&writer, record, &about);
    exchange_finish(exchange, &writer);
}

static void answer_created(struct exchange *exchange, const struct reply *reply)
{
    char id[ID_TEXT_LEN + 1];

    id_format(reply->records[0].task.id, id);
    (void)snprintf(exchange->response.location, EXCHANGE_LOCATION_MAX, "/v1/tasks/%s", id);
    exchange->response.is_replay = reply->kind == REPLY_DUPLICATE;
    if (reply->kind == REPLY_CREATED) {
        answer_task(exchange, reply, 201, 0);
    } else {
        answer_task(exchange, reply, 200, parts_of(reply->kind));
    }
}

static void answer_list(struct exchange *exchange, const struct reply *reply)
{
    const struct edge_renderer renderer = renderer_of(exchange);
    struct response *response;
    struct writer writer;

    response = exchange_begin(exchange, 200, &writer);
    if (response == NULL) {
        return;
    }
    if (reply->rendered != NULL) {
        response->body = *reply->rendered;
        *reply->rendered = (struct buf){0}; /* taken */
    } else {
        write_list(&writer, &renderer, reply);
    }
    exchange_finish(exchange, &writer);
}

static void answer_not_waiting(struct exchange *exchange, const struct reply *reply)
{
    char detail[64] = "";

    if (reply->record_count > 0) {
        (void)snprintf(detail, sizeof detail, "the task is %s",
                       task_state_text(reply->records[0].life.state)); /* fits */
    }
    exchange_refuse(exchange, PROBLEM_NOT_WAITING, span_of(detail), SPAN(""));
}

static void answer_queue(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;

    if (reply->queue_count > 0 &&
        exchange_begin(exchange, reply->is_new ? 201 : 200, &writer) != NULL) {
        render_queue(&writer, &reply->queues[0], exchange->edge->options.show_queue);
        exchange_finish(exchange, &writer);
    }
}

static void answer_queues(struct exchange *exchange, const struct reply *reply)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "queues");
    write_open(&writer, '[');
    for (size_t i = 0; i < reply->queue_count; i++) {
        render_queue(&writer, &reply->queues[i], exchange->edge->options.show_queue);
    }
    write_close(&writer, ']');
    write_name(&writer, "next");
    write_null(&writer);
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

static void answer_deleted(struct exchange *exchange)
{
    struct writer writer;
    struct response *response = exchange_begin(exchange, 204, &writer);

    if (response != NULL) {
        response->content_type = NULL;
        exchange_finish(exchange, &writer);
    }
}

/* 202 to whoever began it, 200 to whoever asks how it is getting on. */
static void answer_run(struct exchange *exchange, const struct reply *reply)
{
    bool is_begun = exchange->asked == ASK_QUEUE_RUN;
    const struct run_view *run = &reply->run;
    struct writer writer;
    char id[24];

    if (exchange_begin(exchange, is_begun ? 202 : 200, &writer) == NULL) {
        return;
    }
    (void)snprintf(id, sizeof id, "%" PRIu64, run->id); /* fits */
    write_open(&writer, '{');
    write_named_text(&writer, "run", span_of(id));
    if (!is_begun) {
        write_named_text(&writer, "queue", run->queue);
    }
    write_named_uint(&writer, "taken", run->taken);
    if (!is_begun) {
        write_named_uint(&writer, "succeeded", run->succeeded);
        write_named_uint(&writer, "failed", run->failed);
        write_named_uint(&writer, "retrying", run->retrying);
        write_named_uint(&writer, "unsettled", run->unsettled);
        write_named_uint(&writer, "pending", run->pending);
    }
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

static void answer_fault(struct exchange *exchange, const struct reply *reply)
{
    const struct error *error = &reply->error;

    if (problem_status(problem_of_fault(error->fault)) == 500) { /* 503 comes in floods */
        DARUMA_LOG(exchange->edge->options.log, DARUMA_LOG_ERROR, "request_failed",
                   daruma_log_text("code", fault_code(error->fault)),
                   daruma_log_text("error", error->text));
    }
    exchange_refuse_error(exchange, error);
}

static void refuse(struct exchange *exchange, enum problem problem)
{
    exchange_refuse(exchange, problem, SPAN(""), SPAN(""));
}

static void answer(struct exchange *exchange, const struct reply *reply)
{
    switch (reply->kind) {
    case REPLY_CREATED:
    case REPLY_DUPLICATE:
        answer_created(exchange, reply);
        return;
    case REPLY_CONFLICT:
        refuse(exchange, PROBLEM_KEY_CONFLICT);
        return;
    case REPLY_KEYS:
        api_keys_answer(exchange, reply);
        return;
    case REPLY_BUSY:
        refuse(exchange, PROBLEM_NOT_ENDED);
        return;
    case REPLY_TASK:
        if (reply->records[0].life.state == TASK_GONE) {
            refuse(exchange, PROBLEM_TASK_GONE);
            return;
        }
        answer_task(exchange, reply, 200, parts_of(reply->kind));
        return;
    case REPLY_LIST:
        answer_list(exchange, reply);
        return;
    case REPLY_NOT_WAITING:
        answer_not_waiting(exchange, reply);
        return;
    case REPLY_UNKNOWN_TASK:
        refuse(exchange, PROBLEM_TASK_UNKNOWN);
        return;
    case REPLY_UNKNOWN_QUEUE:
        refuse(exchange, PROBLEM_QUEUE_UNKNOWN);
        return;
    case REPLY_QUEUE_DELETED:
        refuse(exchange, PROBLEM_QUEUE_DELETED);
        return;
    case REPLY_QUEUE:
        answer_queue(exchange, reply);
        return;
    case REPLY_QUEUES:
        answer_queues(exchange, reply);
        return;
    case REPLY_QUEUE_IN_FILE:
        refuse(exchange, PROBLEM_QUEUE_IN_FILE);
        return;
    case REPLY_QUEUE_MISSING:
        refuse(exchange, PROBLEM_QUEUE_MISSING);
        return;
    case REPLY_QUEUE_HELD:
        refuse(exchange, PROBLEM_QUEUE_HELD);
        return;
    case REPLY_QUEUE_NOT_EMPTY:
        refuse(exchange, PROBLEM_QUEUE_NOT_EMPTY);
        return;
    case REPLY_DELETED:
        answer_deleted(exchange);
        return;
    case REPLY_RUN:
        answer_run(exchange, reply);
        return;
    case REPLY_UNKNOWN_RUN:
        refuse(exchange, PROBLEM_RUN_UNKNOWN);
        return;
    case REPLY_FAULT:
        answer_fault(exchange, reply);
        return;
    default:
        answer_act(exchange, reply);
        return;
    }
}

void edge_answer(struct exchange *exchange, const struct reply *reply)
{
    if (exchange->response.stream.is_on && reply->kind == REPLY_ROUTE) {
        gateway_stream_take(exchange, reply->route);
        return;
    }
    if (exchange->step != EXCHANGE_ASKED) {
        if (reply->kind == REPLY_LEASES) {
            leases_return(exchange->edge, reply->records, reply->record_count);
        }
        return; /* it is answered */
    }
    if (exchange->batch != NULL) {
        batch_reply(exchange, reply);
        return;
    }
    if (exchange->gateway != NULL) {
        gateway_reply(exchange, reply);
        return;
    }
    answer(exchange, reply);
}

void edge_reply(struct edge *edge, const struct reply *reply)
{
    struct exchange *exchange = exchange_find(&edge->exchanges, reply->exchange);

    if (exchange != NULL) {
        edge_answer(exchange, reply);
    } else if (reply->kind == REPLY_LEASES) { /* it was closed */
        leases_return(edge, reply->records, reply->record_count);
    }
}
