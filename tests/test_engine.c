/* SPDX-License-Identifier: MIT
 *
 * The engine, told to the millisecond under a clock that the test moves: the schedules of the
 * requirements, keys, cancel, run, deadlines, what is in doubt.
 */
#include "harness.h"

#include "engine_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig; /* large */

static struct rig_answer always_503(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 503};
}

static struct rig_answer always_429(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.status = 429};
}

static struct rig_answer by_script(struct rig *self, uint32_t attempt)
{
    const int *statuses = self->answer_user;

    return (struct rig_answer){.status = statuses[attempt - 1]};
}

static void open_with(const char *policy, struct rig_answer (*answer)(struct rig *, uint32_t))
{
    memset(&rig, 0, sizeof rig);
    rig.answer = answer;
    rig_open(&rig, policy);
}

static void expect_sent_at(const int64_t *expected_ms, size_t count)
{
    assert_int_equal(rig.sent_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rig.sent_at_ms[i], expected_ms[i]);
    }
}

static enum task_state state_now(void)
{
    rig_ask(&rig, ASK_TASK);
    return rig.life.state;
}

static void a_sync_task_waits_1_2_4_s_and_dies_at_the_tenth_failure(void **state) /* E2 */
{
    const int64_t expected[] = {0, 1000, 3000, 7000, 15000, 31000, 63000, 127000, 255000, 511000};

    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(86400000));
    expect_sent_at(expected, 10);
    assert_int_equal(state_now(), TASK_DEAD);
    assert_int_equal(rig.life.attempts, 10);
    assert_non_null(strstr(rig.log_text, "event=task_failed_permanently"));
    rig_close(&rig);
}

static void a_rate_limited_sync_task_has_four_tries_ten_seconds_apart(void **state) /* E3 */
{
    const int64_t expected[] = {0, 10000, 20000, 30000};

    (void)state;
    open_with("sync", always_429);
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(86400000));
    expect_sent_at(expected, 4);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void errors_that_cannot_get_better_have_one_try(void **state) /* E3 */
{
    static const int statuses[] = {401, 403, 400, 410, 404, 301};

    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        int script[] = {statuses[i], 200};
        open_with("sync", by_script);
        rig.answer_user = script;
        rig_submit(&rig, "", "x", 0, 0);
        rig_run(&rig, INT64_C(86400000));
        assert_int_equal(rig.sent_count, 1);
        assert_int_equal(state_now(), TASK_DEAD);
        rig_close(&rig);
    }
}

static void no_mix_of_errors_has_more_than_ten_tries(void **state) /* E3 */
{
    static int script[20] = {503, 429, 500, 429, 503, 429, 502, 503, 500, 503, 200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(86400000));
    assert_int_equal(rig.sent_count, 10);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void
an_article_waits_5_minutes_and_twice_as_long_each_time(void **state) /* D2.1 D2.2 D2.4 */
{
    const int64_t minute = 60000;
    const int64_t expected[] = {0, 5 * minute, 15 * minute, 35 * minute, 75 * minute, 155 * minute};

    (void)state;
    open_with("articles", always_429);
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(864000000));
    expect_sent_at(expected, 6);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static struct rig_answer hint_of_3_days(struct rig *self, uint32_t attempt)
{
    (void)self;
    return attempt == 1 ? (struct rig_answer){.status = 429, .hint_ms = 3 * INT64_C(86400000)}
                        : (struct rig_answer){.status = 200};
}

static void a_hint_of_days_is_held_to_24_hours(void **state) /* D2.3 */
{
    const int64_t expected[] = {0, 86400000};

    (void)state;
    open_with("articles", hint_of_3_days);
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(864000000));
    expect_sent_at(expected, 2);
    assert_int_equal(state_now(), TASK_SUCCEEDED);
    rig_close(&rig);
}

static void an_llm_task_waits_2_to_the_attempt_times_60_s(void **state) /* A6.2 */
{
    const int64_t expected[] = {0, 120000, 360000, 840000, 1800000};

    (void)state;
    open_with("llm_jobs", always_503);
    rig_submit(&rig, "", "x", 0, 0);
    rig_run(&rig, INT64_C(86400000));
    expect_sent_at(expected, 5);
    rig_close(&rig);
}

