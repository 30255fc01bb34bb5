/* SPDX-License-Identifier: MIT
 *
 * test_store_sqlite_old -- files that an earlier version wrote, opened by this one: everything is
 * there, what came later has its default, and a disk that fails in the middle of the change leaves a
 * file that can be opened.
 */
#include "harness.h"
#include "sqlite_old.h"
#include "sqlite_rig.h"
#include "sqlite_shim.h"
#include "store/store_sqlite_internal.h"

#include <unistd.h>

#define OLD_TASKS 4
#define STEPS_MAX 200

static const enum task_state old_states[OLD_TASKS] = {TASK_WAITING, TASK_RUNNING, TASK_SUCCEEDED,
                                                      TASK_DEAD};

static sqlite3 *open_raw(void)
{
    sqlite3 *database = NULL;

    assert_int_equal(sqlite3_open(RIG_PATH, &database), SQLITE_OK);
    return database;
}

static void make_old(void)
{
    static const char *const suffixes[] = {RIG_PATH, RIG_PATH "-wal", RIG_PATH "-shm",
                                           RIG_PATH "-journal"};

    for (size_t i = 0; i < 4; i++) {
        (void)unlink(suffixes[i]);
    }
    sqlite3 *database = open_raw();
    assert_int_equal(sqlite3_exec(database, sqlite_old_1, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(database, "PRAGMA journal_mode = WAL", NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
}

static int64_t read_version(void)
{
    sqlite3 *database = open_raw();
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_prepare_v2(database, "SELECT value FROM meta WHERE name = 'schema'",
                                        -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t version = sqlite3_column_int64(statement, 0);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    return version;
}

static struct record read_row(struct store *store, int64_t row, struct arena *arena)
{
    struct record record;
    bool found = false;

    assert_int_equal(store_read_task(store, (struct task_id){row, 99 + (uint64_t)row},
                                     READ_BODIES | READ_TRAIL, arena, &record, &found, NULL),
                     0);
    assert_true(found);
    return record;
}

static void expect_bound(struct store *store, const char *key, int64_t row)
{
    struct op op = {.kind = OP_RECORD,
                    .now_ms = RIG_NOW_MS,
                    .task = {.id = {.row = 1000},
                             .queue = 1,
                             .scope = SPAN("s"),
                             .key = span_of(key),
                             .fingerprint = "0123456789abcdef0123456789abcde"}};
    struct op *list[] = {&op};

    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    assert_int_equal(op.result, RESULT_DUPLICATE);
    assert_int_equal(op.task.id.row, row);
}

static void expect_task(const struct record *record, int i)
{
    const struct life *life = &record->life;
    bool is_dead = old_states[i] == TASK_DEAD;

    assert_int_equal(life->state, old_states[i]);
    assert_int_equal(life->due_at_ms, RIG_NOW_MS + i);
    assert_int_equal(life->deadline_at_ms, RIG_NOW_MS + 9);
    assert_int_equal(life->attempts_all, i > 0);
    assert_true(span_is(record->task.target, "http://target.test/"));
    assert_int_equal(record->task.body.len, 6);
    assert_int_equal(record->trail_count, i >= 2);
    assert_int_equal(record->answer.status, i < 2 ? 0 : i == 2 ? 200 : 503);
    assert_true(record->is_bound);
    assert_int_equal(record->edit.parts, 0);
    /* What was dead before there were letters is one now; all else has its default. */
    assert_int_equal(letter_status(life), is_dead ? LETTER_FAILED : LETTER_NONE);
    assert_int_equal(life->failed_at_ms, is_dead ? RIG_NOW_MS + 20 : 0);
    assert_int_equal(life->failed_class, is_dead ? DARUMA_CLASS_TRANSIENT + 1 : 0);
    assert_int_equal(life->resolved_at_ms, 0);
    assert_int_equal(life->keep_until_ms, 0);
    assert_int_equal(life->probe_count, 0);
    assert_int_equal(life->probe_due_ms, 0);
}

static int see_letter(void *user, const struct record *record)
{
    assert_int_equal(record->task.id.row, OLD_TASKS);
    ++*(int *)user;
    return 0;
}

static int see_queue(void *user, const struct queue_row *queue)
{
    assert_true(span_is(queue->name, queue->number == 1 ? "mail" : "gone"));
    assert_int_equal(queue->dropped, queue->number == 2);
    ++*(int *)user;
    return 0;
}

static void expect_everything(struct store *store)
{
    static const char *const keys[OLD_TASKS] = {"key-1", "key-2", "key-3", "key-4"};
    struct arena *arena = arena_new(RIG_ARENA_MAX);
    struct store_filter letters = {.states = STORE_ALL_STATES, .flags = LIFE_LETTER, .limit = 9};
    int queue_count = 0, letter_count = 0;
    int64_t next;

    for (int i = 0; i < OLD_TASKS; i++) {
        struct record record = read_row(store, i + 1, arena);
        expect_task(&record, i);
        expect_bound(store, keys[i], i + 1);
    }
    assert_int_equal(store_queues(store, see_queue, &queue_count, NULL), 0);
    assert_int_equal(queue_count, 2);
    assert_int_equal(store_list(store, &letters, arena, see_letter, &letter_count, &next, NULL), 0);
    assert_int_equal(letter_count, 1);
    arena_free(arena);
}

/* --- claims ---------------------------------------------------------------------------------- */

static void a_file_of_the_first_version_has_everything(void **state)
{
    (void)state;
    make_old();
    assert_int_equal(read_version(), 1);
    struct store *store = rig_open();
    assert_int_equal(store->epoch, 2);
    assert_int_equal(store->last_row, OLD_TASKS);
    expect_everything(store);
    store_close(store);
    int64_t version = read_version();
    assert_true(version > 1);
    store = rig_open(); /* once more: nothing is left to change */
    expect_everything(store);
    store_close(store);
    assert_int_equal(read_version(), version);
}

/* And lives on in the new one. */
static void an_old_task_can_be_redriven(void **state)
{
    struct edit edit = {.parts = EDIT_BODY, .body = SPAN("new")};
    struct op redrive = {
        .kind = OP_REDRIVE, .now_ms = RIG_NOW_MS, .task.id = {4, 103}, .edit = &edit};
    struct op *list[] = {&redrive};
    (void)state;

    make_old();
    struct store *store = rig_open();
    assert_int_equal(store_apply(store, list, 1, NULL), 0);
    assert_int_equal(redrive.result, RESULT_DONE);
    assert_int_equal(letter_status(&redrive.life), LETTER_RETRYING);
    store_close(store);
}

/* I8: each write and each sync of the opening fails once. */
static void a_disk_that_fails_while_it_changes_does_no_harm(void **state)
{
    (void)state;
    for (int how = 0; how < SHIM_HOW_COUNT; how++) {
        int nth = 1, failures = 0;
        do {
            struct store *store = NULL;
            make_old();
            shim_arm((enum shim_how)how, nth++);
            failures += store_open(SPAN(RIG_SPEC), &rig_keep, &store, NULL) != 0;
            store_close(store);
            bool has_fired = shim_has_fired() != 0;
            shim_arm((enum shim_how)how, 0);
            store = rig_open();
            expect_everything(store);
            store_close(store);
            if (!has_fired) {
                break;
            }
        } while (nth < STEPS_MAX);
        assert_true(nth < STEPS_MAX);
        assert_true(failures > 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_the_first_version_has_everything),
        cmocka_unit_test(an_old_task_can_be_redriven),
        cmocka_unit_test(a_disk_that_fails_while_it_changes_does_no_harm),
    };
    shim_install();
    rig_init();
    return HARNESS_RUN(argc, argv, tests);
}
