/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_older -- an installation that is upgraded node by node: nodes of the release before
 * (postgres_older.h) work on the schema that a node of this one has brought further. They go on as they
 * did, and what their statements leave open, the schema closes.
 */
#include "harness.h"
#include "postgres_older.h"
#include "postgres_rig_ops.h"
#include "postgres_rig.h"

#include "base/clock.h"
#include "store/store.h"
#include "store/store_postgres_schema.h"

#include <daruma/version.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASE  "older"
#define ARENA_MAX ((size_t)16 << 20)
#define LEASE_MS  400
#define TEXT_MAX  4096
#define ROW       1000

static const struct store_keep keep = {
    .succeeded_ms = 100000, .failed_ms = 100000, .cancelled_ms = 100000};

static struct store *open_store(void)
{
    struct store *store = postgres_rig_open(DATABASE, &keep);

    store->node_lease_ms = LEASE_MS;
    return store;
}

/* A node of each. */
static struct store *open_beside(struct older *ret_older)
{
    older_make(DATABASE);
    *ret_older = older_join(DATABASE);
    return open_store();
}

static void close_both(struct store *store, struct older *older)
{
    store_close(store);
    older_die(older);
}

static int apply(struct store *store, struct op *op)
{
    struct op *ops[] = {op};

    return store_apply_patiently(store, ops, 1, NULL);
}

static uint32_t make_queue(struct store *store, const char *name)
{
    struct op op = {.kind = OP_QUEUE, .queue = {.name = span_of(name)}};

    assert_int_equal(apply(store, &op), 0);
    assert_int_equal(op.result, RESULT_DONE);
    return op.queue.number;
}

static enum op_result drop_queue(struct store *store, uint32_t number)
{
    struct op op = {.kind = OP_QUEUE,
                    .queue = {.number = number, .name = SPAN("q"), .dropped = true},
                    .only_if_empty = true};

    assert_int_equal(apply(store, &op), 0);
    return op.result;
}

static int64_t count(const char *sql)
{
    return postgres_rig_sql(DATABASE, sql);
}

/* --- what its statements mean ---------------------------------------------------------------------- */

/* The types of what goes in and the names and types of what comes out. */
static void describe(PGconn *connection, const char *name, char ret_text[TEXT_MAX])
{
    PGresult *result = PQdescribePrepared(connection, name);
    size_t len = 0;

    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", name, PQerrorMessage(connection));
    }
    for (int i = 0; i < PQnparams(result); i++) {
        len += (size_t)snprintf(ret_text + len, TEXT_MAX - len, "$%u ", PQparamtype(result, i));
    }
    for (int i = 0; i < PQnfields(result) && len < TEXT_MAX; i++) {
        len += (size_t)snprintf(ret_text + len, TEXT_MAX - len, "%s:%u ", PQfname(result, i),
                                PQftype(result, i));
    }
    assert_true(len < TEXT_MAX);
    ret_text[len] = '\0';
    PQclear(result);
}

static void prepare(PGconn *connection, const char *name, const char *sql)
{
    PGresult *result = PQprepare(connection, name, sql, 0, NULL);

    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        fail_msg("%s: %s", name, PQerrorMessage(connection));
    }
    PQclear(result);
}

/* A plan that was made before the migration too: a node keeps its sessions. */
static void run_prepared(PGconn *connection, const char *name)
{
    PGresult *described = PQdescribePrepared(connection, name);
    const char *nothing[32] = {NULL};
    int parameters = PQnparams(described);

    PQclear(described);
    PGresult *result = PQexecPrepared(connection, name, parameters, nothing, NULL, NULL, 0);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (state != NULL &&
        strcmp(state, "0A000") == 0) { /* the cached plan must not change its result */
        fail_msg("%s: %s", name, PQerrorMessage(connection));
    }
    PQclear(result);
}

