/* SPDX-License-Identifier: MIT
 *
 * The committer over a store that does as the script says: what is grouped, in what order, and what
 * those who wait are told when a commit fails (I7).
 */
#include "committer_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void what_waits_becomes_one_commit(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    for (size_t i = 0; i < 100; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(world.store.calls, 1);
    assert_int_equal(world.store.batch_sizes[0], 100);
    assert_int_equal(committer_rig_take_all(), 100);
    assert_int_equal(world.wakes, 1);
    committer_free(world.committer);
}

static void a_task_is_in_a_batch_once_and_its_operations_keep_their_order(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    committer_rig_submit(0, 7);
    committer_rig_submit(1, 7);
    committer_rig_submit(2, 8);
    committer_rig_submit(3, 7);
    for (int i = 0; i < 3; i++) {
        (void)committer_step(world.committer, 0); /* more is to come: we know */
    }
    const int64_t expected[] = {7, 8, 7, 7};
    assert_int_equal(world.store.calls, 3);
    assert_memory_equal(world.store.applied, expected, sizeof expected);
    assert_int_equal(committer_rig_take_all(), 4);
    committer_free(world.committer);
}

static void records_with_one_key_are_not_in_one_batch(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    for (size_t i = 0; i < 2; i++) {
        world.ops[i] = (struct op){.kind = OP_RECORD,
                                   .task = {.id = {.row = (int64_t)i + 1}, .key = SPAN("k")}};
        assert_true(committer_submit(world.committer, &world.ops[i]));
    }
    (void)committer_step(world.committer, 0);
    assert_int_equal(world.store.batch_sizes[0], 1);
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_rig_take_all(), 2);
    committer_free(world.committer);
}

/* It depends on whatever goes into that queue. */
static void what_drops_a_queue_is_alone_in_its_batch_and_is_not_overtaken(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    for (size_t i = 0; i < 5; i++) {
        world.ops[i] = (struct op){.kind = OP_RECORD, .task = {.id = {.row = (int64_t)i + 1}}};
        if (i == 2) {
            world.ops[i].kind = OP_QUEUE;
            world.ops[i].queue = (struct queue_row){.number = 9, .dropped = true};
        }
        assert_true(committer_submit(world.committer, &world.ops[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        (void)committer_step(world.committer, 0);
        assert_int_equal(world.store.batch_sizes[i], i == 1 ? 1 : 2);
    }
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(world.store.applied[i], i + 1);
    }
    assert_int_equal(committer_rig_take_all(), 5);
    committer_free(world.committer);
}

/* Whoever wants the key that a settle frees sees it freed. */
static void a_settle_and_who_wants_its_key_are_not_in_one_batch(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    world.ops[0] = (struct op){.kind = OP_SETTLE, .task = {.id.row = 1, .key = SPAN("k")}};
    world.ops[1] = (struct op){.kind = OP_RECORD, .task = {.id.row = 2, .key = SPAN("k")}};
    for (size_t i = 0; i < 2; i++) {
        assert_true(committer_submit(world.committer, &world.ops[i]));
        world.ops[i].ticket = i;
    }
    (void)committer_step(world.committer, 0);
    assert_int_equal(world.store.applied_count, 1);
    assert_int_equal(world.store.applied[0], 1);
    (void)committer_step(world.committer, 0);
    assert_int_equal(world.store.applied[1], 2);
    assert_int_equal(committer_rig_take_all(), 2);
    committer_free(world.committer);
}

static void a_batch_that_failed_for_certain_is_applied_one_by_one(void **state)
{
    const int faults[] = {FAULT_IO, 0, FAULT_FULL, 0};

    (void)state;
    committer_rig_begin(faults, 4);
    for (size_t i = 0; i < 3; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    (void)committer_step(world.committer, 0);
    assert_int_equal(world.store.calls, 4);
    assert_int_equal(committer_rig_take_all(), 3);
    assert_int_equal(world.ops[0].result, RESULT_DONE);
    assert_int_equal(world.ops[1].fault, FAULT_FULL);
    assert_int_equal(world.ops[1].result, RESULT_NONE);
    assert_int_equal(world.ops[2].result, RESULT_DONE);
    committer_free(world.committer);
}

static void a_commit_in_doubt_is_answered_only_after_a_later_one_worked(void **state) /* I7 */
{
    const int faults[] = {FAULT_UNKNOWN, FAULT_IO, 0, 0};

    (void)state;
    committer_rig_begin(faults, 4);
    committer_rig_submit(0, 1);
    (void)committer_step(world.committer, 0); /* the commit fails */
    assert_int_equal(committer_rig_take_all(), 0);
    (void)committer_step(world.committer, 0); /* the touch fails */
    assert_int_equal(committer_rig_take_all(), 0);
    assert_int_not_equal(committer_health(world.committer), 0);
    (void)committer_step(world.committer, 0); /* the touch works: not there, so again */
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[0].result, RESULT_DONE);
    assert_int_equal(world.store.applied_count, 1);
    assert_int_equal(committer_health(world.committer), 0);
    committer_free(world.committer);
}

static void a_store_that_is_well_again_is_noticed_without_a_commit(void **state)
{
    const int faults[] = {FAULT_IO, FAULT_IO, FAULT_IO};

    (void)state;
    committer_rig_begin(faults, 3);
    committer_rig_submit(0, 1);
    (void)committer_step(world.committer, 0); /* together, then alone */
    assert_int_equal(committer_rig_take_all(), 1);
    world.now_ms = 10000;
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_health(world.committer), FAULT_IO);
    (void)committer_step(world.committer, 0); /* looked at just now */
    assert_int_equal(world.store.calls, 3);
    world.now_ms = 20000;
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_health(world.committer), 0);
    (void)committer_step(world.committer, 0);
    assert_int_equal(world.store.calls, 4);
    committer_free(world.committer);
}

