/* SPDX-License-Identifier: MIT
 *
 * The budget and the gate when another thread comes between a load and its exchange: each success
 * is earned, each retry is taken once, no hint is shortened.
 */
#include "harness.h"
#include "race.h"

#include "../lib/budget.c"
#include "../lib/gate.c"

#define START_MS INT64_C(1000000)

static struct daruma_budget shared;
static struct daruma_gate gate;
static bool other_went;

/* Each success earns a whole retry; `floor` of them a second are free. */
static void budget_fresh(int64_t floor)
{
    struct daruma_budget_options options = {.ratio = 1, .floor_per_second = floor};

    assert_int_equal(daruma_budget_init(&shared, &options, NULL), 0);
}

static void other_earns(void)
{
    daruma_budget_earn(&shared, START_MS);
}

static void other_spends(void)
{
    other_went = daruma_budget_spend(&shared, START_MS);
}

static void other_holds_longer(void)
{
    daruma_gate_hold(&gate, START_MS, 500);
}

static void other_holds_shorter(void)
{
    daruma_gate_hold(&gate, START_MS, 100);
}

static void two_successes_at_once_earn_two_retries(void **state)
{
    (void)state;
    budget_fresh(DARUMA_BUDGET_NO_FLOOR);
    race_between = other_earns;
    daruma_budget_earn(&shared, START_MS);
    assert_true(daruma_budget_spend(&shared, START_MS));
    assert_true(daruma_budget_spend(&shared, START_MS));
    assert_false(daruma_budget_spend(&shared, START_MS));
}

static void one_earned_retry_is_not_taken_twice(void **state)
{
    (void)state;
    budget_fresh(DARUMA_BUDGET_NO_FLOOR);
    daruma_budget_earn(&shared, START_MS);
    race_between = other_spends;
    assert_false(daruma_budget_spend(&shared, START_MS));
    assert_true(other_went);
}

static void one_retry_of_the_floor_is_not_taken_twice(void **state)
{
    (void)state;
    budget_fresh(1);
    race_between = other_spends;
    assert_false(daruma_budget_spend(&shared, START_MS));
    assert_true(other_went);
    assert_false(daruma_budget_spend(&shared, START_MS + 999));
    assert_true(daruma_budget_spend(&shared, START_MS + 1000));
}

static void the_longer_of_two_hints_stays_whoever_is_first(void **state)
{
    (void)state;
    gate = (struct daruma_gate){0};
    race_between = other_holds_longer;
    daruma_gate_hold(&gate, START_MS, 100);
    assert_int_equal(daruma_gate_wait_ms(&gate, START_MS), 500);

    gate = (struct daruma_gate){0};
    race_between = other_holds_shorter;
    daruma_gate_hold(&gate, START_MS, 500);
    assert_int_equal(daruma_gate_wait_ms(&gate, START_MS), 500);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_successes_at_once_earn_two_retries),
        cmocka_unit_test(one_earned_retry_is_not_taken_twice),
        cmocka_unit_test(one_retry_of_the_floor_is_not_taken_twice),
        cmocka_unit_test(the_longer_of_two_hints_stays_whoever_is_first),
    };
    return HARNESS_RUN(argc, argv, tests);
}
