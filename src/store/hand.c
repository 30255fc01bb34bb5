/* SPDX-License-Identifier: MIT
 *
 * hand -- see hand.h. Only this file decides what a failed commit means for those who wait (I7):
 * "refused" is said only when it is certain that nothing was kept.
 */
#include "store/hand.h"
#include "base/plant.h"
#include "store/touched.h"

#include <pthread.h>
#include <stdlib.h>

#define IDLE_WAIT_MS   1000
#define DOUBT_POLL_MS  20  /* between two looks at a store that fails */
#define HEALTH_POLL_MS 250 /* between two looks at one that failed and is left alone since */

struct hand {
    struct store *store;
    struct hand_options options;
    struct handover *incoming;
    pthread_t thread;
    bool has_thread;

    /* The stepping thread's own. */
    struct op *held_first, **held_last; /* taken, not yet in a batch */
    struct op *doubt;                   /* their commit failed */
    int64_t doubt_since_ms;
    int64_t looked_at_ms; /* monotonic: whether the store is well again */
    struct touched touched;

    int health;                           /* atomic */
    uint64_t commits, operations, faults; /* atomic */
    uint64_t unknowns;                    /* atomic: operations that were marked is_unknown */
    struct histogram took, batch;         /* shared: see committer_stats */
    uint64_t unknowns_seen;               /* the stepping thread's: when the taker was last woken */
};

static struct op *next_op(struct op *op)
{
    return (struct op *)op->link.next;
}

struct hand *hand_new(struct store *store, const struct hand_options *options)
{
    struct hand *hand = calloc(1, sizeof *hand);

    if (hand == NULL) {
        return NULL;
    }
    *hand = (struct hand){
        .store = store,
        .options = *options,
        .incoming = handover_new(COMMITTER_WAITING_MAX),
        .held_last = &hand->held_first,
        .touched.now = 1,
    };
    if (hand->incoming == NULL) {
        hand_free(hand);
        return NULL;
    }
    return hand;
}

void hand_free(struct hand *hand)
{
    if (hand == NULL) {
        return;
    }
    handover_free(hand->incoming);
    free(hand);
}

bool hand_give(struct hand *hand, struct op *op)
{
    return handover_give(hand->incoming, &op->link);
}

/* --- forming a batch --------------------------------------------------------------------------- */

static void hold(struct hand *hand, struct op *op)
{
    op->link.next = NULL;
    *hand->held_last = op;
    hand->held_last = (struct op **)&op->link.next;
}

/* Takes from what is held, in order, leaving for the next batch what must not share this one. */
static size_t form_batch(struct hand *hand, struct op *batch[COMMITTER_BATCH_MAX])
{
    struct op *op = hand->held_first;
    size_t count = 0;

    touched_clear(&hand->touched);
    hand->held_first = NULL;
    hand->held_last = &hand->held_first;
    while (op != NULL) {
        struct op *next = next_op(op);
        if (count < COMMITTER_BATCH_MAX && touched_add(&hand->touched, op)) {
            batch[count++] = op;
        } else {
            hold(hand, op);
        }
        op = next;
    }
    return count;
}

/* --- answering --------------------------------------------------------------------------------- */

/* The error says the same as the fault: callers are told what the error says. */
static void answer(struct hand *hand, struct op *op, int fault, const struct error *err)
{
    op->fault = fault;
    if (fault != 0) {
        bool has_text = err != NULL && err->text[0] != '\0';
        (void)fail(&op->error, (enum fault)fault, "%s", has_text ? err->text : fault_text(fault));
        PLANT(UNKNOWN_AS_REFUSED, op->error.fault = FAULT_IO)
    }
    (void)handover_give(hand->options.answered,
                        &op->link); /* has room for all: see committer_new */
}

