/* SPDX-License-Identifier: MIT
 *
 * parse_batch -- see parse_batch.h.
 */
#include "edge/parse_batch.h"

#include "base/json_value.h"

#include <stdlib.h>

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

static int cut_tasks(struct span text, struct cuts *cuts, struct error *err)
{
    struct json_walk walk;
    bool is_array = json_walk_begin(&walk, text, '[');
    int failed = is_array ? cut_array(text, cuts, err) : cut_lines(text, cuts, err);

    if (failed == 0 && cuts->count == 0 && !is_array) {
        failed = fail(err, FAULT_INPUT, "a batch is a JSON array, or one task a line");
    }
    return failed;
}

static void parse_one(const struct parse_options *options, const struct submission *form,
                      struct span text, struct parsed_task *task)
{
    struct submission *submission = &task->submission;

    *submission =
        (struct submission){.exchange = form->exchange, .arena = parse_arena_new(text.len)};
    if (submission->arena != NULL) {
        submission->queue = arena_copy(submission->arena, form->queue);
    }
    task->failed = submission->queue.at != NULL
                       ? parse_task(options, text, submission, &task->error)
                       : fail(&task->error, FAULT_MEMORY, "no memory for a task");
    if (task->failed != 0) {
        arena_free(submission->arena);
        submission->arena = NULL;
    }
}

int parse_batch(const struct parse_options *options, const struct submission *form,
                struct span text, struct parsed_batch **ret_batch, struct error *err)
{
    struct cuts *cuts = calloc(1, sizeof *cuts);
    struct parsed_batch *batch = NULL;
    int failed = cuts != NULL ? cut_tasks(text, cuts, err)
                              : fail(err, FAULT_MEMORY, "no memory for a batch");

    if (failed == 0) {
        batch = calloc(1, sizeof *batch + cuts->count * sizeof *batch->tasks);
        failed = batch != NULL ? 0 : fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    for (size_t i = 0; failed == 0 && i < cuts->count; i++) {
        parse_one(options, form, cuts->tasks[i], &batch->tasks[i]);
        batch->tasks[i].submission.index = (uint32_t)i;
        batch->count = i + 1;
    }
    free(cuts);
    if (failed == 0) {
        *ret_batch = batch;
    }
    return failed;
}

void parsed_batch_free(struct parsed_batch *batch)
{
    for (size_t i = 0; batch != NULL && i < batch->count; i++) {
        arena_free(batch->tasks[i].submission.arena);
    }
    free(batch);
}
