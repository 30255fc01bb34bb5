/* SPDX-License-Identifier: MIT
 *
 * draft -- see draft.h. Changes are made in place and remembered in memory->rows.changes and
 * memory->key_log, so both ways out are cheap and neither can fail.
 */
#include "store/draft.h"
#include "base/plant.h"

#include "store/rules.h"

#include <stdlib.h>

#define KEY_CHANGES_PER_OP 4 /* a record that takes over an expired key unbinds the old task */

/* --- recording ----------------------------------------------------------------------------------- */

static bool has_key_of(const struct version *version, const struct task *task)
{
    const struct task *other = &version->task->task;

    return other->queue == task->queue && span_equal(other->scope, task->scope) &&
           span_equal(other->key, task->key);
}

struct version *draft_find_key(const struct store_memory *memory, const struct task *task,
                               uint64_t hash)
{
    struct key_cursor cursor = {.hash = hash};
    int64_t row;

    while ((row = key_index_next(&memory->keys, &cursor)) != 0) {
        struct version *found = memory->rows.tasks[rows_place(&memory->rows, row)];
        if (has_key_of(found, task)) {
            return found;
        }
    }
    return NULL;
}

/* Its keeping time is over: the key goes to somebody else. */
static int unbind(struct store_memory *memory, struct version *bound, struct error *err)
{
    struct version *after = version_new(bound);

    if (after == NULL) {
        return memory_is_out(err);
    }
    after->key_hash = 0;
    key_log_remove(&memory->key_log, &memory->keys, bound->key_hash, bound->task->task.id.row);
    rows_put(&memory->rows, bound, after);
    return 0;
}

static int insert(struct store_memory *memory, const struct op *op, uint64_t hash,
                  struct error *err)
{
    struct version *version = version_new(&(struct version){.life = op->life, .key_hash = hash});
    struct kept_task *task = kept_task_new(&op->task);

    if (version == NULL || task == NULL ||
        (hash != 0 && key_log_add(&memory->key_log, &memory->keys, hash, op->task.id.row) != 0)) {
        free(version);
        free(task);
        return memory_is_out(err);
    }
    version->task = task;
    rows_put(&memory->rows, NULL, version);
    return 0;
}

/* Who it is and how it is, for the result. */
static void show_found(const struct version *version, struct staged *staged)
{
    staged->id = version->task->task.id;
    staged->task_queue = version->task->task.queue;
    staged->life = version->life;
    staged->was = version->life.state;
}

static bool is_dropped(const struct store_memory *memory, uint32_t number)
{
    PLANT(DROPPED_TAKES, return false)
    return number > 0 && number <= memory->rows.queue_count &&
           memory->rows.queues[number - 1]->row.dropped;
}

