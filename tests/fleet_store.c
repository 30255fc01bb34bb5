/* SPDX-License-Identifier: MIT
 *
 * fleet_store -- the store as one node has it. A batch is decided as store_postgres_apply.c and
 * store_postgres_claim.c decide it: what an outlived epoch leases is refused and what it records as
 * running waits instead; claims come last, past every task that the batch itself is about. A commit
 * whose answer is lost is there or not, and is found out as in store_postgres_doubt.c. See fleet.h.
 */
#include "fleet.h"

#include "base/plant.h"
#include "store/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MARK_BITS   20
#define BUSY_ONE_IN 60
#define IO_ONE_IN   50
#define LOST_ONE_IN 25

int fleet_lane(const struct life *life)
{
    bool is_pull = (life->flags & LIFE_PULL) != 0, is_forced = (life->flags & LIFE_FORCED) != 0;

    switch (life->state) {
    case TASK_RUNNING:
        return is_pull ? 4 : -1;
    case TASK_UNSETTLED:
        return life->probe_due_ms != 0 ? 5 : -1;
    case TASK_WAITING:
        if (is_forced) {
            return is_pull ? 6 : 0;
        }
        return is_pull ? 3 : (life->flags & LIFE_LOW) != 0 ? 2 : 1;
    default:
        return -1;
    }
}

/* --- claims ------------------------------------------------------------------------------------------ */

static bool is_claim(const struct op *op)
{
    return op->kind == OP_LEASE && op->task.id.row == 0;
}

/* What the batch is at, with what it has claimed so far. */
struct batch {
    struct fleet *fleet;
    struct fleet_face *face;
    struct op **ops;   /* as they were given */
    struct op *copies; /* as they are applied */
    bool *is_left_out;
    size_t count;
    bool is_alive;
};

static bool is_about(const struct batch *batch, int64_t row)
{
    for (size_t i = 0; i < batch->count; i++) {
        const struct op *op = &batch->copies[i];
        bool is_by_row = op->kind != OP_RECORD && op->kind != OP_QUEUE && op->kind != OP_MEMO &&
                         op->kind != OP_FIND;
        PLANT(CLAIM_IN_BATCH, is_by_row = op->kind == OP_LEASE)
        if (is_by_row && op->task.id.row == row) {
            return true;
        }
    }
    return false;
}

/* The first that is due by the server's clock; row 0: nothing is. */
static struct task_id find_due(const struct batch *batch, const struct op *op)
{
    const struct rows *rows = &batch->fleet->inner->rows;
    const struct life asked = {.state = TASK_WAITING, .flags = op->life.flags};
    int64_t best_ms = fleet_server_ms(batch->fleet);
    struct task_id best = {0};

    for (size_t i = rows->task_count; i > 0; i--) { /* of two that are due at once the older one */
        const struct version *version = rows->tasks[i - 1];
        const struct life *life = &version->life;
        if (version->task->task.queue == op->task.queue && fleet_lane(life) == fleet_lane(&asked) &&
            life->due_at_ms <= best_ms && !is_about(batch, version->task->task.id.row)) {
            best_ms = life->due_at_ms;
            best = version->task->task.id;
        }
    }
    return best;
}

/* --- a batch ----------------------------------------------------------------------------------------- */

static bool is_outlived(const struct batch *batch, uint64_t epoch)
{
    return !batch->is_alive || (epoch >= batch->face->epoch_first && epoch < batch->face->epoch);
}

static void put_back(struct life *life)
{
    life->state = TASK_WAITING;
    life->fence = life->epoch = 0;
    life->attempts = life->attempts_all = 0;
}

