/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_writers -- the connections of one node that write, each from a thread of its own:
 * what they want at the same time, what each of them has in doubt, what is left of their batches; and those
 * that read and count.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>

#define DATABASE "writers"
#define QUEUE    3
#define HANDS    3
#define TASKS    300
#define BATCH    7
#define ARENA    ((size_t)8 << 20)

static const struct store_keep keep = {
    .succeeded_ms = 100000, .failed_ms = 1000, .cancelled_ms = 1000};

static struct store *open_store(void)
{
    struct store *store = postgres_rig_open(DATABASE, &keep);

    store->writer_count = HANDS;
    return store;
}

static struct store *open_new(void)
{
    postgres_rig_new(DATABASE);
    return open_store();
}

static struct op record_op(int64_t row, struct span key)
{
    return (struct op){.kind = OP_RECORD,
                       .now_ms = clock_wall_ms(&clock_real),
                       .task = {.id = {.row = row, .tail = 9}, .queue = QUEUE, .key = key},
                       .life = {.due_at_ms = 1}};
}

static struct op claim_op(const struct store *store, struct arena *arena)
{
    return (struct op){.kind = OP_LEASE,
                       .task.queue = QUEUE,
                       .epoch = store->epoch,
                       .arena = arena,
                       .wants_request = true};
}

static int64_t count(const char *what)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM daruma.%s", what);
    return postgres_rig_sql(DATABASE, sql);
}

/* One thread, its writer and what came of it. */
struct work {
    struct store *store;
    size_t hand;
    size_t results[RESULT_NOT_EMPTY + 1];
    uint32_t queue;                 /* that it is about */
    enum op_result ended;           /* what its only operation came to */
    unsigned char given[TASKS + 1]; /* by row */
    int fault;
};

static void run_all(struct store *store, struct work works[HANDS], void *(*run)(void *))
{
    pthread_t threads[HANDS];

    for (size_t i = 0; i < HANDS; i++) {
        works[i] = (struct work){.store = store, .hand = i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &works[i]), 0);
    }
    for (size_t i = 0; i < HANDS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(works[i].fault, 0);
    }
}

/* A batch of several whose keys others want too. */
static void *record_all(void *user)
{
    struct work *work = user;
    struct store *writer = store_writer(work->store, work->hand);

    for (size_t first = 0; first < TASKS && work->fault == 0; first += BATCH) {
        struct op ops[BATCH], *list[BATCH];
        char keys[BATCH][16];
        size_t many = 0;
        for (size_t i = first; i < TASKS && i < first + BATCH; i++, many++) {
            (void)snprintf(keys[many], sizeof keys[many], "key-%zu", i);
            ops[many] = record_op((int64_t)(i * HANDS + work->hand + 1), span_of(keys[many]));
            list[many] = &ops[many];
        }
        work->fault = store_apply_patiently(writer, list, many, NULL);
        for (size_t i = 0; i < many; i++) {
            work->results[ops[i].result]++;
        }
    }
    return NULL;
}

/* I3 */
static void writers_that_want_one_key_agree_on_who_has_it(void **state)
{
    struct store *store = open_new();
    static struct work works[HANDS];
    size_t done = 0, duplicates = 0;
    (void)state;

    run_all(store, works, record_all);
    for (size_t i = 0; i < HANDS; i++) {
        done += works[i].results[RESULT_DONE];
        duplicates += works[i].results[RESULT_DUPLICATE];
    }
    assert_int_equal(done, TASKS);
    assert_int_equal(duplicates, TASKS * (HANDS - 1));
    assert_int_equal(count("life"), TASKS);
    store_close(store);
}

static void *claim_all(void *user)
{
    struct work *work = user;
    struct arena *arena = arena_new(ARENA);
    bool has_some = true;

    while (has_some && work->fault == 0) {
        struct op ops[BATCH], *list[BATCH];
        has_some = false;
        for (size_t i = 0; i < BATCH; i++) {
            ops[i] = claim_op(work->store, arena);
            list[i] = &ops[i];
        }
        work->fault =
            store_apply_patiently(store_writer(work->store, work->hand), list, BATCH, NULL);
        for (size_t i = 0; i < BATCH && work->fault == 0; i++) {
            if (ops[i].result == RESULT_DONE) {
                has_some = true;
                work->given[ops[i].task.id.row]++;
            }
        }
    }
    arena_free(arena);
    return NULL;
}

/* I2 */
static void writers_that_claim_at_once_share_out_what_is_due(void **state)
{
    struct store *store = open_new();
    static struct work works[HANDS];
    static struct op ops[TASKS], *list[TASKS];
    (void)state;

    for (size_t i = 0; i < TASKS; i++) {
        ops[i] = record_op((int64_t)i + 1, SPAN(""));
        list[i] = &ops[i];
    }
    assert_int_equal(store_apply(store, list, TASKS, NULL), 0);
    run_all(store, works, claim_all);
    for (size_t row = 1; row <= TASKS; row++) {
        int given = 0;
        for (size_t i = 0; i < HANDS; i++) {
            given += works[i].given[row];
        }
        assert_int_equal(given, 1);
    }
    assert_int_equal(count("life WHERE state = 1 AND attempts = 1"), TASKS);
    store_close(store);
}

