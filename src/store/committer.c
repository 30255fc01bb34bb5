/* SPDX-License-Identifier: MIT
 *
 * committer -- see committer.h. Only this file decides what a failed commit means for those who
 * wait (I7): "refused" is said only when it is certain that nothing was kept.
 */
#include "store/committer.h"

#include <pthread.h>
#include <stdlib.h>

#define IDLE_WAIT_MS   1000
#define DOUBT_POLL_MS  20  /* between two looks at a store that fails */
#define HEALTH_POLL_MS 250 /* between two looks at one that failed and is left alone since */
#define TOUCHED_SLOTS  2048

/* Which tasks and keys the batch touches already: a small set, emptied by raising its number. */
struct touched {
    uint64_t hash[TOUCHED_SLOTS];
    uint32_t round[TOUCHED_SLOTS];
    uint32_t now;
};

struct committer {
    struct store *store;
    const struct clock *clock;
    committer_wake_fn wake;
    void *wake_user;
    struct handover *incoming;
    struct handover *answered;
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
};

static struct op *next_op(struct op *op)
{
    return (struct op *)op->link.next;
}

struct committer *committer_new(struct store *store, const struct clock *clock,
                                committer_wake_fn wake, void *user)
{
    struct committer *committer = calloc(1, sizeof *committer);

    if (committer == NULL) {
        return NULL;
    }
    *committer = (struct committer){
        .store = store,
        .clock = clock,
        .wake = wake,
        .wake_user = user,
        .incoming = handover_new(COMMITTER_WAITING_MAX),
        /* Room for all that can be under way: an answer is never lost for want of it. */
        .answered = handover_new(SIZE_MAX),
        .held_last = &committer->held_first,
        .touched.now = 1,
    };
    if (committer->incoming == NULL || committer->answered == NULL) {
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
    handover_free(committer->incoming);
    handover_free(committer->answered);
    free(committer);
}

bool committer_submit(struct committer *committer, struct op *op)
{
    op->result = RESULT_NONE;
    op->fault = 0;
    op->mark = 0;
    return handover_give(committer->incoming, &op->link);
}

struct op *committer_take(struct committer *committer)
{
    return (struct op *)handover_take(committer->answered, SIZE_MAX, 0);
}

/* --- forming a batch --------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* A task by its row, a new one by its key. Two that only look alike cost a batch, no more. */
static uint64_t touch_hash(const struct op *op)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), &op->task.queue, sizeof op->task.queue);

    if (op->kind == OP_QUEUE) {
        return mix(hash, op->queue.name.at, op->queue.name.len) | 1;
    }
    if (op->kind == OP_MEMO) {
        return mix(hash, op->memo.name.at, op->memo.name.len) | 1;
    }
    if (op->kind == OP_LEASE && op->task.id.row == 0) {
        return mix(hash, &op, sizeof(op)) | 1; /* whatever is due: the store sees to it */
    }
    bool is_by_key = op->kind == OP_RECORD || op->kind == OP_FIND;
    if (!is_by_key || op->task.key.len == 0) {
        return mix(UINT64_C(0x9e3779b97f4a7c15), &op->task.id.row, sizeof op->task.id.row) | 1;
    }
    hash = mix(hash, op->task.scope.at, op->task.scope.len);
    return mix(hash, op->task.key.at, op->task.key.len) | 1;
}

/* True when nobody in this batch touches it yet; a full neighbourhood counts as touched. */
static bool touch_first(struct touched *touched, uint64_t hash)
{
    for (size_t i = 0; i < 8; i++) {
        size_t slot = (hash + i) % TOUCHED_SLOTS;
        if (touched->round[slot] != touched->now) {
            touched->round[slot] = touched->now;
            touched->hash[slot] = hash;
            return true;
        }
        if (touched->hash[slot] == hash) {
            return false;
        }
    }
    return false;
}

/* What it spawns comes into being with it, and so must its key be nobody else's in this batch. */
static bool may_join(struct touched *touched, const struct op *op)
{
    return touch_first(touched, touch_hash(op)) &&
           (op->spawn == NULL || touch_first(touched, touch_hash(op->spawn)));
}

