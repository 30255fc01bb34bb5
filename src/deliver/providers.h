/* SPDX-License-Identifier: MIT
 *
 * providers -- a deliverer in front of another: what has a list of AI providers (task/fallback.h) is
 * carried through them in order within one attempt; everything else goes straight on. Each call of a
 * provider is a delivery of the one behind it, so that time-outs, TLS, guards and limits are the same
 * for all.
 *
 *   send --> next_step --> a provider whose gate lets it in --> the deliverer behind --> leg_end
 *               ^  |                                                                        |
 *               |  '-- all are shut: a short wait, or back to the queue uncounted           |
 *               '---- limited, overloaded, broken, key refused: the next one ---------------'
 *                       answered, or the request itself is wrong: `done`
 *
 * What comes back is one delivery: on success status 200 and {"summary","provider","model","usage"};
 * otherwise the class that waits longest and may be retried (every class seen is in
 * outcome.also_classes, so that the policy decides), and the earliest moment that a provider has named
 * as its hint. legs has a row for each call. It is uncounted when nobody was called.
 *
 * No thread and no clock of its own: everything, `done` too, runs in the loop's thread.
 */
#ifndef DELIVER_PROVIDERS_H
#define DELIVER_PROVIDERS_H

#include "base/clock.h"
#include "deliver/deliver.h"
#include "task/fallback.h"
#include "task/provider_stats.h"

#include <daruma/dice.h>

#define PROVIDERS_PUT_OFF_MAX_MS 86400000 /* after which gates are looked at again */
#define PROVIDERS_KEY_REST_MS    600000   /* a key that was refused is tried again after this */
#define PROVIDERS_ROTATIONS_MAX  1000     /* lists whose turn is remembered */

#define PROVIDERS_FINGERPRINT_LEN 8

/* A key was refused. It rests, and somebody has to look: `fingerprint` tells which one it is without
 * telling what it is (the beginning of its SHA-256). */
struct provider_alert {
    struct span provider;
    size_t key; /* from 1, as written */
    char fingerprint[PROVIDERS_FINGERPRINT_LEN + 1];
    int status;
};

struct providers_options {
    const struct provider_settings *providers; /* outlive the deliverer */
    size_t provider_count;
    const struct clock *clock; /* NULL: clock_real */
    struct daruma_dice *dice;  /* NULL: the thread's own */
    /* providers_tick is wanted at that moment (monotonic); replaces what was said before. */
    void (*wake_at)(void *user, int64_t at_ms);
    void (*alert)(void *user, const struct provider_alert *alert); /* NULL: nobody is told */
    void *user;
};

struct providers; /* opaque */

int providers_open(const struct providers_options *options, deliver_done_fn done, void *user,
                   struct providers **ret_providers, struct error *err)
    __attribute__((warn_unused_result));

/* The deliverer behind, which becomes the providers' own: it is opened with providers_delivered as
 * `done`, and closed with them. */
void providers_set_inner(struct providers *providers, struct deliver *inner);
void providers_delivered(void *providers, struct delivery *delivery);

/* As a deliverer. Closing it drops what is under way without calling `done`. */
struct deliver *providers_deliver(struct providers *providers);

void providers_tick(struct providers *providers);

size_t providers_count(const struct providers *providers);
void providers_stats(struct providers *providers, size_t index, struct provider_stats *ret_stats);

#endif
