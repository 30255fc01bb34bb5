/* SPDX-License-Identifier: MIT
 *
 * rules -- see rules.h.
 */
#include "store/rules.h"
#include "base/plant.h"
#include "task/fields.h"

#include <string.h>

/* Whether this attempt may be repeated is decided here, where it begins, and read ever after: by who
 * sends it, by who settles it, and by who finds it after a crash. */
static void judge_repeatable(const struct op *op, struct life *life)
{
    bool is_known = (life->flags & LIFE_TARGETS) == 0 || op->targets.count == 0;

    PLANT(ONCE_OF_RECORD, is_known = true)
    if (is_known) {
        return;
    }
    size_t at = target_at(&op->targets, life->attempts_all - 1);
    life->flags &= ~(uint32_t)LIFE_ONCE;
    life->flags |= (op->targets.once >> at & 1) != 0 ? LIFE_ONCE : 0;
}

static enum op_result lease(const struct op *op, struct life *life)
{
    if (life->state != TASK_WAITING) {
        return RESULT_NOT_WAITING;
    }
    bool is_forced = (life->flags & LIFE_FORCED) != 0;
    if (!is_forced && (life->due_at_ms > op->now_ms || (op->life.flags & LIFE_FORCED) != 0)) {
        return RESULT_NOT_DUE;
    }
    life->state = TASK_RUNNING;
    if (op->lease_until_ms != 0) {
        life->due_at_ms = op->lease_until_ms;
    }
    life->flags &= ~(uint32_t)LIFE_FORCED; /* a person's word is good for one attempt */
    life->fence++;
    PLANT(FENCE_KEPT, life->fence -= life->fence > 1)
    life->epoch = op->epoch;
    life->attempts++;
    life->attempts_all++;
    judge_repeatable(op, life);
    life->wait_ms = op->lease_ms;
    return RESULT_DONE;
}

/* The life that the operation brings, but for what leases have counted. */
static enum op_result take_over(const struct op *op, struct life *life)
{
    struct life next = op->life;
    next.fence = life->fence;
    next.epoch = life->epoch;
    next.attempts = life->attempts - (op->uncounts && life->attempts > 0);
    next.attempts_all = life->attempts_all - (op->is_unbegun && life->attempts_all > 0);
    next.round = life->round;
    next.flags |= life->flags & LIFE_EDITED; /* what is beside the request stays there */
    *life = next;
    return RESULT_DONE;
}

/* An answer is on its way to a caller since this was judged: what has begun cannot end as if it had
 * not. */
static bool has_missed_stream(const struct op *op, const struct life *life)
{
    return life->state == TASK_RUNNING && (life->flags & LIFE_OMITTED) != 0 &&
           (op->life.flags & LIFE_OMITTED) == 0;
}

/* The fence of an unsettled task is that of the attempt in doubt: its own late answer, a probe or a
 * person may settle it, whoever is first (I2). */
static enum op_result settle(const struct op *op, struct life *life)
{
    bool is_open = life->state == TASK_RUNNING || life->state == TASK_UNSETTLED;

    PLANT(FENCE_IGNORED, return *life = op->life, RESULT_DONE)
    PLANT(LATE_SETTLE, if (is_open && op->life.fence < life->fence) return take_over(op, life))
    if (!is_open || life->fence != op->life.fence || has_missed_stream(op, life)) {
        return RESULT_STALE;
    }
    return take_over(op, life);
}

/* The lease of a pull task is over, unless its holder has asked for more time meanwhile; or the time
 * of a task that still waits is. */
static enum op_result expire(const struct op *op, struct life *life)
{
    bool is_ours = life->fence == op->life.fence;

    if (is_ours && life->state == TASK_RUNNING) {
        return life->due_at_ms > op->now_ms ? RESULT_NOT_DUE : settle(op, life);
    }
    bool is_deadline = op->life.failed_class == DARUMA_CLASS_EXPIRED + 1;
    bool is_round = life->round == op->life.round; /* one without an attempt keeps its fence */
    if (is_ours && is_round && is_deadline && life->state == TASK_WAITING &&
        life->deadline_at_ms != 0) {
        return life->deadline_at_ms <= op->now_ms ? take_over(op, life) : RESULT_NOT_DUE;
    }
    return settle(op, life);
}

static enum op_result extend(const struct op *op, struct life *life)
{
    bool is_leased = life->state == TASK_RUNNING && (life->flags & LIFE_PULL) != 0;

    if (!is_leased || life->fence != op->life.fence) {
        return RESULT_STALE;
    }
    int64_t lease_ms = life->wait_ms + op->lease_until_ms - life->due_at_ms;
    life->wait_ms =
        life->wait_ms > 0 && lease_ms > 0 ? lease_ms : 0; /* a clock that was set back */
    life->due_at_ms = op->lease_until_ms;
    return RESULT_DONE;
}

