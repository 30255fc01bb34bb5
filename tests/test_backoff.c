/* SPDX-License-Identifier: MIT
 *
 * Tests of backoff: every kind, every jitter, their bounds, and what is refused. Expected draws are
 * literal milliseconds for a seed, so that a change in the arithmetic is noticed.
 */
#include "harness.h"

#include <daruma/backoff.h>

#include <math.h>
#include <string.h>

#define LIMIT_MS ((uint64_t)DARUMA_BACKOFF_LIMIT_MS)
#define SEED     78
#define DRAWS    2000

static struct daruma_backoff made(struct daruma_backoff_options options)
{
    struct daruma_backoff backoff;

    assert_int_equal(daruma_backoff_create(&options, &backoff, NULL), 0);
    return backoff;
}

/* The first waits of a backoff, each told the one before. */
static void assert_waits(const struct daruma_backoff *backoff, struct daruma_dice *dice,
                         const uint64_t *expected, uint32_t count)
{
    uint64_t previous_ms = 0;

    for (uint32_t i = 0; i < count; i++) {
        previous_ms = daruma_backoff_delay_ms(backoff, i + 1, previous_ms, dice);
        if (previous_ms != expected[i]) {
            fail_msg("wait %u is %llu ms, expected %llu", i + 1, (unsigned long long)previous_ms,
                     (unsigned long long)expected[i]);
        }
    }
}

#define ASSERT_WAITS(backoff, dice, ...)                                                           \
    do {                                                                                           \
        const uint64_t waits_[] = {__VA_ARGS__};                                                   \
        assert_waits((backoff), (dice), waits_, sizeof waits_ / sizeof *waits_);                   \
    } while (0)

/* Draws many delays after one failure and holds their smallest and largest against the bounds,
 * which both must nearly be reached. */
static void assert_spread(const struct daruma_backoff *backoff, uint32_t attempt, uint64_t low,
                          uint64_t high)
{
    struct daruma_dice dice = daruma_dice_seed(SEED);
    uint64_t least = UINT64_MAX, most = 0;

    for (int i = 0; i < DRAWS; i++) {
        uint64_t delay = daruma_backoff_delay_ms(backoff, attempt, 0, &dice);
        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
    }
    assert_in_range(least, low, low + (high - low) / 50);
    assert_in_range(most, high - (high - low) / 50, high);
}

static void plain_exponential_doubles_up_to_the_cap(void **state) /* B2 */
{
    struct daruma_backoff backoff = daruma_backoff_exponential(200);

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 200, 400, 800, 1600, 3200, 6400, 8000, 8000);
}

static void plain_exponential_of_nothing_has_the_default_base(void **state) /* B2 */
{
    struct daruma_backoff backoff = daruma_backoff_exponential(0);

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 200, 400, 800);
}

static void a_base_above_the_default_cap_is_its_own_cap(void **state)
{
    struct daruma_backoff backoff = daruma_backoff_exponential(20000);

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 20000, 20000);
}

static void the_default_is_200_ms_to_8_s_with_a_fifth_of_jitter(void **state) /* B1 */
{
    struct daruma_backoff created, zeroed = {0};
    struct daruma_backoff written = daruma_backoff_exponential_jitter(200, 8000, 0.2);

    (void)state;
    assert_int_equal(DARUMA_BACKOFF_BASE_MS, 200);
    assert_int_equal(DARUMA_BACKOFF_MAX_MS, 8000);
    assert_true(DARUMA_BACKOFF_JITTER == 0.2);
    assert_int_equal(daruma_backoff_create(NULL, &created, NULL), 0);
    const struct daruma_backoff *const same[] = {NULL, &zeroed, &created, &written};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct daruma_dice dice = daruma_dice_seed(SEED);
        ASSERT_WAITS(same[i], &dice, 187, 417, 671, 1673, 3016, 7516, 7972, 7146);
    }
}

