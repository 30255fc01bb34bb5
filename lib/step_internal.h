/* SPDX-License-Identifier: MIT
 *
 * step -- inside lib/ only: what happens between two attempts, shared by the synchronous and the
 * asynchronous form. Everything is asked of the options and decided by the policy core; the forms
 * add only how to wait.
 *
 *   check -> open -> [ admit -> begin -> the call -> succeeded | failed ] -> …
 */
#ifndef DARUMA_STEP_INTERNAL_H
#define DARUMA_STEP_INTERNAL_H

#include <daruma/breaker.h>
#include <daruma/policy.h>
#include <daruma/retry.h>

#pragma GCC visibility push(hidden)

/* What one retried call remembers. */
struct step {
    const struct daruma_retry_options *options;
    int64_t deadline_ms; /* 0: none */
    uint32_t attempts;   /* begun so far */
    uint32_t previous_ms;
    struct daruma_ticket ticket;
};

extern const struct daruma_retry_options daruma_step_defaults;

/* Does anything in the options look at the clock? */
static inline bool step_needs_clock(const struct daruma_retry_options *options)
{
    return options->timeout_ms != 0 || options->attempt_timeout_ms != 0 ||
           options->budget != NULL || options->breaker != NULL || options->gate != NULL;
}

/* 0, or DARUMA_INVALID and an error that names the option. */
int daruma_step_check(const struct daruma_retry_options *options, struct daruma_error *ret_error);

/* Starts the clock of the whole and empties the trail. */
void daruma_step_open(struct step *step, int64_t now_ms);

/* May the next attempt begin? stop NONE and wait 0: yes; a wait: ask again after it. When the
 * answer is no before any attempt was made, error says why. */
struct daruma_decision daruma_step_admit(struct step *step, int64_t now_ms,
                                         struct daruma_dice *dice, struct daruma_error *error);

void daruma_step_begin(struct step *step, int64_t now_ms, struct daruma_attempt *ret_attempt);

void daruma_step_succeeded(struct step *step, int64_t now_ms);

/* The attempt failed with this error, already complete. `recoverable_only`: the default condition
 * of daruma_retry_result. Calls on_retry when there is to be another. */
struct daruma_decision daruma_step_failed(struct step *step, const struct daruma_error *error,
                                          bool recoverable_only, int64_t now_ms,
                                          struct daruma_dice *dice);

/* It ends for a reason of the library's own. */
void daruma_step_stopped(struct step *step, enum daruma_stop stop);

/* Likewise, perhaps in the middle of an attempt, which then has ended with this code. */
void daruma_step_abandoned(struct step *step, enum daruma_code code, enum daruma_stop stop);

/* Fills in what a call left out of its error. */
void daruma_step_complete(struct daruma_error *error, int code);

#pragma GCC visibility pop
#endif
