/* SPDX-License-Identifier: MIT
 *
 * Tests of policy: the five built-in policies printed and held against what the documents ask for,
 * then each rule of the core by itself. Time and chance are handed in.
 */
#include "harness.h"

#include <daruma/policy.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND     UINT64_C(1000)
#define MINUTE     (60 * SECOND)
#define HOUR       (60 * MINUTE)
#define NOW_MS     INT64_C(5000000)
#define LINE_BYTES 400
#define LOWEST     UINT64_C(0)
#define HIGHEST    UINT64_MAX

static const char *const final_text = "stop: an error of this class is not retried";

/* Every policy and class that is retried, as a series of failures of that class alone: the wait
 * after each, from the lowest draw to the highest, in seconds. What is not here stops at once. */
static const struct {
    const char *policy;
    enum daruma_class error_class;
    const char *schedule;
} named_schedules[] = {
    {"default", DARUMA_CLASS_TRANSIENT,
     "0-0.999 0-1.999 0-3.999 0-7.999 0-15.999 0-31.999 0-63.999 0-127.999 0-255.999 "
     "stop: no attempts left"},
    {"default", DARUMA_CLASS_RATE_LIMITED,
     "0-4.999 0-9.999 0-19.999 0-39.999 0-79.999 0-159.999 0-319.999 0-639.999 0-1279.999 "
     "stop: no attempts left"},
    {"default", DARUMA_CLASS_QUOTA,
     "0-299.999 0-599.999 0-1199.999 0-2399.999 0-4799.999 0-9599.999 0-19199.999 0-38399.999 "
     "0-76799.999 stop: no attempts left"},
    /* E2: the 10th failure ends it. E3: rate limits get three retries, 10 s apart. */
    {"sync", DARUMA_CLASS_TRANSIENT, "1 2 4 8 16 32 64 128 256 stop: no attempts left"},
    {"sync", DARUMA_CLASS_RATE_LIMITED, "10 10 10 stop: no attempts left for this class of error"},
    {"sync", DARUMA_CLASS_QUOTA, "1 2 4 8 16 32 64 128 256 stop: no attempts left"},
    /* D2.1, D2.2, D2.4: 5, 10, 20, 40, 80 minutes. */
    {"articles", DARUMA_CLASS_TRANSIENT, "300 600 1200 2400 4800 stop: no attempts left"},
    {"articles", DARUMA_CLASS_RATE_LIMITED, "300 600 1200 2400 4800 stop: no attempts left"},
    {"articles", DARUMA_CLASS_QUOTA, "300 600 1200 2400 4800 stop: no attempts left"},
    /* A6.2 */
    {"llm_jobs", DARUMA_CLASS_TRANSIENT, "120 240 480 960 stop: no attempts left"},
    {"llm_jobs", DARUMA_CLASS_RATE_LIMITED, "120 240 480 960 stop: no attempts left"},
    {"llm_jobs", DARUMA_CLASS_QUOTA, "120 240 480 960 stop: no attempts left"},
    /* A5.2 */
    {"client", DARUMA_CLASS_TRANSIENT, "0.9-1.1 1.8-2.2 stop: no attempts left"},
    {"client", DARUMA_CLASS_RATE_LIMITED, "0.9-1.1 1.8-2.2 stop: no attempts left"},
    {"client", DARUMA_CLASS_QUOTA, "0.9-1.1 1.8-2.2 stop: no attempts left"},
};

static struct daruma_policy made(const struct daruma_policy_options *options)
{
    struct daruma_policy policy;

    assert_int_equal(daruma_policy_create(options, &policy, NULL), 0);
    return policy;
}

static struct daruma_policy named(const char *name)
{
    const struct daruma_policy_options *options = daruma_policy_named(name);

    assert_non_null(options);
    return made(options);
}

static struct daruma_decision fails(const struct daruma_policy *policy,
                                    struct daruma_policy_state *progress,
                                    enum daruma_class error_class)
{
    const struct daruma_outcome outcome = {.error_class = error_class};

    return daruma_policy_next(policy, progress, &outcome, NOW_MS, LOWEST);
}

static struct daruma_decision hinted(const struct daruma_policy *policy, int64_t hint_ms)
{
    struct daruma_policy_state progress = {0};
    const struct daruma_outcome outcome = {.error_class = DARUMA_CLASS_TRANSIENT,
                                           .hint_ms = hint_ms};