static void a_task_that_recovers_keeps_its_answer(void **state)
{
    static int script[] = {503, 503, 200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "k", "x", 0, 0);
    rig_run(&rig, 60000);
    assert_int_equal(state_now(), TASK_SUCCEEDED);
    assert_non_null(strstr(rig.last_headers, "Idempotency-Key: k\n"));
    assert_non_null(strstr(rig.last_headers, "X-Daruma-Attempt: 3\n"));
    assert_non_null(strstr(rig.log_text, "event=queue_empty"));
    rig_close(&rig);
}

static void a_delayed_task_goes_out_on_the_millisecond(void **state) /* I6 */
{
    const int64_t expected[] = {12345};
    static int script[] = {200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "", "x", 12345, 0);
    rig_run(&rig, 60000);
    expect_sent_at(expected, 1);
    rig_close(&rig);
}

static void a_task_due_in_three_hours_is_loaded_when_its_hour_nears(void **state)
{
    const int64_t due_ms = 3 * INT64_C(3600000) + 5;
    const int64_t expected[] = {due_ms};
    static int script[] = {200};
    struct engine_stats stats;

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "", "x", due_ms, 0);
    engine_stats(rig.engine, &stats);
    assert_int_equal(stats.scheduled, 0); /* disk, not memory */
    rig_run(&rig, INT64_C(86400000));
    expect_sent_at(expected, 1);
    rig_close(&rig);
}

static void a_task_past_its_deadline_fails_without_being_sent(void **state) /* I6 */
{
    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "", "x", 5000, 2000);
    rig_run(&rig, 60000);
    assert_int_equal(rig.sent_count, 0);
    assert_int_equal(state_now(), TASK_DEAD);
    rig_close(&rig);
}

static void a_retry_that_would_pass_the_deadline_ends_at_once(void **state) /* I6 */
{
    const int64_t expected[] = {0, 1000, 3000};

    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "", "x", 0, 6000);
    rig_run(&rig, 60000);
    expect_sent_at(expected, 3);
    assert_int_equal(state_now(), TASK_DEAD);
    assert_int_equal(rig.life.settled_at_ms, RIG_START_MS + 3000);
    rig_close(&rig);
}

static void the_same_key_and_request_is_the_same_task(void **state) /* I3 */
{
    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "k", "x", 1000, 0);
    assert_int_equal(rig.reply_kind, REPLY_CREATED);
    int64_t row = rig.id.row;
    rig_submit(&rig, "k", "x", 0, 0);
    assert_int_equal(rig.reply_kind, REPLY_DUPLICATE);
    assert_int_equal(rig.id.row, row);
    rig_submit(&rig, "k", "y", 0, 0);
    assert_int_equal(rig.reply_kind, REPLY_CONFLICT);
    rig_close(&rig);
}

static void a_cancelled_task_is_never_sent(void **state)
{
    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "", "x", 1000, 0);
    rig_ask(&rig, ASK_CANCEL);
    assert_int_equal(rig.reply_kind, REPLY_TASK);
    rig_run(&rig, 60000);
    assert_int_equal(rig.sent_count, 0);
    assert_int_equal(state_now(), TASK_CANCELLED);
    rig_ask(&rig, ASK_CANCEL);
    assert_int_equal(rig.reply_kind, REPLY_NOT_WAITING);
    rig_close(&rig);
}

static void run_takes_a_waiting_task_now_and_the_failure_counts(void **state) /* D4 */
{
    const int64_t expected[] = {0, 500, 2500};

    (void)state;
    open_with("sync", always_503);
    rig_submit(&rig, "", "x", 0, 0);
    rig_pass(&rig, 500);
    rig_ask(&rig, ASK_RUN);
    rig_run(&rig, 2100); /* the second failure waits 2 s */
    expect_sent_at(expected, 3);
    rig_close(&rig);
}

