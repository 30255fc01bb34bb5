/* SPDX-License-Identifier: MIT
 *
 * store_postgres_write -- what operations leave behind, gathered kind by kind while a batch is
 * decided, and sent in one go with its commit. `ready` follows the life here and nowhere else: a row
 * in it is exactly a life that waits for a moment.
 */
#include "store/store_postgres_internal.h"

#include "base/clock.h"

int postgres_lane(const struct life *life)
{
    bool is_pull = (life->flags & LIFE_PULL) != 0;

    if (life->state == TASK_RUNNING) {
        return is_pull ? LANE_LEASED : LANE_NONE;
    }
    if (life->state == TASK_UNSETTLED) {
        return life->probe_due_ms != 0 ? LANE_PROBED : LANE_NONE;
    }
    if (life->state != TASK_WAITING) {
        return LANE_NONE;
    }
    if ((life->flags & LIFE_FORCED) != 0) {
        return is_pull ? LANE_PULL_FORCED : LANE_FORCED;
    }
    if (is_pull) {
        return LANE_PULL;
    }
    return (life->flags & LIFE_LOW) != 0 ? LANE_LOW : LANE_DUE;
}

/* The moment that it waits for. */
static int64_t moment_of(const struct life *life)
{
    return life->state == TASK_UNSETTLED ? life->probe_due_ms : life->due_at_ms;
}

static void put_ready(struct bundle *bundle, enum statement statement, uint32_t queue,
                      const struct life *life, int64_t row)
{
    struct sheet *sheet = &bundle->sheets[statement];

    sheet_row(sheet);
    sheet_int(sheet, (int32_t)queue);
    sheet_int(sheet, postgres_lane(life));
    sheet_int(sheet, moment_of(life));
    sheet_int(sheet, row);
}

static bool is_due_now(const struct op *op, const struct life *life)
{
    return life->state == TASK_WAITING && life->due_at_ms <= op->now_ms;
}

/* --- what is left of an attempt ---------------------------------------------------------------- */

static void put_trail(struct bundle *bundle, struct life_row *row, const struct trail_row *trail)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_TRAIL_PUT];

    sheet_row(sheet);
    sheet_int(sheet, row->id.row);
    sheet_int(sheet, (int32_t)row->trail_count++);
    sheet_trail(sheet, trail);
}

static void put_answer(struct bundle *bundle, struct life_row *row, const struct answer *answer,
                       const struct trail_row *trail)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_ANSWER_PUT];

    sheet_row(sheet);
    sheet_int(sheet, row->id.row);
    sheet_int(sheet, answer->status);
    sheet_bytes(sheet, answer->settled_by);
    sheet_bytes(sheet, answer->headers);
    sheet_bytes(sheet, answer->body);
    sheet_trail(sheet, trail);
    row->has_answer = true;
}

static void put_edit(struct bundle *bundle, struct life_row *row, const struct edit *edit)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_EDIT_PUT];

    sheet_row(sheet);
    sheet_int(sheet, row->id.row);
    sheet_int(sheet, edit->parts);
    sheet_int(sheet, (int32_t)edit->round);
    sheet_bytes(sheet, edit->target);
    sheet_bytes(sheet, edit->headers);
    sheet_bytes(sheet, edit->body);
    sheet_bytes(sheet, edit->note);
    row->has_edit = true;
}

/* The attempt that succeeds is the last there will ever be (I4), so it may stand beside its answer:
 * a request that works at once writes no row to the trail. */
static void put_outcome(struct bundle *bundle, const struct op *op, struct life_row *row)
{
    bool is_last = op->answer != NULL && row->life.state == TASK_SUCCEEDED && op->trail_count > 0;
    size_t count = op->trail_count - is_last;

    for (size_t i = 0; i < count; i++) {
        put_trail(bundle, row, &op->trail[i]);
    }
    if (op->answer != NULL) {
        put_answer(bundle, row, op->answer, is_last ? &op->trail[count] : NULL);
    }
    if (op->edit != NULL) {
        put_edit(bundle, row, op->edit);
    }
}

/* --- tasks --------------------------------------------------------------------------------------- */

int bundle_write_record(struct bundle *bundle, const struct op *op, const unsigned char *hash,
                        struct staged *staged)
{
    struct life_row row = {
        .id = op->task.id, .queue = op->task.queue, .is_bound = hash != NULL, .life = staged->life};

