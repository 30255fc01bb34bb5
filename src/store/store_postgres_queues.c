/* SPDX-License-Identifier: MIT
 *
 * store_postgres_queues -- a queue takes a task or is dropped, never both, for every side: this
 * node, a peer, or a program that calls daruma.enqueue in a transaction of its own.
 *
 *   a batch that brings tasks in   shares the locks of their queues, then reads which are dropped
 *   a drop                         has the queue's lock to itself, then looks whether it is empty
 *
 * Both look with a statement of its own after the lock, so they see what the one before committed. The
 * locks end with the transaction. They travel with the node's own lock, in the round trip that there is
 * anyway.
 */
#include "store/rules.h"
#include "store/store_postgres_internal.h"

#include <assert.h>

static int64_t lock_of(uint32_t queue)
{
    return LOCK_QUEUE + queue % LOCK_QUEUE_COUNT;
}

/* --- bringing tasks in ----------------------------------------------------------------------------- */

int bundle_queues_note(struct bundle *bundle, const struct op *op)
{
    int failed = 0;

    if (op->kind == OP_RECORD || op->kind == OP_IMPORT) {
        failed = number_set_add(&bundle->queues, op->task.queue);
    }
    if (failed == 0 && op->spawn != NULL) {
        failed = number_set_add(&bundle->queues, op->spawn->task.queue);
    }
    return failed;
}

/* Two queues may have the same lock; taking one twice does no harm. */
static void fill_locks(struct sheet *locks, int64_t first, const struct number_set *queues)
{
    int64_t numbers[LOCK_QUEUE_COUNT + 1] = {first};
    bool is_wanted[LOCK_QUEUE_COUNT] = {false};
    size_t count = 1;

    for (size_t i = 0; i < queues->count; i++) {
        is_wanted[queues->at[i] % LOCK_QUEUE_COUNT] = true;
    }
    for (uint32_t i = 0; queues->count > 0 && i < LOCK_QUEUE_COUNT; i++) {
        if (is_wanted[i]) {
            numbers[count++] = lock_of(i);
        }
    }
    sheet_ids(locks, numbers, count);
}

static void fill(struct bundle *bundle, struct sheet *locks, struct sheet *alive)
{
    fill_locks(locks, LOCK_EPOCH + (int64_t)bundle->epoch, &bundle->queues);
    sheet_int(alive, (int64_t)bundle->epoch);
    sheet_ids(alive, bundle->queues.at, bundle->queues.count);
}

int bundle_queues_ask(struct bundle *bundle)
{
    struct sheet *locks = bundle_plain(bundle, STATEMENT_LOCKS_SHARED);
    struct sheet *alive = bundle_plain(bundle, STATEMENT_ALIVE);

    fill(bundle, locks, alive);
    int failed = bundle_step(bundle, STATEMENT_BEGIN, NULL);
    failed = failed != 0 ? failed : bundle_step(bundle, STATEMENT_LOCKS_SHARED, locks);
    return failed != 0 ? failed : bundle_step(bundle, STATEMENT_ALIVE, alive);
}

static int read_alive(struct bundle *bundle, const PGresult *result, struct error *err)
{
    bundle->is_alive = false;
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t number = cell_int((struct cell){result, i}, 0);
        if (number == 0) {
            bundle->is_alive = true;
        } else if (number_set_add(&bundle->dropped, number) != 0) {
            return fail(err, FAULT_MEMORY, "no memory for a batch");
        }
    }
    return 0;
}

int bundle_queues_read(struct bundle *bundle, struct error *err)
{
    return read_alive(bundle, bundle_result(bundle, STATEMENT_ALIVE), err);
}

bool bundle_is_dropped(const struct bundle *bundle, uint32_t queue)
{
    return number_set_has(&bundle->dropped, queue);
}

int bundle_queues_redrive(struct bundle *bundle, struct error *err)
{
    size_t before = bundle->queues.count;
    struct sheet locks = {.is_plain = true}, alive = locks;
    struct step steps[] = {{.statement = STATEMENT_LOCKS_SHARED, .sheet = &locks},
                           {.statement = STATEMENT_ALIVE, .sheet = &alive}};

    for (size_t i = 0; i < bundle->count; i++) {
        const struct op *op = bundle->ops[i];
        const struct life_row *row =
            op->kind == OP_REDRIVE ? bundle_life(bundle, op->task.id.row) : NULL;
        if (row != NULL && number_set_add(&bundle->queues, row->queue) != 0) {
            return fail(err, FAULT_MEMORY, "no memory for a batch");
        }
    }
    if (bundle->queues.count == before) {
        return 0;
    }
    sheet_row(&locks);
    sheet_row(&alive);
    fill(bundle, &locks, &alive);
    int failed = link_run(&bundle->writer->link, steps, 2, err);
    failed = failed != 0 ? failed : read_alive(bundle, steps[1].result, err);
    steps_clear(steps, 2);
    sheet_done(&locks);
    sheet_done(&alive);
    return failed;
}

