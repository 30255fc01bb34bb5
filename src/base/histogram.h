/* SPDX-License-Identifier: MIT
 *
 * histogram -- how long things take, in buckets that never change, so that figures of different days
 * and machines can be added; and recent, the same of the last minutes, for a quantile of one queue.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 16

/* Upper bounds; what is above the last is counted only in `count`. In milliseconds but for counts. */
extern const int64_t histogram_bounds_ms[HISTOGRAM_BOUNDS]; /* of an attempt or a commit */
extern const int64_t histogram_waits_ms[HISTOGRAM_BOUNDS];  /* of a wait until the next attempt */
extern const int64_t histogram_lives_ms[HISTOGRAM_BOUNDS];  /* of a task, from recorded to ended */
extern const int64_t histogram_days_ms[HISTOGRAM_BOUNDS];   /* of what waits for a person */
extern const int64_t histogram_counts[HISTOGRAM_BOUNDS];    /* of operations in a commit */

/* Zeroed: empty. */
struct histogram {
    uint64_t buckets[HISTOGRAM_BOUNDS]; /* each by itself, not added up */
    uint64_t count;
    uint64_t sum_ms; /* or the sum of the counts */
};

void histogram_add(struct histogram *histogram, int64_t ms); /* negative counts as 0 */
void histogram_add_in(struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                      int64_t value);
/* Likewise, of one that another thread reads meanwhile. */
void histogram_share(struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                     int64_t value);
/* Adds what is in a shared one to `into`, which is the caller's own. */
void histogram_gather(const struct histogram *shared, struct histogram *into);

#define RECENT_MS 300000 /* a quantile is of the last one to two of these */

/* Zeroed: empty. Bounds are histogram_bounds_ms. */
struct recent {
    int64_t began_ms; /* of the newer half; monotonic */
    uint32_t newer[HISTOGRAM_BOUNDS + 1], older[HISTOGRAM_BOUNDS + 1];
};

void recent_add(struct recent *recent, int64_t now_ms, int64_t ms);
/* The value below which `share` (0.99) of them are, to within a bucket; below 0: there are none. Above
 * the last bound it is that bound. */
double recent_quantile_ms(const struct recent *recent, int64_t now_ms, double share);

#endif
