/* SPDX-License-Identifier: MIT
 *
 * postgres_older -- see postgres_older.h. Parameters travel as text; columns of a batch are arrays of one.
 */
#include "postgres_older.h"
#include "harness.h"
#include "postgres_rig.h"

#include "store/store_postgres_internal.h"
#include "store/store_postgres_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX    64
#define LIFE_STATE  4
#define LIFE_DUE    5
#define LIFE_FENCE  8
#define LIFE_EPOCH  9
#define LIFE_SPENT  10 /* attempts, attempts_all */
#define LANE_OF_DUE "1"
#define SETUP                                                                                      \
    "SET lock_timeout = 50; SET default_transaction_isolation = 'read committed';"                 \
    " SET enable_seqscan = off; SET enable_hashjoin = off;"                                        \
    " SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off"

/* Values of one statement. */
struct values {
    char text[26][TEXT_MAX];
    const char *at[26];
    int count;
};

static void put_text(struct values *values, const char *text)
{
    values->at[values->count++] = text;
}

static void put(struct values *values, int64_t number)
{
    char *text = values->text[values->count];

    (void)snprintf(text, TEXT_MAX, "%lld", (long long)number); /* fits */
    put_text(values, text);
}

static void put_column(struct values *values, int64_t number)
{
    char *text = values->text[values->count];

    (void)snprintf(text, TEXT_MAX, "{%lld}", (long long)number); /* fits */
    put_text(values, text);
}

static const char *sql_of(const char *name)
{
    for (size_t i = 0; i < older_statement_count; i++) {
        if (strcmp(older_statements[i].name, name) == 0) {
            return older_statements[i].sql;
        }
    }
    fail_msg("no statement %s", name);
    return NULL;
}

static PGresult *run(struct older *older, const char *name, const struct values *values)
{
    return PQexecParams(older->connection, sql_of(name), values->count, NULL, values->at, NULL,
                        NULL, 0);
}

static void exec(struct older *older, const char *sql)
{
    PGresult *result = PQexec(older->connection, sql);

    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        fail_msg("%s: %s", sql, PQerrorMessage(older->connection));
    }
    PQclear(result);
}

/* "" or the SQLSTATE, after which the batch is over. */
static const char *verdict(struct older *older, PGresult *result)
{
    static char state[8];
    const char *said = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    (void)snprintf(state, sizeof state, "%s", said != NULL ? said : "");
    PQclear(result);
    if (state[0] != '\0') {
        exec(older, "ROLLBACK");
    }
    return state;
}

static const char *tell(struct older *older, const char *name, const struct values *values)
{
    return verdict(older, run(older, name, values));
}

static int64_t number_at(const PGresult *result, int column)
{
    return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

/* --- the node ------------------------------------------------------------------------------------ */

void older_make(const char *database)
{
    int64_t reached_ms = 0;
    struct link link = {.url = database, .reached_ms = &reached_ms};

    postgres_rig_new(database);
    assert_int_equal(link_open(&link, NULL), 0);
    assert_int_equal(postgres_schema_open(&link, OLDER_VERSION, NULL), 0);
    link_drop(&link);
}

struct older older_join(const char *database)
{
    const char *const names[] = {"dbname", "application_name", NULL};
    const char *const given[] = {database, "daruma", NULL};
    struct older older = {.connection = PQconnectdbParams(names, given, 0)};
    struct values values = {0};

    exec(&older, SETUP);
    put_text(&values, "older:1");
    put_text(&values, "");
    PGresult *result = run(&older, "NODE_PUT", &values);
    assert_int_equal(PQntuples(result), 1);
    older.epoch = number_at(result, 0);
    PQclear(result);
    return older;
}

void older_die(struct older *older)
{
    PQfinish(older->connection);
    older->connection = NULL;
}

void older_beat(struct older *older)
{
    struct values values = {0};

    put(&values, older->epoch);
    PGresult *result = run(older, "BEAT", &values);
    assert_int_equal(PQntuples(result), 1); /* it is not taken for dead */
    PQclear(result);
}

/* --- batches ------------------------------------------------------------------------------------- */

const char *older_begin(struct older *older)
{
    struct values lock = {0}, alive = {0};

    exec(older, "BEGIN");
    put(&lock, LOCK_EPOCH + older->epoch);
    put(&alive, older->epoch);
    assert_string_equal(tell(older, "LOCK_SHARED", &lock), "");
    PGresult *result = run(older, "ALIVE", &alive);
    assert_true(PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) == 1);
    return verdict(older, result);
}

/* The mark, with the row that was leased; 0: none. */
static const char *mark(struct older *older, int64_t leased)
{
    struct values values = {0};

    put(&values, older->epoch);
    put(&values, ++older->batch);
    if (leased != 0) {
        put_column(&values, leased);
    } else {
        put_text(&values, "{}");
    }
    return tell(older, "BATCH_PUT", &values);
}

const char *older_commit(struct older *older)
{
    const char *said = mark(older, 0);

    return said[0] != '\0' ? said : verdict(older, PQexec(older->connection, "COMMIT"));
}

static void put_task(struct older *older, int64_t row, int64_t queue)
{
    static const char *const rest[] = {
        "{\"\\\\x\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x0000000000000000000000000000000000000000000000000000000000000000\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x\"}",
        "{\"\\\\x626f6479\"}"};
    struct values values = {0};

    put_column(&values, row);
    put_column(&values, queue);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        put_text(&values, rest[i]);
    }
    put_column(&values, 9); /* the tail */
    assert_string_equal(tell(older, "TASK_PUT", &values), "");
}