    return daruma_policy_next(policy, &progress, &outcome, NOW_MS, LOWEST);
}

/* The failures of one class after another until it stops, as a line of text. */
static void write_schedule(const struct daruma_policy *policy, enum daruma_class error_class,
                           char *line)
{
    struct daruma_policy_state low = {0}, high = {0};
    const struct daruma_outcome outcome = {.error_class = error_class};
    size_t length = 0;

    for (int i = 0; i < 100; i++) {
        struct daruma_decision least = daruma_policy_next(policy, &low, &outcome, NOW_MS, LOWEST);
        struct daruma_decision most = daruma_policy_next(policy, &high, &outcome, NOW_MS, HIGHEST);
        assert_int_equal(least.stop, most.stop);
        if (least.stop != DARUMA_STOP_NONE) {
            (void)snprintf(line + length, LINE_BYTES - length, "stop: %s",
                           daruma_stop_text(least.stop));
            return;
        }
        length += (size_t)snprintf(line + length, LINE_BYTES - length, "%.8g",
                                   (double)least.wait_ms / 1000);
        if (least.wait_ms != most.wait_ms) {
            length += (size_t)snprintf(line + length, LINE_BYTES - length, "-%.8g",
                                       (double)most.wait_ms / 1000);
        }
        line[length++] = ' ';
        assert_true(length < LINE_BYTES - 64);
    }
    fail_msg("%s", "a policy that never stops");
}

static const char *schedule_of(const char *policy, enum daruma_class error_class)
{
    for (size_t i = 0; i < sizeof named_schedules / sizeof *named_schedules; i++) {
        if (named_schedules[i].error_class == error_class &&
            strcmp(named_schedules[i].policy, policy) == 0) {
            return named_schedules[i].schedule;
        }
    }
    return final_text;
}

/* E2, E3, D2, A6.2, A5.2 */
static void the_named_policies_have_the_schedules_of_the_documents(void **state)
{
    (void)state;
    printf("%-9s %-13s wait after each failure, in seconds\n", "policy", "class");
    for (uint32_t i = 0; daruma_policy_name(i) != NULL; i++) {
        const char *name = daruma_policy_name(i);
        struct daruma_policy policy = named(name);
        for (int j = 0; j < DARUMA_CLASS_COUNT; j++) {
            enum daruma_class error_class = (enum daruma_class)j;
            char line[LINE_BYTES];
            write_schedule(&policy, error_class, line);
            printf("%-9s %-13s %s\n", name, daruma_class_text(error_class), line);
            assert_string_equal(line, schedule_of(name, error_class));
        }
    }
}

static void there_are_five_named_policies(void **state)
{
    static const char *const names[] = {"default", "sync", "articles", "llm_jobs", "client"};

    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(daruma_policy_name(i), names[i]);
    }
    assert_null(daruma_policy_name(5));
    assert_null(daruma_policy_name(UINT32_MAX));
    assert_null(daruma_policy_named("nobody"));
    assert_null(daruma_policy_named(""));
    assert_null(daruma_policy_named(NULL));
}

static void a_class_that_trying_cannot_help_stops_at_once(void **state) /* E3, A5.1 */
{
    static const enum daruma_class classes[] = {DARUMA_CLASS_AUTH, DARUMA_CLASS_INVALID,
                                                DARUMA_CLASS_GONE, DARUMA_CLASS_EXPIRED};

    (void)state;
    for (uint32_t i = 0; daruma_policy_name(i) != NULL; i++) {
        struct daruma_policy policy = named(daruma_policy_name(i));
        for (size_t j = 0; j < sizeof classes / sizeof *classes; j++) {
            struct daruma_policy_state progress = {0};
            assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).stop,
                             DARUMA_STOP_NONE);
            assert_int_equal(fails(&policy, &progress, classes[j]).stop, DARUMA_STOP_FINAL);
        }
    }
}

static void a_rule_of_its_own_lets_such_a_class_be_retried(void **state)
{
    struct daruma_policy_options options = {
        .rules = {
            [DARUMA_CLASS_AUTH] = {.given = true,
                                   .max_attempts = 3,
                                   .backoff = {.kind = DARUMA_BACKOFF_FIXED, .base_ms = 7000}}}};
    struct daruma_policy policy = made(&options);
    struct daruma_policy_state progress = {0};

    (void)state;
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_AUTH).wait_ms, 7000);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_AUTH).wait_ms, 7000);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_AUTH).stop, DARUMA_STOP_CLASS);
}

