/* SPDX-License-Identifier: MIT
 *
 * pulse -- see pulse.h.
 */
#include "engine/pulse.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#define PULSE_WAIT_MS    200 /* how long a stop may take */
#define PULSE_REST_MS    100 /* after a beat that failed; the store waits longer by itself */
#define PULSE_ARENA_MAX  (16u << 20)
#define PULSE_UNREAD_MAX 64

/* One beat on its way to the engine. */
struct seen {
    struct handover_link link; /* first */
    struct arena *arena;
    struct beat beat;
};

struct pulse {
    struct store *store;
    struct handover *beats;
    pulse_wake_fn wake;
    void *wake_user;
    pthread_t thread;
    bool has_thread;
    int is_over; /* atomic */
    int health;  /* atomic */
};

struct pulse *pulse_new(struct store *store, pulse_wake_fn wake, void *user)
{
    struct pulse *pulse = calloc(1, sizeof *pulse);

    if (pulse == NULL) {
        return NULL;
    }
    *pulse = (struct pulse){
        .store = store, .beats = handover_new(PULSE_UNREAD_MAX), .wake = wake, .wake_user = user};
    if (pulse->beats == NULL) {
        pulse_free(pulse);
        return NULL;
    }
    return pulse;
}

static void seen_free(struct seen *seen)
{
    if (seen != NULL) {
        arena_free(seen->arena);
        free(seen);
    }
}

void pulse_free(struct pulse *pulse)
{
    if (pulse == NULL) {
        return;
    }
    struct handover_link *link =
        pulse->beats != NULL ? handover_take(pulse->beats, SIZE_MAX, 0) : NULL;
    while (link != NULL) {
        struct handover_link *next = link->next;
        seen_free((struct seen *)link);
        link = next;
    }
    handover_free(pulse->beats);
    free(pulse);
}

static void beat_once(struct pulse *pulse)
{
    const struct timespec rest = {.tv_nsec = PULSE_REST_MS * 1000000L};
    struct seen *seen = calloc(1, sizeof *seen);
    int failed = FAULT_MEMORY;

    if (seen != NULL && (seen->arena = arena_new(PULSE_ARENA_MAX)) != NULL) {
        failed = store_beat(pulse->store, PULSE_WAIT_MS, seen->arena, &seen->beat, NULL);
    }
    if (__atomic_exchange_n(&pulse->health, failed, __ATOMIC_RELAXED) != failed) {
        pulse->wake(pulse->wake_user);
    }
    if (failed == 0 && handover_give(pulse->beats, &seen->link)) {
        pulse->wake(pulse->wake_user);
        return;
    }
    seen_free(seen);              /* an engine that is so far behind hears the next one */
    (void)nanosleep(&rest, NULL); /* cut short by a signal: it beats earlier */
}

static void *run(void *argument)
{
    struct pulse *pulse = argument;

    while (__atomic_load_n(&pulse->is_over, __ATOMIC_ACQUIRE) == 0) {
        beat_once(pulse);
    }
    return NULL;
}

int pulse_start(struct pulse *pulse, struct error *err)
{
    if (pthread_create(&pulse->thread, NULL, run, pulse) != 0) {
        return fail(err, FAULT_SYSTEM, "no thread for the node's beats could be had");
    }
    pulse->has_thread = true;
    return 0;
}

void pulse_stop(struct pulse *pulse)
{
    __atomic_store_n(&pulse->is_over, 1, __ATOMIC_RELEASE);
    if (pulse->has_thread) {
        (void)pthread_join(pulse->thread, NULL); /* fails only for a thread that is not there */
        pulse->has_thread = false;
    }
}

void pulse_take(struct pulse *pulse, struct engine *engine)
{
    struct handover_link *link = handover_take(pulse->beats, SIZE_MAX, 0);

    while (link != NULL) {
        struct handover_link *next = link->next;
        engine_beat(engine, &((struct seen *)link)->beat);
        seen_free((struct seen *)link);
        link = next;
    }
}

int pulse_health(const struct pulse *pulse)
{
    return __atomic_load_n(&pulse->health, __ATOMIC_RELAXED);
}
