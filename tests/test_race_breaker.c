/* SPDX-License-Identifier: MIT
 *
 * The breaker when another thread comes between a load and its exchange: nothing is counted twice,
 * nothing is lost, nobody else's change is undone.
 */
#include "harness.h"
#include "race.h"

#include "../lib/breaker.c"

#define START_MS INT64_C(1000000)

static struct daruma_breaker shared;
static struct daruma_ticket others;
static bool other_went;

static void breaker_fresh(int64_t failures_max)
{
    struct daruma_breaker_options options = {.failures_max = failures_max};

    assert_int_equal(daruma_breaker_init(&shared, &options, NULL), 0);
}

static struct daruma_ticket enter_closed(void)
{
    struct daruma_ticket ticket;

    assert_true(daruma_breaker_enter(&shared, START_MS, &ticket, NULL));
    assert_false(ticket.probe);
    return ticket;
}

/* Open, and its time is over at twice the default. */
static void breaker_opened(void)
{
    breaker_fresh(1);
    daruma_breaker_failed(&shared, enter_closed(), START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_IS_OPEN);
}

static void other_enters(void)
{
    other_went =
        daruma_breaker_enter(&shared, START_MS + 2 * DARUMA_BREAKER_OPEN_MS, &others, NULL);
}

static void other_fails(void)
{
    daruma_breaker_failed(&shared, others, START_MS, NULL);
}

static void other_succeeds(void)
{
    daruma_breaker_succeeded(&shared, others);
}

static void of_two_who_come_at_once_one_is_the_probe(void **state)
{
    struct daruma_ticket ticket;
    uint64_t wait_ms = 0;

    (void)state;
    breaker_opened();
    race_between = other_enters;
    assert_false(
        daruma_breaker_enter(&shared, START_MS + 2 * DARUMA_BREAKER_OPEN_MS, &ticket, &wait_ms));
    assert_true(other_went && others.probe);
    assert_int_equal(wait_ms, DARUMA_BREAKER_OPEN_MS);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_HALF_OPEN);
}

static void two_failures_at_once_are_two(void **state)
{
    (void)state;
    breaker_fresh(3);
    others = enter_closed();
    race_between = other_fails;
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_CLOSED);
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_IS_OPEN);
}

static void a_failure_counts_from_a_success_that_came_first(void **state)
{
    (void)state;
    breaker_fresh(2);
    others = enter_closed();
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    race_between = other_succeeds;
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_CLOSED);
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_IS_OPEN);
}

static void a_late_success_does_not_close_what_has_just_opened(void **state)
{
    (void)state;
    breaker_fresh(2);
    others = enter_closed();
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    race_between = other_fails;
    daruma_breaker_succeeded(&shared, others);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_IS_OPEN);
}

static void a_failure_does_not_open_twice(void **state)
{
    struct daruma_ticket ticket;
    uint64_t wait_ms = 0;

    (void)state;
    breaker_fresh(1);
    others = enter_closed();
    race_between = other_fails;
    daruma_breaker_failed(&shared, others, START_MS, NULL);
    assert_false(daruma_breaker_enter(&shared, START_MS, &ticket, &wait_ms));
    assert_true(wait_ms <=
                DARUMA_BREAKER_OPEN_MS * 12 / 10); /* the first opening, not the second */
}

static void a_probe_that_has_failed_cannot_succeed_as_well(void **state)
{
    (void)state;
    breaker_opened();
    other_enters();
    assert_true(others.probe);
    race_between = other_fails;
    daruma_breaker_succeeded(&shared, others);
    assert_int_equal(daruma_breaker_state(&shared), DARUMA_BREAKER_IS_OPEN);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_who_come_at_once_one_is_the_probe),
        cmocka_unit_test(two_failures_at_once_are_two),
        cmocka_unit_test(a_failure_counts_from_a_success_that_came_first),
        cmocka_unit_test(a_late_success_does_not_close_what_has_just_opened),
        cmocka_unit_test(a_failure_does_not_open_twice),
        cmocka_unit_test(a_probe_that_has_failed_cannot_succeed_as_well),
    };
    return HARNESS_RUN(argc, argv, tests);
}
