/* SPDX-License-Identifier: MIT
 *
 * fuzz_retry_after -- header fields from outside. The input is text: one "Name: value" a line, as
 * an answer would have them; "now: N" sets the clock (milliseconds since 1970). Each value is also
 * given to every parser by itself. Names and values stand in memory of exactly their size.
 *
 * What must hold for any input: waits are within [0, DARUMA_BACKOFF_LIMIT_MS]; the same fields give
 * the same hint, in either order when no name repeats; what a parser accepts, printed in another
 * way by other code (libc's calendar), reads back as the same number.
 */
#include <daruma/backoff.h>
#include <daruma/retry_after.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOW_MS     INT64_C(1794738030000)   /* 2026-11-15T10:20:30Z */
#define YEAR_1_MS  INT64_C(-62135596800000) /* what a four-digit year can say */
#define YEAR_9999  INT64_C(253402300799999)
#define ZONE_MS    INT64_C(86400000) /* a zone moves a moment by less than a day */
#define FIELDS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);

struct field {
    char *name, *value;
    size_t name_length, value_length;
};

static void holds(bool claim, const char *text)
{
    if (!claim) {
        fprintf(stderr, "does not hold: %s\n", text);
        abort();
    }
}

#define HOLDS(claim) holds((claim), #claim)

static char *exact_copy(const char *bytes, size_t length)
{
    char *copy = malloc(length);

    HOLDS(copy != NULL);
    memcpy(copy, bytes, length);
    return copy;
}

static void check_duration(const struct field *field)
{
    char text[32];
    int64_t ms, again;

    if (!daruma_duration_parse(field->value, field->value_length, &ms)) {
        return;
    }
    HOLDS(ms >= 0 && ms <= DARUMA_BACKOFF_LIMIT_MS);
    int length = snprintf(text, sizeof text, "%" PRId64 "ms", ms);
    HOLDS(daruma_duration_parse(text, (size_t)length, &again));
    HOLDS(again == ms);
}

/* The calendar of libc; false when the year does not have four digits. */
static bool calendar(int64_t ms, struct tm *ret_parts)
{
    int64_t seconds = ms / 1000 - (ms % 1000 < 0);
    time_t moment = (time_t)seconds;

    HOLDS(gmtime_r(&moment, ret_parts) != NULL);
    return ret_parts->tm_year + 1900 >= 1 && ret_parts->tm_year + 1900 <= 9999;
}

static void check_http_date(const struct field *field, int64_t now_ms)
{
    char text[64];
    struct tm parts;
    int64_t ms, again;

    if (!daruma_http_date_parse(field->value, field->value_length, now_ms, &ms)) {
        return;
    }
    HOLDS(ms >= YEAR_1_MS && ms % 1000 == 0);
    if (calendar(ms, &parts)) {
        size_t length = strftime(text, sizeof text, "%a, %d %b ", &parts);
        length += (size_t)snprintf(text + length, sizeof text - length, "%04d %02d:%02d:%02d GMT",
                                   parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
        HOLDS(daruma_http_date_parse(text, length, now_ms, &again));
        HOLDS(again == ms);
    }
}

static void check_rfc3339(const struct field *field)
{
    char text[64];
    struct tm parts;
    int64_t ms, again;

    if (!daruma_rfc3339_parse(field->value, field->value_length, &ms)) {
        return;
    }
    HOLDS(ms >= YEAR_1_MS - ZONE_MS && ms <= YEAR_9999 + 1000 + ZONE_MS);
    if (calendar(ms, &parts)) {
        int part_ms = (int)((ms % 1000 + 1000) % 1000);
        int length = snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                              parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                              parts.tm_min, parts.tm_sec, part_ms);
        HOLDS(daruma_rfc3339_parse(text, (size_t)length, &again));
        HOLDS(again == ms);
    }
}

