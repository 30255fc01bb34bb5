/* SPDX-License-Identifier: MIT
 *
 * histogram -- see histogram.h.
 */
#include "base/histogram.h"

#include <string.h>

#define SECOND 1000
#define MINUTE INT64_C(60000)
#define HOUR   INT64_C(3600000)
#define DAY    INT64_C(86400000)

const int64_t histogram_bounds_ms[HISTOGRAM_BOUNDS] = {
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000,
};
const int64_t histogram_waits_ms[HISTOGRAM_BOUNDS] = {
    100,         250,         500,        1 * SECOND, 2500,       5 * SECOND,
    10 * SECOND, 30 * SECOND, 1 * MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE,
    30 * MINUTE, 1 * HOUR,    6 * HOUR,   1 * DAY,
};
const int64_t histogram_lives_ms[HISTOGRAM_BOUNDS] = {
    10,         50,         100,         500,      1 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND,
    1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 1 * HOUR, 6 * HOUR,   1 * DAY,    3 * DAY,     7 * DAY,
};
const int64_t histogram_days_ms[HISTOGRAM_BOUNDS] = {
    1 * MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, 1 * HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR,
    12 * HOUR,  1 * DAY,    2 * DAY,     4 * DAY,     7 * DAY,  14 * DAY, 21 * DAY, 30 * DAY,
};
const int64_t histogram_counts[HISTOGRAM_BOUNDS] = {
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512,
};

/* HISTOGRAM_BOUNDS: above them all. */
static size_t place_of(const int64_t bounds[HISTOGRAM_BOUNDS], int64_t value)
{
    size_t i = 0;

    while (i < HISTOGRAM_BOUNDS && value > bounds[i]) {
        i++;
    }
    return i;
}

void histogram_add_in(struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                      int64_t value)
{
    value = value < 0 ? 0 : value;
    size_t place = place_of(bounds, value);

    histogram->count++;
    histogram->sum_ms += (uint64_t)value;
    if (place < HISTOGRAM_BOUNDS) {
        histogram->buckets[place]++;
    }
}

void histogram_add(struct histogram *histogram, int64_t ms)
{
    histogram_add_in(histogram, histogram_bounds_ms, ms);
}

void histogram_share(struct histogram *histogram, const int64_t bounds[HISTOGRAM_BOUNDS],
                     int64_t value)
{
    value = value < 0 ? 0 : value;
    size_t place = place_of(bounds, value);

    if (place < HISTOGRAM_BOUNDS) {
        __atomic_add_fetch(&histogram->buckets[place], 1, __ATOMIC_RELAXED);
    }
    __atomic_add_fetch(&histogram->sum_ms, (uint64_t)value, __ATOMIC_RELAXED);
    __atomic_add_fetch(&histogram->count, 1, __ATOMIC_RELEASE); /* no bucket is ahead of it */
}

void histogram_gather(const struct histogram *shared, struct histogram *into)
{
    uint64_t above = __atomic_load_n(&shared->count, __ATOMIC_ACQUIRE), all = 0;

    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        uint64_t count = __atomic_load_n(&shared->buckets[i], __ATOMIC_RELAXED);
        into->buckets[i] += count;
        all += count;
    }
    into->count += above > all ? above : all; /* one may have come while this was read */
    into->sum_ms += __atomic_load_n(&shared->sum_ms, __ATOMIC_RELAXED);
}

/* --- of late ------------------------------------------------------------------------------------- */

void recent_add(struct recent *recent, int64_t now_ms, int64_t ms)
{
    int64_t passed_ms = now_ms - recent->began_ms;

    if (recent->began_ms == 0 || passed_ms >= RECENT_MS) {
        if (recent->began_ms != 0 && passed_ms < 2 * RECENT_MS) {
            memcpy(recent->older, recent->newer, sizeof recent->older);
        } else {
            memset(recent->older, 0, sizeof recent->older);
        }
        memset(recent->newer, 0, sizeof recent->newer);
        recent->began_ms = now_ms;
    }
    recent->newer[place_of(histogram_bounds_ms, ms)]++;
}

double recent_quantile_ms(const struct recent *recent, int64_t now_ms, double share)
{
    int64_t passed_ms = now_ms - recent->began_ms;
    uint64_t counts[HISTOGRAM_BOUNDS + 1], all = 0, below = 0;

    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        counts[i] = (passed_ms < 2 * RECENT_MS ? recent->newer[i] : 0) +
                    (passed_ms < RECENT_MS ? recent->older[i] : 0);
        all += counts[i];
    }
    double wanted = share * (double)all;
    for (size_t i = 0; all > 0 && i < HISTOGRAM_BOUNDS; i++) {
        double from = i == 0 ? 0 : (double)histogram_bounds_ms[i - 1];
        if ((double)(below + counts[i]) >= wanted && counts[i] > 0) {
            double part = (wanted - (double)below) / (double)counts[i];
            return from + part * ((double)histogram_bounds_ms[i] - from);
        }
        below += counts[i];
    }
    return all > 0 ? (double)histogram_bounds_ms[HISTOGRAM_BOUNDS - 1] : -1;
}
