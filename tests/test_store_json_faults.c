/* SPDX-License-Identifier: MIT
 *
 * Tests of the JSON store when things go wrong: caps, the lock, files of all sorts, writes that fail
 * before, at and after the rename, kill -9, and memory that runs out at every allocation.
 */
#include "store_json_fixture.h"

#include "store/store_json_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_ROUNDS 20

/* --- caps ---------------------------------------------------------------------------------------- */

static int apply_records(struct store *store, int count, struct span body)
{
    struct op *ops = calloc((size_t)count, sizeof *ops);
    struct op **pointers = calloc((size_t)count, sizeof(struct op *));

    assert_true(ops != NULL && pointers != NULL);
    for (int i = 0; i < count; i++) {
        ops[i] = record_of(1 + i, body);
        pointers[i] = &ops[i];
    }
    int failed = store_apply(store, pointers, (size_t)count, NULL);
    free(pointers);
    free(ops);
    return failed;
}

static void one_task_more_than_it_may_hold_is_refused(void **state) /* I9 */
{
    struct store *store = open_at(SPEC);
    struct op more = record_of(STORE_JSON_TASKS_MAX + 1, SPAN("x"));
    struct op lease = lease_of(1), purge = {.kind = OP_PURGE, .task.id = id_of(2)};

    (void)state;
    assert_int_equal(apply_records(store, STORE_JSON_TASKS_MAX, SPAN("x")), 0);
    assert_int_equal(store_room_bytes(store), 0);
    assert_int_equal(apply(store, &more), FAULT_FULL);
    assert_string_equal(more.error.text, "the store holds 10000 tasks, which is all it may");
    apply_done(store, &lease); /* what is in it goes on */
    struct op spawn = record_of(STORE_JSON_TASKS_MAX + 2, SPAN("x"));
    struct op settle = {.kind = OP_SETTLE,
                        .task.id = id_of(1),
                        .life = {.state = TASK_FAILED, .fence = lease.life.fence},
                        .spawn = &spawn};
    apply_done(store, &settle); /* and what is born with an end has room */
    store_close(store);
    store = open_at(SPEC);
    assert_int_equal(apply(store, &more), FAULT_FULL);
    apply_done(store, &purge);
    assert_int_equal(apply(store, &more), FAULT_FULL);
    purge.task.id = id_of(3);
    apply_done(store, &purge);
    apply_done(store, &more);
    store_close(store);
    store_close(open_at(SPEC));
}

/* --- the lock ------------------------------------------------------------------------------------ */

static void a_second_opener_is_refused(void **state)
{
    struct store *store = open_at(SPEC), *second = NULL;
    struct error err = {0};
    char expected[ERROR_TEXT_MAX];

    (void)state;
    (void)snprintf(expected, sizeof expected, "%s is in use by process %ld", PATH, (long)getpid());
    for (int round = 0; round < 2; round++) { /* also after the file was replaced */
        assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &second, &err), FAULT_IO);
        assert_string_equal(err.text, expected);
        assert_null(second);
        assert_int_equal(store_touch(store, NULL), 0);
    }
    store_close(store);
    store_close(open_at(SPEC));
}

