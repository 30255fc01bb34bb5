/* SPDX-License-Identifier: MIT
 *
 * cache -- kept answers of the gateway in memory, so that a replay costs no look into the store. An
 * answer that is kept never changes (I4) and belongs to its key until its keeping time is over, which
 * is asked each time; so what is found here is what the store would say, as long as no key is forgotten
 * before that: then all of it goes (kept.c). The one that was used longest ago goes first.
 */
#include "engine/kept_internal.h"
#include "base/entropy.h"
#include "base/siphash.h"

#include <stdlib.h>
#include <string.h>

#define ENTRY_USUAL_BYTES 256 /* full of these, a bucket holds about one */
#define BUCKETS_MIN       64
#define ENTRY_PART        16 /* of the whole: a larger answer is read from the store each time */

struct cached {
    struct cached *next;          /* in its bucket */
    struct cached *newer, *older; /* by use */
    uint64_t hash;
    size_t bytes;
    uint32_t queue;
    struct task_id id;
    unsigned char fingerprint[TASK_FINGERPRINT_BYTES];
    int64_t keep_until_ms;
    bool is_omitted;
    struct span scope, key;
    struct answer answer; /* settled_by is not here */
    char text[];
};

struct cache {
    struct cached **buckets; /* a new key looks through a whole one: each entry is a cache miss */
    size_t bucket_mask;
    struct cached *newest, *oldest;
    size_t bytes, bytes_max;
    uint64_t emptied; /* how often, from 1 */
    uint64_t version; /* of what was forgotten, the last time it was followed */
    unsigned char secret[SIPHASH_SECRET_BYTES]; /* keys come from outside */
};

/* A power of two. */
static size_t bucket_count(size_t bytes_max)
{
    size_t count = BUCKETS_MIN;

    while (count < bytes_max / ENTRY_USUAL_BYTES) {
        count *= 2;
    }
    return count;
}

struct cache *cache_new(size_t bytes_max)
{
    size_t count = bucket_count(bytes_max);
    struct cache *cache = bytes_max == 0 ? NULL : calloc(1, sizeof *cache);

    if (cache == NULL) {
        return NULL;
    }
    cache->buckets = calloc(count, sizeof(struct cached *)); /* pages come as they are used */
    if (cache->buckets == NULL) {
        free(cache);
        return NULL;
    }
    cache->bucket_mask = count - 1;
    cache->bytes_max = bytes_max;
    cache->emptied = 1;
    entropy_fill(cache->secret, sizeof cache->secret);
    return cache;
}

static struct cached **bucket_of(const struct cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & cache->bucket_mask];
}

static uint64_t hash_of(const struct cache *cache, uint32_t queue, struct span scope,
                        struct span key)
{
    struct siphash hash;

    siphash_begin(&hash, cache->secret);
    siphash_add(&hash, (struct span){.at = (const char *)&queue, .len = sizeof queue});
    siphash_add(&hash, scope);
    siphash_add(&hash, key);
    return siphash_end(&hash);
}

/* --- by use ------------------------------------------------------------------------------------------ */

static void unlink_use(struct cache *cache, struct cached *entry)
{
    *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
}

