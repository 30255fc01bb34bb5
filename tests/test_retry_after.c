/* SPDX-License-Identifier: MIT
 *
 * Tests of retry_after: tables of header values as servers send them, good and bad. Every value is
 * handed over in memory of exactly its size, without a NUL, so that a sanitizer sees a read past
 * its end. The time is always handed in.
 */
#include "harness.h"

#include <daruma/backoff.h>
#include <daruma/retry_after.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS      INT64_C(1794738030000) /* 2026-11-15T10:20:30Z, a Sunday */
#define YEAR_2099   INT64_C(4083955200000) /* 2099-06-01T00:00:00Z */
#define HOUR_MS     INT64_C(3600000)
#define LIMIT_MS    DARUMA_BACKOFF_LIMIT_MS
#define REFUSED     INT64_MIN
#define UNTOUCHED   INT64_C(-424242)
#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

struct row {
    const char *text;
    int64_t expected;
};

typedef bool (*parse_fn)(const char *text, size_t length, int64_t now_ms, int64_t *ret_ms);

static bool parse_duration(const char *text, size_t length, int64_t now_ms, int64_t *ret_ms)
{
    (void)now_ms;
    return daruma_duration_parse(text, length, ret_ms);
}

static bool parse_rfc3339(const char *text, size_t length, int64_t now_ms, int64_t *ret_ms)
{
    (void)now_ms;
    return daruma_rfc3339_parse(text, length, ret_ms);
}

static char *exact_copy(const char *text, size_t length)
{
    char *copy = malloc(length);

    assert_non_null(copy);
    memcpy(copy, text, length);
    return copy;
}

static void assert_rows(parse_fn parse, int64_t now_ms, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].text);
        char *copy = exact_copy(rows[i].text, length);
        int64_t found = UNTOUCHED;
        bool parsed = parse(copy, length, now_ms, &found);
        free(copy);
        if (parsed != (rows[i].expected != REFUSED)) {
            fail_msg("\"%s\" is %s", rows[i].text, parsed ? "taken" : "refused");
        }
        if (found != (parsed ? rows[i].expected : UNTOUCHED)) {
            fail_msg("\"%s\" gives %lld", rows[i].text, (long long)found);
        }
    }
}

/* One "Name: value" line, each half in memory of its own size. */
static void take_line(struct daruma_hint *hint, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);

    assert_non_null(colon);
    size_t name_length = (size_t)(colon - line), value_length = length - name_length - 1;
    char *name = exact_copy(line, name_length);
    char *value = exact_copy(colon + 1, value_length);
    daruma_hint_field(hint, name, name_length, value, value_length);
    free(name);
    free(value);
}

static struct daruma_hint hint_from(const char *fields, int64_t now_ms)
{
    struct daruma_hint hint;

    daruma_hint_init(&hint, now_ms);
    while (*fields != '\0') {
        size_t length = strcspn(fields, "\n");
        take_line(&hint, fields, length);
        fields += length + (fields[length] == '\n');
    }
    return hint;
}

static void assert_hints(int64_t now_ms, const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct daruma_hint hint = hint_from(rows[i].text, now_ms);
        bool given = rows[i].expected != REFUSED;
        if (daruma_hint_is_given(&hint) != given) {
            fail_msg("\"%s\" is %s", rows[i].text, given ? "no hint" : "a hint");
        }
        if (daruma_hint_ms(&hint) != (given ? rows[i].expected : 0)) {
            fail_msg("\"%s\" gives %lld", rows[i].text, (long long)daruma_hint_ms(&hint));
        }
    }
}