static void the_default_draws_between_its_bounds_and_never_above_the_cap(void **state) /* B1 */
{
    static const uint64_t low[] = {160, 320, 640, 1280, 2560, 5120, 6400, 6400};
    static const uint64_t high[] = {240, 480, 960, 1920, 3840, 7680, 8000, 8000};

    (void)state;
    for (uint32_t n = 1; n <= 8; n++) {
        assert_int_equal(daruma_backoff_draw_ms(NULL, n, 0, 0), low[n - 1]);
        assert_in_range(daruma_backoff_draw_ms(NULL, n, 0, UINT64_MAX), high[n - 1] - 1,
                        high[n - 1]);
    }
}

/* B8: exponentialBackoffWithJitter waits within the range asked for. */
static void exponential_with_jitter_waits_within_the_range_asked_for(void **state)
{
    struct daruma_backoff backoff = daruma_backoff_exponential_jitter(100, 1000, 0.5);

    (void)state;
    assert_spread(&backoff, 1, 50, 150);
    assert_spread(&backoff, 2, 100, 300);
    assert_spread(&backoff, 3, 200, 600);
    assert_spread(&backoff, 4, 400, 1000);
    assert_spread(&backoff, 9, 500, 1000);
}

/* B8: the jitter factor is applied as it should be. */
static void the_jitter_factor_is_the_width_of_the_draw(void **state)
{
    static const double factors[] = {0.1, 0.25, 0.5, 1};

    (void)state;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        struct daruma_backoff backoff = daruma_backoff_exponential_jitter(10000, 80000, factors[i]);
        uint64_t width = (uint64_t)(10000 * factors[i]);
        assert_spread(&backoff, 1, 10000 - width, 10000 + width);
    }
    struct daruma_backoff none = daruma_backoff_exponential_jitter(10000, 80000, 0);
    ASSERT_WAITS(&none, NULL, 10000, 20000, 40000, 80000, 80000);
}

/* A zeroed factor is the default, and a factor alone says which jitter; however it is written. */
static void a_factor_counts_however_the_backoff_was_made(void **state)
{
    struct daruma_backoff filled = {.base_ms = 1000, .jitter_factor = 0.5};
    struct daruma_backoff named =
        made((struct daruma_backoff_options){.base_ms = 1000, .jitter = DARUMA_JITTER_FACTOR});
    struct daruma_backoff whole =
        made((struct daruma_backoff_options){.base_ms = 1000, .jitter_factor = 1});

    (void)state;
    assert_spread(&filled, 1, 500, 1500);
    assert_spread(&named, 1, 800, 1200);
    assert_spread(&whole, 1, 0, 2000);
}

static void the_same_seed_gives_the_same_schedule_for_every_jitter(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(SEED);
    struct daruma_backoff full =
        made((struct daruma_backoff_options){.jitter = DARUMA_JITTER_FULL});

    (void)state;
    ASSERT_WAITS(&full, &dice, 67, 244, 78, 983, 1141, 5991, 7860, 3731);
    dice = daruma_dice_seed(SEED);
    struct daruma_backoff equal =
        made((struct daruma_backoff_options){.jitter = DARUMA_JITTER_EQUAL});
    ASSERT_WAITS(&equal, &dice, 133, 322, 439, 1291, 2170, 6195, 7930, 5865);
    dice = daruma_dice_seed(SEED);
    struct daruma_backoff decorrelated =
        made((struct daruma_backoff_options){.jitter = DARUMA_JITTER_DECORRELATED});
    ASSERT_WAITS(&decorrelated, &dice, 335, 692, 383, 783, 966, 2725, 7864, 3838);
}

static void full_jitter_draws_from_nothing_up_to_the_delay(void **state)
{
    struct daruma_backoff backoff = made((struct daruma_backoff_options){
        .base_ms = 1000, .max_ms = 3000, .jitter = DARUMA_JITTER_FULL});

    (void)state;
    assert_spread(&backoff, 1, 0, 1000);
    assert_spread(&backoff, 2, 0, 2000);
    assert_spread(&backoff, 9, 0, 3000);
}

