/* SPDX-License-Identifier: MIT
 *
 * read -- a look into the store, as it is done on the reader's thread: nothing here may touch the
 * engine. What is found, rendered where that is wanted, is handed back with the read.
 */
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_ROOM_FIRST 16
#define BRIEFS_ROOM_FIRST  256
#define KEY_PAGES_MAX      10 /* looked through for one key; then the caller goes on */
#define REACH_PAGES_MAX    20 /* likewise, for the queues that he sees */

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

static bool is_any_or(struct span wanted, struct span found)
{
    return wanted.len == 0 || span_equal(wanted, found);
}

static int keep_key(void *user, const struct record *record)
{
    struct read *read = user;

    return is_any_or(read->key, record->task.key) && is_any_or(read->scope, record->task.scope)
               ? keep_record(read, record)
               : 0;
}

/* A route's requests by their key: page after page, but no longer than others can wait. */
static int read_keys(struct read *read, struct store *store)
{
    struct store_filter filter = read->filter;
    int failed = 0;

    if (read->key.len > 0) {
        filter.limit = ENGINE_LIST_LIMIT_MAX;
    }
    for (int i = 0; i < KEY_PAGES_MAX && failed == 0; i++) {
        failed =
            store_list(store, &filter, read->arena, keep_key, read, &read->next_row, &read->error);
        filter.after_row = read->next_row;
        if (read->next_row == 0 || read->record_count >= read->filter.limit) {
            break;
        }
    }
    return failed;
}

static int keep_reached(void *user, const struct record *record)
{
    struct read *read = user;

    for (size_t i = 0; i < read->reached_count; i++) {
        if (read->reached[i] == record->task.queue) {
            return keep_record(read, record);
        }
    }
    return 0;
}

/* A list of several queues for a caller who does not see all of them: no page is longer than was asked for,
 * and what lies between is passed over, but no longer than others can wait. */
static int read_reached(struct read *read, struct store *store)
{
    struct store_filter filter = read->filter;
    int failed = 0;

    for (int i = 0; i < REACH_PAGES_MAX && failed == 0; i++) {
        filter.limit = read->filter.limit - read->record_count;
        failed = store_list(store, &filter, read->arena, keep_reached, read, &read->next_row,
                            &read->error);
        filter.after_row = read->next_row;
        if (read->next_row == 0 || read->record_count == read->filter.limit) {
            break;
        }
    }
    return failed;
}

static int read_list(struct read *read, struct store *store)
{
    return read->reached != NULL ? read_reached(read, store)
                                 : store_list(store, &read->filter, read->arena, keep_record, read,
                                              &read->next_row, &read->error);
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

static int keep_audit(void *user, const struct audit_row *row)
{
    struct read *read = user;

    if (reach_is_whole(&read->reach) ||
        (row->subject.len > 0 && reach_has(&read->reach, row->subject))) {
        read->audits[read->audit_count++] = *row; /* the store shows no more than the limit */
    }
    return 0;
}

static int read_audit(struct read *read, struct store *store)
{
    read->audits = arena_alloc(read->arena, read->audit.limit * sizeof *read->audits);
    if (read->audits == NULL) {
        return fail(&read->error, FAULT_MEMORY, "the page is too large");
    }
    return store_audit(store, &read->audit, read->arena, keep_audit, read, &read->next_row,
                       &read->error);
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

void read_perform(struct read *read, struct store *store)
{
    switch (read->kind) {
    case READ_TASK:
        read->fault = read_one(read, store);
        break;
    case READ_LIST:
        read->fault = read_list(read, store);
        break;
    case READ_KEYS:
        read->fault = read_keys(read, store);
        break;
    case READ_DUE:
        read->fault =
            store_due(store, read->from_ms, read->until_ms, keep_brief, read, &read->error);
        break;
    case READ_AUDIT:
        read->fault = read_audit(read, store);
        break;
    case READ_COUNTS:
        read->fault = nodes_read_counts(read, store);
        break;
    case READ_MEMOS:
        read->fault = nodes_read_memos(read, store);
        break;
    }
    render(read);
}