static const struct row retry_after_rows[] = {
    {"0", 0},
    {"1", 1000},
    {"120", 120000},
    {"007", 7000},
    {" 5", 5000},
    {"5\t ", 5000},
    {"1.5", 1500},
    {"0.0001", 1}, /* rounded up */
    {"1.0001", 1001},
    {"1.000", 1000},
    {"2.9999999999999999999999", 3000},
    {"3155760000", LIMIT_MS},
    {"3155760001", LIMIT_MS},
    {"99999999999999999999999999999999999999", LIMIT_MS},
    {"18446744073709551616", LIMIT_MS}, /* 2^64 */
    {"", REFUSED},
    {"  ", REFUSED},
    {"-1", REFUSED},
    {"-0", REFUSED},
    {"+5", REFUSED},
    {"5s", REFUSED},
    {"5 6", REFUSED},
    {"5,6", REFUSED},
    {"1,5", REFUSED},
    {"5.", REFUSED},
    {".5", REFUSED},
    {"1.2.3", REFUSED},
    {"1e3", REFUSED},
    {"0x10", REFUSED},
    {"NaN", REFUSED},
    {"inf", REFUSED},
    {"soon", REFUSED},
    {"\xd9\xa3", REFUSED}, /* an Arabic 3 */
    {"Sun, 15 Nov 2026 10:21:30 GMT", 60000},
    {"Sunday, 15-Nov-26 10:21:30 GMT", 60000},
    {"Sun Nov 15 10:21:30 2026", 60000},
    {"Sun, 15 Nov 2026 10:20:30 GMT", 0},
    {"Sun, 15 Nov 2026 10:20:29 GMT", 0}, /* over already */
    {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
    {"Mon, 01 Jan 0001 00:00:00 GMT", 0},
    {"Fri, 31 Dec 9999 23:59:59 GMT", LIMIT_MS},
};

static void a_retry_after_is_seconds_or_a_date_and_nothing_else(void **state)
{
    (void)state;
    assert_rows(daruma_retry_after_parse, NOW_MS, retry_after_rows, COUNT(retry_after_rows));
}

static const struct row date_rows[] = {
    {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777000}, /* the examples of RFC 9110 */
    {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777000},
    {"Sun Nov  6 08:49:37 1994", 784111777000},
    {"  Sun, 06 Nov 1994 08:49:37 GMT\t", 784111777000},
    {"sun, 06 nov 1994 08:49:37 gmt", 784111777000},
    {"SUN, 06 NOV 1994 08:49:37 GMT", 784111777000},
    {"Wed, 06 Nov 1994 08:49:37 GMT", 784111777000}, /* it was a Sunday */
    {"Sun Nov 06 08:49:37 1994", 784111777000},
    {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
    {"Wed, 31 Dec 1969 23:59:59 GMT", -1000},
    {"Mon, 01 Jan 0001 00:00:00 GMT", -62135596800000},
    {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799000},
    {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800000}, /* a leap second */
    {"Sat, 31 Dec 2016 23:59:61 GMT", REFUSED},
    {"Sat, 31 Dec 2016 23:60:00 GMT", REFUSED},
    {"Sat, 31 Dec 2016 24:00:00 GMT", REFUSED},
    {"Thu, 29 Feb 2024 00:00:00 GMT", 1709164800000},
    {"Tue, 29 Feb 2000 23:59:59 GMT", 951868799000},
    {"Thu, 29 Feb 1900 00:00:00 GMT", REFUSED}, /* a hundred is no leap year */
    {"Mon, 29 Feb 2100 00:00:00 GMT", REFUSED},
    {"Wed, 29 Feb 2023 00:00:00 GMT", REFUSED},
    {"Fri, 30 Feb 2024 00:00:00 GMT", REFUSED},
    {"Sun, 31 Apr 2026 00:00:00 GMT", REFUSED},
    {"Sun, 00 Nov 1994 08:49:37 GMT", REFUSED},
    {"Sun, 32 Jan 1994 08:49:37 GMT", REFUSED},
    {"Sun, 01 Jan 0000 00:00:00 GMT", REFUSED},
    {"Sun, 6 Nov 1994 08:49:37 GMT", REFUSED},
    {"Sun, 06 Nov 94 08:49:37 GMT", REFUSED},
    {"Sun, 06 Nov 1994 8:49:37 GMT", REFUSED},
    {"Sun, 06 Nov 1994 08:49 GMT", REFUSED},
    {"Sun, 06 Nov 1994 08:49:37 UTC", REFUSED},
    {"Sun, 06 Nov 1994 08:49:37 +0000", REFUSED},
    {"Sun, 06 Nov 1994 08:49:37", REFUSED},
    {"Sun, 06 Nov 1994 08:49:37 GMT, x", REFUSED},
    {"Sun, 06 Nov 1994 08:49:37 GM", REFUSED},
    {"Xyz, 06 Nov 1994 08:49:37 GMT", REFUSED},
    {"Sun, 06 Foo 1994 08:49:37 GMT", REFUSED},
    {"Sun Nov 6 08:49:37 1994", REFUSED},
    {"Sun Nov  6 08:49:37 19945", REFUSED},
    {"06 Nov 1994 08:49:37 GMT", REFUSED},
    {"Sun", REFUSED},
    {"", REFUSED},
};

static void the_three_forms_of_an_http_date_are_read(void **state)
{
    (void)state;
    assert_rows(daruma_http_date_parse, NOW_MS, date_rows, COUNT(date_rows));
}

/* No day is skipped or counted twice: 400 years of days in a row, against a plain count. */
static void every_day_of_four_hundred_years_follows_the_last(void **state)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int64_t expected = -2208988800000, found; /* 1900-01-01 */

    (void)state;
    for (int year = 1900; year < 2300; year++) {
        for (int slot = 0; slot < 12 * 31; slot++) {
            char text[64];
            int length = snprintf(text, sizeof text, "Mon, %02d %s %04d 00:00:00 GMT",
                                  slot % 31 + 1, months[slot / 31], year);
            if (daruma_http_date_parse(text, (size_t)length, 0, &found)) {
                assert_true(found == expected);
                expected += 24 * HOUR_MS;
            }
        }
    }
    assert_true(expected == INT64_C(10413792000000)); /* 2300-01-01: no day was left out */
}

/* RFC 9110 5.6.7: what would be more than 50 years ahead is the last such year that is past. */
static void a_two_digit_year_is_at_most_fifty_years_ahead(void **state)
{
    static const struct row from_2026[] = {
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777000},
        {"Saturday, 01-Jan-00 00:00:00 GMT", 946684800000},
        {"Thursday, 31-Dec-26 00:00:00 GMT", 1798675200000},
        {"Sunday, 15-Nov-76 10:20:30 GMT", 3372661230000}, /* 50 years to the second */
        {"Sunday, 15-Nov-76 10:20:31 GMT", 216901231000},  /* 1976 */
        {"Saturday, 01-Jan-77 00:00:00 GMT", 220924800000},
        {"Friday, 31-Dec-99 23:59:59 GMT", 946684799000},
        {"Tuesday, 29-Feb-00 23:59:59 GMT", 951868799000},
        {"Thu, 29-Feb-24 00:00:00 GMT", 1709164800000},
        {"Wednesday, 29-Feb-23 00:00:00 GMT", REFUSED},
        {"Sunday, 06-Nov-1994 08:49:37 GMT", REFUSED},
    };
    static const struct row from_2099[] = {
        {"Monday, 01-Jun-99 00:00:00 GMT", YEAR_2099},
        {"Saturday, 01-Jan-01 00:00:00 GMT", 4133980800000}, /* 2101 */
        {"Sunday, 01-Jun-49 00:00:00 GMT", 5661792000000},   /* 2149 */
        {"Tuesday, 01-Jun-49 00:00:01 GMT", 2506118401000},  /* 2049 */
        {"Saturday, 01-Jan-50 00:00:00 GMT", 2524608000000}, /* 2050 */
        {"Monday, 29-Feb-00 00:00:00 GMT", REFUSED},         /* 2100 has none */
    };

    (void)state;
    assert_rows(daruma_http_date_parse, NOW_MS, from_2026, COUNT(from_2026));
    assert_rows(daruma_http_date_parse, YEAR_2099, from_2099, COUNT(from_2099));
}

