/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_forgotten -- the number that says what was forgotten before its time: what raises
 * it and what does not, and when a node is told that all others know.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"
#include "store/store.h"

#include <stdio.h>

#define DATABASE  "forgotten"
#define QUEUE     1
#define ARENA_MAX ((size_t)1 << 20)
#define DAY_MS    86400000
#define LEASE_MS  1000
#define BEATS_MAX 100

static const struct store_keep keep = {
    .succeeded_ms = DAY_MS, .failed_ms = DAY_MS, .cancelled_ms = DAY_MS};

static struct store *open_store(void)
{
    struct store *store = postgres_rig_open(DATABASE, &keep);

    store->node_lease_ms = LEASE_MS;
    return store;
}

static enum op_result apply(struct store *store, struct op op)
{
    return postgres_rig_apply_one(store, &op);
}

static struct store *open_new(void)
{
    postgres_rig_new(DATABASE);
    struct store *store = open_store();
    assert_int_equal(apply(store, (struct op){.kind = OP_QUEUE, .queue = {.name = SPAN("q")}}),
                     RESULT_DONE);
    return store;
}

static int64_t forgotten(void)
{
    return postgres_rig_sql(DATABASE, "SELECT value FROM daruma.meta WHERE name = 'forgotten'");
}

static struct op of_row(enum op_kind kind, int64_t row)
{
    return (struct op){.kind = kind,
                       .now_ms = clock_wall_ms(&clock_real),
                       .task = {.id = {.row = row, .tail = 9}, .queue = QUEUE}};
}

/* One that runs, under a key of its own. */
static void begin(struct store *store, int64_t row)
{
    struct op op = of_row(OP_RECORD, row);
    char key[16];

    (void)snprintf(key, sizeof key, "key-%d", (int)row); /* fits */
    op.task.key = span_of(key);
    op.life = (struct life){.state = TASK_RUNNING, .fence = 1, .epoch = store->epoch};
    assert_int_equal(apply(store, op), RESULT_DONE);
}

static const struct answer created = {.status = 201, .body = {.at = "made", .len = 4}};

static void settle(struct store *store, int64_t row, int64_t keep_until_ms, bool releases_key)
{
    struct op op = of_row(OP_SETTLE, row);

    op.life = (struct life){.state = TASK_SUCCEEDED,
                            .fence = 1,
                            .settled_at_ms = op.now_ms,
                            .keep_until_ms = keep_until_ms};
    op.answer = &created;
    op.releases_key = releases_key;
    assert_int_equal(apply(store, op), RESULT_DONE);
}

static void answer(struct store *store, int64_t row, int64_t keep_until_ms)
{
    begin(store, row);
    settle(store, row, keep_until_ms, false);
}

/* What the engines of the two nodes want. */
static struct wish {
    const struct store *store;
    struct node_wish wish;
} wishes[2];

static void nudge(struct store *store, uint64_t asked, uint64_t followed)
{
    struct wish *mine =
        wishes[0].store == store || wishes[0].store == NULL ? &wishes[0] : &wishes[1];

    mine->store = store;
    mine->wish.asked = asked > mine->wish.asked ? asked : mine->wish.asked;
    mine->wish.followed = followed > mine->wish.followed ? followed : mine->wish.followed;
    store_nudge(store, &mine->wish);
}

/* What it tells of queues is left alone: an engine that has no turn. */
static struct beat beat_without_engine(struct store *store)
{
    struct arena *arena = arena_new(ARENA_MAX);
    struct beat seen;
    struct error err = {0};

    if (store_beat(store, 20, arena, &seen, &err) != 0) {
        fail_msg("beat: %s", err.text);
    }
    arena_free(arena); /* the arrays are not looked at */
    return seen;
}

static struct beat beat(struct store *store)
{
    struct beat seen = beat_without_engine(store);

    if (seen.queues_serial != 0) {
        nudge(store, 0, seen.queues_serial);
    }
    return seen;
}

/* --- what raises it ---------------------------------------------------------------------------------- */

static void a_purge_before_the_keeping_time_is_over_raises_the_number_once_a_batch(void **state)
{
    struct store *store = open_new();
    int64_t until_ms = clock_wall_ms(&clock_real) + DAY_MS, before = forgotten();
    (void)state;

    for (int64_t row = 1; row <= 3; row++) {
        answer(store, row, until_ms);
    }
    assert_int_equal(forgotten(), before);
    struct op one = of_row(OP_PURGE, 1), two = of_row(OP_PURGE, 2);
    struct op *both[] = {&one, &two};
    assert_int_equal(store_apply(store, both, 2, NULL), 0);
    assert_int_equal(forgotten(), before + 1);
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.key"); /* by hand */
    assert_int_equal(forgotten(), before + 2);
    store_close(store);
}

