/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres -- the contract, on PostgreSQL; and what only a server that others use too can
 * go through: two who want the same, a database of an older version.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "store_contract.h"

#include "base/clock.h"
#include "store/store_postgres_internal.h"
#include "store/store_postgres_schema.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define DATABASE  "own"
#define ARENA_MAX ((size_t)64 << 20)
#define LIVES     200

static const struct store_subject subject = {
    .kind = "postgres", .has_path = true, .groups = true, .prepare = postgres_rig_new};
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

static struct beat look(struct store *store, struct arena *arena)
{
    struct beat beat = {0};
    struct error err = {0};

    if (store_beat(store, 0, arena, &beat, &err) != 0) {
        fail_msg("beat: %s", err.text);
    }
    return beat;
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

/* --- claims -------------------------------------------------------------------------------------- */

static void whatever_is_due_is_leased_in_order_of_due_times(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    int64_t now_ms = clock_wall_ms(&clock_real);
    (void)state;

    postgres_rig_record(store, 1, now_ms - 10);
    postgres_rig_record(store, 2, now_ms - 30);
    postgres_rig_record(store, 3, now_ms - 20);
    postgres_rig_record(store, 4, now_ms + 100000);
    struct op leases[4], *list[4];
    for (size_t i = 0; i < 4; i++) {
        leases[i] = postgres_rig_lease_op(store, arena, 0);
        list[i] = &leases[i];
    }
    assert_int_equal(store_apply(store, list, 4, NULL), 0);
    static const int64_t order[] = {2, 3, 1};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(leases[i].result, RESULT_DONE);
        assert_int_equal(leases[i].task.id.row, order[i]);
        assert_int_equal(leases[i].life.state, TASK_RUNNING);
        assert_int_equal(leases[i].life.attempts, 1);
        assert_true(span_is(leases[i].task.body, "body"));
    }
    assert_int_equal(leases[3].result, RESULT_MISSING);
    arena_free(arena);
    store_close(store);
}

/* A person's word, bulk redrives and workers each have their own. */
static void a_lease_takes_only_its_kind(void **state)
{
    static const uint32_t kinds[] = {LIFE_FORCED, 0, LIFE_LOW, LIFE_PULL};
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    for (size_t i = 0; i < 4; i++) {
        struct op op = postgres_rig_record_op((int64_t)i + 1, 1);
        op.life.flags = kinds[i];
        assert_int_equal(postgres_rig_apply_one(store, &op), RESULT_DONE);
    }
    for (size_t i = 4; i > 0; i--) {
        struct op lease = postgres_rig_lease_op(store, arena, kinds[i - 1]);
        assert_int_equal(postgres_rig_apply_one(store, &lease), RESULT_DONE);
        assert_int_equal(lease.task.id.row, i);
        struct op more = postgres_rig_lease_op(store, arena, kinds[i - 1]);
        assert_int_equal(postgres_rig_apply_one(store, &more), RESULT_MISSING);
    }
    arena_free(arena);
    store_close(store);
}

/* What becomes due behind the place where claims go on is found by a sweep. */
static void what_is_due_earlier_than_the_last_claim_is_found(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    int64_t until_ms = clock_mono_ms(&clock_real) + 5000;
    (void)state;

    postgres_rig_record(store, 1, 2000);
    struct op lease = postgres_rig_lease_op(store, arena, 0);
    assert_int_equal(postgres_rig_apply_one(store, &lease), RESULT_DONE);
    postgres_rig_record(store, 2, 1000);
    do {
        lease = postgres_rig_lease_op(store, arena, 0);
    } while (postgres_rig_apply_one(store, &lease) != RESULT_DONE &&
             clock_mono_ms(&clock_real) < until_ms);
    assert_int_equal(lease.task.id.row, 2);
    arena_free(arena);
    store_close(store);
}

struct claimer {
    struct store *store;
    size_t count;
    int64_t rows[LIVES];
};

