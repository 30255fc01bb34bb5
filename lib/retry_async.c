/* SPDX-License-Identifier: MIT
 *
 * retry_async -- the asynchronous form: the steps of step_internal.h with timers between them. The
 * picture of an operation's life is in daruma/retry_async.h.
 *
 * Two rules keep it free of surprises. The done callback only ever runs from the tick, so nothing
 * that calls in can be called back on its own stack. And an attempt is known by its generation:
 * whatever ends it first (an answer, its time, a cancel) raises the number, and everything that
 * comes later under the old number is dropped.
 */
#include <daruma/retry_async.h>
#include <daruma/env.h>

#include "later_internal.h"
#include "refuse_internal.h"
#include "step_internal.h"
#include "timers_internal.h"

#include <limits.h>

enum { IDLE = 0, IN_FLIGHT, WAITING, READY };

#define NEVER           INT64_MAX
#define GENERATION_MASK 0xffffffu /* as many bits as an operation has for it */

_Static_assert(sizeof(struct daruma_retry_op) <= 128, "a pending operation costs 128 bytes");

/* A dice that rolls with the loop's own numbers. */
struct loop_dice {
    struct daruma_dice dice;
    const struct daruma_retry_loop *loop;
};

static uint64_t loop_roll(struct daruma_dice *dice)
{
    const struct daruma_retry_loop *loop = ((struct loop_dice *)dice)->loop;

    if (loop->ops != NULL && loop->ops->rand != NULL) {
        return loop->ops->rand(loop->user);
    }
    return daruma_dice_roll(NULL);
}

static int64_t loop_now_ms(const struct daruma_retry_loop *loop)
{
    if (loop->ops != NULL && loop->ops->now_ms != NULL) {
        return loop->ops->now_ms(loop->user);
    }
    return daruma_now_ms();
}

static int64_t next_due_ms(const struct daruma_retry_loop *loop)
{
    if (loop->ready_first != NULL) {
        return 0;
    }
    return loop->root != NULL ? loop->root->due_ms : NEVER;
}

/* Tells the event loop when it is wanted next, if that has changed. */
static void rearm(struct daruma_retry_loop *loop)
{
    int64_t due_ms = next_due_ms(loop);

    if (loop->busy || due_ms == loop->armed_ms) {
        return;
    }
    loop->armed_ms = due_ms;
    if (loop->ops == NULL || loop->ops->timer_set == NULL || loop->ops->timer_cancel == NULL) {
        return;
    }
    if (due_ms == NEVER) {
        loop->ops->timer_cancel(loop->user);
        return;
    }
    int64_t now_ms = loop_now_ms(loop);
    loop->ops->timer_set(loop->user, due_ms > now_ms ? (uint64_t)(due_ms - now_ms) : 0);
}

/* Callbacks of the caller run between enter and leave: a tick from inside them does nothing, or
 * done would run on the stack of start or finish. Returns what leave is to be given. */
static bool enter(struct daruma_retry_loop *loop)
{
    bool was_busy = loop->busy;

    loop->busy = true;
    return was_busy;
}

static void leave(struct daruma_retry_loop *loop, bool was_busy)
{
    loop->busy = was_busy;
    rearm(loop);
}

/* The ticket as the operation keeps it while an attempt is under way. */
static uint32_t ticket_pack(struct daruma_ticket ticket)
{
    return (uint32_t)ticket.generation << 1 | ticket.probe;
}

static struct daruma_ticket ticket_unpack(uint32_t packed)
{
    return (struct daruma_ticket){.generation = (uint16_t)(packed >> 1),
                                  .probe = (packed & 1) != 0};
}

/* Without a ticket: between attempts there is none. */
static struct step step_of(const struct daruma_retry_op *op)
{
    return (struct step){
        .options = op->options,
        .deadline_ms = op->deadline_ms,
        .attempts = op->attempts,
        .previous_ms = op->previous_ms,
    };
}

static struct step step_in_flight(const struct daruma_retry_op *op)
{
    struct step step = step_of(op);

    step.ticket = ticket_unpack(op->last.ticket);
    return step;
}

static void keep(struct daruma_retry_op *op, const struct step *step)
{
    op->deadline_ms = step->deadline_ms;
    op->attempts = step->attempts;
    op->previous_ms = step->previous_ms;
}

