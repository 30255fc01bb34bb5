/* SPDX-License-Identifier: MIT
 *
 * clock -- see clock.h.
 */
#define _GNU_SOURCE /* CLOCK_BOOTTIME */
#include "base/clock.h"

#include <string.h>
#include <time.h>

#define WALL_MAX_MS INT64_C(253402300799999) /* the end of the year 9999 */

static int64_t read_ms(clockid_t id)
{
    struct timespec now = {0};

    (void)clock_gettime(id, &now); /* fails only for a clock that does not exist */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t wall_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_REALTIME);
}

/* It goes on while the machine is suspended: a node's lease is over by then, and its peers know. */
static int64_t mono_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_BOOTTIME);
}

int64_t clock_thread_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

/* Rounded, since the two are read one after the other. */
int64_t clock_slept_ms(void)
{
    struct timespec waking = {0}, all = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &waking); /* as above */
    (void)clock_gettime(CLOCK_BOOTTIME, &all);
    return ((int64_t)(all.tv_sec - waking.tv_sec) * 1000000000 + all.tv_nsec - waking.tv_nsec +
            500000) /
           1000000;
}

const struct clock clock_real = {.wall_ms = wall_ms, .mono_ms = mono_ms};

/* The last `count` digits of the number. */
static void put_digits(char *at, int count, int number)
{
    for (int i = count - 1; i >= 0; i--) {
        at[i] = (char)('0' + number % 10);
        number /= 10;
    }
}

/* By hand: printf would be half of what it takes to answer a request. */
void clock_format(int64_t at_ms, char ret_text[CLOCK_TEXT_MAX])
{
    static const char form[] = "0000-00-00T00:00:00.000Z";
    struct tm parts;

    at_ms = at_ms < 0 ? 0 : at_ms > WALL_MAX_MS ? WALL_MAX_MS : at_ms;
    time_t seconds = (time_t)(at_ms / 1000);
    (void)gmtime_r(&seconds, &parts); /* fails only for years that do not fit */
    memcpy(ret_text, form, sizeof form);
    put_digits(ret_text, 4, parts.tm_year + 1900);
    put_digits(ret_text + 5, 2, parts.tm_mon + 1);
    put_digits(ret_text + 8, 2, parts.tm_mday);
    put_digits(ret_text + 11, 2, parts.tm_hour);
    put_digits(ret_text + 14, 2, parts.tm_min);
    put_digits(ret_text + 17, 2, parts.tm_sec);
    put_digits(ret_text + 20, 3, (int)(at_ms % 1000));
}
