/* SPDX-License-Identifier: MIT
 *
 * store_postgres_read -- one task, queues, acts, memos: committed state, on a connection of its own.
 * A task is there when its life is; what is left of a request or an answer in its partition after a
 * purge is never looked at.
 */
#include "store/store_postgres_internal.h"

#include "store/store_postgres_read.h"

static int trail_add(struct record *record, struct trail_row *row)
{
    record->trail[record->trail_count++] = *row;
    return 0;
}

int postgres_record(struct cell cell, struct arena *arena, struct record *ret_record,
                    struct life_row *ret_life, struct error *err)
{
    struct record record = {0};
    int failed = cell_life(cell, 0, ret_life, err);

    failed = failed != 0 ? failed : cell_task(cell, LIFE_COLUMN_COUNT, arena, &record.task, err);
    if (failed != 0) {
        return failed;
    }
    record.task.id = ret_life->id;
    record.life = ret_life->life;
    record.is_bound = ret_life->is_bound;
    if (!cell_is_null(cell, COLUMN_ANSWER + 10)) {
        record.answer.status = (int)cell_int(cell, COLUMN_ANSWER + 10);
        failed = cell_copy(cell, COLUMN_ANSWER + 11, arena, &record.answer.headers, err);
        failed = failed != 0
                     ? failed
                     : cell_copy(cell, COLUMN_ANSWER + 12, arena, &record.answer.settled_by, err);
        failed = failed != 0 ? failed
                             : cell_copy(cell, COLUMN_ANSWER + 13, arena, &record.answer.body, err);
    }
    if (failed == 0 && !cell_is_null(cell, COLUMN_EDIT)) {
        failed = cell_edit(cell, COLUMN_EDIT, arena, &record.edit, err);
    }
    if (failed == 0) {
        *ret_record = record;
    }
    return failed;
}

/* --- trails -------------------------------------------------------------------------------------- */

/* The rows of a task in the result, which is in order of tasks; and the attempt beside the answer. */
int postgres_trail(struct cell record_cell, const PGresult *trail, struct arena *arena,
                   unsigned wants, struct record *record, struct error *err)
{
    int rows = trail != NULL ? PQntuples(trail) : 0;
    size_t most = 1;
    struct trail_row row;
    int failed = 0;

    for (int i = 0; i < rows; i++) {
        most += cell_int((struct cell){trail, i}, 0) == record->task.id.row;
    }
    record->trail = arena_alloc(arena, most * sizeof *record->trail);
    if (record->trail == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what was read");
    }
    for (int i = 0; i < rows && failed == 0; i++) {
        struct cell cell = {trail, i};
        if (cell_int(cell, 0) == record->task.id.row) {
            failed = cell_trail(cell, 1, arena, &row, err);
            failed = failed != 0 ? failed : trail_add(record, &row);
        }
    }
    if (failed == 0 && !cell_is_null(record_cell, COLUMN_ANSWER)) {
        failed = cell_trail(record_cell, COLUMN_ANSWER, arena, &row, err);
        failed = failed != 0 ? failed : trail_add(record, &row);
    }
    if ((wants & READ_TRAIL) == 0 && record->trail_count > 1) {
        record->trail[0] = record->trail[record->trail_count - 1];
        record->trail_count = 1;
    }
    return failed;
}

int postgres_latest(struct cell cell, struct arena *arena, struct record *record, struct error *err)
{
    int column = cell_is_null(cell, COLUMN_ANSWER) ? COLUMN_LATEST : COLUMN_ANSWER;
    struct trail_row row;

    record->trail = arena_alloc(arena, sizeof *record->trail);
    if (record->trail == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for what was read");
    }
    if (cell_is_null(cell, column)) {
        return 0; /* it was not tried yet */
    }
    int failed = cell_trail(cell, column, arena, &row, err);
    return failed != 0 ? failed : trail_add(record, &row);
}

/* --- one task ------------------------------------------------------------------------------------ */

static int show(const struct step steps[2], unsigned wants, struct arena *arena,
                struct record *ret_record, struct error *err)
{
    struct life_row life;
    struct cell cell = {steps[1].result, 0};
    struct record record = {0};
    int failed = postgres_record(cell, arena, &record, &life, err);

    if (failed == 0 && (wants & (READ_TRAIL | READ_LATEST)) != 0) {
        failed = postgres_trail(cell, steps[2].result, arena, wants, &record, err);
    }
    if (failed == 0) {
        *ret_record = record;
    }
    return failed;
}