/* What the node's epoch means for each of them; claims come after all others. */
static void decide(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->copies[i];
        if (op->kind == OP_LEASE && !is_claim(op) && is_outlived(batch, op->epoch)) {
            op->result = RESULT_NOT_WAITING;
            batch->is_left_out[i] = true;
        } else if (op->kind == OP_REDRIVE && op->epoch != 0 && is_outlived(batch, op->epoch)) {
            op->result = RESULT_STALE;
            batch->is_left_out[i] = true;
        } else if (op->kind == OP_RECORD && op->life.state == TASK_RUNNING &&
                   is_outlived(batch, op->life.epoch)) {
            put_back(&op->life);
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = &batch->copies[i];
        if (!is_claim(op)) {
            continue;
        }
        struct task_id id =
            is_outlived(batch, op->epoch) ? (struct task_id){0} : find_due(batch, op);
        op->task.id = id;
        op->now_ms = INT64_MAX; /* that it is due was judged by the server's clock */
        op->result = id.row == 0 ? RESULT_MISSING : RESULT_NONE;
        batch->is_left_out[i] = id.row == 0;
        batch->fleet->seen.claims += id.row != 0;
    }
}

/* The mistake of a store whose claim sees what its own batch is about to change: both are done, and
 * either life is written. */
static void collide(struct batch *batch, struct op *list[], size_t count)
{
    for (size_t i = 0; PLANT_HERE(CLAIM_IN_BATCH) && i < count; i++) {
        struct op *other = list[i];
        for (size_t n = 0; n < count; n++) {
            bool is_both = list[n]->kind == OP_LEASE && list[n]->result == RESULT_DONE &&
                           (other->kind == OP_CANCEL || other->kind == OP_RUN) &&
                           list[n]->task.id.row == other->task.id.row;
            struct version *version =
                is_both ? rows_find(&batch->fleet->inner->rows, list[n]->task.id) : NULL;
            if (version == NULL) {
                continue;
            }
            struct life before = version->life;
            before.state = TASK_WAITING;
            before.fence--;
            before.attempts--;
            before.attempts_all--;
            other->result = rules_apply(other, &before);
            other->life = before;
            version->life = fleet_roll(batch->fleet, 2) == 0 ? before : version->life;
        }
    }
}

/* Claims first where the mistake is made: then what they collide with comes second, and is undone. */
static size_t order(const struct batch *batch, struct op *list[])
{
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < batch->count; i++) {
            bool is_first = !PLANT_HERE(CLAIM_IN_BATCH) || batch->copies[i].kind == OP_LEASE;
            if (!batch->is_left_out[i] && is_first == (pass == 0)) {
                list[count++] = &batch->copies[i];
            }
        }
    }
    return count;
}

static void hand_back(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct op *op = batch->ops[i], *copy = &batch->copies[i];
        copy->link = op->link;
        copy->now_ms = op->now_ms;
        *op = *copy;
    }
}

/* Two queues of one name cannot be there at once. */
static bool is_name_taken(const struct batch *batch)
{
    const struct rows *rows = &batch->fleet->inner->rows;

    for (size_t i = 0; i < batch->count; i++) {
        const struct queue_row *row = &batch->copies[i].queue;
        bool is_put = batch->copies[i].kind == OP_QUEUE && row->number != 0 && !row->dropped;
        for (size_t n = 0; is_put && n < rows->queue_count; n++) {
            const struct queue_row *other = &rows->queues[n]->row;
            if (!other->dropped && other->number != row->number &&
                span_equal(other->name, row->name)) {
                return true;
            }
        }
    }
    return false;
}

/* Applies it at the server: committed when this returns 0. */
static int commit(struct fleet_face *face, struct op *ops[], size_t count, struct error *err)
{
    struct fleet *fleet = face->fleet;
    struct batch batch = {.fleet = fleet,
                          .face = face,
                          .ops = ops,
                          .copies = calloc(count, sizeof *batch.copies),
                          .is_left_out = calloc(count, sizeof *batch.is_left_out),
                          .count = count,
                          .is_alive = fleet_epoch_is_live(fleet, face->epoch)};
    struct op **list = calloc(count, sizeof *list);

    for (size_t i = 0; i < count; i++) {
        batch.copies[i] = *ops[i];
    }
    for (size_t i = 0; i < count; i++) {
        fleet_renew_row(fleet, &batch.copies[i]);
        fleet_renew_row(fleet, batch.copies[i].spawn);
    }
    decide(&batch);
    size_t left = order(&batch, list);
    int failed = is_name_taken(&batch) ? fail(err, FAULT_INPUT, "simulated: the name is taken")
                 : left == 0           ? 0
                                       : store_apply(&fleet->inner->base, list, left, err);
    if (failed == 0) {
        collide(&batch, list, left);
        fleet->commits++;
        hand_back(&batch);
        for (size_t i = 0; i < count; i++) {
            fleet_note_commit(fleet, face->node, ops[i]);
            fleet_applied(fleet, face->node, ops[i]);
        }
        store_note_rows(&face->base, ops, count);
    }
    free(list);
    free(batch.copies);
    free(batch.is_left_out);
    return failed;
}

