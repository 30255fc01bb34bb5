/* SPDX-License-Identifier: MIT
 *
 * core -- inside lib/ only: the one decision that every kind of retry comes down to.
 */
#ifndef DARUMA_CORE_INTERNAL_H
#define DARUMA_CORE_INTERNAL_H

#include <daruma/policy.h>

#pragma GCC visibility push(hidden)

/* What bounds the next attempt, and the numbers it is decided from. */
struct core_question {
    const struct daruma_backoff *backoff;
    uint64_t attempts_max;
    uint64_t attempts;    /* failed so far, this one included */
    uint64_t previous_ms; /* the wait before this one */
    uint64_t floor_ms;    /* not earlier than this */
    int64_t now_ms;
    int64_t deadline_ms; /* 0: none */
    uint64_t random;
};

/* ret_backoff_ms: what the backoff itself chose, for the next question's previous_ms. */
struct daruma_decision daruma_core_decide(const struct core_question *question,
                                          uint64_t *ret_backoff_ms);

#pragma GCC visibility pop
#endif
