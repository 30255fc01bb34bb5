/* SPDX-License-Identifier: MIT
 *
 * retry_after -- the hints of an answer, field by field; see daruma/retry_after.h for what counts.
 * Relative values are taken as they stand; dates are turned into waits at the end, when the answer's
 * own Date is known.
 */
#include <daruma/retry_after.h>

#include "scan_internal.h"

#include <string.h>

#define NS_PER_MS      UINT64_C(1000000)
#define NS_PER_S       UINT64_C(1000000000)
#define EPOCH_FROM_MS  INT64_C(1000000000000) /* a number of seconds above 10^9 is a date */
#define FIELD_NAME_MAX 128

static int64_t bounded(int64_t ms)
{
    if (ms < 0) {
        return 0;
    }
    return ms < DARUMA_BACKOFF_LIMIT_MS ? ms : DARUMA_BACKOFF_LIMIT_MS;
}

/* From one moment to another; further apart than fits is as far as fits. The clock is the caller's
 * and may say anything. */
static int64_t time_between(int64_t from_ms, int64_t to_ms)
{
    int64_t ms;

    if (__builtin_sub_overflow(to_ms, from_ms, &ms)) {
        return from_ms < 0 ? INT64_MAX : INT64_MIN;
    }
    return ms;
}

static bool parse_number(const char *value, size_t length, uint64_t unit_ns, int64_t *ret_ms)
{
    struct scan scan = scan_trimmed(value, length);
    int64_t ms;

    if (!daruma_scan_amount(&scan, unit_ns, &ms) || !scan_is_done(&scan)) {
        return false;
    }
    *ret_ms = ms;
    return true;
}

bool daruma_retry_after_parse(const char *value, size_t length, int64_t date_ms, int64_t *ret_ms)
{
    int64_t at_ms;

    if (parse_number(value, length, NS_PER_S, ret_ms)) {
        return true;
    }
    if (!daruma_http_date_parse(value, length, date_ms, &at_ms)) {
        return false;
    }
    *ret_ms = bounded(time_between(date_ms, at_ms));
    return true;
}

void daruma_hint_init(struct daruma_hint *hint, int64_t unix_now_ms)
{
    *hint = (struct daruma_hint){.unix_now_ms = unix_now_ms};
}

/* Of the same field twice the later moment counts: a hint is never shortened. */
static void keep_latest(int64_t *kept, bool *has, int64_t found)
{
    if (!*has || found > *kept) {
        *kept = found;
    }
    *has = true;
}

static void take_retry_after(struct daruma_hint *hint, const char *value, size_t length)
{
    int64_t ms;

    if (parse_number(value, length, NS_PER_S, &ms)) {
        keep_latest(&hint->retry_after_ms, &hint->has_retry_after, ms);
    } else if (daruma_http_date_parse(value, length, hint->unix_now_ms, &ms)) {
        keep_latest(&hint->retry_date_ms, &hint->has_retry_date, ms);
    }
}

/* A reset: seconds, seconds or milliseconds since 1970, a duration, or a date. */
struct reset {
    int64_t ms;
    bool is_moment; /* since 1970; else from now */
};

static bool parse_reset(const char *value, size_t length, int64_t unix_now_ms,
                        struct reset *ret_reset)
{
    int64_t ms;

    if (parse_number(value, length, NS_PER_S, &ms)) {
        bool is_in_ms = ms >= DARUMA_BACKOFF_LIMIT_MS;
        if (is_in_ms && !parse_number(value, length, NS_PER_MS, &ms)) {
            return false;
        }
        *ret_reset = (struct reset){.ms = ms, .is_moment = ms >= EPOCH_FROM_MS};
        return true;
    }
    if (daruma_duration_parse(value, length, &ms)) {
        *ret_reset = (struct reset){.ms = ms};
        return true;
    }
    if (daruma_rfc3339_parse(value, length, &ms) ||
        daruma_http_date_parse(value, length, unix_now_ms, &ms)) {
        *ret_reset = (struct reset){.ms = ms, .is_moment = true};
        return true;
    }
    return false;
}

/* A field name in lower case, and where in it the word is that says what it tells. */
struct field_name {
    char text[FIELD_NAME_MAX];
    size_t length;
};

static bool find_part(const struct field_name *name, const char *part, size_t *ret_at)
{
    size_t length = strlen(part);

    for (size_t at = 0; at + length <= name->length; at++) {
        bool starts = at > 0 && name->text[at - 1] == '-';
        bool ends = at + length == name->length || name->text[at + length] == '-';
        if (starts && ends && memcmp(name->text + at, part, length) == 0) {
            *ret_at = at;
            return true;
        }
    }
    return false;
}

