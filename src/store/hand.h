/* SPDX-License-Identifier: MIT
 *
 * hand -- one of the committer's hands: what is given to it becomes batches, one after the other, on a
 * writer of the store that is its own. For the committer only, which sees to it that what must stay in
 * order comes to one hand.
 */
#ifndef STORE_HAND_H
#define STORE_HAND_H

#include "base/handover.h"
#include "store/committer.h"

struct hand; /* opaque */

struct hand_options {
    const struct clock *clock;
    struct handover *answered; /* has room for all */
    committer_wake_fn wake;
    void *user;
};

/* NULL: out of memory. */
struct hand *hand_new(struct store *store, const struct hand_options *options);
void hand_free(struct hand *hand); /* NULL is fine */

/* As the verbs of the committer. */
bool hand_give(struct hand *hand, struct op *op);
bool hand_step(struct hand *hand, int64_t wait_ms);
int hand_start(struct hand *hand, struct error *err);
void hand_close(struct hand *hand); /* takes no more */
void hand_join(struct hand *hand);  /* after close: finishes what waits */
void hand_abandon(struct hand *hand);
int hand_health(struct hand *hand);
uint64_t hand_unknowns(struct hand *hand);
struct committer_stats hand_stats(struct hand *hand);

#endif
