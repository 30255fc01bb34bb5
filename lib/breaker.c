/* SPDX-License-Identifier: MIT
 *
 * breaker -- the whole state in one 64-bit word, moved by compare-and-swap, so that any number of
 * threads agree on who is the probe without a lock.
 *
 *   state      generation   value
 *   closed     g            failures in a row
 *   open       g            moment at which a probe may go
 *   half-open  g            moment at which the probe is given up
 *
 * Each change of state raises the generation. A ticket carries the generation it was given under,
 * and an answer under another generation is ignored: it tells of a time that is over.
 */
#include <daruma/breaker.h>
#include <daruma/backoff.h>

#include "refuse_internal.h"

#define VALUE_BITS    40 /* of milliseconds: moments wrap around after 34 years */
#define VALUE_MAX     ((UINT64_C(1) << VALUE_BITS) - 1)
#define OPENINGS_MAX  63
#define OPEN_LIMIT_MS 86400000 /* a day: no breaker stays open longer without a probe */

struct view {
    enum daruma_breaker_state state;
    uint32_t openings;
    uint16_t generation;
    uint64_t value;
};

static struct view unpack(uint64_t word)
{
    return (struct view){
        .state = (enum daruma_breaker_state)(word >> 62),
        .openings = (uint32_t)(word >> 56 & OPENINGS_MAX),
        .generation = (uint16_t)(word >> VALUE_BITS & UINT16_MAX),
        .value = word & VALUE_MAX,
    };
}

static uint64_t pack(struct view view)
{
    return (uint64_t)view.state << 62 | (uint64_t)view.openings << 56 |
           (uint64_t)view.generation << VALUE_BITS | (view.value & VALUE_MAX);
}

static uint64_t load(const struct daruma_breaker *breaker)
{
    return __atomic_load_n(&breaker->word, __ATOMIC_ACQUIRE);
}