/* --- queues ------------------------------------------------------------------------------------ */

#define RACES 150

static void *bring_in(void *user)
{
    struct work *work = user;
    struct op op = record_op((int64_t)work->queue, SPAN("key")), *list[] = {&op};

    op.task.queue = work->queue;
    work->fault = store_apply_patiently(store_writer(work->store, work->hand), list, 1, NULL);
    work->ended = op.result;
    return NULL;
}

static void *drop_empty(void *user)
{
    struct work *work = user;
    struct op op = {.kind = OP_QUEUE,
                    .queue = {.number = work->queue, .name = SPAN("q"), .dropped = true},
                    .only_if_empty = true};
    struct op *list[] = {&op};

    work->fault = store_apply_patiently(store_writer(work->store, work->hand), list, 1, NULL);
    work->ended = op.result;
    return NULL;
}

/* One brings a task into a queue, another drops it if it is empty: one of them is refused. */
static void a_queue_takes_a_task_or_is_dropped_whoever_writes(void **state)
{
    struct store *store = open_new();
    size_t taken = 0;
    (void)state;

    for (int i = 0; i < RACES; i++) {
        struct op make = {.kind = OP_QUEUE, .queue.name = SPAN("q")}, *list[] = {&make};
        assert_int_equal(store_apply(store, list, 1, NULL), 0);
        struct work bringer = {.store = store, .hand = 1, .queue = make.queue.number};
        struct work dropper = {.store = store, .hand = 2, .queue = make.queue.number};
        pthread_t one, other;
        assert_int_equal(pthread_create(&one, NULL, bring_in, &bringer), 0);
        assert_int_equal(pthread_create(&other, NULL, drop_empty, &dropper), 0);
        assert_int_equal(pthread_join(one, NULL), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
        assert_int_equal(bringer.fault, 0);
        assert_int_equal(dropper.fault, 0);
        bool is_taken = bringer.ended == RESULT_DONE;
        assert_int_equal(bringer.ended, is_taken ? RESULT_DONE : RESULT_NO_QUEUE);
        assert_int_equal(dropper.ended, is_taken ? RESULT_NOT_EMPTY : RESULT_DONE);
        taken += is_taken;
        if (is_taken) {
            make.queue.dropped = true;
            assert_int_equal(store_apply(store, list, 1, NULL), 0);
        }
    }
    assert_int_equal(count("life"), taken);
    assert_int_equal(count("key"), taken);
    store_close(store);
}

/* --- batches ----------------------------------------------------------------------------------- */

static void beat_until_fresh(struct store *store, struct arena *arena, struct beat *ret_beat)
{
    do {
        assert_int_equal(store_beat(store, 50, arena, ret_beat, NULL), 0);
    } while (!ret_beat->is_fresh);
}

/* I2, I5: what each of them has leased is found after its node is gone. */
static void marks_of_each_writer_are_folded_apart_and_nothing_is_forgotten(void **state)
{
    struct store *store = open_new(), *peer;
    struct arena *arena = arena_new(ARENA);
    struct beat beat = {0};
    (void)state;

    store->node_lease_ms = 100;
    for (size_t i = 0; i < HANDS; i++) {
        struct op op = record_op((int64_t)i + 1, SPAN("")), *list[] = {&op};
        struct op lease = claim_op(store, arena), *leases[] = {&lease};
        assert_int_equal(store_apply(store_writer(store, i), list, 1, NULL), 0);
        assert_int_equal(store_apply(store_writer(store, i), leases, 1, NULL), 0);
        assert_int_equal(lease.result, RESULT_DONE);
    }
    for (size_t touch = 0; touch < HANDS * 600; touch++) {
        assert_int_equal(store_touch(store_writer(store, touch % HANDS), NULL), 0);
    }
    beat_until_fresh(store, arena, &beat);
    assert_in_range(count("batch"), HANDS, 2 * HANDS); /* of each one row, and the latest */
    assert_int_equal(
        postgres_rig_sql(DATABASE, "SELECT count(DISTINCT number >> 40) FROM daruma.batch"), HANDS);
    peer = open_store();
    store_close(store);
    do { /* the duty is free once the server has seen that its connection is closed */
        beat_until_fresh(peer, arena, &beat);
    } while (!beat.has_duty);
    assert_int_equal(beat.orphan_count, HANDS);
    arena_free(arena);
    store_close(peer);
}

static void hold_commits(const char *standby)
{
    char sql[192];

    (void)snprintf(sql, sizeof sql, "ALTER SYSTEM SET synchronous_standby_names = '%s'", standby);
    (void)postgres_rig_sql("postgres", sql);
    (void)postgres_rig_sql("postgres", "SELECT pg_reload_conf()");
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_"
                   "standby_names' AND setting = '%s'",
                   standby);
    while (postgres_rig_sql("postgres", sql) == 0) {
    }
}

