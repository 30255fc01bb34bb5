/* SPDX-License-Identifier: MIT
 *
 * The life of an asynchronous operation on an event loop whose time the test moves: when the done
 * callback runs and when it must not, which answers still count, what may be done from inside the
 * callbacks. Many operations on one loop are in test_retry_async_loop.c.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/gate.h>
#include <daruma/policy.h>
#include <daruma/trail.h>

#include <stdlib.h>
#include <string.h>

/* One operation and what is seen of it. */
struct flight {
    struct fake_loop fake;
    struct daruma_retry_options options;
    struct daruma_retry_op op;
    struct fake_hooks hooks;
    struct daruma_attempt attempts[FAKE_RECORD_MAX];
    uint32_t calls;
    int answer_now; /* what the call answers from inside itself */
    bool is_answering;
    void (*in_call)(struct flight *flight);
    void (*in_done)(struct flight *flight);
    bool is_inside; /* of start, finish or cancel: nothing may be called back that ends it */
    uint32_t done_count;
    int code;
    bool had_error;
    struct daruma_error error;
};

static void flight_call(void *user, struct daruma_retry_op *op,
                        const struct daruma_attempt *attempt)
{
    struct flight *flight = user;

    assert_ptr_equal(op, &flight->op);
    flight->attempts[flight->calls++ % FAKE_RECORD_MAX] = *attempt;
    if (flight->in_call != NULL) {
        flight->in_call(flight);
    }
    if (flight->is_answering) {
        assert_true(daruma_retry_async_finish(op, attempt->generation, flight->answer_now, NULL));
    }
}

static void flight_done(void *user, struct daruma_retry_op *op, int code,
                        const struct daruma_error *error)
{
    struct flight *flight = user;

    assert_ptr_equal(op, &flight->op);
    assert_false(flight->is_inside);
    flight->done_count++;
    flight->code = code;
    flight->had_error = error != NULL;
    flight->error = error != NULL ? *error : (struct daruma_error){0};
    assert_int_equal(flight->error.code, code);
    if (flight->in_done != NULL) {
        flight->in_done(flight);
    }
}

static void flight_init(struct flight *flight)
{
    memset(flight, 0, sizeof *flight);
    fake_loop_init(&flight->fake, 1);
    flight->options =
        (struct daruma_retry_options){.loop = &flight->fake.loop,
                                      .backoff = daruma_backoff_exponential(FAKE_BASE_MS),
                                      .on_retry = fake_on_retry,
                                      .user = &flight->hooks};
}

static int start(struct flight *flight)
{
    bool was_inside = flight->is_inside;

    flight->is_inside = true;
    int failed =
        daruma_retry_async_start(&flight->op, flight_call, flight, &flight->options, flight_done);
    flight->is_inside = was_inside;
    return failed;
}

/* Answers the attempt that was begun last. */
static bool finish(struct flight *flight, int code)
{
    flight->is_inside = true;
    bool counted = daruma_retry_async_finish(
        &flight->op, flight->attempts[flight->calls - 1].generation, code, NULL);
    flight->is_inside = false;
    return counted;
}

static bool cancel(struct flight *flight)
{
    flight->is_inside = true;
    bool counted = daruma_retry_async_cancel(&flight->op);
    flight->is_inside = false;
    return counted;
}

/* It ended once, like this, and nothing is left behind. */
static void has_ended(struct flight *flight, int code, uint32_t calls)
{
    assert_int_equal(flight->done_count, 1);
    assert_int_equal(flight->code, code);
    assert_int_equal(flight->had_error, code != 0);
    assert_int_equal(flight->calls, calls);
    assert_int_equal(flight->fake.armed_ms, -1);
    assert_int_equal(daruma_retry_next_timeout_ms(&flight->fake.loop), -1);
    assert_int_equal(daruma_retry_tick(&flight->fake.loop), 0);
    assert_int_equal(flight->done_count, 1);
}

static void an_operation_costs_128_bytes(void **state)
{
    (void)state;
    assert_true(sizeof(struct daruma_retry_op) <= 128);
}

