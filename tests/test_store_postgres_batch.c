/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_batch -- a claim ("whatever is due") that shares its batch with an operation on
 * the very task that it would be given. The two are decided in one transaction, and the task must have
 * one fate (I2): either the operation's or the claim's, never both.
 */
#include "harness.h"
#include "postgres_rig_ops.h"
#include "postgres_rig.h"

#include "base/clock.h"
#include "store/store.h"

#include <string.h>

#define DATABASE  "batch"
#define QUEUE     POSTGRES_RIG_QUEUE
#define ROW       7
#define ARENA_MAX ((size_t)1 << 20)

static const struct store_keep keep = {
    .succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};

static struct store *open_new(void)
{
    postgres_rig_new(DATABASE);
    return postgres_rig_open(DATABASE, &keep);
}

static void record_due(struct store *store)
{
    struct op op = {.kind = OP_RECORD,
                    .now_ms = clock_wall_ms(&clock_real),
                    .task = {.id = {.row = ROW, .tail = 9}, .queue = QUEUE, .body = SPAN("body")},
                    .life = {.due_at_ms = 1, .deadline_at_ms = 2}};
    struct op *list[] = {&op};

    postgres_rig_apply(store, list, 1);
    assert_int_equal(op.result, RESULT_DONE);
}

static struct op other_op(const struct store *store, enum op_kind kind, struct arena *arena)
{
    struct op op = {.kind = kind,
                    .now_ms = clock_wall_ms(&clock_real),
                    .task.id = {.row = ROW, .tail = 9},
                    .arena = arena};

    if (kind == OP_LEASE) {
        op.epoch = store->epoch;
        op.wants_request = true;
    } else if (kind == OP_EXPIRE) {
        op.life = (struct life){.state = TASK_FAILED,
                                .failed_class = DARUMA_CLASS_EXPIRED + 1,
                                .settled_at_ms = op.now_ms};
    }
    return op;
}

/* The operation and a claim in one batch, in either order: the operation is done, the claim gets
 * nothing, and what is stored is what the operation says. */
static void operation_wins(enum op_kind kind, bool is_claim_first)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    struct record found = {0};
    bool is_there = false;

    record_due(store);
    struct op other = other_op(store, kind, arena), claim = postgres_rig_lease_op(store, arena, 0);
    struct op *list[] = {is_claim_first ? &claim : &other, is_claim_first ? &other : &claim};
    postgres_rig_apply(store, list, 2);
    assert_int_equal(other.result, RESULT_DONE);
    assert_int_equal(claim.result, RESULT_MISSING);
    assert_int_equal(
        store_read_task(store, (struct task_id){ROW, 9}, 0, arena, &found, &is_there, NULL), 0);
    assert_int_equal(is_there, kind != OP_PURGE);
    if (is_there) {
        enum task_state wanted = kind == OP_CANCEL   ? TASK_CANCELLED
                                 : kind == OP_RUN    ? TASK_WAITING
                                 : kind == OP_EXPIRE ? TASK_FAILED
                                                     : TASK_RUNNING;
        assert_int_equal(found.life.state, wanted);
        assert_int_equal(found.life.attempts, kind == OP_LEASE);
        assert_int_equal(found.life.fence, kind == OP_LEASE);
    }
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.ready"),
                     kind == OP_RUN);
    arena_free(arena);
    store_close(store);
}

static void a_claim_leaves_alone_what_its_batch_decides(void **state)
{
    static const enum op_kind kinds[] = {OP_CANCEL, OP_RUN, OP_PURGE, OP_EXPIRE, OP_LEASE};
    (void)state;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        operation_wins(kinds[i], false);
        operation_wins(kinds[i], true);
    }
}

/* A task that an operation has looked at and left as it was is due as before. */
static void what_a_claim_passed_over_is_found_by_a_later_one(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    int64_t until_ms = clock_mono_ms(&clock_real) + 5000;
    (void)state;

    record_due(store);
    struct op settle = other_op(store, OP_SETTLE, arena); /* of a lease that never was: stale */
    settle.life = (struct life){.state = TASK_SUCCEEDED, .fence = 5};
    struct op claim = postgres_rig_lease_op(store, arena, 0), *list[] = {&settle, &claim};
    postgres_rig_apply(store, list, 2);
    assert_int_equal(settle.result, RESULT_STALE);
    assert_int_equal(claim.result, RESULT_MISSING);
    do {
        claim = postgres_rig_lease_op(store, arena, 0);
        postgres_rig_apply(store, &list[1], 1);
    } while (claim.result != RESULT_DONE && clock_mono_ms(&clock_real) < until_ms);
    assert_int_equal(claim.result, RESULT_DONE);
    assert_int_equal(claim.task.id.row, ROW);
    arena_free(arena);
    store_close(store);
}

/* The place in line of a task that was passed over goes to the next one that is due. */
static void a_claim_gets_the_next_task_instead(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    record_due(store);
    struct op later = {.kind = OP_RECORD,
                       .now_ms = clock_wall_ms(&clock_real),
                       .task = {.id = {.row = ROW + 1, .tail = 9}, .queue = QUEUE},
                       .life = {.due_at_ms = 2}};
    struct op *list[] = {&later, NULL};
    postgres_rig_apply(store, list, 1);
    struct op cancel = other_op(store, OP_CANCEL, arena);
    struct op claim = postgres_rig_lease_op(store, arena, 0);
    list[0] = &cancel;
    list[1] = &claim;
    postgres_rig_apply(store, list, 2);
    assert_int_equal(cancel.result, RESULT_DONE);
    assert_int_equal(claim.result, RESULT_DONE);
    assert_int_equal(claim.task.id.row, ROW + 1);
    arena_free(arena);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_claim_leaves_alone_what_its_batch_decides),
        cmocka_unit_test(what_a_claim_passed_over_is_found_by_a_later_one),
        cmocka_unit_test(a_claim_gets_the_next_task_instead),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = harness_run(argc, argv, tests, sizeof tests / sizeof *tests);
    postgres_rig_stop();
    return failed;
}