/* A caller who looked at the letter before says what was seen: one that was redriven and has died again
 * meanwhile is another letter, also if it died without an attempt and has the same fence. */
static bool is_dead(const struct op *op, const struct life *life)
{
    bool is_seen = life->fence == op->life.fence && life->round == op->life.round;

    return life->state == TASK_DEAD && (is_seen || !op->is_as_seen);
}

/* A new round: attempt numbers go on, everything that is counted against the policy starts anew, and
 * the deadline is the one that the operation brings. */
static enum op_result redrive(const struct op *op, struct life *life)
{
    if (!is_dead(op, life)) {
        return RESULT_NOT_DEAD;
    }
    if ((life->flags & LIFE_ANSWERED) != 0) {
        return RESULT_ANSWERED;
    }
    life->state = TASK_WAITING;
    life->round++;
    PLANT(ROUND_KEPT, life->round--)
    life->attempts = 0;
    memset(life->class_attempts, 0, sizeof life->class_attempts);
    life->previous_ms = 0;
    life->wait_ms = 0;
    life->settled_at_ms = life->resolved_at_ms = 0;
    life->due_at_ms = op->now_ms;
    life->deadline_at_ms = op->life.deadline_at_ms;
    /* What a person said of the round before is over with it: its deadline may have come first. */
    life->flags &= ~(uint32_t)(LIFE_LOW | LIFE_FORCED | LIFE_UNFRAMED | LIFE_OMITTED |
                               LIFE_TRUNCATED | LIFE_UNTOLD);
    life->flags |= (op->life.flags & LIFE_LOW) | (op->edit != NULL ? LIFE_EDITED : 0);
    return RESULT_DONE;
}

static enum op_result resolve(const struct op *op, struct life *life)
{
    if (!is_dead(op, life)) {
        return RESULT_NOT_DEAD;
    }
    life->state = TASK_FAILED;
    life->resolved_at_ms = op->now_ms;
    life->flags |= op->edit != NULL ? LIFE_EDITED : 0;
    return RESULT_DONE;
}

static enum op_result cancel(const struct op *op, struct life *life)
{
    PLANT(CANCEL_RUNNING, life->state = life->state == TASK_RUNNING ? TASK_WAITING : life->state)
    if (life->state != TASK_WAITING) {
        return RESULT_NOT_WAITING;
    }
    life->state = TASK_CANCELLED;
    life->settled_at_ms = op->now_ms;
    life->resolved_at_ms = (life->flags & LIFE_LETTER) != 0 ? op->now_ms : 0;
    life->wait_ms = 0;
    return RESULT_DONE;
}

static enum op_result run(const struct op *op, struct life *life)
{
    if (life->state != TASK_WAITING) {
        return RESULT_NOT_WAITING;
    }
    life->due_at_ms = op->now_ms;
    life->flags |= LIFE_FORCED;
    return RESULT_DONE;
}

static enum op_result purge(const struct life *life)
{
    bool is_taken = (RULES_PURGED_STATES & 1u << life->state) != 0;

    return is_taken ? RESULT_DONE : RESULT_NOT_WAITING;
}

static enum op_result bury(const struct op *op, struct life *life)
{
    if (!task_is_settled(life->state) || life->state == TASK_DEAD) {
        return RESULT_NOT_WAITING;
    }
    life->state = TASK_GONE;
    life->keep_until_ms = op->life.keep_until_ms;
    return RESULT_DONE;
}

/* What may have been done outside of this store has a fence of its own, as an attempt in doubt has. */
static enum op_result revise(const struct op *op, struct life *life)
{
    bool is_seen = life->fence == op->life.fence && life->round == op->life.round;

    if (life->state != TASK_WAITING || !is_seen) {
        return RESULT_NOT_WAITING;
    }
    life->fence += op->life.state == TASK_UNSETTLED;
    return take_over(op, life);
}

enum op_result rules_apply(const struct op *op, struct life *life)
{
    switch (op->kind) {
    case OP_LEASE:
        return lease(op, life);
    case OP_SETTLE:
        return settle(op, life);
    case OP_CANCEL:
        return cancel(op, life);
    case OP_RUN:
        return run(op, life);
    case OP_PURGE:
        return purge(life);
    case OP_EXTEND:
        return extend(op, life);
    case OP_EXPIRE:
        return expire(op, life);
    case OP_REDRIVE:
        return redrive(op, life);
    case OP_RESOLVE:
        return resolve(op, life);
    case OP_BURY:
        return bury(op, life);
    case OP_REVISE:
        return revise(op, life);
    case OP_RECORD:
    case OP_QUEUE:
    case OP_IMPORT:
    case OP_MEMO:
    case OP_FIND:
    default:
        return RESULT_NONE;
    }
}

