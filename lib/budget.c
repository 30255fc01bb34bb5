/* SPDX-License-Identifier: MIT
 *
 * budget -- two counters, each one 64-bit word holding an amount and the time it was last looked
 * at, changed by compare-and-swap: no lock, no moment at which two callers can take the same
 * retry. Amounts are in parts of a retry, rounded so that the bound in the header holds.
 *
 *   earned   what successes earned; loses a 64th of itself each 64th of fade_ms
 *   floor    what was taken from the floor and has not come back yet; 0 is a full floor, so that
 *            a zeroed word is a fresh one
 */
#include <daruma/budget.h>

#include "refuse_internal.h"

#define PART           UINT64_C(4096) /* parts in a retry */
#define AMOUNT_BITS    36
#define AMOUNT_MAX     ((UINT64_C(1) << AMOUNT_BITS) - 1)
#define STEP_BITS      28
#define STEP_MASK      ((UINT64_C(1) << STEP_BITS) - 1)
#define FADE_STEPS     64
#define FADED_AFTER    (FADE_STEPS * 27) /* e^-27 of the most that fits is nothing */
#define SKEW_STEPS     65536 /* so far back is another thread's reading, further is a long time on */
#define FLOOR_RATE_MAX 1000000

struct amount {
    uint64_t step;
    uint64_t parts;
};

static struct amount unpack(uint64_t word)
{
    return (struct amount){.step = word >> AMOUNT_BITS, .parts = word & AMOUNT_MAX};
}

static uint64_t pack(struct amount amount)
{
    return amount.step << AMOUNT_BITS | amount.parts;
}

static uint64_t step_of(int64_t now_ms, uint64_t step_ms)
{
    return now_ms < 0 ? 0 : (uint64_t)now_ms / step_ms & STEP_MASK;
}

/* Steps from one moment to another; 0 when another thread's clock reading was a little later. */
static uint64_t steps_between(uint64_t from, uint64_t to)
{
    uint64_t steps = (to - from) & STEP_MASK;

    return steps > STEP_MASK - SKEW_STEPS ? 0 : steps;
}

/* parts * (63/64)^steps, in 28-bit fixed point: 36 + 28 bits fit a word. */
static uint64_t fade(uint64_t parts, uint64_t steps)
{
    uint64_t factor = UINT64_C(63) << (28 - 6);

    if (steps > FADED_AFTER) {
        return 0;
    }
    for (; steps > 0; steps >>= 1) {
        if (steps & 1) {
            parts = parts * factor >> 28;
        }
        factor = factor * factor >> 28;
    }
    return parts;
}

static struct amount earned_at(uint64_t word, uint64_t step)
{
    struct amount earned = unpack(word);
    uint64_t steps = steps_between(earned.step, step);

    if (earned.parts == 0) {
        return (struct amount){.step = step};
    }
    return (struct amount){.step = (earned.step + steps) & STEP_MASK,
                           .parts = fade(earned.parts, steps)};
}

/* Steps of a millisecond: a coarser one would give back a part of a step too early. */
static struct amount floor_at(uint64_t word, uint64_t step, uint64_t per_second)
{
    struct amount taken = unpack(word);
    uint64_t steps = steps_between(taken.step, step);
    uint64_t back = steps * per_second * PART / 1000; /* 28 + 20 + 12 bits */

    if (back >= taken.parts) {
        return (struct amount){.step = step};
    }
    return (struct amount){.step = (taken.step + steps) & STEP_MASK, .parts = taken.parts - back};
}

