/* SPDX-License-Identifier: MIT
 *
 * route_judge: the table of outcomes, line by line and for each replay rule; what is written for
 * each verdict; and how probes count. C1, C3.1, C3.2, C4.
 */
#include "harness.h"

#include "task/route_judge.h"

#include <string.h>

#define NOW_MS INT64_C(1800000000000)

static struct route_settings route_with(enum route_replay replay)
{
    struct route_settings route = {
        .replay = replay, .keep_ms = 1000, .deadline_ms = 5000, .timeout_ms = 100};

    assert_int_equal(daruma_policy_create(daruma_policy_named("client"), &route.policy, NULL), 0);
    if (replay != ROUTE_REPLAY_ALL) {
        static const uint16_t usual[] = {401, 403, 407, 408, 425, 429};
        for (size_t i = 0; i < 6; i++) {
            route.release[route.release_count++].status = usual[i];
        }
        route.release[route.release_count++] = (struct route_release){503, true};
    }
    return route;
}

static struct outcome answered(int status, bool has_hint)
{
    struct outcome outcome = {.sent = TASK_SENT_YES, .status = status, .has_hint = has_hint};

    (void)daruma_class_of_status(status, &outcome.error_class); /* 2xx: not read */
    return outcome;
}

static void every_outcome_has_its_verdict_in_every_mode(void **state)
{
#define K ROUTE_KEEP_SUCCESS
#define F ROUTE_KEEP_FAILURE
#define R ROUTE_RELEASE
#define U ROUTE_UNSETTLED
    static const struct {
        int status;
        bool has_hint;
        enum route_verdict by_mode[3];
    } rows[] = {
        {200, false, {K, K, K}}, {201, false, {K, K, K}}, {204, false, {K, K, K}},
        {302, false, {K, K, K}}, {304, false, {K, K, K}}, {400, false, {F, F, R}},
        {401, false, {F, R, R}}, {402, false, {F, F, R}}, {403, false, {F, R, R}},
        {404, false, {F, F, R}}, {407, false, {F, R, R}}, {408, false, {F, R, R}},
        {409, false, {F, F, R}}, {410, false, {F, F, R}}, {422, false, {F, F, R}},
        {425, false, {F, R, R}}, {429, false, {F, R, R}}, {429, true, {F, R, R}},
        {500, false, {F, U, U}}, {500, true, {F, U, U}},  {501, false, {F, U, U}},
        {502, false, {F, U, U}}, {503, false, {F, U, U}}, {503, true, {F, R, R}},
        {504, false, {F, U, U}}, {529, true, {F, U, U}},  {599, false, {F, U, U}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int mode = 0; mode < 3; mode++) {
            struct route_settings route = route_with((enum route_replay)mode);
            struct outcome outcome = answered(rows[i].status, rows[i].has_hint);
            if (route_verdict(&route, &outcome, false) != rows[i].by_mode[mode]) {
                fail_msg("status %d, hint %d, mode %d", rows[i].status, rows[i].has_hint, mode);
            }
            outcome.sent = TASK_SENT_MAYBE; /* the answer was cut off */
            assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_UNSETTLED);
            outcome.sent = TASK_SENT_NO;
            assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_NOT_SENT);
        }
    }
}

static void release_is_the_route_s_own_word(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_ALL);
    struct outcome outcome = answered(500, false);

    (void)state;
    route.release[0] = (struct route_release){500, false};
    route.release_count = 1;
    assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_RELEASE);
    route = route_with(ROUTE_REPLAY_SETTLED);
    route.release_count = 0;
    outcome = answered(503, true);
    assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_KEEP_FAILURE);
    outcome = answered(429, false);
    assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_KEEP_FAILURE);
}

static void an_answer_without_a_frame_is_in_doubt_only_when_asked(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_ALL);
    struct outcome outcome = answered(200, false);

    (void)state;
    assert_int_equal(route_verdict(&route, &outcome, true), ROUTE_KEEP_SUCCESS);
    route.unframed = ROUTE_UNFRAMED_DOUBT;
    assert_int_equal(route_verdict(&route, &outcome, true), ROUTE_UNSETTLED);
    assert_int_equal(route_verdict(&route, &outcome, false), ROUTE_KEEP_SUCCESS);
}

/* --- what is written ------------------------------------------------------------------------------- */

struct judged {
    struct judgement judgement;
    bool releases;
};

static struct life running(uint32_t attempts)
{
    return (struct life){.state = TASK_RUNNING,
                         .attempts = attempts,
                         .attempts_all = attempts,
                         .fence = 1,
                         .flags = LIFE_ROUTE | LIFE_ONCE | LIFE_FORCED,
                         .deadline_at_ms = NOW_MS + 5000};
}

static struct judged judge(const struct route_settings *route, struct outcome outcome,
                           struct life life)
{
    struct judged judged;