static void equal_jitter_draws_from_the_upper_half(void **state)
{
    struct daruma_backoff backoff = made((struct daruma_backoff_options){
        .base_ms = 1000, .max_ms = 3000, .jitter = DARUMA_JITTER_EQUAL});

    (void)state;
    assert_spread(&backoff, 1, 500, 1000);
    assert_spread(&backoff, 9, 1500, 3000);
}

static void decorrelated_jitter_draws_up_to_three_times_the_last_wait(void **state)
{
    struct daruma_backoff backoff = made((struct daruma_backoff_options){
        .base_ms = 100, .max_ms = 5000, .jitter = DARUMA_JITTER_DECORRELATED});

    (void)state;
    assert_int_equal(daruma_backoff_draw_ms(&backoff, 1, 0, 0), 100);
    assert_in_range(daruma_backoff_draw_ms(&backoff, 1, 0, UINT64_MAX), 299, 300);
    assert_in_range(daruma_backoff_draw_ms(&backoff, 2, 1000, UINT64_MAX), 2999, 3000);
    assert_in_range(daruma_backoff_draw_ms(&backoff, 3, 4000, UINT64_MAX), 4999, 5000);
    assert_int_equal(daruma_backoff_draw_ms(&backoff, 4, 5000, 0), 100);
    assert_in_range(daruma_backoff_draw_ms(&backoff, 5, UINT64_MAX, UINT64_MAX), 4999, 5000);
}

static void fixed_is_always_the_base_and_without_jitter_unless_asked_for(void **state)
{
    struct daruma_backoff fixed =
        made((struct daruma_backoff_options){.kind = DARUMA_BACKOFF_FIXED, .base_ms = 10000});
    struct daruma_backoff spread = made((struct daruma_backoff_options){
        .kind = DARUMA_BACKOFF_FIXED, .base_ms = 1000, .jitter_factor = 0.5});

    (void)state;
    ASSERT_WAITS(&fixed, NULL, 10000, 10000, 10000, 10000);
    assert_spread(&spread, 5, 500, 1500);
}

static void linear_grows_by_the_base(void **state)
{
    struct daruma_backoff backoff =
        made((struct daruma_backoff_options){.kind = DARUMA_BACKOFF_LINEAR,
                                             .base_ms = 300,
                                             .max_ms = 1000,
                                             .jitter = DARUMA_JITTER_NONE});

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 300, 600, 900, 1000, 1000);
}

static void a_schedule_is_followed_and_its_last_wait_stays(void **state)
{
    static const uint64_t waits[] = {1000, 5000, 60000, 0, 2000};
    struct daruma_backoff_options options = {
        .kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = waits, .schedule_count = 5};
    struct daruma_backoff backoff = made(options);

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 1000, 5000, 60000, 0, 2000, 2000, 2000);
    options.max_ms = 4000;
    backoff = made(options);
    ASSERT_WAITS(&backoff, NULL, 1000, 4000, 4000, 0, 2000);
    options.schedule_count = 1;
    backoff = made(options);
    ASSERT_WAITS(&backoff, NULL, 1000, 1000);
    options = (struct daruma_backoff_options){
        .kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = waits + 2, .schedule_count = 3};
    backoff = made(options); /* the longest first */
    ASSERT_WAITS(&backoff, NULL, 60000, 0, 2000, 2000);
}

/* The example in the documentation of Cloud Tasks: min 10 s, max 300 s, 3 doublings. */
static void doublings_go_on_in_equal_steps_as_cloud_tasks_documents(void **state)
{
    struct daruma_backoff backoff =
        made((struct daruma_backoff_options){.kind = DARUMA_BACKOFF_DOUBLINGS,
                                             .base_ms = 10000,
                                             .max_ms = 300000,
                                             .doublings = 3,
                                             .jitter = DARUMA_JITTER_NONE});

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 10000, 20000, 40000, 80000, 160000, 240000, 300000, 300000);
}