static void *claim_all(void *user)
{
    struct claimer *claimer = user;
    struct arena *arena = arena_new(ARENA_MAX);
    int misses = 0;

    while (misses < 20) {
        struct op leases[8], *list[8];
        for (size_t i = 0; i < 8; i++) {
            leases[i] = postgres_rig_lease_op(claimer->store, arena, 0);
            list[i] = &leases[i];
        }
        assert_int_equal(store_apply(claimer->store, list, 8, NULL), 0);
        bool is_any = false;
        for (size_t i = 0; i < 8; i++) {
            if (leases[i].result == RESULT_DONE) {
                claimer->rows[claimer->count++] = leases[i].task.id.row;
                is_any = true;
            }
        }
        misses = is_any ? 0 : misses + 1;
    }
    arena_free(arena);
    return NULL;
}

/* I2 */
static void two_who_claim_at_once_get_different_tasks(void **state)
{
    static struct claimer claimers[2];
    struct store *store = open_new();
    pthread_t threads[2];
    bool seen[LIVES + 1] = {false};
    (void)state;

    for (int64_t i = 1; i <= LIVES; i++) {
        postgres_rig_record(store, i, 1);
    }
    for (size_t i = 0; i < 2; i++) {
        claimers[i].store = open_store();
        assert_int_equal(pthread_create(&threads[i], NULL, claim_all, &claimers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(claimers[0].count + claimers[1].count, LIVES);
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < claimers[i].count; n++) {
            assert_false(seen[claimers[i].rows[n]]);
            seen[claimers[i].rows[n]] = true;
        }
        store_close(claimers[i].store);
    }
    store_close(store);
}

/* --- nodes ----------------------------------------------------------------------------------------- */

static void nodes_have_epochs_and_slots_of_their_own(void **state)
{
    struct store *one = open_new(), *two = open_store();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    assert_int_not_equal(one->epoch, two->epoch);
    assert_int_not_equal(one->slot, two->slot);
    struct beat first = look(one, arena), second = look(two, arena);
    assert_true(first.is_fresh && second.is_fresh);
    assert_int_equal(first.node_count, 2);
    assert_int_equal(first.place, 0);
    assert_int_equal(second.place, 1);
    assert_true(first.has_duty);
    assert_false(second.has_duty);
    store_close(one);
    second = beat_once(two, arena);
    assert_int_equal(second.node_count, 1);
    assert_true(second.has_duty); /* it moves */
    arena_free(arena);
    store_close(two);
}

/* Also when it was there before: what it has seen of the others was in another name. */
static void a_node_that_joins_anew_waits_for_its_share_as_any_other(void **state)
{
    struct store *one = open_new(), *two = open_store();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    for (int i = 0; i < 3; i++) {
        (void)beat_once(one, arena);
        (void)beat_once(two, arena);
    }
    assert_true(beat_once(one, arena).has_settled_in);
    (void)postgres_rig_sql(DATABASE, "DELETE FROM daruma.node WHERE slot = 0"); /* taken for dead */
    uint64_t before = one->epoch;
    struct beat beat = beat_once(one, arena);
    assert_int_not_equal(beat.epoch, before);
    assert_int_equal(beat.place, 1);
    assert_false(beat.has_settled_in);
    (void)beat_once(two, arena);
    assert_false(beat_once(one, arena).has_settled_in);
    (void)beat_once(two, arena);
    assert_true(beat_once(one, arena).has_settled_in);
    arena_free(arena);
    store_close(one);
    store_close(two);
}

/* E7, I2, I5: what a silent node held is told to the one with the duty; its own leases are refused, and
 * so is whatever it begins, until it has another epoch. */
static void a_silent_node_is_replaced_and_leases_nothing_afterwards(void **state)
{
    struct store *one = open_new(), *two = open_store();
    struct arena *arena = arena_new(ARENA_MAX);
    struct beat beat = {0};
    (void)state;

    one->node_lease_ms = two->node_lease_ms = 300;
    postgres_rig_record(one, 1, 1);
    postgres_rig_record(one, 2, 1);
    struct op lease = postgres_rig_lease_op(one, arena, 0);
    assert_int_equal(postgres_rig_apply_one(one, &lease), RESULT_DONE);
    for (int i = 0; i < 200 && beat.orphan_count == 0; i++) {
        beat = beat_once(two, arena);
    }
    assert_int_equal(beat.orphan_count, 1);
    assert_int_equal(beat.orphans[0].row, lease.task.id.row);
    assert_int_equal(beat.orphans[0].epoch, lease.life.epoch);
    assert_int_equal(beat.node_count, 1);

    struct op late = postgres_rig_lease_op(one, arena, 0);
    assert_int_equal(postgres_rig_apply_one(one, &late), RESULT_MISSING);
    struct op running = postgres_rig_record_op(3, 1);
    running.life = (struct life){
        .state = TASK_RUNNING, .fence = 1, .epoch = one->epoch, .attempts = 1, .due_at_ms = 1};
    assert_int_equal(postgres_rig_apply_one(one, &running), RESULT_DONE);
    assert_int_equal(running.life.state, TASK_WAITING); /* it was taken in, but not begun */
    uint64_t old = one->epoch;
    do { /* the first one finds that it was taken for dead */
        beat = look(one, arena);
    } while (!beat.is_fresh);
    assert_true(beat.epoch > old);
    late = postgres_rig_lease_op(one, arena, 0);
    late.epoch = old;
    assert_int_equal(postgres_rig_apply_one(one, &late), RESULT_MISSING);
    late.epoch = beat.epoch;
    late.task = (struct task){.queue = POSTGRES_RIG_QUEUE};
    late.life = (struct life){0};
    assert_int_equal(postgres_rig_apply_one(one, &late), RESULT_DONE);
    arena_free(arena);
    store_close(one);
    store_close(two);
}

static void what_a_node_leaves_behind_in_good_order_is_told_at_once(void **state)
{
    struct store *one = open_new(), *two = open_store();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    postgres_rig_record(one, 1, 1);
    struct op lease = postgres_rig_lease_op(one, arena, 0);
    assert_int_equal(postgres_rig_apply_one(one, &lease), RESULT_DONE);
    store_close(one);
    struct beat beat = look(two, arena);
    assert_true(beat.has_duty);
    assert_int_equal(beat.orphan_count, 1);
    arena_free(arena);
    store_close(two);
}

/* Marks are folded, and nothing that still runs is forgotten by it. */
static void folding_keeps_what_still_runs(void **state)
{
    struct store *one = open_new(), *two;
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    postgres_rig_record(one, 1, 1);
    struct op lease = postgres_rig_lease_op(one, arena, 0);
    assert_int_equal(postgres_rig_apply_one(one, &lease), RESULT_DONE);
    for (int64_t i = 2; i < 700; i++) {
        assert_int_equal(store_touch(one, NULL), 0);
    }
    one->node_lease_ms = 100;
    (void)beat_once(one, arena);
    (void)beat_once(one, arena);
    assert_true(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.batch") < 100);
    two = open_store();
    store_close(one);
    struct beat beat;
    do { /* the duty is free once the server has seen that its connection is closed */
        beat = beat_once(two, arena);
    } while (!beat.has_duty);
    assert_int_equal(beat.orphan_count, 1);
    arena_free(arena);
    store_close(two);
}

/* Whatever the server thinks is the best way to do it. */
static void marks_are_folded_again_and_again(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    store->node_lease_ms = 100;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 600; i++) {
            assert_int_equal(store_touch(store, NULL), 0);
        }
        (void)beat_once(store, arena);
        (void)postgres_rig_sql(DATABASE, round % 2 == 0 ? "ANALYZE daruma.batch" : "SELECT 1");
        assert_true(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.batch") < 150);
    }
    arena_free(arena);
    store_close(store);
}

static void hints_tell_what_waits(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    struct op queue = {.kind = OP_QUEUE, .queue = {.name = SPAN("q")}};
    int64_t later_ms = clock_wall_ms(&clock_real) + 500000;
    (void)state;

    assert_int_equal(postgres_rig_apply_one(store, &queue), RESULT_DONE);
    for (int64_t i = 1; i <= 3; i++) {
        struct op op = postgres_rig_record_op(i, i == 3 ? later_ms : i);
        op.task.queue = queue.queue.number;
        assert_int_equal(postgres_rig_apply_one(store, &op), RESULT_DONE);
    }
    struct beat beat = look(store, arena);
    assert_int_equal(beat.hint_count, 1);
    assert_int_equal(beat.hints[0].queue, queue.queue.number);
    assert_int_equal(beat.hints[0].due_count, 2);
    assert_int_equal(beat.hints[0].next_ms, later_ms);
    arena_free(arena);
    store_close(store);
}

/* What a person wants run is asked for by itself, whoever pulls. */
static void what_workers_pull_by_a_persons_word_is_claimed_apart(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    struct op pulled = postgres_rig_record_op(1, 1), forced = postgres_rig_record_op(2, 1);
    (void)state;

    pulled.life.flags = forced.life.flags = LIFE_PULL;
    assert_int_equal(postgres_rig_apply_one(store, &pulled), RESULT_DONE);
    assert_int_equal(postgres_rig_apply_one(store, &forced), RESULT_DONE);
    struct op run = {.kind = OP_RUN, .now_ms = 2, .task.id = {.row = 2, .tail = 9}};
    assert_int_equal(postgres_rig_apply_one(store, &run), RESULT_DONE);
    struct op pushed = postgres_rig_lease_op(store, arena, LIFE_FORCED);
    assert_int_equal(postgres_rig_apply_one(store, &pushed), RESULT_MISSING);
    struct op word = postgres_rig_lease_op(store, arena, LIFE_PULL | LIFE_FORCED);
    assert_int_equal(postgres_rig_apply_one(store, &word), RESULT_DONE);
    assert_int_equal(word.task.id.row, 2);
    word = postgres_rig_lease_op(store, arena, LIFE_PULL | LIFE_FORCED);
    assert_int_equal(postgres_rig_apply_one(store, &word), RESULT_MISSING);
    struct op other = postgres_rig_lease_op(store, arena, LIFE_PULL);
    assert_int_equal(postgres_rig_apply_one(store, &other), RESULT_DONE);
    assert_int_equal(other.task.id.row, 1);
    arena_free(arena);
    store_close(store);
}

/* --- the schema -------------------------------------------------------------------------------------- */

/* A database as the first version left it, with a task in it. */
static void make_first_version(void)
{
    int64_t reached_ms = 0;
    struct link link = {.url = DATABASE, .reached_ms = &reached_ms};

    postgres_rig_new(DATABASE);
    assert_int_equal(link_open(&link, NULL), 0);
    assert_int_equal(postgres_schema_open(&link, 1, NULL), 0);
    link_drop(&link);
    (void)postgres_rig_sql(
        DATABASE, "INSERT INTO daruma.queue VALUES (1, 'old', false, false, 0, '');"
                  "INSERT INTO daruma.task VALUES (77, 5, 1, '', 'key', decode(repeat('00', 32),"
                  " 'hex'), 'POST', 'http://x/', '', '', '', 'kept');"
                  "INSERT INTO daruma.key VALUES (daruma.key_hash(1, '', 'key'), 77,"
                  " decode(repeat('00', 32), 'hex'));"
                  "INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts,"
                  " attempts_all, round, flags, trail_count, state, has_answer, has_edit, key_hash)"
                  " VALUES (77, 5, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, false, false,"
                  " daruma.key_hash(1, '', 'key'));"
                  "INSERT INTO daruma.ready VALUES (1, 1, 1, 77);"
                  "INSERT INTO daruma.life (id, tail, due_at, fence, epoch, queue, attempts,"
                  " attempts_all, round, flags, trail_count, state, has_answer, has_edit)"
                  " VALUES (78, 5, 1, 0, 0, 1, 0, 0, 0, 36, 0, 0, false, false);"
                  "INSERT INTO daruma.ready VALUES (1, 3, 1, 78)"); /* for a worker, now */
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT value FROM daruma.meta WHERE name = 'schema'"), 1);
}

static void a_database_of_the_version_before_is_brought_up_to_date(void **state)
{
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    make_first_version();
    struct store *store = open_store();
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT value FROM daruma.meta WHERE name = 'schema'"),
        postgres_step_count);
    struct op same = {.kind = OP_RECORD,
                      .now_ms = 2,
                      .task = {.id = {.row = 99}, .queue = 1, .key = SPAN("key")}};
    assert_int_equal(postgres_rig_apply_one(store, &same), RESULT_DUPLICATE);
    assert_int_equal(same.task.id.row, 77);
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.ready WHERE id = 78 AND lane = 6"),
        1);
    struct op lease = postgres_rig_lease_op(store, arena, 0);
    lease.task.queue = 1;
    assert_int_equal(postgres_rig_apply_one(store, &lease), RESULT_DONE);
    assert_true(span_is(lease.task.body, "kept"));
    assert_int_equal(postgres_rig_sql(DATABASE, "SELECT count(*) FROM daruma.idempotency_keys"), 1);
    arena_free(arena);
    store_close(store);
}

