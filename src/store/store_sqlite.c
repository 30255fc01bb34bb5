/* SPDX-License-Identifier: MIT
 *
 * store_sqlite -- the default store: one file, a write-ahead log, `synchronous=FULL`. One
 * connection writes, one reads beside it; their statements are prepared once and kept. Keys are
 * looked up in memory (store/key_index.h), rebuilt from the hashes in `life` by the scan at start,
 * which reads every life anyway, or by the first batch.
 */
#include "store/store_sqlite_internal.h"

#include "base/disk.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/statvfs.h>

/* Of each connection, and for its life. The page size first: a cache is counted in pages. A million
 * inserts due over a day cost the same time and bytes with a cache of 16, 32 and 64 MB (58, 76 and
 * 114 MB resident); more rows than that were not tried, hence the middle one. The log is cut back
 * to the size at which it is reset. No functions with side effects by way of the schema of a file
 * that came from outside. */
#define WRITER_PRAGMAS                                                                             \
    "PRAGMA page_size = 8192; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY;"             \
    "PRAGMA synchronous = FULL; PRAGMA locking_mode = NORMAL;"                                     \
    "PRAGMA journal_size_limit = 67108864; PRAGMA cell_size_check = ON;"                           \
    "PRAGMA trusted_schema = OFF"
#define READER_PRAGMAS                                                                             \
    "PRAGMA query_only = ON; PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;"               \
    "PRAGMA trusted_schema = OFF"

static const char *const write_sql[] = {
#define WRITE_SQL(name, sql) [WRITE_##name] = sql,
    WRITE_MAP(WRITE_SQL)
#undef WRITE_SQL
};

static const char *const fetch_sql[] = {
#define FETCH_SQL(name, sql) [FETCH_##name] = sql,
    FETCH_MAP(FETCH_SQL)
#undef FETCH_SQL
};

/* --- opening --------------------------------------------------------------------------------- */

