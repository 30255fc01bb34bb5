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
#define PULSE_ARENA_MAX  (64u << 20) /* all queues, when they were changed */
#define PULSE_UNREAD_MAX 64
#define PULSE_WORDS_MAX  32 /* of them, those that renew no lease: the others have their room */

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
    size_t words; /* atomic: unread, of those that renew no lease */
    int is_over;  /* atomic */
    int health;   /* atomic */
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

/* However far behind the engine is, words of peers do not crowd out the beats that its lease is renewed
 * by. What a word brings that is lost comes with one of those. */
static bool give(struct pulse *pulse, struct seen *seen)
{
    bool is_word = !seen->beat.is_fresh;

    if (is_word && __atomic_load_n(&pulse->words, __ATOMIC_RELAXED) >= PULSE_WORDS_MAX) {
        return false;
    }
    (void)__atomic_fetch_add(&pulse->words, is_word, __ATOMIC_RELAXED); /* before it is taken */
    if (!handover_give(pulse->beats, &seen->link)) {
        (void)__atomic_fetch_sub(&pulse->words, is_word, __ATOMIC_RELAXED);
        return false;
    }
    return true;
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
    if (failed == 0 && give(pulse, seen)) {
        pulse->wake(pulse->wake_user);
        return;
    }
    seen_free(seen); /* an engine that is so far behind hears the next one */
    if (failed != 0) {
        (void)nanosleep(&rest, NULL); /* cut short by a signal: it beats earlier */
    }
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
        struct seen *seen = (struct seen *)link;
        (void)__atomic_fetch_sub(&pulse->words, !seen->beat.is_fresh, __ATOMIC_RELAXED);
        engine_beat(engine, &seen->beat);
        seen_free(seen);
        link = next;
    }
}

int pulse_health(const struct pulse *pulse)
{
    return __atomic_load_n(&pulse->health, __ATOMIC_RELAXED);
}