static void articles_are_never_more_than_a_day_apart(void **state) /* D2.3 */
{
    struct daruma_policy_options options = *daruma_policy_named("articles");
    struct daruma_policy_state progress = {0};

    (void)state;
    options.max_attempts = 30;
    struct daruma_policy policy = made(&options);
    for (uint32_t n = 1; n < 30; n++) {
        uint64_t doubled = n < 10 ? (5 * MINUTE) << (n - 1) : 24 * HOUR;
        assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).wait_ms, doubled);
    }
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).stop,
                     DARUMA_STOP_ATTEMPTS);
}

static void a_hint_beyond_a_day_counts_as_a_day(void **state) /* D2.3 */
{
    struct daruma_policy policy = named("articles");

    (void)state;
    assert_int_equal(hinted(&policy, (int64_t)(72 * HOUR)).wait_ms, 24 * HOUR);
    assert_int_equal(hinted(&policy, (int64_t)(23 * HOUR)).wait_ms, 23 * HOUR);
    assert_int_equal(hinted(&policy, INT64_MAX).wait_ms, 24 * HOUR);
}

static void a_hint_is_a_floor_under_the_backoff(void **state) /* A5.1 */
{
    struct daruma_policy policy = named("sync");

    (void)state;
    assert_int_equal(hinted(&policy, 0).wait_ms, SECOND);
    assert_int_equal(hinted(&policy, 999).wait_ms, SECOND);
    assert_int_equal(hinted(&policy, 1001).wait_ms, 1001);
    assert_int_equal(hinted(&policy, -1).wait_ms, SECOND);
    assert_int_equal(hinted(&policy, INT64_MIN).wait_ms, SECOND);
}

static void the_hint_cap_of_a_rule_bounds_a_hint(void **state)
{
    struct daruma_policy_options options = *daruma_policy_named("sync");

    (void)state;
    options.rules[DARUMA_CLASS_TRANSIENT].hint_cap_ms = 30000;
    struct daruma_policy policy = made(&options);
    assert_int_equal(hinted(&policy, 29999).wait_ms, 29999);
    assert_int_equal(hinted(&policy, 30001).wait_ms, 30000);
}

static void a_hint_may_ask_for_more_than_the_backoffs_own_cap(void **state)
{
    struct daruma_policy policy = named("client"); /* whose backoff ends at a minute */

    (void)state;
    assert_int_equal(hinted(&policy, (int64_t)(2 * HOUR)).wait_ms, 2 * HOUR);
}

/* What follows a hint is the backoff's own series, not three times the hint. */
static void a_hint_does_not_enlarge_the_next_wait(void **state)
{
    struct daruma_policy_options options = {
        .rules = {[DARUMA_CLASS_TRANSIENT] = {.given = true,
                                              .backoff = {.jitter = DARUMA_JITTER_DECORRELATED}}}};
    struct daruma_policy policy = made(&options);
    struct daruma_policy_state progress = {0};
    const struct daruma_outcome told = {.hint_ms = (int64_t)HOUR}, untold = {0};

    (void)state;
    assert_int_equal(daruma_policy_next(&policy, &progress, &told, NOW_MS, LOWEST).wait_ms, HOUR);
    assert_int_equal(progress.previous_ms, SECOND);
    assert_in_range(daruma_policy_next(&policy, &progress, &untold, NOW_MS, HIGHEST).wait_ms, 2999,
                    3000);
}

/* E3: a bound inside a class counts that class only, the policy's counts everything. */
static void a_class_bound_counts_that_class_only(void **state)
{
    struct daruma_policy policy = named("sync");
    struct daruma_policy_state progress = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).wait_ms, 10 * SECOND);
        assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).stop, DARUMA_STOP_NONE);
    }
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).stop, DARUMA_STOP_CLASS);
    assert_int_equal(progress.attempts, 7);
    assert_int_equal(progress.class_attempts[DARUMA_CLASS_RATE_LIMITED], 4);
    assert_int_equal(progress.class_attempts[DARUMA_CLASS_TRANSIENT], 3);
}

static void the_n_of_a_backoff_counts_failures_of_any_class(void **state)
{
    struct daruma_policy policy = named("sync");
    struct daruma_policy_state progress = {0};

    (void)state;
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).wait_ms, SECOND);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).wait_ms, 10 * SECOND);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).wait_ms, 10 * SECOND);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).wait_ms, 8 * SECOND);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_QUOTA).wait_ms, 16 * SECOND);
}

