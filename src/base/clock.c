/* SPDX-License-Identifier: MIT
 *
 * clock -- see clock.h.
 */
#include "base/clock.h"

#include <stdio.h>
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

static int64_t mono_ms(const struct clock *clock)
{
    (void)clock;
    return read_ms(CLOCK_MONOTONIC);
}

const struct clock clock_real = {.wall_ms = wall_ms, .mono_ms = mono_ms};

void clock_format(int64_t at_ms, char ret_text[CLOCK_TEXT_MAX])
{
    struct tm parts;

    at_ms = at_ms < 0 ? 0 : at_ms > WALL_MAX_MS ? WALL_MAX_MS : at_ms;
    time_t seconds = (time_t)(at_ms / 1000);
    (void)gmtime_r(&seconds, &parts); /* fails only for years that do not fit */
    (void)snprintf(ret_text, CLOCK_TEXT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
                   (unsigned)(parts.tm_year + 1900) % 10000u, (unsigned)(parts.tm_mon + 1) % 100u,
                   (unsigned)parts.tm_mday % 100u, (unsigned)parts.tm_hour % 100u,
                   (unsigned)parts.tm_min % 100u, (unsigned)parts.tm_sec % 100u,
                   (unsigned)(at_ms % 1000));
}
