/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_apply -- a batch is one transaction. What it does to the key index is noted and
 * taken back when it fails; results are handed over only after the commit.
 *
 * What a failure means (I7): before COMMIT, certainly nothing happened. COMMIT itself: the log may
 * have been written and only its sync failed, so a restart may find it there: FAULT_UNKNOWN. One
 * exception: SQLITE_FULL says that a page could not be written to the log; the mark that makes a
 * transaction count is on its last page, so it is certain that there is none.
 */
#include "store/rules.h"
#include "store/store_sqlite_internal.h"

#include "base/clock.h"

#define ROOM_EVERY_MS      1000 /* between two looks at the disk */
#define KEY_CHANGES_PER_OP 2

/* --- reading inside the transaction ---------------------------------------------------------- */

/* ret_life->id.row 0: there is none. */
static int read_life(struct store_sqlite *sqlite, int64_t row, struct life_row *ret_life,
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

static int run_on_row(struct store_sqlite *sqlite, enum write_statement which, int64_t row,
                      struct error *err)
{
    struct query query = query_begin(sqlite->write[which]);

    query_int(&query, 1, row);
    return query_run(&query, err);
}

/* Its keeping time is over: the key goes to somebody else, also after a restart. */
static int unbind(struct store_sqlite *sqlite, int64_t row, uint64_t hash, struct error *err)
{
    key_log_remove(&sqlite->key_log, &sqlite->keys, hash, row);
    return run_on_row(sqlite, WRITE_LIFE_UNBIND, row, err);
}

static int insert(struct store_sqlite *sqlite, const struct op *op, uint64_t hash,
                  struct error *err)
{
    struct life_row row = {.id = op->task.id, .life = op->life};
    struct query task = query_begin(sqlite->write[WRITE_TASK_INSERT]);

    query_bind_task(&task, &op->task);
    int failed = query_run(&task, err);
    if (failed != 0) {
        return failed;
    }
    struct query life = query_begin(sqlite->write[WRITE_LIFE_INSERT]);
    query_bind_life(&life, &row);
    query_int(&life, 2, (int64_t)op->task.id.tail);
    query_int(&life, 3, op->task.queue);
    query_int(&life, 4, (int64_t)hash);
    failed = query_run(&life, err);
    if (failed == 0 && hash != 0 &&
        key_log_add(&sqlite->key_log, &sqlite->keys, hash, op->task.id.row) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for another key");
    }
    return failed;
}

/* Who it is and how it is, for the result. */
static void show_found(const struct life_row *row, struct staged *staged)
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
    struct life_row life = {0};
    struct task found;

    int failed = find_key(sqlite, task, hash, &found, err);
    if (failed == 0 && found.id.row != 0) {
        failed = read_life(sqlite, found.id.row, &life, err);
        if (failed != 0) {
            return failed;
        }
        staged->result = rules_key(op, &found, &life.life, &sqlite->keep);
        if (staged->result != RESULT_NONE) {
            show_found(&life, staged);
            return 0;
        }
        failed = unbind(sqlite, found.id.row, hash, err);
    }
    staged->result = RESULT_DONE;
    return failed != 0 ? failed : insert(sqlite, op, hash, err);
}

static int record(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err)
{
    if (op->task.key.len > 0) {
        return record_keyed(sqlite, op, staged, err);
    }
    staged->result = RESULT_DONE;
    return insert(sqlite, op, 0, err);
}

