/* SPDX-License-Identifier: MIT
 *
 * What the asynchronous form shares with the synchronous one: the same seed gives the same waits,
 * and breaker, budget and gate are asked and told alike. And what it owes the event loop.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/breaker.h>
#include <daruma/budget.h>
#include <daruma/gate.h>

#include <string.h>

#define SEED 77

/* An operation whose attempts answer at once, unless they are silent. */
struct flight {
    struct fake_loop fake;
    struct fake_hooks hooks;
    struct daruma_retry_options options;
    struct daruma_retry_op op;
    uint32_t fail_count; /* so many attempts fail, then one succeeds */
    bool is_silent;
    uint32_t call_count;
    uint32_t generation; /* of the last attempt */
    uint32_t done_count;
    int code;
};

static void begin(void *user, struct daruma_retry_op *op, const struct daruma_attempt *attempt)
{
    struct flight *flight = user;

    flight->call_count++;
    flight->generation = attempt->generation;
    if (!flight->is_silent) {
        int code = flight->call_count <= flight->fail_count ? FAKE_CODE : 0;
        assert_true(daruma_retry_async_finish(op, attempt->generation, code, NULL));
    }
}

static void note_end(void *user, struct daruma_retry_op *op, int code,
                     const struct daruma_error *error)
{
    struct flight *flight = user;

    (void)op;
    if (code == FAKE_CODE) { /* given without an error: filled in as in the synchronous form */
        assert_int_equal(error->code, FAKE_CODE);
        assert_string_equal(error->type, "call");
        assert_true(strlen(error->message) > 0);
    }
    flight->done_count++;
    flight->code = code;
}

static void flight_init(struct flight *flight)
{
    *flight = (struct flight){.options = {.on_retry = fake_on_retry}};
    fake_loop_init(&flight->fake, SEED);
    flight->options.loop = &flight->fake.loop;
    flight->options.user = &flight->hooks;
}

/* One life of the operation to its end; its code. */
static int fly(struct flight *flight, uint32_t fail_count)
{
    flight->fail_count = fail_count;
    flight->call_count = flight->done_count = 0;
    assert_int_equal(
        daruma_retry_async_start(&flight->op, begin, flight, &flight->options, note_end), 0);
    (void)fake_loop_run(&flight->fake, 1000);
    assert_int_equal(flight->done_count, 1);
    return flight->code;
}

static void the_same_seed_gives_the_waits_of_the_synchronous_form(void **state)
{
    (void)state;
    for (int jitter = DARUMA_JITTER_NONE; jitter <= DARUMA_JITTER_DECORRELATED; jitter++) {
        struct daruma_backoff backoff = {.jitter = (enum daruma_jitter)jitter,
                                         .base_ms = 100,
                                         .max_ms = 1000000,
                                         .jitter_factor = 0.5};
        struct fake_world world;
        struct flight flight;
        fake_world_init(&world);
        fake_init(&world.fake, SEED);
        flight_init(&flight);
        world.options.backoff = flight.options.backoff = backoff;
        world.options.max_retries = flight.options.max_retries = 20;
        assert_int_equal(fake_world_run(&world), FAKE_CODE);
        assert_int_equal(fly(&flight, UINT32_MAX), FAKE_CODE);
        assert_int_equal(flight.hooks.retry_count, 20);
        assert_memory_equal(flight.hooks.delays_ms, world.hooks.delays_ms,
                            20 * sizeof *world.hooks.delays_ms);
    }
}

static void a_breaker_hears_of_failures_and_of_the_probe(void **state)
{
    struct daruma_breaker breaker = {0};
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.breaker = &breaker;
    flight.options.max_retries = DARUMA_NO_RETRIES;
    for (int i = 1; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
        assert_int_equal(fly(&flight, 1), FAKE_CODE);
    }
    assert_int_equal(fly(&flight, 0), 0); /* not in a row any more */
    for (int i = 0; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
        assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
        assert_int_equal(fly(&flight, 1), FAKE_CODE);
    }
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_IS_OPEN);
    assert_int_equal(fly(&flight, 1), DARUMA_BREAKER_OPEN);
    assert_int_equal(flight.call_count, 0);

    flight.fake.now_ms += 2 * DARUMA_BREAKER_OPEN_MS;
    assert_int_equal(fly(&flight, 1), FAKE_CODE); /* the probe */
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_IS_OPEN);
    flight.fake.now_ms += 4 * DARUMA_BREAKER_OPEN_MS;
    assert_int_equal(fly(&flight, 0), 0);
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
}

