/* SPDX-License-Identifier: MIT
 *
 * The synchronous form: how often a function is called, what is waited between the calls, and what
 * the caller gets in the end. What is shared between callers (budget, breaker, gate, cancel) has
 * its own file each, also where it works through the options of a retry.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/cancel.h>
#include <daruma/trail.h>

#include <errno.h>
#include <math.h>
#include <string.h>

static void a_call_that_succeeds_at_once_is_called_once(void **state) /* B3.1, B8 */
{
    struct fake_world world;
    struct daruma_error before;

    (void)state;
    fake_world_init(&world);
    world.call.success_at = 1;
    memset(&world.error, 0x5a, sizeof world.error);
    before = world.error;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.call.count, 1);
    assert_int_equal(world.call.attempts[0].number, 1);
    assert_int_equal(world.call.attempts[0].deadline_ms, 0);
    assert_memory_equal(&world.error, &before, sizeof before);
    assert_int_equal(world.fake.sleep_count + world.fake.clock_count + world.fake.roll_count, 0);

    world.call.count = 0;
    assert_int_equal(daruma_retry(fake_call_run, &world.call, NULL, NULL), 0);
    assert_int_equal(world.call.count, 1);
}

static void the_third_try_succeeds(void **state) /* B3.1, B8 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.call.success_at = 3;
    world.error.code = 77;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.call.count, 3);
    assert_int_equal(world.call.attempts[2].number, 3);
    assert_int_equal(world.fake.sleep_count, 2);
    assert_int_equal(world.fake.slept_ms[0], 100);
    assert_int_equal(world.fake.slept_ms[1], 200);
    assert_int_equal(world.error.code, 77); /* untouched */
}

static void after_the_last_retry_the_caller_gets_the_last_error_itself(void **state) /* B6, B8 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 4;
    world.call.error = (struct daruma_error){.type = "net", .message = "down", .code = 9};
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 5);
    assert_int_equal(world.fake.sleep_count, 4);
    assert_ptr_equal(world.error.source, &world.call.attempts[4]);
    assert_string_equal(world.error.type, "net");
    assert_string_equal(world.error.message, "down");
    assert_int_equal(world.error.code, 9);
}

static void the_condition_is_told_the_error_and_the_failed_calls_number(void **state) /* B5, B8 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 10;
    world.options.condition = fake_condition;
    world.hooks.refuse_at = 3;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 3);
    assert_int_equal(world.hooks.condition_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(world.hooks.condition_attempts[i], i + 1);
        assert_ptr_equal(world.hooks.condition_sources[i], &world.call.attempts[i]);
    }
    assert_ptr_equal(world.error.source, &world.call.attempts[2]); /* B6 */
    assert_int_equal(world.hooks.retry_count, 2);
}

static void the_condition_is_not_asked_when_no_attempt_is_left(void **state) /* B5 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 2;
    world.options.condition = fake_condition;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 3);
    assert_int_equal(world.hooks.condition_count, 2);
}

/* Remembers how many sleeps there had been when it was called. */
struct watch {
    const struct fake *fake;
    size_t sleeps_before[FAKE_RECORD_MAX];
    uint64_t delays_ms[FAKE_RECORD_MAX];
    size_t count;
};

static void watch_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                           uint64_t delay_ms)
{
    struct watch *watch = user;

    assert_int_equal(attempt, watch->count + 1);
    assert_int_equal(error->code, 5);
    watch->sleeps_before[watch->count] = watch->fake->sleep_count;
    watch->delays_ms[watch->count++] = delay_ms;
}

static void on_retry_runs_before_each_wait_with_its_delay(void **state) /* B5, B8 */
{
    struct fake_world world;
    struct watch watch = {.fake = &world.fake};

    (void)state;
    fake_world_init(&world);
    world.options.backoff = (struct daruma_backoff){0};
    world.options.on_retry = watch_on_retry;
    world.options.user = &watch;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(watch.count, DARUMA_MAX_RETRIES);
    for (size_t i = 0; i < watch.count; i++) {
        assert_int_equal(watch.sleeps_before[i], i);
        assert_int_equal(watch.delays_ms[i], world.fake.slept_ms[i]);
    }
}

