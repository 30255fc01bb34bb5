/* SPDX-License-Identifier: MIT
 *
 * Many asynchronous operations on one loop: how its one timer is used, the form for a plain poll
 * loop, and a random campaign of starts, answers, cancels and timeouts against a model that only
 * knows the promises of the header.
 */
#include "harness.h"
#include "fake.h"

#include <daruma/cancel.h>
#include <daruma/trail.h>

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLEET_MAX 64

/* Operations that are all made alike; each call only remembers its generation. */
struct fleet {
    struct fake_loop fake;
    struct daruma_retry_options options[FLEET_MAX];
    struct daruma_retry_op ops[FLEET_MAX];
    uint32_t generations[FLEET_MAX];
    uint32_t calls[FLEET_MAX];
    size_t done_count;
    size_t done_order[FLEET_MAX];
    bool is_failing; /* each call answers with a failure from inside itself */
};

static void fleet_call(void *user, struct daruma_retry_op *op, const struct daruma_attempt *attempt)
{
    struct fleet *fleet = user;
    size_t index = (size_t)(op - fleet->ops);

    fleet->generations[index] = attempt->generation;
    fleet->calls[index]++;
    if (fleet->is_failing) {
        assert_true(daruma_retry_async_finish(op, attempt->generation, 5, NULL));
    }
}

static void fleet_done(void *user, struct daruma_retry_op *op, int code,
                       const struct daruma_error *error)
{
    struct fleet *fleet = user;

    (void)code;
    (void)error;
    fleet->done_order[fleet->done_count++ % FLEET_MAX] = (size_t)(op - fleet->ops);
}

static void fleet_init(struct fleet *fleet)
{
    memset(fleet, 0, sizeof *fleet);
    fake_loop_init(&fleet->fake, 1);
}

static void fleet_start(struct fleet *fleet, size_t index, int64_t attempt_timeout_ms)
{
    fleet->options[index].loop = &fleet->fake.loop;
    fleet->options[index].attempt_timeout_ms = attempt_timeout_ms;
    assert_int_equal(daruma_retry_async_start(&fleet->ops[index], fleet_call, fleet,
                                              &fleet->options[index], fleet_done),
                     0);
}

static bool fleet_finish(struct fleet *fleet, size_t index, int code)
{
    return daruma_retry_async_finish(&fleet->ops[index], fleet->generations[index], code, NULL);
}

static void the_timer_is_set_only_when_the_next_deadline_changes(void **state)
{
    static struct fleet fleet;

    (void)state;
    fleet_init(&fleet);
    fleet_start(&fleet, 0, 0);
    assert_int_equal(fleet.fake.set_count + fleet.fake.cancel_count, 0); /* nothing to wait for */
    fleet_start(&fleet, 1, 1000);
    assert_int_equal(fleet.fake.set_count, 1);
    fleet_start(&fleet, 2, 2000);
    fleet_start(&fleet, 3, 1000);
    assert_int_equal(fleet.fake.set_count, 1);
    fleet_start(&fleet, 4, 500);
    assert_int_equal(fleet.fake.set_count, 2);
    assert_int_equal(fleet.fake.armed_ms, FAKE_START_MS + 500);
    assert_true(fleet_finish(&fleet, 4, 0)); /* an end to tell: now */
    assert_int_equal(fleet.fake.set_count, 3);
    assert_int_equal(fleet.fake.armed_ms, FAKE_START_MS);
    assert_true(fleet_finish(&fleet, 1, 0));
    assert_true(daruma_retry_async_cancel(&fleet.ops[2]));
    assert_int_equal(fleet.fake.set_count, 3);
    assert_true(fake_loop_fire(&fleet.fake));
    assert_int_equal(fleet.done_count, 3);
    assert_int_equal(fleet.fake.set_count, 4);
    assert_int_equal(fleet.fake.armed_ms, FAKE_START_MS + 1000);
    assert_int_equal(fleet.fake.cancel_count, 0);
    assert_true(fleet_finish(&fleet, 3, 0));
    assert_true(fake_loop_fire(&fleet.fake));
    assert_int_equal(fleet.fake.armed_ms, -1); /* only one without a deadline is left */
    assert_int_equal(fleet.fake.set_count, 5);
}

