/* SPDX-License-Identifier: MIT
 *
 * test_store_postgres_doubt -- a commit whose answer is lost (I7). Each test has a server of its own. A
 * commit is held up by waiting for a replica that there is none of: it is on the server's disk, and
 * its client does not know. Then the client's connection, or the whole server, goes away.
 */
#include "postgres_rig_ops.h"
#include "postgres_rig.h"
#include "harness.h"

#include "base/clock.h"
#include "store/committer.h"

#include <pthread.h>
#include <stdio.h>

#define DATABASE "doubt"
#define QUEUE    3
#define ARENA    ((size_t)1 << 20)

static const struct store_keep keep = {
    .succeeded_ms = 100000, .failed_ms = 1000, .cancelled_ms = 1000};

static struct store *begin(void)
{
    assert_true(postgres_rig_start());
    postgres_rig_new(DATABASE);
    return postgres_rig_open(DATABASE, &keep);
}

static void end(struct store *store)
{
    store_close(store);
    postgres_rig_stop();
}

/* From now on a commit is on disk and not answered. */
static void hold_commits(void)
{
    (void)postgres_rig_sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    (void)postgres_rig_sql("postgres", "SELECT pg_reload_conf()");
    while (postgres_rig_sql("postgres",
                            "SELECT count(*) FROM pg_settings WHERE name ="
                            " 'synchronous_standby_names' AND setting = 'nobody'") == 0) {
    }
}

static void wait_for_held_commit(void)
{
    while (postgres_rig_sql("postgres", "SELECT count(*) FROM pg_stat_activity WHERE wait_event ="
                                        " 'SyncRep' AND datname = '" DATABASE "'") == 0) {
    }
}

static void let_commits_go(void)
{
    (void)postgres_rig_sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
    (void)postgres_rig_sql("postgres", "SELECT pg_reload_conf()");
}

static void cut_connections(void)
{
    (void)postgres_rig_sql("postgres", "SELECT count(pg_terminate_backend(pid)) FROM"
                                       " pg_stat_activity WHERE wait_event = 'SyncRep'");
}

struct attempt {
    struct store *store;
    struct op *op;
    int failed;
};

static void *apply_it(void *user)
{
    struct attempt *attempt = user;

    attempt->failed = store_apply(attempt->store, &attempt->op, 1, NULL);
    return NULL;
}

static struct op record_op(int64_t row, const char *key)
{
    return (struct op){.kind = OP_RECORD,
                       .now_ms = clock_wall_ms(&clock_real),
                       .task = {.id = {.row = row, .tail = 9}, .queue = QUEUE, .key = span_of(key)},
                       .life = {.due_at_ms = 1}};
}

static int64_t count(const char *what)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM daruma.life WHERE %s", what);
    return postgres_rig_sql(DATABASE, sql);
}

static void a_commit_that_is_there_is_found_and_answered(void **state)
{
    struct store *store = begin();
    struct op op = record_op(1, "key");
    struct attempt attempt = {.store = store, .op = &op, .failed = 1};
    pthread_t thread;
    (void)state;

    hold_commits();
    assert_int_equal(pthread_create(&thread, NULL, apply_it, &attempt), 0);
    wait_for_held_commit();
    cut_connections();
    let_commits_go();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt.failed, 0);
    assert_int_equal(op.result, RESULT_DONE);
    assert_int_equal(count("id = 1"), 1);
    end(store);
}

/* A trigger that runs at the very commit ends its own connection: nothing is kept. */
static void a_commit_that_is_not_there_is_said_not_to_be(void **state)
{
    struct store *store = begin();
    struct op op = record_op(1, "key"), *list[] = {&op};
    (void)state;

    (void)postgres_rig_sql(
        DATABASE, "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM"
                  " pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
                  "CREATE CONSTRAINT TRIGGER die AFTER INSERT ON daruma.life DEFERRABLE INITIALLY"
                  " DEFERRED FOR EACH ROW EXECUTE FUNCTION die()");
    assert_int_equal(store_apply(store, list, 1, NULL), FAULT_IO);
    assert_int_equal(op.result, RESULT_NONE);
    assert_int_equal(count("true"), 0);
    (void)postgres_rig_sql(DATABASE, "DROP TRIGGER die ON daruma.life");
    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DONE);
    assert_int_equal(count("id = 1"), 1);
    end(store);
}

