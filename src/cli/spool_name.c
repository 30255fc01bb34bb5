/* SPDX-License-Identifier: MIT
 *
 * spool_name -- see spool_internal.h. A name is a time and a number, of fixed width, so that names
 * sort as they were given. A clock that was set back does not count: the next name then has the time
 * of the last one and the next number.
 */
#include "cli/spool_internal.h"

#include "base/clock.h"

#include <daruma/retry_after.h>

#include <stdio.h>

#define PATTERN    "00000000T000000.000Z-000000.request" /* 0: a digit */
#define NUMBER_AT  21
#define NUMBER_LEN 6
#define NUMBER_MAX 999999

_Static_assert(sizeof PATTERN == SPOOL_NAME_LEN + 1, "names have one length");

/* What the name says; false: no such day. */
static bool parse(const char *name, int64_t *ret_ms, int64_t *ret_number)
{
    char time[CLOCK_TEXT_MAX];

    (void)snprintf(time, sizeof time, "%.4s-%.2s-%.2sT%.2s:%.2s:%.2s.%.3sZ", name, name + 4,
                   name + 6, name + 9, name + 11, name + 13, name + 16); /* fits */
    return daruma_rfc3339_parse(time, strlen(time), ret_ms) &&
           span_to_int((struct span){.at = name + NUMBER_AT, .len = NUMBER_LEN}, ret_number);
}

bool spool_name_is_valid(const char *name)
{
    int64_t ms, number;

    if (strlen(name) != SPOOL_NAME_LEN) {
        return false;
    }
    for (size_t i = 0; i < SPOOL_NAME_LEN; i++) {
        bool is_digit = name[i] >= '0' && name[i] <= '9';
        if (PATTERN[i] == '0' ? !is_digit : name[i] != PATTERN[i]) {
            return false;
        }
    }
    return parse(name, &ms, &number);
}

static void format(int64_t ms, int64_t number, struct spool_name *ret_name)
{
    char time[CLOCK_TEXT_MAX];

    clock_format(ms, time); /* 2026-11-15T10:20:30.123Z */
    (void)snprintf(ret_name->text, sizeof ret_name->text,
                   "%.4s%.2s%.2sT%.2s%.2s%.2s.%.3sZ-%06u.request", time, time + 5, time + 8,
                   time + 11, time + 14, time + 17, time + 20,
                   (unsigned)number % (NUMBER_MAX + 1u)); /* fits */
}

bool spool_name_next(const struct spool_name *last, int64_t now_ms, struct spool_name *ret_name)
{
    int64_t last_ms = 0, number = 0;

    format(now_ms, 0, ret_name);
    if (last == NULL || strcmp(ret_name->text, last->text) > 0) {
        return true;
    }
    (void)parse(last->text, &last_ms, &number); /* it is a valid one */
    if (number < NUMBER_MAX) {
        format(last_ms, number + 1, ret_name);
    } else {
        format(last_ms + 1, 0, ret_name);
    }
    return strcmp(ret_name->text, last->text) > 0;
}
