/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_record -- how a task comes into the file: recorded, or taken over whole from another
 * store; and what an operation leaves behind beside the life: attempts, an answer, an edit. All of it
 * inside the transaction of store_sqlite_apply.c.
 */
#include "store/rules.h"
#include "store/store_sqlite_internal.h"

/* --- reading inside the transaction ---------------------------------------------------------- */

int sqlite_read_life(struct store_sqlite *sqlite, int64_t row, struct life_row *ret_life,
                     struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_LIFE_READ]);

    *ret_life = (struct life_row){0};
    query_int(&query, 1, row);
    if (query_row(&query)) {
        query_life(&query, ret_life);
    }
    return query_end(&query, err);
}

static bool column_is(const struct query *query, int column, struct span wanted)
{
    const char *at = sqlite3_column_blob(query->statement, column);
    int len = sqlite3_column_bytes(query->statement, column);

    return span_equal((struct span){.at = at, .len = (size_t)len}, wanted);
}

/* Is this row's task the one with the key? Then *ret_fingerprint is its own. */
static int compare_key(struct store_sqlite *sqlite, int64_t row, const struct task *task,
                       struct task *ret_found, struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_TASK_KEY]);

    query_int(&query, 1, row);
    if (query_row(&query)) {
        const void *fingerprint = sqlite3_column_blob(query.statement, 3);
        int len = sqlite3_column_bytes(query.statement, 3);
        bool is_same = sqlite3_column_int64(query.statement, 0) == task->queue &&
                       column_is(&query, 1, task->scope) && column_is(&query, 2, task->key);
        if (len != TASK_FINGERPRINT_BYTES) {
            query.code = SQLITE_CORRUPT;
        } else if (is_same) {
            ret_found->id.row = row;
            memcpy(ret_found->fingerprint, fingerprint, TASK_FINGERPRINT_BYTES);
        }
    }
    return query_end(&query, err);
}

/* The task that the key is bound to; ret_found->id.row 0: none. */
static int find_key(struct store_sqlite *sqlite, const struct task *task, uint64_t hash,
                    struct task *ret_found, struct error *err)
{
    struct key_cursor cursor = {.hash = hash};
    int failed = 0;
    int64_t row;

    *ret_found = (struct task){0};
    while (failed == 0 && ret_found->id.row == 0 &&
           (row = key_index_next(&sqlite->keys, &cursor)) != 0) {
        failed = compare_key(sqlite, row, task, ret_found, err);
    }
    return failed;
}

/* --- record ---------------------------------------------------------------------------------- */

int sqlite_run_on_row(struct store_sqlite *sqlite, enum write_statement which, int64_t row,
                      struct error *err)
{
    struct query query = query_begin(sqlite->write[which]);

    query_int(&query, 1, row);
    return query_run(&query, err);
}

int sqlite_unbind(struct store_sqlite *sqlite, int64_t row, uint64_t hash, struct error *err)
{
    key_log_remove(&sqlite->key_log, &sqlite->keys, hash, row);
    return sqlite_run_on_row(sqlite, WRITE_LIFE_UNBIND, row, err);
}

/* The request and its life; row->key_hash 0: it has no key, or does not hold it. */
static int insert(struct store_sqlite *sqlite, const struct op *op, const struct life_row *row,
                  struct error *err)
{
    struct query task = query_begin(sqlite->write[WRITE_TASK_INSERT]);

    query_bind_task(&task, &op->task);
    int failed = query_run(&task, err);
    if (failed != 0) {
        return failed;
    }
    struct query life = query_begin(sqlite->write[WRITE_LIFE_INSERT]);
    query_bind_life(&life, row);
    query_bind_rare(&life, &row->life);
    query_int(&life, 2, (int64_t)row->id.tail);
    query_int(&life, 3, op->task.queue);
    query_int(&life, 4, (int64_t)row->key_hash);
    failed = query_run(&life, err);
    if (failed == 0 && row->key_hash != 0 &&
        key_log_add(&sqlite->key_log, &sqlite->keys, row->key_hash, row->id.row) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for another key");
    }
    return failed;
}

void sqlite_show_found(const struct life_row *row, struct staged *staged)
{
    staged->id = row->id;
    staged->was = row->life.state;
    staged->task_queue = row->queue;
    staged->life = row->life;
}

static int record_keyed(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                        struct error *err)
{
    const struct task *task = &op->task;
    uint64_t hash = key_index_hash(&sqlite->keys, task->queue, task->scope, task->key);
    const struct life_row born = {.id = task->id, .life = op->life, .key_hash = hash};
    struct life_row life = {0};
    struct task found;

    int failed = find_key(sqlite, task, hash, &found, err);
    if (failed == 0 && found.id.row != 0) {
        failed = sqlite_read_life(sqlite, found.id.row, &life, err);
        if (failed != 0) {
            return failed;
        }
        staged->result = rules_key(op, &found, &life.life, &sqlite->keep);
        if (staged->result != RESULT_NONE) {
            sqlite_show_found(&life, staged);
            return 0;
        }
        failed = sqlite_unbind(sqlite, found.id.row, hash, err);
    }
    staged->result = RESULT_DONE;
    return failed != 0 ? failed : insert(sqlite, op, &born, err);
}