/* E3: never more than 10 tries in all. D2.4: 6 tries, whatever mix of errors. */
static void no_mix_of_classes_gets_more_tries_than_the_policy_has(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());

    (void)state;
    for (uint32_t i = 0; daruma_policy_name(i) != NULL; i++) {
        struct daruma_policy policy = named(daruma_policy_name(i));
        uint32_t longest = 0;
        for (int run = 0; run < 2000; run++) {
            struct daruma_policy_state progress = {0};
            enum daruma_stop stop;
            do {
                stop = fails(&policy, &progress, (enum daruma_class)(daruma_dice_roll(&dice) % 3))
                           .stop;
            } while (stop == DARUMA_STOP_NONE);
            assert_true(progress.attempts <= policy.attempts_max);
            longest = progress.attempts > longest ? progress.attempts : longest;
        }
        assert_int_equal(longest, policy.attempts_max);
    }
    assert_int_equal(named("sync").attempts_max, 10);
    assert_int_equal(named("articles").attempts_max, 6);
}

static void a_class_without_a_rule_uses_the_transient_one(void **state)
{
    struct daruma_policy_options options = {
        .rules = {[DARUMA_CLASS_TRANSIENT] = {
                      .given = true,
                      .max_attempts = 2,
                      .hint_cap_ms = 5000,
                      .backoff = {.kind = DARUMA_BACKOFF_FIXED, .base_ms = 3000}}}};
    struct daruma_policy policy = made(&options);
    struct daruma_policy_state progress = {0};

    (void)state;
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_RATE_LIMITED).wait_ms, 3000);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_QUOTA).wait_ms, 3000);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).wait_ms, 3000);
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_QUOTA).stop, DARUMA_STOP_CLASS);
    assert_int_equal(policy.rules[DARUMA_CLASS_QUOTA].hint_cap_ms, 5000);
}

static void a_rule_that_is_not_given_is_not_looked_at(void **state)
{
    struct daruma_policy_options options = {0};

    (void)state;
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        options.rules[i] = (struct daruma_rule_options){
            .max_attempts = 2, .hint_cap_ms = -1, .backoff = {.base_ms = -1}};
    }
    struct daruma_policy policy = made(&options);
    assert_int_equal(policy.rules[DARUMA_CLASS_TRANSIENT].attempts_max, 0);
    assert_int_equal(policy.rules[DARUMA_CLASS_TRANSIENT].hint_cap_ms, DARUMA_HINT_CAP_MS);
}

static void zeroed_options_are_ten_tries_a_second_to_an_hour_full_jitter(void **state)
{
    struct daruma_policy_options zeroed = {0};
    struct daruma_policy policies[] = {made(NULL), made(&zeroed)};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct daruma_policy_state progress = {0};
        const struct daruma_outcome outcome = {0};
        for (uint32_t n = 1; n < DARUMA_POLICY_ATTEMPTS_MAX; n++) {
            struct daruma_policy_state copy = progress;
            uint64_t most = SECOND << (n - 1);
            assert_int_equal(daruma_policy_next(&policies[i], &copy, &outcome, 0, LOWEST).wait_ms,
                             0);
            assert_in_range(
                daruma_policy_next(&policies[i], &progress, &outcome, 0, HIGHEST).wait_ms, most - 1,
                most);
        }
        assert_int_equal(daruma_policy_next(&policies[i], &progress, &outcome, 0, LOWEST).stop,
                         DARUMA_STOP_ATTEMPTS);
    }
}

