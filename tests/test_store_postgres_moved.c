/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_moved -- what a node hears of the tasks that its peers settle, while it says that
 * a caller waits there.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"
#include "store/store.h"

#define DATABASE  "moved"
#define QUEUE     1
#define ARENA_MAX ((size_t)1 << 20)
#define BEATS     12
#define MANY      300 /* more than one word has room for */

static struct store *open_store(void)
{
    const struct store_keep keep = {.succeeded_ms = 1000, .failed_ms = 1000, .cancelled_ms = 1000};
    return postgres_rig_open(DATABASE, &keep);
}

static void apply(struct store *store, struct op *ops[], size_t count)
{
    postgres_rig_apply(store, ops, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(ops[i]->result, RESULT_DONE);
    }
}

/* All at once: they run, then they are as said. */
static void settle(struct store *store, int64_t first, size_t count, enum task_state state)
{
    static struct op made[MANY];
    struct op *ops[MANY];

    for (int step = 0; step < 2; step++) {
        for (size_t i = 0; i < count; i++) {
            made[i] =
                (struct op){.kind = step == 0 ? OP_RECORD : OP_SETTLE,
                            .now_ms = clock_wall_ms(&clock_real),
                            .task = {.id = {.row = first + (int64_t)i, .tail = 9}, .queue = QUEUE},
                            .life = {.state = step == 0 ? TASK_RUNNING : state,
                                     .fence = 1,
                                     .epoch = store->epoch,
                                     .due_at_ms = INT64_MAX / 2}};
            ops[i] = &made[i];
        }
        apply(store, ops, count);
    }
}

struct heard {
    size_t count;
    int64_t row; /* the latest */
    bool has_more;
};

/* What one beat brings. */
static void beat(struct store *store, struct heard *heard)
{
    struct arena *arena = arena_new(ARENA_MAX);
    struct beat seen;
    struct error err = {0};

    if (store_beat(store, 20, arena, &seen, &err) != 0) {
        fail_msg("beat: %s", err.text);
    }
    heard->count += seen.moved_count;
    heard->row = seen.moved_count > 0 ? seen.moved[seen.moved_count - 1] : heard->row;
    heard->has_more |= seen.has_moved_more;
    arena_free(arena);
}

/* What the second hears of the first in a while. */
static struct heard hear(struct store *one, struct store *two)
{
    struct heard own = {0}, heard = {0};

    for (int i = 0; i < BEATS && heard.count == 0 && !heard.has_more; i++) {
        beat(one, &own);
        beat(two, &heard);
    }
    assert_int_equal(own.count, 0); /* no caller waits there */
    return heard;
}

static void await(struct store *one, struct store *two, bool awaits)
{
    struct heard none = {0};

    store_nudge(two, &(struct node_wish){.awaits = awaits});
    beat(two, &none); /* says so */
    beat(one, &none); /* hears it at once */
    beat(one, &none);
}

static void a_node_where_somebody_waits_hears_of_what_others_settle(void **state)
{
    (void)state;
    postgres_rig_new(DATABASE);
    struct store *one = open_store(), *two = open_store();
    (void)hear(one, two);
    settle(one, 1, 1, TASK_SUCCEEDED);
    assert_int_equal(hear(one, two).count, 0); /* no caller waits */
    await(one, two, true);
    settle(one, 2, 1, TASK_WAITING); /* tried again later */
    assert_int_equal(hear(one, two).count, 0);
    settle(one, 3, 1, TASK_UNSETTLED);
    struct heard heard = hear(one, two);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.row, 3);
    await(one, two, false);
    settle(one, 4, 1, TASK_SUCCEEDED);
    settle(one, 5, 1, TASK_SUCCEEDED);
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.node WHERE awaits"),
                     0);
    store_close(two);
    store_close(one);
}

static void of_very_many_only_that_there_are_some_is_said(void **state)
{
    (void)state;
    postgres_rig_new(DATABASE);
    struct store *one = open_store(), *two = open_store();
    (void)hear(one, two);
    await(one, two, true);
    settle(one, 1, MANY, TASK_SUCCEEDED);
    assert_true(hear(one, two).has_more);
    settle(one, 1000, 200, TASK_SUCCEEDED);
    struct heard heard = hear(one, two);
    assert_false(heard.has_more);
    assert_int_equal(heard.count, 200);
    assert_int_equal(heard.row, 1199);
    store_close(two);
    store_close(one);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_where_somebody_waits_hears_of_what_others_settle),
        cmocka_unit_test(of_very_many_only_that_there_are_some_is_said),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