    if (hash != NULL) {
        memcpy(row.key_hash, hash, KEY_HASH_BYTES);
    }
    if (op->kind == OP_IMPORT) {
        put_outcome(bundle, op, &row);
    }
    sheet_task(&bundle->sheets[STATEMENT_TASK_PUT], &op->task);
    sheet_life(&bundle->sheets[STATEMENT_LIFE_PUT], &row);
    if (postgres_lane(&row.life) != LANE_NONE) {
        put_ready(bundle, STATEMENT_READY_PUT, row.queue, &row.life, row.id.row);
        bundle->has_due_now = bundle->has_due_now || is_due_now(op, &row.life);
    }
    bool is_held = row.life.state == TASK_RUNNING && (row.life.flags & LIFE_PULL) == 0;
    return is_held ? bundle_write_hold(bundle, row.id.row) : 0;
}

void bundle_write_key_drop(struct bundle *bundle, const unsigned char *hash, int64_t row)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_KEY_DROP];

    sheet_row(sheet);
    sheet_bytes(sheet, (struct span){.at = (const char *)hash, .len = KEY_HASH_BYTES});
    sheet_int(sheet, row);
}

static void drop_by_id(struct bundle *bundle, enum statement statement, int64_t row)
{
    sheet_row(&bundle->sheets[statement]);
    sheet_int(&bundle->sheets[statement], row);
}

/* The request and the answer go with their partition: see drop_partitions. */
static void purge(struct bundle *bundle, const struct life_row *row)
{
    drop_by_id(bundle, STATEMENT_LIFE_DROP, row->id.row);
    if (row->is_bound) {
        bundle_write_key_drop(bundle, row->key_hash, row->id.row);
    }
    if (row->trail_count > 0) {
        drop_by_id(bundle, STATEMENT_TRAIL_DROP, row->id.row);
    }
    if (row->has_edit) {
        drop_by_id(bundle, STATEMENT_EDIT_DROP, row->id.row);
    }
    bundle->purged_row = row->id.row > bundle->purged_row ? row->id.row : bundle->purged_row;
}

/* All but the key. */
static void bury(struct bundle *bundle, struct life_row *row)
{
    drop_by_id(bundle, STATEMENT_TASK_BURY, row->id.row);
    drop_by_id(bundle, STATEMENT_ANSWER_DROP, row->id.row);
    if (row->trail_count > 0) {
        drop_by_id(bundle, STATEMENT_TRAIL_DROP, row->id.row);
    }
    if (row->has_edit) {
        drop_by_id(bundle, STATEMENT_EDIT_DROP, row->id.row);
    }
    row->trail_count = 0;
    row->has_answer = row->has_edit = false;
}

int bundle_write_change(struct bundle *bundle, const struct op *op, const struct life_row *was,
                        const struct life *life)
{
    struct life_row row = *was;
    int before = postgres_lane(&was->life);
    int after = op->kind == OP_PURGE ? LANE_NONE : postgres_lane(life);

    bool is_moved = before != after || moment_of(&was->life) != moment_of(life);

    row.life = *life;
    if (before != LANE_NONE && is_moved) {
        put_ready(bundle, STATEMENT_READY_DROP, was->queue, &was->life, was->id.row);
    }
    if (after != LANE_NONE && is_moved) {
        put_ready(bundle, STATEMENT_READY_PUT, was->queue, life, was->id.row);
        bundle->has_due_now = bundle->has_due_now || is_due_now(op, life);
    }
    if (op->kind == OP_PURGE) {
        purge(bundle, was);
        return 0;
    }
    if (op->releases_key && was->is_bound) {
        bundle_write_key_drop(bundle, was->key_hash, was->id.row);
        row.is_bound = false;
    }
    if (op->kind == OP_BURY) {
        bury(bundle, &row);
    } else {
        put_outcome(bundle, op, &row);
    }
    sheet_life(&bundle->sheets[STATEMENT_LIFE_SET], &row);
    bool is_held = op->kind == OP_LEASE && op->lease_until_ms == 0;
    return is_held ? bundle_write_hold(bundle, row.id.row) : 0;
}

/* --- acts -------------------------------------------------------------------------------------- */

void bundle_write_audit(struct bundle *bundle, const struct op *op, const struct staged *staged)
{
    const struct audit_row *audit = op->audit;
    struct sheet *sheet = &bundle->sheets[STATEMENT_AUDIT_PUT];
    bool is_task = staged->id.row != 0;
    struct task_id id = is_task ? staged->id : audit->task;
    int to_state = op->kind == OP_PURGE ? -1 : (int)staged->life.state;

    sheet_row(sheet);
    sheet_int(sheet, audit->at_ms);
    sheet_bytes(sheet, audit->who);
    sheet_bytes(sheet, audit->act);
    sheet_int(sheet, id.row);
    sheet_int(sheet, (int64_t)id.tail);
    sheet_bytes(sheet, audit->subject);
    sheet_int(sheet, is_task ? (int)staged->was : audit->from_state);
    sheet_int(sheet, is_task ? to_state : audit->to_state);
    sheet_bytes(sheet, audit->note);
}

