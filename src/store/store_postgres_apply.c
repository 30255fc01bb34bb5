/* SPDX-License-Identifier: MIT
 *
 * store_postgres_apply -- a batch is one transaction of a few round trips, however many operations:
 *
 *   look    BEGIN; the node's own lock and those of the queues that tasks are brought into; the lives
 *           that operations are about, locked in order of ids; what is due for those who claim; keys
 *           that records want, in order of hashes
 *   decide  rules.c, for each operation: the conditions are written there and nowhere else
 *   write   one statement a kind of row; the batch's own mark; COMMIT
 *
 * What a failure means (I7): an error that the server tells, certainly nothing happened. A connection
 * that is lost before COMMIT was sent: the server rolls back. After it: FAULT_UNKNOWN, until the mark
 * is looked for (store_postgres_doubt.c). A key that another session holds for longer than
 * LOCK_WAIT_MS fails the batch with FAULT_BUSY, a row or a queue with FAULT_HELD, so that the committer
 * goes one by one and only callers who want that wait.
 */
#include "store/rules.h"
#include "store/store_postgres_internal.h"

#include <assert.h>

/* --- looking ----------------------------------------------------------------------------------- */

static bool is_claim(const struct op *op)
{
    return op->kind == OP_LEASE && op->task.id.row == 0;
}

static int add_record(struct bundle *bundle, const struct op *op, struct staged *staged)
{
    if (!bundle_has_room((void **)&bundle->records, &bundle->record_room, bundle->record_count,
                         sizeof *bundle->records)) {
        return FAULT_MEMORY;
    }
    bundle->records[bundle->record_count++] = (struct recording){.op = op, .staged = staged};
    return 0;
}

/* What is to be asked for one operation. */
static int ask_one(struct bundle *bundle, size_t index)
{
    const struct op *op = bundle->ops[index];

    switch (op->kind) {
    case OP_RECORD:
        return add_record(bundle, op, stage_at(&bundle->writer->stage, index));
    case OP_QUEUE:
        return 0;
    case OP_MEMO:
        if (op->only_while != NULL) {
            sheet_row(&bundle->sheets[STATEMENT_MEMO_LOOK]);
            sheet_bytes(&bundle->sheets[STATEMENT_MEMO_LOOK], op->only_while->name);
        }
        return 0;
    case OP_FIND:
        bundle_keys_put_row(&bundle->sheets[STATEMENT_KEY_LOOK], &op->task);
        return 0;
    case OP_IMPORT:
        if (op->task.key.len > 0 && !op->releases_key) {
            bundle_keys_put_row(&bundle->sheets[STATEMENT_KEY_LOOK], &op->task);
        }
        break;
    case OP_LEASE:
        if (is_claim(op)) {
            return 0;
        }
        if (op->wants_request) {
            sheet_row(&bundle->sheets[STATEMENT_REQUESTS]);
            sheet_int(&bundle->sheets[STATEMENT_REQUESTS], op->task.id.row);
        }
        break;
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
        break;
    }
    sheet_row(&bundle->sheets[STATEMENT_LIVES]);
    sheet_int(&bundle->sheets[STATEMENT_LIVES], op->task.id.row);
    return 0;
}

static int step_if_any(struct bundle *bundle, enum statement statement)
{
    struct sheet *sheet = &bundle->sheets[statement];

    return sheet->rows > 0 ? bundle_step(bundle, statement, sheet) : 0;
}

static int read_lives(struct bundle *bundle, struct error *err)
{
    const PGresult *result = bundle_result(bundle, STATEMENT_LIVES);
    int rows = result != NULL ? PQntuples(result) : 0;

    for (int i = 0; i < rows; i++) {
        if (!bundle_has_room((void **)&bundle->lives, &bundle->life_room, bundle->life_count,
                             sizeof *bundle->lives)) {
            return fail(err, FAULT_MEMORY, "no memory for a batch");
        }
        int failed =
            cell_life((struct cell){result, i}, 0, &bundle->lives[bundle->life_count], err);
        if (failed != 0) {
            return failed;
        }
        bundle->life_count++;
    }
    return 0;
}

const struct life_row *bundle_life(const struct bundle *bundle, int64_t row)
{
    size_t low = 0, high = bundle->life_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bundle->lives[middle].id.row < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < bundle->life_count && bundle->lives[low].id.row == row ? &bundle->lives[low]
                                                                        : NULL;
}