bool rules_brings_outcome(enum op_kind kind)
{
    return kind == OP_SETTLE || kind == OP_EXPIRE || kind == OP_IMPORT || kind == OP_REVISE;
}

bool rules_brings_edit(enum op_kind kind)
{
    return kind == OP_REDRIVE || kind == OP_RESOLVE || kind == OP_IMPORT;
}

bool rules_is_open(enum task_state state)
{
    return state == TASK_WAITING || state == TASK_RUNNING || state == TASK_UNSETTLED;
}

bool rules_asks_if_open(const struct op *op)
{
    PLANT(EMPTY_NOT_ASKED, return false)
    return op->queue.dropped && op->only_if_empty;
}

/* A queue that was dropped stays dropped: its number is of tasks that are being forgotten. */
enum op_result rules_queue(const struct op *op, enum queue_found found)
{
    if (found == QUEUE_FOUND_NONE || found == QUEUE_FOUND_DROPPED) {
        return RESULT_MISSING;
    }
    return rules_asks_if_open(op) && found == QUEUE_FOUND_OPEN ? RESULT_NOT_EMPTY : RESULT_DONE;
}

/* Its node; 0: it says none. */
static uint64_t epoch_in(struct span memo)
{
    struct span value;
    int64_t epoch = 0;

    if (fields_find(memo, "epoch", &value)) {
        (void)span_to_int(value, &epoch); /* a node wrote it; else 0 stays */
    }
    return (uint64_t)epoch;
}

enum op_result rules_memo(const struct op *op, struct span found)
{
    const struct memo_condition *only = op->only_while;
    bool holds = only == NULL;

    PLANT(MEMO_TAKEN, return RESULT_DONE)
    if (!holds && only->value.len > 0) {
        holds = span_equal(found, only->value);
    } else if (!holds && found.len > 0) {
        uint64_t epoch = epoch_in(found);
        holds = epoch == only->epochs[0] || epoch == only->epochs[1];
    }
    return holds ? RESULT_DONE : RESULT_STALE;
}

int64_t rules_kept_until_ms(const struct life *life, const struct store_keep *keep)
{
    if (life->keep_until_ms != 0 && task_is_settled(life->state) && life->state != TASK_DEAD) {
        return life->keep_until_ms;
    }
    switch (life->state) {
    case TASK_SUCCEEDED:
        return life->settled_at_ms + keep->succeeded_ms;
    case TASK_FAILED: /* a dead letter that was closed: from then on */
        return (life->resolved_at_ms != 0 ? life->resolved_at_ms : life->settled_at_ms) +
               keep->failed_ms;
    case TASK_CANCELLED:
        return life->settled_at_ms + keep->cancelled_ms;
    case TASK_GONE:
        return life->keep_until_ms + keep->tombstones_ms;
    case TASK_WAITING:
    case TASK_RUNNING:
    case TASK_UNSETTLED:
    case TASK_DEAD: /* a dead letter waits for a person */
    case TASK_STATE_COUNT:
    default:
        return INT64_MAX;
    }
}

/* Forgotten, or as good as: what is past its keeping time is not told, purged or not. */
static bool is_gone(const struct op *op, const struct life *life, const struct store_keep *keep)
{
    return life->state == TASK_GONE || rules_kept_until_ms(life, keep) <= op->now_ms;
}

bool rules_key_is_free(const struct op *op, const struct life *life, const struct store_keep *keep)
{
    int64_t until_ms = rules_kept_until_ms(life, keep);

    if (!is_gone(op, life, keep)) {
        return false;
    }
    PLANT(TOMBSTONE_IGNORED, return true)
    if ((life->flags & LIFE_ROUTE) == 0 || op->reruns) {
        return true;
    }
    return (life->state == TASK_GONE ? until_ms : until_ms + keep->tombstones_ms) <= op->now_ms;
}

enum op_result rules_key(const struct op *op, const struct task *found, const struct life *life,
                         const struct store_keep *keep)
{
    if (rules_key_is_free(op, life, keep)) {
        return RESULT_NONE;
    }
    bool is_same = memcmp(found->fingerprint, op->task.fingerprint, sizeof found->fingerprint) == 0;
    if (!is_same) {
        return RESULT_CONFLICT; /* beats being gone */
    }
    return is_gone(op, life, keep) ? RESULT_GONE : RESULT_DUPLICATE;
}
