/* SPDX-License-Identifier: MIT
 *
 * targets -- which of a queue's targets an attempt goes to, in turn, and which are out of the round: a
 * target that answers 410 has said that it is gone, and gets nothing more until a person resumes the
 * queue or changes it. That is kept as a memo, so that a restart does not knock at its door again.
 *
 * Among nodes each has its own stopped targets, and one node is told to let them in again. Each such word
 * has a number, `let_in`, which comes to the nodes with the queue's row; what was stopped under another
 * number was stopped before. So it does not matter when a node learns of it, nor when a memo lands that
 * waited for the store meanwhile: it has the number under which the target was stopped.
 *
 *   resume, change: targets_clear, the memos of all targets and the number --> the queue's row --> every
 *   node follows it: targets_hear, another number --> let in --> it has followed
 *
 * A node of a release without numbers clears only the memos: targets_doubt, and then targets_look asks
 * which of them are gone.
 */
#include "engine/memos_internal.h"
#include "base/plant.h"

#include <inttypes.h>
#include <stdio.h>

#define MEMO_PREFIX     "stopped:" /* stopped:QUEUE:TARGET */
#define MEMO_GONE       "gone"     /* and the number, when there is one */
#define MEMO_VALUE_ROOM 32

struct target_round targets_round(const struct queue *queue)
{
    struct target_round round = {.count = (uint32_t)queue->settings.target_count,
                                 .stopped = queue->stopped};

    for (uint32_t i = 0; i < round.count && i < QUEUE_TARGETS_MAX; i++) {
        round.once |= (queue->settings.targets[i].repeatable ? 0u : 1u) << i;
    }
    return round;
}

/* NULL: the queue has none. A task's own target takes the settings of the first one. */
const struct target *targets_choose(const struct queue *queue, struct span own, uint32_t turn,
                                    int *ret_index)
{
    const struct target_round round = targets_round(queue);

    *ret_index = -1;
    if (round.count == 0) {
        return NULL;
    }
    if (own.len > 0) {
        return &queue->settings.targets[0];
    }
    *ret_index = (int)target_at(&round, turn);
    return &queue->settings.targets[*ret_index];
}

/* Between two leases a task that leaves it to the targets is one that must not be sent twice, if that
 * is so for any of them. A lease decides it anew (store/rules.c); a node of a release that does not
 * would carry on what the lease before said of another target. */
void targets_be_careful(const struct queue *queue, struct life *life)
{
    bool is_left_to_them = (life->flags & LIFE_TARGETS) != 0;

    PLANT(ONCE_OF_RECORD, return )
    if (is_left_to_them && life->state == TASK_WAITING && targets_round(queue).once != 0) {
        life->flags |= LIFE_ONCE;
    }
}

/* Nothing is left to send to. */
bool targets_are_gone(const struct queue *queue)
{
    size_t count = queue->settings.target_count;

    return count > 0 && queue->stopped == (UINT32_C(1) << count) - 1;
}

static struct span memo_name(const struct queue *queue, size_t index,
                             char text[STORE_MEMO_NAME_MAX + 1])
{
    (void)snprintf(text, STORE_MEMO_NAME_MAX + 1, MEMO_PREFIX "%.*s:%.*s", SPAN_ARGS(queue->name),
                   SPAN_ARGS(queue->settings.targets[index].name)); /* both names are short; cut, it
                                                                      * would not be found again */
    return span_of(text);
}

static void memo_written(struct engine *engine, struct errand *errand)
{
    bool is_kept = errand->op.fault == 0 && errand->op.memo.value.len > 0;
    uint32_t bit = errand->queue->stopped & UINT32_C(1) << errand->word;

    /* A memo that was not written is learnt again from the next 410. */
    if (is_kept &&
        bit == 0) { /* let in again before it was written; a peer may have stopped it since */
        memos_forget_as_is(engine, &errand->op.memo);
    } else if (is_kept) {
        errand->queue->stopped_kept |= bit;
    }
    errand_free(errand);
}

/* Writes the memo of one target; an empty value forgets it. */
static void write_memo(struct engine *engine, struct queue *queue, size_t index, struct span value)
{
    char name[STORE_MEMO_NAME_MAX + 1];
    struct errand *errand = memos_errand(engine, memo_name(queue, index, name), value);

    if (errand != NULL) {
        errand->op.is_patient = true;
        errand->queue = queue;
        errand->word = index;
        errand->then = memo_written;
    }
    (void)errand_start(engine, errand);
}

static struct span gone_value(const struct queue *queue, char text[MEMO_VALUE_ROOM])
{
    (void)snprintf(text, MEMO_VALUE_ROOM, queue->let_in == 0 ? MEMO_GONE : MEMO_GONE " %" PRIu64,
                   queue->let_in); /* fits */
    return span_of(text);
}

/* The attempt's target has answered 410. The queue may have been changed since the attempt began:
 * another target in the same place has not said anything. */
void targets_gone(struct engine *engine, const struct attempt *attempt)
{
    struct queue *queue = attempt->queue;
    int index = attempt->target_index;

    if (index < 0 || (size_t)index >= queue->settings.target_count ||
        !span_equal(queue->settings.targets[index].url, attempt->delivery.url) ||
        (queue->stopped >> index & 1) != 0) {
        return;
    }
    struct span name = queue->settings.targets[index].name;
    char value[MEMO_VALUE_ROOM];
    queue->stopped |= UINT32_C(1) << index;
    write_memo(engine, queue, (size_t)index, gone_value(queue, value));
    DARUMA_LOG(engine->options.log, DARUMA_LOG_WARN, "target_stopped",
               daruma_log_bytes("queue", queue->name.at, queue->name.len),
               daruma_log_bytes("target", name.at, name.len), daruma_log_int("status", 410));
}

