/* SPDX-License-Identifier: MIT
 *
 * stage -- where the results of a batch wait until its commit has succeeded. An operation whose
 * batch failed is applied again, so nothing of it may have been written over before.
 */
#ifndef STORE_STAGE_H
#define STORE_STAGE_H

#include "store/store.h"

/* What an operation has come to, if the commit succeeds. */
struct staged {
    enum op_result result;
    struct task_id id;   /* of the task found: its tail too; row 0: none was */
    uint32_t task_queue; /* likewise: its queue */
    struct life life;    /* as it is now, or as it was found */
    enum task_state was; /* the state it was found in */
    struct task task;    /* LEASE that wants the request, DONE */
    struct edit edit;    /* likewise */
    uint32_t queue;      /* QUEUE */
    bool is_paused;      /* QUEUE, DONE: as it is written */
    uint64_t version;    /* likewise */
    bool has_life;       /* RECORD, DONE: it was recorded with this life, not with its own */
};

/* Zeroed is empty. */
struct stage {
    struct staged *items; /* twice `room`: behind the operations what they spawn */
    size_t room;
};

/* Room for a batch of `count`, and for what each of them may spawn. */
int stage_begin(struct stage *stage, size_t count) __attribute__((warn_unused_result));
/* Where the result of an operation goes. */
struct staged *stage_at(const struct stage *stage, size_t index);
/* Likewise of what it spawns, empty; for an operation that is DONE, exactly once. */
struct staged *stage_spawn(const struct stage *stage, size_t index);
/* After the commit: hands the results over to the operations. */
void stage_publish(const struct stage *stage, struct op *ops[], size_t count);
void stage_done(struct stage *stage);

#endif