static void a_paused_queue_sends_nothing_but_what_is_run_by_hand(void **state)
{
    static int script[] = {200, 200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    assert_int_equal(rig.reply_kind, REPLY_QUEUE);
    rig_submit(&rig, "", "x", 0, 0);
    rig_submit(&rig, "", "y", 0, 0);
    rig_pass(&rig, 60000);
    assert_int_equal(rig.sent_count, 0);
    rig_ask(&rig, ASK_RUN);
    assert_int_equal(rig.sent_count, 1);
    rig_ask(&rig, ASK_QUEUE_RESUME);
    assert_int_equal(rig.sent_count, 2);
    rig_close(&rig);
}

static void a_run_of_the_queue_takes_all_and_tallies_them(void **state) /* D4.1-4 */
{
    static int script[] = {503, 503, 503, 200, 200, 503};

    (void)state;
    open_with("articles", by_script);
    rig.answer_user = script;
    for (int i = 0; i < 3; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
    assert_int_equal(rig.sent_count, 3);
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(rig.reply_kind, REPLY_RUN);
    assert_int_equal(rig.run.taken, 3);
    rig_settle(&rig);
    rig.id.row = (int64_t)rig.run.id;
    rig_ask(&rig, ASK_RUN_STATE);
    assert_int_equal(rig.run.succeeded, 2);
    assert_int_equal(rig.run.failed, 1);
    assert_int_equal(rig.run.retrying, 1);
    assert_int_equal(rig.run.pending, 0);
    assert_non_null(strstr(rig.log_text, "event=run_done queue=q kind=manual taken=3 succeeded=2 "
                                         "failed=1 retrying=1"));
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_SUCCEEDED], 2);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 1);
    rig_close(&rig);
}

static void a_run_does_not_wait_for_what_was_cancelled(void **state)
{
    (void)state;
    open_with("articles", NULL); /* nobody answers: the one slot stays taken */
    rig.settings.concurrency = 1;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig_submit_to(&rig, "r");
    rig_submit_to(&rig, "r");
    struct task_id waiting = rig.id;
    rig.queue = SPAN("r");
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(rig.run.taken, 1);
    assert_int_equal(rig.run.pending, 1);
    int64_t run = (int64_t)rig.run.id;
    rig.id = waiting;
    rig_ask(&rig, ASK_CANCEL);
    rig.id.row = run;
    rig_ask(&rig, ASK_RUN_STATE);
    assert_int_equal(rig.run.pending, 0);
    assert_int_equal(rig.run.failed, 1);
    rig_close(&rig);
}

static void a_purge_forgets_what_is_not_under_way(void **state)
{
    (void)state;
    open_with("sync", always_503);
    for (int i = 0; i < 5; i++) {
        rig_submit(&rig, "", "x", 1000, 0);
    }
    rig_ask(&rig, ASK_QUEUE_PURGE);
    assert_int_equal(rig.reply_kind, REPLY_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 0);
    rig_run(&rig, 60000);
    assert_int_equal(rig.sent_count, 0);
    rig_close(&rig);
}

static void a_queue_deleted_by_force_takes_its_tasks_with_it(void **state)
{
    struct record record;
    struct error err;
    bool found = true;

    (void)state;
    open_with("sync", NULL); /* the first one stays in flight for now */
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig_submit_to(&rig, "r");
    struct task_id flying = rig.id;
    rig.queue = SPAN("r");
    rig_ask(&rig, ASK_QUEUE_DELETE);
    assert_int_equal(rig.reply_kind, REPLY_QUEUE_NOT_EMPTY);
    rig.force = true;
    rig_ask(&rig, ASK_QUEUE_DELETE);
    rig_submit_to(&rig, "r");
    assert_int_equal(rig.reply_kind, REPLY_UNKNOWN_QUEUE);
    rig.answer = always_503;
    rig_run(&rig, 60000);
    assert_int_equal(rig.sent_count, 1);
    struct arena *arena = arena_new(1 << 16);
    assert_int_equal(store_read_task(rig.store, flying, 0, arena, &record, &found, &err), 0);
    assert_false(found);
    arena_free(arena);
    rig_close(&rig);
}

