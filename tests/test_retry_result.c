/* SPDX-License-Identifier: MIT
 *
 * Retrying a function that returns a result: again only while its error is recoverable, and the
 * last result comes back exactly as the function made it.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/breaker.h>
#include <daruma/cancel.h>
#include <daruma/trail.h>

#include <string.h>

/* Gives the results of a list, one after the other, the last one for ever. */
struct script {
    const struct daruma_result *results;
    uint32_t count;
    uint32_t calls;
};

static struct daruma_result script_run(void *user, const struct daruma_attempt *attempt)
{
    struct script *script = user;

    assert_int_equal(attempt->number, script->calls + 1);
    uint32_t index = script->calls < script->count ? script->calls : script->count - 1;
    script->calls++;
    return script->results[index];
}

static struct daruma_result broken(const char *message, bool recoverable)
{
    struct daruma_error error = daruma_system_error(message);

    error.recoverable = recoverable;
    return daruma_failure(error);
}

/* One scenario: the results a function gives, retried in a fake world. */
static struct daruma_result run_script(struct fake_world *world, struct script *script)
{
    return daruma_retry_result(script_run, script, &world->options);
}

static void a_result_that_succeeds_is_given_back(void **state) /* B4, B8 */
{
    int answer = 42;
    struct daruma_result results[] = {daruma_success(&answer)};
    struct script script = {.results = results, .count = 1};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    struct daruma_result result = run_script(&world, &script);
    assert_true(daruma_is_success(&result));
    assert_false(daruma_is_failure(&result));
    assert_ptr_equal(result.value, &answer);
    assert_int_equal(script.calls, 1);
    assert_int_equal(world.fake.sleep_count, 0);

    script.calls = 0;
    result = daruma_retry_result(script_run, &script, NULL);
    assert_ptr_equal(result.value, &answer);
}

static void a_success_is_one_to_all_who_are_told(void **state)
{
    struct daruma_result results[] = {daruma_success(NULL)};
    struct script script = {.results = results, .count = 1};
    struct daruma_trail_entry entry = {.code = 4711};
    struct daruma_trail trail = {.entries = &entry, .capacity = 1};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.trail = &trail;
    world.options.condition = fake_condition;
    (void)run_script(&world, &script);
    assert_int_equal(script.calls, 1);
    assert_int_equal(world.hooks.condition_count, 0);
    assert_int_equal(trail.stop, DARUMA_STOP_SUCCESS);
    assert_int_equal(entry.code, 0);
}

static void the_third_result_succeeds(void **state) /* B4, B8 */
{
    char text[] = "third";
    struct daruma_result results[] = {broken("first", true), broken("second", true),
                                      daruma_success(text)};
    struct script script = {.results = results, .count = 3};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    struct daruma_result result = run_script(&world, &script);
    assert_true(daruma_is_success(&result));
    assert_ptr_equal(result.value, text);
    assert_null(result.error.message);
    assert_int_equal(script.calls, 3);
    assert_int_equal(world.fake.slept_ms[0], 100);
    assert_int_equal(world.fake.slept_ms[1], 200);
}

static void only_recoverable_errors_are_retried(void **state) /* B4, B8 */
{
    struct daruma_result results[] = {broken("first", true), broken("final", false),
                                      daruma_success(NULL)};
    struct script script = {.results = results, .count = 3};
    struct fake_world world;
    struct daruma_trail trail = {0};

    (void)state;
    fake_world_init(&world);
    world.options.trail = &trail;
    struct daruma_result result = run_script(&world, &script);
    assert_true(daruma_is_failure(&result));
    assert_string_equal(result.error.message, "final");
    assert_int_equal(script.calls, 2);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_int_equal(trail.stop, DARUMA_STOP_CONDITION);

    script = (struct script){.results = results + 1, .count = 2};
    result = run_script(&world, &script);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(script.calls, 1);
}

