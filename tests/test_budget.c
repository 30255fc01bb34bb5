/* SPDX-License-Identifier: MIT
 *
 * The retry budget: its arithmetic under a clock that the test moves, against the bound that its
 * header promises, and what it does to a retry that has one.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/budget.h>
#include <daruma/dice.h>
#include <daruma/policy.h>
#include <daruma/trail.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS INT64_C(86400000)

/* A budget whose use is counted, so that the bound can be held against it. */
struct counted {
    struct daruma_budget budget;
    double ratio;
    double floor_per_second;
    int64_t start_ms;
    int64_t latest_ms;
    uint64_t earned_count;
    uint64_t spent_count;
};

static void counted_init(struct counted *counted, struct daruma_budget_options options,
                         int64_t now_ms)
{
    *counted = (struct counted){.start_ms = now_ms, .latest_ms = now_ms};
    assert_int_equal(daruma_budget_init(&counted->budget, &options, NULL), 0);
    counted->ratio = options.ratio == 0 ? DARUMA_BUDGET_RATIO : options.ratio;
    counted->floor_per_second = options.floor_per_second == 0 ? DARUMA_BUDGET_FLOOR_PER_SECOND
                                                              : (double)options.floor_per_second;
    if (options.floor_per_second == DARUMA_BUDGET_NO_FLOOR) {
        counted->floor_per_second = 0;
    }
}

static void counted_see(struct counted *counted, int64_t now_ms)
{
    counted->start_ms = now_ms < counted->start_ms ? now_ms : counted->start_ms;
    counted->latest_ms = now_ms > counted->latest_ms ? now_ms : counted->latest_ms;
}

static void counted_earn(struct counted *counted, int64_t now_ms)
{
    counted->earned_count++;
    counted_see(counted, now_ms);
    daruma_budget_earn(&counted->budget, now_ms);
}

static bool counted_spend(struct counted *counted, int64_t now_ms)
{
    counted_see(counted, now_ms);
    bool admitted = daruma_budget_spend(&counted->budget, now_ms);
    counted->spent_count += admitted;

    double seconds = (double)(counted->latest_ms - counted->start_ms) / 1000;
    double bound =
        counted->ratio * (double)counted->earned_count + counted->floor_per_second * (seconds + 1);
    assert_true((double)counted->spent_count <= bound + 1e-9);
    return admitted;
}

static uint64_t spend_all(struct daruma_budget *budget, int64_t now_ms)
{
    uint64_t count = 0;

    while (daruma_budget_spend(budget, now_ms)) {
        assert_in_range(++count, 1, 100000000);
    }
    return count;
}

static void a_zeroed_budget_lets_the_floor_through_at_once_and_no_more(void **state)
{
    struct daruma_budget budget = {0};

    (void)state;
    assert_int_equal(spend_all(&budget, FAKE_START_MS), DARUMA_BUDGET_FLOOR_PER_SECOND);
    assert_int_equal(spend_all(&budget, FAKE_START_MS + 1), 0);
}

static void five_successes_earn_one_retry(void **state)
{
    struct daruma_budget budget;
    struct daruma_budget_options options = {.floor_per_second = DARUMA_BUDGET_NO_FLOOR};

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    assert_int_equal(spend_all(&budget, 0), 0);
    for (int i = 0; i < 1000; i++) {
        daruma_budget_earn(&budget, 0);
    }
    /* 0.2 in parts of 4096 is rounded down, so that the bound holds. */
    assert_int_equal(spend_all(&budget, 0), 199);
    assert_int_equal(spend_all(&budget, 0), 0);

    options.ratio = 1;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    daruma_budget_earn(&budget, 0);
    assert_int_equal(spend_all(&budget, 0), 1);
}

static void a_zeroed_budget_is_one_with_the_defaults(void **state)
{
    struct daruma_budget zeroed = {0}, made;
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    int64_t now_ms = FAKE_START_MS;

    (void)state;
    assert_int_equal(daruma_budget_init(&made, NULL, NULL), 0);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = daruma_dice_roll(&dice);
        now_ms += (int64_t)(bits >> 8) % 100;
        if (bits % 4 == 0) {
            daruma_budget_earn(&zeroed, now_ms);
            daruma_budget_earn(&made, now_ms);
        } else {
            bool admitted = daruma_budget_spend(&zeroed, now_ms);
            assert_int_equal(admitted, daruma_budget_spend(&made, now_ms));
        }
    }
}