static const struct row rfc3339_rows[] = {
    {"2026-11-15T10:20:30Z", NOW_MS},
    {"2026-11-15t10:20:30z", NOW_MS},
    {"2026-11-15 10:20:30Z", NOW_MS},
    {" 2026-11-15T10:20:30Z ", NOW_MS},
    {"2026-11-15T19:20:30+09:00", NOW_MS},
    {"2026-11-15T05:50:30-04:30", NOW_MS},
    {"2026-11-15T10:20:30+00:00", NOW_MS},
    {"2026-11-15T10:20:30-00:00", NOW_MS},
    {"2026-11-15T10:20:30.5Z", NOW_MS + 500},
    {"2026-11-15T10:20:30.123456789Z", NOW_MS + 124}, /* rounded up */
    {"2026-11-15T10:20:30.1230000Z", NOW_MS + 123},
    {"2026-11-15T10:20:30.9999Z", NOW_MS + 1000},
    {"2026-11-15T10:20:30.00000000000000000000000000001Z", NOW_MS + 1},
    {"2016-12-31T23:59:60Z", 1483228800000},
    {"2024-02-29T00:00:00Z", 1709164800000},
    {"1969-12-31T23:59:59Z", -1000},
    {"0001-01-01T00:00:00Z", -62135596800000},
    {"2023-02-29T00:00:00Z", REFUSED},
    {"2026-00-15T10:20:30Z", REFUSED},
    {"2026-13-15T10:20:30Z", REFUSED},
    {"2026-11-31T10:20:30Z", REFUSED},
    {"2026-11-15T24:20:30Z", REFUSED},
    {"2026-11-15T10:60:30Z", REFUSED},
    {"2026-11-15T10:20:61Z", REFUSED},
    {"2026-11-15T10:20:30", REFUSED}, /* whose time? */
    {"2026-11-15T10:20:30.Z", REFUSED},
    {"2026-11-15T10:20:30,5Z", REFUSED},
    {"2026-11-15T10:20:30+0900", REFUSED},
    {"2026-11-15T10:20:30+24:00", REFUSED},
    {"2026-11-15T10:20:30+09:60", REFUSED},
    {"2026-11-15T10:20:30ZZ", REFUSED},
    {"2026-11-15T10:20Z", REFUSED},
    {"2026-11-15", REFUSED},
    {"26-11-15T10:20:30Z", REFUSED},
    {"-026-11-15T10:20:30Z", REFUSED},
    {"", REFUSED},
};