/* --- lost commits ------------------------------------------------------------------------------------ */

static void forget(struct fleet_doubt *doubt)
{
    free(doubt->ops);
    *doubt = (struct fleet_doubt){0};
}

/* Operations that a caller waits for. */
static size_t count_impatient(struct op *ops[], size_t count)
{
    size_t impatient = 0;

    for (size_t i = 0; i < count; i++) {
        impatient += !ops[i]->is_patient;
    }
    return impatient;
}

static void lose_connection(struct fleet *fleet, struct fleet_face *face)
{
    static const int64_t lengths_ms[] = {1, 1, 800, 3000, 6000, 9000, 20000};
    int64_t until_ms = fleet->mono_ms + lengths_ms[fleet_roll(fleet, 7)];

    fleet->seen.outages++;
    if (fleet_roll(fleet, 3) == 0) {
        fleet->server_down_until_ms = until_ms;
    } else {
        fleet->nodes[face->node].down_until_ms = until_ms;
    }
    fleet_end_session(fleet, face);
}

/* The batch is on its way, and the connection is gone. The operations get their marks; what they come
 * to, if the batch is there, is kept with the copies. */
static int lose(struct fleet_writer *writer, struct op *ops[], size_t count, struct error *err)
{
    struct fleet_face *face = writer->face;
    struct fleet *fleet = face->fleet;
    uint64_t number = ++writer->batch_last;
    struct fleet_doubt *doubt = &writer->doubts[number % FLEET_DOUBTS_MAX];
    struct op **list = calloc(count, sizeof *list);

    forget(doubt);
    *doubt = (struct fleet_doubt){
        .number = number, .count = count, .ops = calloc(2 * count, sizeof *doubt->ops)};
    for (size_t i = 0; i < count; i++) {
        doubt->ops[i] = *ops[i];
        if (ops[i]->spawn != NULL) {
            doubt->ops[count + i] = *ops[i]->spawn;
            doubt->ops[i].spawn = &doubt->ops[count + i];
        }
        list[i] = &doubt->ops[i];
        ops[i]->mark = number << MARK_BITS | i;
    }
    doubt->is_committed = fleet_roll(fleet, 2) == 0 && commit(face, list, count, NULL) == 0;
    fleet->seen.lost_there += doubt->is_committed;
    fleet->seen.lost_gone += !doubt->is_committed;
    free(list);
    fleet_trace(fleet, "node %zu: batch %" PRIu64 " of %zu is lost, %s", face->node, number, count,
                doubt->is_committed ? "there" : "not there");
    doubt->spared_count = fleet_options.late_doubts ? 0 : count_impatient(ops, count);
    face->spared_count += doubt->spared_count;
    if (face->spared_count > 0) {
        fleet_end_session(fleet, face); /* there again at once, before any caller is answered */
    } else {
        lose_connection(fleet, face);
    }
    return fail(err, FAULT_UNKNOWN, "simulated: the connection was lost during the commit");
}

static int look(struct fleet_writer *writer, struct error *err)
{
    for (size_t i = 0; i < FLEET_DOUBTS_MAX; i++) {
        struct fleet_doubt *doubt = &writer->doubts[i];
        if (doubt->number == 0 || doubt->is_known) {
            continue;
        }
        if (!fleet_is_up(writer->face->fleet, writer->face->node)) {
            return fail(err, FAULT_IO, "simulated: no connection");
        }
        doubt->is_known = true;
    }
    return 0;
}

