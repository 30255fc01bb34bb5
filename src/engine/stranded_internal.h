/* SPDX-License-Identifier: MIT
 *
 * stranded -- inside src/engine only: when a queue that is held for its targets (hold_internal.h) goes on. Of
 * the tasks that are to be sent to them one is remembered. Its row is looked at now and then, so it does
 * not matter which node has ended it, nor whether it was cancelled, was purged or was too late.
 */
#ifndef ENGINE_STRANDED_INTERNAL_H
#define ENGINE_STRANDED_INTERNAL_H

#include "task/task.h"

struct attempt;
struct engine;

/* Of a queue, while it is held. */
struct stranded {
    struct task_id id;
    bool is_read;      /* the row of one is being read: */
    int64_t asked_row; /* this one, be it `id` still or one that was remembered before */
};

/* Of the engine. Zeroed: no queue is held for its targets. */
struct stranded_looks {
    int64_t next_at_ms; /* monotonic; 0: none */
    size_t next;        /* of the queues: where the next look begins */
};

/* Its queue is held from now on. */
void stranded_note(struct engine *engine, const struct attempt *attempt);
void stranded_tick(struct engine *engine);
int64_t stranded_wait_ms(const struct engine *engine); /* until the next look; INT64_MAX: none */

#endif
