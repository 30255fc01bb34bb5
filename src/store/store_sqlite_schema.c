/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_schema -- the tables, and how they change.
 *
 * The request (task) never changes, the life does with every attempt, the answer is written once:
 * three tables, so that a retry rewrites eighty bytes and not a body. Rows are appended in order of
 * creation; long columns come last, so that the short ones are read without them. What is left out
 * on purpose, and why: docs/decisions/0005-schema.md.
 *
 * To change the schema: append a step to `steps`, and touch nothing that is there already; the
 * number of steps is the version. A step and the version it leads to are one transaction. Let new
 * columns have a default, so that no table is rewritten; give the test of old files a file of the
 * version that was. A file of a later version than this program knows is refused.
 */
#include "store/store_sqlite_internal.h"

#define VERSION_TEXT_MAX 96

static const char *const steps[] = {
    /* 1 */
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('schema', 0), ('epoch', 0), ('touch', 0), ('last_row', 0),"
    " ('secret', randomblob(16));"

    "CREATE TABLE queue (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, paused INTEGER,"
    " dropped INTEGER, settings TEXT);"

    "CREATE TABLE task (id INTEGER PRIMARY KEY, queue INTEGER, scope TEXT, key TEXT,"
    " fingerprint BLOB, method TEXT, target TEXT, headers TEXT, labels TEXT, options TEXT,"
    " body BLOB);"

    /* state: task/task.h; slot: due_at in whole hours; key_hash 0: not bound; trail: the newest row
     * of the trail; counts: class_attempts, four bytes each. */
    "CREATE TABLE life (id INTEGER PRIMARY KEY, tail INTEGER, queue INTEGER, key_hash INTEGER,"
    " state INTEGER, slot INTEGER, due_at INTEGER, deadline_at INTEGER, settled_at INTEGER,"
    " fence INTEGER, epoch INTEGER, attempts INTEGER, attempts_all INTEGER, round INTEGER,"
    " previous INTEGER, wait INTEGER, flags INTEGER, trail INTEGER, counts BLOB);"
    "CREATE INDEX life_slot ON life (slot) WHERE state = 0;"
    "CREATE INDEX life_open ON life (state, id) WHERE state IN (3, 5);"

    /* A list from the newest to the oldest. The attempt that succeeds is in `answer` instead. */
    "CREATE TABLE trail (id INTEGER PRIMARY KEY, task INTEGER, previous INTEGER, attempt INTEGER,"
    " started_at INTEGER, ended_at INTEGER, class INTEGER, trail_status INTEGER, sent INTEGER,"
    " sends INTEGER, wait INTEGER, target TEXT, message TEXT);"

    /* attempt NULL: the attempt that made it is in `trail`, or there was none. */
    "CREATE TABLE answer (id INTEGER PRIMARY KEY, status INTEGER, attempt INTEGER,"
    " started_at INTEGER, ended_at INTEGER, class INTEGER, trail_status INTEGER, sent INTEGER,"
    " sends INTEGER, wait INTEGER, target TEXT, message TEXT, settled_by TEXT, headers TEXT,"
    " body BLOB);",

    /* 2: dead letters, doubts, what people did, what has to be known after a restart. */
    "ALTER TABLE life ADD COLUMN rare BLOB;"      /* eight bytes each: store_sqlite_query.c */
    "ALTER TABLE life ADD COLUMN letter INTEGER;" /* 1: LIFE_LETTER is among the flags */
    "CREATE INDEX life_letter ON life (id) WHERE letter = 1;"
    /* What was dead is a letter from now on: 5 is TASK_DEAD, 64 LIFE_LETTER. */
    "UPDATE life SET flags = flags | 64, letter = 1, rare = rare_of(ifnull((SELECT class + 1"
    " FROM trail WHERE trail.id = life.trail), 0), settled_at) WHERE state = 5;"

    /* There is one exactly when the life has LIFE_EDITED (256). */
    "CREATE TABLE edit (id INTEGER PRIMARY KEY, parts INTEGER, round INTEGER, note TEXT,"
    " target TEXT, headers TEXT, body BLOB);"

    /* Numbers have no gaps: only the oldest are ever deleted. task 0: none. */
    "CREATE TABLE audit (id INTEGER PRIMARY KEY, at INTEGER, task INTEGER, tail INTEGER,"
    " from_state INTEGER, to_state INTEGER, who TEXT, act TEXT, subject TEXT, note TEXT);"
    "CREATE INDEX audit_task ON audit (task) WHERE task != 0;"

    "CREATE TABLE memo (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;",

    /* 3: what is past its deadline and still waits. */
    "CREATE INDEX life_deadline ON life (deadline_at) WHERE state = 0 AND deadline_at > 0;",
};