static bool has_text(const struct field_name *name, const char *text)
{
    size_t length = strlen(text);

    for (size_t at = 0; at + length <= name->length; at++) {
        if (memcmp(name->text + at, text, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_named(const struct field_name *name, const char *text)
{
    return name->length == strlen(text) && memcmp(name->text, text, name->length) == 0;
}

/* The name without the word at `at`: the same for a limit's reset and its remaining. */
static uint64_t limit_name(const struct field_name *name, size_t at, size_t length)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < name->length; i++) {
        if (i < at || i >= at + length) {
            hash = (hash ^ (unsigned char)name->text[i]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static struct daruma_hint_limit *limit_of(struct daruma_hint *hint, uint64_t name)
{
    for (uint32_t i = 0; i < hint->limit_count; i++) {
        if (hint->limits[i].name == name) {
            return &hint->limits[i];
        }
    }
    if (hint->limit_count == DARUMA_HINT_LIMITS_MAX) {
        return NULL;
    }
    hint->limits[hint->limit_count] = (struct daruma_hint_limit){.name = name};
    return &hint->limits[hint->limit_count++];
}

static void keep_reset(struct daruma_hint_limit *limit, struct reset reset)
{
    if (reset.is_moment) {
        keep_latest(&limit->reset_at_ms, &limit->has_reset_at, reset.ms);
    } else {
        keep_latest(&limit->reset_ms, &limit->has_reset, reset.ms);
    }
}

static void take_limit(struct daruma_hint *hint, const struct field_name *name, const char *value,
                       size_t length)
{
    struct daruma_hint_limit *limit;
    struct reset reset;
    int64_t ms;
    size_t at;

    if (find_part(name, "reset", &at)) {
        limit = limit_of(hint, limit_name(name, at, strlen("reset")));
        if (limit != NULL && parse_reset(value, length, hint->unix_now_ms, &reset)) {
            keep_reset(limit, reset);
        }
    } else if (find_part(name, "remaining", &at)) {
        limit = limit_of(hint, limit_name(name, at, strlen("remaining")));
        if (limit != NULL && parse_number(value, length, NS_PER_MS, &ms)) {
            limit->has_remaining = true;
            limit->is_used_up = ms == 0;
        }
    }
}

void daruma_hint_field(struct daruma_hint *hint, const char *name, size_t name_length,
                       const char *value, size_t value_length)
{
    struct field_name field = {.length = name_length};
    int64_t ms;

    if (name == NULL || value == NULL || name_length > sizeof field.text) {
        return;
    }
    for (size_t i = 0; i < name_length; i++) {
        field.text[i] = scan_lower(name[i]);
    }
    if (is_named(&field, "retry-after-ms")) {
        if (parse_number(value, value_length, NS_PER_MS, &ms)) {
            keep_latest(&hint->precise_ms, &hint->has_precise, ms);
        }
    } else if (is_named(&field, "retry-after")) {
        take_retry_after(hint, value, value_length);
    } else if (is_named(&field, "date")) {
        hint->has_date = daruma_http_date_parse(value, value_length, hint->unix_now_ms, &ms);
        hint->date_ms = hint->has_date ? ms : 0;
    } else if (has_text(&field, "ratelimit") || has_text(&field, "rate-limit")) {
        take_limit(hint, &field, value, value_length);
    }
}

/* From the answer's own Date to a moment; from our clock when it has none. */
static int64_t time_until(const struct daruma_hint *hint, int64_t moment_ms)
{
    return time_between(hint->has_date ? hint->date_ms : hint->unix_now_ms, moment_ms);
}

static bool limits_ms(const struct daruma_hint *hint, int64_t *ret_ms)
{
    bool has = false;

    *ret_ms = 0;
    for (uint32_t i = 0; i < hint->limit_count; i++) {
        const struct daruma_hint_limit *limit = &hint->limits[i];
        if (limit->has_remaining && !limit->is_used_up) {
            continue;
        }
        if (limit->has_reset) {
            keep_latest(ret_ms, &has, limit->reset_ms);
        }
        if (limit->has_reset_at) {
            keep_latest(ret_ms, &has, time_until(hint, limit->reset_at_ms));
        }
    }
    return has;
}

static bool hint_find(const struct daruma_hint *hint, int64_t *ret_ms)
{
    bool has = false;

    *ret_ms = 0;
    if (hint->has_precise) {
        *ret_ms = hint->precise_ms;
        return true;
    }
    if (hint->has_retry_after) {
        keep_latest(ret_ms, &has, hint->retry_after_ms);
    }
    if (hint->has_retry_date) {
        keep_latest(ret_ms, &has, time_until(hint, hint->retry_date_ms));
    }
    return has || limits_ms(hint, ret_ms);
}

int64_t daruma_hint_ms(const struct daruma_hint *hint)
{
    int64_t ms;

    (void)hint_find(hint, &ms); /* no hint is no wait */
    return bounded(ms);
}

bool daruma_hint_is_given(const struct daruma_hint *hint)
{
    int64_t ms;

    return hint_find(hint, &ms);
}
