/* SPDX-License-Identifier: MIT
 *
 * retire -- see retire_internal.h. Marks what is in use, then sweeps: so one pass over the attempts does for
 * all queues.
 */
#include "engine/kept_internal.h"

#define LOOK_MS 1000

static bool may_be(const struct queue *queue)
{
    uint64_t count = 0;

    for (int state = 0; state < TASK_STATE_COUNT; state++) {
        count += queue->counts[state];
    }
    return queue->dropped && !queue->in_file && count == 0 && queue->in_flight == 0 &&
           queue->lease_waiters == NULL && !queue->is_going && !queue->stranded.is_read;
}

/* Those who point at it only read it; the mark is this file's own. */
static void use(const struct queue *queue)
{
    if (queue != NULL) {
        ((struct queue *)queue)->retirement.is_in_use = true;
    }
}

static void mark(struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        engine->queues[i]->retirement.is_in_use = !may_be(engine->queues[i]);
    }
    for (const struct attempt *each = engine->attempts; each != NULL; each = each->next) {
        use(each->queue);
    }
    for (const struct errand *each = engine->changes; each != NULL; each = each->next) {
        use(each->queue);
    }
    for (const struct forgotten *each = engine->forgotten; each != NULL; each = each->next) {
        use(each->queue);
    }
    walk_mark(engine, use);
}

/* The others keep their order. */
static void sweep(struct engine *engine)
{
    size_t kept = 0;

    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queues[i];
        if (!queue->retirement.is_in_use && leftovers_dropped(engine, queue->number) == 0) {
            hosts_forget(engine, queue);
            queue->retirement.next = engine->retired.first;
            engine->retired.first = queue;
            continue;
        }
        queue->index = kept;
        engine->queues[kept] = queue;
        engine->queue_marks[kept++] = engine->queue_marks[i];
    }
    engine->queue_count = kept;
}

void retire_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    bool is_any = false;

    if (now_ms < engine->retired.next_at_ms) {
        return;
    }
    engine->retired.next_at_ms = now_ms + LOOK_MS;
    for (size_t i = 0; i < engine->queue_count; i++) {
        is_any |= may_be(engine->queues[i]);
    }
    if (is_any) {
        mark(engine);
        sweep(engine);
    }
}
