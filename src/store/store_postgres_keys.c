/* SPDX-License-Identifier: MIT
 *
 * store_postgres_keys -- what a record does to keys (I3). The key is inserted first: of two that want
 * it, on whatever nodes, the second waits for the first's commit, sees whose it is and becomes a
 * duplicate or a conflict. Hashes in order, so that two batches with the same keys do not wait for
 * each other.
 */
#include "store/rules.h"
#include "store/store_postgres_internal.h"

#include <stdlib.h>

void bundle_keys_put_row(struct sheet *sheet, const struct task *task)
{
    sheet_row(sheet);
    sheet_int(sheet, (int32_t)task->queue);
    sheet_bytes(sheet, task->scope);
    sheet_bytes(sheet, task->key);
    sheet_int(sheet, task->id.row);
    sheet_bytes(
        sheet, (struct span){.at = (const char *)task->fingerprint, .len = TASK_FINGERPRINT_BYTES});
}

static int compare(const void *one, const void *other)
{
    int64_t left = ((const struct recording *)one)->op->task.id.row;
    int64_t right = ((const struct recording *)other)->op->task.id.row;

    return left < right ? -1 : left > right;
}

int bundle_keys_ask(struct bundle *bundle, struct recording *records, size_t count)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_KEY_PUT];

    if (count > 1) {
        qsort(records, count, sizeof *records, compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (records[i].op->task.key.len > 0) {
            bundle_keys_put_row(sheet, &records[i].op->task);
        }
    }
    if (sheet->rows == 0) {
        return 0;
    }
    int failed = bundle_step(bundle, STATEMENT_KEY_PUT, sheet);
    return failed != 0 ? failed : bundle_step(bundle, STATEMENT_KEY_FIND, sheet);
}

static struct recording *find(struct recording *records, size_t count, int64_t row)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (records[middle].op->task.id.row < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && records[low].op->task.id.row == row ? &records[low] : NULL;
}

static int read_hash(struct cell cell, int column, struct recording *recording, struct error *err)
{
    struct span hash = cell_span(cell, column);

    if (recording == NULL || hash.len != KEY_HASH_BYTES) {
        return fail(err, FAULT_CORRUPT, "postgres: a key that nobody asked for");
    }
    memcpy(recording->hash, hash.at, KEY_HASH_BYTES);
    return 0;
}

static int read_found(struct cell cell, struct recording *recording, struct error *err)
{
    int failed = read_hash(cell, 1, recording, err);
    struct span fingerprint = cell_span(cell, 2);

    if (failed == 0 && fingerprint.len != TASK_FINGERPRINT_BYTES) {
        failed = fail(err, FAULT_CORRUPT, "postgres: a fingerprint has %zu bytes", fingerprint.len);
    }
    if (failed != 0) {
        return failed;
    }
    memcpy(recording->fingerprint, fingerprint.at, TASK_FINGERPRINT_BYTES);
    recording->is_found = true;
    return cell_life(cell, 3, &recording->bound, err);
}

int bundle_keys_read(struct bundle *bundle, struct recording *records, size_t count,
                     struct error *err)
{
    const PGresult *put = bundle_result(bundle, STATEMENT_KEY_PUT);
    const PGresult *found = bundle_result(bundle, STATEMENT_KEY_FIND);
    int failed = 0;

    for (int i = 0; put != NULL && i < PQntuples(put) && failed == 0; i++) {
        struct cell cell = {put, i};
        struct recording *recording = find(records, count, cell_int(cell, 0));
        failed = read_hash(cell, 1, recording, err);
        if (failed == 0) {
            recording->has_hash = true;
        }
    }
    for (int i = 0; found != NULL && i < PQntuples(found) && failed == 0; i++) {
        struct cell cell = {found, i};
        struct recording *recording = find(records, count, cell_int(cell, 0));
        if (recording == NULL || !recording->has_hash) {
            failed = read_found(cell, recording, err);
        }
    }
    return failed;
}

/* Its keeping time is over: the key goes to somebody else. */
static bool is_over(const struct bundle *bundle, const struct recording *recording)
{
    return recording->is_found && !recording->has_hash && !recording->has_no_queue &&
           rules_key_is_free(recording->op, &recording->bound.life,
                             &bundle->writer->postgres->keep);
}

static void ask_take(struct bundle *bundle, struct sheet *take, const struct recording *recording)
{
    struct sheet *unbind = &bundle->sheets[STATEMENT_LIFE_UNBIND];

    sheet_row(take);
    sheet_bytes(take, (struct span){.at = (const char *)recording->hash, .len = KEY_HASH_BYTES});
    sheet_int(take, recording->bound.id.row);
    sheet_int(take, recording->op->task.id.row);
    sheet_bytes(take, (struct span){.at = (const char *)recording->op->task.fingerprint,
                                    .len = TASK_FINGERPRINT_BYTES});
    sheet_row(unbind);
    sheet_int(unbind, recording->bound.id.row);
}

int bundle_keys_take(struct bundle *bundle, struct recording *records, size_t count,
                     struct error *err)
{
    struct sheet *take = &bundle->sheets[STATEMENT_KEY_TAKE];

    sheet_clear(take);
    for (size_t i = 0; i < count; i++) {
        if (is_over(bundle, &records[i])) {
            ask_take(bundle, take, &records[i]);
        }
    }
    if (take->rows == 0) {
        return 0;
    }
    bundle_clear_steps(bundle);
    if (bundle_step(bundle, STATEMENT_KEY_TAKE, take) != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    int failed = bundle_run(bundle, err);
    if (failed != 0) {
        return failed;
    }
    const PGresult *taken = bundle_result(bundle, STATEMENT_KEY_TAKE);
    for (int i = 0; i < PQntuples(taken); i++) {
        struct recording *recording = find(records, count, cell_int((struct cell){taken, i}, 0));
        if (recording != NULL) {
            recording->has_hash = true;
        }
    }
    return 0;
}
