/* SPDX-License-Identifier: MIT
 *
 * judge: the table of judge.h, line by line, and what the policy makes of it.
 */
#include "harness.h"

#include "task/judge.h"

#include <string.h>

#define NOW_MS INT64_C(1800000000000)

static struct judgement judge(struct outcome outcome, bool repeatable, struct life life)
{
    struct daruma_policy policy;
    struct judgement judgement;

    assert_int_equal(daruma_policy_create(daruma_policy_named("sync"), &policy, NULL), 0);
    if (outcome.sent == TASK_SENT_YES) {
        (void)daruma_class_of_status(outcome.status, &outcome.error_class); /* 2xx: not read */
    }
    judge_attempt(&(struct judge_input){.outcome = &outcome,
                                        .policy = &policy,
                                        .life = &life,
                                        .repeatable = repeatable,
                                        .now_ms = NOW_MS},
                  &judgement);
    return judgement;
}

static struct life first_attempt(void)
{
    return (struct life){.state = TASK_RUNNING, .attempts = 1, .attempts_all = 1, .fence = 1};
}

struct row {
    int status;
    enum task_sent sent;
    bool has_hint;
    enum task_state repeatable, once;
};

static void every_outcome_has_its_end(void **state) /* I5 */
{
    static const struct row rows[] = {
        {200, TASK_SENT_YES, false, TASK_SUCCEEDED, TASK_SUCCEEDED},
        {204, TASK_SENT_YES, false, TASK_SUCCEEDED, TASK_SUCCEEDED},
        {301, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {400, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {401, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {403, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {404, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {407, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {408, TASK_SENT_YES, false, TASK_WAITING, TASK_WAITING},
        {410, TASK_SENT_YES, false, TASK_DEAD, TASK_DEAD},
        {425, TASK_SENT_YES, false, TASK_WAITING, TASK_WAITING},
        {429, TASK_SENT_YES, false, TASK_WAITING, TASK_WAITING},
        {500, TASK_SENT_YES, false, TASK_WAITING, TASK_UNSETTLED},
        {503, TASK_SENT_YES, false, TASK_WAITING, TASK_UNSETTLED},
        {503, TASK_SENT_YES, true, TASK_WAITING, TASK_WAITING},
        {529, TASK_SENT_YES, true, TASK_WAITING, TASK_UNSETTLED},
        {0, TASK_SENT_NO, false, TASK_WAITING, TASK_WAITING},
        {0, TASK_SENT_MAYBE, false, TASK_WAITING, TASK_UNSETTLED},
        {200, TASK_SENT_MAYBE, false, TASK_WAITING, TASK_UNSETTLED}, /* the answer was cut off */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct outcome outcome = {
            .status = rows[i].status, .sent = rows[i].sent, .has_hint = rows[i].has_hint};
        assert_int_equal(judge(outcome, true, first_attempt()).life.state, rows[i].repeatable);
        assert_int_equal(judge(outcome, false, first_attempt()).life.state, rows[i].once);
    }
}

static void a_failure_waits_as_the_policy_says_and_counts(void **state)
{
    struct outcome outcome = {.status = 503, .sent = TASK_SENT_YES};
    struct life life = first_attempt();

    (void)state;
    life.attempts = 3;
    struct judgement judgement = judge(outcome, true, life);
    assert_int_equal(judgement.life.wait_ms, 4000);
    assert_int_equal(judgement.life.due_at_ms, NOW_MS + 4000);
    assert_int_equal(judgement.life.class_attempts[DARUMA_CLASS_TRANSIENT], 1);
    assert_true((judgement.life.flags & LIFE_SENT) != 0);
    life.attempts = 10;
    judgement = judge(outcome, true, life);
    assert_int_equal(judgement.life.state, TASK_DEAD);
    assert_int_equal(judgement.life.settled_at_ms, NOW_MS);
    assert_int_equal(judgement.stop, DARUMA_STOP_ATTEMPTS);
}

static void a_person_s_word_is_good_for_one_attempt(void **state)
{
    struct life life = first_attempt();

    (void)state;
    life.flags = LIFE_FORCED;
    struct judgement judgement =
        judge((struct outcome){.status = 503, .sent = TASK_SENT_YES}, true, life);
    assert_int_equal(judgement.life.flags & LIFE_FORCED, 0);
}

static void a_wait_past_the_deadline_ends_as_expired(void **state) /* I6 */
{
    struct life life = first_attempt();

    (void)state;
    life.deadline_at_ms = NOW_MS + 1000; /* the wait would be exactly that */
    struct judgement judgement =
        judge((struct outcome){.status = 503, .sent = TASK_SENT_YES}, true, life);
    assert_int_equal(judgement.life.state, TASK_DEAD);
    assert_int_equal(judgement.error_class, DARUMA_CLASS_EXPIRED);
    assert_true(judge_is_expired(&life, NOW_MS + 1000));
    assert_false(judge_is_expired(&life, NOW_MS + 999));
    judge_expire(&life, NOW_MS + 1000, &judgement);
    assert_int_equal(judgement.life.state, TASK_DEAD);
}

static void what_is_in_doubt_stays_so_past_the_deadline(void **state)
{
    struct life life = first_attempt();

    (void)state;
    life.deadline_at_ms = NOW_MS - 1;
    assert_int_equal(judge((struct outcome){.sent = TASK_SENT_MAYBE}, false, life).life.state,
                     TASK_UNSETTLED);
}

static struct judgement judge_by(const struct daruma_policy_options *options,
                                 struct outcome outcome, struct life life)
{
    struct daruma_policy policy;
    struct judgement judgement;

    assert_int_equal(daruma_policy_create(options, &policy, NULL), 0);
    judge_attempt(&(struct judge_input){.outcome = &outcome,
                                        .policy = &policy,
                                        .life = &life,
                                        .repeatable = true,
                                        .now_ms = NOW_MS},
                  &judgement);
    return judgement;
}

/* Several providers have failed in different ways. */
static void of_several_classes_the_longest_wait_that_may_be_retried_decides(void **state) /* D6.3 */
{
    const struct daruma_backoff_options ten = {.kind = DARUMA_BACKOFF_FIXED, .base_ms = 10000};
    const struct daruma_backoff_options two = {.kind = DARUMA_BACKOFF_FIXED, .base_ms = 2000};
    struct daruma_policy_options options = {
        .rules = {[DARUMA_CLASS_TRANSIENT] = {.given = true, .backoff = ten},
                  [DARUMA_CLASS_RATE_LIMITED] = {.given = true, .backoff = two},
                  [DARUMA_CLASS_QUOTA] = {.given = true, .max_attempts = 1}}};
    struct outcome outcome = {.sent = TASK_SENT_YES,
                              .status = 429,
                              .error_class = DARUMA_CLASS_QUOTA,
                              .also_classes = 1u << DARUMA_CLASS_QUOTA | 1u << DARUMA_CLASS_AUTH |
                                              1u << DARUMA_CLASS_TRANSIENT |
                                              1u << DARUMA_CLASS_RATE_LIMITED};

    (void)state;
    struct judgement judgement = judge_by(&options, outcome, first_attempt());
    assert_int_equal(judgement.life.state, TASK_WAITING);
    assert_int_equal(judgement.life.wait_ms, 10000);
    assert_int_equal(judgement.error_class, DARUMA_CLASS_TRANSIENT);
    assert_int_equal(judgement.life.class_attempts[DARUMA_CLASS_TRANSIENT], 1);
    assert_int_equal(judgement.life.class_attempts[DARUMA_CLASS_QUOTA], 0);
    outcome.hint_ms = 15000; /* a floor under whichever it is */
    assert_int_equal(judge_by(&options, outcome, first_attempt()).life.wait_ms, 15000);
    outcome.also_classes = 1u << DARUMA_CLASS_QUOTA | 1u << DARUMA_CLASS_AUTH;
    judgement = judge_by(&options, outcome, first_attempt());
    assert_int_equal(judgement.life.state, TASK_DEAD);
    assert_int_equal(judgement.error_class, DARUMA_CLASS_QUOTA);
}

static void what_was_put_off_is_not_counted(void **state)
{
    struct outcome outcome = {.sent = TASK_SENT_NO, .hint_ms = 5000};
    struct life life = first_attempt();
    struct judgement judgement;

    (void)state;
    life.attempts = 100; /* far above any policy */
    judge_put_off(&(struct judge_input){.outcome = &outcome, .life = &life, .now_ms = NOW_MS},
                  &judgement);
    assert_int_equal(judgement.life.state, TASK_WAITING);
    assert_true(judgement.life.due_at_ms == NOW_MS + 5000);
    assert_int_equal(judgement.life.class_attempts[DARUMA_CLASS_TRANSIENT], 0);
    life.deadline_at_ms = NOW_MS + 5000;
    judge_put_off(&(struct judge_input){.outcome = &outcome, .life = &life, .now_ms = NOW_MS},
                  &judgement);
    assert_int_equal(judgement.life.state, TASK_DEAD);
    assert_int_equal(judgement.error_class, DARUMA_CLASS_EXPIRED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_end),
        cmocka_unit_test(a_failure_waits_as_the_policy_says_and_counts),
        cmocka_unit_test(a_person_s_word_is_good_for_one_attempt),
        cmocka_unit_test(a_wait_past_the_deadline_ends_as_expired),
        cmocka_unit_test(what_is_in_doubt_stays_so_past_the_deadline),
        cmocka_unit_test(of_several_classes_the_longest_wait_that_may_be_retried_decides),
        cmocka_unit_test(what_was_put_off_is_not_counted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
