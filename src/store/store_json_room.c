/* SPDX-License-Identifier: MIT
 *
 * store_json_room -- see store_json_internal.h. Who may still have room in a file that fills up:
 *
 *   bytes  0 ............. MAX - RESERVED ............. MAX ........................... ENDS_MAX
 *          what is new: tasks      answers, attempts,       that something has ended, and
 *                                  edits, memos, queues     nothing that can be left out
 *
 * So what has begun always ends, however much of it there is (I9): an end that were refused would be
 * held in memory, and what it is the end of would be repeated by the next start. An answer that does
 * not fit is marked as one that was not kept. What asks for more room is refused before the file is
 * rendered: that costs as much as a commit.
 */
#include "store/rules.h"
#include "store/store_json_internal.h"

#include <stdlib.h>

/* --- who asks for what --------------------------------------------------------------------------- */

enum wish { WISH_NONE, WISH_MORE, WISH_NEW };

static enum wish wish_of(const struct op *op)
{
    switch (op->kind) {
    case OP_RECORD:
    case OP_IMPORT:
        return WISH_NEW;
    case OP_QUEUE:
        return op->queue.number == 0 ? WISH_NEW : WISH_MORE;
    case OP_MEMO:
        return op->memo.value.len > 0 ? WISH_MORE : WISH_NONE;
    case OP_REDRIVE:
    case OP_RESOLVE:
        return op->edit != NULL ? WISH_MORE : WISH_NONE;
    case OP_LEASE:
    case OP_SETTLE:
    case OP_CANCEL:
    case OP_RUN:
    case OP_PURGE:
    case OP_EXTEND:
    case OP_EXPIRE:
    case OP_BURY:
    case OP_REVISE:
    case OP_FIND:
    default:
        return WISH_NONE;
    }
}

/* The largest of all that are granted. */
static enum wish wish_of_all(const struct store_memory *memory, struct op *ops[], size_t count)
{
    enum wish largest = WISH_NONE;

    for (size_t i = 0; i < count; i++) {
        enum wish wish = wish_of(ops[i]);
        bool is_done = stage_at(&memory->stage, i)->result == RESULT_DONE;
        largest = is_done && wish > largest ? wish : largest;
    }
    return largest;
}

bool room_is_for_new(const struct store_memory *memory, struct op *ops[], size_t count)
{
    return wish_of_all(memory, ops, count) == WISH_NEW;
}

/* What the file would have with the draft. Queues, memos and acts are few, and counted roughly. */
static int measure(struct room *room, const struct store_memory *memory, struct op *ops[],
                   size_t count, size_t *ret_bytes)
{
    const struct rows *rows = &memory->rows;
    size_t total = room->file_bytes, before = 0, after = 0;
    int failed = 0;

    for (size_t i = 0; i < rows->change_count && failed == 0; i++) {
        failed = render_size(memory, rows->changes[i].before, &room->scratch, &before);
        failed = failed != 0 ? failed
                             : render_size(memory, rows->changes[i].after, &room->scratch, &after);
        total = total + after > before ? total + after - before : 0;
    }
    for (size_t i = 0; i < count; i++) {
        total += ops[i]->kind == OP_QUEUE ? ops[i]->queue.settings.len : 0;
        total += ops[i]->kind == OP_MEMO ? ops[i]->memo.value.len : 0;
    }
    *ret_bytes = total;
    return failed;
}

/* --- what can be left out ------------------------------------------------------------------------ */

/* While there is a good deal of room, what is this small is not worth being left out. */
#define SMALL_BYTES 1024

static size_t worth_keeping(const struct room *room)
{
    return room->file_bytes > 2 * room->bytes_max ? 0 : SMALL_BYTES;
}

/* In this order. What a callback tells is kept with the task that it tells of, so it goes first. */
enum cut { CUT_CALLBACK, CUT_BODY, CUT_HEADERS, CUT_TRAIL, CUT_COUNT };

static int cut_callback(const struct op *spawn, struct version *version)
{
    if (spawn->lean == NULL) {
        return 0;
    }
    struct kept_task *lean = kept_task_new(spawn->lean);
    if (lean == NULL) {
        return FAULT_MEMORY;
    }
    free(version->task);
    version->task = lean;
    return 0;
}

static int cut_answer(const struct room *room, enum cut cut, struct version *version,
                      struct staged *staged)
{
    struct answer answer = version->answer != NULL ? version->answer->answer : (struct answer){0};
    struct span *part = cut == CUT_BODY ? &answer.body : &answer.headers;

