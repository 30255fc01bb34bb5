/* SPDX-License-Identifier: MIT
 *
 * The circuit breaker: every arrow of its diagram under a clock that the test moves, what answers
 * of an earlier state can do (nothing), and what it does to a retry that has one.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/breaker.h>
#include <daruma/dice.h>
#include <daruma/policy.h>
#include <daruma/trail.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS INT64_C(3600000)

/* A breaker, its clock and its dice. */
struct bench {
    struct daruma_breaker breaker;
    struct daruma_dice dice;
    int64_t now_ms;
};

static void bench_init(struct bench *bench, struct daruma_breaker_options options)
{
    *bench = (struct bench){.now_ms = FAKE_START_MS, .dice = daruma_dice_seed(1)};
    assert_int_equal(daruma_breaker_init(&bench->breaker, &options, NULL), 0);
}

static bool enter(struct bench *bench, struct daruma_ticket *ret_ticket)
{
    return daruma_breaker_enter(&bench->breaker, bench->now_ms, ret_ticket, NULL);
}

static uint64_t wait_of(struct bench *bench)
{
    struct daruma_ticket ticket;
    uint64_t wait_ms = 0;

    assert_false(daruma_breaker_enter(&bench->breaker, bench->now_ms, &ticket, &wait_ms));
    assert_true(wait_ms > 0);
    return wait_ms;
}

static void fail_with(struct bench *bench, struct daruma_ticket ticket)
{
    daruma_breaker_failed(&bench->breaker, ticket, bench->now_ms, &bench->dice);
}

static void is_in(const struct bench *bench, enum daruma_breaker_state state)
{
    assert_int_equal(daruma_breaker_state(&bench->breaker), state);
}

static void fail_calls(struct bench *bench, int count)
{
    for (int i = 0; i < count; i++) {
        struct daruma_ticket ticket;
        assert_true(enter(bench, &ticket));
        assert_false(ticket.probe);
        fail_with(bench, ticket);
    }
}

/* Opens it and waits until one caller may try. */
static struct daruma_ticket to_probe(struct bench *bench)
{
    struct daruma_ticket ticket;

    if (daruma_breaker_state(&bench->breaker) == DARUMA_BREAKER_CLOSED) {
        fail_calls(bench, DARUMA_BREAKER_FAILURES_MAX);
    }
    bench->now_ms += (int64_t)wait_of(bench);
    assert_true(enter(bench, &ticket));
    assert_true(ticket.probe);
    is_in(bench, DARUMA_BREAKER_HALF_OPEN);
    return ticket;
}

static void so_many_failures_in_a_row_open_it(void **state)
{
    struct bench bench;
    struct daruma_ticket ticket;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX - 1);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    assert_true(enter(&bench, &ticket));
    daruma_breaker_succeeded(&bench.breaker, ticket); /* not in a row: counted anew */
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX - 1);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    fail_calls(&bench, 1);
    is_in(&bench, DARUMA_BREAKER_IS_OPEN);
    assert_false(enter(&bench, &ticket));
    assert_in_range(wait_of(&bench), DARUMA_BREAKER_OPEN_MS * 8 / 10,
                    DARUMA_BREAKER_OPEN_MS * 12 / 10);
}

static void when_its_time_is_over_exactly_one_caller_goes(void **state)
{
    struct bench bench;
    struct daruma_ticket probe, other;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
    bench.now_ms += (int64_t)wait_of(&bench) - 1;
    assert_int_equal(wait_of(&bench), 1); /* not a millisecond early */
    bench.now_ms++;
    assert_true(enter(&bench, &probe));
    assert_true(probe.probe);
    is_in(&bench, DARUMA_BREAKER_HALF_OPEN);
    for (int i = 0; i < 100; i++) {
        assert_false(enter(&bench, &other));
    }
}

static void a_probe_that_succeeds_closes_it(void **state)
{
    struct bench bench;
    struct daruma_ticket probe;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    probe = to_probe(&bench);
    daruma_breaker_succeeded(&bench.breaker, probe);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX - 1); /* all failures are allowed again */
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    fail_calls(&bench, 1);
    assert_in_range(wait_of(&bench), 800, 1200); /* and the open time begins anew */
}