static void its_statements_mean_the_same_after_the_migration(void **state)
{
    static char before[80][TEXT_MAX];
    char after[TEXT_MAX], name[64];
    (void)state;

    older_make(DATABASE);
    struct older older = older_join(DATABASE);
    assert_true(older_statement_count <= 80);
    for (size_t i = 0; i < older_statement_count; i++) {
        prepare(older.connection, older_statements[i].name, older_statements[i].sql);
        describe(older.connection, older_statements[i].name, before[i]);
        run_prepared(older.connection, older_statements[i].name);
    }
    struct store *store = open_store();
    assert_int_equal(count("SELECT value FROM daruma.meta WHERE name = 'schema'"),
                     postgres_step_count);
    for (size_t i = 0; i < older_statement_count; i++) {
        run_prepared(older.connection, older_statements[i].name);
        (void)snprintf(name, sizeof name, "%s anew", older_statements[i].name);
        prepare(older.connection, name, older_statements[i].sql);
        describe(older.connection, name, after);
        assert_string_equal(after, before[i]);
    }
    close_both(store, &older);
}

/* --- working beside each other ----------------------------------------------------------------------- */

static void lease(struct store *store, struct arena *arena, uint32_t queue, struct op *ret_op)
{
    *ret_op = (struct op){.kind = OP_LEASE,
                          .now_ms = clock_wall_ms(&clock_real),
                          .task.queue = queue,
                          .epoch = store->epoch,
                          .arena = arena,
                          .wants_request = true};
    assert_int_equal(apply(store, ret_op), 0);
}

static void record(struct store *store, int64_t row, uint32_t queue)
{
    struct op op = {.kind = OP_RECORD,
                    .now_ms = 1,
                    .task = {.id = {.row = row, .tail = 9}, .queue = queue, .body = SPAN("body")},
                    .life = {.due_at_ms = 1}};

    assert_int_equal(apply(store, &op), 0);
    assert_int_equal(op.result, RESULT_DONE);
}

static void a_node_of_each_release_takes_what_the_other_has_recorded(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    struct arena *arena = arena_new(ARENA_MAX);
    uint32_t queue = make_queue(store, "q");
    struct op got;
    (void)state;

    assert_string_equal(older_begin(&older), "");
    assert_string_equal(older_record(&older, ROW, queue), "");
    assert_string_equal(older_commit(&older), "");
    lease(store, arena, queue, &got);
    assert_int_equal(got.result, RESULT_DONE);
    assert_int_equal(got.task.id.row, ROW);
    assert_true(span_is(got.task.body, "body"));
    assert_int_equal(older_claim(&older, queue), 0); /* it is leased */
    record(store, ROW + 1, queue);
    assert_int_equal(older_claim(&older, queue), ROW + 1);
    lease(store, arena, queue, &got);
    assert_int_equal(got.result, RESULT_MISSING);
    assert_string_equal(older_settle(&older, ROW + 1), "");
    assert_int_equal(count("SELECT state FROM daruma.life WHERE id = 1001"), TASK_SUCCEEDED);
    arena_free(arena);
    close_both(store, &older);
}

static void a_node_says_which_program_it_is(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    char sql[256];
    (void)state;

    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM daruma.node WHERE schema = %lld AND program = '%s'",
                   (long long)postgres_step_count, daruma_version());
    assert_int_equal(count(sql), 1);
    assert_int_equal(count("SELECT count(*) FROM daruma.node WHERE schema = 0 AND program = ''"),
                     1);
    close_both(store, &older);
}

static struct beat beat_once(struct store *store, struct arena *arena)
{
    struct beat beat;

    do {
        assert_int_equal(store_beat(store, 20, arena, &beat, NULL), 0);
    } while (!beat.is_fresh);
    return beat;
}

static void what_an_older_node_ran_when_it_died_is_told_to_this_one(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    struct arena *arena = arena_new(ARENA_MAX);
    uint32_t queue = make_queue(store, "q");
    struct beat beat;
    (void)state;

    record(store, ROW, queue);
    assert_int_equal(older_claim(&older, queue), ROW);
    beat = beat_once(store, arena);
    assert_int_equal(beat.node_count, 2);
    older_beat(&older);
    uint64_t epoch = (uint64_t)older.epoch;
    older_die(&older);
    do {
        beat = beat_once(store, arena);
    } while (beat.orphan_count == 0);
    assert_int_equal(beat.node_count, 1);
    assert_int_equal(beat.orphans[0].row, ROW);
    assert_int_equal(beat.orphans[0].epoch, epoch);
    arena_free(arena);
    store_close(store);
}