static void check_retry_after(const struct field *field, int64_t now_ms)
{
    int64_t ms = -1, again = -1;
    bool parsed = daruma_retry_after_parse(field->value, field->value_length, now_ms, &ms);

    HOLDS(parsed == daruma_retry_after_parse(field->value, field->value_length, now_ms, &again));
    HOLDS(ms == again);
    HOLDS(parsed ? ms >= 0 && ms <= DARUMA_BACKOFF_LIMIT_MS : ms == -1);
}

static struct daruma_hint hint_from(const struct field *fields, size_t count, int64_t now_ms)
{
    struct daruma_hint hint;

    daruma_hint_init(&hint, now_ms);
    for (size_t i = 0; i < count; i++) {
        daruma_hint_field(&hint, fields[i].name, fields[i].name_length, fields[i].value,
                          fields[i].value_length);
        int64_t ms = daruma_hint_ms(&hint);
        HOLDS(ms >= 0 && ms <= DARUMA_BACKOFF_LIMIT_MS);
        HOLDS(ms == 0 || daruma_hint_is_given(&hint));
    }
    return hint;
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static bool same_name(const struct field *one, const struct field *other)
{
    size_t i = 0;

    while (i < one->name_length && i < other->name_length &&
           lower(one->name[i]) == lower(other->name[i])) {
        i++;
    }
    return i == one->name_length && i == other->name_length;
}

static bool order_matters(const struct field *fields, size_t count)
{
    if (count > DARUMA_HINT_LIMITS_MAX) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (same_name(&fields[i], &fields[j])) {
                return true;
            }
        }
    }
    return false;
}

static void turn_round(struct field *fields, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct field field = fields[i];
        fields[i] = fields[count - 1 - i];
        fields[count - 1 - i] = field;
    }
}

static void check_hint(struct field *fields, size_t count, int64_t now_ms)
{
    struct daruma_hint hint = hint_from(fields, count, now_ms);
    struct daruma_hint again = hint_from(fields, count, now_ms);

    HOLDS(daruma_hint_ms(&hint) == daruma_hint_ms(&again));
    HOLDS(daruma_hint_is_given(&hint) == daruma_hint_is_given(&again));
    if (!order_matters(fields, count)) {
        turn_round(fields, count);
        again = hint_from(fields, count, now_ms);
        HOLDS(daruma_hint_ms(&hint) == daruma_hint_ms(&again));
        HOLDS(daruma_hint_is_given(&hint) == daruma_hint_is_given(&again));
    }
}

static struct field field_from(const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    size_t name_length = colon == NULL ? 0 : (size_t)(colon - line);
    size_t skipped = colon == NULL ? 0 : name_length + 1;

    return (struct field){.name = exact_copy(line, name_length),
                          .name_length = name_length,
                          .value = exact_copy(line + skipped, length - skipped),
                          .value_length = length - skipped};
}

/* "now: N" is the clock, as far as clocks go. */
static void take_clock(const struct field *field, int64_t *now_ms)
{
    static char name[] = "now";
    const struct field clock = {.name = name, .name_length = 3};
    uint64_t number = 0;

    if (!same_name(field, &clock)) {
        return;
    }
    for (size_t i = 0; i < field->value_length; i++) {
        if (field->value[i] >= '0' && field->value[i] <= '9') {
            number = number * 10 + (uint64_t)(field->value[i] - '0'); /* it may wrap */
        }
    }
    *now_ms = (int64_t)(number % (uint64_t)YEAR_9999);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length)
{
    struct field fields[FIELDS_MAX];
    const char *at = (const char *)input, *end = at + length;
    int64_t now_ms = NOW_MS;
    size_t count = 0;

    while (at < end && count < FIELDS_MAX) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        fields[count] = field_from(at, (size_t)(stop - at));
        take_clock(&fields[count++], &now_ms);
        at = newline != NULL ? newline + 1 : end;
    }
    check_hint(fields, count, now_ms);
    for (size_t i = 0; i < count; i++) {
        check_retry_after(&fields[i], now_ms);
        check_http_date(&fields[i], now_ms);
        check_rfc3339(&fields[i]);
        check_duration(&fields[i]);
        free(fields[i].name);
        free(fields[i].value);
    }
    return 0;
}