static void what_was_earned_fades(void **state)
{
    const struct {
        int64_t after_ms; /* in a budget that fades in 10 s */
        uint64_t low, high;
    } cases[] = {{0, 999, 1000}, {5000, 580, 625}, {10000, 350, 385},  {30000, 40, 55},
                 {100000, 0, 1}, {270000, 0, 0},   {DAY_MS * 30, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct daruma_budget budget;
        struct daruma_budget_options options = {
            .ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR, .fade_ms = 10000};
        assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
        for (int j = 0; j < 1000; j++) {
            daruma_budget_earn(&budget, FAKE_START_MS);
        }
        assert_in_range(spend_all(&budget, FAKE_START_MS + cases[i].after_ms), cases[i].low,
                        cases[i].high);
    }
}

static void failures_earn_nothing(void **state)
{
    struct daruma_budget budget;
    struct daruma_budget_options options = {.ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR};

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    for (int64_t i = 0; i < 10000; i++) {
        assert_false(daruma_budget_spend(&budget, FAKE_START_MS + i * 10));
    }
}

static void the_floor_comes_back_at_its_rate(void **state)
{
    const int64_t rates[] = {1, 10, 1000, 1000000};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct daruma_budget budget;
        struct daruma_budget_options options = {.floor_per_second = rates[i]};
        uint64_t rate = (uint64_t)rates[i];
        assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
        assert_int_equal(spend_all(&budget, FAKE_START_MS), rate);
        uint64_t count = 0;
        for (int64_t ms = 0; ms <= 2000; ms += 10) {
            count += spend_all(&budget, FAKE_START_MS + ms);
        }
        assert_in_range(count, rate * 18 / 10, rate * 2);
        assert_int_equal(spend_all(&budget, FAKE_START_MS + 10 * 60 * 1000), rate); /* not more */
    }
}

/* No stretch of time, wherever it begins, lets more through than its length allows. */
static void the_floor_holds_over_every_window(void **state)
{
    static int64_t admitted_ms[4000];
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    struct daruma_budget budget = {0};
    int64_t now_ms = FAKE_START_MS;
    size_t count = 0;

    (void)state;
    while (count < 4000) {
        uint64_t bits = daruma_dice_roll(&dice);
        now_ms += bits % 64 == 0 ? 3000 : (int64_t)(bits >> 8) % 40;
        if (daruma_budget_spend(&budget, now_ms)) {
            admitted_ms[count++] = now_ms;
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i; j < count && j < i + 200; j++) {
            double seconds = (double)(admitted_ms[j] - admitted_ms[i]) / 1000;
            assert_true((double)(j - i + 1) <= DARUMA_BUDGET_FLOOR_PER_SECOND * (seconds + 1));
        }
    }
}

static void the_bound_of_the_header_holds_over_random_sequences(void **state)
{
    const double ratios[] = {0.2, 1, 0.001, 0.33};
    const int64_t floors[] = {10, 1, 1000, DARUMA_BUDGET_NO_FLOOR};
    const int64_t fades[] = {10000, 64, 1000, DAY_MS};
    uint64_t runs = harness_size("DARUMA_BUDGET_RUNS", 300), seed = harness_seed();
    struct daruma_dice dice = daruma_dice_seed(seed);

    (void)state;
    printf("seed %" PRIu64 "\n", seed);
    for (uint64_t run = 0; run < runs; run++) {
        struct counted counted;
        uint64_t bits = daruma_dice_roll(&dice);
        struct daruma_budget_options options = {.ratio = ratios[bits % 4],
                                                .floor_per_second = floors[bits / 4 % 4],
                                                .fade_ms = fades[bits / 16 % 4]};
        int64_t now_ms = (int64_t)(bits >> 10) % (400 * DAY_MS);
        uint64_t pace = 1 + (bits >> 40) % 200;
        counted_init(&counted, options, now_ms);
        for (int i = 0; i < 2000; i++) {
            bits = daruma_dice_roll(&dice);
            now_ms += (int64_t)((bits >> 32) % pace);
            /* Another thread's reading may be a little older. */
            int64_t seen_ms =
                bits % 8 == 0 && now_ms > 500 ? now_ms - (int64_t)(bits >> 50) % 500 : now_ms;
            if (bits / 8 % 4 == 0) {
                counted_earn(&counted, seen_ms);
            } else {
                (void)counted_spend(&counted, seen_ms); /* it holds the bound against it */
            }
        }
    }
}