#define VERSION ((int64_t)(sizeof steps / sizeof *steps))

/* The one number that a query gives. */
static int read_number(sqlite3 *database, const char *sql, int64_t *ret_number, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, sql, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(statement, 0);
    }
    int failed = 0;
    if (code == SQLITE_DONE) {
        failed = fail(err, FAULT_CORRUPT, "the database has no schema version");
    } else if (code != SQLITE_ROW) {
        failed = sqlite_fault(database, code, err);
    }
    (void)sqlite3_finalize(statement);
    return failed;
}

/* rare_of(failed_class, failed_at): for step 2, which cannot say eight bytes in SQL. */
static void rare_of(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct life life = {.failed_class = (uint32_t)sqlite3_value_int64(values[0]),
                              .failed_at_ms = sqlite3_value_int64(values[1])};
    unsigned char bytes[RARE_BYTES];

    (void)count;
    life_pack_rare(&life, bytes);
    sqlite3_result_blob(context, bytes, sizeof bytes, SQLITE_TRANSIENT);
}

static int take_step(sqlite3 *database, int64_t version, struct error *err)
{
    char done[VERSION_TEXT_MAX];
    int failed = sqlite_exec(database, "BEGIN IMMEDIATE", err);

    (void)sqlite3_snprintf(sizeof done, done, "UPDATE meta SET value = %lld WHERE name = 'schema'",
                           (long long)version + 1);
    failed = failed != 0 ? failed : sqlite_exec(database, steps[version], err);
    failed = failed != 0 ? failed : sqlite_exec(database, done, err);
    failed = failed != 0 ? failed : sqlite_exec(database, "COMMIT", err);
    if (failed != 0 && sqlite3_get_autocommit(database) == 0) {
        (void)sqlite_exec(database, "ROLLBACK", NULL); /* the file is closed next, in any case */
    }
    return failed;
}

static int read_version(sqlite3 *database, int64_t *ret_version, struct error *err)
{
    int64_t tables = 0;
    int failed = read_number(database, "SELECT count(*) FROM sqlite_schema", &tables, err);

    if (failed != 0) {
        return failed;
    }
    if (tables == 0) {
        *ret_version = 0;
        return 0;
    }
    return read_number(database, "SELECT value FROM meta WHERE name = 'schema'", ret_version, err);
}

int sqlite_schema_raise(sqlite3 *database, int64_t from, int64_t to, struct error *err)
{
    int code = sqlite3_create_function_v2(database, "rare_of", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY,
                                          NULL, rare_of, NULL, NULL, NULL);
    int failed = code == SQLITE_OK ? 0 : sqlite_fault(database, code, err);

    if (failed == 0 && from == 0) {
        /* Before the log is used, so that the mark is in the file itself from its first page on. */
        failed = sqlite_exec(database, FILE_NEW_SQL, err);
    }
    for (int64_t version = from; version < to && failed == 0; version++) {
        failed = take_step(database, version, err);
    }
    return failed;
}

static int read_known_version(sqlite3 *database, int64_t *ret_version, struct error *err)
{
    int failed = read_version(database, ret_version, err);

    if (failed == 0 && (*ret_version > VERSION || *ret_version < 0)) {
        return fail(err, FAULT_INPUT,
                    "the database has schema version %lld, this program knows versions up to %lld",
                    (long long)*ret_version, (long long)VERSION);
    }
    return failed;
}

int sqlite_schema_check(sqlite3 *database, struct error *err)
{
    int64_t version = 0;
    int failed = read_known_version(database, &version, err);

    if (failed == 0 && version < VERSION) {
        return fail(err, FAULT_INPUT,
                    "the database has schema version %lld; a server of this version brings it to "
                    "%lld when it starts",
                    (long long)version, (long long)VERSION);
    }
    return failed;
}

int sqlite_schema_open(sqlite3 *database, struct error *err)
{
    int64_t version = 0;
    int failed = read_known_version(database, &version, err);

    if (failed != 0) {
        return failed;
    }
    return sqlite_schema_raise(database, version, VERSION, err);
}
