/* SPDX-License-Identifier: MIT
 *
 * fallback -- AI providers as they are configured, and the list of them that a queue goes through
 * within one attempt. Plain settings: the configuration makes them, the engine hands them on, and
 * deliver/providers.c obeys them.
 */
#ifndef TASK_FALLBACK_H
#define TASK_FALLBACK_H

#include "base/span.h"

#define FALLBACK_PROVIDERS_MAX 8 /* in one list */
#define PROVIDER_KEYS_MAX      16
#define PROVIDER_MAX_TOKENS    1024
#define PROVIDER_TIMEOUT_MS    60000 /* of one call: models take their time */
#define PROVIDER_VERSION       "2023-06-01"
#define FALLBACK_WAIT_UNDER_MS 2000

enum provider_kind { PROVIDER_OPENAI = 0, PROVIDER_ANTHROPIC, PROVIDER_KIND_COUNT };

enum fallback_order {
    FALLBACK_FIXED = 0,  /* as written */
    FALLBACK_STICKY,     /* the one that answered last comes first, the others as written */
    FALLBACK_ROUND_ROBIN /* each attempt begins one further down the list */
};

/* Spans belong to the configuration, which outlives every attempt. */
struct provider_settings {
    struct span name;
    enum provider_kind kind;
    struct span url;  /* the beginning, without a slash at its end: https://api.openai.com */
    struct span path; /* what follows, with a slash at its beginning; empty: the kind's own */
    bool allow_http;  /* the key may travel in plain text to another machine */
    struct span model;
    struct span keys[PROVIDER_KEYS_MAX]; /* secrets */
    size_t key_count;
    struct span system; /* task/prompt.h: templates */
    struct span user;
    uint32_t max_tokens;
    bool is_old;         /* of kind openai: it knows max_tokens, not max_completion_tokens */
    struct span version; /* anthropic-version */
    struct span headers; /* task/fields.h: more of them, such as an organisation */
    int64_t timeout_ms;
    struct span ca;
    double price_in, price_out; /* of a million tokens; 0: not known */
};

struct fallback {
    const struct provider_settings *providers[FALLBACK_PROVIDERS_MAX];
    size_t provider_count;
    enum fallback_order order;
    int64_t wait_under_ms; /* when all are to be left alone, a wait up to this is worth it */
};

#endif