static int look(struct bundle *bundle, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; i < bundle->count && failed == 0; i++) {
        failed = bundle_queues_note(bundle, bundle->ops[i]);
    }
    failed = failed != 0 ? failed : bundle_queues_ask(bundle);
    for (size_t i = 0; i < bundle->count && failed == 0; i++) {
        failed = ask_one(bundle, i);
    }
    failed = failed != 0 ? failed : step_if_any(bundle, STATEMENT_LIVES);
    failed = failed != 0 ? failed : step_if_any(bundle, STATEMENT_MEMO_LOOK);
    failed = failed != 0 ? failed : step_if_any(bundle, STATEMENT_REQUESTS);
    failed = failed != 0 ? failed : step_if_any(bundle, STATEMENT_KEY_LOOK);
    failed = failed != 0 ? failed : bundle_keys_ask(bundle, bundle->records, bundle->record_count);
    if (failed != 0) {
        return fail(err, (enum fault)failed, "no memory for a batch");
    }
    failed = bundle_run(bundle, err);
    failed = failed != 0 ? failed : bundle_queues_read(bundle, err);
    failed = failed != 0 ? failed : read_lives(bundle, err);
    failed = failed != 0 ? failed : bundle_queues_redrive(bundle, err);
    return failed != 0 ? failed
                       : bundle_keys_read(bundle, bundle->records, bundle->record_count, err);
}

/* --- deciding ---------------------------------------------------------------------------------- */

/* Who it is and how it is, for the result. */
static void show_found(const struct life_row *row, struct staged *staged)
{
    staged->id = row->id;
    staged->was = row->life.state;
    staged->task_queue = row->queue;
    staged->life = row->life;
}

static int show_request(struct bundle *bundle, const struct op *op, struct staged *staged,
                        struct error *err)
{
    const PGresult *result = bundle_result(bundle, STATEMENT_REQUESTS);

    for (int i = 0; result != NULL && i < PQntuples(result); i++) {
        if (cell_int((struct cell){result, i}, 0) == op->task.id.row) {
            staged->task.id = staged->id;
            return cell_task((struct cell){result, i}, 1, op->arena, &staged->task, err);
        }
    }
    return fail(err, FAULT_CORRUPT, "postgres: a life without a request");
}

bool bundle_is_outlived(const struct bundle *bundle, uint64_t epoch)
{
    return !bundle->is_alive ||
           (epoch >= bundle->writer->postgres->epoch_first && epoch < bundle->epoch);
}