static const char *put_ready(struct older *older, const char *statement, int64_t row, int64_t queue)
{
    struct values values = {0};

    put_column(&values, queue);
    put_text(&values, "{" LANE_OF_DUE "}");
    put_column(&values, 1);
    put_column(&values, row);
    return tell(older, statement, &values);
}

/* A task that is due. */
const char *older_record(struct older *older, int64_t row, int64_t queue)
{
    struct values values = {0};

    put_task(older, row, queue);
    put_column(&values, row);
    put_column(&values, 9);
    put_column(&values, queue);
    put_text(&values, "{NULL}");
    put_column(&values, 0);
    put_column(&values, 1);
    while (values.count < 22) {
        put_column(&values, 0);
    }
    put_text(&values, "{NULL}");
    put_column(&values, 0);
    put_column(&values, 0);
    put_column(&values, 0);
    const char *said = tell(older, "LIFE_PUT", &values);
    return said[0] != '\0' ? said : put_ready(older, "READY_PUT", row, queue);
}

/* --- queues -------------------------------------------------------------------------------------- */

const char *older_put_queue(struct older *older, int64_t number, const char *name, bool is_dropped)
{
    struct values lock = {0}, values = {0};

    assert_string_equal(older_begin(older), "");
    put(&lock, LOCK_QUEUES);
    assert_string_equal(tell(older, "LOCK", &lock), "");
    put(&values, number);
    put_text(&values, name);
    put_text(&values, "");
    put(&values, 0);
    put(&values, is_dropped);
    put(&values, 0);
    const char *said = tell(older, "QUEUE_PUT", &values);
    return said[0] != '\0' ? said : older_commit(older);
}

/* --- leases -------------------------------------------------------------------------------------- */

/* The life as it was read, column by column. */
static void copy_life(struct values *values, const PGresult *result)
{
    for (int i = 0; i < 26; i++) {
        const char *said = PQgetvalue(result, 0, i);
        if (PQgetisnull(result, 0, i)) {
            put_text(values, "{NULL}");
        } else {
            put_column(values, said[0] == 't' ? 1 : strtoll(said, NULL, 10));
        }
    }
}

static void set(struct values *values, int column, int64_t number)
{
    (void)snprintf(values->text[column], TEXT_MAX, "{%lld}", (long long)number); /* fits */
    values->at[column] = values->text[column];
}

/* What is due first, in a batch that is under way. False: nothing is. */
static bool claim(struct older *older, int64_t queue, struct values *ret_life, int64_t *ret_row)
{
    struct values asked = {0};

    put(&asked, queue);
    put_text(&asked, LANE_OF_DUE);
    put(&asked, 0);
    put(&asked, 0);
    put(&asked, 1);
    PGresult *result = run(older, "CLAIM", &asked);
    bool is_got = PQntuples(result) > 0;
    if (is_got) {
        *ret_row = number_at(result, 0);
        copy_life(ret_life, result);
        set(ret_life, LIFE_STATE, TASK_RUNNING);
        set(ret_life, LIFE_FENCE, number_at(result, LIFE_FENCE) + 1);
        set(ret_life, LIFE_EPOCH, older->epoch);
        set(ret_life, LIFE_SPENT, number_at(result, LIFE_SPENT) + 1);
        set(ret_life, LIFE_SPENT + 1, number_at(result, LIFE_SPENT + 1) + 1);
    }
    PQclear(result);
    return is_got;
}

static const char *commit_lease(struct older *older, int64_t row)
{
    const char *said = mark(older, row);

    return said[0] != '\0' ? said : verdict(older, PQexec(older->connection, "COMMIT"));
}

int64_t older_claim(struct older *older, int64_t queue)
{
    struct values life = {0};
    int64_t row = 0;

    assert_string_equal(older_begin(older), "");
    if (!claim(older, queue, &life, &row)) {
        assert_string_equal(older_commit(older), "");
        return 0;
    }
    assert_string_equal(tell(older, "LIFE_SET", &life), "");
    assert_string_equal(put_ready(older, "READY_DROP", row, queue), "");
    assert_string_equal(commit_lease(older, row), "");
    return row;
}

/* Of the two that set the life the one that puts it off is written. */
const char *older_claim_and_put_off(struct older *older, int64_t queue)
{
    struct values life = {0};
    int64_t row = 0;

    assert_string_equal(older_begin(older), "");
    assert_true(claim(older, queue, &life, &row));
    set(&life, LIFE_STATE, TASK_WAITING);
    assert_string_equal(tell(older, "LIFE_SET", &life), "");
    return commit_lease(older, row);
}

const char *older_settle(struct older *older, int64_t row)
{
    struct values asked = {0}, life = {0};

    assert_string_equal(older_begin(older), "");
    put_column(&asked, row);
    PGresult *result = run(older, "LIVES", &asked);
    assert_int_equal(PQntuples(result), 1);
    assert_int_equal(number_at(result, LIFE_STATE), TASK_RUNNING);
    assert_int_equal(number_at(result, LIFE_EPOCH), older->epoch);
    copy_life(&life, result);
    PQclear(result);
    set(&life, LIFE_STATE, TASK_SUCCEEDED);
    assert_string_equal(tell(older, "LIFE_SET", &life), "");
    return older_commit(older);
}
