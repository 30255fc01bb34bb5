/* SPDX-License-Identifier: MIT
 *
 * store_postgres_doubt -- a commit whose answer was lost (I7). Each batch leaves a mark in the table
 * `batch`, so once there is a server again, the mark says whether the batch is there. That is true on
 * a replica that has taken over as well, where a transaction's number would not be: there it may be
 * somebody else's.
 *
 *   lost during COMMIT --> wait for the server --> lock the epoch (its batches hold it until they
 *   end, so nothing of ours is still being committed) --> look for the mark --> write and commit
 *   something (after which what was found is as safe as that commit) --> there | not there
 *
 * Until that is known, nothing else is applied. The results of the batch are kept for the committer,
 * which asks for them by operation (store_recall).
 */
#include "store/store_postgres_internal.h"

#include "base/clock.h"

#include <stdlib.h>
#include <time.h>

#define MARK_BITS  20 /* of a mark: the place in the batch; above: the batch */
#define LOOK_STEPS 5
#define PAUSE_MS   20

static void forget(struct doubt *doubt)
{
    stage_done(&doubt->stage);
    *doubt = (struct doubt){0};
}

static struct doubt *keep(struct bundle *bundle)
{
    struct writer *writer = bundle->writer;
    struct doubt *doubt = &writer->doubts[writer->doubt_next++ % DOUBTS_MAX];

    forget(doubt);
    doubt->number = writer->batch_number;
    doubt->epoch = bundle->epoch;
    doubt->stage = writer->stage; /* taken, not copied: there may be no memory at such a moment */
    doubt->count = bundle->count;
    writer->stage = (struct stage){0};
    for (size_t i = 0; i < bundle->count; i++) {
        bundle->ops[i]->mark = (uint64_t)doubt->number << MARK_BITS | i;
    }
    return doubt;
}

/* --- looking it up ------------------------------------------------------------------------------- */

static int look(struct writer *writer, struct doubt *doubt, struct error *err)
{
    struct sheet lock = {.is_plain = true}, find = {.is_plain = true}, mark = {.is_plain = true};
    struct step steps[LOOK_STEPS] = {{.statement = STATEMENT_BEGIN},
                                     {.statement = STATEMENT_LOCK, .sheet = &lock},
                                     {.statement = STATEMENT_BATCH_FIND, .sheet = &find},
                                     {.statement = STATEMENT_BATCH_PUT, .sheet = &mark},
                                     {.statement = STATEMENT_COMMIT}};

    sheet_row(&lock);
    sheet_int(&lock, LOCK_EPOCH + (int64_t)doubt->epoch);
    sheet_row(&find);
    sheet_int(&find, (int64_t)doubt->epoch);
    sheet_int(&find, doubt->number);
    sheet_row(&mark);
    sheet_int(&mark, (int64_t)doubt->epoch);
    sheet_int(&mark, ++writer->batch_number);
    sheet_ids(&mark, NULL, 0);
    int failed = link_run(&writer->link, steps, LOOK_STEPS, err);
    if (failed == 0) {
        doubt->is_known = true;
        doubt->is_committed = PQntuples(steps[2].result) > 0;
    }
    steps_clear(steps, LOOK_STEPS);
    sheet_done(&lock);
    sheet_done(&find);
    sheet_done(&mark);
    return failed == FAULT_UNKNOWN ? FAULT_IO : failed; /* this one changes nothing */
}

/* Batches up to here need no mark any more. */
static void note_answered(struct writer *writer)
{
    int64_t known = writer->batch_number;

    for (size_t i = 0; i < DOUBTS_MAX; i++) {
        const struct doubt *doubt = &writer->doubts[i];
        if (doubt->number != 0 && !doubt->is_known && doubt->number <= known) {
            known = doubt->number - 1;
        }
    }
    __atomic_store_n(&writer->answered_number, known, __ATOMIC_RELEASE);
}

int doubt_look(struct writer *writer, struct error *err)
{
    for (size_t i = 0; i < DOUBTS_MAX; i++) {
        struct doubt *doubt = &writer->doubts[i];
        if (doubt->number != 0 && !doubt->is_known) {
            int failed = look(writer, doubt, err);
            if (failed != 0) {
                return failed;
            }
        }
    }
    note_answered(writer);
    return 0;
}

int doubt_settle(struct bundle *bundle, struct error *err)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    struct writer *writer = bundle->writer;
    struct doubt *doubt = keep(bundle);
    int64_t until_ms = clock_mono_ms(&clock_real) + LOOKUP_WAIT_MS;

    while (!doubt->is_known && clock_mono_ms(&clock_real) < until_ms) {
        if (doubt_look(writer, NULL) != 0) {
            (void)nanosleep(&pause, NULL); /* cut short by a signal: looked at once more */
        }
    }
    if (!doubt->is_known) {
        return FAULT_UNKNOWN; /* err says why */
    }
    stage_done(&writer->stage);
    writer->stage = doubt->stage; /* the batch goes on with its results, or without them */
    doubt->stage = (struct stage){0};
    doubt->count = 0;
    if (doubt->is_committed) {
        return 0;
    }
    return fail(err, FAULT_IO, "the connection to the server was lost; nothing was written");
}

bool doubt_publish(struct writer *writer, struct op *op)
{
    size_t index = op->mark & ((UINT64_C(1) << MARK_BITS) - 1);

    for (size_t i = 0; i < DOUBTS_MAX; i++) {
        const struct doubt *doubt = &writer->doubts[i];
        if (doubt->number != 0 && (uint64_t)doubt->number == op->mark >> MARK_BITS &&
            doubt->is_committed && index < doubt->count) {
            const struct stage *stage = &doubt->stage;
            struct staged both[] = {stage->items[index], stage->items[stage->room + index]};
            const struct stage one = {.items = both, .room = 1};
            stage_publish(&one, &op, 1);
            return true;
        }
    }
    return false;
}

void doubt_done(struct writer *writer)
{
    for (size_t i = 0; i < DOUBTS_MAX; i++) {
        forget(&writer->doubts[i]);
    }
}
