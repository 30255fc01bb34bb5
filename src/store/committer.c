/* SPDX-License-Identifier: MIT
 *
 * committer -- see committer.h. Which hand an operation goes to is all that is decided here.
 */
#include "store/committer.h"
#include "store/hand.h"
#include "store/touched.h"

#include <assert.h>
#include <stdlib.h>

struct committer {
    struct handover *answered;
    struct hand *hands[STORE_WRITERS_MAX];
    size_t count;
};

struct committer *committer_new(struct store *store, const struct clock *clock,
                                committer_wake_fn wake, void *user)
{
    struct committer *committer = calloc(1, sizeof *committer);

    if (committer == NULL) {
        return NULL;
    }
    /* Room for all that can be under way: an answer is never lost for want of it. */
    committer->answered = handover_new(SIZE_MAX);
    bool is_whole = committer->answered != NULL;
    const struct hand_options options = {clock, committer->answered, wake, user};
    for (size_t i = 0; is_whole && i < store_writer_count(store); i++) {
        committer->hands[i] = hand_new(store_writer(store, i), &options);
        is_whole = committer->hands[i] != NULL;
        committer->count += is_whole;
    }
    if (!is_whole) {
        committer_free(committer);
        return NULL;
    }
    return committer;
}

void committer_free(struct committer *committer)
{
    if (committer == NULL) {
        return;
    }
    for (size_t i = 0; i < committer->count; i++) {
        hand_free(committer->hands[i]);
    }
    handover_free(committer->answered);
    free(committer);
}

bool committer_submit(struct committer *committer, struct op *op)
{
    /* The upper half: the sets of the batches go by the lower one. */
    size_t index = committer->count > 1 ? (touched_order(op) >> 32) % committer->count : 0;

    assert(!op->is_patient || !op->is_kept);
    op->result = RESULT_NONE;
    op->fault = 0;
    op->mark = 0;
    op->is_unknown = 0;
    return hand_give(committer->hands[index], op);
}

struct op *committer_take(struct committer *committer)
{
    return committer_take_some(committer, SIZE_MAX);
}

struct op *committer_take_some(struct committer *committer, size_t most)
{
    return (struct op *)handover_take(committer->answered, most, 0);
}

bool committer_step(struct committer *committer, int64_t wait_ms)
{
    bool has_more = false;

    for (size_t i = 0; i < committer->count; i++) {
        has_more |= hand_step(committer->hands[i], wait_ms);
    }
    return has_more;
}

int committer_start(struct committer *committer, struct error *err)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < committer->count; i++) {
        failed = hand_start(committer->hands[i], err);
    }
    return failed;
}

void committer_stop(struct committer *committer)
{
    for (size_t i = 0; i < committer->count; i++) {
        hand_close(committer->hands[i]);
    }
    for (size_t i = 0; i < committer->count; i++) {
        hand_join(committer->hands[i]);
    }
}

void committer_abandon(struct committer *committer)
{
    for (size_t i = 0; i < committer->count; i++) {
        hand_abandon(committer->hands[i]);
    }
}

int committer_health(struct committer *committer)
{
    int failed = 0;

    for (size_t i = 0; failed == 0 && i < committer->count; i++) {
        failed = hand_health(committer->hands[i]);
    }
    return failed;
}

uint64_t committer_unknowns(struct committer *committer)
{
    uint64_t all = 0;

    for (size_t i = 0; i < committer->count; i++) {
        all += hand_unknowns(committer->hands[i]);
    }
    return all;
}

struct committer_stats committer_stats(struct committer *committer)
{
    struct committer_stats all = {0};

    for (size_t i = 0; i < committer->count; i++) {
        struct committer_stats one = hand_stats(committer->hands[i]);
        all.commits += one.commits;
        all.operations += one.operations;
        all.faults += one.faults;
        histogram_gather(&one.took, &all.took);
        histogram_gather(&one.batch, &all.batch);
    }
    return all;
}