static void each_failed_probe_doubles_the_open_time_up_to_its_maximum(void **state)
{
    struct bench bench;
    uint64_t plan_ms = DARUMA_BREAKER_OPEN_MS;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    for (int i = 0; i < 80; i++) { /* further than its count of openings goes */
        struct daruma_ticket probe = to_probe(&bench);
        fail_with(&bench, probe);
        is_in(&bench, DARUMA_BREAKER_IS_OPEN);
        plan_ms =
            2 * plan_ms < DARUMA_BREAKER_OPEN_MAX_MS ? 2 * plan_ms : DARUMA_BREAKER_OPEN_MAX_MS;
        uint64_t most_ms = plan_ms * 12 / 10 < DARUMA_BREAKER_OPEN_MAX_MS
                               ? plan_ms * 12 / 10
                               : DARUMA_BREAKER_OPEN_MAX_MS;
        assert_in_range(wait_of(&bench), plan_ms * 8 / 10, most_ms);
    }
}

static void the_open_time_is_spread(void **state)
{
    static const struct {
        double factor;
        uint64_t low_ms, high_ms;
    } cases[] = {{0, 8000, 12000}, {0.5, 5000, 15000}, {1, 0, 20000}}; /* 0: the default */

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t least_ms = UINT64_MAX, most_ms = 0;
        uint64_t slack_ms = (cases[i].high_ms - cases[i].low_ms) / 50;
        for (uint64_t seed = 0; seed < 500; seed++) {
            struct bench bench;
            bench_init(&bench, (struct daruma_breaker_options){.open_ms = 10000,
                                                               .jitter_factor = cases[i].factor});
            bench.dice = daruma_dice_seed(seed);
            fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
            uint64_t wait_ms = wait_of(&bench);
            least_ms = wait_ms < least_ms ? wait_ms : least_ms;
            most_ms = wait_ms > most_ms ? wait_ms : most_ms;
        }
        assert_in_range(least_ms, cases[i].low_ms, cases[i].low_ms + slack_ms);
        assert_in_range(most_ms, cases[i].high_ms - slack_ms, cases[i].high_ms);
    }
}

static void a_probe_that_never_reports_is_replaced(void **state)
{
    struct bench bench;
    struct daruma_ticket lost, next;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    lost = to_probe(&bench);
    uint64_t wait_ms = wait_of(&bench);
    assert_int_equal(wait_ms, DARUMA_BREAKER_OPEN_MS);
    bench.now_ms += (int64_t)wait_ms;
    assert_true(enter(&bench, &next));
    assert_true(next.probe);
    assert_int_not_equal(next.generation, lost.generation);

    /* The first one's word comes too late to count, whatever it says. */
    daruma_breaker_succeeded(&bench.breaker, lost);
    is_in(&bench, DARUMA_BREAKER_HALF_OPEN);
    fail_with(&bench, lost);
    is_in(&bench, DARUMA_BREAKER_HALF_OPEN);
    daruma_breaker_succeeded(&bench.breaker, next);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    fail_with(&bench, lost);
    fail_with(&bench, next); /* nor can a probe report twice */
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX - 1);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
}

static void answers_of_an_earlier_state_change_nothing(void **state)
{
    struct bench bench;
    struct daruma_ticket early, probe;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    assert_true(enter(&bench, &early)); /* under way when it opens */
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
    uint64_t wait_ms = wait_of(&bench);
    daruma_breaker_succeeded(&bench.breaker, early);
    fail_with(&bench, early);
    is_in(&bench, DARUMA_BREAKER_IS_OPEN);
    assert_int_equal(wait_of(&bench), wait_ms);

    probe = to_probe(&bench);
    daruma_breaker_succeeded(&bench.breaker, early);
    fail_with(&bench, early);
    is_in(&bench, DARUMA_BREAKER_HALF_OPEN);
    daruma_breaker_succeeded(&bench.breaker, probe);

    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX - 1);
    fail_with(&bench, early); /* does not count as the last one */
    is_in(&bench, DARUMA_BREAKER_CLOSED);
    daruma_breaker_succeeded(&bench.breaker, early); /* nor does this wipe the count */
    fail_calls(&bench, 1);
    is_in(&bench, DARUMA_BREAKER_IS_OPEN);
}

