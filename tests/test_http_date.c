/* SPDX-License-Identifier: MIT
 *
 * The corners of dates: the century of a two-digit year at every turn of a year, texts that are one
 * byte away from a date, and zones. What servers usually send is in test_retry_after.c.
 */
#include "harness.h"

#include <daruma/retry_after.h>

#include <stdio.h>
#include <string.h>

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

/* A moment that people can write. */
struct written {
    int year, month, day;
    int hour, minute, second;
};

static bool date_parse(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    return daruma_http_date_parse(text, strlen(text), now_ms, ret_ms);
}

/* With four digits: no century to guess. */
static int64_t moment_ms(struct written at)
{
    char text[64];
    int64_t ms = 0;

    (void)snprintf(text, sizeof text, "Mon, %02d %s %04d %02d:%02d:%02d GMT", at.day,
                   months[at.month - 1], at.year, at.hour, at.minute, at.second);
    assert_true(date_parse(text, 0, &ms));
    return ms;
}

static int64_t short_ms(struct written at, int64_t now_ms)
{
    char text[64];
    int64_t ms = 0;

    (void)snprintf(text, sizeof text, "Monday, %02d-%s-%02d %02d:%02d:%02d GMT", at.day,
                   months[at.month - 1], at.year % 100, at.hour, at.minute, at.second);
    assert_true(date_parse(text, now_ms, &ms));
    return ms;
}

/* RFC 9110: what seems to be more than 50 years ahead is the latest year in the past that ends so. */
static int64_t expected_ms(struct written at, struct written now)
{
    struct written ahead = now;

    ahead.year += 50;
    at.year = now.year + 100 - (now.year + 100 - at.year % 100) % 100;
    while (moment_ms(at) > moment_ms(ahead)) {
        at.year -= 100;
    }
    return moment_ms(at);
}

static void the_century_of_a_short_year_is_right_to_the_second(void **state)
{
    static const struct written turns[] = {
        {0, 1, 1, 0, 0, 0}, {0, 1, 1, 0, 0, 1}, {0, 6, 15, 12, 0, 0}, {0, 12, 31, 23, 59, 59}};
    const size_t count = sizeof turns / sizeof *turns;

    (void)state;
    for (int year = 1970; year <= 2110; year++) {
        for (size_t i = 0; i < count; i++) {
            struct written now = turns[i];
            now.year = year;
            for (int short_year = 0; short_year < 100; short_year++) {
                struct written at = turns[(i + (size_t)short_year) % count];
                at.year = short_year;
                assert_int_equal(short_ms(at, moment_ms(now)), expected_ms(at, now));
                at = now; /* to the second in another year */
                at.year = short_year;
                assert_int_equal(short_ms(at, moment_ms(now)), expected_ms(at, now));
            }
        }
    }
}

static void what_is_nearly_a_date_is_none(void **state)
{
    static const char *const texts[] = {
        ", 06 Nov 1994 08:49:37 GMT",       "06 Nov 1994 08:49:37 GMT",
        "Su, 06 Nov 1994 08:49:37 GMT",     "Sun, 06 Nob 1994 08:49:37 GMT",
        "Sun, 06  1994 08:49:37 GMT",       "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",    "Fri, 32 Dec 1999 08:49:37 GMT",
        "Fri, 32 Jan 1999 08:49:37 GMT",    "Mon, 29 Feb 1900 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",    "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",    "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT+1",  "Sun, 06 Nov 1994 08:49:37",
        "Sunday, 06-Nov-94 08:49:37 EST",   "Sunday, 06-Nov-94 08:49:37 GMT+1",
        "Sunday, 06-Nov-94 08:49:37",       "Sunday, 06-Nov-94",
        "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  6 08:49:37 94",           "Sun Nov 006 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t ms = 4711;
        if (date_parse(texts[i], 0, &ms) || ms != 4711) {
            fail_msg("\"%s\" is taken", texts[i]);
        }
    }
}

static void a_zone_is_less_than_a_day(void **state)
{
    static const struct {
        const char *text;
        int64_t minutes; /* from UTC; what is too far is refused */
    } zones[] = {
        {"Z", 0},          {"+00:00", 0},         {"-00:00", 0},         {"+23:59", 1439},
        {"-23:59", -1439}, {"+24:00", INT64_MAX}, {"+00:60", INT64_MAX}, {"-24:00", INT64_MAX},
        {"", INT64_MAX},   {"+", INT64_MAX}};

    (void)state;
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
        char text[64];
        int64_t ms = 4711;
        int length = snprintf(text, sizeof text, "1970-01-02T00:00:00%s", zones[i].text);
        bool is_near = zones[i].minutes != INT64_MAX;
        assert_int_equal(daruma_rfc3339_parse(text, (size_t)length, &ms), is_near);
        assert_int_equal(ms, is_near ? 86400000 - zones[i].minutes * 60000 : 4711);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_century_of_a_short_year_is_right_to_the_second),
        cmocka_unit_test(what_is_nearly_a_date_is_none),
        cmocka_unit_test(a_zone_is_less_than_a_day),
    };
    return HARNESS_RUN(argc, argv, tests);
}
