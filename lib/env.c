/* SPDX-License-Identifier: MIT
 *
 * env -- the real clock and the real sleep. A sleep is never shorter than asked for: it goes on
 * after signals, and its end is computed on the same clock that is asked for the time.
 */
#include <daruma/env.h>
#include <daruma/result.h>

#include "env_internal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <time.h>

#define NS_PER_MS 1000000

int64_t daruma_now_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
}

static int sleep_plain(uint64_t delay_ms)
{
    struct timespec until = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* as above */
    until.tv_sec += (time_t)(delay_ms / 1000);
    until.tv_nsec += (long)(delay_ms % 1000) * NS_PER_MS;
    if (until.tv_nsec >= 1000L * NS_PER_MS) {
        until.tv_sec++;
        until.tv_nsec -= 1000L * NS_PER_MS;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    return 0;
}

/* Without a pipe of its own a process looks at the flag so often. */
#define LOOK_EVERY_MS 20

/* poll counts whole milliseconds from a moment after `now_ms`, which was rounded down: one more
 * keeps the sleep from ending early. A pipe that is readable while the flag is not set was inherited
 * by a fork that owner does not tell (a new process namespace may have the same number again): it is
 * not asked a second time. */
static int sleep_watching(uint64_t delay_ms, const struct daruma_cancel *cancel)
{
    int64_t until_ms = daruma_now_ms() + (int64_t)delay_ms + 1;

    int fd = daruma_cancel_is_own(cancel) ? daruma_cancel_fd(cancel) : -1;

    for (;;) {
        struct pollfd watch = {.fd = fd, .events = POLLIN};
        int64_t left_ms = until_ms - daruma_now_ms();
        if (daruma_cancel_is_set(cancel)) {
            return DARUMA_CANCELLED;
        }
        if (left_ms <= 0) {
            return 0;
        }
        int64_t slice_ms = fd >= 0 ? INT_MAX : LOOK_EVERY_MS;
        (void)poll(&watch, 1, (int)(left_ms < slice_ms ? left_ms : slice_ms)); /* looked at above */
        if (watch.revents != 0 && !daruma_cancel_is_set(cancel)) {
            fd = -1;
        }
    }
}

int64_t daruma_env_now_ms(const struct daruma_env *env)
{
    return env != NULL && env->now_ms != NULL ? env->now_ms(env->user) : daruma_now_ms();
}

int daruma_env_sleep_ms(const struct daruma_env *env, uint64_t delay_ms,
                        const struct daruma_cancel *cancel)
{
    if (daruma_cancel_is_set(cancel)) {
        return DARUMA_CANCELLED;
    }
    if (env != NULL && env->sleep_ms != NULL) {
        int woken = env->sleep_ms(env->user, delay_ms);
        return daruma_cancel_is_set(cancel) ? DARUMA_CANCELLED : woken;
    }
    return cancel != NULL ? sleep_watching(delay_ms, cancel) : sleep_plain(delay_ms);
}
