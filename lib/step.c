/* SPDX-License-Identifier: MIT
 *
 * step -- see step_internal.h. The order in daruma_step_failed is deliberate: the caller's
 * condition is not asked when no attempt is left (document B), a hint holds the gate even when this
 * caller gives up, and the budget is asked last, so that nothing is spent on a retry that will not
 * happen.
 */
#include "step_internal.h"

#include "core_internal.h"
#include "later_internal.h"
#include "refuse_internal.h"

#include <daruma/budget.h>
#include <daruma/cancel.h>
#include <daruma/gate.h>
#include <daruma/trail.h>

const struct daruma_retry_options daruma_step_defaults;

int daruma_step_check(const struct daruma_retry_options *options, struct daruma_error *ret_error)
{
    if (options->max_retries > DARUMA_NO_RETRIES) {
        return refuse(ret_error, "options.max_retries: negative, or above DARUMA_RETRIES_MAX");
    }
    if (options->hint_cap_ms < 0) {
        return refuse(ret_error, "options.hint_cap_ms: must not be negative");
    }
    if (options->hint_cap_ms > DARUMA_BACKOFF_LIMIT_MS) {
        return refuse(ret_error, "options.hint_cap_ms: longer than 100 years");
    }
    if (options->timeout_ms < 0) {
        return refuse(ret_error, "options.timeout_ms: must not be negative");
    }
    if (options->timeout_ms > DARUMA_BACKOFF_LIMIT_MS) {
        return refuse(ret_error, "options.timeout_ms: longer than 100 years");
    }
    if (options->attempt_timeout_ms < 0) {
        return refuse(ret_error, "options.attempt_timeout_ms: must not be negative");
    }
    if (options->attempt_timeout_ms > DARUMA_BACKOFF_LIMIT_MS) {
        return refuse(ret_error, "options.attempt_timeout_ms: longer than 100 years");
    }
    if (options->cancel != NULL && daruma_cancel_fd(options->cancel) < 0) {
        return refuse(ret_error, "options.cancel: not opened with daruma_cancel_open");
    }
    const struct daruma_trail *trail = options->trail;
    if (trail != NULL && trail->capacity > 0 && trail->entries == NULL) {
        return refuse(ret_error, "options.trail: capacity without entries");
    }
    return daruma_backoff_check(&options->backoff, ret_error);
}

void daruma_step_open(struct step *step, int64_t now_ms)
{
    const struct daruma_retry_options *options = step->options;

    step->deadline_ms =
        options->timeout_ms == 0 ? 0 : later_ms(now_ms, (uint64_t)options->timeout_ms);
    if (options->trail != NULL) {
        options->trail->count = 0;
        options->trail->stop = DARUMA_STOP_NONE;
    }
}

static void trail_add(struct step *step, int code, struct daruma_decision decision)
{
    struct daruma_trail *trail = step->options->trail;

    if (trail == NULL) {
        return;
    }
    trail->stop = decision.stop;
    trail->count = step->attempts;
    if (trail->capacity > 0) {
        uint32_t last = trail->capacity - 1;
        trail->entries[step->attempts - 1 < last ? step->attempts - 1 : last] =
            (struct daruma_trail_entry){
                .delay_ms = decision.wait_ms, .attempt = step->attempts, .code = code};
    }
}

void daruma_step_stopped(struct step *step, enum daruma_stop stop)
{
    if (step->options->trail != NULL) {
        step->options->trail->stop = stop;
    }
}

void daruma_step_abandoned(struct step *step, enum daruma_code code, enum daruma_stop stop)
{
    const struct daruma_trail *trail = step->options->trail;

    if (trail != NULL && trail->count < step->attempts) { /* an attempt without an end */
        trail_add(step, (int)code, (struct daruma_decision){.stop = stop});
    }
    daruma_step_stopped(step, stop);
}

/* The dice is only rolled for a closed gate: an open one is the success path. */
static uint64_t gate_wait_ms(const struct step *step, int64_t now_ms, struct daruma_dice *dice)
{
    const struct daruma_gate *gate = step->options->gate;
    uint64_t wait_ms = gate == NULL ? 0 : daruma_gate_wait_ms(gate, now_ms);

    if (wait_ms == 0 || gate->spread_ms == 0) {
        return wait_ms;
    }
    uint64_t spread_ms = gate->spread_ms;
    if (spread_ms > (uint64_t)DARUMA_BACKOFF_LIMIT_MS) {
        spread_ms = (uint64_t)DARUMA_BACKOFF_LIMIT_MS;
    }
    return wait_ms +
           (uint64_t)((double)(daruma_dice_roll(dice) >> 11) * 0x1p-53 * (double)spread_ms);
}

static struct daruma_decision refuse_entry(struct step *step, enum daruma_stop stop,
                                           enum daruma_code code, struct daruma_error *error)
{
    if (step->attempts == 0) {
        *error = daruma_error_of(code, NULL);
        error->recoverable = true; /* for the caller: later it may work */
    }
    daruma_step_stopped(step, stop);
    return (struct daruma_decision){.stop = stop};
}

struct daruma_decision daruma_step_admit(struct step *step, int64_t now_ms,
                                         struct daruma_dice *dice, struct daruma_error *error)
{
    const struct daruma_retry_options *options = step->options;
    uint64_t wait_ms = gate_wait_ms(step, now_ms, dice);

