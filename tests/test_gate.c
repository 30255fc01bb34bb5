/* SPDX-License-Identifier: MIT
 *
 * The shared gate: one hint holds everyone, a shorter one never shortens it, and callers may leave
 * spread over a span; alone, and through the options of a retry.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/backoff.h>
#include <daruma/dice.h>
#include <daruma/gate.h>
#include <daruma/policy.h>
#include <daruma/trail.h>

#include <errno.h>

static void a_zeroed_gate_is_open(void **state)
{
    struct daruma_gate gate = {0};

    (void)state;
    assert_int_equal(daruma_gate_wait_ms(&gate, 0), 0);
    assert_int_equal(daruma_gate_wait_ms(&gate, FAKE_START_MS), 0);
}

static void a_gate_is_closed_until_the_hint_and_not_longer(void **state)
{
    struct daruma_gate gate = {0};

    (void)state;
    daruma_gate_hold(&gate, 1000, 500);
    assert_int_equal(daruma_gate_wait_ms(&gate, 1000), 500);
    assert_int_equal(daruma_gate_wait_ms(&gate, 1499), 1);
    assert_int_equal(daruma_gate_wait_ms(&gate, 1500), 0);
    assert_int_equal(daruma_gate_wait_ms(&gate, 999999), 0);
    assert_int_equal(daruma_gate_wait_ms(&gate, 900), 600); /* an older reading of the clock */
}

static void a_longer_hint_is_never_shortened(void **state)
{
    struct daruma_gate gate = {0};

    (void)state;
    daruma_gate_hold(&gate, 1000, 500);
    daruma_gate_hold(&gate, 1100, 100);
    daruma_gate_hold(&gate, 1100, 0);
    assert_int_equal(daruma_gate_wait_ms(&gate, 1100), 400);
    daruma_gate_hold(&gate, 1100, 401);
    assert_int_equal(daruma_gate_wait_ms(&gate, 1100), 401);
}

static void a_gate_at_the_end_of_time_does_not_wrap(void **state)
{
    struct daruma_gate gate = {0};

    (void)state;
    daruma_gate_hold(&gate, INT64_MAX - 1000, UINT64_MAX);
    assert_true(daruma_gate_wait_ms(&gate, INT64_MAX - 1000) > 0);
    assert_true(daruma_gate_wait_ms(&gate, INT64_MIN) > (uint64_t)INT64_MAX);
    assert_int_equal(daruma_gate_wait_ms(&gate, INT64_MAX), 0);
    daruma_gate_hold(&gate, INT64_MAX, 1);
    assert_int_equal(daruma_gate_wait_ms(&gate, INT64_MAX), 0);
}

static void the_longest_of_many_hints_wins(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());
    struct daruma_gate gate = {0};
    int64_t until_ms = 0;

    (void)state;
    for (int64_t now_ms = 1; now_ms < 100000; now_ms++) {
        uint64_t hold_ms = daruma_dice_roll(&dice) % 5000;
        daruma_gate_hold(&gate, now_ms, hold_ms);
        until_ms = now_ms + (int64_t)hold_ms > until_ms ? now_ms + (int64_t)hold_ms : until_ms;
        assert_int_equal(daruma_gate_wait_ms(&gate, now_ms), until_ms - now_ms);
    }
}

static void an_endless_hint_ends_after_the_limit(void **state)
{
    struct daruma_gate gate = {0};

    (void)state;
    daruma_gate_hold(&gate, FAKE_START_MS, UINT64_MAX);
    assert_int_equal(daruma_gate_wait_ms(&gate, FAKE_START_MS), DARUMA_BACKOFF_LIMIT_MS);
}

static void one_hint_holds_every_caller(void **state)
{
    struct fake_world told, other;
    struct daruma_gate gate = {0};

    (void)state;
    fake_world_init(&told);
    told.options.gate = &gate;
    told.options.max_retries = DARUMA_NO_RETRIES; /* holds the gate even when it gives up */
    told.call.error.retry_after_ms = 7000;
    assert_int_equal(fake_world_run(&told), FAKE_CODE);

    fake_world_init(&other);
    other.options.gate = &gate;
    other.call.success_at = 1;
    assert_int_equal(fake_world_run(&other), 0);
    assert_int_equal(other.fake.sleep_count, 1);
    assert_int_equal(other.fake.slept_ms[0], 7000);
    assert_int_equal(other.hooks.retry_count, 0); /* that was no retry */
    assert_int_equal(other.call.attempts[0].number, 1);
}

static void close_gate(void *user, uint32_t attempt, const struct daruma_error *error,
                       uint64_t delay_ms)
{
    (void)attempt;
    (void)error;
    daruma_gate_hold(user, FAKE_START_MS, 2 * delay_ms);
}

static void a_gate_that_closes_during_a_wait_is_waited_for_too(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    world.options.on_retry = close_gate;
    world.options.user = &gate;
    world.call.success_at = 2;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.fake.sleep_count, 2);
    assert_int_equal(world.fake.slept_ms[0], FAKE_BASE_MS);
    assert_int_equal(world.fake.slept_ms[1], FAKE_BASE_MS);
}

/* Fails once while another caller is told to keep away for longer than this one's backoff. */
struct other_caller {
    struct daruma_gate *gate;
    int64_t now_ms;
};

static int held_by_another(void *user, const struct daruma_attempt *attempt,
                           struct daruma_error *ret_error)
{
    struct other_caller *other = user;

    if (attempt->number > 1) {
        return 0;
    }
    daruma_gate_hold(other->gate, other->now_ms, 9000);
    ret_error->retry_after_ms = 300; /* its own hint is the shorter one */
    return FAKE_CODE;
}