static void what_people_delete_or_empty_by_hand_raises_the_number(void **state)
{
    struct store *store = open_new();
    int64_t until_ms = clock_wall_ms(&clock_real) + DAY_MS, before = forgotten();
    (void)state;

    for (int64_t row = 1; row <= 3; row++) {
        answer(store, row, until_ms);
    }
    answer(store, 4, 0); /* of no route */
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.life WHERE id = 4");
    assert_int_equal(forgotten(), before);
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.life WHERE id < 3");
    assert_int_equal(forgotten(), before + 1); /* once for both */
    (void)postgres_rig_sql(DATABASE, "TRUNCATE daruma.life");
    assert_int_equal(forgotten(), before + 2);
    (void)postgres_rig_sql(DATABASE, "TRUNCATE daruma.key");
    assert_int_equal(forgotten(), before + 3);
    store_close(store);
}

static void a_deleted_queue_raises_the_number(void **state)
{
    struct store *store = open_new();
    int64_t before = forgotten();
    struct op drop = {.kind = OP_QUEUE, .queue = {.name = SPAN("q"), .number = QUEUE}};
    (void)state;

    assert_int_equal(apply(store, drop), RESULT_DONE); /* changes it */
    assert_int_equal(forgotten(), before);
    drop.queue.dropped = true;
    assert_int_equal(apply(store, drop), RESULT_DONE);
    assert_int_equal(forgotten(), before + 1);
    store_close(store);
}

static void what_is_past_its_time_or_was_never_kept_does_not_raise_the_number(void **state)
{
    struct store *store = open_new();
    int64_t now_ms = clock_wall_ms(&clock_real), before = forgotten();
    (void)state;

    answer(store, 1, now_ms - 10); /* the janitor's */
    answer(store, 2, 0);           /* of no route: no node holds it */
    begin(store, 3);
    settle(store, 3, now_ms + DAY_MS, true); /* its key is released */
    for (int64_t row = 1; row <= 3; row++) {
        assert_int_equal(apply(store, of_row(OP_PURGE, row)), RESULT_DONE);
    }
    answer(store, 4, now_ms - 10);
    struct op bury = of_row(OP_BURY, 4);
    bury.life.keep_until_ms = now_ms - 10;
    assert_int_equal(apply(store, bury), RESULT_DONE);
    assert_int_equal(forgotten(), before);
    store_close(store);
}

/* --- who knows --------------------------------------------------------------------------------------- */

/* True: one of so many beats told it. */
static bool is_told(struct store *store, uint64_t asked, int beats)
{
    bool is_told = false;

    for (int i = 0; i < beats && !is_told; i++) {
        is_told = beat(store).told >= asked;
    }
    return is_told;
}

static void it_is_told_when_every_node_knows(void **state)
{
    struct store *one = open_new(), *two = open_store();
    int64_t until_ms = clock_wall_ms(&clock_real) + DAY_MS;
    (void)state;

    (void)beat(one);
    (void)beat(two);
    uint64_t before = two->forgotten;
    assert_int_not_equal(before, 0);
    answer(one, 1, until_ms);
    (void)beat(two);
    assert_int_equal(two->forgotten, before);
    assert_int_equal(apply(one, of_row(OP_PURGE, 1)), RESULT_DONE);
    nudge(one, 1, 0);
    assert_false(is_told(one, 1, 2)); /* the other one has not said so */
    (void)beat(two);                  /* heard by itself, long before its second is over */
    assert_int_not_equal(two->forgotten, before);
    assert_true(is_told(one, 1, 2));
    store_close(two);
    store_close(one);
}

static void it_is_told_when_a_node_that_is_silent_was_taken_for_dead(void **state)
{
    struct store *one = open_new(), *two = open_store();
    (void)state;

    (void)beat(one);
    (void)beat(two);
    answer(one, 1, clock_wall_ms(&clock_real) + DAY_MS);
    assert_int_equal(apply(one, of_row(OP_PURGE, 1)), RESULT_DONE);
    nudge(one, 1, 0);
    int64_t began_ms = clock_mono_ms(&clock_real);
    assert_true(is_told(one, 1, BEATS_MAX));
    assert_true(clock_mono_ms(&clock_real) - began_ms >= LEASE_MS * 8 / 10);
    uint64_t before = two->forgotten;
    while (!beat(two).is_fresh) { /* joins anew, and has no lease before it has looked */
    }
    assert_int_not_equal(two->forgotten, before);
    store_close(two);
    store_close(one);
}

static void beside_a_node_that_says_nothing_of_it_nothing_is_known(void **state)
{
    struct store *one = open_new(), *two = open_store();
    (void)state;

    (void)beat(one);
    (void)beat(two);
    (void)postgres_rig_sql(DATABASE, "UPDATE daruma.node SET forgotten = NULL, queues = NULL WHERE"
                                     " epoch = (SELECT max(epoch) FROM daruma.node)");
    nudge(one, 1, 0);
    assert_true(is_told(one, 1, 2)); /* it holds nothing, so it is not waited for */
    assert_int_equal(one->forgotten, 0);
    store_close(two);
    nudge(one, 2, 0);
    assert_true(is_told(one, 2, 2));
    assert_int_not_equal(one->forgotten, 0);
    store_close(one);
}

