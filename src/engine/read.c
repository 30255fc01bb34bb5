/* SPDX-License-Identifier: MIT
 *
 * read -- a look into the store, as it is done on the reader's thread: nothing here may touch the
 * engine. Lists are looked through in slices, so that others are served in between. What is found,
 * rendered where that is wanted, is handed back with the read.
 */
#include "engine/engine_internal.h"
#include "store/page.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_ROOM_FIRST 16
#define BRIEFS_ROOM_FIRST  256
#define READ_SLICE_ROWS    500 /* of a list, looked at in one step: some milliseconds */
#define KEY_PAGES_MAX      10  /* looked through for one key; then the caller goes on */
#define REACH_PAGES_MAX    20  /* likewise, for the queues that the caller sees */

/* What a page may come to before it ends, with `next`, however few tasks it has. That of a caller is
 * rendered: each byte of a task is six at most (writer.c), and all of it has to fit into one answer.
 * That of the engine itself is not. The largest task has some hundred KB without its bodies
 * (TASK_PART_BYTES_MAX), and one that is larger all the same has room behind either bound
 * (LIST_ARENA_MAX). */
#define ASKED_BYTES_MAX (8u << 20)
#define WALK_BYTES_MAX  (ARENA_MAX / 4 * 3)

_Static_assert(ASKED_BYTES_MAX * 6 < ENGINE_RENDERED_MAX, "a page fits into an answer");

static int keep_record(void *user, const struct record *record)
{
    struct read *read = user;

    if (read->record_count == read->record_room) {
        size_t room = read->record_room == 0 ? RECORDS_ROOM_FIRST : read->record_room * 2;
        struct record *grown = arena_alloc(read->arena, room * sizeof *grown);
        if (grown == NULL) {
            return fail(&read->error, FAULT_MEMORY, "the page is too large");
        }
        if (read->record_count > 0) {
            memcpy(grown, read->records, read->record_count * sizeof *grown);
        }
        read->records = grown;
        read->record_room = room;
    }
    read->records[read->record_count++] = *record;
    return 0;
}

static size_t slices_max(const struct read *read)
{
    size_t pages = read->kind == READ_KEYS ? KEY_PAGES_MAX : 1;

    pages = read->filter.queues != NULL ? REACH_PAGES_MAX : pages;
    return pages * (STORE_LIST_SCAN_MAX / READ_SLICE_ROWS);
}

static bool is_cut(const struct read *read)
{
    return __atomic_load_n(&read->is_cut, __ATOMIC_RELAXED) != 0;
}

static size_t bytes_left(const struct read *read)
{
    size_t most = read->exchange != 0 ? ASKED_BYTES_MAX : WALK_BYTES_MAX;
    size_t used = arena_used(read->arena);

    return used < most ? most - used : 0;
}

/* A list goes on where the slice before has ended. No page is longer than was asked for. What lies
 * between is passed over by the store, but no longer than others can wait. */
static bool list_slice(struct read *read, struct store *store)
{
    struct store_filter filter = read->filter;

    filter.scan_max = READ_SLICE_ROWS;
    filter.limit -= read->record_count;
    filter.bytes_max = bytes_left(read);
    if (read->slice_count > 0) {
        filter.after_row = read->next_row;
    }
    read->fault =
        store_list(store, &filter, read->arena, keep_record, read, &read->next_row, &read->error);
    read->slice_count++;
    return read->fault != 0 || read->next_row == 0 || read->record_count >= read->filter.limit ||
           bytes_left(read) == 0 || read->slice_count == slices_max(read) || is_cut(read);
}

static int keep_brief(void *user, const struct brief *brief)
{
    struct read *read = user;

    if (read->brief_count == read->brief_room) {
        size_t room = read->brief_room == 0 ? BRIEFS_ROOM_FIRST : read->brief_room * 2;
        struct brief *grown = realloc(read->briefs, room * sizeof *grown);
        if (grown == NULL) {
            return fail(&read->error, FAULT_MEMORY, "no memory for what is due");
        }
        read->briefs = grown;
        read->brief_room = room;
    }
    read->briefs[read->brief_count++] = *brief;
    return 0;
}

static int read_one(struct read *read, struct store *store)
{
    struct record record;
    bool found = false;
    int failed =
        store_read_task(store, read->id, read->wants, read->arena, &record, &found, &read->error);

    return failed != 0 || !found ? failed : keep_record(read, &record);
}