/* A wait that would end at the deadline or after it is not begun. */
static void no_wait_reaches_the_deadline(void **state)
{
    struct daruma_policy policy = named("sync");
    const struct daruma_outcome outcome = {.error_class = DARUMA_CLASS_TRANSIENT};
    static const struct {
        int64_t left_ms;
        enum daruma_stop stop;
    } rows[] = {{1001, DARUMA_STOP_NONE},    {1000, DARUMA_STOP_DEADLINE},
                {999, DARUMA_STOP_DEADLINE}, {0, DARUMA_STOP_DEADLINE},
                {-1, DARUMA_STOP_DEADLINE},  {INT64_MAX - NOW_MS, DARUMA_STOP_NONE}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct daruma_policy_state progress = {.deadline_ms = NOW_MS + rows[i].left_ms};
        struct daruma_decision decision =
            daruma_policy_next(&policy, &progress, &outcome, NOW_MS, LOWEST);
        assert_int_equal(decision.stop, rows[i].stop);
        assert_int_equal(decision.wait_ms, rows[i].stop == DARUMA_STOP_NONE ? SECOND : 0);
    }
    policy = named("default"); /* full jitter: the lowest draw is no wait at all */
    struct daruma_policy_state progress = {.deadline_ms = NOW_MS + 1};
    struct daruma_decision decision =
        daruma_policy_next(&policy, &progress, &outcome, NOW_MS, LOWEST);
    assert_int_equal(decision.stop, DARUMA_STOP_NONE);
    assert_int_equal(decision.wait_ms, 0);
}

static void a_hint_beyond_the_deadline_stops(void **state)
{
    struct daruma_policy policy = named("sync");
    struct daruma_policy_state progress = {.deadline_ms = NOW_MS + 60000};
    const struct daruma_outcome outcome = {.hint_ms = 60000};

    (void)state;
    assert_int_equal(daruma_policy_next(&policy, &progress, &outcome, NOW_MS, LOWEST).stop,
                     DARUMA_STOP_DEADLINE);
}

static void a_class_out_of_range_is_transient(void **state)
{
    struct daruma_policy policy = named("sync");
    struct daruma_policy_state progress = {0};

    (void)state;
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_COUNT).wait_ms, SECOND);
    assert_int_equal(fails(&policy, &progress, (enum daruma_class) - 1).wait_ms, 2 * SECOND);
    assert_int_equal(progress.class_attempts[DARUMA_CLASS_TRANSIENT], 2);
}

static void counts_that_are_full_stay_full(void **state)
{
    struct daruma_policy_options options = {.max_attempts = UINT32_MAX};
    struct daruma_policy policy = made(&options);
    struct daruma_policy_state progress = {.attempts = UINT32_MAX, .class_attempts = {UINT32_MAX}};

    (void)state;
    assert_int_equal(fails(&policy, &progress, DARUMA_CLASS_TRANSIENT).stop, DARUMA_STOP_ATTEMPTS);
    assert_true(progress.attempts == UINT32_MAX);
    assert_true(progress.class_attempts[0] == UINT32_MAX);
}

static enum daruma_class expected_class(int status)
{
    switch (status) {
    case 408:
    case 425:
        return DARUMA_CLASS_TRANSIENT;
    case 429:
        return DARUMA_CLASS_RATE_LIMITED;
    case 401:
    case 403:
        return DARUMA_CLASS_AUTH;
    case 410:
        return DARUMA_CLASS_GONE;
    default:
        return status >= 100 && status < 500 ? DARUMA_CLASS_INVALID : DARUMA_CLASS_TRANSIENT;
    }
}

static void every_status_has_its_class(void **state) /* A5.1, E3 */
{
    static const int beyond[] = {0, -1, INT32_MIN, 99, 600, 999, INT32_MAX};
    enum daruma_class found;

    (void)state;
    for (int status = 100; status < 600; status++) {
        if (status >= 200 && status < 300) {
            found = DARUMA_CLASS_GONE;
            assert_false(daruma_class_of_status(status, &found));
            assert_int_equal(found, DARUMA_CLASS_GONE); /* untouched */
        } else {
            assert_true(daruma_class_of_status(status, &found));
            assert_int_equal(found, expected_class(status));
        }
    }
    assert_true(daruma_class_of_status(529, &found));
    assert_int_equal(found, DARUMA_CLASS_TRANSIENT);
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        assert_true(daruma_class_of_status(beyond[i], &found));
        assert_int_equal(found, DARUMA_CLASS_TRANSIENT);
    }
}

static void words_of_classes_read_back(void **state)
{
    enum daruma_class found = DARUMA_CLASS_GONE;

    (void)state;
    for (int i = 0; i < DARUMA_CLASS_COUNT; i++) {
        assert_true(daruma_class_parse(daruma_class_text((enum daruma_class)i), &found));
        assert_int_equal(found, i);
    }
    assert_false(daruma_class_parse("Transient", &found));
    assert_false(daruma_class_parse("", &found));
    assert_false(daruma_class_parse(NULL, &found));
    assert_int_equal(found, DARUMA_CLASS_EXPIRED); /* the last one that was read */
    assert_string_equal(daruma_class_text(DARUMA_CLASS_COUNT), "unknown");
    assert_string_equal(daruma_stop_text(DARUMA_STOP_DEADLINE), "no time left before the deadline");
    assert_string_equal(daruma_stop_text(DARUMA_STOP_COUNT), "unknown");
}