static void a_success_is_told_by_the_next_tick(void **state) /* B3.2 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.calls, 1);
    assert_int_equal(flight.attempts[0].number, 1);
    assert_int_equal(flight.attempts[0].deadline_ms, 0);
    assert_int_equal(daruma_retry_next_timeout_ms(&flight.fake.loop), -1); /* nothing to wait for */
    assert_true(finish(&flight, 0));
    assert_int_equal(flight.done_count, 0);
    assert_int_equal(flight.fake.armed_ms, FAKE_START_MS); /* at once */
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 1);
    assert_int_equal(flight.fake.roll_count, 0);
}

static void the_third_try_succeeds(void **state) /* B3.2, B8 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    assert_int_equal(start(&flight), 0);
    for (int i = 0; i < 2; i++) {
        assert_true(finish(&flight, 5));
        assert_int_equal(flight.fake.armed_ms, flight.fake.now_ms + (FAKE_BASE_MS << i));
        assert_true(fake_loop_fire(&flight.fake));
        assert_int_equal(flight.attempts[i + 1].number, i + 2);
    }
    assert_true(finish(&flight, 0));
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 3);
    assert_int_equal(flight.hooks.retry_count, 2);
    assert_int_equal(flight.hooks.retry_attempts[1], 2);
    assert_int_equal(flight.hooks.delays_ms[1], 2 * FAKE_BASE_MS);
}

static void calls_that_answer_at_once_go_the_same_way(void **state) /* B3.2, B6 */
{
    for (int answer = 0; answer <= 5; answer += 5) {
        struct flight flight;
        flight_init(&flight);
        flight.is_answering = true;
        flight.answer_now = answer;
        assert_int_equal(start(&flight), 0);
        assert_int_equal(flight.done_count, 0);
        assert_in_range(fake_loop_run(&flight.fake, 100), 1, 8);
        has_ended(&flight, answer, answer == 0 ? 1 : DARUMA_MAX_RETRIES + 1);
    }
    (void)state;
}

static void the_last_failure_itself_is_told(void **state) /* B6 */
{
    struct flight flight;
    struct daruma_error error = {.type = "net", .message = "down", .code = 9, .source = &flight};

    (void)state;
    flight_init(&flight);
    flight.options.max_retries = DARUMA_NO_RETRIES;
    assert_int_equal(start(&flight), 0);
    assert_true(daruma_retry_async_finish(&flight.op, flight.attempts[0].generation, 9, &error));
    error.message = "gone"; /* a copy was taken */
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 9, 1);
    assert_string_equal(flight.error.message, "down");
    assert_ptr_equal(flight.error.source, &flight);
}

static void condition_hint_and_trail_work_as_in_the_synchronous_form(void **state) /* B5 */
{
    struct flight flight;
    struct daruma_trail_entry entries[4];
    struct daruma_trail trail = {.entries = entries, .capacity = 4};
    struct daruma_error error = {.retry_after_ms = 3000};

    (void)state;
    flight_init(&flight);
    flight.options.trail = &trail;
    flight.options.condition = fake_condition;
    flight.hooks.refuse_at = 2;
    assert_int_equal(start(&flight), 0);
    assert_true(daruma_retry_async_finish(&flight.op, flight.attempts[0].generation, 7, &error));
    assert_int_equal(flight.fake.armed_ms, FAKE_START_MS + 3000);
    assert_true(fake_loop_fire(&flight.fake));
    assert_true(finish(&flight, 8));
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 8, 2);
    assert_int_equal(trail.count, 2);
    assert_int_equal(trail.stop, DARUMA_STOP_CONDITION);
    assert_int_equal(entries[0].delay_ms, 3000);
    assert_int_equal(entries[0].code, 7);
    assert_int_equal(entries[1].code, 8);
    assert_int_equal(entries[1].delay_ms, 0);
}

static void an_attempt_over_its_time_is_abandoned_and_its_answer_dropped(void **state) /* B5 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.attempt_timeout_ms = 1000;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.attempts[0].deadline_ms, FAKE_START_MS + 1000);
    assert_true(fake_loop_fire(&flight.fake)); /* over: now it waits */
    assert_false(finish(&flight, 0));
    assert_true(fake_loop_fire(&flight.fake)); /* the second attempt */
    assert_int_equal(flight.calls, 2);
    assert_int_equal(flight.fake.now_ms, FAKE_START_MS + 1000 + FAKE_BASE_MS);
    assert_false(daruma_retry_async_finish(&flight.op, flight.attempts[0].generation, 0, NULL));
    assert_true(finish(&flight, 0));
    assert_false(finish(&flight, 7)); /* once is enough */
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 2);
    assert_false(finish(&flight, 0)); /* also after the end */
}

