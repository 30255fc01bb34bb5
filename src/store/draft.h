/* SPDX-License-Identifier: MIT
 *
 * draft -- what a batch does to tasks that are held in memory, in two steps, for a store that has
 * something to do in between:
 *
 *   draft_begin --> made, seen by readers --> draft_keep
 *                     |  ^           |
 *          draft_hide |  | draft_show '-----> draft_drop: as before
 *                     v  |
 *                   made, hidden from readers: the time in which a file is written without the lock
 *
 * All of it with memory->lock held, by the one thread that applies.
 */
#ifndef STORE_DRAFT_H
#define STORE_DRAFT_H

#include "store/store_memory_internal.h"

/* Makes the changes and leaves the results in memory->stage. On a fault everything is as before. */
int draft_begin(struct store_memory *memory, struct op *ops[], size_t count, struct error *err)
    __attribute__((warn_unused_result));
void draft_hide(struct store_memory *memory);
void draft_show(struct store_memory *memory);
void draft_keep(struct store_memory *memory);
void draft_drop(struct store_memory *memory);

/* The task that the key of `task` is bound to; NULL: none. */
struct version *draft_find_key(const struct store_memory *memory, const struct task *task,
                               uint64_t hash);
/* The number of the queue of that name that is not dropped; 0: none. */
uint32_t draft_find_queue(const struct store_memory *memory, struct span name);

#endif
