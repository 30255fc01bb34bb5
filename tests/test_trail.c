/* SPDX-License-Identifier: MIT
 *
 * The trail: what a caller can read afterwards about each attempt, in the synchronous form and in
 * the asynchronous one, whatever the end was.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/breaker.h>
#include <daruma/trail.h>

#include <string.h>

static void the_trail_is_kept_on_success_and_on_failure(void **state)
{
    for (uint32_t success_at = 0; success_at <= 3; success_at++) {
        struct fake_world world;
        struct daruma_trail_entry entries[8];
        struct daruma_trail trail = {
            .entries = entries, .capacity = 8, .count = 99, .stop = DARUMA_STOP_BUDGET};

        fake_world_init(&world);
        memset(entries, 0x5a, sizeof entries);
        world.options.trail = &trail;
        world.call.success_at = success_at;
        assert_int_equal(fake_world_run(&world), success_at == 0 ? 5 : 0);
        uint32_t count = success_at == 0 ? 4 : success_at;
        assert_int_equal(trail.count, count);
        assert_int_equal(trail.stop, success_at == 0 ? DARUMA_STOP_ATTEMPTS : DARUMA_STOP_SUCCESS);
        for (uint32_t i = 0; i < count; i++) {
            bool is_last = i + 1 == count;
            assert_int_equal(entries[i].attempt, i + 1);
            assert_int_equal(entries[i].code, is_last && success_at != 0 ? 0 : 5);
            assert_int_equal(entries[i].delay_ms, is_last ? 0 : 100u << i);
        }
    }
    (void)state;
}

static void when_the_trail_is_full_its_last_entry_is_the_latest_attempt(void **state)
{
    struct fake_world world;
    struct daruma_trail_entry entries[4] = {[3] = {.attempt = 4711}};
    struct daruma_trail trail = {.entries = entries, .capacity = 3};

    (void)state;
    fake_world_init(&world);
    world.options.trail = &trail;
    world.options.max_retries = 6;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(trail.count, 7);
    assert_int_equal(entries[0].attempt, 1);
    assert_int_equal(entries[1].attempt, 2);
    assert_int_equal(entries[2].attempt, 7);
    assert_int_equal(entries[2].delay_ms, 0);
    assert_int_equal(entries[3].attempt, 4711); /* nothing past its end */

    trail = (struct daruma_trail){.entries = NULL, .capacity = 0};
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(trail.count, 7);
}

static void the_trail_says_why_it_ended(void **state)
{
    struct fake_world world;
    struct daruma_trail trail = {0};

    (void)state;
    fake_world_init(&world);
    world.options.trail = &trail;
    world.options.timeout_ms = 50;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(trail.stop, DARUMA_STOP_DEADLINE);

    world.options.timeout_ms = 0;
    world.options.condition = fake_condition;
    world.hooks.refuse_at = 1;
    assert_int_equal(fake_world_run(&world), 5);
    assert_int_equal(trail.stop, DARUMA_STOP_CONDITION);

    world.options.condition = NULL;
    world.fake.wake_at = world.fake.sleep_count + 2;
    assert_int_equal(fake_world_run(&world), DARUMA_CANCELLED);
    assert_int_equal(trail.stop, DARUMA_STOP_CANCELLED);
    assert_int_equal(trail.count, 2);
}

/* A trail that still tells of the last time. */
static struct daruma_trail used_trail(struct daruma_trail_entry *entries)
{
    return (struct daruma_trail){
        .entries = entries, .capacity = 4, .count = 3, .stop = DARUMA_STOP_ATTEMPTS};
}

