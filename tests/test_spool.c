/* SPDX-License-Identifier: MIT
 *
 * The folder in which requests wait (A9.1, A9.2): order, limits, locks, and what is not ours.
 */
#include "harness.h"

#include "cli/spool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOW_MS INT64_C(1794738030123) /* 2026-11-15T10:20:30.123Z */

static struct spooled usual(const char *body)
{
    return (struct spooled){.url = SPAN("http://127.0.0.1:9/"),
                            .method = SPAN("POST"),
                            .key = SPAN("k"),
                            .body = span_of(body),
                            .created_at_ms = NOW_MS,
                            .timeout_ms = 1000};
}

static struct spool *open_spool(const char *folder)
{
    struct spool *spool = NULL;
    struct error err = {0};

    assert_int_equal(spool_open(folder, &spool, &err), 0);
    return spool;
}

static struct spool_name add(struct spool *spool, const char *body, int64_t now_ms)
{
    struct spooled request = usual(body);
    struct spool_name name = {""};
    struct error err = {0};

    if (spool_add(spool, &request, now_ms, &name, &err) != 0) {
        fail_msg("%s", err.text);
    }
    return name;
}

static struct spool_list list_of(const struct spool *spool)
{
    struct spool_list list = {0};
    struct error err = {0};

    assert_int_equal(spool_list_read(spool, &list, &err), 0);
    return list;
}

static int read_body(const struct spool *spool, const char *name, char ret_body[64])
{
    struct spool_found found;
    struct error err = {0};

    spool_found_init(&found);
    int failed = spool_read(spool, name, &found, &err);
    bool is_read = failed == 0 && found.is_there;
    (void)snprintf(ret_body, 64, "%.*s", is_read ? (int)found.request.body.len : 0,
                   is_read ? found.request.body.at : "");
    spool_found_done(&found);
    return failed;
}

static bool is_claimed(const struct spool *spool, const struct spool_name *name)
{
    struct spool_found found;
    struct error err = {0};

    spool_found_init(&found);
    assert_int_equal(spool_read(spool, name->text, &found, &err), 0);
    bool is_it = found.is_claimed;
    spool_found_done(&found);
    return is_it;
}

static void names_show_the_order(void **state) /* A9.2 */
{
    struct spool *spool = open_spool("a/b/spool");
    struct spool_name first = add(spool, "1", NOW_MS), second = add(spool, "2", NOW_MS);
    struct spool_name third = add(spool, "3", NOW_MS + 1);

    (void)state;
    assert_string_equal(first.text, "20261115T102030.123Z-000000.request");
    assert_string_equal(second.text, "20261115T102030.123Z-000001.request");
    assert_string_equal(third.text, "20261115T102030.124Z-000000.request");
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, 3);
    assert_string_equal(list.names[0].text, first.text);
    assert_string_equal(list.names[2].text, third.text);
    spool_list_done(&list);
    spool_close(spool);
}

static void a_clock_that_is_set_back_does_not_change_the_order(void **state)
{
    struct spool *spool = open_spool("spool");
    char body[64], expected[24];

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(body, sizeof body, "%d", i);
        (void)add(spool, body, NOW_MS - (int64_t)i * 3600000);
    }
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, 20);
    for (size_t i = 0; i < list.count; i++) {
        (void)snprintf(expected, sizeof expected, "%zu", i);
        assert_int_equal(read_body(spool, list.names[i].text, body), 0);
        assert_string_equal(body, expected);
    }
    spool_list_done(&list);
    spool_close(spool);
}

static void touch(const char *path, off_t len)
{
    int file = open(path, O_WRONLY | O_CREAT, 0600);

    assert_true(file >= 0 && ftruncate(file, len) == 0);
    (void)close(file);
}