/* What is not there is applied again next. */
static void end_sparing(struct fleet_writer *writer)
{
    for (size_t i = 0; i < FLEET_DOUBTS_MAX; i++) {
        struct fleet_doubt *doubt = &writer->doubts[i];
        if (!doubt->is_committed) {
            writer->face->spared_count -= doubt->spared_count;
            doubt->spared_count = 0;
        }
    }
}

static bool publish(struct fleet_writer *writer, struct op *op)
{
    uint64_t number = op->mark >> MARK_BITS, index = op->mark & ((UINT64_C(1) << MARK_BITS) - 1);
    struct fleet_doubt *doubt = &writer->doubts[number % FLEET_DOUBTS_MAX];

    PLANT(DOUBT_NOT_KEPT, return false)
    if (op->mark == 0 || doubt->number != number || !doubt->is_committed) {
        return false;
    }
    struct op found = doubt->ops[index], *spawn = op->spawn;
    found.link = op->link;
    found.mark = op->mark;
    if (spawn != NULL) {
        *spawn = *found.spawn;
        found.spawn = spawn;
    }
    *op = found;
    if (!op->is_patient && doubt->spared_count > 0) {
        doubt->spared_count--;
        writer->face->spared_count--;
    }
    return true;
}

/* Has it an unanswered commit that this task may be of? */
bool fleet_face_awaits(const struct fleet_face *face, int64_t row)
{
    for (size_t i = 0; i < FLEET_WRITERS * FLEET_DOUBTS_MAX; i++) {
        const struct fleet_doubt *doubt =
            &face->writers[i / FLEET_DOUBTS_MAX].doubts[i % FLEET_DOUBTS_MAX];
        for (size_t n = 0; doubt->number != 0 && !doubt->is_known && n < doubt->count; n++) {
            if (doubt->ops[n].task.id.row == row) {
                return true;
            }
        }
    }
    return false;
}

/* --- the verbs --------------------------------------------------------------------------------------- */

static bool is_hit(struct fleet *fleet, uint64_t one_in)
{
    return !fleet->is_calm && fleet_roll(fleet, one_in) == 0;
}

static int apply_new(struct fleet_writer *writer, struct op *ops[], size_t count, struct error *err)
{
    struct fleet *fleet = writer->face->fleet;

    if (!fleet_is_up(fleet, writer->face->node)) {
        return fail(err, FAULT_IO, "simulated: no connection");
    }
    if (is_hit(fleet, BUSY_ONE_IN)) {
        return fail(err, FAULT_HELD, "simulated: a row is held");
    }
    if (is_hit(fleet, IO_ONE_IN)) {
        return fail(err, FAULT_IO, "simulated: the connection was lost before the commit");
    }
    if (is_hit(fleet, LOST_ONE_IN)) {
        return lose(writer, ops, count, err);
    }
    return commit(writer->face, ops, count, err);
}

static int writer_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    struct fleet_writer *writer = (struct fleet_writer *)store;
    int failed = look(writer, err);

    return failed != 0 ? failed : apply_new(writer, ops, count, err);
}

static bool writer_recall(struct store *store, struct op *op)
{
    struct fleet_writer *writer = (struct fleet_writer *)store;

    if (!publish(writer, op)) {
        return false;
    }
    store_note_rows(&writer->face->base, &op, 1);
    return true;
}

static bool face_recall(struct store *store, struct op *op)
{
    return writer_recall(store->writers[0], op);
}

static int writer_touch(struct store *store, struct error *err)
{
    struct fleet_writer *writer = (struct fleet_writer *)store;
    struct fleet *fleet = writer->face->fleet;
    bool is_spared = writer->face->spared_count > 0;
    int failed = look(writer, err);

    if (failed != 0 || is_spared) {
        end_sparing(writer);
        return failed;
    }
    if (!fleet_is_up(fleet, writer->face->node) || is_hit(fleet, IO_ONE_IN)) {
        return fail(err, FAULT_IO, "simulated: no connection");
    }
    return 0;
}