static void early_and_needless_ticks_do_no_harm(void **state)
{
    static struct fleet fleet;

    (void)state;
    fleet_init(&fleet);
    assert_int_equal(daruma_retry_tick(&fleet.fake.loop), 0);
    fleet_start(&fleet, 0, 1000);
    for (int i = 0; i < 999; i++) {
        fleet.fake.now_ms++;
        assert_int_equal(daruma_retry_tick(&fleet.fake.loop), 0);
        assert_int_equal(fleet.fake.armed_ms, FAKE_START_MS + 1000);
    }
    fleet.fake.now_ms++;
    assert_int_equal(daruma_retry_tick(&fleet.fake.loop), 1);
    assert_false(fleet_finish(&fleet, 0, 0)); /* over its time */
}

static void ends_are_told_in_the_order_in_which_they_came(void **state)
{
    static struct fleet fleet;

    (void)state;
    fleet_init(&fleet);
    for (size_t i = 0; i < FLEET_MAX; i++) {
        fleet_start(&fleet, i, (int64_t)(1000 + i));
    }
    for (size_t i = 0; i < FLEET_MAX; i++) {
        assert_true(fleet_finish(&fleet, i * 5 % FLEET_MAX, 0));
    }
    assert_int_equal(daruma_retry_tick(&fleet.fake.loop), FLEET_MAX);
    for (size_t i = 0; i < FLEET_MAX; i++) {
        assert_int_equal(fleet.done_order[i], i * 5 % FLEET_MAX);
    }
}

static void a_tick_ends_even_when_no_wait_has_any_length(void **state)
{
    static struct fleet fleet;
    static const uint64_t no_wait = 0;
    const struct daruma_backoff backoff = {
        .kind = DARUMA_BACKOFF_SCHEDULE, .schedule_ms = &no_wait, .schedule_count = 1};
    uint64_t calls = 0;

    (void)state;
    fleet_init(&fleet);
    fleet.is_failing = true;
    for (size_t i = 0; i < 9; i++) {
        fleet.options[i].max_retries = DARUMA_NO_RETRIES - 1;
        fleet.options[i].backoff = backoff;
        fleet_start(&fleet, i, 0);
    }
    for (int i = 0; i < 100; i++) {
        assert_in_range(daruma_retry_tick(&fleet.fake.loop), 1, 9);
        assert_int_equal(daruma_retry_next_timeout_ms(&fleet.fake.loop), 0);
        fleet.fake.now_ms += i % 3; /* time moves on, if slowly: everyone has a turn */
    }
    for (size_t i = 0; i < 9; i++) {
        assert_in_range(fleet.calls[i], 60, 901);
        calls += fleet.calls[i];
    }
    assert_in_range(calls, 100, 909);
}

/* A loop that is polled: a clock and nothing else. */
static int64_t polled_now_ms(void *user)
{
    return *(int64_t *)user;
}

static void a_poll_loop_is_told_how_long_it_may_wait(void **state)
{
    static const struct daruma_loop_ops ops = {.now_ms = polled_now_ms};
    static struct fleet fleet;
    int64_t now_ms = FAKE_START_MS;
    struct daruma_retry_loop *loop = &fleet.fake.loop;

    (void)state;
    fleet_init(&fleet);
    daruma_retry_loop_init(loop, &ops, &now_ms);
    assert_int_equal(daruma_retry_next_timeout_ms(loop), -1);
    fleet_start(&fleet, 0, DARUMA_BACKOFF_LIMIT_MS);
    assert_int_equal(daruma_retry_next_timeout_ms(loop), INT_MAX); /* poll takes an int */
    fleet.options[1].backoff = daruma_backoff_exponential(250);
    fleet_start(&fleet, 1, 400);
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 400);
    now_ms += 150;
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 250);
    assert_true(fleet_finish(&fleet, 1, 5));
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 250);
    now_ms += 249;
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 1);
    assert_int_equal(daruma_retry_tick(loop), 0);
    now_ms += 100; /* late */
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 0);
    assert_int_equal(daruma_retry_tick(loop), 1);
    assert_int_equal(fleet.calls[1], 2);
    assert_true(fleet_finish(&fleet, 1, 0));
    assert_int_equal(daruma_retry_next_timeout_ms(loop), 0);
    assert_int_equal(daruma_retry_tick(loop), 1);
    assert_true(daruma_retry_async_cancel(&fleet.ops[0]));
    assert_int_equal(daruma_retry_tick(loop), 1);
    assert_int_equal(daruma_retry_next_timeout_ms(loop), -1);
}

static void without_ops_the_loop_runs_on_the_real_clock(void **state)
{
    static struct fleet fleet;

    (void)state;
    fleet_init(&fleet);
    daruma_retry_loop_init(&fleet.fake.loop, NULL, NULL);
    fleet_start(&fleet, 0, 3600000);
    assert_in_range(daruma_retry_next_timeout_ms(&fleet.fake.loop), 3000000, 3600000);
    assert_true(fleet_finish(&fleet, 0, 0));
    assert_int_equal(daruma_retry_tick(&fleet.fake.loop), 1);
    assert_int_equal(fleet.done_count, 1);
}