static bool swap(struct daruma_breaker *breaker, uint64_t *expected, struct view view)
{
    return __atomic_compare_exchange_n(&breaker->word, expected, pack(view), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static struct view enter_state(struct view view, enum daruma_breaker_state state, uint64_t value)
{
    view.state = state;
    view.generation++;
    view.value = value;
    return view;
}

static uint64_t moment(int64_t now_ms)
{
    return now_ms < 0 ? 0 : (uint64_t)now_ms;
}

/* Milliseconds until a moment of a view, on a clock of any age: one that counts from 1970 is past
 * 40 bits already. What seems further off than half of what fits has passed. */
static uint64_t time_until(uint64_t value, int64_t now_ms)
{
    uint64_t left_ms = (value - moment(now_ms)) & VALUE_MAX;

    return left_ms > VALUE_MAX / 2 ? 0 : left_ms;
}

static struct daruma_backoff rest(const struct daruma_breaker *breaker, double jitter_factor)
{
    uint64_t open_ms = breaker->open_ms == 0 ? DARUMA_BREAKER_OPEN_MS : breaker->open_ms;
    uint64_t max_ms = breaker->open_max_ms == 0 ? DARUMA_BREAKER_OPEN_MAX_MS : breaker->open_max_ms;

    return daruma_backoff_exponential_jitter(open_ms, max_ms, jitter_factor);
}

static uint64_t probe_until(const struct daruma_breaker *breaker, struct view view, int64_t now_ms)
{
    struct daruma_backoff backoff = rest(breaker, 0);

    return moment(now_ms) + daruma_backoff_draw_ms(&backoff, view.openings, 0, 0);
}

bool daruma_breaker_enter(struct daruma_breaker *breaker, int64_t now_ms,
                          struct daruma_ticket *ret_ticket, uint64_t *ret_wait_ms)
{
    uint64_t word = load(breaker);

    for (;;) {
        struct view view = unpack(word);
        if (view.state == DARUMA_BREAKER_CLOSED) {
            *ret_ticket = (struct daruma_ticket){.generation = view.generation};
            return true;
        }
        uint64_t left_ms = time_until(view.value, now_ms);
        if (left_ms > 0) {
            if (ret_wait_ms != NULL) {
                *ret_wait_ms = left_ms;
            }
            return false;
        }
        struct view next =
            enter_state(view, DARUMA_BREAKER_HALF_OPEN, probe_until(breaker, view, now_ms));
        if (swap(breaker, &word, next)) {
            *ret_ticket = (struct daruma_ticket){.generation = next.generation, .probe = true};
            return true;
        }
    }
}

/* Does this ticket belong to the present state? */
static bool is_current(struct view view, struct daruma_ticket ticket)
{
    bool wanted =
        ticket.probe ? view.state == DARUMA_BREAKER_HALF_OPEN : view.state == DARUMA_BREAKER_CLOSED;

    return wanted && view.generation == ticket.generation;
}

void daruma_breaker_succeeded(struct daruma_breaker *breaker, struct daruma_ticket ticket)
{
    uint64_t word = load(breaker);
    struct view view = unpack(word);

    while (is_current(view, ticket) && (ticket.probe || view.value != 0)) {
        struct view next = view;
        next.value = 0;
        if (ticket.probe) {
            next = enter_state(view, DARUMA_BREAKER_CLOSED, 0);
            next.openings = 0;
        }
        if (swap(breaker, &word, next)) {
            return;
        }
        view = unpack(word);
    }
}

static struct view opened(const struct daruma_breaker *breaker, struct view view, int64_t now_ms,
                          uint64_t random)
{
    double factor = breaker->jitter_factor == 0 ? DARUMA_BREAKER_JITTER : breaker->jitter_factor;
    struct daruma_backoff backoff = rest(breaker, factor);

    view.openings += view.openings < OPENINGS_MAX;
    return enter_state(view, DARUMA_BREAKER_IS_OPEN,
                       moment(now_ms) + daruma_backoff_draw_ms(&backoff, view.openings, 0, random));
}

void daruma_breaker_failed(struct daruma_breaker *breaker, struct daruma_ticket ticket,
                           int64_t now_ms, struct daruma_dice *dice)
{
    uint64_t max = breaker->failures_max == 0 ? DARUMA_BREAKER_FAILURES_MAX : breaker->failures_max;
    uint64_t random = daruma_dice_roll(dice);
    uint64_t word = load(breaker);
    struct view view = unpack(word);

    while (is_current(view, ticket)) {
        struct view next = view;
        next.value++;
        if (ticket.probe || next.value >= max) {
            next = opened(breaker, view, now_ms, random);
        }
        if (swap(breaker, &word, next)) {
            return;
        }
        view = unpack(word);
    }
}

enum daruma_breaker_state daruma_breaker_state(const struct daruma_breaker *breaker)
{
    return unpack(load(breaker)).state;
}

static int check(const struct daruma_breaker_options *options, struct daruma_error *ret_error)
{
    if (options->failures_max < 0 || options->failures_max > INT32_MAX) {
        return refuse(ret_error, "breaker.failures_max: must be between 1 and 2147483647");
    }
    if (options->open_ms < 0 || options->open_ms > OPEN_LIMIT_MS) {
        return refuse(ret_error, "breaker.open_ms: must be between 1 ms and 1 day");
    }
    if (options->open_max_ms < 0 || options->open_max_ms > OPEN_LIMIT_MS) {
        return refuse(ret_error, "breaker.open_max_ms: must be between 1 ms and 1 day");
    }
    int64_t open_ms = options->open_ms == 0 ? DARUMA_BREAKER_OPEN_MS : options->open_ms;
    if (options->open_max_ms != 0 && options->open_max_ms < open_ms) {
        return refuse(ret_error, "breaker.open_max_ms: must not be below open_ms");
    }
    if (!(options->jitter_factor >= 0 && options->jitter_factor <= 1)) {
        return refuse(ret_error, "breaker.jitter_factor: must be between 0 and 1");
    }
    return 0;
}

int daruma_breaker_init(struct daruma_breaker *breaker,
                        const struct daruma_breaker_options *options,
                        struct daruma_error *ret_error)
{
    static const struct daruma_breaker_options defaults;

    if (breaker == NULL) {
        return refuse(ret_error, "breaker: must not be NULL");
    }
    if (options == NULL) {
        options = &defaults;
    }
    int failed = check(options, ret_error);
    if (failed != 0) {
        return failed;
    }
    *breaker = (struct daruma_breaker){
        .failures_max = (uint64_t)options->failures_max,
        .open_ms = (uint64_t)options->open_ms,
        .open_max_ms = (uint64_t)options->open_max_ms,
        .jitter_factor = options->jitter_factor,
    };
    if (breaker->open_max_ms == 0 && breaker->open_ms > DARUMA_BREAKER_OPEN_MAX_MS) {
        breaker->open_max_ms = breaker->open_ms;
    }
    return 0;
}