static void no_retries_means_one_call_and_zero_means_the_default(void **state) /* B5 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = DARUMA_NO_RETRIES;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 1);
    assert_int_equal(world.fake.sleep_count, 0);

    fake_world_init(&world);
    world.options.max_retries = 0;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, DARUMA_MAX_RETRIES + 1);
}

static void the_largest_number_of_retries_is_not_none(void **state) /* B5 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = DARUMA_NO_RETRIES - 1;
    world.options.condition = fake_condition;
    world.hooks.refuse_at = 50;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 50);
}

static void the_default_waits_are_those_of_document_b(void **state) /* B1 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.backoff = (struct daruma_backoff){0};
    world.options.max_retries = 12;
    assert_int_equal(fake_world_run(&world), 5);
    for (size_t i = 0; i < 12; i++) {
        uint64_t plan_ms = i < 6 ? UINT64_C(200) << i : 8000;
        uint64_t most_ms = plan_ms * 12 / 10 < 8000 ? plan_ms * 12 / 10 : 8000;
        assert_in_range(world.fake.slept_ms[i], plan_ms * 8 / 10, most_ms);
    }
}

static void a_wait_that_would_reach_the_deadline_is_not_begun(void **state) /* B5 */
{
    /* Waits are 100, 200, 400. */
    const struct {
        int64_t timeout_ms;
        uint32_t calls;
    } cases[] = {{1, 1}, {100, 1}, {101, 2}, {300, 2}, {301, 3}, {700, 3}, {701, 4}, {9999, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake_world world;
        fake_world_init(&world);
        world.options.timeout_ms = cases[i].timeout_ms;
        assert_int_equal(fake_world_run(&world), 5);
        assert_int_equal(world.call.count, cases[i].calls);
        assert_int_equal(world.hooks.retry_count, cases[i].calls - 1);
        assert_true(world.fake.now_ms - FAKE_START_MS < cases[i].timeout_ms);
        assert_ptr_equal(world.error.source, &world.call.attempts[cases[i].calls - 1]);
    }
}

static void time_spent_in_the_call_counts_towards_the_deadline(void **state) /* B5 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.timeout_ms = 1000;
    world.call.takes_ms = 450;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 2); /* 450 + 100 + 450 is the deadline */
    assert_int_equal(world.fake.sleep_count, 1);
}

static void an_overslept_wait_begins_no_call_after_the_deadline(void **state) /* B5 */
{
    struct fake_world world;
    struct daruma_trail trail = {0};

    (void)state;
    fake_world_init(&world);
    world.options.timeout_ms = 150;
    world.options.trail = &trail;
    world.fake.oversleep = 50; /* a machine under load */
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 1);
    assert_int_equal(trail.stop, DARUMA_STOP_DEADLINE);
    assert_ptr_equal(world.error.source, &world.call.attempts[0]);
}

static void a_call_is_told_the_nearer_of_its_two_deadlines(void **state) /* B5 */
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.attempt_timeout_ms = 300;
    world.options.timeout_ms = 600;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 3); /* begun after 0, 100 and 300 ms */
    assert_int_equal(world.call.attempts[0].deadline_ms, FAKE_START_MS + 300);
    assert_int_equal(world.call.attempts[1].deadline_ms, FAKE_START_MS + 400);
    assert_int_equal(world.call.attempts[2].deadline_ms, FAKE_START_MS + 600);

    fake_world_init(&world);
    world.options.attempt_timeout_ms = 300;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.attempts[3].deadline_ms, FAKE_START_MS + 100 + 200 + 400 + 300);
}

static void a_hint_is_a_floor_under_the_wait(void **state)
{
    const struct {
        int64_t hint_ms;
        uint64_t wait_ms;
    } cases[] = {{0, 100},
                 {99, 100},
                 {101, 101},
                 {60000, 60000},
                 {DARUMA_HINT_CAP_MS + 1, DARUMA_HINT_CAP_MS},
                 {INT64_MAX, DARUMA_HINT_CAP_MS},
                 {-1, 100},
                 {INT64_MIN, 100}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fake_world world;
        fake_world_init(&world);
        world.call.success_at = 2;
        world.call.error.retry_after_ms = cases[i].hint_ms;
        assert_int_equal(fake_world_run(&world), 0);
        assert_int_equal(world.fake.slept_ms[0], cases[i].wait_ms);
        assert_int_equal(world.hooks.delays_ms[0], cases[i].wait_ms);
    }
}

static void a_hint_beyond_the_deadline_ends_it_at_once(void **state)
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.timeout_ms = 5000;
    world.call.error.retry_after_ms = 5000;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(world.call.count, 1);
    assert_int_equal(world.fake.sleep_count, 0);
    assert_int_equal(world.error.retry_after_ms, 5000);
}

struct errno_call {
    int leaves; /* 0: leaves it alone */
    uint32_t success_at;
};

static int errno_call_run(void *user, const struct daruma_attempt *attempt,
                          struct daruma_error *ret_error)
{
    struct errno_call *call = user;

    (void)ret_error;
    if (call->leaves != 0) {
        errno = call->leaves + (int)attempt->number;
    }
    return attempt->number == call->success_at ? 0 : 5;
}