static int start_with(struct fleet *fleet, daruma_async_fn call,
                      const struct daruma_retry_options *options, daruma_done_fn done)
{
    return daruma_retry_async_start(&fleet->ops[0], call, fleet, options, done);
}

static void bad_options_are_named_in_the_operation(void **state)
{
    static struct fleet fleet;
    struct daruma_retry_loop *loop = &fleet.fake.loop;
    struct fake fake;
    struct daruma_cancel handle = {0};
    struct daruma_trail trail = {.capacity = 1};
    const struct {
        const char *name;
        struct daruma_retry_options options;
    } cases[] = {
        {"options.loop:", {0}},
        {"options.env:", {.loop = loop, .env = &fake.env}},
        {"options.cancel:", {.loop = loop, .cancel = &handle}},
        {"options.timeout_ms:", {.loop = loop, .timeout_ms = -1}},
        {"options.attempt_timeout_ms:", {.loop = loop, .attempt_timeout_ms = -1}},
        {"options.trail:", {.loop = loop, .trail = &trail}},
        {"backoff.jitter_factor:", {.loop = loop, .backoff = {.jitter_factor = 1.5}}},
    };
    const struct daruma_retry_options good = {.loop = loop};
    const struct daruma_error *error = &fleet.ops[0].error;

    (void)state;
    fleet_init(&fleet);
    fake_init(&fake, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(start_with(&fleet, fleet_call, &cases[i].options, fleet_done),
                         DARUMA_INVALID);
        assert_int_equal(error->code, DARUMA_INVALID);
        assert_memory_equal(error->message, cases[i].name, strlen(cases[i].name));
    }
    assert_int_equal(start_with(&fleet, NULL, &good, fleet_done), DARUMA_INVALID);
    assert_memory_equal(error->message, "call:", 5);
    assert_int_equal(start_with(&fleet, fleet_call, &good, NULL), DARUMA_INVALID);
    assert_memory_equal(error->message, "done:", 5);
    assert_int_equal(start_with(&fleet, fleet_call, NULL, fleet_done), DARUMA_INVALID);
    assert_memory_equal(error->message, "options.loop:", 13);
    assert_int_equal(daruma_retry_async_start(NULL, fleet_call, NULL, &good, fleet_done),
                     DARUMA_INVALID);
    assert_false(daruma_retry_async_finish(NULL, 1, 0, NULL));
    assert_int_equal(daruma_retry_tick(loop), 0);
    assert_int_equal(fleet.calls[0] + fleet.done_count, 0);
    assert_int_equal(start_with(&fleet, fleet_call, &good, fleet_done), 0); /* nothing sticks */
}

/* What the model knows of one operation. */
struct slot {
    struct ocean *ocean;
    struct daruma_retry_op *op; /* in memory of its own, so that a use after free is seen */
    struct daruma_retry_options options;
    bool is_live; /* started, not told its end */
    bool has_ended;
    bool is_flying;
    bool is_answered; /* the present attempt has just been answered */
    uint32_t generation;
    uint32_t attempts;
    int64_t deadline_ms, attempt_deadline_ms, due_ms;
    int code; /* of the latest failure, success or cancel */
};

struct ocean {
    struct fake_loop fake;
    struct daruma_dice dice;
    struct slot slots[FLEET_MAX];
    bool is_inside; /* of start, finish or cancel */
    uint64_t start_count, done_count, retry_count, timeout_count, drop_count;
};

static uint64_t roll(struct ocean *ocean, uint64_t below)
{
    return daruma_dice_roll(&ocean->dice) % below;
}

/* An end that came from the clock, in a tick, and is not told yet. */
static void slot_timed_out(struct slot *slot)
{
    const int64_t now_ms = slot->ocean->fake.now_ms;

    if (slot->is_flying) {
        assert_true(slot->attempt_deadline_ms != 0 && now_ms >= slot->attempt_deadline_ms);
        slot->code = DARUMA_TIMED_OUT;
    } else { /* it waited too long to begin another attempt */
        assert_true(slot->options.timeout_ms != 0 && now_ms >= slot->deadline_ms);
    }
    slot->is_flying = false;
    slot->has_ended = true;
}

