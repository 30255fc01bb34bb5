/* SPDX-License-Identifier: MIT
 *
 * store_json_render -- see store_json_internal.h. From what is in memory to the text of the file, or to
 * the size that a part of it has there.
 */
#include "store/store_json_internal.h"

#include <stdlib.h>

#define TASK_DEPTH 2 /* of the file: in the list, in the whole */

/* By name where a name is enough to find the queue again. */
static struct span queue_name(const struct store_memory *memory, uint32_t number)
{
    if (number == 0 || number > memory->rows.queue_count) {
        return SPAN("");
    }
    const struct queue_row *row = &memory->rows.queues[number - 1]->row;
    bool is_found = !row->dropped && text_is_plain(row->name);
    return is_found ? row->name : SPAN("");
}

/* The version as a record whose spans are the version's own; the trail, which hangs newest first, is
 * laid out in `trail`. */
static struct record record_of(const struct version *version, struct trail_row *trail)
{
    struct record record = {.task = version->task->task,
                            .life = version->life,
                            .trail = trail,
                            .trail_count = version->trail_count,
                            .is_bound = version->key_hash != 0 || version->task->task.key.len == 0};
    const struct kept_trail *line = version->trail;

    for (size_t i = version->trail_count; i > 0; i--, line = line->previous) {
        trail[i - 1] = line->row;
    }
    if (version->answer != NULL) {
        record.answer = version->answer->answer;
    }
    if (version->edit != NULL) {
        record.edit = version->edit->edit;
    }
    return record;
}

static struct trail_row *longest_trail(const struct store_memory *memory)
{
    size_t longest = 1;

    for (size_t i = 0; i < memory->rows.task_count; i++) {
        size_t count = memory->rows.tasks[i]->trail_count;
        longest = count > longest ? count : longest;
    }
    return calloc(longest, sizeof(struct trail_row));
}

/* The largest there ever was, with what the draft brings. */
int64_t render_last_row(const struct store_memory *memory)
{
    size_t count = memory->rows.task_count;
    int64_t last_row = count > 0 ? memory->rows.tasks[count - 1]->task->task.id.row : 0;

    return last_row > memory->base.last_row ? last_row : memory->base.last_row;
}

static void write_notes(struct page_out *out, const struct rows *rows)
{
    if (rows->memo_count > 0) {
        write_list_open(out, "memos");
    }
    for (size_t i = 0; i < rows->memo_count; i++) {
        write_memo(out, &rows->memos[i]->memo);
    }
    if (rows->audit_count > 0) {
        write_list_open(out, "audit");
    }
    for (size_t i = 0; i < rows->audit_count; i++) {
        write_audit(out, &rows->audits[i]->row);
    }
}

int render_file(const struct store_memory *memory, struct buf *text)
{
    const struct rows *rows = &memory->rows;
    struct file_head head = {.epoch = memory->base.epoch, .last_row = render_last_row(memory)};
    struct page_out out = {.buf = text};
    struct trail_row *trail = longest_trail(memory);

    if (trail == NULL) {
        return FAULT_MEMORY;
    }
    buf_clear(text);
    write_file_open(&out, &head);
    for (size_t i = 0; i < rows->queue_count; i++) {
        write_queue(&out, &rows->queues[i]->row);
    }
    write_list_open(&out, "tasks");
    for (size_t i = 0; i < rows->task_count && out.failed == 0; i++) {
        struct record record = record_of(rows->tasks[i], trail);
        write_task(&out, &record, queue_name(memory, record.task.queue));
    }
    write_notes(&out, rows);
    write_file_close(&out);
    free(trail);
    return out.failed;
}

int render_size(const struct store_memory *memory, const struct version *version,
                struct buf *scratch, size_t *ret_bytes)
{
    struct page_out out = {.buf = scratch, .depth = TASK_DEPTH, .has_before = true};
    struct trail_row *trail = NULL;

    if (version == NULL) {
        *ret_bytes = 0;
        return 0;
    }
    trail = calloc(version->trail_count + 1, sizeof *trail);
    if (trail == NULL) {
        return FAULT_MEMORY;
    }
    buf_clear(scratch);
    struct record record = record_of(version, trail);
    write_task(&out, &record, queue_name(memory, record.task.queue));
    free(trail);
    *ret_bytes = scratch->len;
    return out.failed;
}
