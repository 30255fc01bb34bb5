/* SPDX-License-Identifier: MIT
 *
 * give_back -- what was leased and has not been sent goes back as if it had not been leased: its queue is
 * held, was stopped or has another target by now, the server stops, or its host or its node has no place
 * for it.
 */
#include "engine/flow_internal.h"
#include "base/plant.h"

/* As if it had not been leased. */
void give_back(struct engine *engine, struct attempt *attempt, const char *why)
{
    attempt->delivery.is_uncounted = true;
    attempt->delivery.started_at_ms = attempt->delivery.ended_at_ms = engine_now_ms(engine);
    dispatch_cannot_begin(engine, attempt, why);
}

void give_back_held(struct engine *engine, struct attempt *attempt)
{
    attempt->is_returned = true;
    give_back(engine, attempt, "the target is down: not tried");
}

void give_back_unshared(struct engine *engine, struct attempt *attempt)
{
    give_back(engine, attempt, "this node has no share of the queue: not sent");
}

/* Its host is full: it does not wait here, and costs the queue's rate nothing. */
void give_back_parked(struct engine *engine, struct attempt *attempt)
{
    attempt->is_parked = true;
    flow_give_token_back(attempt->queue);
    give_back(engine, attempt, "the host has no place: not sent");
}

/* It was leased and waited for its turn or its host, and then people stopped the queue or the server:
 * once they were told so, nothing more is sent. What a person wants run is sent from a paused queue. */
bool give_back_is_stopped(const struct engine *engine, const struct attempt *attempt)
{
    const struct queue *queue = attempt->queue;

    return engine->is_draining || queue->dropped || (queue->paused && !attempt->is_forced);
}

/* It goes to the queue's target, which has another URL by now. */
static bool is_outdated(const struct attempt *attempt)
{
    const struct queue_settings *settings = &attempt->queue->settings;
    int at = attempt->target_index;

    return at >= 0 && ((size_t)at >= settings->target_count ||
                       !span_equal(settings->targets[at].url, attempt->delivery.url));
}

/* Of what waits, leased, for its turn or its host. */
bool give_back_is_due(const struct engine *engine, const struct attempt *attempt)
{
    return give_back_is_stopped(engine, attempt) || is_outdated(attempt);
}

void give_back_unsent(struct engine *engine, struct attempt *attempt)
{
    const char *why = engine->is_draining ? "the server stops: not sent"
                      : is_outdated(attempt)
                          ? "the queue has another target by now: not sent"
                          : "the queue was paused or deleted meanwhile: not sent";

    attempt->is_unsent = true;
    give_back(engine, attempt, why);
}

typedef void (*give_back_fn)(struct engine *engine, struct attempt *attempt);

/* Those that wait for their turn go back. */
static void return_line(struct engine *engine, struct queue *queue, give_back_fn give)
{
    struct attempt *attempt = queue->ready, *next;
    bool was_going = queue->is_going;

    queue->ready = NULL;
    queue->is_going = true; /* one after the other, not each within the one before */
    for (; attempt != NULL; attempt = next) {
        next = attempt->next_ready;
        give(engine, attempt);
    }
    queue->is_going = was_going;
}

/* The node has no share of the queue any more. */
void give_back_share(struct engine *engine, struct queue *queue)
{
    return_line(engine, queue, give_back_unshared);
}

/* What a person wants run is sent in an outage too. */
static void give_back_unforced(struct engine *engine, struct attempt *attempt)
{
    if (attempt->is_forced) {
        flow_line_up(attempt);
    } else {
        give_back_held(engine, attempt);
    }
}

/* The target has gone down. */
void give_back_ready(struct engine *engine, struct queue *queue)
{
    return_line(engine, queue, give_back_unforced);
}

static void give_back_if_due(struct engine *engine, struct attempt *attempt)
{
    if (give_back_is_due(engine, attempt)) {
        give_back_unsent(engine, attempt);
    } else {
        flow_line_up(attempt);
    }
}

/* A person stops the queue or the server, or changes a target: what is leased and has not been sent goes
 * back, or it could not be cancelled and a crash would leave it in doubt. */
void give_back_due(struct engine *engine, struct queue *queue)
{
    if (!queue->is_going) {
        hosts_return(engine, queue);
        return_line(engine, queue, give_back_if_due);
    }
}

void give_back_all(struct engine *engine)
{
    PLANT(DRAIN_LEFT, return )
    for (size_t i = 0; i < engine->queue_count; i++) {
        give_back_due(engine, engine->queues[i]);
    }
}

/* The queue's targets were changed: what waits for the place of an old one goes to the new one. */
void give_back_retargeted(struct engine *engine, struct queue *queue)
{
    if (queue->is_going) {
        return;
    }
    give_back_due(engine, queue);
    queue->is_retargeted = !hosts_unpark(engine, queue);
    engine->has_more_to_do |= queue->is_retargeted;
}