static void *open_one(void *user)
{
    *(struct store **)user = open_store();
    return NULL;
}

static void many_who_start_at_once_migrate_once(void **state)
{
    struct store *stores[6];
    pthread_t threads[6];
    (void)state;

    make_first_version();
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, open_one, &stores[i]), 0);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        store_close(stores[i]);
    }
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT value FROM daruma.meta WHERE name = 'schema'"),
        postgres_step_count);
}

/* A life is changed in place: no index follows it. */
static void a_life_is_changed_without_touching_an_index(void **state)
{
    struct store *store = open_new();
    struct arena *arena = arena_new(ARENA_MAX);
    (void)state;

    for (int64_t i = 1; i <= LIVES; i++) {
        postgres_rig_record(store, i, 1);
    }
    (void)postgres_rig_sql(DATABASE, "UPDATE daruma.life SET deadline_at = 4000000000000 + id;"
                                     "SELECT pg_stat_reset_single_table_counters("
                                     "'daruma.life'::regclass)");
    for (int64_t i = 1; i <= LIVES; i++) {
        struct op lease = postgres_rig_lease_op(store, arena, 0);
        assert_int_equal(postgres_rig_apply_one(store, &lease), RESULT_DONE);
        struct op settle = {.kind = OP_SETTLE, .task.id = lease.task.id, .life = lease.life};
        settle.life.state = TASK_SUCCEEDED;
        assert_int_equal(postgres_rig_apply_one(store, &settle), RESULT_DONE);
    }
    store_close(store); /* what a backend has done is told when it ends */
    int64_t hot = 0;
    for (int i = 0; i < 100 && hot < 2 * LIVES; i++) {
        hot = postgres_rig_sql(DATABASE, "SELECT pg_stat_clear_snapshot(); SELECT n_tup_hot_upd"
                                         " FROM pg_stat_user_tables WHERE relname = 'life'");
    }
    assert_int_equal(hot, 2 * LIVES);
    arena_free(arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(whatever_is_due_is_leased_in_order_of_due_times),
        cmocka_unit_test(a_lease_takes_only_its_kind),
        cmocka_unit_test(what_is_due_earlier_than_the_last_claim_is_found),
        cmocka_unit_test(two_who_claim_at_once_get_different_tasks),
        cmocka_unit_test(nodes_have_epochs_and_slots_of_their_own),
        cmocka_unit_test(a_node_that_joins_anew_waits_for_its_share_as_any_other),
        cmocka_unit_test(a_silent_node_is_replaced_and_leases_nothing_afterwards),
        cmocka_unit_test(what_a_node_leaves_behind_in_good_order_is_told_at_once),
        cmocka_unit_test(folding_keeps_what_still_runs),
        cmocka_unit_test(marks_are_folded_again_and_again),
        cmocka_unit_test(hints_tell_what_waits),
        cmocka_unit_test(what_workers_pull_by_a_persons_word_is_claimed_apart),
        cmocka_unit_test(a_database_of_the_version_before_is_brought_up_to_date),
        cmocka_unit_test(many_who_start_at_once_migrate_once),
        cmocka_unit_test(a_life_is_changed_without_touching_an_index),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = store_contract_run(argc, argv, &subject, own, sizeof own / sizeof *own);
    postgres_rig_stop();
    return failed;
}