static void hold(struct committer *committer, struct op *op)
{
    op->link.next = NULL;
    *committer->held_last = op;
    committer->held_last = (struct op **)&op->link.next;
}

/* Takes from what is held, in order, leaving for the next batch what must not share this one. */
static size_t form_batch(struct committer *committer, struct op *batch[COMMITTER_BATCH_MAX])
{
    struct op *op = committer->held_first;
    size_t count = 0;

    committer->touched.now++;
    committer->held_first = NULL;
    committer->held_last = &committer->held_first;
    while (op != NULL) {
        struct op *next = next_op(op);
        if (count < COMMITTER_BATCH_MAX && may_join(&committer->touched, op)) {
            batch[count++] = op;
        } else {
            hold(committer, op);
        }
        op = next;
    }
    return count;
}

/* --- answering --------------------------------------------------------------------------------- */

static void answer(struct committer *committer, struct op *op, int fault, const struct error *err)
{
    op->fault = fault;
    if (fault != 0 && err != NULL) {
        op->error = *err;
    }
    (void)handover_give(committer->answered, &op->link); /* has room for all: see committer_new */
}

static void note(struct committer *committer, int failed, size_t count)
{
    /* A key that somebody else holds says nothing about the store. */
    __atomic_store_n(&committer->health, failed == FAULT_BUSY ? 0 : failed, __ATOMIC_RELAXED);
    if (failed != 0) {
        __atomic_add_fetch(&committer->faults, 1, __ATOMIC_RELAXED);
        return;
    }
    __atomic_add_fetch(&committer->commits, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&committer->operations, count, __ATOMIC_RELAXED);
}

static void put_in_doubt(struct committer *committer, struct op *op)
{
    if (committer->doubt == NULL) {
        committer->doubt_since_ms = clock_mono_ms(committer->clock);
    }
    op->link.next = (struct handover_link *)committer->doubt;
    committer->doubt = op;
}

/* One operation in a commit of its own: whether the batch failed because of it or not, it gets an
 * answer that is true. */
static void apply_alone(struct committer *committer, struct op *op)
{
    struct error err = {0};
    int failed = store_apply(committer->store, &op, 1, &err);

    note(committer, failed, 1);
    if (failed == FAULT_UNKNOWN || (failed != 0 && failed != FAULT_LOST && op->is_patient)) {
        put_in_doubt(committer, op);
    } else {
        answer(committer, op, failed, &err);
    }
}

static void apply_batch(struct committer *committer, struct op *batch[], size_t count)
{
    struct error err = {0};
    int failed = store_apply(committer->store, batch, count, &err);

    note(committer, failed, count);
    for (size_t i = 0; i < count; i++) {
        if (failed == 0 || failed == FAULT_LOST) {
            answer(committer, batch[i], failed, &err);
        } else if (failed == FAULT_UNKNOWN) {
            put_in_doubt(committer, batch[i]);
        } else {
            apply_alone(committer, batch[i]);
        }
    }
}

/* A commit worked after theirs had failed, so theirs is certainly not there: apply them again. */
static void resolve_doubt(struct committer *committer)
{
    struct op *op = committer->doubt;

    committer->doubt = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        apply_alone(committer, op);
        op = next;
    }
}

/* The store still fails: whoever waits is told the truth after a while. */
static void give_up_doubt(struct committer *committer, int failed, const struct error *err)
{
    bool is_late =
        clock_mono_ms(committer->clock) - committer->doubt_since_ms >= COMMITTER_DOUBT_MS;
    struct op *op = committer->doubt;

    committer->doubt = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        if (failed == FAULT_LOST || (is_late && !op->is_patient)) {
            answer(committer, op, failed == FAULT_LOST ? FAULT_LOST : FAULT_UNKNOWN, err);
        } else {
            int64_t since_ms = committer->doubt_since_ms;
            put_in_doubt(committer, op);
            committer->doubt_since_ms = since_ms;
        }
        op = next;
    }
}

