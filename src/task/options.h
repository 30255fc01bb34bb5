/* SPDX-License-Identifier: MIT
 *
 * options -- what a task asks for that its queue does not: kept as fields (task/fields.h), so that a
 * task without wishes costs nothing.
 */
#ifndef TASK_OPTIONS_H
#define TASK_OPTIONS_H

#include "base/buf.h"

/* Zeroed: no wish of its own. */
struct task_options {
    int64_t timeout_ms;  /* one attempt; 0: the target's */
    int64_t deadline_ms; /* from creation and from each redrive; 0: none */
    bool has_repeatable, repeatable;
    struct span retry;    /* a policy as JSON on one line; empty: the queue's */
    struct span callback; /* JSON on one line; empty: none */
};

int options_render(const struct task_options *options, struct buf *fields)
    __attribute__((warn_unused_result));
/* Spans point into `fields`. What is not understood is left out. */
void options_read(struct span fields, struct task_options *ret_options);

#endif
