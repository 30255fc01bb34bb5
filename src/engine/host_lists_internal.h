/* SPDX-License-Identifier: MIT
 *
 * host_lists -- shared only inside engine: how the engine and its queues hold their hosts. Comes with
 * engine_internal.h; what is done with them is in hosts_internal.h.
 */
#ifndef ENGINE_HOST_LISTS_INTERNAL_H
#define ENGINE_HOST_LISTS_INTERNAL_H

#include <stddef.h>

struct host;

struct host_list_ends {
    struct host *first, *last;
};

/* By queue and name: host_table.c. Zeroed: empty. */
struct host_table {
    struct host **buckets;
    size_t count, half, room; /* of buckets */
    size_t host_count;
};

/* A heap by the age of what is parked: host_ages.c. Zeroed: empty. */
struct host_ages {
    struct host **heap;
    size_t count, room;
};

#endif
