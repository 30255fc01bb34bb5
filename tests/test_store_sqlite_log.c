/* SPDX-License-Identifier: MIT
 *
 * test_store_sqlite_log -- the log stays short whoever reads. The reader here is the worst there is:
 * at every commit it still looks at what was before it, and it ends its page only when somebody wants
 * to reset the log. Without the gate nobody would ask one of our own, and without a checkpoint that
 * waits nobody would outlast one of another process.
 */
#include "harness.h"
#include "sqlite_rig.h"
#include "store/store_sqlite_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>

#define CHECKPOINT_BYTES (256 << 10)
#define RESET_BYTES      (1 << 20)
#define LOG_MAX          (4 << 20) /* a few resets may fail on a machine that is busy */
#define BODY_BYTES       (64 << 10)
#define COMMITS          256 /* 16 MiB: four times what the log may come to */

/* Of our own, through the gate; or of another process, which knows of no gate. */
enum reader_kind { READER_OWN, READER_OTHER };

struct reading {
    enum reader_kind kind;
    struct store_sqlite *sqlite;
    sqlite3 *other;
    pthread_mutex_t lock; /* the two below */
    pthread_cond_t changed;
    int wanted, seen; /* pages: begun for commit number `seen` */
    bool is_over;
};

static void begin_page(struct reading *reading)
{
    if (reading->kind == READER_OWN) {
        assert_int_equal(sqlite_page_begin(reading->sqlite, NULL), 0);
        struct query query = query_begin(reading->sqlite->fetch[FETCH_SLOT]);
        query_int(&query, 1, 0);
        (void)query_row(&query); /* now it has its picture of the file */
        assert_int_equal(query_end(&query, NULL), 0);
        return;
    }
    assert_int_equal(
        sqlite3_exec(reading->other, "BEGIN; SELECT count(*) FROM meta", NULL, NULL, NULL),
        SQLITE_OK);
}

static void end_page(struct reading *reading)
{
    if (reading->kind == READER_OWN) {
        assert_int_equal(sqlite_page_end(reading->sqlite, 0, NULL), 0);
        return;
    }
    assert_int_equal(sqlite3_exec(reading->other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
}

static bool wants_reset(struct reading *reading)
{
    struct gate *gate = &reading->sqlite->gate;

    pthread_mutex_lock(&gate->lock);
    bool is_closed = gate->is_closed;
    pthread_mutex_unlock(&gate->lock);
    return is_closed;
}

/* A page for each commit, begun before it and ended after it, or when the log is to be reset. One of
 * another process has to read on for a while even then. */
static void hold_page(struct reading *reading, int number)
{
    bool is_wanted = false;

    while (!is_wanted && !wants_reset(reading)) {
        pthread_mutex_lock(&reading->lock);
        is_wanted = reading->wanted != number || reading->is_over;
        pthread_mutex_unlock(&reading->lock);
        (void)sched_yield();
    }
    for (int i = 0; i < 200 && !is_wanted && reading->kind == READER_OTHER; i++) {
        assert_int_equal(sqlite3_exec(reading->other,
                                      "SELECT sum(length(body)) FROM task WHERE id < 9", NULL, NULL,
                                      NULL),
                         SQLITE_OK);
    }
}

static void *read_always(void *user)
{
    struct reading *reading = user;
    bool is_over = false;

    while (!is_over) {
        pthread_mutex_lock(&reading->lock);
        while (reading->seen == reading->wanted && !reading->is_over) {
            pthread_cond_wait(&reading->changed, &reading->lock);
        }
        int number = reading->wanted;
        is_over = reading->is_over;
        pthread_mutex_unlock(&reading->lock);
        if (is_over) {
            break;
        }
        begin_page(reading);
        pthread_mutex_lock(&reading->lock);
        reading->seen = number;
        pthread_cond_broadcast(&reading->changed);
        pthread_mutex_unlock(&reading->lock);
        hold_page(reading, number);
        end_page(reading);
    }
    return NULL;
}

/* Returns when the reader has begun a page. */
static void ask_for_page(struct reading *reading, int number)
{
    pthread_mutex_lock(&reading->lock);
    reading->wanted = number;
    pthread_cond_broadcast(&reading->changed);
    while (reading->seen != number) {
        pthread_cond_wait(&reading->changed, &reading->lock);
    }
    pthread_mutex_unlock(&reading->lock);
}

static off_t write_beside(struct reading *reading)
{
    char *body = calloc(1, BODY_BYTES);
    off_t largest = 0;

    assert_non_null(body);
    for (int i = 1; i <= COMMITS; i++) {
        struct op op = {.kind = OP_RECORD,
                        .task = {.id = {.row = i}, .body = {.at = body, .len = BODY_BYTES}}};
        struct op *list[] = {&op};
        struct stat status;
        ask_for_page(reading, i);
        assert_int_equal(store_apply(&reading->sqlite->base, list, 1, NULL), 0);
        assert_int_equal(stat(RIG_PATH "-wal", &status), 0);
        largest = status.st_size > largest ? status.st_size : largest;
    }
    free(body);
    return largest;
}

static void expect_short_log(enum reader_kind kind)
{
    struct reading reading = {.kind = kind,
                              .sqlite = (struct store_sqlite *)rig_open(),
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    pthread_t reader;

    reading.sqlite->checkpoint_bytes = CHECKPOINT_BYTES;
    reading.sqlite->reset_bytes = RESET_BYTES;
    assert_int_equal(sqlite3_open(RIG_PATH, &reading.other), SQLITE_OK);
    assert_int_equal(pthread_create(&reader, NULL, read_always, &reading), 0);
    off_t largest = write_beside(&reading);
    pthread_mutex_lock(&reading.lock);
    reading.is_over = true;
    pthread_cond_broadcast(&reading.changed);
    pthread_mutex_unlock(&reading.lock);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_int_equal(sqlite3_close(reading.other), SQLITE_OK);
    print_message("the log came to %lld bytes\n", (long long)largest);
    assert_true(largest < LOG_MAX);
    store_close(&reading.sqlite->base);
}

static void a_reader_of_our_own_is_asked_to_let_the_log_be_reset(void **state)
{
    (void)state;
    expect_short_log(READER_OWN);
}

static void a_reader_of_another_process_is_waited_for(void **state)
{
    (void)state;
    expect_short_log(READER_OTHER);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_of_our_own_is_asked_to_let_the_log_be_reset),
        cmocka_unit_test(a_reader_of_another_process_is_waited_for),
    };
    rig_init();
    return HARNESS_RUN(argc, argv, tests);
}
