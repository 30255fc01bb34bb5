/* SPDX-License-Identifier: MIT
 *
 * store_sqlite_compact -- a file that was large once, written anew as small as it can be. Deleting
 * tasks leaves free pages, which are used again but never given back to the disk.
 *
 *   lock --> nobody else has it open --> written beside it --> looked through --> put in its place
 *
 * Whatever happens in between, the file is the old one or the new one, whole. The log is done away
 * with first: SQLite lets only the last user do that, and a log must never stand beside a file that
 * it does not belong to.
 */
#include "store/store_sqlite_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "-compact"

static int64_t size_of(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? (int64_t)status.st_size : 0;
}

/* The one text that a statement gives. */
static int read_text(sqlite3 *database, const char *sql, char *ret_text, size_t max,
                     struct error *err)
{
    static const char *const none = "";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(database, sql, -1, &statement, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    if (code == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        (void)snprintf(ret_text, max, "%s", text != NULL ? text : none); /* cut when too long */
        code = sqlite3_step(statement);
    }
    int failed = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : sqlite_fault(database, code, err);
    (void)sqlite3_finalize(statement);
    return failed;
}

static int drop_log(const struct store_sqlite *sqlite, struct error *err)
{
    char mode[16] = "";
    int failed = read_text(sqlite->writer, "PRAGMA journal_mode = DELETE", mode, sizeof mode, NULL);

    return failed == 0 && strcmp(mode, "delete") == 0
               ? 0
               : fail(err, FAULT_IO, "%s: somebody is looking at it; try again later",
                      sqlite->path);
}

static int write_anew(const struct store_sqlite *sqlite, const char *path, struct error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(sqlite->writer, "VACUUM INTO ?1", -1, &statement, NULL);

    if (code == SQLITE_OK) {
        code = sqlite3_bind_text(statement, 1, path, -1, SQLITE_STATIC);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(statement);
    }
    int failed = code == SQLITE_DONE ? 0 : sqlite_fault(sqlite->writer, code, err);
    (void)sqlite3_finalize(statement);
    return failed;
}

/* On stable storage, and every page of it what it should be. */
static int look_through(const char *path, struct error *err)
{
    sqlite3 *database = NULL;
    char said[64] = "";
    int code = sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    int failed = code == SQLITE_OK
                     ? read_text(database, "PRAGMA quick_check(1)", said, sizeof said, err)
                     : sqlite_fault(database, code, err);

    (void)sqlite3_close(database); /* only read */
    if (failed == 0 && strcmp(said, "ok") != 0) {
        failed = fail(err, FAULT_CORRUPT, "%s: %s", path, said);
    }
    return failed != 0 ? failed : sqlite_file_sync(path, err);
}

/* Who runs a service may not be who makes its store small: root's file would be out of its reach. */
static int keep_owner(const struct store_sqlite *sqlite, const char *path, struct error *err)
{
    struct stat old, made;

    if (stat(sqlite->path, &old) != 0 || stat(path, &made) != 0) {
        return fail(err, FAULT_SYSTEM, "%s cannot be looked at", sqlite->path);
    }
    bool is_same = old.st_uid == made.st_uid && old.st_gid == made.st_gid;
    if (!is_same && chown(path, old.st_uid, old.st_gid) != 0) {
        return fail(err, FAULT_SYSTEM, "%s cannot be given to the owner of %s", path, sqlite->path);
    }
    return 0;
}

static int compact(struct store_sqlite *sqlite, const char *path, struct error *err)
{
    int failed = sqlite_schema_open(sqlite->writer, err);

    failed = failed != 0 ? failed : drop_log(sqlite, err);
    failed = failed != 0 ? failed : write_anew(sqlite, path, err);
    (void)sqlite3_close(sqlite->writer); /* nothing is unfinished any more */
    sqlite->writer = NULL;
    failed = failed != 0 ? failed : look_through(path, err);
    failed = failed != 0 ? failed : keep_owner(sqlite, path, err);
    if (failed == 0 && rename(path, sqlite->path) != 0) {
        failed = fail(err, FAULT_SYSTEM, "%s cannot be put in the place of %s", path, sqlite->path);
    }
    return failed != 0 ? failed : sqlite_file_sync(sqlite->folder, err);
}

/* The lock is held. */
static int compact_beside(struct store_sqlite *sqlite, struct error *err)
{
    size_t room = strlen(sqlite->path) + sizeof SUFFIX;
    char *path = malloc(room);

    if (path == NULL) {
        return fail(err, FAULT_MEMORY, "out of memory");
    }
    (void)snprintf(path, room, "%s" SUFFIX, sqlite->path);
    (void)unlink(path); /* what an earlier one left behind */
    mode_t mask = umask(0077);
    int failed = sqlite_open_connection(sqlite, SQLITE_OPEN_READWRITE, &sqlite->writer, err);
    failed = failed != 0 ? failed : compact(sqlite, path, err);
    (void)umask(mask);
    if (failed != 0) {
        (void)unlink(path); /* left behind at worst */
    }
    free(path);
    return failed;
}

int store_sqlite_compact(struct span location, struct store_sizes *ret_sizes, struct error *err)
{
    struct store_sqlite sqlite = {.lock_fd = -1, .file_fd = -1};
    int failed = sqlite_set_path(&sqlite, location, err);

    failed = failed != 0 ? failed : sqlite_file_look(&sqlite, err);
    failed = failed != 0 ? failed : sqlite_file_open(&sqlite, err);
    int64_t before = failed == 0 ? size_of(sqlite.path) : 0;
    failed = failed != 0 ? failed : compact_beside(&sqlite, err);
    if (failed == 0) {
        *ret_sizes = (struct store_sizes){.before = before, .after = size_of(sqlite.path)};
    }
    (void)sqlite3_close(sqlite.writer);
    sqlite_file_close(&sqlite);
    free(sqlite.path);
    free(sqlite.folder);
    return failed;
}
