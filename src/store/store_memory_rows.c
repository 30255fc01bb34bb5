/* SPDX-License-Identifier: MIT
 *
 * store_memory_rows -- see store_memory_internal.h.
 */
#include "store/store_memory_internal.h"

#include <assert.h>
#include <stdlib.h>

#define CHANGES_PER_OP 2 /* a record that takes over an expired key unbinds the old task */

/* --- copies ---------------------------------------------------------------------------------- */

/* Moves what `span` points at to `*to` and on. */
static void move_bytes(struct span *span, char **to)
{
    if (span->len > 0) {
        memcpy(*to, span->at, span->len);
    }
    span->at = *to;
    *to += span->len;
}

struct kept_task *kept_task_new(const struct task *task)
{
    size_t len = task->scope.len + task->key.len + task->method.len + task->target.len +
                 task->headers.len + task->labels.len + task->options.len + task->body.len;
    struct kept_task *kept = malloc(sizeof *kept + len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->task = *task;
    move_bytes(&kept->task.scope, &to);
    move_bytes(&kept->task.key, &to);
    move_bytes(&kept->task.method, &to);
    move_bytes(&kept->task.target, &to);
    move_bytes(&kept->task.headers, &to);
    move_bytes(&kept->task.labels, &to);
    move_bytes(&kept->task.options, &to);
    move_bytes(&kept->task.body, &to);
    return kept;
}

struct kept_answer *kept_answer_new(const struct answer *answer)
{
    size_t len = answer->headers.len + answer->body.len + answer->settled_by.len;
    struct kept_answer *kept = malloc(sizeof *kept + len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->answer = *answer;
    move_bytes(&kept->answer.headers, &to);
    move_bytes(&kept->answer.body, &to);
    move_bytes(&kept->answer.settled_by, &to);
    return kept;
}

struct kept_trail *kept_trail_new(const struct trail_row *row, struct kept_trail *previous)
{
    struct kept_trail *kept = malloc(sizeof *kept + row->target.len + row->message.len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    *kept = (struct kept_trail){.previous = previous, .row = *row};
    move_bytes(&kept->row.target, &to);
    move_bytes(&kept->row.message, &to);
    return kept;
}

struct kept_queue *kept_queue_new(const struct queue_row *row, uint32_t number)
{
    struct kept_queue *kept = malloc(sizeof *kept + row->name.len + row->settings.len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->row = *row;
    kept->row.number = number;
    move_bytes(&kept->row.name, &to);
    move_bytes(&kept->row.settings, &to);
    return kept;
}

struct version *version_new(const struct version *like)
{
    struct version *version = malloc(sizeof *version);