static void an_rfc3339_time_is_read_with_its_zone_and_rounded_up(void **state)
{
    (void)state;
    assert_rows(parse_rfc3339, 0, rfc3339_rows, COUNT(rfc3339_rows));
}

static const struct row duration_rows[] = {
    {"250ms", 250},
    {"10s", 10000},
    {"5m", 300000},
    {"24h", 24 * HOUR_MS},
    {"30d", 720 * HOUR_MS},
    {"1.5s", 1500},
    {"1h30m", 90 * 60000},
    {"6m0s", 360000},
    {"0s", 0},
    {"0h0m0s", 0},
    {"20ms", 20},
    {"1d2h3m4s5ms", 93784005},
    {" 10s ", 10000},
    {"10S", 10000},
    {"1m30.5s", 90500},
    {"1us", 1}, /* rounded up */
    {"1ns", 1},
    {"999999ns", 1},
    {"1000001ns", 2},
    {"1000us", 1},
    {"2000000\xc2\xb5s", 2000}, /* micro sign, as Go writes it */
    {"2000000\xce\xbcs", 2000}, /* Greek mu */
    {"0.1ms", 1},
    {"1.0000000001s", 1001},
    {"0.000000011574074d", 1},      /* 999 999.99 ns */
    {"0.000000011574085d", 2},      /* 1 000 000.94 ns: even that is not cut off */
    {"0.00000000000000000001d", 1}, /* less than a nanosecond */
    {"36524d23h59m59.999s", LIMIT_MS - 1},
    {"36525d", LIMIT_MS}, /* a hundred years */
    {"3155760000000ms", LIMIT_MS},
    {"3155760000000.000001ms", REFUSED},
    {"36525d1ns", REFUSED},
    {"281474976710656d", REFUSED}, /* 2^48: 0 in 64 bits of nanoseconds */
    {"18446744073709551616s", REFUSED},
    {"99999999999999999999999999999d", REFUSED},
    {"36525d36525h", REFUSED},
    {"", REFUSED},
    {" ", REFUSED},
    {"5", REFUSED},
    {"5x", REFUSED},
    {"s", REFUSED},
    {"1s1h", REFUSED},
    {"1s1s", REFUSED},
    {"1us1\xc2\xb5s", REFUSED},
    {"-1s", REFUSED},
    {"+1s", REFUSED},
    {"1.s", REFUSED},
    {".5s", REFUSED},
    {"1.5.5s", REFUSED},
    {"1,5s", REFUSED},
    {"1 s", REFUSED},
    {"1h 30m", REFUSED},
    {"1h30", REFUSED},
    {"1sec", REFUSED},
    {"1w", REFUSED},
    {"1m\xff", REFUSED},
};

