/* SPDX-License-Identifier: MIT
 *
 * import -- see import.h.
 *
 *   import_line --> a task: copied to the batch --> full, or something else comes --> one commit
 *              '--> a queue, a memo, an act: written at once
 */
#include "store/import.h"

#include "base/siphash.h"
#include "store/import_copy.h"
#include "store/store_json_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define ACTS_PAGE         500
#define CONFLICT_TEXT_MAX 256

/* A queue of the lines, and where its tasks go. */
struct carried_queue {
    uint32_t from, to;
    bool dropped;
    struct span name;
};

/* What is in the store already. */
struct found_queue {
    uint32_t number;
    bool dropped;
    struct span name;
};

struct import {
    struct store *store;
    const char *path;
    import_conflict_fn conflict;
    void *conflict_user;
    struct import_counts counts;
    struct arena *arena; /* of what lives as long as this does */
    struct carried_queue *carried;
    size_t carried_count, carried_room;
    struct found_queue *found;
    size_t found_count, found_room;
    uint64_t *acts; /* fingerprints of the acts that are there, in order; used ones are 0 */
    size_t act_count, act_room;
    int64_t last_act;   /* the largest number among the lines */
    struct span *memos; /* names */
    size_t memo_count, memo_room;

    struct arena *batch_arena;
    struct op ops[IMPORT_BATCH], *list[IMPORT_BATCH];
    uint64_t lines[IMPORT_BATCH]; /* their numbers */
    struct task_id ids[IMPORT_BATCH];
    size_t batch_count;
};

static int no_memory(struct error *err)
{
    return fail(err, FAULT_MEMORY, "no memory to import with");
}

/* Gives an array of `size`-byte members room for one more; false: out of memory. */
static bool make_room(void *array, size_t count, size_t *room, size_t size)
{
    void **at = array;

    if (count < *room) {
        return true;
    }
    size_t more = *room == 0 ? 64 : 2 * *room;
    void *grown = realloc(*at, more * size);
    if (grown == NULL) {
        return false;
    }
    *at = grown;
    *room = more;
    return true;
}

/* --- what is there already ----------------------------------------------------------------------- */

static int note_queue(void *user, const struct queue_row *row)
{
    struct import *import = user;

    if (!make_room(&import->found, import->found_count, &import->found_room,
                   sizeof *import->found)) {
        return FAULT_MEMORY;
    }
    struct span name = arena_copy(import->arena, row->name);
    import->found[import->found_count++] =
        (struct found_queue){.number = row->number, .dropped = row->dropped, .name = name};
    return name.at != NULL ? 0 : FAULT_MEMORY;
}

static int note_memo(void *user, const struct memo *memo)
{
    struct import *import = user;

    if (!make_room(&import->memos, import->memo_count, &import->memo_room, sizeof *import->memos)) {
        return FAULT_MEMORY;
    }
    struct span name = arena_copy(import->arena, memo->name);
    import->memos[import->memo_count++] = name;
    return name.at != NULL ? 0 : FAULT_MEMORY;
}

/* All but the number, which each store gives anew. */
static uint64_t act_fingerprint(const struct audit_row *row)
{
    static const unsigned char secret[SIPHASH_SECRET_BYTES];
    const int64_t numbers[] = {
        row->at_ms,    row->task.row,         (int64_t)row->task.tail, row->from_state,
        row->to_state, (int64_t)row->who.len, (int64_t)row->act.len,   (int64_t)row->subject.len};
    struct siphash hash;

    siphash_begin(&hash, secret);
    siphash_add(&hash, (struct span){.at = (const char *)numbers, .len = sizeof numbers});
    siphash_add(&hash, row->who);
    siphash_add(&hash, row->act);
    siphash_add(&hash, row->subject);
    siphash_add(&hash, row->note);
    return siphash_end(&hash) | 1;
}

static int note_act(void *user, const struct audit_row *row)
{
    struct import *import = user;

    if (!make_room(&import->acts, import->act_count, &import->act_room, sizeof *import->acts)) {
        return FAULT_MEMORY;
    }
    import->acts[import->act_count++] = act_fingerprint(row);
    return 0;
}