static void the_last_abandoned_attempt_is_told_as_timed_out(void **state) /* B5 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.attempt_timeout_ms = 1000;
    flight.options.max_retries = 1;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(fake_loop_run(&flight.fake, 100), 4);
    has_ended(&flight, DARUMA_TIMED_OUT, 2);
    assert_string_equal(flight.error.type, "timeout");
}

static void the_deadline_of_the_whole_ends_an_attempt_in_flight(void **state) /* B5 */
{
    struct flight flight;
    struct daruma_trail trail = {0};

    (void)state;
    flight_init(&flight);
    flight.options.timeout_ms = 2500;
    flight.options.attempt_timeout_ms = 1000;
    flight.options.max_retries = 9;
    flight.options.trail = &trail;
    assert_int_equal(start(&flight), 0);
    (void)fake_loop_run(&flight.fake, 100); /* never answers */
    has_ended(&flight, DARUMA_TIMED_OUT, 3);
    assert_int_equal(flight.fake.now_ms, FAKE_START_MS + 2500);
    assert_int_equal(flight.attempts[2].deadline_ms, FAKE_START_MS + 2500);
    assert_int_equal(trail.stop, DARUMA_STOP_DEADLINE);
}

static void a_wait_past_the_deadline_ends_it_at_once_with_the_real_error(void **state) /* B5 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.timeout_ms = FAKE_BASE_MS;
    assert_int_equal(start(&flight), 0);
    assert_true(finish(&flight, 5));
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 5, 1);
    assert_int_equal(flight.fake.now_ms, FAKE_START_MS);
}

static void a_tick_that_comes_after_the_deadline_begins_no_attempt(void **state) /* B5 */
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.timeout_ms = FAKE_BASE_MS + 50;
    assert_int_equal(start(&flight), 0);
    assert_true(finish(&flight, 5));
    flight.fake.now_ms += 5000; /* the event loop was busy */
    (void)fake_loop_run(&flight.fake, 100);
    has_ended(&flight, 5, 1);
}

static void a_cancelled_operation_is_told_once_by_the_tick(void **state)
{
    for (int waiting = 0; waiting <= 1; waiting++) {
        struct flight flight;
        struct daruma_trail trail = {0};
        flight_init(&flight);
        flight.options.trail = &trail;
        flight.options.attempt_timeout_ms = 1000 * waiting; /* with a timer and without */
        assert_int_equal(start(&flight), 0);
        if (waiting) {
            assert_true(finish(&flight, 5));
        }
        assert_true(cancel(&flight));
        assert_false(cancel(&flight));
        assert_false(finish(&flight, 0));
        assert_int_equal(flight.done_count, 0);
        assert_true(fake_loop_fire(&flight.fake));
        has_ended(&flight, DARUMA_CANCELLED, 1);
        assert_int_equal(flight.fake.now_ms, FAKE_START_MS);
        assert_int_equal(trail.stop, DARUMA_STOP_CANCELLED);
        assert_false(cancel(&flight));
    }
    (void)state;
}

static void what_has_ended_cannot_be_cancelled(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    assert_false(daruma_retry_async_cancel(NULL));
    assert_false(cancel(&flight)); /* never started */
    assert_int_equal(start(&flight), 0);
    assert_true(finish(&flight, 0));
    assert_false(cancel(&flight)); /* ready: the success stands */
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 1);
}

static void cancel_itself(struct flight *flight)
{
    assert_true(daruma_retry_async_cancel(&flight->op));
}

static void a_call_may_cancel_its_own_operation(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.attempt_timeout_ms = 1000;
    flight.in_call = cancel_itself;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.done_count, 0);
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, DARUMA_CANCELLED, 1);
}

