/* SPDX-License-Identifier: MIT
 *
 * test_store_sqlite_crash -- the SQLite store when its process is killed and when its disk fails:
 * what was told is there, what was refused is not.
 */
#include "sqlite_rig.h"
#include "sqlite_shim.h"
#include "store/store_sqlite_internal.h"

#include <daruma/dice.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- a process that is killed ---------------------------------------------------------------- */

enum { STEP_RECORD, STEP_LEASE, STEP_SETTLE, STEP_COUNT };

/* Records, leases and settles batch after batch, and tells of each commit, until it is killed. */
static void work_until_killed(int number, int report)
{
    struct store *store = rig_open();
    static struct rig_batch batch;
    static const struct answer answer = {.status = 200,
                                         .body = {.at = rig_body, .len = sizeof rig_body}};
    char step = 0;

    for (;; number++) {
        rig_prepare(&batch, number);
        for (step = STEP_RECORD; step < STEP_COUNT; step++) {
            if (store_apply(store, batch.list, RIG_BATCH, NULL) != 0 ||
                write(report, &step, 1) != 1) {
                _exit(1);
            }
            for (int i = 0; i < RIG_BATCH; i++) {
                struct life life = batch.ops[i].life;
                life.state = TASK_SUCCEEDED;
                life.settled_at_ms = RIG_NOW_MS;
                batch.ops[i] = (struct op){.kind = step == STEP_RECORD ? OP_LEASE : OP_SETTLE,
                                           .now_ms = RIG_NOW_MS,
                                           .task.id = rig_id(number, i),
                                           .life = life,
                                           .answer = &answer,
                                           .epoch = store->epoch};
            }
        }
    }
}