/* The same use at two moments of the clock, the second across the end of the 28-bit step. */
static void the_clock_may_have_run_for_years(void **state)
{
    const int64_t whole_ms = 64 * (10000 / 64); /* both kinds of step begin there */
    const int64_t starts_ms[] = {whole_ms * 1000, whole_ms * ((INT64_C(1) << 28) - 20),
                                 whole_ms * ((INT64_C(1) << 28) * 3 - 2)};
    struct daruma_budget budgets[3] = {{0}};
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    int64_t passed_ms = 0;

    (void)state;
    for (int i = 0; i < 30000; i++) {
        uint64_t bits = daruma_dice_roll(&dice);
        passed_ms += (int64_t)(bits >> 8) % 30;
        bool admitted = false;
        for (int j = 0; j < 3; j++) {
            if (bits % 4 == 0) {
                daruma_budget_earn(&budgets[j], starts_ms[j] + passed_ms);
                continue;
            }
            bool answer = daruma_budget_spend(&budgets[j], starts_ms[j] + passed_ms);
            assert_true(j == 0 || answer == admitted);
            admitted = answer;
        }
    }
}

static void a_floor_that_was_spent_is_back_after_any_number_of_days(void **state)
{
    (void)state;
    for (int64_t days = 1; days <= 1000; days++) {
        struct daruma_budget budget = {0};
        assert_int_equal(spend_all(&budget, FAKE_START_MS), 10);
        assert_int_equal(spend_all(&budget, FAKE_START_MS + days * DAY_MS), 10);
    }
}

static void a_clock_that_steps_back_a_little_earns_and_loses_nothing(void **state)
{
    struct daruma_budget budget = {0};

    (void)state;
    assert_int_equal(spend_all(&budget, FAKE_START_MS), 10);
    for (int64_t back_ms = 1; back_ms < 100000; back_ms *= 3) {
        assert_int_equal(spend_all(&budget, FAKE_START_MS - back_ms), 0);
    }
    for (int i = 0; i < 100; i++) {
        daruma_budget_earn(&budget, FAKE_START_MS);
        daruma_budget_earn(&budget, FAKE_START_MS - 60000);
    }
    assert_int_equal(spend_all(&budget, FAKE_START_MS), 39);
}

static void the_ends_of_every_range_are_accepted(void **state)
{
    const struct daruma_budget_options cases[] = {
        {.ratio = 1.0 / 4096},
        {.ratio = 1},
        {.floor_per_second = DARUMA_BUDGET_NO_FLOOR},
        {.floor_per_second = 1000000},
        {.fade_ms = 64},
        {.fade_ms = DARUMA_BUDGET_FADE_MAX_MS},
    };
    struct daruma_budget budget;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(daruma_budget_init(&budget, &cases[i], NULL), 0);
    }
}

static void bad_options_are_named(void **state)
{
    const struct {
        struct daruma_budget_options options;
        const char *name;
    } cases[] = {
        {{.ratio = -0.1}, "budget.ratio:"},
        {{.ratio = 1.01}, "budget.ratio:"},
        {{.ratio = (double)NAN}, "budget.ratio:"},
        {{.ratio = 0.0001}, "budget.ratio:"},
        {{.floor_per_second = -2}, "budget.floor_per_second:"},
        {{.floor_per_second = 1000001}, "budget.floor_per_second:"},
        {{.fade_ms = -1}, "budget.fade_ms:"},
        {{.fade_ms = 63}, "budget.fade_ms:"},
        {{.fade_ms = DARUMA_BUDGET_FADE_MAX_MS + 1}, "budget.fade_ms:"},
    };
    struct daruma_budget budget = {.earn = 4711};
    struct daruma_error error;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error = (struct daruma_error){0};
        assert_int_equal(daruma_budget_init(&budget, &cases[i].options, &error), DARUMA_INVALID);
        assert_int_equal(error.code, DARUMA_INVALID);
        assert_memory_equal(error.message, cases[i].name, strlen(cases[i].name));
        assert_int_equal(daruma_budget_init(&budget, &cases[i].options, NULL), DARUMA_INVALID);
        assert_int_equal(budget.earn, 4711);
    }
    assert_int_equal(daruma_budget_init(NULL, NULL, &error), DARUMA_INVALID);
}