static void what_is_past_its_keeping_time_is_forgotten(void **state)
{
    static int script[] = {200, 200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "k", "x", 0, 0);
    assert_int_equal(state_now(), TASK_SUCCEEDED);
    rig_pass(&rig, 999);
    rig_submit(&rig, "k", "x", 0, 0);
    assert_int_equal(rig.reply_kind, REPLY_DUPLICATE);
    rig_pass(&rig, 1); /* the key is free on the millisecond, the task goes with the next round */
    rig_submit(&rig, "k", "x", 5000000, 0);
    assert_int_equal(rig.reply_kind, REPLY_CREATED);
    rig_pass(&rig, 60000);
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.queue_counts[TASK_SUCCEEDED], 0);
    assert_int_equal(rig.queue_counts[TASK_WAITING], 1);
    rig_close(&rig);
}

static void a_rate_is_never_exceeded(void **state)
{
    static int script[RIG_SENDS_MAX];

    (void)state;
    for (size_t i = 0; i < RIG_SENDS_MAX; i++) {
        script[i] = 200;
    }
    open_with("sync", by_script);
    rig.answer_user = script;
    rig.settings.rate_per_second = 10;
    rig.settings.rate_burst = 5;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 25; i++) {
        rig_submit_to(&rig, "r");
    }
    assert_int_equal(rig.sent_count, 5); /* the burst */
    rig_run(&rig, 60000);
    assert_int_equal(rig.sent_count, 25);
    for (size_t i = 5; i < 25; i++) {
        assert_true(rig.sent_at_ms[i] >= (int64_t)(i - 4) * 100);
        assert_true(rig.sent_at_ms[i] <= (int64_t)(i - 4) * 100 + 2);
    }
    rig_close(&rig);
}

static void one_host_gets_no_more_at_once_than_it_may(void **state)
{
    (void)state;
    open_with("sync", NULL); /* nobody answers yet */
    rig.settings.host_concurrency = 3;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 10; i++) {
        rig_submit_to(&rig, "r");
    }
    assert_int_equal(rig.sent_count, 3);
    assert_int_equal(rig.flight_count, 3);
    static int script[RIG_SENDS_MAX];
    for (size_t i = 0; i < RIG_SENDS_MAX; i++) {
        script[i] = 200;
    }
    rig.answer = by_script;
    rig.answer_user = script;
    rig_settle(&rig);
    assert_int_equal(rig.sent_count, 10);
    assert_int_equal(rig.flight_most, 3);
    rig_close(&rig);
}

/* How many are leased when all but the first have been answered at once. */
static uint64_t leased_behind_one_slow(bool repeatable)
{
    open_with("sync", NULL); /* nobody answers yet */
    rig.settings.concurrency = 2;
    rig.settings.targets[0].repeatable = repeatable;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 12; i++) {
        rig_submit_to(&rig, "r");
    }
    assert_int_equal(rig.sent_count, 2);
    rig.queue = SPAN("r");
    rig_answer_one(&rig, 200); /* one answer, and what it sets going */
    rig_ask(&rig, ASK_QUEUE);
    assert_int_equal(rig.sent_count, 3);
    assert_int_equal(rig.flight_most, 2);
    uint64_t running = rig.queue_counts[TASK_RUNNING];
    static int script[RIG_SENDS_MAX];
    for (size_t i = 0; i < RIG_SENDS_MAX; i++) {
        script[i] = 200;
    }
    rig.answer = by_script;
    rig.answer_user = script;
    rig_settle(&rig);
    assert_int_equal(rig.sent_count, 12);
    assert_int_equal(rig.flight_most, 2); /* leased ahead is not sent ahead */
    rig_close(&rig);
    return running;
}

static void a_target_that_answers_is_leased_ahead_but_never_sent_ahead(void **state)
{
    (void)state;
    assert_int_equal(leased_behind_one_slow(true), 3);
}

static void what_must_not_be_seen_twice_is_not_leased_ahead(void **state)
{
    (void)state;
    assert_int_equal(leased_behind_one_slow(false), 2);
}

static struct rig_answer cut_off(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return (struct rig_answer){.sent = TASK_SENT_MAYBE};
}

