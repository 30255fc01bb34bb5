/* SPDX-License-Identifier: MIT
 *
 * host_table -- all hosts by queue and name. A hash table that grows with the number of hosts, by one
 * bucket for each host that is added: those of one bucket are moved, never all of them, so that no task
 * waits while a large table is made anew.
 *
 *   buckets:  0 ... half ... count ... 2 * half
 *             bucket i was split in two, i and half + i, if half + i < count
 *
 * Names come from producers, so the hash has a secret. The table does not shrink: what it keeps for
 * hosts that are gone is a pointer each.
 */
#include "engine/hosts_internal.h"

#include <stdlib.h>

#define BUCKETS_FIRST 64 /* a power of two */

uint64_t host_table_hash(const struct engine *engine, const struct queue *queue, struct span name)
{
    struct siphash hash;

    siphash_begin(&hash, engine->hosts_secret);
    siphash_add(&hash, name);
    return siphash_end(&hash) + queue->number;
}

static struct host **bucket_of(const struct engine *engine, uint64_t hash)
{
    size_t at = (size_t)(hash & (2 * engine->hosts.half - 1));

    return &engine->hosts.buckets[at < engine->hosts.count ? at : at - engine->hosts.half];
}

struct host *host_table_find(const struct engine *engine, const struct queue *queue,
                             struct span name)
{
    uint64_t hash = host_table_hash(engine, queue, name);
    struct host *host = engine->hosts.count == 0 ? NULL : *bucket_of(engine, hash);

    while (host != NULL && (host->queue != queue || host->hash != hash ||
                            !span_equal((struct span){host->name, host->name_len}, name))) {
        host = host->next;
    }
    return host;
}

static bool make_room(struct engine *engine)
{
    size_t room = engine->hosts.room == 0 ? BUCKETS_FIRST : 2 * engine->hosts.room;

    if (engine->hosts.count < engine->hosts.room) {
        return true;
    }
    struct host **buckets = realloc(engine->hosts.buckets, room * sizeof *buckets);
    if (buckets == NULL) {
        return false;
    }
    engine->hosts.buckets = buckets;
    engine->hosts.room = room;
    if (engine->hosts.count == 0) {
        for (size_t i = 0; i < room; i++) {
            buckets[i] = NULL;
        }
        engine->hosts.count = engine->hosts.half = room;
    }
    return true;
}

/* One bucket more, with its part of the one that it is split from. */
static void split_next(struct engine *engine)
{
    struct host **link = &engine->hosts.buckets[engine->hosts.count - engine->hosts.half];
    struct host **added = &engine->hosts.buckets[engine->hosts.count];

    *added = NULL;
    while (*link != NULL) {
        struct host *host = *link;
        if ((host->hash & engine->hosts.half) != 0) {
            *link = host->next;
            host->next = *added;
            *added = host;
        } else {
            link = &host->next;
        }
    }
    if (++engine->hosts.count == 2 * engine->hosts.half) {
        engine->hosts.half = engine->hosts.count;
    }
}

struct host *host_table_add(struct engine *engine, struct queue *queue, struct span name)
{
    bool has_table = engine->hosts.count > 0 || make_room(engine);
    struct host *host = has_table ? calloc(1, sizeof *host + name.len) : NULL;

    if (host == NULL) {
        return NULL;
    }
    span_copy(host->name, name);
    host->name_len = name.len;
    host->queue = queue;
    host->hash = host_table_hash(engine, queue, name);
    if (engine->hosts.host_count >= engine->hosts.count && make_room(engine)) {
        split_next(engine); /* without memory for it they are more to a bucket */
    }
    struct host **bucket = bucket_of(engine, host->hash);
    host->next = *bucket;
    *bucket = host;
    engine->hosts.host_count++;
    return host;
}

void host_table_drop(struct engine *engine, struct host *host)
{
    struct host **link = bucket_of(engine, host->hash);

    while (*link != host) {
        link = &(*link)->next;
    }
    *link = host->next;
    engine->hosts.host_count--;
}

void host_table_done(struct engine *engine)
{
    free(engine->hosts.buckets);
    engine->hosts.buckets = NULL;
    engine->hosts.count = engine->hosts.half = engine->hosts.room = engine->hosts.host_count = 0;
}
