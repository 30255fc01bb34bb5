/* SPDX-License-Identifier: MIT
 *
 * runs -- inside src/engine only, by way of engine_internal.h: what came of the tasks that a person has
 * made due all at once.
 */
#ifndef ENGINE_RUNS_INTERNAL_H
#define ENGINE_RUNS_INTERNAL_H

#include "engine/engine.h"

struct queue;
struct read;
struct run;

/* False: too many are under way, of this queue or at all, or of a caller who is limited to queues. */
bool runs_may_begin(const struct engine *engine, const struct ask *ask, const struct queue *queue,
                    struct error *ret_why);
/* NULL: no memory. It is being walked until runs_walked, which replies: with the run, or with the fault
 * that `error` has. */
struct run *runs_new(struct engine *engine, const struct queue *queue, struct span who);
void runs_add(struct run *run, int64_t row, const struct life *life);
void runs_walked(struct engine *engine, struct run *run, uint64_t exchange,
                 const struct error *error);

/* A task has come to an outcome at this node. Without a queue: it was deleted, and is known by its number
 * only. */
void runs_tally(struct engine *engine, const struct queue *queue, int64_t row,
                enum task_state state);
/* With each beat: what has come to an outcome at other nodes. */
void runs_look(struct engine *engine);
/* What nodes that are gone have counted is of no use any more. Of READ_MEMOS. */
void runs_bury(struct engine *engine, const struct read *read);
void runs_ask(struct engine *engine, const struct ask *ask);
void runs_free_all(struct engine *engine);

#endif
