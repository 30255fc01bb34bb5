/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_list -- pages of the PostgreSQL store while others purge. A page is made to stand still
 * in the midst of its statement: what it reads of tasks is a view with a condition that is true once all of
 * another queue's tasks are gone. The test waits until a page stands there, and deletes them.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "store/store_postgres_internal.h"

#include <pthread.h>
#include <time.h>

#define DATABASE      "list"
#define ARENA_MAX     ((size_t)64 << 20)
#define PURGED_QUEUE  4 /* as the statements below have it */
#define ROW_COUNT     60
#define LOOKED_AT     10
#define LOOK_EVERY_NS 5000000L

static const struct store_keep keep = {
    .succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};

#define STAND_STILL                                                                                \
    "CREATE FUNCTION daruma.is_purged() RETURNS bool LANGUAGE plpgsql VOLATILE AS $$ BEGIN"        \
    " WHILE EXISTS (SELECT 1 FROM daruma.life WHERE queue = 4) LOOP PERFORM pg_sleep(0.02);"       \
    " END LOOP; RETURN true; END $$;"                                                              \
    "ALTER TABLE daruma.task RENAME TO task_kept;"                                                 \
    "CREATE VIEW daruma.task AS SELECT * FROM daruma.task_kept WHERE daruma.is_purged()"
#define ARE_STANDING "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
#define PURGE        "DELETE FROM daruma.life WHERE queue = 4; DELETE FROM daruma.trail"

struct walk {
    struct store *store;
    struct arena *arena;
    struct store_filter filter;
    int64_t rows[ROW_COUNT];
    uint32_t attempts[ROW_COUNT]; /* of the newest attempt that was told, from 1 */
    size_t count;
    int failed;
};

static int see(void *user, const struct record *record)
{
    struct walk *walk = user;

    if (walk->count == ROW_COUNT) {
        return FAULT_LIMIT;
    }
    walk->rows[walk->count] = record->task.id.row;
    walk->attempts[walk->count++] = record->trail_count == 1 ? record->trail[0].attempt : 0;
    return 0;
}

/* Page by page to the end. */
static void *walk_all(void *user)
{
    struct walk *walk = user;

    do {
        walk->failed = store_list(walk->store, &walk->filter, walk->arena, see, walk,
                                  &walk->filter.after_row, NULL);
    } while (walk->failed == 0 && walk->filter.after_row != 0);
    return NULL;
}

/* Every third row is of the queue that stays, with an attempt in its trail. */
static bool stays(int64_t row)
{
    return row % 3 == 0;
}

static struct store *open_filled(void)
{
    postgres_rig_new(DATABASE);
    struct store *store = postgres_rig_open(DATABASE, &keep);

    for (int64_t row = 1; row <= ROW_COUNT; row++) {
        struct op op = postgres_rig_record_op(row, INT64_MAX);
        op.task.queue = stays(row) ? POSTGRES_RIG_QUEUE : PURGED_QUEUE;
        op.task.labels = SPAN("colour: red\n");
        assert_int_equal(postgres_rig_apply_one(store, &op), RESULT_DONE);
    }
    (void)postgres_rig_sql(DATABASE,
                           "INSERT INTO daruma.trail SELECT id, n, n, 1, 2, 0, 500, 2, 1, 0, '', ''"
                           " FROM daruma.life, generate_series(1, 2) AS n WHERE queue = 3");
    (void)postgres_rig_sql(DATABASE, STAND_STILL);
    return store;
}

static void purge_in_the_midst(struct walk *walk)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_NS};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, walk_all, walk), 0);
    while (postgres_rig_sql(DATABASE, ARE_STANDING) == 0) {
        (void)nanosleep(&pause, NULL); /* cut short: looked at once more */
    }
    (void)postgres_rig_sql(DATABASE, PURGE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(walk->failed, 0);
}

/* Ten rows are looked at, seven of them are gone before the page ends: it ends with the tenth all the same. */
static void walk_while_purged(struct store_filter filter)
{
    struct walk walk = {.store = open_filled(), .arena = arena_new(ARENA_MAX), .filter = filter};

    purge_in_the_midst(&walk);
    assert_int_equal(walk.count, ROW_COUNT / 3);
    for (size_t i = 0; i < walk.count; i++) {
        assert_int_equal(walk.rows[i], 3 * (int64_t)(i + 1));
    }
    arena_free(walk.arena);
    store_close(walk.store);
}

static void rows_that_are_purged_meanwhile_move_no_page_over_others(void **state)
{
    struct store_filter filter = {
        .queue = POSTGRES_RIG_QUEUE, .states = STORE_ALL_STATES, .scan_max = LOOKED_AT};
    (void)state;

    for (size_t limit = 2; limit <= LOOKED_AT; limit += LOOKED_AT - 2) {
        filter.limit = limit;
        filter.label_name = filter.label_value = (struct span){0};
        walk_while_purged(filter);
        filter.label_name = SPAN("colour");
        filter.label_value = SPAN("red");
        walk_while_purged(filter);
    }
}

static void a_page_tells_tasks_with_their_attempts_of_one_moment(void **state)
{
    struct walk walk = {.store = open_filled(),
                        .arena = arena_new(ARENA_MAX),
                        .filter = {.queue = POSTGRES_RIG_QUEUE,
                                   .states = STORE_ALL_STATES,
                                   .limit = ROW_COUNT,
                                   .wants = READ_LATEST}};
    (void)state;

    purge_in_the_midst(&walk);
    assert_int_equal(walk.count, ROW_COUNT / 3);
    for (size_t i = 0; i < walk.count; i++) {
        assert_int_equal(walk.attempts[i], 2);
    }
    arena_free(walk.arena);
    store_close(walk.store);
}

/* What is left of a task whose request is gone is not shown, and hides nothing that is behind it. */
static void a_life_without_its_request_ends_no_list(void **state)
{
    postgres_rig_new(DATABASE);
    struct walk walk = {
        .store = postgres_rig_open(DATABASE, &keep),
        .arena = arena_new(ARENA_MAX),
        .filter = {.states = 1u << TASK_WAITING, .deadline_until_ms = INT64_MAX, .limit = 2}};
    (void)state;

    for (int64_t row = 1; row <= 6; row++) {
        struct op op = postgres_rig_record_op(row, INT64_MAX);
        op.life.deadline_at_ms = row;
        assert_int_equal(postgres_rig_apply_one(walk.store, &op), RESULT_DONE);
    }
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.task WHERE id = 1");
    for (size_t way = 0; way < 2; way++) {
        walk.count = 0;
        (void)walk_all(&walk);
        assert_int_equal(walk.failed, 0);
        assert_int_equal(walk.count, 5);
        walk.filter = (struct store_filter){
            .states = STORE_ALL_STATES, .limit = 2, .scan_max = 4}; /* now the longer way */
    }
    arena_free(walk.arena);
    store_close(walk.store);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_that_are_purged_meanwhile_move_no_page_over_others),
        cmocka_unit_test(a_page_tells_tasks_with_their_attempts_of_one_moment),
        cmocka_unit_test(a_life_without_its_request_ends_no_list),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
