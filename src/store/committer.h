/* SPDX-License-Identifier: MIT
 *
 * committer -- group commit, above the backends: everything that waits becomes one transaction and
 * one fsync, and is answered together.
 *
 *   submit --> waiting --> one batch --> apply --0----------------------------> answered
 *                ^   (a task or key at most once a batch)  |
 *                |                                         | a fault, certainly not applied
 *                |                                         +--> one by one: each its own commit
 *                |                                         | FAULT_UNKNOWN: in doubt
 *                '--- a later commit worked, it is not there: again <-- doubt --+--> after doubt_ms:
 *                      (it is there: answered, store_recall)                    answered UNKNOWN (I7)
 *
 * Two kinds of operations are never given up while the store may come back, for what they have stored
 * would have no owner: those that no caller waits for (is_patient: leases and settles), which are
 * applied until they are answered, and records (is_kept), which stay in doubt until a commit works.
 * The caller of a record is told after doubt_ms (is_unknown, committer_unknowns); a record that turns
 * out to be there later is answered as any other, and one that is not is refused and not applied.
 *
 * Where the store can be written to by several at once (store_writer_count), this is done by as many
 * hands, each with batches of its own. Operations on one key (those that bind it and those that
 * may free it), on one task that has none, the claims and settings of one queue, and what people
 * did go through the same hand, in order; between others there is no order, as between two nodes.
 *
 * committer_step does the work once, on the calling thread: the simulation's way. committer_start
 * runs it on a thread of its own for each hand.
 */
#ifndef STORE_COMMITTER_H
#define STORE_COMMITTER_H

#include "base/clock.h"
#include "base/histogram.h"
#include "store/store.h"

#define COMMITTER_WAITING_MAX 65536 /* operations that wait for a hand; then submit refuses */
#define COMMITTER_BATCH_MAX   512
#define COMMITTER_DOUBT_MS    5000

struct committer; /* opaque */

/* Called after something was answered, from whichever thread stepped: wake the taker. */
typedef void (*committer_wake_fn)(void *user);

/* NULL: out of memory. The store stays the caller's. */
struct committer *committer_new(struct store *store, const struct clock *clock,
                                committer_wake_fn wake, void *user);
void committer_free(struct committer *committer); /* NULL is fine; stopped and empty by then */

/* From the loop thread. False: full or stopping; the operation is still the caller's. */
bool committer_submit(struct committer *committer, struct op *op)
    __attribute__((warn_unused_result));

/* What has been answered, of each hand in the order of submission as far as results allow, linked by
 * op->link; NULL: nothing. From the loop thread. */
struct op *committer_take(struct committer *committer);

/* So many of them at most; what is left is taken by the next call. */
struct op *committer_take_some(struct committer *committer, size_t most);

/* One round of work; waits up to wait_ms for something to do. False when stopping and nothing is
 * left. */
bool committer_step(struct committer *committer, int64_t wait_ms);

int committer_start(struct committer *committer, struct error *err);
/* Takes no more, finishes what waits (bounded by the store's own faults), joins the thread. */
void committer_stop(struct committer *committer);

/* Everything that has not been applied comes back with FAULT_CLOSING, without a look at the store. Not
 * while a thread steps. */
void committer_abandon(struct committer *committer);

/* 0 while the last commit of every hand worked, else a fault: readiness. From any thread. */
int committer_health(struct committer *committer);

/* How many operations have been marked is_unknown so far, and not answered yet at that time: when it
 * has grown, there are callers to tell. From any thread. */
uint64_t committer_unknowns(struct committer *committer);

struct committer_stats {
    uint64_t commits, operations, faults;
    struct histogram took;  /* a commit, from its beginning to its end */
    struct histogram batch; /* operations in it: histogram_counts */
};
struct committer_stats committer_stats(struct committer *committer); /* from any thread */

#endif
