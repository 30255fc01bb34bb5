/* SPDX-License-Identifier: MIT
 *
 * classify_hint -- when a provider wants to be asked again, where its Retry-After does not say it: in
 * words, or in the resets of limits of which something is left, only not enough for this request.
 */
#include "deliver/classify_internal.h"

#include "task/fields.h"

#include <daruma/retry_after.h>

#define DURATION_MAX 24 /* bytes: 1h2m3.456s */

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

const char *provider_text_find(const char *text, const char *part)
{
    for (; *text != '\0'; text++) {
        size_t i = 0;
        while (part[i] != '\0' && lower(text[i]) == part[i]) {
            i++;
        }
        if (part[i] == '\0') {
            return text;
        }
    }
    return NULL;
}

/* "You will regain access on 2026-09-01 at 00:00 UTC." */
static bool read_date(const char *text, int64_t *ret_ms)
{
    static const char before[] = "regain access on ", between[] = " at ";
    const char *at = provider_text_find(text, before);
    char moment[] = "2026-09-01T00:00:00Z";

    if (at == NULL || strlen(at) < sizeof before - 1 + 10) {
        return false;
    }
    at += sizeof before - 1;
    memcpy(moment, at, 10);
    at += 10;
    if (strncmp(at, between, sizeof between - 1) == 0 && strlen(at) >= sizeof between - 1 + 5) {
        memcpy(moment + 11, at + sizeof between - 1, 5);
    }
    return daruma_rfc3339_parse(moment, sizeof moment - 1, ret_ms);
}

/* "Please try again in 9m38.016s." A sentence may end right behind it. */
static bool read_wait(const char *text, int64_t *ret_ms)
{
    static const char before[] = "try again in ";
    const char *at = provider_text_find(text, before);
    size_t len;

    if (at == NULL) {
        return false;
    }
    at += sizeof before - 1;
    len = strcspn(at, " ,;)");
    while (len > 0 && at[len - 1] == '.') {
        len--;
    }
    return len > 0 && len <= DURATION_MAX && daruma_duration_parse(at, len, ret_ms);
}

/* The latest reset of all limits, whatever is said to remain of them. */
static bool read_resets(const struct classify_input *input, int64_t *ret_ms)
{
    struct span rest = input->headers, name, value;
    struct daruma_hint hint;

    daruma_hint_init(&hint, input->now_ms);
    while (fields_next(&rest, &name, &value)) {
        bool is_remaining = false;
        for (size_t i = 0; i < name.len && !is_remaining; i++) {
            is_remaining = span_is_nocase(span_until(span_from(name, i), 9), "remaining");
        }
        if (!is_remaining) {
            daruma_hint_field(&hint, name.at, name.len, value.at, value.len);
        }
    }
    *ret_ms = daruma_hint_ms(&hint);
    return *ret_ms > 0;
}

void classify_hint(const struct classify_input *input, const struct provider_error *error,
                   struct verdict *verdict)
{
    int64_t at_ms, wait_ms;

    if (verdict->error_class == DARUMA_CLASS_INVALID || verdict->status == 403) {
        return; /* one article's: no other has to wait for it, nor does it help this one */
    }
    verdict->has_hint = input->has_hint;
    verdict->hint_ms = input->hint_ms;
    if (verdict->error_class == DARUMA_CLASS_QUOTA && read_date(error->text, &at_ms) &&
        at_ms - input->now_ms > verdict->hint_ms) {
        verdict->has_hint = true;
        verdict->hint_ms = at_ms - input->now_ms;
    }
    if (verdict->error_class == DARUMA_CLASS_RATE_LIMITED && !verdict->has_hint &&
        (read_wait(error->text, &wait_ms) || read_resets(input, &wait_ms))) {
        verdict->has_hint = true;
        verdict->hint_ms = wait_ms;
    }
}
