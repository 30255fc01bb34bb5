/* SPDX-License-Identifier: MIT
 *
 * retry -- the synchronous form: the steps of step_internal.h with a sleep between them.
 *
 * The success path is the product: with nothing asked for in the options it is a handful of
 * comparisons around the call, no clock, no system call, no memory but the stack. errno is put back
 * to what the last call left before anything is returned.
 */
#include <daruma/retry.h>
#include <daruma/env.h>

#include "env_internal.h"
#include "refuse_internal.h"
#include "step_internal.h"

#include <errno.h>
#include <string.h>

/* One retried call while it runs. */
struct run {
    struct step step;
    struct daruma_error error; /* the last one */
    int code;                  /* what the last call returned, or a code of the library's */
    bool recoverable_only;     /* the default condition of daruma_retry_result */
    bool is_ours;              /* the end is the library's word, not the last call's */
};

static int64_t look_at_clock(const struct daruma_retry_options *options)
{
    return step_needs_clock(options) ? daruma_env_now_ms(options->env) : 0;
}

static struct daruma_dice *dice_of(const struct daruma_retry_options *options)
{
    return options->env != NULL ? options->env->dice : NULL;
}

static int end_with(struct run *run, enum daruma_code code, enum daruma_stop stop)
{
    run->error = daruma_error_of(code, NULL);
    run->is_ours = true;
    daruma_step_stopped(&run->step, stop);
    return run->code = (int)code;
}

/* Nonzero: cancelled. */
static int wait_for(struct run *run, uint64_t wait_ms)
{
    const struct daruma_retry_options *options = run->step.options;

    if (daruma_env_sleep_ms(options->env, wait_ms, options->cancel) != 0) {
        return end_with(run, DARUMA_CANCELLED, DARUMA_STOP_CANCELLED);
    }
    return 0;
}

/* Waits until the next attempt may begin. Nonzero: it may not, and run says why. */
static int pass_guards(struct run *run, int64_t *now_ms)
{
    const struct daruma_retry_options *options = run->step.options;

    for (;;) {
        if (daruma_cancel_is_set(options->cancel)) {
            return end_with(run, DARUMA_CANCELLED, DARUMA_STOP_CANCELLED);
        }
        if (options->gate == NULL && options->breaker == NULL && options->timeout_ms == 0) {
            return 0;
        }
        struct daruma_decision decision =
            daruma_step_admit(&run->step, *now_ms, dice_of(options), &run->error);
        if (decision.stop != DARUMA_STOP_NONE) {
            if (run->step.attempts == 0) {
                run->is_ours = true;
                run->code = run->error.code;
            }
            return run->code;
        }
        if (decision.wait_ms == 0) {
            return 0;
        }
        if (wait_for(run, decision.wait_ms) != 0) {
            return run->code;
        }
        *now_ms = look_at_clock(options);
    }
}

/* The last call has failed. True: it has been waited, go on. */
static bool is_worth_another(struct run *run)
{
    const struct daruma_retry_options *options = run->step.options;
    int kept = errno;

    daruma_step_complete(&run->error, run->code);
    struct daruma_decision decision = daruma_step_failed(
        &run->step, &run->error, run->recoverable_only, look_at_clock(options), dice_of(options));
    bool again = decision.stop == DARUMA_STOP_NONE && wait_for(run, decision.wait_ms) == 0;
    errno = kept;
    return again;
}

static int run_calls(struct run *run, daruma_call_fn call, void *user)
{
    struct step *step = &run->step;
    int kept = errno;
    int64_t now_ms = look_at_clock(step->options);
    struct daruma_attempt attempt = {0};

    daruma_step_open(step, now_ms);
    for (;;) {
        bool may_call = pass_guards(run, &now_ms) == 0;
        errno = kept;
        if (!may_call) {
            return run->code;
        }
        daruma_step_begin(step, now_ms, &attempt);
        run->error = (struct daruma_error){0};
        run->code = call(user, &attempt, &run->error);
        if (run->code == 0) {
            daruma_step_succeeded(step, now_ms);
            return 0;
        }
        if (!is_worth_another(run)) {
            return run->code;
        }
        kept = errno;
        now_ms = look_at_clock(step->options);
    }
}

