/* SPDX-License-Identifier: MIT
 *
 * store_postgres_row -- rows of a result as structs, and structs as rows of a sheet. Unsigned numbers
 * of 32 bits stand in columns of four bytes with the same bits; a NULL is 0 or empty, so that what a
 * life usually does not have takes no room.
 */
#include "store/store_postgres_internal.h"

#define COUNT_BYTES 4

/* --- cells --------------------------------------------------------------------------------------- */

bool cell_is_null(struct cell cell, int column)
{
    return PQgetisnull(cell.result, cell.row, column) != 0;
}

struct span cell_span(struct cell cell, int column)
{
    return (struct span){.at = PQgetvalue(cell.result, cell.row, column),
                         .len = (size_t)PQgetlength(cell.result, cell.row, column)};
}

int64_t cell_int(struct cell cell, int column)
{
    struct span bytes = cell_span(cell, column);
    uint64_t value = bytes.len > 0 && (bytes.at[0] & 0x80) != 0 ? UINT64_MAX : 0;

    for (size_t i = 0; i < bytes.len && i < 8; i++) {
        value = value << 8 | (unsigned char)bytes.at[i];
    }
    return (int64_t)value;
}

static uint32_t cell_word(struct cell cell, int column)
{
    return (uint32_t)cell_int(cell, column);
}

int cell_copy(struct cell cell, int column, struct arena *arena, struct span *ret_span,
              struct error *err)
{
    *ret_span = arena_copy(arena, cell_span(cell, column));
    return ret_span->at != NULL ? 0 : fail(err, FAULT_MEMORY, "no memory for what was read");
}

/* Several columns, one after another. */
static int copy_all(struct cell cell, int first, struct arena *arena, struct span *const spans[],
                    size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        int failed = cell_copy(cell, first + (int)i, arena, spans[i], err);
        if (failed != 0) {
            return failed;
        }
    }
    return 0;
}

/* --- lives --------------------------------------------------------------------------------------- */

/* Lowest byte first; classes that came later than the row are 0. */
static void read_counts(struct span bytes, uint32_t ret_counts[DARUMA_CLASS_COUNT])
{
    for (size_t i = 0; i < DARUMA_CLASS_COUNT * COUNT_BYTES && i < bytes.len; i++) {
        ret_counts[i / COUNT_BYTES] |= (uint32_t)(unsigned char)bytes.at[i]
                                       << 8 * (i % COUNT_BYTES);
    }
}

int cell_life(struct cell cell, int first, struct life_row *ret_life, struct error *err)
{
    struct span hash = cell_span(cell, first + 3);
    int64_t state = cell_int(cell, first + 4);

    if (state < 0 || state >= TASK_STATE_COUNT || (hash.len != 0 && hash.len != KEY_HASH_BYTES)) {
        return fail(err, FAULT_CORRUPT, "postgres: a life holds what nobody has written");
    }
    *ret_life = (struct life_row){
        .id = {.row = cell_int(cell, first), .tail = (uint64_t)cell_int(cell, first + 1)},
        .queue = cell_word(cell, first + 2),
        .is_bound = hash.len != 0,
        .trail_count = cell_word(cell, first + 23),
        .has_answer = cell_int(cell, first + 24) != 0,
        .has_edit = cell_int(cell, first + 25) != 0,
        .life = {.state = (enum task_state)state,
                 .due_at_ms = cell_int(cell, first + 5),
                 .deadline_at_ms = cell_int(cell, first + 6),
                 .settled_at_ms = cell_int(cell, first + 7),
                 .fence = (uint64_t)cell_int(cell, first + 8),
                 .epoch = (uint64_t)cell_int(cell, first + 9),
                 .attempts = cell_word(cell, first + 10),
                 .attempts_all = cell_word(cell, first + 11),
                 .round = cell_word(cell, first + 12),
                 .previous_ms = (uint64_t)cell_int(cell, first + 13),
                 .wait_ms = cell_int(cell, first + 14),
                 .flags = cell_word(cell, first + 15),
                 .failed_class = cell_word(cell, first + 16),
                 .failed_at_ms = cell_int(cell, first + 17),
                 .resolved_at_ms = cell_int(cell, first + 18),
                 .keep_until_ms = cell_int(cell, first + 19),
                 .probe_count = cell_word(cell, first + 20),
                 .probe_due_ms = cell_int(cell, first + 21)},
    };
    if (hash.len != 0) {
        memcpy(ret_life->key_hash, hash.at, KEY_HASH_BYTES);
    }
    read_counts(cell_span(cell, first + 22), ret_life->life.class_attempts);
    return 0;
}

/* Most lives have had no failure: nothing is stored then. */
static void put_counts(struct sheet *sheet, const uint32_t counts[DARUMA_CLASS_COUNT])
{
    unsigned char bytes[DARUMA_CLASS_COUNT * COUNT_BYTES];
    uint32_t any = 0;

    for (size_t i = 0; i < sizeof bytes; i++) {
        any |= counts[i / COUNT_BYTES];
        bytes[i] = (unsigned char)(counts[i / COUNT_BYTES] >> 8 * (i % COUNT_BYTES));
    }
    if (any == 0) {
        sheet_null_bytes(sheet);
    } else {
        sheet_bytes(sheet, (struct span){.at = (const char *)bytes, .len = sizeof bytes});
    }
}