    /* Of what goes on, LIFE_OMITTED says that its answer is on the way to a caller. */
    bool is_over =
        task_is_settled(version->life.state) || (version->life.flags & LIFE_OMITTED) != 0;
    if (!is_over || part->len <= worth_keeping(room)) {
        return 0;
    }
    *part = SPAN("");
    struct kept_answer *kept = kept_answer_new(&answer);
    if (kept == NULL) {
        return FAULT_MEMORY;
    }
    free(version->answer);
    version->answer = kept;
    version->life.flags |= LIFE_OMITTED;
    staged->life.flags |= LIFE_OMITTED;
    return 0;
}

/* The rows of this end become one without words; or none, when there are so many attempts that even
 * these fill the file. */
static int cut_trail(const struct room *room, const struct op *op, struct version *version)
{
    size_t words = 0;

    for (size_t i = 0; i < op->trail_count; i++) {
        words += op->trail[i].target.len + op->trail[i].message.len;
    }
    if (words <= worth_keeping(room) && room->file_bytes <= 3 * room->bytes_max) {
        return 0;
    }
    for (size_t i = 0; i < op->trail_count; i++) {
        struct kept_trail *newest = version->trail;
        version->trail = newest->previous;
        version->trail_count--;
        free(newest);
    }
    if (op->trail_count == 0 || room->file_bytes > 3 * room->bytes_max) {
        return 0;
    }
    struct trail_row row = op->trail[op->trail_count - 1];
    row.target = row.message = SPAN("");
    struct kept_trail *bare = kept_trail_new(&row, version->trail);
    if (bare == NULL) {
        return FAULT_MEMORY;
    }
    version->trail = bare;
    version->trail_count++;
    return 0;
}

static int cut_end(struct room *room, struct store_memory *memory, const struct op *op,
                   struct staged *staged, size_t *total)
{
    struct version *end = rows_find(&memory->rows, staged->id);
    struct version *spawned =
        op->spawn != NULL ? rows_find(&memory->rows, op->spawn->task.id) : NULL;
    int failed = 0;

    for (int cut = CUT_CALLBACK; cut<CUT_COUNT && * total> room->bytes_max && failed == 0; cut++) {
        struct version *version = cut == CUT_CALLBACK ? spawned : end;
        size_t before = 0, after = 0;
        if (version == NULL) {
            continue;
        }
        failed = render_size(memory, version, &room->scratch, &before);
        if (failed == 0) {
            failed = cut == CUT_CALLBACK  ? cut_callback(op->spawn, version)
                     : cut == CUT_TRAIL   ? cut_trail(room, op, version)
                     : op->answer == NULL ? 0 /* if it has one, it is the old one */
                                          : cut_answer(room, (enum cut)cut, version, staged);
        }
        failed = failed != 0 ? failed : render_size(memory, version, &room->scratch, &after);
        *total -= before > after ? before - after : 0;
    }
    return failed;
}

/* The last ones first: those before them have come earlier. */
static int cut_ends(struct room *room, struct store_memory *memory, struct op *ops[], size_t count,
                    size_t total)
{
    int failed = 0;

    for (size_t i = count; i > 0 && total > room->bytes_max && failed == 0; i--) {
        struct staged *staged = stage_at(&memory->stage, i - 1);
        const struct op *op = ops[i - 1];
        bool is_end = op->kind == OP_SETTLE || op->kind == OP_EXPIRE;
        if (is_end && staged->result == RESULT_DONE) {
            failed = cut_end(room, memory, op, staged, &total);
        }
    }
    return failed;
}

/* --- the draft ------------------------------------------------------------------------------------ */

int room_fit(struct room *room, struct store_memory *memory, struct op *ops[], size_t count,
             struct error *err)
{
    enum wish wish = wish_of_all(memory, ops, count);
    size_t total = 0;
    int failed = 0;

    if (wish == WISH_NEW && memory->rows.task_count > STORE_JSON_TASKS_MAX) {
        return fail(err, FAULT_FULL, "the store holds %d tasks, which is all it may",
                    STORE_JSON_TASKS_MAX);
    }
    failed = measure(room, memory, ops, count, &total);
    size_t most = room->bytes_max - (wish == WISH_NEW ? room->reserved_bytes : 0);
    if (failed == 0 && wish != WISH_NONE && total > most) {
        return fail(err, FAULT_FULL,
                    "the store has %zu bytes, and the rest is kept for what is in it",
                    room->file_bytes);
    }
    failed = failed != 0 ? failed : cut_ends(room, memory, ops, count, total);
    if (failed == FAULT_LIMIT) {
        return fail(err, FAULT_FULL, "a task would have more than %zu bytes", room->scratch.max);
    }
    return failed != 0 ? memory_is_out(err) : 0;
}