static void wait_until(struct daruma_retry_op *op, uint8_t state, int64_t due_ms)
{
    op->state = state;
    op->due_ms = due_ms;
    if (due_ms != NEVER) {
        daruma_timers_add(op->options->loop, op);
    }
}

static void stop_waiting(struct daruma_retry_op *op)
{
    op->generation = (op->generation + 1) & GENERATION_MASK;
    if (op->due_ms != NEVER) {
        daruma_timers_remove(op->options->loop, op);
        op->due_ms = NEVER;
    }
}

/* It has ended; the tick will say so. */
static void make_ready(struct daruma_retry_op *op)
{
    struct daruma_retry_loop *loop = op->options->loop;

    op->state = READY;
    op->left = NULL;
    if (loop->ready_last != NULL) {
        loop->ready_last->left = op;
    } else {
        loop->ready_first = op;
    }
    loop->ready_last = op;
}

static void begin_attempt(struct daruma_retry_op *op, struct step *step, int64_t now_ms)
{
    struct daruma_attempt attempt = {.generation = op->generation};

    daruma_step_begin(step, now_ms, &attempt);
    keep(op, step);
    op->last.ticket = ticket_pack(step->ticket);
    wait_until(op, IN_FLIGHT, attempt.deadline_ms == 0 ? NEVER : attempt.deadline_ms);
    op->call(op->user, op, &attempt);
    /* The call may have finished the attempt, or even cancelled the operation: not touched again. */
}

static void next_attempt(struct daruma_retry_op *op, int64_t now_ms)
{
    struct step step = step_of(op);
    struct loop_dice dice = {.dice = {.roll = loop_roll}, .loop = op->options->loop};
    struct daruma_decision decision = daruma_step_admit(&step, now_ms, &dice.dice, &op->error);

    keep(op, &step);
    if (decision.stop != DARUMA_STOP_NONE) {
        op->last.code = op->attempts == 0 ? op->error.code : op->last.code;
        make_ready(op);
    } else if (decision.wait_ms > 0) {
        wait_until(op, WAITING, later_ms(now_ms, decision.wait_ms));
    } else {
        begin_attempt(op, &step, now_ms);
    }
}

/* op->error is complete, and is what is told with this code unless there is another attempt. */
static void attempt_failed(struct daruma_retry_op *op, int code, int64_t now_ms)
{
    struct step step = step_in_flight(op);
    struct daruma_error error = op->error;
    struct loop_dice dice = {.dice = {.roll = loop_roll}, .loop = op->options->loop};

    op->last.code = code; /* before the caller's functions, which may cancel */
    struct daruma_decision decision = daruma_step_failed(&step, &error, false, now_ms, &dice.dice);
    if (op->state == READY) { /* cancelled by condition or on_retry */
        daruma_step_stopped(&step, DARUMA_STOP_CANCELLED);
        return;
    }
    keep(op, &step);
    if (decision.stop != DARUMA_STOP_NONE) {
        make_ready(op);
    } else {
        wait_until(op, WAITING, later_ms(now_ms, decision.wait_ms));
    }
}

static void attempt_succeeded(struct daruma_retry_op *op, int64_t now_ms)
{
    struct step step = step_in_flight(op);

    daruma_step_succeeded(&step, now_ms);
    op->error = (struct daruma_error){0};
    op->last.code = 0;
    make_ready(op);
}

static int check(daruma_async_fn call, const struct daruma_retry_options *options,
                 daruma_done_fn done, struct daruma_error *ret_error)
{
    if (call == NULL) {
        return refuse(ret_error, "call: must not be NULL");
    }
    if (done == NULL) {
        return refuse(ret_error, "done: must not be NULL");
    }
    if (options == NULL || options->loop == NULL) {
        return refuse(ret_error, "options.loop: must be given");
    }
    if (options->env != NULL) {
        return refuse(ret_error, "options.env: time and chance come from options.loop");
    }
    if (options->cancel != NULL) {
        return refuse(ret_error, "options.cancel: use daruma_retry_async_cancel");
    }
    return daruma_step_check(options, ret_error);
}

void daruma_retry_loop_init(struct daruma_retry_loop *loop, const struct daruma_loop_ops *ops,
                            void *user)
{
    *loop = (struct daruma_retry_loop){.ops = ops, .user = user, .armed_ms = NEVER};
}

