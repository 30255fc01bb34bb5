/* SPDX-License-Identifier: MIT
 *
 * store_postgres_schema -- brings a database to the version that this program knows. Each step is one
 * transaction together with the version it leads to, under a lock that all nodes take: of two that
 * start at once one does the work and the other finds it done. A newer version is refused and not
 * touched.
 */
#include "store/store_postgres_schema.h"
#include "store/store_postgres_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define VERSION_SQL  "SELECT value FROM daruma.meta WHERE name = 'schema'"
#define EXISTS_SQL   "SELECT count(*) FROM pg_class WHERE oid = to_regclass('daruma.meta')"
#define SERVER_SQL   "SELECT current_setting('server_version_num')"
#define SERVER_LEAST 130000
#define SQL_MAX      160
/* A step waits for transactions that are open, and whatever comes after it waits for the step: nodes of
 * the release before, at work meanwhile, would have to wait as long as the longest of them. So it waits
 * for a moment only, lets them go on, and comes again. */
#define STEP_SQL       "BEGIN; SET LOCAL lock_timeout = 200"
#define STEP_PAUSE_MS  800
#define STEP_TRIES_MAX 300
/* Another node may be migrating: that is worth a wait, unlike a row. */
#define LOCK_SQL "SET lock_timeout = '5min'; SELECT pg_advisory_lock(%" PRId64 ")"
#define DAYS_SQL                                                                                   \
    "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL statement_timeout = '20s';"                   \
    " SELECT daruma.make_partitions(daruma.today() - 1, daruma.today() + 2); COMMIT"
#define FREE_SQL "SELECT pg_advisory_unlock(%" PRId64 "); SET lock_timeout = %d"

static int read_version(struct link *link, int64_t *ret_version, struct error *err)
{
    int64_t exists = 0;
    int failed = link_number(link, EXISTS_SQL, &exists, err);

    *ret_version = 0;
    if (failed != 0 || exists == 0) {
        return failed;
    }
    *ret_version = -1;
    failed = link_number(link, VERSION_SQL, ret_version, err);
    if (failed == 0 && *ret_version < 0) {
        return fail(err, FAULT_CORRUPT, "the database has no schema version");
    }
    return failed;
}

static int try_step(struct link *link, int64_t version, struct error *err)
{
    char done[SQL_MAX];
    int failed = link_exec(link, STEP_SQL, err);

    (void)snprintf(done, sizeof done,
                   "UPDATE daruma.meta SET value = %" PRId64 " WHERE name = 'schema'",
                   version + 1); /* fits */
    if (failed == 0 && version == 0) {
        failed = link_exec(link, "CREATE SCHEMA IF NOT EXISTS daruma", err);
    }
    for (size_t i = 0; failed == 0 && postgres_steps[version][i] != NULL; i++) {
        failed = link_exec(link, postgres_steps[version][i], err);
    }
    failed = failed != 0 ? failed : link_exec(link, done, err);
    failed = failed != 0 ? failed : link_exec(link, "COMMIT", err);
    if (failed != 0 && link_is_up(link)) {
        (void)link_exec(link, "ROLLBACK", NULL); /* else the next statement says so */
    }
    return failed;
}

static int take_step(struct link *link, int64_t version, struct error *err)
{
    const struct timespec pause = {.tv_nsec = STEP_PAUSE_MS * 1000000L};
    int failed = try_step(link, version, err);

    for (int i = 0; failed == FAULT_HELD && i < STEP_TRIES_MAX; i++) {
        (void)nanosleep(&pause, NULL); /* cut short by a signal: it only comes sooner */
        failed = try_step(link, version, err);
    }
    return failed;
}

static int read_known_version(struct link *link, int64_t *ret_version, struct error *err)
{
    int failed = read_version(link, ret_version, err);

    if (failed == 0 && *ret_version > postgres_step_count) {
        return fail(err, FAULT_INPUT,
                    "the database has schema version %lld, this program knows versions up to %lld",
                    (long long)*ret_version, (long long)postgres_step_count);
    }
    return failed;
}

/* Until there are partitions the default ones take everything, and the node with the duty goes on
 * trying and says what stands in the way: no reason not to start, nor to make others wait for long. */
static int make_days(struct link *link, struct error *err)
{
    int failed = link_exec(link, DAYS_SQL, err);

    if (failed != 0 && link_is_up(link)) {
        failed = link_exec(link, "ROLLBACK", err);
    }
    return failed;
}

static int migrate(struct link *link, int64_t wanted, struct error *err)
{
    int64_t version = 0;
    int failed = read_known_version(link, &version, err);

    if (failed != 0) {
        return failed;
    }
    for (; version < wanted && failed == 0; version++) {
        failed = take_step(link, version, err);
    }
    return failed != 0 ? failed : make_days(link, err);
}

int postgres_schema_check(struct link *link, struct error *err)
{
    int64_t version = 0;
    int failed = read_known_version(link, &version, err);

    if (failed == 0 && version == 0) {
        return fail(err, FAULT_INPUT, "there are no tasks of daruma in the database");
    }
    if (failed == 0 && version < postgres_step_count) {
        return fail(err, FAULT_INPUT,
                    "the database has schema version %lld; a server of this version brings it to "
                    "%lld when it starts",
                    (long long)version, (long long)postgres_step_count);
    }
    return failed;
}

int postgres_schema_open(struct link *link, int64_t wanted, struct error *err)
{
    char sql[SQL_MAX];
    int64_t server = 0;
    int failed = link_number(link, SERVER_SQL, &server, err);

    if (failed != 0) {
        return failed;
    }
    if (server < SERVER_LEAST) {
        return fail(err, FAULT_INPUT, "PostgreSQL 13 or newer is needed, this one says %lld",
                    (long long)server);
    }
    (void)snprintf(sql, sizeof sql, LOCK_SQL, LOCK_MIGRATE); /* fits, as the one below */
    failed = link_exec(link, sql, err);
    if (failed != 0) {
        return failed;
    }
    failed = migrate(link, wanted, err);
    (void)snprintf(sql, sizeof sql, FREE_SQL, LOCK_MIGRATE, LOCK_WAIT_MS);
    int freed = link_is_up(link) ? link_exec(link, sql, failed != 0 ? NULL : err) : 0;
    return failed != 0 ? failed : freed;
}
