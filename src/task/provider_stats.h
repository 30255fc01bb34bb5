/* SPDX-License-Identifier: MIT
 *
 * provider_stats -- what is counted about a provider, from deliver/providers.c to whoever shows it.
 */
#ifndef TASK_PROVIDER_STATS_H
#define TASK_PROVIDER_STATS_H

#include "base/span.h"

#include <daruma/policy.h>

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
};

#endif
