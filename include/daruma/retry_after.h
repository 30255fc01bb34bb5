/* SPDX-License-Identifier: MIT
 *
 * retry_after -- what an answer says about when to come back, from its header fields:
 *
 *     struct daruma_hint hint;
 *     daruma_hint_init(&hint, unix_now_ms);
 *     for each header field: daruma_hint_field(&hint, name, name_length, value, value_length);
 *     error->retry_after_ms = daruma_hint_ms(&hint);
 *
 * Read, in this order of precedence: retry-after-ms; Retry-After (seconds, or a date in any of the
 * three forms of HTTP); then x-ratelimit-reset*, ratelimit-reset and *-ratelimit-*-reset (seconds, a
 * duration such as 6m0s, seconds since 1970, or an RFC 3339 time): the latest of them, leaving out
 * a limit that is said to have something remaining. Moments are measured from the answer's own
 * Date, so that a wrong clock on either side does no harm. Fractions are rounded up: a hint is never
 * shortened. What cannot be read is no hint; what is too large is DARUMA_BACKOFF_LIMIT_MS.
 *
 * Names and values come from outside: any bytes, any length, no NUL needed.
 */
#ifndef DARUMA_RETRY_AFTER_H
#define DARUMA_RETRY_AFTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_HINT_LIMITS_MAX 8 /* reset fields looked at in one answer */

/* One limit of a set ("requests", "tokens" …), known by a hash of its name. Private. */
struct daruma_hint_limit {
    uint64_t name;
    int64_t reset_ms;    /* from now */
    int64_t reset_at_ms; /* since 1970 */
    bool has_reset, has_reset_at, has_remaining, is_used_up;
};

/* Private. */
struct daruma_hint {
    int64_t unix_now_ms;
    int64_t date_ms;        /* the answer's Date, since 1970 */
    int64_t precise_ms;     /* retry-after-ms */
    int64_t retry_after_ms; /* in seconds, as milliseconds */
    int64_t retry_date_ms;  /* as a date, since 1970 */
    bool has_date, has_precise, has_retry_after, has_retry_date;
    uint32_t limit_count;
    struct daruma_hint_limit limits[DARUMA_HINT_LIMITS_MAX];
};

/* unix_now_ms: milliseconds since 1970. */
void daruma_hint_init(struct daruma_hint *hint, int64_t unix_now_ms);

/* Takes in one header field; others than those above are ignored. Order does not matter. */
void daruma_hint_field(struct daruma_hint *hint, const char *name, size_t name_length,
                       const char *value, size_t value_length);

/* The wait from now in milliseconds; 0: none, or it is over already. */
int64_t daruma_hint_ms(const struct daruma_hint *hint);
bool daruma_hint_is_given(const struct daruma_hint *hint); /* also when it says "now" */

/* One Retry-After value by itself, as a wait. False when it is neither seconds nor a date. date_ms:
 * the answer's Date in milliseconds since 1970, or the time now. */
bool daruma_retry_after_parse(const char *value, size_t length, int64_t date_ms, int64_t *ret_ms);

/* A date in one of HTTP's three forms; two-digit years are read as at unix_now_ms (RFC 9110: not
 * more than 50 years ahead). Milliseconds since 1970. */
bool daruma_http_date_parse(const char *text, size_t length, int64_t unix_now_ms, int64_t *ret_ms);

/* 2026-11-15T10:20:30.5+09:00. Fractions are rounded up to a millisecond. */
bool daruma_rfc3339_parse(const char *text, size_t length, int64_t *ret_ms);

/* 250ms 10s 5m 24h 30d, 1.5s, and several in a row from large to small: 1h30m, 6m0s. Units: d h m s
 * ms us ns. Rounded up to a millisecond; false when it is anything else or longer than
 * DARUMA_BACKOFF_LIMIT_MS. */
bool daruma_duration_parse(const char *text, size_t length, int64_t *ret_ms);

#ifdef __cplusplus
}
#endif
#endif
