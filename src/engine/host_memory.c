/* SPDX-License-Identifier: MIT
 *
 * host_memory -- which hosts gave no answer lately, by queue. A host is in the table of hosts only while
 * something is under way or waits there (host_table.c); without this, new tasks for hosts that are known to
 * be dead would be taken for tasks of healthy ones, one for each host, and take all places of their queue
 * until they time out. Also which hosts answered with an error: a retry there is not one at a silent host.
 *
 * 16 bytes a host, HOST_MEMORY_MAX of them at most: of those that fall into one set the
 * one that was noted first makes room. Begins with the first failure; without memory for it no host is
 * remembered. The hash has a secret, so producers cannot choose which hosts fall together.
 */
#include "engine/hosts_internal.h"

#include <stdlib.h>

#define HOST_MEMORY_WAYS 4
#define HOST_MEMORY_SETS (HOST_MEMORY_MAX / HOST_MEMORY_WAYS) /* a power of two */

struct remembered_host {
    uint64_t hash;          /* of its name and queue */
    uint64_t until_ms : 63; /* monotonic: it is remembered; 0: there is none */
    uint64_t has_answered : 1;
};

struct host_memory {
    struct remembered_host rows[HOST_MEMORY_SETS][HOST_MEMORY_WAYS];
};

static struct remembered_host *set_of(const struct engine *engine, uint64_t hash)
{
    uint64_t spread = hash * UINT64_C(0x9e3779b97f4a7c15); /* of one host in many queues, too */

    return engine->host_memory->rows[spread >> 32 & (HOST_MEMORY_SETS - 1)];
}

static struct remembered_host *find(const struct engine *engine, uint64_t hash)
{
    struct remembered_host *set = engine->host_memory == NULL ? NULL : set_of(engine, hash);

    for (int i = 0; set != NULL && i < HOST_MEMORY_WAYS; i++) {
        if (set[i].hash == hash && set[i].until_ms != 0) {
            return &set[i];
        }
    }
    return NULL;
}

static struct remembered_host *oldest_of(struct remembered_host *set)
{
    struct remembered_host *oldest = set;

    for (int i = 1; i < HOST_MEMORY_WAYS; i++) {
        oldest = set[i].until_ms < oldest->until_ms ? &set[i] : oldest;
    }
    return oldest;
}

enum host_fate host_memory_of(const struct engine *engine, uint64_t hash)
{
    const struct remembered_host *row = find(engine, hash);

    if (row == NULL || clock_mono_ms(engine->options.clock) >= (int64_t)row->until_ms) {
        return HOST_UNKNOWN;
    }
    return row->has_answered != 0 ? HOST_ANSWERED : HOST_FAILED;
}

void host_memory_note(struct engine *engine, const struct host *host, enum host_fate fate)
{
    if (engine->host_memory == NULL) {
        engine->host_memory = calloc(1, sizeof *engine->host_memory);
    }
    if (engine->host_memory == NULL) {
        return;
    }
    struct remembered_host *row = find(engine, host->hash);
    row = row != NULL ? row : oldest_of(set_of(engine, host->hash));
    row->hash = host->hash;
    row->until_ms = (uint64_t)(clock_mono_ms(engine->options.clock) + HOST_MEMORY_MS);
    row->has_answered = fate == HOST_ANSWERED;
}

void host_memory_heard(struct engine *engine, const struct host *host)
{
    struct remembered_host *row = find(engine, host->hash);

    if (row != NULL) {
        *row = (struct remembered_host){0};
    }
}

void host_memory_done(struct engine *engine)
{
    free(engine->host_memory);
    engine->host_memory = NULL;
}
