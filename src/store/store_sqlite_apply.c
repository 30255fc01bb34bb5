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

#define ROOM_EVERY_MS 1000 /* between two looks at the disk */
/* A settle may free its key and spawn a record that takes one over from another task. */
#define KEY_CHANGES_PER_OP 4

/* --- what is there already ------------------------------------------------------------------- */

static int delete_trail(struct store_sqlite *sqlite, int64_t trail, struct error *err)
{
    int failed = 0;

    while (trail != 0 && failed == 0) {
        struct query query = query_begin(sqlite->write[WRITE_TRAIL_PREVIOUS]);
        query_int(&query, 1, trail);
        int64_t previous = query_row(&query) ? sqlite3_column_int64(query.statement, 0) : 0;
        failed = query_end(&query, err);
        failed = failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_TRAIL_DELETE, trail, err);
        trail = previous;
    }
    return failed;
}

static int purge(struct store_sqlite *sqlite, const struct life_row *row, struct error *err)
{
    int64_t id = row->id.row;
    int failed = delete_trail(sqlite, row->trail, err);

    failed = failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_ANSWER_DELETE, id, err);
    if (failed == 0 && (row->life.flags & LIFE_EDITED) != 0) {
        failed = sqlite_run_on_row(sqlite, WRITE_EDIT_DELETE, id, err);
    }
    failed = failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_TASK_DELETE, id, err);
    failed = failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_LIFE_DELETE, id, err);
    if (failed == 0 && id >= sqlite->base.last_row) { /* else a larger row tells */
        failed = sqlite_run_on_row(sqlite, WRITE_LAST_ROW, id, err);
    }
    if (failed == 0 && row->key_hash != 0) {
        key_log_remove(&sqlite->key_log, &sqlite->keys, row->key_hash, id);
    }
    return failed;
}

/* All but the key. */
static int bury(struct store_sqlite *sqlite, struct life_row *row, struct error *err)
{
    int64_t id = row->id.row;
    int failed = delete_trail(sqlite, row->trail, err);

    failed = failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_ANSWER_DELETE, id, err);
    if (failed == 0 && (row->life.flags & LIFE_EDITED) != 0) {
        failed = sqlite_run_on_row(sqlite, WRITE_EDIT_DELETE, id, err);
    }
    row->trail = 0;
    return failed != 0 ? failed : sqlite_run_on_row(sqlite, WRITE_TASK_BURY, id, err);
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

/* What a person has made of it. */
static int read_edit(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                     struct error *err)
{
    struct query query = query_begin(sqlite->write[WRITE_EDIT_READ]);

    query_int(&query, 1, op->task.id.row);
    query_int(&query, 2, 1);
    if (query_row(&query)) {
        query_edit(&query, op->arena, &staged->edit);
    }
    return query_end(&query, err);
}

/* For a lease that wants to send it. */
static int show_request(struct store_sqlite *sqlite, const struct op *op,
                        const struct life_row *row, struct staged *staged, struct error *err)
{
    int failed = read_request(sqlite, op, staged, err);

    staged->task.id = row->id;
    if (failed == 0 && (row->life.flags & LIFE_EDITED) != 0) {
        failed = read_edit(sqlite, op, staged, err);
    }
    return failed;
}

/* The life has changed: writes it, and what comes with the operation. */
static int write_change(struct store_sqlite *sqlite, const struct op *op, struct life_row *row,
                        struct error *err)
{
    int failed =
        op->kind == OP_BURY ? bury(sqlite, row, err) : sqlite_add_outcome(sqlite, op, row, err);

    if (failed == 0 && op->kind == OP_SETTLE && op->releases_key && row->key_hash != 0) {
        failed = sqlite_unbind(sqlite, row->id.row, row->key_hash, err);
    }
    if (failed != 0) {
        return failed;
    }
    bool is_rare = row->has_rare || life_has_rare(&row->life);
    struct query query =
        query_begin(sqlite->write[is_rare ? WRITE_LIFE_UPDATE_RARE : WRITE_LIFE_UPDATE]);
    query_bind_life(&query, row);
    if (is_rare) {
        query_bind_rare(&query, &row->life);
    }
    return query_run(&query, err);
}