    (void)route_judge(
        &(struct route_judge_input){
            .route = route, .attempt = {.outcome = &outcome, .life = &life, .now_ms = NOW_MS}},
        &judged.judgement, &judged.releases);
    return judged;
}

static void what_is_kept_is_answered_and_has_its_time(void **state) /* C1 */
{
    struct route_settings route = route_with(ROUTE_REPLAY_ALL);
    struct judged judged = judge(&route, answered(500, false), running(1));
    const struct life *life = &judged.judgement.life;

    (void)state;
    assert_int_equal(life->state, TASK_FAILED); /* not a dead letter: its caller knows */
    assert_int_equal(life->flags, LIFE_ROUTE | LIFE_ONCE | LIFE_SENT | LIFE_ANSWERED);
    assert_int_equal(life->keep_until_ms, NOW_MS + 1000);
    assert_int_equal(life->settled_at_ms, NOW_MS);
    assert_int_equal(life->failed_class, DARUMA_CLASS_TRANSIENT + 1);
    assert_false(judged.releases);
    judged = judge(&route, answered(201, false), running(1));
    assert_int_equal(judged.judgement.life.state, TASK_SUCCEEDED);
    assert_int_equal(judged.judgement.life.keep_until_ms, NOW_MS + 1000);
    assert_true(judged.judgement.succeeded);
}

static void a_released_key_is_free_and_the_task_ended(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct judged judged = judge(&route, answered(429, true), running(1));

    (void)state;
    assert_true(judged.releases);
    assert_int_equal(judged.judgement.life.state, TASK_FAILED);
    assert_int_equal(judged.judgement.life.flags & LIFE_LETTER, 0);
    assert_int_equal(judged.judgement.life.keep_until_ms, 0);
}

static void what_was_not_sent_is_tried_until_the_deadline_and_then_released(void **state) /* C4 */
{
    struct route_settings route = route_with(ROUTE_REPLAY_ALL);
    struct outcome outcome = {.sent = TASK_SENT_NO, .error_class = DARUMA_CLASS_TRANSIENT};
    struct judged judged = judge(&route, outcome, running(1));
    struct life late = running(1);

    (void)state;
    assert_int_equal(judged.judgement.life.state, TASK_WAITING);
    assert_true(judged.judgement.life.due_at_ms > NOW_MS);
    assert_false(judged.releases);
    judged = judge(&route, outcome, running(3)); /* the policy has three attempts */
    assert_int_equal(judged.judgement.life.state, TASK_FAILED);
    assert_true(judged.releases);
    late.deadline_at_ms = NOW_MS + 10;
    judged = judge(&route, outcome, late);
    assert_int_equal(judged.judgement.life.state, TASK_FAILED);
    assert_true(judged.releases);
    route.not_sent = ROUTE_NOT_SENT_RELEASE;
    judged = judge(&route, outcome, running(1));
    assert_true(judged.releases);
    assert_int_equal(judged.judgement.life.state, TASK_FAILED);
}

static void a_certain_failure_can_be_kept(void **state) /* C3.2 */
{
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct outcome outcome = {.sent = TASK_SENT_NO, .error_class = DARUMA_CLASS_TRANSIENT};

    (void)state;
    route.not_sent = ROUTE_NOT_SENT_FAIL;
    struct judged judged = judge(&route, outcome, running(1));
    assert_int_equal(judged.judgement.life.state, TASK_FAILED);
    assert_int_equal(judged.judgement.life.keep_until_ms, NOW_MS + 1000);
    assert_false(judged.releases);
}

static void doubt_is_held_probed_or_repeated_as_the_route_says(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct outcome outcome = {.sent = TASK_SENT_MAYBE, .error_class = DARUMA_CLASS_TRANSIENT};
    struct judged judged = judge(&route, outcome, running(1));

    (void)state;
    assert_int_equal(judged.judgement.life.state, TASK_UNSETTLED);
    assert_int_equal(judged.judgement.life.probe_due_ms, 0);
    route.ambiguous = ROUTE_AMBIGUOUS_PROBE;
    route.probe.every_ms = 50;
    judged = judge(&route, outcome, running(1));
    assert_int_equal(judged.judgement.life.state, TASK_UNSETTLED);
    assert_int_equal(judged.judgement.life.probe_due_ms, NOW_MS + 50);
    route.ambiguous = ROUTE_AMBIGUOUS_RETRY;
    struct life repeatable = running(1);
    repeatable.flags &= ~(uint32_t)LIFE_ONCE;
    judged = judge(&route, answered(500, false), repeatable);
    assert_int_equal(judged.judgement.life.state, TASK_WAITING);
    assert_int_not_equal(judged.judgement.life.flags & LIFE_SENT, 0);
    repeatable.attempts = 3; /* no attempt left, and still nobody knows */
    judged = judge(&route, outcome, repeatable);
    assert_int_equal(judged.judgement.life.state, TASK_UNSETTLED);
}