static int compare_acts(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *)one, right = *(const uint64_t *)other;

    return left < right ? -1 : left > right;
}

static int read_acts(struct import *import, struct error *err)
{
    struct audit_filter filter = {.limit = ACTS_PAGE};
    int failed = 0;

    do {
        struct arena *arena = arena_new(SIZE_MAX);
        if (arena == NULL) {
            return no_memory(err);
        }
        failed =
            store_audit(import->store, &filter, arena, note_act, import, &filter.after_number, err);
        arena_free(arena);
    } while (failed == 0 && filter.after_number != 0);
    if (failed == 0 && import->act_count > 0) {
        qsort(import->acts, import->act_count, sizeof *import->acts, compare_acts);
    }
    return failed;
}

static int look_around(struct import *import, struct error *err)
{
    int failed = store_queues(import->store, note_queue, import, err);

    failed = failed != 0 ? failed : store_memos(import->store, note_memo, import, err);
    failed = failed != 0 ? failed : read_acts(import, err);
    return failed == FAULT_MEMORY ? no_memory(err) : failed;
}

int import_new(struct store *store, const char *path, import_conflict_fn conflict, void *user,
               struct import **ret_import, struct error *err)
{
    struct import *import = calloc(1, sizeof *import);

    if (import == NULL) {
        return no_memory(err);
    }
    import->store = store;
    import->path = path;
    import->conflict = conflict;
    import->conflict_user = user;
    import->arena = arena_new(SIZE_MAX);
    import->batch_arena = arena_new(SIZE_MAX);
    int failed = import->arena != NULL && import->batch_arena != NULL ? look_around(import, err)
                                                                      : no_memory(err);
    if (failed != 0) {
        import_free(import);
        return failed;
    }
    *ret_import = import;
    return 0;
}

void import_free(struct import *import)
{
    if (import == NULL) {
        return;
    }
    arena_free(import->arena);
    arena_free(import->batch_arena);
    free(import->carried);
    free(import->found);
    free(import->acts);
    free(import->memos);
    free(import);
}

/* --- the batch ----------------------------------------------------------------------------------- */

static void tell_conflict(struct import *import, size_t at, const char *why)
{
    bool has_rival = import->ops[at].result != RESULT_NO_QUEUE;
    char text[CONFLICT_TEXT_MAX], id[ID_TEXT_LEN + 1], rival[ID_TEXT_LEN + 1] = "";

    id_format(import->ids[at], id);
    if (has_rival) {
        id_format(import->ops[at].task.id, rival);
    }
    (void)snprintf(text, sizeof text, "task %s is left out: %s%s", id, why, rival); /* fits */
    import->counts.conflicts++;
    import->conflict(import->conflict_user, import->lines[at], text);
}

static void count_result(struct import *import, size_t at)
{
    const struct op *op = &import->ops[at];

    if (op->kind == OP_MEMO) {
        import->counts.acts++;
    } else if (op->result == RESULT_DONE) {
        import->counts.tasks++;
    } else if (op->result == RESULT_CONFLICT) {
        tell_conflict(import, at, "its key belongs to task ");
    } else if (op->result == RESULT_NO_QUEUE) {
        tell_conflict(import, at, "its queue is deleted");
    } else if (op->task.id.tail != import->ids[at].tail) {
        tell_conflict(import, at, "in its place there is task ");
    } else {
        import->counts.tasks_kept++;
    }
}

int import_flush(struct import *import, struct error *err)
{
    size_t count = import->batch_count;

    if (count == 0) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        import->list[i] = &import->ops[i];
    }
    int failed = store_apply_patiently(import->store, import->list, count, err);
    if (failed != 0) {
        return failed;
    }
    for (size_t i = 0; i < count; i++) {
        count_result(import, i);
    }
    import->batch_count = 0;
    arena_free(import->batch_arena);
    import->batch_arena = arena_new(SIZE_MAX);
    return import->batch_arena != NULL ? 0 : no_memory(err);
}

/* Room for one operation more. */
static int batch_open(struct import *import, struct error *err)
{
    bool has_room =
        import->batch_count < IMPORT_BATCH && arena_used(import->batch_arena) < IMPORT_BATCH_BYTES;

    return has_room ? 0 : import_flush(import, err);
}

