/* SPDX-License-Identifier: MIT
 *
 * kept -- when an answer that is held in memory (cache.c) may be given without a look into the store.
 * It belongs to its key until its keeping time is over, unless it is forgotten before. Then, once the
 * one who wanted that was told so, no node gives it any more. Among nodes this takes four rules:
 *
 *   the store counts     in the transaction that forgets, by any means (store_postgres_forgotten.c
 *                        has the list); `store->forgotten` changes here before any peer can see that
 *                        this node knows, and what is held from before is never looked at again
 *   a stamp              is taken before a record is read or written, and what has another stamp by the
 *                        time that it would be put is not put: it may have been forgotten in between
 *   the lease            while it runs, peers wait for this node; when it is over they may have
 *                        taken this node for dead and not wait, so nothing is given from memory
 *   who forgets          is told when every node knows, or is gone: forget.c
 *
 * A request that came before that moment may get the answer: it could have been first.
 */
#include "engine/kept_internal.h"
#include "base/plant.h"

/* Of a store of our own, always the same. */
static uint64_t version_of(const struct engine *engine)
{
    return nodes_are_many(engine) ? __atomic_load_n(&engine->store->forgotten, __ATOMIC_ACQUIRE)
                                  : 1;
}

uint64_t kept_stamp(const struct engine *engine)
{
    uint64_t version = version_of(engine);

    PLANT(FORGOTTEN_HELD, version = 1)
    return version == 0 ? 0 : cache_follow(engine->cache, version);
}

void kept_put(struct engine *engine, const struct record *record, uint64_t stamp)
{
    PLANT(STAMP_IGNORED, stamp = kept_stamp(engine))
    if (stamp != 0 && stamp == kept_stamp(engine)) {
        cache_put(engine->cache, record);
    }
}

bool kept_find(struct engine *engine, const struct task *task, struct cache_hit *ret_hit)
{
    bool is_over = nodes_lease_is_over(engine);

    PLANT(HELD_WITHOUT_LEASE, is_over = false)
    return kept_stamp(engine) != 0 && !is_over &&
           cache_find(engine->cache, task, engine_now_ms(engine), ret_hit);
}
