/* SPDX-License-Identifier: MIT
 *
 * Many deliveries at a time, ends in the middle of them, cancelling, and every allocation of ours
 * failing in its turn.
 */
#include "rig.h"
#include "harness.h"

#include "alloc_fail.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK_ANSWER   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MANY        200
#define WINDOW      8
#define RUNS_MAX    2000
#define EYEBALLS_MS 250 /* longer than libcurl's timers for a second address */

#define GUARD_SECONDS 100 /* a test that hangs is killed */

static const struct target_step answers[] = {TARGET_READS, TARGET_WRITES(OK_ANSWER),
                                             TARGET_REPEATS};

struct crowd {
    struct rig rig; /* first */
    struct delivery deliveries[MANY];
    size_t sent_count;
};

static struct crowd *crowd_new(const struct target_step *steps, size_t count)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);

    assert_non_null(crowd);
    rig_open_script(&crowd->rig, steps, count);
    for (size_t i = 0; i < MANY; i++) {
        crowd->deliveries[i] = rig_delivery(&crowd->rig, i % 2 == 0 ? "POST" : "GET");
        crowd->deliveries[i].ticket = i;
    }
    return crowd;
}

static void crowd_free(struct crowd *crowd)
{
    rig_close(&crowd->rig);
    for (size_t i = 0; i < MANY; i++) {
        delivery_done(&crowd->deliveries[i]);
    }
    free(crowd);
}

static void expect_all_answered(struct crowd *crowd)
{
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(crowd->deliveries[i].outcome.sent, TASK_SENT_YES);
        assert_int_equal(crowd->deliveries[i].outcome.status, 200);
        assert_true(span_is(buf_span(&crowd->deliveries[i].response_body), "ok"));
        assert_int_equal(crowd->deliveries[i].sends, 1);
    }
    assert_int_equal(target_request_count(crowd->rig.target), MANY);
}

static void send_next(struct rig *rig, struct delivery *delivery)
{
    struct crowd *crowd = (struct crowd *)(void *)rig;

    (void)delivery;
    if (crowd->sent_count < MANY) {
        rig_send(rig, &crowd->deliveries[crowd->sent_count++]);
    }
}

static void each_that_comes_back_lets_the_next_one_go_on_its_connection(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new(answers, 3);

    crowd->rig.on_done = send_next;
    for (size_t i = 0; i < WINDOW; i++) {
        send_next(&crowd->rig, NULL);
    }
    rig_wait(&crowd->rig, MANY);
    expect_all_answered(crowd);
    assert_in_range(target_connection_count(crowd->rig.target), 1, WINDOW);
    crowd_free(crowd);
}

static void many_go_at_once(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new(answers, 3);

    for (size_t i = 0; i < MANY; i++) {
        rig_send(&crowd->rig, &crowd->deliveries[i]);
    }
    rig_wait(&crowd->rig, MANY);
    expect_all_answered(crowd);
    crowd_free(crowd);
}

static void cancel_another(struct rig *rig, struct delivery *delivery)
{
    struct crowd *crowd = (struct crowd *)(void *)rig;
    size_t other = (delivery->ticket + 7) % MANY;

    rig_cancel(rig, &crowd->deliveries[other]); /* which may be back already */
}

static void each_comes_back_once_however_many_are_cancelled(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new(answers, 3);
    size_t seen = 0;

    crowd->rig.on_done = cancel_another;
    for (size_t i = 0; i < MANY; i++) {
        rig_send(&crowd->rig, &crowd->deliveries[i]);
    }
    rig_wait(&crowd->rig, MANY);
    rig_end(&crowd->rig);
    for (size_t i = 0; i < MANY; i++) {
        seen += crowd->deliveries[i].outcome.sent == TASK_SENT_YES;
        assert_int_equal(crowd->deliveries[i].outcome.sent == TASK_SENT_NO,
                         crowd->deliveries[i].sends == 0);
    }
    assert_true(seen <= target_request_count(crowd->rig.target));
    assert_int_equal(crowd->rig.done_count, MANY);
    crowd_free(crowd);
}

static void invalid_ones_come_back_in_their_turn_and_not_from_within_send(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_new(answers, 3);

    crowd->rig.on_done = send_next;
    for (size_t i = 0; i < MANY; i++) {
        crowd->deliveries[i].url = SPAN("nowhere");
    }
    send_next(&crowd->rig, NULL);
    rig_wait(&crowd->rig, MANY);
    assert_int_equal(crowd->deliveries[MANY - 1].outcome.error_class, DARUMA_CLASS_INVALID);
    crowd_free(crowd);
}