static void errno_is_what_the_last_call_left(void **state)
{
    const uint32_t success_at[] = {0, 1, 2, 4};

    (void)state;
    for (size_t i = 0; i < sizeof success_at / sizeof *success_at; i++) {
        for (int64_t timeout_ms = 0; timeout_ms <= 100000; timeout_ms += 100000) {
            struct fake_world world;
            struct errno_call call = {.leaves = 40, .success_at = success_at[i]};
            fake_world_init(&world);
            world.fake.errno_left = EINTR;
            world.options.timeout_ms = timeout_ms;
            errno = ENOENT;
            (void)daruma_retry(errno_call_run, &call, &world.options, NULL);
            assert_int_equal(errno, 40 + (success_at[i] == 0 ? 4 : (int)success_at[i]));

            call.leaves = 0; /* then it is as it was before the retry */
            errno = ENOENT;
            (void)daruma_retry(errno_call_run, &call, &world.options, NULL);
            assert_int_equal(errno, ENOENT);
        }
    }
}

static void errno_is_what_the_last_call_left_when_no_other_may_begin(void **state)
{
    struct fake_world world;
    struct errno_call call = {.leaves = 40};

    (void)state;
    fake_world_init(&world);
    world.fake.errno_left = EINTR;
    world.fake.oversleep = 10000; /* past the deadline */
    world.options.timeout_ms = 1000;
    errno = ENOENT;
    assert_int_equal(daruma_retry(errno_call_run, &call, &world.options, NULL), 5);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_int_equal(errno, 41);
}

static void what_a_call_leaves_out_of_its_error_is_filled_in(void **state)
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = DARUMA_NO_RETRIES;
    world.call.code = -12;
    assert_int_equal(fake_world_run(&world), -12);
    assert_int_equal(world.error.code, -12);
    assert_non_null(world.error.type);
    assert_non_null(world.error.message);
    assert_true(strlen(world.error.type) > 0 && strlen(world.error.message) > 0);
    assert_false(world.error.recoverable);
    assert_int_equal(daruma_retry(fake_call_run, &world.call, &world.options, NULL), -12);
}

struct zero_check {
    uint32_t count;
};

static int dirty_call(void *user, const struct daruma_attempt *attempt,
                      struct daruma_error *ret_error)
{
    const struct daruma_error zero = {0};
    struct zero_check *check = user;

    assert_int_equal(attempt->number, ++check->count);
    assert_memory_equal(ret_error, &zero, sizeof zero);
    memset(ret_error, 0x77, sizeof *ret_error);
    ret_error->retry_after_ms = 1;
    ret_error->type = ret_error->message = "dirty";
    return 1;
}

static void each_call_gets_a_zeroed_error(void **state)
{
    struct fake_world world;
    struct zero_check check = {0};

    (void)state;
    fake_world_init(&world);
    assert_int_equal(daruma_retry(dirty_call, &check, &world.options, NULL), 1);
    assert_int_equal(check.count, 4);
}

static void a_sleep_that_is_woken_ends_it_as_cancelled(void **state)
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.fake.wake_at = 2;
    assert_int_equal(fake_world_run(&world), DARUMA_CANCELLED);
    assert_int_equal(world.call.count, 2);
    assert_int_equal(world.error.code, DARUMA_CANCELLED);
    assert_string_equal(world.error.type, "cancelled");
}

/* Bad use: nothing is called, the message begins with the name of what was wrong. */
static void is_refused(daruma_call_fn run, const struct daruma_retry_options *options,
                       const char *name)
{
    struct fake_call call = {.success_at = 1};
    struct daruma_error error = {0};

    assert_int_equal(daruma_retry(run, &call, options, &error), DARUMA_INVALID);
    assert_int_equal(call.count, 0);
    assert_int_equal(error.code, DARUMA_INVALID);
    assert_string_equal(error.type, "usage");
    assert_memory_equal(error.message, name, strlen(name));
    assert_int_equal(error.message[strlen(name)], ':');
    assert_int_equal(daruma_retry(run, &call, options, NULL), DARUMA_INVALID);
}