    /* Also without a wait: the one before this attempt may have taken longer than it was to. */
    if (step->deadline_ms != 0 && (int64_t)wait_ms >= step->deadline_ms - now_ms) {
        return refuse_entry(step, DARUMA_STOP_DEADLINE, DARUMA_TIMED_OUT, error);
    }
    if (wait_ms > 0) {
        return (struct daruma_decision){.wait_ms = wait_ms};
    }
    if (options->breaker != NULL &&
        !daruma_breaker_enter(options->breaker, now_ms, &step->ticket, &wait_ms)) {
        struct daruma_decision decision =
            refuse_entry(step, DARUMA_STOP_BREAKER, DARUMA_BREAKER_OPEN, error);
        if (step->attempts == 0) {
            error->retry_after_ms = (int64_t)wait_ms;
        }
        return decision;
    }
    return (struct daruma_decision){.stop = DARUMA_STOP_NONE};
}

void daruma_step_begin(struct step *step, int64_t now_ms, struct daruma_attempt *ret_attempt)
{
    int64_t timeout_ms = step->options->attempt_timeout_ms;
    int64_t deadline_ms = step->deadline_ms;

    if (timeout_ms != 0) {
        int64_t own_ms = later_ms(now_ms, (uint64_t)timeout_ms);
        deadline_ms = deadline_ms == 0 || own_ms < deadline_ms ? own_ms : deadline_ms;
    }
    step->attempts++;
    ret_attempt->number = step->attempts;
    ret_attempt->deadline_ms = deadline_ms;
}

void daruma_step_succeeded(struct step *step, int64_t now_ms)
{
    const struct daruma_retry_options *options = step->options;

    if (options->breaker != NULL) {
        daruma_breaker_succeeded(options->breaker, step->ticket);
    }
    if (options->budget != NULL) {
        daruma_budget_earn(options->budget, now_ms);
    }
    trail_add(step, 0, (struct daruma_decision){.stop = DARUMA_STOP_SUCCESS});
}

static bool is_wanted(const struct step *step, const struct daruma_error *error,
                      bool recoverable_only)
{
    const struct daruma_retry_options *options = step->options;

    if (options->condition != NULL) {
        return options->condition(options->user, error, step->attempts);
    }
    return !recoverable_only || error->recoverable;
}

static uint64_t hint_ms(const struct daruma_retry_options *options,
                        const struct daruma_error *error)
{
    int64_t cap_ms = options->hint_cap_ms == 0 ? DARUMA_HINT_CAP_MS : options->hint_cap_ms;

    if (error->retry_after_ms <= 0) {
        return 0;
    }
    return (uint64_t)(error->retry_after_ms < cap_ms ? error->retry_after_ms : cap_ms);
}

static uint64_t calls_max(const struct daruma_retry_options *options)
{
    if (options->max_retries == DARUMA_NO_RETRIES) {
        return 1;
    }
    return (options->max_retries == 0 ? DARUMA_MAX_RETRIES : (uint64_t)options->max_retries) + 1;
}

static struct daruma_decision decide(struct step *step, uint64_t floor_ms, int64_t now_ms,
                                     uint64_t random)
{
    uint64_t backoff_ms = step->previous_ms;
    struct daruma_decision decision = daruma_core_decide(
        &(struct core_question){
            .backoff = &step->options->backoff,
            .attempts_max = calls_max(step->options),
            .attempts = step->attempts,
            .previous_ms = step->previous_ms,
            .floor_ms = floor_ms,
            .now_ms = now_ms,
            .deadline_ms = step->deadline_ms,
            .random = random,
        },
        &backoff_ms);

    step->previous_ms = backoff_ms < UINT32_MAX ? (uint32_t)backoff_ms : UINT32_MAX;
    return decision;
}

/* A failure that nobody would retry says nothing against the other side: it did answer. */
static void tell_breaker(struct step *step, enum daruma_stop stop, int64_t now_ms,
                         struct daruma_dice *dice)
{
    struct daruma_breaker *breaker = step->options->breaker;

    if (breaker == NULL) {
        return;
    }
    if (stop == DARUMA_STOP_CONDITION) {
        daruma_breaker_succeeded(breaker, step->ticket);
    } else {
        daruma_breaker_failed(breaker, step->ticket, now_ms, dice);
    }
}

struct daruma_decision daruma_step_failed(struct step *step, const struct daruma_error *error,
                                          bool recoverable_only, int64_t now_ms,
                                          struct daruma_dice *dice)
{
    const struct daruma_retry_options *options = step->options;
    uint64_t floor_ms = hint_ms(options, error);
    uint64_t random = daruma_dice_roll(dice);

    if (options->gate != NULL) {
        if (floor_ms > 0) {
            daruma_gate_hold(options->gate, now_ms, floor_ms);
        }
        uint64_t gate_ms = gate_wait_ms(step, now_ms, dice);
        floor_ms = gate_ms > floor_ms ? gate_ms : floor_ms;
    }
    struct daruma_decision decision = decide(step, floor_ms, now_ms, random);
    bool may_ask = decision.stop != DARUMA_STOP_ATTEMPTS || options->condition == NULL;
    if (may_ask && !is_wanted(step, error, recoverable_only)) {
        decision = (struct daruma_decision){.stop = DARUMA_STOP_CONDITION};
    }
    tell_breaker(step, decision.stop, now_ms, dice);
    if (decision.stop == DARUMA_STOP_NONE && options->budget != NULL &&
        !daruma_budget_spend(options->budget, now_ms)) {
        decision = (struct daruma_decision){.stop = DARUMA_STOP_BUDGET};
    }
    trail_add(step, error->code, decision);
    if (decision.stop == DARUMA_STOP_NONE && options->on_retry != NULL) {
        options->on_retry(options->user, step->attempts, error, decision.wait_ms);
    }
    return decision;
}

void daruma_step_complete(struct daruma_error *error, int code)
{
    if (error->code == 0) {
        error->code = code;
    }
    if (error->type == NULL) {
        error->type = "call";
    }
    if (error->message == NULL) {
        error->message = "the call failed";
    }
}
