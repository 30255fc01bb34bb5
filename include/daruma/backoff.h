/* SPDX-License-Identifier: MIT
 *
 * backoff -- how long to wait before the next try. Values, no state, no allocation: a backoff can
 * be a constant, copied, and shared by threads.
 *
 *   d(n)      exponential: base * 2^(n-1)     fixed: base     linear: base * n
 *             schedule: the n-th entry, the last one for ever
 *             doublings: exponential for that many doublings, then on in equal steps (Cloud Tasks)
 *   clipped   d = min(d(n), max)
 *   delay     none: d              factor f: within [d(1-f), min(d(1+f), max)]
 *             full: within [0, d]  equal: within [d/2, d]
 *             decorrelated: within [base, min(3 * previous, max)]
 *
 * The draw happens inside the clipped range, so a delay is never above the maximum and delays at
 * the maximum are still spread. Delays are whole milliseconds, rounded down.
 */
#ifndef DARUMA_BACKOFF_H
#define DARUMA_BACKOFF_H

#include <stddef.h>
#include <stdint.h>

#include <daruma/dice.h>
#include <daruma/result.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_BACKOFF_BASE_MS      200
#define DARUMA_BACKOFF_MAX_MS       8000
#define DARUMA_BACKOFF_JITTER       0.2
#define DARUMA_BACKOFF_LIMIT_MS     INT64_C(3155760000000) /* 100 years: no wait is longer */
#define DARUMA_BACKOFF_SCHEDULE_MAX 64                     /* entries of a schedule */

enum daruma_backoff_kind {
    DARUMA_BACKOFF_EXPONENTIAL = 0,
    DARUMA_BACKOFF_FIXED,
    DARUMA_BACKOFF_LINEAR,
    DARUMA_BACKOFF_SCHEDULE,
    DARUMA_BACKOFF_DOUBLINGS
};

enum daruma_jitter {
    DARUMA_JITTER_DEFAULT = 0, /* factor; none for fixed and schedule */
    DARUMA_JITTER_NONE,
    DARUMA_JITTER_FACTOR,
    DARUMA_JITTER_FULL,
    DARUMA_JITTER_EQUAL,
    DARUMA_JITTER_DECORRELATED
};

/* Zeroed: the default, exponential from DARUMA_BACKOFF_BASE_MS to DARUMA_BACKOFF_MAX_MS with
 * jitter DARUMA_BACKOFF_JITTER. Fill it with the functions below. */
struct daruma_backoff {
    enum daruma_backoff_kind kind;
    enum daruma_jitter jitter;
    uint64_t base_ms;            /* 0: the default */
    uint64_t max_ms;             /* 0: the default, or the base where that is more */
    double jitter_factor;        /* with DARUMA_JITTER_FACTOR */
    const uint64_t *schedule_ms; /* not owned: lives as long as the backoff */
    uint32_t schedule_count;
    uint32_t doublings;
};

/* What a backoff is made from. Signed, so that a negative value is seen and refused. */
struct daruma_backoff_options {
    enum daruma_backoff_kind kind;
    enum daruma_jitter jitter;
    int64_t base_ms;             /* 0: DARUMA_BACKOFF_BASE_MS */
    int64_t max_ms;              /* 0: DARUMA_BACKOFF_MAX_MS, or the base where that is more;
                                    for a schedule its largest entry */
    double jitter_factor;        /* 0: DARUMA_BACKOFF_JITTER; to have none say DARUMA_JITTER_NONE */
    const uint64_t *schedule_ms; /* with DARUMA_BACKOFF_SCHEDULE; not copied */
    uint32_t schedule_count;
    uint32_t doublings; /* with DARUMA_BACKOFF_DOUBLINGS */
};

/* 0, or DARUMA_INVALID with an error that names the option. NULL options: the default. */
int daruma_backoff_create(const struct daruma_backoff_options *options,
                          struct daruma_backoff *ret_backoff, struct daruma_error *ret_error);

/* Exponential without jitter; 0: the default base. */
struct daruma_backoff daruma_backoff_exponential(uint64_t base_ms);

/* Exponential, +/- jitter_factor (0 to 1; 0 is none). 0 ms: the default. What is out of range is
 * refused where the backoff is used (daruma_backoff_check), not here. */
struct daruma_backoff daruma_backoff_exponential_jitter(uint64_t base_ms, uint64_t max_ms,
                                                        double jitter_factor);

/* 0, or DARUMA_INVALID with an error that names the option that cannot be used. */
int daruma_backoff_check(const struct daruma_backoff *backoff, struct daruma_error *ret_error);

/* The wait after the attempt-th failure (from 1). previous_ms is the wait before this one (0: none
 * yet), used by decorrelated jitter only. NULL backoff: the default. Any input gives a wait within
 * the limits above; pure but for the dice. */
uint64_t daruma_backoff_delay_ms(const struct daruma_backoff *backoff, uint32_t attempt,
                                 uint64_t previous_ms, struct daruma_dice *dice);

/* The same with the random bits given: a pure function. */
uint64_t daruma_backoff_draw_ms(const struct daruma_backoff *backoff, uint32_t attempt,
                                uint64_t previous_ms, uint64_t random);

#ifdef __cplusplus
}
#endif
#endif