static void bad_use_is_an_error_that_names_the_option(void **state)
{
    struct daruma_cancel closed = {0};
    struct daruma_trail trail = {.capacity = 1};
    struct daruma_retry_loop loop;
    const uint64_t waits[65] = {0};
    const struct {
        const char *name;
        struct daruma_retry_options options;
    } cases[] = {
        {"options.timeout_ms", {.timeout_ms = -1}},
        {"options.timeout_ms", {.timeout_ms = INT64_MAX}},
        {"options.attempt_timeout_ms", {.attempt_timeout_ms = INT64_MIN}},
        {"options.attempt_timeout_ms", {.attempt_timeout_ms = DARUMA_BACKOFF_LIMIT_MS + 1}},
        {"options.cancel", {.cancel = &closed}},
        {"options.trail", {.trail = &trail}},
        {"options.loop", {.loop = &loop}},
        {"backoff.jitter_factor", {.backoff = daruma_backoff_exponential_jitter(1, 2, 1.001)}},
        {"backoff.jitter_factor", {.backoff = daruma_backoff_exponential_jitter(1, 2, -0.1)}},
        {"backoff.jitter_factor",
         {.backoff = daruma_backoff_exponential_jitter(1, 2, (double)NAN)}},
        {"backoff.jitter_factor", {.backoff = {.jitter_factor = 2}}},
        {"backoff.max_ms", {.backoff = daruma_backoff_exponential_jitter(200, 199, 0.2)}},
        {"backoff.base_ms", {.backoff = daruma_backoff_exponential((uint64_t)INT64_MIN)}},
        {"backoff.kind", {.backoff = {.kind = (enum daruma_backoff_kind)77}}},
        {"backoff.jitter", {.backoff = {.jitter = (enum daruma_jitter)77}}},
        {"backoff.schedule_ms", {.backoff = {.kind = DARUMA_BACKOFF_SCHEDULE}}},
        {"backoff.schedule_count",
         {.backoff = {.kind = DARUMA_BACKOFF_SCHEDULE,
                      .schedule_ms = waits,
                      .schedule_count = 65}}},
    };

    (void)state;
    daruma_retry_loop_init(&loop, NULL, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        is_refused(fake_call_run, &cases[i].options, cases[i].name);
    }
    is_refused(NULL, NULL, "call");
    is_refused(NULL, &cases[0].options, "call");
}

static void the_longest_times_are_accepted(void **state)
{
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.timeout_ms = DARUMA_BACKOFF_LIMIT_MS;
    world.options.attempt_timeout_ms = DARUMA_BACKOFF_LIMIT_MS;
    world.call.success_at = 1;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.call.attempts[0].deadline_ms, FAKE_START_MS + DARUMA_BACKOFF_LIMIT_MS);
}

static void the_same_seed_gives_the_same_schedule(void **state)
{
    uint64_t first[30];

    for (uint64_t run = 0; run < 3; run++) {
        struct fake_world world;
        fake_world_init(&world);
        fake_init(&world.fake, run == 2 ? 78 : 77);
        world.options.backoff = (struct daruma_backoff){0};
        world.options.max_retries = 30;
        assert_int_equal(fake_world_run(&world), 5);
        if (run == 0) {
            memcpy(first, world.fake.slept_ms, sizeof first);
        } else if (run == 1) {
            assert_memory_equal(first, world.fake.slept_ms, sizeof first);
        } else {
            assert_memory_not_equal(first, world.fake.slept_ms, sizeof first);
        }
    }
    (void)state;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_succeeds_at_once_is_called_once),
        cmocka_unit_test(the_third_try_succeeds),
        cmocka_unit_test(after_the_last_retry_the_caller_gets_the_last_error_itself),
        cmocka_unit_test(the_condition_is_told_the_error_and_the_failed_calls_number),
        cmocka_unit_test(the_condition_is_not_asked_when_no_attempt_is_left),
        cmocka_unit_test(on_retry_runs_before_each_wait_with_its_delay),
        cmocka_unit_test(no_retries_means_one_call_and_zero_means_the_default),
        cmocka_unit_test(the_largest_number_of_retries_is_not_none),
        cmocka_unit_test(the_default_waits_are_those_of_document_b),
        cmocka_unit_test(a_wait_that_would_reach_the_deadline_is_not_begun),
        cmocka_unit_test(time_spent_in_the_call_counts_towards_the_deadline),
        cmocka_unit_test(an_overslept_wait_begins_no_call_after_the_deadline),
        cmocka_unit_test(a_call_is_told_the_nearer_of_its_two_deadlines),
        cmocka_unit_test(a_hint_is_a_floor_under_the_wait),
        cmocka_unit_test(a_hint_beyond_the_deadline_ends_it_at_once),
        cmocka_unit_test(errno_is_what_the_last_call_left),
        cmocka_unit_test(what_a_call_leaves_out_of_its_error_is_filled_in),
        cmocka_unit_test(each_call_gets_a_zeroed_error),
        cmocka_unit_test(a_sleep_that_is_woken_ends_it_as_cancelled),
        cmocka_unit_test(bad_use_is_an_error_that_names_the_option),
        cmocka_unit_test(the_same_seed_gives_the_same_schedule),
        cmocka_unit_test(errno_is_what_the_last_call_left_when_no_other_may_begin),
        cmocka_unit_test(the_longest_times_are_accepted),
    };
    return HARNESS_RUN(argc, argv, tests);
}