static void cancel_in_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                               uint64_t delay_ms)
{
    struct flight *flight = user;

    (void)attempt;
    (void)error;
    (void)delay_ms;
    assert_true(daruma_retry_async_cancel(&flight->op));
    assert_false(daruma_retry_async_cancel(&flight->op));
    assert_int_equal(daruma_retry_tick(&flight->fake.loop), 0); /* not from in here */
}

static bool cancel_in_condition(void *user, const struct daruma_error *error, uint32_t attempt)
{
    cancel_in_on_retry(user, attempt, error, 0);
    return attempt % 2 == 1;
}

/* From finish and from the tick, with a timer of the attempt and without. */
static void condition_and_on_retry_may_cancel_their_operation(void **state)
{
    for (int kind = 0; kind < 8; kind++) {
        struct flight flight;
        struct daruma_trail_entry entry;
        struct daruma_trail trail = {.entries = &entry, .capacity = 1};
        flight_init(&flight);
        flight.options.user = &flight;
        flight.options.trail = &trail;
        flight.options.attempt_timeout_ms = kind & 1 ? 1000 : 0;
        flight.options.on_retry = kind & 2 ? cancel_in_on_retry : NULL;
        flight.options.condition = kind & 2 ? NULL : cancel_in_condition;
        assert_int_equal(start(&flight), 0);
        if ((kind & 5) == 5) {
            assert_true(fake_loop_fire(&flight.fake)); /* its time is over */
        } else {
            assert_true(finish(&flight, 5));
        }
        assert_int_equal(flight.done_count, 0);
        (void)fake_loop_run(&flight.fake, 100);
        has_ended(&flight, DARUMA_CANCELLED, 1);
        assert_int_equal(trail.stop, DARUMA_STOP_CANCELLED);
        assert_int_equal(entry.code, (kind & 5) == 5 ? DARUMA_TIMED_OUT : 5);
    }
    (void)state;
}

static void tick_inside(struct flight *flight)
{
    assert_int_equal(daruma_retry_tick(&flight->fake.loop), 0);
}

static void finish_and_tick(struct flight *flight)
{
    assert_true(daruma_retry_async_finish(&flight->op,
                                          flight->attempts[flight->calls - 1].generation, 0, NULL));
    tick_inside(flight);
}

static void a_tick_from_inside_a_callback_does_nothing(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.in_call = finish_and_tick;
    flight.in_done = tick_inside;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.done_count, 0);
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 1);
}

/* An operation in memory of its own, which its done callback gives back. */
static void free_in_done(void *user, struct daruma_retry_op *op, int code,
                         const struct daruma_error *error)
{
    free(op);
    assert_int_equal(code, error->code); /* which does not live in the operation */
    *(int *)user += 1;
}

static void call_into_nothing(void *user, struct daruma_retry_op *op,
                              const struct daruma_attempt *attempt)
{
    (void)user;
    (void)op;
    (void)attempt;
}

static void an_operation_may_be_freed_inside_done(void **state)
{
    struct fake_loop fake;
    struct daruma_retry_options options = {.loop = &fake.loop, .attempt_timeout_ms = 10};
    int done_count = 0;

    (void)state;
    fake_loop_init(&fake, 1);
    for (int i = 0; i < 50; i++) {
        struct daruma_retry_op *op = calloc(1, sizeof *op);
        assert_non_null(op);
        assert_int_equal(
            daruma_retry_async_start(op, call_into_nothing, &done_count, &options, free_in_done),
            0);
        if (i % 2 == 0) {
            assert_true(daruma_retry_async_cancel(op));
        }
    }
    (void)fake_loop_run(&fake, 10000);
    assert_int_equal(done_count, 50);
}

static void start_again(struct flight *flight)
{
    if (flight->done_count < 3) {
        flight->is_answering = true;
        assert_int_equal(start(flight), 0);
    }
}

static void an_operation_may_be_started_again_inside_done(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.in_done = start_again;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(start(&flight), DARUMA_INVALID); /* not while it is under way */
    uint32_t first = flight.attempts[0].generation;
    assert_true(finish(&flight, 0));
    assert_int_equal(daruma_retry_tick(&flight.fake.loop), 1); /* one end a tick: it always ends */
    assert_int_equal(flight.done_count, 1);
    assert_int_equal(flight.calls, 2);
    assert_false(daruma_retry_async_finish(&flight.op, first, 0, NULL)); /* of another life */
    (void)fake_loop_run(&flight.fake, 100);
    assert_int_equal(flight.done_count, 3);
    assert_int_equal(flight.code, 0);
    assert_int_equal(flight.fake.armed_ms, -1);
}

