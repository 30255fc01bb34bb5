/* SPDX-License-Identifier: MIT
 *
 * retire -- inside src/engine only: queues that were deleted, and in which nothing is left, are no longer among
 * those that the engine goes through. From then on the queue is known by its number alone (leftovers), as
 * after a start. What still points at it for its name (a run, a line of the log) may do so: its memory stays
 * until the engine ends.
 */
#ifndef ENGINE_RETIRE_INTERNAL_H
#define ENGINE_RETIRE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct queue;

/* Of a queue. */
struct retirement {
    struct queue *next; /* that was retired before */
    bool is_in_use;     /* something is under way in it */
};

/* Of the engine. Zeroed: none. */
struct retired {
    struct queue *first;
    int64_t next_at_ms; /* monotonic: when they are looked for again */
    uint64_t serials;   /* given so far */
};

/* To be called when nothing goes through the queues. */
void retire_tick(struct engine *engine);

#endif