static int change(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                  struct error *err)
{
    struct life_row row;
    int failed = sqlite_read_life(sqlite, op->task.id.row, &row, err);

    if (failed != 0) {
        return failed;
    }
    if (row.id.row == 0 || !id_matches(op->task.id, row.id)) {
        staged->result = RESULT_MISSING;
        return 0;
    }
    sqlite_show_found(&row, staged);
    if (op->kind == OP_REDRIVE && number_set_has(&sqlite->dropped, row.queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    staged->result = rules_apply(op, &row.life);
    staged->life = row.life;
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    if (op->kind == OP_PURGE) {
        return purge(sqlite, &row, err);
    }
    if (op->kind == OP_LEASE && op->wants_request) {
        failed = show_request(sqlite, op, &row, staged, err);
    }
    return failed != 0 ? failed : write_change(sqlite, op, &row, err);
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

static int apply_kind(struct store_sqlite *sqlite, const struct op *op, struct staged *staged,
                      struct error *err)
{
    switch (op->kind) {
    case OP_RECORD:
        return sqlite_record(sqlite, op, staged, err);
    case OP_IMPORT:
        return sqlite_import(sqlite, op, staged, err);
    case OP_QUEUE:
        return sqlite_write_queue(sqlite, op, staged, err);
    case OP_MEMO:
        return sqlite_write_memo(sqlite, op, staged, err);
    case OP_FIND:
        return sqlite_find(sqlite, op, staged, err);
    case OP_LEASE:
    case OP_SETTLE:
    case OP_CANCEL:
    case OP_RUN:
    case OP_PURGE:
    case OP_EXTEND:
    case OP_EXPIRE:
    case OP_REDRIVE:
    case OP_RESOLVE:
    case OP_BURY:
    case OP_REVISE:
    default:
        return change(sqlite, op, staged, err);
    }
}

static int apply_one(struct store_sqlite *sqlite, const struct op *op, size_t index,
                     struct error *err)
{
    struct staged *staged = stage_at(&sqlite->stage, index);
    bool begins = op->kind == OP_RECORD || op->kind == OP_IMPORT;
    int failed = begins ? check_room(sqlite, err) : 0;

    failed = failed != 0 ? failed : apply_kind(sqlite, op, staged, err);
    if (failed != 0 || staged->result != RESULT_DONE) {
        return failed;
    }
    if (op->audit != NULL) {
        failed = sqlite_add_audit(sqlite, op, staged, err);
    }
    if (failed == 0 && op->spawn != NULL) { /* part of an end, so it has room */
        failed = sqlite_record(sqlite, op->spawn, stage_spawn(&sqlite->stage, index), err);
    }
    return failed;
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
        failed = apply_one(sqlite, ops[i], i, err);
    }
    return failed == 0 ? 0 : roll_back(sqlite, failed, err);
}

static int apply_batch(struct store_sqlite *sqlite, struct op *ops[], size_t count,
                       struct error *err)
{
    int failed = sqlite_keys_ensure(sqlite, err);
    if (failed != 0) {
        return failed;
    }
    if (stage_begin(&sqlite->stage, count) != 0 ||
        key_log_begin(&sqlite->key_log, count * KEY_CHANGES_PER_OP) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch of %zu", count);
    }
    failed = apply_all(sqlite, ops, count, err);
    failed = failed != 0 ? failed : commit(sqlite, err);
    if (failed != 0) {
        key_log_undo(&sqlite->key_log, &sqlite->keys);
        sqlite_undo_dropped(sqlite, ops, count);
        return failed;
    }
    stage_publish(&sqlite->stage, ops, count);
    store_note_rows(&sqlite->base, ops, count);
    sqlite_wal_after_commit(sqlite);
    return 0;
}

/* --- a full disk ------------------------------------------------------------------------------- */

/* An end whose answer finds no room is offered again, for there may be room soon. A process that dies
 * meanwhile would repeat it, so it does not wait for ever: then the end is written and the answer is left
 * out (I9). op->mark is when it was first refused. */
static bool is_overdue(const struct store_sqlite *sqlite, struct op *op, int64_t now_ms)
{
    if (op->mark == 0) {
        op->mark = now_ms > 0 ? (uint64_t)now_ms : 1;
    }
    return now_ms - (int64_t)op->mark >= sqlite->omit_after_ms;
}

static bool has_long_end(const struct op *op)
{
    return op->kind == OP_SETTLE && op->is_patient && op->answer != NULL &&
           task_is_settled(op->life.state) && /* else LIFE_OMITTED means something else */
           op->answer->body.len + op->answer->headers.len > 0;
}

static int apply_bare(struct store_sqlite *sqlite, struct op *op, struct error *err)
{
    const struct answer *whole = op->answer;
    const struct answer bare = {.status = whole->status, .settled_by = whole->settled_by};
    const struct task told = op->spawn != NULL ? op->spawn->task : (struct task){0};
    uint32_t flags = op->life.flags;

    op->answer = &bare;
    op->life.flags |= LIFE_OMITTED;
    if (op->spawn != NULL && op->spawn->lean != NULL) {
        op->spawn->task = *op->spawn->lean;
    }
    int failed = apply_batch(sqlite, &op, 1, err);
    op->answer = whole; /* who waits for it may still have it */
    if (failed != 0) {
        op->life.flags = flags;
        if (op->spawn != NULL) {
            op->spawn->task = told;
        }
    }
    return failed;
}

/* Writing a long answer in vain costs as much as writing it: rests for so many times as long. */
#define REST_TIMES  9
#define REST_MAX_MS 5000

static int apply_long_end(struct store_sqlite *sqlite, struct op *op, struct error *err)
{
    int64_t began_ms = clock_mono_ms(&clock_real);
    bool is_again = op->mark != 0;

    if (is_again && began_ms < sqlite->rest_until_ms) {
        return fail(err, FAULT_FULL, "the disk is full");
    }
    int failed = apply_batch(sqlite, &op, 1, err);
    int64_t now_ms = clock_mono_ms(&clock_real);
    if (failed != FAULT_FULL) {
        return failed;
    }
    int64_t rest_ms = REST_TIMES * (now_ms - began_ms);
    sqlite->rest_until_ms = now_ms + (rest_ms < REST_MAX_MS ? rest_ms : REST_MAX_MS);
    return is_overdue(sqlite, op, now_ms) ? apply_bare(sqlite, op, err) : failed;
}

int sqlite_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;

    if (sqlite->is_lost) {
        return fail(err, FAULT_LOST, "%s cannot be used any more", sqlite->path);
    }
    return count == 1 && has_long_end(ops[0]) ? apply_long_end(sqlite, ops[0], err)
                                              : apply_batch(sqlite, ops, count, err);
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
