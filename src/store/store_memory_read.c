/* SPDX-License-Identifier: MIT
 *
 * store_memory_read -- the reads of the store in memory: copied under the lock, shown without it.
 */
#include "store/store_memory_internal.h"

#include "store/page.h"
#include "task/fields.h"

#include <stdlib.h>

#define BRIEFS_MAX 256 /* shown at a time */

int memory_is_out(struct error *err)
{
    return fail(err, FAULT_MEMORY, "the store in memory has no memory left");
}

int memory_copy_task(struct arena *arena, const struct task *task, unsigned wants,
                     struct task *ret_task)
{
    struct task copy = *task;
    struct span *spans[] = {&copy.scope,   &copy.key,    &copy.method,  &copy.target,
                            &copy.headers, &copy.labels, &copy.options, &copy.body};

    if ((wants & READ_BODIES) == 0) {
        copy.body.len = 0;
    }
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        *spans[i] = arena_copy(arena, *spans[i]);
        if (spans[i]->at == NULL) {
            return FAULT_MEMORY;
        }
    }
    *ret_task = copy;
    return 0;
}

int memory_copy_edit(struct arena *arena, const struct edit *edit, unsigned wants,
                     struct edit *ret_edit)
{
    struct span body = (wants & READ_BODIES) != 0 ? edit->body : (struct span){0};
    struct edit copy = {.parts = edit->parts,
                        .round = edit->round,
                        .target = arena_copy(arena, edit->target),
                        .headers = arena_copy(arena, edit->headers),
                        .body = arena_copy(arena, body),
                        .note = arena_copy(arena, edit->note)};

    if (copy.target.at == NULL || copy.headers.at == NULL || copy.body.at == NULL ||
        copy.note.at == NULL) {
        return FAULT_MEMORY;
    }
    *ret_edit = copy;
    return 0;
}

static int copy_answer(struct arena *arena, const struct answer *answer, unsigned wants,
                       struct answer *ret_answer)
{
    struct span body = (wants & READ_BODIES) != 0 ? answer->body : (struct span){0};

    *ret_answer = (struct answer){.status = answer->status,
                                  .headers = arena_copy(arena, answer->headers),
                                  .body = arena_copy(arena, body),
                                  .settled_by = arena_copy(arena, answer->settled_by)};
    bool is_whole = ret_answer->headers.at != NULL && ret_answer->body.at != NULL &&
                    ret_answer->settled_by.at != NULL;
    return is_whole ? 0 : FAULT_MEMORY;
}

/* All of it, or only the newest row. */
static int copy_trail(struct arena *arena, const struct version *version, unsigned wants,
                      struct record *ret_record)
{
    bool is_latest = (wants & READ_TRAIL) == 0 && version->trail_count > 0;
    size_t count = is_latest ? 1 : version->trail_count;
    struct trail_row *rows = arena_alloc(arena, count * sizeof *rows);

    if (rows == NULL) {
        return FAULT_MEMORY;
    }
    const struct kept_trail *line = version->trail;
    for (size_t i = count; i > 0; i--, line = line->previous) {
        rows[i - 1] = line->row;
        rows[i - 1].target = arena_copy(arena, line->row.target);
        rows[i - 1].message = arena_copy(arena, line->row.message);
        if (rows[i - 1].target.at == NULL || rows[i - 1].message.at == NULL) {
            return FAULT_MEMORY;
        }
    }
    ret_record->trail = rows;
    ret_record->trail_count = count;
    return 0;
}

static int copy_record(struct arena *arena, const struct version *version, unsigned wants,
                       struct record *ret_record)
{
    int failed = memory_copy_task(arena, &version->task->task, wants, &ret_record->task);

    ret_record->life = version->life;
    ret_record->is_bound = version->key_hash != 0;
    if (failed == 0 && version->answer != NULL) {
        failed = copy_answer(arena, &version->answer->answer, wants, &ret_record->answer);
    }
    if (failed == 0 && version->edit != NULL) {
        failed = memory_copy_edit(arena, &version->edit->edit, wants, &ret_record->edit);
    }
    if (failed == 0 && (wants & (READ_TRAIL | READ_LATEST)) != 0) {
        failed = copy_trail(arena, version, wants, ret_record);
    }
    return failed;
}

int memory_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                     struct record *ret_record, bool *ret_found, struct error *err)
{
    struct store_memory *memory = (struct store_memory *)store;
    struct record record = {0};

    pthread_mutex_lock(&memory->lock);
    const struct version *version = rows_find(&memory->rows, id);
    int failed = version != NULL ? copy_record(arena, version, wants, &record) : 0;
    pthread_mutex_unlock(&memory->lock);
    if (failed != 0) {
        return memory_is_out(err);
    }
    *ret_record = record;
    *ret_found = version != NULL;
    return 0;
}

/* With the lock held. */
static int fill_page(const struct store_memory *memory, const struct store_filter *filter,
                     struct page *page, int64_t *ret_next)
{
    const struct rows *rows = &memory->rows;
    size_t first = rows_place(rows, filter->after_row + 1), at = first;

    for (; at < rows->task_count && !page_is_full(page, filter); at++) {
        const struct version *version = rows->tasks[at];
        if (at - first == page_scan_max(filter->scan_max)) {
            break;
        }
        const struct task *task = &version->task->task;
        if (!page_wants(filter, task->queue, &version->life) ||
            !page_wants_key(filter, task->key, task->scope) ||
            (filter->label_name.len > 0 &&
             !fields_has(task->labels, filter->label_name, filter->label_value))) {
            continue;
        }
        struct record *record = page_add(page);
        if (record == NULL || copy_record(page->arena, version, filter->wants, record) != 0) {
            return FAULT_MEMORY;
        }
    }
    bool has_more = at < rows->task_count && at > first;
    *ret_next = has_more ? rows->tasks[at - 1]->task->task.id.row : 0;
    return 0;
}