static void link_newest(struct cache *cache, struct cached *entry)
{
    entry->newer = NULL;
    entry->older = cache->newest;
    *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

static void drop(struct cache *cache, struct cached *entry)
{
    struct cached **link = bucket_of(cache, entry->hash);

    while (*link != entry) {
        link = &(*link)->next;
    }
    *link = entry->next;
    unlink_use(cache, entry);
    cache->bytes -= entry->bytes;
    free(entry);
}

void cache_clear(struct cache *cache)
{
    if (cache == NULL) {
        return;
    }
    while (cache->oldest != NULL) {
        drop(cache, cache->oldest);
    }
    cache->emptied++; /* also when there was nothing: what is being read now may be forgotten */
}

uint64_t cache_follow(struct cache *cache, uint64_t version)
{
    if (cache == NULL) {
        return 0;
    }
    if (cache->version != version) {
        cache_clear(cache);
        cache->version = version;
    }
    return cache->emptied;
}

void cache_free(struct cache *cache)
{
    cache_clear(cache);
    if (cache != NULL) {
        free(cache->buckets);
    }
    free(cache);
}

/* --- putting and finding --------------------------------------------------------------------------------- */

static struct cached *find(struct cache *cache, uint64_t hash, uint32_t queue, struct span scope,
                           struct span key)
{
    struct cached *entry = *bucket_of(cache, hash);

    while (entry != NULL && (entry->hash != hash || entry->queue != queue ||
                             !span_equal(entry->key, key) || !span_equal(entry->scope, scope))) {
        entry = entry->next;
    }
    return entry;
}

static struct span put_text(char **to, struct span text)
{
    struct span kept = {.at = *to, .len = text.len};

    span_copy(*to, text);
    *to += text.len;
    return kept;
}

static struct cached *make(const struct record *record, uint64_t hash)
{
    const struct answer *answer = &record->answer;
    size_t len =
        record->task.scope.len + record->task.key.len + answer->headers.len + answer->body.len;
    struct cached *entry = malloc(sizeof *entry + len);

    if (entry == NULL) {
        return NULL; /* the store has it */
    }
    char *to = entry->text;
    *entry = (struct cached){.hash = hash,
                             .bytes = sizeof *entry + len,
                             .queue = record->task.queue,
                             .id = record->task.id,
                             .keep_until_ms = record->life.keep_until_ms,
                             .is_omitted = (record->life.flags & LIFE_OMITTED) != 0,
                             .scope = put_text(&to, record->task.scope),
                             .key = put_text(&to, record->task.key),
                             .answer = {.status = answer->status,
                                        .headers = put_text(&to, answer->headers),
                                        .body = put_text(&to, answer->body)}};
    memcpy(entry->fingerprint, record->task.fingerprint, sizeof entry->fingerprint);
    return entry;
}

void cache_put(struct cache *cache, const struct record *record)
{
    bool is_kept = (record->life.state == TASK_SUCCEEDED || record->life.state == TASK_FAILED) &&
                   record->is_bound && record->answer.status != 0 &&
                   record->life.keep_until_ms != 0 && record->task.key.len > 0 &&
                   !route_is_untold(record);

    if (cache == NULL || !is_kept ||
        record->answer.body.len + record->answer.headers.len > cache->bytes_max / ENTRY_PART) {
        return;
    }
    uint64_t hash = hash_of(cache, record->task.queue, record->task.scope, record->task.key);
    struct cached *old =
        find(cache, hash, record->task.queue, record->task.scope, record->task.key);
    struct cached *entry = make(record, hash);
    if (old != NULL) {
        drop(cache, old);
    }
    if (entry == NULL) {
        return;
    }
    struct cached **bucket = bucket_of(cache, hash);
    entry->next = *bucket;
    *bucket = entry;
    link_newest(cache, entry);
    cache->bytes += entry->bytes;
    while (cache->bytes > cache->bytes_max && cache->oldest != entry) {
        drop(cache, cache->oldest);
    }
}

bool cache_find(struct cache *cache, const struct task *task, int64_t now_ms,
                struct cache_hit *ret_hit)
{
    if (cache == NULL) {
        return false;
    }
    uint64_t hash = hash_of(cache, task->queue, task->scope, task->key);
    struct cached *entry = find(cache, hash, task->queue, task->scope, task->key);
    if (entry == NULL) {
        return false;
    }
    if (entry->keep_until_ms <= now_ms) {
        drop(cache, entry);
        return false;
    }
    unlink_use(cache, entry);
    link_newest(cache, entry);
    *ret_hit = (struct cache_hit){
        .id = entry->id,
        .answer = &entry->answer,
        .is_omitted = entry->is_omitted,
        .is_same = memcmp(entry->fingerprint, task->fingerprint, sizeof entry->fingerprint) == 0};
    return true;
}