/* The first call of a plain retry has failed. Kept out of line, as run_checked is: a call that
 * succeeds is not to pay for the registers that this needs. */
__attribute__((noinline)) static int run_after_first(struct run *run, daruma_call_fn call,
                                                     void *user)
{
    run->step.attempts = 1;
    return is_worth_another(run) ? run_calls(run, call, user) : run->code;
}

/* There is nothing besides the backoff to mind: the first call goes without any machinery. */
static inline int run_plain(struct run *run, daruma_call_fn call, void *user)
{
    struct daruma_attempt attempt = {.number = 1};

    run->code = call(user, &attempt, &run->error);
    return run->code == 0 ? 0 : run_after_first(run, call, user);
}

static int check(const struct daruma_retry_options *options, struct daruma_error *ret_error)
{
    if (options->loop != NULL) {
        return refuse(ret_error, "options.loop: is for daruma_retry_async_start");
    }
    return daruma_step_check(options, ret_error);
}

__attribute__((noinline)) static int run_checked(struct run *run, daruma_call_fn call, void *user)
{
    const struct daruma_retry_options *options = run->step.options;

    run->code = check(options, &run->error);
    if (run->code != 0) {
        run->is_ours = true;
        return run->code;
    }
    if (!step_needs_clock(options) && options->cancel == NULL && options->trail == NULL) {
        return run_plain(run, call, user);
    }
    return run_calls(run, call, user);
}

/* Is there nothing that has to be checked before, or minded while, a call succeeds? This runs
 * before every call, so it is one test of everything and not one of each. */
static inline bool is_blank(const struct daruma_retry_options *options)
{
    const struct daruma_backoff *backoff = &options->backoff;
    uint64_t kinds, factor;
    uint64_t numbers = (uint64_t)options->timeout_ms | (uint64_t)options->attempt_timeout_ms |
                       (uint64_t)options->hint_cap_ms | (options->max_retries & DARUMA_NO_RETRIES) |
                       backoff->base_ms | backoff->max_ms;
    uintptr_t parts = (uintptr_t)options->budget | (uintptr_t)options->breaker |
                      (uintptr_t)options->gate | (uintptr_t)options->trail |
                      (uintptr_t)options->cancel | (uintptr_t)options->loop;

    memcpy(&kinds, backoff, sizeof kinds); /* the kind, and the jitter behind it */
    memcpy(&factor, &backoff->jitter_factor, sizeof factor);
    return (numbers | parts | kinds | factor) == 0;
}

static inline int run_all(struct run *run, const struct daruma_retry_options *options,
                          daruma_call_fn call, void *user)
{
    run->step.options = options != NULL ? options : &daruma_step_defaults;
    if (options == NULL || is_blank(options)) {
        return run_plain(run, call, user);
    }
    return run_checked(run, call, user);
}

int daruma_retry(daruma_call_fn call, void *user, const struct daruma_retry_options *options,
                 struct daruma_error *ret_error)
{
    struct run run = {.code = 0};

    if (call == NULL) {
        return refuse(ret_error, "call: must not be NULL");
    }
    if (run_all(&run, options, call, user) == 0) {
        return 0;
    }
    if (ret_error != NULL) {
        *ret_error = run.error;
    }
    return run.code;
}

/* A function that returns a result, as a call that returns a code. */
struct result_call {
    daruma_result_fn call;
    void *user;
    struct daruma_result last;
};

static int call_for_result(void *user, const struct daruma_attempt *attempt,
                           struct daruma_error *ret_error)
{
    struct result_call *wrapped = user;

    wrapped->last = wrapped->call(wrapped->user, attempt);
    if (!wrapped->last.failed) {
        return 0;
    }
    *ret_error = wrapped->last.error;
    return ret_error->code != 0 ? ret_error->code : 1;
}

struct daruma_result daruma_retry_result(daruma_result_fn call, void *user,
                                         const struct daruma_retry_options *options)
{
    struct result_call wrapped = {.call = call, .user = user};
    struct run run = {.recoverable_only = true};

    if (call == NULL) {
        (void)refuse(&run.error, "call: must not be NULL"); /* the error is the answer */
        return daruma_failure(run.error);
    }
    (void)run_all(&run, options, call_for_result, &wrapped); /* the last result says it all */
    return run.is_ours ? daruma_failure(run.error) : wrapped.last;
}
