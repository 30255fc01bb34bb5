/* SPDX-License-Identifier: MIT
 *
 * leftovers -- inside src/engine only: what is left in queues that were deleted.
 */
#ifndef ENGINE_LEFTOVERS_INTERNAL_H
#define ENGINE_LEFTOVERS_INTERNAL_H

#include "store/number_set.h"
#include "task/task.h"

struct engine;
struct state_count;

/* Zeroed: nothing is left anywhere. */
struct leftovers {
    struct number_set dropped; /* deleted queues that are none of the engine's */
    struct number_set wanted;  /* deleted queues in which something may be left */
    uint32_t queue;            /* the one that is gone through; 0: none */
    int64_t after_row;         /* where it goes on */
    int64_t page_row;          /* likewise, once this page is purged; 0: it was the last one */
    int64_t began_at_ms;       /* monotonic */
    int64_t next_at_ms;        /* likewise */
    size_t pending;            /* its read or operations under way */
    bool has_failed;           /* something of this page could not be purged */
};

/* The store has it as deleted, and it is no queue here. 0 or FAULT_MEMORY. */
int leftovers_dropped(struct engine *engine, uint32_t queue);
/* Something may be left in it. Nothing happens if it was not deleted, or if this is not the node that
 * purges. */
void leftovers_note(struct engine *engine, uint32_t queue);
/* How many tasks there are was read. */
void leftovers_counted(struct engine *engine, const struct state_count *counts, size_t count);
/* A task was settled after its queue was deleted, if it was: then it goes as well. */
void leftovers_settled(struct engine *engine, uint32_t queue, struct task_id id);
void leftovers_tick(struct engine *engine);
int64_t
leftovers_next_ms(const struct engine *engine); /* monotonic; INT64_MAX: no tick is wanted */
void leftovers_free(struct engine *engine);

#endif