static void batch_add(struct import *import, const struct op *op)
{
    import->ids[import->batch_count] = op->task.id;
    import->lines[import->batch_count] = import->counts.lines;
    import->ops[import->batch_count++] = *op;
}

/* Before anything of a line is taken. */
static int check_begun(const struct import *import, struct error *err)
{
    return import->counts.lines > 1
               ? 0
               : fail(err, FAULT_CORRUPT, "this was not written by daruma export");
}

/* --- queues -------------------------------------------------------------------------------------- */

static const struct found_queue *find_found(const struct import *import, struct span name,
                                            bool dropped)
{
    for (size_t i = 0; i < import->found_count; i++) {
        const struct found_queue *found = &import->found[i];
        if (found->dropped == dropped && span_equal(found->name, name)) {
            return found;
        }
    }
    return NULL;
}

/* One of that name, made here; a deleted one only where none of its name lives: there is no other way
 * to write it. *ret_number 0: it was not made. */
static int make_queue(struct import *import, const struct queue_row *queue, uint32_t *ret_number,
                      struct error *err)
{
    struct op op = {.kind = OP_QUEUE, .queue = *queue};
    struct op *list[] = {&op};

    *ret_number = 0;
    if (queue->dropped && find_found(import, queue->name, false) != NULL) {
        return 0;
    }
    op.queue.number = 0;
    int failed = store_apply_patiently(import->store, list, 1, err);
    if (failed != 0) {
        return failed;
    }
    struct queue_row made = *queue;
    made.number = *ret_number = op.queue.number;
    import->counts.queues++;
    return note_queue(import, &made) == 0 ? 0 : no_memory(err);
}

static int carry_queue(struct import *import, const struct queue_row *queue, uint32_t to,
                       struct error *err)
{
    struct span name = arena_copy(import->arena, queue->name);

    if (name.at == NULL || !make_room(&import->carried, import->carried_count,
                                      &import->carried_room, sizeof *import->carried)) {
        return no_memory(err);
    }
    import->carried[import->carried_count++] = (struct carried_queue){
        .from = queue->number, .to = to, .dropped = queue->dropped, .name = name};
    return 0;
}

static int take_queue(void *user, const struct queue_row *queue, struct error *err)
{
    struct import *import = user;
    const struct found_queue *found = find_found(import, queue->name, queue->dropped);
    uint32_t number = found != NULL ? found->number : 0;

    int failed = check_begun(import, err);
    if (failed == 0 && queue->name.len == 0) {
        failed = fail(err, FAULT_CORRUPT, "a queue has a name");
    }
    failed = failed != 0 ? failed : import_flush(import, err);
    if (failed == 0 && found == NULL) {
        failed = make_queue(import, queue, &number, err);
    } else if (failed == 0) {
        import->counts.queues_kept++;
    }
    return failed != 0 ? failed : carry_queue(import, queue, number, err);
}

/* The latest of that name: a file may have been put together of two. */
static uint32_t number_of_queue(void *user, struct span name)
{
    const struct import *import = user;

    for (size_t i = import->carried_count; i > 0; i--) {
        const struct carried_queue *queue = &import->carried[i - 1];
        if (!queue->dropped && span_equal(queue->name, name)) {
            return queue->from;
        }
    }
    return 0;
}

static uint32_t place_of_queue(const struct import *import, uint32_t number)
{
    for (size_t i = import->carried_count; i > 0; i--) {
        if (import->carried[i - 1].from == number) {
            return import->carried[i - 1].to;
        }
    }
    return 0;
}

/* --- tasks --------------------------------------------------------------------------------------- */

/* A batch holds each task once: ids of an export only grow. */
static int begin_task(struct import *import, int64_t row, struct error *err)
{
    size_t count = import->batch_count;
    bool grows = count == 0 || import->ids[count - 1].row < row;

    return grows ? batch_open(import, err) : import_flush(import, err);
}

