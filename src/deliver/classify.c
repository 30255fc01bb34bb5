/* SPDX-License-Identifier: MIT
 *
 * classify -- see classify.h. The table is the whole of what is known about the two providers'
 * errors; its first row that fits decides, and what no row fits is judged by its status alone.
 */
#include "deliver/classify.h"

#include "deliver/classify_internal.h"
#include "deliver/leak.h"
#include "task/fields.h"

#include <stdio.h>

enum { OPENAI = 1 << PROVIDER_OPENAI, ANTHROPIC = 1 << PROVIDER_ANTHROPIC };

#define BOTH (OPENAI | ANTHROPIC)
#define ANY  0

/* What else must hold for a row to fit. */
enum condition {
    ALWAYS = 0,
    WITHOUT_HINT,  /* no header field says when to come back */
    WITHOUT_ERROR, /* the body is no error of a provider: a page of what stands in front of it */
};

struct row {
    int kinds;
    int status;       /* ANY: whatever it is */
    const char *word; /* type, code or details.error_code; NULL: whatever they are */
    const char *text; /* somewhere in the message, in any case of letters; NULL: likewise */
    enum condition condition;
    enum daruma_class error_class;
    enum provider_trouble trouble;
};

/* Shorter names, for the table alone. */
#define QUOTA     DARUMA_CLASS_QUOTA
#define LIMITED   DARUMA_CLASS_RATE_LIMITED
#define TRANSIENT DARUMA_CLASS_TRANSIENT
#define AUTH      DARUMA_CLASS_AUTH
#define INVALID   DARUMA_CLASS_INVALID
#define KEY       PROVIDER_TROUBLE_KEY
#define ACCOUNT   PROVIDER_TROUBLE_ACCOUNT
#define MODEL     PROVIDER_TROUBLE_MODEL
#define ADDRESS   PROVIDER_TROUBLE_ADDRESS
#define NONE      PROVIDER_TROUBLE_NONE

static const struct row rows[] = {
    {OPENAI, ANY, "insufficient_quota", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "credit_balance_exhausted", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "organization_spend_limit_exceeded", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "project_spend_limit_exceeded", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "organization_usage_limit_exceeded", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "billing_hard_limit_reached", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "billing_not_active", NULL, ALWAYS, QUOTA, NONE},
    {OPENAI, ANY, "access_terminated", NULL, ALWAYS, AUTH, ACCOUNT},
    {OPENAI, 429, NULL, "access was terminated", ALWAYS, AUTH, ACCOUNT},
    {OPENAI, ANY, "model_not_found", NULL, ALWAYS, INVALID, MODEL}, /* 404, and 403 */
    {OPENAI, ANY, "model_decommissioned", NULL, ALWAYS, INVALID, MODEL},
    /* It never fits into the limit: not to be waited for, and no other article's business. */
    {OPENAI, 429, NULL, "request too large", ALWAYS, INVALID, NONE},
    {OPENAI, 429, NULL, "tokens must be reduced", ALWAYS, INVALID, NONE},
    {OPENAI, 429, "rate_limit_exceeded", NULL, ALWAYS, LIMITED, NONE},
    {OPENAI, 429, "slow_down", NULL, ALWAYS, LIMITED, NONE},
    {OPENAI, 429, NULL, "exceeded your current quota", ALWAYS, QUOTA, NONE},
    {ANTHROPIC, ANY, "enforced_spend_limit_reached", NULL, ALWAYS, QUOTA, NONE},
    {ANTHROPIC, ANY, "billing_error", NULL, ALWAYS, QUOTA, NONE},
    {BOTH, 429, NULL, "spend limit", WITHOUT_HINT, QUOTA, NONE},
    {BOTH, 429, NULL, "spending limit", WITHOUT_HINT, QUOTA, NONE},
    {BOTH, 429, NULL, "usage limit", WITHOUT_HINT, QUOTA, NONE},
    {BOTH, 429, NULL, "regain access on", WITHOUT_HINT, QUOTA, NONE},
    {BOTH, 429, NULL, NULL, ALWAYS, LIMITED, NONE},
    {BOTH, 400, NULL, "spend limit", ALWAYS, QUOTA, NONE},
    {BOTH, 400, NULL, "spending limit", ALWAYS, QUOTA, NONE},
    {BOTH, 400, NULL, "usage limit", ALWAYS, QUOTA, NONE},
    {BOTH, 400, NULL, "credit balance", ALWAYS, QUOTA, NONE},
    {BOTH, 400, NULL, "organization has been disabled", ALWAYS, AUTH, ACCOUNT},
    {BOTH, 400, "organization_on_hold", NULL, ALWAYS, AUTH, ACCOUNT},
    {BOTH, 400, NULL, NULL, ALWAYS, INVALID, NONE}, /* too long, content policy and the like */
    {BOTH, 401, NULL, NULL, ALWAYS, AUTH, KEY},
    {BOTH, 402, NULL, NULL, ALWAYS, QUOTA, NONE},
    /* A firewall refuses contents too: only an error that names the key is about the key. */
    {BOTH, 403, NULL, NULL, WITHOUT_ERROR, TRANSIENT, NONE},
    {BOTH, 403, "invalid_api_key", NULL, ALWAYS, AUTH, KEY},
    {BOTH, 403, "authentication_error", NULL, ALWAYS, AUTH, KEY},
    {BOTH, 403, "permission_error", NULL, ALWAYS, AUTH, KEY},
    {BOTH, 403, "permission_denied", NULL, ALWAYS, AUTH, KEY},
    {BOTH, 403, "insufficient_permissions", NULL, ALWAYS, AUTH, KEY},
    {BOTH, 403, "request_forbidden", NULL, ALWAYS, AUTH, ACCOUNT}, /* a country */
    {BOTH, 403, "forbidden", NULL, ALWAYS, AUTH, ACCOUNT},         /* likewise */
    {BOTH, 403, NULL, "api key", ALWAYS, AUTH, KEY},
    {BOTH, 403, NULL, "permission", ALWAYS, AUTH, KEY},
    {BOTH, 403, NULL, NULL, ALWAYS, INVALID, NONE},
    {BOTH, 404, NULL, "model", ALWAYS, INVALID, MODEL},
    {BOTH, 404, NULL, NULL, ALWAYS, INVALID, ADDRESS},
    {BOTH, 405, NULL, NULL, ALWAYS, INVALID, ADDRESS},
    {BOTH, 409, NULL, NULL, ALWAYS, TRANSIENT, NONE}, /* a lock: both SDKs try again */
    {BOTH, 410, NULL, NULL, ALWAYS, INVALID, ADDRESS},
    {BOTH, 413, NULL, NULL, ALWAYS, INVALID, NONE},
    {BOTH, 422, NULL, NULL, ALWAYS, INVALID, NONE},
    {BOTH, 500, NULL, NULL, ALWAYS, TRANSIENT, NONE}, /* api_error, server_error */
    {BOTH, 502, NULL, NULL, ALWAYS, TRANSIENT, NONE},
    {BOTH, 503, NULL, NULL, ALWAYS, TRANSIENT, NONE}, /* server_is_overloaded */
    {BOTH, 504, NULL, NULL, ALWAYS, TRANSIENT, NONE}, /* timeout_error */
    {BOTH, 529, NULL, NULL, ALWAYS, TRANSIENT, NONE}, /* overloaded_error */
};