/* --- a queue takes a task or is deleted ---------------------------------------------------------------- */

static void an_older_node_brings_no_task_into_a_deleted_queue(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    uint32_t queue = make_queue(store, "q"), other = make_queue(store, "other");
    (void)state;

    assert_int_equal(drop_queue(store, queue), RESULT_DONE);
    assert_string_equal(older_begin(&older), "");
    assert_string_equal(older_record(&older, ROW, queue), OLDER_BUSY);
    assert_int_equal(count("SELECT count(*) FROM daruma.life"), 0);
    assert_string_equal(older_begin(&older), "");
    assert_string_equal(older_record(&older, ROW, other), "");
    assert_string_equal(older_commit(&older), "");
    close_both(store, &older);
}

static void a_task_that_an_older_node_is_bringing_in_keeps_its_queue(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    uint32_t queue = make_queue(store, "q");
    struct op drop = {.kind = OP_QUEUE,
                      .queue = {.number = queue, .name = SPAN("q"), .dropped = true}};
    struct op *ops[] = {&drop};
    (void)state;

    assert_string_equal(older_begin(&older), "");
    assert_string_equal(older_record(&older, ROW, queue), "");
    assert_int_equal(store_apply(store, ops, 1, NULL), FAULT_HELD); /* also when it is forced */
    assert_string_equal(older_commit(&older), "");
    assert_int_equal(drop_queue(store, queue), RESULT_NOT_EMPTY);
    close_both(store, &older);
}

static void an_older_node_deletes_no_queue_that_has_open_tasks(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    uint32_t queue = make_queue(store, "q");
    (void)state;

    record(store, ROW, queue);
    assert_string_equal(older_put_queue(&older, queue, "q", true), OLDER_BUSY);
    assert_int_equal(older_claim(&older, queue), ROW);
    assert_string_equal(older_put_queue(&older, queue, "q", true), OLDER_BUSY);
    assert_string_equal(older_settle(&older, ROW), "");
    assert_string_equal(older_put_queue(&older, queue, "q", true), "");
    struct op late = {.kind = OP_RECORD, .task = {.id = {.row = ROW + 1}, .queue = queue}};
    assert_int_equal(apply(store, &late), 0);
    assert_int_equal(late.result, RESULT_NO_QUEUE);
    close_both(store, &older);
}

static void an_older_node_brings_no_deleted_queue_back(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    uint32_t queue = make_queue(store, "q");
    (void)state;

    assert_string_equal(older_put_queue(&older, queue, "q", false), ""); /* it was there */
    assert_int_equal(drop_queue(store, queue), RESULT_DONE);
    assert_string_equal(older_put_queue(&older, queue, "q", false), OLDER_BUSY);
    assert_string_equal(older_put_queue(&older, queue, "q", true), ""); /* deleted it is */
    assert_int_equal(count("SELECT count(*) FROM daruma.queue WHERE NOT dropped"), 0);
    assert_string_equal(older_put_queue(&older, 0, "q", false), ""); /* another one */
    assert_int_equal(count("SELECT count(*) FROM daruma.queue WHERE NOT dropped"), 1);
    close_both(store, &older);
}

/* --- leases ------------------------------------------------------------------------------------------ */

/* That release could send a task which its own transaction had put back: it would be sent again. */
static void an_older_node_leases_nothing_that_does_not_run_afterwards(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    uint32_t queue = make_queue(store, "q");
    (void)state;

    record(store, ROW, queue);
    assert_string_equal(older_claim_and_put_off(&older, queue), OLDER_BUSY);
    assert_int_equal(older_claim(&older, queue), ROW); /* as it was, and in one batch's hands */
    close_both(store, &older);
}