static void a_spent_budget_ends_a_retry_with_its_last_error(void **state)
{
    struct fake_world world;
    struct daruma_budget budget;
    struct daruma_budget_options options = {.floor_per_second = 2};
    struct daruma_trail_entry entries[8];
    struct daruma_trail trail = {.entries = entries, .capacity = 8};

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    fake_world_init(&world);
    world.options.backoff = daruma_backoff_exponential(1);
    world.options.max_retries = 9;
    world.options.budget = &budget;
    world.options.trail = &trail;
    assert_int_equal(fake_world_run(&world), FAKE_CODE);
    assert_int_equal(world.call.count, 3);
    assert_int_equal(world.hooks.retry_count, 2); /* not before the retry that was refused */
    assert_int_equal(world.fake.sleep_count, 2);
    assert_ptr_equal(world.error.source, &world.call.attempts[2]);
    assert_int_equal(trail.stop, DARUMA_STOP_BUDGET);
    assert_int_equal(entries[2].delay_ms, 0);
}

static void nothing_is_spent_on_a_retry_that_does_not_happen(void **state)
{
    struct daruma_budget budget = {0};

    (void)state;
    for (int i = 0; i < 60; i++) {
        struct fake_world world;
        fake_world_init(&world);
        world.options.budget = &budget;
        if (i % 3 == 0) {
            world.options.max_retries = DARUMA_NO_RETRIES;
        } else if (i % 3 == 1) {
            world.options.timeout_ms = FAKE_BASE_MS;
        } else {
            world.options.condition = fake_condition;
            world.hooks.refuse_at = 1;
        }
        assert_int_equal(fake_world_run(&world), FAKE_CODE);
        assert_int_equal(world.call.count, 1);
    }
    assert_int_equal(spend_all(&budget, FAKE_START_MS), DARUMA_BUDGET_FLOOR_PER_SECOND);
}

static void each_success_of_a_retry_earns(void **state)
{
    struct daruma_budget budget;
    struct daruma_budget_options options = {.ratio = 1, .floor_per_second = DARUMA_BUDGET_NO_FLOOR};
    struct fake_world world;

    (void)state;
    assert_int_equal(daruma_budget_init(&budget, &options, NULL), 0);
    fake_world_init(&world);
    world.options.budget = &budget;
    for (int i = 0; i < 7; i++) {
        world.call.count = 0;
        world.call.success_at = 1;
        assert_int_equal(fake_world_run(&world), 0);
    }
    assert_int_equal(spend_all(&budget, FAKE_START_MS), 7);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zeroed_budget_lets_the_floor_through_at_once_and_no_more),
        cmocka_unit_test(five_successes_earn_one_retry),
        cmocka_unit_test(a_zeroed_budget_is_one_with_the_defaults),
        cmocka_unit_test(what_was_earned_fades),
        cmocka_unit_test(failures_earn_nothing),
        cmocka_unit_test(the_floor_comes_back_at_its_rate),
        cmocka_unit_test(the_floor_holds_over_every_window),
        cmocka_unit_test(the_bound_of_the_header_holds_over_random_sequences),
        cmocka_unit_test(the_clock_may_have_run_for_years),
        cmocka_unit_test(a_floor_that_was_spent_is_back_after_any_number_of_days),
        cmocka_unit_test(a_clock_that_steps_back_a_little_earns_and_loses_nothing),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(a_spent_budget_ends_a_retry_with_its_last_error),
        cmocka_unit_test(nothing_is_spent_on_a_retry_that_does_not_happen),
        cmocka_unit_test(each_success_of_a_retry_earns),
        cmocka_unit_test(the_ends_of_every_range_are_accepted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