static void numbers_that_are_used_up_go_on_with_the_next_moment(void **state)
{
    struct spool *spool = open_spool("spool");
    struct spool_name name;
    struct spooled request = usual("x");
    struct error err = {0};

    (void)state;
    (void)add(spool, "0", NOW_MS);
    touch("spool/20261115T102030.123Z-999999.request", 1);
    name = add(spool, "1", NOW_MS);
    assert_string_equal(name.text, "20261115T102030.124Z-000000.request");
    touch("spool/20281231T235959.999Z-999999.request", 1);
    name = add(spool, "2", NOW_MS);
    assert_string_equal(name.text, "20290101T000000.000Z-000000.request");
    touch("spool/99991231T235959.999Z-999999.request", 1);
    assert_int_equal(spool_add(spool, &request, NOW_MS, &name, &err), FAULT_FULL);
    spool_close(spool);
}

static unsigned mode_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    return (unsigned)status.st_mode & 0777u;
}

static void nobody_else_may_look(void **state) /* I10 */
{
    struct spool *spool = open_spool("a/spool/");
    char path[128];

    (void)state;
    (void)umask(0);
    struct spool_name name = add(spool, "secret", NOW_MS);
    (void)snprintf(path, sizeof path, "a/spool/%s", name.text);
    assert_int_equal(mode_of("a"), 0700);
    assert_int_equal(mode_of("a/spool"), 0700);
    assert_int_equal(mode_of(path), 0600);
    spool_close(spool);
}

static void a_folder_that_is_not_there_is_empty_and_stays_away(void **state)
{
    struct spool *spool = open_spool("nowhere");
    struct spool_list list = list_of(spool);

    (void)state;
    assert_int_equal(list.count, 0);
    assert_int_equal(access("nowhere", F_OK), -1);
    spool_list_done(&list);
    spool_close(spool);
}

static void what_is_not_ours_is_told_and_left_alone(void **state)
{
    static const char *const strangers[] = {
        "spool/README", "spool/20261115T102030.123Z-000000.request~",
        "spool/20261315T102030.123Z-000000.request", "spool/20261115T102030,123Z-000000.request"};
    struct spool *spool = open_spool("spool");
    char body[64];

    (void)state;
    (void)add(spool, "ours", NOW_MS);
    for (size_t i = 0; i < 4; i++) {
        touch(strangers[i], 1);
    }
    for (int i = 0; i < 40; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "spool/more-%d", i);
        touch(path, 0);
    }
    touch("spool/20261115T102031.000Z-000000.request", 0); /* torn */
    assert_int_equal(mkdir("spool/20261115T102032.000Z-000000.request", 0700), 0);
    assert_int_equal(mkfifo("spool/20261115T102033.000Z-000000.request", 0600), 0);
    assert_int_equal(symlink("README", "spool/20261115T102034.000Z-000000.request"), 0);
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, 5);
    assert_int_equal(list.stranger_count, 44);
    for (size_t i = 1; i < list.count; i++) {
        assert_int_equal(read_body(spool, list.names[i].text, body), FAULT_CORRUPT);
    }
    assert_int_equal(read_body(spool, list.names[0].text, body), 0);
    assert_string_equal(body, "ours");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(access(strangers[i], F_OK), 0);
    }
    spool_list_done(&list);
    spool_close(spool);
}

static void no_more_requests_than_the_limit_are_kept(void **state)
{
    struct spool *spool = open_spool("spool");
    struct spooled request = usual("one too many");
    struct spool_name name = {""};
    struct error err = {0};
    char path[64];

    (void)state;
    assert_int_equal(mkdir("spool", 0700), 0);
    for (int i = 0; i < SPOOL_COUNT_MAX - 1; i++) {
        (void)snprintf(path, sizeof path, "spool/20261115T102030.123Z-%06d.request", i);
        touch(path, 0);
    }
    (void)add(spool, "the last one", NOW_MS);
    assert_int_equal(spool_add(spool, &request, NOW_MS, &name, &err), FAULT_FULL);
    assert_non_null(strstr(err.text, "10000"));
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, SPOOL_COUNT_MAX);
    spool_list_done(&list);
    spool_close(spool);
}