static void the_lock_of_a_dead_process_is_nobodys(void **state) /* I8 */
{
    int status = -1;

    (void)state;
    pid_t child = fork();
    if (child == 0) {
        (void)open_at(SPEC);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    store_close(open_at(SPEC));
}

/* --- files of all sorts -------------------------------------------------------------------------- */

static void a_new_file_is_for_its_owner_and_an_old_one_keeps_its_mode(void **state) /* I10 */
{
    struct stat status;

    (void)state;
    store_close(open_at(SPEC));
    assert_int_equal(stat(PATH, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(chmod(PATH, 0640), 0);
    store_close(open_at(SPEC));
    assert_int_equal(stat(PATH, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
}

static void a_link_stays_a_link(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    put_file("elsewhere/real.json", span_of(fixture_article));
    assert_int_equal(symlink("elsewhere/real.json", PATH), 0);
    struct store *store = open_at(SPEC), *second = NULL;
    assert_int_equal(store_open(SPAN("json:elsewhere/real.json"), &fixture_keep, &second, NULL),
                     FAULT_IO);
    store_close(store);
    assert_int_equal(lstat(PATH, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(access("elsewhere/real.json.lock", F_OK), 0);
}

static void expect_in_use(const char *spec)
{
    struct store *store = NULL;
    struct error err = {0};

    assert_int_equal(store_open(span_of(spec), &fixture_keep, &store, &err), FAULT_IO);
    assert_non_null(strstr(err.text, " is in use by process "));
}

static void a_chain_of_links_leads_to_a_file_that_is_made_at_its_end(void **state)
{
    struct stat status;

    (void)state;
    assert_int_equal(mkdir("elsewhere", 0700), 0);
    assert_int_equal(symlink("elsewhere/second.json", PATH), 0);
    assert_int_equal(symlink("../third.json", "elsewhere/second.json"), 0);
    assert_int_equal(symlink("real.json", "third.json"), 0); /* which is not there */
    struct store *store = open_at(SPEC);
    expect_in_use("json:real.json");
    expect_in_use("json:elsewhere/second.json");
    store_close(store);
    assert_int_equal(lstat("real.json", &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(lstat("third.json", &status), 0);
    assert_true(S_ISLNK(status.st_mode));
}

static void links_that_lead_nowhere_are_refused(void **state)
{
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(symlink(PATH, "other.json"), 0);
    assert_int_equal(symlink("other.json", PATH), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_IO);
    assert_non_null(strstr(err.text, "more than 40 links"));
    assert_int_equal(unlink(PATH), 0);
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(symlink("folder", PATH), 0);
    assert_int_equal(store_open(SPAN(SPEC), &fixture_keep, &store, &err), FAULT_IO);
    assert_string_equal(err.text, "folder is not a file");
    assert_int_not_equal(access("folder.lock", F_OK), 0);
}

/* The first commit would part them: two servers, each with all of the tasks. */
static void a_file_with_two_names_is_read_and_not_opened(void **state)
{
    struct store *store = NULL;
    struct error err = {0};

    (void)state;
    put_file(PATH, span_of(fixture_article));
    assert_int_equal(link(PATH, "other.json"), 0);
    assert_int_equal(store_open(SPAN("json:other.json"), &fixture_keep, &store, &err), FAULT_IO);
    assert_non_null(strstr(err.text, "has 2 names"));
    assert_int_equal(store_open_to_read(SPAN("json:other.json"), &store, &err), 0);
    store_close(store);
    assert_int_equal(unlink("other.json"), 0);
    store_close(open_at(SPEC));
}

static void what_an_interrupted_write_left_is_ignored_and_replaced(void **state) /* I8 */
{
    (void)state;
    put_file(PATH, span_of(fixture_article));
    put_file(PATH ".new", SPAN("{\"format\": \"daruma ta"));
    struct store *store = open_at(SPEC);
    assert_int_not_equal(access(PATH ".new", F_OK), 0);
    assert_true(copy_has(1, TASK_WAITING));
    store_close(store);
}

/* --- failed writes ------------------------------------------------------------------------------- */

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
}

static void a_write_that_finds_no_room_is_refused_and_leaves_nothing(void **state) /* I7, I9 */
{
    struct store *store = open_at(SPEC);
    struct op first = record_of(1, SPAN("x")), again = first;
    char body[4096] = "";
    struct op second = record_of(2, (struct span){.at = body, .len = sizeof body});
    bool found;
    struct arena *arena = arena_new(CONTRACT_ARENA_MAX);
    struct record read;

    (void)state;
    first.task.key = again.task.key = second.task.key = SPAN("key");
    second.task.fingerprint[0] = 1;
    limit_files(1024);
    assert_int_equal(apply(store, &second), FAULT_FULL);
    assert_int_equal(second.result, RESULT_NONE);
    assert_non_null(strstr(second.error.text, PATH ".new: cannot be written: "));
    assert_int_not_equal(access(PATH ".new", F_OK), 0);
    assert_int_equal(store_read_task(store, id_of(2), 0, arena, &read, &found, NULL), 0);
    assert_false(found);
    apply_done(store, &first); /* the key is free: nothing of the refused one is left */
    assert_true(copy_has(1, TASK_WAITING));
    assert_false(copy_has(2, TASK_WAITING));
    again.task.id = id_of(3);
    assert_int_equal(apply(store, &again), 0);
    assert_int_equal(again.result, RESULT_DUPLICATE);
    assert_int_equal(again.task.id.row, id_of(1).row);
    store_close(store);
    arena_free(arena);
}

static void a_lost_folder_is_a_refusal_and_no_more(void **state) /* I9 */
{
    struct op op = record_of(1, SPAN("x"));

    (void)state;
    assert_int_equal(mkdir("here", 0700), 0);
    struct store *store = open_at("json:here/tasks.json");
    assert_int_equal(rename("here", "there"), 0);
    assert_int_equal(apply(store, &op), FAULT_IO);
    assert_int_equal(rename("there", "here"), 0);
    apply_done(store, &op);
    store_close(store);
}

/* A rename that fails may have happened all the same. A later commit makes sure that it has not. */
static void a_failed_rename_is_in_doubt_until_a_later_commit(void **state) /* I7 */
{
    struct store *store = open_at(SPEC);
    struct op op = record_of(1, SPAN("x"));

    (void)state;
    assert_int_equal(unlink(PATH), 0);
    assert_int_equal(mkdir(PATH, 0700), 0); /* which no rename can replace by a file */
    assert_int_equal(apply(store, &op), FAULT_UNKNOWN);
    assert_int_equal(op.result, RESULT_NONE);
    assert_int_equal(store_touch(store, NULL), FAULT_UNKNOWN);
    assert_int_equal(rmdir(PATH), 0);
    assert_int_equal(store_touch(store, NULL), 0);
    assert_false(copy_has(1, TASK_WAITING));
    apply_done(store, &op);
    assert_true(copy_has(1, TASK_WAITING));
    store_close(store);
}

/* In the place of libc's: fails for what it was told to fail for. */
static bool fails_files, fails_folders;

int fsync(int file)
{
    struct stat status;

    if (fstat(file, &status) != 0) {
        return -1;
    }
    if (S_ISDIR(status.st_mode) ? fails_folders : fails_files) {
        errno = EIO;
        return -1;
    }
    return fdatasync(file);
}

/* Told apart by the fault: the record may be there, the touch after it has certainly not been written;
 * neither takes the doubt away. */
static void
a_failed_sync_of_the_folder_is_in_doubt_also_when_the_next_write_is_refused(void **state)
{
    struct store *store = open_at(SPEC);
    struct op op = record_of(1, SPAN("x")), other = record_of(2, SPAN("y"));
    struct error err = {0};

    (void)state;
    fails_folders = true;
    assert_int_equal(apply(store, &op), FAULT_UNKNOWN);
    assert_int_equal(op.error.fault, FAULT_UNKNOWN);
    assert_int_equal(op.result, RESULT_NONE);
    fails_files = true;
    assert_int_equal(store_touch(store, &err), FAULT_IO);
    assert_int_equal(err.fault, FAULT_IO);
    assert_int_equal(apply(store, &other), FAULT_IO);
    assert_int_not_equal(store_touch(store, NULL), 0);
    fails_files = fails_folders = false;    /* for the copy */
    assert_true(copy_has(1, TASK_WAITING)); /* as a start would find it */
    fails_folders = true;
    assert_int_equal(store_touch(store, NULL), FAULT_UNKNOWN);
    fails_folders = false;
    assert_int_equal(store_touch(store, NULL), 0);
    assert_false(copy_has(1, TASK_WAITING)); /* from here on it may be called refused */
    assert_false(copy_has(2, TASK_WAITING));
    apply_done(store, &op);
    store_close(store);
}

static void a_record_that_takes_over_a_key_keeps_its_own_id(void **state) /* I3 */
{
    struct store *store = open_at(SPEC);
    struct op old = record_of(1, SPAN("x")), new = record_of(2, SPAN("y"));

    (void)state;
    old.task.key = new.task.key = SPAN("key");
    old.life.state = TASK_SUCCEEDED;
    old.life.settled_at_ms = NOW_MS - fixture_keep.succeeded_ms;
    apply_done(store, &old);
    apply_done(store, &new);
    assert_int_equal(new.task.id.row, id_of(2).row);
    assert_int_equal(new.life.state, TASK_WAITING);
    store_close(store);
}

/* --- kill -9 ------------------------------------------------------------------------------------- */

/* The child records for as long as it lives and tells of each one that is acknowledged. */
static void record_for_ever(int pipe_end, int first)
{
    struct store *store = open_at(SPEC);

    for (int number = first;; number++) {
        struct op op = record_of(number, SPAN("x"));
        apply_done(store, &op);
        assert_int_equal(write(pipe_end, &number, sizeof number), sizeof number);
    }
}

/* Lets a child live for so many acknowledgements and kills it; the last number that it told of. */
static int kill_after(unsigned acknowledged, int first)
{
    int ends[2], last = first - 1, number, status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        record_for_ever(ends[1], first);
    }
    assert_true(child > 0);
    (void)close(ends[1]);
    while (read(ends[0], &number, sizeof number) == sizeof number) {
        last = number;
        if (acknowledged > 0 && --acknowledged == 0) {
            (void)kill(child, SIGKILL); /* whatever it is doing now; what it still told counts */
        }
    }
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return last;
}

/* Every number once, in order. */
static int expect_next(void *user, const struct brief *brief)
{
    int *last = user;

    assert_int_equal(brief->row, id_of(++*last).row);
    return 0;
}

static void what_was_acknowledged_outlives_kill_9(void **state) /* I1, I8 */
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    uint64_t rounds = harness_size("DARUMA_KILL_ROUNDS", KILL_ROUNDS);
    int last = 0;

    (void)state;
    for (uint64_t round = 0; round < rounds; round++) {
        int found = 0;
        last = kill_after(1 + (unsigned)(daruma_dice_roll(&dice) % 20), last + 1);
        struct store *store = open_at(SPEC);
        assert_int_equal(store_scan(store, expect_next, &found, NULL), 0);
        assert_in_range(found, last, last + 1); /* at most the one that was under way */
        last = found;
        store_close(store);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_task_more_than_it_may_hold_is_refused),
        cmocka_unit_test(a_second_opener_is_refused),
        cmocka_unit_test(the_lock_of_a_dead_process_is_nobodys),
        cmocka_unit_test(a_new_file_is_for_its_owner_and_an_old_one_keeps_its_mode),
        cmocka_unit_test(a_link_stays_a_link),
        cmocka_unit_test(a_chain_of_links_leads_to_a_file_that_is_made_at_its_end),
        cmocka_unit_test(links_that_lead_nowhere_are_refused),
        cmocka_unit_test(a_file_with_two_names_is_read_and_not_opened),
        cmocka_unit_test(what_an_interrupted_write_left_is_ignored_and_replaced),
        cmocka_unit_test(a_write_that_finds_no_room_is_refused_and_leaves_nothing),
        cmocka_unit_test(a_lost_folder_is_a_refusal_and_no_more),
        cmocka_unit_test(a_failed_rename_is_in_doubt_until_a_later_commit),
        cmocka_unit_test(
            a_failed_sync_of_the_folder_is_in_doubt_also_when_the_next_write_is_refused),
        cmocka_unit_test(a_record_that_takes_over_a_key_keeps_its_own_id),
        cmocka_unit_test(what_was_acknowledged_outlives_kill_9),
    };
    return HARNESS_RUN(argc, argv, tests);
}
