/* SPDX-License-Identifier: MIT
 *
 * committer_rig -- a committer over a store that does as the script says, with a clock that the test
 * moves.
 */
#ifndef COMMITTER_RIG_H
#define COMMITTER_RIG_H

#include "harness.h"

#include "store/committer.h"

#define OPS_MAX    1200
#define SCRIPT_MAX 64

struct scripted {
    struct store base;      /* first */
    int faults[SCRIPT_MAX]; /* of apply and touch, one after the other; then 0 */
    size_t calls;
    size_t batch_sizes[SCRIPT_MAX];
    int64_t applied[OPS_MAX]; /* rows, in order */
    size_t applied_count;
    bool is_there; /* what came to FAULT_UNKNOWN had been committed */
};

struct world {
    struct clock clock; /* first */
    int64_t now_ms;
    struct scripted store;
    struct committer *committer;
    struct op ops[OPS_MAX];
    size_t wakes;
};

extern struct world world; /* large */

/* The faults of apply and touch, one after the other; then none. */
void committer_rig_begin(const int *faults, size_t count);
int64_t committer_rig_now_ms(const struct clock *clock);
void committer_rig_wake(void *user);
extern const struct store_ops committer_rig_ops;
/* A CANCEL of that row, in the given place of world.ops. */
struct op *committer_rig_submit(size_t index, int64_t row);
size_t committer_rig_take_all(void); /* how many were answered */

#endif
