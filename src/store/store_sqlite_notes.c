/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_notes -- what is in the file beside tasks: queues, what people did, memos. Written
 * inside the transaction of store_sqlite_apply.c; read in pages, like everything else.
 */
#include "store/page.h"
#include "store/rules.h"
#include "store/store_sqlite_internal.h"

#include <stdlib.h>

#define AUDIT_ROWS 1000 /* looked at in one transaction */

/* --- queues ---------------------------------------------------------------------------------- */

static int find_queue(struct store_sqlite *sqlite, struct span name, uint32_t *ret_number,
                      struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_QUEUE_FIND]);

    query_text(&query, 1, name);
    *ret_number = query_row(&query) ? (uint32_t)sqlite3_column_int64(query.statement, 0) : 0;
    return query_end(&query, err);
}

/* RUNNING has no index, so a queue that is empty costs a walk over all lives; nothing waits for it but
 * the drop and what is committed after it. */
static int has_open(struct store_sqlite *sqlite, uint32_t number, bool *ret_open, struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_QUEUE_OPEN]);

    query_int(&query, 1, number);
    *ret_open = query_row(&query);
    return query_end(&query, err);
}

static int look_at_queue(struct store_sqlite *sqlite, const struct op *op,
                         enum queue_found *ret_found, struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_QUEUE_DROPPED]);
    enum queue_found found = QUEUE_FOUND_NONE;
    bool is_open = false;

    query_int(&query, 1, op->queue.number);
    if (query_row(&query)) {
        found = sqlite3_column_int64(query.statement, 0) != 0 ? QUEUE_FOUND_DROPPED : QUEUE_FOUND;
    }
    int failed = query_end(&query, err);
    if (failed == 0 && found == QUEUE_FOUND && rules_asks_if_open(op)) {
        failed = has_open(sqlite, op->queue.number, &is_open, err);
    }
    *ret_found = is_open ? QUEUE_FOUND_OPEN : found;
    return failed;
}

/* What a QUEUE comes to, and the number that it is about; 0: a new one. */
static int judge_queue(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                       struct error *err)
{
    enum queue_found found;

    staged->queue = op->queue.number;
    staged->result = RESULT_DONE;
    if (op->queue.number == 0) {
        return find_queue(sqlite, op->queue.name, &staged->queue, err);
    }
    int failed = look_at_queue(sqlite, op, &found, err);
    staged->result = failed == 0 ? rules_queue(op, found) : RESULT_NONE;
    return failed;
}

/* Whether the queue is to be paused: as it is now, if the operation is not about that. */
static int judge_paused(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                        struct error *err)
{
    staged->is_paused = op->queue.paused;
    if (staged->queue == 0 || (op->keeps & QUEUE_KEEPS_PAUSED) == 0) {
        return 0;
    }
    struct query query = query_begin(sqlite->write[WRITE_QUEUE_PAUSED]);
    query_int(&query, 1, staged->queue);
    staged->is_paused = query_row(&query) && sqlite3_column_int64(query.statement, 0) != 0;
    return query_end(&query, err);
}

int sqlite_write_queue(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                       struct error *err)
{
    int failed = judge_queue(sqlite, op, staged, err);
    uint32_t number = staged->queue;

    if (failed != 0 || staged->result != RESULT_DONE) {
        return failed;
    }
    failed = judge_paused(sqlite, op, staged, err);
    if (failed != 0) {
        return failed;
    }
    struct query query =
        query_begin(sqlite->write[number == 0 ? WRITE_QUEUE_INSERT : WRITE_QUEUE_UPDATE]);
    if (number != 0) {
        query_int(&query, 1, number);
        query_int(&query, 6, (op->keeps & QUEUE_KEEPS_SETTINGS) != 0);
    }
    query_text(&query, 2, op->queue.name);
    query_text(&query, 3, op->queue.settings);
    query_int(&query, 4, staged->is_paused);
    query_int(&query, 5, op->queue.dropped);
    failed = query_run(&query, err);
    if (failed == 0) {
        staged->queue = number != 0 ? number : (uint32_t)sqlite3_last_insert_rowid(sqlite->writer);
    }
    if (failed == 0 && op->queue.dropped && number_set_add(&sqlite->dropped, staged->queue) != 0) {
        failed = fail(err, FAULT_MEMORY, "no memory for a queue that is dropped");
    }
    return failed;
}

