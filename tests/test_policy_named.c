/* SPDX-License-Identifier: MIT
 *
 * The built-in policies, number by number as the contract of the configuration has them. Their
 * schedules are in test_policy.c; this holds what no schedule of so few attempts can show: the caps.
 */
#include "harness.h"

#include <daruma/policy.h>

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)

static const struct {
    const char *name;
    uint32_t attempts_max;
    struct {
        uint32_t attempts_max;
        uint64_t base_ms, cap_ms;
        double factor;
        enum daruma_jitter jitter;
    } rules[3]; /* transient, rate limited, quota */
} contract[] = {
    {"default",
     10,
     {{0, SECOND, HOUR, 0, DARUMA_JITTER_FULL},
      {0, 5 * SECOND, HOUR, 0, DARUMA_JITTER_FULL},
      {0, 5 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_FULL}}},
    {"sync",
     10,
     {{0, SECOND, HOUR, 0, DARUMA_JITTER_NONE},
      {4, 10 * SECOND, HOUR, 0, DARUMA_JITTER_NONE},
      {0, SECOND, HOUR, 0, DARUMA_JITTER_NONE}}},
    {"articles",
     6,
     {{0, 5 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE},
      {0, 5 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE},
      {0, 5 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE}}},
    {"llm_jobs",
     5,
     {{0, 2 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE},
      {0, 2 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE},
      {0, 2 * MINUTE, 24 * HOUR, 0, DARUMA_JITTER_NONE}}},
    {"client",
     3,
     {{0, SECOND, MINUTE, 0.1, DARUMA_JITTER_FACTOR},
      {0, SECOND, MINUTE, 0.1, DARUMA_JITTER_FACTOR},
      {0, SECOND, MINUTE, 0.1, DARUMA_JITTER_FACTOR}}},
};

static void every_number_is_that_of_the_contract(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) {
        struct daruma_policy policy;
        const struct daruma_policy_options *options = daruma_policy_named(contract[i].name);
        assert_non_null(options);
        assert_int_equal(daruma_policy_create(options, &policy, NULL), 0);
        assert_int_equal(policy.attempts_max, contract[i].attempts_max);
        for (int j = 0; j < 3; j++) {
            const struct daruma_rule *rule = &policy.rules[DARUMA_CLASS_TRANSIENT + j];
            assert_int_equal(rule->attempts_max, contract[i].rules[j].attempts_max);
            assert_int_equal(rule->backoff.base_ms, contract[i].rules[j].base_ms);
            assert_int_equal(rule->backoff.max_ms, contract[i].rules[j].cap_ms);
            assert_int_equal(rule->backoff.jitter, contract[i].rules[j].jitter);
            assert_true(contract[i].rules[j].factor == 0 ||
                        rule->backoff.jitter_factor == contract[i].rules[j].factor);
            assert_int_equal(rule->hint_cap_ms, 24 * HOUR);
        }
    }
}

static void the_longest_hint_cap_is_accepted(void **state)
{
    struct daruma_policy_options options = {0};
    struct daruma_policy policy;

    (void)state;
    options.rules[DARUMA_CLASS_QUOTA].given = true;
    options.rules[DARUMA_CLASS_QUOTA].hint_cap_ms = DARUMA_BACKOFF_LIMIT_MS;
    assert_int_equal(daruma_policy_create(&options, &policy, NULL), 0);
    assert_int_equal(policy.rules[DARUMA_CLASS_QUOTA].hint_cap_ms, DARUMA_BACKOFF_LIMIT_MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_that_of_the_contract),
        cmocka_unit_test(the_longest_hint_cap_is_accepted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