static int change(struct bundle *bundle, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct life_row *row = bundle_life(bundle, op->task.id.row);

    if (row == NULL || !id_matches(op->task.id, row->id)) {
        staged->result = RESULT_MISSING;
        return 0;
    }
    show_found(row, staged);
    if (op->kind == OP_LEASE && bundle_is_outlived(bundle, op->epoch)) {
        staged->result = RESULT_NOT_WAITING;
        return 0;
    }
    if (op->kind == OP_REDRIVE && op->epoch != 0 && bundle_is_outlived(bundle, op->epoch)) {
        staged->result =
            RESULT_STALE; /* it is another node's turn to redrive it, and to count it */
        return 0;
    }
    if (op->kind == OP_REDRIVE && bundle_is_dropped(bundle, row->queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    staged->result = rules_apply(op, &staged->life);
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    int failed = 0;
    if (op->kind == OP_LEASE && op->wants_request) {
        failed = show_request(bundle, op, staged, err);
        if (failed == 0 && row->has_edit) {
            sheet_row(&bundle->sheets[STATEMENT_EDITS]);
            sheet_int(&bundle->sheets[STATEMENT_EDITS], row->id.row);
        }
    }
    if (failed == 0 && bundle_write_change(bundle, op, row, &staged->life) != 0) {
        failed = fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    return failed;
}

/* Runs nobody's lease: it waits instead. */
static void put_back(struct life *life)
{
    life->state = TASK_WAITING;
    life->fence = life->epoch = 0;
    life->attempts = life->attempts_all = 0;
}

static int record(struct bundle *bundle, struct recording *recording, struct error *err)
{
    const struct op *op = recording->op;
    struct staged *staged = recording->staged;
    bool is_keyed = op->task.key.len > 0;

    if (recording->has_no_queue) {
        staged->result = RESULT_NO_QUEUE;
        if (recording->has_hash) { /* it was taken before that was known */
            bundle_write_key_drop(bundle, recording->hash, op->task.id.row);
        }
        return 0;
    }
    if (recording->is_found && !recording->has_hash) {
        struct task bound = {.id = recording->bound.id};
        memcpy(bound.fingerprint, recording->fingerprint, sizeof bound.fingerprint);
        staged->result =
            rules_key(op, &bound, &recording->bound.life, &bundle->writer->postgres->keep);
        show_found(&recording->bound, staged);
        return staged->result != RESULT_NONE
                   ? 0
                   : fail(err, FAULT_BUSY, "the key has gone to somebody else meanwhile");
    }
    if (is_keyed && !recording->has_hash) {
        return fail(err, FAULT_BUSY, "the key is being recorded at this moment");
    }
    staged->result = RESULT_DONE;
    staged->life = op->life;
    if (staged->life.state == TASK_RUNNING && bundle_is_outlived(bundle, op->life.epoch)) {
        put_back(&staged->life);
        staged->has_life = true;
    }
    return bundle_write_record(bundle, op, is_keyed ? recording->hash : NULL, staged) == 0
               ? 0
               : fail(err, FAULT_MEMORY, "no memory for a batch");
}

static int record_all(struct bundle *bundle, struct recording *records, size_t count,
                      struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        records[i].has_no_queue = bundle_is_dropped(bundle, records[i].op->task.queue);
    }
    int failed = bundle_keys_take(bundle, records, count, err);
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = record(bundle, &records[i], err);
    }
    return failed;
}

/* The hash of an import's or a find's key, and whom it belongs to; NULL: it wants none. */
static int find_key(const struct bundle *bundle, const struct op *op,
                    const unsigned char **ret_hash, struct life_row *ret_bound, struct error *err)
{
    const PGresult *keys = bundle_result(bundle, STATEMENT_KEY_LOOK);

    *ret_hash = NULL;
    *ret_bound = (struct life_row){0};
    for (int i = 0; keys != NULL && !op->releases_key && i < PQntuples(keys); i++) {
        struct cell cell = {keys, i};
        if (cell_int(cell, 0) == op->task.id.row) {
            *ret_hash = (const unsigned char *)cell_span(cell, 1).at;
            return cell_is_null(cell, 2) ? 0 : cell_life(cell, 2, ret_bound, err);
        }
    }
    return 0;
}

static void bind_import(struct bundle *bundle, const struct op *op, const unsigned char *hash)
{
    struct sheet *bind = &bundle->sheets[STATEMENT_KEY_BIND];

    sheet_row(bind);
    sheet_bytes(bind, (struct span){.at = (const char *)hash, .len = KEY_HASH_BYTES});
    sheet_int(bind, op->task.id.row);
    sheet_bytes(bind, (struct span){.at = (const char *)op->task.fingerprint,
                                    .len = TASK_FINGERPRINT_BYTES});
}

static int find(const struct bundle *bundle, const struct op *op, struct staged *staged,
                struct error *err)
{
    const unsigned char *hash;
    struct life_row bound;
    int failed = find_key(bundle, op, &hash, &bound, err);

    staged->result = bound.id.row != 0 ? RESULT_DUPLICATE : RESULT_MISSING;
    if (failed == 0 && bound.id.row != 0) {
        show_found(&bound, staged);
    }
    return failed;
}

static int import(struct bundle *bundle, const struct op *op, struct staged *staged,
                  struct error *err)
{
    const struct life_row *there = bundle_life(bundle, op->task.id.row);
    const unsigned char *hash;
    struct life_row bound;
    int failed = find_key(bundle, op, &hash, &bound, err);

    if (failed != 0) {
        return failed;
    }
    if (bundle_is_dropped(bundle, op->task.queue)) {
        staged->result = RESULT_NO_QUEUE;
        return 0;
    }
    if (there != NULL || bound.id.row != 0) {
        staged->result = there != NULL ? RESULT_DUPLICATE : RESULT_CONFLICT;
        show_found(there != NULL ? there : &bound, staged);
        return 0;
    }
    staged->result = RESULT_DONE;
    staged->life = op->life;
    if (op->life.state == TASK_RUNNING && op->life.epoch == 0 &&
        (op->life.flags & LIFE_PULL) == 0) {
        staged->life.epoch = bundle->epoch; /* what it holds is found through its batches */
    }
    if (hash != NULL) {
        bind_import(bundle, op, hash);
    }
    return bundle_write_record(bundle, op, hash, staged) == 0
               ? 0
               : fail(err, FAULT_MEMORY, "no memory for a batch");
}

/* The value of a memo that was asked for; empty: there is none. */
static struct span memo_in(const struct bundle *bundle, struct span name)
{
    const PGresult *result = bundle_result(bundle, STATEMENT_MEMO_LOOK);

    for (int i = 0; result != NULL && i < PQntuples(result); i++) {
        struct cell cell = {result, i};
        if (span_equal(cell_span(cell, 0), name)) {
            return cell_span(cell, 1);
        }
    }
    return SPAN("");
}

static void put_memo(struct bundle *bundle, const struct memo *memo)
{
    bool is_kept = memo->value.len > 0;
    struct sheet *sheet = &bundle->sheets[is_kept ? STATEMENT_MEMO_PUT : STATEMENT_MEMO_DROP];

    sheet_row(sheet);
    sheet_bytes(sheet, memo->name);
    if (is_kept) {
        sheet_bytes(sheet, memo->value);
    }
}

static void write_memo(struct bundle *bundle, const struct op *op, struct staged *staged)
{
    const struct memo_condition *only = op->only_while;

    staged->result = rules_memo(op, only != NULL ? memo_in(bundle, only->name) : SPAN(""));
    if (staged->result != RESULT_DONE) {
        return;
    }
    put_memo(bundle, &op->memo);
    if (only != NULL && only->is_forgotten) {
        put_memo(bundle, &(struct memo){.name = only->name});
    }
}

static int decide(struct bundle *bundle, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; i < bundle->count && failed == 0; i++) {
        const struct op *op = bundle->ops[i];
        struct staged *staged = stage_at(&bundle->writer->stage, i);
        if (op->kind == OP_MEMO) {
            write_memo(bundle, op, staged);
        } else if (op->kind == OP_IMPORT) {
            failed = import(bundle, op, staged, err);
        } else if (op->kind == OP_FIND) {
            failed = find(bundle, op, staged, err);
        } else if (op->kind != OP_RECORD && op->kind != OP_QUEUE && !is_claim(op)) {
            failed = change(bundle, op, staged, err);
        }
    }
    return failed;
}

