/* SPDX-License-Identifier: MIT
 *
 * import_copy -- see import_copy.h.
 */
#include "store/import_copy.h"

#include "store/store_json_internal.h"

static int check_part(const char *name, struct span part, struct error *err)
{
    return part.len <= TASK_PART_BYTES_MAX
               ? 0
               : fail(err, FAULT_CORRUPT, "its \"%s\" has %zu bytes, the limit is %d", name,
                      part.len, TASK_PART_BYTES_MAX);
}

int import_check_task(const struct record *record, struct error *err)
{
    const struct task *task = &record->task;
    const struct {
        const char *name;
        struct span part;
    } parts[] = {
        {"scope", task->scope},
        {"key", task->key},
        {"method", task->method},
        {"target", task->target},
        {"headers", task->headers},
        {"labels", task->labels},
        {"options", task->options},
        {"answer.headers", record->answer.headers},
        {"answer.settled_by", record->answer.settled_by},
        {"edit.target", record->edit.target},
        {"edit.headers", record->edit.headers},
        {"edit.note", record->edit.note},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts && failed == 0; i++) {
        failed = check_part(parts[i].name, parts[i].part, err);
    }
    for (size_t i = 0; i < record->trail_count && failed == 0; i++) {
        failed = check_part("trail.target", record->trail[i].target, err);
        failed = failed != 0 ? failed : check_part("trail.message", record->trail[i].message, err);
    }
    return failed;
}

static bool copy_span(struct arena *arena, struct span *span)
{
    *span = arena_copy(arena, *span);
    return span->at != NULL;
}

static bool copy_task(struct arena *arena, struct task *task)
{
    struct span *spans[] = {&task->scope,   &task->key,    &task->method,  &task->target,
                            &task->headers, &task->labels, &task->options, &task->body};
    bool is_copied = true;

    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        is_copied = is_copied && copy_span(arena, spans[i]);
    }
    return is_copied;
}

static bool copy_trail(struct arena *arena, const struct record *record, struct op *op)
{
    struct trail_row *rows = arena_alloc(arena, (record->trail_count + 1) * sizeof *rows);
    bool is_copied = rows != NULL;

    for (size_t i = 0; i < record->trail_count && is_copied; i++) {
        rows[i] = record->trail[i];
        is_copied = copy_span(arena, &rows[i].target) && copy_span(arena, &rows[i].message);
    }
    op->trail = rows;
    op->trail_count = record->trail_count;
    return is_copied;
}

static bool has_answer(const struct answer *answer)
{
    return answer->status != 0 || answer->headers.len > 0 || answer->body.len > 0 ||
           answer->settled_by.len > 0;
}

/* Answer and edit, where there is one. */
static bool copy_rest(struct arena *arena, const struct record *record, struct op *op)
{
    struct answer *answer = arena_alloc(arena, sizeof *answer);
    struct edit *edit = arena_alloc(arena, sizeof *edit);
    bool is_copied = answer != NULL && edit != NULL;

    if (is_copied && has_answer(&record->answer)) {
        *answer = record->answer;
        is_copied = copy_span(arena, &answer->headers) && copy_span(arena, &answer->body) &&
                    copy_span(arena, &answer->settled_by);
        op->answer = answer;
    }
    if (is_copied && member_has_edit(&record->edit)) {
        *edit = record->edit;
        is_copied = copy_span(arena, &edit->target) && copy_span(arena, &edit->headers) &&
                    copy_span(arena, &edit->body) && copy_span(arena, &edit->note);
        op->edit = edit;
    }
    return is_copied;
}

bool import_copy_task(struct arena *arena, const struct record *record, struct op *ret_op)
{
    *ret_op = (struct op){.kind = OP_IMPORT,
                          .task = record->task,
                          .life = record->life,
                          .releases_key = !record->is_bound};
    return copy_task(arena, &ret_op->task) && copy_trail(arena, record, ret_op) &&
           copy_rest(arena, record, ret_op);
}

bool import_copy_act(struct arena *arena, const struct audit_row *row, struct op *ret_op)
{
    struct audit_row *copy = arena_alloc(arena, sizeof *copy);

    if (copy == NULL) {
        return false;
    }
    *copy = *row;
    *ret_op = (struct op){.kind = OP_MEMO, .audit = copy};
    return copy_span(arena, &copy->who) && copy_span(arena, &copy->act) &&
           copy_span(arena, &copy->subject) && copy_span(arena, &copy->note);
}