static void no_doublings_are_linear_and_endless_ones_exponential(void **state)
{
    struct daruma_backoff_options options = {.kind = DARUMA_BACKOFF_DOUBLINGS,
                                             .base_ms = 100,
                                             .max_ms = 100000,
                                             .jitter = DARUMA_JITTER_NONE};
    struct daruma_backoff backoff = made(options);

    (void)state;
    ASSERT_WAITS(&backoff, NULL, 100, 200, 300, 400, 500);
    options.doublings = UINT32_MAX;
    backoff = made(options);
    ASSERT_WAITS(&backoff, NULL, 100, 200, 400, 800, 1600);
}

static void every_kind_saturates_instead_of_overflowing(void **state)
{
    /* Powers of two among them: what overflows then is no large number, it is nothing. */
    static const uint64_t bases[] = {1,          2,
                                     200,        UINT64_C(1) << 22,
                                     UINT32_MAX, UINT64_C(1) << 32,
                                     LIMIT_MS,   LIMIT_MS - 1,
                                     UINT64_MAX, UINT64_C(1) << 63};
    static const uint32_t attempts[] = {1, 2, 41, 42, 43, 63, 64, 65, UINT32_MAX - 1, UINT32_MAX};

    (void)state;
    for (int kind = DARUMA_BACKOFF_EXPONENTIAL; kind <= DARUMA_BACKOFF_DOUBLINGS; kind++) {
        for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
            uint64_t before_ms = 0;
            for (size_t j = 0; j < sizeof attempts / sizeof *attempts; j++) {
                struct daruma_backoff backoff = {.kind = (enum daruma_backoff_kind)kind,
                                                 .jitter = DARUMA_JITTER_NONE,
                                                 .base_ms = bases[i],
                                                 .max_ms = UINT64_MAX,
                                                 .schedule_ms = &bases[i],
                                                 .schedule_count = 1,
                                                 .doublings = 40};
                uint64_t delay = daruma_backoff_delay_ms(&backoff, attempts[j], 0, NULL);
                assert_in_range(delay, before_ms, LIMIT_MS); /* never shorter than the last */
                before_ms = delay;
            }
        }
    }
}

static void huge_attempts_end_at_the_limit(void **state)
{
    struct daruma_backoff backoff = {
        .base_ms = 3, .max_ms = LIMIT_MS, .jitter = DARUMA_JITTER_NONE};

    (void)state;
    assert_int_equal(daruma_backoff_delay_ms(&backoff, UINT32_MAX, 0, NULL), LIMIT_MS);
    assert_int_equal(daruma_backoff_delay_ms(&backoff, 60, 0, NULL), LIMIT_MS);
    assert_int_equal(daruma_backoff_delay_ms(&backoff, 40, 0, NULL), UINT64_C(3) << 39);
    backoff.kind = DARUMA_BACKOFF_LINEAR;
    assert_int_equal(daruma_backoff_delay_ms(&backoff, UINT32_MAX, 0, NULL),
                     3 * (uint64_t)UINT32_MAX);
}

/* What was never checked still gives a wait, not a crash. */
static void an_unchecked_backoff_still_gives_a_wait_within_its_limits(void **state)
{
    struct daruma_backoff odd = {.kind = (enum daruma_backoff_kind)99,
                                 .jitter = (enum daruma_jitter)99};
    struct daruma_backoff wild = {.jitter = DARUMA_JITTER_FACTOR, .jitter_factor = 1e300};
    struct daruma_backoff above = {.jitter = DARUMA_JITTER_FACTOR, .jitter_factor = 1.5};
    struct daruma_backoff nothing = {.jitter = DARUMA_JITTER_FACTOR, .jitter_factor = NAN};
    struct daruma_backoff empty = {.kind = DARUMA_BACKOFF_SCHEDULE};

    (void)state;
    assert_int_equal(daruma_backoff_delay_ms(&odd, 2, 0, NULL), 400);
    assert_in_range(daruma_backoff_draw_ms(&wild, 9, 0, UINT64_MAX), 7999, 8000);
    assert_int_equal(daruma_backoff_draw_ms(&wild, 9, 0, 0), 0);
    assert_int_equal(daruma_backoff_draw_ms(&above, 9, 0, 0), 0);
    assert_in_range(daruma_backoff_draw_ms(&above, 1, 0, UINT64_MAX), 399, 400);
    assert_int_equal(daruma_backoff_delay_ms(&nothing, 2, 0, NULL), 400);
    assert_int_equal(daruma_backoff_delay_ms(&empty, 3, 0, NULL), 200);
    assert_int_equal(daruma_backoff_delay_ms(&odd, 0, 0, NULL), 200); /* attempts count from 1 */
}

