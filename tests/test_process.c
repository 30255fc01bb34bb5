/* SPDX-License-Identifier: MIT
 *
 * test_process -- who is gone for certain: never somebody who may still be there.
 */
#include "harness.h"
#include "base/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void who_runs_is_not_gone(void **state)
{
    char name[PROCESS_NAME_MAX + 1];
    (void)state;

    assert_null(process_name(name));
    assert_true(strlen(name) > 0);
    assert_false(process_is_gone(name));
}

/* E7: stopped is not gone, and neither is a child whose end nobody has taken note of. */
static void who_was_killed_is_gone_and_who_hangs_is_not(void **state)
{
    char name[PROCESS_NAME_MAX + 1];
    int ends[2];
    (void)state;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        assert_null(process_name(name));
        (void)!write(ends[1], name, sizeof name);
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(ends[0], name, sizeof name), sizeof name);
    assert_false(process_is_gone(name));
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_false(process_is_gone(name));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(process_is_gone(name));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_number_given_out_again_does_not_stand_for_the_one_before(void **state)
{
    char name[PROCESS_NAME_MAX + 1];
    (void)state;

    assert_null(process_name(name));
    name[strlen(name) - 1] = name[strlen(name) - 1] == '1' ? '2' : '1'; /* another start */
    assert_true(process_is_gone(name));
}

static void of_another_place_and_of_what_is_no_name_nobody_knows(void **state)
{
    char name[PROCESS_NAME_MAX + 1], other[2 * PROCESS_NAME_MAX + 2];
    (void)state;

    assert_null(process_name(name));
    (void)snprintf(other, sizeof other, "x%s", name); /* another host */
    assert_false(process_is_gone(other));
    assert_false(process_is_gone(""));
    for (size_t cut = 0; cut < strlen(name); cut++) {
        (void)snprintf(other, sizeof other, "%.*s", (int)cut, name);
        if (strrchr(name, ' ') > name + cut) {
            assert_false(process_is_gone(other)); /* no start: no name */
        }
    }
    *strrchr(name, ' ') = '\0';
    *strrchr(name, ' ') = '\0';
    for (size_t i = 0; i < 4; i++) {
        static const char *const ends[] = {"0 1", "-1 1", "99999999999999999999 1", "x 1"};
        (void)snprintf(other, sizeof other, "%s %s", name, ends[i]);
        assert_false(process_is_gone(other));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_runs_is_not_gone),
        cmocka_unit_test(who_was_killed_is_gone_and_who_hangs_is_not),
        cmocka_unit_test(a_number_given_out_again_does_not_stand_for_the_one_before),
        cmocka_unit_test(of_another_place_and_of_what_is_no_name_nobody_knows),
    };
    return HARNESS_RUN(argc, argv, tests);
}