void sheet_life(struct sheet *sheet, const struct life_row *row)
{
    const struct life *life = &row->life;

    sheet_row(sheet);
    sheet_int(sheet, row->id.row);
    sheet_int(sheet, (int64_t)row->id.tail);
    sheet_int(sheet, (int32_t)row->queue);
    if (row->is_bound) {
        sheet_bytes(sheet, (struct span){.at = (const char *)row->key_hash, .len = KEY_HASH_BYTES});
    } else {
        sheet_null_bytes(sheet);
    }
    sheet_int(sheet, (int64_t)life->state);
    sheet_int(sheet, life->due_at_ms);
    sheet_int_or_null(sheet, life->deadline_at_ms);
    sheet_int_or_null(sheet, life->settled_at_ms);
    sheet_int(sheet, (int64_t)life->fence);
    sheet_int(sheet, (int64_t)life->epoch);
    sheet_int(sheet, (int32_t)life->attempts);
    sheet_int(sheet, (int32_t)life->attempts_all);
    sheet_int(sheet, (int32_t)life->round);
    sheet_int_or_null(sheet, (int64_t)life->previous_ms);
    sheet_int_or_null(sheet, life->wait_ms);
    sheet_int(sheet, (int32_t)life->flags);
    sheet_int_or_null(sheet, (int32_t)life->failed_class);
    sheet_int_or_null(sheet, life->failed_at_ms);
    sheet_int_or_null(sheet, life->resolved_at_ms);
    sheet_int_or_null(sheet, life->keep_until_ms);
    sheet_int_or_null(sheet, (int32_t)life->probe_count);
    sheet_int_or_null(sheet, life->probe_due_ms);
    put_counts(sheet, life->class_attempts);
    sheet_int(sheet, (int32_t)row->trail_count);
    sheet_int(sheet, row->has_answer);
    sheet_int(sheet, row->has_edit);
}

/* --- requests, edits, attempts --------------------------------------------------------------------- */

int cell_task(struct cell cell, int first, struct arena *arena, struct task *ret_task,
              struct error *err)
{
    struct span fingerprint = cell_span(cell, first + 3);
    struct span *const names[] = {&ret_task->scope, &ret_task->key};
    struct span *const rest[] = {&ret_task->method, &ret_task->target,  &ret_task->headers,
                                 &ret_task->labels, &ret_task->options, &ret_task->body};

    if (fingerprint.len != TASK_FINGERPRINT_BYTES) {
        return fail(err, FAULT_CORRUPT, "postgres: a fingerprint has %zu bytes", fingerprint.len);
    }
    ret_task->queue = cell_word(cell, first);
    span_copy(ret_task->fingerprint, fingerprint);
    int failed = copy_all(cell, first + 1, arena, names, 2, err);
    return failed != 0 ? failed : copy_all(cell, first + 4, arena, rest, 6, err);
}

void sheet_task(struct sheet *sheet, const struct task *task)
{
    sheet_row(sheet);
    sheet_int(sheet, task->id.row);
    sheet_int(sheet, (int32_t)task->queue);
    sheet_bytes(sheet, task->scope);
    sheet_bytes(sheet, task->key);
    sheet_bytes(sheet, (struct span){.at = (const char *)task->fingerprint,
                                     .len = sizeof task->fingerprint});
    sheet_bytes(sheet, task->method);
    sheet_bytes(sheet, task->target);
    sheet_bytes(sheet, task->headers);
    sheet_bytes(sheet, task->labels);
    sheet_bytes(sheet, task->options);
    sheet_bytes(sheet, task->body);
    sheet_int(sheet, (int64_t)task->id.tail);
}

int cell_edit(struct cell cell, int first, struct arena *arena, struct edit *ret_edit,
              struct error *err)
{
    struct span *const spans[] = {&ret_edit->target, &ret_edit->headers, &ret_edit->body,
                                  &ret_edit->note};

    ret_edit->parts = cell_word(cell, first);
    ret_edit->round = cell_word(cell, first + 1);
    return copy_all(cell, first + 2, arena, spans, 4, err);
}

int cell_trail(struct cell cell, int first, struct arena *arena, struct trail_row *ret_trail,
               struct error *err)
{
    struct span *const spans[] = {&ret_trail->target, &ret_trail->message};

    *ret_trail = (struct trail_row){
        .attempt = cell_word(cell, first),
        .started_at_ms = cell_int(cell, first + 1),
        .ended_at_ms = cell_int(cell, first + 2),
        .error_class = (int)cell_int(cell, first + 3),
        .status = (int)cell_int(cell, first + 4),
        .sent = (enum task_sent)cell_int(cell, first + 5),
        .sends = cell_word(cell, first + 6),
        .wait_ms = cell_int(cell, first + 7),
    };
    return copy_all(cell, first + 8, arena, spans, 2, err);
}

/* NULL: none; its columns are NULL. */
void sheet_trail(struct sheet *sheet, const struct trail_row *trail)
{
    if (trail == NULL) {
        for (int i = 0; i < TRAIL_COLUMN_COUNT - 2; i++) {
            sheet_int_or_null(sheet, 0);
        }
        sheet_null_bytes(sheet);
        sheet_null_bytes(sheet);
        return;
    }
    sheet_int(sheet, (int32_t)trail->attempt);
    sheet_int(sheet, trail->started_at_ms);
    sheet_int(sheet, trail->ended_at_ms);
    sheet_int(sheet, trail->error_class);
    sheet_int(sheet, trail->status);
    sheet_int(sheet, (int64_t)trail->sent);
    sheet_int(sheet, (int32_t)trail->sends);
    sheet_int(sheet, trail->wait_ms);
    sheet_bytes(sheet, trail->target);
    sheet_bytes(sheet, trail->message);
}

/* The engine has written it. */
uint64_t cell_let_in(struct cell cell, int column)
{
    int64_t number = 0;

    if (!cell_is_null(cell, column)) {
        (void)span_to_int(cell_span(cell, column), &number); /* else 0 stays */
    }
    return (uint64_t)number;
}
