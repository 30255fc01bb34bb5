/* SPDX-License-Identifier: MIT
 *
 * metrics -- shared only among watch/metrics*.c.
 */
#ifndef WATCH_METRICS_INTERNAL_H
#define WATCH_METRICS_INTERNAL_H

#include "base/buf.h"
#include "task/provider_stats.h"

/* What is counted about AI providers; nothing when there are none. */
int metrics_add_providers(struct buf *out, const struct provider_stats *stats, size_t count)
    __attribute__((warn_unused_result));

#endif