static int take_task(void *user, const struct record *record, struct error *err)
{
    struct import *import = user;
    uint32_t queue = place_of_queue(import, record->task.queue);
    int failed = check_begun(import, err);

    if (failed == 0 && queue == 0) {
        failed = fail(err, FAULT_CORRUPT, "its queue is not among the lines before");
    }
    failed = failed != 0 ? failed : import_check_task(record, err);
    failed = failed != 0 ? failed : begin_task(import, record->task.id.row, err);
    if (failed != 0) {
        return failed;
    }
    struct op op;
    if (!import_copy_task(import->batch_arena, record, &op)) {
        return no_memory(err);
    }
    op.task.queue = queue;
    if (op.life.state == TASK_RUNNING && (op.life.flags & LIFE_PULL) == 0) {
        op.life.epoch = 0; /* nobody's */
    }
    batch_add(import, &op);
    return 0;
}

/* --- memos and acts ------------------------------------------------------------------------------ */

static bool has_moved_queues(const struct import *import)
{
    for (size_t i = 0; i < import->carried_count; i++) {
        if (import->carried[i].from != import->carried[i].to) {
            return true;
        }
    }
    return false;
}

static int apply_one(struct import *import, struct op *op, struct error *err)
{
    struct op *list[] = {op};
    int failed = import_flush(import, err);

    return failed != 0 ? failed : store_apply_patiently(import->store, list, 1, err);
}

static int take_memo(void *user, const struct memo *memo, struct error *err)
{
    struct import *import = user;
    struct op op = {.kind = OP_MEMO, .memo = *memo};

    if (memo->name.len == 0 || memo->name.len > STORE_MEMO_NAME_MAX || memo->value.len == 0) {
        return fail(err, FAULT_CORRUPT, "a name of 1 to %d bytes and a value are expected",
                    STORE_MEMO_NAME_MAX);
    }
    int failed = check_begun(import, err);
    for (size_t i = 0; i < import->memo_count && failed == 0; i++) {
        if (span_equal(import->memos[i], memo->name)) {
            import->counts.memos_kept++;
            return 0;
        }
    }
    if (failed == 0 && has_moved_queues(import)) {
        import->counts.memos_left++;
        return 0;
    }
    failed = failed != 0 ? failed : apply_one(import, &op, err);
    if (failed != 0) {
        return failed;
    }
    import->counts.memos++;
    return note_memo(import, memo) == 0 ? 0 : no_memory(err);
}

/* Each act that is there stands for one of the lines. */
static bool is_there(struct import *import, const struct audit_row *row)
{
    uint64_t wanted = act_fingerprint(row);
    size_t low = 0, high = import->act_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((import->acts[middle] | 1) < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < import->act_count && (import->acts[low] | 1) == wanted; low++) {
        if (import->acts[low] == wanted) {
            import->acts[low] ^= 1; /* used */
            return true;
        }
    }
    return false;
}

static int take_audit(void *user, const struct audit_row *row, struct error *err)
{
    struct import *import = user;
    bool is_new = row->number > import->last_act;
    int failed = check_begun(import, err);
    struct op op;

    if (failed != 0) {
        return failed;
    }
    import->last_act = is_new ? row->number : import->last_act;
    if (!is_new || is_there(import, row)) {
        import->counts.acts_kept++;
        return 0;
    }
    failed = batch_open(import, err);
    if (failed == 0 && !import_copy_act(import->batch_arena, row, &op)) {
        failed = no_memory(err);
    }
    if (failed == 0) {
        batch_add(import, &op);
    }
    return failed;
}

/* ------------------------------------------------------------------------------------------------- */

int import_line(struct import *import, struct span line, struct error *err)
{
    const struct load_target target = {.user = import,
                                       .queue = take_queue,
                                       .task = take_task,
                                       .memo = take_memo,
                                       .audit = take_audit,
                                       .queue_number = number_of_queue};
    enum line_kind kind = LINE_END;

    import->counts.lines++;
    unsigned number = (unsigned)import->counts.lines;
    int failed = load_line(import->path, number, line, &target, &kind, err);
    import->counts.has_end = failed == 0 && kind == LINE_END;
    return failed;
}

struct import_counts import_counts(const struct import *import)
{
    return import->counts;
}
