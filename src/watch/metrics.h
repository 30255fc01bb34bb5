/* SPDX-License-Identifier: MIT
 *
 * metrics -- what the server counts, as Prometheus text. Every name begins with daruma_; names and
 * labels are part of the contract. No label ever carries what came from a request (I10).
 */
#ifndef WATCH_METRICS_H
#define WATCH_METRICS_H

#include "base/buf.h"
#include "engine/engine.h"
#include "task/provider_stats.h"

/* What the engine does not know by itself. */
struct metrics_input {
    const struct engine *engine;
    uint64_t commits, commit_operations, store_faults;
    uint64_t http_requests, http_refused, http_connections, http_waiters, http_body_bytes;
    uint64_t log_lost;
    const struct provider_stats *providers;
    size_t provider_count;
    bool store_is_healthy;
};

int metrics_render(const struct metrics_input *input, struct buf *out)
    __attribute__((warn_unused_result));

#endif
