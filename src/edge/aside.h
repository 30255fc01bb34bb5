/* SPDX-License-Identifier: MIT
 *
 * aside -- large tasks are read and hashed on a thread of their own, so that a megabyte of JSON does
 * not hold up everybody else's turn. The thread begins with the first such task.
 *
 *   api_task_create --> aside_give --> the thread: parse, fingerprint --> wake-up --> engine_submit
 */
#ifndef EDGE_ASIDE_H
#define EDGE_ASIDE_H

#include "edge/parse_task.h"
#include "loop/loop.h"

#define ASIDE_FROM_BYTES  (256u << 10) /* what is smaller is quicker done than handed over */
#define ASIDE_WAITING_MAX 256

struct aside; /* opaque */

/* One task on its way. The body and the submission's arena are its own. */
struct aside_task {
    struct handover_link link; /* first */
    struct parse_options options;
    struct submission submission;
    struct buf body;
    int failed; /* of the reading */
    struct error error;
};

/* In the loop thread, for each task that has been read. The task stays aside's: whoever submits its
 * submission sets the arena to NULL. */
typedef void (*aside_read_fn)(void *user, struct aside_task *task);

int aside_open(struct loop *loop, aside_read_fn read, void *user, struct aside **ret_aside,
               struct error *err) __attribute__((warn_unused_result));
/* Drops what is on its way. NULL is fine. */
void aside_close(struct aside *aside);

/* False: too many are on their way; the task is still the caller's. */
bool aside_give(struct aside *aside, struct aside_task *task) __attribute__((warn_unused_result));
void aside_task_free(struct aside_task *task); /* NULL is fine */

#endif
