/* SPDX-License-Identifier: MIT
 *
 * fake -- the outside world of a retry under the test's control. A clock that only moves when
 * something sleeps (or the test says so), sleeps that are recorded and take no time, a seeded dice,
 * a call that fails as told and remembers how it was called, and an event loop with one timer.
 */
#ifndef FAKE_H
#define FAKE_H

#include <daruma/env.h>
#include <daruma/retry.h>
#include <daruma/retry_async.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_START_MS   INT64_C(1000000)
#define FAKE_RECORD_MAX 64 /* what comes later is counted, not kept */

struct fake {
    struct daruma_env env;
    struct daruma_dice dice;
    int64_t now_ms;
    uint64_t slept_ms[FAKE_RECORD_MAX];
    size_t sleep_count;
    size_t clock_count;
    size_t roll_count;
    size_t wake_at;    /* the sleep, from 1, that is woken before its end; 0: none */
    int64_t oversleep; /* milliseconds that each sleep takes too long */
    int errno_left;    /* what clock and sleep leave in errno; 0: they leave it alone */
};

void fake_init(struct fake *fake, uint64_t seed);

/* A call that fails `code`-wise until its success_at-th time. */
struct fake_call {
    struct fake *fake;
    uint32_t success_at; /* 0: never */
    int code;
    struct daruma_error error; /* what a failure says; source is set to the attempt's record */
    int64_t takes_ms;
    uint32_t count;
    struct daruma_attempt attempts[FAKE_RECORD_MAX];
};

int fake_call_run(void *user, const struct daruma_attempt *attempt, struct daruma_error *ret_error);

/* Condition and on_retry that remember what they were told. */
struct fake_hooks {
    uint32_t refuse_at; /* the failed call, from 1, that the condition does not retry; 0: none */
    size_t condition_count;
    uint32_t condition_attempts[FAKE_RECORD_MAX];
    const void *condition_sources[FAKE_RECORD_MAX];
    size_t retry_count;
    uint32_t retry_attempts[FAKE_RECORD_MAX];
    const void *retry_sources[FAKE_RECORD_MAX];
    uint64_t delays_ms[FAKE_RECORD_MAX];
};

bool fake_condition(void *user, const struct daruma_error *error, uint32_t attempt);
void fake_on_retry(void *user, uint32_t attempt, const struct daruma_error *error,
                   uint64_t delay_ms);

/* Everything one synchronous retry needs, wired together: plain waits from FAKE_BASE_MS on, calls
 * that fail with FAKE_CODE, on_retry recorded. */
#define FAKE_BASE_MS 100
#define FAKE_CODE    5

struct fake_world {
    struct fake fake;
    struct fake_hooks hooks;
    struct fake_call call;
    struct daruma_retry_options options;
    struct daruma_error error;
};

void fake_world_init(struct fake_world *world);
int fake_world_run(struct fake_world *world);

/* An event loop whose time is moved by hand. */
struct fake_loop {
    struct daruma_retry_loop loop;
    struct daruma_dice dice;
    int64_t now_ms;
    int64_t armed_ms; /* when its timer goes off; -1: not armed */
    size_t set_count;
    size_t cancel_count;
    size_t roll_count;
};

void fake_loop_init(struct fake_loop *fake, uint64_t seed);
/* Moves the clock to the timer's moment, if that is ahead, and lets it go off. False: no timer. */
bool fake_loop_fire(struct fake_loop *fake);
/* Fires until no timer is armed, at most `max` times. Returns how often. */
size_t fake_loop_run(struct fake_loop *fake, size_t max);

#endif