/* --- what is there already ------------------------------------------------------------------- */

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
static int add_outcome(struct store_sqlite *sqlite, const struct op *op, struct life_row *row,
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

static int delete_trail(struct store_sqlite *sqlite, int64_t trail, struct error *err)
{
    int failed = 0;

    while (trail != 0 && failed == 0) {
        struct query query = query_begin(sqlite->write[WRITE_TRAIL_PREVIOUS]);
        query_int(&query, 1, trail);
        int64_t previous = query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        failed = query_end(&query, err);
        failed = failed != 0 ? failed : run_on_row(sqlite, WRITE_TRAIL_DELETE, trail, err);
        trail = previous;
    }
    return failed;
}

static int purge(struct store_sqlite *sqlite, const struct life_row *row, struct error *err)
{
    int64_t id = row->id.row;
    int failed = delete_trail(sqlite, row->trail, err);

    failed = failed != 0 ? failed : run_on_row(sqlite, WRITE_ANSWER_DELETE, id, err);
    failed = failed != 0 ? failed : run_on_row(sqlite, WRITE_TASK_DELETE, id, err);
    failed = failed != 0 ? failed : run_on_row(sqlite, WRITE_LIFE_DELETE, id, err);
    if (failed == 0 && id >= sqlite->base.last_row) { /* else a larger row tells */
        failed = run_on_row(sqlite, WRITE_LAST_ROW, id, err);
    }
    if (failed == 0 && row->key_hash != 0) {
        key_log_remove(&sqlite->key_log, &sqlite->keys, row->key_hash, id);
    }
    return failed;
}

static int read_request(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                        struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_TASK_READ]);

    query_int(&query, 1, op->task.id.row);
    query_int(&query, 2, 1);
    if (query_row(&query)) {
        query_task(&query, op->arena, &staged->task);
    } else if (query.code == SQLITE_OK) {
        query.code = SQLITE_CORRUPT; /* a life without a request */
    }
    return query_end(&query, err);
}

static int change(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err)
{
    struct life_row row;
    int failed = read_life(sqlite, op->task.id.row, &row, err);

    if (failed != 0) {
        return failed;
    }
    if (row.id.row == 0 || !id_matches(op->task.id, row.id)) {
        staged->result = RESULT_MISSING;
        return 0;
    }
    show_found(&row, staged);
    staged->result = rules_apply(op, &row.life);
    staged->life = row.life;
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    if (op->kind == OP_PURGE) {
        return purge(sqlite, &row, err);
    }
    if (op->kind == OP_SETTLE || op->kind == OP_EXPIRE) {
        failed = add_outcome(sqlite, op, &row, err);
    }
    if (failed == 0 && op->kind == OP_LEASE && op->wants_request) {
        failed = read_request(sqlite, op, staged, err);
        staged->task.id = row.id;
    }
    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(sqlite->write[WRITE_LIFE_UPDATE]);
    query_bind_life(&query, &row);
    return query_run(&query, err);
}

/* --- queues ---------------------------------------------------------------------------------- */

static int find_queue(struct store_sqlite *sqlite, struct span name, uint32_t *ret_number,
                      struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_QUEUE_FIND]);

    query_text(&query, 1, name);
    *ret_number = query_row(&query) ? (uint32_t)sqlite3_column_int64(query.statement, 0) : 0;
    return query_end(&query, err);
}

static int write_queue(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                       struct error *err)
{
    uint32_t number = op->queue.number;
    int failed = number == 0 ? find_queue(sqlite, op->queue.name, &number, err) : 0;

    if (failed != 0) {
        return failed;
    }
    struct query query =
        query_begin(sqlite->write[number == 0 ? WRITE_QUEUE_INSERT : WRITE_QUEUE_UPDATE]);
    if (number != 0) {
        query_int(&query, 1, number);
    }
    query_text(&query, 2, op->queue.name);
    query_text(&query, 3, op->queue.settings);
    query_int(&query, 4, op->queue.paused);
    query_int(&query, 5, op->queue.dropped);
    failed = query_run(&query, err);
    if (failed == 0) {
        staged->result = sqlite3_changes(sqlite->writer) > 0 ? RESULT_DONE : RESULT_MISSING;
        staged->queue = number != 0 ? number : (uint32_t)sqlite3_last_insert_rowid(sqlite->writer);
    }
    return failed;
}

/* --- transactions ---------------------------------------------------------------------------- */

/* Reserve before promising: on a disk that is nearly full what has begun can still end, but nothing
 * new begins (I9). */