static void after_the_last_retry_the_last_failure_is_given_back_as_it_is(void **state) /* B6, B8 */
{
    int kept;
    struct daruma_result results[] = {broken("first", true), broken("second", true)};
    struct daruma_result bare = {.failed = true, .error = {.recoverable = true}, .value = &kept};
    struct script script = {.results = results, .count = 2};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 1;
    struct daruma_result result = run_script(&world, &script);
    assert_string_equal(result.error.message, "second");
    assert_int_equal(result.error.code, DARUMA_SYSTEM);
    assert_true(result.error.recoverable);
    assert_int_equal(script.calls, 2);

    /* Nothing is filled in: code 0, no type, no message, even a value on a failure stay. */
    script = (struct script){.results = &bare, .count = 1};
    result = run_script(&world, &script);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(script.calls, 2);
    assert_int_equal(result.error.code, 0);
    assert_null(result.error.type);
    assert_null(result.error.message);
    assert_ptr_equal(result.value, &kept);
}

static void a_condition_replaces_the_test_for_recoverable(void **state) /* B4, B5, B8 */
{
    struct daruma_result results[] = {broken("first", false), broken("second", true),
                                      broken("third", false)};
    struct script script = {.results = results, .count = 3};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 9;
    world.options.condition = fake_condition;
    world.hooks.refuse_at = 2;
    struct daruma_result result = run_script(&world, &script);
    assert_string_equal(result.error.message, "second"); /* recoverable, and yet not retried */
    assert_int_equal(script.calls, 2);
    assert_int_equal(world.hooks.condition_count, 2);
    assert_int_equal(world.hooks.condition_attempts[0], 1);
    assert_int_equal(world.hooks.condition_attempts[1], 2);
}

static void the_condition_is_not_asked_after_the_last_call(void **state) /* B5 */
{
    struct daruma_result results[] = {broken("again", true)};
    struct script script = {.results = results, .count = 1};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.max_retries = 2;
    world.options.condition = fake_condition;
    (void)run_script(&world, &script); /* looked at elsewhere */
    assert_int_equal(script.calls, 3);
    assert_int_equal(world.hooks.condition_count, 2);
}

static void on_retry_is_told_the_attempt_the_error_and_the_wait(void **state) /* B5, B8 */
{
    int source[2];
    struct daruma_result results[] = {broken("first", true), broken("second", true),
                                      daruma_success(NULL)};
    struct script script = {.results = results, .count = 3};
    struct fake_world world;

    (void)state;
    results[0].error.source = &source[0];
    results[1].error.source = &source[1];
    fake_world_init(&world);
    (void)run_script(&world, &script); /* looked at elsewhere */
    assert_int_equal(world.hooks.retry_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(world.hooks.retry_attempts[i], i + 1);
        assert_ptr_equal(world.hooks.retry_sources[i], &source[i]);
        assert_int_equal(world.hooks.delays_ms[i], world.fake.slept_ms[i]);
    }
}

static void a_results_hint_is_a_floor(void **state)
{
    struct daruma_result results[] = {broken("busy", true), daruma_success(NULL)};
    struct script script = {.results = results, .count = 2};
    struct fake_world world;

    (void)state;
    results[0].error.retry_after_ms = 12345;
    fake_world_init(&world);
    struct daruma_result result = run_script(&world, &script);
    assert_true(daruma_is_success(&result));
    assert_int_equal(world.fake.slept_ms[0], 12345);
}

static void the_deadline_gives_back_the_last_failure(void **state) /* B5, B6 */
{
    struct daruma_result results[] = {broken("late", true)};
    struct script script = {.results = results, .count = 1};
    struct fake_world world;

    (void)state;
    fake_world_init(&world);
    world.options.timeout_ms = 150;
    struct daruma_result result = run_script(&world, &script);
    assert_string_equal(result.error.message, "late");
    assert_int_equal(script.calls, 2);
}