int memory_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_memory *memory = (struct store_memory *)store;
    struct page page = page_begin(arena);
    int64_t next = 0;

    pthread_mutex_lock(&memory->lock);
    int failed = fill_page(memory, filter, &page, &next);
    pthread_mutex_unlock(&memory->lock);
    if (failed != 0) {
        return memory_is_out(err);
    }
    int stopped = page_show(&page, visit, user);
    if (stopped == 0) {
        *ret_next = next;
    }
    return stopped;
}

/* Which tasks a walk shows. */
struct walk {
    int64_t after_row;
    bool waiting_only;
    int64_t from_ms, until_ms;
};

static bool walk_wants(const struct walk *walk, const struct life *life)
{
    return !walk->waiting_only ||
           (life->state == TASK_WAITING && life->due_at_ms >= walk->from_ms &&
            life->due_at_ms < walk->until_ms);
}

static size_t gather(struct store_memory *memory, struct walk *walk,
                     struct brief ret_briefs[BRIEFS_MAX])
{
    size_t count = 0;

    pthread_mutex_lock(&memory->lock);
    size_t at = rows_place(&memory->rows, walk->after_row + 1);
    for (; at < memory->rows.task_count && count < BRIEFS_MAX; at++) {
        const struct version *version = memory->rows.tasks[at];
        const struct life *life = &version->life;
        walk->after_row = version->task->task.id.row;
        if (walk_wants(walk, life)) {
            ret_briefs[count++] = (struct brief){.row = walk->after_row,
                                                 .due_at_ms = life->due_at_ms,
                                                 .epoch = life->epoch,
                                                 .queue = version->task->task.queue,
                                                 .flags = life->flags,
                                                 .state = life->state,
                                                 .failed_at_ms = life->failed_at_ms};
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return count;
}

static int walk_all(struct store *store, struct walk walk, store_brief_fn visit, void *user)
{
    struct brief briefs[BRIEFS_MAX];
    size_t count;

    while ((count = gather((struct store_memory *)store, &walk, briefs)) > 0) {
        for (size_t i = 0; i < count; i++) {
            int stopped = visit(user, &briefs[i]);
            if (stopped != 0) {
                return stopped;
            }
        }
    }
    return 0;
}

int memory_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
               void *user, struct error *err)
{
    (void)err;
    return walk_all(store,
                    (struct walk){.waiting_only = true, .from_ms = from_ms, .until_ms = until_ms},
                    visit, user);
}

int memory_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    (void)err;
    return walk_all(store, (struct walk){0}, visit, user);
}

/* Copies: the row may be replaced while it is being looked at. */
static struct kept_queue *copy_queue(struct store_memory *memory, size_t at, bool *ret_found)
{
    struct kept_queue *copy = NULL;

    pthread_mutex_lock(&memory->lock);
    *ret_found = at < memory->rows.queue_count;
    if (*ret_found) {
        const struct queue_row *row = &memory->rows.queues[at]->row;
        copy = kept_queue_new(row, row->number);
    }
    pthread_mutex_unlock(&memory->lock);
    return copy;
}

int memory_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    bool found = true;

    for (size_t i = 0; found; i++) {
        struct kept_queue *queue = copy_queue((struct store_memory *)store, i, &found);
        if (found && queue == NULL) {
            return memory_is_out(err);
        }
        int stopped = found ? visit(user, &queue->row) : 0;
        free(queue);
        if (stopped != 0) {
            return stopped;
        }
    }
    return 0;
}

/* --- acts and memos ------------------------------------------------------------------------------ */

/* With the lock held: copies of what the page wants, and where it ended. */
static int gather_audits(const struct rows *rows, const struct audit_filter *filter,
                         struct arena *arena, struct audit_row *ret_rows, size_t *ret_count,
                         int64_t *ret_next)
{
    size_t count = 0, at = 0;

    for (; at < rows->audit_shown && count < filter->limit; at++) {
        if (page_wants_audit(filter, &rows->audits[at]->row) &&
            page_copy_audit(arena, &rows->audits[at]->row, &ret_rows[count++]) != 0) {
            return FAULT_MEMORY;
        }
    }
    *ret_count = count;
    *ret_next = at > 0 && at < rows->audit_shown ? rows->audits[at - 1]->row.number : 0;
    return 0;
}

int memory_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                 store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_memory *memory = (struct store_memory *)store;
    struct audit_row *rows = arena_alloc(arena, filter->limit * sizeof *rows);
    size_t count = 0;
    int64_t next = 0;

    if (rows == NULL) {
        return memory_is_out(err);
    }
    pthread_mutex_lock(&memory->lock);
    int failed = gather_audits(&memory->rows, filter, arena, rows, &count, &next);
    pthread_mutex_unlock(&memory->lock);
    if (failed != 0) {
        return memory_is_out(err);
    }
    for (size_t i = 0; i < count; i++) {
        int stopped = visit(user, &rows[i]);
        if (stopped != 0) {
            return stopped;
        }
    }
    *ret_next = next;
    return 0;
}

int memory_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    const struct store_memory *memory = (const struct store_memory *)store;

    (void)err;
    for (size_t i = 0; i < memory->rows.memo_count; i++) {
        int stopped = visit(user, &memory->rows.memos[i]->memo);
        if (stopped != 0) {
            return stopped;
        }
    }
    return 0;
}
