/* SPDX-License-Identifier: MIT
 *
 * kept -- inside src/engine only: kept answers in memory, when they may be given, and what is told
 * once something was forgotten, or a queue was changed.
 */
#ifndef ENGINE_KEPT_INTERNAL_H
#define ENGINE_KEPT_INTERNAL_H

#include "engine/engine_internal.h"

/* cache.c; NULL: there is none */
struct cache_hit {
    struct task_id id;
    const struct answer *answer; /* until the next call */
    bool is_omitted;
    bool is_same; /* the fingerprint; false: the key belongs to another request */
};
struct cache *cache_new(size_t bytes_max);
void cache_free(struct cache *cache);
void cache_clear(struct cache *cache);
/* How often it was emptied, from 1; 0: there is none. Emptied now, if `version` is another one than it
 * was the last time. */
uint64_t cache_follow(struct cache *cache, uint64_t version);
void cache_put(struct cache *cache, const struct record *record);
bool cache_find(struct cache *cache, const struct task *task, int64_t now_ms,
                struct cache_hit *ret_hit);

/* kept.c */
/* Taken before a record is read or written, and given to kept_put with it; 0: it is not put. */
uint64_t kept_stamp(const struct engine *engine);
void kept_put(struct engine *engine, const struct record *record, uint64_t stamp);
bool kept_find(struct engine *engine, const struct task *task, struct cache_hit *ret_hit);

/* forget.c */
struct forgotten {
    struct forgotten *next;
    enum reply_kind kind; /* DELETED, UNKNOWN_TASK; QUEUE: the queue as it is by then; FAULT */
    uint64_t exchange;
    const struct queue *queue; /* QUEUE */
    bool is_change;            /* QUEUE, DELETED: of a queue that was changed, … */
    bool is_new;               /* … and by that made */
    struct error error;        /* FAULT */
    uint64_t asked;            /* forget.c's own, as the next one */
    int64_t until_ms;          /* monotonic */
};
/* Replies as `what` says, once no node replays what was forgotten any more, and every node has followed
 * the queues as they were changed. */
void forget_tell(struct engine *engine, const struct forgotten *what);
void forget_told(struct engine *engine, uint64_t told); /* by a beat */
void forget_tick(struct engine *engine);
int64_t forget_wait_ms(const struct engine *engine); /* until it wants a tick; INT64_MAX: none */
void forget_free_all(struct engine *engine);

#endif