static void a_zeroed_breaker_is_one_with_the_defaults(void **state)
{
    struct bench zeroed, made;

    (void)state;
    bench_init(&made, (struct daruma_breaker_options){0});
    zeroed = made;
    zeroed.breaker = (struct daruma_breaker){0};
    for (int i = 0; i < 10; i++) {
        fail_with(&zeroed, to_probe(&zeroed));
        fail_with(&made, to_probe(&made));
        assert_int_equal(zeroed.now_ms, made.now_ms);
    }
    assert_int_equal(daruma_breaker_init(&made.breaker, NULL, NULL), 0);
    fail_calls(&made, DARUMA_BREAKER_FAILURES_MAX);
    is_in(&made, DARUMA_BREAKER_IS_OPEN);
}

static void any_clock_will_do(void **state)
{
    /* The first moment, years of uptime, the time since 1970, and around the ends of 40 bits. */
    const int64_t starts_ms[] = {0,
                                 INT64_C(10) * 366 * 24 * HOUR_MS,
                                 INT64_C(1794738600000),
                                 (INT64_C(1) << 40) - 1,
                                 (INT64_C(1) << 40) - 500,
                                 (INT64_C(1) << 40),
                                 (INT64_C(1) << 52)};

    (void)state;
    for (size_t i = 0; i < sizeof starts_ms / sizeof *starts_ms; i++) {
        struct bench bench;
        struct daruma_ticket ticket;
        bench_init(&bench, (struct daruma_breaker_options){0});
        bench.now_ms = starts_ms[i];
        fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
        is_in(&bench, DARUMA_BREAKER_IS_OPEN);
        assert_in_range(wait_of(&bench), 800, 1200);
        ticket = to_probe(&bench);
        assert_int_equal(wait_of(&bench), DARUMA_BREAKER_OPEN_MS); /* one probe only */
        fail_with(&bench, ticket);
        assert_in_range(wait_of(&bench), 1600, 2400);
        bench.now_ms += 5 * 24 * HOUR_MS; /* nobody came for days */
        assert_true(enter(&bench, &ticket));
        daruma_breaker_succeeded(&bench.breaker, ticket);
        is_in(&bench, DARUMA_BREAKER_CLOSED);
    }
}

static void a_clock_that_steps_back_a_little_keeps_it_open(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
    uint64_t wait_ms = wait_of(&bench);
    bench.now_ms -= 700;
    assert_int_equal(wait_of(&bench), wait_ms + 700);
}

static void an_open_time_above_the_default_maximum_is_its_own(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){.open_ms = 2 * HOUR_MS});
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
    assert_in_range(wait_of(&bench), 2 * HOUR_MS * 8 / 10, 2 * HOUR_MS);
}

static void bad_options_are_named(void **state)
{
    const struct {
        struct daruma_breaker_options options;
        const char *name;
    } cases[] = {
        {{.failures_max = -1}, "breaker.failures_max:"},
        {{.failures_max = INT64_C(1) << 31}, "breaker.failures_max:"},
        {{.open_ms = -1}, "breaker.open_ms:"},
        {{.open_ms = 24 * HOUR_MS + 1}, "breaker.open_ms:"},
        {{.open_max_ms = -1}, "breaker.open_max_ms:"},
        {{.open_max_ms = 24 * HOUR_MS + 1}, "breaker.open_max_ms:"},
        {{.open_ms = 100, .open_max_ms = 99}, "breaker.open_max_ms:"},
        {{.open_max_ms = DARUMA_BREAKER_OPEN_MS - 1}, "breaker.open_max_ms:"},
        {{.jitter_factor = -0.01}, "breaker.jitter_factor:"},
        {{.jitter_factor = 1.01}, "breaker.jitter_factor:"},
        {{.jitter_factor = (double)NAN}, "breaker.jitter_factor:"},
    };
    struct daruma_breaker breaker = {.word = 4711};
    struct daruma_error error;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error = (struct daruma_error){0};
        assert_int_equal(daruma_breaker_init(&breaker, &cases[i].options, &error), DARUMA_INVALID);
        assert_int_equal(error.code, DARUMA_INVALID);
        assert_memory_equal(error.message, cases[i].name, strlen(cases[i].name));
        assert_int_equal(daruma_breaker_init(&breaker, &cases[i].options, NULL), DARUMA_INVALID);
        assert_int_equal(breaker.word, 4711);
    }
    assert_int_equal(daruma_breaker_init(NULL, NULL, &error), DARUMA_INVALID);
}

