/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_rows -- what the PostgreSQL store does about rows that are in the way: ids that
 * another node has made as well, days that nobody needs, and upkeep that cannot be done.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"
#include "store/store_postgres_internal.h"

#define DATABASE  "rows"
#define ARENA_MAX ((size_t)64 << 20)

static const struct store_keep keep = {
    .succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};

static struct store *open_store(void)
{
    return postgres_rig_open(DATABASE, &keep);
}

static struct store *open_new(void)
{
    postgres_rig_new(DATABASE);
    return open_store();
}

/* Until its counter was raised. */
static struct beat beat_once(struct store *store, struct arena *arena)
{
    struct beat beat;

    do {
        struct error err = {0};
        if (store_beat(store, 50, arena, &beat, &err) != 0) {
            fail_msg("beat: %s", err.text);
        }
    } while (!beat.is_fresh);
    return beat;
}

/* --- rows ---------------------------------------------------------------------------------------- */

/* Two nodes with one slot, as after one of them stood still: ids of the same numbers. */
static void a_row_that_another_node_has_taken_is_replaced_by_a_free_one(void **state)
{
    struct store *one = open_new(), *two = open_store();
    struct op taken = postgres_rig_record_op(50, 1), free = postgres_rig_record_op(51, 1);
    struct op *batch[] = {&free, &taken};
    (void)state;

    postgres_rig_record(one, 50, 1);
    taken.task.id.tail = 10;
    taken.task.body = SPAN("later");
    taken.task.key = SPAN("key");
    assert_int_equal(store_apply(two, batch, 2, NULL), 0);
    assert_int_equal(taken.result, RESULT_DONE);
    assert_true(taken.task.id.row > 51);
    assert_int_equal(taken.task.id.tail, 10);
    assert_int_equal(free.task.id.row, 51);
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.task JOIN daruma.life USING (id)"),
        3);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT id FROM daruma.task WHERE body = 'later'"),
                     taken.task.id.row);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT id FROM daruma.key"), taken.task.id.row);
    assert_int_equal(postgres_rig_sql(DATABASE,
                                      "SELECT count(*) FROM daruma.task WHERE id = 50 AND body = "
                                      "'body'"),
                     1);
    store_close(one);
    store_close(two);
}

/* The same tail: it is the same record, and must not be there twice. */
static void a_record_that_is_there_already_gets_no_second_row(void **state)
{
    struct store *store = open_new();
    struct op again = postgres_rig_record_op(50, 1), *batch[] = {&again};
    (void)state;

    postgres_rig_record(store, 50, 1);
    assert_int_not_equal(store_apply(store, batch, 1, NULL), 0);
    assert_int_equal(again.task.id.row, 50);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.life"), 1);
    store_close(store);
}

static void a_task_that_is_born_with_a_settle_gets_a_free_row_too(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    struct op callback = postgres_rig_record_op(60, 1);
    (void)state;

    callback.task.id.tail = 10;
    postgres_rig_record(store, 60, INT64_MAX);
    postgres_rig_record(store, 61, 1);
    struct op lease = postgres_rig_lease_op(store, arena, 0);
    assert_int_equal(postgres_rig_apply_one(store, &lease), RESULT_DONE);
    struct op settle = {
        .kind = OP_SETTLE, .task.id = lease.task.id, .life = lease.life, .spawn = &callback};
    settle.life.state = TASK_SUCCEEDED;
    assert_int_equal(postgres_rig_apply_one(store, &settle), RESULT_DONE);
    assert_int_equal(callback.result, RESULT_DONE);
    assert_true(callback.task.id.row > 61);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.life"), 3);
    arena_free(arena);
    store_close(store);
}

/* --- upkeep -------------------------------------------------------------------------------------- */

/* Of two days, each with a task: the one whose task was purged goes, the other stays. */
static void days_that_nobody_needs_are_dropped(void **state)
{
    struct store *store = open_new();
    struct op purge = {.kind = OP_PURGE, .task.id = {.row = 0, .tail = 9}};
    (void)state;

    (void)postgres_rig_sql(DATABASE, "SELECT daruma.make_partitions(100, 101)");
    for (int64_t day = 100; day <= 101; day++) {
        postgres_rig_record(store, (day * 86400000) << 12, 1);
    }
    purge.task.id.row = (INT64_C(100) * 86400000) << 12;
    assert_int_equal(postgres_rig_apply_one(store, &purge), RESULT_DONE);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.task"), 2);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT daruma.drop_partitions(200)"), 1);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.task"), 1);
    purge.task.id.row = (INT64_C(101) * 86400000) << 12;
    assert_int_equal(postgres_rig_apply_one(store, &purge), RESULT_DONE);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT daruma.drop_remains(200, 10)"), 1);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.task"), 0);
    store_close(store);
}

/* One duty a beat; a round that fails is told once it has failed a few times, and the rest of it is
 * done all the same. */
static void upkeep_that_keeps_failing_is_told_and_costs_no_beat(void **state)
{
    struct store *store = open_new();
    struct store_postgres *postgres = (struct store_postgres *)store;
    struct arena *arena = arena_new(ARENA_MAX);
    struct beat beat = {0};
    int rounds = 0;
    (void)state;

    store->node_lease_ms = 200;
    (void)postgres_rig_sql(DATABASE,
                           "ALTER FUNCTION daruma.make_partitions RENAME TO gone; INSERT INTO"
                           " daruma.batch VALUES (1, 1, '{}', '2020-01-01')");
    for (int i = 0; i < 100 && beat.upkeep_trouble.at == NULL; i++) {
        beat = beat_once(store, arena);
        rounds += postgres->upkeep.next_ms > 0;
        postgres->upkeep.next_ms = 0;
    }
    assert_int_equal(rounds, 3);
    assert_true(span_starts(beat.upkeep_trouble, "postgres: function daruma.make_partitions"));
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.batch WHERE epoch = 1"), 0);
    (void)postgres_rig_sql(DATABASE, "ALTER FUNCTION daruma.gone RENAME TO make_partitions");
    for (rounds = 0; rounds < 1; postgres->upkeep.next_ms = 0) {
        beat = beat_once(store, arena);
        rounds += postgres->upkeep.next_ms > 0;
    }
    assert_int_equal(postgres->upkeep.failures, 0);
    arena_free(arena);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_that_another_node_has_taken_is_replaced_by_a_free_one),
        cmocka_unit_test(a_record_that_is_there_already_gets_no_second_row),
        cmocka_unit_test(a_task_that_is_born_with_a_settle_gets_a_free_row_too),
        cmocka_unit_test(days_that_nobody_needs_are_dropped),
        cmocka_unit_test(upkeep_that_keeps_failing_is_told_and_costs_no_beat),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
