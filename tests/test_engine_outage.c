/* SPDX-License-Identifier: MIT
 *
 * A target that is down, under a clock that the test moves: its queue stops, burns no attempts, tries
 * now and then, and comes back without a wave. And a target that says it is gone.
 */
#include "harness.h"

#include "engine_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_MS INT64_C(1000)
#define MINUTE_MS (60 * SECOND_MS)
#define RATE      500
#define TRY_MS    (5 * SECOND_MS)

static struct rig rig; /* large */

/* When the target is there: the test's own. */
static bool (*is_up)(int64_t at_ms);
static struct rig_answer down_answer;

static int64_t now_ms(void)
{
    return rig.now_ms - RIG_START_MS;
}

static struct rig_answer by_time(struct rig *self, uint32_t attempt)
{
    (void)self, (void)attempt;
    return is_up(now_ms()) ? (struct rig_answer){.status = 200} : down_answer;
}

static bool never(int64_t at_ms)
{
    (void)at_ms;
    return false;
}

static bool always(int64_t at_ms)
{
    (void)at_ms;
    return true;
}

static void prepare_small(struct rig *self)
{
    self->settings.outage_after = 5;
    self->settings.outage_try_ms = TRY_MS;
}

static void prepare_large(struct rig *self)
{
    self->settings.rate_per_second = RATE;
    self->settings.rate_burst = 100;
    self->settings.concurrency = 64;
    self->settings.host_concurrency = 64;
    self->settings.outage_after = 20;
    self->settings.outage_try_ms = TRY_MS;
}

static void open_as(void (*prepare)(struct rig *), bool (*up)(int64_t), size_t sends_max)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = by_time;
    rig.prepare = prepare;
    rig.sends_max = sends_max;
    rig.backlog_max = 1000000;
    rig.keep_ms = INT64_C(86400000) * 365;
    is_up = up;
    down_answer = (struct rig_answer){.status = 503};
    rig_open(&rig, "sync");
}

static void add(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rig_submit(&rig, "", "x", 0, 0);
    }
}

static uint64_t count_in(enum task_state state)
{
    rig_ask(&rig, ASK_QUEUE);
    return rig.queue_counts[state];
}

/* --- the numbers --------------------------------------------------------------------------------------- */

#define NIGHT_TASKS 100000

static int64_t down_from_ms, down_until_ms;

static bool outside_the_outage(int64_t at_ms)
{
    return at_ms < down_from_ms || at_ms >= down_until_ms;
}

struct tally {
    uint64_t succeeded, lost_attempt;
};

static int tally_one(void *user, const struct record *record)
{
    struct tally *tally = user;

    tally->succeeded += record->life.state == TASK_SUCCEEDED;
    tally->lost_attempt += record->life.attempts > 1 || record->life.state == TASK_DEAD;
    return 0;
}

static struct tally tally_all(void)
{
    struct tally tally = {0};
    struct store_filter filter = {.states = STORE_ALL_STATES, .limit = 1000};

    do {
        struct arena *arena = arena_new(64 << 20);
        assert_int_equal(
            store_list(rig.store, &filter, arena, tally_one, &tally, &filter.after_row, NULL), 0);
        arena_free(arena);
    } while (filter.after_row != 0);
    return tally;
}

/* The most that were sent in any second that begins after `from_ms`. */
static size_t most_in_a_second(int64_t from_ms)
{
    size_t most = 0, first = 0;

    for (size_t i = 0; i < rig.sent_count; i++) {
        if (rig.sent_at_ms[i] < from_ms) {
            first = i + 1;
            continue;
        }
        while (rig.sent_at_ms[i] - rig.sent_at_ms[first] >= SECOND_MS) {
            first++;
        }
        most = i - first + 1 > most ? i - first + 1 : most;
    }
    return most;
}