struct refusal {
    const char *option;
    struct daruma_backoff_options options;
};

static const uint64_t long_schedule[DARUMA_BACKOFF_SCHEDULE_MAX + 1];
static const uint64_t slow_schedule[] = {1, LIMIT_MS + 1};
static const uint64_t slowest_schedule[] = {LIMIT_MS, 1};

static const struct refusal refusals[] = {
    {"base_ms: must not be negative", {.base_ms = -1}},
    {"base_ms: must not be negative", {.base_ms = INT64_MIN}},
    {"base_ms: longer than 100 years", {.base_ms = DARUMA_BACKOFF_LIMIT_MS + 1}},
    {"max_ms: must not be negative", {.max_ms = -1}},
    {"max_ms: longer than 100 years", {.max_ms = INT64_MAX}},
    {"max_ms", {.base_ms = 1000, .max_ms = 999}},
    {"max_ms", {.max_ms = DARUMA_BACKOFF_BASE_MS - 1}}, /* below the default base */
    {"jitter_factor", {.jitter_factor = 1.01}},
    {"jitter_factor", {.jitter_factor = -0.1}},
    {"jitter_factor", {.jitter_factor = NAN}},
    {"jitter_factor", {.jitter_factor = INFINITY}},
    {"jitter_factor", {.jitter = DARUMA_JITTER_NONE, .jitter_factor = 2}},
    {"schedule_ms", {.kind = DARUMA_BACKOFF_SCHEDULE}},
    {"schedule_ms", {.kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = long_schedule}},
    {"schedule_ms", {.kind = DARUMA_BACKOFF_SCHEDULE, .schedule_count = 2}},
    {"schedule_ms",
     {.kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = slow_schedule, .schedule_count = 2}},
    {"schedule_count",
     {.kind = DARUMA_BACKOFF_SCHEDULE,
      .schedule_ms = long_schedule,
      .schedule_count = DARUMA_BACKOFF_SCHEDULE_MAX + 1}},
    {"kind", {.kind = (enum daruma_backoff_kind)5}},
    {"kind", {.kind = (enum daruma_backoff_kind) - 1}},
    {"backoff.jitter:", {.jitter = (enum daruma_jitter)6}},
    {"backoff.jitter:", {.jitter = (enum daruma_jitter) - 1}},
};

static void a_bad_option_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct daruma_backoff backoff = {.base_ms = 12345};
        struct daruma_error error = {0};
        assert_int_equal(daruma_backoff_create(&refusals[i].options, &backoff, &error),
                         DARUMA_INVALID);
        assert_int_equal(error.code, DARUMA_INVALID);
        assert_string_equal(error.type, "usage");
        assert_false(error.recoverable);
        if (strstr(error.message, refusals[i].option) == NULL) {
            fail_msg("row %zu: \"%s\" does not name %s", i, error.message, refusals[i].option);
        }
        assert_int_equal(backoff.base_ms, 12345); /* untouched */
        assert_int_equal(daruma_backoff_create(&refusals[i].options, &backoff, NULL),
                         DARUMA_INVALID);
    }
}

