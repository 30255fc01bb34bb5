/* SPDX-License-Identifier: MIT
 *
 * test_store_sqlite -- the contract, on SQLite; and what only a file can go through: not being what
 * it should be, two who want it, a log that grows.
 */
#include "sqlite_rig.h"
#include "store_contract.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_MAX     ((off_t)80 << 20) /* where the log is reset, and what a batch may add */
#define LOG_ROWS    120
#define LARGE_BYTES ((size_t)1 << 20)
#define READ_ROWS   5000 /* looked at again and again */

static const struct store_subject subject = {.kind = "sqlite", .has_path = true};

/* It says why, and says the word. */
static void expect_refused(const char *word)
{
    struct store *store = NULL;
    struct error err = {0};

    assert_int_not_equal(store_open(SPAN(RIG_SPEC), &rig_keep, &store, &err), 0);
    assert_null(store);
    if (strstr(err.text, word) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.text, word);
    }
}

/* --- a file that is not what it should be ---------------------------------------------------- */

static size_t read_file(const char *path, char *to, size_t max)
{
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    ssize_t len = read(file, to, max);
    assert_true(len >= 0);
    (void)close(file);
    return (size_t)len;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, len), len);
    assert_int_equal(close(file), 0);
}

/* Refused, twice, and not a byte of it changed. */
static void expect_untouched(const char *word)
{
    size_t max = (size_t)4 << 20;
    char *before = malloc(max), *after = malloc(max);
    assert_non_null(before);
    assert_non_null(after);

    size_t len = read_file(RIG_PATH, before, max);
    for (int i = 0; i < 2; i++) {
        expect_refused(word);
        assert_int_equal(read_file(RIG_PATH, after, max), len);
        assert_memory_equal(after, before, len);
        assert_int_not_equal(access(RIG_PATH "-wal", F_OK), 0);
    }
    free(before);
    free(after);
}

static void make_store(int batches)
{
    struct store *store = rig_open();

    for (int i = 0; i < batches; i++) {
        assert_int_equal(rig_record(store, i), 0);
    }
    store_close(store);
}