static void
whoever_waits_is_told_unknown_after_a_while_and_a_settle_never(void **state) /* I7, I9 */
{
    int faults[SCRIPT_MAX];

    (void)state;
    for (size_t i = 0; i < SCRIPT_MAX; i++) {
        faults[i] = FAULT_UNKNOWN;
    }
    committer_rig_begin(faults, SCRIPT_MAX);
    committer_rig_submit(0, 1);
    committer_rig_submit(1, 2)->is_patient = true;
    (void)committer_step(world.committer, 0);
    world.now_ms = COMMITTER_DOUBT_MS - 1;
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_rig_take_all(), 0);
    world.now_ms = COMMITTER_DOUBT_MS;
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[0].fault, FAULT_UNKNOWN);
    memset(world.store.faults, 0, sizeof world.store.faults);
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[1].result, RESULT_DONE);
    committer_free(world.committer);
}

static void a_lost_store_is_told_at_once(void **state)
{
    const int faults[] = {FAULT_LOST};

    (void)state;
    committer_rig_begin(faults, 1);
    committer_rig_submit(0, 1)->is_patient = true;
    (void)committer_step(world.committer, 0);
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[0].fault, FAULT_LOST);
    committer_free(world.committer);
}

static void answers_above_what_is_asked_for_wait_in_their_order(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    for (size_t i = 0; i < 10; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    assert_true(committer_step(world.committer, 0));
    struct op *first = committer_take_some(world.committer, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_ptr_equal(first, &world.ops[i]);
        first = (struct op *)first->link.next;
    }
    assert_null(first);
    assert_ptr_equal(committer_take_some(world.committer, 1), &world.ops[4]);
    assert_int_equal(committer_rig_take_all(), 5);
    assert_null(committer_take_some(world.committer, 4));
    committer_free(world.committer);
}

static void more_than_a_batch_holds_goes_into_the_next(void **state)
{
    (void)state;
    committer_rig_begin(NULL, 0);
    for (size_t i = 0; i < OPS_MAX; i++) {
        committer_rig_submit(i, (int64_t)i * 4096 + 1);
    }
    for (int i = 0; i < 6; i++) {
        (void)committer_step(world.committer, 0);
    }
    assert_int_equal(world.store.applied_count, OPS_MAX);
    assert_int_equal(committer_rig_take_all(), OPS_MAX);
    for (size_t i = 0; i < world.store.calls; i++) {
        assert_true(world.store.batch_sizes[i] <= COMMITTER_BATCH_MAX);
    }
    committer_free(world.committer);
}

static void a_stopping_committer_finishes_what_it_has_taken(void **state)
{
    struct error err;

    (void)state;
    committer_rig_begin(NULL, 0);
    assert_int_equal(committer_start(world.committer, &err), 0);
    for (size_t i = 0; i < OPS_MAX; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    committer_stop(world.committer);
    assert_int_equal(committer_rig_take_all(), OPS_MAX);
    assert_int_equal(world.store.applied_count, OPS_MAX);
    struct op late = {.kind = OP_CANCEL};
    assert_false(committer_submit(world.committer, &late));
    committer_free(world.committer);
}

/* --- several hands ------------------------------------------------------------------------------- */

static struct scripted writers[3];

static void begin_with_writers(void)
{
    committer_rig_begin(NULL, 0);
    committer_free(world.committer);
    memset(writers, 0, sizeof writers);
    for (size_t i = 0; i < 3; i++) {
        writers[i].base.ops = &committer_rig_ops;
        world.store.base.writers[i] = &writers[i].base;
    }
    world.store.base.writer_count = 3;
    world.committer = committer_new(&world.store.base, &world.clock, committer_rig_wake, &world);
    assert_non_null(world.committer);
}

/* Which writer it came to; it was the only operation under way. */
static size_t writer_of(struct op *op)
{
    size_t before[] = {writers[0].applied_count, writers[1].applied_count,
                       writers[2].applied_count};
    size_t found = 3;

    assert_true(committer_submit(world.committer, op));
    (void)committer_step(world.committer, 0);
    for (size_t i = 0; i < 3; i++) {
        if (writers[i].applied_count > before[i]) {
            assert_int_equal(found, 3);
            found = i;
        }
    }
    assert_true(found < 3);
    assert_int_equal(committer_rig_take_all(), 1);
    return found;
}

static void every_hand_gets_its_share_and_a_task_is_always_the_same_ones(void **state)
{
    (void)state;
    begin_with_writers();
    for (size_t i = 0; i < OPS_MAX; i++) {
        committer_rig_submit(i, (int64_t)(i % (OPS_MAX / 2)) + 1);
    }
    for (int i = 0; i < 4; i++) {
        (void)committer_step(world.committer, 0);
    }
    assert_int_equal(committer_rig_take_all(), OPS_MAX);
    assert_int_equal(world.store.calls, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_in_range(writers[i].applied_count, OPS_MAX / 4, OPS_MAX / 2);
        for (size_t j = 0; j < writers[i].applied_count / 2; j++) { /* each twice */
            size_t half = writers[i].applied_count / 2;
            assert_int_equal(writers[i].applied[j], writers[i].applied[j + half]);
        }
    }
    committer_free(world.committer);
}

/* Who finds, records or is refused by a key must see each other in order, and whoever pauses a queue
 * must not be overtaken by a claim that came before. */
static void what_must_stay_in_order_goes_through_one_hand(void **state)
{
    (void)state;
    begin_with_writers();
    for (uint32_t i = 1; i < 50; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k-%u", i);
        struct op record = {.kind = OP_RECORD,
                            .task = {.id.row = i, .queue = 2, .key = span_of(key)}};
        struct op again = {.kind = OP_RECORD,
                           .task = {.id.row = i + 1000, .queue = 2, .key = span_of(key)}};
        struct op find = {.kind = OP_FIND, .task = {.queue = 2, .key = span_of(key)}};
        struct op settle = {.kind = OP_SETTLE,
                            .task = {.id.row = i, .queue = 2, .key = span_of(key)}};
        struct op claim = {.kind = OP_LEASE, .task.queue = i};
        struct op other = {.kind = OP_LEASE, .task.queue = i};
        struct op pause = {.kind = OP_QUEUE, .queue = {.number = i, .name = span_of(key)}};
        size_t writer = writer_of(&record);
        assert_int_equal(writer_of(&again), writer);
        assert_int_equal(writer_of(&find), writer);
        assert_int_equal(writer_of(&settle), writer);
        const struct audit_row audit = {.who = SPAN("ops"), .act = SPAN("redrive")};
        struct op redrive = {.kind = OP_REDRIVE, .task.id.row = i, .audit = &audit};
        assert_int_equal(writer_of(&redrive), 0);
        writer = writer_of(&claim);
        assert_int_equal(writer_of(&other), writer);
        assert_int_equal(writer_of(&pause), writer);
    }
    committer_free(world.committer);
}

static void a_hand_whose_writer_fails_leaves_the_others_alone(void **state)
{
    (void)state;
    begin_with_writers();
    for (size_t i = 0; i < 4; i++) {
        writers[1].faults[i] = FAULT_UNKNOWN;
    }
    for (size_t i = 0; i < 300; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    (void)committer_step(world.committer, 0);
    size_t well = writers[0].applied_count + writers[2].applied_count;
    assert_true(well > 0 && well < 300);
    assert_int_equal(committer_rig_take_all(), well);
    assert_int_equal(committer_health(world.committer), FAULT_UNKNOWN);
    for (int i = 0; i < 6; i++) {
        (void)committer_step(world.committer, 0);
    }
    assert_int_equal(committer_rig_take_all(), 300 - well);
    assert_int_equal(committer_health(world.committer), 0);
    assert_int_equal(committer_stats(world.committer).operations, 300);
    committer_free(world.committer);
}

static void several_hands_finish_what_they_have_taken(void **state)
{
    struct error err;

    (void)state;
    begin_with_writers();
    assert_int_equal(committer_start(world.committer, &err), 0);
    for (size_t i = 0; i < OPS_MAX; i++) {
        committer_rig_submit(i, (int64_t)i + 1);
    }
    committer_stop(world.committer);
    assert_int_equal(committer_rig_take_all(), OPS_MAX);
    committer_free(world.committer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_becomes_one_commit),
        cmocka_unit_test(a_task_is_in_a_batch_once_and_its_operations_keep_their_order),
        cmocka_unit_test(records_with_one_key_are_not_in_one_batch),
        cmocka_unit_test(what_drops_a_queue_is_alone_in_its_batch_and_is_not_overtaken),
        cmocka_unit_test(a_settle_and_who_wants_its_key_are_not_in_one_batch),
        cmocka_unit_test(a_batch_that_failed_for_certain_is_applied_one_by_one),
        cmocka_unit_test(a_commit_in_doubt_is_answered_only_after_a_later_one_worked),
        cmocka_unit_test(whoever_waits_is_told_unknown_after_a_while_and_a_settle_never),
        cmocka_unit_test(a_lost_store_is_told_at_once),
        cmocka_unit_test(a_store_that_is_well_again_is_noticed_without_a_commit),
        cmocka_unit_test(answers_above_what_is_asked_for_wait_in_their_order),
        cmocka_unit_test(more_than_a_batch_holds_goes_into_the_next),
        cmocka_unit_test(a_stopping_committer_finishes_what_it_has_taken),
        cmocka_unit_test(every_hand_gets_its_share_and_a_task_is_always_the_same_ones),
        cmocka_unit_test(what_must_stay_in_order_goes_through_one_hand),
        cmocka_unit_test(a_hand_whose_writer_fails_leaves_the_others_alone),
        cmocka_unit_test(several_hands_finish_what_they_have_taken),
    };
    return HARNESS_RUN(argc, argv, tests);
}