static void note(struct hand *hand, int failed, size_t count)
{
    __atomic_store_n(&hand->health, fault_is_passing(failed) ? 0 : failed, __ATOMIC_RELAXED);
    if (failed != 0) {
        __atomic_add_fetch(&hand->faults, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_add_fetch(&hand->commits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&hand->operations, count, __ATOMIC_RELAXED);
}

/* One commit that is measured. */
static int apply(struct hand *hand, struct op *batch[], size_t count, struct error *err)
{
    int64_t began_ms = clock_mono_ms(hand->options.clock);
    int failed = store_apply(hand->store, batch, count, err);

    note(hand, failed, count);
    if (failed == 0) {
        int64_t took_ms = clock_mono_ms(hand->options.clock) - began_ms;
        histogram_share(&hand->took, histogram_bounds_ms, took_ms);
        histogram_share(&hand->batch, histogram_counts, (int64_t)count);
    }
    return failed;
}

static void put_in_doubt(struct hand *hand, struct op *op)
{
    if (hand->doubt == NULL) {
        hand->doubt_since_ms = clock_mono_ms(hand->options.clock);
    }
    op->link.next = (struct handover_link *)hand->doubt;
    hand->doubt = op;
}

/* One operation in a commit of its own: whether the batch failed because of it or not, it gets an
 * answer that is true. */
static void apply_alone(struct hand *hand, struct op *op)
{
    struct error err = {0};
    int failed = apply(hand, &op, 1, &err);

    if (failed == FAULT_UNKNOWN || (failed != 0 && failed != FAULT_LOST && op->is_patient)) {
        put_in_doubt(hand, op);
    } else {
        answer(hand, op, failed, &err);
    }
}

static void apply_batch(struct hand *hand, struct op *batch[], size_t count)
{
    struct error err = {0};
    int failed = apply(hand, batch, count, &err);

    for (size_t i = 0; i < count; i++) {
        if (failed == 0 || failed == FAULT_LOST) {
            answer(hand, batch[i], failed, &err);
        } else if (failed == FAULT_UNKNOWN) {
            put_in_doubt(hand, batch[i]);
        } else {
            apply_alone(hand, batch[i]);
        }
    }
}

/* Those whose commit is there after all: answered. All of them before anything is applied again, for
 * that may fail and put the store out of reach once more. The others are left, in a list. */
static struct op *recall_doubt(struct hand *hand)
{
    struct op *op = hand->doubt, *left = NULL;

    hand->doubt = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        PLANT(MARK_LOST, op->mark = 0)
        if (store_recall(hand->store, op)) {
            answer(hand, op, 0, NULL);
        } else {
            op->link.next = (struct handover_link *)left;
            left = op;
        }
        op = next;
    }
    return left;
}

/* A commit worked after theirs had failed: it is known what became of theirs. What is not there is
 * applied again, unless its caller has been told long ago that it may have to be sent again. */
static void resolve_doubt(struct hand *hand)
{
    const struct error gone = {.text = "the commit failed; nothing was written"};
    struct op *op = recall_doubt(hand);

    while (op != NULL) {
        struct op *next = next_op(op);
        if (__atomic_load_n(&op->is_unknown, __ATOMIC_RELAXED) != 0) {
            answer(hand, op, FAULT_IO, &gone);
        } else {
            apply_alone(hand, op);
        }
        op = next;
    }
}

/* It stays with the hand; its caller need not. */
static void tell_unknown(struct hand *hand, struct op *op)
{
    if (__atomic_exchange_n(&op->is_unknown, 1, __ATOMIC_RELEASE) == 0) {
        __atomic_add_fetch(&hand->unknowns, 1, __ATOMIC_RELEASE);
    }
}

/* The store still fails: those who wait are told the truth after a while, which is that it is not
 * known, also when the store is lost for good. */
static void give_up_doubt(struct hand *hand, int failed)
{
    bool is_late = clock_mono_ms(hand->options.clock) - hand->doubt_since_ms >= COMMITTER_DOUBT_MS;
    int64_t since_ms = hand->doubt_since_ms;
    struct op *op = hand->doubt;

    hand->doubt = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        bool is_kept = op->is_kept && !PLANT_HERE(RECORD_GIVEN_UP);
        bool is_held = (op->is_patient || is_kept) && !PLANT_HERE(PATIENCE_LOST);
        if (failed == FAULT_LOST || (is_late && !is_held)) {
            answer(hand, op, FAULT_UNKNOWN, NULL);
        } else {
            put_in_doubt(hand, op);
            if (is_late && is_kept) {
                tell_unknown(hand, op);
            }
        }
        op = next;
    }
    hand->doubt_since_ms = since_ms;
}

static void look_into_doubt(struct hand *hand)
{
    struct error err = {0};

    if (hand->doubt == NULL) {
        return;
    }
    int failed = store_touch(hand->store, &err);
    note(hand, failed, 0);
    if (failed == 0) {
        resolve_doubt(hand);
    } else {
        give_up_doubt(hand, failed);
    }
}