/* The server falls over with the commit on its disk and does not come back for a while. */
static void lose_server(struct attempt *attempt)
{
    pthread_t thread;

    hold_commits();
    assert_int_equal(pthread_create(&thread, NULL, apply_it, attempt), 0);
    wait_for_held_commit();
    (void)postgres_rig_sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = ''");
    postgres_rig_halt();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt->failed, FAULT_UNKNOWN);
    assert_int_equal(attempt->op->result, RESULT_NONE);
    assert_int_not_equal(store_touch(attempt->store, NULL), 0);
    postgres_rig_resume();
}

static void touch_until_it_works(struct store *store)
{
    while (store_touch(store, NULL) != 0) {
    }
}

static void what_was_in_doubt_has_its_result_when_it_is_asked_for(void **state)
{
    struct store *store = begin();
    struct op op = record_op(1, "key");
    struct attempt attempt = {.store = store, .op = &op};
    struct op other = record_op(2, "");
    (void)state;

    lose_server(&attempt);
    touch_until_it_works(store);
    assert_false(store_recall(store, &other)); /* it never was in a batch */
    assert_true(store_recall(store, &op));
    assert_int_equal(op.result, RESULT_DONE); /* not DUPLICATE, and not a second row */
    assert_int_equal(count("true"), 1);
    end(store);
}

/* I2, I5: a lease in doubt is neither lost nor taken twice. */
static void a_lease_in_doubt_is_the_same_lease_afterwards(void **state)
{
    struct store *store = begin();
    struct arena *arena = arena_new(ARENA);
    struct op op = record_op(1, ""), *list[] = {&op};
    struct op lease = {.kind = OP_LEASE,
                       .task.queue = QUEUE,
                       .epoch = store->epoch,
                       .arena = arena,
                       .wants_request = true};
    struct attempt attempt = {.store = store, .op = &lease};
    (void)state;

    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    lose_server(&attempt);
    touch_until_it_works(store);
    assert_true(store_recall(store, &lease));
    assert_int_equal(lease.result, RESULT_DONE);
    assert_int_equal(lease.task.id.row, 1);
    assert_int_equal(lease.life.fence, 1);
    assert_int_equal(count("state = 1 AND attempts = 1 AND fence = 1"), 1);
    arena_free(arena);
    end(store);
}

static void nothing(void *user)
{
    (void)user;
}

/* The committer as it runs: the caller is told the truth in the end. */
static void a_committer_gets_every_operation_through_a_crash(void **state)
{
    struct store *store = begin();
    struct committer *committer = committer_new(store, &clock_real, nothing, NULL);
    static struct op ops[40];
    size_t answered = 0;
    (void)state;

    assert_int_equal(committer_start(committer, NULL), 0);
    for (int64_t i = 0; i < 40; i++) {
        ops[i] = record_op(i + 1, "");
        ops[i].is_patient = true;
        assert_true(committer_submit(committer, &ops[i]));
        if (i == 10 || i == 25) {
            postgres_rig_halt();
            postgres_rig_resume();
        }
    }
    while (answered < 40) {
        for (struct op *op = committer_take(committer); op != NULL;
             op = (struct op *)op->link.next) {
            assert_int_equal(op->fault, 0);
            assert_int_equal(op->result, RESULT_DONE);
            answered++;
        }
    }
    committer_stop(committer);
    committer_free(committer);
    assert_int_equal(count("true"), 40);
    end(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_that_is_there_is_found_and_answered),
        cmocka_unit_test(a_commit_that_is_not_there_is_said_not_to_be),
        cmocka_unit_test(what_was_in_doubt_has_its_result_when_it_is_asked_for),
        cmocka_unit_test(a_lease_in_doubt_is_the_same_lease_afterwards),
        cmocka_unit_test(a_committer_gets_every_operation_through_a_crash),
    };
    return HARNESS_RUN(argc, argv, tests);
}
