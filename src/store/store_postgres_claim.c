/* SPDX-License-Identifier: MIT
 *
 * store_postgres_claim -- leases of whatever is due (OP_LEASE without a task): as many as are asked
 * for in one statement, past the rows that other nodes are just taking (SKIP LOCKED).
 *
 * What has been claimed stays in the index as a dead entry until it is vacuumed, which an old
 * transaction anywhere in the database can put off for hours; a claim that starts at the front walks
 * over all of them. So claims go on where the last one ended. Whatever became due behind that place
 * (a retry with an earlier time, a commit that came late) is found by a sweep from the front: every
 * SWEEP_CLAIMS claims, and when a claim comes back short, though not more often than SWEEP_EVERY_MS.
 *
 * A claim may be shown a task that another operation of the same batch is about: a transaction does
 * not skip its own locks, and what was decided about the task (cancelled, due now, purged, expired) is
 * not written yet. Such a task is passed over (I2); a later claim finds what is left of it.
 */
#include "store/rules.h"
#include "store/store_postgres_internal.h"

#include "base/clock.h"

#define SWEEP_CLAIMS   64
#define SWEEP_EVERY_MS 200

/* Leases of the batch that want the same: a lane of a queue. */
struct group {
    uint32_t queue;
    int lane;
    size_t next; /* the operation that gets the next one */
    size_t wanted;
};

/* What a lease without a task asks for, by its flags. */
static int lane_of(const struct op *op)
{
    const struct life asked = {.state = TASK_WAITING, .flags = op->life.flags};

    return postgres_lane(&asked);
}

static bool is_member(const struct group *group, const struct op *op)
{
    return op->kind == OP_LEASE && op->task.id.row == 0 && op->task.queue == group->queue &&
           lane_of(op) == group->lane;
}

/* --- where to go on ------------------------------------------------------------------------------ */

/* More queues than there are marks share the last one, which then only sweeps. */
static struct claim_mark *mark_of(struct writer *writer, uint32_t queue, int lane)
{
    for (size_t i = 0; i < writer->mark_count; i++) {
        struct claim_mark *mark = &writer->marks[i];
        if (mark->queue == queue && mark->lane == lane) {
            return mark;
        }
    }
    if (writer->mark_count < CLAIM_MARKS_MAX) {
        writer->mark_count++;
    }
    struct claim_mark *mark = &writer->marks[writer->mark_count - 1];
    *mark = (struct claim_mark){.queue = queue, .lane = lane, .due_ms = INT64_MIN};
    return mark;
}

static void choose_place(struct claim_mark *mark, int64_t now_ms)
{
    bool is_time = mark->claims >= SWEEP_CLAIMS ||
                   (mark->is_short && now_ms - mark->swept_at_ms >= SWEEP_EVERY_MS);

    mark->claims++;
    if (is_time || mark->due_ms == INT64_MIN) {
        mark->due_ms = mark->row = INT64_MIN;
        mark->claims = 0;
        mark->swept_at_ms = now_ms;
    }
}

/* Tasks that the claim may be shown and has to pass over: it asks for so many more. */
static size_t spoken_for_count(const struct bundle *bundle)
{
    size_t count = 0;

    for (size_t i = 0; i < bundle->life_count; i++) {
        count += bundle->lives[i].life.state == TASK_WAITING;
    }
    return count;
}

static int ask(struct bundle *bundle, const struct group *group, struct sheet *sheet)
{
    struct claim_mark *mark = mark_of(bundle->writer, group->queue, group->lane);

    choose_place(mark, clock_mono_ms(&clock_real));
    sheet_clear(sheet);
    sheet->is_plain = true;
    sheet_row(sheet);
    sheet_int(sheet, (int32_t)group->queue);
    sheet_int(sheet, group->lane);
    sheet_int(sheet, mark->due_ms);
    sheet_int(sheet, mark->row);
    sheet_int(sheet, (int64_t)(group->wanted + spoken_for_count(bundle)));
    return bundle_step(bundle, STATEMENT_CLAIM, sheet);
}

/* --- handing out --------------------------------------------------------------------------------- */

/* Another operation of this batch has looked at the task, and may have decided what becomes of it. */
static bool is_spoken_for(const struct bundle *bundle, int64_t row)
{
    return bundle_life(bundle, row) != NULL;
}

