/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_wal -- keeping the log short. SQLite's own checkpoint inside a commit is off. After
 * a commit by which the log has grown by STORE_SQLITE_CHECKPOINT, what is in it is copied to the file
 * (PASSIVE: waits for nobody); the next commit then begins the log anew, unless a reader still
 * looks at it. A reader that is always there would let it grow for ever, so past STORE_SQLITE_RESET the gate
 * is closed, the reader's page of some milliseconds is waited for, and the log is reset.
 *
 * Measured with batches of 64, the quiet ones of several runs: checkpoints at 2, 4, 8, 16 and 32 MB
 * leave one commit in a thousand slower than 2, 3, 5, 8 and 14 ms; at 2 and 4 MB they are frequent
 * enough for one in a hundred to be over 2 ms, at 8 MB it is 1 ms. Throughput differed less between
 * sizes than between runs.
 */
#include "store/store_sqlite_internal.h"

#define RESET_BUSY_MS 100 /* for readers of other processes, whom no gate holds */

/* --- the gate -------------------------------------------------------------------------------- */

void sqlite_gate_enter(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->is_closed) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    gate->is_reading = true;
    pthread_mutex_unlock(&gate->lock);
}

void sqlite_gate_leave(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_reading = false;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void close_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_closed = true;
    while (gate->is_reading) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_closed = false;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* --- checkpoints ----------------------------------------------------------------------------- */

/* Called by SQLite after each commit; its being there turns the automatic checkpoint off. */
static int note_size(void *user, sqlite3 *database, const char *name, int pages)
{
    struct store_sqlite *sqlite = user;
    (void)database;
    (void)name;

    sqlite->wal_bytes = (int64_t)pages * FILE_PAGE_BYTES;
    if (sqlite->wal_bytes < sqlite->wal_checked_bytes) {
        sqlite->wal_checked_bytes = 0; /* it began anew */
    }
    return SQLITE_OK;
}

int sqlite_wal_init(struct store_sqlite *sqlite, struct error *err)
{
    if (pthread_mutex_init(&sqlite->gate.lock, NULL) != 0) {
        return fail(err, FAULT_SYSTEM, "no lock could be made");
    }
    if (pthread_cond_init(&sqlite->gate.changed, NULL) != 0) {
        pthread_mutex_destroy(&sqlite->gate.lock);
        return fail(err, FAULT_SYSTEM, "no lock could be made");
    }
    sqlite->has_gate = true;
    if (sqlite->writer != NULL) {
        (void)sqlite3_wal_hook(sqlite->writer, note_size, sqlite); /* gives back the one before */
    }
    return 0;
}

void sqlite_wal_done(struct store_sqlite *sqlite)
{
    if (sqlite->has_gate) {
        pthread_cond_destroy(&sqlite->gate.changed);
        pthread_mutex_destroy(&sqlite->gate.lock);
        sqlite->has_gate = false;
    }
}

void sqlite_wal_after_commit(struct store_sqlite *sqlite)
{
    if (sqlite->wal_bytes - sqlite->wal_checked_bytes < sqlite->checkpoint_bytes) {
        return;
    }
    sqlite->wal_checked_bytes = sqlite->wal_bytes;
    /* One that fails is no loss: all is in the log, and the next one does its work. */
    if (sqlite->wal_bytes < sqlite->reset_bytes) {
        (void)sqlite3_wal_checkpoint_v2(sqlite->writer, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                                        NULL);
        return;
    }
    close_gate(&sqlite->gate);
    (void)sqlite3_busy_timeout(sqlite->writer, RESET_BUSY_MS);
    (void)sqlite3_wal_checkpoint_v2(sqlite->writer, NULL, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
    (void)sqlite3_busy_timeout(sqlite->writer, WRITER_BUSY_MS);
    open_gate(&sqlite->gate);
}