static void slot_cancel(struct slot *slot)
{
    bool was_inside = slot->ocean->is_inside;

    slot->ocean->is_inside = true;
    bool counted = daruma_retry_async_cancel(slot->op);
    slot->ocean->is_inside = was_inside;
    if (!slot->is_live || slot->has_ended) {
        assert_false(counted);
    } else if (!counted) {
        slot_timed_out(slot);
    } else {
        slot->has_ended = true;
        slot->is_flying = false;
        slot->code = DARUMA_CANCELLED;
    }
}

static void slot_finish(struct slot *slot, uint32_t generation, int code)
{
    bool expected = slot->is_flying && slot->generation == generation;
    bool was_inside = slot->ocean->is_inside;
    struct daruma_error error = {.retry_after_ms = (int64_t)roll(slot->ocean, 30)};
    struct slot before = *slot;

    if (expected) {
        slot->is_flying = false;
        slot->is_answered = true;
        slot->has_ended = true; /* until on_retry says otherwise */
        slot->code = code;
    }
    slot->ocean->is_inside = true;
    bool counted = daruma_retry_async_finish(slot->op, generation, code, &error);
    slot->ocean->is_inside = was_inside;
    slot->is_answered = false;
    if (!counted) {
        slot->ocean->drop_count++;
        *slot = before;
        if (expected) {
            slot_timed_out(slot);
        }
    }
    assert_true(expected || !counted);
}

static void slot_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                          uint64_t delay_ms)
{
    struct slot *slot = user;
    struct ocean *ocean = slot->ocean;

    assert_true(slot->is_live);
    assert_int_equal(attempt, slot->attempts);
    assert_true(attempt <= slot->options.max_retries);
    if (!slot->is_answered) { /* then its time must be over */
        assert_true(slot->is_flying && slot->attempt_deadline_ms != 0);
        assert_true(ocean->fake.now_ms >= slot->attempt_deadline_ms);
        slot->code = DARUMA_TIMED_OUT;
        slot->is_flying = false;
        ocean->timeout_count++;
    }
    assert_int_equal(error->code, slot->code);
    assert_true((int64_t)delay_ms >= error->retry_after_ms);
    slot->has_ended = false;
    slot->due_ms = ocean->fake.now_ms + (int64_t)delay_ms;
    ocean->retry_count++;
    if (roll(ocean, 40) == 0) {
        slot_cancel(slot);
    }
}

static void slot_call(void *user, struct daruma_retry_op *op, const struct daruma_attempt *attempt)
{
    struct slot *slot = user;
    struct ocean *ocean = slot->ocean;

    assert_true(slot->is_live && !slot->has_ended && !slot->is_flying);
    assert_ptr_equal(op, slot->op);
    assert_int_equal(attempt->number, ++slot->attempts);
    assert_true(ocean->fake.now_ms >= slot->due_ms);
    assert_true(attempt->deadline_ms == 0 || attempt->deadline_ms > ocean->fake.now_ms);
    slot->is_flying = true;
    slot->attempt_deadline_ms = attempt->deadline_ms;
    slot->generation = attempt->generation;
    if (roll(ocean, 8) == 0) {
        slot_finish(slot, attempt->generation, (int)roll(ocean, 2));
    } else if (roll(ocean, 40) == 0) {
        slot_cancel(slot);
    }
}

static void slot_start(struct slot *slot);

static void slot_done(void *user, struct daruma_retry_op *op, int code,
                      const struct daruma_error *error)
{
    struct slot *slot = user;
    struct ocean *ocean = slot->ocean;

    assert_false(ocean->is_inside);
    assert_true(slot->is_live);
    assert_int_equal(error == NULL ? 0 : error->code, code);
    if (slot->is_flying) { /* nobody ended it but its time */
        assert_true(ocean->fake.now_ms >= slot->attempt_deadline_ms);
        assert_int_equal(code, DARUMA_TIMED_OUT);
    } else {
        assert_int_equal(code, slot->code);
    }
    if (code != 0 && code != DARUMA_CANCELLED && slot->options.timeout_ms == 0) {
        assert_int_equal(slot->attempts, slot->options.max_retries + 1);
    }
    slot->is_live = slot->is_flying = false;
    ocean->done_count++;
    if (roll(ocean, 3) == 0) {
        free(op);
        slot->op = calloc(1, sizeof *slot->op);
        assert_non_null(slot->op);
    } else if (roll(ocean, 3) == 0) {
        slot_start(slot);
    }
}