static void what_is_in_doubt_at_a_target_that_is_not_repeatable_is_unsettled(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    rig.answer = cut_off;
    rig_open(&rig, "sync");
    struct arena *arena = arena_new(1 << 16);
    engine_submit(rig.engine,
                  &(struct submission){.exchange = 1,
                                       .arena = arena,
                                       .queue = SPAN(RIG_QUEUE),
                                       .options = {.has_repeatable = true, .repeatable = false}});
    rig_run(&rig, INT64_C(86400000));
    assert_int_equal(rig.sent_count, 1);
    assert_int_equal(state_now(), TASK_UNSETTLED);
    rig_ask(&rig, ASK_RUN);
    assert_int_equal(rig.reply_kind, REPLY_NOT_WAITING);
    rig_close(&rig);
}

static void a_waiter_is_woken_by_the_settle_and_by_time(void **state)
{
    static int script[] = {503, 200};

    (void)state;
    open_with("sync", by_script);
    rig.answer_user = script;
    rig_submit(&rig, "", "x", 0, 0);
    struct ask ask = {.kind = ASK_TASK, .exchange = 3, .id = rig.id, .wait_ms = 500};
    engine_ask(rig.engine, &ask);
    uint64_t before = rig.reply_count;
    rig_settle(&rig);
    assert_int_equal(rig.reply_count, before);
    rig_pass(&rig, 500);
    assert_int_equal(rig.reply_count, before + 1);
    assert_int_equal(rig.life.state, TASK_WAITING);
    ask.wait_ms = 60000;
    engine_ask(rig.engine, &ask);
    rig_settle(&rig);
    rig_pass(&rig, 500);
    assert_int_equal(rig.reply_count, before + 2);
    assert_int_equal(rig.life.state, TASK_SUCCEEDED);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sync_task_waits_1_2_4_s_and_dies_at_the_tenth_failure),
        cmocka_unit_test(a_rate_limited_sync_task_has_four_tries_ten_seconds_apart),
        cmocka_unit_test(errors_that_cannot_get_better_have_one_try),
        cmocka_unit_test(no_mix_of_errors_has_more_than_ten_tries),
        cmocka_unit_test(an_article_waits_5_minutes_and_twice_as_long_each_time),
        cmocka_unit_test(a_hint_of_days_is_held_to_24_hours),
        cmocka_unit_test(an_llm_task_waits_2_to_the_attempt_times_60_s),
        cmocka_unit_test(a_task_that_recovers_keeps_its_answer),
        cmocka_unit_test(a_delayed_task_goes_out_on_the_millisecond),
        cmocka_unit_test(a_task_due_in_three_hours_is_loaded_when_its_hour_nears),
        cmocka_unit_test(a_task_past_its_deadline_fails_without_being_sent),
        cmocka_unit_test(a_retry_that_would_pass_the_deadline_ends_at_once),
        cmocka_unit_test(the_same_key_and_request_is_the_same_task),
        cmocka_unit_test(a_cancelled_task_is_never_sent),
        cmocka_unit_test(run_takes_a_waiting_task_now_and_the_failure_counts),
        cmocka_unit_test(a_paused_queue_sends_nothing_but_what_is_run_by_hand),
        cmocka_unit_test(a_run_of_the_queue_takes_all_and_tallies_them),
        cmocka_unit_test(a_run_does_not_wait_for_what_was_cancelled),
        cmocka_unit_test(a_purge_forgets_what_is_not_under_way),
        cmocka_unit_test(a_queue_deleted_by_force_takes_its_tasks_with_it),
        cmocka_unit_test(what_is_past_its_keeping_time_is_forgotten),
        cmocka_unit_test(a_rate_is_never_exceeded),
        cmocka_unit_test(one_host_gets_no_more_at_once_than_it_may),
        cmocka_unit_test(a_target_that_answers_is_leased_ahead_but_never_sent_ahead),
        cmocka_unit_test(what_must_not_be_seen_twice_is_not_leased_ahead),
        cmocka_unit_test(what_is_in_doubt_at_a_target_that_is_not_repeatable_is_unsettled),
        cmocka_unit_test(a_waiter_is_woken_by_the_settle_and_by_time),
    };
    return HARNESS_RUN(argc, argv, tests);
}
