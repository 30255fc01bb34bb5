/* SPDX-License-Identifier: MIT
 *
 * budget -- a bound on retries that many callers share, so that an outage is not answered with a
 * multiple of the normal load. Each call that succeeds earns a part of a retry; what was earned
 * fades with time; a floor lets the first retries through when there is little traffic. Failures
 * never earn anything.
 *
 *   retries admitted <= ratio * successful calls + floor_per_second * (seconds + 1)
 *
 * Lock-free, no allocation; one budget may be used by any number of threads. A zeroed budget is
 * one with the defaults.
 */
#ifndef DARUMA_BUDGET_H
#define DARUMA_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include <daruma/result.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_BUDGET_RATIO            0.2
#define DARUMA_BUDGET_FLOOR_PER_SECOND 10
#define DARUMA_BUDGET_NO_FLOOR         (-1)
#define DARUMA_BUDGET_FADE_MS          10000 /* what was earned is down to a third after this */
#define DARUMA_BUDGET_FADE_MAX_MS      86400000

struct daruma_budget_options {
    double ratio;             /* above 0, up to 1; 0: the default */
    int64_t floor_per_second; /* 0: the default; DARUMA_BUDGET_NO_FLOOR: none */
    int64_t fade_ms;          /* 64 or more; 0: the default */
};

struct daruma_budget {
    uint64_t earned; /* private, atomic: [time step : 28][part retries : 36] */
    uint64_t floor;  /* private, atomic: likewise */
    uint64_t earn;   /* private: part retries that a success earns; 0 in a zeroed one */
    uint64_t fade_ms;
    uint64_t floor_per_second;
};

/* 0, or DARUMA_INVALID with an error that names the option. NULL options: the defaults. */
int daruma_budget_init(struct daruma_budget *budget, const struct daruma_budget_options *options,
                       struct daruma_error *ret_error);

/* A call succeeded. */
void daruma_budget_earn(struct daruma_budget *budget, int64_t now_ms);

/* May this retry be made? Taking it is part of the answer. */
bool daruma_budget_spend(struct daruma_budget *budget, int64_t now_ms);

#ifdef __cplusplus
}
#endif
#endif
