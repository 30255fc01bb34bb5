/* SPDX-License-Identifier: MIT
 *
 * Clocks that are not as they should be: at the ends of what a number can say, going backwards,
 * standing still. Nothing overflows, no hint is shortened by it, nobody is let through too often.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/backoff.h>
#include <daruma/budget.h>
#include <daruma/retry_after.h>

#include <string.h>

#define LIMIT_MS DARUMA_BACKOFF_LIMIT_MS

static int64_t hint_at(int64_t unix_now_ms, const char *name, const char *value)
{
    struct daruma_hint hint;

    daruma_hint_init(&hint, unix_now_ms);
    daruma_hint_field(&hint, name, strlen(name), value, strlen(value));
    return daruma_hint_ms(&hint);
}

static void a_hint_is_within_its_limits_at_both_ends_of_time(void **state)
{
    static const char *const moments[] = {
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    };
    static const char *const resets[] = {"1794738090", "2026-11-15T10:21:30Z"};

    (void)state;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        int64_t wait_ms;
        size_t length = strlen(moments[i]);
        assert_int_equal(hint_at(INT64_MIN, "Retry-After", moments[i]), LIMIT_MS);
        assert_int_equal(hint_at(INT64_MAX, "Retry-After", moments[i]), 0);
        assert_true(daruma_retry_after_parse(moments[i], length, INT64_MIN, &wait_ms));
        assert_int_equal(wait_ms, LIMIT_MS);
        assert_true(daruma_retry_after_parse(moments[i], length, INT64_MAX, &wait_ms));
        assert_int_equal(wait_ms, 0);
    }
    for (size_t i = 0; i < sizeof resets / sizeof *resets; i++) {
        assert_int_equal(hint_at(INT64_MIN, "x-ratelimit-reset", resets[i]), LIMIT_MS);
        assert_int_equal(hint_at(INT64_MAX, "x-ratelimit-reset", resets[i]), 0);
    }
}

/* A moment is told on the other side's clock, and so is its Date. */
static void a_reset_is_not_early_when_our_clock_is_fast(void **state)
{
    static const struct {
        const char *name, *value;
    } resets[] = {
        {"anthropic-ratelimit-requests-reset", "2026-11-15T10:21:30Z"},
        {"x-ratelimit-reset", "1794738090"},
        {"x-ratelimit-reset", "1794738090000"},
        {"x-ratelimit-reset", "Sun, 15 Nov 2026 10:21:30 GMT"},
        {"x-ratelimit-reset", "60"},
        {"x-ratelimit-reset-tokens", "1m"},
    };
    static const char date[] = "Sun, 15 Nov 2026 10:20:30 GMT";
    static const int64_t now_ms = INT64_C(1794738030000);
    static const int64_t wrong_ms[] = {0,       5000,     -5000,
                                       3600000, -3600000, 1 - INT64_C(1794738030000)};

    (void)state;
    for (size_t i = 0; i < sizeof resets / sizeof *resets; i++) {
        for (size_t j = 0; j < sizeof wrong_ms / sizeof *wrong_ms; j++) {
            struct daruma_hint hint;
            daruma_hint_init(&hint, now_ms + wrong_ms[j]);
            daruma_hint_field(&hint, resets[i].name, strlen(resets[i].name), resets[i].value,
                              strlen(resets[i].value));
            daruma_hint_field(&hint, "date", 4, date, strlen(date));
            assert_int_equal(daruma_hint_ms(&hint), 60000);
        }
    }
}

/* Takes the clock back while it runs. */
struct backwards {
    struct fake *fake;
    int64_t by_ms;
    uint32_t count;
};

static int call_that_turns_back(void *user, const struct daruma_attempt *attempt,
                                struct daruma_error *ret_error)
{
    struct backwards *backwards = user;

    (void)attempt;
    (void)ret_error;
    backwards->count++;
    backwards->fake->now_ms -= backwards->by_ms;
    return FAKE_CODE;
}

