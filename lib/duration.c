/* SPDX-License-Identifier: MIT
 *
 * duration -- amounts of time as people and servers write them: 250ms, 1h30m, 6m0s, 1.5s.
 */
#include <daruma/retry_after.h>

#include "scan_internal.h"

#define NS_PER_MS UINT64_C(1000000)
#define LIMIT_NS  ((uint64_t)DARUMA_BACKOFF_LIMIT_MS * NS_PER_MS)
#define OVER_NS   (LIMIT_NS + 1)

/* Longer spellings before those they begin with. */
static const struct {
    const char *word;
    uint64_t ns;
} units[] = {
    {"ms", NS_PER_MS},
    {"us", 1000},
    {"\xc2\xb5s", 1000}, /* micro sign */
    {"\xce\xbcs", 1000}, /* Greek mu */
    {"ns", 1},
    {"d", 86400000 * NS_PER_MS},
    {"h", 3600000 * NS_PER_MS},
    {"m", 60000 * NS_PER_MS},
    {"s", 1000 * NS_PER_MS},
};

#define UNIT_COUNT (sizeof units / sizeof *units)

/* What the digits after the point are worth, rounded up to a nanosecond: from the last digit to the
 * first, a tenth at a time, because rounding up at each step is the same as rounding up once. */
static uint64_t fraction_ns(struct scan *scan, uint64_t unit_ns)
{
    const char *start = scan->at;
    uint64_t total_ns = 0;

    while (scan->at < scan->end && scan_is_digit(*scan->at)) {
        scan->at++;
    }
    for (const char *at = scan->at; at > start; at--) {
        total_ns = (total_ns + (uint64_t)(at[-1] - '0') * unit_ns + 9) / 10;
    }
    return total_ns;
}

/* Digits, with a fraction or without, of a unit; false when there are none. What is above the limit
 * stays above it, at OVER_NS. */
static bool amount_ns(struct scan *scan, uint64_t unit_ns, uint64_t *ret_ns)
{
    const char *start = scan->at;
    uint64_t whole = 0, total_ns;

    for (; scan->at < scan->end && scan_is_digit(*scan->at); scan->at++) {
        uint64_t digit = (uint64_t)(*scan->at - '0');
        whole = whole > LIMIT_NS / 10 ? OVER_NS : whole * 10 + digit;
    }
    if (scan->at == start) {
        return false;
    }
    total_ns = unit_ns != 0 && whole > LIMIT_NS / unit_ns ? OVER_NS : whole * unit_ns;
    if (scan_byte(scan, '.')) {
        if (scan->at == scan->end || !scan_is_digit(*scan->at)) {
            return false;
        }
        total_ns += fraction_ns(scan, unit_ns);
    }
    *ret_ns = total_ns < OVER_NS ? total_ns : OVER_NS;
    return true;
}

static int64_t up_to_ms(uint64_t ns)
{
    return (int64_t)(ns / NS_PER_MS + (ns % NS_PER_MS != 0));
}

bool daruma_scan_amount(struct scan *scan, uint64_t unit_ns, int64_t *ret_ms)
{
    uint64_t ns;

    if (!amount_ns(scan, unit_ns, &ns)) {
        return false;
    }
    *ret_ms = up_to_ms(ns < LIMIT_NS ? ns : LIMIT_NS);
    return true;
}

/* The unit that stands after the digits at the front; the digits stay. 0: none. */
static uint64_t unit_ahead(struct scan scan)
{
    while (scan.at < scan.end && (scan_is_digit(*scan.at) || *scan.at == '.')) {
        scan.at++;
    }
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (scan_word(&scan, units[i].word)) {
            return units[i].ns;
        }
    }
    return 0;
}

static bool skip_unit(struct scan *scan)
{
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (scan_word(scan, units[i].word)) {
            return true;
        }
    }
    return false;
}

bool daruma_duration_parse(const char *text, size_t length, int64_t *ret_ms)
{
    struct scan scan = scan_trimmed(text, length);
    uint64_t total_ns = 0, last_ns = UINT64_MAX;

    if (scan_is_done(&scan)) {
        return false;
    }
    while (!scan_is_done(&scan)) {
        uint64_t unit_ns = unit_ahead(scan), ns;
        if (unit_ns == 0 || unit_ns >= last_ns || !amount_ns(&scan, unit_ns, &ns) ||
            !skip_unit(&scan)) {
            return false;
        }
        last_ns = unit_ns;
        total_ns += ns;
        if (total_ns > LIMIT_NS) {
            return false;
        }
    }
    *ret_ms = up_to_ms(total_ns);
    return true;
}
