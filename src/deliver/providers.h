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
 *               '---- limited, overloaded, broken, key or article refused: the next one ----'
 *                       answered, or none is left: `done`
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
/* A key whose quota is used up, while nothing says until when, is asked last for so long: not at all
 * while another one answers, and as the policy says when none does. */
#define PROVIDERS_QUOTA_AVOID_MS 600000
/* A provider whose calls have run out of time so often in a row is down: it is left alone, one call
 * tries it, and the next rest is twice as long. */
#define PROVIDERS_SILENT_AFTER       5
#define PROVIDERS_SILENT_REST_MS     5000
#define PROVIDERS_SILENT_REST_MAX_MS 60000
#define PROVIDERS_ROTATIONS_MAX      1000 /* lists whose turn is remembered */

#define PROVIDERS_FINGERPRINT_LEN 8

/* Something that an operator has to know, told once, and again after it was well in between. KEY and
 * ACCOUNT: a key was refused and rests; `fingerprint` tells which one it is without telling what it is
 * (the beginning of its SHA-256). Else the provider as a whole. */
struct provider_alert {
    enum provider_trouble trouble;
    const struct provider_settings *settings;
    size_t key; /* from 1, as written; 0: all of them */
    char fingerprint[PROVIDERS_FINGERPRINT_LEN + 1];
    int status;      /* 0: none came */
    int64_t rest_ms; /* how long it is left alone; 0: it is not */
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
