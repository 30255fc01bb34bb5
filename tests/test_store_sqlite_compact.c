/* SPDX-License-Identifier: MIT
 *
 * test_store_sqlite_compact -- a file made small: everything is there, nobody else may have it open,
 * and a disk that fails in between leaves the old one.
 */
#include "carry_rig.h"
#include "sqlite_shim.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH      "compact.db"
#define SPEC      "sqlite:" PATH
#define FAT_TASKS 200
#define FAT_BYTES 20000
#define STEPS_MAX 2000

/* With a few tasks that stay, and room of many that have gone. */
static char *make_fat(void)
{
    char *body = calloc(1, FAT_BYTES);
    struct store *store = carry_open(SPEC);

    assert_non_null(body);
    carry_fill(store);
    for (int64_t row = 1; row <= FAT_TASKS; row++) {
        carry_apply(
            store,
            (struct op){.kind = OP_RECORD, .task = {.id = {.row = row}, .body = {body, FAT_BYTES}}},
            RESULT_DONE);
    }
    for (int64_t row = 1; row <= FAT_TASKS; row++) {
        carry_apply(store, (struct op){.kind = OP_PURGE, .task.id = {.row = row}}, RESULT_DONE);
    }
    char *text = carry_export_all(store);
    store_close(store);
    free(body);
    return text;
}

static void expect_same(const char *text)
{
    struct store *store = carry_open(SPEC);
    char *found = carry_export_all(store);

    assert_string_equal(found, text);
    carry_add_queue(store, "later", false); /* and it goes on */
    free(found);
    store_close(store);
}

static void remove_all(void)
{
    static const char *const paths[] = {
        PATH, PATH "-wal", PATH "-shm", PATH "-journal", PATH "-compact", PATH ".lock"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        (void)unlink(paths[i]);
    }
}

static void a_file_that_was_large_is_small_and_whole(void **state)
{
    struct store_sizes sizes = {0};
    struct stat status;
    (void)state;

    char *text = make_fat();
    int left = open(PATH "-compact", O_WRONLY | O_CREAT, 0600); /* by one that was killed */
    assert_true(left >= 0 && close(left) == 0);
    assert_int_equal(store_compact(SPAN(SPEC), &sizes, NULL), 0);
    assert_true(sizes.before > FAT_TASKS * FAT_BYTES);
    assert_true(sizes.after < sizes.before / 4);
    assert_int_equal(stat(PATH, &status), 0);
    assert_int_equal(status.st_size, sizes.after);
    assert_int_equal(status.st_mode & 0777, 0600); /* I10 */
    assert_int_not_equal(access(PATH "-compact", F_OK), 0);
    expect_same(text);
    free(text);
}

static void a_file_that_somebody_has_open_is_left_alone(void **state)
{
    struct store_sizes sizes;
    struct error err = {0};
    sqlite3 *other = NULL;
    (void)state;

    char *text = make_fat();
    struct store *store = carry_open(SPEC);
    assert_int_not_equal(store_compact(SPAN(SPEC), &sizes, &err), 0);
    assert_non_null(strstr(err.text, "is open already"));
    store_close(store);

    assert_int_equal(sqlite3_open(PATH, &other), SQLITE_OK); /* one that knows of no lock */
    assert_int_equal(sqlite3_exec(other, "BEGIN; SELECT count(*) FROM life", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_not_equal(store_compact(SPAN(SPEC), &sizes, &err), 0);
    assert_non_null(strstr(err.text, "somebody is looking at it"));
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    expect_same(text);
    free(text);
}

static void what_is_no_sqlite_store_is_refused(void **state)
{
    static const char *const specs[] = {"memory", "json:x.json", "sqlite:none.db", "sqlite:"};
    struct store_sizes sizes;
    (void)state;

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        assert_int_not_equal(store_compact(span_of(specs[i]), &sizes, NULL), 0);
    }
    assert_int_not_equal(access("none.db", F_OK), 0);
    assert_int_not_equal(access("x.json", F_OK), 0);
}

static char *read_file(size_t *ret_len)
{
    struct stat status;
    int file = open(PATH, O_RDONLY);

    assert_true(file >= 0);
    assert_int_equal(fstat(file, &status), 0);
    char *bytes = malloc((size_t)status.st_size);
    assert_non_null(bytes);
    assert_int_equal(read(file, bytes, (size_t)status.st_size), status.st_size);
    assert_int_equal(close(file), 0);
    *ret_len = (size_t)status.st_size;
    return bytes;
}

static void write_file(const char *bytes, size_t len)
{
    remove_all();
    int file = open(PATH, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, len), len);
    assert_int_equal(close(file), 0);
}

/* I9 */
static void a_disk_that_fails_in_between_leaves_a_whole_file(void **state)
{
    size_t len;
    (void)state;

    char *text = make_fat(), *bytes = read_file(&len);
    for (int how = 0; how < SHIM_HOW_COUNT; how++) {
        bool has_fired = true;
        int failures = 0;
        for (int nth = 1; has_fired; nth++) {
            struct store_sizes sizes;
            assert_true(nth < STEPS_MAX);
            write_file(bytes, len);
            shim_arm((enum shim_how)how, nth);
            failures += store_compact(SPAN(SPEC), &sizes, NULL) != 0;
            has_fired = shim_has_fired() != 0;
            shim_arm((enum shim_how)how, 0);
            expect_same(text);
        }
        assert_true(failures > 0);
    }
    free(bytes);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_was_large_is_small_and_whole),
        cmocka_unit_test(a_file_that_somebody_has_open_is_left_alone),
        cmocka_unit_test(what_is_no_sqlite_store_is_refused),
        cmocka_unit_test(a_disk_that_fails_in_between_leaves_a_whole_file),
    };
    shim_install();
    return HARNESS_RUN(argc, argv, tests);
}