static int face_apply(struct store *store, struct op *ops[], size_t count, struct error *err)
{
    return writer_apply(&((struct fleet_face *)store)->writers[0].base, ops, count, err);
}

static int face_touch(struct store *store, struct error *err)
{
    return writer_touch(&((struct fleet_face *)store)->writers[0].base, err);
}

/* --- reads ------------------------------------------------------------------------------------------- */

static struct store *reach(struct store *store, struct error *err)
{
    const struct fleet_face *face = (const struct fleet_face *)store;

    if (!fleet_is_up(face->fleet, face->node)) {
        (void)fail(err, FAULT_IO, "simulated: no connection"); /* NULL says it */
        return NULL;
    }
    return &face->fleet->inner->base;
}

static int face_read_task(struct store *store, struct task_id id, unsigned wants,
                          struct arena *arena, struct record *ret_record, bool *ret_found,
                          struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO
                         : store_read_task(inner, id, wants, arena, ret_record, ret_found, err);
}

static int face_list(struct store *store, const struct store_filter *filter, struct arena *arena,
                     store_record_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_list(inner, filter, arena, visit, user, ret_next, err);
}

static int face_due(struct store *store, int64_t from_ms, int64_t until_ms, store_brief_fn visit,
                    void *user, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_due(inner, from_ms, until_ms, visit, user, err);
}

static int face_scan(struct store *store, store_brief_fn visit, void *user, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_scan(inner, visit, user, err);
}

static int face_queues(struct store *store, store_queue_fn visit, void *user, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_queues(inner, visit, user, err);
}

static int face_audit(struct store *store, const struct audit_filter *filter, struct arena *arena,
                      store_audit_fn visit, void *user, int64_t *ret_next, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_audit(inner, filter, arena, visit, user, ret_next, err);
}

static int face_memos(struct store *store, store_memo_fn visit, void *user, struct error *err)
{
    struct store *inner = reach(store, err);

    return inner == NULL ? FAULT_IO : store_memos(inner, visit, user, err);
}

static int64_t face_room(struct store *store)
{
    (void)store;
    return INT64_MAX;
}

static void face_close(struct store *store)
{
    struct fleet_face *face = (struct fleet_face *)store;

    for (size_t i = 0; i < FLEET_WRITERS * FLEET_DOUBTS_MAX; i++) {
        forget(&face->writers[i / FLEET_DOUBTS_MAX].doubts[i % FLEET_DOUBTS_MAX]);
    }
    free(face);
}

static const struct store_ops writer_ops = {
    .name = "simulated",
    .apply = writer_apply,
    .touch = writer_touch,
    .recall = writer_recall,
};

static const struct store_ops face_ops = {
    .name = "simulated",
    .apply = face_apply,
    .touch = face_touch,
    .recall = face_recall,
    .read_task = face_read_task,
    .list = face_list,
    .due = face_due,
    .scan = face_scan,
    .queues = face_queues,
    .audit = face_audit,
    .memos = face_memos,
    .room_bytes = face_room,
    .close = face_close,
};

struct fleet_face *fleet_face_open(struct fleet *fleet, size_t node)
{
    struct fleet_face *face = calloc(1, sizeof *face);

    face->base = (struct store){.ops = &face_ops,
                                .nodes = &fleet_nodes_ops,
                                .last_row = fleet->inner->base.last_row,
                                .node_lease_ms = fleet->node_lease_ms,
                                .writer_count = 1 + (size_t)(fleet->seed % FLEET_WRITERS)};
    face->fleet = fleet;
    face->node = node;
    for (size_t i = 0; i < FLEET_WRITERS; i++) {
        face->writers[i].base.ops = &writer_ops;
        face->writers[i].face = face;
        face->base.writers[i] = &face->writers[i].base;
    }
    fleet_join(fleet, face);
    return face;
}