static void a_short_form_out_of_range_is_refused_where_it_is_checked(void **state)
{
    struct daruma_backoff wide = daruma_backoff_exponential_jitter(100, 1000, 1.5);
    struct daruma_backoff low = daruma_backoff_exponential_jitter(1000, 999, 0.2);
    struct daruma_backoff good = daruma_backoff_exponential_jitter(1000, 1000, 1);
    struct daruma_error error;

    (void)state;
    assert_int_equal(daruma_backoff_check(&wide, &error), DARUMA_INVALID);
    assert_non_null(strstr(error.message, "jitter_factor"));
    assert_int_equal(daruma_backoff_check(&low, &error), DARUMA_INVALID);
    assert_non_null(strstr(error.message, "max_ms"));
    assert_int_equal(daruma_backoff_check(&good, &error), 0);
    assert_int_equal(daruma_backoff_check(NULL, &error), 0); /* NULL is the default */
}

static void nowhere_to_put_a_backoff_is_refused(void **state)
{
    struct daruma_error error;

    (void)state;
    assert_int_equal(daruma_backoff_create(NULL, NULL, &error), DARUMA_INVALID);
    assert_non_null(strstr(error.message, "ret_backoff"));
    assert_int_equal(daruma_backoff_create(NULL, NULL, NULL), DARUMA_INVALID);
}

static void the_ends_of_every_range_are_accepted(void **state)
{
    const struct daruma_backoff_options good[] = {
        {.base_ms = 1, .max_ms = 1},
        {.base_ms = DARUMA_BACKOFF_LIMIT_MS, .max_ms = DARUMA_BACKOFF_LIMIT_MS},
        {.jitter_factor = 1},
        {.kind = DARUMA_BACKOFF_SCHEDULE,
         .schedule_ms = long_schedule,
         .schedule_count = DARUMA_BACKOFF_SCHEDULE_MAX},
        {.kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = slowest_schedule, .schedule_count = 2},
        {.kind = DARUMA_BACKOFF_DOUBLINGS},
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        (void)made(good[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_exponential_doubles_up_to_the_cap),
        cmocka_unit_test(plain_exponential_of_nothing_has_the_default_base),
        cmocka_unit_test(a_base_above_the_default_cap_is_its_own_cap),
        cmocka_unit_test(the_default_is_200_ms_to_8_s_with_a_fifth_of_jitter),
        cmocka_unit_test(the_default_draws_between_its_bounds_and_never_above_the_cap),
        cmocka_unit_test(exponential_with_jitter_waits_within_the_range_asked_for),
        cmocka_unit_test(the_jitter_factor_is_the_width_of_the_draw),
        cmocka_unit_test(a_factor_counts_however_the_backoff_was_made),
        cmocka_unit_test(the_same_seed_gives_the_same_schedule_for_every_jitter),
        cmocka_unit_test(full_jitter_draws_from_nothing_up_to_the_delay),
        cmocka_unit_test(equal_jitter_draws_from_the_upper_half),
        cmocka_unit_test(decorrelated_jitter_draws_up_to_three_times_the_last_wait),
        cmocka_unit_test(fixed_is_always_the_base_and_without_jitter_unless_asked_for),
        cmocka_unit_test(linear_grows_by_the_base),
        cmocka_unit_test(a_schedule_is_followed_and_its_last_wait_stays),
        cmocka_unit_test(doublings_go_on_in_equal_steps_as_cloud_tasks_documents),
        cmocka_unit_test(no_doublings_are_linear_and_endless_ones_exponential),
        cmocka_unit_test(every_kind_saturates_instead_of_overflowing),
        cmocka_unit_test(huge_attempts_end_at_the_limit),
        cmocka_unit_test(an_unchecked_backoff_still_gives_a_wait_within_its_limits),
        cmocka_unit_test(a_bad_option_is_refused_by_name),
        cmocka_unit_test(a_short_form_out_of_range_is_refused_where_it_is_checked),
        cmocka_unit_test(nowhere_to_put_a_backoff_is_refused),
        cmocka_unit_test(the_ends_of_every_range_are_accepted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