static void look_into_doubt(struct committer *committer)
{
    struct error err = {0};

    if (committer->doubt == NULL) {
        return;
    }
    int failed = store_touch(committer->store, &err);
    note(committer, failed, 0);
    if (failed == 0) {
        resolve_doubt(committer);
    } else {
        give_up_doubt(committer, failed, &err);
    }
}

/* Whoever is not ready is sent nothing, so nobody's commit would ever find out that the store is well
 * again. */
static void look_whether_well(struct committer *committer)
{
    int64_t now_ms = clock_mono_ms(committer->clock);

    if (now_ms - committer->looked_at_ms >= HEALTH_POLL_MS) {
        committer->looked_at_ms = now_ms;
        note(committer, store_touch(committer->store, NULL), 0);
        if (committer_health(committer) == 0) {
            committer->wake(committer->wake_user); /* nobody's answer tells */
        }
    }
}

/* --- stepping ---------------------------------------------------------------------------------- */

static void take_incoming(struct committer *committer, int64_t wait_ms)
{
    struct op *op = (struct op *)handover_take(committer->incoming, COMMITTER_WAITING_MAX, wait_ms);

    while (op != NULL) {
        struct op *next = next_op(op);
        hold(committer, op);
        op = next;
    }
}

bool committer_step(struct committer *committer, int64_t wait_ms)
{
    struct op *batch[COMMITTER_BATCH_MAX];

    if (committer->held_first != NULL) {
        wait_ms = 0;
    } else if (committer->doubt != NULL && wait_ms > DOUBT_POLL_MS) {
        wait_ms = DOUBT_POLL_MS;
    } else if (committer_health(committer) != 0 && wait_ms > HEALTH_POLL_MS) {
        wait_ms = HEALTH_POLL_MS;
    }
    take_incoming(committer, wait_ms);
    look_into_doubt(committer);
    size_t count = form_batch(committer, batch);
    if (count > 0) {
        apply_batch(committer, batch, count);
    } else if (committer->doubt == NULL && committer_health(committer) != 0) {
        look_whether_well(committer);
    }
    if (handover_count(committer->answered) > 0) {
        committer->wake(committer->wake_user);
    }
    return !handover_is_closed(committer->incoming) || handover_count(committer->incoming) > 0 ||
           committer->held_first != NULL;
}

static void *run(void *argument)
{
    struct committer *committer = argument;

    while (committer_step(committer, IDLE_WAIT_MS)) {
    }
    return NULL;
}

int committer_start(struct committer *committer, struct error *err)
{
    if (pthread_create(&committer->thread, NULL, run, committer) != 0) {
        return fail(err, FAULT_SYSTEM, "no thread for the store could be had");
    }
    committer->has_thread = true;
    return 0;
}

static void answer_all(struct committer *committer, struct op **list, int fault)
{
    struct op *op = *list;

    *list = NULL;
    while (op != NULL) {
        struct op *next = next_op(op);
        answer(committer, op, fault, NULL);
        op = next;
    }
}

void committer_stop(struct committer *committer)
{
    handover_close(committer->incoming);
    if (committer->has_thread) {
        (void)pthread_join(committer->thread, NULL); /* fails only for a thread that is not there */
        committer->has_thread = false;
    }
    answer_all(committer, &committer->doubt, FAULT_UNKNOWN); /* the next start finds out */
}

void committer_abandon(struct committer *committer)
{
    take_incoming(committer, 0);
    answer_all(committer, &committer->held_first, FAULT_CLOSING);
    committer->held_last = &committer->held_first;
    answer_all(committer, &committer->doubt, FAULT_CLOSING);
}

int committer_health(struct committer *committer)
{
    return __atomic_load_n(&committer->health, __ATOMIC_RELAXED);
}

struct committer_stats committer_stats(struct committer *committer)
{
    return (struct committer_stats){
        .commits = __atomic_load_n(&committer->commits, __ATOMIC_RELAXED),
        .operations = __atomic_load_n(&committer->operations, __ATOMIC_RELAXED),
        .faults = __atomic_load_n(&committer->faults, __ATOMIC_RELAXED),
    };
}
