/* SPDX-License-Identifier: MIT
 *
 * forget -- what is told after something was done that every node has to know: a key, a route's tasks
 * or a queue was forgotten before its time; a queue was made, changed, paused or resumed. It is
 * committed by then, but a peer may still hold the answer in memory (kept.c), or send what the queue
 * had, so it is told when the store says that every node knows of it:
 *
 *   committed --> forget_tell --> nudge the beat --> it sees every node's word --> forget_told: reply
 *                     |                                   '-- a node that is silent: until it is gone
 *                     '-- the store is of one process: at once
 *
 * A node that is silent is taken for dead after its lease, and neither replays nor sends anything by
 * then (kept.c, nodes_bind). Where not even that is known in time, as
 * without a connection, the one who wanted it is told that it was done and that this much is not known.
 */
#include "engine/kept_internal.h"
#include "base/plant.h"

#include <stdlib.h>

#define LEASES_WAITED 2 /* for the others' word: a dead node is found out in a little over one */

static void tell(struct engine *engine, const struct forgotten *what)
{
    if (what->kind == REPLY_QUEUE && what->is_change) {
        manage_reply_queue(engine, what->queue, what->exchange, what->is_new);
    } else if (what->kind == REPLY_QUEUE) {
        engine_ask(engine, &(struct ask){.kind = ASK_QUEUE,
                                         .exchange = what->exchange,
                                         .queue = what->queue->name,
                                         .force = true});
    } else {
        engine_reply(
            engine,
            &(struct reply){.kind = what->kind, .exchange = what->exchange, .error = what->error});
    }
}

/* What was not done to its end is told as what it is. */
static void tell_unknown(struct engine *engine, const struct forgotten *what)
{
    struct error error = {0};

    if (what->kind == REPLY_FAULT) {
        tell(engine, what);
        return;
    }
    (void)fail_told(&error, FAULT_UNKNOWN, /* the reply carries it */
                    "it was done; a node has not confirmed yet that it knows of it: send it again "
                    "to wait for that");
    engine_reply_fault(engine, what->exchange, 0, &error);
}

void forget_tell(struct engine *engine, const struct forgotten *what)
{
    bool is_known = !nodes_are_many(engine) || what->exchange == NOBODY;
    struct forgotten *waiting = is_known ? NULL : malloc(sizeof *waiting);

    PLANT(FORGET_UNHEARD, is_known = is_known || !what->is_change)
    if (is_known) {
        tell(engine, what);
        free(waiting);
        return;
    }
    if (waiting == NULL) {
        tell_unknown(engine, what);
        return;
    }
    *waiting = *what;
    waiting->asked = ++engine->nodes.asked;
    waiting->until_ms =
        clock_mono_ms(engine->options.clock) + LEASES_WAITED * engine->store->node_lease_ms;
    waiting->next = engine->forgotten;
    engine->forgotten = waiting;
    nodes_nudge(engine);
}

/* Replies may ask for more: each is out of the list before. */
void forget_told(struct engine *engine, uint64_t told)
{
    struct forgotten **link = &engine->forgotten;

    engine->nodes.told = told > engine->nodes.told ? told : engine->nodes.told;
    while (*link != NULL) {
        struct forgotten *waiting = *link;
        if (waiting->asked > engine->nodes.told) {
            link = &waiting->next;
            continue;
        }
        *link = waiting->next;
        tell(engine, waiting);
        free(waiting);
        link = &engine->forgotten;
    }
}

void forget_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    struct forgotten **link = &engine->forgotten;

    while (*link != NULL) {
        struct forgotten *waiting = *link;
        if (waiting->until_ms > now_ms) {
            link = &waiting->next;
            continue;
        }
        *link = waiting->next;
        tell_unknown(engine, waiting);
        free(waiting);
    }
}

int64_t forget_wait_ms(const struct engine *engine)
{
    int64_t next_ms = INT64_MAX;

    for (const struct forgotten *each = engine->forgotten; each != NULL; each = each->next) {
        next_ms = each->until_ms < next_ms ? each->until_ms : next_ms;
    }
    return next_ms == INT64_MAX ? INT64_MAX : next_ms - clock_mono_ms(engine->options.clock);
}

void forget_free_all(struct engine *engine)
{
    while (engine->forgotten != NULL) {
        struct forgotten *next = engine->forgotten->next;
        free(engine->forgotten);
        engine->forgotten = next;
    }
}