/* --- the migration itself ------------------------------------------------------------------------------ */

static void *open_one(void *user)
{
    *(struct store **)user = open_store();
    return NULL;
}

/* A program that has enqueued in a transaction of its own and thinks. */
static void older_nodes_go_on_while_a_migration_waits_for_a_transaction(void **state)
{
    struct store *store = NULL;
    pthread_t opening;
    int recorded = 0;
    (void)state;

    older_make(DATABASE);
    struct older older = older_join(DATABASE);
    struct older slow = older_join(DATABASE);
    assert_string_equal(older_put_queue(&older, 0, "q", false), "");
    assert_string_equal(older_begin(&slow), "");
    assert_string_equal(older_record(&slow, ROW, 1), "");
    assert_int_equal(pthread_create(&opening, NULL, open_one, &store), 0);
    while (count("SELECT count(*) FROM pg_locks WHERE NOT granted AND mode IN"
                 " ('ShareRowExclusiveLock', 'AccessExclusiveLock')") == 0) {
        /* until it waits for the tables */
    }
    for (int64_t row = ROW + 1; recorded < 3; row++) {
        bool is_in = older_begin(&older)[0] == '\0' && older_record(&older, row, 1)[0] == '\0' &&
                     older_commit(&older)[0] == '\0';
        recorded = is_in ? recorded + 1 : 0;
    }
    assert_true(count("SELECT value FROM daruma.meta WHERE name = 'schema'") < postgres_step_count);
    assert_string_equal(older_commit(&slow), "");
    assert_int_equal(pthread_join(opening, NULL), 0);
    older_beat(&older); /* it is not taken for dead */
    older_die(&slow);
    close_both(store, &older);
}

/* It says nothing of what it knows, so it is not waited for; what it changes is seen by the next beat. */
static void a_change_of_a_queue_is_told_beside_an_older_node(void **state)
{
    struct older older;
    struct store *store = open_beside(&older);
    struct arena *arena = arena_new(ARENA_MAX);
    struct beat beat = {0};
    (void)state;

    (void)make_queue(store, "q");
    store_nudge(store, &(struct node_wish){.asked = 1});
    for (int i = 0; i < 3 && beat.told < 1; i++) {
        beat = (struct beat){0};
        assert_int_equal(store_beat(store, 20, arena, &beat, NULL), 0);
    }
    assert_int_equal(beat.told, 1);
    uint64_t serial = beat.queues_serial;
    store_nudge(store, &(struct node_wish){.asked = 1, .followed = serial});
    assert_string_equal(older_put_queue(&older, 0, "theirs", false), "");
    do {
        assert_int_equal(store_beat(store, 20, arena, &beat, NULL), 0);
    } while (beat.queues_serial <= serial);
    assert_int_equal(beat.queue_count, 2);
    arena_free(arena);
    close_both(store, &older);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_statements_mean_the_same_after_the_migration),
        cmocka_unit_test(a_node_of_each_release_takes_what_the_other_has_recorded),
        cmocka_unit_test(a_node_says_which_program_it_is),
        cmocka_unit_test(what_an_older_node_ran_when_it_died_is_told_to_this_one),
        cmocka_unit_test(an_older_node_brings_no_task_into_a_deleted_queue),
        cmocka_unit_test(a_task_that_an_older_node_is_bringing_in_keeps_its_queue),
        cmocka_unit_test(an_older_node_deletes_no_queue_that_has_open_tasks),
        cmocka_unit_test(an_older_node_brings_no_deleted_queue_back),
        cmocka_unit_test(an_older_node_leases_nothing_that_does_not_run_afterwards),
        cmocka_unit_test(older_nodes_go_on_while_a_migration_waits_for_a_transaction),
        cmocka_unit_test(a_change_of_a_queue_is_told_beside_an_older_node),
    };
    if (!postgres_rig_start()) {
        return 1;
    }
    int failed = HARNESS_RUN(argc, argv, tests);
    postgres_rig_stop();
    return failed;
}