static void what_the_library_ends_is_a_failure_with_its_code(void **state)
{
    struct daruma_result results[] = {broken("again", true)};
    struct script script = {.results = results, .count = 1};
    struct fake_world world;
    struct daruma_breaker breaker = {0};
    struct daruma_ticket ticket;

    (void)state;
    fake_world_init(&world);
    world.fake.wake_at = 1;
    struct daruma_result result = run_script(&world, &script);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(result.error.code, DARUMA_CANCELLED);
    assert_null(result.value);

    fake_world_init(&world);
    for (int i = 0; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
        assert_true(daruma_breaker_enter(&breaker, world.fake.now_ms, &ticket, NULL));
        daruma_breaker_failed(&breaker, ticket, world.fake.now_ms, NULL);
    }
    world.options.breaker = &breaker;
    script.calls = 0;
    result = run_script(&world, &script);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(result.error.code, DARUMA_BREAKER_OPEN);
    assert_int_equal(script.calls, 0);
}

static void a_breaker_hears_of_no_failure_from_an_error_that_is_not_recoverable(void **state)
{
    struct daruma_result results[] = {broken("not found", false)};
    struct daruma_breaker breaker = {0};

    (void)state;
    for (uint32_t i = 0; i < 4 * DARUMA_BREAKER_FAILURES_MAX; i++) {
        struct script script = {.results = results, .count = 1};
        struct fake_world world;
        fake_world_init(&world);
        world.options.breaker = &breaker;
        world.options.max_retries = i < 8 ? 3 : DARUMA_NO_RETRIES; /* also the last attempt */
        struct daruma_result result = run_script(&world, &script);
        assert_string_equal(result.error.message, "not found");
    }
    assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
}

static void an_error_that_is_not_recoverable_is_an_answer_to_the_breaker(void **state)
{
    struct daruma_result results[] = {broken("not found", false)};
    struct daruma_breaker breaker = {0};
    struct daruma_ticket ticket = {0};

    (void)state;
    for (int round = 0; round < 3; round++) { /* with one failure more it would open */
        struct script script = {.results = results, .count = 1};
        struct fake_world world;
        for (int i = 1; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
            assert_true(daruma_breaker_enter(&breaker, FAKE_START_MS, &ticket, NULL));
            daruma_breaker_failed(&breaker, ticket, FAKE_START_MS, NULL);
        }
        fake_world_init(&world);
        world.options.breaker = &breaker;
        (void)run_script(&world, &script);
        assert_int_equal(daruma_breaker_state(&breaker), DARUMA_BREAKER_CLOSED);
    }
}

static void bad_use_is_a_failure_that_names_the_option(void **state)
{
    struct daruma_retry_options options = {.timeout_ms = -1};
    struct script script = {0};

    (void)state;
    struct daruma_result result = daruma_retry_result(NULL, &script, NULL);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(result.error.code, DARUMA_INVALID);
    assert_memory_equal(result.error.message, "call:", 5);

    result = daruma_retry_result(script_run, &script, &options);
    assert_true(daruma_is_failure(&result));
    assert_int_equal(result.error.code, DARUMA_INVALID);
    assert_memory_equal(result.error.message, "options.timeout_ms:", 19);
    assert_int_equal(script.calls, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_that_succeeds_is_given_back),
        cmocka_unit_test(a_success_is_one_to_all_who_are_told),
        cmocka_unit_test(the_third_result_succeeds),
        cmocka_unit_test(only_recoverable_errors_are_retried),
        cmocka_unit_test(after_the_last_retry_the_last_failure_is_given_back_as_it_is),
        cmocka_unit_test(a_condition_replaces_the_test_for_recoverable),
        cmocka_unit_test(the_condition_is_not_asked_after_the_last_call),
        cmocka_unit_test(on_retry_is_told_the_attempt_the_error_and_the_wait),
        cmocka_unit_test(a_results_hint_is_a_floor),
        cmocka_unit_test(the_deadline_gives_back_the_last_failure),
        cmocka_unit_test(what_the_library_ends_is_a_failure_with_its_code),
        cmocka_unit_test(a_breaker_hears_of_no_failure_from_an_error_that_is_not_recoverable),
        cmocka_unit_test(bad_use_is_a_failure_that_names_the_option),
        cmocka_unit_test(an_error_that_is_not_recoverable_is_an_answer_to_the_breaker),
    };
    return HARNESS_RUN(argc, argv, tests);
}
