/* SPDX-License-Identifier: MIT
 *
 * classify -- see classify.h. The table is the whole of what is known about the two providers'
 * errors; its first row that fits decides, and what no row fits is judged by its status alone.
 */
#include "deliver/classify.h"

#include "deliver/classify_internal.h"
#include "task/fields.h"

#include <daruma/retry_after.h>

#include <stdio.h>

enum { OPENAI = 1 << PROVIDER_OPENAI, ANTHROPIC = 1 << PROVIDER_ANTHROPIC };

#define BOTH (OPENAI | ANTHROPIC)
#define ANY  0

struct row {
    int kinds;
    int status;        /* ANY: whatever it is */
    const char *word;  /* type, code or details.error_code; NULL: whatever they are */
    const char *text;  /* somewhere in the message, in any case of letters; NULL: likewise */
    bool without_hint; /* only when no header field says when to come back */
    enum daruma_class error_class;
};

static const struct row rows[] = {
    {OPENAI, ANY, "insufficient_quota", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, ANY, "credit_balance_exhausted", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, ANY, "organization_spend_limit_exceeded", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, ANY, "project_spend_limit_exceeded", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, ANY, "organization_usage_limit_exceeded", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, ANY, "billing_hard_limit_reached", NULL, false, DARUMA_CLASS_QUOTA},
    {OPENAI, 429, "rate_limit_exceeded", NULL, false, DARUMA_CLASS_RATE_LIMITED},
    {OPENAI, 429, "slow_down", NULL, false, DARUMA_CLASS_RATE_LIMITED},
    {OPENAI, 429, NULL, "exceeded your current quota", false, DARUMA_CLASS_QUOTA},
    {ANTHROPIC, ANY, "enforced_spend_limit_reached", NULL, false, DARUMA_CLASS_QUOTA},
    {ANTHROPIC, ANY, "billing_error", NULL, false, DARUMA_CLASS_QUOTA},
    {BOTH, 429, NULL, "spend limit", true, DARUMA_CLASS_QUOTA},
    {BOTH, 429, NULL, "spending limit", true, DARUMA_CLASS_QUOTA},
    {BOTH, 429, NULL, "usage limit", true, DARUMA_CLASS_QUOTA},
    {BOTH, 429, NULL, "regain access on", true, DARUMA_CLASS_QUOTA},
    {BOTH, 429, NULL, NULL, false, DARUMA_CLASS_RATE_LIMITED},
    {BOTH, 400, NULL, "spend limit", false, DARUMA_CLASS_QUOTA},
    {BOTH, 400, NULL, "spending limit", false, DARUMA_CLASS_QUOTA},
    {BOTH, 400, NULL, "usage limit", false, DARUMA_CLASS_QUOTA},
    {BOTH, 400, NULL, "credit balance", false, DARUMA_CLASS_QUOTA},
    {BOTH, 400, NULL, NULL, false, DARUMA_CLASS_INVALID}, /* context_length_exceeded and the like */
    {BOTH, 401, NULL, NULL, false, DARUMA_CLASS_AUTH},
    {BOTH, 402, NULL, NULL, false, DARUMA_CLASS_QUOTA},
    {BOTH, 403, NULL, NULL, false, DARUMA_CLASS_AUTH},
    {BOTH, 404, NULL, NULL, false, DARUMA_CLASS_INVALID},
    {BOTH, 409, NULL, NULL, false, DARUMA_CLASS_TRANSIENT}, /* a lock: both SDKs try again */
    {BOTH, 410, NULL, NULL, false, DARUMA_CLASS_INVALID},
    {BOTH, 413, NULL, NULL, false, DARUMA_CLASS_INVALID},
    {BOTH, 422, NULL, NULL, false, DARUMA_CLASS_INVALID},
    {BOTH, 500, NULL, NULL, false, DARUMA_CLASS_TRANSIENT}, /* api_error, server_error */
    {BOTH, 502, NULL, NULL, false, DARUMA_CLASS_TRANSIENT},
    {BOTH, 503, NULL, NULL, false, DARUMA_CLASS_TRANSIENT}, /* server_is_overloaded */
    {BOTH, 504, NULL, NULL, false, DARUMA_CLASS_TRANSIENT}, /* timeout_error */
    {BOTH, 529, NULL, NULL, false, DARUMA_CLASS_TRANSIENT}, /* overloaded_error */
};

/* The status that an error inside a 200 would have had. What is not here is 500. */
static const struct {
    const char *word;
    int status;
} inside_statuses[] = {
    {"rate_limit_exceeded", 429},   {"slow_down", 429},
    {"rate_limit_error", 429},      {"insufficient_quota", 429},
    {"invalid_api_key", 401},       {"authentication_error", 401},
    {"billing_error", 402},         {"permission_error", 403},
    {"not_found_error", 404},       {"model_not_found", 404},
    {"request_too_large", 413},     {"context_length_exceeded", 400},
    {"invalid_request_error", 400}, {"server_is_overloaded", 503},
    {"timeout_error", 504},         {"overloaded_error", 529},
};