/* The status that an error inside a 200 would have had. What is not here is 500. */
static const struct {
    const char *word;
    int status;
} inside_statuses[] = {
    {"rate_limit_exceeded", 429},   {"slow_down", 429},
    {"rate_limit_error", 429},      {"insufficient_quota", 429},
    {"billing_not_active", 429},    {"access_terminated", 429},
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

/* By its words; else by its code where that is a number, as routers of several providers have it. */
static int status_inside(const struct provider_error *error)
{
    for (size_t i = 0; i < sizeof inside_statuses / sizeof *inside_statuses; i++) {
        if (has_word(error, inside_statuses[i].word)) {
            return inside_statuses[i].status;
        }
    }
    return error->number >= 400 && error->number <= 599 ? error->number : 500;
}

static bool holds(enum condition condition, const struct classify_input *input,
                  const struct provider_error *error)
{
    return condition == ALWAYS || (condition == WITHOUT_HINT && !input->has_hint) ||
           (condition == WITHOUT_ERROR && !error->is_given);
}

static bool fits(const struct row *row, const struct classify_input *input, int status,
                 const struct provider_error *error)
{
    return (row->kinds & 1 << input->kind) != 0 && (row->status == ANY || row->status == status) &&
           (row->word == NULL || has_word(error, row->word)) &&
           holds(row->condition, input, error) &&
           (row->text == NULL || provider_text_find(error->text, row->text) != NULL);
}

/* The class, and what an operator has to do something about. */
static void judge(const struct classify_input *input, const struct provider_error *error,
                  struct verdict *verdict)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (fits(&rows[i], input, verdict->status, error)) {
            verdict->error_class = rows[i].error_class;
            verdict->trouble = rows[i].trouble;
            return;
        }
    }
    verdict->error_class = DARUMA_CLASS_TRANSIENT;
    (void)daruma_class_of_status(verdict->status,
                                 &verdict->error_class); /* it is no success: that was looked at */
    verdict->trouble =
        verdict->status >= 300 && verdict->status < 400 ? ADDRESS : PROVIDER_TROUBLE_NONE;
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

static void fill_message(const struct classify_input *input, const struct provider_error *error,
                         struct verdict *verdict)
{
    const char *name = error->code[0] != '\0'     ? error->code
                       : error->detail[0] != '\0' ? error->detail
                                                  : error->type;
    bool has_text = error->text[0] != '\0' && verdict->trouble != PROVIDER_TROUBLE_KEY;
    size_t room = sizeof verdict->message;
    int len = snprintf(verdict->message, room, "HTTP %d%s%s%s", input->status,
                       input->status < 300 ? " with an error inside" : "",
                       name[0] != '\0' ? " " : "", name); /* fits: a name is short */

    if (len > 0 && has_text) {
        int left = (int)room - len - 3; /* for ": " and the end */
        (void)snprintf(verdict->message + len, room - (size_t)len, ": %.*s", left, error->text);
    }
    if (verdict->has_secret) {
        (void)snprintf(verdict->message, room, "HTTP %d, which repeats a secret: not shown",
                       input->status); /* fits */
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
    judge(input, &error, &verdict);
    verdict.error_class = obey_header(input, verdict.error_class);
    verdict.has_secret = input->settings != NULL && (leak_in(input->settings, input->body) ||
                                                     leak_in(input->settings, input->headers));
    classify_hint(input, &error, &verdict);
    fill_message(input, &error, &verdict);
    *ret_verdict = verdict;
    return true;
}