static void no_more_bytes_than_the_limit_are_kept(void **state)
{
    struct spool *spool = open_spool("spool");
    struct spooled request = usual("12345678901");
    struct spool_name name = {""};
    struct error err = {0};

    (void)state;
    (void)add(spool, "", NOW_MS);
    touch("spool/20261115T102031.000Z-000000.request", (off_t)SPOOL_BYTES_MAX - 10);
    assert_int_equal(spool_add(spool, &request, NOW_MS, &name, &err), FAULT_FULL);
    assert_string_equal(name.text, "");
    spool_close(spool);
}

static void what_a_crash_left_aside_is_of_no_meaning(void **state)
{
    struct spool *spool = open_spool("spool");
    char body[64];

    (void)state;
    assert_int_equal(mkdir("spool", 0700), 0);
    touch("spool/.added", 100);
    touch("spool/.changed", 100);
    struct spool_name name = add(spool, "1", NOW_MS);
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.stranger_count, 0);
    assert_int_equal(read_body(spool, name.text, body), 0);
    assert_string_equal(body, "1");
    spool_list_done(&list);
    spool_close(spool);
}

static void a_change_replaces_and_a_removal_removes(void **state)
{
    struct spool *spool = open_spool("spool");
    struct spool_name name = add(spool, "before", NOW_MS);
    struct spooled request = usual("after");
    struct error err = {0};
    char body[64];

    (void)state;
    assert_int_equal(spool_change(spool, name.text, &request, &err), 0);
    assert_int_equal(read_body(spool, name.text, body), 0);
    assert_string_equal(body, "after");
    assert_int_equal(spool_remove(spool, name.text, &err), 0);
    assert_int_equal(spool_remove(spool, name.text, &err), 0); /* gone is gone */
    assert_int_equal(read_body(spool, name.text, body), 0);
    assert_string_equal(body, "");
    spool_close(spool);
}

static bool hold(struct spool *spool, int64_t *ret_holder)
{
    struct error err = {0};
    bool is_ours = false;

    assert_int_equal(spool_hold(spool, &is_ours, ret_holder, &err), 0);
    return is_ours;
}

/* The locks are in the folder: whatever it is called, they are the same. */
static void a_spool_behind_a_link_is_the_same_spool(void **state)
{
    struct spool *mine, *other;
    int64_t holder = 0;

    (void)state;
    assert_int_equal(mkdir("spool", 0700), 0);
    assert_int_equal(symlink("spool", "link"), 0);
    mine = open_spool("spool");
    other = open_spool("link");
    struct spool_name first = add(mine, "one", NOW_MS), second = add(other, "two", NOW_MS);
    assert_true(strcmp(first.text, second.text) < 0);
    assert_true(hold(mine, &holder));
    assert_false(hold(other, &holder));
    assert_int_equal(holder, getpid());
    spool_close(mine);
    spool_close(other);
}

static void only_one_may_hold_it_and_adding_needs_no_hold(void **state)
{
    struct spool *mine = open_spool("spool"), *other = open_spool("spool");
    int64_t holder = 0;

    (void)state;
    assert_true(hold(mine, &holder));
    assert_true(hold(mine, &holder));
    assert_false(hold(other, &holder));
    assert_int_equal(holder, getpid());
    (void)add(other, "meanwhile", NOW_MS);
    spool_let_go(mine);
    assert_true(hold(other, &holder));
    spool_close(mine);
    spool_close(other);
}