static int audit_steps(struct bundle *bundle)
{
    struct sheet *sheet = &bundle->sheets[STATEMENT_AUDIT_PUT];
    struct sheet *lock = bundle_plain(bundle, STATEMENT_LOCK);
    struct sheet *trim = bundle_plain(bundle, STATEMENT_AUDIT_TRIM);

    if (sheet->rows == 0) {
        return 0;
    }
    sheet_int(lock, LOCK_AUDIT); /* so that numbers grow in the order of commits */
    sheet_int(trim, STORE_AUDIT_KEPT);
    int failed = bundle_step(bundle, STATEMENT_LOCK, lock);
    failed = failed != 0 ? failed : bundle_step(bundle, STATEMENT_AUDIT_PUT, sheet);
    return failed != 0 ? failed : bundle_step(bundle, STATEMENT_AUDIT_TRIM, trim);
}

/* --- the steps ----------------------------------------------------------------------------------- */

/* Proof that this batch is there, and what it has leased. */
static int mark_steps(struct bundle *bundle)
{
    struct writer *writer = bundle->writer;
    int64_t last_row = __atomic_load_n(&writer->postgres->base.last_row, __ATOMIC_RELAXED);
    struct sheet *mark = bundle_plain(bundle, STATEMENT_BATCH_PUT);
    struct sheet *last = bundle_plain(bundle, STATEMENT_LAST_ROW);
    int failed = 0;

    if (bundle->purged_row >= last_row && bundle->purged_row > 0) {
        sheet_int(last, bundle->purged_row); /* else a larger row tells */
        failed = bundle_step(bundle, STATEMENT_LAST_ROW, last);
    }
    sheet_int(mark, (int64_t)bundle->epoch);
    sheet_int(mark, ++writer->batch_number);
    sheet_ids(mark, bundle->held, bundle->held_count);
    return failed != 0 ? failed : bundle_step(bundle, STATEMENT_BATCH_PUT, mark);
}

/* A word to the others costs the server a good deal: seldom, and only when there are others. */
static int notify_steps(struct bundle *bundle)
{
    struct store_postgres *postgres = bundle->writer->postgres;
    int64_t now_ms = clock_mono_ms(&clock_real);

    if (!bundle->has_due_now || __atomic_load_n(&postgres->peers, __ATOMIC_RELAXED) == 0 ||
        now_ms - __atomic_load_n(&postgres->notified_at_ms, __ATOMIC_RELAXED) < NOTIFY_EVERY_MS) {
        return 0;
    }
    __atomic_store_n(&postgres->notified_at_ms, now_ms, __ATOMIC_RELAXED);
    return bundle_step(bundle, STATEMENT_NOTIFY, NULL);
}

int bundle_write_steps(struct bundle *bundle)
{
    static const enum statement order[] = {
        STATEMENT_LIFE_UNBIND, STATEMENT_TASK_PUT,   STATEMENT_LIFE_PUT,  STATEMENT_LIFE_SET,
        STATEMENT_READY_DROP,  STATEMENT_READY_PUT,  STATEMENT_TRAIL_PUT, STATEMENT_ANSWER_PUT,
        STATEMENT_EDIT_PUT,    STATEMENT_KEY_DROP,   STATEMENT_KEY_BIND,  STATEMENT_LIFE_DROP,
        STATEMENT_TRAIL_DROP,  STATEMENT_EDIT_DROP,  STATEMENT_MEMO_PUT,  STATEMENT_MEMO_DROP,
        STATEMENT_TASK_BURY,   STATEMENT_ANSWER_DROP};
    int failed = 0;
    bool has_any = bundle->sheets[STATEMENT_QUEUE_PUT].rows > 0;

    for (size_t i = 0; i < sizeof order / sizeof *order && failed == 0; i++) {
        struct sheet *sheet = &bundle->sheets[order[i]];
        if (sheet->rows > 0) {
            has_any = true;
            failed = bundle_step(bundle, order[i], sheet);
        }
    }
    failed = failed != 0 ? failed : audit_steps(bundle);
    if (has_any || bundle->step_count > 0) {
        failed = failed != 0 ? failed : mark_steps(bundle);
        failed = failed != 0 ? failed : notify_steps(bundle);
    }
    return failed != 0 ? failed : bundle_step(bundle, STATEMENT_COMMIT, NULL);
}