void targets_back(struct engine *engine, struct queue *queue)
{
    for (size_t i = 0; i < queue->settings.target_count; i++) {
        if ((queue->stopped >> i & 1) != 0) {
            write_memo(engine, queue, i, SPAN(""));
        }
    }
    targets_let_in(queue);
}

void targets_let_in(struct queue *queue)
{
    queue->stopped = queue->stopped_kept = 0;
    queue->is_stop_doubted = false;
}

/* --- among nodes ----------------------------------------------------------------------------------- */

void targets_hear(struct queue *queue, uint64_t let_in)
{
    if (let_in != 0 && let_in != queue->let_in) {
        queue->let_in = let_in;
        targets_let_in(queue);
    }
}

static void one_cleared(struct engine *engine, struct errand *errand)
{
    struct errand *change = errand->change;

    if (errand->op.fault != 0) {
        change->op.error = errand->op.error;
    }
    errand_free(errand);
    if (--change->open == 0) {
        manage_cleared(engine, change);
    }
}

static void clear_one(struct engine *engine, struct errand *change, struct span name,
                      struct span value)
{
    struct errand *errand = memos_errand(engine, name, value);

    if (errand != NULL) {
        errand->change = change;
        errand->then = one_cleared;
    }
    if (errand_start(engine, errand)) {
        change->open++;
    } else {
        (void)fail(&change->op.error, FAULT_FULL, /* the reply carries it */
                   "too much waits for the store");
    }
}

/* All of them, whichever node has stopped them. True: manage_cleared is called when they are gone. */
bool targets_clear(struct engine *engine, const struct queue *queue, struct errand *change)
{
    char name[STORE_MEMO_NAME_MAX + 1], value[MEMO_VALUE_ROOM];

    change->open = 1; /* until all are started */
    change->let_in = (uint64_t)id_make(&engine->ids, engine_now_ms(engine)).row;
    (void)snprintf(name, sizeof name, STORE_MEMO_LET_IN "%.*s", SPAN_ARGS(queue->name)); /* fits */
    (void)snprintf(value, sizeof value, "%" PRIu64, change->let_in); /* likewise */
    clear_one(engine, change, span_of(name), span_of(value));
    for (size_t i = 0; i < queue->settings.target_count; i++) {
        clear_one(engine, change, memo_name(queue, i, name), SPAN(""));
    }
    return --change->open > 0;
}

/* A peer has changed the queue: perhaps it was told to let its targets in again, and gave no number. */
void targets_doubt(struct queue *queue)
{
    queue->is_stop_doubted = queue->stopped != 0;
}

bool targets_are_doubted(const struct engine *engine)
{
    for (size_t i = 0; i < engine->queue_count; i++) {
        if (engine->queues[i]->is_stop_doubted) {
            return true;
        }
    }
    return false;
}

static bool has_memo(const struct read *read, struct span name)
{
    for (size_t i = 0; i < read->memo_count; i++) {
        if (span_equal(read->memos[i].name, name)) {
            return true;
        }
    }
    return false;
}

/* One whose memo is not written yet was stopped a moment ago: that stands. */
void targets_look(struct engine *engine, const struct read *read)
{
    for (size_t at = 0; at < engine->queue_count; at++) {
        struct queue *queue = engine->queues[at];
        char name[STORE_MEMO_NAME_MAX + 1];
        for (size_t i = 0; queue->is_stop_doubted && i < queue->settings.target_count; i++) {
            uint32_t bit = UINT32_C(1) << i;
            if ((queue->stopped_kept & bit) != 0 && !has_memo(read, memo_name(queue, i, name))) {
                queue->stopped &= ~bit;
                queue->stopped_kept &= ~bit;
            }
        }
        queue->is_stop_doubted = false;
    }
}

/* Was it written by a node that did not know yet that the target was let in again? A copy of what another
 * store had brings memos and no number: they count. */
static bool is_late(const struct queue *queue, struct span value)
{
    struct span rest = value, word;
    int64_t let_in = 0;

    if (span_cut(&rest, ' ', &word)) {
        (void)span_to_int(rest, &let_in); /* we wrote it; else 0 stays */
    }
    return queue->let_in != 0 && (uint64_t)let_in != queue->let_in;
}

/* At start. What no longer has a queue or a target is of no interest any more. */
int targets_restore(struct engine *engine, struct span name, struct span value)
{
    struct span rest = name, prefix, queue_name;

    if (!span_cut(&rest, ':', &prefix) || !span_is(prefix, "stopped") ||
        !span_cut(&rest, ':', &queue_name)) {
        return 0;
    }
    struct queue *queue = engine_find_queue(engine, queue_name);
    if (queue == NULL || is_late(queue, value)) {
        return 0;
    }
    for (size_t i = 0; i < queue->settings.target_count; i++) {
        if (span_equal(queue->settings.targets[i].name, rest)) {
            queue->stopped |= UINT32_C(1) << i;
            queue->stopped_kept |= UINT32_C(1) << i;
        }
    }
    return 0;
}