/* --- dropping, and other changes: rare, so round trips do not count ---------------------------------- */

static enum queue_found found_in(const PGresult *result)
{
    struct cell cell = {result, 0};

    if (PQntuples(result) == 0) {
        return QUEUE_FOUND_NONE;
    }
    if (cell_int(cell, 0) != 0) {
        return QUEUE_FOUND_DROPPED;
    }
    return cell_int(cell, 1) != 0 ? QUEUE_FOUND_OPEN : QUEUE_FOUND;
}

/* No other session changes queues from here on, or brings tasks into one that is to be dropped. */
static int lock_queue(struct bundle *bundle, const struct op *op, enum queue_found *ret_found,
                      struct error *err)
{
    struct sheet *own = bundle_plain(bundle, STATEMENT_QUEUE_LOCK);
    struct sheet *all = bundle_plain(bundle, STATEMENT_LOCK);
    struct sheet *look = bundle_plain(bundle, STATEMENT_QUEUE_LOOK);

    bundle_clear_steps(bundle);
    sheet_int(own, lock_of(op->queue.number));
    sheet_int(all, LOCK_QUEUES);
    sheet_int(look, op->queue.number);
    sheet_int(look, rules_asks_if_open(op));
    int failed = op->queue.dropped ? bundle_step(bundle, STATEMENT_QUEUE_LOCK, own) : 0;
    failed = failed != 0 ? failed : bundle_step(bundle, STATEMENT_LOCK, all);
    failed = failed != 0 ? failed : bundle_step(bundle, STATEMENT_QUEUE_LOOK, look);
    if (failed != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    failed = bundle_run(bundle, err);
    if (failed == 0) {
        *ret_found = found_in(bundle_result(bundle, STATEMENT_QUEUE_LOOK));
    }
    return failed;
}

static int put_queue(struct bundle *bundle, const struct op *op, struct staged *staged,
                     struct error *err)
{
    struct sheet *sheet = bundle_plain(bundle, STATEMENT_QUEUE_PUT);

    bundle_clear_steps(bundle);
    sheet_int(sheet, op->queue.number);
    sheet_bytes(sheet, op->queue.name);
    sheet_bytes(sheet, op->queue.settings);
    sheet_int(sheet, op->queue.paused);
    sheet_int(sheet, op->queue.dropped);
    sheet_int(sheet, op->queue.task_flags);
    sheet_int(sheet, op->keeps);
    if (bundle_step(bundle, STATEMENT_QUEUE_PUT, sheet) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    int failed = bundle_run(bundle, err);
    if (failed == 0) {
        const PGresult *result = bundle_result(bundle, STATEMENT_QUEUE_PUT);
        staged->queue = (uint32_t)cell_int((struct cell){result, 0}, 0);
        staged->is_paused = cell_int((struct cell){result, 0}, 1) != 0;
        staged->version = (uint64_t)cell_int((struct cell){result, 0}, 2);
    }
    return failed;
}

static int write_queue(struct bundle *bundle, const struct op *op, struct staged *staged,
                       struct error *err)
{
    enum queue_found found = QUEUE_FOUND_NONE;
    int failed = lock_queue(bundle, op, &found, err);

    if (failed != 0) {
        return failed;
    }
    staged->queue = op->queue.number;
    staged->result = op->queue.number == 0 ? RESULT_DONE : rules_queue(op, found);
    return staged->result == RESULT_DONE ? put_queue(bundle, op, staged, err) : 0;
}

int bundle_queues_write(struct bundle *bundle, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; i < bundle->count && failed == 0; i++) {
        const struct op *op = bundle->ops[i];
        if (op->kind == OP_QUEUE) {
            assert(!op->queue.dropped || bundle->count == 1); /* see store.h */
            failed = write_queue(bundle, op, stage_at(&bundle->writer->stage, i), err);
        }
    }
    return failed;
}
