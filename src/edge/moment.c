/* SPDX-License-Identifier: MIT
 *
 * moment -- see moment.h.
 */
#include "edge/moment.h"

#define YEAR_MIN 1970
#define YEAR_MAX 9999
#define DAY_MS   INT64_C(86400000)

/* Takes `count` digits off the front, as a number between the bounds. */
static bool take_number(struct span *rest, size_t count, int64_t min, int64_t max, int64_t *ret)
{
    struct span digits = span_until(*rest, count);

    if (digits.len != count || digits.at[0] == '-' || !span_to_int(digits, ret)) {
        return false;
    }
    *rest = span_from(*rest, count);
    return *ret >= min && *ret <= max;
}

static bool take_byte(struct span *rest, const char *either)
{
    if (rest->len == 0 || rest->at[0] == '\0' || strchr(either, rest->at[0]) == NULL) {
        return false;
    }
    *rest = span_from(*rest, 1);
    return true;
}

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Since 1970. */
static int64_t days_before(int64_t year, int64_t month, int64_t day)
{
    int64_t last = year - 1;
    int64_t days = (year - YEAR_MIN) * 365 + (last / 4 - last / 100 + last / 400) -
                   (1969 / 4 - 1969 / 100 + 1969 / 400);

    for (int64_t i = 1; i < month; i++) {
        days += month_days(year, i);
    }
    return days + day - 1;
}

static bool take_date(struct span *rest, int64_t *ret_ms)
{
    int64_t year, month, day;

    if (!take_number(rest, 4, YEAR_MIN, YEAR_MAX, &year) || !take_byte(rest, "-") ||
        !take_number(rest, 2, 1, 12, &month) || !take_byte(rest, "-") ||
        !take_number(rest, 2, 1, month_days(year, month), &day)) {
        return false;
    }
    *ret_ms = days_before(year, month, day) * DAY_MS;
    return true;
}

/* Behind the point: any number of digits, at least one. */
static bool take_fraction(struct span *rest, int64_t *ret_ms)
{
    int64_t digit, scale = 100, fraction_ms = 0;
    size_t count = 0;

    while (rest->len > 0 && rest->at[0] >= '0' && rest->at[0] <= '9') {
        digit = rest->at[0] - '0';
        fraction_ms += digit * scale;
        scale /= 10;
        *rest = span_from(*rest, 1);
        count++;
    }
    *ret_ms = fraction_ms;
    return count > 0;
}

static bool take_clock(struct span *rest, int64_t *ret_ms)
{
    int64_t hour, minute, second, fraction_ms = 0;

    if (!take_number(rest, 2, 0, 23, &hour) || !take_byte(rest, ":") ||
        !take_number(rest, 2, 0, 59, &minute) || !take_byte(rest, ":") ||
        !take_number(rest, 2, 0, 60, &second)) { /* 60: a leap second, one second later */
        return false;
    }
    if (take_byte(rest, ".") && !take_fraction(rest, &fraction_ms)) {
        return false;
    }
    *ret_ms = ((hour * 60 + minute) * 60 + second) * 1000 + fraction_ms;
    return true;
}

static bool take_offset(struct span *rest, int64_t *ret_ms)
{
    int64_t hours, minutes;

    *ret_ms = 0;
    if (take_byte(rest, "Zz")) {
        return true;
    }
    int64_t sign = span_starts(*rest, "-") ? -1 : 1;
    if (!take_byte(rest, "+-") || !take_number(rest, 2, 0, 23, &hours) || !take_byte(rest, ":") ||
        !take_number(rest, 2, 0, 59, &minutes)) {
        return false;
    }
    *ret_ms = sign * (hours * 60 + minutes) * 60000;
    return true;
}

bool moment_parse(struct span text, int64_t *ret_wall_ms)
{
    int64_t date_ms, clock_ms, offset_ms;

    if (!take_date(&text, &date_ms) || !take_byte(&text, "Tt ") || !take_clock(&text, &clock_ms) ||
        !take_offset(&text, &offset_ms) || text.len != 0) {
        return false;
    }
    int64_t wall_ms = date_ms + clock_ms - offset_ms;
    if (wall_ms < 0) {
        return false;
    }
    *ret_wall_ms = wall_ms;
    return true;
}
