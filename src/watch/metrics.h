/* SPDX-License-Identifier: MIT
 *
 * metrics -- what the server counts, as Prometheus text. Every name begins with daruma_, but for
 * those of the process itself; names and labels are part of the contract. No label ever carries what came from a request (I10).
 */
#ifndef WATCH_METRICS_H
#define WATCH_METRICS_H

#include "base/buf.h"
#include "base/histogram.h"
#include "engine/engine.h"
#include "task/provider_stats.h"

#define METRICS_CODES 5 /* 2xx to 5xx, and relayed */

/* OpenMetrics 1.0 in place of Prometheus' text format; without what has a queue. */
enum { METRICS_OPEN = 1, METRICS_TOTAL = 2 };

/* What the engine does not know by itself. */
struct metrics_input {
    const struct engine *engine;
    uint64_t commits, commit_operations, store_faults;
    uint64_t http_requests, http_refused, http_connections, http_waiters, http_body_bytes;
    uint64_t http_answers[BY_COUNT][METRICS_CODES];
    uint64_t log_lost;
    uint32_t names_looking_up;
    struct histogram commit_took, commit_batch;
    int64_t store_bytes, store_free_bytes; /* below 0: not known here */
    int64_t started_at_ms;                 /* wall clock */
    const struct provider_stats *providers;
    size_t provider_count;
    bool store_is_healthy;
};

int metrics_render(const struct metrics_input *input, unsigned how, struct buf *out)
    __attribute__((warn_unused_result));

#endif
