/* SPDX-License-Identifier: MIT
 *
 * Records whose commit is in doubt for longer than a caller waits: the committer keeps them until it
 * is known what became of them, and what their callers are told is true (I7).
 */
#include "committer_rig.h"

static struct op *submit_kept(size_t index, int64_t row)
{
    struct op *op = &world.ops[index];

    *op = (struct op){
        .kind = OP_RECORD, .task.id = {.row = row, .tail = 1}, .ticket = index, .is_kept = true};
    assert_true(committer_submit(world.committer, op));
    return op;
}

/* Two records whose commit is in doubt until their callers ought to be told, and are. */
static void outlast_patience(void)
{
    struct op *ops[] = {submit_kept(0, 7), submit_kept(1, 8)};

    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_unknowns(world.committer), 0);
    world.now_ms += COMMITTER_DOUBT_MS;
    world.wakes = 0;
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_unknowns(world.committer), 2);
    assert_int_equal(world.wakes, 1);
    assert_int_equal(committer_rig_take_all(), 0); /* they are the committer's */
    assert_int_equal(ops[0]->is_unknown + ops[1]->is_unknown, 2);
    world.now_ms += 100 * COMMITTER_DOUBT_MS;
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_unknowns(world.committer), 2); /* told once */
    assert_int_equal(world.wakes, 1);
}

/* I7: nobody may be told "refused" of a record that is there, and it must not be left without owner. */
static void a_record_in_doubt_is_held_until_it_is_known_to_be_there(void **state)
{
    static const int faults[] = {FAULT_UNKNOWN, FAULT_IO, FAULT_IO};
    (void)state;

    committer_rig_begin(faults, 3);
    world.store.is_there = true;
    outlast_patience();
    assert_true(committer_step(world.committer, 0)); /* the touch works */
    assert_int_equal(committer_rig_take_all(), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(world.ops[i].fault, 0);
        assert_int_equal(world.ops[i].result, RESULT_DONE);
    }
    assert_int_equal(world.store.applied_count, 2);
    committer_free(world.committer);
}

static void a_record_in_doubt_that_is_not_there_is_refused_and_not_applied_later(void **state)
{
    static const int faults[] = {FAULT_UNKNOWN, FAULT_IO, FAULT_IO};
    (void)state;

    committer_rig_begin(faults, 3);
    outlast_patience();
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_rig_take_all(), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(world.ops[i].fault, FAULT_IO);
        assert_int_equal(world.ops[i].error.fault, FAULT_IO);
    }
    assert_int_equal(world.store.applied_count, 0);
    committer_free(world.committer);
}

/* The store goes away again as soon as one of them is applied anew: what was found is found. */
static void what_is_there_is_told_before_anything_is_applied_again(void **state)
{
    static const int faults[] = {FAULT_UNKNOWN, 0, FAULT_UNKNOWN, FAULT_IO};
    (void)state;

    committer_rig_begin(faults, 4);
    submit_kept(0, 7);
    assert_true(committer_step(world.committer, 0));
    committer_rig_submit(1, 8);
    world.store.is_there = true;
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[0].fault, 0);
    assert_int_equal(world.ops[0].result, RESULT_DONE);
    world.store.is_there = false;
    committer_abandon(world.committer);
    (void)committer_rig_take_all();
    committer_free(world.committer);
}

/* What is in doubt when the store is lost for good stays unknown: the next start finds out. */
static void what_is_in_doubt_in_a_lost_store_is_unknown(void **state)
{
    static const int faults[] = {FAULT_UNKNOWN, FAULT_LOST};
    (void)state;

    committer_rig_begin(faults, 2);
    submit_kept(0, 7);
    assert_true(committer_step(world.committer, 0));
    assert_true(committer_step(world.committer, 0));
    assert_int_equal(committer_rig_take_all(), 1);
    assert_int_equal(world.ops[0].fault, FAULT_UNKNOWN);
    assert_int_equal(world.ops[0].error.fault, FAULT_UNKNOWN);
    committer_free(world.committer);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_in_doubt_is_held_until_it_is_known_to_be_there),
        cmocka_unit_test(a_record_in_doubt_that_is_not_there_is_refused_and_not_applied_later),
        cmocka_unit_test(what_is_there_is_told_before_anything_is_applied_again),
        cmocka_unit_test(what_is_in_doubt_in_a_lost_store_is_unknown),
    };
    return HARNESS_RUN(argc, argv, tests);
}