static void closing_drops_what_is_under_way(void **state)
{
    (void)state;
    static const struct target_step holds[] = {TARGET_READS, TARGET_HOLDS};
    struct crowd *crowd = crowd_new(holds, 2);

    for (size_t i = 0; i < MANY / 2; i++) {
        rig_send(&crowd->rig, &crowd->deliveries[i]);
    }
    crowd->deliveries[MANY - 1].url = SPAN("nowhere"); /* back, and not told yet */
    rig_send(&crowd->rig, &crowd->deliveries[MANY - 1]);
    crowd->deliveries[MANY - 2].timeout_ms = RIG_SENT_MS;
    rig_send(&crowd->rig, &crowd->deliveries[MANY - 2]);
    rig_wait(&crowd->rig, 2);
    rig_end(&crowd->rig);
    assert_int_equal(crowd->rig.done_count, 2);
    crowd_free(crowd);
}

static void close_now(struct rig *rig, struct delivery *delivery)
{
    (void)delivery;
    deliver_close(rig->deliver);
    rig->deliver = NULL;
}

static void the_last_one_back_may_close_the_deliverer(void **state)
{
    (void)state;
    struct rig rig = {.on_done = close_now};
    rig_open_script(&rig, answers, 3);
    struct delivery delivery = rig_delivery(&rig, "GET");

    rig_carry_out(&rig, &delivery);
    assert_int_equal(delivery.outcome.status, 200);
    delivery_done(&delivery);
    rig_close(&rig);
}

static void the_loop_may_go_before_the_deliverer(void **state)
{
    (void)state;
    static const struct target_step holds[] = {TARGET_READS, TARGET_HOLDS};
    struct crowd *crowd = crowd_new(holds, 2);

    for (size_t i = 0; i < WINDOW; i++) { /* with timers that libcurl has to set anew one by one */
        crowd->deliveries[i].timeout_ms = RIG_TIMEOUT_MS - 1000 * (int64_t)i;
        rig_send(&crowd->rig, &crowd->deliveries[i]);
    }
    crowd->deliveries[WINDOW].timeout_ms = EYEBALLS_MS;
    rig_carry_out(&crowd->rig, &crowd->deliveries[WINDOW]);
    loop_free(crowd->rig.loop);
    crowd->rig.loop = NULL;
    crowd_free(crowd);
}

struct storm {
    struct rig rig;           /* first */
    size_t told_before, most; /* until this turn of the loop; in one turn */
};

static void count_turn(void *user)
{
    struct storm *storm = user;
    size_t told = storm->rig.done_count - storm->told_before;

    storm->most = told > storm->most ? told : storm->most;
    storm->told_before = storm->rig.done_count;
}

/* So that the loop looks at its other connections in between. */
static void those_that_end_together_are_told_in_several_turns(void **state)
{
    (void)state;
    static struct delivery deliveries[2 * HTTP_TOLD_A_TURN + 100];
    size_t count = sizeof deliveries / sizeof deliveries[0];
    struct storm storm = {0};
    struct loop_hook *hook = NULL;

    RIG_OPEN(&storm.rig, answers);
    assert_int_equal(
        loop_hook_new(storm.rig.loop, LOOP_HOOK_BEFORE_WAIT, count_turn, &storm, &hook, NULL), 0);
    loop_hook_on(hook);
    for (size_t i = 0; i < count; i++) { /* they end at once: no such scheme */
        deliveries[i] = rig_delivery(&storm.rig, "POST");
        deliveries[i].url = SPAN("gopher://127.0.0.1/");
        rig_send(&storm.rig, &deliveries[i]);
    }
    rig_wait(&storm.rig, count);
    assert_int_equal(storm.most, HTTP_TOLD_A_TURN);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(deliveries[i].outcome.error_class, DARUMA_CLASS_INVALID);
        delivery_done(&deliveries[i]);
    }
    loop_hook_free(hook);
    rig_close(&storm.rig);
}

static struct crowd *crowd_that_keeps_one(void)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);

    assert_non_null(crowd);
    crowd->rig.options = (struct http_options){.handles_kept = 1, .connections_kept = 1};
    rig_open_script(&crowd->rig, answers, 3);
    for (size_t i = 0; i < MANY; i++) {
        crowd->deliveries[i] = rig_delivery(&crowd->rig, "GET");
        crowd->deliveries[i].repeatable = true; /* it takes a connection however long it was idle */
    }
    return crowd;
}

static void send_wave(struct crowd *crowd)
{
    for (size_t i = 0; i < WINDOW; i++) {
        rig_send(&crowd->rig, &crowd->deliveries[crowd->sent_count++]);
    }
    rig_wait(&crowd->rig, WINDOW);
}

static void connections_of_one_wave_serve_the_next(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_that_keeps_one();

    for (int wave = 0; wave < 5; wave++) {
        send_wave(crowd);
        crowd->rig.mono_ms += 1000;
    }
    rig_end(&crowd->rig);
    assert_int_equal(target_request_count(crowd->rig.target), 5 * WINDOW);
    assert_in_range(target_connection_count(crowd->rig.target), 1, WINDOW);
    crowd_free(crowd);
}