static void what_is_added_is_claimed_until_its_process_lets_go(void **state)
{
    struct spool *mine = open_spool("spool"), *other = open_spool("spool");
    struct spool_name first = add(mine, "1", NOW_MS);
    struct spooled request = usual("changed");
    struct error err = {0};

    (void)state;
    assert_true(is_claimed(other, &first));
    assert_true(is_claimed(other, &first)); /* asking changes nothing */
    struct spool_name second = add(mine, "2", NOW_MS);
    assert_false(is_claimed(other, &first));
    assert_true(is_claimed(other, &second));
    assert_int_equal(spool_change(mine, second.text, &request, &err), 0);
    assert_false(is_claimed(other, &second));
    struct spool_name third = add(mine, "3", NOW_MS);
    spool_close(mine);
    assert_false(is_claimed(other, &third));
    spool_close(other);
}

static void processes_that_add_at_once_get_names_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        if (fork() == 0) {
            struct spool *spool = open_spool("spool");
            for (int j = 0; j < 25; j++) {
                (void)add(spool, "x", NOW_MS);
            }
            spool_close(spool);
            _exit(0);
        }
    }
    for (int i = 0; i < 8; i++) {
        int status = 1;
        assert_true(wait(&status) > 0 && status == 0);
    }
    struct spool *spool = open_spool("spool");
    struct spool_list list = list_of(spool);
    assert_int_equal(list.count, 200);
    assert_string_equal(list.names[199].text, "20261115T102030.123Z-000199.request");
    spool_list_done(&list);
    spool_close(spool);
}

static void the_usual_folder_is_that_of_the_user(void **state)
{
    char path[SPOOL_PATH_MAX];
    struct error err = {0};

    (void)state;
    assert_int_equal(setenv("HOME", "/home/me", 1), 0);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(spool_usual_folder(path, &err), 0);
    assert_string_equal(path, "/home/me/.local/state/daruma/spool");
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
    assert_int_equal(spool_usual_folder(path, &err), 0);
    assert_string_equal(path, "/home/me/.local/state/daruma/spool");
    assert_int_equal(setenv("XDG_STATE_HOME", "/state", 1), 0);
    assert_int_equal(spool_usual_folder(path, &err), 0);
    assert_string_equal(path, "/state/daruma/spool");
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(spool_usual_folder(path, &err), FAULT_INPUT);
    assert_string_equal(err.field, "--spool");
}

static void a_folder_that_cannot_be_one_is_an_error(void **state)
{
    struct spooled request = usual("x");
    struct spool_name name = {""};
    struct error err = {0};

    (void)state;
    touch("file", 0);
    struct spool *spool = open_spool("file/spool");
    assert_int_equal(spool_add(spool, &request, NOW_MS, &name, &err), FAULT_IO);
    spool_close(spool);
    spool = open_spool("file");
    struct spool_list list = {0};
    assert_int_equal(spool_list_read(spool, &list, &err), FAULT_IO);
    spool_close(spool);
    assert_true(spool_open("", &spool, &err) != 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_show_the_order),
        cmocka_unit_test(a_clock_that_is_set_back_does_not_change_the_order),
        cmocka_unit_test(numbers_that_are_used_up_go_on_with_the_next_moment),
        cmocka_unit_test(nobody_else_may_look),
        cmocka_unit_test(a_folder_that_is_not_there_is_empty_and_stays_away),
        cmocka_unit_test(what_is_not_ours_is_told_and_left_alone),
        cmocka_unit_test(no_more_requests_than_the_limit_are_kept),
        cmocka_unit_test(no_more_bytes_than_the_limit_are_kept),
        cmocka_unit_test(what_a_crash_left_aside_is_of_no_meaning),
        cmocka_unit_test(a_change_replaces_and_a_removal_removes),
        cmocka_unit_test(a_spool_behind_a_link_is_the_same_spool),
        cmocka_unit_test(only_one_may_hold_it_and_adding_needs_no_hold),
        cmocka_unit_test(what_is_added_is_claimed_until_its_process_lets_go),
        cmocka_unit_test(processes_that_add_at_once_get_names_of_their_own),
        cmocka_unit_test(the_usual_folder_is_that_of_the_user),
        cmocka_unit_test(a_folder_that_cannot_be_one_is_an_error),
    };

    return HARNESS_RUN(argc, argv, tests);
}