static void live_through(int64_t from_ms, struct rig_answer how, int64_t latency_ms)
{
    open_as(prepare_large, outside_the_outage, 2 * NIGHT_TASKS);
    down_from_ms = from_ms;
    down_until_ms = from_ms + 10 * MINUTE_MS;
    down_answer = how;
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    add(NIGHT_TASKS);
    rig.latency_ms = latency_ms;
    rig_ask(&rig, ASK_QUEUE_RESUME);
    rig_wait(&rig, down_until_ms);
    uint64_t left = NIGHT_TASKS - count_in(TASK_SUCCEEDED);
    int64_t back_ms = now_ms();
    while (count_in(TASK_SUCCEEDED) < NIGHT_TASKS && now_ms() < 30 * MINUTE_MS) {
        rig_wait(&rig, SECOND_MS);
    }
    struct tally tally = tally_all();
    size_t most = most_in_a_second(down_until_ms);
    double drained = (double)left * 1000 / (double)(now_ms() - back_ms);
    print_message("most %zu a second, %" PRIu64 " lost an attempt, drained at %.0f a second\n",
                  most, tally.lost_attempt, drained);
    assert_int_equal(tally.succeeded, NIGHT_TASKS);
    assert_true(most <= RATE * 11 / 10);
    assert_true(tally.lost_attempt <= NIGHT_TASKS / 100);
    assert_true(drained >= RATE * 0.8);
    rig_close(&rig);
}

static void after_ten_minutes_of_outage_a_hundred_thousand_tasks_come_back_at_the_rate(void **state)
{
    (void)state;
    live_through(0, (struct rig_answer){.sent = TASK_SENT_NO}, 20);
}

static void an_outage_in_the_middle_of_the_work_costs_no_more(void **state)
{
    (void)state;
    live_through(20 * SECOND_MS, (struct rig_answer){.status = 503}, 90);
}

/* --- trials ---------------------------------------------------------------------------------------------- */

static void
a_target_that_is_down_is_tried_by_one_task_at_a_time_and_that_does_not_count(void **state)
{
    (void)state;
    open_as(prepare_small, never, 4000);
    add(50);
    size_t before = rig.sent_count;
    assert_true(before >= 5);
    rig_wait(&rig, 10 * MINUTE_MS);
    assert_in_range(rig.sent_count - before, 115, 121); /* one in each five seconds */
    assert_true(rig.flight_most <= 1);
    struct tally tally = tally_all();
    assert_true(tally.lost_attempt == 0);
    assert_int_equal(count_in(TASK_WAITING), 50);
    assert_non_null(strstr(rig.log_text, "event=outage_began queue=q failures=5"));
    is_up = always;
    rig_wait(&rig, 2 * TRY_MS + 10 * SECOND_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED), 50);
    assert_non_null(strstr(rig.log_text, "event=outage_ended queue=q"));
    rig_close(&rig);
}

static void any_answer_of_somebody_ends_an_outage(void **state)
{
    (void)state;
    open_as(prepare_small, never, 4000);
    add(20);
    down_answer = (struct rig_answer){.status = 400};
    rig_wait(&rig, 30 * SECOND_MS);
    assert_int_equal(count_in(TASK_DEAD), 20);
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    assert_int_equal(view.outage_since_ms, 0);
    rig_close(&rig);
}

static void what_was_not_sent_says_nothing_about_the_target(void **state) /* I6 */
{
    (void)state;
    open_as(prepare_small, never, 4000);
    add(5);
    rig_submit(&rig, "", "x", 0, 20 * SECOND_MS); /* its deadline passes while it is held */
    struct task_id id = rig.id;
    size_t before = rig.sent_count;
    rig_wait(&rig, 2 * MINUTE_MS);
    assert_int_equal(rig_life(&rig, id).state, TASK_DEAD);
    assert_int_equal(rig_life(&rig, id).failed_class, DARUMA_CLASS_EXPIRED + 1);
    struct queue_view view;
    engine_queue_view(rig.engine, 0, &view);
    assert_int_not_equal(view.outage_since_ms, 0); /* still down */
    assert_null(strstr(rig.log_text, "event=outage_ended"));
    assert_in_range(rig.sent_count - before, 20, 25);
    rig_close(&rig);
}