static void when_waves_are_over_no_more_is_kept_than_said(void **state)
{
    (void)state;
    struct crowd *crowd = crowd_that_keeps_one();

    send_wave(crowd);
    crowd->rig.mono_ms += 60000;
    for (size_t i = 0; i < WINDOW; i++) {
        rig_carry_out(&crowd->rig, &crowd->deliveries[crowd->sent_count++]);
    }
    target_wait_over(crowd->rig.target, WINDOW - 1); /* all connections but one */
    crowd_free(crowd);
}

/* -- cancelling ---------------------------------------------------------------------------------- */

struct cancelling {
    struct rig rig;
    struct loop_waker *waker;
    struct delivery delivery;
};

static void wake(void *user)
{
    struct cancelling *cancelling = user;

    loop_wake(cancelling->waker);
}

static void cancel(void *user)
{
    struct cancelling *cancelling = user;

    rig_cancel(&cancelling->rig, &cancelling->delivery);
    rig_cancel(&cancelling->rig, &cancelling->delivery); /* twice is once */
}

/* The target says when it has got so far; then the delivery is cancelled. */
static void cancel_when_told(const struct target_step *steps, size_t count, const char *message)
{
    struct cancelling cancelling = {0};
    struct target_script script = {.steps = steps, .count = count};
    struct rig *rig = &cancelling.rig;

    rig_open(rig, &(struct target_plan){
                      .scripts = &script, .count = 1, .told = wake, .user = &cancelling});
    assert_int_equal(loop_waker_new(rig->loop, cancel, &cancelling, &cancelling.waker, NULL), 0);
    cancelling.delivery = rig_delivery(rig, "POST");
    rig_carry_out(rig, &cancelling.delivery);
    rig_expect(&cancelling.delivery, TASK_SENT_MAYBE, message);
    rig_end(rig);
    assert_int_equal(target_request_count(rig->target), 1);
    loop_waker_free(cancelling.waker);
    rig_close(rig);
}

static void cancelled_after_it_was_read_it_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_TELLS, TARGET_HOLDS};

    cancel_when_told(steps, 3, "cancelled (sent: maybe)");
}

static void cancelled_within_the_answer_it_is_maybe_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {
        TARGET_READS, TARGET_WRITES("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"),
        TARGET_TELLS, TARGET_HOLDS};

    cancel_when_told(steps, 4, "cancelled (sent: maybe)");
}

static void cancelled_at_once_it_is_not_sent(void **state)
{
    (void)state;
    struct rig rig = {0};
    RIG_OPEN(&rig, answers);
    struct delivery delivery = rig_delivery(&rig, "POST");

    rig_send(&rig, &delivery);
    rig_cancel(&rig, &delivery);
    rig_wait(&rig, 1);
    rig_expect(&delivery, TASK_SENT_NO, "cancelled (sent: no)");
    rig_end(&rig);
    assert_int_equal(target_request_count(rig.target), 0);
    rig_close(&rig);
}

/* Turn 1, told: lets the target answer and waits until it has. Turn 2, hook: sets the timer; wait:
 * libcurl reads the answer. Turn 3, timer: cancels, before the deliverer has told anybody. */
struct race {
    struct cancelling cancelling; /* first */
    sem_t may_answer;
    struct loop_hook *hook;
    struct loop_timer *timer;
};

static void race_wake(void *user)
{
    struct race *race = user;

    wake(&race->cancelling);
    (void)sem_wait(&race->may_answer);
}

static void race_told(void *user)
{
    struct race *race = user;

    (void)sem_post(&race->may_answer);
    target_wait_over(race->cancelling.rig.target, 1);
    loop_hook_on(race->hook);
}

static void race_before_wait(void *user)
{
    struct race *race = user;

    loop_timer_set(race->timer, 0);
    loop_hook_off(race->hook);
}

static void cancelled_when_the_answer_is_there_it_is_sent(void **state)
{
    (void)state;
    static const struct target_step steps[] = {TARGET_READS, TARGET_TELLS,
                                               TARGET_WRITES(OK_ANSWER)};
    const struct target_script scripts[] = {TARGET_SCRIPT(steps)};
    struct race race = {0};
    struct rig *rig = &race.cancelling.rig;
    struct delivery *delivery = &race.cancelling.delivery;

    assert_int_equal(sem_init(&race.may_answer, 0, 0), 0);
    rig_open(rig, &(struct target_plan){
                      .scripts = scripts, .count = 1, .told = race_wake, .user = &race});
    assert_int_equal(loop_waker_new(rig->loop, race_told, &race, &race.cancelling.waker, NULL), 0);
    assert_int_equal(
        loop_hook_new(rig->loop, LOOP_HOOK_BEFORE_WAIT, race_before_wait, &race, &race.hook, NULL),
        0);
    assert_int_equal(loop_timer_new(rig->loop, cancel, &race, &race.timer, NULL), 0);
    *delivery = rig_delivery(rig, "POST");
    rig_carry_out(rig, delivery);
    rig_expect(delivery, TASK_SENT_YES, "");
    delivery_done(delivery);
    loop_timer_free(race.timer);
    loop_hook_free(race.hook);
    loop_waker_free(race.cancelling.waker);
    rig_close(rig);
}

