/* SPDX-License-Identifier: MIT
 *
 * backoff -- the arithmetic of waiting. Everything is bounded before it is multiplied, and the
 * random draw happens inside the bounds, so no input can overflow, turn negative or pass the cap.
 *
 * Draws are made in double precision on purpose: the documented rule is the floor of a uniform draw
 * from a real interval. The build forbids fused operations in lib/, so that a seed gives the same
 * milliseconds everywhere.
 */
#include <daruma/backoff.h>

#include "refuse_internal.h"

#include <stdbool.h>

#define LIMIT_MS ((uint64_t)DARUMA_BACKOFF_LIMIT_MS)

/* Where a delay is drawn from. */
struct range {
    double low, high;
};

static uint64_t least(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t times(uint64_t factor, uint64_t ms)
{
    return ms != 0 && factor > LIMIT_MS / ms ? LIMIT_MS : factor * ms;
}

static uint64_t doubled(uint64_t ms, uint32_t count)
{
    return count >= 42 ? times(UINT64_C(1) << 42, ms) : times(UINT64_C(1) << count, ms);
}

static uint64_t schedule_max(const uint64_t *schedule_ms, uint32_t count)
{
    uint64_t max_ms = 0;

    for (uint32_t i = 0; i < count; i++) {
        max_ms = schedule_ms[i] > max_ms ? schedule_ms[i] : max_ms;
    }
    return max_ms;
}

static uint64_t base_of(const struct daruma_backoff *backoff)
{
    return least(backoff->base_ms == 0 ? DARUMA_BACKOFF_BASE_MS : backoff->base_ms, LIMIT_MS);
}

static bool has_schedule(const struct daruma_backoff *backoff)
{
    return backoff->kind == DARUMA_BACKOFF_SCHEDULE && backoff->schedule_ms != NULL &&
           backoff->schedule_count > 0;
}

static uint64_t max_of(const struct daruma_backoff *backoff)
{
    uint64_t base_ms = base_of(backoff);

    if (backoff->max_ms != 0) {
        return least(backoff->max_ms, LIMIT_MS);
    }
    if (has_schedule(backoff)) {
        return least(schedule_max(backoff->schedule_ms, backoff->schedule_count), LIMIT_MS);
    }
    return base_ms > DARUMA_BACKOFF_MAX_MS ? base_ms : DARUMA_BACKOFF_MAX_MS;
}

static enum daruma_jitter jitter_of(const struct daruma_backoff *backoff)
{
    if (backoff->jitter != DARUMA_JITTER_DEFAULT) {
        return backoff->jitter;
    }
    return backoff->kind == DARUMA_BACKOFF_FIXED || backoff->kind == DARUMA_BACKOFF_SCHEDULE
               ? DARUMA_JITTER_NONE
               : DARUMA_JITTER_FACTOR;
}

static double factor_of(const struct daruma_backoff *backoff)
{
    if (backoff->jitter == DARUMA_JITTER_DEFAULT && backoff->jitter_factor == 0) {
        return DARUMA_BACKOFF_JITTER;
    }
    if (backoff->jitter_factor > 1) {
        return 1;
    }
    return backoff->jitter_factor > 0 ? backoff->jitter_factor : 0; /* NaN is 0 as well */
}

/* d(n), saturated at the limit. */
static uint64_t planned(const struct daruma_backoff *backoff, uint32_t attempt)
{
    uint64_t base_ms = base_of(backoff);
    uint32_t steps = attempt - 1;

    switch (backoff->kind) {
    case DARUMA_BACKOFF_FIXED:
        return base_ms;
    case DARUMA_BACKOFF_LINEAR:
        return times(attempt, base_ms);
    case DARUMA_BACKOFF_SCHEDULE:
        if (!has_schedule(backoff)) {
            return base_ms;
        }
        return backoff->schedule_ms[least(steps, backoff->schedule_count - 1)];
    case DARUMA_BACKOFF_DOUBLINGS:
        if (steps > backoff->doublings) {
            return times(attempt - backoff->doublings, doubled(base_ms, backoff->doublings));
        }
        return doubled(base_ms, steps);
    case DARUMA_BACKOFF_EXPONENTIAL:
    default:
        return doubled(base_ms, steps);
    }
}

static struct range decorrelated(uint64_t base_ms, uint64_t max_ms, uint64_t previous_ms)
{
    uint64_t from_ms = previous_ms > base_ms ? previous_ms : base_ms;

    return (struct range){(double)least(base_ms, max_ms),
                          (double)least(times(3, least(from_ms, LIMIT_MS)), max_ms)};
}

static struct range around(double delay, double factor, double max)
{
    double high = delay * (1 + factor);

    return (struct range){delay * (1 - factor), high < max ? high : max};
}

/* The 53 upper bits as a fraction below 1, laid over the range. */
static uint64_t draw(struct range range, uint64_t random)
{
    double fraction = (double)(random >> 11) * 0x1p-53;

    return (uint64_t)(range.low + (range.high - range.low) * fraction);
}

uint64_t daruma_backoff_draw_ms(const struct daruma_backoff *backoff, uint32_t attempt,
                                uint64_t previous_ms, uint64_t random)
{
    static const struct daruma_backoff defaults;

    if (backoff == NULL) {
        backoff = &defaults;
    }
    uint64_t max_ms = max_of(backoff);
    uint64_t delay_ms = least(planned(backoff, attempt == 0 ? 1 : attempt), max_ms);
    double delay = (double)delay_ms;

    switch (jitter_of(backoff)) {
    case DARUMA_JITTER_FACTOR:
        return draw(around(delay, factor_of(backoff), (double)max_ms), random);
    case DARUMA_JITTER_FULL:
        return draw((struct range){0, delay}, random);
    case DARUMA_JITTER_EQUAL:
        return draw((struct range){delay / 2, delay}, random);
    case DARUMA_JITTER_DECORRELATED:
        return draw(decorrelated(base_of(backoff), max_ms, previous_ms), random);
    case DARUMA_JITTER_NONE:
    case DARUMA_JITTER_DEFAULT:
    default:
        return delay_ms;
    }
}

uint64_t daruma_backoff_delay_ms(const struct daruma_backoff *backoff, uint32_t attempt,
                                 uint64_t previous_ms, struct daruma_dice *dice)
{
    return daruma_backoff_draw_ms(backoff, attempt, previous_ms, daruma_dice_roll(dice));
}

struct daruma_backoff daruma_backoff_exponential(uint64_t base_ms)
{
    return daruma_backoff_exponential_jitter(base_ms, 0, 0);
}

struct daruma_backoff daruma_backoff_exponential_jitter(uint64_t base_ms, uint64_t max_ms,
                                                        double jitter_factor)
{
    return (struct daruma_backoff){
        .jitter = jitter_factor == 0 ? DARUMA_JITTER_NONE : DARUMA_JITTER_FACTOR,
        .base_ms = base_ms,
        .max_ms = max_ms,
        .jitter_factor = jitter_factor,
    };
}

static int check_schedule(const struct daruma_backoff *backoff, struct daruma_error *ret_error)
{
    if (backoff->schedule_ms == NULL || backoff->schedule_count == 0) {
        return refuse(ret_error, "backoff.schedule_ms: a schedule needs at least one wait");
    }
    if (backoff->schedule_count > DARUMA_BACKOFF_SCHEDULE_MAX) {
        return refuse(ret_error, "backoff.schedule_count: a schedule has at most 64 waits");
    }
    uint64_t longest_ms = schedule_max(backoff->schedule_ms, backoff->schedule_count);
    if (longest_ms > INT64_MAX) {
        return refuse(ret_error, "backoff.schedule_ms: a wait must not be negative");
    }
    if (longest_ms > LIMIT_MS) {
        return refuse(ret_error, "backoff.schedule_ms: a wait is longer than 100 years");
    }
    return 0;
}

/* A negative number that was put into an unsigned one is above INT64_MAX. Longer ones that are meant so
 * do not exist. */
static int check_times(const struct daruma_backoff *backoff, struct daruma_error *ret_error)
{
    if (backoff->base_ms > INT64_MAX) {
        return refuse(ret_error, "backoff.base_ms: must not be negative");
    }
    if (backoff->base_ms > LIMIT_MS) {
        return refuse(ret_error, "backoff.base_ms: longer than 100 years");
    }
    if (backoff->max_ms > INT64_MAX) {
        return refuse(ret_error, "backoff.max_ms: must not be negative");
    }
    if (backoff->max_ms > LIMIT_MS) {
        return refuse(ret_error, "backoff.max_ms: longer than 100 years");
    }
    return 0;
}

int daruma_backoff_check(const struct daruma_backoff *backoff, struct daruma_error *ret_error)
{
    if (backoff == NULL) {
        return 0;
    }
    if ((unsigned)backoff->kind > DARUMA_BACKOFF_DOUBLINGS) {
        return refuse(ret_error, "backoff.kind: not one of enum daruma_backoff_kind");
    }
    if ((unsigned)backoff->jitter > DARUMA_JITTER_DECORRELATED) {
        return refuse(ret_error, "backoff.jitter: not one of enum daruma_jitter");
    }
    if (check_times(backoff, ret_error) != 0) {
        return DARUMA_INVALID;
    }
    if (!(backoff->jitter_factor >= 0 && backoff->jitter_factor <= 1)) {
        return refuse(ret_error, "backoff.jitter_factor: must be between 0 and 1");
    }
    if (backoff->kind == DARUMA_BACKOFF_SCHEDULE) {
        return check_schedule(backoff, ret_error);
    }
    if (backoff->max_ms != 0 && backoff->max_ms < base_of(backoff)) {
        return refuse(ret_error, "backoff.max_ms: must not be below base_ms");
    }
    return 0;
}

static enum daruma_jitter jitter_asked(const struct daruma_backoff_options *options)
{
    if (options->jitter == DARUMA_JITTER_DEFAULT && options->jitter_factor != 0) {
        return DARUMA_JITTER_FACTOR;
    }
    return options->jitter;
}

int daruma_backoff_create(const struct daruma_backoff_options *options,
                          struct daruma_backoff *ret_backoff, struct daruma_error *ret_error)
{
    static const struct daruma_backoff_options defaults;

    if (ret_backoff == NULL) {
        return refuse(ret_error, "ret_backoff: must not be NULL");
    }
    if (options == NULL) {
        options = &defaults;
    }
    if (options->base_ms < 0) {
        return refuse(ret_error, "backoff.base_ms: must not be negative");
    }
    if (options->max_ms < 0) {
        return refuse(ret_error, "backoff.max_ms: must not be negative");
    }
    struct daruma_backoff backoff = {
        .kind = options->kind,
        .jitter = jitter_asked(options),
        .base_ms = (uint64_t)options->base_ms,
        .max_ms = (uint64_t)options->max_ms,
        .jitter_factor =
            options->jitter_factor == 0 ? DARUMA_BACKOFF_JITTER : options->jitter_factor,
        .schedule_ms = options->schedule_ms,
        .schedule_count = options->schedule_count,
        .doublings = options->doublings,
    };
    int failed = daruma_backoff_check(&backoff, ret_error);
    if (failed != 0) {
        return failed;
    }
    *ret_backoff = backoff;
    return 0;
}
