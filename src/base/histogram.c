/* SPDX-License-Identifier: MIT
 *
 * histogram -- see histogram.h.
 */
#include "base/histogram.h"

const int64_t histogram_bounds_ms[HISTOGRAM_BOUNDS] = {
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000,
};

void histogram_add(struct histogram *histogram, int64_t ms)
{
    ms = ms < 0 ? 0 : ms;
    histogram->count++;
    histogram->sum_ms += (uint64_t)ms;
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        if (ms <= histogram_bounds_ms[i]) {
            histogram->buckets[i]++;
            return;
        }
    }
}
