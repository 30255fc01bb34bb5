/* SPDX-License-Identifier: MIT
 *
 * provider_stats -- what is counted about a provider, and what is wrong with it, from
 * deliver/providers.c to the code that shows it.
 */
#ifndef TASK_PROVIDER_STATS_H
#define TASK_PROVIDER_STATS_H

#include "base/span.h"

#include <daruma/policy.h>

/* What retries do not help against: an operator has to act, or the provider's own has to. */
enum provider_trouble {
    PROVIDER_TROUBLE_NONE = 0,
    PROVIDER_TROUBLE_KEY,     /* the key is refused */
    PROVIDER_TROUBLE_ACCOUNT, /* the account or the organisation behind it is, or its country */
    PROVIDER_TROUBLE_MODEL,   /* there is no such model, or not for this key */
    PROVIDER_TROUBLE_ADDRESS, /* nothing of the kind is at that URL: 404, 405, a redirect */
    PROVIDER_TROUBLE_SILENT,  /* calls end without an answer in time */
    PROVIDER_TROUBLE_COUNT
};

/* A word for logs and metrics. */
const char *provider_trouble_text(enum provider_trouble trouble);

struct provider_stats {
    struct span name;
    uint64_t calls;     /* begun */
    uint64_t succeeded; /* of them */
    uint64_t failures[DARUMA_CLASS_COUNT];
    uint64_t tokens_in, tokens_out;
    double cost; /* by the configured price, in its currency */
    uint64_t calls_under_way;
    int64_t closed_ms; /* until it may be called again; 0: it may */
    uint32_t keys, keys_dead, keys_resting;
    unsigned troubles; /* a bit for each of MODEL, ADDRESS and SILENT that was seen since it last
                          succeeded; keys are counted above */
};

#endif
