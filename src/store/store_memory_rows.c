/* SPDX-License-Identifier: MIT
 *
 * store_memory_rows -- see store_memory_internal.h.
 */
#include "store/store_memory_internal.h"

#include <assert.h>
#include <stdlib.h>

/* A record that takes over an expired key unbinds the old task; a settle may spawn a record, which
 * may do the same. */
#define CHANGES_PER_OP 4
#define AUDITS_PER_OP  1

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
    if (other == NULL || other->edit != version->edit) {
        free(version->edit);
    }
    if (other == NULL || other->task != version->task) {
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
    void *tasks = with_room(rows->tasks, &rows->task_room, rows->task_count + op_count * 2,
                            sizeof *rows->tasks);
    rows->tasks = tasks != NULL ? tasks : rows->tasks;
    void *queues = with_room(rows->queues, &rows->queue_room, rows->queue_count + op_count,
                             sizeof *rows->queues);
    rows->queues = queues != NULL ? queues : rows->queues;
    void *changes = with_room(rows->changes, &rows->change_room, op_count * CHANGES_PER_OP,
                              sizeof *rows->changes);
    rows->changes = changes != NULL ? changes : rows->changes;
    void *audits = with_room(rows->audits, &rows->audit_room,
                             rows->audit_count + op_count * AUDITS_PER_OP, sizeof *rows->audits);
    rows->audits = audits != NULL ? audits : rows->audits;
    void *memos =
        with_room(rows->memos, &rows->memo_room, rows->memo_count + op_count, sizeof *rows->memos);
    rows->memos = memos != NULL ? memos : rows->memos;
    rows->change_count = 0;
    bool has_room = tasks != NULL && queues != NULL && changes != NULL && audits != NULL;
    return has_room && memos != NULL ? 0 : FAULT_MEMORY;
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

/* --- acts and memos ------------------------------------------------------------------------------ */

void rows_add_audit(struct rows *rows, struct kept_audit *audit)
{
    assert(rows->audit_count < rows->audit_room);
    audit->row.number = rows->audit_last + 1 + (int64_t)(rows->audit_count - rows->audit_shown);
    rows->audits[rows->audit_count++] = audit;
}

/* The batch's acts are committed: they are shown, and the oldest go. */
static void show_audits(struct rows *rows)
{
    rows->audit_last += (int64_t)(rows->audit_count - rows->audit_shown);
    if (rows->audit_count > STORE_AUDIT_KEPT_FEW) {
        size_t spare = rows->audit_count - STORE_AUDIT_KEPT_FEW;
        for (size_t i = 0; i < spare; i++) {
            free(rows->audits[i]);
        }
        memmove(rows->audits, rows->audits + spare, STORE_AUDIT_KEPT_FEW * sizeof *rows->audits);
        rows->audit_count = STORE_AUDIT_KEPT_FEW;
    }
    rows->audit_shown = rows->audit_count;
}

static void drop_audits(struct rows *rows)
{
    while (rows->audit_count > rows->audit_shown) {
        free(rows->audits[--rows->audit_count]);
    }
}

static void swap_memo(struct rows *rows, const struct kept_memo *before, struct kept_memo *after)
{
    size_t at = 0;

    if (before == NULL) {
        rows->memos[rows->memo_count++] = after;
        return;
    }
    while (rows->memos[at] != before) {
        at++;
    }
    if (after == NULL) {
        rows->memos[at] = rows->memos[--rows->memo_count];
    } else {
        rows->memos[at] = after;
    }
}

static struct kept_memo *find_memo(const struct rows *rows, struct span name)
{
    for (size_t i = 0; i < rows->memo_count; i++) {
        if (span_equal(rows->memos[i]->memo.name, name)) {
            return rows->memos[i];
        }
    }
    return NULL;
}

struct span rows_find_memo(const struct rows *rows, struct span name)
{
    const struct kept_memo *memo = find_memo(rows, name);

    return memo != NULL ? memo->memo.value : SPAN("");
}

void rows_put_memo(struct rows *rows, struct span name, struct kept_memo *memo)
{
    struct kept_memo *before = find_memo(rows, name);

    if (before == NULL && memo == NULL) {
        return;
    }
    assert(rows->change_count < rows->change_room);
    swap_memo(rows, before, memo);
    rows->changes[rows->change_count++] =
        (struct change){.memo_before = before, .memo_after = memo};
}

void rows_commit(struct rows *rows)
{
    for (size_t i = 0; i < rows->change_count; i++) {
        version_free(rows->changes[i].before, rows->changes[i].after);
        free(rows->changes[i].queue_before);
        free(rows->changes[i].memo_before);
    }
    rows->change_count = 0;
    show_audits(rows);
}

void rows_undo(struct rows *rows)
{
    while (rows->change_count > 0) {
        struct change *change = &rows->changes[--rows->change_count];
        if (change->queue_after != NULL) {
            swap_queue(rows, change->queue_after, change->queue_before);
            free(change->queue_after);
        } else if (change->memo_before != NULL || change->memo_after != NULL) {
            swap_memo(rows, change->memo_after, change->memo_before);
            free(change->memo_after);
        } else {
            swap(rows, change->after, change->before);
            version_free(change->after, change->before);
        }
    }
    drop_audits(rows);
}

void rows_done(struct rows *rows)
{
    for (size_t i = 0; i < rows->task_count; i++) {
        version_free(rows->tasks[i], NULL);
    }
    for (size_t i = 0; i < rows->queue_count; i++) {
        free(rows->queues[i]);
    }
    for (size_t i = 0; i < rows->audit_count; i++) {
        free(rows->audits[i]);
    }
    for (size_t i = 0; i < rows->memo_count; i++) {
        free(rows->memos[i]);
    }
    free(rows->audits);
    free(rows->memos);
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
    copy->edit = version->edit != NULL ? kept_edit_new(&version->edit->edit) : NULL;
    bool is_short = copy->task == NULL || (version->answer != NULL && copy->answer == NULL) ||
                    (version->edit != NULL && copy->edit == NULL);
    if (is_short || copy_trail(version, copy) != 0) {
        version_free(copy, NULL);
        return NULL;
    }
    return copy;
}

/* Acts and memos. */
static int copy_notes(const struct rows *rows, struct rows *copy)
{
    for (size_t i = 0; i < rows->audit_shown; i++) {
        struct kept_audit *audit = kept_audit_new(&rows->audits[i]->row);
        if (audit == NULL) {
            return FAULT_MEMORY;
        }
        copy->audits[copy->audit_count++] = audit;
        copy->audit_shown++;
    }
    copy->audit_last = rows->audit_last;
    for (size_t i = 0; i < rows->memo_count; i++) {
        struct kept_memo *memo = kept_memo_new(&rows->memos[i]->memo);
        if (memo == NULL) {
            return FAULT_MEMORY;
        }
        copy->memos[copy->memo_count++] = memo;
    }
    return 0;
}

int rows_copy(const struct rows *rows, struct rows *ret_copy)
{
    struct rows copy = {0};
    size_t most = rows->task_count + rows->queue_count + rows->audit_count + rows->memo_count;
    int failed = rows_begin(&copy, most + 1); /* never nothing */

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
    failed = failed != 0 ? failed : copy_notes(rows, &copy);
    if (failed != 0) {
        rows_done(&copy);
        return failed;
    }
    *ret_copy = copy;
    return 0;
}