static void a_clock_that_goes_back_changes_neither_waits_nor_their_number(void **state)
{
    static const int64_t steps_ms[] = {0, 1, 1000, FAKE_START_MS / 8};

    (void)state;
    for (size_t i = 0; i < sizeof steps_ms / sizeof *steps_ms; i++) {
        struct fake_world world;
        fake_world_init(&world);
        struct backwards backwards = {.fake = &world.fake, .by_ms = steps_ms[i]};
        world.options.timeout_ms = 3600000;
        assert_int_equal(daruma_retry(call_that_turns_back, &backwards, &world.options, NULL),
                         FAKE_CODE);
        assert_int_equal(backwards.count, DARUMA_MAX_RETRIES + 1);
        assert_int_equal(world.fake.sleep_count, DARUMA_MAX_RETRIES);
        for (int j = 0; j < DARUMA_MAX_RETRIES; j++) {
            assert_int_equal(world.fake.slept_ms[j], FAKE_BASE_MS << j);
        }
    }
}

static void a_clock_that_goes_back_fills_no_budget(void **state)
{
    struct daruma_budget_options options = {.floor_per_second = 5};
    struct daruma_budget budget;

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    for (int i = 0; i < 5; i++) {
        assert_true(daruma_budget_spend(&budget, FAKE_START_MS));
    }
    for (int64_t back_ms = 0; back_ms < 60000; back_ms += 100) {
        assert_false(daruma_budget_spend(&budget, FAKE_START_MS - back_ms));
    }
    assert_true(daruma_budget_spend(&budget, FAKE_START_MS + 200));
}

static void before_its_beginning_a_clock_is_at_it(void **state)
{
    struct daruma_budget_options options = {.floor_per_second = 1};
    struct daruma_budget budget;

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    assert_true(daruma_budget_spend(&budget, INT64_MIN));
    assert_false(daruma_budget_spend(&budget, -1));
    assert_false(daruma_budget_spend(&budget, 999));
    assert_true(daruma_budget_spend(&budget, 1000));
}

static void count_done(void *user, struct daruma_retry_op *op, int code,
                       const struct daruma_error *error)
{
    (void)op;
    (void)code;
    (void)error;
    ++*(uint32_t *)user;
}

static void answer_at_once(void *user, struct daruma_retry_op *op,
                           const struct daruma_attempt *attempt)
{
    (void)user;
    assert_true(daruma_retry_async_finish(op, attempt->generation, FAKE_CODE, NULL));
}

static void a_timer_is_not_early_on_a_clock_that_goes_back(void **state)
{
    struct fake_loop fake;
    struct daruma_retry_options options = {.loop = &fake.loop,
                                           .backoff = daruma_backoff_exponential(FAKE_BASE_MS)};
    struct daruma_retry_op op = {0};
    uint32_t done_count = 0;

    (void)state;
    fake_loop_init(&fake, 1);
    assert_int_equal(
        daruma_retry_async_start(&op, answer_at_once, &done_count, &options, count_done), 0);
    fake.now_ms -= 500;
    assert_int_equal(daruma_retry_tick(&fake.loop), 0);
    assert_int_equal(daruma_retry_next_timeout_ms(&fake.loop), FAKE_BASE_MS + 500);
    fake.now_ms += FAKE_BASE_MS + 500;
    assert_int_equal(daruma_retry_tick(&fake.loop), 1);
    (void)fake_loop_run(&fake, 100);
    assert_int_equal(done_count, 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hint_is_within_its_limits_at_both_ends_of_time),
        cmocka_unit_test(a_reset_is_not_early_when_our_clock_is_fast),
        cmocka_unit_test(a_clock_that_goes_back_changes_neither_waits_nor_their_number),
        cmocka_unit_test(a_clock_that_goes_back_fills_no_budget),
        cmocka_unit_test(before_its_beginning_a_clock_is_at_it),
        cmocka_unit_test(a_timer_is_not_early_on_a_clock_that_goes_back),
    };
    return HARNESS_RUN(argc, argv, tests);
}
