/* SPDX-License-Identifier: MIT
 *
 * The real clock and the real sleep, without sleeping: lib/env.c is included with the system calls
 * that wait replaced by ones that move a clock of the test's. A sleep is never shorter than it was
 * asked for, whatever interrupts it, and not much longer.
 */
#define clock_gettime    fake_gettime
#define clock_nanosleep  fake_nanosleep
#define poll             fake_poll
#define daruma_cancel_fd fake_cancel_fd

#include "../lib/env.c"

#include "harness.h"

#include <unistd.h>

#define NS_PER_S   INT64_C(1000000000)
#define YEAR_MS    UINT64_C(31557600000)
#define WAKES_MANY 3 /* signals during one sleep */

static int64_t now_ns;
static int wakes_left;
static int poll_count, nanosleep_count;

int fake_gettime(clockid_t clock, struct timespec *ret_now)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    *ret_now = (struct timespec){.tv_sec = now_ns / NS_PER_S, .tv_nsec = now_ns % NS_PER_S};
    return 0;
}

int fake_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    int64_t until_ns = until->tv_sec * NS_PER_S + until->tv_nsec;

    (void)left;
    assert_int_equal(clock, CLOCK_MONOTONIC);
    assert_int_equal(flags, TIMER_ABSTIME);
    assert_in_range(until->tv_nsec, 0, NS_PER_S - 1);
    nanosleep_count++;
    if (wakes_left > 0) {
        wakes_left--;
        now_ns += (until_ns - now_ns) / 2;
        return EINTR;
    }
    now_ns = until_ns;
    return 0;
}

int fake_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    assert_int_equal(count, 1);
    assert_int_equal(fds->events, POLLIN);
    assert_true(timeout_ms > 0);
    poll_count++;
    if (wakes_left > 0) {
        wakes_left--;
        now_ns += (int64_t)timeout_ms * NS_PER_MS / 2;
        errno = EINTR;
        return -1;
    }
    now_ns += (int64_t)timeout_ms * NS_PER_MS;
    return 0;
}

int fake_cancel_fd(const struct daruma_cancel *cancel)
{
    assert_non_null(cancel);
    return 3;
}

static const uint64_t delays_ms[] = {0,    1,    2,     999,   1000,    1001,
                                     1999, 2000, 59999, 60000, YEAR_MS, 100 * YEAR_MS};
static const int64_t starts_ns[] = {0, 1, 999999, 1000000, 999999999, NS_PER_S, 12345678901234};

/* Every delay from every moment, with signals and without. Returns how late the latest was. */
static int64_t sleep_everywhere(const struct daruma_cancel *cancel)
{
    int64_t latest_ns = 0;

    for (size_t i = 0; i < sizeof delays_ms / sizeof *delays_ms; i++) {
        for (size_t j = 0; j < sizeof starts_ns / sizeof *starts_ns; j++) {
            now_ns = starts_ns[j];
            wakes_left = j % 2 == 0 ? WAKES_MANY : 0;
            assert_int_equal(daruma_env_sleep_ms(NULL, delays_ms[i], cancel), 0);
            int64_t late_ns = now_ns - starts_ns[j] - (int64_t)delays_ms[i] * NS_PER_MS;
            assert_true(late_ns >= 0);
            latest_ns = late_ns > latest_ns ? late_ns : latest_ns;
        }
    }
    return latest_ns;
}

static void a_plain_sleep_is_exactly_as_long_as_asked(void **state)
{
    (void)state;
    assert_int_equal(sleep_everywhere(NULL), 0);
    assert_true(nanosleep_count > 0);
    assert_int_equal(poll_count, 0);
}

static void a_sleep_that_can_be_cancelled_is_at_most_two_milliseconds_longer(void **state)
{
    const struct daruma_cancel cancel = {.fds = {3, 4}, .owner = (int)getpid()};

    (void)state;
    assert_in_range(sleep_everywhere(&cancel), 0, 2 * NS_PER_MS);
    assert_true(poll_count > 0);
    assert_int_equal(nanosleep_count, 0);
}

static void a_cancel_that_is_set_ends_a_sleep_before_it_begins(void **state)
{
    const struct daruma_cancel cancel = {.fds = {3, 4}, .flag = 1};

    (void)state;
    assert_int_equal(daruma_env_sleep_ms(NULL, 1000, &cancel), DARUMA_CANCELLED);
    assert_int_equal(poll_count, 0);
}

static void the_clock_is_in_whole_milliseconds_rounded_down(void **state)
{
    (void)state;
    now_ns = 0;
    assert_int_equal(daruma_now_ms(), 0);
    now_ns = 999999;
    assert_int_equal(daruma_now_ms(), 0);
    now_ns = 12345678901234;
    assert_int_equal(daruma_now_ms(), 12345678);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_sleep_is_exactly_as_long_as_asked),
        cmocka_unit_test(a_sleep_that_can_be_cancelled_is_at_most_two_milliseconds_longer),
        cmocka_unit_test(a_cancel_that_is_set_ends_a_sleep_before_it_begins),
        cmocka_unit_test(the_clock_is_in_whole_milliseconds_rounded_down),
    };
    return HARNESS_RUN(argc, argv, tests);
}