static void a_person_can_send_through_an_outage_and_that_counts(void **state) /* D4.4 */
{
    (void)state;
    open_as(prepare_small, never, 4000);
    add(6);
    struct task_id id = rig.id;
    assert_int_equal(rig_life(&rig, id).attempts, 0); /* held from the start */
    size_t before = rig.sent_count;
    rig.id = id;
    rig_ask(&rig, ASK_RUN);
    assert_int_equal(rig.sent_count, before + 1);
    struct life life = rig_life(&rig, id);
    assert_int_equal(life.attempts, 1);
    assert_int_equal(life.wait_ms, 1000); /* the next automatic time, by the policy */
    rig_ask(&rig, ASK_QUEUE_RUN);
    assert_int_equal(rig.sent_count, before + 7);
    is_up = always;
    rig.id = id;
    rig_ask(&rig, ASK_RUN); /* an answer to a person is an answer: the queue comes back */
    rig_wait(&rig, 30 * SECOND_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED), 6);
    rig_close(&rig);
}

/* --- coming back ------------------------------------------------------------------------------------------- */

static uint32_t up_count; /* so many are answered, then none */

static bool for_a_few(int64_t at_ms)
{
    (void)at_ms;
    return up_count > 0 && up_count-- > 0;
}

static void a_target_that_is_let_in_and_fails_again_costs_nobody_an_attempt(void **state)
{
    (void)state;
    open_as(prepare_small, never, 4000);
    add(60);
    uint64_t lost = tally_all().lost_attempt;
    rig.latency_ms = 50;
    is_up = for_a_few;
    for (int i = 0; i < 6; i++) {
        up_count = 7; /* several are under way when it fails again */
        rig_wait(&rig, 3 * TRY_MS);
        assert_int_equal(up_count, 0);
    }
    assert_int_equal(tally_all().lost_attempt, lost);
    assert_int_equal(count_in(TASK_SUCCEEDED), 42);
    assert_true(rig.flight_most <= 10);
    rig_close(&rig);
}

static bool three_seconds_of_six(int64_t at_ms)
{
    return at_ms / (3 * SECOND_MS) % 2 == 0;
}

static void a_target_that_flaps_gets_everything_in_the_end(void **state)
{
    (void)state;
    open_as(prepare_large, three_seconds_of_six, 20000);
    rig.latency_ms = 30;
    add(5000);
    rig_wait(&rig, 10 * MINUTE_MS);
    struct tally tally = tally_all();
    print_message("%" PRIu64 " lost an attempt\n", tally.lost_attempt);
    assert_int_equal(tally.succeeded, 5000);
    assert_true(rig.flight_most <= 64);
    assert_true(most_in_a_second(0) <= RATE + 100);
    rig_close(&rig);
}

static void prepare_ahead(struct rig *self)
{
    prepare_small(self);
    self->settings.concurrency = 3;
    self->settings.host_concurrency = 2; /* one of three waits for its host */
    self->settings.outage_after = 2;
}

static void what_was_leased_ahead_goes_back_uncounted(void **state)
{
    (void)state;
    open_as(prepare_ahead, always, 4000);
    rig.answer = NULL; /* by hand */
    add(20);
    rig_answer_one(&rig, 200); /* many are leased ahead now */
    rig_answer_one(&rig, 200);
    assert_true(count_in(TASK_RUNNING) > 3);
    rig_answer_one(&rig, 503);
    rig_answer_one(&rig, 503);
    assert_true(rig.flight_count <= 1); /* nothing more went out */
    assert_int_equal(count_in(TASK_RUNNING), rig.flight_count);
    if (rig.flight_count > 0) {
        rig_answer_one(&rig, 503);
    }
    assert_int_equal(count_in(TASK_RUNNING), 0);
    rig.answer = by_time;
    rig_wait(&rig, MINUTE_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED), 20);
    assert_true(tally_all().lost_attempt <= 3);
    rig_close(&rig);
}

static void prepare_one_host(struct rig *self)
{
    prepare_ahead(self);
    self->settings.host_concurrency = 0; /* what is ahead waits for a turn of the queue */
}