/* --- changes of queues ----------------------------------------------------------------------------- */

/* Two nodes that know of each other, and of every queue. */
static void open_both(struct store **ret_one, struct store **ret_two)
{
    *ret_one = open_new();
    *ret_two = open_store();
    for (int i = 0; i < 3; i++) {
        (void)beat(*ret_one);
        (void)beat(*ret_two);
    }
}

static void pause(struct store *store)
{
    assert_int_equal(
        apply(store, (struct op){.kind = OP_QUEUE, .queue = {.name = SPAN("q"), .paused = true}}),
        RESULT_DONE);
}

static void a_change_of_a_queue_is_told_when_every_engine_has_followed(void **state)
{
    struct store *one, *two;
    (void)state;

    open_both(&one, &two);
    pause(one);
    nudge(one, 1, 0);
    assert_false(is_told(one, 1, 2));
    struct beat seen =
        beat_without_engine(two); /* heard by itself, long before its second is over */
    assert_int_not_equal(seen.queues_serial, 0);
    assert_int_equal(seen.queue_count, 1);
    (void)beat_without_engine(two);
    assert_false(is_told(one, 1, 2)); /* its engine has not taken that yet */
    nudge(two, 0, seen.queues_serial);
    (void)beat_without_engine(two);
    assert_true(is_told(one, 1, 2));
    assert_int_equal(beat_without_engine(two).queues_serial, 0); /* and nothing is new to it */
    store_close(two);
    store_close(one);
}

static void queues_that_an_engine_has_not_followed_come_again_with_a_fresh_beat(void **state)
{
    struct store *one, *two;
    (void)state;

    open_both(&one, &two);
    pause(one);
    nudge(one, 1, 0);
    (void)beat(one); /* says that there is something to look at */
    struct beat seen = beat_without_engine(two), again = seen;
    assert_int_not_equal(seen.queues_serial, 0);
    while (!(again = beat_without_engine(two)).is_fresh) {
        assert_int_equal(again.queues_serial, 0); /* one set is under way at a time */
    }
    assert_int_equal(again.queues_serial, seen.queues_serial);
    store_close(two);
    store_close(one);
}

static void a_node_that_joins_anew_has_the_queues_with_the_beat_that_gives_its_lease(void **state)
{
    struct store *one, *two;
    struct beat seen;
    (void)state;

    open_both(&one, &two);
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.node WHERE epoch ="
                                     " (SELECT max(epoch) FROM daruma.node)");
    pause(one);
    nudge(one, 1, 0);
    assert_true(is_told(one, 1, 2)); /* nothing is left of it to wait for */
    uint64_t before = two->epoch;
    bool has_queues = false;
    do {
        seen = beat_without_engine(two);
        has_queues |= seen.queues_serial != 0;
    } while (!seen.is_fresh);
    assert_true(seen.epoch != before);
    assert_true(has_queues); /* with it, or before */
    store_close(two);
    store_close(one);
}

static void a_node_that_does_not_say_what_it_follows_is_not_waited_for(void **state)
{
    struct store *one, *two;
    (void)state;

    open_both(&one, &two);
    (void)postgres_rig_sql(DATABASE, "UPDATE daruma.node SET queues = NULL WHERE epoch ="
                                     " (SELECT max(epoch) FROM daruma.node)");
    pause(one);
    nudge(one, 1, 0);
    assert_true(is_told(one, 1, 2));
    store_close(two);
    store_close(one);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_purge_before_the_keeping_time_is_over_raises_the_number_once_a_batch),
        cmocka_unit_test(what_people_delete_or_empty_by_hand_raises_the_number),
        cmocka_unit_test(a_deleted_queue_raises_the_number),
        cmocka_unit_test(what_is_past_its_time_or_was_never_kept_does_not_raise_the_number),
        cmocka_unit_test(it_is_told_when_every_node_knows),
        cmocka_unit_test(it_is_told_when_a_node_that_is_silent_was_taken_for_dead),
        cmocka_unit_test(beside_a_node_that_says_nothing_of_it_nothing_is_known),
        cmocka_unit_test(a_change_of_a_queue_is_told_when_every_engine_has_followed),
        cmocka_unit_test(queues_that_an_engine_has_not_followed_come_again_with_a_fresh_beat),
        cmocka_unit_test(a_node_that_joins_anew_has_the_queues_with_the_beat_that_gives_its_lease),
        cmocka_unit_test(a_node_that_does_not_say_what_it_follows_is_not_waited_for),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
