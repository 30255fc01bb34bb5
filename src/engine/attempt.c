/* SPDX-License-Identifier: MIT
 *
 * attempt -- the object behind one attempt, and the slot of its queue that it holds from the moment
 * it is decided upon until its answer is in. (The settle that follows needs no slot: a slow disk
 * must not slow the target's queue.)
 */
#include "engine/engine_internal.h"

#include <stdlib.h>

struct attempt *attempt_new(struct engine *engine, struct queue *queue, struct arena *arena)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);

    if (attempt == NULL) {
        return NULL;
    }
    attempt->queue = queue;
    attempt->arena = arena;
    attempt->op.arena = arena;
    attempt->next = engine->attempts;
    if (attempt->next != NULL) {
        attempt->next->previous = attempt;
    }
    engine->attempts = attempt;
    return attempt;
}

void attempt_take_slot(struct engine *engine, struct attempt *attempt)
{
    attempt->holds_slot = true;
    attempt->is_within = hosts_are_within(engine, attempt->queue);
    places_take(engine, attempt->queue);
    attempt->queue->low_in_flight += attempt->is_low;
    attempt->queue->outage.has_trial |= attempt->is_trial;
    attempt->is_spared = !attempt->is_forced && attempt->queue->outage.step != OUTAGE_NONE;
    flow_take_token(attempt->queue);
}

void attempt_free_slot(struct engine *engine, struct attempt *attempt)
{
    if (attempt->holds_slot) {
        attempt->holds_slot = false;
        places_free(engine, attempt->queue);
        attempt->queue->low_in_flight -= attempt->is_low;
        if (attempt->is_trial) {
            attempt->queue->outage.has_trial = false; /* whatever came of it, or did not */
        }
    }
}

void attempt_free(struct engine *engine, struct attempt *attempt)
{
    attempt_free_slot(engine, attempt);
    if (attempt->previous != NULL) {
        attempt->previous->next = attempt->next;
    } else {
        engine->attempts = attempt->next;
    }
    if (attempt->next != NULL) {
        attempt->next->previous = attempt->previous;
    }
    delivery_done(&attempt->delivery);
    arena_free(attempt->arena);
    free(attempt);
}