static void what_a_person_wants_run_and_was_leased_ahead_goes_out_in_an_outage(void **state)
{
    struct queue_view view;

    (void)state;
    open_as(prepare_one_host, always, 4000);
    rig.answer = NULL; /* by hand */
    rig_ask(&rig, ASK_QUEUE_PAUSE);
    add(20);
    rig_ask(&rig, ASK_QUEUE_RUN);
    rig_answer_one(&rig, 200); /* many are leased ahead now */
    rig_answer_one(&rig, 200);
    rig_answer_one(&rig, 503);
    rig_answer_one(&rig, 503);
    engine_queue_view(rig.engine, 0, &view);
    assert_true(view.outage_since_ms != 0);
    while (rig.flight_count > 0) {
        rig_answer_one(&rig, 200);
    }
    assert_int_equal(count_in(TASK_SUCCEEDED), 18);
    rig_close(&rig);
}

static void a_queue_that_was_changed_is_not_held_by_what_went_before(void **state)
{
    (void)state;
    open_as(prepare_small, never, 4000);
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    for (int i = 0; i < 10; i++) {
        rig_submit_to(&rig, "r");
    }
    size_t before = rig.sent_count;
    rig_wait(&rig, SECOND_MS * 4);
    assert_int_equal(rig.sent_count, before); /* down */
    is_up = always;
    rig.settings.outage_after = 0; /* off from now on */
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig.queue = SPAN("r");
    rig.latency_ms = SECOND_MS; /* not one after the other */
    rig_wait(&rig, 3 * SECOND_MS);
    assert_int_equal(count_in(TASK_SUCCEEDED), 10);
    rig_close(&rig);
}

static void weeks_of_trials_do_not_fill_a_trail(void **state)
{
    struct record record;
    bool found;

    (void)state;
    open_as(prepare_small, never, 600000);
    add(1);
    struct task_id id = rig.id;
    rig_wait(&rig, 6 * MINUTE_MS * 60); /* five failures, by the policy; then trials */
    assert_true(rig.sent_count > 4000);
    struct arena *arena = arena_new(1 << 20);
    assert_int_equal(store_read_task(rig.store, id, READ_TRAIL, arena, &record, &found, NULL), 0);
    assert_true(record.trail_count <= 50);
    assert_int_equal(record.life.attempts, 5);
    arena_free(arena);
    rig_close(&rig);
}

static void prepare_slow(struct rig *self)
{
    self->settings.rate_per_second = 2;
    self->settings.rate_burst = 1;
}

static void a_busy_server_does_not_put_off_what_waits_for_its_rate(void **state)
{
    (void)state;
    open_as(prepare_slow, always, 100);
    add(10);
    rig_turn(&rig, 5 * SECOND_MS, 7);
    assert_int_equal(rig.sent_count, 10);
    rig_close(&rig);
}

/* --- 410 --------------------------------------------------------------------------------------------------- */

static int status_of_a, status_of_b;

static struct rig_answer by_target(struct rig *self, uint32_t attempt)
{
    (void)attempt;
    bool is_a = strcmp(self->last_url, "http://a/") == 0;
    return (struct rig_answer){.status = is_a ? status_of_a : status_of_b};
}

static void prepare_two(struct rig *self)
{
    self->settings.target_count = 2;
    self->settings.targets[1] = self->settings.targets[0];
    self->settings.targets[0].name = SPAN("a");
    self->settings.targets[0].url = SPAN("http://a/");
    self->settings.targets[1].name = SPAN("b");
    self->settings.targets[1].url = SPAN("http://b/");
}

static void open_two(void)
{
    memset(&rig, 0, sizeof rig);
    rig.answer = by_target;
    rig.prepare = prepare_two;
    rig.keep_ms = INT64_C(86400000);
    rig_open(&rig, "sync");
    status_of_a = 410;
    status_of_b = 200;
}

static uint32_t stopped_now(size_t queue)
{
    struct queue_view view;

    engine_queue_view(rig.engine, queue, &view);
    return view.stopped;
}

static void a_target_that_is_gone_gets_nothing_more(void **state)
{
    (void)state;
    open_two();
    add(1); /* the first attempt goes to the first target */
    assert_string_equal(rig.last_url, "http://a/");
    assert_int_equal(rig_life(&rig, rig.id).state, TASK_DEAD);
    assert_int_equal(stopped_now(0), 1);
    assert_non_null(strstr(rig.log_text, "event=target_stopped queue=q target=a"));
    for (int i = 0; i < 5; i++) {
        add(1);
        assert_string_equal(rig.last_url, "http://b/");
    }
    rig_restart(&rig); /* which remembers */
    assert_int_equal(stopped_now(0), 1);
    add(1);
    assert_string_equal(rig.last_url, "http://b/");
    rig_close(&rig);
}