static void a_duration_is_amounts_with_units_from_large_to_small(void **state)
{
    (void)state;
    assert_rows(parse_duration, 0, duration_rows, COUNT(duration_rows));
}

/* Any number of nanoseconds: the wait covers them, by less than a millisecond. */
static void a_duration_is_rounded_up_and_never_early(void **state)
{
    struct daruma_dice dice = daruma_dice_seed(harness_seed());

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t ns = daruma_dice_roll(&dice) >> (2 + daruma_dice_roll(&dice) % 62);
        char text[64];
        int length = i % 2 == 0 ? snprintf(text, sizeof text, "%lluns", (unsigned long long)ns)
                                : snprintf(text, sizeof text, "%llu.%09llus",
                                           (unsigned long long)(ns / 1000000000),
                                           (unsigned long long)(ns % 1000000000));
        int64_t found = -1;
        if (ns > (uint64_t)LIMIT_MS * 1000000) {
            assert_false(daruma_duration_parse(text, (size_t)length, &found));
            continue;
        }
        assert_true(daruma_duration_parse(text, (size_t)length, &found));
        assert_true((uint64_t)found * 1000000 >= ns);
        assert_true((uint64_t)found * 1000000 - ns < 1000000);
    }
}

static const struct row hint_rows[] = {
    {"Retry-After: 120", 120000},
    {"RETRY-AFTER:120", 120000},
    {"Retry-After: 0", 0},
    {"Retry-After: -1", REFUSED},
    {"Retry-After:", REFUSED},
    {"Retry-After: Sun, 15 Nov 2026 10:21:30 GMT", 60000},
    {"Retry-After: Sun, 15 Nov 2026 10:19:30 GMT", 0},
    {"Retry-After: 5\nRetry-After: 7\nRetry-After: 6", 7000}, /* never shortened */
    {"Retry-After: 5\nRetry-After: Sun, 15 Nov 2026 10:21:30 GMT", 60000},
    {"Retry-After: nonsense\nRetry-After: 5", 5000},
    {"retry-after-ms: 1500", 1500},
    {"retry-after-ms: 1500.2", 1501},
    {"retry-after-ms: 1500\nRetry-After: 2", 1500}, /* the precise one counts */
    {"Retry-After: 2\nretry-after-ms: 1500", 1500},
    {"Retry-After: 2\nretry-after-ms: soon", 2000},
    {"Retry-After: 1\nx-ratelimit-reset-requests: 20m", 1000}, /* and before any reset */
    {"x-ratelimit-reset-requests: 20ms", 20},                  /* OpenAI */
    {"x-ratelimit-reset-tokens: 6m0s", 360000},
    {"x-ratelimit-reset-requests: 20ms\nx-ratelimit-reset-tokens: 6m0s", 360000},
    {"x-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 6m0s\n"
     "x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 1s",
     1000},
    {"x-ratelimit-reset-requests: 6m0s\nx-ratelimit-remaining-requests: 59", REFUSED},
    {"x-ratelimit-reset-requests: 6m0s\nx-ratelimit-remaining-requests: many", 360000},
    {"x-ratelimit-limit-requests: 60", REFUSED},
    {"anthropic-ratelimit-tokens-reset: 2026-11-15T10:21:30Z", 60000}, /* Anthropic */
    {"anthropic-ratelimit-requests-remaining: 0\n"
     "anthropic-ratelimit-requests-reset: 2026-11-15T10:21:00Z\n"
     "anthropic-ratelimit-tokens-remaining: 12000\n"
     "anthropic-ratelimit-tokens-reset: 2026-11-15T11:21:30Z",
     30000},
    {"x-ratelimit-remaining: 0\nx-ratelimit-reset: 1794738090", 60000}, /* GitHub */
    {"x-ratelimit-remaining: 4999\nx-ratelimit-reset: 1794738090", REFUSED},
    {"x-ratelimit-reset: 1794738000", 0},
    {"x-rate-limit-reset: 1794738090", 60000},
    {"x-ratelimit-reset: 1794738090.25", 60250},
    {"x-ratelimit-reset: 1794738090000", 60000}, /* milliseconds since 1970 */
    {"x-ratelimit-reset: Sun, 15 Nov 2026 10:21:30 GMT", 60000},
    {"ratelimit-reset: 30", 30000}, /* the IETF's draft */
    {"RateLimit-Remaining: 0\nRateLimit-Reset: 30", 30000},
    {"x-ratelimit-reset-after: 1.234", 1234}, /* Discord */
    {"x-ratelimit-reset: soon", REFUSED},
    {"x-ratelimit-reset: -5", REFUSED},
    {"Date: Sun, 15 Nov 2026 10:20:30 GMT", REFUSED},
    {"Content-Type: 120\nreset: 5\nx-ratelimit: 5\nx-ratelimit-resets: 5\nx-ratelimit-unreset: 5\n"
     "x-cache-reset: 5\nx-reset: 5",
     REFUSED},
    {"x-retry-after: 5\nretry-after-s: 5\nretry-afte: 5", REFUSED},
    {"", REFUSED},
};

