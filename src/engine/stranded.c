/* SPDX-License-Identifier: MIT
 *
 * stranded -- see stranded_internal.h.
 */
#include "engine/hold_internal.h"

#define LOOK_MS   2000 /* how often the task of a queue is looked at: a row each */
#define LOOKS_MAX 16   /* at once: others read as well */

static void look_later(struct engine *engine)
{
    if (engine->stranded.next_at_ms == 0) {
        engine->stranded.next_at_ms = clock_mono_ms(engine->options.clock) + LOOK_MS;
    }
}

void stranded_note(struct engine *engine, const struct attempt *attempt)
{
    attempt->queue->stranded.id = attempt->task.id;
    look_later(engine);
}

/* The row has been read. What has ended, wherever and however that was, holds the queue no longer; if there
 * is another one that is stranded, that one does. While this node purges the queue nothing is taken out
 * of its hands: what is leased would stay. */
static void looked(struct engine *engine, struct read *read)
{
    struct queue *queue = NULL;

    for (size_t i = 0; i < engine->queue_count && queue == NULL; i++) {
        struct queue *each = engine->queues[i];
        bool is_it = each->stranded.is_read && each->stranded.asked_row == read->id.row;
        queue = is_it ? each : NULL;
    }
    if (queue == NULL) {
        return;
    }
    queue->stranded.is_read = false;
    bool is_open = read->record_count > 0 && (read->records[0].life.state == TASK_WAITING ||
                                              read->records[0].life.state == TASK_RUNNING);
    bool is_latest = queue->stranded.id.row == read->id.row;
    if (read->fault == 0 && is_latest && !is_open && !walk_is_purging(engine, queue)) {
        hold_try_again(queue);
        dispatch_queue(engine, queue);
    }
}

static bool look(struct engine *engine, struct queue *queue)
{
    struct read *read = inspect_new(READ_TASK);

    if (read == NULL) {
        return false;
    }
    read->id = queue->stranded.id;
    read->then = looked;
    queue->stranded.asked_row = read->id.row;
    queue->stranded.is_read = inspect_start(engine, read);
    return queue->stranded.is_read;
}

void stranded_tick(struct engine *engine)
{
    int64_t now_ms = clock_mono_ms(engine->options.clock);
    size_t looks = 0, seen = 0;

    if (engine->stranded.next_at_ms == 0 || now_ms < engine->stranded.next_at_ms ||
        engine->is_draining) {
        return;
    }
    engine->stranded.next_at_ms = 0;
    for (; seen < engine->queue_count && looks < LOOKS_MAX; seen++) {
        struct queue *queue = engine->queues[(engine->stranded.next + seen) % engine->queue_count];
        if (queue->hold != QUEUE_HOLD_TARGETS || queue->dropped) {
            continue;
        }
        look_later(engine);
        if (!queue->stranded.is_read && !look(engine, queue)) {
            break; /* no room: later */
        }
        looks++;
    }
    engine->stranded.next += seen;
}

int64_t stranded_wait_ms(const struct engine *engine)
{
    return engine->stranded.next_at_ms == 0 || engine->is_draining
               ? INT64_MAX
               : engine->stranded.next_at_ms - clock_mono_ms(engine->options.clock);
}
