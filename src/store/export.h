/* SPDX-License-Identifier: MIT
 *
 * export -- everything in a store as lines of JSON, one record each: queues, tasks in order of
 * creation, memos, acts. Walks by cursor and never holds a picture of the whole: what changes
 * meanwhile is as it was when its turn came, what is deleted meanwhile may be missing.
 *
 * What was deleted with its queue, and only waits to be forgotten, is left out.
 */
#ifndef STORE_EXPORT_H
#define STORE_EXPORT_H

#include "store/store.h"

#define EXPORT_FLUSH_BYTES ((size_t)256 << 10) /* handed over at a time, about */

struct export_options {
    struct span queue; /* only this one's tasks; empty: all */
    unsigned states;   /* bits, 1 << state; 0: all */
    int64_t after_row; /* only tasks above this */
};

struct export_counts {
    uint64_t queues, tasks, memos, acts;
    struct task_id last; /* the newest task that was handed over; row 0: none */
};

/* Whole lines, to be written somewhere. Return non-zero to stop: it is passed up. */
typedef int (*export_lines_fn)(void *user, struct span lines, const struct export_counts *counts);

/* With a queue or states only the tasks asked for and the queues they are in: memos and acts are about
 * the whole. ret_counts is filled in also on a fault: how far it got. FAULT_INPUT: no such queue. */
int export_run(struct store *store, const struct export_options *options, export_lines_fn write,
               void *user, struct export_counts *ret_counts, struct error *err)
    __attribute__((warn_unused_result));

#endif
