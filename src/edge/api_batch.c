/* SPDX-License-Identifier: MIT
 *
 * api_batch -- many tasks in one call (parse_batch.h). Each is recorded and answered by itself; the
 * answer is given when all are, in their order.
 */
#include "edge/api.h"
#include "edge/aside.h"
#include "edge/parse_batch.h"

#include <stdlib.h>

#define RESULT_BYTES_MAX 4096 /* of one result: an id, or a problem, every byte of it escaped */

struct batch {
    struct arena *arena;                 /* results */
    struct span results[EDGE_BATCH_MAX]; /* at NULL: known, but there was no memory to keep it */
    bool is_known[EDGE_BATCH_MAX];
    size_t count, left;
};

void batch_free(struct batch *batch)
{
    if (batch != NULL) {
        arena_free(batch->arena);
        free(batch);
    }
}

static void write_result(struct writer *writer, const struct reply *reply)
{
    char id[ID_TEXT_LEN + 1];

    write_open(writer, '{');
    id_format(reply->records[0].task.id, id);
    write_named_text(writer, "id", span_of(id));
    write_close(writer, '}');
}

static void write_error(struct writer *writer, enum problem problem, struct span detail,
                        struct span field)
{
    write_open(writer, '{');
    write_name(writer, "error");
    problem_write(writer, problem, detail, field);
    write_close(writer, '}');
}

static void answer(struct exchange *exchange, const struct batch *batch)
{
    struct writer writer;

    if (exchange_begin(exchange, 200, &writer) == NULL) {
        return;
    }
    write_open(&writer, '{');
    write_name(&writer, "results");
    write_open(&writer, '[');
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->results[i].at == NULL) {
            write_error(&writer, PROBLEM_STORE_UNKNOWN, SPAN("out of memory while answering"),
                        SPAN(""));
        } else {
            write_json(&writer, batch->results[i]);
        }
    }
    write_close(&writer, ']');
    write_close(&writer, '}');
    exchange_finish(exchange, &writer);
}

/* One more is known. */
static void settle(struct exchange *exchange, size_t index, const struct buf *text, int failed)
{
    struct batch *batch = exchange->batch;

    if (failed == 0) {
        batch->results[index] = arena_copy(batch->arena, buf_span(text));
    }
    batch->is_known[index] = true;
    if (--batch->left == 0) {
        answer(exchange, batch);
    }
}

static void settle_error(struct exchange *exchange, size_t index, enum problem problem,
                         const struct error *err)
{
    struct buf text;
    struct writer writer = {.out = &text};

    buf_init(&text, RESULT_BYTES_MAX);
    write_error(&writer, problem, err != NULL ? problem_detail(err) : SPAN(""),
                err != NULL ? span_of(err->field) : SPAN(""));
    settle(exchange, index, &text, writer.failed);
    buf_done(&text);
}

void batch_reply(struct exchange *exchange, const struct reply *reply)
{
    struct batch *batch = exchange->batch;
    struct buf text;
    struct writer writer = {.out = &text};

    if (reply->index >= batch->count || batch->is_known[reply->index]) {
        return;
    }
    switch (reply->kind) {
    case REPLY_CREATED:
    case REPLY_DUPLICATE:
        buf_init(&text, RESULT_BYTES_MAX);
        write_result(&writer, reply);
        settle(exchange, reply->index, &text, writer.failed);
        buf_done(&text);
        return;
    case REPLY_CONFLICT:
        settle_error(exchange, reply->index, PROBLEM_KEY_CONFLICT, NULL);
        return;
    case REPLY_UNKNOWN_QUEUE:
        settle_error(exchange, reply->index, PROBLEM_QUEUE_UNKNOWN, NULL);
        return;
    case REPLY_QUEUE_MISSING:
        settle_error(exchange, reply->index, PROBLEM_QUEUE_MISSING, NULL);
        return;
    case REPLY_QUEUE_HELD:
        settle_error(exchange, reply->index, PROBLEM_QUEUE_HELD, NULL);
        return;
    default:
        settle_error(exchange, reply->index, problem_of_fault(reply->error.fault), &reply->error);
    }
}

static int begin(struct exchange *exchange, size_t count, struct error *err)
{
    struct batch *batch = calloc(1, sizeof *batch);
    struct arena *arena = arena_new(count * RESULT_BYTES_MAX + RESULT_BYTES_MAX);

    if (batch == NULL || arena == NULL) {
        free(batch);
        arena_free(arena);
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    *batch = (struct batch){.arena = arena, .count = count, .left = count};
    exchange->batch = batch;
    return 0;
}

/* All of them are read: the good ones go to the engine. */
void batch_submit(struct exchange *exchange, struct parsed_batch *parsed, struct engine *engine)
{
    struct error error = {0};

    if (begin(exchange, parsed->count, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    if (parsed->count == 0) {
        answer(exchange, exchange->batch);
    }
    for (size_t i = 0; i < parsed->count; i++) {
        struct parsed_task *task = &parsed->tasks[i];
        if (task->failed != 0) {
            settle_error(exchange, i, problem_of_fault(task->failed), &task->error);
        } else {
            engine_submit(engine, &task->submission);
            task->submission.arena = NULL; /* the engine's now */
        }
    }
}

/* A large one comes back. */
static void submit_read(struct exchange *exchange, struct aside_task *task)
{
    if (task->failed != 0) {
        exchange_refuse_error(exchange, &task->error);
        return;
    }
    edge_put_batch(exchange, task->batch);
    task->batch = NULL;
}

static void read_here(struct exchange *exchange, const struct submission *form,
                      const struct parse_options *options)
{
    struct parsed_batch *parsed = NULL;
    struct error error = {0};

    if (parse_batch(options, form, buf_span(&exchange->body), &parsed, &error) != 0) {
        exchange_refuse_error(exchange, &error);
        return;
    }
    exchange->step = EXCHANGE_ASKED;
    edge_put_batch(exchange, parsed);
}

void api_task_batch(struct exchange *exchange)
{
    struct submission form = {.exchange = exchange->id, .queue = exchange->queue};
    struct parse_options options;

    if (!api_has_queue(exchange)) {
        return;
    }
    if (exchange->key.at != NULL) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("each task of a batch has its own key"),
                        SPAN("Idempotency-Key"));
        return;
    }
    api_parse_options(exchange, &options);
    if (!edge_read_aside(exchange, &(struct aside_task){.kind = ASIDE_BATCH,
                                                        .then = submit_read,
                                                        .options = options,
                                                        .submission = form})) {
        read_here(exchange, &form, &options);
    }
}
