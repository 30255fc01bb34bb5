/* SPDX-License-Identifier: MIT
 *
 * against -- what a server with this configuration would find left behind in that store: queues and
 * routes that it does not have, routes whose keys would mean something else, settings that need what it lacks, tasks for targets that are gone. Looks
 * only, also while a server has the store open.
 */
#ifndef CLI_AGAINST_H
#define CLI_AGAINST_H

#include "base/arena.h"
#include "config/config.h"
#include "task/task.h"

#define AGAINST_READ_MAX 1000 /* tasks that are read of one queue to see where they go */

struct left {
    struct span name; /* of the queue, or of the route */
    bool is_route;
    const char *why; /* missing, route_keys, settings, targets */
    struct span detail;
    uint64_t counts[TASK_STATE_COUNT];
};

struct left_list {
    struct left *at; /* in the arena */
    size_t count;
};

/* What is left, in order of creation; nothing that is empty, but for settings that cannot be used. */
int against_look(const struct config *config, struct span store, struct arena *arena,
                 struct left_list *ret_left, struct error *err) __attribute__((warn_unused_result));

#endif
