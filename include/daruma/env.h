/* SPDX-License-Identifier: MIT
 *
 * env -- the outside world as a retry sees it: a clock, a way to sleep, a dice. Tests hand in
 * their own and never sleep; a zeroed member means the real one.
 */
#ifndef DARUMA_ENV_H
#define DARUMA_ENV_H

#include <stdint.h>

#include <daruma/dice.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_env {
    /* Milliseconds on a clock that only goes forward, never negative. NULL: daruma_now_ms. */
    int64_t (*now_ms)(void *user);
    /* Returns 0 after the whole delay; anything else means "woken: give up" and ends the retry as
     * cancelled. NULL: a real sleep, which a daruma_cancel can end. */
    int (*sleep_ms)(void *user, uint64_t delay_ms);
    struct daruma_dice *dice; /* NULL: the thread's own */
    void *user;
};

/* The monotonic clock, in milliseconds. */
int64_t daruma_now_ms(void);

#ifdef __cplusplus
}
#endif
#endif
