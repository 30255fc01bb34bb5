/* SPDX-License-Identifier: MIT
 *
 * metrics -- shared only among watch/metrics*.c: the sheet that they write on, and their parts of it.
 */
#ifndef WATCH_METRICS_INTERNAL_H
#define WATCH_METRICS_INTERNAL_H

#include "base/buf.h"
#include "base/histogram.h"
#include "engine/engine.h"
#include "task/provider_stats.h"

struct metrics_input;

/* The first failure is kept; what comes after it does nothing. */
struct sheet {
    struct buf *out;
    unsigned how; /* METRICS_OPEN */
    int failed;
};

/* What begins a family: its help, which ends with a full stop, and its kind. */
void sheet_head(struct sheet *sheet, const char *name, const char *kind, const char *help);
void sheet_add(struct sheet *sheet, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A family of one number. */
void sheet_one(struct sheet *sheet, const char *name, const char *kind, const char *help,
               double value);
/* What is counted in thousandths (times in seconds), or by itself (counts). */
enum sheet_unit { SHEET_SECONDS, SHEET_COUNTS };
void sheet_histogram(struct sheet *sheet, const char *name, const char *help,
                     const struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                     enum sheet_unit unit);

/* metrics_queues.c: everything that has a queue. */
void metrics_add_queues(struct sheet *sheet, const struct engine *engine);
/* metrics_providers.c: what is counted about AI providers; nothing when there are none. */
void metrics_add_providers(struct sheet *sheet, const struct provider_stats *stats, size_t count);
/* metrics_process.c: what the system knows of this process. */
void metrics_add_process(struct sheet *sheet, int64_t started_at_ms);

#endif
