/* SPDX-License-Identifier: MIT
 *
 * http_date -- moments as headers write them: the three forms of an HTTP date and RFC 3339. By hand,
 * because strptime follows the locale and timegm is not everywhere. A weekday must be one, but need
 * not be the right one; a date that does not exist is refused.
 */
#include <daruma/retry_after.h>

#include "scan_internal.h"

#define MS_PER_DAY INT64_C(86400000)

struct moment {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
    int64_t fraction_ms;
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const weekdays[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_in(int month, int year)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1970-01-01 to the first of January. */
static int64_t days_before_year(int year)
{
    int64_t before = (int64_t)year - 1;

    return before * 365 + before / 4 - before / 100 + before / 400 - 719162;
}

static bool is_real(const struct moment *moment)
{
    return moment->year >= 1 && moment->month >= 1 && moment->month <= 12 && moment->day >= 1 &&
           moment->day <= days_in(moment->month, moment->year) && moment->hour <= 23 &&
           moment->minute <= 59 && moment->second <= 60; /* a leap second */
}

static int64_t to_ms(const struct moment *moment)
{
    int64_t days = days_before_year(moment->year) + moment->day - 1;

    for (int month = 1; month < moment->month; month++) {
        days += days_in(month, moment->year);
    }
    return days * MS_PER_DAY + moment->fraction_ms +
           (((int64_t)moment->hour * 60 + moment->minute) * 60 + moment->second) * 1000;
}

/* Good for what is after 1 AD, which is all that a clock says. */
static int year_of(int64_t unix_ms)
{
    int64_t days = unix_ms / MS_PER_DAY;
    int year = 1970 + (int)(days / 366);

    while (year < 9999 && days_before_year(year + 1) <= days) {
        year++;
    }
    return year;
}

/* RFC 9110 5.6.7: not more than 50 years ahead, to the second; else the latest past year that ends
 * so. The rest of the moment must be known. */
static int whole_year(int short_year, int64_t unix_now_ms, const struct moment *moment)
{
    int latest = year_of(unix_now_ms < 0 ? 0 : unix_now_ms) + 50;
    struct moment earlier = *moment;

    latest -= (latest - short_year) % 100;
    earlier.year = latest - 50;
    return to_ms(&earlier) > unix_now_ms ? latest - 100 : latest;
}

static bool scan_month(struct scan *scan, int *ret_month)
{
    for (int i = 0; i < 12; i++) {
        if (scan_word(scan, months[i])) {
            *ret_month = i + 1;
            return true;
        }
    }
    return false;
}

/* A weekday; its first three letters will do. */
static bool scan_weekday(struct scan *scan)
{
    for (int i = 0; i < 7; i++) {
        char brief[] = {weekdays[i][0], weekdays[i][1], weekdays[i][2], '\0'};
        if (scan_word(scan, weekdays[i]) || scan_word(scan, brief)) {
            return true;
        }
    }
    return false;
}

static bool scan_clock(struct scan *scan, struct moment *moment)
{
    return scan_fixed(scan, 2, &moment->hour) && scan_byte(scan, ':') &&
           scan_fixed(scan, 2, &moment->minute) && scan_byte(scan, ':') &&
           scan_fixed(scan, 2, &moment->second);
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool scan_fixdate(struct scan scan, struct moment *moment)
{
    return scan_weekday(&scan) && scan_word(&scan, ", ") && scan_fixed(&scan, 2, &moment->day) &&
           scan_byte(&scan, ' ') && scan_month(&scan, &moment->month) && scan_byte(&scan, ' ') &&
           scan_fixed(&scan, 4, &moment->year) && scan_byte(&scan, ' ') &&
           scan_clock(&scan, moment) && scan_word(&scan, " GMT") && scan_is_done(&scan);
}

/* Sunday, 06-Nov-94 08:49:37 GMT */
static bool scan_rfc850(struct scan scan, int64_t unix_now_ms, struct moment *moment)
{
    int short_year;

    if (!(scan_weekday(&scan) && scan_word(&scan, ", ") && scan_fixed(&scan, 2, &moment->day) &&
          scan_byte(&scan, '-') && scan_month(&scan, &moment->month) && scan_byte(&scan, '-') &&
          scan_fixed(&scan, 2, &short_year) && scan_byte(&scan, ' ') && scan_clock(&scan, moment) &&
          scan_word(&scan, " GMT") && scan_is_done(&scan))) {
        return false;
    }
    moment->year = whole_year(short_year, unix_now_ms, moment);
    return true;
}

/* Sun Nov  6 08:49:37 1994 */
static bool scan_asctime(struct scan scan, struct moment *moment)
{
    return scan_weekday(&scan) && scan_byte(&scan, ' ') && scan_month(&scan, &moment->month) &&
           scan_byte(&scan, ' ') &&
           (scan_byte(&scan, ' ') ? scan_fixed(&scan, 1, &moment->day)
                                  : scan_fixed(&scan, 2, &moment->day)) &&
           scan_byte(&scan, ' ') && scan_clock(&scan, moment) && scan_byte(&scan, ' ') &&
           scan_fixed(&scan, 4, &moment->year) && scan_is_done(&scan);
}

bool daruma_http_date_parse(const char *text, size_t length, int64_t unix_now_ms, int64_t *ret_ms)
{
    struct scan scan = scan_trimmed(text, length);
    struct moment moment = {0};

    if (!scan_fixdate(scan, &moment) && !scan_rfc850(scan, unix_now_ms, &moment) &&
        !scan_asctime(scan, &moment)) {
        return false;
    }
    if (!is_real(&moment)) {
        return false;
    }
    *ret_ms = to_ms(&moment);
    return true;
}

/* Z, or the distance from UTC, in minutes. */
static bool scan_zone(struct scan *scan, int *ret_minutes)
{
    int hours, minutes;

    if (scan_word(scan, "Z")) {
        *ret_minutes = 0;
        return true;
    }
    bool is_west = scan->at < scan->end && *scan->at == '-';
    if (!(scan_byte(scan, '+') || scan_byte(scan, '-')) || !scan_fixed(scan, 2, &hours) ||
        !scan_byte(scan, ':') || !scan_fixed(scan, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ret_minutes = (hours * 60 + minutes) * (is_west ? -1 : 1);
    return true;
}

/* The point and the digits after it, as milliseconds rounded up. */
static bool scan_fraction(struct scan *scan, int64_t *ret_ms)
{
    struct scan digits = *scan;

    if (!scan_byte(&digits, '.')) {
        *ret_ms = 0;
        return true;
    }
    int64_t ms = 0, unit = 100;
    const char *start = digits.at;
    bool has_rest = false;
    for (; digits.at < digits.end && scan_is_digit(*digits.at); digits.at++, unit /= 10) {
        ms += unit * (*digits.at - '0');
        has_rest = has_rest || (unit == 0 && *digits.at != '0');
    }
    *ret_ms = ms + has_rest;
    *scan = digits;
    return digits.at > start;
}

bool daruma_rfc3339_parse(const char *text, size_t length, int64_t *ret_ms)
{
    struct scan scan = scan_trimmed(text, length);
    struct moment moment = {0};
    int zone_minutes;

    if (!(scan_fixed(&scan, 4, &moment.year) && scan_byte(&scan, '-') &&
          scan_fixed(&scan, 2, &moment.month) && scan_byte(&scan, '-') &&
          scan_fixed(&scan, 2, &moment.day) && (scan_word(&scan, "T") || scan_byte(&scan, ' ')) &&
          scan_clock(&scan, &moment) && scan_fraction(&scan, &moment.fraction_ms) &&
          scan_zone(&scan, &zone_minutes) && scan_is_done(&scan) && is_real(&moment))) {
        return false;
    }
    *ret_ms = to_ms(&moment) - (int64_t)zone_minutes * 60000;
    return true;
}
