/* SPDX-License-Identifier: MIT
 *
 * lists -- inside src/engine only: how many lists and bulk commands callers may have under way.
 */
#ifndef ENGINE_LISTS_INTERNAL_H
#define ENGINE_LISTS_INTERNAL_H

#include "engine/engine.h"

/* As inspect_start, for a long read that a caller waits for. False: too many of them are under way, or
 * of this caller's, or there is no room at all; the read is freed. */
bool lists_start(struct engine *engine, struct read *read, struct span who);
void lists_refuse(struct engine *engine, uint64_t exchange);      /* overloaded, and why */
void lists_refuse_bulk(struct engine *engine, uint64_t exchange); /* the same, of a bulk command */
void lists_end(struct engine *engine, struct read *read); /* it came back; or it is no list */
/* The caller has left: it ends soon. False: no list is his. */
bool lists_leave(struct engine *engine, uint64_t exchange);

/* Whether a purge, a run or a redrive may begin: they have places of their own, as many. */
bool lists_may_walk(const struct engine *engine);

#define LISTS_WHO_MAX      TASK_QUEUE_NAME_MAX /* bytes that are kept of a caller's name */
#define LISTS_LIMITED(max) ((max) / 4) /* of them, for one token that is limited to queues */

/* What lasts, redrives or runs: how many are live, and how many of them this caller has begun. */
struct lists_live {
    size_t all, own, max;
};

/* Whether he may begin one more. */
bool lists_may_last(const struct ask *ask, const struct lists_live *live);
bool lists_is_his(const char *kept, struct span who); /* `kept` is cut if long */

#endif