static void hints_are_read_from_the_headers_that_servers_send(void **state) /* A5.1, D1 */
{
    (void)state;
    assert_hints(NOW_MS, hint_rows, COUNT(hint_rows));
}

static void a_wrong_local_clock_is_corrected_by_the_answers_date(void **state)
{
    static const struct row rows[] = {
        {"Date: Sun, 15 Nov 2026 10:20:30 GMT\nRetry-After: Sun, 15 Nov 2026 10:21:30 GMT", 60000},
        {"Retry-After: Sun, 15 Nov 2026 10:21:30 GMT\nDate: Sun, 15 Nov 2026 10:20:30 GMT", 60000},
        {"Retry-After: Sunday, 15-Nov-26 10:21:30 GMT\nDate: Sun Nov 15 10:20:30 2026", 60000},
        {"Date: Sun, 15 Nov 2026 10:20:30 GMT\nRetry-After: 5", 5000},
    };

    (void)state;
    assert_hints(NOW_MS, rows, COUNT(rows));
    assert_hints(NOW_MS + HOUR_MS, rows, COUNT(rows)); /* ours is fast: not early */
    assert_hints(NOW_MS - HOUR_MS, rows, COUNT(rows)); /* ours is slow: not late */
    assert_hints(0, rows, 2);                          /* never set */
}

static void a_date_that_cannot_be_read_corrects_nothing(void **state)
{
    static const struct row rows[] = {
        {"Date: today\nRetry-After: Sun, 15 Nov 2026 10:21:30 GMT", 60000}};

    (void)state;
    assert_hints(NOW_MS, rows, COUNT(rows));
}

/* A name is the whole name: what only begins like one that is known means nothing. */
static void a_longer_name_is_another_field(void **state)
{
    static const struct row rows[] = {
        {"retry-afterretry-after: 5", REFUSED},
        {"retry-after-msretry-after: 5", REFUSED},
        {"retry-after-msretry-after-ms: 5", REFUSED},
        {"retry-afterdate: Sun, 15 Nov 2026 10:20:00 GMT\n"
         "Retry-After: Sun, 15 Nov 2026 10:21:30 GMT",
         60000},
        {"datex: Sun, 15 Nov 2026 10:20:00 GMT\nRetry-After: Sun, 15 Nov 2026 10:21:30 GMT", 60000},
    };

    (void)state;
    assert_hints(NOW_MS, rows, COUNT(rows));
}

static void limits_beyond_what_is_looked_at_do_no_harm(void **state)
{
    struct daruma_hint hint;

    (void)state;
    daruma_hint_init(&hint, NOW_MS);
    for (int i = 1; i <= 4 * DARUMA_HINT_LIMITS_MAX; i++) {
        char line[64];
        int length = snprintf(line, sizeof line, "x-ratelimit-reset-%d: %ds", i, i);
        take_line(&hint, line, (size_t)length);
    }
    assert_int_equal(daruma_hint_ms(&hint), DARUMA_HINT_LIMITS_MAX * 1000);
    assert_int_equal(hint.limit_count, DARUMA_HINT_LIMITS_MAX);
}