static bool has_word(const struct provider_error *error, const char *word)
{
    return strcmp(error->code, word) == 0 || strcmp(error->type, word) == 0 ||
           strcmp(error->detail, word) == 0;
}

static int status_inside(const struct provider_error *error)
{
    for (size_t i = 0; i < sizeof inside_statuses / sizeof *inside_statuses; i++) {
        if (has_word(error, inside_statuses[i].word)) {
            return inside_statuses[i].status;
        }
    }
    return 500;
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* Where `part`, which is in lower case, stands in the text; NULL: nowhere. */
static const char *find_text(const char *text, const char *part)
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

static bool fits(const struct row *row, const struct classify_input *input, int status,
                 const struct provider_error *error)
{
    return (row->kinds & 1 << input->kind) != 0 && (row->status == ANY || row->status == status) &&
           (row->word == NULL || has_word(error, row->word)) &&
           (!row->without_hint || !input->has_hint) &&
           (row->text == NULL || find_text(error->text, row->text) != NULL);
}

static enum daruma_class class_of(const struct classify_input *input, int status,
                                  const struct provider_error *error)
{
    enum daruma_class error_class = DARUMA_CLASS_TRANSIENT;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (fits(&rows[i], input, status, error)) {
            return rows[i].error_class;
        }
    }
    (void)daruma_class_of_status(status, &error_class); /* it is no success: that was looked at */
    return error_class;
}

/* "You will regain access on 2026-09-01 at 00:00 UTC." */
static bool read_date(const char *text, int64_t *ret_ms)
{
    static const char before[] = "regain access on ", between[] = " at ";
    const char *at = find_text(text, before);
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

static void fill_hint(const struct classify_input *input, const struct provider_error *error,
                      struct verdict *verdict)
{
    int64_t at_ms;

    verdict->has_hint = input->has_hint;
    verdict->hint_ms = input->hint_ms;
    if (verdict->error_class == DARUMA_CLASS_QUOTA && read_date(error->text, &at_ms) &&
        at_ms - input->now_ms > verdict->hint_ms) {
        verdict->has_hint = true;
        verdict->hint_ms = at_ms - input->now_ms;
    }
}

/* `x-should-retry: false`: the same request is not to come again soon. A limit then is one that
 * seconds do not help against; a failure is final for this provider. */
static enum daruma_class obey_header(const struct classify_input *input,
                                     enum daruma_class error_class)
{
    struct span word;

    if (!fields_find(input->headers, "x-should-retry", &word) ||
        !span_is_nocase(span_trim(word), "false")) {
        return error_class;
    }
    return error_class == DARUMA_CLASS_TRANSIENT      ? DARUMA_CLASS_INVALID
           : error_class == DARUMA_CLASS_RATE_LIMITED ? DARUMA_CLASS_QUOTA
                                                      : error_class;
}

/* A provider may repeat the key that it does not know, anywhere (I10). */
static bool has_secret(const char *text, struct span key)
{
    char secret[PROVIDER_SECRET_SHOWN_MAX + 1];
    size_t len = key.len < sizeof secret ? key.len : sizeof secret - 1;

    for (size_t i = 0; i < len; i++) {
        secret[i] = lower(key.at[i]);
    }
    secret[len] = '\0';
    return len > 0 && find_text(text, secret) != NULL;
}

static void fill_message(const struct classify_input *input, const struct provider_error *error,
                         struct verdict *verdict)
{
    const char *name = error->code[0] != '\0'     ? error->code
                       : error->detail[0] != '\0' ? error->detail
                                                  : error->type;
    bool has_text = error->text[0] != '\0' && verdict->error_class != DARUMA_CLASS_AUTH;
    size_t room = sizeof verdict->message;
    int len = snprintf(verdict->message, room, "HTTP %d%s%s%s", input->status,
                       input->status < 300 ? " with an error inside" : "",
                       name[0] != '\0' ? " " : "", name); /* fits: a name is short */

    if (len > 0 && has_text) {
        int left = (int)room - len - 3; /* for ": " and the end */
        (void)snprintf(verdict->message + len, room - (size_t)len, ": %.*s", left, error->text);
    }
    if (has_secret(verdict->message, input->secret)) {
        (void)snprintf(verdict->message, room, "HTTP %d", input->status); /* fits */
    }
    provider_error_clean(verdict->message);
}

bool classify_answer(const struct classify_input *input, struct verdict *ret_verdict)
{
    struct provider_error error;
    struct verdict verdict = {.status = input->status};
    bool has_error = provider_error_read(input->body, &error);

    if (input->status >= 200 && input->status < 300) {
        if (!has_error) {
            return false;
        }
        verdict.status = status_inside(&error);
    }
    enum daruma_class said = class_of(input, verdict.status, &error);
    verdict.error_class = obey_header(input, said);
    verdict.goes_on = said != DARUMA_CLASS_INVALID;
    fill_hint(input, &error, &verdict);
    fill_message(input, &error, &verdict);
    *ret_verdict = verdict;
    return true;
}