static int keep_path(struct store_sqlite *sqlite, struct span path, struct error *err)
{
    /* "./" before a relative one: SQLite has names with a meaning of their own (":memory:"). */
    size_t before = path.at[0] == '/' ? 0 : 2;

    if (path.len + before >= PATH_MAX) {
        return fail(err, FAULT_INPUT, "the path of the store is too long");
    }
    sqlite->path = calloc(1, before + path.len + 1);
    sqlite->folder = calloc(1, before + path.len + 1);
    if (sqlite->path == NULL || sqlite->folder == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    memcpy(sqlite->path, "./", before);
    span_copy(sqlite->path + before, path);
    size_t folder_len = (size_t)(strrchr(sqlite->path, '/') - sqlite->path);
    memcpy(sqlite->folder, sqlite->path, folder_len > 0 ? folder_len : 1);
    return 0;
}

int sqlite_set_path(struct store_sqlite *sqlite, struct span location, struct error *err)
{
    char *file =
        NULL; /* SQLite follows links, too, so the lock has to be beside what they lead to */
    int failed = disk_resolve(location, &file, err);

    if (failed != 0) {
        return failed;
    }
    failed = keep_path(sqlite, span_of(file), err);
    free(file);
    return failed;
}

int sqlite_open_connection(struct store_sqlite *sqlite, int flags, sqlite3 **ret_connection,
                           struct error *err)
{
    /* Nobody asks how much it has allocated, and counting takes a lock each time. Refused when SQLite is
     * in use already. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    int code = sqlite3_open_v2(sqlite->path, ret_connection,
                               flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (code != SQLITE_OK) {
        return sqlite_fault(*ret_connection, code, err);
    }
    (void)sqlite3_busy_timeout(*ret_connection, WRITER_BUSY_MS);
    return 0;
}

static int use_log(sqlite3 *database, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, "PRAGMA journal_mode = WAL", -1, &statement, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    const char *mode = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    int failed = 0;
    if (code != SQLITE_ROW) {
        failed = sqlite_fault(database, code, err);
    } else if (mode == NULL || strcmp(mode, "wal") != 0) {
        failed = fail(err, FAULT_IO, "sqlite: the file system does not carry a write-ahead log");
    }
    /* The row comes before the commit that makes it true. */
    if (failed == 0 && (code = sqlite3_step(statement)) != SQLITE_DONE) {
        failed = sqlite_fault(database, code, err);
    }
    (void)sqlite3_finalize(statement);
    return failed;
}

static int open_writer(struct store_sqlite *sqlite, struct error *err)
{
    int failed = sqlite_open_connection(sqlite, SQLITE_OPEN_READWRITE, &sqlite->writer, err);

    if (failed != 0) {
        return failed;
    }
    /* Until it is accepted, closing it must not write to it either. */
    (void)sqlite3_db_config(sqlite->writer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    (void)sqlite3_db_config(sqlite->writer, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    failed = sqlite_exec(sqlite->writer, WRITER_PRAGMAS, err);
    failed = failed != 0 ? failed : sqlite_schema_open(sqlite->writer, err);
    failed = failed != 0 ? failed : use_log(sqlite->writer, err);
    failed = failed != 0
                 ? failed
                 : sqlite_prepare(sqlite->writer, write_sql, WRITE_COUNT, sqlite->write, err);
    (void)sqlite3_db_config(sqlite->writer, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, failed != 0, NULL);
    return failed;
}

static int open_reader(struct store_sqlite *sqlite, struct error *err)
{
    int failed = sqlite_open_connection(sqlite, SQLITE_OPEN_READONLY, &sqlite->reader, err);

    failed = failed != 0 ? failed : sqlite_exec(sqlite->reader, READER_PRAGMAS, err);
    if (failed == 0 && sqlite->writer == NULL) {
        failed = sqlite_schema_check(sqlite->reader, err);
    }
    return failed != 0 ? failed
                       : sqlite_prepare(sqlite->reader, fetch_sql, FETCH_COUNT, sqlite->fetch, err);
}

/* Raises the epoch and reads what else is in `meta`. */
static int read_meta(struct store_sqlite *sqlite, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    int failed =
        sqlite_exec(sqlite->writer, "UPDATE meta SET value = value + 1 WHERE name = 'epoch'", err);

    if (failed != 0) {
        return failed;
    }
    static const char *const sql[] = {"SELECT (SELECT value FROM meta WHERE name = 'epoch'),"
                                      " max((SELECT value FROM meta WHERE name = 'last_row'),"
                                      " ifnull((SELECT max(id) FROM life), 0)),"
                                      " (SELECT value FROM meta WHERE name = 'secret')"};
    failed = sqlite_prepare(sqlite->writer, sql, 1, &statement, err);
    if (failed != 0) {
        return failed;
    }
    struct query query = query_begin(statement);
    if (query_row(&query)) {
        sqlite->base.epoch = (uint64_t)sqlite3_column_int64(statement, 0);
        sqlite->base.last_row = sqlite3_column_int64(statement, 1);
        const void *secret = sqlite3_column_blob(statement, 2);
        if (sqlite->base.epoch == 0 ||
            sqlite3_column_bytes(statement, 2) != sizeof sqlite->keys.secret) {
            query.code = SQLITE_CORRUPT;
        } else {
            memcpy(sqlite->keys.secret, secret, sizeof sqlite->keys.secret);
        }
    }
    failed = query_end(&query, err);
    (void)sqlite3_finalize(statement);
    return failed;
}

/* With the writer's connection: a reader may be about. */
int sqlite_keys_ensure(struct store_sqlite *sqlite, struct error *err)
{
    static const char *const sql[] = {"SELECT id, key_hash FROM life WHERE key_hash != 0"};
    sqlite3_stmt *statement = NULL;
    int failed = sqlite->has_keys ? 0 : sqlite_prepare(sqlite->writer, sql, 1, &statement, err);

    if (failed != 0 || sqlite->has_keys) {
        return failed;
    }
    struct query query = query_begin(statement);
    while (query_row(&query)) {
        uint64_t hash = (uint64_t)sqlite3_column_int64(statement, 1);
        if (key_index_add(&sqlite->keys, hash, sqlite3_column_int64(statement, 0)) != 0) {
            query.code = SQLITE_NOMEM;
        }
    }
    failed = query_end(&query, err);
    (void)sqlite3_finalize(statement);
    if (failed != 0) {
        key_index_done(&sqlite->keys); /* half of it is worse than none */
    }
    sqlite->has_keys = failed == 0;
    return failed;
}

/* --- room, closing --------------------------------------------------------------------------- */

static int64_t sqlite_room_bytes(struct store *store)
{
    const struct store_sqlite *sqlite = (const struct store_sqlite *)store;
    struct statvfs status;

    if (statvfs(sqlite->folder, &status) != 0) {
        return 0; /* a folder that cannot be asked has no room */
    }
    uint64_t blocks = status.f_bavail, size = status.f_frsize;
    return size > 0 && blocks > (uint64_t)INT64_MAX / size ? INT64_MAX : (int64_t)(blocks * size);
}

static void close_connection(sqlite3 *connection, sqlite3_stmt *statements[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)sqlite3_finalize(statements[i]);
    }
    (void)sqlite3_close(connection); /* nothing is unfinished any more */
}

static void sqlite_close(struct store *store)
{
    struct store_sqlite *sqlite = (struct store_sqlite *)store;

    close_connection(sqlite->reader, sqlite->fetch, FETCH_COUNT);
    close_connection(sqlite->writer, sqlite->write, WRITE_COUNT);
    sqlite_wal_done(sqlite);
    sqlite_file_close(sqlite);
    key_index_done(&sqlite->keys);
    key_log_done(&sqlite->key_log);
    number_set_done(&sqlite->dropped);
    stage_done(&sqlite->stage);
    free(sqlite->path);
    free(sqlite->folder);
    free(sqlite);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .apply = sqlite_apply,
    .touch = sqlite_touch,
    .recall = store_recalls_nothing,
    .read_task = sqlite_read_task,
    .list = sqlite_list,
    .due = sqlite_due,
    .scan = sqlite_scan,
    .queues = sqlite_queues,
    .audit = sqlite_audit,
    .memos = sqlite_memos,
    .room_bytes = sqlite_room_bytes,
    .close = sqlite_close,
};

static int open_to_write(struct store_sqlite *sqlite, struct error *err)
{
    int failed = sqlite_file_open(sqlite, err);

    failed = failed != 0 ? failed : open_writer(sqlite, err);
    failed = failed != 0 ? failed : sqlite_wal_init(sqlite, err);
    failed = failed != 0 ? failed : read_meta(sqlite, err);
    return failed != 0 ? failed : sqlite_read_dropped(sqlite, err);
}

/* No lock, no writer, no epoch: somebody else may have it open. */
static int open_to_read(struct store_sqlite *sqlite, struct error *err)
{
    int failed = sqlite_file_look(sqlite, err);

    sqlite->has_keys = true; /* whoever records nothing needs none */
    return failed != 0 ? failed : sqlite_wal_init(sqlite, err);
}

int store_sqlite_open(const struct store_options *options, struct store **ret_store,
                      struct error *err)
{
    struct store_sqlite *sqlite = calloc(1, sizeof *sqlite);

    if (sqlite == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    sqlite->base.ops = &sqlite_ops;
    sqlite->keep = options->keep;
    sqlite->reserve_bytes = STORE_SQLITE_RESERVED;
    sqlite->omit_after_ms = STORE_SQLITE_OMIT_AFTER;
    sqlite->checkpoint_bytes = STORE_SQLITE_CHECKPOINT;
    sqlite->reset_bytes = STORE_SQLITE_RESET;
    sqlite->lock_fd = sqlite->file_fd = -1;
    int failed = sqlite_set_path(sqlite, options->location, err);
    if (failed == 0) {
        failed = options->is_reader ? open_to_read(sqlite, err) : open_to_write(sqlite, err);
    }
    failed = failed != 0 ? failed : open_reader(sqlite, err);
    if (failed != 0) {
        sqlite_close(&sqlite->base);
        return failed;
    }
    *ret_store = &sqlite->base;
    return 0;
}