/* Whoever is not ready is sent nothing, so nobody's commit would ever find out that the store is well
 * again. */
static void look_whether_well(struct hand *hand)
{
    int64_t now_ms = clock_mono_ms(hand->options.clock);

    if (now_ms - hand->looked_at_ms >= HEALTH_POLL_MS) {
        hand->looked_at_ms = now_ms;
        note(hand, store_touch(hand->store, NULL), 0);
        if (hand_health(hand) == 0) {
            hand->options.wake(hand->options.user); /* nobody's answer tells */
        }
    }
}

/* --- stepping ---------------------------------------------------------------------------------- */

static void take_incoming(struct hand *hand, int64_t wait_ms)
{
    struct op *op = (struct op *)handover_take(hand->incoming, COMMITTER_WAITING_MAX, wait_ms);

    while (op != NULL) {
        struct op *next = next_op(op);
        hold(hand, op);
        op = next;
    }
}

bool hand_step(struct hand *hand, int64_t wait_ms)
{
    struct op *batch[COMMITTER_BATCH_MAX];

    if (hand->held_first != NULL) {
        wait_ms = 0;
    } else if (hand->doubt != NULL && wait_ms > DOUBT_POLL_MS) {
        wait_ms = DOUBT_POLL_MS;
    } else if (hand_health(hand) != 0 && wait_ms > HEALTH_POLL_MS) {
        wait_ms = HEALTH_POLL_MS;
    }
    take_incoming(hand, wait_ms);
    look_into_doubt(hand);
    size_t count = form_batch(hand, batch);
    if (count > 0) {
        apply_batch(hand, batch, count);
    } else if (hand->doubt == NULL && hand_health(hand) != 0) {
        look_whether_well(hand);
    }
    if (handover_count(hand->options.answered) > 0 || hand->unknowns != hand->unknowns_seen) {
        hand->unknowns_seen = hand->unknowns; /* only this thread raises it */
        hand->options.wake(hand->options.user);
    }
    return !handover_is_closed(hand->incoming) || handover_count(hand->incoming) > 0 ||
           hand->held_first != NULL;
}

static void *run(void *argument)
{
    struct hand *hand = argument;

    while (hand_step(hand, IDLE_WAIT_MS)) {
    }
    return NULL;
}

int hand_start(struct hand *hand, struct error *err)
{
    if (pthread_create(&hand->thread, NULL, run, hand) != 0) {
        return fail(err, FAULT_SYSTEM, "no thread for the store could be had");
    }
    hand->has_thread = true;
    return 0;
}

static void answer_all(struct hand *hand, struct op **list, int fault)
{
    struct op *op = *list;

    *list = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        answer(hand, op, fault, NULL);
        op = next;
    }
}

void hand_close(struct hand *hand)
{
    handover_close(hand->incoming);
}

void hand_join(struct hand *hand)
{
    if (hand->has_thread) {
        (void)pthread_join(hand->thread, NULL); /* fails only for a thread that is not there */
        hand->has_thread = false;
    }
    answer_all(hand, &hand->doubt, FAULT_UNKNOWN); /* the next start finds out */
}

void hand_abandon(struct hand *hand)
{
    take_incoming(hand, 0);
    answer_all(hand, &hand->held_first, FAULT_CLOSING);
    hand->held_last = &hand->held_first;
    answer_all(hand, &hand->doubt, FAULT_CLOSING);
}

int hand_health(struct hand *hand)
{
    return __atomic_load_n(&hand->health, __ATOMIC_RELAXED);
}

uint64_t hand_unknowns(struct hand *hand)
{
    return __atomic_load_n(&hand->unknowns, __ATOMIC_ACQUIRE);
}

struct committer_stats hand_stats(struct hand *hand)
{
    struct committer_stats stats = {
        .commits = __atomic_load_n(&hand->commits, __ATOMIC_RELAXED),
        .operations = __atomic_load_n(&hand->operations, __ATOMIC_RELAXED),
        .faults = __atomic_load_n(&hand->faults, __ATOMIC_RELAXED),
    };

    histogram_gather(&hand->took, &stats.took);
    histogram_gather(&hand->batch, &stats.batch);
    return stats;
}