    if (version != NULL) {
        *version = *like;
    }
    return version;
}

void version_free(struct version *version, const struct version *other)
{
    size_t shared = other != NULL ? other->trail_count : 0;

    if (version == NULL) {
        return;
    }
    while (version->trail_count > shared) {
        struct kept_trail *newest = version->trail;
        version->trail = newest->previous;
        version->trail_count--;
        free(newest);
    }
    if (other == NULL || other->answer != version->answer) {
        free(version->answer);
    }
    if (other == NULL) {
        free(version->task);
    }
    free(version);
}

/* --- places ---------------------------------------------------------------------------------- */

size_t rows_place(const struct rows *rows, int64_t row)
{
    size_t low = 0, high = rows->task_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rows->tasks[middle]->task->task.id.row < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct version *rows_find(const struct rows *rows, struct task_id id)
{
    size_t place = rows_place(rows, id.row);

    if (place == rows->task_count) {
        return NULL;
    }
    struct version *found = rows->tasks[place];
    struct task_id found_id = found->task->task.id;
    return id_matches(id, found_id) ? found : NULL;
}

/* Gives an array of `size`-byte members room for `wanted`; NULL when it cannot. */
static void *with_room(void *array, size_t *room, size_t wanted, size_t size)
{
    if (wanted <= *room) {
        return array;
    }
    size_t larger = wanted > *room * 2 ? wanted : *room * 2;
    void *moved = realloc(array, larger * size);
    if (moved != NULL) {
        *room = larger;
    }
    return moved;
}

int rows_begin(struct rows *rows, size_t op_count)
{
    void *tasks =
        with_room(rows->tasks, &rows->task_room, rows->task_count + op_count, sizeof *rows->tasks);
    rows->tasks = tasks != NULL ? tasks : rows->tasks;
    void *queues = with_room(rows->queues, &rows->queue_room, rows->queue_count + op_count,
                             sizeof *rows->queues);
    rows->queues = queues != NULL ? queues : rows->queues;
    void *changes = with_room(rows->changes, &rows->change_room, op_count * CHANGES_PER_OP,
                              sizeof *rows->changes);
    rows->changes = changes != NULL ? changes : rows->changes;
    rows->change_count = 0;
    return tasks != NULL && queues != NULL && changes != NULL ? 0 : FAULT_MEMORY;
}

/* --- changes --------------------------------------------------------------------------------- */

static void swap(struct rows *rows, const struct version *before, struct version *after)
{
    int64_t row = (before != NULL ? before : after)->task->task.id.row;
    size_t place = rows_place(rows, row);
    struct version **at = rows->tasks + place;
    size_t bytes_behind = (rows->task_count - place) * sizeof *at;

    if (before == NULL) {
        memmove(at + 1, at, bytes_behind);
        *at = after;
        rows->task_count++;
    } else if (after == NULL) {
        memmove(at, at + 1, bytes_behind - sizeof *at);
        rows->task_count--;
    } else {
        *at = after;
    }
}

void rows_put(struct rows *rows, struct version *before, struct version *after)
{
    assert(rows->change_count < rows->change_room);
    swap(rows, before, after);
    rows->changes[rows->change_count++] = (struct change){.before = before, .after = after};
}

static void swap_queue(struct rows *rows, const struct kept_queue *before, struct kept_queue *after)
{
    if (before == NULL) {
        rows->queues[rows->queue_count++] = after;
    } else if (after == NULL) {
        rows->queue_count--;
    } else {
        rows->queues[after->row.number - 1] = after;
    }
}

void rows_put_queue(struct rows *rows, struct kept_queue *queue)
{
    size_t place = queue->row.number - 1;
    struct kept_queue *before = place < rows->queue_count ? rows->queues[place] : NULL;

    assert(rows->change_count < rows->change_room);
    swap_queue(rows, before, queue);
    rows->changes[rows->change_count++] =
        (struct change){.queue_before = before, .queue_after = queue};
}

void rows_commit(struct rows *rows)
{
    for (size_t i = 0; i < rows->change_count; i++) {
        version_free(rows->changes[i].before, rows->changes[i].after);
        free(rows->changes[i].queue_before);
    }
    rows->change_count = 0;
}

void rows_undo(struct rows *rows)
{
    while (rows->change_count > 0) {
        struct change *change = &rows->changes[--rows->change_count];
        if (change->queue_after != NULL) {
            swap_queue(rows, change->queue_after, change->queue_before);
            free(change->queue_after);
        } else {
            swap(rows, change->after, change->before);
            version_free(change->after, change->before);
        }
    }
}

void rows_done(struct rows *rows)
{
    for (size_t i = 0; i < rows->task_count; i++) {
        version_free(rows->tasks[i], NULL);
    }
    for (size_t i = 0; i < rows->queue_count; i++) {
        free(rows->queues[i]);
    }
    free(rows->tasks);
    free(rows->queues);
    free(rows->changes);
    *rows = (struct rows){0};
}

/* --- a copy of everything -------------------------------------------------------------------- */

/* The copy of a trail, oldest first, into `copy`. */
static int copy_trail(const struct version *version, struct version *copy)
{
    for (size_t n = version->trail_count; n > 0; n--) {
        const struct kept_trail *line = version->trail;
        for (size_t i = 1; i < n; i++) {
            line = line->previous;
        }
        struct kept_trail *kept = kept_trail_new(&line->row, copy->trail);
        if (kept == NULL) {
            return FAULT_MEMORY;
        }
        copy->trail = kept;
        copy->trail_count++;
    }
    return 0;
}

static struct version *copy_version(const struct version *version)
{
    struct version *copy = calloc(1, sizeof *copy);

    if (copy == NULL) {
        return NULL;
    }
    copy->life = version->life;
    copy->key_hash = version->key_hash;
    copy->task = kept_task_new(&version->task->task);
    copy->answer = version->answer != NULL ? kept_answer_new(&version->answer->answer) : NULL;
    bool is_short = copy->task == NULL || (version->answer != NULL && copy->answer == NULL);
    if (is_short || copy_trail(version, copy) != 0) {
        version_free(copy, NULL);
        return NULL;
    }
    return copy;
}

int rows_copy(const struct rows *rows, struct rows *ret_copy)
{
    struct rows copy = {0};
    int failed = rows_begin(&copy, rows->task_count + rows->queue_count + 1); /* never nothing */

    for (size_t i = 0; i < rows->task_count && failed == 0; i++) {
        struct version *version = copy_version(rows->tasks[i]);
        if (version != NULL) {
            copy.tasks[copy.task_count++] = version;
        }
        failed = version != NULL ? 0 : FAULT_MEMORY;
    }
    for (size_t i = 0; i < rows->queue_count && failed == 0; i++) {
        const struct queue_row *row = &rows->queues[i]->row;
        struct kept_queue *queue = kept_queue_new(row, row->number);
        if (queue != NULL) {
            copy.queues[copy.queue_count++] = queue;
        }
        failed = queue != NULL ? 0 : FAULT_MEMORY;
    }
    if (failed != 0) {
        rows_done(&copy);
        return failed;
    }
    *ret_copy = copy;
    return 0;
}