int sqlite_read_dropped(struct store_sqlite *sqlite, struct error *err)
{
    static const char *const sql[] = {"SELECT number FROM queue WHERE dropped != 0"};
    sqlite3_stmt *statement = NULL;
    int failed = sqlite_prepare(sqlite->writer, sql, 1, &statement, err);

    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(statement);
    while (query_row(&query)) {
        uint32_t number = (uint32_t)sqlite3_column_int64(statement, 0);
        if (number_set_add(&sqlite->dropped, number) != 0) {
            query.code = SQLITE_NOMEM;
        }
    }
    failed = query_end(&query, err);
    (void)sqlite3_finalize(statement);
    return failed;
}

/* A drop that is DONE was not there before it. */
void sqlite_undo_dropped(struct store_sqlite *sqlite, struct op *const ops[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct staged *staged = stage_at(&sqlite->stage, i);
        if (ops[i]->kind == OP_QUEUE && ops[i]->queue.dropped && staged->result == RESULT_DONE) {
            number_set_remove(&sqlite->dropped, staged->queue);
        }
    }
}

/* Reads the queue after `number` into the arena; ret_queue->number 0: there is none. */
static int read_queue(struct store_sqlite *sqlite, uint32_t number, struct arena *arena,
                      struct queue_row *ret_queue, struct error *err)
{
    int failed = sqlite_page_begin(sqlite, err);

    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(sqlite->fetch[FETCH_QUEUES]);
    query_int(&query, 1, number);
    query_int(&query, 2, 1);
    *ret_queue = (struct queue_row){0};
    if (query_row(&query)) {
        ret_queue->number = (uint32_t)sqlite3_column_int64(query.statement, 0);
        query_span(&query, 1, arena, &ret_queue->name);
        query_span(&query, 2, arena, &ret_queue->settings);
        ret_queue->paused = sqlite3_column_int64(query.statement, 3) != 0;
        ret_queue->dropped = sqlite3_column_int64(query.statement, 4) != 0;
    }
    return sqlite_page_end(sqlite, query_end(&query, err), err);
}

int sqlite_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    struct queue_row queue = {0};
    int stopped = 0;

    do {
        struct arena *arena = arena_new(SIZE_MAX);
        if (arena == NULL) {
            return fail(err, FAULT_MEMORY, "no memory for a queue");
        }
        stopped = read_queue((struct store_sqlite *)store, queue.number, arena, &queue, err);
        if (stopped == 0 && queue.number != 0) {
            stopped = visit(user, &queue);
        }
        arena_free(arena);
    } while (stopped == 0 && queue.number != 0);
    return stopped;
}

/* --- acts ------------------------------------------------------------------------------------ */

/* Numbers have no gaps, so what is too much is told from the newest one. */
int sqlite_add_audit(struct store_sqlite *sqlite, const struct op *op, const struct staged *staged,
                     struct error *err)
{
    struct query insert = query_begin(sqlite->write[WRITE_AUDIT_INSERT]);
    struct audit_row row = *op->audit;

    if (staged->id.row != 0) {
        row.task = staged->id;
        row.from_state = (int)staged->was;
        row.to_state = op->kind == OP_PURGE ? -1 : (int)staged->life.state;
    }
    query_bind_audit(&insert, &row);
    int failed = query_run(&insert, err);
    int64_t spare = sqlite3_last_insert_rowid(sqlite->writer) - STORE_AUDIT_KEPT;
    if (failed == 0 && spare > 0) {
        failed = sqlite_run_on_row(sqlite, WRITE_AUDIT_TRIM, spare, err);
    }
    return failed;
}

struct audit_list {
    const struct audit_filter *filter;
    struct arena *arena;
    struct audit_row *rows; /* room for the filter's limit */
    size_t count, looked, looked_max;
    int64_t after_number;
    bool is_over; /* nothing lies behind after_number */
};

/* As the look of a list of tasks: one more than is looked at tells whether there is more. */
static int look(struct store_sqlite *sqlite, struct audit_list *list, struct error *err)
{
    const struct audit_filter *filter = list->filter;
    struct query query =
        query_begin(sqlite->fetch[filter->task_row != 0 ? FETCH_AUDIT_TASK : FETCH_AUDIT]);
    size_t left = list->looked_max - list->looked;
    size_t rows = left < AUDIT_ROWS ? left : AUDIT_ROWS;

    query_int(&query, 1, list->after_number);
    query_int(&query, 2, (int64_t)rows + 1);
    if (filter->task_row != 0) {
        query_int(&query, 3, filter->task_row);
    }
    list->is_over = true;
    while (query_row(&query)) {
        struct audit_row row;
        if (rows == 0 || list->count >= filter->limit) {
            list->is_over = false;
            break;
        }
        query_audit(&query, &row);
        list->after_number = row.number;
        list->looked++;
        rows--;
        if (page_wants_audit(filter, &row) &&
            page_copy_audit(list->arena, &row, &list->rows[list->count++]) != 0) {
            query.code = SQLITE_NOMEM;
        }
    }
    return query_end(&query, err);
}