static void run_sql(const char *sql)
{
    sqlite3 *database = NULL;

    assert_int_equal(sqlite3_open(RIG_PATH, &database), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static void what_is_not_a_database_is_refused_and_not_touched(void **state)
{
    static const char text[] = "tasks:\n  - name: precious\n";
    (void)state;

    write_file(RIG_PATH, text, sizeof text - 1);
    expect_untouched("is not a database");
    char zeros[8192] = {0};
    write_file(RIG_PATH, zeros, sizeof zeros);
    expect_untouched("is not a database");
}

static void the_database_of_another_program_is_refused(void **state)
{
    (void)state;

    run_sql("CREATE TABLE meta (name, value); INSERT INTO meta VALUES ('schema', 1)");
    expect_untouched("another program");
}

static void a_file_that_is_cut_short_is_refused(void **state)
{
    struct stat status;
    (void)state;

    make_store(10);
    assert_int_equal(stat(RIG_PATH, &status), 0);
    assert_int_equal(truncate(RIG_PATH, status.st_size - 8192), 0);
    expect_untouched("is cut short");
}

static int see_brief(void *user, const struct brief *brief)
{
    (void)user;
    (void)brief;
    return 0;
}

/* What a server does at start; whoever finds the damage says in which file. */
static bool start_is_refused(void)
{
    struct store *store = NULL;
    struct error err = {0};
    int failed = store_open(SPAN(RIG_SPEC), &rig_keep, &store, &err);

    failed = failed != 0 ? failed : store_scan(store, see_brief, NULL, &err);
    store_close(store);
    if (failed == FAULT_CORRUPT && strstr(err.text, RIG_PATH) == NULL) {
        fail_msg("\"%s\" does not name the file", err.text);
    }
    return failed == FAULT_CORRUPT;
}

/* Pages of tables whose contents are read at start. */
static void a_damaged_page_is_refused(void **state)
{
    static char bytes[4 << 20], good[4 << 20];
    int refused = 0;
    (void)state;

    make_store(200);
    size_t len = read_file(RIG_PATH, good, sizeof good);
    for (size_t page = 1; page < len / 8192; page++) {
        memcpy(bytes, good, len);
        memset(bytes + page * 8192, 0x55, 8192);
        write_file(RIG_PATH, bytes, len);
        refused += start_is_refused();
        (void)unlink(RIG_PATH "-wal");
        (void)unlink(RIG_PATH "-shm");
    }
    assert_true(refused >= 6); /* meta, and all of life; bodies are noticed when they are read */
}

static void a_newer_schema_is_refused_and_not_touched(void **state)
{
    (void)state;

    make_store(1);
    run_sql("UPDATE meta SET value = 1000 WHERE name = 'schema'");
    run_sql("PRAGMA journal_mode = DELETE");
    expect_untouched("schema version 1000");
    run_sql("DELETE FROM meta WHERE name = 'schema'");
    expect_untouched("no schema version");
}

static void an_empty_file_becomes_a_store(void **state)
{
    struct stat status;
    (void)state;

    write_file(RIG_PATH, "", 0);
    make_store(1);
    struct store *store = rig_open();
    assert_true(rig_has(store, 0));
    store_close(store);
    (void)unlink(RIG_PATH);
    make_store(1);
    assert_int_equal(stat(RIG_PATH, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600); /* I10: what is in it is nobody else's */
}

static void a_missing_folder_is_said_to_be_missing(void **state)
{
    struct store *store = NULL;
    struct error err = {0};
    (void)state;

    assert_int_not_equal(store_open(SPAN("sqlite:none/here.db"), &rig_keep, &store, &err), 0);
    assert_non_null(strstr(err.text, "none/here.db"));
}

static void a_name_with_a_meaning_for_sqlite_is_a_name(void **state)
{
    struct store *store = NULL;
    (void)state;

    assert_int_equal(store_open(SPAN("sqlite::memory:"), &rig_keep, &store, NULL), 0);
    assert_int_equal(rig_record(store, 0), 0);
    store_close(store);
    assert_int_equal(store_open(SPAN("sqlite::memory:"), &rig_keep, &store, NULL), 0);
    assert_true(rig_has(store, 0));
    store_close(store);
}

static void a_read_only_file_is_refused(void **state)
{
    (void)state;

    make_store(1);
    if (geteuid() == 0) { /* nothing is read-only for root */
        return;
    }
    assert_int_equal(chmod(RIG_PATH, 0400), 0);
    expect_untouched(RIG_PATH);
}

static int64_t count_rows(const char *sql)
{
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_open(RIG_PATH, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    return count;
}

static void apply_one(struct store *store, struct op op)
{
    struct op *list[] = {&op};

    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DONE);
}

#define COUNT_ALL_ROWS                                                                             \
    "SELECT (SELECT count(*) FROM task) + (SELECT count(*) FROM life) +"                           \
    " (SELECT count(*) FROM answer) + (SELECT count(*) FROM trail) + (SELECT count(*) FROM edit)"

/* Nothing that only takes up room: also what no read would show. */
static void a_purge_leaves_no_row_anywhere(void **state)
{
    struct store *store = rig_open();
    static const struct trail_row trail = {.attempt = 1};
    static const struct answer answer = {.status = 500};
    static const struct edit edit = {.parts = EDIT_BODY, .body = {"edited", 6}};
    struct op op = {.kind = OP_RECORD, .task.id = rig_id(0, 0), .task.key = SPAN("key")};
    (void)state;

    apply_one(store, op);
    for (uint64_t i = 1; i <= 3; i++) {
        struct life life = {.state = i < 3 ? TASK_WAITING : TASK_DEAD, .fence = i};
        op.kind = OP_LEASE;
        apply_one(store, op);
        apply_one(store, (struct op){.kind = OP_SETTLE,
                                     .task.id = op.task.id,
                                     .life = life,
                                     .trail = &trail,
                                     .trail_count = 1,
                                     .answer = &answer});
    }
    apply_one(store, (struct op){.kind = OP_RESOLVE, .task.id = op.task.id, .edit = &edit});
    store_close(store);
    assert_int_equal(count_rows(COUNT_ALL_ROWS), 7); /* three attempts, and one of each other */
    store = rig_open();
    op.kind = OP_PURGE;
    apply_one(store, op);
    store_close(store);
    assert_int_equal(count_rows(COUNT_ALL_ROWS), 0);
}

/* --- two who want it ------------------------------------------------------------------------- */

static void a_second_opening_is_refused(void **state)
{
    struct store *store = rig_open();
    int status;
    (void)state;

    expect_refused("open already");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct store *other = NULL;
        _exit(store_open(SPAN(RIG_SPEC), &rig_keep, &other, NULL) == 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(rig_record(store, 0), 0); /* and the first goes on */
    store_close(store);
    make_store(1);
}

/* Asked in another process: one that closes the file here would take SQLite's locks along. */
static void expect_open_already(const char *spec)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct store *store = NULL;
        struct error err = {0};
        bool is_refused = store_open(span_of(spec), &rig_keep, &store, &err) == FAULT_IO &&
                          strstr(err.text, "is open already") != NULL;
        _exit(!is_refused);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_second_opening_by_way_of_links_is_refused(void **state)
{
    struct stat status;
    struct store_sizes sizes;

    (void)state;
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    assert_int_equal(symlink("../" RIG_PATH, "elsewhere/link.db"), 0);
    assert_int_equal(symlink("elsewhere/link.db", "chain.db"), 0);
    struct store *store = rig_open();
    assert_int_equal(rig_record(store, 1), 0);
    expect_open_already("sqlite:elsewhere/link.db");
    expect_open_already("sqlite:chain.db");
    assert_int_equal(store_compact(SPAN("sqlite:chain.db"), &sizes, NULL), FAULT_IO);
    store_close(store);
    assert_int_equal(store_open(SPAN("sqlite:chain.db"), &rig_keep, &store, NULL), 0);
    expect_open_already(RIG_SPEC);
    assert_true(rig_has(store, 1));
    store_close(store);
    assert_int_equal(store_compact(SPAN("sqlite:chain.db"), &sizes, NULL), 0);
    assert_int_equal(lstat("chain.db", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_not_equal(access("chain.db.lock", F_OK), 0);
}

static void a_link_to_a_file_that_is_not_there_makes_it_there(void **state)
{
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    assert_int_equal(symlink("elsewhere/real.db", RIG_PATH), 0);
    store = rig_open();
    assert_int_equal(rig_record(store, 1), 0);
    assert_int_equal(access("elsewhere/real.db-wal", F_OK), 0);
    expect_open_already("sqlite:elsewhere/real.db");
    store_close(store);
    assert_int_equal(unlink(RIG_PATH), 0);
    assert_int_equal(symlink("nowhere/real.db", RIG_PATH), 0);
    expect_refused("No such file or directory");
    assert_int_equal(unlink(RIG_PATH), 0);
    assert_int_equal(symlink("elsewhere", RIG_PATH), 0);
    expect_refused("is not a file");
    assert_int_not_equal(access("elsewhere.lock", F_OK), 0);
    assert_int_equal(unlink(RIG_PATH), 0);
    assert_int_equal(symlink(RIG_PATH, RIG_PATH), 0);
    assert_int_equal(store_open(SPAN(RIG_SPEC), &rig_keep, &store, &err), FAULT_IO);
    assert_non_null(strstr(err.text, "links"));
}

/* Its log is beside one of the names only: under the other one the latest tasks would be missing. */
static void a_file_with_two_names_is_refused(void **state)
{
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    make_store(1);
    assert_int_equal(link(RIG_PATH, "other.db"), 0);
    expect_untouched("more than one name");
    assert_int_not_equal(store_open_to_read(SPAN("sqlite:other.db"), &store, &err), 0);
    assert_non_null(strstr(err.text, "more than one name"));
    assert_int_equal(unlink("other.db"), 0);
    store = rig_open();
    assert_true(rig_has(store, 0));
    store_close(store);
}

/* The lock beside it does not help then; the one on the file itself does. */
static void a_file_that_is_renamed_or_loses_its_lock_file_is_still_locked(void **state)
{
    struct store *store;

    (void)state;
    store = rig_open();
    assert_int_equal(rig_record(store, 1), 0);
    assert_int_equal(unlink(RIG_PATH ".lock"), 0);
    expect_open_already(RIG_SPEC);
    assert_int_equal(rename(RIG_PATH, "other.db"), 0);
    expect_open_already("sqlite:other.db");
    assert_int_equal(rename("other.db", RIG_PATH), 0);
    assert_int_equal(rig_record(store, 2), 0);
    store_close(store);
    store = rig_open();
    assert_true(rig_has(store, 2));
    store_close(store);
}

/* --- the log --------------------------------------------------------------------------------- */

struct reading {
    struct store *store;
    int over; /* atomic */
};

static int see_one(void *user, const struct record *record)
{
    (void)user;
    (void)record;
    return 0;
}

static void *read_without_rest(void *user)
{
    struct reading *reading = user;
    struct store_filter filter = {.states = STORE_ALL_STATES,
                                  .limit = 1,
                                  .label_name = SPAN("none"),
                                  .label_value = SPAN("has it")};

    while (__atomic_load_n(&reading->over, __ATOMIC_ACQUIRE) == 0) {
        struct arena *arena = arena_new(RIG_ARENA_MAX);
        int64_t next;
        assert_int_equal(store_list(reading->store, &filter, arena, see_one, NULL, &next, NULL), 0);
        arena_free(arena);
    }
    return NULL;
}

static void fill(struct store *store)
{
    struct op *ops = calloc(READ_ROWS, sizeof *ops), **list = calloc(READ_ROWS, sizeof *list);

    assert_non_null(ops);
    assert_non_null(list);
    for (int i = 0; i < READ_ROWS; i++) {
        ops[i] = (struct op){.kind = OP_RECORD, .task.id = {.row = LOG_ROWS + 1 + i}};
        list[i] = &ops[i];
    }
    assert_int_equal(store_apply(store, list, READ_ROWS, NULL), 0);
    free(list);
    free(ops);
}

/* It looks for what is not there, so there is nearly always some page of it under way. */
static void the_log_stays_short_beside_a_reader_that_never_rests(void **state)
{
    struct reading reading = {.store = rig_open()};
    char *large = calloc(1, LARGE_BYTES);
    off_t largest = 0;
    pthread_t reader;
    (void)state;
    assert_non_null(large);

    fill(reading.store);
    assert_int_equal(pthread_create(&reader, NULL, read_without_rest, &reading), 0);
    for (int64_t i = 1; i <= LOG_ROWS; i++) {
        struct op op = {.kind = OP_RECORD,
                        .task = {.id = {.row = i}, .body = {.at = large, .len = LARGE_BYTES}}};
        struct op *list[] = {&op};
        struct stat status;
        assert_int_equal(store_apply(reading.store, list, 1, NULL), 0);
        assert_int_equal(stat(RIG_PATH "-wal", &status), 0);
        largest = status.st_size > largest ? status.st_size : largest;
    }
    __atomic_store_n(&reading.over, 1, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_true(largest < LOG_MAX);
    store_close(reading.store);
    free(large);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(what_is_not_a_database_is_refused_and_not_touched),
        cmocka_unit_test(the_database_of_another_program_is_refused),
        cmocka_unit_test(a_file_that_is_cut_short_is_refused),
        cmocka_unit_test(a_damaged_page_is_refused),
        cmocka_unit_test(a_newer_schema_is_refused_and_not_touched),
        cmocka_unit_test(an_empty_file_becomes_a_store),
        cmocka_unit_test(a_missing_folder_is_said_to_be_missing),
        cmocka_unit_test(a_name_with_a_meaning_for_sqlite_is_a_name),
        cmocka_unit_test(a_read_only_file_is_refused),
        cmocka_unit_test(a_purge_leaves_no_row_anywhere),
        cmocka_unit_test(a_second_opening_is_refused),
        cmocka_unit_test(a_second_opening_by_way_of_links_is_refused),
        cmocka_unit_test(a_link_to_a_file_that_is_not_there_makes_it_there),
        cmocka_unit_test(a_file_with_two_names_is_refused),
        cmocka_unit_test(a_file_that_is_renamed_or_loses_its_lock_file_is_still_locked),
        cmocka_unit_test(the_log_stays_short_beside_a_reader_that_never_rests),
    };
    rig_init();
    return store_contract_run(argc, argv, &subject, own, sizeof own / sizeof *own);
}