static void a_shorter_hint_of_ones_own_does_not_open_the_gate(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};
    struct other_caller other = {.gate = &gate, .now_ms = FAKE_START_MS};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    assert_int_equal(daruma_retry(held_by_another, &other, &world.options, NULL), 0);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_int_equal(world.fake.slept_ms[0], 9000);
    assert_int_equal(world.hooks.delays_ms[0], 9000);
}

static void a_gate_closed_beyond_the_deadline_ends_it_before_any_call(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};
    struct daruma_trail trail = {0};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    world.options.trail = &trail;
    world.options.timeout_ms = 1000;
    daruma_gate_hold(&gate, FAKE_START_MS, 1000);
    assert_int_equal(fake_world_run(&world), DARUMA_TIMED_OUT);
    assert_int_equal(world.call.count, 0);
    assert_int_equal(world.fake.sleep_count, 0);
    assert_int_equal(world.error.code, DARUMA_TIMED_OUT);
    assert_int_equal(trail.stop, DARUMA_STOP_DEADLINE);

    world.options.timeout_ms = 1001;
    world.call.success_at = 1;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.call.attempts[0].deadline_ms, FAKE_START_MS + 1001);
}

static void callers_leave_a_gate_over_its_spread(void **state)
{
    int64_t least_ms = INT64_MAX, most_ms = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fake_world world;
        struct daruma_gate gate = {.spread_ms = 1000};
        fake_world_init(&world);
        fake_init(&world.fake, seed);
        world.options.gate = &gate;
        world.call.success_at = 1 + seed % 2; /* one held at the start, one by its own hint */
        if (world.call.success_at == 1) {
            daruma_gate_hold(&gate, FAKE_START_MS, 5000);
        }
        world.call.error.retry_after_ms = 5000;
        assert_int_equal(fake_world_run(&world), 0);
        int64_t waited_ms = world.fake.now_ms - FAKE_START_MS;
        assert_in_range(waited_ms, 5000, 5999);
        assert_int_equal(world.fake.sleep_count, 1);
        least_ms = waited_ms < least_ms ? waited_ms : least_ms;
        most_ms = waited_ms > most_ms ? waited_ms : most_ms;
    }
    assert_in_range(least_ms, 5000, 5050);
    assert_in_range(most_ms, 5950, 5999);
}

static void an_open_gate_costs_no_roll_of_the_dice(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {.spread_ms = 1000};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    world.call.success_at = 1;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.fake.roll_count, 0);
}

static int quiet_call(void *user, const struct daruma_attempt *attempt,
                      struct daruma_error *ret_error)
{
    (void)user;
    (void)attempt;
    (void)ret_error;
    return 0;
}

static void waiting_at_a_gate_leaves_errno_alone(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};

    (void)state;
    fake_world_init(&world);
    world.fake.errno_left = EINTR;
    world.options.gate = &gate;
    daruma_gate_hold(&gate, FAKE_START_MS, 10);
    errno = ENOENT;
    assert_int_equal(daruma_retry(quiet_call, NULL, &world.options, NULL), 0);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_int_equal(errno, ENOENT);
}

static void a_wait_at_a_gate_can_be_woken(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};

    (void)state;
    fake_world_init(&world);
    world.fake.wake_at = 1;
    world.options.gate = &gate;
    daruma_gate_hold(&gate, FAKE_START_MS, 10);
    assert_int_equal(fake_world_run(&world), DARUMA_CANCELLED);
    assert_int_equal(world.call.count, 0);
}

static void the_shortest_hint_holds_and_is_waited_for(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {0};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    world.options.max_retries = DARUMA_NO_RETRIES;
    world.call.error.retry_after_ms = 1;
    assert_int_equal(fake_world_run(&world), FAKE_CODE);
    assert_int_equal(daruma_gate_wait_ms(&gate, FAKE_START_MS), 1);

    world.call.success_at = world.call.count + 1;
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_int_equal(world.fake.slept_ms[0], 1);
}

static void no_spread_is_longer_than_the_limit(void **state)
{
    struct fake_world world;
    struct daruma_gate gate = {.spread_ms = UINT64_MAX};

    (void)state;
    fake_world_init(&world);
    world.options.gate = &gate;
    world.call.success_at = 1;
    daruma_gate_hold(&gate, FAKE_START_MS, 10);
    assert_int_equal(fake_world_run(&world), 0);
    assert_int_equal(world.fake.sleep_count, 1);
    assert_in_range(world.fake.slept_ms[0], 10, 10 + DARUMA_BACKOFF_LIMIT_MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zeroed_gate_is_open),
        cmocka_unit_test(a_gate_is_closed_until_the_hint_and_not_longer),
        cmocka_unit_test(a_longer_hint_is_never_shortened),
        cmocka_unit_test(the_longest_of_many_hints_wins),
        cmocka_unit_test(a_gate_at_the_end_of_time_does_not_wrap),
        cmocka_unit_test(an_endless_hint_ends_after_the_limit),
        cmocka_unit_test(one_hint_holds_every_caller),
        cmocka_unit_test(a_gate_that_closes_during_a_wait_is_waited_for_too),
        cmocka_unit_test(a_shorter_hint_of_ones_own_does_not_open_the_gate),
        cmocka_unit_test(a_gate_closed_beyond_the_deadline_ends_it_before_any_call),
        cmocka_unit_test(callers_leave_a_gate_over_its_spread),
        cmocka_unit_test(an_open_gate_costs_no_roll_of_the_dice),
        cmocka_unit_test(waiting_at_a_gate_leaves_errno_alone),
        cmocka_unit_test(a_wait_at_a_gate_can_be_woken),
        cmocka_unit_test(the_shortest_hint_holds_and_is_waited_for),
        cmocka_unit_test(no_spread_is_longer_than_the_limit),
    };
    return HARNESS_RUN(argc, argv, tests);
}