static void *record_one(void *user)
{
    struct work *work = user;
    struct op op = record_op((int64_t)work->hand + 1, SPAN("")), *list[] = {&op};

    work->fault = store_apply(store_writer(work->store, work->hand), list, 1, NULL);
    work->results[op.result]++;
    return NULL;
}

/* I7: all of them lose the answer to a commit at the same time, and each finds its own. */
static void writers_in_doubt_at_once_each_find_what_became_of_theirs(void **state)
{
    struct store *store = open_new();
    static struct work works[HANDS];
    pthread_t threads[HANDS];
    (void)state;

    hold_commits("nobody");
    for (size_t i = 0; i < HANDS; i++) {
        works[i] = (struct work){.store = store, .hand = i, .fault = -1};
        assert_int_equal(pthread_create(&threads[i], NULL, record_one, &works[i]), 0);
    }
    while (postgres_rig_sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE wait_event ="
                                        " 'SyncRep' AND datname = '" DATABASE "'") < HANDS) {
    }
    (void)postgres_rig_sql("postgres", "SELECT count(pg_terminate_backend(pid)) FROM"
                                       " pg_stat_activity WHERE wait_event = 'SyncRep'");
    hold_commits("");
    for (size_t i = 0; i < HANDS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(works[i].fault, 0);
        assert_int_equal(works[i].results[RESULT_DONE], 1);
    }
    assert_int_equal(count("life"), HANDS);
    store_close(store);
}

/* One connection goes away and stays away for a while: that is its own trouble. */
static void a_writer_that_lost_its_connection_does_not_stop_the_others(void **state)
{
    struct store *store = open_new();
    (void)state;

    for (size_t i = 0; i < HANDS; i++) {
        assert_int_equal(store_touch(store_writer(store, i), NULL), 0);
    }
    (void)postgres_rig_sql("postgres",
                           "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM"
                           " pg_stat_activity WHERE datname = '" DATABASE "' AND query LIKE"
                           " 'COMMIT%' ORDER BY backend_start LIMIT 1) AS one");
    for (size_t i = 0; i < HANDS; i++) {
        struct op op = record_op((int64_t)i + 1, SPAN("")), *list[] = {&op};
        assert_int_equal(store_apply(store_writer(store, i), list, 1, NULL), 0);
        assert_int_equal(op.result, RESULT_DONE);
    }
    assert_int_equal(count("life"), HANDS);
    store_close(store);
}

/* --- counting ---------------------------------------------------------------------------------------------- */

struct counting {
    struct store *store;
    uint64_t count;
    int is_over; /* atomic */
};

static int add_up(void *user, const struct state_count *count)
{
    ((struct counting *)user)->count += count->count;
    return 0;
}

static void *keep_counting(void *user)
{
    struct counting *counting = user;

    do { /* once at least, however late the thread begins */
        counting->count = 0;
        if (store_counts(counting->store, add_up, counting, NULL) != 0) {
            return user;
        }
    } while (__atomic_load_n(&counting->is_over, __ATOMIC_RELAXED) == 0);
    return NULL;
}

static void tasks_are_counted_beside_other_reads(void **state)
{
    struct store *store = open_new();
    struct counting counting = {.store = store};
    struct arena *arena = arena_new(ARENA);
    pthread_t thread;
    void *failed = NULL;
    (void)state;

    for (int64_t row = 1; row <= 3; row++) {
        struct op op = record_op(row, SPAN("")), *list[] = {&op};
        assert_int_equal(store_apply(store, list, 1, NULL), 0);
    }
    assert_int_equal(pthread_create(&thread, NULL, keep_counting, &counting), 0);
    for (int i = 0; i < TASKS; i++) {
        struct record record;
        bool found = false;
        struct task_id id = {.row = 1 + i % 3, .tail = 9};
        assert_int_equal(store_read_task(store, id, 0, arena, &record, &found, NULL), 0);
        assert_true(found);
        assert_int_equal(record.task.id.row, id.row);
    }
    __atomic_store_n(&counting.is_over, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(counting.count, 3);
    arena_free(arena);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writers_that_want_one_key_agree_on_who_has_it),
        cmocka_unit_test(writers_that_claim_at_once_share_out_what_is_due),
        cmocka_unit_test(a_queue_takes_a_task_or_is_dropped_whoever_writes),
        cmocka_unit_test(marks_of_each_writer_are_folded_apart_and_nothing_is_forgotten),
        cmocka_unit_test(writers_in_doubt_at_once_each_find_what_became_of_theirs),
        cmocka_unit_test(a_writer_that_lost_its_connection_does_not_stop_the_others),
        cmocka_unit_test(tasks_are_counted_beside_other_reads),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
