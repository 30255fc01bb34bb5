/* SPDX-License-Identifier: MIT
 *
 * reach -- which queues a caller may see and do something to. What is out of reach is not there for
 * him: the answer is the one for a queue or a task that does not exist. Pure.
 */
#ifndef TASK_REACH_H
#define TASK_REACH_H

#include "base/span.h"

#define REACH_OWN_PREFIX "_" /* queues of such names are the server's own: callbacks, routes */

/* Zeroed: all of them. */
struct reach {
    const struct span
        *queues;        /* names; a * at the end stands for any rest, but never for the _ that
                                * a name of the server's own begins with */
    size_t queue_count; /* 0: every name */
    bool hides_own;     /* the server's own queues are out of reach, named or not */
};

bool reach_is_whole(const struct reach *reach);
bool reach_has(const struct reach *reach, struct span queue);

bool reach_is_own(struct span queue); /* the server's */
bool reach_pattern_is_valid(struct span pattern);

#endif