static void each_success_earns_and_each_retry_spends(void **state)
{
    struct daruma_budget_options all = {.ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR};
    struct daruma_budget budget;
    struct flight flight;

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &all, NULL), 0);
    flight_init(&flight);
    flight.options.budget = &budget;
    assert_int_equal(fly(&flight, 1), FAKE_CODE); /* nothing earned yet */
    assert_int_equal(flight.call_count, 1);
    assert_int_equal(fly(&flight, 0), 0);
    assert_int_equal(fly(&flight, 0), 0);
    assert_int_equal(fly(&flight, UINT32_MAX), FAKE_CODE);
    assert_int_equal(flight.call_count, 2); /* what has faded is less than a whole one */
}

static void the_last_millisecond_of_a_gate_is_waited_for(void **state)
{
    struct daruma_gate gate = {0};
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.options.gate = &gate;
    daruma_gate_hold(&gate, flight.fake.now_ms, 1);
    assert_int_equal(
        daruma_retry_async_start(&flight.op, begin, &flight, &flight.options, note_end), 0);
    assert_int_equal(flight.call_count, 0);
    assert_int_equal(daruma_retry_next_timeout_ms(&flight.fake.loop), 1);
    (void)fake_loop_run(&flight.fake, 10);
    assert_int_equal(flight.call_count, 1);
    assert_int_equal(flight.done_count, 1);
}

static bool sees_a_timeout(void *user, const struct daruma_error *error, uint32_t attempt)
{
    (void)user;
    (void)attempt;
    assert_int_equal(error->code, DARUMA_TIMED_OUT);
    assert_true(error->recoverable); /* the next may be quicker */
    return false;
}

/* Abandoned, ended, started again: then the answer of the first life comes. */
static void an_answer_of_an_earlier_life_is_dropped(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.is_silent = true;
    flight.options.attempt_timeout_ms = 100;
    flight.options.condition = sees_a_timeout;
    assert_int_equal(fly(&flight, 0), DARUMA_TIMED_OUT);
    uint32_t late = flight.generation;
    for (int life = 0; life < 3; life++) {
        assert_int_equal(
            daruma_retry_async_start(&flight.op, begin, &flight, &flight.options, note_end), 0);
        assert_false(daruma_retry_async_finish(&flight.op, late, 0, NULL));
        assert_true(daruma_retry_async_finish(&flight.op, flight.generation, 0, NULL));
        (void)fake_loop_run(&flight.fake, 10);
        assert_int_equal(flight.code, 0);
    }
}

static void a_timer_that_nobody_waits_for_is_cancelled(void **state)
{
    struct flight flight;

    (void)state;
    flight_init(&flight);
    flight.is_silent = true;
    flight.options.attempt_timeout_ms = 100;
    assert_int_equal(
        daruma_retry_async_start(&flight.op, begin, &flight, &flight.options, note_end), 0);
    assert_int_equal(flight.fake.armed_ms, flight.fake.now_ms + 100);
    assert_true(daruma_retry_async_finish(&flight.op, flight.generation, 0, NULL));
    assert_int_equal(flight.fake.armed_ms, flight.fake.now_ms); /* done is to be told */
    assert_int_equal(daruma_retry_tick(&flight.fake.loop), 1);
    assert_int_equal(flight.fake.armed_ms, -1);
}

static void set_never(void *user, uint64_t delay_ms)
{
    (void)user;
    (void)delay_ms;
    fail_msg("a timer was set that could not be cancelled");
}

static void half_a_timer_is_none(void **state)
{
    static const struct daruma_loop_ops half = {.timer_set = set_never};
    struct daruma_retry_loop loop;
    struct flight flight;

    (void)state;
    flight_init(&flight);
    daruma_retry_loop_init(&loop, &half, NULL);
    flight.options.loop = &loop;
    flight.is_silent = true;
    flight.options.attempt_timeout_ms = 60000;
    assert_int_equal(
        daruma_retry_async_start(&flight.op, begin, &flight, &flight.options, note_end), 0);
    assert_true(daruma_retry_async_cancel(&flight.op));
    assert_int_equal(daruma_retry_tick(&loop), 1);
    assert_int_equal(flight.code, DARUMA_CANCELLED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_waits_of_the_synchronous_form),
        cmocka_unit_test(a_breaker_hears_of_failures_and_of_the_probe),
        cmocka_unit_test(each_success_earns_and_each_retry_spends),
        cmocka_unit_test(the_last_millisecond_of_a_gate_is_waited_for),
        cmocka_unit_test(an_answer_of_an_earlier_life_is_dropped),
        cmocka_unit_test(a_timer_that_nobody_waits_for_is_cancelled),
        cmocka_unit_test(half_a_timer_is_none),
    };
    return HARNESS_RUN(argc, argv, tests);
}
