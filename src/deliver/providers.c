/* SPDX-License-Identifier: MIT
 *
 * providers -- the deliverer itself: takes deliveries in, hands ended ones back, looks again at those
 * that wait. The way of one of them is in providers_flight.c.
 *
 * `done` is called only from tell_ended, which runs at the end of an event: whoever is told may send
 * and cancel again at once.
 */
#include "deliver/providers_internal.h"

#include <stdlib.h>

static struct providers *of(struct deliver *deliver)
{
    return (struct providers *)deliver;
}

static void link_flight(struct providers *providers, struct flight *flight)
{
    flight->next = NULL;
    flight->at = providers->last;
    *providers->last = flight;
    providers->last = &flight->next;
}

static void unlink_flight(struct flight *flight)
{
    struct providers *providers = flight->owner;

    *flight->at = flight->next;
    if (flight->next != NULL) {
        flight->next->at = flight->at;
    } else {
        providers->last = flight->at;
    }
}

/* One at a time from the front: telling one may add and end others. */
static void tell_ended(struct providers *providers)
{
    while (providers->has_ended) {
        struct flight *flight = providers->flights;
        while (flight != NULL && flight->step != FLIGHT_ENDED) {
            flight = flight->next;
        }
        if (flight == NULL) {
            providers->has_ended = false;
            return;
        }
        struct delivery *whole = flight->whole;
        unlink_flight(flight);
        flight_free(flight);
        providers->done(providers->done_user, whole);
    }
}

/* Those that wait look again, the oldest first, while that moves anything. */
static void look_again(struct providers *providers)
{
    int64_t now_ms = clock_mono_ms(providers->options.clock);

    providers->is_changed = false;
    if (providers->resting_count == 0) {
        return;
    }
    for (struct flight *flight = providers->flights; flight != NULL; flight = flight->next) {
        if (flight->step == FLIGHT_WAITING) {
            flight_step(flight, now_ms);
        }
    }
}

static void set_alarm(struct providers *providers)
{
    int64_t now_ms = clock_mono_ms(providers->options.clock), wait_ms = INT64_MAX;

    if (providers->resting_count == 0) {
        return;
    }
    for (struct flight *flight = providers->flights; flight != NULL; flight = flight->next) {
        int64_t its_ms = flight->step == FLIGHT_ENDED     ? 0
                         : flight->step == FLIGHT_WAITING ? flight_wait_ms(flight, now_ms)
                                                          : INT64_MAX;
        wait_ms = its_ms < wait_ms ? its_ms : wait_ms;
    }
    if (wait_ms != INT64_MAX) {
        providers->options.wake_at(providers->options.user, now_ms + wait_ms);
    }
}

/* After anything that came from outside. */
static void end_event(struct providers *providers)
{
    if (providers->is_changed) {
        look_again(providers);
    }
    tell_ended(providers);
    set_alarm(providers);
}

void providers_tick(struct providers *providers)
{
    look_again(providers);
    end_event(providers);
}

void providers_delivered(void *user, struct delivery *delivery)
{
    struct providers *providers = user;

    if (delivery->fallback == NULL) {
        providers->done(providers->done_user, delivery);
        return;
    }
    flight_leg_end((struct flight *)delivery);
    end_event(providers);
}

/* --- as a deliverer ----------------------------------------------------------------------------- */

static int providers_send(struct deliver *deliver, struct delivery *delivery, struct error *err)
{
    struct providers *providers = of(deliver);

    if (delivery->fallback == NULL) {
        return deliver_send(providers->inner, delivery, err);
    }
    struct flight *flight = flight_new(providers, delivery);
    if (flight == NULL) {
        return fail(err, FAULT_MEMORY, "no memory for a delivery");
    }
    link_flight(providers, flight);
    flight_begin(flight);
    if (flight->step != FLIGHT_CALLING) {
        set_alarm(providers); /* what has ended already is told by the tick */
    }
    return 0;
}

static void providers_cancel(struct deliver *deliver, struct delivery *delivery)
{
    struct providers *providers = of(deliver);

    if (delivery->fallback == NULL) {
        deliver_cancel(providers->inner, delivery);
        return;
    }
    if (delivery->carrier != NULL) { /* else it is back */
        flight_cancel(delivery->carrier);
        set_alarm(providers);
    }
}

static void providers_pull(struct deliver *deliver, struct delivery *delivery)
{
    deliver_pull(of(deliver)->inner, delivery); /* only what goes straight there is handed on */
}

static void providers_close(struct deliver *deliver)
{
    struct providers *providers = of(deliver);

    deliver_close(providers->inner); /* drops its legs */
    while (providers->flights != NULL) {
        struct flight *flight = providers->flights;
        unlink_flight(flight);
        flight_free(flight);
    }
    free(providers->rotations);
    free(providers->providers);
    free(providers);
}

static const struct deliver_ops ops = {
    .send = providers_send,
    .cancel = providers_cancel,
    .close = providers_close,
    .pull = providers_pull,
};

int providers_open(const struct providers_options *options, deliver_done_fn done, void *user,
                   struct providers **ret_providers, struct error *err)
{
    struct providers *providers = calloc(1, sizeof *providers);
    size_t count = options->provider_count;

    if (providers != NULL && count > 0) {
        providers->providers = calloc(count, sizeof *providers->providers);
    }
    if (providers == NULL || (count > 0 && providers->providers == NULL)) {
        free(providers);
        return fail(err, FAULT_MEMORY, "no memory for the providers");
    }
    providers->base.ops = &ops;
    providers->options = *options;
    if (options->clock == NULL) {
        providers->options.clock = &clock_real;
    }
    providers->done = done;
    providers->done_user = user;
    providers->last = &providers->flights;
    for (size_t i = 0; i < count; i++) {
        providers->providers[i].settings = &options->providers[i];
        providers->providers[i].stats.name = options->providers[i].name;
    }
    *ret_providers = providers;
    return 0;
}

void providers_set_inner(struct providers *providers, struct deliver *inner)
{
    providers->inner = inner;
}

struct deliver *providers_deliver(struct providers *providers)
{
    return providers != NULL ? &providers->base : NULL;
}

size_t providers_count(const struct providers *providers)
{
    return providers->options.provider_count;
}