static void the_ends_of_every_range_are_accepted(void **state)
{
    const struct daruma_breaker_options cases[] = {
        {.failures_max = 1},
        {.failures_max = INT32_MAX},
        {.open_ms = 1},
        {.open_ms = 24 * HOUR_MS},
        {.open_max_ms = DARUMA_BREAKER_OPEN_MS},
        {.open_ms = 100, .open_max_ms = 100},
        {.open_ms = 100, .open_max_ms = 24 * HOUR_MS},
        {.jitter_factor = 1},
    };
    struct daruma_breaker breaker;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(daruma_breaker_init(&breaker, &cases[i], NULL), 0);
    }
}

/* The same breaker in the plainest words. `until_ms` is read off the real one when it opens. */
struct model {
    enum daruma_breaker_state state;
    uint32_t epoch; /* raised with each change of state */
    int failures;
    int64_t until_ms;
};

struct held {
    struct daruma_ticket ticket;
    uint32_t epoch;
};

static void model_answer(struct model *model, struct bench *bench, struct held held, bool success)
{
    bool counts = held.epoch == model->epoch;

    if (success) {
        daruma_breaker_succeeded(&bench->breaker, held.ticket);
    } else {
        fail_with(bench, held.ticket);
    }
    if (!counts) {
        return;
    }
    if (success) {
        model->epoch += model->state != DARUMA_BREAKER_CLOSED;
        model->state = DARUMA_BREAKER_CLOSED;
        model->failures = 0;
    } else if (model->state == DARUMA_BREAKER_HALF_OPEN ||
               ++model->failures == DARUMA_BREAKER_FAILURES_MAX) {
        model->state = DARUMA_BREAKER_IS_OPEN;
        model->failures = 0;
        model->epoch++;
        model->until_ms = bench->now_ms + (int64_t)wait_of(bench);
    }
}

static bool model_enter(struct model *model, struct bench *bench, struct held *ret_held)
{
    bool expected = model->state == DARUMA_BREAKER_CLOSED || bench->now_ms >= model->until_ms;

    assert_int_equal(enter(bench, &ret_held->ticket), expected);
    if (!expected) {
        return false;
    }
    assert_int_equal(ret_held->ticket.probe, model->state != DARUMA_BREAKER_CLOSED);
    if (ret_held->ticket.probe) {
        model->state = DARUMA_BREAKER_HALF_OPEN;
        model->epoch++;
        model->until_ms = bench->now_ms + (int64_t)wait_of(bench);
    }
    ret_held->epoch = model->epoch;
    return true;
}

static void random_calls_agree_with_the_model(void **state)
{
    uint64_t runs = harness_size("DARUMA_BREAKER_RUNS", 200000), seed = harness_seed();
    struct daruma_dice dice = daruma_dice_seed(seed);
    struct bench bench;
    struct model model = {0};
    struct held held[16];
    size_t count = 0;

    (void)state;
    printf("seed %" PRIu64 "\n", seed);
    bench_init(&bench, (struct daruma_breaker_options){.open_ms = 20, .open_max_ms = 100});
    for (uint64_t run = 0; run < runs; run++) {
        uint64_t bits = daruma_dice_roll(&dice);
        bench.now_ms += (int64_t)(bits >> 40) % 8;
        bool well = run / 500 % 2 == 0; /* good and bad times in turn */
        if (count == 0 || (bits % 2 == 0 && count < 16)) {
            count += model_enter(&model, &bench, &held[count]);
        } else {
            size_t index = (bits >> 8) % count;
            model_answer(&model, &bench, held[index], (bits >> 16) % 10 < (well ? 9 : 2));
            held[index] = held[--count];
        }
        assert_int_equal(daruma_breaker_state(&bench.breaker), model.state);
    }
}

