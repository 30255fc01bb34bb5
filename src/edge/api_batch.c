/* SPDX-License-Identifier: MIT
 *
 * api_batch -- many tasks in one call: a JSON array, or one object a line. Each is read, recorded and
 * answered by itself; the answer is given when all are, in their order. What is wrong with one does
 * not touch the others, but a text that cannot be cut into tasks is refused as a whole.
 */
#include "edge/api.h"

#include "base/json_value.h"
#include "edge/parse_task.h"

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

/* Where the tasks are. */
struct cuts {
    struct span tasks[EDGE_BATCH_MAX];
    size_t count;
};

static int add_cut(struct cuts *cuts, struct span task, struct error *err)
{
    if (cuts->count == EDGE_BATCH_MAX) {
        return fail(err, FAULT_INPUT, "a batch has at most %d tasks", EDGE_BATCH_MAX);
    }
    cuts->tasks[cuts->count++] = task;
    return 0;
}

static int cut_array(struct span text, struct cuts *cuts, struct error *err)
{
    struct span name, task;
    struct json_walk walk;
    enum json_step step;

    (void)json_walk_begin(&walk, text, '['); /* the caller has seen the bracket */
    while ((step = json_walk_next(&walk, &name, &task)) == JSON_STEP_VALUE) {
        int failed = add_cut(cuts, task, err);
        if (failed != 0) {
            return failed;
        }
    }
    if (step == JSON_STEP_BROKEN || walk.rest.len > 0) {
        return fail(err, FAULT_INPUT, "not valid JSON: in element %zu of the array, or behind it",
                    cuts->count + 1);
    }
    return 0;
}

static int cut_lines(struct span text, struct cuts *cuts, struct error *err)
{
    struct span line;
    bool has_more = true;

    while (has_more) {
        has_more = span_cut(&text, '\n', &line);
        if (line.len > 0 && line.at[line.len - 1] == '\r') {
            line.len--;
        }
        if (span_trim(line).len == 0) {
            continue;
        }
        int failed = add_cut(cuts, line, err);
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

static int cut_tasks(struct exchange *exchange, struct cuts *cuts, struct error *err)
{
    struct span text = buf_span(&exchange->body);
    struct json_walk walk;
    bool is_array = json_walk_begin(&walk, text, '[');
    int failed = is_array ? cut_array(text, cuts, err) : cut_lines(text, cuts, err);

    if (failed == 0 && cuts->count == 0 && !is_array) {
        failed = fail(err, FAULT_INPUT, "a batch is a JSON array, or one task a line");
    }
    return failed;
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
    default:
        settle_error(exchange, reply->index, problem_of_fault(reply->error.fault), &reply->error);
    }
}

static void submit(struct exchange *exchange, const struct parse_options *options, size_t index,
                   struct span task)
{
    struct error error = {0};
    struct submission submission = {
        .exchange = exchange->id, .index = (uint32_t)index, .arena = parse_arena_new(task.len)};
    int failed = submission.arena == NULL ? fail(&error, FAULT_MEMORY, "no memory for a task") : 0;

    if (failed == 0) {
        submission.queue = arena_copy(submission.arena, exchange->queue);
        failed = submission.queue.at != NULL ? parse_task(options, task, &submission, &error)
                                             : fail(&error, FAULT_MEMORY, "no memory for a task");
    }
    if (failed != 0) {
        arena_free(submission.arena);
        settle_error(exchange, index, problem_of_fault(failed), &error);
        return;
    }
    engine_submit(exchange->edge->options.engine, &submission);
}

static void submit_all(struct exchange *exchange, const struct cuts *cuts)
{
    struct parse_options options;

    api_parse_options(exchange, &options);
    for (size_t i = 0; i < cuts->count; i++) {
        submit(exchange, &options, i, cuts->tasks[i]);
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

void api_task_batch(struct exchange *exchange)
{
    struct error error = {0};
    struct cuts *cuts;

    if (!api_has_queue(exchange)) {
        return;
    }
    if (exchange->key.at != NULL) {
        exchange_refuse(exchange, PROBLEM_INVALID, SPAN("each task of a batch has its own key"),
                        SPAN("Idempotency-Key"));
        return;
    }
    cuts = calloc(1, sizeof *cuts);
    int failed = cuts != NULL ? cut_tasks(exchange, cuts, &error)
                              : fail(&error, FAULT_MEMORY, "no memory for a batch");
    failed = failed != 0 ? failed : begin(exchange, cuts->count, &error);
    if (failed != 0) {
        exchange_refuse_error(exchange, &error);
    } else if (cuts->count == 0) {
        answer(exchange, exchange->batch);
    } else {
        exchange->step = EXCHANGE_ASKED;
        submit_all(exchange, cuts);
    }
    free(cuts);
}
