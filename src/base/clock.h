/* SPDX-License-Identifier: MIT
 *
 * clock -- the only place that asks what time it is. Monotonic time measures waits, also those that a
 * suspended machine sleeps through; wall time is for people and for what is stored. The engine is handed a
 * clock; tests hand it one that they move.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct clock {
    int64_t (*wall_ms)(const struct clock *clock); /* milliseconds since 1970 */
    int64_t (*mono_ms)(const struct clock *clock);
};

extern const struct clock clock_real;

/* CLOCK_MONOTONIC, which threads that wait for each other and libuv go by. It stands still while the
 * machine is suspended, so it is not to be compared with mono_ms. */
int64_t clock_thread_ms(void);
/* By how much mono_ms is ahead of it: how long this machine was suspended since it was started. */
int64_t clock_slept_ms(void);

static inline int64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock);
}

static inline int64_t clock_mono_ms(const struct clock *clock)
{
    return clock->mono_ms(clock);
}

#define CLOCK_TEXT_MAX 32

/* RFC 3339 in UTC with milliseconds: 2026-11-15T10:20:30.123Z. Never fails; years past 9999 are
 * written as 9999. */
void clock_format(int64_t wall_ms, char ret_text[CLOCK_TEXT_MAX]);

#endif
