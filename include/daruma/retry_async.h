/* SPDX-License-Identifier: MIT
 *
 * retry_async -- the same for calls that finish later, on any event loop. Nothing is allocated:
 * the caller owns each operation (128 bytes) and the loop object that keeps their timers.
 *
 *   start --> in flight --finish: success----------------------> ready --tick--> done callback
 *     |        |  ^  '---finish: failure, attempt timed out --.    ^
 *     |  cancel|  '------------tick: time is over-- waiting <--+---'  no more attempts, cancel
 *     '--------'  (gate closed: waits before the first attempt)
 *
 * Everything belongs to the thread that runs the loop. The done callback runs exactly once for
 * each start that returned 0, always from daruma_retry_tick, never from inside start, finish or
 * cancel; the operation may be freed or started again from inside it.
 */
#ifndef DARUMA_RETRY_ASYNC_H
#define DARUMA_RETRY_ASYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <daruma/breaker.h>
#include <daruma/dice.h>
#include <daruma/retry.h>

#ifdef __cplusplus
extern "C" {
#endif

struct daruma_retry_op;

/* Begins one attempt and returns. Its answer is given to daruma_retry_async_finish with
 * attempt->generation: from a callback later, or from inside this function. */
typedef void (*daruma_async_fn)(void *user, struct daruma_retry_op *op,
                                const struct daruma_attempt *attempt);

/* The end: code 0 and NULL; or the code that the last attempt was finished with, and its error, whose
 * own code may be another; or a code of the library. */
typedef void (*daruma_done_fn)(void *user, struct daruma_retry_op *op, int code,
                               const struct daruma_error *error);

/* What an event loop provides. timer_set arms the loop's one timer, replacing what was armed; when
 * it goes off call daruma_retry_tick. A plain poll loop needs neither timer function. */
struct daruma_loop_ops {
    int64_t (*now_ms)(void *user);                    /* NULL: daruma_now_ms */
    uint64_t (*rand)(void *user);                     /* NULL: the thread's own dice */
    void (*timer_set)(void *user, uint64_t delay_ms); /* NULL: the caller polls */
    void (*timer_cancel)(void *user);                 /* NULL: likewise */
};

/* Timers of any number of operations; O(log n) a step. */
struct daruma_retry_loop {
    const struct daruma_loop_ops *ops;
    void *user;
    struct daruma_retry_op *root; /* private from here */
    struct daruma_retry_op *ready_first;
    struct daruma_retry_op *ready_last;
    size_t count;
    int64_t armed_ms;
    bool busy;
};

/* Zero it before its first start. Private but for error, which says what was wrong when start
 * refuses; its message is never NULL then. */
struct daruma_retry_op {
    struct daruma_retry_op *left, *right, *parent; /* left: next in the ready list */
    int64_t due_ms;
    const struct daruma_retry_options *options;
    daruma_async_fn call;
    daruma_done_fn done;
    void *user;
    int64_t deadline_ms;
    struct daruma_error error;
    uint32_t attempts;
    uint32_t previous_ms;
    uint32_t generation : 24;
    uint32_t state : 8;
    union {
        uint32_t ticket; /* of the breaker, while an attempt is under way */
        int code;        /* of the last failure, at all other times */
    } last;
};

/* NULL ops: a plain poll loop on the real clock. */
void daruma_retry_loop_init(struct daruma_retry_loop *loop, const struct daruma_loop_ops *ops,
                            void *user);

/* Begins the first attempt. options (with loop; without env and cancel) must live until done.
 * 0, or DARUMA_INVALID with op->error naming the option: then done will not be called for this start.
 * One that is under way is refused as well, and keeps the error of its last attempt, if there was one. */
int daruma_retry_async_start(struct daruma_retry_op *op, daruma_async_fn call, void *user,
                             const struct daruma_retry_options *options, daruma_done_fn done);

/* The answer of an attempt: code 0 is success; error may be NULL. False when that attempt is no
 * longer waited for (timed out, cancelled, answered already): it is dropped. */
bool daruma_retry_async_finish(struct daruma_retry_op *op, uint32_t generation, int code,
                               const struct daruma_error *error);

/* Ends it with DARUMA_CANCELLED at the next tick. False when it has ended already. The caller stops
 * its own I/O. */
bool daruma_retry_async_cancel(struct daruma_retry_op *op);

/* For poll: milliseconds until a tick is due; 0: now; -1: nothing is pending. */
int daruma_retry_next_timeout_ms(const struct daruma_retry_loop *loop);

/* Runs what is due; early or needless calls do no harm, and one from inside a callback does
 * nothing. Returns how many operations it moved. */
size_t daruma_retry_tick(struct daruma_retry_loop *loop);

#ifdef __cplusplus
}
#endif
#endif