/* The row lies in the slice's arena. */
static int keep_audit(void *user, const struct audit_row *row)
{
    struct read *read = user;
    bool is_wanted = reach_is_whole(&read->reach) ||
                     (row->subject.len > 0 && reach_has(&read->reach, row->subject));

    if (!is_wanted) {
        return 0;
    }
    if (page_copy_audit(read->arena, row, &read->audits[read->audit_count]) != 0) {
        return fail(&read->error, FAULT_MEMORY, "the page is too large");
    }
    read->audit_count++; /* the store shows no more than the limit */
    return 0;
}

/* Which acts the caller sees only the name of their queue tells, so they are passed over here: in an
 * arena that does not outlive the slice. */
static bool audit_slice(struct read *read, struct store *store)
{
    struct audit_filter filter = read->audit;
    struct arena *arena = arena_new(ARENA_MAX);

    if (read->slice_count == 0) {
        read->audits = arena_alloc(read->arena, read->audit.limit * sizeof *read->audits);
    } else {
        filter.after_number = read->next_row;
    }
    if (read->audits == NULL || arena == NULL) {
        read->fault = fail(&read->error, FAULT_MEMORY, "the page is too large");
        arena_free(arena);
        return true;
    }
    filter.scan_max = READ_SLICE_ROWS;
    filter.limit -= read->audit_count;
    read->fault =
        store_audit(store, &filter, arena, keep_audit, read, &read->next_row, &read->error);
    arena_free(arena);
    read->slice_count++;
    return read->fault != 0 || read->next_row == 0 || read->audit_count == read->audit.limit ||
           bytes_left(read) == 0 || read->slice_count == slices_max(read) || is_cut(read);
}

/* What is over in the life of a task: nobody waits for it any longer. */
bool inspect_is_over(const struct life *life)
{
    return task_is_settled(life->state) || life->state == TASK_UNSETTLED;
}

/* Bytes in place of records, unless nobody is going to be told of them. */
static void render(struct read *read)
{
    const struct reply reply = {.kind = read->reply,
                                .exchange = read->exchange,
                                .index = read->index,
                                .records = read->records,
                                .record_count = read->record_count,
                                .next_row = read->next_row,
                                .queues = &read->queue,
                                .queue_count = read->queue.name.len > 0};
    bool is_wanted = read->kind == READ_LIST || (read->kind == READ_TASK && read->record_count > 0);

    if (read->fault != 0 || read->render == NULL || !is_wanted ||
        (read->waiter != NULL && !inspect_is_over(&read->records[0].life))) {
        return;
    }
    buf_init(&read->rendered, ENGINE_RENDERED_MAX);
    if (read->render(read->render_user, &reply, &read->rendered) != 0) {
        read->fault = fail(&read->error, FAULT_MEMORY, "no memory for the answer");
    }
}

bool read_is_count(const struct read *read)
{
    return read->kind == READ_COUNTS;
}

bool read_is_long(const struct read *read)
{
    return read->kind == READ_LIST || read->kind == READ_KEYS || read->kind == READ_AUDIT ||
           read->kind == READ_COUNTS;
}

static bool look(struct read *read, struct store *store)
{
    switch (read->kind) {
    case READ_TASK:
        read->fault = read_one(read, store);
        return true;
    case READ_LIST:
    case READ_KEYS:
        return list_slice(read, store);
    case READ_DUE:
        read->fault =
            store_due(store, read->from_ms, read->until_ms, keep_brief, read, &read->error);
        return true;
    case READ_AUDIT:
        return audit_slice(read, store);
    case READ_COUNTS:
        read->fault = nodes_read_counts(read, store);
        return true;
    case READ_MEMOS:
        read->fault = nodes_read_memos(read, store);
        return true;
    case READ_FATES:
        read->fault = nodes_read_fates(read, store);
        return true;
    }
    return true;
}

bool read_step(struct read *read, struct store *store)
{
    if (!look(read, store)) {
        return false;
    }
    render(read);
    return true;
}

void read_cut(struct read *read)
{
    __atomic_store_n(&read->is_cut, 1, __ATOMIC_RELAXED);
}

void read_perform(struct read *read, struct store *store)
{
    while (!read_step(read, store)) {
    }
}