static void a_bad_option_is_refused_by_name(void **state)
{
    static const struct {
        const char *option;
        struct daruma_rule_options rule;
    } rows[] = {
        {"base_ms", {.backoff = {.base_ms = -1}}},
        {"max_ms", {.backoff = {.max_ms = -1}}},
        {"max_ms", {.backoff = {.base_ms = 5000, .max_ms = 4999}}},
        {"max_ms", {.backoff = {.max_ms = DARUMA_POLICY_BASE_MS - 1}}},
        {"jitter_factor", {.backoff = {.jitter_factor = 1.5}}},
        {"jitter_factor", {.backoff = {.jitter_factor = NAN}}},
        {"schedule_ms", {.backoff = {.kind = DARUMA_BACKOFF_SCHEDULE}}},
        {"kind", {.backoff = {.kind = (enum daruma_backoff_kind)77}}},
        {"jitter", {.backoff = {.jitter = (enum daruma_jitter)77}}},
        {"hint_cap_ms", {.hint_cap_ms = -1}},
        {"hint_cap_ms", {.hint_cap_ms = DARUMA_BACKOFF_LIMIT_MS + 1}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int j = 0; j < DARUMA_CLASS_COUNT; j++) {
            struct daruma_policy_options options = {0};
            struct daruma_policy policy = {.attempts_max = 12345};
            struct daruma_error error = {0};
            options.rules[j] = rows[i].rule;
            options.rules[j].given = true;
            assert_int_equal(daruma_policy_create(&options, &policy, &error), DARUMA_INVALID);
            assert_int_equal(error.code, DARUMA_INVALID);
            assert_non_null(strstr(error.message, rows[i].option));
            assert_int_equal(policy.attempts_max, 12345); /* untouched */
        }
    }
}

static void nowhere_to_put_a_policy_is_refused(void **state)
{
    struct daruma_error error;

    (void)state;
    assert_int_equal(daruma_policy_create(NULL, NULL, &error), DARUMA_INVALID);
    assert_non_null(strstr(error.message, "ret_policy"));
    assert_int_equal(daruma_policy_create(NULL, NULL, NULL), DARUMA_INVALID);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_policies_have_the_schedules_of_the_documents),
        cmocka_unit_test(there_are_five_named_policies),
        cmocka_unit_test(a_class_that_trying_cannot_help_stops_at_once),
        cmocka_unit_test(a_rule_of_its_own_lets_such_a_class_be_retried),
        cmocka_unit_test(articles_are_never_more_than_a_day_apart),
        cmocka_unit_test(a_hint_beyond_a_day_counts_as_a_day),
        cmocka_unit_test(a_hint_is_a_floor_under_the_backoff),
        cmocka_unit_test(the_hint_cap_of_a_rule_bounds_a_hint),
        cmocka_unit_test(a_hint_may_ask_for_more_than_the_backoffs_own_cap),
        cmocka_unit_test(a_hint_does_not_enlarge_the_next_wait),
        cmocka_unit_test(a_class_bound_counts_that_class_only),
        cmocka_unit_test(the_n_of_a_backoff_counts_failures_of_any_class),
        cmocka_unit_test(no_mix_of_classes_gets_more_tries_than_the_policy_has),
        cmocka_unit_test(a_class_without_a_rule_uses_the_transient_one),
        cmocka_unit_test(a_rule_that_is_not_given_is_not_looked_at),
        cmocka_unit_test(zeroed_options_are_ten_tries_a_second_to_an_hour_full_jitter),
        cmocka_unit_test(no_wait_reaches_the_deadline),
        cmocka_unit_test(a_hint_beyond_the_deadline_stops),
        cmocka_unit_test(a_class_out_of_range_is_transient),
        cmocka_unit_test(counts_that_are_full_stay_full),
        cmocka_unit_test(every_status_has_its_class),
        cmocka_unit_test(words_of_classes_read_back),
        cmocka_unit_test(a_bad_option_is_refused_by_name),
        cmocka_unit_test(nowhere_to_put_a_policy_is_refused),
    };
    return HARNESS_RUN(argc, argv, tests);
}