static void a_trail_that_was_used_before_starts_anew(void **state)
{
    struct fake_world world;
    struct daruma_breaker breaker = {0};
    struct daruma_trail_entry entries[4] = {{0}};
    struct daruma_trail trail = used_trail(entries);

    (void)state;
    fake_world_init(&world);
    for (int i = 0; i < DARUMA_BREAKER_FAILURES_MAX; i++) {
        struct daruma_ticket ticket;
        assert_true(daruma_breaker_enter(&breaker, FAKE_START_MS, &ticket, NULL));
        daruma_breaker_failed(&breaker, ticket, FAKE_START_MS, NULL);
    }
    world.options.breaker = &breaker;
    world.options.trail = &trail;
    assert_int_equal(fake_world_run(&world), DARUMA_BREAKER_OPEN);
    assert_int_equal(world.call.count, 0);
    assert_int_equal(trail.count, 0);
    assert_int_equal(trail.stop, DARUMA_STOP_BREAKER);
}

static int looking_call(void *user, const struct daruma_attempt *attempt,
                        struct daruma_error *ret_error)
{
    const struct daruma_trail *trail = user;

    (void)ret_error;
    assert_int_equal(trail->stop, DARUMA_STOP_NONE);
    assert_int_equal(trail->count, attempt->number - 1);
    return attempt->number < 3;
}

static void while_it_runs_the_trail_has_no_end(void **state)
{
    struct fake_world world;
    struct daruma_trail_entry entries[4];
    struct daruma_trail trail = used_trail(entries);

    (void)state;
    fake_world_init(&world);
    world.options.trail = &trail;
    assert_int_equal(daruma_retry(looking_call, &trail, &world.options, NULL), 0);
    assert_int_equal(trail.count, 3);
    assert_int_equal(trail.stop, DARUMA_STOP_SUCCESS);
}

static void begin_nothing(void *user, struct daruma_retry_op *op,
                          const struct daruma_attempt *attempt)
{
    (void)op;
    *(uint32_t *)user = attempt->generation;
}

static void note_code(void *user, struct daruma_retry_op *op, int code,
                      const struct daruma_error *error)
{
    (void)op;
    (void)error;
    *(uint32_t *)user = (uint32_t)code;
}

/* Cancelled in the first attempt, in the wait after it, in the second attempt. */
static void an_attempt_that_is_cancelled_in_flight_is_in_the_trail(void **state)
{
    for (int when = 0; when < 3; when++) {
        struct fake_loop fake;
        struct daruma_trail_entry entries[4];
        struct daruma_trail trail = used_trail(entries);
        struct daruma_retry_options options = {.loop = &fake.loop, .trail = &trail};
        struct daruma_retry_op op = {0};
        uint32_t noted = 0;

        fake_loop_init(&fake, 1);
        assert_int_equal(daruma_retry_async_start(&op, begin_nothing, &noted, &options, note_code),
                         0);
        if (when > 0) {
            assert_true(daruma_retry_async_finish(&op, noted, FAKE_CODE, NULL));
        }
        if (when > 1) {
            assert_true(fake_loop_fire(&fake));
        }
        assert_true(daruma_retry_async_cancel(&op));
        assert_int_equal(trail.count, when == 2 ? 2 : 1);
        assert_int_equal(trail.stop, DARUMA_STOP_CANCELLED);
        assert_int_equal(entries[0].code, when == 0 ? DARUMA_CANCELLED : FAKE_CODE);
        assert_int_equal(entries[0].delay_ms == 0, when == 0);
        if (when == 2) {
            assert_int_equal(entries[1].code, DARUMA_CANCELLED);
            assert_int_equal(entries[1].attempt, 2);
            assert_int_equal(entries[1].delay_ms, 0);
        }
        (void)fake_loop_run(&fake, 10);
        assert_int_equal((int)noted, DARUMA_CANCELLED);
    }
    (void)state;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trail_is_kept_on_success_and_on_failure),
        cmocka_unit_test(when_the_trail_is_full_its_last_entry_is_the_latest_attempt),
        cmocka_unit_test(the_trail_says_why_it_ended),
        cmocka_unit_test(a_trail_that_was_used_before_starts_anew),
        cmocka_unit_test(while_it_runs_the_trail_has_no_end),
        cmocka_unit_test(an_attempt_that_is_cancelled_in_flight_is_in_the_trail),
    };
    return HARNESS_RUN(argc, argv, tests);
}