static void a_name_of_any_length_is_survived(void **state)
{
    static const size_t lengths[] = {0, 1, 127, 128, 129, 100000};
    struct daruma_hint hint;

    (void)state;
    daruma_hint_init(&hint, NOW_MS);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char *name = malloc(lengths[i]);
        assert_non_null(name);
        memset(name, '-', lengths[i]);
        daruma_hint_field(&hint, name, lengths[i], name, lengths[i]);
        free(name);
    }
    daruma_hint_field(&hint, NULL, 5, "5", 1);
    daruma_hint_field(&hint, "retry-after", 11, NULL, 5);
    assert_false(daruma_hint_is_given(&hint));
}

/* A sanitizer watches: each text cut off anywhere, before every parser. */
static void no_text_is_read_past_its_end(void **state)
{
    static const char *const whole[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
                                        "Sunday, 06-Nov-94 08:49:37 GMT", "1d2h3m4s5ms6us7.5ns",
                                        "2026-11-15T10:20:30.123+09:00"};
    int64_t found;

    (void)state;
    for (size_t i = 0; i < COUNT(whole); i++) {
        for (size_t length = 0; length <= strlen(whole[i]); length++) {
            char *text = exact_copy(whole[i], length);
            (void)daruma_retry_after_parse(text, length, NOW_MS, &found); /* whatever it says */
            (void)daruma_rfc3339_parse(text, length, &found);
            (void)daruma_duration_parse(text, length, &found);
            free(text);
        }
    }
}

static void no_text_at_all_is_refused(void **state)
{
    int64_t found;

    (void)state;
    assert_false(daruma_retry_after_parse(NULL, 0, NOW_MS, &found));
    assert_false(daruma_http_date_parse(NULL, 0, NOW_MS, &found));
    assert_false(daruma_rfc3339_parse(NULL, 0, &found));
    assert_false(daruma_duration_parse(NULL, 0, &found));
}

static void a_hint_that_is_too_large_is_the_limit(void **state)
{
    static const struct row rows[] = {
        {"Retry-After: 99999999999999999999", LIMIT_MS},
        {"retry-after-ms: 99999999999999999999", LIMIT_MS},
        {"Retry-After: Fri, 31 Dec 9999 23:59:59 GMT", LIMIT_MS},
        {"x-ratelimit-reset-tokens: 9999-12-31T23:59:59Z", LIMIT_MS},
    };
    struct daruma_hint hint = hint_from("x-ratelimit-reset: 99999999999999999999", NOW_MS);

    (void)state;
    assert_hints(NOW_MS, rows, COUNT(rows));
    assert_in_range(daruma_hint_ms(&hint), LIMIT_MS / 4, LIMIT_MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_after_is_seconds_or_a_date_and_nothing_else),
        cmocka_unit_test(the_three_forms_of_an_http_date_are_read),
        cmocka_unit_test(every_day_of_four_hundred_years_follows_the_last),
        cmocka_unit_test(a_two_digit_year_is_at_most_fifty_years_ahead),
        cmocka_unit_test(an_rfc3339_time_is_read_with_its_zone_and_rounded_up),
        cmocka_unit_test(a_duration_is_amounts_with_units_from_large_to_small),
        cmocka_unit_test(a_duration_is_rounded_up_and_never_early),
        cmocka_unit_test(hints_are_read_from_the_headers_that_servers_send),
        cmocka_unit_test(a_wrong_local_clock_is_corrected_by_the_answers_date),
        cmocka_unit_test(a_date_that_cannot_be_read_corrects_nothing),
        cmocka_unit_test(a_longer_name_is_another_field),
        cmocka_unit_test(limits_beyond_what_is_looked_at_do_no_harm),
        cmocka_unit_test(a_name_of_any_length_is_survived),
        cmocka_unit_test(no_text_is_read_past_its_end),
        cmocka_unit_test(no_text_at_all_is_refused),
        cmocka_unit_test(a_hint_that_is_too_large_is_the_limit),
    };
    return HARNESS_RUN(argc, argv, tests);
}
