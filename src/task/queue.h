/* SPDX-License-Identifier: MIT
 *
 * queue -- what a queue is told to do with its tasks: where they go, how often they are tried, how
 * many at once. Made by the configuration, from the file or from JSON; read by the engine.
 */
#ifndef TASK_QUEUE_H
#define TASK_QUEUE_H

#include "base/span.h"

#include <daruma/policy.h>

#define QUEUE_TARGETS_MAX      16
#define QUEUE_CONCURRENCY      64
#define QUEUE_HOST_CONCURRENCY 32
#define QUEUE_SIGN_MAX         8 /* secrets of one target */
#define QUEUE_SIGN_BYTES_MIN   24
#define QUEUE_TIMEOUT_MS       30000
#define QUEUE_LEASE_MS         30000
#define QUEUE_OUTAGE_AFTER     20
#define QUEUE_OUTAGE_TRY_MS    5000
#define QUEUE_LEASE_MIN_MS     100
#define QUEUE_LEASE_MAX_MS     43200000

/* A secret that deliveries are signed with (deliver/sign.h). */
struct signing_key {
    struct span reference; /* env:NAME or file:PATH: what is stored and shown */
    struct span key;       /* the bytes: shown nowhere (I10) */
};

struct target {
    struct span name;
    struct span url;
    struct span method;  /* empty: POST */
    struct span headers; /* task/fields.h */
    int64_t timeout_ms;
    bool repeatable;
    struct span ca; /* path of a CA file; empty: the system's */
    struct signing_key *sign;
    size_t sign_count; /* 0: not signed */
};

/* What a lease has to know of a queue's targets: bits, by their places in the list. */
struct target_round {
    uint32_t count;
    uint32_t once;    /* those that must not see a request twice */
    uint32_t stopped; /* those that are out of the round */
};

/* Which target an attempt goes to: in turn, past those that are out. There is at least one. */
static inline size_t target_at(const struct target_round *round, uint32_t turn)
{
    size_t at = turn % round->count;

    for (uint32_t i = 0; i < round->count && (round->stopped >> at & 1) != 0; i++) {
        at = (at + 1) % round->count;
    }
    return at;
}

struct fallback; /* task/fallback.h */

/* Spans and arrays belong to whoever made the settings, and live as long. */
struct queue_settings {
    struct span name;
    struct daruma_policy policy;
    struct target targets[QUEUE_TARGETS_MAX];
    size_t target_count;
    const struct fallback *fallback; /* providers to be tried in turn; NULL: none */
    double rate_per_second;          /* 0: no limit */
    double rate_burst;
    uint32_t concurrency;
    uint32_t host_concurrency;
    int64_t lease_ms;
    uint32_t outage_after; /* failures in a row that mean the target is down; 0: never */
    int64_t outage_try_ms; /* how often it is tried then */
};

#endif
