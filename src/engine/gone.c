/* SPDX-License-Identifier: MIT
 *
 * gone -- see gone_internal.h. Taking them out is a pass over all that is scheduled in their queues, so it is
 * done once for all that were noted, and the longer that takes the more seldom.
 */
#include "engine/engine_internal.h"

#include <stdlib.h>

#define GONE_MAX      100000 /* rows; then they are taken out at once */
#define GONE_ROOM     64
#define GONE_EVERY_MS 1000 /* at the most often, and */
#define GONE_PER_MS   100  /* a millisecond more for so many entries that were looked at */

static int compare(const void *one, const void *other)
{
    int64_t left = *(const int64_t *)one, right = *(const int64_t *)other;

    return (left > right) - (left < right);
}

static void sweep(struct engine *engine)
{
    struct gone *gone = &engine->gone;
    size_t seen = 0;

    qsort(gone->rows, gone->count, sizeof *gone->rows, compare);
    for (size_t i = 0; i < engine->queue_count; i++) {
        struct queue *queue = engine->queues[i];
        struct schedule *all[] = {&queue->due, &queue->forced, &queue->low, &queue->pull,
                                  &queue->pull_forced};
        for (size_t at = 0; queue->has_gone && at < sizeof all / sizeof *all; at++) {
            seen += all[at]->count;
            schedule_remove(all[at], gone->rows, gone->count);
        }
        if (queue->has_gone && queue->parked_count > 0) {
            seen += hosts_sweep(engine, queue, gone);
        }
        queue->has_gone = false;
    }
    gone->count = 0;
    gone->next_at_ms =
        clock_mono_ms(engine->options.clock) + GONE_EVERY_MS + (int64_t)(seen / GONE_PER_MS);
}

static bool make_room(struct gone *gone)
{
    if (gone->count < gone->room) {
        return true;
    }
    size_t room = gone->room == 0 ? GONE_ROOM : gone->room * 2;
    int64_t *rows = realloc(gone->rows, room * sizeof *rows);
    if (rows == NULL) {
        return false;
    }
    gone->rows = rows;
    gone->room = room;
    return true;
}

void gone_note(struct engine *engine, struct queue *queue, int64_t row)
{
    if (nodes_are_many(engine) || !make_room(&engine->gone)) {
        return; /* without memory its entry stays until it is looked at */
    }
    engine->gone.rows[engine->gone.count++] = row;
    queue->has_gone = true;
    if (engine->gone.count >= GONE_MAX) {
        sweep(engine);
    }
}

void gone_tick(struct engine *engine)
{
    if (engine->gone.count > 0 && gone_wait_ms(engine) <= 0) {
        sweep(engine);
    }
}

int64_t gone_wait_ms(const struct engine *engine)
{
    return engine->gone.count == 0 ? INT64_MAX
                                   : engine->gone.next_at_ms - clock_mono_ms(engine->options.clock);
}

void gone_free(struct engine *engine)
{
    free(engine->gone.rows);
}
