/* SPDX-License-Identifier: MIT
 *
 * host_ages -- the hosts of a queue by what has been parked there for the longest time: a heap, each
 * host knowing its place in it. The dead hosts of a queue may be a hundred thousand, and the age of what
 * waits for them is asked for at each look at the metrics, on the loop: they are not to be walked.
 */
#include "engine/hosts_internal.h"

#include <stdlib.h>

#define ROOM_FIRST 16

static void place(struct queue *queue, struct host *host, size_t at)
{
    queue->host_ages.heap[at] = host;
    host->age = at + 1;
}

static void rise(struct queue *queue, struct host *host, size_t at)
{
    while (at > 0 && host->oldest_ms < queue->host_ages.heap[(at - 1) / 2]->oldest_ms) {
        place(queue, queue->host_ages.heap[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    place(queue, host, at);
}

static void sink(struct queue *queue, struct host *host, size_t at)
{
    struct host **heap = queue->host_ages.heap;
    size_t count = queue->host_ages.count;

    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && heap[child + 1]->oldest_ms < heap[child]->oldest_ms;
        if (host->oldest_ms <= heap[child]->oldest_ms) {
            break;
        }
        place(queue, heap[child], at);
        at = child;
    }
    place(queue, host, at);
}

static void settle_in(struct queue *queue, struct host *host, size_t at)
{
    rise(queue, host, at);
    sink(queue, host, host->age - 1);
}

static void leave(struct queue *queue, struct host *host)
{
    size_t at = host->age - 1;
    struct host *last = queue->host_ages.heap[--queue->host_ages.count];

    host->age = 0;
    if (last != host) {
        settle_in(queue, last, at);
    }
}

bool host_ages_reserve(struct queue *queue, const struct host *host)
{
    size_t room = queue->host_ages.room == 0 ? ROOM_FIRST : 2 * queue->host_ages.room;

    if (host->age != 0 || queue->host_ages.count < queue->host_ages.room) {
        return true;
    }
    struct host **heap = realloc(queue->host_ages.heap, room * sizeof *heap);
    if (heap == NULL) {
        return false;
    }
    queue->host_ages.heap = heap;
    queue->host_ages.room = room;
    return true;
}

void host_ages_update(struct host *host)
{
    struct queue *queue = host->queue;
    struct schedule_entry first;

    host->oldest_ms = INT64_MAX;
    for (int i = 0; i < WAIT_KINDS; i++) {
        if (schedule_first(&host->parked[i], &first) && first.due_ms < host->oldest_ms) {
            host->oldest_ms = first.due_ms;
        }
    }
    if (host_parked(host) == 0 && host->age != 0) {
        leave(queue, host);
    } else if (host_parked(host) > 0) {
        settle_in(queue, host, host->age != 0 ? host->age - 1 : queue->host_ages.count++);
    }
}

int64_t hosts_oldest_due_ms(const struct queue *queue)
{
    return queue->host_ages.count == 0 ? INT64_MAX : queue->host_ages.heap[0]->oldest_ms;
}

void host_ages_done(struct queue *queue)
{
    free(queue->host_ages.heap);
    queue->host_ages.heap = NULL;
    queue->host_ages.count = queue->host_ages.room = 0;
}