static void slot_start(struct slot *slot)
{
    struct ocean *ocean = slot->ocean;
    bool was_inside = ocean->is_inside;

    /* One roll a statement: every compiler then rolls in the same order. */
    slot->options = (struct daruma_retry_options){
        .loop = &ocean->fake.loop, .on_retry = slot_on_retry, .user = slot};
    slot->options.max_retries = 1 + (uint32_t)roll(ocean, 4);
    slot->options.backoff = daruma_backoff_exponential_jitter(1 + roll(ocean, 50), 100, 0.5);
    if (roll(ocean, 2) == 0) {
        slot->options.attempt_timeout_ms = 1 + (int64_t)roll(ocean, 60);
    }
    if (roll(ocean, 2) == 0) {
        slot->options.timeout_ms = 1 + (int64_t)roll(ocean, 300);
    }
    slot->is_live = true;
    slot->has_ended = slot->is_flying = false;
    slot->attempts = 0;
    slot->due_ms = 0;
    slot->deadline_ms = ocean->fake.now_ms + slot->options.timeout_ms;
    ocean->start_count++;
    ocean->is_inside = true;
    assert_int_equal(daruma_retry_async_start(slot->op, slot_call, slot, &slot->options, slot_done),
                     0);
    ocean->is_inside = was_inside;
}

static void ocean_step(struct ocean *ocean)
{
    struct slot *slot = &ocean->slots[roll(ocean, FLEET_MAX)];

    switch (roll(ocean, 8)) {
    case 0:
    case 1:
    case 2:
        if (!slot->is_live) {
            slot_start(slot);
        } else {
            slot_finish(slot, slot->generation, (int)roll(ocean, 3));
        }
        break;
    case 3:
        slot_finish(slot, slot->generation - 1, 0); /* of an attempt before the present one */
        break;
    case 4:
        if (roll(ocean, 4) == 0) {
            slot_cancel(slot);
        }
        break;
    case 5:
        (void)daruma_retry_tick(&ocean->fake.loop); /* needless or not */
        break;
    case 6:
        (void)fake_loop_fire(&ocean->fake);
        break;
    default:
        ocean->fake.now_ms += (int64_t)roll(ocean, 20);
        break;
    }
    int64_t left_ms = ocean->fake.armed_ms - ocean->fake.now_ms;
    assert_int_equal(daruma_retry_next_timeout_ms(&ocean->fake.loop), ocean->fake.armed_ms < 0 ? -1
                                                                      : left_ms < 0            ? 0
                                                                                    : left_ms);
}

static void random_operations_end_exactly_once_and_as_the_model_says(void **state) /* B3.2 */
{
    static struct ocean ocean;
    uint64_t runs = harness_size("DARUMA_ASYNC_RUNS", 20000), seed = harness_seed();

    (void)state;
    printf("seed %" PRIu64 "\n", seed);
    fake_loop_init(&ocean.fake, seed);
    ocean.dice = daruma_dice_seed(seed);
    for (size_t i = 0; i < FLEET_MAX; i++) {
        ocean.slots[i] = (struct slot){.ocean = &ocean, .op = calloc(1, sizeof *ocean.slots[i].op)};
        assert_non_null(ocean.slots[i].op);
    }
    while (ocean.start_count < runs) {
        ocean_step(&ocean);
    }
    for (int left = 1; left != 0;) { /* done may have started some of them again */
        left = 0;
        for (size_t i = 0; i < FLEET_MAX; i++) {
            left += ocean.slots[i].is_live;
            slot_cancel(&ocean.slots[i]);
        }
        (void)fake_loop_run(&ocean.fake, 1000000);
    }
    assert_int_equal(ocean.done_count, ocean.start_count);
    assert_int_equal(daruma_retry_next_timeout_ms(&ocean.fake.loop), -1);
    printf("%" PRIu64 " operations, %" PRIu64 " retries, %" PRIu64 " timeouts, %" PRIu64
           " answers dropped\n",
           ocean.done_count, ocean.retry_count, ocean.timeout_count, ocean.drop_count);
    for (size_t i = 0; i < FLEET_MAX; i++) {
        free(ocean.slots[i].op);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timer_is_set_only_when_the_next_deadline_changes),
        cmocka_unit_test(early_and_needless_ticks_do_no_harm),
        cmocka_unit_test(ends_are_told_in_the_order_in_which_they_came),
        cmocka_unit_test(a_tick_ends_even_when_no_wait_has_any_length),
        cmocka_unit_test(a_poll_loop_is_told_how_long_it_may_wait),
        cmocka_unit_test(without_ops_the_loop_runs_on_the_real_clock),
        cmocka_unit_test(bad_options_are_named_in_the_operation),
        cmocka_unit_test(random_operations_end_exactly_once_and_as_the_model_says),
    };
    return HARNESS_RUN(argc, argv, tests);
}