/* Both at one moment: an attempt is told exactly once. */
int postgres_read_task(struct store *store, struct task_id id, unsigned wants, struct arena *arena,
                       struct record *ret_record, bool *ret_found, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct sheet task = {.is_plain = true}, trail = {0};
    struct step steps[] = {{.statement = STATEMENT_BEGIN_READ},
                           {.statement = STATEMENT_TASK_READ, .sheet = &task},
                           {.statement = STATEMENT_TRAIL_READ, .sheet = &trail},
                           {.statement = STATEMENT_COMMIT}};

    sheet_row(&task);
    sheet_int(&task, id.row);
    sheet_int(&task, id.tail == ID_ANY_TAIL ? -1 : (int64_t)id.tail);
    sheet_int(&task, (wants & READ_BODIES) != 0);
    sheet_row(&trail);
    sheet_int(&trail, id.row);
    int failed = link_read(&postgres->reader, steps, 4, err);
    bool is_found = failed == 0 && PQntuples(steps[1].result) > 0;
    if (is_found) {
        failed = show(steps, wants, arena, ret_record, err);
    }
    steps_clear(steps, 4);
    sheet_done(&task);
    sheet_done(&trail);
    if (failed == 0) {
        *ret_found = is_found;
    }
    return failed;
}

/* --- queues, memos, acts --------------------------------------------------------------------------- */

int postgres_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct step step = {.statement = STATEMENT_QUEUES};
    int stopped = link_read(&postgres->reader, &step, 1, err);

    for (int i = 0; stopped == 0 && i < PQntuples(step.result); i++) {
        struct cell cell = {step.result, i};
        stopped = visit(user, &(struct queue_row){.number = (uint32_t)cell_int(cell, 0),
                                                  .name = cell_span(cell, 1),
                                                  .settings = cell_span(cell, 2),
                                                  .paused = cell_int(cell, 3) != 0,
                                                  .dropped = cell_int(cell, 4) != 0,
                                                  .version = (uint64_t)cell_int(cell, 5),
                                                  .let_in = cell_let_in(cell, 6)});
    }
    steps_clear(&step, 1);
    return stopped;
}

int postgres_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct step step = {.statement = STATEMENT_MEMOS};
    int stopped = link_read(&postgres->reader, &step, 1, err);

    for (int i = 0; stopped == 0 && i < PQntuples(step.result); i++) {
        struct cell cell = {step.result, i};
        stopped =
            visit(user, &(struct memo){.name = cell_span(cell, 0), .value = cell_span(cell, 1)});
    }
    steps_clear(&step, 1);
    return stopped;
}

static int read_act(struct cell cell, struct arena *arena, struct audit_row *ret_row,
                    struct error *err)
{
    int failed = 0;

    *ret_row = (struct audit_row){
        .number = cell_int(cell, 0),
        .at_ms = cell_int(cell, 1),
        .task = {.row = cell_int(cell, 4), .tail = (uint64_t)cell_int(cell, 5)},
        .from_state = (int)cell_int(cell, 7),
        .to_state = (int)cell_int(cell, 8),
    };
    failed = cell_copy(cell, 2, arena, &ret_row->who, err);
    failed = failed != 0 ? failed : cell_copy(cell, 3, arena, &ret_row->act, err);
    failed = failed != 0 ? failed : cell_copy(cell, 6, arena, &ret_row->subject, err);
    return failed != 0 ? failed : cell_copy(cell, 9, arena, &ret_row->note, err);
}

static void ask_acts(struct sheet *sheet, const struct audit_filter *filter)
{
    sheet_row(sheet);
    sheet_int(sheet, filter->after_number);
    sheet_int(sheet, filter->task_row);
    sheet_bytes(sheet, filter->who);
    sheet_bytes(sheet, filter->act);
    sheet_bytes(sheet, filter->subject);
    sheet_int(sheet, filter->from_ms);
    sheet_int(sheet, filter->until_ms);
    sheet_int(sheet, (int64_t)filter->limit);
}

int postgres_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                   store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct sheet sheet = {.is_plain = true};
    struct step steps[] = {{.statement = STATEMENT_AUDIT, .sheet = &sheet},
                           {.statement = STATEMENT_AUDIT_LAST}};
    struct audit_row row = {0};

    ask_acts(&sheet, filter);
    int stopped = link_read(&postgres->reader, steps, 2, err);
    int count = stopped == 0 ? PQntuples(steps[0].result) : 0;
    int64_t last = stopped == 0 ? cell_int((struct cell){steps[1].result, 0}, 0) : 0;
    for (int i = 0; stopped == 0 && i < count; i++) {
        stopped = read_act((struct cell){steps[0].result, i}, arena, &row, err);
        stopped = stopped != 0 ? stopped : visit(user, &row);
    }
    steps_clear(steps, 2);
    sheet_done(&sheet);
    if (stopped == 0) {
        *ret_next = (size_t)count == filter->limit && row.number < last ? row.number : 0;
    }
    return stopped;
}