int sqlite_find(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                struct error *err)
{
    const struct task *task = &op->task;
    uint64_t hash = key_index_hash(&sqlite->keys, task->queue, task->scope, task->key);
    struct life_row life = {0};
    struct task found;

    int failed = find_key(sqlite, task, hash, &found, err);
    if (failed == 0 && found.id.row != 0) {
        failed = sqlite_read_life(sqlite, found.id.row, &life, err);
        sqlite_show_found(&life, staged);
    }
    staged->result = found.id.row != 0 ? RESULT_DUPLICATE : RESULT_MISSING;
    return failed;
}

int sqlite_record(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct life_row born = {.id = op->task.id, .life = op->life};

    if (number_set_has(&sqlite->dropped, op->task.queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    if (op->task.key.len > 0) {
        return record_keyed(sqlite, op, staged, err);
    }
    staged->result = RESULT_DONE;
    return insert(sqlite, op, &born, err);
}

/* --- what an operation leaves behind ----------------------------------------------------------- */

static int add_trail(struct store_sqlite *sqlite, const struct op *op,
                     const struct trail_row *trail, struct life_row *row, struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_TRAIL_INSERT]);

    query_int(&query, 1, op->task.id.row);
    query_int(&query, 2, row->trail);
    query_bind_trail(&query, 3, trail);
    int failed = query_run(&query, err);
    if (failed == 0) {
        row->trail = sqlite3_last_insert_rowid(sqlite->writer);
    }
    return failed;
}

static int put_answer(struct store_sqlite *sqlite, const struct op *op,
                      const struct trail_row *trail, struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_ANSWER_PUT]);

    query_int(&query, 1, op->task.id.row);
    query_int(&query, 2, op->answer->status);
    query_bind_trail(&query, 3, trail);
    query_text(&query, 13, op->answer->settled_by);
    query_text(&query, 14, op->answer->headers);
    query_blob(&query, 15, op->answer->body);
    return query_run(&query, err);
}

/* The attempt that succeeds is the last there will ever be (I4), so it may stand beside its answer:
 * a request that works at once writes no row to the trail. */
static int add_end(struct store_sqlite *sqlite, const struct op *op, struct life_row *row,
                   struct error *err)
{
    bool is_last = op->answer != NULL && row->life.state == TASK_SUCCEEDED && op->trail_count > 0;
    size_t count = op->trail_count - is_last;
    int failed = 0;

    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = add_trail(sqlite, op, &op->trail[i], row, err);
    }
    if (failed == 0 && op->answer != NULL) {
        failed = put_answer(sqlite, op, is_last ? &op->trail[count] : NULL, err);
    }
    return failed;
}

int sqlite_add_outcome(struct store_sqlite *sqlite, const struct op *op, struct life_row *row,
                       struct error *err)
{
    int failed = rules_brings_outcome(op->kind) ? add_end(sqlite, op, row, err) : 0;

    if (failed == 0 && rules_brings_edit(op->kind) && op->edit != NULL) {
        struct query query = query_begin(sqlite->write[WRITE_EDIT_PUT]);
        query_bind_edit(&query, op->task.id.row, op->edit);
        failed = query_run(&query, err);
    }
    return failed;
}

/* --- import ---------------------------------------------------------------------------------- */

/* Who stands in the way: the task in the same row, or the one that has the key. */
static int find_rival(struct store_sqlite *sqlite, const struct op *op, uint64_t hash,
                      struct staged *staged, struct error *err)
{
    struct life_row rival = {0};
    struct task bound = {0};

    int failed = sqlite_read_life(sqlite, op->task.id.row, &rival, err);
    if (failed == 0 && rival.id.row == 0 && hash != 0) {
        failed = find_key(sqlite, &op->task, hash, &bound, err);
    }
    if (failed == 0 && bound.id.row != 0) {
        failed = sqlite_read_life(sqlite, bound.id.row, &rival, err);
    }
    if (failed == 0 && rival.id.row != 0) {
        staged->result = bound.id.row != 0 ? RESULT_CONFLICT : RESULT_DUPLICATE;
        sqlite_show_found(&rival, staged);
    }
    return failed;
}

int sqlite_import(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct task *task = &op->task;
    bool binds = task->key.len > 0 && !op->releases_key;
    struct life_row row = {.id = task->id, .life = op->life};

    if (binds) {
        row.key_hash = key_index_hash(&sqlite->keys, task->queue, task->scope, task->key);
    }
    row.life.flags |= op->edit != NULL ? LIFE_EDITED : 0;
    if (number_set_has(&sqlite->dropped, task->queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    int failed = find_rival(sqlite, op, row.key_hash, staged, err);
    if (failed != 0 || staged->result != RESULT_NONE) {
        return failed;
    }
    staged->result = RESULT_DONE;
    failed = sqlite_add_outcome(sqlite, op, &row, err);
    return failed != 0 ? failed : insert(sqlite, op, &row, err);
}
