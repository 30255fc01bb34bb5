/* SPDX-License-Identifier: MIT
 *
 * handover -- see handover.h. One lock, one condition, no I/O under either.
 */
#include "base/handover.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct handover {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct handover_link *first, **last; /* under lock, like all below */
    size_t count, max;
    bool closed;
};

struct handover *handover_new(size_t max)
{
    struct handover *handover = calloc(1, sizeof *handover);
    pthread_condattr_t attributes;

    if (handover == NULL) {
        return NULL;
    }
    handover->max = max;
    handover->last = &handover->first;
    if (pthread_condattr_init(&attributes) != 0) {
        free(handover);
        return NULL;
    }
    /* A wait must not end early or late because somebody sets the clock. */
    int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
                 pthread_cond_init(&handover->filled, &attributes) != 0;
    (void)pthread_condattr_destroy(&attributes); /* cannot fail on one that was made */
    if (failed || pthread_mutex_init(&handover->lock, NULL) != 0) {
        free(handover);
        return NULL;
    }
    return handover;
}

void handover_free(struct handover *handover)
{
    if (handover == NULL) {
        return;
    }
    (void)pthread_cond_destroy(&handover->filled); /* nobody waits any more, by contract */
    (void)pthread_mutex_destroy(&handover->lock);
    free(handover);
}

bool handover_give(struct handover *handover, struct handover_link *thing)
{
    bool taken = false;

    pthread_mutex_lock(&handover->lock);
    if (!handover->closed && handover->count < handover->max) {
        thing->next = NULL;
        *handover->last = thing;
        handover->last = &thing->next;
        handover->count++;
        taken = true;
    }
    pthread_mutex_unlock(&handover->lock);
    if (taken) {
        pthread_cond_signal(&handover->filled);
    }
    return taken;
}

static struct timespec moment_after(int64_t wait_ms)
{
    int64_t until_ms = clock_thread_ms() + wait_ms;

    return (struct timespec){.tv_sec = (time_t)(until_ms / 1000),
                             .tv_nsec = (long)(until_ms % 1000) * 1000000};
}

/* Under the lock. */
static void wait_filled(struct handover *handover, int64_t wait_ms)
{
    struct timespec until = moment_after(wait_ms < 0 ? 0 : wait_ms);

    while (handover->first == NULL && !handover->closed && wait_ms != 0) {
        if (wait_ms < 0) {
            (void)pthread_cond_wait(&handover->filled, &handover->lock); /* looked at again */
        } else if (pthread_cond_timedwait(&handover->filled, &handover->lock, &until) != 0) {
            return;
        }
    }
}

struct handover_link *handover_take(struct handover *handover, size_t max, int64_t wait_ms)
{
    pthread_mutex_lock(&handover->lock);
    wait_filled(handover, wait_ms);
    struct handover_link *first = handover->first, **end = &handover->first;
    for (; max > 0 && *end != NULL; max--) {
        end = &(*end)->next;
        handover->count--;
    }
    handover->first = *end;
    if (handover->first == NULL) {
        handover->last = &handover->first;
    }
    if (end != &handover->first) {
        *end = NULL;
    } else {
        first = NULL;
    }
    pthread_mutex_unlock(&handover->lock);
    return first;
}

void handover_close(struct handover *handover)
{
    pthread_mutex_lock(&handover->lock);
    handover->closed = true;
    pthread_mutex_unlock(&handover->lock);
    pthread_cond_broadcast(&handover->filled);
}

bool handover_is_closed(struct handover *handover)
{
    pthread_mutex_lock(&handover->lock);
    bool closed = handover->closed;
    pthread_mutex_unlock(&handover->lock);
    return closed;
}

size_t handover_count(struct handover *handover)
{
    pthread_mutex_lock(&handover->lock);
    size_t count = handover->count;
    pthread_mutex_unlock(&handover->lock);
    return count;
}
