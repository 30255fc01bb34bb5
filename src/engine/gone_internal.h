/* SPDX-License-Identifier: MIT
 *
 * gone -- inside src/engine only, by way of engine_internal.h: tasks that waited, and that a person has
 * cancelled or purged. A schedule is a hint, and an entry too many does no harm to what is sent; but while a
 * queue is paused no entry is looked at, and what is told of the queue would go on counting them. So they
 * are taken out of the schedules, many at a time.
 */
#ifndef ENGINE_GONE_INTERNAL_H
#define ENGINE_GONE_INTERNAL_H

#include "engine/engine.h"

struct queue;

struct gone {
    int64_t *rows;
    size_t count, room;
    int64_t next_at_ms; /* monotonic: not before */
};

/* It waited in the queue and never will again: only of such a task, for an entry that is made later would go
 * with it. */
void gone_note(struct engine *engine, struct queue *queue, int64_t row);
void gone_tick(struct engine *engine);
int64_t gone_wait_ms(const struct engine *engine); /* INT64_MAX: there are none */
void gone_free(struct engine *engine);

#endif