static int check_room(struct store_sqlite *sqlite, struct error *err)
{
    int64_t now_ms = clock_mono_ms(&clock_real);

    if (now_ms - sqlite->room_asked_ms >= ROOM_EVERY_MS || sqlite->room_asked_ms == 0) {
        sqlite->room_asked_ms = now_ms;
        sqlite->is_short = store_room_bytes(&sqlite->base) < sqlite->reserve_bytes;
    }
    return sqlite->is_short ? fail(err, FAULT_FULL, "the disk is nearly full") : 0;
}

static int apply_one(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                     struct error *err)
{
    int failed = op->kind == OP_RECORD ? check_room(sqlite, err) : 0;

    if (failed != 0) {
        return failed;
    }
    switch (op->kind) {
    case OP_RECORD:
        return record(sqlite, op, staged, err);
    case OP_QUEUE:
        return write_queue(sqlite, op, staged, err);
    case OP_LEASE:
    case OP_SETTLE:
    case OP_CANCEL:
    case OP_RUN:
    case OP_PURGE:
    case OP_EXTEND:
    case OP_EXPIRE:
    case OP_REDRIVE:
    case OP_RESOLVE:
    case OP_IMPORT:
    case OP_MEMO:
    default:
        return change(sqlite, op, staged, err);
    }
}

static int run(struct store_sqlite *sqlite, enum write_statement which, struct error *err)
{
    struct query query = query_begin(sqlite->write[which]);

    return query_run(&query, err);
}

/* A store whose transaction cannot be ended is of no use any more. */
static int roll_back(struct store_sqlite *sqlite, int failed, struct error *err)
{
    if (sqlite3_get_autocommit(sqlite->writer) == 0 && run(sqlite, WRITE_ROLLBACK, NULL) != 0 &&
        sqlite3_get_autocommit(sqlite->writer) == 0) {
        sqlite->is_lost = true;
        return fail(err, FAULT_LOST, "a failed transaction could not be rolled back");
    }
    if (failed == FAULT_CORRUPT) {
        sqlite->is_lost = true;
        if (err != NULL) {
            err->fault = FAULT_LOST; /* the text says what is wrong */
        }
        return FAULT_LOST;
    }
    return failed;
}

static int commit(struct store_sqlite *sqlite, struct error *err)
{
    int failed = run(sqlite, WRITE_COMMIT, err);

    if (failed == 0) {
        return 0;
    }
    if (failed != FAULT_FULL) {
        failed = FAULT_UNKNOWN;
        if (err != NULL) {
            err->fault = FAULT_UNKNOWN;
        }
    }
    return roll_back(sqlite, failed, err);
}

/* Runs the batch up to, and without, its commit. */
static int apply_all(struct store_sqlite *sqlite, struct op *ops[], size_t count, struct error *err)
{
    int failed = run(sqlite, WRITE_BEGIN, err);

    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = apply_one(sqlite, ops[i], stage_at(&sqlite->stage, i), err);
    }
    return failed == 0 ? 0 : roll_back(sqlite, failed, err);
}

int sqlite_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;

    if (sqlite->is_lost) {
        return fail(err, FAULT_LOST, "%s cannot be used any more", sqlite->path);
    }
    if (stage_begin(&sqlite->stage, count) != 0 ||
        key_log_begin(&sqlite->key_log, count * KEY_CHANGES_PER_OP) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch of %zu", count);
    }
    int failed = apply_all(sqlite, ops, count, err);
    failed = failed != 0 ? failed : commit(sqlite, err);
    if (failed != 0) {
        key_log_undo(&sqlite->key_log, &sqlite->keys);
        return failed;
    }
    stage_publish(&sqlite->stage, ops, count);
    store_note_rows(store, ops, count);
    sqlite_wal_after_commit(sqlite);
    return 0;
}

int sqlite_touch(struct store *store, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;

    if (sqlite->is_lost) {
        return fail(err, FAULT_LOST, "%s cannot be used any more", sqlite->path);
    }
    int failed = run(sqlite, WRITE_BEGIN, err);
    if (failed == 0) {
        failed = run(sqlite, WRITE_TOUCH, err);
    }
    return failed != 0 ? roll_back(sqlite, failed, err) : commit(sqlite, err);
}
