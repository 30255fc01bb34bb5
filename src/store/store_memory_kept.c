/* SPDX-License-Identifier: MIT
 *
 * store_memory_kept -- what the store in memory keeps, each as one allocation that owns its bytes:
 * the struct, and behind it all that its spans point at. See store_memory_internal.h.
 */
#include "store/store_memory_internal.h"

#include <stdlib.h>

/* Moves what `span` points at to `*to` and on. */
static void move_bytes(struct span *span, char **to)
{
    span_copy(*to, *span);
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

struct kept_edit *kept_edit_new(const struct edit *edit)
{
    struct kept_edit *kept = malloc(sizeof *kept + edit->target.len + edit->headers.len +
                                    edit->body.len + edit->note.len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->edit = *edit;
    move_bytes(&kept->edit.target, &to);
    move_bytes(&kept->edit.headers, &to);
    move_bytes(&kept->edit.body, &to);
    move_bytes(&kept->edit.note, &to);
    return kept;
}

struct kept_audit *kept_audit_new(const struct audit_row *row)
{
    struct kept_audit *kept =
        malloc(sizeof *kept + row->who.len + row->act.len + row->subject.len + row->note.len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->row = *row;
    move_bytes(&kept->row.who, &to);
    move_bytes(&kept->row.act, &to);
    move_bytes(&kept->row.subject, &to);
    move_bytes(&kept->row.note, &to);
    return kept;
}

struct kept_memo *kept_memo_new(const struct memo *memo)
{
    struct kept_memo *kept = malloc(sizeof *kept + memo->name.len + memo->value.len);

    if (kept == NULL) {
        return NULL;
    }
    char *to = (char *)(kept + 1);
    kept->memo = *memo;
    move_bytes(&kept->memo.name, &to);
    move_bytes(&kept->memo.value, &to);
    return kept;
}