static int grant(struct bundle *bundle, size_t index, struct cell cell, struct error *err)
{
    struct staged *staged = stage_at(&bundle->writer->stage, index);
    struct op lease = *bundle->ops[index];
    struct life_row row;
    int failed = cell_life(cell, 0, &row, err);

    if (failed != 0) {
        return failed;
    }
    staged->id = staged->task.id = row.id;
    staged->task_queue = row.queue;
    staged->was = row.life.state;
    staged->life = row.life;
    lease.now_ms = INT64_MAX; /* that it is due was judged by the server's clock */
    staged->result = rules_apply(&lease, &staged->life);
    if (staged->result != RESULT_DONE) {
        return 0;
    }
    failed = lease.wants_request
                 ? cell_task(cell, LIFE_COLUMN_COUNT, lease.arena, &staged->task, err)
                 : 0;
    if (failed == 0 && row.has_edit) {
        sheet_row(&bundle->sheets[STATEMENT_EDITS]);
        sheet_int(&bundle->sheets[STATEMENT_EDITS], row.id.row);
    }
    if (failed == 0 && bundle_write_change(bundle, &lease, &row, &staged->life) != 0) {
        failed = fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    return failed;
}

static size_t next_member(const struct bundle *bundle, struct group *group)
{
    while (group->next < bundle->count && !is_member(group, bundle->ops[group->next])) {
        group->next++;
    }
    return group->next++;
}

/* What the claim gave. */
static int hand_out(struct bundle *bundle, struct group *group, const PGresult *result,
                    struct error *err)
{
    struct claim_mark *mark = mark_of(bundle->writer, group->queue, group->lane);
    size_t shown = (size_t)PQntuples(result), granted = 0;

    for (size_t i = 0; i < shown && granted < group->wanted; i++) {
        struct cell cell = {result, (int)i};
        if (!is_spoken_for(bundle, cell_int(cell, 0))) {
            int failed = grant(bundle, next_member(bundle, group), cell, err);
            if (failed != 0) {
                return failed;
            }
            granted++;
        }
        mark->due_ms = cell_int(cell, 5);
        mark->row = cell_int(cell, 0);
    }
    mark->is_short = granted < group->wanted;
    return 0;
}

/* The first of its kind leads its group. */
static bool is_leader(const struct bundle *bundle, size_t index, struct group *ret_group)
{
    const struct op *op = bundle->ops[index];

    *ret_group = (struct group){.queue = op->task.queue, .lane = lane_of(op), .next = index};
    if (!is_member(ret_group, op) || bundle_is_outlived(bundle, op->epoch)) {
        return false;
    }
    for (size_t i = 0; i < index; i++) {
        if (is_member(ret_group, bundle->ops[i])) {
            return false;
        }
    }
    for (size_t i = index; i < bundle->count; i++) {
        ret_group->wanted += is_member(ret_group, bundle->ops[i]);
    }
    return true;
}

/* One round trip for so many groups. */
static int claim_groups(struct bundle *bundle, struct group *groups, size_t count,
                        struct error *err)
{
    int failed = 0;

    bundle_clear_steps(bundle);
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = ask(bundle, &groups[i], &bundle->claims[i]);
    }
    if (failed != 0) {
        return fail(err, FAULT_MEMORY, "no memory for a batch");
    }
    failed = bundle_run(bundle, err);
    for (size_t i = 0; i < count && failed == 0; i++) {
        failed = hand_out(bundle, &groups[i], bundle->steps[i].result, err);
    }
    return failed;
}

int bundle_claim(struct bundle *bundle, struct error *err)
{
    struct group groups[CLAIMS_AT_ONCE];
    size_t count = 0;
    int failed = 0;

    for (size_t i = 0; i < bundle->count && failed == 0; i++) {
        count += is_leader(bundle, i, &groups[count]);
        if (count == CLAIMS_AT_ONCE || (count > 0 && i + 1 == bundle->count)) {
            failed = claim_groups(bundle, groups, count, err);
            count = 0;
        }
    }
    for (size_t i = 0; i < bundle->count; i++) {
        struct staged *staged = stage_at(&bundle->writer->stage, i);
        bool is_any = bundle->ops[i]->kind == OP_LEASE && bundle->ops[i]->task.id.row == 0;
        if (is_any && staged->result == RESULT_NONE) {
            staged->result = RESULT_MISSING; /* nothing is due */
        }
    }
    return failed;
}