/* I5: a route that allows repeating now does not speak for what was sent before. */
static void what_was_sent_as_not_repeatable_is_not_repeated_by_a_changed_route(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct outcome outcome = {.sent = TASK_SENT_MAYBE, .error_class = DARUMA_CLASS_TRANSIENT};
    struct life life = running(1);

    (void)state;
    route.ambiguous = ROUTE_AMBIGUOUS_RETRY;
    life.flags &= ~(uint32_t)LIFE_ONCE;
    assert_int_equal(judge(&route, outcome, life).judgement.life.state, TASK_WAITING);
    life.flags |= LIFE_ONCE;
    assert_int_equal(judge(&route, outcome, life).judgement.life.state, TASK_UNSETTLED);
}

/* --- probes ---------------------------------------------------------------------------------------- */

static void misses_count_only_when_they_are_spread_over_time(void **state)
{
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct outcome missing = answered(404, false);
    struct life life = {.state = TASK_UNSETTLED, .fence = 3, .flags = LIFE_ROUTE}, next;
    int64_t since_ms = NOW_MS;

    (void)state;
    route.probe = (struct route_probe){.every_ms = 5, .misses = 3, .settle_after_ms = 300};
    assert_int_equal(route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 99, &next),
                     ROUTE_PROBE_AGAIN);
    assert_int_equal(next.probe_count, 0); /* too early */
    assert_int_equal(next.probe_due_ms, NOW_MS + 104);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(
            route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 100 * i, &next),
            ROUTE_PROBE_AGAIN);
        assert_int_equal(next.probe_count, i);
        life = next;
    }
    assert_int_equal(route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 299, &next),
                     ROUTE_PROBE_AGAIN);
    assert_int_equal(next.probe_count, 2);
    assert_int_equal(route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 300, &next),
                     ROUTE_PROBE_NOT_DONE);
    assert_int_equal(next.state, TASK_FAILED);
    route.probe.on_missing = ROUTE_MISSING_SEND;
    assert_int_equal(route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 300, &next),
                     ROUTE_PROBE_NOT_DONE);
    assert_int_equal(next.state, TASK_WAITING);
    assert_int_equal(next.deadline_at_ms, NOW_MS + 5300);
    life.attempts = route.policy.attempts_max; /* I6 */
    assert_int_equal(route_judge_probe(&route, &missing, &life, since_ms, NOW_MS + 300, &next),
                     ROUTE_PROBE_NOT_DONE);
    assert_int_equal(next.state, TASK_FAILED);
}

static void only_a_404_says_no_and_only_a_2xx_says_yes(void **state)
{
    static const int unclear[] = {301, 400, 401, 403, 410, 429, 500, 503};
    struct route_settings route = route_with(ROUTE_REPLAY_SETTLED);
    struct life life = {.state = TASK_UNSETTLED}, next;
    struct outcome outcome;

    (void)state;
    route.probe = (struct route_probe){.every_ms = 5, .misses = 1};
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        outcome = answered(unclear[i], false);
        assert_int_equal(route_judge_probe(&route, &outcome, &life, NOW_MS, NOW_MS, &next),
                         ROUTE_PROBE_AGAIN);
        assert_int_equal(next.probe_count, 0);
    }
    outcome = (struct outcome){.sent = TASK_SENT_MAYBE, .status = 404};
    assert_int_equal(route_judge_probe(&route, &outcome, &life, NOW_MS, NOW_MS, &next),
                     ROUTE_PROBE_AGAIN);
    outcome = answered(200, false);
    assert_int_equal(route_judge_probe(&route, &outcome, &life, NOW_MS, NOW_MS, &next),
                     ROUTE_PROBE_FOUND);
    assert_int_equal(next.state, TASK_SUCCEEDED);
    assert_int_equal(next.keep_until_ms, NOW_MS + 1000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_outcome_has_its_verdict_in_every_mode),
        cmocka_unit_test(release_is_the_route_s_own_word),
        cmocka_unit_test(an_answer_without_a_frame_is_in_doubt_only_when_asked),
        cmocka_unit_test(what_is_kept_is_answered_and_has_its_time),
        cmocka_unit_test(a_released_key_is_free_and_the_task_ended),
        cmocka_unit_test(what_was_not_sent_is_tried_until_the_deadline_and_then_released),
        cmocka_unit_test(a_certain_failure_can_be_kept),
        cmocka_unit_test(doubt_is_held_probed_or_repeated_as_the_route_says),
        cmocka_unit_test(what_was_sent_as_not_repeatable_is_not_repeated_by_a_changed_route),
        cmocka_unit_test(misses_count_only_when_they_are_spread_over_time),
        cmocka_unit_test(only_a_404_says_no_and_only_a_2xx_says_yes),
    };

    return HARNESS_RUN(argc, argv, tests);
}