static void a_closed_gate_holds_the_first_attempt(void **state)
{
    struct flight flight;
    struct daruma_gate gate = {0};

    (void)state;
    flight_init(&flight);
    flight.options.gate = &gate;
    daruma_gate_hold(&gate, FAKE_START_MS, 700);
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.calls, 0);
    assert_int_equal(flight.fake.armed_ms, FAKE_START_MS + 700);
    daruma_gate_hold(&gate, FAKE_START_MS, 900); /* held for longer meanwhile */
    assert_true(fake_loop_fire(&flight.fake));
    assert_int_equal(flight.calls, 0);
    assert_true(fake_loop_fire(&flight.fake));
    assert_int_equal(flight.fake.now_ms, FAKE_START_MS + 900);
    assert_true(finish(&flight, 0));
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, 0, 1);

    flight_init(&flight);
    flight.options.gate = &gate;
    flight.options.timeout_ms = 900;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.done_count, 0);
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, DARUMA_TIMED_OUT, 0);
}

static void an_open_breaker_is_told_by_the_tick_before_any_call(void **state)
{
    struct flight flight;
    struct daruma_breaker breaker = {0};

    (void)state;
    flight_init(&flight);
    flight.options.breaker = &breaker;
    flight.options.max_retries = DARUMA_BREAKER_FAILURES_MAX + 3;
    flight.options.backoff = daruma_backoff_exponential(1);
    flight.options.attempt_timeout_ms = 1; /* an abandoned attempt counts as a failure */
    assert_int_equal(start(&flight), 0);
    (void)fake_loop_run(&flight.fake, 100);
    has_ended(&flight, DARUMA_TIMED_OUT, DARUMA_BREAKER_FAILURES_MAX);
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_IS_OPEN);

    int64_t now_ms = flight.fake.now_ms;
    flight_init(&flight);
    flight.fake.now_ms = now_ms;
    flight.options.breaker = &breaker;
    assert_int_equal(start(&flight), 0);
    assert_int_equal(flight.done_count, 0);
    assert_true(fake_loop_fire(&flight.fake));
    has_ended(&flight, DARUMA_BREAKER_OPEN, 0);
    assert_in_range(flight.error.retry_after_ms, 1, DARUMA_BREAKER_OPEN_MS * 12 / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_operation_costs_128_bytes),
        cmocka_unit_test(a_success_is_told_by_the_next_tick),
        cmocka_unit_test(the_third_try_succeeds),
        cmocka_unit_test(calls_that_answer_at_once_go_the_same_way),
        cmocka_unit_test(the_last_failure_itself_is_told),
        cmocka_unit_test(condition_hint_and_trail_work_as_in_the_synchronous_form),
        cmocka_unit_test(an_attempt_over_its_time_is_abandoned_and_its_answer_dropped),
        cmocka_unit_test(the_last_abandoned_attempt_is_told_as_timed_out),
        cmocka_unit_test(the_deadline_of_the_whole_ends_an_attempt_in_flight),
        cmocka_unit_test(a_wait_past_the_deadline_ends_it_at_once_with_the_real_error),
        cmocka_unit_test(a_tick_that_comes_after_the_deadline_begins_no_attempt),
        cmocka_unit_test(a_cancelled_operation_is_told_once_by_the_tick),
        cmocka_unit_test(what_has_ended_cannot_be_cancelled),
        cmocka_unit_test(a_call_may_cancel_its_own_operation),
        cmocka_unit_test(condition_and_on_retry_may_cancel_their_operation),
        cmocka_unit_test(a_tick_from_inside_a_callback_does_nothing),
        cmocka_unit_test(an_operation_may_be_freed_inside_done),
        cmocka_unit_test(an_operation_may_be_started_again_inside_done),
        cmocka_unit_test(a_closed_gate_holds_the_first_attempt),
        cmocka_unit_test(an_open_breaker_is_told_by_the_tick_before_any_call),
    };
    return HARNESS_RUN(argc, argv, tests);
}
