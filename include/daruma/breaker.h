/* SPDX-License-Identifier: MIT
 *
 * breaker -- stops calling what keeps failing, and finds out cheaply when it is back.
 *
 *             failures_max failures in a row              time is over: one caller goes
 *    closed ------------------------------> open -----------------------------> half-open
 *      ^                                     ^  <-- failure, or no word from it -- |
 *      '------------------------------------ | ----- the probe succeeded ---------'
 *
 * The open time is jittered, so that many processes do not probe together, and doubles from
 * open_ms to open_max_ms while probes fail. An answer that belongs to an earlier state (a call
 * that was under way when the breaker opened) changes nothing: tickets tell them apart.
 *
 * Lock-free, no allocation; for any number of threads. On the success path of a closed breaker it
 * is one load each way. A zeroed breaker is one with the defaults.
 */
#ifndef DARUMA_BREAKER_H
#define DARUMA_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include <daruma/dice.h>
#include <daruma/result.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DARUMA_BREAKER_FAILURES_MAX 5
#define DARUMA_BREAKER_OPEN_MS      1000
#define DARUMA_BREAKER_OPEN_MAX_MS  60000
#define DARUMA_BREAKER_JITTER       0.2

enum daruma_breaker_state {
    DARUMA_BREAKER_CLOSED = 0,
    DARUMA_BREAKER_IS_OPEN,
    DARUMA_BREAKER_HALF_OPEN
};

struct daruma_breaker_options {
    int64_t failures_max; /* in a row; 0: the default */
    int64_t open_ms;      /* 0: the default */
    int64_t open_max_ms;  /* 0: the default, or open_ms where that is more */
    double jitter_factor; /* 0: the default; 0 to 1 */
};

struct daruma_breaker {
    uint64_t word; /* private, atomic: [state : 2][openings : 6][generation : 16][value : 40] */
    uint64_t failures_max;
    uint64_t open_ms;
    uint64_t open_max_ms;
    double jitter_factor;
};

/* What a caller was let through with; give it back with the answer. */
struct daruma_ticket {
    uint16_t generation;
    bool probe;
};

/* 0, or DARUMA_INVALID with an error that names the option. NULL options: the defaults. */
int daruma_breaker_init(struct daruma_breaker *breaker,
                        const struct daruma_breaker_options *options,
                        struct daruma_error *ret_error);

/* May this call be made? When not, ret_wait_ms (may be NULL) says how long until a probe is due. */
bool daruma_breaker_enter(struct daruma_breaker *breaker, int64_t now_ms,
                          struct daruma_ticket *ret_ticket, uint64_t *ret_wait_ms);

/* The call came back. A probe that never reports is given up after the open time. */
void daruma_breaker_succeeded(struct daruma_breaker *breaker, struct daruma_ticket ticket);
void daruma_breaker_failed(struct daruma_breaker *breaker, struct daruma_ticket ticket,
                           int64_t now_ms, struct daruma_dice *dice);

enum daruma_breaker_state daruma_breaker_state(const struct daruma_breaker *breaker);

#ifdef __cplusplus
}
#endif
#endif