static int record(struct store_memory *memory, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct task *task = &op->task;
    size_t place = rows_place(&memory->rows, task->id.row);
    uint64_t hash =
        task->key.len > 0 ? key_index_hash(&memory->keys, task->queue, task->scope, task->key) : 0;
    struct version *bound = hash != 0 ? draft_find_key(memory, task, hash) : NULL;

    if (is_dropped(memory, task->queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    if (bound != NULL) {
        staged->result = rules_key(op, &bound->task->task, &bound->life, &memory->keep);
        if (staged->result != RESULT_NONE) {
            show_found(bound, staged);
            return 0;
        }
    }
    if (place < memory->rows.task_count &&
        memory->rows.tasks[place]->task->task.id.row == task->id.row) {
        return fail(err, FAULT_INPUT, "row %lld is taken", (long long)task->id.row);
    }
    int failed = bound != NULL ? unbind(memory, bound, err) : 0;
    staged->result = RESULT_DONE;
    return failed != 0 ? failed : insert(memory, op, hash, err);
}

static int find(const struct store_memory *memory, const struct op *op, struct staged *staged)
{
    const struct task *task = &op->task;
    uint64_t hash = key_index_hash(&memory->keys, task->queue, task->scope, task->key);
    const struct version *bound = draft_find_key(memory, task, hash);

    staged->result = bound != NULL ? RESULT_DUPLICATE : RESULT_MISSING;
    if (bound != NULL) {
        show_found(bound, staged);
    }
    return 0;
}

/* --- changing ------------------------------------------------------------------------------------ */

static int add_trail(const struct op *op, struct version *after)
{
    for (size_t i = 0; i < op->trail_count; i++) {
        struct kept_trail *trail = kept_trail_new(&op->trail[i], after->trail);
        if (trail == NULL) {
            return FAULT_MEMORY;
        }
        after->trail = trail;
        after->trail_count++;
    }
    return 0;
}

/* What an operation leaves behind beside the life. */
static int add_outcome(const struct op *op, struct version *after)
{
    bool has_answer = rules_brings_outcome(op->kind) && op->answer != NULL;
    bool has_edit = rules_brings_edit(op->kind) && op->edit != NULL;

    if (has_answer) {
        after->answer = kept_answer_new(op->answer);
    }
    if (has_edit) {
        after->edit = kept_edit_new(op->edit);
    }
    if ((has_answer && after->answer == NULL) || (has_edit && after->edit == NULL)) {
        return FAULT_MEMORY;
    }
    return rules_brings_outcome(op->kind) ? add_trail(op, after) : 0;
}

static void purge(struct store_memory *memory, struct version *before)
{
    if (before->key_hash != 0) {
        key_log_remove(&memory->key_log, &memory->keys, before->key_hash,
                       before->task->task.id.row);
    }
    rows_put(&memory->rows, before, NULL);
}

/* All but the key. */
static int bury(struct version *after)
{
    struct task key = after->task->task;

    key.method = key.target = key.headers = key.labels = key.options = key.body = SPAN("");
    after->task = kept_task_new(&key);
    after->answer = NULL;
    after->edit = NULL;
    after->trail = NULL;
    after->trail_count = 0;
    return after->task != NULL ? 0 : FAULT_MEMORY;
}

/* For a lease that wants to send it. */
static int show_request(const struct op *op, const struct version *version, struct staged *staged)
{
    int failed = memory_copy_task(op->arena, &version->task->task, READ_BODIES, &staged->task);

    if (failed == 0 && version->edit != NULL) {
        failed = memory_copy_edit(op->arena, &version->edit->edit, READ_BODIES, &staged->edit);
    }
    return failed;
}

static int change(struct store_memory *memory, const struct op *op, struct staged *staged,
                  struct error *err)
{
    struct version *before = rows_find(&memory->rows, op->task.id);

    if (before == NULL) {
        staged->result = RESULT_MISSING;
        return 0;
    }
    show_found(before, staged);
    if (op->kind == OP_REDRIVE && is_dropped(memory, staged->task_queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    staged->result = rules_apply(op, &staged->life);
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    if (op->kind == OP_PURGE) {
        purge(memory, before);
        return 0;
    }
    struct version *after = version_new(before);
    if (after == NULL) {
        return memory_is_out(err);
    }
    after->life = staged->life;
    if (op->kind == OP_SETTLE && op->releases_key && before->key_hash != 0) {
        key_log_remove(&memory->key_log, &memory->keys, before->key_hash, staged->id.row);
        after->key_hash = 0;
    }
    int failed = op->kind == OP_BURY ? bury(after) : add_outcome(op, after);
    if (failed == 0 && op->kind == OP_LEASE && op->wants_request) {
        failed = show_request(op, before, staged);
    }
    if (failed != 0) {
        version_free(after, before);
        return memory_is_out(err);
    }
    rows_put(&memory->rows, before, after);
    return 0;
}

/* --- queues -------------------------------------------------------------------------------------- */

uint32_t draft_find_queue(const struct store_memory *memory, struct span name)
{
    for (size_t i = 0; i < memory->rows.queue_count; i++) {
        const struct queue_row *row = &memory->rows.queues[i]->row;
        if (!row->dropped && span_equal(row->name, name)) {
            return row->number;
        }
    }
    return 0;
}

static bool has_open(const struct store_memory *memory, uint32_t number)
{
    for (size_t i = 0; i < memory->rows.task_count; i++) {
        const struct version *version = memory->rows.tasks[i];
        if (version->task->task.queue == number && rules_is_open(version->life.state)) {
            return true;
        }
    }
    return false;
}

static enum queue_found look_at_queue(const struct store_memory *memory, const struct op *op)
{
    uint32_t number = op->queue.number;

    if (number > memory->rows.queue_count) {
        return QUEUE_FOUND_NONE;
    }
    if (is_dropped(memory, number)) {
        return QUEUE_FOUND_DROPPED;
    }
    return rules_asks_if_open(op) && has_open(memory, number) ? QUEUE_FOUND_OPEN : QUEUE_FOUND;
}

static int write_queue(struct store_memory *memory, const struct op *op, struct staged *staged,
                       struct error *err)
{
    uint32_t number = op->queue.number;

    staged->queue = number;
    staged->result = number == 0 ? RESULT_DONE : rules_queue(op, look_at_queue(memory, op));
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    if (number == 0) {
        number = draft_find_queue(memory, op->queue.name);
    }
    if (number == 0) {
        number = (uint32_t)memory->rows.queue_count + 1;
    }
    struct queue_row row = op->queue;
    const struct queue_row *found =
        number <= memory->rows.queue_count ? &memory->rows.queues[number - 1]->row : &row;
    unsigned keeps = PLANT_HERE(CHANGE_WHOLE) ? 0 : op->keeps;
    row.paused = (keeps & QUEUE_KEEPS_PAUSED) != 0 ? found->paused : row.paused;
    row.settings = (keeps & QUEUE_KEEPS_SETTINGS) != 0 ? found->settings : row.settings;
    row.version = found == &row ? 0 : found->version + 1;
    struct kept_queue *queue = kept_queue_new(&row, number);
    if (queue == NULL) {
        return memory_is_out(err);
    }
    rows_put_queue(&memory->rows, queue);
    staged->queue = number;
    staged->is_paused = row.paused;
    staged->version = row.version;
    return 0;
}

/* --- imports, memos, acts ------------------------------------------------------------------------ */

static int import(struct store_memory *memory, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct task *task = &op->task;
    const struct task_id id = {.row = task->id.row, .tail = ID_ANY_TAIL};
    bool binds = task->key.len > 0 && !op->releases_key;
    uint64_t hash = binds ? key_index_hash(&memory->keys, task->queue, task->scope, task->key) : 0;
    struct version *same = rows_find(&memory->rows, id);
    struct version *rival = same == NULL && binds ? draft_find_key(memory, task, hash) : same;

    if (is_dropped(memory, task->queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    if (rival != NULL) {
        staged->result = same != NULL ? RESULT_DUPLICATE : RESULT_CONFLICT;
        show_found(rival, staged);
        return 0;
    }
    int failed = insert(memory, op, hash, err);
    if (failed == 0) {
        struct version *version = rows_find(&memory->rows, id);
        version->life.flags |= op->edit != NULL ? LIFE_EDITED : 0;
        failed = add_outcome(op, version) != 0 ? memory_is_out(err) : 0;
    }
    staged->result = RESULT_DONE;
    return failed;
}

static int write_memo(struct store_memory *memory, const struct op *op, struct staged *staged,
                      struct error *err)
{
    const struct memo_condition *only = op->only_while;
    struct kept_memo *memo = NULL;

    staged->result =
        rules_memo(op, only != NULL ? rows_find_memo(&memory->rows, only->name) : SPAN(""));
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    if (op->memo.value.len > 0 && (memo = kept_memo_new(&op->memo)) == NULL) {
        return memory_is_out(err);
    }
    rows_put_memo(&memory->rows, op->memo.name, memo);
    if (only != NULL && only->is_forgotten) {
        rows_put_memo(&memory->rows, only->name, NULL);
    }
    return 0;
}

/* Of a task: what it was and what it is. */
static int add_audit(struct store_memory *memory, const struct op *op, const struct staged *staged,
                     struct error *err)
{
    struct kept_audit *audit = kept_audit_new(op->audit);

    if (audit == NULL) {
        return memory_is_out(err);
    }
    if (staged->id.row != 0) {
        audit->row.task = staged->id;
        audit->row.from_state = (int)staged->was;
        audit->row.to_state = op->kind == OP_PURGE ? -1 : (int)staged->life.state;
    }
    rows_add_audit(&memory->rows, audit);
    return 0;
}

/* --- the draft ----------------------------------------------------------------------------------- */

static int apply_kind(struct store_memory *memory, const struct op *op, struct staged *staged,
                      struct error *err)
{
    switch (op->kind) {
    case OP_RECORD:
        return record(memory, op, staged, err);
    case OP_QUEUE:
        return write_queue(memory, op, staged, err);
    case OP_IMPORT:
        return import(memory, op, staged, err);
    case OP_MEMO:
        return write_memo(memory, op, staged, err);
    case OP_FIND:
        return find(memory, op, staged);
    case OP_LEASE:
    case OP_SETTLE:
    case OP_CANCEL:
    case OP_RUN:
    case OP_PURGE:
    case OP_EXTEND:
    case OP_EXPIRE:
    case OP_REDRIVE:
    case OP_RESOLVE:
    case OP_BURY:
    case OP_REVISE:
    default:
        return change(memory, op, staged, err);
    }
}

static int apply_one(struct store_memory *memory, const struct op *op, size_t index,
                     struct error *err)
{
    struct staged *staged = stage_at(&memory->stage, index);
    int failed = apply_kind(memory, op, staged, err);

    if (failed == 0 && staged->result == RESULT_DONE && op->audit != NULL) {
        failed = add_audit(memory, op, staged, err);
    }
    if (failed == 0 && staged->result == RESULT_DONE && op->spawn != NULL) {
        failed = record(memory, op->spawn, stage_spawn(&memory->stage, index), err);
    }
    return failed;
}

int draft_begin(struct store_memory *memory, struct op *ops[], size_t count, struct error *err)
{
    if (rows_begin(&memory->rows, count) != 0 || stage_begin(&memory->stage, count) != 0 ||
        key_log_begin(&memory->key_log, count * KEY_CHANGES_PER_OP) != 0) {
        return memory_is_out(err);
    }
    for (size_t i = 0; i < count; i++) {
        int failed = apply_one(memory, ops[i], i, err);
        if (failed != 0) {
            draft_drop(memory);
            return failed;
        }
    }
    return 0;
}

void draft_keep(struct store_memory *memory)
{
    rows_commit(&memory->rows);
}

void draft_drop(struct store_memory *memory)
{
    rows_undo(&memory->rows);
    key_log_undo(&memory->key_log, &memory->keys);
}

/* --- hiding -------------------------------------------------------------------------------------- */

static void swap_task(struct rows *rows, const struct version *out, struct version *in)
{
    int64_t row = (out != NULL ? out : in)->task->task.id.row;
    struct version **at = rows->tasks + rows_place(rows, row);
    size_t bytes_behind = (size_t)(rows->tasks + rows->task_count - at) * sizeof *at;

    if (out == NULL) {
        memmove(at + 1, at, bytes_behind);
        rows->task_count++;
        *at = in;
    } else if (in == NULL) {
        memmove(at, at + 1, bytes_behind - sizeof *at);
        rows->task_count--;
    } else {
        *at = in;
    }
}

static void swap_queue(struct rows *rows, const struct kept_queue *out, struct kept_queue *in)
{
    if (out == NULL) {
        rows->queues[rows->queue_count++] = in;
    } else if (in == NULL) {
        rows->queue_count--;
    } else {
        rows->queues[out->row.number - 1] = in;
    }
}

void draft_hide(struct store_memory *memory)
{
    struct rows *rows = &memory->rows;

    for (size_t i = rows->change_count; i > 0; i--) {
        struct change *made = &rows->changes[i - 1];
        if (made->queue_after != NULL) {
            swap_queue(rows, made->queue_after, made->queue_before);
        } else if (made->before != NULL || made->after != NULL) { /* memos are read at start only */
            swap_task(rows, made->after, made->before);
        }
    }
}

void draft_show(struct store_memory *memory)
{
    struct rows *rows = &memory->rows;

    for (size_t i = 0; i < rows->change_count; i++) {
        struct change *made = &rows->changes[i];
        if (made->queue_after != NULL) {
            swap_queue(rows, made->queue_before, made->queue_after);
        } else if (made->before != NULL || made->after != NULL) {
            swap_task(rows, made->before, made->after);
        }
    }
}
