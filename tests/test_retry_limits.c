/* SPDX-License-Identifier: MIT
 *
 * What bounds a synchronous retry besides its policy: how many retries there may be, and how much of a
 * hint counts.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/policy.h>

#include <string.h>

static void a_hint_counts_up_to_the_cap_of_the_options(void **state)
{
    const int64_t hints_ms[] = {999, 1000, 1001, INT64_MAX};
    const uint64_t waits_ms[] = {999, 1000, 1000, 1000};

    (void)state;
    for (size_t i = 0; i < sizeof hints_ms / sizeof *hints_ms; i++) {
        struct fake_world world;
        fake_world_init(&world);
        world.call.success_at = 2;
        world.call.error.retry_after_ms = hints_ms[i];
        world.options.hint_cap_ms = 1000;
        assert_int_equal(fake_world_run(&world), 0);
        assert_int_equal(world.fake.slept_ms[0], waits_ms[i]);
    }
}

static int never_called(void *user, const struct daruma_attempt *attempt,
                        struct daruma_error *ret_error)
{
    (void)user, (void)attempt, (void)ret_error;
    fail_msg("called");
    return 0;
}

/* With nothing else in the options, so that the short way is not taken either. */
static void a_negative_number_of_retries_is_refused_by_name(void **state)
{
    const int32_t wrong[] = {-1, -2, INT32_MIN + 1};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct daruma_retry_options options = {.max_retries = (uint32_t)wrong[i]};
        struct daruma_error error;
        assert_int_equal(daruma_retry(never_called, NULL, &options, &error), DARUMA_INVALID);
        assert_non_null(strstr(error.message, "options.max_retries"));
    }
}

static void a_negative_cap_of_hints_is_refused_by_name(void **state)
{
    const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct daruma_retry_options options = {.hint_cap_ms = wrong[i]};
        struct daruma_error error;
        assert_int_equal(daruma_retry(never_called, NULL, &options, &error), DARUMA_INVALID);
        assert_non_null(strstr(error.message, "options.hint_cap_ms"));
    }
}

static void the_most_retries_last_until_the_time_is_over(void **state)
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = DARUMA_RETRIES_MAX;
    world.options.timeout_ms = 60000;
    world.options.backoff = (struct daruma_backoff){.kind = DARUMA_BACKOFF_FIXED,
                                                    .base_ms = 1000,
                                                    .max_ms = 1000,
                                                    .jitter = DARUMA_JITTER_NONE};
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 60);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hint_counts_up_to_the_cap_of_the_options),
        cmocka_unit_test(a_negative_number_of_retries_is_refused_by_name),
        cmocka_unit_test(a_negative_cap_of_hints_is_refused_by_name),
        cmocka_unit_test(the_most_retries_last_until_the_time_is_over),
    };
    return HARNESS_RUN(argc, argv, tests);
}