int daruma_retry_async_start(struct daruma_retry_op *op, daruma_async_fn call, void *user,
                             const struct daruma_retry_options *options, daruma_done_fn done)
{
    if (op == NULL) {
        return DARUMA_INVALID;
    }
    if (op->state != IDLE) {
        return DARUMA_INVALID; /* its error is of its last attempt, or what is put there below */
    }
    int failed = check(call, options, done, &op->error);
    if (failed != 0) {
        return failed;
    }
    int64_t now_ms = loop_now_ms(options->loop);
    struct step step = {.options = options};
    *op = (struct daruma_retry_op){.options = options,
                                   .call = call,
                                   .done = done,
                                   .user = user,
                                   .due_ms = NEVER,
                                   .error = daruma_error_of(DARUMA_INVALID, "op: is under way"),
                                   .generation = (op->generation + 1) & GENERATION_MASK};
    bool was_busy = enter(options->loop);
    daruma_step_open(&step, now_ms);
    keep(op, &step);
    next_attempt(op, now_ms);
    leave(options->loop, was_busy);
    return 0;
}

bool daruma_retry_async_finish(struct daruma_retry_op *op, uint32_t generation, int code,
                               const struct daruma_error *error)
{
    if (op == NULL || op->state != IN_FLIGHT || op->generation != generation) {
        return false;
    }
    struct daruma_retry_loop *loop = op->options->loop;
    int64_t now_ms = loop_now_ms(loop);
    bool was_busy = enter(loop);
    stop_waiting(op);
    if (code == 0) {
        attempt_succeeded(op, now_ms);
    } else {
        op->error = error != NULL ? *error : (struct daruma_error){0};
        daruma_step_complete(&op->error, code);
        attempt_failed(op, code, now_ms);
    }
    leave(loop, was_busy);
    return true;
}

bool daruma_retry_async_cancel(struct daruma_retry_op *op)
{
    if (op == NULL || (op->state != IN_FLIGHT && op->state != WAITING)) {
        return false;
    }
    struct step step = step_of(op);
    stop_waiting(op);
    op->error = daruma_error_of(DARUMA_CANCELLED, NULL);
    op->last.code = DARUMA_CANCELLED;
    daruma_step_abandoned(&step, DARUMA_CANCELLED, DARUMA_STOP_CANCELLED);
    make_ready(op);
    rearm(op->options->loop);
    return true;
}

int daruma_retry_next_timeout_ms(const struct daruma_retry_loop *loop)
{
    int64_t due_ms = next_due_ms(loop);

    if (due_ms == NEVER) {
        return -1;
    }
    int64_t left_ms = due_ms - loop_now_ms(loop);
    if (left_ms <= 0) {
        return 0;
    }
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

/* Only what is ready now: an operation started again by its done callback waits for the next tick,
 * so that a tick always ends. */
static size_t run_ready(struct daruma_retry_loop *loop)
{
    struct daruma_retry_op *op = loop->ready_first;
    size_t count = 0;

    loop->ready_first = loop->ready_last = NULL;
    while (op != NULL) {
        struct daruma_retry_op *next = op->left;
        struct daruma_error error = op->error;
        op->left = NULL;
        op->state = IDLE;
        op->done(op->user, op, op->last.code, op->last.code != 0 ? &error : NULL);
        op = next;
        count++;
    }
    return count;
}

static void run_due(struct daruma_retry_op *op, int64_t now_ms)
{
    uint8_t state = op->state;

    stop_waiting(op);
    if (state == WAITING) {
        next_attempt(op, now_ms);
        return;
    }
    op->error = daruma_error_of(DARUMA_TIMED_OUT, "the attempt took too long");
    op->error.recoverable = true;
    attempt_failed(op, DARUMA_TIMED_OUT, now_ms);
}

size_t daruma_retry_tick(struct daruma_retry_loop *loop)
{
    if (loop->busy) {
        return 0; /* from a callback */
    }
    int64_t now_ms = loop_now_ms(loop);
    size_t limit = loop->count; /* one move each: what is due again at once has the next tick */
    loop->busy = true;
    size_t count = run_ready(loop);
    for (; limit > 0 && loop->root != NULL && loop->root->due_ms <= now_ms; limit--) {
        run_due(loop->root, now_ms);
        count++;
    }
    loop->armed_ms = -1; /* the timer that brought us here has gone off */
    leave(loop, false);
    return count;
}