static bool swap(uint64_t *word, uint64_t *expected, struct amount amount)
{
    return __atomic_compare_exchange_n(word, expected, pack(amount), true, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static uint64_t fade_step_ms(const struct daruma_budget *budget)
{
    return (budget->earn == 0 ? DARUMA_BUDGET_FADE_MS : budget->fade_ms) / FADE_STEPS;
}

void daruma_budget_earn(struct daruma_budget *budget, int64_t now_ms)
{
    uint64_t step = step_of(now_ms, fade_step_ms(budget));
    uint64_t earn = budget->earn == 0 ? (uint64_t)(DARUMA_BUDGET_RATIO * PART) : budget->earn;
    uint64_t word = __atomic_load_n(&budget->earned, __ATOMIC_RELAXED);
    struct amount earned;

    do {
        earned = earned_at(word, step);
        earned.parts = earned.parts + earn > AMOUNT_MAX ? AMOUNT_MAX : earned.parts + earn;
    } while (!swap(&budget->earned, &word, earned));
}

static bool spend_earned(struct daruma_budget *budget, int64_t now_ms)
{
    uint64_t step = step_of(now_ms, fade_step_ms(budget));
    uint64_t word = __atomic_load_n(&budget->earned, __ATOMIC_RELAXED);
    struct amount earned;

    do {
        earned = earned_at(word, step);
        if (earned.parts < PART) {
            return false;
        }
        earned.parts -= PART;
    } while (!swap(&budget->earned, &word, earned));
    return true;
}

static bool spend_floor(struct daruma_budget *budget, int64_t now_ms)
{
    uint64_t rate = budget->earn == 0 ? DARUMA_BUDGET_FLOOR_PER_SECOND : budget->floor_per_second;
    uint64_t step = step_of(now_ms, 1);
    uint64_t word = __atomic_load_n(&budget->floor, __ATOMIC_RELAXED);
    struct amount taken;

    do {
        taken = floor_at(word, step, rate);
        taken.parts += PART;
        if (taken.parts > rate * PART) {
            return false;
        }
    } while (!swap(&budget->floor, &word, taken));
    return true;
}

bool daruma_budget_spend(struct daruma_budget *budget, int64_t now_ms)
{
    return spend_earned(budget, now_ms) || spend_floor(budget, now_ms);
}

static int check(const struct daruma_budget_options *options, struct daruma_error *ret_error)
{
    if (!(options->ratio >= 0 && options->ratio <= 1)) {
        return refuse(ret_error, "budget.ratio: must be between 0 and 1");
    }
    if (options->ratio != 0 && options->ratio * (double)PART < 1) {
        return refuse(ret_error, "budget.ratio: must be at least 1/4096");
    }
    if (options->floor_per_second < DARUMA_BUDGET_NO_FLOOR ||
        options->floor_per_second > FLOOR_RATE_MAX) {
        return refuse(ret_error, "budget.floor_per_second: must be between 0 and 1000000");
    }
    if (options->fade_ms != 0 &&
        (options->fade_ms < FADE_STEPS || options->fade_ms > DARUMA_BUDGET_FADE_MAX_MS)) {
        return refuse(ret_error, "budget.fade_ms: must be between 64 ms and 1 day");
    }
    return 0;
}

int daruma_budget_init(struct daruma_budget *budget, const struct daruma_budget_options *options,
                       struct daruma_error *ret_error)
{
    static const struct daruma_budget_options defaults;

    if (budget == NULL) {
        return refuse(ret_error, "budget: must not be NULL");
    }
    if (options == NULL) {
        options = &defaults;
    }
    int failed = check(options, ret_error);
    if (failed != 0) {
        return failed;
    }
    double ratio = options->ratio == 0 ? DARUMA_BUDGET_RATIO : options->ratio;
    int64_t rate = options->floor_per_second;
    *budget = (struct daruma_budget){
        .earn = (uint64_t)(ratio * (double)PART),
        .fade_ms = options->fade_ms == 0 ? DARUMA_BUDGET_FADE_MS : (uint64_t)options->fade_ms,
        .floor_per_second = rate == 0 ? DARUMA_BUDGET_FLOOR_PER_SECOND : (uint64_t)rate,
    };
    if (rate == DARUMA_BUDGET_NO_FLOOR) {
        budget->floor_per_second = 0;
    }
    return 0;
}