static void a_queue_without_a_target_left_holds_until_it_is_resumed(void **state)
{
    (void)state;
    open_two();
    status_of_b = 410;
    add(2); /* each target says it once */
    assert_int_equal(stopped_now(0), 3);
    size_t before = rig.sent_count;
    add(5);
    rig_wait(&rig, MINUTE_MS);
    rig_restart(&rig);
    rig_wait(&rig, MINUTE_MS);
    assert_int_equal(rig.sent_count, before);
    assert_int_equal(count_in(TASK_WAITING), 5);
    status_of_a = status_of_b = 200;
    rig_ask(&rig, ASK_QUEUE_RESUME);
    assert_int_equal(stopped_now(0), 0);
    assert_int_equal(count_in(TASK_SUCCEEDED), 5);
    rig_restart(&rig);
    assert_int_equal(stopped_now(0), 0);
    rig_close(&rig);
}

static void a_late_410_does_not_stop_another_target_in_its_place(void **state)
{
    (void)state;
    open_two();
    rig.answer = NULL;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig_submit_to(&rig, "r"); /* to a */
    rig.settings.targets[0].url = SPAN("http://moved/");
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    rig_answer_one(&rig, 410);
    assert_int_equal(stopped_now(1), 0);
    rig_close(&rig);
}

static void a_change_brings_targets_back_wherever_they_stand_now(void **state)
{
    (void)state;
    open_two();
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    status_of_a = 200;
    status_of_b = 410;
    rig_submit_to(&rig, "r");
    rig.answer = NULL;
    rig_submit_to(&rig, "r");
    rig_answer_one(&rig, 503); /* its second attempt goes to b */
    rig.answer = by_target;
    rig_wait(&rig, 2 * SECOND_MS);
    assert_int_equal(stopped_now(1), 2);
    rig.settings.targets[0] = rig.settings.targets[1]; /* b is the first one now */
    rig.settings.target_count = 1;
    assert_int_equal(rig_change(&rig), REPLY_QUEUE);
    assert_int_equal(stopped_now(1), 0);
    rig_restart(&rig);
    assert_int_equal(stopped_now(1), 0);
    rig_close(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            after_ten_minutes_of_outage_a_hundred_thousand_tasks_come_back_at_the_rate),
        cmocka_unit_test(an_outage_in_the_middle_of_the_work_costs_no_more),
        cmocka_unit_test(
            a_target_that_is_down_is_tried_by_one_task_at_a_time_and_that_does_not_count),
        cmocka_unit_test(any_answer_of_somebody_ends_an_outage),
        cmocka_unit_test(what_was_not_sent_says_nothing_about_the_target),
        cmocka_unit_test(a_person_can_send_through_an_outage_and_that_counts),
        cmocka_unit_test(a_target_that_is_let_in_and_fails_again_costs_nobody_an_attempt),
        cmocka_unit_test(a_target_that_flaps_gets_everything_in_the_end),
        cmocka_unit_test(what_was_leased_ahead_goes_back_uncounted),
        cmocka_unit_test(what_a_person_wants_run_and_was_leased_ahead_goes_out_in_an_outage),
        cmocka_unit_test(a_queue_that_was_changed_is_not_held_by_what_went_before),
        cmocka_unit_test(weeks_of_trials_do_not_fill_a_trail),
        cmocka_unit_test(a_busy_server_does_not_put_off_what_waits_for_its_rate),
        cmocka_unit_test(a_target_that_is_gone_gets_nothing_more),
        cmocka_unit_test(a_queue_without_a_target_left_holds_until_it_is_resumed),
        cmocka_unit_test(a_late_410_does_not_stop_another_target_in_its_place),
        cmocka_unit_test(a_change_brings_targets_back_wherever_they_stand_now),
    };
    return HARNESS_RUN(argc, argv, tests);
}