static void an_open_breaker_ends_a_retry_before_any_call(void **state)
{
    struct fake_world world;
    struct bench bench;
    struct daruma_trail trail = {0};

    (void)state;
    bench_init(&bench, (struct daruma_breaker_options){0});
    fail_calls(&bench, DARUMA_BREAKER_FAILURES_MAX);
    fake_world_init(&world);
    world.options.breaker = &bench.breaker;
    world.options.trail = &trail;
    assert_int_equal(fake_world_run(&world), DARUMA_BREAKER_OPEN);
    assert_int_equal(world.call.count, 0);
    assert_int_equal(world.error.code, DARUMA_BREAKER_OPEN);
    assert_int_equal(world.error.retry_after_ms, wait_of(&bench));
    assert_true(world.error.recoverable);
    assert_int_equal(trail.stop, DARUMA_STOP_BREAKER);
    assert_int_equal(trail.count, 0);

    world.fake.now_ms += world.error.retry_after_ms; /* the hint is true */
    world.call.success_at = 1;
    assert_int_equal(fake_world_run(&world), 0);
    is_in(&bench, DARUMA_BREAKER_CLOSED);
}

static void a_breaker_that_opens_in_the_middle_gives_the_last_real_error(void **state)
{
    struct fake_world world;
    struct daruma_breaker breaker = {0};
    struct daruma_trail trail = {0};

    (void)state;
    fake_world_init(&world);
    world.options.breaker = &breaker;
    world.options.trail = &trail;
    world.options.max_retries = 9;
    world.options.backoff = daruma_backoff_exponential(1);
    assert_int_equal(fake_world_run(&world), FAKE_CODE);
    assert_int_equal(world.call.count, DARUMA_BREAKER_FAILURES_MAX);
    assert_ptr_equal(world.error.source, &world.call.attempts[DARUMA_BREAKER_FAILURES_MAX - 1]);
    assert_int_equal(trail.stop, DARUMA_STOP_BREAKER);
    assert_int_equal(trail.count, DARUMA_BREAKER_FAILURES_MAX);
}

static void a_failure_that_is_not_to_be_retried_counts_as_an_answer(void **state)
{
    struct daruma_breaker breaker = {0};

    (void)state;
    for (int i = 0; i < 4 * DARUMA_BREAKER_FAILURES_MAX; i++) {
        struct fake_world world;
        fake_world_init(&world);
        world.options.breaker = &breaker;
        world.options.condition = fake_condition;
        world.hooks.refuse_at = 1;
        assert_int_equal(fake_world_run(&world), FAKE_CODE);
    }
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_failures_in_a_row_open_it),
        cmocka_unit_test(when_its_time_is_over_exactly_one_caller_goes),
        cmocka_unit_test(a_probe_that_succeeds_closes_it),
        cmocka_unit_test(each_failed_probe_doubles_the_open_time_up_to_its_maximum),
        cmocka_unit_test(the_open_time_is_spread),
        cmocka_unit_test(a_probe_that_never_reports_is_replaced),
        cmocka_unit_test(answers_of_an_earlier_state_change_nothing),
        cmocka_unit_test(a_zeroed_breaker_is_one_with_the_defaults),
        cmocka_unit_test(any_clock_will_do),
        cmocka_unit_test(a_clock_that_steps_back_a_little_keeps_it_open),
        cmocka_unit_test(an_open_time_above_the_default_maximum_is_its_own),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(the_ends_of_every_range_are_accepted),
        cmocka_unit_test(random_calls_agree_with_the_model),
        cmocka_unit_test(an_open_breaker_ends_a_retry_before_any_call),
        cmocka_unit_test(a_breaker_that_opens_in_the_middle_gives_the_last_real_error),
        cmocka_unit_test(a_failure_that_is_not_to_be_retried_counts_as_an_answer),
    };
    return HARNESS_RUN(argc, argv, tests);
}