static int look_through(struct store_sqlite *sqlite, struct audit_list *list, struct error *err)
{
    int failed = 0;

    while (!list->is_over && list->looked < list->looked_max && list->count < list->filter->limit &&
           failed == 0) {
        failed = sqlite_page_begin(sqlite, err);
        if (failed == 0) {
            failed = sqlite_page_end(sqlite, look(sqlite, list, err), err);
        }
    }
    return failed;
}

int sqlite_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                 store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct audit_list list = {.filter = filter,
                              .arena = arena,
                              .rows = arena_alloc(arena, filter->limit * sizeof *list.rows),
                              .after_number = filter->after_number,
                              .looked_max = page_scan_max(filter->scan_max)};

    if (list.rows == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a page of %zu acts", filter->limit);
    }
    int failed = look_through((struct store_sqlite *)store, &list, err);
    if (failed != 0) {
        return failed;
    }
    for (size_t i = 0; i < list.count; i++) {
        int stopped = visit(user, &list.rows[i]);
        if (stopped != 0) {
            return stopped;
        }
    }
    *ret_next = list.is_over ? 0 : list.after_number;
    return 0;
}

/* --- memos ----------------------------------------------------------------------------------- */

/* The condition is asked while the row is there to be looked at. */
static int ask_condition(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                         struct error *err)
{
    struct arena *arena = arena_new(SIZE_MAX);
    struct span found = {0};

    if (arena == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a memo");
    }
    struct query query = query_begin(sqlite->write[WRITE_MEMO_READ]);
    query_text(&query, 1, op->only_while->name);
    if (query_row(&query)) {
        query_span(&query, 0, arena, &found);
    }
    int failed = query_end(&query, err);
    staged->result = rules_memo(op, found);
    arena_free(arena);
    return failed;
}

static int put_memo(struct store_sqlite *sqlite, const struct memo *memo, struct error *err)
{
    bool is_put = memo->value.len > 0;
    struct query query = query_begin(sqlite->write[is_put ? WRITE_MEMO_PUT : WRITE_MEMO_DELETE]);

    query_text(&query, 1, memo->name);
    if (is_put) {
        query_text(&query, 2, memo->value);
    }
    return query_run(&query, err);
}

int sqlite_write_memo(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                      struct error *err)
{
    const struct memo_condition *only = op->only_while;
    int failed = 0;

    staged->result = RESULT_DONE;
    if (only != NULL) {
        failed = ask_condition(sqlite, op, staged, err);
    }
    if (failed != 0 || staged->result != RESULT_DONE) {
        return failed;
    }
    failed = put_memo(sqlite, &op->memo, err);
    if (failed == 0 && only != NULL && only->is_forgotten) {
        failed = put_memo(sqlite, &(struct memo){.name = only->name}, err);
    }
    return failed;
}

/* The memo after `name`; false: there is none. */
static int read_memo(struct store_sqlite *sqlite, struct span name, struct arena *arena,
                     struct memo *ret_memo, bool *ret_found, struct error *err)
{
    int failed = sqlite_page_begin(sqlite, err);

    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(sqlite->fetch[FETCH_MEMO]);
    query_text(&query, 1, name);
    *ret_found = query_row(&query);
    if (*ret_found) {
        query_span(&query, 0, arena, &ret_memo->name);
        query_span(&query, 1, arena, &ret_memo->value);
        query.code = ret_memo->name.len > STORE_MEMO_NAME_MAX ? SQLITE_CORRUPT : query.code;
    }
    return sqlite_page_end(sqlite, query_end(&query, err), err);
}

int sqlite_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    char last[STORE_MEMO_NAME_MAX];
    struct span after = {.at = last};
    bool found = true;
    int stopped = 0;

    while (stopped == 0 && found) {
        struct arena *arena = arena_new(SIZE_MAX);
        struct memo memo = {0};
        if (arena == NULL) {
            return fail(err, FAULT_MEMORY, "no memory for a memo");
        }
        stopped = read_memo((struct store_sqlite *)store, after, arena, &memo, &found, err);
        if (stopped == 0 && found) {
            after.len = memo.name.len;
            span_copy(last, memo.name);
            stopped = visit(user, &memo);
        }
        arena_free(arena);
    }
    return stopped;
}
