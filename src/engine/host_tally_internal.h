/* SPDX-License-Identifier: MIT
 *
 * host_tally -- inside src/engine only: which hosts fail of late, see host_tally.c.
 */
#ifndef ENGINE_HOST_TALLY_INTERNAL_H
#define ENGINE_HOST_TALLY_INTERNAL_H

#include "task/task.h"

struct attempt;
struct engine;
struct queue;

#define HOST_TALLY_SETS 64 /* a power of two */
#define HOST_TALLY_WAYS 4

/* How a host of a queue is doing of late: host_tally.c. */
struct host_tally {
    const struct queue *queue; /* NULL: the row is free */
    uint64_t hash;
    int64_t began_ms;                  /* of the newer window; monotonic */
    uint64_t attempts[2], failures[2]; /* in the newer window, and in the one before */
    int status;                        /* of the latest failure, like all below */
    uint32_t failed_class;
    int64_t failed_at_ms; /* wall */
    size_t name_len;
    char name[128];
    char reason[TASK_MESSAGE_MAX + 1];
};

struct host_tallies {
    bool is_used; /* some host has failed since the start: else there is nothing to look for */
    struct host_tally rows[HOST_TALLY_SETS][HOST_TALLY_WAYS];
};

/* An attempt has ended, and it is committed. */
void host_tally_note(struct engine *engine, const struct attempt *attempt);

#endif