/* --- what takes a round trip of its own, and is rare --------------------------------------------- */

static int copy_edits(struct bundle *bundle, struct error *err)
{
    const PGresult *result = bundle_result(bundle, STATEMENT_EDITS);

    for (int row = 0; row < PQntuples(result); row++) {
        struct cell cell = {result, row};
        for (size_t i = 0; i < bundle->count; i++) {
            struct staged *staged = stage_at(&bundle->writer->stage, i);
            const struct op *op = bundle->ops[i];
            if (op->kind != OP_LEASE || staged->id.row != cell_int(cell, 0) || !op->wants_request) {
                continue;
            }
            int failed = cell_edit(cell, 1, op->arena, &staged->edit, err);
            if (failed != 0) {
                return failed;
            }
        }
    }
    return 0;
}

static int read_edits(struct bundle *bundle, struct error *err)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_EDITS];

    if (sheet->rows == 0) {
        return 0;
    }
    bundle_clear_steps(bundle);
    if (bundle_step(bundle, STATEMENT_EDITS, sheet) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    int failed = bundle_run(bundle, err);
    return failed != 0 ? failed : copy_edits(bundle, err);
}

/* Records that are born with a settle, now that it is known to be one. */
static int write_spawns(struct bundle *bundle, struct error *err)
{
    struct stage *stage = &bundle->writer->stage;
    size_t before = bundle->record_count;

    for (size_t i = 0; i < bundle->count; i++) {
        const struct op *op = bundle->ops[i];
        bool is_born = op->spawn != NULL && stage_at(stage, i)->result == RESULT_DONE;
        if (is_born && add_record(bundle, op->spawn, stage_spawn(stage, i)) != 0) {
            return fail(err, FAULT_MEMORY, "no memory for a batch");
        }
    }
    size_t count = bundle->record_count - before;
    if (count == 0) {
        return 0;
    }
    bundle_clear_steps(bundle);
    sheet_clear(&bundle->sheets[STATEMENT_KEY_PUT]);
    struct recording *spawns = bundle->records + before;
    if (bundle_keys_ask(bundle, spawns, count) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    int failed = bundle->step_count > 0 ? bundle_run(bundle, err) : 0;
    failed = failed != 0 ? failed : bundle_keys_read(bundle, spawns, count, err);
    return failed != 0 ? failed : record_all(bundle, spawns, count, err);
}

static void write_audits(struct bundle *bundle)
{
    for (size_t i = 0; i < bundle->count; i++) {
        const struct staged *staged = stage_at(&bundle->writer->stage, i);
        if (bundle->ops[i]->audit != NULL && staged->result == RESULT_DONE) {
            bundle_write_audit(bundle, bundle->ops[i], staged);
        }
    }
}

/* --- transactions ------------------------------------------------------------------------------ */

static int run(struct bundle *bundle, struct error *err)
{
    int failed = look(bundle, err);

    failed = failed != 0 ? failed : decide(bundle, err);
    failed = failed != 0 ? failed : record_all(bundle, bundle->records, bundle->record_count, err);
    failed = failed != 0 ? failed : bundle_claim(bundle, err);
    failed = failed != 0 ? failed : bundle_queues_write(bundle, err);
    failed = failed != 0 ? failed : read_edits(bundle, err);
    failed = failed != 0 ? failed : write_spawns(bundle, err);
    if (failed != 0) {
        return failed;
    }
    write_audits(bundle);
    bundle_clear_steps(bundle);
    if (bundle_write_steps(bundle) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    failed = bundle_run(bundle, err);
    return failed == FAULT_UNKNOWN ? doubt_settle(bundle, err) : failed;
}

/* Nobody may hold a transaction open: not even one that has failed here and not at the server. */
static void leave(struct link *link)
{
    if (link_is_up(link) && PQtransactionStatus(link->connection) != PQTRANS_IDLE &&
        link_exec(link, "ROLLBACK", NULL) != 0) {
        link_drop(link);
    }
}

static int try(struct writer *writer, struct op *ops[], size_t count, struct error *err)
{
    if (writer->bundle == NULL) {
        writer->bundle = bundle_new();
    }
    if (writer->bundle == NULL || stage_begin(&writer->stage, count) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    bundle_begin(writer->bundle, writer, ops, count);
    int failed = run(writer->bundle, err);
    bundle_clear_steps(writer->bundle);
    return failed;
}

/* Rows that were free a moment ago may be taken again: then it is for the caller to come again. */
static int try_renewed(struct writer *writer, struct op *ops[], size_t count, struct error *err)
{
    size_t renewed = 0;
    int failed = renew_rows(writer, ops, count, &renewed, err);

    failed = failed != 0 ? failed : renewed == 0 ? FAULT_INPUT : try(writer, ops, count, err);
    return failed == FAULT_INPUT && renewed > 0 && writer->link.is_row_taken
               ? fail(err, FAULT_HELD, "the id was taken by another node at this moment")
               : failed;
}

static int apply(struct writer *writer, struct op *ops[], size_t count, struct error *err)
{
    int failed = try(writer, ops, count, err);

    if (failed == FAULT_IO && !link_is_up(&writer->link)) {
        /* The connection had been lost, or was before the commit: nothing happened. Once more. */
        failed = try(writer, ops, count, err);
    }
    if (failed == FAULT_INPUT && writer->link.is_row_taken) {
        failed = try_renewed(writer, ops, count, err);
    }
    leave(&writer->link);
    if (failed != 0) {
        return failed;
    }
    stage_publish(&writer->stage, ops, count);
    store_note_rows(&writer->postgres->base, ops, count);
    moved_note(writer->postgres, ops, count);
    return 0;
}

/* While it is not known what became of an earlier batch, nothing is applied. */
int writer_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct writer *writer = (struct writer *)store;
    int failed = doubt_look(writer, err);

    return failed != 0 ? failed : apply(writer, ops, count, err);
}