/* How many commits were told of. The kill falls some time after the one it waits for. */
static int run_and_kill(int number, uint64_t after)
{
    int report[2], told = 0, status;
    char step;

    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(report[0]);
        work_until_killed(number, report[1]);
    }
    (void)close(report[1]);
    while ((uint64_t)told < after && read(report[0], &step, 1) == 1) {
        told++;
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    while (read(report[0], &step, 1) == 1) {
        told++;
    }
    (void)close(report[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    return told;
}

/* How many steps each task of the batch has behind it: the same for all (I7). */
static int steps_done(struct store *store, int number)
{
    int steps = -1;

    for (int i = 0; i < RIG_BATCH; i++) {
        bool found = false;
        struct record record = rig_read(store, rig_id(number, i), &found);
        int done = !found                                ? 0
                   : record.life.state == TASK_WAITING   ? 1
                   : record.life.state == TASK_RUNNING   ? 2
                   : record.life.state == TASK_SUCCEEDED ? 3
                                                         : -2;
        assert_true(done >= 0);
        assert_int_equal(record.answer.status, done == 3 ? 200 : 0);
        assert_true(steps < 0 || steps == done);
        steps = done;
    }
    return steps;
}

/* I1, I8 */
static void what_was_told_is_there_after_a_kill(void **state)
{
    uint64_t rounds = harness_size("DARUMA_KILL_ROUNDS", 20), epoch = 0;
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    int number = 0;
    (void)state;

    for (uint64_t round = 0; round < rounds; round++) {
        int told = run_and_kill(number, daruma_dice_roll(&dice) % 40);
        struct store *store = rig_open();
        assert_true(store->epoch > epoch);
        epoch = store->epoch;
        int done = 0, steps;
        do {
            steps = steps_done(store, number++);
            done += steps;
        } while (steps == STEP_COUNT);
        assert_true(done == told || done == told + 1); /* one may be in between */
        assert_true(rig_record(store, number++) == 0);
        assert_int_equal(rig_record(store, number - 1), 0); /* all duplicates */
        store_close(store);
    }
}

/* I8 */
static void a_log_that_was_left_behind_is_read(void **state)
{
    struct stat status;
    int left;
    (void)state;

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct store *store = rig_open();
        _exit(rig_record(store, 1)); /* without closing it */
    }
    assert_int_equal(waitpid(child, &left, 0), child);
    assert_int_equal(left, 0);
    assert_int_equal(stat(RIG_PATH "-wal", &status), 0);
    assert_true(status.st_size > 0);
    struct store *store = rig_open();
    assert_true(rig_has(store, 1));
    store_close(store);
    assert_int_not_equal(stat(RIG_PATH "-wal", &status), 0); /* a proper end leaves one file */
}

/* --- a disk that fails ----------------------------------------------------------------------- */

#define FAULT_BATCHES 3

struct faulty_run {
    int faults[FAULT_BATCHES + 1]; /* of each batch, and of a touch */
    int has_fired;
};

/* In a process of its own, which ends without closing anything. */
static struct faulty_run run_faulty(enum shim_how how, int nth)
{
    struct faulty_run run = {0};
    int report[2], status;

    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        shim_install();
        struct store *store = rig_open();
        shim_arm(how, nth);
        for (int i = 0; i < FAULT_BATCHES; i++) {
            run.faults[i] = rig_record(store, i);
        }
        run.faults[FAULT_BATCHES] = store_touch(store, NULL);
        run.has_fired = shim_has_fired();
        _exit(write(report[1], &run, sizeof run) != sizeof run);
    }
    (void)close(report[1]);
    assert_int_equal(read(report[0], &run, sizeof run), sizeof run);
    (void)close(report[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return run;
}

static void check_run(const struct faulty_run *run)
{
    struct store *store = rig_open();
    bool has_later = run->faults[FAULT_BATCHES] == 0;

    for (int i = FAULT_BATCHES - 1; i >= 0; i--) {
        bool is_there = rig_has(store, i);
        if (run->faults[i] == 0) {
            assert_true(is_there);
        } else if (run->faults[i] != FAULT_UNKNOWN || has_later) {
            assert_false(is_there);
        }
        has_later = has_later || run->faults[i] == 0;
    }
    for (int i = 0; i < FAULT_BATCHES; i++) { /* keys too: what is not there can be recorded */
        assert_int_equal(rig_record(store, i), 0);
        assert_true(rig_has(store, i));
    }
    store_close(store);
    (void)unlink(RIG_PATH);
    (void)unlink(RIG_PATH "-wal");
    (void)unlink(RIG_PATH "-shm");
}

/* I7, I9 */
static void a_disk_that_fails_leaves_refusals_and_no_loss(void **state)
{
    static const int expected[SHIM_HOW_COUNT] = {[SHIM_WRITE_FULL] = FAULT_FULL,
                                                 [SHIM_WRITE_ERROR] = FAULT_UNKNOWN,
                                                 [SHIM_SYNC_ERROR] = FAULT_UNKNOWN};
    (void)state;

    for (int how = 0; how < SHIM_HOW_COUNT; how++) {
        struct faulty_run run;
        int nth = 0, seen = 0;
        do {
            run = run_faulty((enum shim_how)how, ++nth);
            for (int i = 0; i <= FAULT_BATCHES; i++) {
                assert_true(run.faults[i] == 0 || run.faults[i] == expected[how]);
                seen += run.faults[i] != 0;
            }
            check_run(&run);
        } while (run.has_fired);
        assert_true(seen >= FAULT_BATCHES);
    }
}

/* I9 */
/* I9 */
static void on_a_nearly_full_disk_lives_end_and_none_begins(void **state)
{
    struct store *store = rig_open();
    struct store_sqlite *sqlite = (struct store_sqlite *)store;

    (void)state;
    assert_int_equal(rig_record(store, 0), 0);
    sqlite->reserve_bytes = INT64_MAX; /* more than any disk has */
    sqlite->room_asked_ms = 0;
    assert_int_equal(rig_record(store, 1), FAULT_FULL);
    struct op cancel = {.kind = OP_CANCEL, .now_ms = RIG_NOW_MS, .task.id = rig_id(0, 0)};
    struct op *ops[] = {&cancel};
    assert_int_equal(store_apply(store, ops, 1, NULL), 0);
    assert_int_equal(cancel.result, RESULT_DONE);
    struct op lease = {.kind = OP_LEASE, .now_ms = RIG_NOW_MS, .task.id = rig_id(0, 1)};
    struct op spawn = {.kind = OP_RECORD, .task.id = rig_id(9, 0), .task.key = SPAN("callback")};
    struct op settle = {.kind = OP_SETTLE,
                        .task.id = rig_id(0, 1),
                        .life = {.state = TASK_SUCCEEDED, .fence = 1},
                        .spawn = &spawn};
    struct op *ends[] = {&lease, &settle};
    assert_int_equal(store_apply(store, ends, 2, NULL), 0);
    assert_int_equal(spawn.result, RESULT_DONE); /* part of an end, so it has room */
    sqlite->reserve_bytes = 0;
    sqlite->room_asked_ms = 0;
    assert_false(rig_has(store, 1));
    assert_int_equal(rig_record(store, 1), 0);
    store_close(store);
}

static void a_file_that_may_not_grow_refuses_and_goes_on_later(void **state)
{
    struct store *store = rig_open();
    struct rlimit limit, small;
    (void)state;

    assert_int_equal(rig_record(store, 0), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = 100000, .rlim_max = limit.rlim_max};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int number = 1;
    while (rig_record(store, number) == 0) {
        number++;
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_false(rig_has(store, number));
    assert_int_equal(rig_record(store, number), 0);
    for (int i = 0; i <= number; i++) {
        assert_true(rig_has(store, i));
    }
    store_close(store);
}

/* --- a disk that stays full ---------------------------------------------------------------------- */

/* I9: an answer waits for room, but not for ever: the end matters more. */
static void an_answer_that_finds_no_room_for_long_is_settled_as_omitted(void **state)
{
    static char long_body[1 << 20];
    const struct answer answer = {
        .status = 200, .headers = SPAN("a: b\n"), .body = {long_body, sizeof long_body}};
    struct store *store = rig_open();
    struct store_sqlite *sqlite = (struct store_sqlite *)store;
    struct error err = {0};
    bool found = false;

    (void)state;
    assert_int_equal(rig_record(store, 1), 0);
    struct op op = {
        .kind = OP_LEASE, .now_ms = RIG_NOW_MS, .task.id = rig_id(1, 0), .epoch = store->epoch};
    struct op *ops[] = {&op};
    assert_int_equal(store_apply(store, ops, 1, NULL), 0);
    op.kind = OP_SETTLE;
    op.is_patient = true;
    op.answer = &answer;
    op.life.state = TASK_SUCCEEDED;
    assert_int_equal(sqlite_exec(sqlite->writer, "PRAGMA max_page_count = 40", NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_apply(store, ops, 1, &err), FAULT_FULL);
        assert_int_equal(store_touch(store, NULL), 0);
        assert_int_equal(op.life.flags & LIFE_OMITTED, 0);
        assert_int_equal(rig_read(store, rig_id(1, 0), &found).life.state, TASK_RUNNING);
    }
    sqlite->omit_after_ms = 0;
    sqlite->rest_until_ms = 0;
    assert_int_equal(store_apply(store, ops, 1, &err), 0);
    assert_int_equal(op.result, RESULT_DONE);
    assert_int_not_equal(op.life.flags & LIFE_OMITTED, 0);
    assert_ptr_equal(op.answer, &answer);
    store_close(store);
    store = rig_open();
    struct record read = rig_read(store, rig_id(1, 0), &found);
    assert_int_equal(read.life.state, TASK_SUCCEEDED);
    assert_int_not_equal(read.life.flags & LIFE_OMITTED, 0);
    assert_int_equal(read.answer.status, 200);
    store_close(store);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_is_there_after_a_kill),
        cmocka_unit_test(a_log_that_was_left_behind_is_read),
        cmocka_unit_test(a_disk_that_fails_leaves_refusals_and_no_loss),
        cmocka_unit_test(on_a_nearly_full_disk_lives_end_and_none_begins),
        cmocka_unit_test(a_file_that_may_not_grow_refuses_and_goes_on_later),
        cmocka_unit_test(an_answer_that_finds_no_room_for_long_is_settled_as_omitted),
    };
    rig_init();
    return HARNESS_RUN(argc, argv, tests);
}