/* -- every allocation of ours fails in its turn ---------------------------------------------------
 * Not libcurl's: 7.88 divides by zero when it has no memory to note who uses a socket. */

struct ordeal {
    struct target *target;
    struct loop *loop;
    char url[RIG_URL_MAX];
    bool is_back;
};

static void note_back(void *user, struct delivery *delivery)
{
    struct ordeal *ordeal = user;

    (void)delivery;
    ordeal->is_back = true;
    loop_stop(ordeal->loop);
}

/* What holds whatever fails: it comes back if it was taken, and "no" means that nothing went out. */
static int carry_out(struct ordeal *ordeal, struct deliver *deliver)
{
    size_t before = target_request_count(ordeal->target);
    struct delivery delivery = {.method = SPAN("POST"),
                                .url = span_of(ordeal->url),
                                .headers = SPAN("X-A: b\n"),
                                .body = SPAN("body"),
                                .timeout_ms = RIG_TIMEOUT_MS,
                                .response_max = 100};

    ordeal->is_back = false;
    int failed = deliver_send(deliver, &delivery, NULL);
    if (failed == 0) {
        loop_run(ordeal->loop);
        assert_true(ordeal->is_back);
        failed = delivery.outcome.sent == TASK_SENT_YES ? 0 : FAULT_MEMORY;
    }
    if (delivery.outcome.sent == TASK_SENT_NO) {
        assert_int_equal(target_request_count(ordeal->target), before);
    }
    delivery_done(&delivery);
    return failed;
}

static int live_once(void *user)
{
    struct ordeal *ordeal = user;
    struct deliver *deliver = NULL;
    struct error err = {0};

    int failed = loop_new(&ordeal->loop, &err);
    if (failed == 0) {
        failed = http_deliver_open(NULL, ordeal->loop, note_back, ordeal, &deliver, &err);
    }
    for (int i = 0; i < 2 && failed == 0; i++) { /* on a new connection, and on a kept one */
        failed = carry_out(ordeal, deliver);
    }
    deliver_close(deliver);
    loop_free(ordeal->loop);
    ordeal->loop = NULL;
    return failed;
}

static void no_allocation_that_fails_is_more_than_a_failure(void **state)
{
    (void)state;
    struct target_script script = TARGET_SCRIPT(answers);
    struct ordeal ordeal = {0};
    struct alloc_report report = {0};

    (void)alarm(GUARD_SECONDS);
    ordeal.target = target_start(&(struct target_plan){.scripts = &script, .count = 1});
    (void)snprintf(ordeal.url, sizeof ordeal.url, "http://127.0.0.1:%d/",
                   (int)target_port(ordeal.target));
    assert_true(alloc_fail_drive(live_once, &ordeal, RUNS_MAX, &report));
    assert_in_range(report.reported, 10, RUNS_MAX);
    target_free(ordeal.target);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_that_comes_back_lets_the_next_one_go_on_its_connection),
        cmocka_unit_test(many_go_at_once),
        cmocka_unit_test(each_comes_back_once_however_many_are_cancelled),
        cmocka_unit_test(invalid_ones_come_back_in_their_turn_and_not_from_within_send),
        cmocka_unit_test(closing_drops_what_is_under_way),
        cmocka_unit_test(the_last_one_back_may_close_the_deliverer),
        cmocka_unit_test(the_loop_may_go_before_the_deliverer),
        cmocka_unit_test(those_that_end_together_are_told_in_several_turns),
        cmocka_unit_test(connections_of_one_wave_serve_the_next),
        cmocka_unit_test(when_waves_are_over_no_more_is_kept_than_said),
        cmocka_unit_test(cancelled_after_it_was_read_it_is_maybe_sent),
        cmocka_unit_test(cancelled_within_the_answer_it_is_maybe_sent),
        cmocka_unit_test(cancelled_at_once_it_is_not_sent),
        cmocka_unit_test(cancelled_when_the_answer_is_there_it_is_sent),
        cmocka_unit_test(no_allocation_that_fails_is_more_than_a_failure),
    };

    return HARNESS_RUN(argc, argv, tests);
}
