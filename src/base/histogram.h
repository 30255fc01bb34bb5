/* SPDX-License-Identifier: MIT
 *
 * histogram -- how long things take, in buckets that never change, so that figures of different days
 * and machines can be added.
 */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_BOUNDS 16

/* Upper bounds in milliseconds; what is above the last is counted only in `count`. */
extern const int64_t histogram_bounds_ms[HISTOGRAM_BOUNDS];

/* Zeroed: empty. */
struct histogram {
    uint64_t buckets[HISTOGRAM_BOUNDS]; /* each by itself, not added up */
    uint64_t count;
    uint64_t sum_ms;
};

void histogram_add(struct histogram *histogram, int64_t ms); /* negative counts as 0 */

#endif
