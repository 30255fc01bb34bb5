/* SPDX-License-Identifier: MIT
 *
 * fake -- see fake.h.
 */
#include "fake.h"

#include <errno.h>

static int64_t fake_now_ms(void *user)
{
    struct fake *fake = user;

    fake->clock_count++;
    if (fake->errno_left != 0) {
        errno = fake->errno_left;
    }
    return fake->now_ms;
}

static int fake_sleep_ms(void *user, uint64_t delay_ms)
{
    struct fake *fake = user;

    if (fake->sleep_count < FAKE_RECORD_MAX) {
        fake->slept_ms[fake->sleep_count] = delay_ms;
    }
    fake->sleep_count++;
    if (fake->errno_left != 0) {
        errno = fake->errno_left;
    }
    if (fake->sleep_count == fake->wake_at) {
        return 1;
    }
    fake->now_ms += (int64_t)delay_ms + fake->oversleep;
    return 0;
}

/* The same numbers as a plain dice of that seed, but counted. */
static uint64_t fake_roll(struct daruma_dice *dice)
{
    struct fake *fake = (struct fake *)((char *)dice - offsetof(struct fake, dice));
    struct daruma_dice plain = {.state = dice->state};
    uint64_t rolled = daruma_dice_roll(&plain);

    dice->state = plain.state;
    fake->roll_count++;
    return rolled;
}

void fake_init(struct fake *fake, uint64_t seed)
{
    *fake = (struct fake){.now_ms = FAKE_START_MS, .dice = daruma_dice_seed(seed)};
    fake->dice.roll = fake_roll;
    fake->env = (struct daruma_env){
        .now_ms = fake_now_ms, .sleep_ms = fake_sleep_ms, .dice = &fake->dice, .user = fake};
}

int fake_call_run(void *user, const struct daruma_attempt *attempt, struct daruma_error *ret_error)
{
    struct fake_call *call = user;
    struct daruma_attempt *record =
        &call->attempts[call->count < FAKE_RECORD_MAX ? call->count : FAKE_RECORD_MAX - 1];

    *record = *attempt;
    call->count++;
    if (call->fake != NULL) {
        call->fake->now_ms += call->takes_ms;
    }
    if (call->count == call->success_at) {
        return 0;
    }
    *ret_error = call->error;
    ret_error->source = record;
    return call->code;
}

bool fake_condition(void *user, const struct daruma_error *error, uint32_t attempt)
{
    struct fake_hooks *hooks = user;

    if (hooks->condition_count < FAKE_RECORD_MAX) {
        hooks->condition_attempts[hooks->condition_count] = attempt;
        hooks->condition_sources[hooks->condition_count] = error->source;
    }
    hooks->condition_count++;
    return attempt != hooks->refuse_at;
}

void fake_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                   uint64_t delay_ms)
{
    struct fake_hooks *hooks = user;

    if (hooks->retry_count < FAKE_RECORD_MAX) {
        hooks->retry_attempts[hooks->retry_count] = attempt;
        hooks->retry_sources[hooks->retry_count] = error->source;
        hooks->delays_ms[hooks->retry_count] = delay_ms;
    }
    hooks->retry_count++;
}

void fake_world_init(struct fake_world *world)
{
    *world = (struct fake_world){.call = {.code = FAKE_CODE}};
    fake_init(&world->fake, 1);
    world->call.fake = &world->fake;
    world->options =
        (struct daruma_retry_options){.env = &world->fake.env,
                                      .backoff = daruma_backoff_exponential(FAKE_BASE_MS),
                                      .on_retry = fake_on_retry,
                                      .user = &world->hooks};
}

int fake_world_run(struct fake_world *world)
{
    return daruma_retry(fake_call_run, &world->call, &world->options, &world->error);
}

static int64_t loop_now_ms(void *user)
{
    return ((struct fake_loop *)user)->now_ms;
}

static uint64_t loop_rand(void *user)
{
    struct fake_loop *fake = user;

    fake->roll_count++;
    return daruma_dice_roll(&fake->dice);
}

static void loop_timer_set(void *user, uint64_t delay_ms)
{
    struct fake_loop *fake = user;

    fake->set_count++;
    fake->armed_ms = fake->now_ms + (int64_t)delay_ms;
}

static void loop_timer_cancel(void *user)
{
    struct fake_loop *fake = user;

    fake->cancel_count++;
    fake->armed_ms = -1;
}

void fake_loop_init(struct fake_loop *fake, uint64_t seed)
{
    static const struct daruma_loop_ops ops = {.now_ms = loop_now_ms,
                                               .rand = loop_rand,
                                               .timer_set = loop_timer_set,
                                               .timer_cancel = loop_timer_cancel};

    *fake =
        (struct fake_loop){.now_ms = FAKE_START_MS, .armed_ms = -1, .dice = daruma_dice_seed(seed)};
    daruma_retry_loop_init(&fake->loop, &ops, fake);
}

bool fake_loop_fire(struct fake_loop *fake)
{
    if (fake->armed_ms < 0) {
        return false;
    }
    if (fake->armed_ms > fake->now_ms) {
        fake->now_ms = fake->armed_ms;
    }
    fake->armed_ms = -1;
    (void)daruma_retry_tick(&fake->loop); /* what it moved shows in what it called */
    return true;
}

size_t fake_loop_run(struct fake_loop *fake, size_t max)
{
    size_t count = 0;

    while (count < max && fake_loop_fire(fake)) {
        count++;
    }
    return count;
}
